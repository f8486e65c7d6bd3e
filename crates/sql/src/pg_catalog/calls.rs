//! The functions that tools call together with the tables of `pg_catalog`.
//!
//! Arguments come as texts, whatever their types: tools write numbers of objects both as numbers and as texts.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder,
    TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result, SqlType, TimeUnit};
use rowmill_plan::{DynamicFunction, Volatility};

use super::call_list::FUNCTIONS;
use super::connection_signal::ConnectionSignal;
use super::format::Format;
use super::sleep::Sleep;
use crate::catalog::StatementContext;

/// The function `format`. Calls of one object are equal, as GROUP BY needs.
static FORMAT: LazyLock<Arc<Format>> = LazyLock::new(|| Arc::new(Format));

/// The type of an instant.
const INSTANT: SqlType = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: true };

/// The value of a call.
pub(super) enum CallValue {
    Text(Option<String>),
    Truth(Option<bool>),
    Number(Option<i64>),
    /// Microseconds since 1970-01-01 UTC.
    Instant(Option<i64>),
    Texts(Vec<String>),
}

/// The type of the values of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Text,
    Truth,
    Number,
    Instant,
    Texts,
}

impl CallKind {
    fn sql_type(self) -> SqlType {
        match self {
            CallKind::Text => SqlType::TEXT,
            CallKind::Truth => SqlType::Boolean,
            CallKind::Number => SqlType::Int64,
            CallKind::Instant => INSTANT,
            CallKind::Texts => SqlType::List(Box::new(SqlType::TEXT)),
        }
    }
}

/// Computes a function for the texts of its arguments.
pub(super) type Call = fn(&StatementContext, &[Option<&str>]) -> CallValue;

/// A function: its name, the least and the most arguments, the type of its values, and how it is computed.
pub(super) struct CatalogFunction {
    pub(super) name: &'static str,
    arguments: (usize, usize),
    kind: CallKind,
    call: Call,
}

pub(super) const fn text(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Text, call }
}

pub(super) const fn truth(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Truth, call }
}

pub(super) const fn number(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Number, call }
}

pub(super) const fn instant(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Instant, call }
}

pub(super) const fn texts(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Texts, call }
}

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is none of
/// these.
pub(super) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let takes = |function: &CatalogFunction| (function.arguments.0..=function.arguments.1).contains(&arguments);
    if (name, arguments) == ("pg_sleep", 1) {
        return Some((Arc::new(Sleep(Arc::clone(context))), SqlType::TEXT));
    }
    if let Some(signal) = ConnectionSignal::of(context, name, arguments) {
        return Some((Arc::new(signal), SqlType::Boolean));
    }
    if name == "format" && arguments > 0 {
        return Some((Arc::clone(&FORMAT) as Arc<dyn DynamicFunction>, SqlType::TEXT));
    }
    let function = FUNCTIONS.iter().find(|function| function.name == name && takes(function))?;
    Some((Arc::new(CatalogCall { function, context: Arc::clone(context) }), function.kind.sql_type()))
}

/// A call of one of the functions.
struct CatalogCall {
    function: &'static CatalogFunction,
    context: Arc<StatementContext>,
}

impl std::fmt::Debug for CatalogCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function.name)
    }
}

impl DynamicFunction for CatalogCall {
    fn name(&self) -> &str {
        self.function.name
    }

    fn volatility(&self) -> Volatility {
        // The snapshot of the statement gives the values.
        Volatility::Stable
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let texts = arguments.iter().map(|values| cast(values, &DataType::Utf8)).collect::<Result<Vec<_>, _>>();
        let texts = texts
            .map_err(|error| Error::new(ErrorKind::UndefinedFunction, format!("{}: {error}", self.function.name)))?;
        let values = (0..rows).map(|row| {
            let row: Vec<Option<&str>> =
                texts.iter().map(|texts| texts.is_valid(row).then(|| texts.as_string::<i32>().value(row))).collect();
            (self.function.call)(&self.context, &row)
        });
        Ok(match self.function.kind {
            CallKind::Truth => Arc::new(values.map(CallValue::truth).collect::<BooleanArray>()),
            CallKind::Number => Arc::new(values.map(CallValue::number).collect::<Int64Array>()),
            CallKind::Instant => {
                let instants = values.map(CallValue::instant).collect::<TimestampMicrosecondArray>();
                Arc::new(instants.with_data_type(INSTANT.arrow()))
            }
            CallKind::Text => Arc::new(values.map(CallValue::text).collect::<StringViewArray>()),
            CallKind::Texts => {
                let item = Field::new("item", DataType::Utf8View, true);
                let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(Arc::new(item));
                values.for_each(|value| lists.append_value(value.texts().iter().map(Some)));
                Arc::new(lists.finish())
            }
        })
    }
}

impl CallValue {
    fn text(self) -> Option<String> {
        if let CallValue::Text(text) = self { text } else { None }
    }

    fn texts(self) -> Vec<String> {
        if let CallValue::Texts(texts) = self { texts } else { Vec::new() }
    }

    fn truth(self) -> Option<bool> {
        if let CallValue::Truth(truth) = self { truth } else { None }
    }

    fn instant(self) -> Option<i64> {
        if let CallValue::Instant(instant) = self { instant } else { None }
    }

    fn number(self) -> Option<i64> {
        if let CallValue::Number(number) = self { number } else { None }
    }
}

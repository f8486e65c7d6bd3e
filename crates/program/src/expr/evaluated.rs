//! Expressions that are evaluated by the evaluator of batches, as a batch of one row.

use parking_lot::Mutex;
use rowmill_base::{Error, Result, SqlType};
use rowmill_expr::evaluator::Evaluator;
use rowmill_plan::{ScalarExpr, Volatility};
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use super::row_call::RowCall;
use super::{Env, Expr};
use crate::arrays::array_of;

/// An expression for batches, and the expressions of its columns.
#[derive(Debug)]
pub(crate) struct Evaluated {
    evaluator: Evaluator,
    operands: Box<[(Expr, SqlType)]>,
    kind: SqlType,
    /// The place of the text or the bytes that it makes.
    place: usize,
    /// The column that the value is assigned to.
    column: Option<String>,
    /// The same expression as a call that needs no arrays, if it is one.
    row_call: Option<RowCall>,
    /// A cache for an expression of a single text parameter: the last text and its value. For example, a timestamp that
    /// is passed as a text is then parsed once per statement and not once per row.
    last: Option<Mutex<(String, ValueRef<'static>)>>,
}

impl Evaluated {
    /// Compiles `expr` over operands of these types, as a value of type `kind`.
    pub(super) fn new(
        expr: &ScalarExpr,
        operands: Box<[(Expr, SqlType)]>,
        kind: &SqlType,
        place: usize,
    ) -> Result<Evaluated> {
        let evaluator = Evaluator::new(expr)?;
        if *evaluator.kind() != kind.arrow() || evaluator.columns().iter().any(|column| *column >= operands.len()) {
            return Err(Error::internal(format!("an expression of the program is not a {kind}")));
        }
        // Only a single text parameter is worth caching, and a volatile expression must not be cached.
        let is_repeated = matches!(&operands[..], [(Expr::Parameter(_), SqlType::Text { .. })])
            && expr.volatility() != Volatility::Volatile;
        let last = is_repeated.then(|| Mutex::new((String::new(), ValueRef::Null)));
        let row_call = RowCall::of(expr);
        Ok(Evaluated { evaluator, operands, kind: kind.clone(), place, column: None, row_call, last })
    }

    /// Compiles `expr` as a value that is assigned to `column`, which its errors then name.
    pub(super) fn assigned(
        expr: &ScalarExpr,
        operands: Box<[(Expr, SqlType)]>,
        kind: &SqlType,
        place: usize,
        column: &str,
    ) -> Result<Evaluated> {
        Ok(Evaluated { column: Some(column.to_owned()), ..Evaluated::new(expr, operands, kind, place)? })
    }

    /// Whether the value is better evaluated for all rows of a result at once. The value of a parameter that is a text
    /// is remembered instead.
    pub(crate) fn is_late(&self) -> bool {
        self.last.is_none() && self.column.is_none() && self.row_call.is_none()
    }

    /// Returns the evaluator, and the operands with their types.
    pub(crate) fn into_parts(self) -> (Evaluator, Box<[(Expr, SqlType)]>) {
        (self.evaluator, self.operands)
    }

    pub(super) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        if let Some(call) = &self.row_call
            && let Some(value) = call.value(&self.operands, env)?
        {
            return Ok(value);
        }
        let (Some(last), [(operand, _)]) = (&self.last, &self.operands[..]) else { return self.evaluated(env) };
        let ValueRef::Text(text) = operand.value(env)? else { return self.evaluated(env) };
        let mut last = last.lock();
        let (known, value) = &*last;
        if !value.is_null() && known == text {
            return Ok(*value);
        }
        let value = self.evaluated(env)?;
        // A text or bytes would need memory that outlives the row, so we do not cache those.
        if let Some(owned) = without_memory(value) {
            *last = (text.to_owned(), owned);
        }
        Ok(value)
    }

    fn evaluated<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        let columns = self.operands.iter().map(|(operand, kind)| array_of(kind, std::iter::once(operand.value(env)?)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let array = self.evaluator.evaluate(&columns, 1).map_err(|error| match &self.column {
            Some(column) => error.context(format!("column \"{column}\"")),
            None => error,
        })?;
        let values = ColumnValues::new(&array, &self.kind)?;
        Ok(match values.get(0) {
            ValueRef::Text(text) => ValueRef::Text(env.texts.make(self.place, |made| made.push_str(text))),
            ValueRef::Bytes(bytes) => ValueRef::Bytes(env.texts.keep(self.place, bytes)),
            value => without_memory(value).unwrap_or(ValueRef::Null),
        })
    }
}

/// A value that owns no memory, with an unbounded lifetime. Returns `None` for a text and for bytes.
fn without_memory(value: ValueRef<'_>) -> Option<ValueRef<'static>> {
    Some(match value {
        ValueRef::Null => ValueRef::Null,
        ValueRef::Bool(value) => ValueRef::Bool(value),
        ValueRef::Int(value) => ValueRef::Int(value),
        ValueRef::UInt(value) => ValueRef::UInt(value),
        ValueRef::Float(value) => ValueRef::Float(value),
        ValueRef::Decimal(value) => ValueRef::Decimal(value),
        ValueRef::Interval(value) => ValueRef::Interval(value),
        ValueRef::Text(_) | ValueRef::Bytes(_) => return None,
    })
}

//! `DEFAULT` expressions.
//!
//! The catalog keeps the text. Whatever needs no table is allowed: literals, arithmetic, `now()`, `uuid()`. An
//! expression that gives another value every time it is asked (`uuid()`, `random()`) is evaluated for every row, all
//! others once for a statement. Most defaults are literals, which need no planning at all.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use datafusion::arrow::compute::{concat, take};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_storage::ColumnDef;

use super::cell::Cell;
use super::clause::unsupported;
use super::sql_text;
use crate::assign::assign;
use crate::deep::with_room;
use crate::session::Work;
use crate::walk::has_query;

/// Checks that `expr` can be the default of `column`, and gives the text to keep.
pub(super) fn check(work: &Work<'_>, expr: &Expr, column: &str, kind: &SqlType) -> Result<String> {
    if work.statement.parameter_count() > 0 {
        return Err(unsupported("DEFAULT", "a parameter"));
    }
    if has_query(expr) {
        return Err(unsupported("DEFAULT", "a subquery").hint("a default can use literals, operators and functions"));
    }
    let text = expr.to_string();
    DefaultValue::of(work, &text, column, kind)
        .map_err(|error| error.context(format!("DEFAULT {text} of column \"{column}\"")))?;
    Ok(text)
}

/// The tree of a text of so many bytes takes little of the stack.
const SHORT_TEXT_BYTES: usize = 24;

/// The default of one column during one statement.
#[derive(Debug)]
pub(super) struct DefaultValue {
    column: String,
    kind: SqlType,
    value: Value,
}

#[derive(Debug)]
enum Value {
    /// One row: the same for all rows of the statement.
    Same(ArrayRef),
    /// The expression, asked again for every row.
    PerRow(String),
}

impl DefaultValue {
    /// NULL, the default of a column without one.
    pub(super) fn null(column: &str, kind: &SqlType) -> Self {
        let value = Value::Same(new_null_array(&kind.arrow(), 1));
        DefaultValue { column: column.into(), kind: kind.clone(), value }
    }

    /// The default whose text is `text`.
    pub(super) fn of(work: &Work<'_>, text: &str, column: &str, kind: &SqlType) -> Result<Self> {
        let value = match text.len() <= SHORT_TEXT_BYTES {
            true => DefaultValue::literal_or_computed(work, text, column, kind)?,
            // Its tree may be deep.
            false => {
                with_room(work.statement.room_bytes(), || DefaultValue::literal_or_computed(work, text, column, kind))?
            }
        };
        Ok(DefaultValue { column: column.into(), kind: kind.clone(), value })
    }

    fn literal_or_computed(work: &Work<'_>, text: &str, column: &str, kind: &SqlType) -> Result<Value> {
        let query = sql_text::query(&format!("SELECT {text}"), work.settings())?;
        match literal(&query, kind, column)? {
            Some(value) => Ok(Value::Same(value)),
            None => with_room(work.statement.room_bytes(), || evaluate(work, &query, text, kind, column)),
        }
    }

    /// Whether every row gets a value of its own.
    pub(super) fn is_volatile(&self) -> bool {
        matches!(self.value, Value::PerRow(_))
    }

    /// The value for `rows` rows.
    pub(super) fn rows(&self, work: &Work<'_>, rows: usize) -> Result<ArrayRef> {
        match &self.value {
            Value::Same(value) if rows == 1 => Ok(Arc::clone(value)),
            Value::Same(value) => take(value, &UInt32Array::from(vec![0; rows]), None)
                .map_err(|error| Error::internal(format!("one value is repeated: {error}"))),
            Value::PerRow(_) if rows == 0 => Ok(new_null_array(&self.kind.arrow(), 0)),
            Value::PerRow(text) => {
                let sql = format!("SELECT {text} FROM generate_series(1, {rows})");
                let values =
                    with_room(work.statement.room_bytes(), || run(work, &sql_text::query(&sql, work.settings())?))?;
                assign(&values, &self.kind, &self.column)
            }
        }
    }
}

/// The default of a column if it is written out, or NULL if there is none: the same whenever it is asked for.
pub(super) fn literal_default(work: &Work<'_>, column: &ColumnDef) -> Result<Option<ArrayRef>> {
    let Some(text) = &column.default else { return Ok(Some(new_null_array(&column.kind.arrow(), 1))) };
    let query = || sql_text::query(&format!("SELECT {text}"), work.settings());
    literal(&with_room(work.statement.room_bytes(), query)?, &column.kind, &column.name)
}

/// The value of a query that selects one literal.
fn literal(query: &Query, kind: &SqlType, column: &str) -> Result<Option<ArrayRef>> {
    let SetExpr::Select(select) = &*query.body else { return Ok(None) };
    let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else { return Ok(None) };
    match Cell::of(expr, kind) {
        Cell::Computed(_) | Cell::Default => Ok(None),
        cell => cell.value(kind, column).map(Some),
    }
}

/// Plans the query to see whether it is one expression without tables, and evaluates it once if it is stable.
fn evaluate(work: &Work<'_>, query: &Query, text: &str, kind: &SqlType, column: &str) -> Result<Value> {
    let plan = work.draft(work.engine().snapshot()?, query).bound()?;
    let LogicalPlan::Projection(projection) = &plan else { return Err(not_scalar(text)) };
    if !matches!(*projection.input, LogicalPlan::EmptyRelation(_)) || projection.expr.len() != 1 {
        return Err(not_scalar(text));
    }
    if projection.expr[0].is_volatile() {
        // Once here, so that a type or value that cannot be stored is found before there are rows.
        assign(&run(work, query)?, kind, column)?;
        return Ok(Value::PerRow(text.to_string()));
    }
    let value = assign(&run(work, query)?, kind, column)?;
    Ok(Value::Same(value))
}

fn not_scalar(text: &str) -> Error {
    Error::new(ErrorKind::InvalidDefinition, format!("{text} cannot be a default: it is not one value for one row"))
        .hint("a default can use literals, operators and functions")
}

/// The one column of a query.
fn run(work: &Work<'_>, query: &Query) -> Result<ArrayRef> {
    let mut parts: Vec<ArrayRef> = Vec::new();
    for batch in work.rows(work.engine().snapshot()?, query)? {
        parts.push(Arc::clone(batch?.column(0)));
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
    match parts.as_slice() {
        [] => Err(Error::internal("a default has a row for every row it is asked for")),
        parts => concat(parts).map_err(|error| Error::internal(format!("batches of one query go together: {error}"))),
    }
}

//! `DEFAULT` expressions.
//!
//! The catalog keeps their text. Every expression that reads no table is allowed: literals, arithmetic, `now()`,
//! `uuid()`. We evaluate a volatile expression (`uuid()`, `random()`) for every row, and any other once per statement.
//! Most defaults are literals, which need no planning.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::ScalarExpr;
use rowmill_query::syntax_walk::has_query;
use rowmill_storage::ColumnDef;
use sqlparser::ast::Expr;

use super::cell::LiteralCell;
use super::clause::unsupported;
use super::row_expr::RowExpr;
use super::sql_text;
use crate::assign::{assign, check_pair};
use crate::deep::with_room;
use crate::session::Work;

/// Checks that `expr` can be the default of `column`. Returns the text to keep.
pub(super) fn check(work: &Work<'_>, expr: &Expr, column: &str, kind: &SqlType) -> Result<String> {
    if work.statement.parameter_count() > 0 {
        return Err(unsupported("DEFAULT", "a parameter"));
    }
    if has_query(expr) {
        return Err(unsupported("DEFAULT", "a subquery").hint("a default can use literals, operators and functions"));
    }
    let text = expr.to_string();
    match literal_or_computed(work, expr, column, kind) {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == ErrorKind::Grouping => {
            let what = format!("{text} cannot be a default: {}", error.message());
            Err(Error::new(ErrorKind::InvalidDefinition, what)
                .hint("a default can use literals, operators and functions"))
        }
        Err(error) => Err(error.context(format!("DEFAULT {text} of column \"{column}\""))),
    }
}

/// A text of at most this length has a shallow tree, which needs no extra stack.
const SHORT_TEXT_BYTES: usize = 24;

/// The default of one column in one statement.
#[derive(Debug)]
pub(super) struct DefaultValue {
    column: String,
    kind: SqlType,
    value: ComputedDefault,
}

#[derive(Debug)]
enum ComputedDefault {
    /// One row: the value of all rows of the statement.
    Same(ArrayRef),
    /// The expression, evaluated again for every row.
    PerRow(Box<RowExpr>),
}

impl DefaultValue {
    /// Prepares the bound default `expr` of a column.
    pub(super) fn new(work: &Work<'_>, expr: &ScalarExpr, column: &ColumnDef) -> Result<Self> {
        let (name, kind) = (&column.name, &column.kind);
        let value = match expr.as_constant() {
            Some(value) => ComputedDefault::Same(assign(value.array(), kind, name)?),
            None => evaluate(RowExpr::new(work, expr.clone())?, kind, name)?,
        };
        Ok(DefaultValue { column: name.clone(), kind: kind.clone(), value })
    }

    /// Reads the default with the text `text`.
    pub(super) fn of(work: &Work<'_>, text: &str, column: &str, kind: &SqlType) -> Result<Self> {
        // Parsing and dropping the tree both need the stack, so both happen inside of `read`.
        let read = || literal_or_computed(work, &sql_text::expr(text, work.settings())?, column, kind);
        let value = match text.len() <= SHORT_TEXT_BYTES {
            true => read()?,
            // The tree of a long text may be deep.
            false => with_room(work.statement.room_bytes(), read)?,
        };
        Ok(DefaultValue { column: column.into(), kind: kind.clone(), value })
    }

    /// Whether the default gives every row its own value.
    pub(super) fn is_volatile(&self) -> bool {
        matches!(self.value, ComputedDefault::PerRow(_))
    }

    /// Returns the values for `rows` rows.
    pub(super) fn rows(&self, rows: usize) -> Result<ArrayRef> {
        match &self.value {
            ComputedDefault::Same(value) if rows == 1 => Ok(Arc::clone(value)),
            ComputedDefault::Same(value) => take(value, &UInt32Array::from(vec![0; rows]), None)
                .map_err(|error| Error::internal(format!("one value is repeated: {error}"))),
            ComputedDefault::PerRow(_) if rows == 0 => Ok(new_null_array(&self.kind.arrow(), 0)),
            ComputedDefault::PerRow(expr) => assign(&expr.values(&[], rows)?, &self.kind, &self.column),
        }
    }
}

/// Returns the default of a column, or NULL if it declares none.
pub(super) fn default_of(work: &Work<'_>, column: &ColumnDef) -> Result<DefaultValue> {
    let (name, kind) = (&column.name, &column.kind);
    match &column.default {
        Some(text) => DefaultValue::of(work, text, name, kind),
        None => {
            let value = ComputedDefault::Same(new_null_array(&kind.arrow(), 1));
            Ok(DefaultValue { column: name.clone(), kind: kind.clone(), value })
        }
    }
}

/// Returns the default of a column if it is a literal, or NULL if the column has none. Such a value never changes.
pub(super) fn literal_default(work: &Work<'_>, column: &ColumnDef) -> Result<Option<ArrayRef>> {
    let Some(text) = &column.default else { return Ok(Some(new_null_array(&column.kind.arrow(), 1))) };
    let expr = with_room(work.statement.room_bytes(), || sql_text::expr(text, work.settings()))?;
    literal(&expr, &column.kind, &column.name)
}

/// Returns the default of a column that is not a literal, as an expression.
pub(super) fn computed_default(work: &Work<'_>, column: &ColumnDef) -> Result<Expr> {
    let text = column.default.as_deref().unwrap_or("NULL");
    with_room(work.statement.room_bytes(), || sql_text::expr(text, work.settings()))
}

/// Returns the value of an expression if it is a literal.
fn literal(expr: &Expr, kind: &SqlType, column: &str) -> Result<Option<ArrayRef>> {
    match LiteralCell::of(expr, kind) {
        LiteralCell::Computed(_) | LiteralCell::Default => Ok(None),
        cell => cell.value(kind, column).map(Some),
    }
}

fn literal_or_computed(work: &Work<'_>, expr: &Expr, column: &str, kind: &SqlType) -> Result<ComputedDefault> {
    match literal(expr, kind, column)? {
        Some(value) => Ok(ComputedDefault::Same(value)),
        // A default reads no table, so the last commit serves as well as the transaction's view.
        None => evaluate(RowExpr::bind(work, work.engine().snapshot()?, expr, None, None, "DEFAULT")?, kind, column),
    }
}

/// Evaluates an expression once. A volatile one is kept, so that it can be evaluated for every row.
fn evaluate(bound: RowExpr, kind: &SqlType, column: &str) -> Result<ComputedDefault> {
    if bound.is_volatile() {
        // Only the type is checked now: an evaluation could take a number from a sequence, which a row should get.
        check_pair(bound.kind(), kind, column)?;
        return Ok(ComputedDefault::PerRow(Box::new(bound)));
    }
    Ok(ComputedDefault::Same(assign(&bound.values(&[], 1)?, kind, column)?))
}

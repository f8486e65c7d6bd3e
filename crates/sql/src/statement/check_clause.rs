//! `CHECK` constraints: conditions that every row of a table must meet.
//!
//! The catalog keeps their text. We evaluate all conditions of a table, in order, over the rows that are about to be
//! written. As everywhere in SQL, a row meets a condition that is unknown.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::text::writer::format_value;
use rowmill_plan::write::WriteCheck;
use rowmill_query::syntax_walk::has_query;
use rowmill_storage::TableDef;
use rowmill_txn::Transaction;
use sqlparser::ast::Expr;

use super::clause::unsupported;
use super::row_expr::{RowExpr, evaluator};
use crate::session::Work;

/// The most characters of a refused row that its error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Checks that `condition` can be a constraint of `table`. Returns the text to keep.
pub(super) fn check(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    condition: &Expr,
) -> Result<String> {
    if work.statement.parameter_count() > 0 {
        return Err(unsupported("CHECK", "a parameter"));
    }
    if has_query(condition) {
        return Err(unsupported("CHECK", "a subquery").hint("a condition can use the columns of its row"));
    }
    let text = condition.to_string();
    let bound = RowExpr::bind(work, transaction.view()?, condition, None, Some(table), "CHECK")
        .map_err(|error| error.context(format!("CHECK ({text})")))?;
    if !matches!(bound.kind(), DataType::Boolean | DataType::Null) {
        let kind = SqlType::from_arrow(bound.kind()).map_or_else(|| bound.kind().to_string(), |kind| kind.to_string());
        let what = format!("CHECK ({text}) is of type {kind}, not a condition");
        return Err(Error::new(ErrorKind::DatatypeMismatch, what));
    }
    // A row that meets the condition today must meet it tomorrow.
    if bound.is_volatile() {
        return Err(unsupported("CHECK", "a function that gives another value at another time"));
    }
    Ok(text)
}

/// The conditions that the rows of a statement must meet, ready to be evaluated.
#[derive(Debug, Default)]
pub(super) struct RowChecks(Vec<(WriteCheck, Evaluator)>);

impl RowChecks {
    pub(super) fn new(work: &Work<'_>, checks: &[WriteCheck]) -> Result<RowChecks> {
        let check = |check: &WriteCheck| Ok((check.clone(), evaluator(work, &check.condition)?));
        checks.iter().map(check).collect::<Result<_>>().map(RowChecks)
    }

    /// Returns `CheckViolation` if a row of `rows`, which has the columns of `table`, fails one of the conditions.
    pub(super) fn verify(&self, table: &TableDef, rows: &RecordBatch) -> Result<()> {
        for (check, condition) in &self.0 {
            let met = condition.evaluate(rows.columns(), rows.num_rows())?;
            let met = met.as_boolean();
            // An unknown condition counts as met, so only a valid `false` refuses the row.
            if let Some(refused) = (0..rows.num_rows()).find(|row| met.is_valid(*row) && !met.value(*row)) {
                return Err(violation(table, check, rows, refused));
            }
        }
        Ok(())
    }
}

fn violation(table: &TableDef, check: &WriteCheck, rows: &RecordBatch, row: usize) -> Error {
    let WriteCheck { name, sql, condition: _ } = check;
    let value = |values: &ArrayRef| format_value(values, row).ok().flatten().unwrap_or_else(|| "NULL".into());
    let values = rows.columns().iter().map(value).collect::<Vec<String>>().join(", ");
    let mut shown: String = values.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < values.len() {
        shown.push_str("...");
    }
    let what = format!("a row of table \"{}\" does not meet its constraint \"{name}\": ({shown})", table.name);
    Error::new(ErrorKind::CheckViolation, what).hint(format!("it must meet {sql}")).breaks(&table.name, name)
}

//! `CHECK` constraints: conditions that every row of a table has to meet.
//!
//! The catalog keeps the text. Rows that are about to be written are asked all conditions of their table in one query, over the
//! rows as a table of their own under the table's name:
//!
//! ```text
//! SELECT CASE WHEN NOT (price > 0) THEN 0 WHEN NOT (a < b) THEN 1 END AS failed, * FROM new rows AS t
//! WHERE NOT (price > 0) OR NOT (a < b) LIMIT 1
//! ```
//!
//! As everywhere in SQL a condition that is unknown is met.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::{CheckDef, TableDef};
use rowmill_txn::Transaction;

use super::clause::unsupported;
use super::new_rows;
use super::sql_text;
use crate::deep::with_room;
use crate::names::{Spellings, lower};
use crate::query::Draft;
use crate::session::Work;
use crate::text_format::format_value;
use crate::walk::has_query;

/// Values of a refused row that its error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Checks that `condition` can be a constraint of `table`, and gives the text to keep.
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
    let failed = |error: Error| error.context(format!("CHECK ({text})"));
    let nothing = RecordBatch::new_empty(table.arrow_schema());
    let sql = format!("SELECT ({text}) AS met FROM t AS t");
    let plan = with_room(work.statement.room_bytes(), || draft(work, transaction, table, &nothing, &sql)?.bound());
    let plan = plan.map_err(failed)?;
    if !matches!(plan.schema().field(0).data_type(), DataType::Boolean | DataType::Null) {
        let what = format!("CHECK ({text}) is of type {}, not a condition", plan.schema().field(0).data_type());
        return Err(Error::new(ErrorKind::DatatypeMismatch, what));
    }
    if let LogicalPlan::Projection(projection) = &plan
        && projection.expr.iter().any(datafusion::logical_expr::Expr::is_volatile)
    {
        return Err(unsupported("CHECK", "a function that gives another value at another time"));
    }
    Ok(text)
}

/// `CheckViolation` if a row of `rows`, which has the columns of `table`, does not meet one of its conditions.
pub(super) fn verify(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    rows: &RecordBatch,
) -> Result<()> {
    let Some(checks) = table.keyed.as_ref().map(|keyed| &keyed.checks).filter(|checks| !checks.is_empty()) else {
        return Ok(());
    };
    let sql = refused_rows(checks);
    let refused = with_room(work.statement.room_bytes(), || draft(work, transaction, table, rows, &sql)?.ready())?;
    for batch in refused.start(None, work.started) {
        let batch = batch?;
        if batch.num_rows() > 0 {
            return Err(violation(table, checks, &batch));
        }
    }
    Ok(())
}

fn refused_rows(checks: &[CheckDef]) -> String {
    let arms = checks.iter().enumerate().map(|(number, check)| format!("WHEN NOT ({}) THEN {number}", check.sql));
    let conditions = checks.iter().map(|check| format!("NOT ({})", check.sql));
    format!(
        "SELECT CAST(CASE {} END AS BIGINT) AS failed, * FROM t AS t WHERE {} LIMIT 1",
        arms.collect::<Vec<_>>().join(" "),
        conditions.collect::<Vec<_>>().join(" OR ")
    )
}

fn violation(table: &TableDef, checks: &[CheckDef], refused: &RecordBatch) -> Error {
    let number = refused.column(0).as_primitive_opt::<Int64Type>().map_or(0, |numbers| numbers.value(0)) as usize;
    let CheckDef { name, sql } = &checks[number.min(checks.len() - 1)];
    let value = |values: &ArrayRef| format_value(values, 0).ok().flatten().unwrap_or_else(|| "NULL".into());
    let values = refused.columns()[1..].iter().map(value).collect::<Vec<String>>().join(", ");
    let mut shown: String = values.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < values.len() {
        shown.push_str("...");
    }
    let what = format!("a row of table \"{}\" does not meet its constraint \"{name}\": ({shown})", table.name);
    Error::new(ErrorKind::CheckViolation, what).hint(format!("it has to meet {sql}"))
}

/// `sql`, a query of `t AS t`, over `rows` in the place of `table`.
fn draft(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    rows: &RecordBatch,
    sql: &str,
) -> Result<Draft> {
    let query = sql_text::query(sql, work.settings())?;
    let alias = Ident::with_quote('"', lower(&table.name));
    new_rows::draft(work, transaction, table, rows, query, alias, Spellings::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_are_asked_in_one_query() {
        let check = |name: &str, sql: &str| CheckDef { name: name.into(), sql: sql.into() };
        assert_eq!(
            refused_rows(&[check("a", "x > 0"), check("b", "y < x")]),
            "SELECT CAST(CASE WHEN NOT (x > 0) THEN 0 WHEN NOT (y < x) THEN 1 END AS BIGINT) AS failed, * FROM t AS t \
             WHERE NOT (x > 0) OR NOT (y < x) LIMIT 1"
        );
    }
}

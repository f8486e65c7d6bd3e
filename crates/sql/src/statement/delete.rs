//! `DELETE`: the numbers of the rows that `WHERE` selects go into the delete vectors of their blocks; rows of a keyed table are
//! removed by their keys.

use datafusion::sql::sqlparser::ast::{Delete, FromTable, TableWithJoins};
use rowmill_base::Result;

use super::clause::{refuse, unsupported};
use super::keyed_change;
use super::relation;
use super::row_query::{Target, numbered};
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "DELETE";

pub(crate) fn run(work: &mut Work<'_>, delete: &Delete) -> Result<Outcome> {
    let (target, others) = target(work, delete)?;
    let rows = work.write(|work, transaction| {
        let view = transaction.view()?;
        let table = relation::table(view.catalog(), &target.name)?;
        let query = target.query(work, [], others, delete.selection.as_ref())?;
        if table.keyed.is_some() {
            return keyed_change::delete(transaction, &table, work.rows(view, &query)?);
        }
        let mut rows = 0;
        for batch in work.rows(view, &query)? {
            work.cancel.check()?;
            // With USING a row can come more than once; it counts when it goes.
            rows += transaction.delete(table.id, numbered(&batch?).0)?;
        }
        Ok(rows)
    })?;
    Ok(Outcome::Changed { tag: STATEMENT, rows })
}

/// Takes the syntax tree apart and refuses what is not executed: the table, and the others of `USING`.
pub(super) fn target<'a>(work: &Work<'_>, delete: &'a Delete) -> Result<(Target, &'a [TableWithJoins])> {
    let Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from,
        using,
        selection: _,
        returning,
        output,
        order_by,
        limit,
    } = delete;
    let clauses = [
        (!optimizer_hints.is_empty(), "an optimizer hint"),
        (!tables.is_empty(), "several tables"),
        (returning.is_some(), "RETURNING"),
        (output.is_some(), "OUTPUT"),
        (!order_by.is_empty(), "ORDER BY"),
        (limit.is_some(), "LIMIT"),
    ];
    refuse(STATEMENT, clauses)?;
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    let [table] = from.as_slice() else { return Err(unsupported(STATEMENT, "several tables")) };
    Ok((Target::of(work, STATEMENT, table)?, using.as_deref().unwrap_or_default()))
}

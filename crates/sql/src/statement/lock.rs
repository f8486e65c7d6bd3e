//! `SELECT ... FOR UPDATE` and `FOR SHARE`.
//!
//! No transaction waits for another. We record the rows that are returned, and the commit fails if another transaction
//! has written one of them by then. Outside of a transaction nothing is recorded.

use arrow::array::Array;
use rowmill_base::{Error, Result};
use sqlparser::ast::{Query, SelectItem, SetExpr};

use super::clause::unsupported;
use super::keyed_change::as_keys;
use super::relation;
use super::row_query::ChangedTable;
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "FOR UPDATE and FOR SHARE";

pub(crate) fn run(work: &mut Work<'_>, query: &Query) -> Result<Outcome> {
    let view = work.view()?;
    let SetExpr::Select(select) = &*query.body else { return Err(Error::internal("only a SELECT locks rows")) };
    let [from] = select.from.as_slice() else { return Err(Error::internal("rows of one table are locked")) };
    let target = ChangedTable::of(work, STATEMENT, from)?;
    if relation::table(view.catalog(), &target.name)?.keyed.is_none() {
        return Err(unsupported(STATEMENT, "a table without a primary key")
            .hint("with ISOLATION LEVEL SERIALIZABLE the commit fails if rows that were read have changed"));
    }
    // The recorded keys come from a second run of the query, with the key as one more column.
    if work.session.in_transaction() {
        // The user's result must not show the key column, so we change a copy.
        let mut keyed = query.clone();
        let SetExpr::Select(select) = &mut *keyed.body else { return Err(Error::internal("it was a SELECT")) };
        select.from = vec![target.twin()];
        select.projection.push(SelectItem::UnnamedExpr(target.row_number()));
        for batch in work.rows(view.clone(), &keyed)? {
            let batch = batch?;
            let keys = batch.columns().last().ok_or_else(|| Error::internal("the last column has the keys"))?;
            let keys = as_keys(keys)?;
            let open = work.open_transaction(STATEMENT)?;
            (0..keys.len()).for_each(|row| open.transaction.validate_read(keys.value(row)));
        }
    }
    let ready = work.ready_whole(view, query)?;
    Ok(Outcome::Rows(ready.start(work.progress().cloned(), work.started)))
}

//! `SELECT ... FOR UPDATE` and `FOR SHARE`.
//!
//! We record the rows that are returned, and the commit fails if another transaction has written one of them by then. A
//! transaction that waits for rows claims them, too, so that others like it wait. Outside of a transaction nothing is
//! recorded.

use arrow::array::Array;
use rowmill_base::{Error, Result};
use sqlparser::ast::{Query, SetExpr};

use super::clause::unsupported;
use super::relation;
use super::target_table::TargetTable;
use super::write::binder::WriteBinder;
use super::write::keys::as_keys;
use crate::outcome::Outcome;
use crate::query::kinds_of;
use crate::session::Work;

const STATEMENT: &str = "FOR UPDATE and FOR SHARE";

pub(crate) fn run(work: &mut Work<'_>, query: &Query) -> Result<Outcome> {
    let view = work.view()?;
    let SetExpr::Select(select) = &*query.body else { return Err(Error::internal("only a SELECT locks rows")) };
    let [from] = select.from.as_slice() else { return Err(Error::internal("rows of one table are locked")) };
    let target = TargetTable::of(work, STATEMENT, from)?;
    if relation::table(view.catalog(), &target.name)?.keyed.is_none() {
        return Err(unsupported(STATEMENT, "a table without a primary key")
            .hint("with ISOLATION LEVEL SERIALIZABLE the commit fails if rows that were read have changed"));
    }
    // The recorded keys come from a second run of the query, with the key as one more column.
    if work.session.in_transaction() {
        let kinds = kinds_of(work.params);
        let mut keyed = work.with_planning_room(|| WriteBinder::new(work, &view, &kinds).query(query))?;
        if !keyed.add_row_key() {
            return Err(unsupported(STATEMENT, "a query whose rows are not those of its table"));
        }
        for batch in work.rows_of(view.clone(), keyed)? {
            let batch = batch?;
            let keys = batch.columns().last().ok_or_else(|| Error::internal("the last column has the keys"))?;
            let keys = as_keys(keys)?;
            let transaction = work.open_transaction(STATEMENT)?.settled()?;
            (0..keys.len()).for_each(|row| transaction.validate_read(keys.value(row)));
        }
        work.keep_locked_rows()?;
    }
    let ready = work.ready_whole(view, query)?;
    Ok(Outcome::Rows(ready.start(work.progress().cloned(), work.started)))
}

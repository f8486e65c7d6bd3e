//! Makes the tables of a schema and fills them with drawn rows, in either engine.

use rowmill_base::Result;

use crate::tpcc::client::{Engine, RowFn};
use crate::tpcc::table::Table;

/// Passes the rows of one number to a function: of a user, of an order.
pub(super) type RowsOf<'r> = dyn Fn(i64, &mut RowFn<'_>) -> Result<()> + 'r;

/// Makes tables. In their types, each first name is replaced by the second one. `under_key` is the table option with
/// which the engine stores rows under a key that is not a number.
pub(super) fn make_tables(
    engine: &impl Engine,
    tables: &[&Table],
    types: &[(&str, &str)],
    under_key: &str,
) -> Result<()> {
    for table in tables {
        let options = if table.has_number_key() { "" } else { under_key };
        let create = types.iter().fold(table.create(), |create, &(from, to)| create.replace(from, to));
        engine.execute(&format!("{create}{options}"))?;
    }
    Ok(())
}

/// Fills a table with the rows of the numbers from 1 to `last`, and calls `progress` with 1 for each number.
pub(super) fn fill_table(
    engine: &impl Engine,
    table: &Table,
    last: i64,
    rows: &RowsOf<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    engine.fill(table, |into| {
        (1..=last).try_for_each(|id| {
            progress(1);
            rows(id, into)
        })
    })
}

//! `VACUUM`, `BACKUP DATABASE` and `RESTORE DATABASE`, which run while other statements go on.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_storage::TableSource;
use rowmill_txn::Vacuumed;

use super::clause::unsupported;
use super::{analyze, relation};
use crate::names::qualified;
use crate::outcome::{Outcome, RowStream, nullable_batch};
use crate::parse::VacuumStatement;
use crate::session::Work;

/// Runs `VACUUM [ANALYZE] [table, ...]`. Without a table, it gives back the free space of the database, and shows the
/// bytes on disk before and after, and the bytes that are kept for readers of older states. With tables, it rewrites
/// their blocks that are small or have many deleted rows, as the background does after a while.
pub(crate) fn vacuum(work: &mut Work<'_>, vacuum: &VacuumStatement) -> Result<Outcome> {
    let (mut analyzes, mut is_verbose) = (false, false);
    for option in &vacuum.options {
        match option.as_str() {
            "analyze" | "analyse" => analyzes = true,
            "verbose" => is_verbose = true,
            // VACUUM always makes the files shorter.
            "full" => {}
            other => {
                let what = format!("the option {}", other.to_uppercase());
                return Err(unsupported("VACUUM", &what).hint("its options are FULL, VERBOSE and ANALYZE"));
            }
        }
    }
    if !analyzes && vacuum.tables.iter().any(|table| !table.columns.is_empty()) {
        let error = Error::new(ErrorKind::Syntax, "VACUUM: columns can only be given with ANALYZE");
        return Err(error.hint("VACUUM ANALYZE t (a, b) reads the columns a and b"));
    }
    outside(work, "VACUUM")?;
    if vacuum.tables.is_empty() {
        let done = work.engine().vacuum(&work.cancel)?;
        if analyzes {
            analyze::all(work)?;
        }
        let Vacuumed { bytes_before, bytes_after, bytes_held } = done;
        return numbers([("bytes_before", bytes_before), ("bytes_after", bytes_after), ("bytes_held", bytes_held)]);
    }
    for table in &vacuum.tables {
        let name = qualified(&table.name, work.statement.spellings())?;
        let id = relation::table(work.engine().snapshot()?.catalog(), &name)?.id;
        let before = shape_of(work, id)?;
        work.engine().merge_table(id, &work.cancel)?;
        if is_verbose {
            let after = shape_of(work, id)?;
            work.notice(format!("table \"{}\": {before} before, {after} after", name.spelled));
        }
        if analyzes {
            analyze::table(work, &name, &table.columns)?;
        }
    }
    Ok(Outcome::Done { tag: "VACUUM" })
}

/// How a table is stored, for VERBOSE.
fn shape_of(work: &Work<'_>, id: TableId) -> Result<String> {
    let Some(table) = work.engine().snapshot()?.table(id) else { return Ok("dropped".to_owned()) };
    if table.keyed().is_some() {
        return Ok("rows by key".to_owned());
    }
    let (blocks, deleted) = (table.blocks().len(), table.deleted_rows());
    Ok(format!("{blocks} blocks with {deleted} deleted rows"))
}

/// Runs `BACKUP DATABASE TO 'folder'`: copies the last commit while others go on.
pub(crate) fn backup(work: &Work<'_>, to: &str) -> Result<Outcome> {
    outside(work, "BACKUP DATABASE")?;
    let done = work.engine().backup(Path::new(to), &work.cancel)?;
    numbers([("commit", done.commit.0), ("files", done.files), ("bytes", done.bytes)])
}

/// Runs `RESTORE DATABASE FROM 'folder' TO 'folder'`: makes a database of a backup after verifying all of it.
pub(crate) fn restore(work: &Work<'_>, from: &str, to: &str) -> Result<Outcome> {
    // RESTORE makes a new database elsewhere and does not touch the open one.
    let done = rowmill_txn::restore(Path::new(from), Path::new(to), &work.cancel)?;
    numbers([("commit", done.commit.0), ("files", done.files), ("bytes", done.bytes)])
}

/// Refuses a statement inside of a transaction, because it works on the committed state.
fn outside(work: &Work<'_>, statement: &str) -> Result<()> {
    if work.session.in_transaction() {
        let what = format!("{statement} cannot run inside a transaction");
        return Err(Error::new(ErrorKind::ActiveTransaction, what).hint("end it with COMMIT or ROLLBACK"));
    }
    Ok(())
}

fn numbers<const N: usize>(columns: [(&'static str, u64); N]) -> Result<Outcome> {
    let column = |(name, number): (&'static str, u64)| {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![number as i64]));
        (name, values)
    };
    nullable_batch(columns.map(column)).map(|batch| Outcome::Rows(RowStream::ready(batch)))
}

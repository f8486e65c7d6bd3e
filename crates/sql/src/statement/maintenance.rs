//! `VACUUM`, `BACKUP DATABASE` and `RESTORE DATABASE`, which run while other statements go on.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::VacuumStatement;

use super::clause::{refuse, unsupported};
use crate::outcome::{Outcome, RowStream, nullable_batch};
use crate::session::Work;

/// Runs `VACUUM`. Shows the bytes on disk before and after, and the bytes that are kept for readers of older states.
pub(crate) fn vacuum(work: &Work<'_>, vacuum: &VacuumStatement) -> Result<Outcome> {
    let VacuumStatement { full: _, sort_only, delete_only, reindex, recluster, table_name, threshold, boost } = vacuum;
    let clauses = [
        (*sort_only || *delete_only, "SORT ONLY or DELETE ONLY"),
        (*reindex || *recluster || *boost, "REINDEX, RECLUSTER or BOOST"),
        (threshold.is_some(), "a threshold"),
    ];
    refuse("VACUUM", clauses)?;
    if table_name.is_some() {
        return Err(unsupported("VACUUM", "a single table").hint("VACUUM without a name cleans up the whole database"));
    }
    outside(work, "VACUUM")?;
    let done = work.engine().vacuum(&work.cancel)?;
    numbers([("bytes_before", done.bytes_before), ("bytes_after", done.bytes_after), ("bytes_held", done.bytes_held)])
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

//! `VACUUM`, `BACKUP DATABASE` and `RESTORE DATABASE`, while others go on.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::VacuumStatement;

use super::clause::{refuse, unsupported};
use crate::outcome::{Outcome, RowStream, nullable_batch};
use crate::session::Work;

/// `VACUUM`: what the database has on disk before and after, and what is kept for whoever reads an older state.
pub(crate) fn vacuum(work: &Work<'_>, vacuum: &VacuumStatement) -> Result<Outcome> {
    let VacuumStatement { full: _, sort_only, delete_only, reindex, recluster, table_name, threshold, boost } = vacuum;
    let clauses = [
        (*sort_only || *delete_only, "SORT ONLY or DELETE ONLY"),
        (*reindex || *recluster || *boost, "REINDEX, RECLUSTER or BOOST"),
        (threshold.is_some(), "a threshold"),
    ];
    refuse("VACUUM", clauses)?;
    if table_name.is_some() {
        return Err(unsupported("VACUUM", "a single table").hint("VACUUM without a name is of the whole database"));
    }
    outside(work, "VACUUM")?;
    let done = work.engine().vacuum(&work.cancel)?;
    numbers([("bytes_before", done.bytes_before), ("bytes_after", done.bytes_after), ("bytes_held", done.bytes_held)])
}

/// `BACKUP DATABASE TO 'folder'`: the last commit, copied while others go on.
pub(crate) fn backup(work: &Work<'_>, to: &str) -> Result<Outcome> {
    outside(work, "BACKUP DATABASE")?;
    let done = work.engine().backup(Path::new(to), &work.cancel)?;
    numbers([("commit", done.commit.0), ("files", done.files), ("bytes", done.bytes)])
}

/// `RESTORE DATABASE FROM 'folder' TO 'folder'`: makes a database of a backup, once all of it is verified.
pub(crate) fn restore(work: &Work<'_>, from: &str, to: &str) -> Result<Outcome> {
    let done = rowmill_txn::restore(Path::new(from), Path::new(to), &work.cancel)?;
    numbers([("commit", done.commit.0), ("files", done.files), ("bytes", done.bytes)])
}

/// It works on what is committed.
fn outside(work: &Work<'_>, statement: &str) -> Result<()> {
    if work.session.in_transaction() {
        let what = format!("{statement} is not part of a transaction");
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

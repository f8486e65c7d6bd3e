//! Settings that no user would choose and under which every answer has to stay the same.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill_base::{Cancel, TableId};
use rowmill_exec::scan::{ScanRequest, TableScan};
use rowmill_storage::TableSource;
use rowmill_txn::Engine;

/// One combination.
#[derive(Clone, Debug)]
pub(crate) struct Hostility {
    pub(crate) rows_per_block: usize,
    pub(crate) threads: usize,
    /// One in seven rows that are stored is deleted.
    pub(crate) deleted_rows: bool,
    /// Older snapshots are held open.
    pub(crate) old_snapshots: bool,
    /// Everything happens in one transaction that never commits.
    pub(crate) in_transaction: bool,
    /// The database is a directory that is closed and opened after every statement.
    pub(crate) reopen: bool,
}

impl fmt::Display for Hostility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocks of {} rows, {} threads", self.rows_per_block, self.threads)?;
        let switches = [
            (self.deleted_rows, "deleted rows"),
            (self.old_snapshots, "old snapshots"),
            (self.in_transaction, "one transaction"),
            (self.reopen, "reopened"),
        ];
        switches.iter().filter(|(on, _)| *on).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

/// The settings that users have.
pub(crate) fn plain() -> Hostility {
    Hostility {
        rows_per_block: 1 << 19,
        threads: 2,
        deleted_rows: false,
        old_snapshots: false,
        in_transaction: false,
        reopen: false,
    }
}

/// A selection in memory, or all combinations if `ROWMILL_LONG` is set.
pub(crate) fn selection() -> Vec<Hostility> {
    let of = |rows_per_block, threads, deleted_rows, old_snapshots, in_transaction, reopen| Hostility {
        rows_per_block,
        threads,
        deleted_rows,
        old_snapshots,
        in_transaction,
        reopen,
    };
    if std::env::var_os("ROWMILL_LONG").is_none() {
        return vec![
            of(3, 1, true, true, false, false),
            of(512, 4, false, true, true, false),
            of(1 << 19, 4, true, false, false, false),
        ];
    }
    let mut all = Vec::new();
    for rows_per_block in [3, 512, 1 << 19] {
        for threads in [1, 4] {
            for bits in 0..16 {
                let (in_transaction, reopen) = (bits & 4 != 0, bits & 8 != 0);
                if !(in_transaction && (reopen || bits & 1 != 0)) {
                    all.push(of(rows_per_block, threads, bits & 1 != 0, bits & 2 != 0, in_transaction, reopen));
                }
            }
        }
    }
    all
}

impl Hostility {
    /// Whether a file says things that make no sense under these settings.
    pub(crate) fn passes_over(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        let says = |words: &[&str]| {
            lower.lines().any(|line| words.iter().any(|word| line == *word || line.starts_with(&format!("{word} "))))
        };
        let transactions =
            says(&["begin", "commit", "rollback", "start transaction", "savepoint", "checkpoint", "begin;"]);
        // What storage looks like is what these settings change.
        let storage = lower.contains("rowmill_storage") || lower.contains("explain");
        let settings = says(&["set", "reset", "show"]);
        (transactions && self.in_transaction)
            || (storage && self.rows_per_block < 1 << 19)
            || (storage && (self.deleted_rows || self.in_transaction))
            || (settings && (self.reopen || self.threads != 2 || self.rows_per_block < 1 << 19))
    }

    /// Stores copies of rows, as many as make one in seven, and deletes them again.
    pub(crate) fn scatter_deleted_rows(&self, engine: &Arc<Engine>) -> Result<()> {
        let before = engine.snapshot()?;
        let mut copies = engine.begin()?;
        let mut known: HashMap<TableId, Vec<u64>> = HashMap::new();
        for def in before.catalog().all_tables() {
            let table = before.table(def.id).expect("the catalog names tables that exist");
            let mut numbers = Vec::new();
            for batch in rows(&table)? {
                let values = batch.num_columns() - 1;
                numbers.extend(row_numbers(&batch));
                let copied = batch.num_rows().div_ceil(6);
                let own = batch.project(&(0..values).collect::<Vec<_>>()).expect("columns of the batch");
                let own = RecordBatch::try_new(def.arrow_schema(), own.slice(0, copied).columns().to_vec());
                copies.insert(def.id, &own.expect("rows of the table"))?;
            }
            known.insert(def.id, numbers);
        }
        copies.commit()?;
        let after = engine.snapshot()?;
        let mut deletes = engine.begin()?;
        for (id, numbers) in known {
            for batch in rows(&after.table(id).expect("nothing was dropped"))? {
                let new: Vec<u64> = row_numbers(&batch).into_iter().filter(|row| !numbers.contains(row)).collect();
                deletes.delete(id, &new)?;
            }
        }
        deletes.commit().map(drop)
    }
}

/// All rows of a table, each with its number as the last column.
fn rows(table: &Arc<rowmill_txn::TableSnapshot>) -> Result<Vec<RecordBatch>> {
    let request = ScanRequest {
        columns: (0..table.table().columns.len()).collect(),
        predicates: Vec::new(),
        limit: None,
        batch_rows: 1 << 16,
        row_numbers: true,
        cancel: Cancel::new(),
    };
    TableScan::new(Arc::clone(table) as Arc<dyn TableSource>, request)?.cursor().collect()
}

fn row_numbers(batch: &RecordBatch) -> Vec<u64> {
    use rowmill::arrow::array::AsArray;
    use rowmill::arrow::datatypes::UInt64Type;
    batch.column(batch.num_columns() - 1).as_primitive::<UInt64Type>().values().to_vec()
}

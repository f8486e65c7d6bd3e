//! Settings that no user would choose. Every answer must stay the same under them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill_base::{Cancel, TableId};
use rowmill_exec::scan::{ScanRequest, TableScan};
use rowmill_storage::TableSource;
use rowmill_txn::Engine;

/// The highest value of the setting `rows_per_block`, and its default.
const ROWS_PER_BLOCK_MAX: usize = 1 << 19;

/// One combination of settings.
#[derive(Clone, Debug)]
pub(crate) struct Hostility {
    pub(crate) rows_per_block: usize,
    pub(crate) threads: usize,
    /// Whether batches between operators have only three rows.
    pub(crate) small_batches: bool,
    /// Whether we delete one in seven of the stored rows.
    pub(crate) deleted_rows: bool,
    /// Whether we hold older snapshots open.
    pub(crate) old_snapshots: bool,
    /// Whether everything runs in one transaction that never commits.
    pub(crate) in_transaction: bool,
    /// Whether the database is a directory that we close and open again after every statement.
    pub(crate) reopen: bool,
    /// Whether statements are prepared, so that they run as programs where possible.
    pub(crate) prepared: bool,
    /// Whether a query that reads all rows of a keyed table waits until the table has a column copy.
    pub(crate) column_copies: bool,
    /// Whether each statement runs again and again, each time with another of its requests for memory refused, before
    /// it runs without a refusal.
    pub(crate) refuses_memory: bool,
}

impl fmt::Display for Hostility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocks of {} rows, {} threads", self.rows_per_block, self.threads)?;
        let switches = [
            (self.small_batches, "batches of 3 rows"),
            (self.deleted_rows, "deleted rows"),
            (self.old_snapshots, "old snapshots"),
            (self.in_transaction, "one transaction"),
            (self.reopen, "reopened"),
            (self.prepared, "prepared"),
            (self.column_copies, "column copies"),
            (self.refuses_memory, "refused memory"),
        ];
        switches.iter().filter(|(on, _)| *on).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

/// The settings of an ordinary user.
pub(crate) fn plain() -> Hostility {
    Hostility {
        rows_per_block: ROWS_PER_BLOCK_MAX,
        threads: 2,
        small_batches: false,
        deleted_rows: false,
        old_snapshots: false,
        in_transaction: false,
        reopen: false,
        prepared: false,
        column_copies: false,
        refuses_memory: false,
    }
}

/// Returns enough combinations that any two settings meet in one of them, or all combinations if `ROWMILL_LONG` is set.
pub(crate) fn selection() -> Vec<Hostility> {
    match std::env::var_os("ROWMILL_LONG") {
        Some(_) => all(),
        None => pairwise(all()),
    }
}

fn all() -> Vec<Hostility> {
    let mut all = Vec::new();
    for rows_per_block in [3, 512, ROWS_PER_BLOCK_MAX] {
        for threads in [1, 4] {
            for bits in 0..64_u32 {
                let is = |bit: u32| bits >> bit & 1 == 1;
                let (deleted_rows, old_snapshots, in_transaction, reopen) = (is(0), is(1), is(2), is(3));
                // We delete rows in commits of their own, and closing the database ends a transaction, so these do not
                // go together.
                if !(in_transaction && (reopen || deleted_rows)) {
                    all.push(Hostility {
                        rows_per_block,
                        threads,
                        small_batches: is(4),
                        deleted_rows,
                        old_snapshots,
                        in_transaction,
                        reopen,
                        prepared: is(5),
                        // With each of the others in some combinations, without twice as many of them.
                        column_copies: bits.count_ones() % 2 == 1,
                        refuses_memory: false,
                    });
                }
            }
        }
    }
    all
}

/// Chooses few combinations that contain all pairs of settings. In each step we greedily take the combination with the
/// most pairs that are still missing.
fn pairwise(mut combinations: Vec<Hostility>) -> Vec<Hostility> {
    let mut had = HashSet::new();
    let mut taken = Vec::new();
    loop {
        let fresh = |hostility: &Hostility| hostility.pairs().filter(|pair| !had.contains(pair)).count();
        // Ties do not matter: any choice terminates, because every pair occurs in some combination.
        let best = (0..combinations.len()).max_by_key(|at| fresh(&combinations[*at]));
        let Some(best) = best.filter(|at| fresh(&combinations[*at]) > 0) else { return taken };
        let best = combinations.swap_remove(best);
        had.extend(best.pairs());
        taken.push(best);
    }
}

impl Hostility {
    /// All pairs of this combination's settings, each setting with its index.
    fn pairs(&self) -> impl Iterator<Item = [(usize, usize); 2]> + use<> {
        let rows = [self.small_batches, self.deleted_rows, self.old_snapshots];
        let ways = [self.in_transaction, self.reopen, self.prepared, self.column_copies];
        let switches = rows.into_iter().chain(ways).map(usize::from);
        let settings: Vec<_> = [self.rows_per_block, self.threads].into_iter().chain(switches).enumerate().collect();
        let count = settings.len();
        (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b))).map(move |(a, b)| [settings[a], settings[b]])
    }

    /// Whether we must skip a file because its statements make no sense under these settings.
    pub(crate) fn passes_over(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        let says = |words: &[&str]| {
            lower.lines().any(|line| words.iter().any(|word| line == *word || line.starts_with(&format!("{word} "))))
        };
        let transactions = says(&[
            "begin",
            "commit",
            "rollback",
            "start transaction",
            "savepoint",
            "checkpoint",
            "begin;",
            "refresh materialized view",
        ]);
        // These settings change the layout of storage, so a file that shows it cannot give the same answers.
        let storage = lower.contains("rowmill_storage") || lower.contains("explain");
        let settings = says(&["set", "reset", "show"]);
        // A refused statement has taken numbers of sequences, as any statement that fails, and may answer otherwise.
        let counters = ["nextval", "sequence", "identity", "serial", "random", "rowmill_"];
        let changes = counters.iter().any(|word| lower.contains(word));
        // A temporary table, a prepared statement and an attached database in memory end with their connection.
        let temporary = says(&["create temp table", "prepare", "attach", "use"]);
        (transactions && self.in_transaction)
            || (temporary && self.reopen)
            || (changes && self.refuses_memory)
            || (storage && self.rows_per_block < ROWS_PER_BLOCK_MAX)
            || (storage && (self.deleted_rows || self.in_transaction))
            || (settings
                && (self.reopen || self.threads != 2 || self.small_batches || self.rows_per_block < ROWS_PER_BLOCK_MAX))
    }

    /// Returns these settings with blocks so large that the tables of a file have at most a thousand of them. Blocks of
    /// three rows took as much time for the four files with the most rows as for all other files. With `ROWMILL_LONG`,
    /// the settings stay as they are.
    pub(crate) fn for_rows_of(&self, text: &str) -> Hostility {
        const BLOCKS_MAX: usize = 1_000;
        if std::env::var_os("ROWMILL_LONG").is_some() {
            return self.clone();
        }
        let ends = text.split("generate_series(").skip(1).filter_map(|call| call.split_once(')')?.0.rsplit(',').next());
        let rows = ends.filter_map(|end| end.trim().parse::<usize>().ok()).max().unwrap_or(0);
        let needed = (rows / BLOCKS_MAX).min(ROWS_PER_BLOCK_MAX);
        Hostility { rows_per_block: self.rows_per_block.max(needed), ..self.clone() }
    }

    /// Stores copies of rows, until one row in seven is a copy, and deletes the copies again.
    pub(crate) fn scatter_deleted_rows(&self, engine: &Arc<Engine>) -> Result<()> {
        let before = engine.snapshot()?;
        let mut copies = engine.begin()?;
        // Row numbers only grow, so all rows from here on are copies.
        let mut ends: HashMap<TableId, u64> = HashMap::new();
        // We skip keyed tables, because a deleted row leaves nothing there, and time tables, whose copies could replace
        // the rows, and whose rows get other numbers when they move. A job may refresh a materialized view between the
        // two commits, and its new rows are no copies.
        let catalog = before.catalog();
        let is_plain = |def: &&Arc<rowmill_txn::TableDef>| {
            def.keyed.is_none() && def.time.is_none() && catalog.materialized(def.id).is_none()
        };
        for def in catalog.all_tables().filter(is_plain) {
            let table = before.table(def.id).expect("the catalog names tables that exist");
            let mut end = 0;
            for batch in rows(&table)? {
                let values = batch.num_columns() - 1;
                end = row_numbers(&batch).iter().fold(end, |end, row| end.max(row + 1));
                // One copy for every six rows makes one row in seven of all.
                let copied = batch.num_rows().div_ceil(6);
                let own = batch.project(&(0..values).collect::<Vec<_>>()).expect("columns of the batch");
                let own = RecordBatch::try_new(def.arrow_schema(), own.slice(0, copied).columns().to_vec());
                copies.insert(def.id, &own.expect("rows of the table"))?;
            }
            ends.insert(def.id, end);
        }
        copies.commit()?;
        // We need a snapshot with the copies, because only now do they have row numbers.
        let after = engine.snapshot()?;
        let mut deletes = engine.begin()?;
        for (id, end) in ends {
            let now = rows(&after.table(id).expect("nothing was dropped"))?;
            let copied: Vec<u64> = now.iter().flat_map(row_numbers).filter(|row| *row >= end).collect();
            deletes.delete(id, &copied)?;
        }
        deletes.commit().map(drop)
    }
}

/// Returns all rows of a table, each with its row number as the last column.
fn rows(table: &Arc<rowmill_txn::TableSnapshot>) -> Result<Vec<RecordBatch>> {
    let request = ScanRequest {
        columns: (0..table.table().columns.len()).collect(),
        predicates: Vec::new(),
        limit: None,
        top: None,
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

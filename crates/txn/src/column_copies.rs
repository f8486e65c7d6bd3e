//! Column copies of keyed tables. A keyed table that queries read as a whole gets a copy of its rows in blocks of
//! columns, and these queries then work as on a columnar table.
//!
//! ```text
//! rows of a keyed table ── the job, at commit C ──► blocks ─── without changed rows ──┐
//!                                                                                     ├──► rows at commit S
//! keys that commits after C have changed ── rows of these keys at S ──► open runs ────┘
//! ```
//!
//! - `column_copy`: one copy: how it is made, and its rows at a commit.
//! - `changed_keys`: the keys that have changed since.
//! - `key_list`: the keys of a block, compressed, to find the positions of changed rows.
//!
//! A copy is a cache: it is in temporary files, and the process that has made it is the only one that reads it. So it
//! needs no format that lasts, no recovery, and no work when a transaction commits. Changed keys are found in two
//! places. The versions in memory have all changes that the base does not have yet. Before a checkpoint lets the
//! versions be dropped, it notes their keys with the copy ([`ColumnCopies::note_changes`]).
//!
//! A table gets a copy when queries have read all of its rows [`READS_MIN`] times. It gets another one when queries
//! have met that number of changed rows beside the copy, or when too many rows have changed. While rows change so fast
//! that a copy would soon be of no use, we make none.
//!
//! A copy has all columns of fixed width, and those others that queries have read: texts, blobs and nested values take
//! most of the time and space of a copy, and few queries read them.
//!
//! A table is identified by its primary index, which changes with TRUNCATE.

mod changed_keys;
mod column_copy;
mod key_list;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, ColumnId, CommitId, IndexId, Result};
use rowmill_storage::{KeyedSource, TableDef, TableSource};

use self::changed_keys::ChangedKeys;
use self::column_copy::{ColumnCopy, WantedCopy};
use crate::background_pace::at_background_pace;
use crate::bell::Background;
use crate::catalog::Catalog;
use crate::engine::Core;
use crate::job::Job;
use crate::keyed::KeyedTable;
use crate::keyed::store::KeyedStore;

/// How often the rows of a table must have been read before a copy is made. Making one takes as long as three to
/// ten reads of the rows; a read of the copy takes a tenth of one, or less.
const READS_MIN: u64 = 2;

/// The number of failures after which the reads that a copy needs no longer double. They double after each failure to
/// make one, because the next try may take as long and fail, too.
const FAILURES_MAX: u32 = 10;

/// A copy is of use while at most one part in this many of the rows has changed. A changed row costs about ten times as
/// much as a row that is read in order, because its key is looked up in the copy and in the table, but only for the
/// first query that sees the change. After that it takes memory.
const CHANGED_SHARE: u64 = 16;

/// A copy is made only if queries can read it this many times before it is of no use, at the present pace of changes:
/// it must save the time that it takes.
const READS_OF_COPY_MIN: u64 = 10;

/// The time for which a reader waits for a copy, where readers wait at all.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The copies of all keyed tables of a process.
#[derive(Debug, Default)]
pub(crate) struct ColumnCopies {
    tables: Mutex<HashMap<IndexId, CopyOfTable>>,
    /// The setting `column_copy_rows`. 0 also if no job makes copies.
    rows_min: AtomicU64,
    /// Whether a reader waits until its table has a copy.
    is_waited_for: AtomicBool,
    /// Signals that the job has made, or has failed to make, a copy that was wanted, or that its table is gone.
    is_made: Condvar,
    job: Background,
}

/// The copy of one table, and the counts that decide when another one is made.
#[derive(Debug)]
struct CopyOfTable {
    def: Arc<TableDef>,
    /// The columns that queries have read.
    columns_read: BTreeSet<ColumnId>,
    /// The rows that queries have read from the table since its copy was made or refused, and the number of these
    /// queries.
    rows_read: u64,
    reads: u64,
    /// The rows that were ever written to the table, before these queries.
    rows_written: u64,
    /// How often in a row a copy could not be made.
    failures: u32,
    is_wanted: bool,
    copy: Option<Arc<ColumnCopy>>,
    /// The keys that change while another copy is being made.
    being_made: Option<Arc<ChangedKeys>>,
}

impl CopyOfTable {
    /// Counts reads and writes from now on.
    fn begin_again(&mut self, rows_written: u64) {
        (self.rows_read, self.reads, self.rows_written) = (0, 0, rows_written);
    }
}

impl ColumnCopies {
    /// The rows of `table` at the commit that its view sees, with at least the columns at `columns`, if they cost less
    /// to read than the rows. The caller must be about to read most rows of the table: the call counts as such a read.
    pub(crate) fn rows_of(&self, table: &KeyedTable, columns: &[usize]) -> Option<Arc<dyn TableSource>> {
        let rows_min = self.rows_min.load(Ordering::Relaxed);
        if rows_min == 0 || !table.sees_only_commits() {
            return None;
        }
        let def = table.def()?;
        let rows = table.rows_about();
        if rows < rows_min {
            return None;
        }
        let index = def.keyed.as_ref()?.index;
        let found = self.current(index, &def, columns).and_then(|copy| copy.rows_at(table));
        let rows_read = found.as_ref().map_or(rows, |found| found.changed_rows());
        self.note_read(table, (&def, columns), rows_read, rows);
        if found.is_none() && self.is_waited_for.load(Ordering::Relaxed) {
            self.wait_for(index);
            return Some(Arc::new(self.current(index, &def, columns)?.rows_at(table)?));
        }
        Some(Arc::new(found?))
    }

    /// Whether [`ColumnCopies::rows_of`] would find a copy. Does not count as a read.
    pub(crate) fn has_copy_of(&self, table: &KeyedTable, columns: &[usize]) -> bool {
        let copy_of = |def: Arc<TableDef>| self.current(def.keyed.as_ref()?.index, &def, columns);
        table.sees_only_commits() && table.def().and_then(copy_of).is_some_and(|copy| copy.rows_at(table).is_some())
    }

    fn current(&self, index: IndexId, def: &Arc<TableDef>, columns: &[usize]) -> Option<Arc<ColumnCopy>> {
        let tables = self.tables.lock();
        tables.get(&index)?.copy.clone().filter(|copy| copy.is_of(def) && copy.has(columns))
    }

    /// Notes that a query reads the columns at `columns` of `rows_read` rows of a table that has about `rows` rows. If
    /// queries have read enough, the job makes another copy.
    fn note_read(&self, table: &KeyedTable, (def, columns): (&Arc<TableDef>, &[usize]), rows_read: u64, rows: u64) {
        let Some(index) = def.keyed.as_ref().map(|keyed| keyed.index) else { return };
        let rows_written = table.store().changed_counts().total(index);
        let mut tables = self.tables.lock();
        let of_table = tables.entry(index).or_insert_with(|| CopyOfTable {
            def: Arc::clone(def),
            columns_read: BTreeSet::new(),
            rows_read: 0,
            reads: 0,
            rows_written,
            failures: 0,
            is_wanted: false,
            copy: None,
            being_made: None,
        });
        of_table.def = Arc::clone(def);
        of_table.columns_read.extend(columns.iter().map(|column| def.columns[*column].id));
        of_table.rows_read += rows_read;
        of_table.reads += 1;
        let is_waited_for = self.is_waited_for.load(Ordering::Relaxed) && rows_read >= rows;
        let reads_min = READS_MIN << of_table.failures.min(FAILURES_MAX);
        if of_table.rows_read < reads_min * rows && !is_waited_for || of_table.being_made.is_some() {
            return;
        }
        // The rows that will change at this pace while queries read the copy.
        let changes = (rows_written - of_table.rows_written) / of_table.reads * READS_OF_COPY_MIN;
        of_table.begin_again(rows_written);
        if changes <= self.changed_max(rows) && !std::mem::replace(&mut of_table.is_wanted, true) {
            self.job.ring();
        }
    }

    /// Waits until no copy of a table is wanted.
    fn wait_for(&self, index: IndexId) {
        let mut tables = self.tables.lock();
        let until = Instant::now() + WAIT_MAX;
        let is_awaited = |of_table: &CopyOfTable| of_table.is_wanted || of_table.being_made.is_some();
        while tables.get(&index).is_some_and(is_awaited) && !self.is_made.wait_until(&mut tables, until).timed_out() {}
    }

    /// Lets each reader of a whole table wait for a copy, and uses a copy however many rows have changed. For tests.
    pub(crate) fn make_readers_wait(&self) {
        self.is_waited_for.store(true, Ordering::Relaxed);
    }

    /// The most rows that may change before a copy of `rows` rows is no longer of use.
    fn changed_max(&self, rows: u64) -> u64 {
        if self.is_waited_for.load(Ordering::Relaxed) { u64::MAX } else { rows / CHANGED_SHARE }
    }

    /// Changes the number of rows from which on tables get copies. With 0, no table has one.
    pub(crate) fn set_rows_min(&self, rows: u64) {
        self.rows_min.store(rows, Ordering::Relaxed);
        if rows == 0 {
            self.tables.lock().clear();
            self.is_made.notify_all();
        }
    }

    /// Notes the rows of an index that commits after `after`, up to `to`, have changed, if the table has a copy. A
    /// checkpoint must call this before versions of these rows are dropped.
    pub(crate) fn note_changes(&self, store: &KeyedStore, index: IndexId, (after, to): (CommitId, CommitId)) {
        let noting: Vec<Arc<ChangedKeys>> = {
            let mut tables = self.tables.lock();
            let Some(of_table) = tables.get_mut(&index) else { return };
            // We drop a copy when too many of its rows have changed.
            of_table.copy = of_table.copy.take().filter(|copy| !copy.changed().are_too_many());
            let of_copy = of_table.copy.iter().map(|copy| copy.changed());
            of_copy.chain(&of_table.being_made).cloned().collect()
        };
        noting.iter().for_each(|changed| changed.note(store, index, (after, to)));
    }

    /// Lets the job drop the copies of tables that are gone.
    pub(crate) fn tidy(&self) {
        if !self.tables.lock().is_empty() {
            self.job.ring();
        }
    }

    /// Drops the copies of all tables that are not in `catalog`.
    fn keep_only_those_of(&self, catalog: &Catalog) {
        let is_there = |index: IndexId, def: &TableDef| {
            let keyed = catalog.table_by_id(def.id).and_then(|table| table.keyed.as_ref());
            keyed.is_some_and(|keyed| keyed.index == index)
        };
        self.tables.lock().retain(|index, of_table| is_there(*index, &of_table.def));
        self.is_made.notify_all();
    }

    /// Stops the job and drops all copies.
    pub(crate) fn close(&self) {
        self.rows_min.store(0, Ordering::Relaxed);
        self.job.stop();
        self.tables.lock().clear();
    }

    /// The next copy that is wanted, with the index of its table. Changes of the table are noted from now on.
    fn next_wanted(&self, keys_max: impl Fn(&TableDef) -> u64) -> Option<(IndexId, WantedCopy)> {
        let mut tables = self.tables.lock();
        let (index, of_table) = tables.iter_mut().find(|(_, of_table)| of_table.is_wanted)?;
        let changed = Arc::new(ChangedKeys::new(keys_max(&of_table.def)));
        of_table.being_made = Some(Arc::clone(&changed));
        of_table.is_wanted = false;
        let (def, columns) = (Arc::clone(&of_table.def), of_table.columns_read.clone());
        Some((*index, WantedCopy { def, columns, changed }))
    }

    /// Puts the copy that was made, if any, in the place of the one before.
    fn put(&self, index: IndexId, made: Result<Option<ColumnCopy>>, rows_written: u64) {
        let mut tables = self.tables.lock();
        if let Some(of_table) = tables.get_mut(&index) {
            of_table.being_made = None;
            // Queries have read the rows while the copy was being made.
            of_table.begin_again(rows_written);
            // Without memory or disk space we have no copy. The next try needs twice the number of reads.
            of_table.failures += 1;
            if let Ok(Some(copy)) = made {
                (of_table.copy, of_table.failures) = (Some(Arc::new(copy)), 0);
            }
        }
        self.is_made.notify_all();
    }
}

/// Starts the job that makes copies.
pub(crate) fn start(engine: &Arc<Core>) -> Result<()> {
    let store = Arc::clone(engine.latest().keyed.store());
    let copies = store.column_copies();
    copies.set_rows_min(engine.settings().number("column_copy_rows"));
    let engine = Arc::clone(engine);
    copies.job.start(Job::Copy, Duration::ZERO, move |stop| make_wanted(&engine, stop))
}

/// Makes all copies that are wanted.
fn make_wanted(engine: &Arc<Core>, stop: &Cancel) {
    let store = Arc::clone(engine.latest().keyed.store());
    let copies = store.column_copies();
    copies.keep_only_those_of(engine.latest().catalog());
    let keys_max = |def: &TableDef| {
        let table = engine.latest().table(def.id);
        let rows = table.as_ref().and_then(|table| table.keyed.as_ref()).map_or(0, KeyedTable::rows_about);
        copies.changed_max(rows)
    };
    while !stop.is_cancelled()
        && let Some((index, wanted)) = copies.next_wanted(keys_max)
    {
        // We rest only for transactions. Queries that read the rows in the meantime lose more by a later copy than by a
        // busy processor.
        let is_hurried = {
            let (stop, engine, begun) = (stop.clone(), Arc::clone(engine), engine.latest().commit);
            move || stop.is_cancelled() || engine.latest().commit == begun
        };
        let (made, _) = at_background_pace(is_hurried, || ColumnCopy::make(engine, wanted, stop));
        copies.put(index, made, store.changed_counts().total(index));
    }
}

//! The difference between two states, as batches that turn a base with the one into a base with the other.
//!
//! Rows that came and went between the two states are in no batch. The first batch has all changes of definitions and
//! of columnar tables. Changed rows of keyed tables follow in parts, because a large commit may have more of them than
//! memory has room for twice.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::vec;

use rowmill_base::{Broker, CommitId, IndexId, Reservation, Result, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{Block, OpenRun};

use crate::background_pace::rest_if_due;
use crate::base::WriteBatch;
use crate::definition::{Definition, definitions};
use crate::deletes::Holder;
use crate::keyed::store::KeyedStore;
use crate::keyed::{HEAD_BYTES, VersionBatch, VersionCursor, index_head};
use crate::manifest::{self, BLOCK, BlockEntry, DELETES, NEXT_ROW, RUN, id_key, row_key};
use crate::snapshot::{Snapshot, TableSnapshot};

/// A part may take one part in this many of the memory limit. The base needs about the same again to apply it.
const PART_SHARE: u64 = 32;

/// The least bytes of a part. Each part rewrites some pages that the part before it wrote.
const PART_BYTES_MIN: u64 = 1 << 20;

/// Keys copied under one lock of the versions, which takes about ten microseconds. Commits go on between the batches.
const KEYS_AT_ONCE: usize = 64;

/// Makes one batch that turns a base with the state `before` into one with the state `after`.
pub(crate) fn difference(before: &Snapshot, after: &Snapshot) -> Result<WriteBatch> {
    let mut batch = of_tables(before, after)?;
    ChangedEntries::between(before, after).append_to(&mut batch, u64::MAX);
    Ok(batch)
}

/// The batches that turn a base with one state into one with another, one after the other.
#[derive(Debug)]
pub(crate) struct DifferenceInParts {
    /// The batch of everything except keyed rows, until it is part of the first batch.
    first: Option<WriteBatch>,
    rows: ChangedEntries,
    /// The commit of the base that the batches are for.
    behind: CommitId,
    part_bytes: u64,
    memory: Reservation,
}

impl DifferenceInParts {
    /// Prepares the difference from `before` to `after`. `broker` tells how much memory a batch may take, and counts
    /// it.
    pub(crate) fn new(before: &Snapshot, after: &Snapshot, broker: &Broker) -> Result<DifferenceInParts> {
        Ok(DifferenceInParts {
            first: Some(of_tables(before, after)?),
            rows: ChangedEntries::between(before, after),
            behind: before.commit,
            part_bytes: (broker.limit_bytes() / PART_SHARE).max(PART_BYTES_MIN),
            memory: broker.reservation("a checkpoint"),
        })
    }

    /// Sets the value of a key that is no row.
    pub(crate) fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.first.as_mut().expect("values are put before the first batch is taken").put(key, value);
    }
}

impl Iterator for DifferenceInParts {
    type Item = Cow<'static, WriteBatch>;

    fn next(&mut self) -> Option<Cow<'static, WriteBatch>> {
        let first = self.first.take();
        let is_first = first.is_some();
        let mut batch = first.unwrap_or_else(|| WriteBatch::behind(self.behind));
        self.rows.append_to(&mut batch, self.part_bytes);
        // The base still has the part before while it asks for this one, so both are counted.
        self.memory.recount(2 * batch.row_bytes() as u64);
        (is_first || !batch.is_empty()).then_some(Cow::Owned(batch))
    }
}

/// The keyed rows and index entries that changed between two states, in the order of indexes and keys.
#[derive(Debug)]
struct ChangedEntries {
    store: Arc<KeyedStore>,
    /// Rows that commits after the first one, up to the second one, changed.
    commits: (CommitId, CommitId),
    /// The index that is being read, and the indexes after it.
    current: Option<([u8; HEAD_BYTES], VersionCursor)>,
    indexes: vec::IntoIter<IndexId>,
    /// A buffer.
    rows: VersionBatch,
}

impl ChangedEntries {
    fn between(before: &Snapshot, after: &Snapshot) -> ChangedEntries {
        let commits = (before.keyed.commit(), after.keyed.commit());
        let indexes: Vec<IndexId> = if commits.0 == commits.1 { Vec::new() } else { index_ids(after).collect() };
        ChangedEntries {
            store: Arc::clone(after.keyed.store()),
            commits,
            current: None,
            indexes: indexes.into_iter(),
            rows: VersionBatch::default(),
        }
    }

    /// Appends the next rows to `batch`, until it has `bytes_max` bytes or there are no more.
    fn append_to(&mut self, batch: &mut WriteBatch, bytes_max: u64) {
        while (batch.row_bytes() as u64) < bytes_max {
            let Some((head, cursor)) = &mut self.current else {
                let Some(index) = self.indexes.next() else { return };
                let head = index_head(index);
                let (after, to) = self.commits;
                // After the checkpoint the versions of these rows may be dropped.
                self.store.column_copies().note_changes(&self.store, index, (after, to));
                self.current = Some((head, VersionCursor::changes(KeyRange::of_prefix(&head), after, to)));
                continue;
            };
            // The cursor keeps its place, so each round copies the next keys under a short lock.
            rest_if_due();
            cursor.next_batch(self.store.versions().of_key(head), KEYS_AT_ONCE, &mut self.rows);
            if self.rows.is_empty() {
                self.current = None;
            }
            (0..self.rows.len()).map(|at| self.rows.get(at)).for_each(|(key, row)| batch.set_row(key, row));
        }
    }
}

/// The ids of indexes, including row indexes, that `before` has and `after` does not.
pub(crate) fn dropped_indexes(before: &Snapshot, after: &Snapshot) -> Vec<IndexId> {
    if Arc::ptr_eq(&before.catalog, &after.catalog) {
        return Vec::new();
    }
    let kept: BTreeSet<IndexId> = index_ids(after).collect();
    index_ids(before).filter(|id| !kept.contains(id)).collect()
}

/// The ids of the indexes of all keyed tables, including row indexes.
fn index_ids(state: &Snapshot) -> impl Iterator<Item = IndexId> + '_ {
    state.catalog.all_tables().filter_map(|table| table.keyed.as_ref()).flat_map(|keyed| keyed.index_ids())
}

/// The changes of definitions and of columnar tables, and the removal of all entries of dropped indexes.
fn of_tables(before: &Snapshot, after: &Snapshot) -> Result<WriteBatch> {
    let mut difference = TableDifference { batch: WriteBatch::behind(before.commit) };
    for index in dropped_indexes(before, after) {
        difference.batch.delete_prefix(index_head(index));
    }
    for Definition { kind, id, value } in definitions(&before.catalog, &after.catalog)? {
        match value {
            Some(value) => difference.batch.put(id_key(kind.letter(), id), value),
            None => difference.batch.delete(id_key(kind.letter(), id)),
        };
    }
    for (id, before) in &*before.tables {
        match after.tables.get(id) {
            Some(after) => difference.tables(before, after)?,
            None => difference.dropped_table(*id),
        }
    }
    for (_, after) in after.tables.iter().filter(|(id, _)| !before.tables.contains_key(id)) {
        difference.tables(&TableSnapshot::empty(Arc::clone(&after.def)), after)?;
    }
    Ok(difference.batch)
}

struct TableDifference {
    batch: WriteBatch,
}

impl TableDifference {
    fn dropped_table(&mut self, table: TableId) {
        for kind in [BLOCK, DELETES, RUN, NEXT_ROW] {
            self.batch.delete_prefix(id_key(kind, table.0));
        }
    }

    fn tables(&mut self, before: &TableSnapshot, after: &TableSnapshot) -> Result<()> {
        let table = after.def.id;
        if !Arc::ptr_eq(&before.blocks, &after.blocks) {
            self.blocks(table, &before.blocks, &after.blocks)?;
        }
        if !Arc::ptr_eq(&before.runs, &after.runs) {
            self.runs(table, &before.runs, &after.runs)?;
        }
        if before.next_row != after.next_row {
            self.batch.put(id_key(NEXT_ROW, table.0), manifest::encode_next_row(after.next_row, after.moved_rows));
        }
        Ok(())
    }

    fn blocks(&mut self, table: TableId, before: &[Arc<Block>], after: &[Arc<Block>]) -> Result<()> {
        let mut old: HashMap<_, _> = before.iter().map(|block| (block.id(), block)).collect();
        let mut puts = Vec::new();
        for block in after {
            match old.remove(&block.id()) {
                Some(old) if Arc::ptr_eq(old, block) => {}
                Some(_) => puts.push((block, false)),
                None => puts.push((block, true)),
            }
        }
        // Removals must come first, because a rewritten block may start at the same row as a block that it replaces.
        for block in old.into_values() {
            self.batch.delete(row_key(BLOCK, table, block.first_row()));
            self.batch.delete(row_key(DELETES, table, block.first_row()));
        }
        for (block, new) in puts {
            if new {
                self.batch.put(row_key(BLOCK, table, block.first_row()), BlockEntry::of(block).encode());
            }
            self.deletes(&Holder::Block(Arc::clone(block)), table)?;
        }
        Ok(())
    }

    fn runs(&mut self, table: TableId, before: &[Arc<OpenRun>], after: &[Arc<OpenRun>]) -> Result<()> {
        let mut old: HashMap<_, _> = before.iter().map(|run| (run.first_row(), run)).collect();
        let mut puts = Vec::new();
        for run in after {
            match old.remove(&run.first_row()) {
                Some(old) if Arc::ptr_eq(old, run) => {}
                Some(old) => puts.push((run, !old.same_rows(run))),
                None => puts.push((run, true)),
            }
        }
        // A run with the same rows needs no new value, only its deletes.
        for run in old.into_values() {
            self.batch.delete(row_key(RUN, table, run.first_row()));
            // A sealed block that starts at the same row has already written its deletes under this key, so we must not
            // remove them.
            if !self.batch.puts(&row_key(DELETES, table, run.first_row())) {
                self.batch.delete(row_key(DELETES, table, run.first_row()));
            }
        }
        for (run, new) in puts {
            if new {
                self.batch.put(row_key(RUN, table, run.first_row()), run.encode()?);
            }
            self.deletes(&Holder::Run(Arc::clone(run)), table)?;
        }
        Ok(())
    }

    fn deletes(&mut self, holder: &Holder, table: TableId) -> Result<()> {
        let key = row_key(DELETES, table, holder.first_row());
        match holder.deleted() {
            Some(deleted) => self.batch.put(key, manifest::encode_deletes(deleted)?),
            None => self.batch.delete(key),
        };
        Ok(())
    }
}

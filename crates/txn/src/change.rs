//! The changes of one commit. A transaction or a background job makes them, or they are read from a record of the log
//! (`commit_record.rs`). They are applied to the state before the commit.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use rowmill_base::{Broker, CommitId, Error, Result, RowNumber, TableId};
use rowmill_storage::{Block, OpenRun};

use crate::catalog::Catalog;
use crate::deletes::{self, DeletesByHolder};
use crate::keyed::write_set::WriteSet;
use crate::renumbering::Renumbering;
use crate::snapshot::{Snapshot, TableSnapshot, Tables};
use crate::transaction::join_tail;

/// The difference between two committed states that follow each other.
#[derive(Debug)]
pub(crate) struct CommitChange {
    /// All definitions after the commit, the unchanged ones included.
    pub(crate) catalog: Arc<Catalog>,
    /// Changes by table. Holds only tables that exist after the commit.
    pub(crate) tables: BTreeMap<TableId, TableChange>,
    /// Changed rows and index entries of keyed tables, if there are any.
    pub(crate) keyed: Option<Arc<WriteSet>>,
}

/// The changes of one table, applied in the order of the fields.
#[derive(Debug, Default)]
pub(crate) struct TableChange {
    /// All rows of the state before are deleted.
    pub(crate) truncated: bool,
    /// Deleted rows of the state before.
    pub(crate) deleted: DeletesByHolder,
    /// New blocks. Each replaces all rows within its range of row numbers.
    pub(crate) blocks: Vec<Arc<Block>>,
    /// New rows, whose numbers follow all others.
    pub(crate) runs: Vec<Arc<OpenRun>>,
    /// The number of the next row to be committed.
    pub(crate) next_row: RowNumber,
    /// How many of the new numbers are those of rows that moved.
    pub(crate) moved_rows: u64,
    /// Rows that have other numbers after the commit. The log does not have them, because only transactions that began
    /// before the commit need them.
    pub(crate) renumbered: Option<Arc<Renumbering>>,
}

/// The result of applying a change.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) snapshot: Snapshot,
    /// Blocks of the state before that the next state does not name.
    pub(crate) removed: Vec<Arc<Block>>,
    /// Tables of the state before that the next state does not have.
    pub(crate) dropped: Vec<TableId>,
}

impl CommitChange {
    /// Makes a change of one table that leaves all definitions as they are.
    pub(crate) fn of_table(before: &Snapshot, table: TableId, change: TableChange) -> CommitChange {
        CommitChange { catalog: Arc::clone(&before.catalog), tables: BTreeMap::from([(table, change)]), keyed: None }
    }

    /// Makes the state that follows `before`. Keyed rows are not part of this: the caller must apply them to the
    /// versions and set [`Snapshot::keyed`] itself.
    pub(crate) fn apply(&self, before: &Snapshot, memory: &Broker) -> Result<Applied> {
        if self.tables.is_empty() && Arc::ptr_eq(&before.catalog, &self.catalog) {
            let snapshot = Snapshot { commit: CommitId(before.commit.0 + 1), pin: None, ..before.clone() };
            return Ok(Applied { snapshot, removed: Vec::new(), dropped: Vec::new() });
        }
        let mut tables: Tables = (*before.tables).clone();
        let (mut removed, mut dropped) = (Vec::new(), Vec::new());
        if !Arc::ptr_eq(&before.catalog, &self.catalog) {
            tables.retain(|id, table| {
                // A dropped table leaves the state, and its blocks become free space once no reader needs them.
                let stays = self.catalog.table_by_id(*id).is_some();
                if !stays {
                    removed.extend(table.blocks.iter().cloned());
                    dropped.push(*id);
                }
                stays
            });
            for def in self.catalog.all_tables() {
                match tables.get(&def.id) {
                    Some(table) if Arc::ptr_eq(&table.def, def) => {}
                    Some(table) => {
                        let table = TableSnapshot { def: Arc::clone(def), ..(**table).clone() };
                        tables.insert(def.id, Arc::new(table));
                    }
                    None => {
                        tables.insert(def.id, Arc::new(TableSnapshot::empty(Arc::clone(def))));
                    }
                }
            }
        }
        for (id, change) in &self.tables {
            let table =
                tables.get(id).ok_or_else(|| Error::internal(format!("a change of a table {id} that is not there")))?;
            let next = change.apply(table, memory)?;
            removed.extend(blocks_without(&table.blocks, &next.blocks));
            tables.insert(*id, Arc::new(next));
        }
        let snapshot = Snapshot {
            commit: CommitId(before.commit.0 + 1),
            catalog: Arc::clone(&self.catalog),
            tables: Arc::new(tables),
            log_end: before.log_end,
            keyed: Arc::clone(&before.keyed),
            pin: None,
            own: None,
            reads: None,
        };
        Ok(Applied { snapshot, removed, dropped })
    }

    /// The new blocks that this change names.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.tables.values().flat_map(|table| &table.blocks)
    }
}

/// The blocks of `before` that are not in `after`.
fn blocks_without(before: &Arc<[Arc<Block>]>, after: &Arc<[Arc<Block>]>) -> Vec<Arc<Block>> {
    if before.is_empty() || Arc::ptr_eq(before, after) {
        return Vec::new();
    }
    let stay: HashSet<_> = after.iter().map(|block| block.id()).collect();
    before.iter().filter(|block| !stay.contains(&block.id())).cloned().collect()
}

impl TableChange {
    fn apply(&self, before: &TableSnapshot, memory: &Broker) -> Result<TableSnapshot> {
        let numbering = self.renumbered.as_ref().map(|moved| before.numbering.after(moved));
        let numbering = numbering.unwrap_or_else(|| before.numbering.clone());
        let moved_rows = before.moved_rows + self.moved_rows;
        let mut next = TableSnapshot { next_row: self.next_row, moved_rows, numbering, ..before.clone() };
        if self.truncated {
            next.blocks = Arc::default();
            next.runs = Arc::default();
        } else if !self.deleted.is_empty() {
            let (mut blocks, mut runs) = deletes::apply(&before.blocks, &before.runs, &self.deleted);
            blocks.retain(|block| block.live_rows() > 0);
            runs.retain(|run| run.live_rows() > 0);
            (next.blocks, next.runs) = (blocks.into(), runs.into());
        }
        if !self.blocks.is_empty() {
            let (mut blocks, mut runs) = (next.blocks.to_vec(), next.runs.to_vec());
            for block in &self.blocks {
                put_block(block, &mut blocks, &mut runs, memory)?;
            }
            (next.blocks, next.runs) = (blocks.into(), runs.into());
        }
        if !self.runs.is_empty() {
            let mut runs = next.runs.to_vec();
            runs.extend(self.runs.iter().cloned());
            join_tail(&next.def, &mut runs, memory)?;
            next.runs = runs.into();
        }
        Ok(next)
    }
}

/// Inserts a block and removes the blocks and the parts of runs whose row numbers it covers.
fn put_block(
    block: &Arc<Block>,
    blocks: &mut Vec<Arc<Block>>,
    runs: &mut Vec<Arc<OpenRun>>,
    memory: &Broker,
) -> Result<()> {
    let numbers = block.first_row()..block.end_row();
    // A replaced block may begin before the new one: the rows in front were deleted, so the new block leaves them out.
    let from = blocks.partition_point(|other| other.end_row() <= numbers.start);
    let to = blocks.partition_point(|other| other.first_row() < numbers.end);
    blocks.splice(from..to, [Arc::clone(block)]);
    // A run may reach beyond the block, because recovery gathers rows of many commits into longer runs than those that
    // the block was made of. We keep the parts before and after the block.
    let mut kept = Vec::with_capacity(runs.len());
    for run in runs.drain(..) {
        let (first, rows) = (run.first_row().0, run.rows());
        let position = |row: RowNumber| (row.0.clamp(first, first + rows as u64) - first) as usize;
        let (start, end) = (position(numbers.start), position(numbers.end));
        if start == end {
            kept.push(run);
            continue;
        }
        for outside in [0..start, end..rows].into_iter().filter(|part| !part.is_empty()) {
            let part = run.part(outside)?;
            if part.live_rows() > 0 {
                kept.push(Arc::new(part.counted(memory)));
            }
        }
    }
    *runs = kept;
    Ok(())
}

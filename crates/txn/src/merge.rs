//! The background merge: rewrites small neighbouring blocks as one, and blocks with more than a quarter of their rows
//! deleted.
//!
//! A merged block holds the live rows of its parts under their own numbers. If the numbers have gaps, it keeps a list
//! of them. Readers of older snapshots keep the old blocks. A transaction that deletes a row of an old block finds the
//! row again by its number. Each merge is one commit. `time_merge.rs` merges the blocks of time tables.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::concat;
use roaring::RoaringBitmap;
use rowmill_base::{Cancel, Error, ErrorKind, Result, RowNumber, SqlType, TableId};
use rowmill_storage::{Block, BlockOwner, BlockSource, ColumnTarget, ROW_NUMBERS, TableDef, write_block};

use crate::bell::Background;
use crate::change::{CommitChange, TableChange};
use crate::commit::{publish, sync_blocks};
use crate::deletes::values_of_block;
use crate::engine::Core;
use crate::job::Job;
use crate::snapshot::TableSnapshot;
use crate::time_merge;

/// Delay between a commit and the search for blocks to merge, so that a burst of commits causes one merge.
const SETTLE: Duration = Duration::from_millis(200);

/// Starts the thread that merges blocks when a commit rings its bell.
pub(crate) fn start(merger: &Background, engine: &Arc<Core>) -> Result<()> {
    let engine = Arc::clone(engine);
    // A failed merge leaves everything as it was, and the next commit tries again.
    merger.start(Job::Merge, SETTLE, move |stop| drop(merge_all(&engine, stop)))
}

/// Merges blocks until none are worth merging.
pub(crate) fn merge_all(engine: &Core, stop: &Cancel) -> Result<()> {
    let tables: Vec<TableId> = engine.latest().tables.keys().copied().collect();
    tables.into_iter().try_for_each(|id| merge_table(engine, id, stop))
}

/// Merges blocks of one table until none are worth merging.
pub(crate) fn merge_table(engine: &Core, id: TableId, stop: &Cancel) -> Result<()> {
    let block_rows = engine.rows_per_block();
    loop {
        stop.check()?;
        let snapshot = engine.latest();
        let Some(table) = snapshot.tables.get(&id) else { return Ok(()) };
        let merged = match table.def.time_column() {
            Some(column) => match time_merge::candidates(table, column, block_rows)? {
                // Without the memory for it, the blocks stay as they are, and the other tables come next.
                Some(group) => match time_merge::rewrite(engine, table, column, &group, stop) {
                    Err(error) if error.kind() == ErrorKind::MemoryLimit => false,
                    rewritten => rewritten?,
                },
                None => false,
            },
            None => match candidates(table, block_rows) {
                Some(group) => merge_once(engine, table, &group, stop)?,
                None => false,
            },
        };
        if !merged {
            return Ok(());
        }
    }
}

/// The next group of neighbouring blocks that should be rewritten as one.
fn candidates(table: &TableSnapshot, block_rows: usize) -> Option<Vec<Arc<Block>>> {
    // Blocks with open runs between them are not neighbours, because the merged block must own its range of numbers
    // alone.
    let adjacent = |last: &Block, block: &Block| {
        !table.runs.iter().any(|run| (last.end_row()..block.first_row()).contains(&run.first_row()))
    };
    small_group(&table.blocks, adjacent, block_rows)
}

/// The first group of small or sparse blocks that follow each other and should be rewritten as one. `adjacent` says
/// whether two blocks may be in one group.
pub(crate) fn small_group(
    blocks: &[Arc<Block>],
    adjacent: impl Fn(&Block, &Block) -> bool,
    block_rows: usize,
) -> Option<Vec<Arc<Block>>> {
    let sparse = |block: &Block| block.live_rows() * 4 < block.rows() * 3;
    let small = |block: &Block| block.live_rows() * 2 <= block_rows;
    let mut group: Vec<Arc<Block>> = Vec::new();
    let mut rows = 0;
    for block in blocks {
        let adjacent = group.last().is_none_or(|last: &Arc<Block>| adjacent(last, block));
        if (small(block) || sparse(block)) && adjacent && rows + block.live_rows() <= block_rows {
            rows += block.live_rows();
            group.push(Arc::clone(block));
        } else if worthwhile(&group, sparse) {
            return Some(group);
        } else {
            group.clear();
            rows = 0;
            if small(block) || sparse(block) {
                rows = block.live_rows();
                group.push(Arc::clone(block));
            }
        }
    }
    worthwhile(&group, sparse).then_some(group)
}

fn worthwhile(group: &[Arc<Block>], sparse: impl Fn(&Block) -> bool) -> bool {
    match group {
        [] => false,
        [only] => sparse(only),
        // We leave two blocks of very different size alone until the smaller one has grown. For example, rewriting half
        // a million rows for every hundred new ones would make merges expensive.
        group => {
            let largest = group.iter().map(|block| block.live_rows()).max().unwrap_or(0);
            let all: usize = group.iter().map(|block| block.live_rows()).sum();
            (all - largest) * 4 >= largest || group.iter().any(|block| sparse(block))
        }
    }
}

/// Rewrites `group` as one block. Returns `false` if another commit replaced one of its blocks before this merge could
/// commit.
fn merge_once(engine: &Core, table: &Arc<TableSnapshot>, group: &[Arc<Block>], stop: &Cancel) -> Result<bool> {
    let def = &table.def;
    let parts = group.iter().map(|block| MergedBlock::new(def, block)).collect::<Result<Vec<_>>>()?;
    let numbers: Vec<u64> = parts.iter().flat_map(|part| part.numbers.iter().copied()).collect();
    let (Some(first), Some(last)) = (numbers.first().copied(), numbers.last().copied()) else {
        return Err(Error::internal("the commit that emptied a block did not drop it"));
    };
    let source = MergedTable { def, parts: &parts, distances: numbers.iter().map(|row| row - first).collect() };
    // The merged block must be on disk before a commit names it. Commits go on until we take the lock.
    let merged = write_numbered(engine, def, &source, RowNumber(first)..RowNumber(last + 1), stop)?;
    sync_blocks(engine, [Arc::new(merged.clone())].iter())?;

    let committing = engine.lock_commit();
    let current = engine.latest();
    let Some(now) = current.tables.get(&def.id).filter(|now| Arc::ptr_eq(&now.def, def)) else { return Ok(false) };
    // Rows of the parts may have been deleted since we read them. We must carry those deletes over, or the rows would
    // come back.
    let mut deleted = RoaringBitmap::new();
    let (mut found, mut offset) = (0, 0);
    for part in &parts {
        let Some(block) = now.blocks.iter().find(|block| block.id() == part.block.id()) else { break };
        part.deleted_since(block, offset, &mut deleted);
        (found, offset) = (found + 1, offset + part.numbers.len());
    }
    if found != parts.len() {
        return Ok(false);
    }
    let merged = Arc::new(merged.with_deleted(&deleted));
    assert!(merged.live_rows() > 0, "the commit that empties a block should drop it");
    let change = TableChange { blocks: vec![merged], next_row: now.next_row, ..TableChange::default() };
    let published = publish(engine, &current, CommitChange::of_table(&current, def.id, change))?;
    drop(committing);
    engine.journal().wait_for(&published)?;
    engine.reap();
    Ok(true)
}

/// Writes `source` as a block of rows with ascending row numbers in the range `numbers`. If rows are missing in the
/// range, the source must have one more column than the table: each row's distance from the beginning of the range.
pub(crate) fn write_numbered(
    engine: &Core,
    def: &TableDef,
    source: &dyn BlockSource,
    numbers: Range<RowNumber>,
    stop: &Cancel,
) -> Result<Block> {
    let rows = source.rows();
    let mut targets = engine.column_targets(def)?;
    if numbers.end.0 - numbers.start.0 > rows as u64 {
        let file = engine.column_file(def.id, ROW_NUMBERS)?;
        targets.push(ColumnTarget { id: ROW_NUMBERS, kind: SqlType::UInt64, file });
    }
    let owner = BlockOwner { table: def.id, block: engine.ids().block() };
    let chunks = write_block(owner, source, &targets, engine.freed(), engine.threads(), stop, &|_, _| Ok(()))?;
    Ok(Block::new(owner.block, numbers, rows, chunks, None))
}

/// One block of a merge, in its state when the merge began.
pub(crate) struct MergedBlock {
    block: Arc<Block>,
    /// Positions of the live rows, ascending.
    live: Vec<u32>,
    /// The row numbers of the live rows.
    numbers: Vec<u64>,
}

impl MergedBlock {
    pub(crate) fn new(def: &TableDef, block: &Arc<Block>) -> Result<Self> {
        let deleted = block.deleted();
        let live: Vec<u32> = (0..block.rows() as u32)
            .filter(|position| deleted.is_none_or(|deleted| !deleted.contains(*position)))
            .collect();
        let row_numbers = block.row_numbers(def)?;
        let numbers = live.iter().map(|position| row_numbers.at(*position as usize)).collect();
        Ok(MergedBlock { block: Arc::clone(block), live, numbers })
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Positions of the live rows, ascending.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.live
    }

    /// The row numbers of the live rows.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Marks in `deleted` the rows that `now` has deleted since the merge began. `offset` is the position of this part
    /// in the merged block.
    pub(crate) fn deleted_since(&self, now: &Block, offset: usize, deleted: &mut RoaringBitmap) {
        let Some(gone) = now.deleted() else { return };
        for (index, position) in self.live.iter().enumerate() {
            if gone.contains(*position) {
                deleted.insert((offset + index) as u32);
            }
        }
    }

    /// The values of the live rows.
    pub(crate) fn values(&self, def: &TableDef, index: usize) -> Result<ArrayRef> {
        self.values_at(def, index, &self.live)
    }

    /// The values of the rows at `positions`, which ascend.
    pub(crate) fn values_at(&self, def: &TableDef, index: usize, positions: &[u32]) -> Result<ArrayRef> {
        values_of_block(&self.block, def, index, positions)
    }
}

struct MergedTable<'a> {
    def: &'a TableDef,
    parts: &'a [MergedBlock],
    distances: Vec<u64>,
}

impl BlockSource for MergedTable<'_> {
    fn rows(&self) -> usize {
        self.distances.len()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        if index == self.def.columns.len() {
            return Ok(Arc::new(UInt64Array::from(self.distances.clone())));
        }
        let parts: Vec<ArrayRef> = self.parts.iter().map(|part| part.values(self.def, index)).collect::<Result<_>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(|error| Error::internal(error.to_string()))
    }
}

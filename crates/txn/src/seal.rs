//! Sealing: open runs that fill a block are turned into one. When memory is short, shorter runs are sealed too. The
//! rows keep their numbers and their deletes, so readers see no difference. The rows of a time table come into the
//! order of time and exchange their numbers (`renumbering.rs`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use roaring::RoaringBitmap;
use rowmill_base::{Cancel, Error, Result, RowNumber, TableId};
use rowmill_storage::{Block, BlockOwner, BlockSource, OpenRun, TableDef, TimeOrdered, write_block};

use crate::change::{CommitChange, TableChange};
use crate::checkpoint::checkpoint_unless_busy;
use crate::commit::{publish, sync_blocks};
use crate::engine::Core;
use crate::renumbering::{Renumbering, places_of};
use crate::snapshot::TableSnapshot;

/// Seals the open runs of a table while they hold enough rows for a block.
pub(crate) fn seal_full_table(engine: &Core, id: TableId) -> Result<()> {
    let block_rows = engine.rows_per_block();
    loop {
        let snapshot = engine.latest();
        let Some(table) = snapshot.tables.get(&id) else { return Ok(()) };
        let rows: usize = table.runs.iter().map(|run| run.rows()).sum();
        if rows < block_rows || !seal_once(engine, table, block_rows)? {
            return Ok(());
        }
    }
}

/// Seals the largest open blocks, one after the other, while more than half of the memory is used and open blocks hold
/// a good part of it.
pub(crate) fn relieve_memory(engine: &Core) -> Result<()> {
    let is_short = || engine.broker().used_bytes() > engine.broker().limit_bytes() / 2;
    while is_short() {
        let snapshot = engine.latest();
        let bytes = |table: &TableSnapshot| table.runs.iter().map(|run| run.memory_bytes()).sum::<u64>();
        let open = snapshot.tables.values().map(|table| (bytes(table), table));
        let all: u64 = open.clone().map(|(bytes, _)| bytes).sum();
        let Some((_, largest)) = open.max_by_key(|(bytes, _)| *bytes) else { return Ok(()) };
        if all < engine.broker().limit_bytes() / OPEN_SHARE || !seal_once(engine, largest, engine.rows_per_block())? {
            return Ok(());
        }
        // The state of the last checkpoint still holds the sealed rows. Their memory is free only after the next
        // checkpoint.
        drop(snapshot);
        if !checkpoint_unless_busy(engine)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Open blocks may hold one part in this many of the memory limit before a shortage of memory makes us seal them.
const OPEN_SHARE: u64 = 4;

/// Seals one group of consecutive runs. Returns `false` if another commit changed the runs before this one could
/// commit.
fn seal_once(engine: &Core, table: &Arc<TableSnapshot>, block_rows: usize) -> Result<bool> {
    let group = first_group(&table.runs, block_rows);
    let rows: usize = group.iter().map(|run| run.rows()).sum();
    let first_row = group[0].first_row();
    let source = Runs { table: &table.def, runs: group, rows };
    let targets = engine.column_targets(&table.def)?;
    let owner = BlockOwner { table: table.def.id, block: engine.ids().block() };
    let (threads, cancel) = (engine.threads(), Cancel::new());
    let ordered = table.def.time_column().map(|column| TimeOrdered::new(&source, column)).transpose()?;
    let in_order = ordered.as_ref().map_or(&source as &dyn BlockSource, |ordered| ordered);
    let chunks = write_block(owner, in_order, &targets, engine.freed(), threads, &cancel, &|_, _| Ok(()))?;
    // The block must be on disk before a commit names it. We write it without the commit lock, so that commits go on.
    let numbers = first_row..RowNumber(first_row.0 + rows as u64);
    let block = Block::new(owner.block, numbers, rows, chunks, None);
    sync_blocks(engine, [Arc::new(block.clone())].iter())?;

    let order = ordered.as_ref().and_then(TimeOrdered::order);
    let places = order.map(places_of);
    let renumbered = order.map(|order| {
        let old = (first_row.0..first_row.0 + rows as u64).collect();
        Arc::new(Renumbering::exchange(old, order, engine.broker()))
    });

    let committing = engine.lock_commit();
    let current = engine.latest();
    // Other commits may have come first. We publish only if the table still has its definition and all runs of the
    // group.
    let Some(now) = current.tables.get(&table.def.id).filter(|now| Arc::ptr_eq(&now.def, &table.def)) else {
        return Ok(false);
    };
    let sealed: Vec<&Arc<OpenRun>> = now.runs.iter().filter(|run| group.iter().any(|old| old.same_rows(run))).collect();
    if sealed.len() != group.len() {
        return Ok(false);
    }
    // Deletes that were committed since are in the current runs. We carry them over to the block.
    let mut deleted = RoaringBitmap::new();
    for run in &sealed {
        let offset = (run.first_row().0 - first_row.0) as u32;
        let positions = run.deleted().into_iter().flatten().map(|position| position + offset);
        match &places {
            Some(places) => deleted.extend(positions.map(|position| places[position as usize])),
            None => deleted.extend(positions),
        }
    }
    let change = TableChange {
        blocks: vec![Arc::new(block.with_deleted(&deleted))],
        next_row: now.next_row,
        renumbered,
        ..TableChange::default()
    };
    let published = publish(engine, &current, CommitChange::of_table(&current, table.def.id, change))?;
    drop(committing);
    engine.journal().wait_for(&published)?;
    engine.reap();
    Ok(true)
}

/// The first runs that follow each other without a gap in their numbers, up to the rows of a block.
fn first_group(runs: &[Arc<OpenRun>], block_rows: usize) -> &[Arc<OpenRun>] {
    let mut rows = runs[0].rows();
    let mut count = 1;
    while count < runs.len()
        && runs[count].first_row().0 == runs[0].first_row().0 + rows as u64
        && rows + runs[count].rows() <= block_rows
    {
        rows += runs[count].rows();
        count += 1;
    }
    &runs[..count]
}

struct Runs<'a> {
    table: &'a TableDef,
    runs: &'a [Arc<OpenRun>],
    rows: usize,
}

impl BlockSource for Runs<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        let parts: Vec<ArrayRef> = self.runs.iter().map(|run| run.values(self.table, index)).collect::<Result<_>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(|error| Error::internal(error.to_string()))
    }
}

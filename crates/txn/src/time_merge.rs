//! The background merge of time tables: rewrites blocks so that few of them cover the same moment.
//!
//! Each block is sorted by time when it is made. Late rows make the time ranges of blocks overlap:
//!
//! ```text
//! time ──>       [----- a -----]
//!                         [----- b -----]        b has rows that came late
//!      [- c ----------------------------------]  c has very late ones
//! ```
//!
//! If more than [`OVERLAP_MAX`] blocks cover one moment, the widest of them are rewritten as blocks that follow each
//! other in time. This ends, because each rewrite makes the sum of all time ranges smaller. Blocks that overlap less
//! stay as they are: to have no overlap at all, we would rewrite a full block for every few late rows.
//!
//! Small and sparse blocks are rewritten together with their neighbours in time, by the rules of `merge.rs`.
//!
//! Rewritten rows get other row numbers (`renumbering.rs`). Of rows with the same time, the one with the greater number
//! was added later. This must stay so, because joins along an order and LATEST ON depend on it:
//!
//! ```text
//! numbers    0 ... 9   10 ... 19   20 ... 29   30 ... 39
//! blocks     other     group       group       other
//! ```
//!
//! If no other rows are between those of a group, the rows exchange their numbers, so all others stay before or after
//! them. Blocks that are rewritten because they are small or sparse follow each other in this way, as long as rows come
//! in the order of time. We take in a few blocks between those of a group to get there.
//!
//! The rows of other groups, which are late ones, take numbers after all others. They count as added later than rows of
//! the same time in other blocks. To keep their order too, each such row would have to store when it was added.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::{concat, take};
use roaring::RoaringBitmap;
use rowmill_base::{Cancel, Error, Result, RowNumber};
use rowmill_storage::{Block, BlockSource, TableDef, time_order, times_of};

use crate::change::{CommitChange, TableChange};
use crate::commit::{publish, sync_blocks};
use crate::engine::Core;
use crate::merge::{MergedBlock, small_group, write_numbered};
use crate::renumbering::Renumbering;
use crate::snapshot::TableSnapshot;

/// At most this many blocks may cover one moment.
const OVERLAP_MAX: usize = 4;

/// At most this many overlapping blocks are rewritten at once, because the times of all their rows are in memory.
const BLOCKS_AT_ONCE_MAX: usize = 4;

/// A group has at most this many blocks after the blocks between them have joined it.
const FILLED_BLOCKS_MAX: usize = 6;

/// Memory per row while blocks are rewritten: its time, its place in both orders, and its numbers.
const ROW_BYTES: u64 = 56;

/// The first and the last moment of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl TimeRange {
    pub(crate) fn of(def: &TableDef, time_column: usize, block: &Block) -> Result<TimeRange> {
        let zone = block.chunk_head(def, time_column)?.and_then(|head| head.zone());
        let times = zone.and_then(|zone| Some((zone.min.value, zone.max?.value)));
        // A block without bounds may have any time.
        let Some((first, last)) = times else { return Ok(TimeRange { first: i64::MIN, last: i64::MAX }) };
        let only = |value: &ArrayRef| {
            times_of(value)?.first().copied().ok_or_else(|| Error::internal("a bound of a zone map has no value"))
        };
        Ok(TimeRange { first: only(&first)?, last: only(&last)? })
    }

    /// The times that both ranges have. `None` if they have at most one moment in common, unless one of them is only
    /// that moment and within the other.
    pub(crate) fn common(self, other: TimeRange) -> Option<TimeRange> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        let is_within = |one: TimeRange, other: TimeRange| other.first < one.first && one.last < other.last;
        (first < last || is_within(self, other) || is_within(other, self)).then_some(TimeRange { first, last })
    }

    fn length(self) -> i128 {
        i128::from(self.last) - i128::from(self.first)
    }
}

/// The next group of blocks that should be rewritten together, in the order of their row numbers.
pub(crate) fn candidates(
    table: &TableSnapshot,
    time_column: usize,
    block_rows: usize,
) -> Result<Option<Vec<Arc<Block>>>> {
    let ranges = table.blocks.iter().map(|block| TimeRange::of(&table.def, time_column, block));
    let ranges = ranges.collect::<Result<Vec<_>>>()?;
    let mut in_time: Vec<usize> = (0..ranges.len()).collect();
    in_time.sort_by_key(|at| (ranges[*at].first, ranges[*at].last));
    let blocks: Vec<Arc<Block>> = in_time.iter().map(|at| Arc::clone(&table.blocks[*at])).collect();
    if let Some(mut group) = small_group(&blocks, |_, _| true, block_rows) {
        group.sort_by_key(|block| block.first_row());
        return Ok(Some(group));
    }
    let ranges_in_time: Vec<TimeRange> = in_time.iter().map(|at| ranges[*at]).collect();
    Ok(overlapping_group(&ranges_in_time).map(|group| {
        let mut group: Vec<usize> = group.into_iter().map(|at| in_time[at]).collect();
        group.sort_unstable();
        let filled: Vec<usize> = (group[0]..=group[group.len() - 1]).collect();
        // Blocks in between join only if the time ranges still become shorter, because rewrites would not end
        // otherwise.
        if filled.len() <= FILLED_BLOCKS_MAX && gain(&filled.iter().map(|at| ranges[*at]).collect::<Vec<_>>()) > 0 {
            group = filled;
        }
        group.into_iter().map(|at| Arc::clone(&table.blocks[at])).collect()
    }))
}

/// Whether no other rows of the table have numbers between those of `group`, which is in the order of its row numbers.
fn is_alone(table: &TableSnapshot, group: &[Arc<Block>]) -> bool {
    let ([first, ..], [.., last]) = (group, group) else { return true };
    let numbers = first.first_row()..last.end_row();
    let blocks = table.blocks.iter().filter(|block| numbers.contains(&block.first_row())).count();
    blocks == group.len() && !table.runs.iter().any(|run| numbers.contains(&run.first_row()))
}

/// The most ranges that cover one moment. Ranges that only touch count as one after the other.
pub(crate) fn greatest_depth(ranges: &[TimeRange]) -> usize {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| (range.first, range.last));
    let (mut covering, mut depth) = (Vec::<TimeRange>::new(), 0);
    for range in sorted {
        covering.retain(|other| other.last > range.first);
        covering.push(range);
        depth = depth.max(covering.len());
    }
    depth
}

/// Which of the ranges, which are in the order of their first moments, should be brought into order: the widest of
/// those that cover the most crowded moment. `None` if no moment is crowded.
fn overlapping_group(ranges: &[TimeRange]) -> Option<Vec<usize>> {
    let mut covering: Vec<usize> = Vec::new();
    let mut best: Option<(usize, Vec<usize>)> = None;
    for (at, range) in ranges.iter().enumerate() {
        // Ranges that only touch can stay: many rows may have the same time.
        covering.retain(|other| ranges[*other].last > range.first);
        covering.push(at);
        let depth = covering.len();
        if depth <= OVERLAP_MAX || best.as_ref().is_some_and(|(deepest, _)| *deepest >= depth) {
            continue;
        }
        let mut widest = covering.clone();
        widest.sort_by_key(|at| std::cmp::Reverse(ranges[*at].length()));
        widest.truncate(BLOCKS_AT_ONCE_MAX);
        if gain(&widest.iter().map(|at| ranges[*at]).collect::<Vec<_>>()) > 0 {
            best = Some((depth, widest));
        }
    }
    best.map(|(_, group)| group)
}

/// How much shorter the sum of the ranges is at least once they follow each other.
fn gain(ranges: &[TimeRange]) -> i128 {
    let first = ranges.iter().map(|range| range.first).min();
    let last = ranges.iter().map(|range| range.last).max();
    let (Some(first), Some(last)) = (first, last) else { return 0 };
    ranges.iter().map(|range| range.length()).sum::<i128>() - TimeRange { first, last }.length()
}

/// Rewrites `group`, blocks in the order of their row numbers, as blocks that follow each other in time. Returns
/// `false` if another commit replaced one of its blocks before this one could commit.
pub(crate) fn rewrite(
    engine: &Core,
    table: &Arc<TableSnapshot>,
    time_column: usize,
    group: &[Arc<Block>],
    stop: &Cancel,
) -> Result<bool> {
    let def = &table.def;
    let exchanges = is_alone(table, group);
    let mut memory = engine.broker().reservation("bringing blocks into the order of time");
    memory.grow(ROW_BYTES * group.iter().map(|block| block.live_rows() as u64).sum::<u64>())?;
    let parts = group.iter().map(|block| MergedBlock::new(def, block)).collect::<Result<Vec<_>>>()?;
    let old: Vec<u64> = parts.iter().flat_map(|part| part.numbers().iter().copied()).collect();
    let order = order_of(def, time_column, &parts)?;
    let mut made = Vec::new();
    for places in cut(order.len(), engine.rows_per_block()) {
        stop.check()?;
        let own = exchanges.then(|| &old[places.clone()]);
        let rows = MergedRows::new(def, &parts, &order[places.clone()], own);
        let block = write_numbered(engine, def, &rows, rows.numbers(), stop)?;
        made.push((places, Arc::new(block)));
    }
    // The blocks must be on disk before a commit names them. Commits go on until we take the lock.
    sync_blocks(engine, made.iter().map(|(_, block)| block))?;

    let committing = engine.lock_commit();
    let current = engine.latest();
    let Some(now) = current.tables.get(&def.id).filter(|now| Arc::ptr_eq(&now.def, def)) else { return Ok(false) };
    let mut change = TableChange { next_row: now.next_row, ..TableChange::default() };
    let (mut gone, mut offset) = (RoaringBitmap::new(), 0);
    for part in &parts {
        let Some(block) = now.blocks.iter().find(|block| block.id() == part.block().id()) else { return Ok(false) };
        // Rows that were deleted since we read them must not come back.
        part.deleted_since(block, offset, &mut gone);
        offset += part.numbers().len();
        let mut live: RoaringBitmap = (0..block.rows() as u32).collect();
        if let Some(deleted) = block.deleted() {
            live -= deleted;
        }
        change.deleted.insert(block.first_row(), live);
    }
    // The number of each place in the order of time.
    let mut numbers_in_order = old.clone();
    if !exchanges {
        numbers_in_order = (now.next_row.0..).take(old.len()).collect();
        change.next_row = RowNumber(now.next_row.0 + old.len() as u64);
        change.moved_rows = old.len() as u64;
    }
    for (places, block) in made {
        let block = match exchanges {
            true => Arc::unwrap_or_clone(block),
            false => block.at(RowNumber(numbers_in_order[places.start])),
        };
        let rows = (0..).zip(&order[places]);
        let deleted: RoaringBitmap =
            rows.filter(|(_, row)| gone.contains(**row)).map(|(position, _)| position).collect();
        let block = block.with_deleted(&deleted);
        if block.live_rows() > 0 {
            change.blocks.push(Arc::new(block));
        }
    }
    change.renumbered = Some(Arc::new(Renumbering::in_order(old, &numbers_in_order, &order, engine.broker())));
    let published = publish(engine, &current, CommitChange::of_table(&current, def.id, change))?;
    drop(committing);
    engine.journal().wait_for(&published)?;
    engine.reap();
    Ok(true)
}

/// The rows of all parts in the order of time, each as its index among the live rows of the parts.
fn order_of(def: &TableDef, time_column: usize, parts: &[MergedBlock]) -> Result<Vec<u32>> {
    let mut times = Vec::new();
    for part in parts {
        times.extend(times_of(&part.values(def, time_column)?)?);
    }
    let rows = u32::try_from(times.len()).map_err(|_| Error::internal("a merge has too many rows"))?;
    Ok(time_order(&times).unwrap_or_else(|| (0..rows).collect()))
}

/// Cuts rows into as few blocks as possible, of similar size.
fn cut(rows: usize, block_rows: usize) -> impl Iterator<Item = Range<usize>> {
    let size = rows.div_ceil(rows.div_ceil(block_rows).max(1)).max(1);
    (0..rows).step_by(size).map(move |start| start..rows.min(start + size))
}

/// Rows of several blocks in the order of a new one.
struct MergedRows<'a> {
    def: &'a TableDef,
    /// Parts that have rows of the block, with the positions of these rows, ascending.
    parts: Vec<(&'a MergedBlock, Vec<u32>)>,
    /// For each row of the block, its place among those of all parts, one part after the other.
    order: UInt32Array,
    /// The row numbers of the block, ascending, if it keeps those of the parts.
    own_numbers: Option<&'a [u64]>,
}

impl<'a> MergedRows<'a> {
    fn new(def: &'a TableDef, parts: &'a [MergedBlock], rows: &[u32], own_numbers: Option<&'a [u64]>) -> Self {
        let mut sorted: Vec<(u32, u32)> = rows.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let mut order = vec![0; rows.len()];
        for (place, (_, at)) in (0..).zip(&sorted) {
            order[*at as usize] = place;
        }
        let (mut taken, mut rest, mut offset) = (Vec::new(), &sorted[..], 0_u32);
        for part in parts {
            let end = offset + part.numbers().len() as u32;
            let (of_part, others) = rest.split_at(rest.partition_point(|(row, _)| *row < end));
            if !of_part.is_empty() {
                let positions = of_part.iter().map(|(row, _)| part.positions()[(row - offset) as usize]);
                taken.push((part, positions.collect()));
            }
            (rest, offset) = (others, end);
        }
        MergedRows { def, parts: taken, order: UInt32Array::from(order), own_numbers }
    }

    /// The range of the row numbers. Without numbers of their own, the rows are numbered from 0.
    fn numbers(&self) -> Range<RowNumber> {
        match self.own_numbers {
            Some(numbers @ [first, ..]) => RowNumber(*first)..RowNumber(numbers[numbers.len() - 1] + 1),
            _ => RowNumber(0)..RowNumber(self.order.len() as u64),
        }
    }
}

impl BlockSource for MergedRows<'_> {
    fn rows(&self) -> usize {
        self.order.len()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        if index == self.def.columns.len() {
            let numbers = self.own_numbers.ok_or_else(|| Error::internal("a block without row numbers of its own"))?;
            return Ok(Arc::new(UInt64Array::from_iter_values(numbers.iter().map(|number| number - numbers[0]))));
        }
        let parts = self.parts.iter().map(|(part, positions)| part.values_at(self.def, index, positions));
        let parts = parts.collect::<Result<Vec<ArrayRef>>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let joined = concat(&parts).map_err(|error| Error::internal(error.to_string()))?;
        take(&joined, &self.order, None).map_err(|error| Error::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(ranges: &[(i64, i64)]) -> Option<Vec<usize>> {
        let ranges: Vec<TimeRange> =
            ranges.iter().map(|(first, last)| TimeRange { first: *first, last: *last }).collect();
        let mut group = overlapping_group(&ranges)?;
        group.sort_unstable();
        Some(group)
    }

    #[test]
    fn blocks_stay_while_few_of_them_cover_a_moment() {
        assert_eq!(group(&[]), None);
        assert_eq!(group(&[(0, 10), (9, 20), (18, 30), (29, 40), (39, 50), (49, 60)]), None);
        assert_eq!(group(&[(0, 100), (10, 20), (15, 25), (20, 30)]), None);
        // Many rows of one moment cannot be brought into another order.
        assert_eq!(group(&[(5, 5); 20]), None);
        assert_eq!(group(&[(0, 5), (5, 5), (5, 5), (5, 5), (5, 5), (5, 9)]), None);
    }

    #[test]
    fn the_widest_blocks_of_a_crowded_moment_are_rewritten() {
        assert_eq!(group(&[(0, 100), (1, 90), (2, 80), (3, 70), (40, 50)]), Some(vec![0, 1, 2, 3]));
        assert_eq!(group(&[(0, 9); 6]).map(|group| group.len()), Some(BLOCKS_AT_ONCE_MAX));
    }

    #[test]
    fn rewriting_ends_with_few_blocks_over_each_moment() {
        // Blocks of ten rows, each with times from the whole range.
        let mut blocks: Vec<Vec<i64>> =
            (0..40).map(|block| (0..10).map(|row| (row * 7919 + block * 104_729) % 1_000).collect()).collect();
        let mut rewrites = 0;
        loop {
            blocks.iter_mut().for_each(|block| block.sort_unstable());
            blocks.sort_by_key(|block| (block[0], block[9]));
            let ranges: Vec<TimeRange> =
                blocks.iter().map(|block| TimeRange { first: block[0], last: block[9] }).collect();
            let Some(mut group) = overlapping_group(&ranges) else { break };
            group.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
            let mut rows: Vec<i64> = group.into_iter().flat_map(|at| blocks.remove(at)).collect();
            rows.sort_unstable();
            blocks.extend(rows.chunks(10).map(<[i64]>::to_vec));
            rewrites += 1;
            assert!(rewrites < 200, "the rewrites do not end");
        }
    }

    #[test]
    fn rows_are_cut_into_few_blocks_of_similar_size() {
        let sizes = |rows, block_rows| cut(rows, block_rows).map(|rows| rows.len()).collect::<Vec<_>>();
        assert_eq!(sizes(20, 10), [10, 10]);
        assert_eq!(sizes(21, 10), [7, 7, 7]);
        assert_eq!(sizes(5, 10), [5]);
    }
}

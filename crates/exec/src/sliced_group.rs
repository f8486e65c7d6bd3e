//! Groupings by a key that rises with the time, slice of time by slice of time.
//!
//! ```text
//! blocks      [--------------][--------------][--------------]
//! buckets     |   |   |   |   |   |   |   |   |   |   |   |   |
//! slices      |-----------|---------------|-------------------|
//! ```
//!
//! A slice begins where a value of the key begins, so it has all rows of its groups: they are complete when its rows
//! were read, and are never merged with those of other slices. Each worker groups one slice after the other. Memory
//! holds the groups of the slices that are being read, and these fit the caches of a core better than all groups do.
//!
//! It pays if there are many groups, and if the blocks of a table are in the order of time: the blocks at the ends of
//! slices are read twice.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::Result;
use rowmill_plan::Expr;
use rowmill_storage::{Block, OpenRun, TableDef, TableSource};

use crate::batch::{BatchSource, Batches};
use crate::fill::BucketSlices;
use crate::forced::forced;
use crate::group::{GroupRequest, group_table};
use crate::share::{share, with_nulls};
use crate::time_slices::{BlockTimes, READ_AGAIN_MAX, TimeSlices, block_times, time_array};

/// The fewest groups for which slices pay. Of 50 million rows, 1, 4, 9, 17 and 31 million groups take 1.3, 1.2, 1.0,
/// 0.96 and 0.55 of the time of a grouping of all rows.
pub(crate) const SLICED_GROUPS_MIN: f64 = (1 << 23) as f64;
/// The fewest rows of the blocks of a slice. A full block has more, and so has a slice of its own.
const SLICE_ROWS_MIN: usize = 1 << 18;

/// A grouping of a columnar table that is cut into slices of time.
pub(crate) struct GroupSlices {
    source: Arc<dyn TableSource>,
    request: GroupRequest,
    slices: TimeSlices,
    /// The time, as a position in the definition of the table.
    column: usize,
    /// The key that rises with the time.
    key: usize,
    block_times: Vec<BlockTimes>,
}

/// The rows of a table in one slice, and others in the blocks that it shares with its neighbours.
#[derive(Debug)]
struct SliceSource {
    table: Arc<TableDef>,
    blocks: Vec<Arc<Block>>,
    runs: Vec<Arc<OpenRun>>,
}

impl TableSource for SliceSource {
    fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &self.runs
    }
}

impl GroupSlices {
    /// Cuts a grouping of about `groups` groups into slices. Returns `None` if that is not possible, or if there are
    /// fewer groups than `groups_min`.
    pub(crate) fn of(
        source: &Arc<dyn TableSource>,
        request: &GroupRequest,
        (groups, groups_min): (Option<f64>, f64),
    ) -> Result<Option<GroupSlices>> {
        let pays = forced().slices || groups.is_some_and(|groups| groups >= groups_min);
        let gives_all = request.top.is_none() && request.limit.is_none() && !request.only_presence;
        if !pays || !gives_all || !request.group.always.is_empty() || source.keyed().is_some() {
            return Ok(None);
        }
        for (key, group_key) in request.group.keys.iter().enumerate() {
            let column = match group_key.expr {
                Expr::Column(column) => column,
                Expr::Function(function) if request.functions[function].is_ascending() => {
                    request.functions[function].columns()[0]
                }
                Expr::Function(_) => continue,
            };
            let definition = &source.table().columns[column];
            let kind = definition.kind.arrow();
            if definition.nullable || !matches!(kind, DataType::Timestamp(..) | DataType::Date32) {
                continue;
            }
            let block_times = block_times(&**source, column)?;
            let Some(bounds) = bounds(&block_times, |times| key_values(request, key, times, &kind))? else { continue };
            let rows_in_runs: usize = source.runs().iter().map(|run| run.rows()).sum();
            let of_blocks = TimeSlices::new(bounds.of_blocks, kind.clone());
            if of_blocks.reads(&block_times, rows_in_runs) <= READ_AGAIN_MAX {
                let slices = TimeSlices::new(bounds.all, kind);
                let request = GroupRequest { threads: 1, counts_workers: false, ..request.clone() };
                let source = Arc::clone(source);
                return Ok(Some(GroupSlices { source, request, slices, column, key, block_times }));
            }
        }
        Ok(None)
    }

    /// The key that rises with the time, as a position in the columns of the result.
    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Groups the rows of a slice, into batches of at most `batch_rows` rows.
    fn groups(&self, slice: usize, batch_rows: usize) -> Result<Batches> {
        let (from, to) = self.slices.range(slice);
        let is_in =
            |times: &BlockTimes| from.is_none_or(|from| times.max >= from) && to.is_none_or(|to| times.min < to);
        let blocks = self.source.blocks().iter().zip(&self.block_times);
        let source: Arc<dyn TableSource> = Arc::new(SliceSource {
            table: Arc::clone(self.source.table()),
            blocks: blocks.filter(|(_, times)| is_in(times)).map(|(block, _)| Arc::clone(block)).collect(),
            runs: self.source.runs().to_vec(),
        });
        let mut request = GroupRequest { batch_rows, ..self.request.clone() };
        request.group.predicates.extend(self.slices.predicates(slice, self.column, 0)?);
        Ok(group_table(&source, request)?.worker())
    }
}

/// Times at which slices should begin: a value of the key begins there. `key_of` gives the values of the key for times.
/// Returns `None` if the slices would be too few.
///
/// ```text
/// blocks      [------------------][-----------------][------
/// buckets     |     |     |     |     |     |     |     |
/// slices      |-----------------|-----|-----------|-----|---
/// ```
///
/// The buckets of a slice are in one block, or in the last rows of some blocks and the first rows of others. The groups
/// of one block need no merge, so only few groups do.
fn bounds(block_times: &[BlockTimes], key_of: impl Fn(&[i64]) -> Result<ArrayRef>) -> Result<Option<SliceBounds>> {
    // A block without a zone has the least of all times, and the differences below would overflow.
    let first = block_times.iter().map(|block| block.min).min().filter(|first| *first > i64::MIN / 2);
    let Some(first) = first else { return Ok(None) };
    let mut blocks = block_times.to_vec();
    blocks.sort_unstable_by_key(|block| block.min);
    let rows_min = if forced().slices { 1 } else { SLICE_ROWS_MIN };
    // The first time of the blocks of a slice, and the last time of all blocks before.
    let (mut starts, mut ends): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut rows_before, mut last) = (0, first);
    for BlockTimes { min, max, rows } in blocks {
        if rows_before >= rows_min && min > first && starts.last() != Some(&min) {
            starts.push(min);
            ends.push(last);
            rows_before = 0;
        }
        rows_before += rows;
        last = last.max(max);
    }
    if starts.is_empty() {
        return Ok(None);
    }
    // A key that cannot be computed for a time means that the rows must be grouped together, which then gives the
    // error.
    let (Ok(keys), Ok(keys_of_ends)) = (key_of(&starts), key_of(&ends)) else { return Ok(None) };
    let Some(starts) = first_times(vec![first; starts.len()], starts, (&keys, true), &key_of) else { return Ok(None) };
    let past_end = vec![last.saturating_add(1); ends.len()];
    let Some(ends) = first_times(ends, past_end, (&keys_of_ends, false), &key_of) else { return Ok(None) };
    let mut all = starts.clone();
    // A bucket that begins in one block and ends in another is a slice of its own, unless the next slice begins in it.
    for (place, (start, end)) in starts.iter().zip(ends).enumerate() {
        if end > *start && starts.get(place + 1).is_none_or(|next| end < *next) && end <= last {
            all.push(end);
        }
    }
    let settled = |mut bounds: Vec<i64>| {
        bounds.sort_unstable();
        bounds.dedup();
        // The rows before the first bound have another key, or there are none.
        bounds.retain(|bound| *bound > first);
        bounds
    };
    let bounds = SliceBounds { all: settled(all), of_blocks: settled(starts) };
    Ok((!bounds.of_blocks.is_empty()).then_some(bounds))
}

/// The times at which slices begin.
struct SliceBounds {
    all: Vec<i64>,
    /// Without the ends of buckets that begin in one block and end in another. These buckets have few rows, although
    /// they touch several blocks.
    of_blocks: Vec<i64>,
}

/// For each place the first time from `low` to `high` whose key is, or is not, the one in `keys`. At `high` it must be.
/// Returns `None` if a key cannot be computed.
fn first_times(
    mut low: Vec<i64>,
    mut high: Vec<i64>,
    (keys, has_key): (&ArrayRef, bool),
    key_of: impl Fn(&[i64]) -> Result<ArrayRef>,
) -> Option<Vec<i64>> {
    while low != high {
        let middle: Vec<i64> = low.iter().zip(&high).map(|(low, high)| low + (high - low) / 2).collect();
        let found = key_of(&middle).ok()?;
        let is_same = not_distinct(&found, keys).ok()?;
        for (place, middle) in middle.into_iter().enumerate() {
            match is_same.value(place) == has_key {
                true => high[place] = middle,
                false => low[place] = (middle + 1).min(high[place]),
            }
        }
    }
    Some(high)
}

/// The values of a key for times.
fn key_values(request: &GroupRequest, key: usize, times: &[i64], kind: &DataType) -> Result<ArrayRef> {
    let times = time_array(times, kind)?;
    let rows = times.len();
    match request.group.keys[key].expr {
        Expr::Column(_) => Ok(times),
        Expr::Function(function) => request.functions[function].evaluate(&[times], rows),
    }
}

impl BucketSlices for GroupSlices {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn count(&self) -> usize {
        self.slices.count()
    }

    fn rows(&self, slice: usize) -> Result<Batches> {
        // The reader needs all rows of a slice at once, and would have to join batches.
        self.groups(slice, usize::MAX)
    }

    fn count_worker(&self) {
        self.request.metrics.workers.fetch_add(1, Ordering::Relaxed);
    }
}

/// A grouping whose workers group slices of time.
pub(crate) struct SlicedGroup {
    slices: GroupSlices,
    schema: SchemaRef,
    next: AtomicUsize,
}

impl SlicedGroup {
    pub(crate) fn new(slices: GroupSlices) -> Arc<SlicedGroup> {
        let schema = with_nulls(&slices.request.schema);
        Arc::new(SlicedGroup { slices, schema, next: AtomicUsize::new(0) })
    }
}

impl fmt::Debug for GroupSlices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupSlices").field("request", &self.request).field("slices", &self.slices).finish()
    }
}

impl fmt::Debug for SlicedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedGroup").field("slices", &self.slices).finish()
    }
}

impl BatchSource for SlicedGroup {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.slices.count()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut groups: Option<Batches> = None;
        let mut has_slice = false;
        share(move || {
            loop {
                if let Some(batch) = groups.as_mut().and_then(Iterator::next) {
                    return batch.map(Some);
                }
                self.slices.request.cancel.check()?;
                let slice = self.next.fetch_add(1, Ordering::Relaxed);
                if slice >= self.slices.count() {
                    return Ok(None);
                }
                if !std::mem::replace(&mut has_slice, true) {
                    self.slices.count_worker();
                }
                groups = Some(self.slices.groups(slice, self.slices.request.batch_rows)?);
            }
        })
    }
}

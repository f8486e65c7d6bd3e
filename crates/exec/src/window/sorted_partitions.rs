//! Windows over rows on disk that come in the order of the window, mostly from a sort by partition and order.
//!
//! The rows come in the order of the window, and are computed in stretches (stretch.rs). A stretch should have whole
//! partitions. If a partition is larger than a stretch, we cut it between two groups of peers, or anywhere if no call
//! asks for peers. That needs calls that can go on from stretch to stretch (running.rs). Some other calls can do so in
//! two passes (passes.rs). A partition with any other call must fit memory, and so must a group of peers.
//!
//! Most windows go into buckets instead, which costs less.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, ErrorKind, Reservation, Result, SpillableMemory};
use rowmill_plan::logical::RankFunction;
use rowmill_plan::{SortKey, WindowFunction};

use super::evaluate::call_needs_peers;
use super::held::HeldPlace;
use super::passes::{FirstPass, PartitionPass, TwoPasses};
use super::running::CallReach;
use super::stretch::{OpenPartition, StretchRows, borders, compute_stretch};
use super::windowing::computing_bytes;
use super::{OWNER, WindowRequest};
use crate::batch::{BatchSource, Batches};
use crate::join::without_unused_texts;
use crate::share::batch_of;
use crate::sort::{HeldBuffers, Sort, SortRequest};
use crate::values::ReadyBatches;

/// The memory limit divided by the bytes of a stretch. Computing it needs about the same again for results, and the
/// sort needs memory too.
const STRETCH_SHARE: u64 = 16;
/// The most bytes of a stretch, unless its partition needs more. Between two stretches we check whether the statement
/// was cancelled.
const STRETCH_BYTES_MAX: u64 = 1 << 24;

/// Prepares a sort that puts each partition of a window in one piece, in the order of the window. It sorts only the
/// rows that feeders add, which have the columns of `schema`.
pub(super) fn sort_of_partitions(schema: &SchemaRef, request: &WindowRequest) -> Result<Arc<Sort>> {
    let of_partition = |column: &usize| SortKey { column: *column, descending: false, nulls_first: false };
    let keys = request.partition.iter().map(of_partition).chain(request.order.iter().copied());
    let sort = SortRequest {
        keys: keys.collect(),
        skip: 0,
        rows: request.limit.filter(|limit| *limit > 0 && request.partition.is_empty() && only_numbers(request)),
        schema: Arc::clone(schema),
        batch_rows: request.batch_rows,
        cancel: request.cancel.clone(),
        broker: request.broker.clone(),
        temp: request.temp.clone(),
    };
    Sort::new(ReadyBatches::new(Arc::clone(schema), Vec::new()), sort)
}

/// Whether a window has only `row_number`. The rows after its limit then cannot matter. Other calls may look at later
/// rows (an aggregate) or return ties (rank).
pub(super) fn only_numbers(request: &WindowRequest) -> bool {
    request.calls.iter().all(|call| matches!(call.function, WindowFunction::Rank(RankFunction::RowNumber)))
}

/// Computes a window over sorted rows, a stretch at a time.
pub(super) struct SortedPartitions {
    sorted: Option<Batches>,
    /// The request, with the memory for computing. Its bytes are bounded by those of the held rows, so it is always
    /// granted.
    request: WindowRequest,
    _computing: SpillableMemory,
    /// How the calls reach beyond a stretch. `None` if one of them needs its whole partition.
    reaches: Option<Vec<CallReach>>,
    /// The calls for two passes over a large partition, if one of them needs its whole partition.
    passes: Option<TwoPasses>,
    /// The first pass over the partition at hand.
    first: Option<FirstPass>,
    /// The second pass over the partition before.
    second: Option<PartitionPass>,
    /// Rows that were not computed yet.
    pending: Vec<RecordBatch>,
    /// The number of these rows.
    rows: usize,
    /// The partition that the first pending row goes on with.
    open: Option<OpenPartition>,
    memory: Reservation,
    /// The bytes of pending rows at which the next stretch is cut.
    cut_bytes: u64,
    held: HeldBuffers,
}

/// The end of a stretch.
struct StretchEnd {
    rows: usize,
    /// Whether the last partition goes on after it.
    goes_on: bool,
}

impl SortedPartitions {
    /// Computes the window over `rows`, which must be in its order.
    pub(super) fn new(rows: Arc<dyn BatchSource>, request: &WindowRequest) -> Result<SortedPartitions> {
        let computing = request.broker.spillable();
        let request = WindowRequest { broker: computing.broker().clone(), ..request.clone() };
        let reaches = request.calls.iter().map(CallReach::of).collect::<Result<Vec<_>>>()?;
        // Without ORDER BY, all rows of a partition are peers.
        let needs_peers = request.calls.iter().any(call_needs_peers);
        let is_whole = reaches.contains(&CallReach::Partition) || needs_peers && request.order.is_empty();
        Ok(SortedPartitions {
            passes: if is_whole { TwoPasses::of(&request, rows.schema())? } else { None },
            sorted: Some(rows.worker()),
            reaches: (!is_whole).then_some(reaches),
            first: None,
            second: None,
            pending: Vec::new(),
            open: None,
            rows: 0,
            memory: request.broker.reservation(OWNER),
            cut_bytes: stretch_bytes(&request),
            held: HeldBuffers::default(),
            request,
            _computing: computing,
        })
    }

    /// Computes the next rows and appends them to `ready`. Appends nothing at the end.
    pub(super) fn compute_next(&mut self, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        while ready.is_empty() {
            self.request.cancel.check()?;
            if let Some(second) = &mut self.second {
                match second.next_batch()? {
                    Some(batch) => ready.push_back(batch),
                    None => self.second = None,
                }
                continue;
            }
            let Some(end) = self.next_end()? else { break };
            self.compute(end, ready)?;
        }
        Ok(())
    }

    /// Reads rows until the next stretch has an end. `None` if no rows are left.
    fn next_end(&mut self) -> Result<Option<StretchEnd>> {
        while let Some(sorted) = &mut self.sorted {
            self.request.cancel.check()?;
            let Some(batch) = sorted.next().transpose()? else {
                self.sorted = None;
                break;
            };
            self.hold(&batch)?;
            if self.pending_bytes() < self.cut_bytes {
                continue;
            }
            if let Some(end) = self.stretch_end()? {
                self.cut_bytes = stretch_bytes(&self.request);
                return Ok(Some(end));
            }
            // To look for an end takes time for all rows that are held, so we look again when they are half as many
            // again.
            self.cut_bytes = self.pending_bytes() / 2 * 3;
        }
        if self.rows == 0 {
            return Ok(None);
        }
        let partitions = borders(&self.pending, &self.request.partition)?;
        let rows = if self.first.is_some() { partitions[1] } else { self.rows };
        Ok(Some(StretchEnd { rows, goes_on: false }))
    }

    /// The bytes of the pending rows and of their places, because rows may have no columns.
    fn pending_bytes(&self) -> u64 {
        (self.held.bytes() + self.rows * size_of::<HeldPlace>()) as u64
    }

    fn hold(&mut self, batch: &RecordBatch) -> Result<()> {
        // Texts that a merge returns refer to the blocks that it has read, which would stay in memory as a whole.
        let columns = batch.columns().iter().map(without_unused_texts).collect();
        let batch = batch_of(OWNER, batch.schema_ref(), columns, batch.num_rows())?;
        self.held.add(&batch);
        let (held, limit) = (self.held.bytes() as u64, self.request.broker.limit_bytes());
        // Computing a partition takes memory too.
        if held > limit / 4 * 3 {
            let part = if self.reaches.is_some() || self.first.is_some() { "group of peers" } else { "partition" };
            let message = format!(
                "{OWNER} has a {part} whose rows have more than {held} bytes, more than three quarters of the memory \
                 limit of {limit} bytes"
            );
            return Err(Error::new(ErrorKind::MemoryLimit, message).hint("raise it with SET memory_limit = '...'"));
        }
        self.memory.recount(held);
        self.rows += batch.num_rows();
        self.pending.push(batch);
        Ok(())
    }

    /// Where the next stretch may end. `None` if more rows are needed.
    fn stretch_end(&mut self) -> Result<Option<StretchEnd>> {
        let partitions = borders(&self.pending, &self.request.partition)?;
        let &[.., last, rows] = &partitions[..] else { return Ok(None) };
        // The rows up to the last partition complete all partitions before it. A first pass is over one partition.
        if last > 0 {
            let rows = if self.first.is_some() { partitions[1] } else { last };
            return Ok(Some(StretchEnd { rows, goes_on: false }));
        }
        self.begin_first_pass();
        let (request, Some(reaches)) = self.calls() else { return Ok(None) };
        // At least one more row must be there, so that we know that the partition goes on.
        let most = rows.saturating_sub(rows_ahead(reaches).max(1));
        let end = match request.calls.iter().any(call_needs_peers) {
            true => {
                let order = request.order.iter().map(|key| key.column).collect::<Vec<_>>();
                let groups = borders(&self.pending, &order)?;
                groups[..groups.partition_point(|start| *start <= most)].last().copied().unwrap_or_default()
            }
            false => most,
        };
        Ok((end > 0).then_some(StretchEnd { rows: end, goes_on: true }))
    }

    /// Begins a first pass if the pending rows are too many to be computed at once.
    fn begin_first_pass(&mut self) {
        let Some(passes) = self.passes.as_ref().filter(|_| self.first.is_none()) else { return };
        let bytes = self.held.bytes() as u64 + computing_bytes(self.rows, self.request.calls.len());
        if bytes > self.request.broker.limit_bytes() / 2 {
            self.first = Some(FirstPass::new(passes));
        }
    }

    /// The request of the pass at hand, and how its calls reach beyond a stretch.
    fn calls(&self) -> (&WindowRequest, Option<&[CallReach]>) {
        match &self.passes {
            Some(passes) if self.first.is_some() => (&passes.request, Some(&passes.reaches)),
            _ => (&self.request, self.reaches.as_deref()),
        }
    }

    fn compute(&mut self, end: StretchEnd, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let StretchEnd { rows, goes_on } = end;
        let (own, rest) = split(std::mem::take(&mut self.pending), rows);
        let open = self.open.take();
        let (request, reaches) = self.calls();
        let ahead = if goes_on { reaches.map_or(0, rows_ahead) } else { 0 };
        let mut memory = request.broker.reservation(OWNER);
        memory.grow(computing_bytes(rows, request.calls.len()))?;
        let needs_peers = request.calls.iter().any(call_needs_peers);
        let ahead = split(rest.clone(), ahead).0;
        let (batches, open) =
            compute_stretch(StretchRows { own, ahead, open, reaches, goes_on, needs_peers }, request)?;
        self.held = HeldBuffers::default();
        rest.iter().for_each(|batch| self.held.add(batch));
        open.iter().for_each(|open| open.each_batch(|batch| self.held.add(batch)));
        self.memory.recount(self.held.bytes() as u64);
        (self.pending, self.open) = (rest, open);
        self.rows -= rows;
        self.give(batches, goes_on, ready)
    }

    /// Returns computed rows, or writes them if they are those of a first pass.
    fn give(&mut self, batches: Vec<RecordBatch>, goes_on: bool, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let (Some(first), Some(passes)) = (&mut self.first, &self.passes) else {
            ready.extend(batches);
            return Ok(());
        };
        batches.iter().try_for_each(|batch| first.add(batch))?;
        if !goes_on {
            let first = self.first.take();
            self.second = first.map(|first| first.finish(passes, &self.request.schema)).transpose()?;
        }
        Ok(())
    }
}

/// The bytes that a stretch should have.
fn stretch_bytes(request: &WindowRequest) -> u64 {
    (request.broker.limit_bytes() / STRETCH_SHARE).min(STRETCH_BYTES_MAX)
}

/// The number of rows after a stretch that calls need.
fn rows_ahead(reaches: &[CallReach]) -> usize {
    let after = |reach: &CallReach| if let CallReach::Near { after, .. } = reach { *after } else { 0 };
    reaches.iter().map(after).max().unwrap_or_default()
}

/// Splits rows after the first `rows` of them.
fn split(batches: Vec<RecordBatch>, rows: usize) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
    let (mut first, mut rest, mut left) = (Vec::new(), Vec::new(), rows);
    for batch in batches {
        let taken = left.min(batch.num_rows());
        left -= taken;
        if taken > 0 {
            first.push(batch.slice(0, taken));
        }
        if taken < batch.num_rows() {
            rest.push(batch.slice(taken, batch.num_rows() - taken));
        }
    }
    (first, rest)
}

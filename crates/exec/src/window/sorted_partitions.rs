//! Windows over rows that a sort by partition and order has put on disk.
//!
//! The rows come in the order of the window, and are computed in stretches (stretch.rs). A stretch should have whole
//! partitions. If a partition is larger than a stretch, we cut it between two groups of peers, or anywhere if no call
//! asks for peers. That needs calls that can go on from stretch to stretch (running.rs). A partition with other calls
//! must fit memory, and so must a group of peers.
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
    needs_peers: bool,
    /// Rows that were not computed yet.
    pending: Vec<RecordBatch>,
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
    pub(super) fn new(sort: &Arc<Sort>, request: &WindowRequest) -> Result<SortedPartitions> {
        let computing = request.broker.spillable();
        let reaches = request.calls.iter().map(CallReach::of).collect::<Result<Vec<_>>>()?;
        Ok(SortedPartitions {
            sorted: Some((Arc::clone(sort) as Arc<dyn BatchSource>).worker()),
            reaches: (!reaches.contains(&CallReach::Partition)).then_some(reaches),
            needs_peers: request.calls.iter().any(call_needs_peers),
            pending: Vec::new(),
            open: None,
            memory: request.broker.reservation(OWNER),
            cut_bytes: request.broker.limit_bytes() / STRETCH_SHARE,
            held: HeldBuffers::default(),
            request: WindowRequest { broker: computing.broker().clone(), ..request.clone() },
            _computing: computing,
        })
    }

    /// Computes the next rows and appends them to `ready`. Appends nothing at the end.
    pub(super) fn compute_next(&mut self, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        while let Some(sorted) = &mut self.sorted {
            self.request.cancel.check()?;
            let Some(batch) = sorted.next().transpose()? else {
                self.sorted = None;
                break;
            };
            self.hold(&batch)?;
            let held = self.held.bytes() as u64;
            if held < self.cut_bytes {
                continue;
            }
            match self.stretch_end()? {
                Some(end) => {
                    self.compute(end, ready)?;
                    self.cut_bytes = self.request.broker.limit_bytes() / STRETCH_SHARE;
                }
                // To look for an end takes time for all rows that are held, so we look again when they are half as many
                // again.
                None => self.cut_bytes = held + held / 2,
            }
            if !ready.is_empty() {
                return Ok(());
            }
        }
        let rows = self.pending.iter().map(RecordBatch::num_rows).sum();
        if rows > 0 { self.compute(StretchEnd { rows, goes_on: false }, ready) } else { Ok(()) }
    }

    fn hold(&mut self, batch: &RecordBatch) -> Result<()> {
        // Texts that a merge returns refer to the blocks that it has read, which would stay in memory as a whole.
        let columns = batch.columns().iter().map(without_unused_texts).collect();
        let batch = batch_of(OWNER, batch.schema_ref(), columns, batch.num_rows())?;
        self.held.add(&batch);
        let (held, limit) = (self.held.bytes() as u64, self.request.broker.limit_bytes());
        // Computing a partition takes memory too.
        if held > limit / 4 * 3 {
            let part = if self.reaches.is_some() { "group of peers" } else { "partition" };
            let message = format!(
                "{OWNER} has a {part} whose rows have more than {held} bytes, more than three quarters of the memory \
                 limit of {limit} bytes"
            );
            return Err(Error::new(ErrorKind::MemoryLimit, message).hint("raise it with SET memory_limit = '...'"));
        }
        self.memory.recount(held);
        self.pending.push(batch);
        Ok(())
    }

    /// Where the next stretch may end. `None` if more rows are needed.
    fn stretch_end(&self) -> Result<Option<StretchEnd>> {
        let partitions = borders(&self.pending, &self.request.partition)?;
        let &[.., last, rows] = &partitions[..] else { return Ok(None) };
        // The rows up to the last partition complete all partitions before it.
        if last > 0 {
            return Ok(Some(StretchEnd { rows: last, goes_on: false }));
        }
        let Some(ahead) = self.ahead() else { return Ok(None) };
        // At least one more row must be there, so that we know that the partition goes on.
        let most = rows.saturating_sub(ahead.max(1));
        let end = match self.needs_peers {
            true => {
                let order = self.request.order.iter().map(|key| key.column).collect::<Vec<_>>();
                let groups = borders(&self.pending, &order)?;
                groups[..groups.partition_point(|start| *start <= most)].last().copied().unwrap_or_default()
            }
            false => most,
        };
        Ok((end > 0).then_some(StretchEnd { rows: end, goes_on: true }))
    }

    /// The number of rows after a stretch that its calls need. `None` if they need all rows of the partition.
    fn ahead(&self) -> Option<usize> {
        let after = |reach: &CallReach| if let CallReach::Near { after, .. } = reach { *after } else { 0 };
        self.reaches.as_ref().map(|reaches| reaches.iter().map(after).max().unwrap_or_default())
    }

    fn compute(&mut self, end: StretchEnd, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let StretchEnd { rows, goes_on } = end;
        let (own, rest) = split(std::mem::take(&mut self.pending), rows);
        let ahead = if goes_on { self.ahead().unwrap_or_default() } else { 0 };
        let mut memory = self.request.broker.reservation(OWNER);
        memory.grow(computing_bytes(rows, self.request.calls.len()))?;
        let stretch = StretchRows {
            own,
            ahead: split(rest.clone(), ahead).0,
            open: self.open.take(),
            reaches: self.reaches.as_deref(),
            goes_on,
            needs_peers: self.needs_peers,
        };
        let (batches, open) = compute_stretch(stretch, &self.request)?;
        ready.extend(batches);
        self.held = HeldBuffers::default();
        rest.iter().for_each(|batch| self.held.add(batch));
        open.iter().for_each(|open| open.each_batch(|batch| self.held.add(batch)));
        self.memory.recount(self.held.bytes() as u64);
        (self.pending, self.open) = (rest, open);
        Ok(())
    }
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

//! Windows over rows that a sort by partition and order has put on disk.
//!
//! The result of the sort has each partition in one piece, so we take as many whole partitions as fit memory, and
//! compute the window over them as usual. Most windows go into buckets instead, which costs less. The sort is for
//! partitions that are too large for that.
//!
//! A single partition must fit memory, because its results may depend on any of its rows.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, ErrorKind, Reservation, Result, SpillableMemory};
use rowmill_plan::SortKey;

use super::sorted::boundaries;
use super::windowing::Windowing;
use super::{OWNER, WindowRequest, failed};
use crate::batch::{BatchSource, Batches};
use crate::sort::{HeldBuffers, Sort, SortRequest, canonical};
use crate::values::ReadyBatches;

/// The memory limit divided by the bytes of partitions that are computed at once. The window over them needs about the
/// same again for its entries and results, and the sort needs memory too.
const CHUNK_SHARE: u64 = 16;

/// Prepares a sort that puts each partition of a window in one piece, in the order of the window. It sorts only the
/// rows that feeders add, which have the columns of `schema`.
pub(super) fn sort_of_partitions(schema: &SchemaRef, request: &WindowRequest) -> Result<Arc<Sort>> {
    let of_partition = |column: &usize| SortKey { column: *column, descending: false, nulls_first: false };
    let keys = request.partition.iter().map(of_partition).chain(request.order.iter().copied());
    let sort = SortRequest {
        keys: keys.collect(),
        skip: 0,
        rows: None,
        schema: Arc::clone(schema),
        batch_rows: request.batch_rows,
        cancel: request.cancel.clone(),
        broker: request.broker.clone(),
        temp: request.temp.clone(),
    };
    Sort::new(ReadyBatches::new(Arc::clone(schema), Vec::new()), sort)
}

/// Computes a window over sorted rows, some partitions at a time.
pub(super) struct SortedPartitions {
    sorted: Option<Batches>,
    request: WindowRequest,
    schema: SchemaRef,
    /// Rows of partitions that were not computed yet. Only the last partition may go on.
    pending: Vec<RecordBatch>,
    held: HeldBuffers,
    memory: Reservation,
    /// The memory for computing. Its bytes are bounded by those of the held rows, so it is always granted.
    computing: SpillableMemory,
}

impl SortedPartitions {
    pub(super) fn new(sort: &Arc<Sort>, request: &WindowRequest) -> SortedPartitions {
        SortedPartitions {
            schema: Arc::clone(sort.schema()),
            sorted: Some((Arc::clone(sort) as Arc<dyn BatchSource>).worker()),
            request: request.clone(),
            pending: Vec::new(),
            held: HeldBuffers::default(),
            memory: request.broker.reservation(OWNER),
            computing: request.broker.spillable(),
        }
    }

    /// Computes the next partitions and appends their rows to `ready`. Appends nothing at the end.
    pub(super) fn compute_next(&mut self, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        while let Some(sorted) = &mut self.sorted {
            let Some(batch) = sorted.next().transpose()? else {
                self.sorted = None;
                break;
            };
            let chunk_bytes = self.request.broker.limit_bytes() / CHUNK_SHARE;
            let is_full = self.held.bytes() as u64 >= chunk_bytes;
            // The rows up to the last partition of the batch complete all partitions before it.
            let start = if is_full { self.start_of_last_partition(&batch)? } else { None };
            let Some(start) = start else {
                self.hold(batch)?;
                continue;
            };
            if start > 0 {
                self.hold(batch.slice(0, start))?;
            }
            let complete = std::mem::take(&mut self.pending);
            self.compute(complete, ready)?;
            self.held = HeldBuffers::default();
            self.memory.recount(0);
            self.hold(batch.slice(start, batch.num_rows() - start))?;
            if !ready.is_empty() {
                return Ok(());
            }
        }
        let complete = std::mem::take(&mut self.pending);
        self.compute(complete, ready)?;
        self.memory.recount(0);
        Ok(())
    }

    fn hold(&mut self, batch: RecordBatch) -> Result<()> {
        self.held.add(&batch);
        let (held, limit) = (self.held.bytes() as u64, self.request.broker.limit_bytes());
        // Computing a partition takes about as much memory as its rows.
        if held > limit / 2 {
            let message = format!(
                "{OWNER} has a partition whose rows have more than {held} bytes, more than half of the memory limit of \
                 {limit} bytes"
            );
            return Err(Error::new(ErrorKind::MemoryLimit, message).hint("raise it with SET memory_limit = '...'"));
        }
        self.memory.recount(held);
        self.pending.push(batch);
        Ok(())
    }

    /// The first row of the last partition of `batch`, unless that partition began in an earlier batch.
    fn start_of_last_partition(&self, batch: &RecordBatch) -> Result<Option<usize>> {
        let columns = self.partition_columns(batch)?;
        let ends = boundaries(&columns, batch.num_rows())?;
        let start = ends[ends.len() - 2];
        if start > 0 {
            return Ok(Some(start));
        }
        let Some(before) = self.pending.last() else { return Ok(None) };
        let last = self.partition_columns(&before.slice(before.num_rows() - 1, 1))?;
        let pairs = last.iter().zip(&columns).map(|(last, column)| concat(&[&**last, &*column.slice(0, 1)]));
        let pairs = pairs.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        // Rows of different partitions have a border between them.
        Ok((boundaries(&pairs, 2)?.len() > 2).then_some(0))
    }

    /// The columns that are equal in all rows of a partition.
    fn partition_columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        // Zeros of both signs are in one partition, and so are all NaNs.
        self.request.partition.iter().map(|column| canonical(batch.column(*column))).collect()
    }

    fn compute(&self, batches: Vec<RecordBatch>, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        let input = ReadyBatches::new(Arc::clone(&self.schema), batches);
        let request = WindowRequest { broker: self.computing.broker().clone(), ..self.request.clone() };
        for batch in Arc::new(Windowing::of_held(input, request)).share() {
            ready.push_back(batch?);
        }
        Ok(())
    }
}

//! Runs: sorted pieces of the input.
//!
//! A run is self-contained: it has its rows in sorted order in arrays of its own, and next to them their keys. Reading
//! a run in order therefore reads memory from front to back. That makes merging cheap while runs are in memory, and it
//! is also the form in which a run could be written elsewhere and read back piece by piece. Only texts may stay in the
//! buffers in which they came, as long as at least half of the buffers' bytes belong to them, because copying short
//! texts takes longer than reading them where they are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::{ByteViewType, DataType, SchemaRef};
use arrow::error::ArrowError;
use rowmill_base::{Broker, Error, Reservation, Result};

use super::OWNER;
use super::entry::{Entry, PART_ROWS_MAX, RowPlace};
use super::held::{HeldBuffers, bytes_of_rows, bytes_of_texts, copied};
use super::key::KeyLayout;
use super::long::LongKeys;
use super::order::EntryOrder;
use crate::share::batch_of;

/// The number of rows that a run should have. The last batch may add more. Longer runs mean fewer runs to merge, but a
/// worker that sorts its last run alone lets the others wait. With 2^16 to 2^19 rows, sorting ClickBench's users, times
/// and addresses takes equally long. It is small in tests, so that they have many runs.
pub(super) const RUN_ROWS: usize = if cfg!(test) { 1 << 8 } else { PART_ROWS_MAX / 4 };
/// Batches with this many bytes become a run even if they have fewer rows, which bounds what a worker holds unsorted.
const RUN_BYTES: usize = 1 << 26;

/// The most bytes of a run with short memory: making a run takes its bytes twice.
fn run_bytes(broker: &Broker) -> usize {
    RUN_BYTES.min(broker.limit_bytes() as usize / 16)
}

/// The bytes that batches may keep alive beyond their own rows before we copy the rows of a batch. This bounds the
/// memory that a run holds in vain.
const UNUSED_BYTES_MAX: usize = 1 << 24;

const _: () = assert!(2 * RUN_ROWS <= PART_ROWS_MAX, "every row of a run must have a place, whatever the last batch");

/// Some rows in sorted order.
pub(super) struct SortedRun<E> {
    pub(super) batch: RecordBatch,
    /// The keys of the rows, above their places in the run.
    pub(super) entries: Vec<E>,
    /// The bytes of keys that do not fit their entries.
    pub(super) long: Option<LongKeys>,
    pub(super) memory: Reservation,
}

/// The schema, the keys and the memory of a sort: everything that is needed to make runs.
#[derive(Clone, Debug)]
pub(super) struct RunFormat {
    pub(super) schema: SchemaRef,
    pub(super) layout: Arc<KeyLayout>,
    pub(super) broker: Broker,
}

impl RunFormat {
    pub(super) fn reservation(&self) -> Reservation {
        self.broker.reservation(OWNER)
    }

    /// The order of entries. `long` has the long keys of the parts that the places of the entries refer to.
    pub(super) fn order<'a>(&self, long: impl IntoIterator<Item = &'a LongKeys>) -> EntryOrder<'a> {
        match self.layout.long() {
            None => EntryOrder::of_entries(),
            Some(layout) => EntryOrder::of_long(long.into_iter().collect(), layout.is_descending()),
        }
    }

    /// Makes a run of the rows at `entries`, in that order. Their places refer to `parts`. `memory` is the memory of
    /// the parts. It grows by the memory that gathering needs, and in the end it is the memory of the run.
    pub(super) fn gather<E: Entry>(
        &self,
        parts: Vec<RecordBatch>,
        mut entries: Vec<E>,
        mut memory: Reservation,
    ) -> Result<SortedRun<E>> {
        let rows: usize = parts.iter().map(RecordBatch::num_rows).sum();
        let bytes: usize = parts.iter().map(bytes_of_rows).sum();
        memory.grow((entries.len() * (bytes / rows.max(1) + size_of::<(usize, usize)>())) as u64)?;
        let columns = gather(&parts.iter().collect::<Vec<_>>(), &entries)?;
        let columns = columns.iter().map(|column| compact(column, &mut memory)).collect::<Result<_>>()?;
        let batch = batch_of(OWNER, &self.schema, columns, entries.len())?;
        // The old rows are freed before the keys of the new ones are made, to keep the peak low.
        drop(parts);
        let long = self.layout.long().map(|layout| layout.keys(&self.layout.columns(&batch))).transpose()?;
        for (row, entry) in entries.iter_mut().enumerate() {
            // The rows now have their positions in the run, so the entries get new places.
            *entry = entry.moved(RowPlace { part: 0, row });
        }
        let mut run = SortedRun { batch, entries, long, memory };
        // From here on the run accounts only for what it holds. The parts are gone.
        run.memory.recount(run.bytes() as u64);
        Ok(run)
    }

    /// Makes a run of rows that are in order.
    pub(super) fn run_of_sorted<E: Entry>(&self, batch: RecordBatch) -> Result<SortedRun<E>> {
        let mut entries = Vec::with_capacity(batch.num_rows());
        let long = self.layout.add_entries(&self.layout.columns(&batch), 0, &mut entries)?;
        let mut run = SortedRun { batch, entries, long, memory: self.reservation() };
        run.memory.recount(run.bytes() as u64);
        Ok(run)
    }
}

impl<E> SortedRun<E> {
    /// The order of the entries of this run.
    pub(super) fn order(&self, format: &RunFormat) -> EntryOrder<'_> {
        format.order(&self.long)
    }

    /// The bytes of memory that the run holds.
    fn bytes(&self) -> usize {
        let mut held = HeldBuffers::default();
        held.add(&self.batch);
        held.bytes() + self.entries.capacity() * size_of::<E>() + self.long.as_ref().map_or(0, LongKeys::bytes)
    }
}

/// Collects batches until they are enough for a run.
pub(super) struct RunBuilder<'a, E> {
    format: &'a RunFormat,
    batches: Vec<RecordBatch>,
    rows: usize,
    held: HeldBuffers,
    memory: Reservation,
    /// Memory to sort in, and its reservation. Runs reuse it.
    scratch: Vec<E>,
    scratch_memory: Reservation,
}

impl<'a, E: Entry> RunBuilder<'a, E> {
    /// Makes a builder without rows.
    pub(super) fn new(format: &'a RunFormat) -> RunBuilder<'a, E> {
        RunBuilder {
            format,
            batches: Vec::new(),
            rows: 0,
            held: HeldBuffers::default(),
            memory: format.reservation(),
            scratch: Vec::new(),
            scratch_memory: format.reservation(),
        }
    }

    /// Adds the rows of a batch, at most [`RUN_ROWS`]. If that completes a run, appends it to `runs`.
    pub(super) fn add(&mut self, mut batch: RecordBatch, runs: &mut Vec<SortedRun<E>>) -> Result<()> {
        let used = bytes_of_rows(&batch) + bytes_of_texts(&batch);
        // The batch keeps much larger buffers alive than it uses, for example as a slice of a large one. Copy it.
        if self.held.more_with(&batch) > 4 * used + UNUSED_BYTES_MAX {
            self.memory.grow(used as u64)?;
            batch = copied_rows(&batch)?;
        }
        self.held.add(&batch);
        self.memory.grow((self.held.bytes() as u64).saturating_sub(self.memory.bytes()))?;
        self.rows += batch.num_rows();
        self.batches.push(batch);
        match self.rows >= RUN_ROWS || self.held.bytes() >= run_bytes(&self.format.broker) {
            true => self.finish(runs),
            false => Ok(()),
        }
    }

    /// Makes a run of the remaining rows, if there are any.
    pub(super) fn finish(&mut self, runs: &mut Vec<SortedRun<E>>) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(());
        }
        self.held = HeldBuffers::default();
        let mut memory = std::mem::replace(&mut self.memory, self.format.reservation());
        let entry_bytes = (rows * size_of::<E>()) as u64;
        memory.grow(entry_bytes)?;
        let parts = std::mem::take(&mut self.batches);
        let (mut entries, mut long) = (Vec::with_capacity(rows), Vec::new());
        for (part, batch) in parts.iter().enumerate() {
            let columns = self.format.layout.columns(batch);
            if let Some(keys) = self.format.layout.add_entries(&columns, part, &mut entries)? {
                memory.grow(keys.bytes() as u64)?;
                long.push(keys);
            }
        }
        self.scratch_memory.grow(entry_bytes.saturating_sub(self.scratch_memory.bytes()))?;
        self.format.order(&long).sort(&mut entries, &mut self.scratch);
        drop(long);
        runs.push(self.format.gather(parts, entries, memory)?);
        Ok(())
    }
}

/// Gathers the columns of the rows at `entries`, whose places refer to `parts`.
pub(super) fn gather<E: Entry>(parts: &[&RecordBatch], entries: &[E]) -> Result<Vec<ArrayRef>> {
    let places = entries.iter().map(|entry| entry.place());
    let indices: Vec<(usize, usize)> = places.map(|place| (place.part, place.row)).collect();
    let column = |number: usize| {
        let arrays: Vec<&dyn Array> = parts.iter().map(|part| &**part.column(number)).collect();
        interleave(&arrays, &indices).map_err(failed)
    };
    (0..parts[0].num_columns()).map(column).collect()
}

/// Copies the rows of a batch into buffers of their own.
fn copied_rows(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| copied(column));
    batch_of(OWNER, batch.schema_ref(), columns.collect::<Result<_>>()?, batch.num_rows())
}

/// Copies texts if less than half of their buffers' bytes belong to them. Other values stay as they are.
fn compact(values: &ArrayRef, memory: &mut Reservation) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Utf8View => {
            compact_views(values.as_string_view(), memory)?.map_or_else(|| Arc::clone(values), |texts| Arc::new(texts))
        }
        DataType::BinaryView => {
            compact_views(values.as_binary_view(), memory)?.map_or_else(|| Arc::clone(values), |blobs| Arc::new(blobs))
        }
        _ => Arc::clone(values),
    })
}

fn compact_views<T: ByteViewType>(
    values: &GenericByteViewArray<T>,
    memory: &mut Reservation,
) -> Result<Option<GenericByteViewArray<T>>> {
    let used = values.total_buffer_bytes_used();
    let mut held = HeldBuffers::default();
    values.data_buffers().iter().for_each(|buffer| held.add_buffer(buffer));
    // At least half of the bytes are used. Copying would cost more than it frees.
    if held.bytes() <= 2 * used {
        return Ok(None);
    }
    memory.grow(used as u64)?;
    Ok(Some(values.gc()))
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot put rows in order: {error}"))
}

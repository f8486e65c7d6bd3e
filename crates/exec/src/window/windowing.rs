//! One window operator and its workers.
//!
//! The workers pass three phases together. Each phase must end before the next one begins, because a partition may
//! contain rows from any batch:
//!
//! ```text
//! gather    each worker holds batches of the input and notes the ranges of their keys
//! scatter   each worker turns the rows of some batches into entries and puts these into buckets by partition
//! compute   each worker takes whole buckets, sorts their entries and writes the results of all calls into cells
//! ```
//!
//! After that each worker returns batches of the input with the result columns appended. A window with a limit (for
//! example `row_number() <= 3`) has no compute phase: it computes a bucket when the rows of the bucket are asked for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt64Type};
use parking_lot::Mutex;
use rowmill_base::{Broker, Reservation, Result};
use rowmill_plan::logical::RankFunction;
use rowmill_plan::{SortKey, WindowFunction};

use super::buckets::WindowBuckets;
use super::cells::{CallCells, CellForm, Pick, picked, write_picks, write_values};
use super::code::{EntryLayout, KeyNumberRange};
use super::entry::WindowEntry;
use super::evaluate::{CallResults, Evaluation, call_needs_peers, picked_columns};
use super::held::{HeldPlace, HeldRows};
use super::prune::BestRows;
use super::sorted::{Arranger, SortedRows, boundaries};
use super::sorted_partitions::{only_numbers, sort_of_partitions};
use super::spilled::{SpillSink, SpillWay, SpilledShare};
use super::{OWNER, WindowRequest, failed};
use crate::batch::{BatchSource, Batches};
use crate::cache::{L2_BYTES, PARTITIONS_MAX};
use crate::phase::Phase;
use crate::share::{batch_of, share};
use crate::sort::{HeldBuffers, Sort, SortRequest, canonical, width_of};
use crate::spill_buckets::{BucketRequest, BucketRows, BucketWriter, SpillSizes, SpilledRows, SpilledRowsForm};
use crate::values::ReadyBatches;

/// The number of rows that a bucket should have, so that its entries and the scratch memory that they are sorted into
/// fit the second-level cache. It is small in tests, so that there are many buckets.
const BUCKET_ROWS: usize = if cfg!(test) { 1 << 5 } else { L2_BYTES / (2 * size_of::<u128>()) };

/// The approximate bytes that we need to compute each row of a bucket, without the bytes for its calls: two entries,
/// the row's place and its bounds. The estimate is only used to ask for memory early.
const BYTES_OF_ROW: usize = 64;
/// The approximate bytes that we need to compute one call for one row.
const BYTES_OF_CALL: usize = 64;

/// The bytes that a row needs in the scatter phase: its entry.
const BYTES_OF_ENTRY: usize = size_of::<u128>();
/// The bytes that the result of one call for one row needs in the scatter phase, or a little more.
const BYTES_OF_CELL: usize = size_of::<u128>();

/// One window, shared by its workers.
pub(super) struct Windowing {
    pub(super) input: Arc<dyn BatchSource>,
    pub(super) request: WindowRequest,
    /// The way that the rows go if memory is short.
    pub(super) way: SpillWay,
    pub(super) sizes: SpillSizes,
    /// Whether memory is short, so that all workers write their rows to disk.
    is_short: AtomicBool,
    /// The sort that takes the rows if memory is short and they do not go into buckets.
    pub(super) sort: Mutex<Option<Arc<Sort>>>,
    gathered: Arc<Phase<GatheredPart, GatheredInput>>,
    scattered: Arc<Phase<ScatteredPart, PartitionedRows>>,
    computed: Arc<Phase<ComputedPart, WindowResults>>,
    /// The number of the next piece of work in each phase: the batch to scatter, the bucket or call to compute, and
    /// the batch to return.
    next_scattered: AtomicUsize,
    next_computed: AtomicUsize,
    next_given: AtomicUsize,
}

/// The batches that one worker gathered, and the ranges of their keys.
struct GatheredPart {
    batches: Vec<RecordBatch>,
    ranges: Vec<Option<KeyNumberRange>>,
    memory: Reservation,
    /// The rows that the worker wrote into buckets instead of holding them.
    written: Option<BucketRows>,
}

/// The result of the gather phase.
enum GatheredInput {
    Held(WindowInput),
    /// The rows do not fit memory. They are in buckets on disk.
    Buckets(Arc<WindowBuckets>),
    /// The rows do not fit memory. A sort returns them partition by partition.
    Sorting(Arc<Sort>),
    /// The rows do not fit memory. They are on disk as they came.
    AsTheyCome(Arc<SpilledRows>),
}

/// All rows of the input, and the way in which they come into order.
struct WindowInput {
    held: HeldRows,
    arrangement: Arrangement,
    _memory: Vec<Reservation>,
}

enum Arrangement {
    /// Rows are distributed to buckets by their partition.
    Buckets { layout: EntryLayout, bucket_bits: u32 },
    /// The rows are one partition. A sort orders them.
    Sorted(Arc<Sort>),
    /// The rows are one partition without ORDER BY, so all rows are peers and stay in the order of the input.
    AsHeld,
}

/// The entries of each bucket.
type Buckets<E> = Vec<Vec<E>>;

/// The entries and result cells that one worker made in the scatter phase.
struct ScatteredPart {
    entries: PartEntries,
    cells: Vec<(usize, Vec<CallCells>)>,
    memory: Reservation,
}

enum PartEntries {
    Narrow(Buckets<u64>),
    Wide(Buckets<u128>),
    /// The places of all rows in sorted order, and their keys if a call needs peers. One worker receives all of them,
    /// because a sort returns its rows to a single worker.
    Sorted {
        places: Vec<HeldPlace>,
        keys: Vec<Vec<ArrayRef>>,
    },
}

/// The rows of each bucket, not yet sorted, or all rows in order.
enum ReadyRows {
    Narrow(Vec<Mutex<Vec<Vec<u64>>>>),
    Wide(Vec<Mutex<Vec<Vec<u128>>>>),
    Sorted(SortedRows),
}

/// All rows, ready to be computed.
struct PartitionedRows {
    rows: ReadyRows,
    /// The result cells by batch and call. Empty if the window has a limit, because results are then gathered instead.
    cells: Vec<Vec<CallCells>>,
    _memory: Vec<Reservation>,
}

/// A worker's buffers for the entries of one bucket: the entries and the scratch space that sorting needs. They are
/// reused from bucket to bucket.
#[derive(Default)]
struct BucketRoom {
    narrow: [Vec<u64>; 2],
    wide: [Vec<u128>; 2],
}

/// Arrays of results that have no fixed size, made by one worker, each with the number of its call and bucket.
struct ComputedPart {
    made: Vec<(usize, usize, ArrayRef)>,
    memory: Reservation,
}

/// The results of all calls.
struct WindowResults {
    /// For each call, the arrays that its results are picked from.
    arrays: Vec<Vec<ArrayRef>>,
    _memory: Vec<Reservation>,
}

impl fmt::Debug for Windowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windowing").field("input", &self.input).field("request", &self.request).finish_non_exhaustive()
    }
}

impl Windowing {
    pub(super) fn new(input: Arc<dyn BatchSource>, request: WindowRequest) -> Windowing {
        // Without PARTITION BY there is a single partition, which no hash divides.
        let way = match (request.partition.is_empty(), request.order.is_empty()) {
            (false, _) => SpillWay::Buckets { depth: 0 },
            (true, false) => SpillWay::Sort,
            (true, true) => SpillWay::AsTheyCome,
        };
        Windowing {
            input,
            request,
            way,
            sizes: SpillSizes::usual(),
            is_short: AtomicBool::new(false),
            sort: Mutex::default(),
            gathered: Arc::default(),
            scattered: Arc::default(),
            computed: Arc::default(),
            next_scattered: AtomicUsize::new(0),
            next_computed: AtomicUsize::new(0),
            next_given: AtomicUsize::new(0),
        }
    }

    /// A window over rows of whole partitions that fit memory.
    pub(super) fn of_held(input: Arc<dyn BatchSource>, request: WindowRequest) -> Windowing {
        Windowing { way: SpillWay::None, ..Windowing::new(input, request) }
    }

    /// A window over rows of whole partitions that do not fit memory, so that they go to disk again.
    pub(super) fn of_large(input: Arc<dyn BatchSource>, request: WindowRequest, way: SpillWay) -> Windowing {
        Windowing { way, is_short: AtomicBool::new(true), ..Windowing::new(input, request) }
    }

    pub(super) fn input(&self) -> &Arc<dyn BatchSource> {
        &self.input
    }

    /// Returns the batches that one worker computes. All workers together return each row once.
    pub(super) fn share(self: Arc<Self>) -> Batches {
        let (mut ready, mut spilled) = (VecDeque::new(), None);
        share(move || {
            let batch = match ready.pop_front() {
                Some(batch) => Some(batch),
                None => self.next_batch(&mut ready, &mut spilled)?,
            };
            // A worker that only helped to sort ends before the one that returns the sorted rows.
            if batch.is_none() && spilled.is_none() {
                // All batches were returned or are with another worker. No worker needs the held rows after this.
                self.gathered.end();
                self.scattered.end();
                self.computed.end();
            }
            Ok(batch)
        })
    }

    fn next_batch(
        &self,
        ready: &mut VecDeque<RecordBatch>,
        spilled: &mut Option<SpilledShare>,
    ) -> Result<Option<RecordBatch>> {
        let cancel = &self.request.cancel;
        cancel.check()?;
        if let Some(spilled) = spilled {
            return spilled.next_batch(ready);
        }
        // A phase returns `None` if another worker failed. That worker reports the error, so this one just ends.
        let gathered = self.gathered.run(cancel, || self.gather(), |parts| self.whole_input(parts))?;
        let Some(gathered) = gathered else { return Ok(None) };
        let gathered = match &*gathered {
            GatheredInput::Held(held) => held,
            GatheredInput::Buckets(buckets) => {
                return spilled.insert(SpilledShare::of_buckets(buckets)).next_batch(ready);
            }
            GatheredInput::Sorting(sort) => {
                let rows = Arc::clone(sort) as Arc<dyn BatchSource>;
                return spilled.insert(SpilledShare::of_sorted(rows, &self.request)?).next_batch(ready);
            }
            GatheredInput::AsTheyCome(rows) => {
                // One worker computes all rows, because each may depend on those before it.
                if self.next_computed.fetch_add(1, Ordering::Relaxed) > 0 {
                    return Ok(None);
                }
                let rows = Arc::clone(rows) as Arc<dyn BatchSource>;
                return spilled.insert(SpilledShare::of_sorted(rows, &self.request)?).next_batch(ready);
            }
        };
        let scattered =
            self.scattered.run(cancel, || self.scatter(gathered), |parts| self.all_entries(parts, gathered))?;
        let Some(scattered) = scattered else { return Ok(None) };
        if self.request.limit.is_some() {
            return self.next_first_rows(gathered, &scattered, ready);
        }
        let computed = self.computed.run(
            cancel,
            || self.compute(gathered, &scattered),
            |parts| Ok(self.all_results(parts, gathered)),
        )?;
        let Some(computed) = computed else { return Ok(None) };
        let number = self.next_given.fetch_add(1, Ordering::Relaxed);
        let Some(batch) = gathered.held.batches.get(number) else { return Ok(None) };
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        for (call, cells) in scattered.cells[number].iter().enumerate() {
            // The cells of a batch are complete, because every bucket wrote its results into them in the compute
            // phase.
            let arrays: Vec<&dyn Array> = computed.arrays[call].iter().map(|array| &**array).collect();
            columns.push(cells.array(&self.request.calls[call].kind, rows, &arrays)?);
        }
        batch_of(OWNER, &self.request.schema, columns, rows).map(Some)
    }

    /// The key columns of the window: first the partition columns, then the ORDER BY columns.
    fn key_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.request.partition.iter().copied().chain(self.request.order.iter().map(|key| key.column))
    }

    /// Holds this worker's share of the input in memory and notes the ranges of its keys.
    fn gather(&self) -> Result<GatheredPart> {
        let may_spill = self.way != SpillWay::None;
        let spillable = may_spill.then(|| self.request.broker.spillable());
        let broker = spillable.as_ref().map_or(&self.request.broker, |spillable| spillable.broker());
        let mut memory = broker.reservation(OWNER);
        // The memory for the next phase is taken now, until that phase takes it. Otherwise we would find out too late
        // that it does not fit.
        let mut foreseen = broker.reservation(OWNER);
        let (mut batches, mut held, mut written) = (Vec::new(), HeldBuffers::default(), None);
        let schema = self.input.schema();
        let range = |column: usize| width_of(schema.field(column).data_type()).map(|_| KeyNumberRange::empty());
        let mut ranges: Vec<Option<KeyNumberRange>> = self.key_columns().map(range).collect();
        // A window without PARTITION BY is sorted by the keys themselves and needs no entries.
        let needs_ranges = !self.request.partition.is_empty();
        let mut input = Arc::clone(&self.input).worker();
        while let Some(batch) = input.next() {
            self.request.cancel.check()?;
            let batch = batch?;
            if self.gathered.is_over() {
                break;
            }
            if batch.num_rows() == 0 {
                continue;
            }
            // The batch is shared with its producer. We count each buffer once, even if several batches point into it.
            held.add(&batch);
            memory.grow((held.bytes() as u64).saturating_sub(memory.bytes()))?;
            if needs_ranges {
                for (column, range) in self.key_columns().zip(&mut ranges) {
                    range.as_mut().map_or(Ok(()), |range| range.add(batch.column(column)))?;
                }
            }
            if may_spill {
                foreseen.recount(foreseen.bytes() + self.scattered_bytes(batch.num_rows() as u64));
            }
            batches.push(batch);
            if spillable.as_ref().is_some_and(|spillable| spillable.must_spill()) {
                self.is_short.store(true, Ordering::Relaxed);
            }
            if self.is_short.load(Ordering::Relaxed) {
                foreseen.recount(0);
                written = self.spill(std::mem::take(&mut batches), &mut memory, input, broker)?;
                break;
            }
        }
        Ok(GatheredPart { batches, ranges, memory, written })
    }

    /// The bytes that the scatter phase needs for this number of rows. Without PARTITION BY, all rows are computed at
    /// the same time, so that the compute phase needs memory for all of them too.
    pub(super) fn scattered_bytes(&self, rows: u64) -> u64 {
        let calls = self.request.calls.len();
        let computed = if self.request.partition.is_empty() { computing_bytes(rows as usize, calls) } else { 0 };
        rows * (BYTES_OF_ENTRY + BYTES_OF_CELL * calls) as u64 + computed
    }

    fn whole_input(&self, parts: Vec<GatheredPart>) -> Result<GatheredInput> {
        if !self.is_short.load(Ordering::Relaxed) {
            return self.held_input(parts).map(GatheredInput::Held);
        }
        let workers = parts.len() as u64;
        let mut all = Vec::with_capacity(parts.len());
        for GatheredPart { batches, mut memory, written, .. } in parts {
            // Some workers may have ended before memory was short.
            all.extend(match written {
                Some(written) => Some(written),
                None => self.spill(batches, &mut memory, std::iter::empty(), &self.request.broker)?,
            });
        }
        match self.way {
            SpillWay::Buckets { depth } => {
                let buckets = WindowBuckets::new(BucketRows::merge(all), self, depth, workers);
                Ok(GatheredInput::Buckets(Arc::new(buckets)))
            }
            SpillWay::AsTheyCome => {
                let rows = BucketRows::merge(all).buckets.into_iter().flatten().collect();
                let rows = SpilledRows::new(OWNER, self.input.schema(), rows, SpilledRowsForm::Passing);
                Ok(GatheredInput::AsTheyCome(rows))
            }
            SpillWay::Sort | SpillWay::None => self.partition_sort().map(GatheredInput::Sorting),
        }
    }

    /// Writes the rows that a worker holds, with their `memory`, and the `rest` of its input to disk. The worker must
    /// read its input to the end, because others may wait for that.
    fn spill(
        &self,
        held: Vec<RecordBatch>,
        memory: &mut Reservation,
        rest: impl Iterator<Item = Result<RecordBatch>>,
        broker: &Broker,
    ) -> Result<Option<BucketRows>> {
        let sort;
        let mut sink = match self.way {
            SpillWay::Buckets { depth } => SpillSink::Buckets(Box::new(self.bucket_writer(depth, self.sizes, broker))),
            SpillWay::AsTheyCome => {
                let one_bucket = SpillSizes { bucket_bits: 0, ..self.sizes };
                SpillSink::Buckets(Box::new(self.bucket_writer(0, one_bucket, broker)))
            }
            SpillWay::Sort | SpillWay::None => {
                sort = self.partition_sort()?;
                SpillSink::Sort(Box::new(sort.feeder()))
            }
        };
        let mut left = held.len() as u64;
        for batch in held {
            self.request.cancel.check()?;
            sink.add(&batch)?;
            // The sink counts the rows that it has taken.
            memory.recount(memory.bytes() / left * (left - 1));
            left -= 1;
        }
        for batch in rest {
            self.request.cancel.check()?;
            if self.gathered.is_over() {
                break;
            }
            sink.add(&batch?)?;
        }
        sink.finish()
    }

    /// A writer of rows into buckets by their partitions.
    fn bucket_writer(&self, depth: u32, sizes: SpillSizes, broker: &Broker) -> BucketWriter {
        let schema = self.input.schema();
        let used: Vec<usize> = (0..schema.fields().len()).collect();
        let rows = BucketRequest {
            owner: OWNER,
            schema,
            used: &used,
            keys: self.request.partition.clone(),
            nulls_equal: true,
            keeps_keyless: true,
            depth,
            sizes,
            all_equal: false,
        };
        BucketWriter::new(rows, broker, &self.request.temp)
    }

    /// The sort that takes the rows of all workers. The first call makes it.
    fn partition_sort(&self) -> Result<Arc<Sort>> {
        let mut sort = self.sort.lock();
        match &*sort {
            Some(sort) => Ok(Arc::clone(sort)),
            None => Ok(Arc::clone(sort.insert(sort_of_partitions(self.input.schema(), &self.request)?))),
        }
    }

    fn held_input(&self, parts: Vec<GatheredPart>) -> Result<WindowInput> {
        let (mut batches, mut memory) = (Vec::new(), Vec::new());
        let mut ranges: Vec<Option<KeyNumberRange>> = Vec::new();
        for part in parts {
            batches.extend(part.batches);
            memory.push(part.memory);
            match ranges.is_empty() {
                true => ranges = part.ranges,
                false => ranges.iter_mut().zip(part.ranges).for_each(|(range, of_part)| {
                    if let (Some(range), Some(of_part)) = (range, of_part) {
                        range.join(of_part);
                    }
                }),
            }
        }
        let held = HeldRows::new(batches)?;
        let WindowRequest { partition, order, .. } = &self.request;
        let arrangement = match (partition.is_empty(), order.is_empty()) {
            _ if held.rows == 0 => Arrangement::AsHeld,
            (true, true) => Arrangement::AsHeld,
            (true, false) => Arrangement::Sorted(self.sort(&held)?),
            (false, _) => {
                // More rows get more buckets. Rows of one partition must stay in one bucket, so a bucket's number is
                // at most as long as the partition's bits.
                let layout = EntryLayout::new(partition, order, &ranges, self.input.schema(), held.place_bits)?;
                let buckets = usize::BITS - (held.rows / BUCKET_ROWS).leading_zeros();
                let bucket_bits = buckets.min(PARTITIONS_MAX.ilog2()).min(layout.partition_bits);
                Arrangement::Buckets { layout, bucket_bits }
            }
        };
        Ok(WindowInput { held, arrangement, _memory: memory })
    }

    /// Prepares a sort of the places of all rows by the ORDER BY of the window.
    fn sort(&self, held: &HeldRows) -> Result<Arc<Sort>> {
        let order = &self.request.order;
        let kind = |key: &SortKey| self.input.schema().field(key.column).data_type().clone();
        let kinds = order.iter().map(kind).chain([DataType::UInt64]);
        let schema = Arc::new(Schema::new(kinds.map(|kind| Field::new("", kind, true)).collect::<Vec<_>>()));
        let batch = |(number, batch): (usize, &RecordBatch)| {
            let keys = order.iter().map(|key| Arc::clone(batch.column(key.column)));
            let columns: Vec<ArrayRef> = keys.chain([held.places_of(number)]).collect();
            batch_of(OWNER, &schema, columns, batch.num_rows())
        };
        let batches = held.batches.iter().enumerate().map(batch).collect::<Result<Vec<_>>>()?;
        let request = SortRequest {
            keys: order.iter().enumerate().map(|(column, key)| SortKey { column, ..*key }).collect(),
            skip: 0,
            rows: self.request.limit.filter(|_| only_numbers(&self.request)),
            schema: Arc::clone(&schema),
            batch_rows: self.request.batch_rows,
            cancel: self.request.cancel.clone(),
            broker: self.request.broker.clone(),
            temp: self.request.temp.clone(),
        };
        Sort::new(ReadyBatches::new(schema, batches), request)
    }

    fn needs_peers(&self) -> bool {
        self.request.calls.iter().any(call_needs_peers)
    }

    /// Puts the rows of some batches into buckets, or takes part in sorting all rows.
    fn scatter(&self, gathered: &WindowInput) -> Result<ScatteredPart> {
        let mut memory = self.request.broker.reservation(OWNER);
        let mut cells = Vec::new();
        let entries = match &gathered.arrangement {
            Arrangement::Buckets { layout, bucket_bits } if layout.is_narrow() => PartEntries::Narrow(
                self.scatter_entries(&gathered.held, layout, *bucket_bits, &mut cells, &mut memory)?,
            ),
            Arrangement::Buckets { layout, bucket_bits } => PartEntries::Wide(self.scatter_entries(
                &gathered.held,
                layout,
                *bucket_bits,
                &mut cells,
                &mut memory,
            )?),
            Arrangement::Sorted(sort) => {
                let (mut places, mut keys) = (Vec::new(), vec![Vec::new(); self.request.order.len()]);
                let needs_peers = self.needs_peers();
                // All batches share the buffers of the texts that the sort has gathered.
                let mut held = HeldBuffers::default();
                for batch in Arc::clone(sort).worker() {
                    let batch = batch?;
                    memory.grow((batch.num_rows() * size_of::<HeldPlace>()) as u64)?;
                    let (of_places, of_keys) = batch.columns().split_last().expect("a sort of places has their column");
                    let bits = of_places.as_primitive::<UInt64Type>().values();
                    places.extend(bits.iter().map(|bits| gathered.held.place(*bits)));
                    if needs_peers {
                        for (keys, column) in keys.iter_mut().zip(of_keys) {
                            let values = canonical(column)?;
                            let before = held.bytes();
                            held.add_array(&values);
                            memory.grow((held.bytes() - before) as u64)?;
                            keys.push(values);
                        }
                    }
                }
                self.each_scattered(&gathered.held, &mut cells, &mut memory, 0, |_, _| Ok(()))?;
                PartEntries::Sorted { places, keys }
            }
            Arrangement::AsHeld => {
                self.each_scattered(&gathered.held, &mut cells, &mut memory, 0, |_, _| Ok(()))?;
                PartEntries::Sorted { places: Vec::new(), keys: Vec::new() }
            }
        };
        Ok(ScatteredPart { entries, cells, memory })
    }

    /// Calls `each` with every batch that this worker takes and its number, and makes the result cells of the batch.
    fn each_scattered(
        &self,
        held: &HeldRows,
        cells: &mut Vec<(usize, Vec<CallCells>)>,
        memory: &mut Reservation,
        bytes_of_entry: usize,
        mut each: impl FnMut(usize, &RecordBatch) -> Result<()>,
    ) -> Result<()> {
        loop {
            let number = self.next_scattered.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = held.batches.get(number) else { return Ok(()) };
            self.request.cancel.check()?;
            let rows = batch.num_rows();
            memory.grow((rows * bytes_of_entry) as u64)?;
            if self.request.limit.is_none() {
                let forms: Vec<CellForm> = self.request.calls.iter().map(|call| CellForm::of(&call.kind)).collect();
                let bytes: usize = forms.iter().map(|form| CallCells::bytes_of_row(*form)).sum();
                memory.grow((rows * bytes) as u64)?;
                cells.push((number, forms.iter().map(|form| CallCells::new(*form, rows)).collect()));
            }
            each(number, batch)?;
        }
    }

    fn scatter_entries<E: WindowEntry>(
        &self,
        held: &HeldRows,
        layout: &EntryLayout,
        bucket_bits: u32,
        cells: &mut Vec<(usize, Vec<CallCells>)>,
        memory: &mut Reservation,
    ) -> Result<Buckets<E>> {
        let mut buckets: Buckets<E> = vec![Vec::new(); 1 << bucket_bits];
        let mut best = self.best_rows(layout);
        let (mut entries, mut left_out) = (Vec::new(), 0);
        // A bucket is a vector that doubles when it is full, so on average it has room for half as many entries again.
        let bytes_of_entry = size_of::<E>() * 3 / 2;
        let shift = layout.bits() - bucket_bits;
        let bucket = |entry: E| if bucket_bits == 0 { 0 } else { entry.above(shift).low() as usize };
        self.each_scattered(held, cells, memory, bytes_of_entry, |number, batch| {
            layout.entries::<E>(batch, held.first_place_bits(number), &mut entries)?;
            // An entry's upper bits are its partition, so the topmost bits of it choose the bucket.
            match &mut best {
                None => entries.iter().for_each(|entry| buckets[bucket(*entry)].push(*entry)),
                Some(best) => {
                    let (partition_shift, order_bits) = (layout.partition_shift(), layout.order_bits);
                    for entry in &entries {
                        let order = entry.above(layout.place_bits).below(order_bits).low();
                        match best.admits(entry.above(partition_shift).low(), order) {
                            true => buckets[bucket(*entry)].push(*entry),
                            false => left_out += bytes_of_entry as u64,
                        }
                    }
                }
            }
            Ok(())
        })?;
        memory.recount(memory.bytes() - left_out);
        Ok(buckets)
    }

    /// The table that leaves out rows after the limit while they are scattered. `None` if the calls need all rows.
    fn best_rows(&self, layout: &EntryLayout) -> Option<BestRows> {
        let limit = self.request.limit?;
        let only_looks_back = |function: &WindowFunction| {
            matches!(
                function,
                WindowFunction::Rank(RankFunction::RowNumber | RankFunction::Rank | RankFunction::DenseRank)
            )
        };
        let with_ties = match self.request.calls.first()?.function {
            WindowFunction::Rank(RankFunction::RowNumber) => false,
            WindowFunction::Rank(RankFunction::Rank) => true,
            _ => return None,
        };
        // A hashed key cannot be compared, so we cannot say which rows are best.
        let is_exact = layout.has_order() && !layout.is_hashed();
        let can_leave_out = is_exact && self.request.calls.iter().all(|call| only_looks_back(&call.function));
        match can_leave_out {
            true => BestRows::new(limit, with_ties, layout.partition_bits, layout.order_bits),
            false => None,
        }
    }

    fn all_entries(&self, parts: Vec<ScatteredPart>, gathered: &WindowInput) -> Result<PartitionedRows> {
        let (mut narrow, mut wide, mut sorted) = (Vec::new(), Vec::new(), None);
        let (mut cells, mut memory) = (Vec::new(), Vec::new());
        for part in parts {
            cells.extend(part.cells);
            memory.push(part.memory);
            match part.entries {
                PartEntries::Narrow(buckets) => put_together(&mut narrow, buckets),
                PartEntries::Wide(buckets) => put_together(&mut wide, buckets),
                PartEntries::Sorted { places, .. } if places.is_empty() => {}
                PartEntries::Sorted { places, keys } => sorted = Some((places, keys)),
            }
        }
        // Cells were made in whatever order workers took batches. They are looked up by batch number.
        cells.sort_unstable_by_key(|(number, _)| *number);
        let rows = match &gathered.arrangement {
            Arrangement::Buckets { layout, .. } if layout.is_narrow() => ReadyRows::Narrow(narrow),
            Arrangement::Buckets { .. } => ReadyRows::Wide(wide),
            Arrangement::AsHeld => ReadyRows::Sorted(SortedRows::of_all(&gathered.held)),
            Arrangement::Sorted(_) => {
                let (places, keys) = sorted.unwrap_or_default();
                let peers = match self.needs_peers() {
                    true => {
                        let keys = keys.iter().map(|parts| {
                            let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
                            arrow::compute::concat(&parts).map_err(failed)
                        });
                        boundaries(&keys.collect::<Result<Vec<_>>>()?, places.len())?
                    }
                    false => Vec::new(),
                };
                ReadyRows::Sorted(SortedRows { partitions: vec![0, places.len()], places, peers })
            }
        };
        Ok(PartitionedRows { rows, cells: cells.into_iter().map(|(_, cells)| cells).collect(), _memory: memory })
    }

    /// Returns the rows of a bucket in order; `None` if no bucket has this number.
    fn bucket(
        &self,
        number: usize,
        gathered: &WindowInput,
        rows: &ReadyRows,
        room: &mut BucketRoom,
        memory: &mut Reservation,
    ) -> Result<Option<SortedRows>> {
        match rows {
            ReadyRows::Narrow(buckets) => self.arranged(buckets, number, gathered, &mut room.narrow, memory),
            ReadyRows::Wide(buckets) => self.arranged(buckets, number, gathered, &mut room.wide, memory),
            ReadyRows::Sorted(_) => Ok(None),
        }
    }

    fn arranged<E: WindowEntry>(
        &self,
        buckets: &[Mutex<Vec<Vec<E>>>],
        number: usize,
        gathered: &WindowInput,
        [entries, scratch]: &mut [Vec<E>; 2],
        memory: &mut Reservation,
    ) -> Result<Option<SortedRows>> {
        let Arrangement::Buckets { layout, bucket_bits } = &gathered.arrangement else { return Ok(None) };
        let Some(bucket) = buckets.get(number) else { return Ok(None) };
        self.request.cancel.check()?;
        entries.clear();
        // The entries leave the shared bucket here: exactly one worker takes each bucket number.
        std::mem::take(&mut *bucket.lock()).iter().for_each(|part| entries.extend_from_slice(part));
        memory.grow(self.bytes_of(entries.len()))?;
        let arranger = Arranger {
            held: &gathered.held,
            layout,
            partition: &self.request.partition,
            order: &self.request.order,
            finds_peers: self.needs_peers(),
        };
        arranger.arrange(entries, scratch, *bucket_bits, memory).map(Some)
    }

    /// The approximate bytes needed to compute all calls for this number of rows.
    fn bytes_of(&self, rows: usize) -> u64 {
        computing_bytes(rows, self.request.calls.len())
    }

    /// Takes buckets and computes all their calls until none is left. With a single partition, workers take calls
    /// instead.
    fn compute(&self, gathered: &WindowInput, scattered: &PartitionedRows) -> Result<ComputedPart> {
        let mut made = Vec::new();
        let mut made_memory = self.request.broker.reservation(OWNER);
        let mut memory = self.request.broker.reservation(OWNER);
        let mut room = BucketRoom::default();
        let mut write = |call: usize, bucket: usize, rows: &SortedRows, evaluation: &Evaluation<'_>| -> Result<()> {
            let (cells, of_call) = (&scattered.cells, &self.request.calls[call]);
            match evaluation.results(of_call)? {
                CallResults::Values(values) if CellForm::of(&of_call.kind) == CellForm::Picked => {
                    // Values of no fixed size cannot be written into cells. The array stays, and each cell records
                    // where to find its value: the bucket's array and the item in it.
                    let picks: Vec<Pick> = (0..values.len()).map(|item| Pick::new(bucket, item)).collect();
                    made_memory.grow(values.get_array_memory_size() as u64)?;
                    made.push((call, bucket, values));
                    write_picks(cells, call, &rows.places, &picks)
                }
                CallResults::Values(values) => write_values(cells, call, &rows.places, &values),
                CallResults::Picks(picks) => write_picks(cells, call, &rows.places, &picks),
            }
        };
        let WindowRequest { cancel, calls, .. } = &self.request;
        loop {
            let number = self.next_computed.fetch_add(1, Ordering::Relaxed);
            cancel.check()?;
            if let ReadyRows::Sorted(rows) = &scattered.rows {
                if number >= calls.len() || rows.len() == 0 {
                    break;
                }
                memory.grow(self.bytes_of(rows.len()) / calls.len() as u64)?;
                write(number, 0, rows, &Evaluation::new(&gathered.held, rows, &self.request))?;
            } else {
                let Some(rows) = self.bucket(number, gathered, &scattered.rows, &mut room, &mut memory)? else {
                    break;
                };
                if rows.len() > 0 {
                    let evaluation = Evaluation::new(&gathered.held, &rows, &self.request);
                    (0..calls.len()).try_for_each(|call| write(call, number, &rows, &evaluation))?;
                }
            }
            memory.recount(0);
        }
        Ok(ComputedPart { made, memory: made_memory })
    }

    fn all_results(&self, parts: Vec<ComputedPart>, gathered: &WindowInput) -> WindowResults {
        let mut arrays: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.request.calls.len()];
        let mut memory = Vec::new();
        for part in parts {
            memory.push(part.memory);
            for (call, bucket, values) in part.made {
                let arrays = &mut arrays[call];
                // A bucket without rows made no array. Picks address arrays by bucket number, so the gap must be
                // filled.
                while arrays.len() <= bucket {
                    arrays.push(values.slice(0, 0));
                }
                arrays[bucket] = values;
            }
        }
        for (call, arrays) in arrays.iter_mut().enumerate() {
            if arrays.is_empty() {
                *arrays = self.picked_arrays(call, gathered);
            }
        }
        WindowResults { arrays, _memory: memory }
    }

    /// The input arrays that the results of a call are picked from.
    fn picked_arrays(&self, call: usize, gathered: &WindowInput) -> Vec<ArrayRef> {
        let call = &self.request.calls[call];
        if CellForm::of(&call.kind) != CellForm::Picked {
            return Vec::new();
        }
        let (values, defaults) = picked_columns(call);
        let batches = &gathered.held.batches;
        let columns = values.into_iter().chain(defaults);
        columns.flat_map(|column| batches.iter().map(move |batch| Arc::clone(batch.column(column)))).collect()
    }

    /// Returns the first rows of the partitions in the next bucket that has any.
    fn next_first_rows(
        &self,
        gathered: &WindowInput,
        scattered: &PartitionedRows,
        ready: &mut VecDeque<RecordBatch>,
    ) -> Result<Option<RecordBatch>> {
        let mut room = BucketRoom::default();
        loop {
            let number = self.next_computed.fetch_add(1, Ordering::Relaxed);
            let mut memory = self.request.broker.reservation(OWNER);
            if let ReadyRows::Sorted(rows) = &scattered.rows {
                if number > 0 {
                    return Ok(None);
                }
                memory.grow(self.bytes_of(rows.len()))?;
                self.first_rows(rows, gathered, ready)?;
            } else {
                match self.bucket(number, gathered, &scattered.rows, &mut room, &mut memory)? {
                    Some(rows) => self.first_rows(&rows, gathered, ready)?,
                    None => return Ok(None),
                }
            }
            if let Some(batch) = ready.pop_front() {
                return Ok(Some(batch));
            }
        }
    }

    /// Appends the rows whose first result is at most the limit, with the results of all calls, to `ready` as batches.
    fn first_rows(&self, rows: &SortedRows, gathered: &WindowInput, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let WindowRequest { calls, limit, schema, batch_rows, .. } = &self.request;
        let evaluation = Evaluation::new(&gathered.held, rows, &self.request);
        let results = calls.iter().map(|call| evaluation.results(call)).collect::<Result<Vec<_>>>()?;
        let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let Some(CallResults::Values(first)) = results.first() else { return Ok(()) };
        let Some(first) = first.as_primitive_opt::<Int64Type>() else {
            return Err(rowmill_base::Error::internal("the first call of a window with a limit must be a rank"));
        };
        // Ranks ascend in a partition, but not across partitions, so every row is checked.
        let kept: Vec<u32> =
            (0..).zip(first.values()).filter(|(_, rank)| **rank <= limit).map(|(row, _)| row).collect();
        for kept in kept.chunks((*batch_rows).max(1)) {
            let places: Vec<HeldPlace> = kept.iter().map(|position| rows.places[*position as usize]).collect();
            let columns = 0..self.input.schema().fields().len();
            let mut columns: Vec<ArrayRef> =
                columns.map(|column| gathered.held.gather(column, &places)).collect::<Result<_>>()?;
            let positions = UInt32Array::from(kept.to_vec());
            for (call, results) in results.iter().enumerate() {
                columns.push(match results {
                    CallResults::Values(values) => take(values, &positions, None).map_err(failed)?,
                    CallResults::Picks(picks) => {
                        let arrays = self.picked_arrays(call, gathered);
                        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
                        picked(&calls[call].kind, &arrays, kept.iter().map(|position| picks[*position as usize]))?
                    }
                });
            }
            ready.push_back(batch_of(OWNER, schema, columns, kept.len())?);
        }
        Ok(())
    }
}

/// The approximate bytes needed to compute this number of calls for this number of rows.
pub(super) fn computing_bytes(rows: usize, calls: usize) -> u64 {
    (rows * (BYTES_OF_ROW + BYTES_OF_CALL * calls)) as u64
}

/// Adds one worker's buckets to those of the other workers.
fn put_together<E>(all: &mut Vec<Mutex<Vec<Vec<E>>>>, buckets: Buckets<E>) {
    all.resize_with(buckets.len(), Mutex::default);
    for (all, bucket) in all.iter_mut().zip(buckets) {
        if !bucket.is_empty() {
            all.get_mut().push(bucket);
        }
    }
}

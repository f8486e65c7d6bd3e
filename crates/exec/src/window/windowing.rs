//! One window and its workers: the phases, and the work that each worker takes in them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt64Type};
use parking_lot::Mutex;
use rowmill_base::{Reservation, Result};
use rowmill_plan::logical::RankFunction;
use rowmill_plan::{SortKey, WindowFunction};

use super::cells::{CallCells, CellForm, Pick, picked, write_picks, write_values};
use super::code::{EntryLayout, KeyRange};
use super::entry::WindowEntry;
use super::evaluate::{CallResults, Evaluation, call_needs_peers, picked_columns};
use super::held::{HeldPlace, HeldRows};
use super::prune::BestRows;
use super::sorted::{Arranger, SortedRows, boundaries};
use super::{OWNER, WindowRequest, failed};
use crate::batch::{BatchSource, Batches};
use crate::phase::Phase;
use crate::share::{batch_of, share};
use crate::sort::{HeldBuffers, Sort, SortRequest, canonical, width_of};
use crate::values::Values;

/// The approximate rows of a bucket, so that its entries stay near the core that sorts them. The number is small in
/// tests, so that there are many buckets.
const BUCKET_ROWS: usize = if cfg!(test) { 1 << 5 } else { 1 << 15 };
/// The most bits of a bucket's number.
const BUCKET_BITS_MAX: u32 = 10;

/// The approximate bytes that we need to compute each row of a bucket, without those for each call.
const BYTES_OF_ROW: usize = 64;
/// The approximate bytes that we need to compute each row and call.
const BYTES_OF_CALL: usize = 64;

/// One window, shared by its workers.
pub(super) struct Windowing {
    input: Arc<dyn BatchSource>,
    request: WindowRequest,
    gathered: Arc<Phase<GatheredPart, Gathered>>,
    scattered: Arc<Phase<ScatteredPart, Scattered>>,
    computed: Arc<Phase<ComputedPart, Computed>>,
    /// The next piece of work of each phase: the batch to be scattered, the bucket or call to be computed, and the
    /// batch to be given.
    next_scattered: AtomicUsize,
    next_computed: AtomicUsize,
    next_given: AtomicUsize,
}

/// The rows that a worker gathered.
struct GatheredPart {
    batches: Vec<RecordBatch>,
    ranges: Vec<Option<KeyRange>>,
    memory: Reservation,
}

/// All rows, and how they come into order.
struct Gathered {
    held: HeldRows,
    arrangement: Arrangement,
    _memory: Vec<Reservation>,
}

enum Arrangement {
    /// By partitions.
    Buckets { layout: EntryLayout, bucket_bits: u32 },
    /// One partition in order.
    Sorted(Arc<Sort>),
    /// One partition of peers.
    AsHeld,
}

/// The entries of each bucket.
type Buckets<E> = Vec<Vec<E>>;

/// What a worker scattered.
struct ScatteredPart {
    entries: PartEntries,
    cells: Vec<(usize, Vec<CallCells>)>,
    memory: Reservation,
}

enum PartEntries {
    Narrow(Buckets<u64>),
    Wide(Buckets<u128>),
    /// The rows of a sort, all with one worker, and their keys if peers are asked for.
    Sorted {
        places: Vec<HeldPlace>,
        keys: Vec<Vec<ArrayRef>>,
    },
}

/// The rows of each bucket, not yet in order, or all of them in order.
enum ReadyRows {
    Narrow(Vec<Mutex<Vec<Vec<u64>>>>),
    Wide(Vec<Mutex<Vec<Vec<u128>>>>),
    Sorted(SortedRows),
}

/// All rows, where they are computed.
struct Scattered {
    rows: ReadyRows,
    /// By batch and call; none if only first rows are given.
    cells: Vec<Vec<CallCells>>,
    _memory: Vec<Reservation>,
}

/// A worker's room for the entries of a bucket, and to move them while they are sorted.
#[derive(Default)]
struct BucketRoom {
    narrow: [Vec<u64>; 2],
    wide: [Vec<u128>; 2],
}

/// Arrays that a worker made of results of no fixed size, by call and bucket.
struct ComputedPart {
    made: Vec<(usize, usize, ArrayRef)>,
    memory: Reservation,
}

/// All results.
struct Computed {
    /// By call, the arrays that its results are picked from.
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
        Windowing {
            input,
            request,
            gathered: Arc::default(),
            scattered: Arc::default(),
            computed: Arc::default(),
            next_scattered: AtomicUsize::new(0),
            next_computed: AtomicUsize::new(0),
            next_given: AtomicUsize::new(0),
        }
    }

    pub(super) fn input(&self) -> &Arc<dyn BatchSource> {
        &self.input
    }

    /// A worker's share.
    pub(super) fn share(self: Arc<Self>) -> Batches {
        let mut ready = VecDeque::new();
        share(move || {
            let batch = match ready.pop_front() {
                Some(batch) => Some(batch),
                None => self.next_batch(&mut ready)?,
            };
            if batch.is_none() {
                // Everything is given or on its way. No worker needs the held rows after this.
                self.gathered.end();
                self.scattered.end();
                self.computed.end();
            }
            Ok(batch)
        })
    }

    fn next_batch(&self, ready: &mut VecDeque<RecordBatch>) -> Result<Option<RecordBatch>> {
        let cancel = &self.request.cancel;
        cancel.check()?;
        let gathered = self.gathered.run(cancel, || self.gather(), |parts| self.whole_input(parts))?;
        let Some(gathered) = gathered else { return Ok(None) };
        let scattered =
            self.scattered.run(cancel, || self.scatter(&gathered), |parts| self.all_entries(parts, &gathered))?;
        let Some(scattered) = scattered else { return Ok(None) };
        if self.request.limit.is_some() {
            return self.next_first_rows(&gathered, &scattered, ready);
        }
        let computed = self.computed.run(
            cancel,
            || self.compute(&gathered, &scattered),
            |parts| Ok(self.all_results(parts, &gathered)),
        )?;
        let Some(computed) = computed else { return Ok(None) };
        let number = self.next_given.fetch_add(1, Ordering::Relaxed);
        let Some(batch) = gathered.held.batches.get(number) else { return Ok(None) };
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        for (call, cells) in scattered.cells[number].iter().enumerate() {
            let arrays: Vec<&dyn Array> = computed.arrays[call].iter().map(|array| &**array).collect();
            columns.push(cells.array(&self.request.calls[call].kind, rows, &arrays)?);
        }
        batch_of(OWNER, &self.request.schema, columns, rows).map(Some)
    }

    /// The columns of the keys, those of the partition first.
    fn key_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.request.partition.iter().copied().chain(self.request.order.iter().map(|key| key.column))
    }

    /// Holds a share of the input.
    fn gather(&self) -> Result<GatheredPart> {
        let mut memory = self.request.broker.reservation(OWNER);
        let (mut batches, mut held) = (Vec::new(), HeldBuffers::default());
        let schema = self.input.schema();
        let range = |column: usize| width_of(schema.field(column).data_type()).map(|_| KeyRange::empty());
        let mut ranges: Vec<Option<KeyRange>> = self.key_columns().map(range).collect();
        // One partition is put in order by the keys themselves.
        let needs_ranges = !self.request.partition.is_empty();
        for batch in Arc::clone(&self.input).worker() {
            self.request.cancel.check()?;
            let batch = batch?;
            if self.gathered.is_over() {
                break;
            }
            if batch.num_rows() == 0 {
                continue;
            }
            held.add(&batch);
            memory.grow((held.bytes() as u64).saturating_sub(memory.bytes()))?;
            if needs_ranges {
                for (column, range) in self.key_columns().zip(&mut ranges) {
                    range.as_mut().map_or(Ok(()), |range| range.add(batch.column(column)))?;
                }
            }
            batches.push(batch);
        }
        Ok(GatheredPart { batches, ranges, memory })
    }

    fn whole_input(&self, parts: Vec<GatheredPart>) -> Result<Gathered> {
        let (mut batches, mut memory) = (Vec::new(), Vec::new());
        let mut ranges: Vec<Option<KeyRange>> = Vec::new();
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
                let layout = EntryLayout::new(partition, order, &ranges, self.input.schema(), held.place_bits)?;
                let buckets = usize::BITS - (held.rows / BUCKET_ROWS).leading_zeros();
                let bucket_bits = buckets.min(BUCKET_BITS_MAX).min(layout.partition_bits);
                Arrangement::Buckets { layout, bucket_bits }
            }
        };
        Ok(Gathered { held, arrangement, _memory: memory })
    }

    /// A sort of the places of all rows by the order of the window.
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
        let only_numbers =
            |call: &rowmill_plan::WindowCall| matches!(call.function, WindowFunction::Rank(RankFunction::RowNumber));
        let request = SortRequest {
            keys: order.iter().enumerate().map(|(column, key)| SortKey { column, ..*key }).collect(),
            skip: 0,
            rows: self.request.limit.filter(|_| self.request.calls.iter().all(only_numbers)),
            schema: Arc::clone(&schema),
            batch_rows: self.request.batch_rows,
            cancel: self.request.cancel.clone(),
            broker: self.request.broker.clone(),
        };
        Sort::new(Values::new(schema, batches), request)
    }

    fn needs_peers(&self) -> bool {
        self.request.calls.iter().any(call_needs_peers)
    }

    /// Puts the rows of some batches into buckets, or takes part in sorting all.
    fn scatter(&self, gathered: &Gathered) -> Result<ScatteredPart> {
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
                for batch in Arc::clone(sort).worker() {
                    let batch = batch?;
                    memory.grow((batch.num_rows() * size_of::<HeldPlace>()) as u64)?;
                    let (of_places, of_keys) = batch.columns().split_last().expect("a sort of places has their column");
                    let bits = of_places.as_primitive::<UInt64Type>().values();
                    places.extend(bits.iter().map(|bits| gathered.held.place(*bits)));
                    if needs_peers {
                        for (keys, column) in keys.iter_mut().zip(of_keys) {
                            memory.grow(column.get_array_memory_size() as u64)?;
                            keys.push(canonical(column)?);
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

    /// Calls `each` with the batches that this worker takes and their numbers, and makes the cells of their results.
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
        // Buckets grow by doubling, so that they have room for half as many again.
        let bytes_of_entry = size_of::<E>() * 3 / 2;
        let shift = layout.bits() - bucket_bits;
        let bucket = |entry: E| if bucket_bits == 0 { 0 } else { entry.above(shift).low() as usize };
        self.each_scattered(held, cells, memory, bytes_of_entry, |number, batch| {
            layout.entries::<E>(batch, held.first_place_bits(number), &mut entries)?;
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

    /// The table that leaves out unneeded rows; `None` if the calls need all rows.
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
        let is_exact = layout.has_order() && !layout.is_hashed();
        let can_leave_out = is_exact && self.request.calls.iter().all(|call| only_looks_back(&call.function));
        match can_leave_out {
            true => BestRows::new(limit, with_ties, layout.partition_bits, layout.order_bits),
            false => None,
        }
    }

    fn all_entries(&self, parts: Vec<ScatteredPart>, gathered: &Gathered) -> Result<Scattered> {
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
        Ok(Scattered { rows, cells: cells.into_iter().map(|(_, cells)| cells).collect(), _memory: memory })
    }

    /// The rows of a bucket in order; `None` if there is no such bucket.
    fn bucket(
        &self,
        number: usize,
        gathered: &Gathered,
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
        gathered: &Gathered,
        [entries, scratch]: &mut [Vec<E>; 2],
        memory: &mut Reservation,
    ) -> Result<Option<SortedRows>> {
        let Arrangement::Buckets { layout, bucket_bits } = &gathered.arrangement else { return Ok(None) };
        let Some(bucket) = buckets.get(number) else { return Ok(None) };
        self.request.cancel.check()?;
        entries.clear();
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

    /// Bytes that it takes to compute all calls of some rows, about.
    fn bytes_of(&self, rows: usize) -> u64 {
        (rows * (BYTES_OF_ROW + BYTES_OF_CALL * self.request.calls.len())) as u64
    }

    /// Computes buckets until none is left; or of one partition, calls.
    fn compute(&self, gathered: &Gathered, scattered: &Scattered) -> Result<ComputedPart> {
        let mut made = Vec::new();
        let mut made_memory = self.request.broker.reservation(OWNER);
        let mut memory = self.request.broker.reservation(OWNER);
        let mut room = BucketRoom::default();
        let mut write = |call: usize, bucket: usize, rows: &SortedRows, evaluation: &Evaluation<'_>| -> Result<()> {
            let (cells, of_call) = (&scattered.cells, &self.request.calls[call]);
            match evaluation.results(of_call)? {
                CallResults::Values(values) if CellForm::of(&of_call.kind) == CellForm::Picked => {
                    let picks: Vec<Pick> = (0..values.len()).map(|item| Pick::new(bucket, item)).collect();
                    made_memory.grow(values.get_array_memory_size() as u64)?;
                    made.push((call, bucket, values));
                    write_picks(cells, call, &rows.places, &picks)
                }
                CallResults::Values(values) => write_values(cells, call, &rows.places, &values),
                CallResults::Picks(picks) => write_picks(cells, call, &rows.places, &picks),
            }
        };
        let WindowRequest { order, broker, cancel, calls, .. } = &self.request;
        loop {
            let number = self.next_computed.fetch_add(1, Ordering::Relaxed);
            cancel.check()?;
            if let ReadyRows::Sorted(rows) = &scattered.rows {
                if number >= calls.len() || rows.len() == 0 {
                    break;
                }
                memory.grow(self.bytes_of(rows.len()) / calls.len() as u64)?;
                write(number, 0, rows, &Evaluation::new(&gathered.held, rows, order, broker, cancel))?;
            } else {
                let Some(rows) = self.bucket(number, gathered, &scattered.rows, &mut room, &mut memory)? else {
                    break;
                };
                if rows.len() > 0 {
                    let evaluation = Evaluation::new(&gathered.held, &rows, order, broker, cancel);
                    (0..calls.len()).try_for_each(|call| write(call, number, &rows, &evaluation))?;
                }
            }
            memory.recount(0);
        }
        Ok(ComputedPart { made, memory: made_memory })
    }

    fn all_results(&self, parts: Vec<ComputedPart>, gathered: &Gathered) -> Computed {
        let mut arrays: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.request.calls.len()];
        let mut memory = Vec::new();
        for part in parts {
            memory.push(part.memory);
            for (call, bucket, values) in part.made {
                let arrays = &mut arrays[call];
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
        Computed { arrays, _memory: memory }
    }

    /// The arrays of the input that results of a call are picked from.
    fn picked_arrays(&self, call: usize, gathered: &Gathered) -> Vec<ArrayRef> {
        let call = &self.request.calls[call];
        if CellForm::of(&call.kind) != CellForm::Picked {
            return Vec::new();
        }
        let (values, defaults) = picked_columns(call);
        let batches = &gathered.held.batches;
        let columns = values.into_iter().chain(defaults);
        columns.flat_map(|column| batches.iter().map(move |batch| Arc::clone(batch.column(column)))).collect()
    }

    /// The first rows of the partitions of the next bucket that has any.
    fn next_first_rows(
        &self,
        gathered: &Gathered,
        scattered: &Scattered,
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

    /// The rows whose first result is at most the limit, with all results, as batches.
    fn first_rows(&self, rows: &SortedRows, gathered: &Gathered, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let WindowRequest { order, broker, cancel, calls, limit, schema, batch_rows, .. } = &self.request;
        let evaluation = Evaluation::new(&gathered.held, rows, order, broker, cancel);
        let results = calls.iter().map(|call| evaluation.results(call)).collect::<Result<Vec<_>>>()?;
        let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let Some(CallResults::Values(first)) = results.first() else { return Ok(()) };
        let Some(first) = first.as_primitive_opt::<Int64Type>() else {
            return Err(rowmill_base::Error::internal("the first call of a window with a limit is a rank"));
        };
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

/// Adds the buckets of a worker to those of others.
fn put_together<E>(all: &mut Vec<Mutex<Vec<Vec<E>>>>, buckets: Buckets<E>) {
    all.resize_with(buckets.len(), Mutex::default);
    for (all, bucket) in all.iter_mut().zip(buckets) {
        if !bucket.is_empty() {
            all.get_mut().push(bucket);
        }
    }
}

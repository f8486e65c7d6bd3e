//! The slices of time of a sliced join, and the rows of a table in a slice.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{DataType, UInt64Type};
use rowmill_base::{Cancel, Error, Result};
use rowmill_plan::{CompareOp, Predicate, Scan};
use rowmill_storage::chunk::Chunk;
use rowmill_storage::{TableSource, times_of};

use super::key_numbers::{KeyNumbers, SharedNumbers};
use crate::batch::BatchSource;
use crate::scan::{ScanMetrics, ScanRequest, TableScan};

/// The right blocks of a slice. With fewer, the left blocks at the ends of slices would be read more often.
const SLICE_BLOCKS: usize = 4;
/// The most rows that are read for all slices, as a multiple of the rows of the table.
const READ_AGAIN_MAX: f64 = 2.5;

/// One side of a sliced join: a scan of a columnar table.
#[derive(Clone, Debug)]
pub(crate) struct SliceSide {
    source: Arc<dyn TableSource>,
    scan: Scan,
    /// The keys, by their positions in the columns of the scan.
    keys: Vec<usize>,
    /// The time, by its position in the columns of the scan.
    time: usize,
    /// The columns that the result has, by their positions in the columns of the scan.
    kept: Vec<usize>,
    batch_rows: usize,
    /// Whether rows with equal times are ordered by their numbers.
    orders_ties: bool,
    metrics: Arc<ScanMetrics>,
}

/// The slices, by the times between them.
#[derive(Clone, Debug)]
pub(crate) struct TimeSlices {
    bounds: Vec<i64>,
    kind: DataType,
}

/// The rows of a slice, in the order of time.
pub(super) struct SliceRows {
    pub(super) batches: Vec<RecordBatch>,
    /// The number of the key of each row.
    pub(super) keys: Vec<u32>,
    /// The time of each row.
    pub(super) times: Vec<i64>,
    kinds: Vec<DataType>,
}

impl SliceSide {
    /// Returns `None` if the rows cannot be read by slices: the time may be NULL or is no timestamp.
    pub(crate) fn new(
        source: Arc<dyn TableSource>,
        scan: &Scan,
        keys: Vec<usize>,
        time: usize,
        kept: Vec<usize>,
        (batch_rows, orders_ties): (usize, bool),
    ) -> Option<SliceSide> {
        let table = source.table();
        let column = &table.columns[*scan.columns.get(time)?];
        let is_time = matches!(column.kind.arrow(), DataType::Timestamp(..)) && !column.nullable;
        let are_stored = keys.iter().all(|key| *key < scan.columns.len());
        let is_usable = is_time && are_stored && table.keyed.is_none();
        is_usable.then(|| {
            let scan = Scan { row_number: false, ..scan.clone() };
            SliceSide { source, scan, keys, time, kept, batch_rows, orders_ties, metrics: Arc::default() }
        })
    }

    /// Counts of all slices.
    pub(crate) fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.metrics
    }

    /// The types of the keys.
    pub(super) fn key_kinds(&self) -> impl Iterator<Item = DataType> {
        let columns = &self.source.table().columns;
        self.keys.iter().map(|key| columns[self.scan.columns[*key]].kind.arrow())
    }

    fn time_kind(&self) -> DataType {
        self.source.table().columns[self.scan.columns[self.time]].kind.arrow()
    }

    fn block_times(&self) -> Result<Vec<(i64, i64, usize)>> {
        block_times(&*self.source, self.scan.columns[self.time])
    }

    /// The rows that all slices read, divided by the rows of the table.
    fn reads(&self, bounds: &[i64]) -> Result<f64> {
        let times = self.block_times()?;
        let rows: usize = times.iter().map(|(_, _, rows)| rows).sum();
        let slices = |min: i64, max: i64| {
            bounds.partition_point(|bound| *bound <= max) - bounds.partition_point(|bound| *bound <= min) + 1
        };
        let read: usize = times.iter().map(|(min, max, rows)| rows * slices(*min, *max)).sum();
        Ok(if rows == 0 { 1.0 } else { read as f64 / rows as f64 })
    }

    /// Reads the rows of a slice.
    pub(super) fn read(
        &self,
        slices: &TimeSlices,
        slice: usize,
        numbers: &mut KeyNumbers,
        shared: &SharedNumbers,
        cancel: &Cancel,
    ) -> Result<SliceRows> {
        let mut predicates = self.scan.predicates.clone();
        let time = self.scan.columns[self.time];
        predicates.extend(slices.predicates(slice, time)?);
        let request = ScanRequest {
            columns: self.scan.columns.clone(),
            predicates,
            limit: None,
            top: None,
            batch_rows: self.batch_rows,
            row_numbers: self.orders_ties,
            cancel: cancel.clone(),
        };
        let scan = TableScan::new(Arc::clone(&self.source), request)?;
        let counts = Arc::clone(scan.metrics());
        let mut rows = SliceRows {
            batches: Vec::new(),
            keys: Vec::new(),
            times: Vec::new(),
            kinds: self.kept.iter().map(|column| scan.schema().field(*column).data_type().clone()).collect(),
        };
        let width = self.scan.columns.len();
        let mut row_numbers: Vec<u64> = Vec::new();
        for batch in scan.worker() {
            let batch = batch?;
            let keys: Vec<ArrayRef> = self.keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
            numbers.add(&keys, batch.num_rows(), shared, &mut rows.keys)?;
            rows.times.extend(times_of(batch.column(self.time))?);
            if self.orders_ties {
                row_numbers.extend(batch.column(width).as_primitive::<UInt64Type>().values());
            }
            // Keys and times that the result does not have are not copied any further.
            rows.batches.push(batch.project(&self.kept).map_err(failed)?);
        }
        self.metrics.add(&counts);
        let number = |row: usize| row_numbers.get(row).copied().unwrap_or(row as u64);
        let place = |row: usize| (rows.times[row], number(row));
        match (1..rows.times.len()).all(|row| place(row - 1) <= place(row)) {
            true => Ok(rows),
            false => {
                let mut order: Vec<u32> = (0..rows.times.len() as u32).collect();
                order.sort_unstable_by_key(|row| place(*row as usize));
                rows.ordered(order)
            }
        }
    }
}

/// The least and greatest time, and the rows, of each block. `column` is the time, a timestamp or date without NULLs.
pub(crate) fn block_times(source: &dyn TableSource, column: usize) -> Result<Vec<(i64, i64, usize)>> {
    let mut times = Vec::with_capacity(source.blocks().len());
    for block in source.blocks() {
        let head = block.chunk_head(source.table(), column)?;
        let (min, max) = match head.as_ref().and_then(Chunk::zone) {
            Some(zone) => match zone.max {
                Some(max) => (times_of(&zone.min.value)?[0], times_of(&max.value)?[0]),
                None => (i64::MIN, i64::MAX),
            },
            None => (i64::MIN, i64::MAX),
        };
        times.push((min, max, block.rows()));
    }
    Ok(times)
}

impl TimeSlices {
    /// Slices that end before the times `bounds`, which must ascend. The last one has no end.
    pub(crate) fn new(bounds: Vec<i64>, kind: DataType) -> TimeSlices {
        TimeSlices { bounds, kind }
    }

    /// The slices for a join of two tables. Returns `None` if it does not pay to read them by slices.
    pub(crate) fn of(left: &SliceSide, right: &SliceSide) -> Result<Option<TimeSlices>> {
        if left.time_kind() != right.time_kind() {
            return Ok(None);
        }
        let mut blocks = right.block_times()?;
        blocks.sort_unstable();
        let (mut bounds, mut in_slice) = (Vec::new(), 0);
        for (min, _, _) in blocks {
            if in_slice >= SLICE_BLOCKS && bounds.last().is_none_or(|last| *last < min) {
                bounds.push(min);
                in_slice = 0;
            }
            in_slice += 1;
        }
        let is_worth =
            !bounds.is_empty() && left.reads(&bounds)? <= READ_AGAIN_MAX && right.reads(&bounds)? <= READ_AGAIN_MAX;
        Ok(is_worth.then(|| TimeSlices { bounds, kind: left.time_kind() }))
    }

    /// The number of slices.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The first time of a slice, and the time before which it ends. `None` for no bound.
    pub(crate) fn range(&self, slice: usize) -> (Option<i64>, Option<i64>) {
        (slice.checked_sub(1).map(|before| self.bounds[before]), self.bounds.get(slice).copied())
    }

    /// The conditions on the time of the rows of a slice.
    pub(crate) fn predicates(&self, slice: usize, column: usize) -> Result<Vec<Predicate>> {
        let (from, to) = self.range(slice);
        let from = from.map(|bound| (CompareOp::GreaterOrEqual, bound));
        let to = to.map(|bound| (CompareOp::Less, bound));
        let predicate = |(op, bound)| Ok(Predicate::Compare { column, op, value: time_array(&[bound], &self.kind)? });
        from.into_iter().chain(to).map(predicate).collect()
    }
}

impl SliceRows {
    /// The bytes of the rows.
    pub(super) fn bytes(&self) -> u64 {
        let batches: usize = self.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        (batches + self.times.len() * (size_of::<i64>() + size_of::<u32>())) as u64
    }

    /// The number of columns.
    pub(super) fn width(&self) -> usize {
        self.kinds.len()
    }

    /// The type of a column.
    pub(super) fn kind(&self, place: usize) -> &DataType {
        &self.kinds[place]
    }

    /// Puts the rows into another order.
    fn ordered(self, order: Vec<u32>) -> Result<SliceRows> {
        let times = order.iter().map(|row| self.times[*row as usize]).collect();
        let keys: Vec<u32> = order.iter().map(|row| self.keys[*row as usize]).collect();
        if self.kinds.is_empty() {
            return Ok(SliceRows { batches: Vec::new(), keys, times, kinds: self.kinds });
        }
        let schema = self.batches[0].schema();
        let whole = concat_batches(&schema, &self.batches).map_err(failed)?;
        let order = UInt32Array::from(order);
        let columns = whole.columns().iter().map(|column| take(column, &order, None).map_err(failed));
        let batch = RecordBatch::try_new(schema, columns.collect::<Result<_>>()?).map_err(failed)?;
        Ok(SliceRows { batches: vec![batch], keys, times, kinds: self.kinds })
    }
}

/// Times from their numbers: units of a timestamp, or days of a date.
pub(crate) fn time_array(times: &[i64], kind: &DataType) -> Result<ArrayRef> {
    let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
    match kind {
        DataType::Date32 => cast(&cast(&times, &DataType::Int32).map_err(failed)?, kind).map_err(failed),
        _ => cast(&times, kind).map_err(failed),
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot read a slice of time: {error}"))
}

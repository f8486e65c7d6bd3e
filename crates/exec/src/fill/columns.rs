//! Makes the columns of a batch of a FILL from rows of the input and rows that are added.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, UInt32Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type,
    i256,
};
use rowmill_base::{Error, Result};
use rowmill_plan::{Constant, FillMode};

use super::FillShape;
use super::gaps::{GapRows, Gaps};

/// The rows of a batch while it is made.
pub(super) struct FillColumns {
    shape: Arc<FillShape>,
    rows: usize,
    /// The rows of the input that stay, in order.
    reads: Vec<u32>,
    /// The rows that are added.
    filled: Vec<FilledRows>,
    /// The beginning of each row's bucket, and any number for NULL. Empty if no column needs them.
    ticks: Vec<i64>,
}

/// Rows of a batch that are added one after the other, with the same neighbours.
struct FilledRows {
    places: Range<usize>,
    previous: Option<u32>,
    next: Option<u32>,
}

/// The source of each row of a batch, in the forms that columns need. Each form is made when a column needs it.
struct FillSources {
    rows: usize,
    reads: Vec<u32>,
    filled: Vec<FilledRows>,
    ticks: ScalarBuffer<i64>,
    /// For each row the row of the input that it is, or the one before it, or, before the first one, the one after it.
    indices: OnceCell<ScalarBuffer<u32>>,
    /// For a row that is added: the row before it, or else the one after it.
    neighbours: OnceCell<UInt32Array>,
    /// For a row that is added: the row before it, or none.
    previous: OnceCell<UInt32Array>,
    /// For a row that is added: none.
    own: OnceCell<UInt32Array>,
}

impl FillSources {
    /// Calls `each` with rows of the input that follow each other in the batch, and the rows that are added after them.
    fn each_run(&self, mut each: impl FnMut(&[u32], Option<&FilledRows>)) {
        let (mut reads, mut place) = (&self.reads[..], 0);
        for added in &self.filled {
            let (before, after) = reads.split_at(added.places.start - place);
            each(before, Some(added));
            (reads, place) = (after, added.places.end);
        }
        each(reads, None);
    }

    fn indices(&self) -> &ScalarBuffer<u32> {
        self.indices.get_or_init(|| {
            let mut indices = Vec::with_capacity(self.rows);
            self.each_run(|reads, added| {
                indices.extend_from_slice(reads);
                if let Some(added) = added {
                    let neighbour = added.previous.or(added.next).unwrap_or(0);
                    indices.resize(indices.len() + added.places.len(), neighbour);
                }
            });
            indices.into()
        })
    }

    fn neighbours(&self) -> &UInt32Array {
        self.neighbours.get_or_init(|| self.without(|added| added.previous.is_none() && added.next.is_none()))
    }

    fn previous(&self) -> &UInt32Array {
        self.previous.get_or_init(|| self.without(|added| added.previous.is_none()))
    }

    fn own(&self) -> &UInt32Array {
        self.own.get_or_init(|| self.without(|_| true))
    }

    /// The source of each row, and none for added rows that are `excluded`.
    fn without(&self, excluded: fn(&FilledRows) -> bool) -> UInt32Array {
        let nulls = self.filled.iter().any(excluded).then(|| NullBuffer::new(!&self.marked(excluded)));
        UInt32Array::new(self.indices().clone(), nulls)
    }

    /// Sets a bit for each added row that `is_marked`.
    fn marked(&self, is_marked: fn(&FilledRows) -> bool) -> BooleanBuffer {
        let mut marks = BooleanBufferBuilder::new(self.rows);
        for added in self.filled.iter().filter(|added| is_marked(added)) {
            marks.append_n(added.places.start - marks.len(), false);
            marks.append_n(added.places.len(), true);
        }
        marks.append_n(self.rows - marks.len(), false);
        marks.finish()
    }

    /// The rows of the input that are next to added rows, and those between them.
    fn neighbour_rows(&self) -> Range<usize> {
        let rows = || self.filled.iter().flat_map(|rows| [rows.previous, rows.next]).flatten();
        let first = rows().min().unwrap_or_default() as usize;
        first..rows().max().map_or(first, |last| last as usize + 1)
    }

    fn are_filled(&self) -> BooleanArray {
        BooleanArray::from(self.marked(|_| true))
    }

    /// The column with the value before in each added row. An added row has the value of the row before it, so a column
    /// of numbers is written without a look-up for each added row.
    fn with_previous(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let has_previous = self.filled.iter().all(|added| added.previous.is_some());
        if has_previous && column.null_count() == 0 {
            let data = column.to_data();
            match column.data_type().primitive_width() {
                Some(4) => return self.runs::<u32>(&data),
                Some(8) => return self.runs::<u64>(&data),
                Some(16) => return self.runs::<i128>(&data),
                _ => {}
            }
        }
        taken(column, self.previous())
    }

    fn runs<T: ArrowNativeType>(&self, data: &ArrayData) -> Result<ArrayRef> {
        let values = data.buffer::<T>(0);
        let mut made: Vec<T> = Vec::with_capacity(self.rows);
        self.each_run(|reads, added| {
            made.extend(reads.iter().map(|row| values[*row as usize]));
            if let Some(FilledRows { places, previous: Some(previous), .. }) = added {
                made.resize(made.len() + places.len(), values[*previous as usize]);
            }
        });
        let data = ArrayData::builder(data.data_type().clone()).len(self.rows).add_buffer(Buffer::from_vec(made));
        data.build().map(make_array).map_err(failed)
    }
}

impl FillColumns {
    pub(super) fn new(shape: Arc<FillShape>) -> FillColumns {
        FillColumns { shape, rows: 0, reads: Vec::new(), filled: Vec::new(), ticks: Vec::new() }
    }

    /// The number of rows so far.
    pub(super) fn added(&self) -> usize {
        self.rows
    }

    /// Adds a row of the input.
    #[inline]
    pub(super) fn add_read(&mut self, row: usize, gaps: &Gaps) {
        self.rows += 1;
        self.reads.push(row as u32);
        if self.shape.needs_ticks {
            self.ticks.push(gaps.ticks_of(row).unwrap_or_default());
        }
    }

    /// Adds rows of the gap that comes next, until there are `rows_max` rows.
    #[inline]
    pub(super) fn add_gap(&mut self, gaps: &mut Gaps, rows_max: usize) -> Result<()> {
        let ticks = self.shape.needs_ticks.then_some(&mut self.ticks);
        let GapRows { rows, previous, next } = gaps.read_gap(rows_max - self.rows, ticks)?;
        let (previous, next) = (previous.map(|row| row as u32), next.map(|row| row as u32));
        self.filled.push(FilledRows { places: self.rows..self.rows + rows, previous, next });
        self.rows += rows;
        Ok(())
    }

    /// Makes the batch of the rows so far, which name rows of `gaps`, and begins the next one.
    pub(super) fn finish(&mut self, gaps: &Gaps) -> Result<RecordBatch> {
        // The next batch has about as many rows of each kind.
        fn replaced<T>(values: &mut Vec<T>) -> Vec<T> {
            let capacity = values.len();
            std::mem::replace(values, Vec::with_capacity(capacity))
        }
        let sources = FillSources {
            rows: std::mem::take(&mut self.rows),
            reads: replaced(&mut self.reads),
            filled: replaced(&mut self.filled),
            ticks: replaced(&mut self.ticks).into(),
            indices: OnceCell::new(),
            neighbours: OnceCell::new(),
            previous: OnceCell::new(),
            own: OnceCell::new(),
        };
        let columns = self.shape.plan.keep.iter().map(|place| self.column(gaps, *place, &sources));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(sources.rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.shape.schema), columns, &options).map_err(failed)
    }

    fn column(&self, gaps: &Gaps, place: usize, sources: &FillSources) -> Result<ArrayRef> {
        let (plan, input) = (&self.shape.plan, gaps.batch());
        let column = input.column(place);
        if sources.filled.is_empty() || plan.keys.contains(&place) || plan.origin == Some(place) {
            return taken(column, sources.neighbours());
        }
        if place == plan.bucket {
            // Only a row of the input can have no bucket.
            let nulls = match column.null_count() {
                0 => None,
                _ => taken(column, sources.own())?.nulls().map(|own| own.inner() | &sources.marked(|_| true)),
            };
            let ticks = Int64Array::new(sources.ticks.clone(), nulls.map(NullBuffer::new));
            return cast(&ticks, column.data_type()).map_err(failed);
        }
        match &plan.values[place] {
            FillMode::Null => taken(column, sources.own()),
            FillMode::Previous(of) if *of == place => sources.with_previous(column),
            FillMode::Previous(of) => {
                let own = taken(column, sources.own())?;
                let other = taken(input.column(*of), sources.previous())?;
                zip(&sources.are_filled(), &other, &own).map_err(failed)
            }
            FillMode::Value(value) => {
                let own = taken(column, sources.own())?;
                let value = arrow::array::Scalar::new(Arc::clone(Constant::array(value)));
                zip(&sources.are_filled(), &value, &own).map_err(failed)
            }
            FillMode::Linear => interpolated(gaps, column, sources),
        }
    }
}

/// The column with values on the straight line between their neighbours.
fn interpolated(gaps: &Gaps, column: &ArrayRef, sources: &FillSources) -> Result<ArrayRef> {
    let own = taken(column, sources.own())?;
    // The input may have many more rows than the batch.
    let rows = sources.neighbour_rows();
    let column = column.slice(rows.start, rows.len());
    let is_float = matches!(column.data_type(), DataType::Float32 | DataType::Float64);
    let added = if is_float {
        let values = cast(&column, &DataType::Float64).map_err(failed)?;
        let lines = lines(gaps, sources, values.as_primitive::<Float64Type>(), rows.start);
        let made: PrimitiveArray<Float64Type> = lines
            .map(|line| line.map(|(from, to, passed, whole)| from + (to - from) * passed as f64 / whole as f64))
            .collect();
        cast(&made, column.data_type()).map_err(failed)?
    } else if let Some(values) = column.as_primitive_opt::<Decimal256Type>() {
        let made: PrimitiveArray<Decimal256Type> = lines(gaps, sources, values, rows.start)
            .map(|line| line.map(|(from, to, passed, whole)| wide_point(from, to, passed, whole)))
            .collect();
        Arc::new(made.with_data_type(column.data_type().clone()))
    } else {
        let numbers = WholeNumbers::of(&column)?;
        let made = lines(gaps, sources, &numbers.values, rows.start)
            .map(|line| line.map(|(from, to, passed, whole)| rounded_quotient(from, to, passed, whole)));
        numbers.restored(made.collect(), column.data_type())?
    };
    zip(&sources.are_filled(), &added, &own).map_err(failed)
}

/// For each row that is added and has both neighbours with a value: their values, the time that has passed since the
/// first one, and the time between them. `values` begins with the row `first` of the input.
fn lines<'a, T: ArrowPrimitiveType>(
    gaps: &'a Gaps,
    sources: &'a FillSources,
    values: &'a PrimitiveArray<T>,
    first: usize,
) -> impl Iterator<Item = Option<(T::Native, T::Native, i128, i128)>> + 'a {
    let mut ends = None;
    let mut filled = sources.filled.iter().peekable();
    (0..).zip(sources.ticks.iter()).map(move |(place, ticks)| {
        let added = filled.peek().filter(|added| added.places.start <= place)?;
        if added.places.start == place {
            ends = match (added.previous, added.next) {
                (Some(previous), Some(next)) => line_between(gaps, values, first, [previous, next]),
                _ => None,
            };
        }
        if added.places.end == place + 1 {
            filled.next();
        }
        let (from, to, before, after) = ends?;
        Some((from, to, i128::from(*ticks) - before, after - before))
    })
}

/// The values of two rows and their times. `None` if one of them has no value.
fn line_between<T: ArrowPrimitiveType>(
    gaps: &Gaps,
    values: &PrimitiveArray<T>,
    first: usize,
    rows: [u32; 2],
) -> Option<(T::Native, T::Native, i128, i128)> {
    let rows = rows.map(|row| row as usize);
    let [previous, next] = rows.map(|row| row - first);
    if values.is_null(previous) || values.is_null(next) {
        return None;
    }
    let [before, after] = [gaps.ticks_of(rows[0])?, gaps.ticks_of(rows[1])?].map(i128::from);
    Some((values.value(previous), values.value(next), before, after))
}

/// The values of a column of whole numbers, decimals, dates or times as 128-bit numbers.
struct WholeNumbers {
    values: PrimitiveArray<Decimal128Type>,
}

impl WholeNumbers {
    fn of(column: &ArrayRef) -> Result<WholeNumbers> {
        let values: PrimitiveArray<Decimal128Type> = match column.data_type() {
            DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().clone(),
            DataType::UInt64 => {
                let numbers = column.as_primitive::<UInt64Type>();
                numbers.iter().map(|number| number.map(i128::from)).collect()
            }
            _ => {
                let numbers = match column.data_type() {
                    DataType::Date32 | DataType::Time32(_) => cast(column, &DataType::Int32).map_err(failed)?,
                    _ => Arc::clone(column),
                };
                let numbers = cast(&numbers, &DataType::Int64).map_err(failed)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                numbers.iter().map(|number| number.map(i128::from)).collect()
            }
        };
        Ok(WholeNumbers { values })
    }

    /// Values as a column of the type that they came from.
    fn restored(&self, values: Vec<Option<i128>>, kind: &DataType) -> Result<ArrayRef> {
        Ok(match kind {
            DataType::Decimal128(precision, scale) => Arc::new(
                PrimitiveArray::<Decimal128Type>::from(values)
                    .with_precision_and_scale(*precision, *scale)
                    .map_err(failed)?,
            ),
            DataType::UInt64 => {
                let values = values.into_iter().map(|value| value.map(|value| value as u64));
                Arc::new(values.collect::<PrimitiveArray<UInt64Type>>())
            }
            _ => {
                let values: Int64Array = values.into_iter().map(|value| value.map(|value| value as i64)).collect();
                let values: ArrayRef = match kind {
                    DataType::Date32 | DataType::Time32(_) => cast(&values, &DataType::Int32).map_err(failed)?,
                    _ => Arc::new(values),
                };
                cast(&values, kind).map_err(failed)?
            }
        })
    }
}

/// `from + (to - from) * passed / whole` of decimals of more than 38 digits, rounded like [`rounded_quotient`].
fn wide_point(from: i256, to: i256, passed: i128, whole: i128) -> i256 {
    let (passed, whole) = (i256::from_i128(passed), i256::from_i128(whole));
    let distance = to.wrapping_sub(from);
    // The distance is cut into multiples of the whole time and a rest, so that no product leaves 256 bits.
    let (times, rest) = (distance.wrapping_div(whole), distance.wrapping_rem(whole));
    let doubled = rest.wrapping_mul(passed).wrapping_mul(i256::from_i128(2));
    let half = if distance.is_negative() { whole.wrapping_neg() } else { whole };
    let part = doubled.wrapping_add(half).wrapping_div(whole.wrapping_mul(i256::from_i128(2)));
    from.wrapping_add(times.wrapping_mul(passed)).wrapping_add(part)
}

/// `from + (to - from) * passed / whole`, rounded to the nearest whole number, half away from zero.
fn rounded_quotient(from: i128, to: i128, passed: i128, whole: i128) -> i128 {
    match (to - from).checked_mul(passed).and_then(|product| product.checked_mul(2)) {
        Some(doubled) => {
            let half = if doubled >= 0 { whole } else { -whole };
            from + (doubled + half) / (2 * whole)
        }
        // Decimals of 38 digits over years of nanoseconds do not fit; their last digits are then rounded.
        None => from + ((to - from) / whole) * passed + ((to - from) % whole) * passed / whole,
    }
}

fn taken(column: &ArrayRef, sources: &UInt32Array) -> Result<ArrayRef> {
    if column.is_empty() {
        // There is no row to take from: every row is NULL.
        return Ok(arrow::array::new_null_array(column.data_type(), sources.len()));
    }
    take(column, sources, None).map_err(failed)
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot fill buckets: {error}"))
}

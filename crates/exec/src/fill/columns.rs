//! Makes the columns of a batch of a FILL from rows of the input and rows that are added.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, UInt32Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type, i256,
};
use rowmill_base::{Error, Result};
use rowmill_plan::{Constant, FillMode};

use super::FillShape;
use super::gaps::Gaps;

/// The rows of a batch while it is made.
pub(super) struct FillColumns {
    shape: Arc<FillShape>,
    /// For each row the row of the input that it is, or the one before it, or, before the first one, the one after it.
    sources: Vec<u32>,
    /// The beginning of each row's bucket, and any number for NULL.
    ticks: Vec<i64>,
    /// The rows that are added.
    filled: Vec<FilledRows>,
}

/// Rows of a batch that are added one after the other, with the same neighbours.
struct FilledRows {
    places: Range<usize>,
    previous: Option<u32>,
    next: Option<u32>,
}

/// The source of each row of a batch, in the forms that columns need.
struct FillSources {
    /// For a row that is added: the row before it, or else the one after it.
    neighbours: UInt32Array,
    /// For a row that is added: the row before it, or none.
    previous: UInt32Array,
    /// For a row that is added: none. Few columns need it.
    own: OnceCell<UInt32Array>,
    ticks: ScalarBuffer<i64>,
    filled: Vec<FilledRows>,
}

impl FillSources {
    fn of(sources: Vec<u32>, ticks: Vec<i64>, filled: Vec<FilledRows>) -> FillSources {
        let sources = ScalarBuffer::from(sources);
        let with_nulls = |is_null: fn(&FilledRows) -> bool| {
            let nulls = filled.iter().any(is_null).then(|| NullBuffer::new(!&marked(sources.len(), &filled, is_null)));
            UInt32Array::new(sources.clone(), nulls)
        };
        FillSources {
            neighbours: with_nulls(|rows| rows.previous.is_none() && rows.next.is_none()),
            previous: with_nulls(|rows| rows.previous.is_none()),
            own: OnceCell::new(),
            ticks: ticks.into(),
            filled,
        }
    }

    fn len(&self) -> usize {
        self.neighbours.len()
    }

    fn own(&self) -> &UInt32Array {
        self.own.get_or_init(|| {
            let nulls = NullBuffer::new(!self.are_filled().values());
            UInt32Array::new(self.neighbours.values().clone(), Some(nulls))
        })
    }

    /// The rows of the input that are next to added rows, and those between them.
    fn neighbour_rows(&self) -> Range<usize> {
        let rows = || self.filled.iter().flat_map(|rows| [rows.previous, rows.next]).flatten();
        let first = rows().min().unwrap_or_default() as usize;
        first..rows().max().map_or(first, |last| last as usize + 1)
    }

    fn are_filled(&self) -> BooleanArray {
        BooleanArray::from(marked(self.len(), &self.filled, |_| true))
    }
}

/// Sets a bit for each added row that `is_marked`.
fn marked(rows: usize, filled: &[FilledRows], is_marked: fn(&FilledRows) -> bool) -> BooleanBuffer {
    let mut marks = BooleanBufferBuilder::new(rows);
    for added in filled.iter().filter(|added| is_marked(added)) {
        marks.append_n(added.places.start - marks.len(), false);
        marks.append_n(added.places.len(), true);
    }
    marks.append_n(rows - marks.len(), false);
    marks.finish()
}

impl FillColumns {
    pub(super) fn new(shape: Arc<FillShape>) -> FillColumns {
        FillColumns { shape, sources: Vec::new(), ticks: Vec::new(), filled: Vec::new() }
    }

    /// The number of rows so far.
    pub(super) fn added(&self) -> usize {
        self.sources.len()
    }

    /// Adds a row of the input.
    pub(super) fn add_read(&mut self, row: usize, gaps: &Gaps) {
        self.sources.push(row as u32);
        self.ticks.push(gaps.ticks_of(row).unwrap_or_default());
    }

    /// Adds rows of the gap that comes next, until there are `rows_max` rows.
    pub(super) fn add_gap(&mut self, gaps: &mut Gaps, rows_max: usize) -> Result<()> {
        let from = self.sources.len();
        let (previous, next) = gaps.read_gap(rows_max - from, &mut self.ticks)?;
        let (previous, next) = (previous.map(|row| row as u32), next.map(|row| row as u32));
        let places = from..self.ticks.len();
        self.sources.resize(places.end, previous.or(next).unwrap_or(0));
        self.filled.push(FilledRows { places, previous, next });
        Ok(())
    }

    /// Makes the batch of the rows so far, which name rows of `gaps`, and begins the next one.
    pub(super) fn finish(&mut self, gaps: &Gaps) -> Result<RecordBatch> {
        let input = gaps.batch();
        // The next batch has about as many rows.
        let rows = self.sources.len();
        let sources = std::mem::replace(&mut self.sources, Vec::with_capacity(rows));
        let ticks = std::mem::replace(&mut self.ticks, Vec::with_capacity(rows));
        let filled = std::mem::take(&mut self.filled);
        let columns = if filled.is_empty() {
            let sources = UInt32Array::from(sources);
            self.shape.plan.keep.iter().map(|place| taken(input.column(*place), &sources)).collect::<Result<Vec<_>>>()?
        } else {
            let sources = FillSources::of(sources, ticks, filled);
            self.shape.plan.keep.iter().map(|place| self.column(gaps, *place, &sources)).collect::<Result<_>>()?
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.shape.schema), columns, &options).map_err(failed)
    }

    fn column(&self, gaps: &Gaps, place: usize, sources: &FillSources) -> Result<ArrayRef> {
        let (plan, input) = (&self.shape.plan, gaps.batch());
        let column = input.column(place);
        if plan.keys.contains(&place) || plan.origin == Some(place) {
            return taken(column, &sources.neighbours);
        }
        if place == plan.bucket {
            // Only a row of the input can have no bucket.
            let nulls = match column.null_count() {
                0 => None,
                _ => taken(column, sources.own())?.nulls().map(|own| own.inner() | sources.are_filled().values()),
            };
            let ticks = Int64Array::new(sources.ticks.clone(), nulls.map(NullBuffer::new));
            return cast(&ticks, column.data_type()).map_err(failed);
        }
        match &plan.values[place] {
            FillMode::Null => taken(column, sources.own()),
            FillMode::Previous(of) if *of == place => taken(column, &sources.previous),
            FillMode::Previous(of) => {
                let own = taken(column, sources.own())?;
                let other = taken(input.column(*of), &sources.previous)?;
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

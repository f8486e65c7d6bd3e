//! Makes the columns of a batch of a FILL from rows of the input and rows that are added.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use rowmill_base::{Error, Result};
use rowmill_plan::{Constant, FillMode};

use super::FillShape;
use super::gaps::ticks_at;

/// The rows of a batch while it is made.
pub(super) struct FillColumns {
    shape: Arc<FillShape>,
    /// For each row the row of the input that it is, or the one before it, or, before the first one, the one after it.
    sources: Vec<u32>,
    /// For each row that is added, its place in the batch and its neighbours.
    filled: Vec<FilledRow>,
}

struct FilledRow {
    place: usize,
    ticks: i64,
    previous: Option<u32>,
    next: Option<u32>,
}

/// The source of each row of a batch, in the forms that columns need.
struct FillSources {
    /// For a row that is added: the row before it, or else the one after it.
    neighbours: UInt32Array,
    /// For a row that is added: the row before it, or none.
    previous: UInt32Array,
    /// For a row that is added: none.
    own: UInt32Array,
}

impl FillSources {
    fn of(sources: &[u32], filled: &[FilledRow]) -> FillSources {
        let with_nulls = |is_null: &dyn Fn(&FilledRow) -> bool| {
            let mut are_valid = vec![true; sources.len()];
            filled.iter().filter(|row| is_null(row)).for_each(|row| are_valid[row.place] = false);
            UInt32Array::new(sources.to_vec().into(), Some(NullBuffer::from(are_valid)))
        };
        let neighbours = with_nulls(&|row| row.previous.is_none() && row.next.is_none());
        let previous = match filled.iter().all(|row| row.previous.is_some()) {
            true => neighbours.clone(),
            false => with_nulls(&|row| row.previous.is_none()),
        };
        FillSources { neighbours, previous, own: with_nulls(&|_| true) }
    }
}

impl FillColumns {
    pub(super) fn new(shape: Arc<FillShape>) -> FillColumns {
        FillColumns { shape, sources: Vec::new(), filled: Vec::new() }
    }

    /// The number of rows so far.
    pub(super) fn added(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn add_read(&mut self, row: usize) {
        self.sources.push(row as u32);
    }

    pub(super) fn add_filled(&mut self, ticks: i64, previous: Option<usize>, next: Option<usize>) {
        let (previous, next) = (previous.map(|row| row as u32), next.map(|row| row as u32));
        self.filled.push(FilledRow { place: self.sources.len(), ticks, previous, next });
        self.sources.push(previous.or(next).unwrap_or(0));
    }

    /// Makes the batch of the rows so far, which name rows of `input`, and begins the next one.
    pub(super) fn finish(&mut self, input: &RecordBatch) -> Result<RecordBatch> {
        let rows = self.sources.len();
        let columns = if self.filled.is_empty() {
            let sources = UInt32Array::from(std::mem::take(&mut self.sources));
            input.columns().iter().map(|column| taken(column, &sources)).collect::<Result<Vec<_>>>()?
        } else {
            let sources = FillSources::of(&self.sources, &self.filled);
            let mut columns = Vec::with_capacity(input.num_columns());
            for place in 0..input.num_columns() {
                columns.push(self.column(input, place, &sources)?);
            }
            self.sources.clear();
            self.filled.clear();
            columns
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.shape.schema), columns, &options).map_err(failed)
    }

    fn column(&self, input: &RecordBatch, place: usize, sources: &FillSources) -> Result<ArrayRef> {
        let plan = &self.shape.plan;
        let column = input.column(place);
        if plan.keys.contains(&place) || plan.origin == Some(place) {
            return taken(column, &sources.neighbours);
        }
        if place == plan.bucket {
            let own = cast(&taken(column, &sources.neighbours)?, &DataType::Int64).map_err(failed)?;
            let own = own.as_primitive::<Int64Type>();
            let mut ticks = own.values().to_vec();
            self.filled.iter().for_each(|row| ticks[row.place] = row.ticks);
            // Only a row of the input can have no bucket.
            let is_filled = || self.are_filled();
            let nulls = own.nulls().map(|nulls| NullBuffer::new(nulls.inner() | is_filled().values()));
            return cast(&Int64Array::new(ticks.into(), nulls), column.data_type()).map_err(failed);
        }
        match &plan.values[place] {
            FillMode::Null => taken(column, &sources.own),
            FillMode::Previous(of) if *of == place => taken(column, &sources.previous),
            FillMode::Previous(of) => {
                let own = taken(column, &sources.own)?;
                let other = taken(input.column(*of), &sources.previous)?;
                zip(&self.are_filled(), &other, &own).map_err(failed)
            }
            FillMode::Value(value) => {
                let own = taken(column, &sources.own)?;
                let value = arrow::array::Scalar::new(Arc::clone(Constant::array(value)));
                zip(&self.are_filled(), &value, &own).map_err(failed)
            }
            FillMode::Linear => self.interpolated(input, column, sources),
        }
    }

    fn are_filled(&self) -> BooleanArray {
        let mut are_filled = vec![false; self.sources.len()];
        self.filled.iter().for_each(|row| are_filled[row.place] = true);
        BooleanArray::from(are_filled)
    }

    /// The column with values on the straight line between their neighbours.
    fn interpolated(&self, input: &RecordBatch, column: &ArrayRef, sources: &FillSources) -> Result<ArrayRef> {
        let buckets = input.column(self.shape.plan.bucket);
        let own = taken(column, &sources.own)?;
        let is_float = matches!(column.data_type(), DataType::Float32 | DataType::Float64);
        let added = if is_float {
            let values = cast(column, &DataType::Float64).map_err(failed)?;
            let values = values.as_primitive::<Float64Type>();
            let made: PrimitiveArray<Float64Type> = self
                .lines(buckets, values)
                .map(|line| line.map(|(from, to, passed, whole)| from + (to - from) * passed as f64 / whole as f64))
                .collect();
            cast(&made, column.data_type()).map_err(failed)?
        } else {
            let numbers = WholeNumbers::of(column)?;
            let values = &numbers.values;
            let made = self
                .lines(buckets, values)
                .map(|line| line.map(|(from, to, passed, whole)| rounded_quotient(from, to, passed, whole)));
            numbers.restored(made.collect(), column.data_type())?
        };
        zip(&self.are_filled(), &added, &own).map_err(failed)
    }

    /// For each row that is added and has both neighbours with a value: their values, the time that has passed since
    /// the first one, and the time between them.
    fn lines<'a, T: arrow::datatypes::ArrowPrimitiveType>(
        &'a self,
        buckets: &'a ArrayRef,
        values: &'a PrimitiveArray<T>,
    ) -> impl Iterator<Item = Option<(T::Native, T::Native, i128, i128)>> + 'a {
        let mut filled = self.filled.iter().peekable();
        (0..self.sources.len()).map(move |place| {
            let row = filled.next_if(|row| row.place == place)?;
            let (previous, next) = (row.previous? as usize, row.next? as usize);
            if values.is_null(previous) || values.is_null(next) {
                return None;
            }
            let unit = self.shape.unit;
            let before = i128::from(ticks_at(buckets, unit, previous)?);
            let after = i128::from(ticks_at(buckets, unit, next)?);
            Some((values.value(previous), values.value(next), i128::from(row.ticks) - before, after - before))
        })
    }
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

//! Some values of a result, for a chart.
//!
//! A result may have any number of rows, and a chart has few points. So we keep the rows at a fixed distance from each
//! other. If they become too many, we drop every second one and double the distance.

use rowmill::arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, UInt64Array};
use rowmill::arrow::compute::{cast, take};
use rowmill::arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType};
use rowmill::text::TextColumn;
use rowmill::{Error, Result};

/// The most rows that are kept.
const ROWS_MAX: usize = 4096;

/// The most characters of a label.
const LABEL_CHARS_MAX: usize = 60;

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SampledValues {
    /// NaN is NULL.
    Numbers(Vec<f64>),
    /// Microseconds since 1970. NaN is NULL.
    Times(Vec<f64>),
    Labels(Vec<String>),
}

impl SampledValues {
    fn keep_every_second(&mut self) {
        fn halve<T>(values: &mut Vec<T>) {
            let mut is_kept = false;
            values.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        match self {
            SampledValues::Numbers(values) | SampledValues::Times(values) => halve(values),
            SampledValues::Labels(labels) => halve(labels),
        }
    }
}

/// A column of a result.
#[derive(Clone, Debug)]
pub(crate) struct SampledColumn {
    pub(crate) name: String,
    pub(crate) values: SampledValues,
}

/// Some rows of a result.
#[derive(Clone, Debug)]
pub(crate) struct PlotSample {
    pub(crate) columns: Vec<SampledColumn>,
    /// Rows of the result so far.
    rows: u64,
    /// Rows kept.
    kept: usize,
    /// A row is kept if its number is a multiple of this.
    stride: u64,
}

impl PlotSample {
    pub(crate) fn new(schema: &Schema) -> PlotSample {
        let column = |(name, kind): (&String, &DataType)| {
            let values = match kind {
                DataType::Timestamp(..) | DataType::Date32 => SampledValues::Times(Vec::new()),
                kind if kind.is_numeric() => SampledValues::Numbers(Vec::new()),
                _ => SampledValues::Labels(Vec::new()),
            };
            SampledColumn { name: name.clone(), values }
        };
        let fields = schema.fields().iter().map(|field| (field.name(), field.data_type()));
        PlotSample { columns: fields.map(column).collect(), rows: 0, kept: 0, stride: 1 }
    }

    /// The distance of the rows that are kept.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// The number of rows that are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept
    }

    /// Adds the rows of the next batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        let first = (self.stride - self.rows % self.stride) % self.stride;
        let chosen: Vec<u64> = (first..rows).step_by(self.stride as usize).collect();
        self.rows += rows;
        self.kept += chosen.len();
        let chosen = UInt64Array::from(chosen);
        for (column, values) in self.columns.iter_mut().zip(batch.columns()) {
            let values = take(values, &chosen, None).map_err(|error| Error::internal(error.to_string()))?;
            add_values(&mut column.values, &values)?;
        }
        while self.kept > ROWS_MAX {
            self.columns.iter_mut().for_each(|column| column.values.keep_every_second());
            self.kept = self.kept.div_ceil(2);
            self.stride *= 2;
        }
        Ok(())
    }
}

fn add_values(kept: &mut SampledValues, values: &ArrayRef) -> Result<()> {
    match kept {
        SampledValues::Numbers(numbers) => numbers.extend(as_numbers(values)?.iter().map(or_nan)),
        SampledValues::Times(times) => {
            let micros = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, None)).map_err(not_cast)?;
            let micros = micros.as_primitive::<TimestampMicrosecondType>().reinterpret_cast::<Int64Type>();
            times.extend(micros.iter().map(|micros| micros.map_or(f64::NAN, |micros| micros as f64)));
        }
        SampledValues::Labels(labels) => {
            let column = TextColumn::new(values)?;
            for row in 0..values.len() {
                let mut text = String::new();
                let is_value = column.write(row, &mut text);
                let text = if is_value { text } else { "NULL".to_owned() };
                let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
                labels.push(visible.take(LABEL_CHARS_MAX).collect());
            }
        }
    }
    Ok(())
}

fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn as_numbers(values: &ArrayRef) -> Result<Float64Array> {
    let numbers = cast(values, &DataType::Float64).map_err(not_cast)?;
    Ok(numbers.as_primitive::<Float64Type>().clone())
}

fn not_cast(error: rowmill::arrow::error::ArrowError) -> Error {
    Error::internal(format!("a value cannot be drawn: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rowmill::arrow::array::Int32Array;

    use super::*;

    #[test]
    fn the_rows_that_are_kept_have_the_same_distance() {
        let batch = |from: i32, to: i32| {
            let values: ArrayRef = Arc::new(Int32Array::from_iter_values(from..to));
            RecordBatch::try_from_iter([("n", values)]).expect("one column")
        };
        let mut sample = PlotSample::new(&batch(0, 0).schema());
        let mut from = 0;
        for rows in [1, 4096, 1000, 3, 7001, 0, 20_000] {
            sample.add(&batch(from, from + rows)).expect("numbers");
            from += rows;
        }
        let stride = sample.stride();
        assert_eq!(stride, 8);
        let expected: Vec<f64> = (0..from).step_by(stride as usize).map(f64::from).collect();
        assert_eq!(sample.len(), expected.len());
        assert_eq!(sample.columns[0].values, SampledValues::Numbers(expected));
    }
}

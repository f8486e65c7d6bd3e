//! Inputs and functions for tests of operators.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result};

use crate::batch::{BatchSource, Batches};
use crate::group::VectorFunction;
use crate::share::share;
use crate::values::ReadyBatches;

/// The schema of one column of 64-bit numbers.
pub(crate) fn number_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

pub(crate) fn number_batch(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_new(number_schema(), vec![numbers]).expect("one column")
}

/// Returns the numbers of `range` in batches of `batch_rows`.
pub(crate) fn numbers(range: Range<i64>, batch_rows: usize) -> Arc<ReadyBatches> {
    let starts = range.clone().step_by(batch_rows);
    let batches = starts.map(|start| number_batch(start..range.end.min(start + batch_rows as i64))).collect();
    ReadyBatches::new(number_schema(), batches)
}

/// Returns numbers and NULLs in batches of `batch_rows`.
pub(crate) fn nullable_numbers(values: impl IntoIterator<Item = Option<i64>>, batch_rows: usize) -> Arc<ReadyBatches> {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let values: Vec<Option<i64>> = values.into_iter().collect();
    let batch = |values: &[Option<i64>]| {
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(values.to_vec()))])
            .expect("one column")
    };
    let batches = values.chunks(batch_rows).map(batch).collect();
    ReadyBatches::new(schema, batches)
}

/// Returns pairs of numbers in batches of `batch_rows`.
pub(crate) fn number_pairs(rows: impl IntoIterator<Item = (i64, i64)>, batch_rows: usize) -> Arc<ReadyBatches> {
    let fields = ["n", "m"].map(|name| Field::new(name, DataType::Int64, true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
    let rows: Vec<(i64, i64)> = rows.into_iter().collect();
    let batch = |rows: &[(i64, i64)]| {
        let first = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
        let second = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(first), Arc::new(second)]).expect("two columns")
    };
    let batches = rows.chunks(batch_rows).map(batch).collect();
    ReadyBatches::new(schema, batches)
}

/// The numbers in the second column of batches.
pub(crate) fn second_numbers_of(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// The numbers in the first column of batches.
pub(crate) fn numbers_of(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// A source whose shares each fail after one batch.
#[derive(Debug)]
pub(crate) struct Failing(pub(crate) Arc<ReadyBatches>);

impl BatchSource for Failing {
    fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    fn parallelism(&self) -> usize {
        self.0.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut share_of_values = Arc::clone(&self.0).worker();
        let mut given = false;
        share(move || {
            if std::mem::replace(&mut given, true) {
                return Err(Error::new(ErrorKind::Io, "the input failed"));
            }
            share_of_values.next().transpose()
        })
    }
}

type Compute = fn(&[ArrayRef], usize) -> Result<ArrayRef>;

/// A function of a test in the form that operators use.
pub(crate) struct ComputedColumn {
    columns: Vec<usize>,
    compute: Compute,
}

impl ComputedColumn {
    pub(crate) fn new(columns: &[usize], compute: Compute) -> Arc<ComputedColumn> {
        Arc::new(ComputedColumn { columns: columns.to_vec(), compute })
    }
}

impl fmt::Debug for ComputedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Computed({:?})", self.columns)
    }
}

impl VectorFunction for ComputedColumn {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        (self.compute)(columns, rows)
    }
}

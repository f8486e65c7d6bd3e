//! `row_number() OVER ()`: numbers the rows in the order in which they come.
//!
//! The workers take the numbers from a shared counter, so no row is kept. If the input is ordered, one share has all
//! its rows, and the numbers follow the order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use rowmill_base::Result;
use rowmill_plan::logical::RankFunction;
use rowmill_plan::window::{Window, WindowCall, WindowFunction};

use crate::batch::{BatchSource, Batches};
use crate::share::{batch_of, share, with_nulls};

/// Whether a window only numbers its rows, in any order.
pub(crate) fn numbers_all_rows(window: &Window) -> bool {
    let numbers = |call: &WindowCall| matches!(call.function, WindowFunction::Rank(RankFunction::RowNumber));
    window.partition.is_empty() && window.order.is_empty() && window.calls.iter().all(numbers)
}

/// Returns the rows of its input with their numbers.
#[derive(Debug)]
pub(crate) struct NumberedRows {
    input: Arc<dyn BatchSource>,
    /// The columns of the input, then one BIGINT column or several equal ones.
    schema: SchemaRef,
    taken: AtomicU64,
}

impl NumberedRows {
    /// Numbers the rows of `input` from 1. The columns of `schema` after those of the input are the numbers.
    pub(crate) fn new(input: Arc<dyn BatchSource>, schema: &SchemaRef) -> Arc<NumberedRows> {
        assert!(schema.fields().len() >= input.schema().fields().len(), "the numbers are further columns");
        Arc::new(NumberedRows { input, schema: with_nulls(schema), taken: AtomicU64::new(0) })
    }

    fn numbered(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        // The counter gives each batch its own range of numbers, whatever worker takes it.
        let first = self.taken.fetch_add(rows as u64, Ordering::Relaxed) as i64;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first + 1..=first + rows as i64));
        let mut columns = batch.columns().to_vec();
        columns.resize(self.schema.fields().len(), numbers);
        batch_of("numbers of rows", &self.schema, columns, rows)
    }
}

impl BatchSource for NumberedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        share(move || input.next().transpose()?.map(|batch| self.numbered(&batch)).transpose())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{numbers, numbers_of};

    fn numbered() -> Arc<NumberedRows> {
        let input = numbers(0..100, 10);
        let mut fields = input.schema().fields().to_vec();
        fields.push(Arc::new(Field::new("row", DataType::Int64, true)));
        NumberedRows::new(input, &Arc::new(Schema::new(fields)))
    }

    #[test]
    fn one_worker_numbers_the_rows_in_their_order() {
        let batches = collect(&(numbered() as Arc<dyn BatchSource>), 1).expect("nothing fails");
        assert_eq!(numbers_of(&batches), (0..100).collect::<Vec<_>>());
        let numbers = batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec());
        assert_eq!(numbers.collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    }

    #[test]
    fn all_workers_together_give_each_number_once() {
        let batches = collect(&(numbered() as Arc<dyn BatchSource>), 4).expect("nothing fails");
        let numbers = batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec());
        let mut numbers: Vec<i64> = numbers.collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    }
}

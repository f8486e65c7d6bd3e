//! DISTINCT ON: the first row of each combination of values.
//!
//! The order of the input decides which row is the first. If the input is sorted, one share has all its rows in order.
//! We do not keep rows, only the combinations.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, Result};

use crate::batch::{BatchSource, Batches};
use crate::row_keys::RowKeys;
use crate::row_set::RowSet;
use crate::share::share;

/// Returns the first row of each combination of values in its input.
#[derive(Debug)]
pub(crate) struct FirstRows {
    input: Arc<dyn BatchSource>,
    by: Vec<usize>,
    distinct: DistinctRows,
    cancel: Cancel,
}

impl FirstRows {
    /// Makes the operator over `input`. Rows are compared by the columns `by`, where NULL equals NULL. Workers check
    /// `cancel` once per batch. `broker` grants the memory for the combinations.
    pub(crate) fn new(
        input: Arc<dyn BatchSource>,
        by: Vec<usize>,
        cancel: Cancel,
        broker: &Broker,
    ) -> Result<Arc<FirstRows>> {
        let kinds = by.iter().map(|column| input.schema().field(*column).data_type().clone());
        let distinct = DistinctRows::new(kinds, "DISTINCT ON", broker)?;
        Ok(Arc::new(FirstRows { input, by, distinct, cancel }))
    }
}

impl BatchSource for FirstRows {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        share(move || {
            loop {
                self.cancel.check()?;
                let Some(batch) = input.next().transpose()? else { return Ok(None) };
                let columns: Vec<ArrayRef> = self.by.iter().map(|column| Arc::clone(batch.column(*column))).collect();
                let first = self.distinct.new_rows(&batch, &columns)?;
                if first.num_rows() > 0 {
                    return Ok(Some(first));
                }
            }
        })
    }
}

/// Finds the rows that differ from all rows before.
#[derive(Debug)]
pub(crate) struct DistinctRows {
    keys: RowKeys,
    known: Mutex<RowSet>,
}

impl DistinctRows {
    /// Starts without known rows. Rows are compared by columns of the types `kinds`. `owner` names the memory in
    /// errors.
    pub(crate) fn new(
        kinds: impl Iterator<Item = arrow::datatypes::DataType>,
        owner: &'static str,
        broker: &Broker,
    ) -> Result<DistinctRows> {
        Ok(DistinctRows { keys: RowKeys::new(kinds)?, known: Mutex::new(RowSet::new(broker.reservation(owner))) })
    }

    /// Returns the rows of `batch` that are the first ones with their values of `columns`.
    pub(crate) fn new_rows(&self, batch: &RecordBatch, columns: &[ArrayRef]) -> Result<RecordBatch> {
        let keys = self.keys.encode(columns)?;
        let mut first = Vec::with_capacity(batch.num_rows());
        self.known.lock().add(&keys, batch.num_rows(), |is_new| first.push(is_new))?;
        // If all rows are new, the batch goes on without a copy.
        if first.iter().all(|is_new| *is_new) {
            return Ok(batch.clone());
        }
        filter_record_batch(batch, &BooleanArray::new(BooleanBuffer::from(first), None))
            .map_err(|error| Error::internal(format!("cannot filter the rows of DISTINCT: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, number_pairs, numbers, numbers_of, second_numbers_of};

    #[test]
    fn the_first_row_of_each_value_is_returned() {
        for (workers, batch_rows) in [(1, 1), (1, 3), (1, 1024), (4, 3)] {
            let rows = (0..200).map(|row| (row % 7, row));
            let source: Arc<dyn BatchSource> =
                FirstRows::new(number_pairs(rows, batch_rows), vec![0], Cancel::new(), &Broker::new(1 << 20))
                    .expect("numbers");
            let batches = collect(&source, workers).expect("nothing fails");
            let mut found = numbers_of(&batches);
            found.sort_unstable();
            assert_eq!(found, (0..7).collect::<Vec<_>>());
            if workers == 1 {
                assert_eq!(second_numbers_of(&batches), (0..7).collect::<Vec<_>>());
            }
            assert!(batches.iter().all(|batch| batch.num_rows() > 0));
        }
    }

    #[test]
    fn without_columns_there_is_one_first_row() {
        let source: Arc<dyn BatchSource> =
            FirstRows::new(numbers(3..50, 10), Vec::new(), Cancel::new(), &Broker::new(1 << 20)).expect("no types");
        assert_eq!(numbers_of(&collect(&source, 1).expect("nothing fails")), [3]);
    }

    #[test]
    fn errors_cancel_and_the_memory_limit_end_the_work() {
        let first = |input: Arc<dyn BatchSource>, cancel: &Cancel, bytes| -> Arc<dyn BatchSource> {
            FirstRows::new(input, vec![0], cancel.clone(), &Broker::new(bytes)).expect("numbers")
        };
        let cancel = Cancel::new();
        let failing = Arc::new(Failing(numbers(0..100, 1)));
        assert_eq!(collect(&first(failing, &cancel, 1 << 20), 1).expect_err("a failure").kind(), ErrorKind::Io);
        let error = collect(&first(numbers(0..10_000, 100), &cancel, 10_000), 2).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        cancel.cancel();
        let error = collect(&first(numbers(0..10, 1), &cancel, 1 << 20), 1).expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}

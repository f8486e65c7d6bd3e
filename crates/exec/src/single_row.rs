//! Checks that a scalar subquery returns at most one row for each combination of values.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result};

use crate::batch::{BatchSource, Batches};
use crate::row_keys::RowKeys;
use crate::row_set::RowSet;
use crate::share::share;

/// Returns the rows of its input. Fails if two of them have the same values in some columns.
#[derive(Debug)]
pub(crate) struct SingleRow {
    input: Arc<dyn BatchSource>,
    by: Vec<usize>,
    keys: RowKeys,
    /// The combinations in all rows so far.
    known: Mutex<RowSet>,
    /// Whether a row has come. Used if `by` is empty, so that all rows have the same combination.
    has_row: AtomicBool,
    cancel: Cancel,
}

impl SingleRow {
    /// Makes the operator over `input`, which may have at most one row per combination of the columns `by`. NULL
    /// equals NULL. Workers check `cancel` once per batch. `broker` grants the memory for the combinations.
    pub(crate) fn new(
        input: Arc<dyn BatchSource>,
        by: Vec<usize>,
        cancel: Cancel,
        broker: &Broker,
    ) -> Result<Arc<SingleRow>> {
        let keys = RowKeys::new(by.iter().map(|column| input.schema().field(*column).data_type().clone()))?;
        let known = Mutex::new(RowSet::new(broker.reservation("SINGLE ROW")));
        Ok(Arc::new(SingleRow { input, by, keys, known, has_row: AtomicBool::new(false), cancel }))
    }

    /// Fails if a row of these columns has the same combination as another one of them or as an earlier row.
    fn check(&self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        // Without columns, a flag is enough and no rows need to be remembered.
        if self.by.is_empty() {
            let is_second = rows > 1 || rows > 0 && self.has_row.swap(true, Ordering::Relaxed);
            return if is_second { Err(more_than_one_row()) } else { Ok(()) };
        }
        let columns: Vec<ArrayRef> = self.by.iter().map(|column| Arc::clone(&columns[*column])).collect();
        let (keys, mut all_new) = (self.keys.encode(&columns)?, true);
        self.known.lock().add(&keys, rows, |is_new| all_new &= is_new)?;
        if all_new { Ok(()) } else { Err(more_than_one_row()) }
    }
}

impl BatchSource for SingleRow {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        share(move || {
            self.cancel.check()?;
            let Some(batch) = input.next().transpose()? else { return Ok(None) };
            self.check(batch.columns(), batch.num_rows())?;
            Ok(Some(batch))
        })
    }
}

/// The error of a scalar subquery that returns several rows.
pub(crate) fn more_than_one_row() -> Error {
    let message = "a subquery that stands for a value returned more than one row";
    Error::new(ErrorKind::CardinalityViolation, message)
        .hint("make it one row with an aggregate, a narrower condition, or ORDER BY ... LIMIT 1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, nullable_numbers, numbers, numbers_of};

    fn single(input: Arc<dyn BatchSource>, by: &[usize]) -> Arc<dyn BatchSource> {
        SingleRow::new(input, by.to_vec(), Cancel::new(), &Broker::new(1 << 20)).expect("types that rows can have")
    }

    #[test]
    fn one_row_or_none_is_returned() {
        for workers in [1, 4] {
            assert!(numbers_of(&collect(&single(numbers(0..0, 1), &[]), workers).expect("no row")).is_empty());
            assert_eq!(numbers_of(&collect(&single(numbers(7..8, 1), &[]), workers).expect("one row")), [7]);
            let distinct = collect(&single(numbers(0..500, 3), &[0]), workers).expect("one row each");
            assert_eq!(numbers_of(&distinct).len(), 500);
        }
    }

    #[test]
    fn a_second_row_is_an_error() {
        for (workers, batch_rows) in [(1, 1), (4, 1), (1, 3), (4, 1024)] {
            let two = collect(&single(numbers(0..2, batch_rows), &[]), workers).expect_err("two rows");
            assert_eq!(two.kind(), ErrorKind::CardinalityViolation);
            for twice in [Some(5), None] {
                let values = (0..50).map(Some).chain([None, twice]);
                let input = nullable_numbers(values, batch_rows);
                let error = collect(&single(input, &[0]), workers).expect_err("a value twice");
                assert_eq!(error.kind(), ErrorKind::CardinalityViolation);
            }
        }
    }

    #[test]
    fn errors_and_cancel_are_returned() {
        let failing = single(Arc::new(Failing(numbers(0..100, 1))), &[0]);
        assert_eq!(collect(&failing, 1).expect_err("a failure").kind(), ErrorKind::Io);
        let cancel = Cancel::new();
        cancel.cancel();
        let source: Arc<dyn BatchSource> =
            SingleRow::new(numbers(0..1, 1), vec![], cancel, &Broker::new(1 << 20)).expect("no types");
        assert_eq!(collect(&source, 1).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    }
}

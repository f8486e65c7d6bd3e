//! Keeps the rows for which a condition is true.
//!
//! A batch whose rows all pass goes on unchanged. Otherwise we make a new batch of the rows that pass. While few rows
//! pass, the rows of several batches are put into one, so that the operators above do not work on tiny batches. Texts
//! are copied when only a small part of their buffers is still needed. A share keeps the order of its rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{BatchCoalescer, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use rowmill_base::{Cancel, Error, Result};

use crate::batch::{BatchSource, Batches};
use crate::group::VectorFunction;
use crate::project::evaluate;
use crate::share::share;

/// Returns the rows of its input for which a condition is true. Rows for which it is false or NULL are left out.
#[derive(Debug)]
pub(crate) struct Filter {
    input: Arc<dyn BatchSource>,
    condition: Arc<dyn VectorFunction>,
    batch_rows: usize,
    cancel: Cancel,
}

impl Filter {
    /// Makes a filter of `input`. `condition` is a function of its columns and must return Booleans. Batches that are
    /// put together have at most `batch_rows` rows (at least one). Workers check `cancel` once per batch.
    pub(crate) fn new(
        input: Arc<dyn BatchSource>,
        condition: Arc<dyn VectorFunction>,
        batch_rows: usize,
        cancel: Cancel,
    ) -> Arc<Filter> {
        Arc::new(Filter { input, condition, batch_rows: batch_rows.max(1), cancel })
    }

    /// Marks the rows that pass.
    fn passing(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let truth = evaluate(&*self.condition, batch)?;
        let truth = truth_of(&truth, batch.num_rows())?;
        Ok(if truth.null_count() > 0 { prep_null_mask_filter(truth) } else { truth.clone() })
    }
}

/// The values of a condition for `rows` rows, checked.
pub(crate) fn truth_of(values: &ArrayRef, rows: usize) -> Result<&BooleanArray> {
    values.as_boolean_opt().filter(|truth| truth.len() == rows).ok_or_else(|| {
        let found = format!("{} values of {}", values.len(), values.data_type());
        Error::internal(format!("a condition on {rows} rows gave {found}"))
    })
}

impl BatchSource for Filter {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut filtered = Filtered {
            input: Arc::clone(&self.input).worker(),
            gathered: BatchCoalescer::new(Arc::clone(self.input.schema()), self.batch_rows)
                // Copying larger batches once more does not pay off.
                .with_biggest_coalesce_batch_size(Some(self.batch_rows / 2)),
            untouched: None,
            filter: self,
        };
        share(move || filtered.next_batch())
    }

    fn passes(&self, column: usize) -> Option<(&dyn BatchSource, usize)> {
        // If the condition may fail for a row, that row must not be left out before, or the error would be lost.
        self.condition.never_fails().then_some((&*self.input, column))
    }
}

/// One worker's share.
struct Filtered {
    filter: Arc<Filter>,
    input: Batches,
    /// The rows that passed and wait for more.
    gathered: BatchCoalescer,
    /// A batch that passed unchanged and follows after the gathered rows.
    untouched: Option<RecordBatch>,
}

impl Filtered {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.gathered.next_completed_batch().or_else(|| self.untouched.take()) {
                return Ok(Some(batch));
            }
            self.filter.cancel.check()?;
            match self.input.next().transpose()? {
                Some(batch) => self.add(batch)?,
                None if self.gathered.is_empty() => return Ok(None),
                None => self.gathered.finish_buffered_batch().map_err(failed)?,
            }
        }
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let passing = self.filter.passing(&batch)?;
        match passing.true_count() {
            // No row passes, so nothing is copied.
            0 => Ok(()),
            rows if rows == batch.num_rows() => {
                // The gathered rows came before this batch, so they must be returned first.
                self.untouched = Some(batch);
                self.gathered.finish_buffered_batch().map_err(failed)
            }
            // Filter first. If the coalescer applied the mask itself, it would keep the buffers of all texts.
            _ => filter_record_batch(&batch, &passing)
                .and_then(|passed| self.gathered.push_batch(passed))
                .map_err(failed),
        }
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot filter a batch: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{ComputedColumn, Failing, number_batch, number_schema, numbers, numbers_of};
    use crate::values::ReadyBatches;

    fn filtered(input: Arc<dyn BatchSource>, condition: Arc<ComputedColumn>) -> Arc<dyn BatchSource> {
        Filter::new(input, condition, 100, Cancel::new())
    }

    /// True for multiples of 1,000 and numbers from 5,000 to 5,999; NULL for negative numbers.
    fn few() -> Arc<ComputedColumn> {
        ComputedColumn::new(&[0], |columns, _| {
            let numbers = columns[0].as_primitive::<Int64Type>().values().iter();
            let truth = numbers.map(|n| (*n >= 0).then_some(n % 1_000 == 0 || (5_000..6_000).contains(n)));
            Ok(Arc::new(truth.collect::<BooleanArray>()))
        })
    }

    #[test]
    fn rows_pass_where_the_condition_is_true_and_keep_their_order() {
        let source = filtered(numbers(-3_000..20_000, 250), few());
        let batches = collect(&source, 1).expect("nothing fails");
        let expected: Vec<i64> = (0..20_000).filter(|n| n % 1_000 == 0 || (5_000..6_000).contains(n)).collect();
        assert_eq!(numbers_of(&batches), expected);
        // The rows before, four unchanged batches, and the rows after.
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [5, 250, 250, 250, 250, 14]);
    }

    #[test]
    fn a_batch_whose_rows_all_pass_is_not_copied() {
        let batch = number_batch(0..10);
        let all = ComputedColumn::new(&[], |_, rows| Ok(Arc::new(BooleanArray::from(vec![true; rows]))));
        let source = filtered(ReadyBatches::new(number_schema(), vec![batch.clone()]), all);
        let passed = collect(&source, 1).expect("nothing fails");
        assert!(Arc::ptr_eq(passed[0].column(0), batch.column(0)));
    }

    #[test]
    fn several_workers_return_every_row_once() {
        let source = filtered(numbers(0..200_000, 70), few());
        let mut found = numbers_of(&collect(&source, 4).expect("nothing fails"));
        found.sort_unstable();
        assert_eq!(found, (0..200_000).filter(|n| n % 1_000 == 0 || (5_000..6_000).contains(n)).collect::<Vec<_>>());
    }

    #[test]
    fn a_few_texts_do_not_keep_the_buffers_of_all() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("s", DataType::Utf8View, true),
        ]));
        let batches = (0..20).map(|batch| {
            let texts = (0..1_000).map(|row| format!("a text too long for its view, {batch} {row}"));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(batch * 1_000..(batch + 1) * 1_000)),
                Arc::new(StringViewArray::from_iter_values(texts)),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("two columns")
        });
        let source = filtered(ReadyBatches::new(Arc::clone(&schema), batches.collect()), few());
        let passed = collect(&source, 1).expect("nothing fails");
        assert_eq!(passed[0].num_rows(), 5);
        let texts = passed[0].column(1).as_string_view();
        assert_eq!(texts.value(3), "a text too long for its view, 3 0");
        assert!(texts.get_buffer_memory_size() < 20_000, "{} bytes", texts.get_buffer_memory_size());
    }

    #[test]
    fn errors_of_input_condition_and_cancel_are_returned() {
        let source = filtered(Arc::new(Failing(numbers(0..100, 10))), few());
        assert_eq!(collect(&source, 2).unwrap_err().kind(), ErrorKind::Io);

        let number = ComputedColumn::new(&[0], |columns, _| Ok(Arc::clone(&columns[0])));
        let error = collect(&filtered(numbers(0..10, 10), number), 1).unwrap_err();
        assert_eq!(error.message(), "a condition on 10 rows gave 10 values of Int64");

        let cancel = Cancel::new();
        cancel.cancel();
        let source: Arc<dyn BatchSource> = Filter::new(numbers(0..10, 10), few(), 100, cancel);
        assert_eq!(collect(&source, 1).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

//! INTERSECT ALL and EXCEPT ALL: selects rows of the first input by how often they occur in the second one.
//!
//! We count the rows of the second input. Then we read the first input, and each of its rows takes one from the count
//! of its equal row while the count is above zero. `INTERSECT ALL` returns the rows that took one, `EXCEPT ALL` the
//! others.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, Result};

use crate::batch::{BatchSource, Batches};
use crate::phase::Phase;
use crate::row_keys::RowKeys;
use crate::row_set::RowSet;
use crate::share::share;

/// Returns rows of its first input depending on how often they occur in the second one.
pub(crate) struct SetAll {
    left: Arc<dyn BatchSource>,
    right: Arc<dyn BatchSource>,
    except: bool,
    keys: RowKeys,
    counts: Mutex<RepeatedRows>,
    counting: Arc<Phase<(), ()>>,
    cancel: Cancel,
}

/// Distinct rows, and how often each may still be matched.
struct RepeatedRows {
    rows: RowSet,
    left: Vec<u64>,
}

impl fmt::Debug for SetAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SetAll");
        debug.field("left", &self.left).field("right", &self.right).field("except", &self.except);
        debug.finish_non_exhaustive()
    }
}

impl SetAll {
    /// Makes `left EXCEPT ALL right` or `left INTERSECT ALL right`. Both inputs must have columns of the same types.
    /// NULL equals NULL. Workers check `cancel` once per batch. `broker` grants the memory for the rows of `right`.
    pub(crate) fn new(
        left: Arc<dyn BatchSource>,
        right: Arc<dyn BatchSource>,
        except: bool,
        cancel: Cancel,
        broker: Broker,
    ) -> Result<Arc<SetAll>> {
        let owner = if except { "EXCEPT ALL" } else { "INTERSECT ALL" };
        let keys = RowKeys::new(left.schema().fields().iter().map(|field| field.data_type().clone()))?;
        let counts = Mutex::new(RepeatedRows { rows: RowSet::new(broker.reservation(owner)), left: Vec::new() });
        Ok(Arc::new(SetAll { left, right, except, keys, counts, counting: Arc::default(), cancel }))
    }

    /// Counts the rows of the second input, together with other workers. Returns false if another worker failed.
    fn count(&self) -> Result<bool> {
        let read = || {
            for batch in Arc::clone(&self.right).worker() {
                self.cancel.check()?;
                if self.counting.is_over() {
                    break;
                }
                let batch = batch?;
                let keys = self.keys.encode(batch.columns())?;
                let RepeatedRows { rows, left } = &mut *self.counts.lock();
                for row in 0..batch.num_rows() {
                    // The number of a distinct row is its index in `left`.
                    let (number, is_new) = rows.insert(keys.get(row));
                    if is_new {
                        left.push(0);
                    }
                    left[number] += 1;
                }
                rows.account(left.capacity() * size_of::<u64>())?;
            }
            Ok(())
        };
        Ok(self.counting.run(&self.cancel, read, |_| Ok(()))?.is_some())
    }

    /// Selects the rows of a batch of the first input that belong to the result.
    fn given(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keys = self.keys.encode(batch.columns())?;
        let RepeatedRows { rows, left } = &mut *self.counts.lock();
        let is_given = BooleanBuffer::collect_bool(batch.num_rows(), |row| {
            let count = rows.find(keys.get(row)).map(|number| &mut left[number]).filter(|count| **count > 0);
            let has_taken = count.is_some();
            if let Some(count) = count {
                *count -= 1;
            }
            // INTERSECT ALL keeps the rows that took one, EXCEPT ALL the others.
            has_taken != self.except
        });
        filter_record_batch(batch, &BooleanArray::new(is_given, None))
            .map_err(|error| Error::internal(format!("cannot filter the rows of a set operation: {error}")))
    }
}

impl BatchSource for SetAll {
    fn schema(&self) -> &SchemaRef {
        self.left.schema()
    }

    fn parallelism(&self) -> usize {
        self.left.parallelism().max(self.right.parallelism())
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut left: Option<Batches> = None;
        share(move || {
            loop {
                self.cancel.check()?;
                let left = match &mut left {
                    Some(left) => left,
                    None if !self.count()? => return Ok(None),
                    None => left.insert(Arc::clone(&self.left).worker()),
                };
                let Some(batch) = left.next().transpose()? else { return Ok(None) };
                let given = self.given(&batch)?;
                if given.num_rows() > 0 {
                    return Ok(Some(given));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, nullable_numbers, numbers};

    fn run(
        left: &[Option<i64>],
        right: &[Option<i64>],
        except: bool,
        workers: usize,
        batch_rows: usize,
    ) -> Vec<Option<i64>> {
        let input = |values: &[Option<i64>]| nullable_numbers(values.to_vec(), batch_rows) as Arc<dyn BatchSource>;
        let broker = Broker::new(1 << 20);
        let source: Arc<dyn BatchSource> =
            SetAll::new(input(left), input(right), except, Cancel::new(), broker.clone()).expect("numbers");
        let batches = collect(&source, workers).expect("nothing fails");
        assert!(batches.iter().all(|batch| batch.num_rows() > 0));
        drop(source);
        assert_eq!(broker.used_bytes(), 0);
        let mut found: Vec<Option<i64>> =
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>()).collect();
        found.sort();
        found
    }

    fn model(left: &[Option<i64>], right: &[Option<i64>], except: bool) -> Vec<Option<i64>> {
        let mut rest = right.to_vec();
        let mut given: Vec<Option<i64>> = left
            .iter()
            .copied()
            .filter(|value| {
                let place = rest.iter().position(|other| other == value);
                place.is_some_and(|place| {
                    rest.swap_remove(place);
                    true
                }) != except
            })
            .collect();
        given.sort();
        given
    }

    #[test]
    fn rows_are_returned_as_often_as_the_sql_standard_says() {
        let values =
            |count: i64, of: i64| (0..count).map(|row| (row % of != 3).then_some(row * 7 % of)).collect::<Vec<_>>();
        let inputs = [vec![], values(5, 2), values(60, 9), values(200, 13), vec![None; 4], vec![Some(0); 3]];
        for left in &inputs {
            for right in &inputs {
                for except in [true, false] {
                    for (workers, batch_rows) in [(1, 1), (4, 3), (1, 1024), (4, 1024)] {
                        assert_eq!(run(left, right, except, workers, batch_rows), model(left, right, except));
                    }
                }
            }
        }
    }

    #[test]
    fn errors_cancel_and_the_memory_limit_end_the_work() {
        let run = |right: Arc<dyn BatchSource>, cancel: &Cancel, bytes| {
            let source: Arc<dyn BatchSource> =
                SetAll::new(numbers(0..10, 1), right, true, cancel.clone(), Broker::new(bytes)).expect("numbers");
            collect(&source, 3).expect_err("an end").kind()
        };
        let cancel = Cancel::new();
        assert_eq!(run(Arc::new(Failing(numbers(0..100, 1))), &cancel, 1 << 20), ErrorKind::Io);
        assert_eq!(run(numbers(0..10_000, 100), &cancel, 10_000), ErrorKind::MemoryLimit);
        cancel.cancel();
        assert_eq!(run(numbers(0..10, 1), &cancel, 1 << 20), ErrorKind::Cancelled);
    }
}

//! OFFSET and LIMIT.
//!
//! The workers count the rows that they take in a shared counter, so that all of them stop as soon as there are
//! enough. A batch at either end is cut. If the input is ordered, one share has all its rows, and so does the result.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;

use crate::batch::{BatchSource, Batches};
use crate::share::share;

/// Returns a part of the rows of its input.
#[derive(Debug)]
pub(crate) struct Limit {
    input: Arc<dyn BatchSource>,
    /// The rows to return, as numbers in the order in which rows are taken from the input.
    given: Range<u64>,
    taken: AtomicU64,
}

impl Limit {
    /// Skips the first `skip` rows of `input` and returns at most `rows` of the others, or all if `rows` is absent.
    pub(crate) fn new(input: Arc<dyn BatchSource>, skip: usize, rows: Option<usize>) -> Arc<Limit> {
        let end = rows.map_or(u64::MAX, |rows| (skip as u64).saturating_add(rows as u64));
        Arc::new(Limit { input, given: skip as u64..end, taken: AtomicU64::new(0) })
    }
}

impl BatchSource for Limit {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        share(move || {
            while !self.given.is_empty() && self.taken.load(Ordering::Relaxed) < self.given.end {
                let Some(batch) = input.next().transpose()? else { return Ok(None) };
                let rows = batch.num_rows() as u64;
                // The counter gives each batch its own range of row numbers, whatever worker takes it.
                let first = self.taken.fetch_add(rows, Ordering::Relaxed);
                let start = self.given.start.clamp(first, first + rows);
                let end = self.given.end.clamp(first, first + rows);
                // A batch that only has skipped rows is passed over.
                if start < end {
                    return Ok(Some(batch.slice((start - first) as usize, (end - start) as usize)));
                }
            }
            Ok(None)
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, numbers, numbers_of};

    #[test]
    fn one_worker_gets_the_rows_in_their_order() {
        for (skip, rows, expected) in [
            (0, Some(5), 0..5),
            (7, Some(6), 7..13),
            (10, Some(10), 10..20),
            (95, Some(10), 95..100),
            (40, None, 40..100),
            (100, Some(1), 0..0),
            (500, None, 0..0),
            (3, Some(0), 0..0),
            (3, Some(usize::MAX), 3..100),
        ] {
            let source: Arc<dyn BatchSource> = Limit::new(numbers(0..100, 10), skip, rows);
            let batches = collect(&source, 1).expect("nothing fails");
            assert_eq!(numbers_of(&batches), expected.collect::<Vec<_>>(), "{skip} {rows:?}");
            assert!(batches.iter().all(|batch| batch.num_rows() > 0));
        }
    }

    #[test]
    fn all_workers_together_return_the_rows_asked_for() {
        for (skip, rows) in [(0, 1), (123, 1_000), (4_990, 50), (0, 5_000), (0, 0)] {
            let source: Arc<dyn BatchSource> = Limit::new(numbers(0..5_000, 7), skip, Some(rows));
            let batches = collect(&source, 4).expect("nothing fails");
            let mut found = numbers_of(&batches);
            assert_eq!(found.len(), rows.min(5_000 - skip));
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), rows.min(5_000 - skip), "no row twice");
        }
    }

    #[test]
    fn the_input_is_not_read_further_than_needed() {
        let input = numbers(0..100, 10);
        let source: Arc<dyn BatchSource> = Limit::new(Arc::clone(&input) as _, 5, Some(15));
        collect(&source, 1).expect("nothing fails");
        let left: Vec<RecordBatch> = input.worker().collect::<Result<_, _>>().expect("nothing fails");
        assert_eq!(left.len(), 8);

        let failing: Arc<dyn BatchSource> = Limit::new(Arc::new(Failing(numbers(0..100, 10))), 0, Some(10));
        assert_eq!(collect(&failing, 1).expect("the failure comes after the last row").len(), 1);
    }
}

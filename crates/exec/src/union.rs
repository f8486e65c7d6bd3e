//! UNION ALL.
//!
//! Workers read the inputs one after the other. Each input is read by as many workers as have something to do in it;
//! further workers go on to the next input. In the end every worker also asks the inputs that it skipped, because a
//! share of them may have been dropped early. A filter of a join above is offered to all inputs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::SchemaRef;

use crate::batch::{BatchSource, Batches};
use crate::key_filter::KeyFilter;
use crate::share::share;

/// Returns the rows of all its inputs.
#[derive(Debug)]
pub(crate) struct Union {
    inputs: Vec<UnionInput>,
    schema: SchemaRef,
}

#[derive(Debug)]
struct UnionInput {
    source: Arc<dyn BatchSource>,
    /// The number of workers that have begun a share.
    workers: AtomicUsize,
}

impl Union {
    /// Makes the operator over `inputs`. Their columns must have the types of `schema`.
    pub(crate) fn new(inputs: Vec<Arc<dyn BatchSource>>, schema: SchemaRef) -> Arc<Union> {
        let kinds =
            |schema: &SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        for input in &inputs {
            assert_eq!(kinds(input.schema()), kinds(&schema), "all inputs of a union must have its types");
        }
        let inputs = inputs.into_iter().map(|source| UnionInput { source, workers: AtomicUsize::new(0) }).collect();
        Arc::new(Union { inputs, schema })
    }

    /// Takes the next input to read out of `left`. Skips inputs with enough workers, unless no other input is left.
    fn next_input(&self, left: &mut VecDeque<usize>) -> Option<usize> {
        for _ in 0..left.len() {
            let number = left.pop_front()?;
            let input = &self.inputs[number];
            if input.workers.fetch_add(1, Ordering::Relaxed) < input.source.parallelism() {
                return Some(number);
            }
            // The input has enough workers. We may come back to it at the end.
            left.push_back(number);
        }
        left.pop_front()
    }
}

impl BatchSource for Union {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.source.parallelism()))
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut left: VecDeque<usize> = (0..self.inputs.len()).collect();
        let mut input: Option<Batches> = None;
        share(move || {
            loop {
                if let Some(batch) = input.as_mut().and_then(Iterator::next).transpose()? {
                    return Ok(Some(batch));
                }
                let Some(next) = self.next_input(&mut left) else { return Ok(None) };
                input = Some(Arc::clone(&self.inputs[next].source).worker());
            }
        })
    }

    fn accepts(&self, column: usize) -> bool {
        self.inputs.iter().any(|input| input.source.accepts(column))
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        let accepting = self.inputs.iter().filter(|input| input.source.accepts(column));
        accepting.for_each(|input| input.source.offer(column, filter));
    }

    fn narrows(&self, column: usize) -> bool {
        self.inputs.iter().all(|input| input.source.narrows(column))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, ArrayRef, Int64Array};
    use rowmill_base::{Broker, ErrorKind};

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, number_schema, numbers, numbers_of};

    /// Counts the filters that it is offered.
    #[derive(Debug)]
    struct Filtered(Arc<dyn BatchSource>, AtomicUsize);

    impl BatchSource for Filtered {
        fn schema(&self) -> &SchemaRef {
            self.0.schema()
        }

        fn parallelism(&self) -> usize {
            self.0.parallelism()
        }

        fn worker(self: Arc<Self>) -> Batches {
            Arc::clone(&self.0).worker()
        }

        fn accepts(&self, _: usize) -> bool {
            true
        }

        fn offer(&self, _: usize, _: &Arc<KeyFilter>) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn filters_are_offered_to_all_inputs_that_accept_them() {
        let filtered = || Arc::new(Filtered(numbers(0..10, 10), AtomicUsize::new(0)));
        let (first, second) = (filtered(), filtered());
        let inputs: Vec<Arc<dyn BatchSource>> =
            vec![Arc::clone(&first) as _, numbers(0..10, 10), Arc::clone(&second) as _];
        let union = Union::new(inputs, number_schema());
        assert!(union.accepts(0) && !union.narrows(0));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![3]));
        let mut memory = Broker::new(1 << 20).reservation("test");
        let filter = KeyFilter::new(values.data_type(), &[&values], false, Arc::default(), &mut memory);
        union.offer(0, &Arc::new(filter.expect("memory")));
        assert_eq!([&first, &second].map(|input| input.1.load(Ordering::Relaxed)), [1, 1]);
        let plain = Union::new(three(), number_schema());
        assert!(!plain.accepts(0));
    }

    fn three() -> Vec<Arc<dyn BatchSource>> {
        vec![numbers(0..1_000, 10), numbers(0..0, 10), numbers(1_000..1_005, 10)]
    }

    #[test]
    fn every_row_of_every_input_is_returned_once() {
        for threads in 1..=4 {
            let source: Arc<dyn BatchSource> = Union::new(three(), number_schema());
            assert_eq!(source.parallelism(), 101);
            let mut found = numbers_of(&collect(&source, threads).expect("nothing fails"));
            found.sort_unstable();
            assert_eq!(found, (0..1_005).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_worker_reads_one_input_after_the_other() {
        let source: Arc<dyn BatchSource> = Union::new(three(), number_schema());
        assert_eq!(numbers_of(&collect(&source, 1).expect("nothing fails")), (0..1_005).collect::<Vec<_>>());
    }

    #[test]
    fn rows_left_by_a_dropped_share_are_read_by_another_worker() {
        let union = Union::new(vec![numbers(0..10, 10), numbers(10..30, 20)], number_schema());
        // This share has begun the first input but returned nothing yet.
        let mut left: VecDeque<usize> = (0..2).collect();
        assert_eq!(union.next_input(&mut left), Some(0));
        let source: Arc<dyn BatchSource> = union;
        let mut found = numbers_of(&collect(&source, 1).expect("nothing fails"));
        found.sort_unstable();
        assert_eq!(found, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn no_inputs_give_no_rows_and_errors_are_returned() {
        let source: Arc<dyn BatchSource> = Union::new(Vec::new(), number_schema());
        assert!(collect(&source, 2).expect("nothing fails").is_empty());
        let inputs: Vec<Arc<dyn BatchSource>> = vec![numbers(0..5, 10), Arc::new(Failing(numbers(0..50, 10)))];
        let source: Arc<dyn BatchSource> = Union::new(inputs, number_schema());
        assert_eq!(collect(&source, 2).unwrap_err().kind(), ErrorKind::Io);
    }
}

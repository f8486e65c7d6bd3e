//! WITH RECURSIVE: computes rounds until one returns no rows.
//!
//! ```text
//! round 0    the rows of the base
//! round n    the rows of the step over the rows of round n - 1, by operators built for that round
//! ```
//!
//! All workers take part in the open round, each with a share of its operators. When all of them have read to the end,
//! one worker closes the round: it removes rows that were returned before, if the query asks for that (UNION), offers
//! the remaining rows to the workers, and opens the next round over them. Rows are returned before the next round
//! begins, so that we compute only the rounds that the reader asks for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result};

use crate::batch::{BatchSource, Batches};
use crate::first_rows::DistinctRows;
use crate::phase::Phase;
use crate::share::{batch_of, share, with_nulls};
use crate::shared::KeptBatches;

/// Builds the operators of a round over the rows of the round before.
pub(crate) type BuildStep = Box<dyn Fn(Vec<RecordBatch>) -> Result<Arc<dyn BatchSource>> + Send + Sync>;

/// The inputs of a recursive query.
pub(crate) struct RecursiveRequest {
    /// The rows of the first round.
    pub base: Arc<dyn BatchSource>,
    /// The rows of each later round.
    pub step: BuildStep,
    /// Whether rows that were returned before are left out.
    pub distinct: bool,
    /// The schema of the result. Base and step must have its types.
    pub schema: SchemaRef,
    /// The most rounds after the first. A query that needs more fails.
    pub rounds_max: u64,
    /// The expected number of workers.
    pub threads: usize,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch.
    pub cancel: Cancel,
    /// Grants the memory for the rows of a round and, with `distinct`, for all rows.
    pub broker: Broker,
}

/// Returns the rows of all rounds.
pub(crate) struct RecursiveQuery {
    request: RecursiveRequest,
    schema: SchemaRef,
    distinct: Option<DistinctRows>,
    progress: Mutex<RecursiveProgress>,
}

struct RecursiveProgress {
    /// Rows that no worker has taken yet.
    ready: VecDeque<RecordBatch>,
    /// The open round. `None` after the last round.
    round: Option<Arc<Round>>,
}

/// A round that workers take part in.
struct Round {
    number: u64,
    source: Arc<dyn BatchSource>,
    phase: Arc<Phase<KeptBatches, ()>>,
    /// The rows of the previous round. They must live as long as the source, which reads them.
    _before: Vec<KeptBatches>,
}

impl fmt::Debug for RecursiveQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecursiveQuery").field("base", &self.request.base).finish_non_exhaustive()
    }
}

impl RecursiveQuery {
    /// Prepares the first round. Reads no rows.
    pub(crate) fn new(request: RecursiveRequest) -> Result<Arc<RecursiveQuery>> {
        let schema = with_nulls(&request.schema);
        let kinds = schema.fields().iter().map(|field| field.data_type().clone());
        let distinct = request.distinct.then(|| DistinctRows::new(kinds, OWNER, &request.broker)).transpose()?;
        let first = Round { number: 0, source: Arc::clone(&request.base), phase: Arc::default(), _before: Vec::new() };
        let progress = RecursiveProgress { ready: VecDeque::new(), round: Some(Arc::new(first)) };
        Ok(Arc::new(RecursiveQuery { request, schema, distinct, progress: Mutex::new(progress) }))
    }

    fn next_batch(&self) -> Result<Option<RecordBatch>> {
        loop {
            self.request.cancel.check()?;
            let round = {
                let mut progress = self.progress.lock();
                // Rows that are ready go first, so that no round begins that the reader may not need.
                if let Some(batch) = progress.ready.pop_front() {
                    return Ok(Some(batch));
                }
                progress.round.clone()
            };
            let Some(round) = round else { return Ok(None) };
            let read = || {
                let memory = self.request.broker.reservation(OWNER);
                KeptBatches::read(&round.source, memory, &self.request.cancel, || round.phase.is_over())
            };
            // If another worker failed, the phase has no result. That worker reports the error.
            if round.phase.run(&self.request.cancel, read, |parts| self.close(&round, parts))?.is_none() {
                return Ok(None);
            }
        }
    }

    /// Closes a round: makes its rows available and opens the next round over them.
    fn close(&self, round: &Round, parts: Vec<KeptBatches>) -> Result<()> {
        let mut kept = Vec::with_capacity(parts.len());
        for mut part in parts {
            part.batches = self.new_rows(part.batches)?;
            kept.push(part);
        }
        let batches: Vec<RecordBatch> = kept.iter().flat_map(|part| part.batches.iter().cloned()).collect();
        let next = match batches.is_empty() {
            true => None,
            false => {
                // Round `rounds_max` may still run, but only to find that no rows are left.
                if round.number >= self.request.rounds_max {
                    return Err(too_many_rounds(self.request.rounds_max));
                }
                let source = (self.request.step)(batches.clone())?;
                Some(Round { number: round.number + 1, source, phase: Arc::default(), _before: kept })
            }
        };
        // Only one worker closes a round, and only after all workers have finished it. Rows and next round appear
        // together.
        let mut progress = self.progress.lock();
        progress.ready.extend(batches);
        progress.round = next.map(Arc::new);
        Ok(())
    }

    /// Removes rows that were returned before, if the query asks for that. Joins small batches into larger ones.
    fn new_rows(&self, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let (mut new, mut small, mut small_rows) = (Vec::new(), Vec::new(), 0);
        for batch in batches {
            let batch = batch_of("a recursive query", &self.schema, batch.columns().to_vec(), batch.num_rows())?;
            let batch = match &self.distinct {
                Some(distinct) => distinct.new_rows(&batch, batch.columns())?,
                None => batch,
            };
            // The next batch would not fit, so the small ones so far become one batch.
            if small_rows + batch.num_rows() > self.request.batch_rows {
                new.extend(self.joined(std::mem::take(&mut small))?);
                small_rows = 0;
            }
            small_rows += batch.num_rows();
            small.push(batch);
        }
        new.extend(self.joined(small)?);
        Ok(new)
    }

    /// Joins batches into one. `None` if they have no rows.
    fn joined(&self, batches: Vec<RecordBatch>) -> Result<Option<RecordBatch>> {
        let mut with_rows = batches.iter().filter(|batch| batch.num_rows() > 0);
        match (with_rows.next(), with_rows.next()) {
            (None, _) => Ok(None),
            (Some(only), None) => Ok(Some(only.clone())),
            _ => concat_batches(&self.schema, &batches)
                .map(Some)
                .map_err(|error| Error::internal(format!("cannot join the rows of a round: {error}"))),
        }
    }
}

impl BatchSource for RecursiveQuery {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        // We cannot know how many workers later rounds can use, so we ask for all.
        self.request.threads.max(1)
    }

    fn worker(self: Arc<Self>) -> Batches {
        share(move || self.next_batch())
    }
}

/// The name of the operator in errors.
const OWNER: &str = "WITH RECURSIVE";

fn too_many_rounds(rounds: u64) -> Error {
    let message = format!("the recursive query has not ended after {rounds} rounds, the limit (recursion_max)");
    Error::new(ErrorKind::ResultTooLarge, message)
        .hint("add a condition that ends it, or raise the limit with SET recursion_max = ...")
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, number_batch, number_schema, numbers, numbers_of};
    use crate::values::ReadyBatches;

    /// Maps a number to the numbers of the next round.
    type Follow = fn(i64) -> Vec<i64>;

    fn request(base: Arc<dyn BatchSource>, follow: Follow, distinct: bool, batch_rows: usize) -> RecursiveRequest {
        let step: BuildStep = Box::new(move |batches| {
            let next = numbers_of(&batches).into_iter().flat_map(follow).collect::<Vec<_>>();
            let batches = next.chunks(batch_rows).map(|numbers| number_batch(numbers.iter().copied()));
            Ok(ReadyBatches::new(number_schema(), batches.collect()))
        });
        RecursiveRequest {
            base,
            step,
            distinct,
            schema: number_schema(),
            rounds_max: 1_000,
            threads: 4,
            batch_rows,
            cancel: Cancel::new(),
            broker: Broker::new(1 << 24),
        }
    }

    fn model(base: &[i64], follow: Follow, distinct: bool) -> Vec<i64> {
        let (mut all, mut round) = (Vec::new(), base.to_vec());
        while !round.is_empty() {
            let mut new = Vec::new();
            for number in round {
                if !distinct || !all.contains(&number) {
                    all.push(number);
                    new.push(number);
                }
            }
            round = new.into_iter().flat_map(follow).collect();
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn rounds_run_until_one_has_no_rows() {
        let cases: [(Follow, bool); 3] = [
            (|number| if number < 200 { vec![number + 1] } else { vec![] }, false),
            (|number| if number < 300 { vec![number + 90, number + 91] } else { vec![] }, false),
            (|number| vec![number * 7 % 101, number + 1].into_iter().map(|next| next % 101).collect(), true),
        ];
        for (follow, distinct) in cases {
            for (workers, batch_rows) in [(1, 1), (4, 1), (1, 3), (4, 3), (1, 1024), (4, 1024)] {
                for base in [0..0, 0..1, 3..40] {
                    let request = request(numbers(base.clone(), batch_rows), follow, distinct, batch_rows);
                    let broker = request.broker.clone();
                    let source: Arc<dyn BatchSource> = RecursiveQuery::new(request).expect("numbers");
                    let mut found = numbers_of(&collect(&source, workers).expect("it ends"));
                    found.sort_unstable();
                    assert_eq!(found, model(&base.collect::<Vec<_>>(), follow, distinct));
                    drop(source);
                    assert_eq!(broker.used_bytes(), 0);
                }
            }
        }
    }

    #[test]
    fn duplicate_rows_and_nulls_are_returned_once() {
        let column = Arc::new(Int64Array::from(vec![Some(1), None, Some(1), None]));
        let batch = RecordBatch::try_new(with_nulls(&number_schema()), vec![column]).expect("one column");
        let base = ReadyBatches::new(batch.schema(), vec![batch]);
        let step: BuildStep = Box::new(|batches| Ok(ReadyBatches::new(batches[0].schema(), batches)));
        let request = RecursiveRequest { step, ..request(base, |_| vec![], true, 10) };
        let source: Arc<dyn BatchSource> = RecursiveQuery::new(request).expect("numbers");
        let batches = collect(&source, 2).expect("it ends");
        let found: Vec<Option<i64>> =
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>()).collect();
        assert_eq!(found, [Some(1), None]);
        assert_eq!(batches[0].column(0).null_count(), 1);
    }

    #[test]
    fn an_endless_query_fails_or_is_stopped_by_its_reader() {
        let endless = || request(numbers(0..1, 1), |number| vec![number + 1], false, 10);
        for workers in [1, 4] {
            let source: Arc<dyn BatchSource> = RecursiveQuery::new(endless()).expect("numbers");
            let error = collect(&source, workers).expect_err("too many rounds");
            assert_eq!(error.kind(), ErrorKind::ResultTooLarge);
            assert!(error.message().contains("1000 rounds"), "{error}");
        }
        let source = RecursiveQuery::new(endless()).expect("numbers");
        assert_eq!(source.worker().take(50).map(|batch| batch.expect("rows").num_rows()).sum::<usize>(), 50);
        let request = endless();
        let cancel = request.cancel.clone();
        let mut share = RecursiveQuery::new(request).expect("numbers").worker();
        share.next().expect("rows").expect("no error");
        cancel.cancel();
        assert_eq!(share.next().expect("an error").expect_err("cancelled").kind(), ErrorKind::Cancelled);
        assert!(share.next().is_none());
    }

    #[test]
    fn errors_of_base_and_step_are_returned() {
        for workers in [1, 4] {
            let failing = request(Arc::new(Failing(numbers(0..9, 1))), |number| vec![number], false, 10);
            let source: Arc<dyn BatchSource> = RecursiveQuery::new(failing).expect("numbers");
            assert_eq!(collect(&source, workers).expect_err("a failure").kind(), ErrorKind::Io);
            let step: BuildStep = Box::new(|_| Ok(Arc::new(Failing(numbers(0..9, 1)))));
            let failing = RecursiveRequest { step, ..request(numbers(0..1, 1), |_| vec![], false, 10) };
            let source: Arc<dyn BatchSource> = RecursiveQuery::new(failing).expect("numbers");
            assert_eq!(collect(&source, workers).expect_err("a failure").kind(), ErrorKind::Io);
        }
    }
}

//! Joins that end early.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result};
use rowmill_storage::spill::{SpillMeter, TempSpace};

use super::source::TestSource;
use crate::batch::{BatchSource, Batches};
use crate::join::{HashJoin, JoinKind, JoinRequest};

fn schema(columns: usize) -> SchemaRef {
    let fields = (0..columns).map(|column| Field::new(format!("c{column}"), DataType::Int64, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Makes `count` batches of a hundred rows each, with ascending numbers.
fn batches(count: i64) -> Vec<Result<RecordBatch>> {
    let batch = |number: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(number * 100..(number + 1) * 100));
        RecordBatch::try_new(schema(1), vec![numbers]).map_err(|error| Error::internal(error.to_string()))
    };
    (0..count).map(batch).collect()
}

fn source(batches: Vec<Result<RecordBatch>>) -> Arc<TestSource> {
    TestSource::new(schema(1), batches, true)
}

fn request(kind: JoinKind) -> JoinRequest {
    JoinRequest {
        kind,
        on: vec![(0, 0)],
        nulls_equal: false,
        residual: None,
        bounds: Vec::new(),
        output: vec![0, 1],
        schema: schema(2),
        batch_rows: 1_000,
        cancel: Cancel::new(),
        broker: Broker::new(1 << 30),
        temp: TempSpace::in_memory(),
        null_aware: false,
        ordered: None,
    }
}

/// The rows that each worker gets until its end or its first error.
fn run(join: &Arc<HashJoin>, workers: usize) -> Vec<Result<usize>> {
    let rows = |share: Batches| {
        let mut share = share;
        let rows = share.try_fold(0, |rows, batch| Ok(rows + batch?.num_rows()));
        assert!(share.next().is_none(), "nothing comes after the end or an error");
        rows
    };
    std::thread::scope(|scope| {
        let shares: Vec<Batches> = (0..workers).map(|_| Arc::clone(join).worker()).collect();
        let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| rows(share))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn failure() -> Result<RecordBatch> {
    Err(Error::new(ErrorKind::Io, "the disk is gone"))
}

#[test]
fn an_error_of_an_input_is_returned_once_and_no_worker_hangs() {
    for kind in [JoinKind::Inner, JoinKind::FullOuter] {
        for fails_in_build in [true, false] {
            for workers in 1..=4 {
                let mut failing = batches(20);
                failing.insert(10, failure());
                let (build, probe) = match fails_in_build {
                    true => (failing, batches(20)),
                    false => (batches(20), failing),
                };
                let join = HashJoin::new(source(build), source(probe), request(kind)).expect("a request that fits");
                let errors: Vec<Error> = run(&join, workers).into_iter().filter_map(Result::err).collect();
                assert_eq!(errors.len(), 1, "{errors:?}");
                assert_eq!(errors[0].kind(), ErrorKind::Io);
                assert_eq!(join.request.broker.used_bytes(), 0, "memory must be freed with the last share");
            }
        }
    }
}

#[test]
fn a_join_ends_under_any_memory_limit_and_spills_only_if_it_must() {
    let spilled_bytes = |limit: u64, kind: JoinKind, workers: usize| {
        let request = JoinRequest { broker: Broker::new(limit), ..request(kind) };
        let (broker, meter) = (request.broker.clone(), Arc::<SpillMeter>::default());
        let temp = request.temp.metered(&meter);
        let request = JoinRequest { temp: temp.clone(), ..request };
        let join = HashJoin::new(source(batches(2_000)), source(batches(1_000)), request).expect("a request that fits");
        let rows: usize = run(&join, workers).into_iter().map(|rows| rows.expect("disk")).sum();
        assert_eq!(rows, if kind == JoinKind::Inner { 100_000 } else { 200_000 }, "{kind:?} with {limit} bytes");
        drop(join);
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
        (meter.bytes(), broker.peak_bytes())
    };
    for kind in [JoinKind::Inner, JoinKind::BuildOuter, JoinKind::FullOuter] {
        for workers in 1..=3 {
            let (spilled, needed) = spilled_bytes(1 << 30, kind, workers);
            assert_eq!(spilled, 0);
            assert_eq!(spilled_bytes(needed * 2, kind, workers).0, 0, "there is enough memory");
            for limit in [0, needed / 8, needed / 2] {
                let (spilled, _) = spilled_bytes(limit, kind, workers);
                assert!(spilled > 0, "{limit} of {needed} bytes");
            }
        }
    }
}

#[test]
fn a_join_that_spills_can_be_cancelled_at_any_time() {
    for batches_first in 0..40 {
        let request = request(JoinKind::FullOuter);
        let (broker, temp, cancel) = (request.broker.clone(), request.temp.clone(), request.cancel.clone());
        broker.set_always_spills(true);
        let join = HashJoin::new(source(batches(5)), source(batches(5)), request).expect("a request that fits");
        let mut share = Arc::clone(&join).worker();
        let taken = share.by_ref().take(batches_first).filter(Result::is_ok).count();
        cancel.cancel();
        if taken == batches_first {
            // The share may have been at its end.
            assert!(share.next().is_none_or(|batch| batch.unwrap_err().kind() == ErrorKind::Cancelled));
            assert!(share.next().is_none());
        }
        drop((share, join));
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
    }
}

#[test]
fn a_share_of_a_join_that_spills_can_be_dropped_at_any_time() {
    for batches_first in 0..10 {
        let request = request(JoinKind::FullOuter);
        let (broker, temp) = (request.broker.clone(), request.temp.clone());
        broker.set_always_spills(true);
        let join = HashJoin::new(source(batches(20)), source(batches(20)), request).expect("a request that fits");
        let mut dropped = Arc::clone(&join).worker();
        let first: usize = dropped.by_ref().take(batches_first).map(|batch| batch.expect("rows").num_rows()).sum();
        drop(dropped);
        let others: usize = run(&join, 2).into_iter().map(|rows| rows.expect("no error")).sum();
        // Rows of the dropped share may be lost, but no row is taken for one without a match.
        assert!(first + others <= 2_000, "{first} and {others}");
        drop(join);
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
    }
}

#[test]
fn a_cancelled_join_returns_the_error_once() {
    let request = request(JoinKind::Inner);
    let cancel = request.cancel.clone();
    let join = HashJoin::new(source(batches(20)), source(batches(20)), request).expect("a request that fits");
    let mut share = Arc::clone(&join).worker();
    share.next().expect("rows").expect("no error yet");
    cancel.cancel();
    assert_eq!(share.next().expect("an error").unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(share.next().is_none());
    let errors = run(&join, 2);
    assert!(errors.iter().all(|rows| rows.as_ref().is_ok_and(|rows| *rows == 0)), "{errors:?}");
}

/// A source whose workers wait until they are cancelled.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    cancel: Cancel,
}

impl BatchSource for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        4
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(std::iter::from_fn(move || {
            while self.cancel.check().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Some(Err(self.cancel.check().unwrap_err()))
        }))
    }
}

#[test]
fn a_worker_that_waits_for_others_can_be_cancelled() {
    let request = request(JoinKind::Inner);
    let cancel = request.cancel.clone();
    let build = Arc::new(Endless { schema: schema(1), cancel: cancel.clone() });
    let join = HashJoin::new(build, source(batches(1)), request).expect("a request that fits");
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
    });
    let ends = run(&join, 3);
    assert!(ends.iter().any(|rows| rows.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled)), "{ends:?}");
    canceller.join().expect("no panic");
}

#[test]
fn a_share_that_is_dropped_leaves_the_rest_to_others() {
    let join = HashJoin::new(source(batches(20)), source(batches(20)), request(JoinKind::Inner)).expect("fits");
    let mut dropped = Arc::clone(&join).worker();
    let rows = dropped.next().expect("rows").expect("no error").num_rows();
    drop(dropped);
    let others: usize = run(&join, 2).into_iter().map(|rows| rows.expect("no error")).sum();
    assert_eq!(rows + others, 2_000);
}

#[test]
fn a_dropped_share_suppresses_the_unmatched_rows_of_the_build_side() {
    // After a share is dropped, it is not known which rows of the build side have no match.
    for kind in [JoinKind::FullOuter, JoinKind::BuildOuter] {
        let join = HashJoin::new(source(batches(20)), source(batches(10)), request(kind)).expect("fits");
        let mut dropped = Arc::clone(&join).worker();
        let rows = dropped.next().expect("rows").expect("no error").num_rows();
        drop(dropped);
        let others: usize = run(&join, 2).into_iter().map(|rows| rows.expect("no error")).sum();
        assert_eq!(rows + others, 1_000);
        assert_eq!(join.request.broker.used_bytes(), 0);
    }
}

#[test]
fn an_empty_build_side_does_not_read_the_probe_side() {
    for (kind, left) in [(JoinKind::Inner, 5), (JoinKind::BuildOuter, 5), (JoinKind::ProbeOuter, 0)] {
        let probe = source(batches(5));
        let join = HashJoin::new(source(Vec::new()), Arc::clone(&probe) as Arc<dyn BatchSource>, request(kind));
        run(&join.expect("a request that fits"), 2).into_iter().for_each(|rows| assert!(rows.is_ok()));
        assert_eq!(probe.left(), left, "{kind:?}");
    }
}

#[test]
fn filters_are_offered_where_rows_without_a_match_do_not_matter() {
    for (kind, offered) in [(JoinKind::Inner, 1), (JoinKind::BuildOuter, 1), (JoinKind::ProbeOuter, 0)] {
        let probe = source(batches(5));
        let join = HashJoin::new(source(batches(1)), Arc::clone(&probe) as Arc<dyn BatchSource>, request(kind));
        let join = join.expect("a request that fits");
        run(&join, 2).into_iter().for_each(|rows| assert!(rows.is_ok()));
        assert_eq!(probe.offered(), offered, "{kind:?}");
        let seen = join.metrics().probe_rows.load(Ordering::Relaxed);
        assert_eq!(seen, if offered == 1 { 100 } else { 500 });
    }
}

#[test]
fn the_matches_of_one_row_are_split_into_batches() {
    let one = |rows: usize| {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; rows]));
        source(vec![RecordBatch::try_new(schema(1), vec![numbers]).map_err(|error| Error::internal(error.to_string()))])
    };
    for on in [vec![(0, 0)], Vec::new()] {
        let request = JoinRequest { on, ..request(JoinKind::Inner) };
        let join = HashJoin::new(one(100_000), one(3), request).expect("a request that fits");
        let rows: Vec<usize> = Arc::clone(&join).worker().map(|batch| batch.expect("no error").num_rows()).collect();
        assert_eq!(rows, [1_000; 300]);
    }
}

#[test]
fn requests_that_do_not_fit_the_inputs_are_refused() {
    let refused = |change: &dyn Fn(&mut JoinRequest)| {
        let mut request = request(JoinKind::Inner);
        change(&mut request);
        let error = HashJoin::new(source(Vec::new()), source(Vec::new()), request).expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::Internal);
    };
    refused(&|request| request.on = vec![(0, 1)]);
    refused(&|request| request.output = vec![0, 2]);
    refused(&|request| request.schema = schema(1));
    refused(&|request| request.kind = JoinKind::ProbeSemi);
    refused(&|request| request.kind = JoinKind::ProbeMark);
}

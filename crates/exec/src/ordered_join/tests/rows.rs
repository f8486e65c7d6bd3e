//! Ordered joins that return rows.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{ErrorKind, Result};
use rowmill_io::{Call, Fault, FaultyDisk, MemoryDisk};
use rowmill_plan::{OrderedChoice, OrderedResult};
use rowmill_storage::spill::TempSpace;

use super::case::{KeyKind, OrderedCase, RightRow, Run, column, text};
use crate::hash::tests::let_all_hashes_meet;
use crate::testing::seeds;

/// The id of a left row, and what identifies the right row that it meets: its position if ties have no order, so that
/// any of them may be met, otherwise its id.
type Met = (i32, Option<i64>);

impl OrderedCase {
    /// The rows of the join, sorted.
    fn joined(&self, run: &Run<'_>) -> Result<Vec<Met>> {
        let output =
            vec![self.keys.len() + column::LEFT_ID, self.in_pair(column::RIGHT_ID), self.in_pair(column::TEXT)];
        let kinds = vec![DataType::Int32, DataType::Int32, DataType::Utf8View];
        let join = self.join(OrderedResult::Rows { inner: self.inner }, output, kinds, run)?;
        let batches = self.collect(join, run)?;
        let mut right = self.right.concat();
        right.sort_by_key(|row| row.id);
        let mut rows: Vec<Met> = batches.iter().flat_map(|batch| self.read(batch, &right)).collect();
        rows.sort();
        Ok(rows)
    }

    /// Reads a batch. `right` are the right rows by id.
    fn read(&self, batch: &RecordBatch, right: &[RightRow]) -> Vec<Met> {
        let ids = [0, 1].map(|column| batch.column(column).as_primitive::<Int32Type>());
        let texts = batch.column(2).as_string_view();
        assert!(ids[1].iter().map(|id| id.map(text)).eq(texts.iter().map(|text| text.map(str::to_string))));
        let row = |row: usize| {
            let of_right = ids[1].is_valid(row).then(|| &right[ids[1].value(row) as usize]);
            (ids[0].value(row), of_right.and_then(|of_right| self.identity(of_right)))
        };
        (0..batch.num_rows()).map(row).collect()
    }

    fn identity(&self, row: &RightRow) -> Option<i64> {
        let is_all = matches!(self.choice, OrderedChoice::All);
        if is_all || self.has_tie { Some(row.id.into()) } else { row.position }
    }

    /// The rows that the join must return, sorted.
    fn expected(&self) -> Vec<Met> {
        let right = self.right.concat();
        let mut rows = Vec::new();
        for left in self.left.iter().flatten() {
            let met = self.met(left, &right);
            if met.is_empty() && !self.inner {
                rows.push((left.id, None));
            }
            rows.extend(met.into_iter().map(|row| (left.id, self.identity(row))));
        }
        rows.sort();
        rows
    }
}

#[test]
fn random_joins_return_the_rows_of_a_nested_loop() {
    for seed in seeds(1_500, 4_000) {
        let case = OrderedCase::random(seed, 1);
        for spills in [false, true] {
            let temp = TempSpace::in_memory();
            let found = case.joined(&Run::new(&temp, spills)).expect("nothing fails");
            assert_eq!(found, case.expected(), "seed {seed}, {spills}: {case:#?}");
        }
    }
}

/// More rows, so that buckets are divided again, and keys have enough rows for cursors.
#[test]
fn large_joins_return_the_rows_of_a_nested_loop() {
    for seed in seeds(200, 200) {
        let case = OrderedCase::random(seed, 8);
        for spills in [false, true] {
            let temp = TempSpace::in_memory();
            let found = case.joined(&Run::new(&temp, spills)).expect("nothing fails");
            assert_eq!(found, case.expected(), "seed {seed}, {spills}");
        }
    }
}

#[test]
fn keys_with_equal_hashes_are_told_apart() {
    for seed in seeds(200, 200) {
        // The hashes of other threads are not equal, so one worker does all.
        let mut case = OrderedCase { workers: 1, ..OrderedCase::random(seed, 1) };
        case.keys.fill(KeyKind::Text);
        for spills in [false, true] {
            let temp = TempSpace::in_memory();
            let_all_hashes_meet(true);
            let found = case.joined(&Run::new(&temp, spills));
            let_all_hashes_meet(false);
            assert_eq!(found.expect("nothing fails"), case.expected(), "seed {seed}, {spills}: {case:#?}");
        }
    }
}

#[test]
fn each_request_for_memory_may_be_refused() {
    let mut refusals = 0;
    for seed in seeds(20, 20) {
        let case = OrderedCase::random(seed, 1);
        for spills in [false, true] {
            for request in 1.. {
                let temp = TempSpace::in_memory();
                let run = Run::new(&temp, spills);
                run.broker.refuse_request(request);
                match case.joined(&run) {
                    Ok(rows) => {
                        assert_eq!(rows, case.expected(), "seed {seed}");
                        // The request was never made, or its refusal came too late to matter.
                        if run.broker.refuse_request(0) > 0 {
                            break;
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::MemoryLimit, "seed {seed}: {error}");
                        assert!(error.message().starts_with("JOIN"), "{error}");
                        refusals += 1;
                    }
                }
            }
        }
    }
    assert!(refusals > 200, "{refusals}");
}

/// A disk that fails at some call must give an error or the right rows, and leave no file.
#[test]
fn joins_that_spill_to_a_disk_that_fails_leave_no_file() {
    let mut failures = 0;
    for seed in seeds(300, 300) {
        let mut random = SmallRng::seed_from_u64(seed);
        let case = OrderedCase::random(seed, 2);
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let temp = TempSpace::on_disk(disk, u64::MAX);
        let call = [Call::Open, Call::Read, Call::Write][random.random_range(0..3)];
        plan.fail(call, random.random_range(1..8), [Fault::Io, Fault::NoSpace][random.random_range(0..2)]);
        match case.joined(&Run::new(&temp, true)) {
            Ok(rows) => assert_eq!(rows, case.expected(), "seed {seed}"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Io), "seed {seed}: {error}");
                failures += 1;
            }
        }
    }
    assert!((60..300).contains(&failures), "{failures}");
}

#![allow(clippy::unwrap_used)]

use arrow::array::{AsArray, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Int64Type, IntervalMonthDayNano, Schema, TimestampMicrosecondType};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, ErrorKind};
use rowmill_plan::{Constant, FillMode, Node};

use super::*;
use crate::collect::collect;
use crate::test_input::Failing;
use crate::values::ReadyBatches;

/// A row: its key, its bucket in minutes, and its value.
type Row = (Option<i64>, i64, Option<i64>);

fn input(rows: &[Row], batch_rows: usize) -> Arc<ReadyBatches> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let fields = [("key", DataType::Int64), ("bucket", time), ("value", DataType::Int64)];
    let schema = Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec()));
    let batch = |rows: &[Row]| {
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1 * 60_000_000))),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    ReadyBatches::new(Arc::clone(&schema), rows.chunks(batch_rows).map(batch).collect())
}

fn plan(mode: FillMode<Constant, usize>, range: Option<(i64, i64)>, has_key: bool) -> FillPlan {
    let rows = input(&[], 1);
    FillPlan {
        input: Arc::new(Node::Values { rows: RecordBatch::new_empty(Arc::clone(rows.schema())) }),
        keys: if has_key { vec![0] } else { Vec::new() },
        bucket: 1,
        buckets: FilledBuckets {
            stride: IntervalMonthDayNano::new(0, 0, 60_000_000_000),
            zone: None,
            origin: 0,
            offset: IntervalMonthDayNano::new(0, 0, 0),
        },
        origin: None,
        from: range.map(|range| range.0 * 60_000_000),
        to: range.map(|range| range.1 * 60_000_000),
        values: vec![FillMode::Null, FillMode::Null, mode],
        keep: vec![0, 1, 2],
        schema: Arc::clone(rows.schema()),
    }
}

fn filled(rows: &[Row], batch_rows: usize, plan: &FillPlan, workers: usize) -> Vec<Row> {
    let fill: Arc<dyn BatchSource> = Fill::new(input(rows, batch_rows), plan, batch_rows, Cancel::new()).unwrap();
    rows_of(&fill, batch_rows, workers)
}

fn rows_of(fill: &Arc<dyn BatchSource>, batch_rows: usize, workers: usize) -> Vec<Row> {
    let mut found = Vec::new();
    for batch in collect(fill, workers).unwrap() {
        assert!(batch.num_rows() <= batch_rows.max(1));
        let (key, value) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(2).as_primitive::<Int64Type>());
        let bucket = batch.column(1).as_primitive::<TimestampMicrosecondType>();
        let rows = key.iter().zip(bucket.values()).zip(value.iter());
        found.extend(rows.map(|((key, bucket), value)| (key, bucket / 60_000_000, value)));
    }
    found
}

const ROWS: [Row; 5] =
    [(Some(1), 10, Some(100)), (Some(1), 13, Some(130)), (Some(2), 11, Some(7)), (None, 12, None), (None, 14, Some(9))];

#[test]
fn gaps_are_filled_for_each_key_whatever_the_batches() {
    for batch_rows in [1, 2, 3, 1024] {
        let found = filled(&ROWS, batch_rows, &plan(FillMode::Previous(2), None, true), 1);
        let one = |bucket, value| (Some(1), bucket, Some(value));
        let expected = [
            one(10, 100),
            one(11, 100),
            one(12, 100),
            one(13, 130),
            (Some(2), 11, Some(7)),
            (None, 12, None),
            (None, 13, None),
            (None, 14, Some(9)),
        ];
        assert_eq!(found, expected, "{batch_rows} rows a batch");
        let values = |mode| -> Vec<Option<i64>> {
            filled(&ROWS, batch_rows, &plan(mode, None, true), 1).into_iter().map(|row| row.2).collect()
        };
        assert_eq!(values(FillMode::Null)[..4], [Some(100), None, None, Some(130)]);
        assert_eq!(values(FillMode::Linear)[..4], [Some(100), Some(110), Some(120), Some(130)]);
        assert_eq!(values(FillMode::Value(Constant::from(-1)))[..4], [Some(100), Some(-1), Some(-1), Some(130)]);
    }
}

#[test]
fn a_range_is_filled_at_both_ends() {
    for batch_rows in [1, 3, 1024] {
        let found = filled(&ROWS[..3], batch_rows, &plan(FillMode::Previous(2), Some((9, 13)), true), 1);
        let values: Vec<(i64, Option<i64>)> = found.iter().map(|row| (row.1, row.2)).collect();
        let first = [(9, None), (10, Some(100)), (11, Some(100)), (12, Some(100)), (13, Some(130))];
        assert_eq!(values[..5], first);
        assert_eq!(values[5..], [(9, None), (10, None), (11, Some(7)), (12, Some(7))]);
    }
}

#[test]
fn a_range_without_keys_and_rows_is_complete_and_given_once() {
    for workers in [1, 4] {
        let found = filled(&[], 2, &plan(FillMode::Value(Constant::from(0)), Some((5, 8)), false), workers);
        assert_eq!(found, [(None, 5, Some(0)), (None, 6, Some(0)), (None, 7, Some(0))]);
        assert!(filled(&[], 2, &plan(FillMode::Null, Some((5, 8)), true), workers).is_empty());
    }
}

#[test]
fn errors_and_cancel_end_the_work() {
    let cancel = Cancel::new();
    let plan = plan(FillMode::Null, Some((0, i64::MAX / 60_000_000)), false);
    let failing = Arc::new(Failing(input(&ROWS[..1], 1)));
    let fill: Arc<dyn BatchSource> = Fill::new(failing, &plan, 16, cancel.clone()).unwrap();
    assert_eq!(fill.worker().find_map(std::result::Result::err).unwrap().kind(), ErrorKind::Io);
    let fill: Arc<dyn BatchSource> = Fill::new(input(&ROWS[..1], 1), &plan, 16, cancel.clone()).unwrap();
    let mut rows = fill.worker();
    assert!(rows.next().unwrap().is_ok());
    cancel.cancel();
    assert_eq!(rows.next().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Rows that are cut into slices of time.
#[derive(Debug)]
struct TestSlices {
    schema: SchemaRef,
    slices: Vec<Vec<Row>>,
}

impl BucketSlices for TestSlices {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn count(&self) -> usize {
        self.slices.len()
    }

    fn rows(&self, slice: usize) -> Result<Batches> {
        Ok(input(&self.slices[slice], 3).worker())
    }

    fn count_worker(&self) {}
}

#[test]
fn slices_of_time_are_filled_like_sorted_rows() {
    let random = &mut SmallRng::seed_from_u64(11);
    let broker = Broker::new(1 << 30);
    for round in 0..600 {
        let buckets = random.random_range(1..40);
        let keys = random.random_range(0..5);
        let has_key = keys > 0;
        let mut rows: Vec<Row> = Vec::new();
        for key in 0..=keys {
            // Key 0 is NULL. Without keys, all rows have the same one.
            let key = (key > 0).then_some(key);
            if key.is_none() || has_key {
                let is_there = random.random_range(0.0..1.0);
                let mut has_row = |_: &i64| random.random_range(0.0..1.0) < is_there;
                let there: Vec<i64> = (0..buckets).filter(|bucket| has_row(bucket)).collect();
                rows.extend(there.into_iter().map(|bucket| (key, bucket, Some(bucket * 10 + key.unwrap_or(0)))));
            }
        }
        let mode = match round % 4 {
            0 => FillMode::Previous(2),
            1 => FillMode::Null,
            2 => FillMode::Linear,
            _ => FillMode::Value(Constant::from(-1)),
        };
        let range = random.random_bool(0.5).then(|| (random.random_range(-3..2), random.random_range(0..45)));
        let plan = plan(mode, range, has_key);
        // NULL is the last key.
        rows.sort_by_key(|row| (row.0.is_none(), row.0, row.1));
        let mut expected = filled(&rows, 1024, &plan, 1);
        let mut bounds: Vec<i64> = (0..random.random_range(0..6)).map(|_| random.random_range(0..=buckets)).collect();
        bounds.sort_unstable();
        let slices = (0..=bounds.len()).map(|slice| {
            let (from, to) = (slice.checked_sub(1).map_or(i64::MIN, |before| bounds[before]), bounds.get(slice));
            let is_in = |row: &&Row| row.1 >= from && to.is_none_or(|to| row.1 < *to);
            let mut rows: Vec<Row> = rows.iter().filter(is_in).copied().collect();
            rows.shuffle(random);
            rows
        });
        let slices: Vec<Vec<Row>> = slices.collect();
        let schema = Arc::clone(input(&[], 1).schema());
        let batch_rows = [1, 2, 7, 1024][random.random_range(0..4)];
        let workers = random.random_range(1..4);
        let source = Arc::new(TestSlices { schema, slices });
        let fill: Arc<dyn BatchSource> =
            SlicedFill::new(source, &plan, batch_rows, (Cancel::new(), broker.clone())).unwrap();
        let mut found = rows_of(&fill, batch_rows, workers);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "round {round}: {plan:?}");
    }
}

#[test]
fn only_kept_columns_are_made() {
    let rows = &ROWS[..3];
    for batch_rows in [1, 3, 1024] {
        for mode in [FillMode::Previous(2), FillMode::Linear, FillMode::Null] {
            let whole = plan(mode.clone(), Some((9, 14)), true);
            let all = filled(rows, batch_rows, &whole, 1);
            for keep in [vec![2], vec![1, 2], vec![2, 0], vec![]] {
                let kept = FillPlan { keep: keep.clone(), ..whole.clone() };
                let fill: Arc<dyn BatchSource> =
                    Fill::new(input(rows, batch_rows), &kept, batch_rows, Cancel::new()).unwrap();
                let batches = collect(&fill, 1).unwrap();
                assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), all.len());
                let Some(place) = keep.iter().position(|column| *column == 2) else { continue };
                let values = batches.iter().flat_map(|batch| batch.column(place).as_primitive::<Int64Type>());
                assert_eq!(values.collect::<Vec<_>>(), all.iter().map(|row| row.2).collect::<Vec<_>>());
            }
        }
    }
}

//! Compares joins by slices of time with a model: each left row looks at all right rows.

use arrow::array::{Array, Int64Array, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use roaring::RoaringBitmap;
use rowmill_base::{ErrorKind, SqlType, TimeUnit};
use rowmill_plan::{CompareOp, Expr, Predicate, Scan};
use rowmill_storage::TableSource;

use super::*;
use crate::aggregate::named;
use crate::collect::collect;
use crate::testing::{TestTable, seeds};

/// A row of either side.
#[derive(Clone, Debug)]
struct TimedRow {
    key: Option<i64>,
    time: i64,
    value: Option<i64>,
    id: i64,
    is_deleted: bool,
}

/// The columns of both tables.
const KEY: usize = 0;
const TIME: usize = 1;
const VALUE: usize = 2;
const ID: usize = 3;

/// What a case joins.
#[derive(Clone, Copy, Debug)]
enum JoinedSides {
    Last { strict: bool, inner: bool },
    Windows { with_prevailing: bool },
}

#[derive(Debug)]
struct SlicedCase {
    /// The rows of each block.
    left: Vec<Vec<TimedRow>>,
    right: Vec<Vec<TimedRow>>,
    with_key: bool,
    text_keys: bool,
    /// Whether right rows with less than this value are left out.
    value_min: Option<i64>,
    reach: TimeReach,
    choice: JoinedSides,
    group_rows: usize,
    few_rows_max: usize,
    batch_rows: usize,
    workers: usize,
}

fn side(random: &mut SmallRng, rows_max: usize, times: i64, keys: i64, is_late: bool) -> Vec<Vec<TimedRow>> {
    let rows = random.random_range(rows_max / 2..rows_max);
    let mut rows: Vec<TimedRow> = (0..rows)
        .map(|_| TimedRow {
            key: (!random.random_bool(0.1)).then(|| random.random_range(0..keys)),
            time: random.random_range(0..times),
            value: (!random.random_bool(0.2)).then(|| random.random_range(-9..10)),
            id: 0,
            is_deleted: random.random_bool(0.1),
        })
        .collect();
    rows.sort_by_key(|row| row.time);
    if is_late {
        // Some rows come a little late.
        for at in 1..rows.len() {
            if random.random_bool(0.2) {
                rows.swap(at - 1, at);
            }
        }
    }
    rows.iter_mut().zip(0..).for_each(|(row, id)| row.id = id);
    let block = random.random_range(1..7);
    rows.chunks(block).map(<[TimedRow]>::to_vec).collect()
}

impl SlicedCase {
    fn random(seed: u64) -> SlicedCase {
        let random = &mut SmallRng::seed_from_u64(seed);
        let times = [30, 100, 1000][random.random_range(0..3)];
        let keys = [1, 3, 20][random.random_range(0..3)];
        let is_late = random.random_bool(0.3);
        let lower = random.random_range(-12..8);
        let choice = match random.random_range(0..3) {
            0 => JoinedSides::Last { strict: random.random(), inner: random.random() },
            other => JoinedSides::Windows { with_prevailing: other == 1 },
        };
        let is_open = matches!(choice, JoinedSides::Last { .. }) && random.random_bool(0.5);
        SlicedCase {
            left: side(random, 80, times, keys, is_late),
            right: side(random, 120, times, keys, is_late),
            with_key: random.random_bool(0.9),
            text_keys: random.random(),
            value_min: random.random_bool(0.3).then(|| random.random_range(-9..10)),
            reach: TimeReach { lower: (!is_open).then_some(lower), upper: lower + random.random_range(0..15) },
            choice,
            group_rows: [1, 2, 7, 100][random.random_range(0..4)],
            few_rows_max: [0, 1, 3, 1000][random.random_range(0..4)],
            batch_rows: [1, 3, 1000][random.random_range(0..3)],
            workers: random.random_range(1..5),
        }
    }

    fn table(&self, blocks: &[Vec<TimedRow>]) -> Arc<TestTable> {
        let key = match self.text_keys {
            true => SqlType::TEXT,
            false => SqlType::Int64,
        };
        let time = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };
        let kinds = [key, time, SqlType::Int64, SqlType::Int64];
        let block = |rows: &Vec<TimedRow>| {
            let text = |key: i64| format!("{key}{}", " and more than a view holds".repeat(key as usize % 2));
            let keys: ArrayRef = match self.text_keys {
                true => Arc::new(rows.iter().map(|row| row.key.map(text)).collect::<StringViewArray>()),
                false => Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
            };
            let columns: Vec<ArrayRef> = vec![
                keys,
                Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time))),
                Arc::new(rows.iter().map(|row| row.value).collect::<Int64Array>()),
                Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.id))),
            ];
            let deleted: RoaringBitmap =
                (0..).zip(rows).filter(|(_, row)| row.is_deleted).map(|(place, _)| place).collect();
            (columns, deleted)
        };
        TestTable::new(&kinds, None, blocks.iter().map(block).collect()).without_nulls(TIME)
    }

    fn side(&self, blocks: &[Vec<TimedRow>], predicates: Vec<Predicate>) -> SliceSide {
        let table = self.table(blocks) as Arc<dyn TableSource>;
        let fields = table.table().columns.iter().map(|column| Field::new("c", column.kind.arrow(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let scan = Scan { table: 0, columns: vec![KEY, TIME, VALUE, ID], predicates, row_number: false, schema };
        let keys = if self.with_key { vec![KEY] } else { Vec::new() };
        SliceSide::new(table, &scan, keys, TIME, vec![ID, VALUE]).expect("a time without NULLs")
    }

    /// The join. `None` if slices do not pay.
    fn join(&self, is_bounded: bool, broker: &Broker) -> Option<Arc<SlicedJoin>> {
        let predicate = |value| {
            let value = Arc::new(Int64Array::from(vec![value]));
            Predicate::Compare { column: VALUE, op: CompareOp::GreaterOrEqual, value }
        };
        let (left, right) = (
            self.side(&self.left, Vec::new()),
            self.side(&self.right, self.value_min.map(predicate).into_iter().collect()),
        );
        let slices = JoinSlices::of(&left, &right, self.reach, is_bounded).expect("zone maps")?;
        let (result, kinds) = match self.choice {
            JoinedSides::Last { strict, inner } => {
                let output = vec![(false, 0), (true, 0), (true, 1)];
                (SlicedResult::Last { strict, inner, output }, vec![DataType::Int64; 3])
            }
            JoinedSides::Windows { with_prevailing } => {
                let aggregates = aggregates();
                let kinds = aggregates.iter().map(|aggregate| aggregate.kind.clone());
                let kinds = [DataType::Int64].into_iter().chain(kinds).collect();
                (SlicedResult::Aggregates { output: vec![0], aggregates, with_prevailing }, kinds)
            }
        };
        let fields: Vec<Field> = kinds.into_iter().map(|kind| Field::new("c", kind, true)).collect();
        let request = SlicedRequest {
            left,
            right,
            slices,
            result,
            schema: Arc::new(Schema::new(fields)),
            batch_rows: self.batch_rows,
            cancel: Cancel::new(),
            broker: broker.clone(),
            temp: TempSpace::in_memory(),
        };
        Some(SlicedJoin::with_groups(request, self.group_rows, self.few_rows_max))
    }

    /// The rows of the result as texts, sorted.
    fn found(&self, join: Arc<SlicedJoin>) -> Result<Vec<String>> {
        let join: Arc<dyn BatchSource> = join;
        let mut rows = Vec::new();
        for batch in collect(&join, self.workers)? {
            assert!((1..=self.batch_rows).contains(&batch.num_rows()));
            for row in 0..batch.num_rows() {
                let cell = |column: &ArrayRef| match column.is_null(row) {
                    true => "NULL".to_owned(),
                    false => array_value_to_string(column, row).expect("a value with a text"),
                };
                rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
            }
        }
        rows.sort();
        Ok(rows)
    }

    fn expected(&self) -> Vec<String> {
        let live = |blocks: &[Vec<TimedRow>]| -> Vec<TimedRow> {
            blocks.iter().flatten().filter(|row| !row.is_deleted).cloned().collect()
        };
        let mut right = live(&self.right);
        right.retain(|row| self.value_min.is_none_or(|min| row.value.is_some_and(|value| value >= min)));
        right.sort_by_key(|row| (row.time, row.id));
        let mut rows: Vec<String> =
            live(&self.left).iter().filter_map(|left| self.expected_row(left, &right)).collect();
        rows.sort();
        rows
    }

    fn expected_row(&self, left: &TimedRow, right: &[TimedRow]) -> Option<String> {
        let is_same = |row: &&TimedRow| !self.with_key || row.key.is_some() && row.key == left.key;
        let (from, to) = (self.reach.lower.map(|lower| left.time + lower), left.time + self.reach.upper);
        let same: Vec<&TimedRow> = right.iter().filter(is_same).collect();
        let within = |row: &&&TimedRow| from.is_none_or(|from| row.time >= from) && row.time <= to;
        let or_null = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
        match self.choice {
            JoinedSides::Last { strict, inner } => {
                let met = same.iter().filter(within).rfind(|row| !strict || row.time < to);
                match met {
                    None if inner => None,
                    met => {
                        let (id, value) = (met.map(|row| row.id), met.and_then(|row| row.value));
                        Some(format!("{}|{}|{}", left.id, or_null(id), or_null(value)))
                    }
                }
            }
            JoinedSides::Windows { with_prevailing } => {
                let mut met: Vec<&TimedRow> = same.iter().filter(within).copied().collect();
                if with_prevailing && !same.iter().any(|row| Some(row.time) == from) {
                    met.splice(0..0, same.iter().rev().find(|row| Some(row.time) < from).copied());
                }
                let values: Vec<i64> = met.iter().filter_map(|row| row.value).collect();
                let ids: Vec<String> = met.iter().map(|row| row.id.to_string()).collect();
                let distinct = values.iter().collect::<std::collections::BTreeSet<_>>().len();
                let cells = [
                    left.id.to_string(),
                    met.len().to_string(),
                    values.len().to_string(),
                    or_null(values.iter().copied().reduce(|one, other| one + other)),
                    or_null(values.iter().copied().min()),
                    or_null(met.first().map(|row| row.id)),
                    or_null(met.last().map(|row| row.id)),
                    if ids.is_empty() { "NULL".to_owned() } else { format!("[{}]", ids.join(", ")) },
                    distinct.to_string(),
                ];
                Some(cells.join("|"))
            }
        }
    }
}

/// Aggregates of every way in which frames are computed, over the kept columns: the id, then the value.
fn aggregates() -> Vec<Aggregate> {
    let (int, id, value) = (DataType::Int64, Expr::Column(0), Expr::Column(1));
    let call = |name: &str, argument: Option<Expr>, kind: DataType| {
        Aggregate::new(named(name), argument.map(|argument| (argument, DataType::Int64)), kind)
    };
    let mut distinct = call("count", Some(value), int.clone());
    distinct.distinct = true;
    vec![
        call("count", None, int.clone()),
        call("count", Some(value), int.clone()),
        call("sum", Some(value), DataType::Decimal128(38, 0)),
        call("min", Some(value), int.clone()),
        call("first_value", Some(id), int.clone()),
        call("last_value", Some(id), int.clone()),
        call("array_agg", Some(id), DataType::List(Arc::new(Field::new("item", int, true)))),
        distinct,
    ]
}

#[test]
fn left_rows_meet_the_rows_within_reach() {
    let mut joined = 0;
    for seed in seeds(600, 1_500) {
        let case = SlicedCase::random(seed);
        let broker = Broker::new(1 << 30);
        // Windows that are long beside slices do not pay, but must be right.
        let Some(join) = case.join(seed % 4 == 0, &broker) else { continue };
        joined += 1;
        assert!(join.request.slices.count() > 1);
        assert_eq!(case.found(join).expect("nothing fails"), case.expected(), "seed {seed}: {case:#?}");
        assert_eq!(broker.used_bytes(), 0, "all memory is given back");
    }
    assert!(joined > 280, "{joined}");
}

#[test]
fn windows_longer_than_a_slice_do_not_pay() {
    let random = &mut SmallRng::seed_from_u64(1);
    let rows: Vec<Vec<TimedRow>> = side(random, 200, 1000, 2, false);
    let case = SlicedCase { left: rows.clone(), right: rows, ..SlicedCase::random(0) };
    let pays = |lower: i64| {
        let sides = (case.side(&case.left, Vec::new()), case.side(&case.right, Vec::new()));
        let reach = TimeReach { lower: Some(lower), upper: 0 };
        JoinSlices::of(&sides.0, &sides.1, reach, true).expect("zone maps").is_some()
    };
    assert_eq!([-1, -10, -500, -1000].map(pays), [true, true, false, false]);
}

#[test]
fn each_request_for_memory_may_be_refused() {
    let mut refusals = 0;
    for seed in seeds(4, 30) {
        let case = SlicedCase::random(seed);
        let expected = case.expected();
        for request in 1.. {
            let broker = Broker::new(1 << 30);
            let Some(join) = case.join(false, &broker) else { break };
            broker.refuse_request(request);
            match case.found(join) {
                Ok(rows) => {
                    assert_eq!(rows, expected, "seed {seed}");
                    if broker.refuse_request(0) > 0 {
                        break;
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::MemoryLimit, "seed {seed}: {error}");
                    refusals += 1;
                }
            }
            assert_eq!(broker.used_bytes(), 0, "all memory is given back");
        }
    }
    assert!(refusals > 100, "{refusals}");
}

#[test]
fn a_bound_out_of_range_is_an_error() {
    let mut case = SlicedCase::random(2);
    case.reach = TimeReach { lower: Some(i64::MIN), upper: 0 };
    case.choice = JoinedSides::Windows { with_prevailing: true };
    let broker = Broker::new(1 << 30);
    let join = case.join(false, &broker).expect("several slices");
    let error = case.found(join).expect_err("no timestamp is so early");
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(error.to_string(), "the timestamp is out of range");
}

#[test]
fn a_cancelled_join_ends() {
    let case = SlicedCase { choice: JoinedSides::Windows { with_prevailing: true }, ..SlicedCase::random(2) };
    let broker = Broker::new(1 << 30);
    let join = case.join(false, &broker).expect("several slices");
    join.request.cancel.cancel();
    assert_eq!(case.found(join).expect_err("it was cancelled").kind(), ErrorKind::Cancelled);
}

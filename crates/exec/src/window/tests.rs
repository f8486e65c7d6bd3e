//! Compares windows with a model that looks at every pair of rows.

mod model;
mod spilled;
mod stretches;

use crate::aggregate::named;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::*;
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result};
use rowmill_plan::logical::{FrameBound, FrameExclude, FrameRow, FrameUnit, RankFunction, WindowFrame};
use rowmill_plan::{
    Aggregate, AggregateFunction, AggregateOrder, Constant, Expr, FrameOffset, SortKey, WindowCall, WindowFunction,
};
use rowmill_storage::spill::TempSpace;

use self::model::{ModelCell, cell, expected};
use super::{WindowOperator, WindowRequest};
use crate::batch::{BatchSource, Batches};
use crate::collect::collect;
use crate::hash::tests::let_all_hashes_meet;
use crate::share::share;
use crate::test_input::{Failing, numbers};
use crate::values::ReadyBatches;

/// The columns of the test table.
mod column {
    pub(super) const ID: usize = 0;
    pub(super) const FEW: usize = 1;
    pub(super) const TEXT: usize = 2;
    pub(super) const TIES: usize = 3;
    pub(super) const FLOAT: usize = 4;
    pub(super) const SMALL: usize = 5;
    pub(super) const DECIMAL: usize = 6;
    pub(super) const FLAG: usize = 7;
    pub(super) const OFFSET: usize = 8;
    pub(super) const WIDE: usize = 9;
}

fn kinds() -> Vec<DataType> {
    vec![
        DataType::Int64,
        DataType::Int32,
        DataType::Utf8View,
        DataType::Int64,
        DataType::Float64,
        DataType::Int32,
        DataType::Decimal128(38, 2),
        DataType::Boolean,
        DataType::Int64,
        DataType::Int64,
        DataType::Date32,
    ]
}

fn schema(kinds: &[DataType]) -> SchemaRef {
    let field = |(number, kind): (usize, &DataType)| Field::new(format!("c{number}"), kind.clone(), true);
    Arc::new(Schema::new(kinds.iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// Makes random rows. Some of the values are NULL.
fn table(rows: usize, seed: u64) -> RecordBatch {
    let random = &mut SmallRng::seed_from_u64(seed);
    let some = |random: &mut SmallRng| random.random_range(0..6) > 0;
    let texts = ["", "a", "b", "a text that is longer than a view", "a text that is longer than a vieW"];
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.5, -2.5, 1e300, 7.0];
    macro_rules! values {
        ($array:ty, $make:expr) => {
            Arc::new((0..rows).map(|_| some(random).then(|| $make(&mut *random))).collect::<$array>()) as ArrayRef
        };
    }
    let mut ids: Vec<i64> = (0..rows as i64).collect();
    (1..rows).for_each(|row| ids.swap(row, random.random_range(0..=row)));
    let decimals: Decimal128Array =
        (0..rows).map(|_| some(random).then(|| random.random_range(-(10_i128.pow(36))..10_i128.pow(36)))).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids)),
        values!(Int32Array, |random: &mut SmallRng| random.random_range(-2..3)),
        values!(StringViewArray, |random: &mut SmallRng| *texts.choose(random).unwrap()),
        values!(Int64Array, |random: &mut SmallRng| random.random_range(-5..6)),
        values!(Float64Array, |random: &mut SmallRng| *floats.choose(random).unwrap()),
        values!(Int32Array, |random: &mut SmallRng| random.random_range(-100..100)),
        Arc::new(decimals.with_precision_and_scale(38, 2).unwrap()),
        values!(BooleanArray, |random: &mut SmallRng| random.random()),
        Arc::new((0..rows).map(|_| Some(random.random_range(0..4_i64))).collect::<Int64Array>()),
        values!(Int64Array, |random: &mut SmallRng| *[i64::MIN, i64::MAX, 0, 5].choose(random).unwrap()),
        values!(Date32Array, |random: &mut SmallRng| random.random_range(18_000..18_090)),
    ];
    RecordBatch::try_new(schema(&kinds()), columns).unwrap()
}

fn sort_key(column: usize) -> SortKey {
    SortKey { column, descending: false, nulls_first: false }
}

fn bigint(value: i64) -> FrameOffset {
    FrameOffset::Constant(Constant::new(Arc::new(Int64Array::from(vec![value]))))
}

fn frame(unit: FrameUnit, start: FrameBound<FrameOffset>, end: FrameBound<FrameOffset>) -> WindowFrame<FrameOffset> {
    WindowFrame { unit, start, end, exclude: FrameExclude::NoOthers }
}

fn whole() -> WindowFrame<FrameOffset> {
    frame(FrameUnit::Rows, FrameBound::Unbounded, FrameBound::Unbounded)
}

fn call(function: WindowFunction, frame: WindowFrame<FrameOffset>, kind: DataType) -> WindowCall {
    WindowCall { function, frame, kind }
}

fn rank(function: RankFunction) -> WindowCall {
    let kind = match function {
        RankFunction::PercentRank | RankFunction::CumulativeShare => DataType::Float64,
        _ => DataType::Int64,
    };
    call(WindowFunction::Rank(function), whole(), kind)
}

fn aggregate(function: AggregateFunction, column: Option<usize>) -> Aggregate {
    let argument = column.map(|column| (Expr::Column(column), kinds()[column].clone()));
    let of = argument.as_ref().map(|(_, kind)| kind.clone());
    let kind = match (function.name, of) {
        ("count" | "approx_distinct", _) => DataType::Int64,
        ("avg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp", _) => DataType::Float64,
        ("sum", Some(DataType::Int32)) => DataType::Int64,
        ("sum", Some(DataType::Int64)) => DataType::Decimal128(38, 0),
        ("array_agg", Some(kind)) => DataType::List(Arc::new(Field::new("item", kind, true))),
        (_, Some(kind)) => kind,
        (_, None) => unreachable!("only counts have no argument"),
    };
    Aggregate::new(function, argument, kind)
}

fn aggregate_call(aggregate: Aggregate, frame: WindowFrame<FrameOffset>) -> WindowCall {
    let kind = aggregate.kind.clone();
    call(WindowFunction::Aggregate(Box::new(aggregate)), frame, kind)
}

/// One test case: keys and calls.
#[derive(Debug)]
struct WindowCase {
    partition: Vec<usize>,
    order: Vec<SortKey>,
    calls: Vec<WindowCall>,
    limit: Option<usize>,
}

fn run(table: &RecordBatch, case: &WindowCase, batch_rows: usize, threads: usize) -> Result<RecordBatch> {
    run_with(table, case, batch_rows, threads, &Broker::new(1 << 32))
}

/// Runs a window whose rows go to disk after the first batch.
fn run_spilled(table: &RecordBatch, case: &WindowCase, batch_rows: usize, threads: usize) -> Result<RecordBatch> {
    let broker = Broker::new(1 << 21);
    broker.set_always_spills(true);
    run_with(table, case, batch_rows, threads, &broker)
}

fn run_with(
    table: &RecordBatch,
    case: &WindowCase,
    batch_rows: usize,
    threads: usize,
    broker: &Broker,
) -> Result<RecordBatch> {
    let starts = (0..table.num_rows()).step_by(batch_rows);
    let batches = starts.map(|start| table.slice(start, batch_rows.min(table.num_rows() - start))).collect();
    run_over(ReadyBatches::new(table.schema(), batches), case, threads, broker)
}

fn run_over(input: Arc<ReadyBatches>, case: &WindowCase, threads: usize, broker: &Broker) -> Result<RecordBatch> {
    let window: Arc<dyn BatchSource> = operator(input, case, broker, &TempSpace::in_memory(), &Cancel::new());
    let batches = collect(&window, threads)?;
    let schema = Arc::clone(window.schema());
    drop(window);
    assert_eq!(broker.used_bytes(), 0, "all memory is given back");
    Ok(arrow::compute::concat_batches(&schema, &batches).unwrap())
}

fn operator(
    input: Arc<ReadyBatches>,
    case: &WindowCase,
    broker: &Broker,
    temp: &TempSpace,
    cancel: &Cancel,
) -> Arc<WindowOperator> {
    let mut kinds: Vec<DataType> = input.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    kinds.extend(case.calls.iter().map(|call| call.kind.clone()));
    let request = WindowRequest {
        partition: case.partition.clone(),
        order: case.order.clone(),
        calls: case.calls.clone(),
        limit: case.limit,
        schema: schema(&kinds),
        batch_rows: 13,
        cancel: cancel.clone(),
        broker: broker.clone(),
        temp: temp.clone(),
    };
    WindowOperator::new(input, request)
}

fn check(table: &RecordBatch, case: &WindowCase, batch_rows: usize, threads: usize) {
    let expected = expected(table, &case.partition, &case.order, &case.calls);
    for run in [run, run_spilled] {
        let found = run(table, case, batch_rows, threads).unwrap_or_else(|error| panic!("{case:?}: {error:?}"));
        check_found(table, case, &found, &expected);
    }
}

fn check_found(table: &RecordBatch, case: &WindowCase, found: &RecordBatch, expected: &[Vec<ModelCell>]) {
    let first = |row: usize| match expected[0][row] {
        ModelCell::Integer(rank) => rank as usize,
        _ => panic!("a rank is a number"),
    };
    let wanted = (0..table.num_rows()).filter(|row| case.limit.is_none_or(|limit| first(*row) <= limit)).count();
    assert_eq!(found.num_rows(), wanted, "{case:?}");
    // Maps a row's ID to its position in the input.
    let ids = table.column(column::ID).as_primitive::<arrow::datatypes::Int64Type>().values();
    let mut rows = vec![0; ids.len()];
    ids.iter().enumerate().for_each(|(row, id)| rows[*id as usize] = row);
    for row in 0..found.num_rows() {
        let ModelCell::Integer(id) = cell(found.column(column::ID), row) else {
            panic!("numbers of rows are integers")
        };
        let of = rows[id as usize];
        for column in 0..table.num_columns() {
            assert!(cell(found.column(column), row).is(&cell(table.column(column), of)), "{case:?}: column {column}");
        }
        for (number, expected) in expected.iter().enumerate() {
            let found = cell(found.column(table.num_columns() + number), row);
            assert!(
                found.is(&expected[of]),
                "row {id}, call {number}: {found:?} and not {:?} in {case:#?}",
                expected[of]
            );
        }
    }
}

/// Calls `each` with tables of different sizes, and with a batch size and a number of threads to read them with.
fn each_table(seed: u64, mut each: impl FnMut(&mut SmallRng, &RecordBatch, usize, usize)) {
    let random = &mut SmallRng::seed_from_u64(seed);
    for (number, rows) in [0, 1, 2, 9, 40, 150, 250].into_iter().enumerate() {
        for threads in [1, 4] {
            let batch_rows = *[1, 7, 64, 1_000].choose(random).unwrap();
            let table = table(rows, seed * 100 + number as u64);
            each(random, &table, batch_rows, threads);
        }
    }
}

fn partitions() -> Vec<Vec<usize>> {
    use column::*;
    vec![vec![], vec![FEW], vec![TEXT], vec![FLOAT], vec![FEW, TEXT], vec![DECIMAL], vec![WIDE, FLAG], vec![TIES, FEW]]
}

/// ORDER BY lists that leave no two rows as peers.
fn total_orders() -> Vec<Vec<SortKey>> {
    use column::*;
    vec![
        vec![sort_key(ID)],
        vec![SortKey { column: TIES, descending: true, nulls_first: true }, sort_key(ID)],
        vec![
            SortKey { column: TIES, descending: false, nulls_first: true },
            SortKey { descending: true, ..sort_key(ID) },
        ],
        vec![sort_key(FLOAT), sort_key(WIDE), sort_key(ID)],
        vec![SortKey { column: TEXT, descending: true, nulls_first: false }, sort_key(ID)],
        vec![SortKey { column: DECIMAL, descending: true, nulls_first: false }, sort_key(ID)],
    ]
}

fn orders_with_peers() -> Vec<Vec<SortKey>> {
    use column::*;
    let mut orders = vec![vec![], vec![sort_key(TEXT)], vec![sort_key(FLOAT), sort_key(FLAG)], vec![sort_key(DECIMAL)]];
    for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
        orders.push(vec![SortKey { column: TIES, descending, nulls_first }]);
    }
    orders
}

fn random_bound(random: &mut SmallRng, offset: &dyn Fn(&mut SmallRng) -> FrameOffset) -> FrameBound<FrameOffset> {
    match random.random_range(0..5) {
        0 => FrameBound::Unbounded,
        1 => FrameBound::CurrentRow,
        2 | 3 => FrameBound::Preceding(offset(random)),
        _ => FrameBound::Following(offset(random)),
    }
}

fn random_frame(random: &mut SmallRng, unit: FrameUnit) -> WindowFrame<FrameOffset> {
    let offset = |random: &mut SmallRng| match random.random_range(0..4) {
        0 => FrameOffset::Column(column::OFFSET),
        1 => bigint(random.random_range(0..200)),
        _ => bigint(random.random_range(0..4)),
    };
    let exclude = match random.random_range(0..8) {
        0 => FrameExclude::CurrentRow,
        1 => FrameExclude::Group,
        2 => FrameExclude::Ties,
        _ => FrameExclude::NoOthers,
    };
    WindowFrame { unit, start: random_bound(random, &offset), end: random_bound(random, &offset), exclude }
}

/// Makes a random aggregate whose result depends only on the set of rows in the frame, not on their order.
fn random_aggregate(random: &mut SmallRng) -> Aggregate {
    use column::*;
    let mut aggregate = match random.random_range(0..12) {
        0 => aggregate(named("count"), None),
        1 => aggregate(named("count"), Some(*[TEXT, FLOAT, SMALL].choose(random).unwrap())),
        2 => aggregate(named("sum"), Some(*[SMALL, WIDE, DECIMAL].choose(random).unwrap())),
        3 => aggregate(named("avg"), Some(*[SMALL, WIDE, DECIMAL].choose(random).unwrap())),
        4 => aggregate(named(["min", "max"].choose(random).unwrap()), Some(random.random_range(0..kinds().len()))),
        5 => aggregate(
            named(["bit_and", "bit_or", "bit_xor"].choose(random).unwrap()),
            Some(*[SMALL, WIDE].choose(random).unwrap()),
        ),
        6 => aggregate(named(["sum", "avg"].choose(random).unwrap()), Some(FLOAT)),
        7 => Aggregate { distinct: true, ..aggregate(named("count"), Some(TEXT)) },
        8 => Aggregate { distinct: true, ..aggregate(named("sum"), Some(SMALL)) },
        9 => Aggregate { distinct: true, ..aggregate(named("avg"), Some(DECIMAL)) },
        10 => aggregate(named("median"), Some(SMALL)),
        _ => aggregate(named(["min", "max"].choose(random).unwrap()), Some(SMALL)),
    };
    if random.random_range(0..3) == 0 {
        aggregate.filter = Some(Expr::Column(FLAG));
    }
    aggregate
}

#[test]
fn ranks_are_those_of_the_model() {
    use RankFunction::*;
    each_table(1, |random, table, batch_rows, threads| {
        for partition in partitions() {
            let order = orders_with_peers().choose(random).unwrap().clone();
            let calls = [Rank, DenseRank, PercentRank, CumulativeShare].map(rank).to_vec();
            check(table, &WindowCase { partition: partition.clone(), order, calls, limit: None }, batch_rows, threads);
            let order = total_orders().choose(random).unwrap().clone();
            let parts = if random.random() { bigint(random.random_range(1..7)) } else { bigint(i64::MAX) };
            let calls = vec![rank(RowNumber), call(WindowFunction::Ntile(parts), whole(), DataType::Int64)];
            check(table, &WindowCase { partition, order, calls, limit: None }, batch_rows, threads);
        }
    });
}

#[test]
fn first_rows_of_partitions_are_those_of_the_model() {
    use RankFunction::*;
    each_table(2, |random, table, batch_rows, threads| {
        for partition in partitions() {
            let limit = *[0, 1, 2, 3, 100].choose(random).unwrap();
            let order = total_orders().choose(random).unwrap().clone();
            let mut calls = vec![rank(RowNumber)];
            if random.random() {
                calls.push(rank(DenseRank));
            }
            if random.random() {
                calls.push(aggregate_call(aggregate(named("max"), Some(column::TEXT)), whole()));
            }
            check(
                table,
                &WindowCase { partition: partition.clone(), order, calls, limit: Some(limit) },
                batch_rows,
                threads,
            );
            let order = orders_with_peers().choose(random).unwrap().clone();
            let calls = vec![rank(*[Rank, DenseRank].choose(random).unwrap()), rank(Rank)];
            check(table, &WindowCase { partition, order, calls, limit: Some(limit) }, batch_rows, threads);
        }
    });
}

#[test]
fn aggregates_of_rows_are_those_of_the_model() {
    each_table(3, |random, table, batch_rows, threads| {
        for partition in partitions() {
            let order = total_orders().choose(random).unwrap().clone();
            let calls = (0..4).map(|_| {
                let unit = *[FrameUnit::Rows, FrameUnit::Rows, FrameUnit::Groups].choose(random).unwrap();
                aggregate_call(random_aggregate(random), random_frame(random, unit))
            });
            let calls = calls.collect();
            check(table, &WindowCase { partition, order, calls, limit: None }, batch_rows, threads);
        }
    });
}

#[test]
fn aggregates_of_peers_are_those_of_the_model() {
    each_table(4, |random, table, batch_rows, threads| {
        for partition in partitions() {
            let order = orders_with_peers().choose(random).unwrap().clone();
            let has_distance = matches!(order.as_slice(), [SortKey { column: column::TIES, .. }]);
            let calls = (0..4).map(|_| {
                let mut frame = random_frame(random, FrameUnit::Groups);
                if has_distance {
                    frame.unit = *[FrameUnit::Groups, FrameUnit::Range].choose(random).unwrap();
                }
                aggregate_call(random_aggregate(random), frame)
            });
            let calls = calls.collect();
            check(table, &WindowCase { partition, order, calls, limit: None }, batch_rows, threads);
        }
    });
}

#[test]
fn values_of_other_rows_are_those_of_the_model() {
    each_table(5, |random, table, batch_rows, threads| {
        for partition in partitions() {
            let order = total_orders().choose(random).unwrap().clone();
            let calls = (0..4).map(|_| {
                let value = random.random_range(0..kinds().len());
                let skips_nulls = random.random();
                let kind = kinds()[value].clone();
                let offset = |random: &mut SmallRng, least: i64| match random.random_range(0..3) {
                    0 => FrameOffset::Column(column::TIES),
                    _ => bigint(random.random_range(least..5)),
                };
                if random.random() {
                    let offset = random.random_bool(0.7).then(|| offset(random, -3));
                    let default = random.random::<bool>().then_some(value);
                    let function =
                        WindowFunction::Shift { value, offset, default, forward: random.random(), skips_nulls };
                    return call(function, whole(), kind);
                }
                let nth = match random.random_range(0..3) {
                    0 => FrameRow::First,
                    1 => FrameRow::Last,
                    _ => FrameRow::Nth(bigint(random.random_range(1..5))),
                };
                let unit = *[FrameUnit::Rows, FrameUnit::Groups].choose(random).unwrap();
                call(WindowFunction::Nth { value, nth, skips_nulls }, random_frame(random, unit), kind)
            });
            let calls = calls.collect();
            check(table, &WindowCase { partition, order, calls, limit: None }, batch_rows, threads);
        }
    });
}

#[test]
fn lists_and_joined_texts_follow_the_window_order_or_their_own() {
    each_table(6, |random, table, batch_rows, threads| {
        let order = total_orders().choose(random).unwrap().clone();
        let unit = FrameUnit::Rows;
        let mut of_own = aggregate(named("array_agg"), Some(column::SMALL));
        let by_id =
            AggregateOrder { expr: Expr::Column(0), kind: DataType::Int64, descending: true, nulls_first: false };
        of_own.order.push(by_id);
        let mut joined = aggregate(named("string_agg"), Some(column::TEXT));
        joined.parameter = Some(Arc::new(StringViewArray::from(vec![", "])));
        let calls = vec![
            aggregate_call(aggregate(named("array_agg"), Some(column::TEXT)), random_frame(random, unit)),
            aggregate_call(of_own, random_frame(random, unit)),
            aggregate_call(joined, random_frame(random, unit)),
            aggregate_call(aggregate(named("last_value"), Some(column::SMALL)), random_frame(random, unit)),
        ];
        let partition = partitions().choose(random).unwrap().clone();
        check(table, &WindowCase { partition, order, calls, limit: None }, batch_rows, threads);
    });
}

#[test]
fn partitions_stay_separate_when_all_hashes_collide() {
    let_all_hashes_meet(true);
    for rows in [3, 200] {
        for partition in partitions() {
            let calls = vec![
                rank(RankFunction::RowNumber),
                rank(RankFunction::Rank),
                aggregate_call(aggregate(named("sum"), Some(column::SMALL)), whole()),
            ];
            for order in [vec![sort_key(column::ID)], vec![sort_key(column::TEXT), sort_key(column::ID)]] {
                for limit in [None, Some(2)] {
                    let (partition, calls) = (partition.clone(), calls.clone());
                    check(&table(rows, 77), &WindowCase { partition, order: order.clone(), calls, limit }, 50, 1);
                }
            }
        }
    }
    let_all_hashes_meet(false);
}

/// Sums the numbers 1, 2, 4 and so on over a frame. `keys` are the ORDER BY values of the rows and must be sorted.
/// Each sum shows which rows the frame has, because each row adds a different bit.
fn sums_over(keys: ArrayRef, descending: bool, frame: WindowFrame<FrameOffset>) -> Result<Vec<i64>> {
    let rows = keys.len();
    let powers: ArrayRef = Arc::new((0..rows).map(|row| Some(1 << row)).collect::<Int32Array>());
    let kinds = [keys.data_type().clone(), DataType::Int32];
    let batch = RecordBatch::try_new(schema(&kinds), vec![keys, powers]).unwrap();
    let sum = Aggregate::new(named("sum"), Some((Expr::Column(1), DataType::Int32)), DataType::Int64);
    let order = vec![SortKey { column: 0, descending, nulls_first: descending }];
    let case = WindowCase { partition: vec![], order, calls: vec![aggregate_call(sum, frame)], limit: None };
    let found = run_over(ReadyBatches::new(batch.schema(), vec![batch]), &case, 1, &Broker::new(1 << 30))?;
    Ok(found.column(2).as_primitive::<arrow::datatypes::Int64Type>().iter().map(Option::unwrap_or_default).collect())
}

fn interval(months: i32, days: i32, nanos: i64) -> FrameOffset {
    let value = IntervalMonthDayNano::new(months, days, nanos);
    FrameOffset::Constant(Constant::new(Arc::new(IntervalMonthDayNanoArray::from(vec![value]))))
}

fn before(offset: FrameOffset) -> WindowFrame<FrameOffset> {
    frame(FrameUnit::Range, FrameBound::Preceding(offset), FrameBound::CurrentRow)
}

#[test]
fn ranges_reach_back_by_days_and_months() -> Result<()> {
    // 2024-01-30, 01-31, 02-28, 02-29, 03-30, NULL
    let days = || {
        Arc::new(Date32Array::from(vec![Some(19_752), Some(19_753), Some(19_781), Some(19_782), Some(19_812), None]))
            as ArrayRef
    };
    assert_eq!(sums_over(days(), false, before(bigint(1)))?, [1, 3, 4, 12, 16, 32]);
    assert_eq!(sums_over(days(), false, before(interval(0, 1, 0)))?, [1, 3, 4, 12, 16, 32]);
    // A month before 03-30 is 02-29, a month before 02-29 is 01-29, and before 02-28 it is 01-28.
    assert_eq!(sums_over(days(), false, before(interval(1, 0, 0)))?, [1, 3, 7, 15, 24, 32]);
    let hours = |hours: Vec<i64>| hours.into_iter().map(|hour| hour * 3_600_000_000).collect::<Vec<_>>();
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(hours(vec![0, 1, 24, 25, 26])));
    assert_eq!(sums_over(times, false, before(interval(0, 1, 0)))?, [1, 3, 7, 14, 28]);
    let times: ArrayRef = Arc::new(Time64MicrosecondArray::from(hours(vec![23, 22, 5])));
    assert_eq!(sums_over(times, true, before(interval(9, 9, 3_600_000_000_000)))?, [1, 3, 4]);
    Ok(())
}

#[test]
fn ranges_of_floats_know_infinity_and_nan() -> Result<()> {
    let floats =
        || Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -0.0, 0.5, 1e300, f64::INFINITY, f64::NAN])) as ArrayRef;
    let float = |value: f64| FrameOffset::Constant(Constant::new(Arc::new(Float64Array::from(vec![value]))));
    assert_eq!(sums_over(floats(), false, before(float(0.5)))?, [1, 2, 6, 8, 16, 32]);
    assert_eq!(sums_over(floats(), false, before(float(f64::INFINITY)))?, [1, 3, 7, 15, 31, 32]);
    let decimals: Decimal128Array = vec![100, 150, 151, 400].into();
    let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(10, 2).unwrap());
    assert_eq!(sums_over(decimals, false, before(float(0.5)))?, [1, 3, 6, 8]);
    Ok(())
}

#[test]
fn a_sliding_float_sum_keeps_digits_hidden_by_a_large_neighbour() -> Result<()> {
    let values = [1e100, 1.0, f64::INFINITY, 2.0, 3.0, f64::NAN, 4.0, 5.0];
    let batch = RecordBatch::try_new(
        schema(&[DataType::Int64, DataType::Float64]),
        vec![Arc::new(Int64Array::from_iter_values(0..8)), Arc::new(Float64Array::from(values.to_vec()))],
    );
    let batch = batch.unwrap();
    let sum = Aggregate::new(named("sum"), Some((Expr::Column(1), DataType::Float64)), DataType::Float64);
    let last_two = frame(FrameUnit::Rows, FrameBound::Preceding(bigint(1)), FrameBound::CurrentRow);
    let case = WindowCase {
        partition: vec![],
        order: vec![sort_key(0)],
        calls: vec![aggregate_call(sum, last_two)],
        limit: None,
    };
    let found = run_over(ReadyBatches::new(batch.schema(), vec![batch]), &case, 1, &Broker::new(1 << 30))?;
    let found = found.column(2).as_primitive::<arrow::datatypes::Float64Type>().values().to_vec();
    let expected = [1e100, 1e100, f64::INFINITY, f64::INFINITY, 5.0, f64::NAN, f64::NAN, 9.0];
    assert!(found.iter().zip(expected).all(|(found, expected)| found.total_cmp(&expected).is_eq()), "{found:?}");
    Ok(())
}

fn error_of(call: WindowCall) -> Error {
    let case = WindowCase {
        partition: vec![column::FEW],
        order: vec![sort_key(column::TIES)],
        calls: vec![call],
        limit: None,
    };
    run(&table(50, 3), &case, 10, 4).expect_err("an error")
}

#[test]
fn invalid_frame_offsets_and_row_numbers_are_errors() {
    let count = || aggregate(named("count"), None);
    let null = || FrameOffset::Constant(Constant::null(&DataType::Int64));
    for unit in [FrameUnit::Rows, FrameUnit::Groups, FrameUnit::Range] {
        for offset in [bigint(-1), null()] {
            let frame = frame(unit, FrameBound::Preceding(offset), FrameBound::CurrentRow);
            assert_eq!(error_of(aggregate_call(count(), frame)).kind(), ErrorKind::InvalidParameter);
        }
    }
    let ntile = |parts| call(WindowFunction::Ntile(parts), whole(), DataType::Int64);
    assert!(error_of(ntile(bigint(0))).message().contains("ntile is asked for 0 parts"));
    let nth = |nth| {
        let function = WindowFunction::Nth { value: column::ID, nth: FrameRow::Nth(nth), skips_nulls: false };
        call(function, whole(), DataType::Int64)
    };
    assert!(error_of(nth(bigint(0))).message().contains("nth_value is asked for row 0"));
    let case = |call| WindowCase { partition: vec![], order: vec![], calls: vec![call], limit: None };
    for call in [nth(null()), ntile(null())] {
        let found = run(&table(20, 3), &case(call), 10, 1).expect("NULL is no error");
        assert_eq!(found.column(kinds().len()).null_count(), 20);
    }
}

#[test]
fn a_total_out_of_range_is_an_error_only_if_a_frame_contains_it() -> Result<()> {
    let most = 10_i128.pow(38) - 1;
    let decimals: Decimal128Array = vec![most, most, most, most, -most, -most, 7].into();
    let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(38, 0).unwrap());
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..7));
    let kind = DataType::Decimal128(38, 0);
    let batch = RecordBatch::try_new(schema(&[DataType::Int64, kind.clone()]), vec![ids, decimals]).unwrap();
    let sum = |rows: i64| {
        let frame = frame(FrameUnit::Rows, FrameBound::Preceding(bigint(rows)), FrameBound::CurrentRow);
        let sum = Aggregate::new(named("sum"), Some((Expr::Column(1), kind.clone())), kind.clone());
        let calls = vec![aggregate_call(sum, frame)];
        let case = WindowCase { partition: vec![], order: vec![sort_key(0)], calls, limit: None };
        run_over(ReadyBatches::new(batch.schema(), vec![batch.clone()]), &case, 1, &Broker::new(1 << 30))
    };
    let found = sum(0)?;
    assert_eq!(found.column(2).as_primitive::<arrow::datatypes::Decimal128Type>().value(3), most);
    for rows in [1, 3, 100] {
        let error = sum(rows).expect_err("too large");
        assert_eq!((error.kind(), error.message()), (ErrorKind::NumericOutOfRange, "the total of sum"));
    }
    Ok(())
}

/// An input whose shares end together: the end of each waits for all others that have begun, as those of joins do.
#[derive(Debug)]
struct EndingTogether {
    input: Arc<ReadyBatches>,
    open: Arc<AtomicUsize>,
}

impl BatchSource for EndingTogether {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let (mut input, open) = (Arc::clone(&self.input).worker(), Arc::clone(&self.open));
        open.fetch_add(1, Ordering::SeqCst);
        share(move || {
            if let Some(batch) = input.next() {
                return batch.map(Some);
            }
            open.fetch_sub(1, Ordering::SeqCst);
            let begun = Instant::now();
            while open.load(Ordering::SeqCst) > 0 {
                assert!(begun.elapsed() < Duration::from_secs(20), "a worker has stopped reading its share");
                std::thread::yield_now();
            }
            Ok(None)
        })
    }
}

/// `row_number()` in partitions by the first column.
fn numbering(broker: Broker, cancel: Cancel) -> WindowRequest {
    WindowRequest {
        partition: vec![0],
        order: vec![],
        calls: vec![rank(RankFunction::RowNumber)],
        limit: None,
        schema: schema(&[DataType::Int64, DataType::Int64]),
        batch_rows: 100,
        cancel,
        broker,
        temp: TempSpace::in_memory(),
    }
}

#[test]
fn a_window_that_spills_reads_every_share_to_its_end() {
    for round in 0..20 {
        let input = Arc::new(EndingTogether { input: numbers(0..2_000, 10), open: Arc::default() });
        let broker = Broker::new(1 << 20);
        broker.set_always_spills(true);
        let window: Arc<dyn BatchSource> = WindowOperator::new(input, numbering(broker, Cancel::new()));
        let batches = collect(&window, 1 + round % 4).expect("the disk has room");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2_000);
    }
}

#[test]
fn failures_of_the_input_and_of_memory_end_the_window() {
    for threads in [1, 4] {
        let failing = Arc::new(Failing(numbers(0..1_000, 10)));
        let window: Arc<dyn BatchSource> = WindowOperator::new(failing, numbering(Broker::new(1 << 30), Cancel::new()));
        assert_eq!(collect(&window, threads).unwrap_err().kind(), ErrorKind::Io);
        let window: Arc<dyn BatchSource> =
            WindowOperator::new(numbers(0..100_000, 10), numbering(Broker::new(1 << 16), Cancel::new()));
        let rows: usize = collect(&window, threads).expect("the disk has room").iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 100_000, "the rows of many partitions go to disk");
        let one = WindowRequest { partition: Vec::new(), ..numbering(Broker::new(1 << 16), Cancel::new()) };
        let window: Arc<dyn BatchSource> = WindowOperator::new(numbers(0..100_000, 10), one);
        let rows: usize = collect(&window, threads).expect("the disk has room").iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 100_000, "the rows of one partition go to disk");
        let cancel = Cancel::new();
        cancel.cancel();
        let window: Arc<dyn BatchSource> =
            WindowOperator::new(numbers(0..1_000, 10), numbering(Broker::new(1 << 30), cancel));
        assert_eq!(collect(&window, threads).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

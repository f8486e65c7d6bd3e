//! Partitions that are computed in stretches of a few rows.

use arrow::datatypes::Int64Type;

use super::*;
use crate::window::passes::first_call;
use crate::window::running::CallReach;

/// A limit at which a stretch has about 50 rows of the test table.
const LIMIT: u64 = 1 << 19;

fn run_in_stretches(table: &RecordBatch, case: &WindowCase, threads: usize) -> Result<RecordBatch> {
    let broker = Broker::new(LIMIT);
    broker.set_always_spills(true);
    run_with(table, case, 40, threads, &broker)
}

fn check_stretches(table: &RecordBatch, case: &WindowCase, threads: usize) {
    let found = run_in_stretches(table, case, threads).unwrap_or_else(|error| panic!("{case:?}: {error:?}"));
    check_found(table, case, &found, &expected(table, &case.partition, &case.order, &case.calls));
}

fn growing(unit: FrameUnit) -> WindowFrame<FrameOffset> {
    frame(unit, FrameBound::Unbounded, FrameBound::CurrentRow)
}

/// A call that may go on from stretch to stretch. Its result may depend on the positions of rows if the order is total,
/// which `by_rows` says.
fn random_call(random: &mut SmallRng, by_rows: bool) -> WindowCall {
    let unit = *match by_rows {
        true => [FrameUnit::Rows, FrameUnit::Range, FrameUnit::Groups].choose(random).unwrap(),
        false => [FrameUnit::Range, FrameUnit::Groups].choose(random).unwrap(),
    };
    let value = random.random_range(0..kinds().len());
    let kind = kinds()[value].clone();
    use RankFunction::*;
    match random.random_range(if by_rows { 0..9 } else { 0..5 }) {
        0 => rank(*[Rank, DenseRank, PercentRank].choose(random).unwrap()),
        1 | 2 => aggregate_call(random_aggregate(random), growing(unit)),
        3 | 4 => aggregate_call(random_aggregate(random), whole()),
        5 => {
            let nth = if random.random() { FrameRow::Last } else { FrameRow::First };
            let frame = if random.random() { growing(unit) } else { whole() };
            call(WindowFunction::Nth { value, nth, skips_nulls: random.random() }, frame, kind)
        }
        6 if random.random() => rank(RowNumber),
        6 => {
            let parts = bigint(random.random_range(1..900));
            call(WindowFunction::Ntile(parts), whole(), DataType::Int64)
        }
        7 => {
            let offset = random.random_bool(0.7).then(|| bigint(random.random_range(-3..5)));
            let default = random.random::<bool>().then_some(value);
            let forward = random.random();
            let function = WindowFunction::Shift { value, offset, default, forward, skips_nulls: false };
            call(function, whole(), kind)
        }
        _ => aggregate_call(random_aggregate(random), random_frame(random, FrameUnit::Rows)),
    }
}

#[test]
fn stretches_of_a_partition_are_those_of_the_model() {
    let mut reaches = Vec::new();
    for seed in 0..150 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let table = table(random.random_range(1..700), seed);
        let by_rows = random.random_bool(0.7);
        let order = if by_rows { total_orders() } else { orders_with_peers() };
        let order = order.choose(random).unwrap().clone();
        let reach = |call: &WindowCall| CallReach::of(call).expect("a known aggregate");
        let calls: Vec<WindowCall> = (0..6)
            .map(|_| random_call(random, by_rows))
            // Without ORDER BY, all rows are peers, and ranks ask for them.
            .filter(|call| !order.is_empty() || matches!(call.function, WindowFunction::Aggregate(_)))
            .filter(|call| reach(&first_call(call, order.is_empty()).0) != CallReach::Partition)
            .collect();
        reaches.extend(calls.iter().map(|call| std::mem::discriminant(&reach(call))));
        if calls.is_empty() {
            continue;
        }
        let partition = [vec![], vec![column::FEW], vec![column::FLAG, column::FEW]].choose(random).unwrap().clone();
        let (threads, case) = (random.random_range(1..4), WindowCase { partition, order, calls, limit: None });
        match run(&table, &case, 40, threads) {
            Ok(_) => check_stretches(&table, &case, threads),
            // A total of decimals may be too large.
            Err(error) => {
                let found = run_in_stretches(&table, &case, threads).expect_err("the error of rows in memory");
                assert_eq!((found.kind(), found.message()), (error.kind(), error.message()));
            }
        }
    }
    let of = |reach: CallReach| reaches.iter().filter(|other| **other == std::mem::discriminant(&reach)).count();
    let near = of(CallReach::Near { before: 0, after: 0 });
    let counts = [of(CallReach::Count { of_groups: true }), of(CallReach::State), of(CallReach::Row), near];
    assert!(counts.iter().all(|count| *count > 30) && of(CallReach::Partition) > 100, "{counts:?}");
}

#[test]
fn first_rows_of_a_large_partition_are_those_of_the_model() {
    let table = table(400, 5);
    for limit in [0, 1, 30, 200, 1_000] {
        for more in [RankFunction::RowNumber, RankFunction::DenseRank] {
            let calls = vec![rank(RankFunction::RowNumber), rank(more)];
            let case = WindowCase { partition: vec![], order: vec![sort_key(column::ID)], calls, limit: Some(limit) };
            check_stretches(&table, &case, 2);
        }
    }
}

#[test]
fn a_partition_whose_calls_need_all_rows_must_fit_memory() {
    let order = || vec![sort_key(column::ID)];
    let sum = || aggregate(named("sum"), Some(column::SMALL));
    let distinct = Aggregate { distinct: true, ..sum() };
    for needed in [aggregate_call(distinct, whole()), rank(RankFunction::CumulativeShare)] {
        let case = WindowCase { partition: vec![], order: order(), calls: vec![needed], limit: None };
        check_stretches(&table(50, 1), &case, 2);
        let error = run_in_stretches(&table(4_000, 1), &case, 2).expect_err("a partition that is too large");
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert!(error.message().starts_with("a window has a partition whose rows have more than"), "{error}");
    }
    let calls = vec![aggregate_call(sum(), growing(FrameUnit::Range))];
    // All rows are peers.
    let case = WindowCase { partition: vec![], order: vec![sort_key(column::FLAG)], calls, limit: None };
    let error = run_in_stretches(&table(4_000, 1), &case, 2).expect_err("a group of peers that is too large");
    assert!(error.message().starts_with("a window has a group of peers whose rows have more than"), "{error}");
}

#[test]
fn results_of_whole_partitions_take_two_passes() {
    let last = WindowFunction::Nth { value: column::TEXT, nth: FrameRow::Last, skips_nulls: true };
    let calls = vec![
        aggregate_call(aggregate(named("sum"), Some(column::SMALL)), whole()),
        aggregate_call(aggregate(named("min"), Some(column::TEXT)), whole()),
        call(last, whole(), DataType::Utf8View),
        rank(RankFunction::PercentRank),
        call(WindowFunction::Ntile(bigint(7)), whole(), DataType::Int64),
        rank(RankFunction::RowNumber),
    ];
    // The rows of a partition take more memory than the limit.
    for partition in [vec![], vec![column::FLAG]] {
        let case = WindowCase { partition, order: vec![sort_key(column::ID)], calls: calls.clone(), limit: None };
        check_stretches(&table(3_000, 1), &case, 2);
    }
}

#[test]
fn rows_without_an_order_are_numbered_and_counted_once() {
    for (rows, threads) in [(0, 1), (1, 2), (900, 1), (900, 3)] {
        let calls = vec![rank(RankFunction::RowNumber), aggregate_call(aggregate(named("count"), None), whole())];
        let case = WindowCase { partition: vec![], order: vec![], calls, limit: None };
        let found = run_in_stretches(&table(rows, 3), &case, threads).expect("the disk has room");
        let column = |number: usize| found.column(kinds().len() + number).as_primitive::<Int64Type>().values().to_vec();
        let mut numbers = column(0);
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=rows as i64).collect::<Vec<_>>());
        assert_eq!(column(1), vec![rows as i64; rows]);
    }
}

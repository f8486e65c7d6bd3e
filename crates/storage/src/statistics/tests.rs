//! Compares the statistics of columns of several shapes with the true shares.

use std::collections::BTreeSet;
use std::ops::Bound;

use proptest::prelude::*;
use rowmill_base::{ColumnId, IndexId, SqlType};

use super::{SAMPLE_ROWS, StatisticsCollector, TableStatistics, ValueKeys};
use crate::keyed::ValueRef;
use crate::schema::{ColumnDef, ColumnSpec};

fn column(id: u32, kind: SqlType) -> ColumnDef {
    ColumnDef::from_spec(ColumnId(id), ColumnSpec::new(format!("c{id}"), kind))
}

/// Collects the statistics of one column.
fn of_values<'v>(column: &ColumnDef, values: impl IntoIterator<Item = ValueRef<'v>>) -> TableStatistics {
    let mut collector = StatisticsCollector::new([column]);
    values.into_iter().for_each(|value| collector.push([value]));
    collector.finish(IndexId(1))
}

/// Asserts that the two shares differ at most by `factor`.
fn close(found: Option<f64>, share: f64, factor: f64) {
    let found = found.expect("the column is known");
    assert!(found <= share * factor && found >= share / factor, "{found} instead of {share}");
}

fn mixed(number: u64) -> u64 {
    (number ^ 0x5bf0_3635).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

#[test]
fn shares_of_evenly_spread_numbers_are_close() {
    let column = column(3, SqlType::Int64);
    // More rows than the sample has.
    let rows = SAMPLE_ROWS as u64 * 10;
    let statistics = of_values(&column, (0..rows).map(|row| ValueRef::Int(row as i64 - 1000)));
    assert_eq!(statistics.rows, rows);
    let known = statistics.column(ColumnId(3)).expect("known");
    assert!(known.frequent.is_empty(), "{:?}", known.frequent);
    assert!(known.distinct.abs_diff(rows) < rows / 15, "{}", known.distinct);
    close(statistics.share_equal(&column, ValueRef::Int(5)), 1.0 / rows as f64, 1.1);
    let at = |share: f64| ValueRef::Int((share * rows as f64) as i64 - 1000);
    for (from, to) in [(0.0, 0.5), (0.25, 0.75), (0.1, 0.2), (0.9, 0.95)] {
        let within = statistics.share_within(&column, Bound::Included(at(from)), Bound::Excluded(at(to)));
        close(within, to - from, 1.15);
    }
    close(statistics.share_within(&column, Bound::Excluded(at(0.3)), Bound::Unbounded), 0.7, 1.05);
    // A range beyond all known values still has some rows, because rows may have been added.
    let beyond = statistics.share_within(&column, Bound::Excluded(at(2.0)), Bound::Unbounded).expect("known");
    assert!(beyond > 0.0 && beyond < 1e-5);
    assert_eq!(statistics.share_equal(&column, ValueRef::Null), Some(0.0));
    assert_eq!(statistics.share_within(&column, Bound::Included(ValueRef::Null), Bound::Unbounded), Some(0.0));
}

#[test]
fn a_dominant_value_is_frequent_and_others_are_rare() {
    let column = column(0, SqlType::Int32);
    let value = |row: u64| ValueRef::Int(if row.is_multiple_of(10) { (mixed(row) % 5_000) as i64 } else { 77 });
    let statistics = of_values(&column, (0..200_000).map(value));
    close(statistics.share_equal(&column, ValueRef::Int(77)), 0.9, 1.01);
    close(statistics.share_equal(&column, ValueRef::Int(78)), 0.1 / 5_000.0, 1.5);
    close(
        statistics.share_within(&column, Bound::Unbounded, Bound::Excluded(ValueRef::Int(77))),
        0.1 * 77.0 / 5e3,
        2.0,
    );
    close(statistics.share_within(&column, Bound::Excluded(ValueRef::Int(77)), Bound::Unbounded), 0.098, 1.1);
    close(statistics.share_within(&column, Bound::Included(ValueRef::Int(77)), Bound::Unbounded), 0.998, 1.01);
}

#[test]
fn few_values_are_all_frequent() {
    let column = column(0, SqlType::TEXT);
    let words = ["new", "open", "paid", "shipped"];
    let statistics =
        of_values(&column, (0..100_000_u64).map(|row| ValueRef::Text(words[(mixed(row) % 16).min(3) as usize])));
    let known = statistics.column(ColumnId(0)).expect("known");
    assert_eq!((known.distinct, known.frequent.len(), known.bounds.len()), (4, 4, 0));
    close(statistics.share_equal(&column, ValueRef::Text("new")), 1.0 / 16.0, 1.1);
    close(statistics.share_equal(&column, ValueRef::Text("shipped")), 13.0 / 16.0, 1.05);
    close(statistics.share_within(&column, Bound::Unbounded, Bound::Included(ValueRef::Text("open"))), 2.0 / 16.0, 1.1);
    // The statistics do not know this value.
    assert!(statistics.share_equal(&column, ValueRef::Text("lost")).expect("known") < 1e-5);
}

#[test]
fn shares_of_a_mostly_null_column_are_close() {
    let column = column(0, SqlType::Date);
    let value = |row: u64| match row % 20 {
        0 => ValueRef::Int((mixed(row) % 3_650) as i64),
        _ => ValueRef::Null,
    };
    let statistics = of_values(&column, (0..400_000).map(value));
    let known = statistics.column(ColumnId(0)).expect("known");
    assert!((known.null_share - 0.95).abs() < 1e-9);
    assert!(known.distinct.abs_diff(3_650) < 150, "{}", known.distinct);
    close(statistics.share_within(&column, Bound::Unbounded, Bound::Unbounded), 0.05, 1.001);
    let year =
        statistics.share_within(&column, Bound::Included(ValueRef::Int(365)), Bound::Excluded(ValueRef::Int(730)));
    close(year, 0.005, 1.3);
    close(statistics.share_equal(&column, ValueRef::Int(1_000)), 0.05 / 3_650.0, 1.5);
    // A column with only NULLs.
    let statistics = of_values(&column, (0..100).map(|_| ValueRef::Null));
    let known = statistics.column(ColumnId(0)).expect("known");
    assert_eq!((known.distinct, known.null_share, known.frequent.len(), known.bounds.len()), (0, 1.0, 0, 0));
    assert_eq!(statistics.share_equal(&column, ValueRef::Int(1)), Some(0.005));
}

#[test]
fn long_texts_that_begin_alike_count_as_distinct_values() {
    let column = column(0, SqlType::TEXT);
    let start = "https://example.org/a/very/long/path/that/all/of/them/begin/with/";
    let texts: Vec<String> = (0..50_000_u64).map(|row| format!("{start}{}", mixed(row) % 10_000)).collect();
    let statistics = of_values(&column, texts.iter().map(|text| ValueRef::Text(text)));
    let distinct = texts.iter().collect::<BTreeSet<_>>().len() as f64;
    close(statistics.share_equal(&column, ValueRef::Text(&texts[7])), 1.0 / distinct, 1.5);
    let known = statistics.column(ColumnId(0)).expect("known");
    assert!(known.bounds.iter().all(|bound| bound.len() <= super::VALUE_KEY_BYTES_MAX));
    close(statistics.share_within(&column, Bound::Excluded(ValueRef::Text("https")), Bound::Unbounded), 1.0, 1.001);
    let short: Vec<String> = (0..50_000_u64).map(|row| format!("{:05}", mixed(row) % 100_000)).collect();
    let statistics = of_values(&column, short.iter().map(|text| ValueRef::Text(text)));
    let tens =
        statistics.share_within(&column, Bound::Included(ValueRef::Text("1")), Bound::Excluded(ValueRef::Text("3")));
    close(tens, 0.2, 1.15);
}

#[test]
fn shares_of_decimals_floats_and_booleans_are_close() {
    let decimal = column(0, SqlType::Decimal { precision: 30, scale: 2 });
    // Squares, so that small values are dense.
    let statistics =
        of_values(&decimal, (0..100_000_i128).map(|row| ValueRef::Decimal(row * row * 1_000_000_007 - 5_000)));
    let at = |row: i128| ValueRef::Decimal(row * row * 1_000_000_007 - 5_000);
    close(statistics.share_within(&decimal, Bound::Unbounded, Bound::Excluded(at(10_000))), 0.1, 1.15);
    close(statistics.share_within(&decimal, Bound::Included(at(50_000)), Bound::Excluded(at(60_000))), 0.1, 1.25);
    let float = column(0, SqlType::Float64);
    let statistics = of_values(&float, (0..50_000_u64).map(|row| ValueRef::Float(row as f64 / 100.0 - 250.0)));
    close(statistics.share_within(&float, Bound::Unbounded, Bound::Included(ValueRef::Float(0.0))), 0.5, 1.05);
    let boolean = column(0, SqlType::Boolean);
    let statistics = of_values(&boolean, (0..1_000_u64).map(|row| ValueRef::Bool(row.is_multiple_of(4))));
    close(statistics.share_equal(&boolean, ValueRef::Bool(true)), 0.25, 1.001);
}

#[test]
fn types_without_an_order_have_only_counts() {
    let nested = column(0, SqlType::List(Box::new(SqlType::Int32)));
    let bytes: Vec<[u8; 2]> = (0..600_u16).map(|row| (row % 300).to_le_bytes()).collect();
    let values = bytes.iter().map(|bytes| ValueRef::Bytes(bytes)).chain((0..200).map(|_| ValueRef::Null));
    let statistics = of_values(&nested, values);
    let known = statistics.column(ColumnId(0)).expect("known");
    assert_eq!((known.null_share, known.frequent.len(), known.bounds.len()), (0.25, 0, 0));
    assert!(known.distinct.abs_diff(300) < 15, "{}", known.distinct);
    assert_eq!(statistics.share_within(&nested, Bound::Unbounded, Bound::Excluded(ValueRef::Bytes(b"a"))), None);
}

#[test]
fn the_sample_covers_all_rows_and_is_always_the_same() {
    let column = column(0, SqlType::Int64);
    let statistics = || of_values(&column, (0..500_000).map(|row| ValueRef::Int(row / 5_000)));
    let found = statistics();
    assert_eq!(found, statistics());
    let known = found.column(ColumnId(0)).expect("known");
    assert_eq!((known.distinct, known.frequent.len()), (100, 100));
    for (_, share) in &known.frequent {
        assert!((0.007..0.013).contains(share), "{share}");
    }
}

#[test]
fn columns_are_found_by_their_ids() {
    let columns = [column(9, SqlType::Int64), column(2, SqlType::TEXT)];
    let mut collector = StatisticsCollector::new(&columns);
    (0..10).for_each(|row| collector.push([ValueRef::Int(row), ValueRef::Text("x")]));
    assert!(collector.bytes() > 0);
    let statistics = collector.finish(IndexId(4));
    assert_eq!(statistics.index, IndexId(4));
    assert_eq!(statistics.column(ColumnId(9)).expect("known").distinct, 10);
    assert_eq!(statistics.column(ColumnId(2)).expect("known").distinct, 1);
    assert!(statistics.column(ColumnId(3)).is_none());
    // The value has another type than the column.
    assert_eq!(ValueKeys::new(&SqlType::Int64).key(ValueRef::Text("x")), None);
}

fn numbers() -> impl Strategy<Value = Vec<Option<i64>>> {
    // Few values, many values, dense values, and NULLs.
    let value =
        prop_oneof![3 => 0..20_i64, 3 => 0..3_000_i64, 2 => (0..200_i64).prop_map(|n| n * n * n), 1 => any::<i64>()];
    let value = prop_oneof![1 => Just(None), 9 => value.prop_map(Some)];
    proptest::collection::vec(value, 1..4_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For a table that fits into the sample, an error should not exceed one bucket at each end, plus one value there
    /// that is almost frequent.
    #[test]
    fn shares_are_near_the_true_ones(
        numbers in numbers(),
        probes in proptest::collection::vec((0..4_000_usize, 0..4_000_usize), 20),
    ) {
        let column = column(0, SqlType::Int64);
        let value = |number: Option<i64>| number.map_or(ValueRef::Null, ValueRef::Int);
        let statistics = of_values(&column, numbers.iter().map(|number| value(*number)));
        let rows = numbers.len() as f64;
        let exact = |holds: &dyn Fn(i64) -> bool| {
            numbers.iter().flatten().filter(|number| holds(**number)).count() as f64 / rows
        };
        let mut distinct: Vec<i64> = numbers.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(statistics.column(ColumnId(0)).expect("known").distinct, distinct.len() as u64);
        let mut all = Vec::new();
        for (one, other) in probes {
            let [one, other] = [one, other].map(|at| numbers[at % numbers.len()]);
            let (Some(one), Some(other)) = (one, other) else { continue };
            let (low, high) = (one.min(other), one.max(other));
            let found = statistics.share_equal(&column, ValueRef::Int(low)).expect("known");
            let true_share = exact(&|number| number == low);
            prop_assert!((found - true_share).abs() <= 0.011 + 1.0 / rows, "{} = {}, {}", low, found, true_share);
            for (lower, upper, true_share) in [
                (Bound::Included(low), Bound::Included(high), exact(&|number| (low..=high).contains(&number))),
                (Bound::Excluded(low), Bound::Excluded(high), exact(&|number| number > low && number < high)),
                (Bound::Unbounded, Bound::Excluded(high), exact(&|number| number < high)),
                (Bound::Excluded(low), Bound::Unbounded, exact(&|number| number > low)),
            ] {
                let found = statistics.share_within(&column, lower.map(ValueRef::Int), upper.map(ValueRef::Int));
                let found = found.expect("known");
                let is_near = (found - true_share).abs() <= 0.045 + 1.0 / rows;
                prop_assert!(is_near, "{:?} {:?}: {}, {}", lower, upper, found, true_share);
            }
            all.push(low);
        }
        // A larger range must never have a smaller share.
        all.sort_unstable();
        let shares = all.iter().map(|high| {
            statistics.share_within(&column, Bound::Unbounded, Bound::Included(ValueRef::Int(*high)))
        });
        prop_assert!(shares.collect::<Option<Vec<f64>>>().expect("known").is_sorted());
    }
}

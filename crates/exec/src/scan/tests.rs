//! Scans and groupings under random conditions, compared with evaluating every row.

use crate::aggregate::named;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int16Array, Int64Array, StringViewArray,
    UInt32Array,
};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt64Type};
use arrow::row::{RowConverter, SortField};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use roaring::RoaringBitmap;
use rowmill_base::{Broker, Cancel, SqlType};
use rowmill_plan::{Aggregate, CompareOp, Group, Predicate};
use rowmill_storage::spill::TempSpace;
use rowmill_storage::{TableSource, repeat_missing};

use super::block_state::selected;
use super::{ScanRequest, TableScan, TopKey, TopRequest};
use crate::group::{GroupBy, GroupRequest};
use crate::predicate::evaluate;
use crate::testing::TestTable;

const KINDS: [SqlType; 7] =
    [SqlType::Int16, SqlType::Int64, SqlType::Date, SqlType::Float64, SqlType::TEXT, SqlType::TEXT, SqlType::Boolean];

/// The sequence of a column's values.
#[derive(Clone, Copy)]
struct ValuePattern {
    /// The number of distinct values.
    values: i64,
    /// Rows of a run of equal values.
    run: usize,
    /// One row in this many is NULL; 0 for no NULLs.
    null_in: u32,
}

fn column(kind: &SqlType, shape: ValuePattern, rows: usize, rng: &mut SmallRng) -> ArrayRef {
    let mut last = 0;
    let numbers: Vec<Option<i64>> = (0..rows)
        .map(|row| {
            if row % shape.run == 0 {
                last = rng.random_range(0..shape.values);
            }
            (shape.null_in == 0 || rng.random_range(0..shape.null_in) > 0).then_some(last)
        })
        .collect();
    of_numbers(kind, &numbers)
}

fn of_numbers(kind: &SqlType, numbers: &[Option<i64>]) -> ArrayRef {
    let words = ["google", "go", "www.google.com/search?q=", "", "футбол", "%_\\", "goo", "oogle"];
    let text = |number: i64| format!("{}{}{number}", words[number as usize % 8], words[number as usize / 8 % 8]);
    match kind {
        SqlType::Int16 => Arc::new(Int16Array::from_iter(numbers.iter().map(|number| number.map(|n| n as i16)))),
        SqlType::Date => Arc::new(Date32Array::from_iter(numbers.iter().map(|number| number.map(|n| n as i32)))),
        SqlType::Float64 => Arc::new(Float64Array::from_iter(numbers.iter().map(|number| {
            number.map(|n| match n % 50 {
                7 => f64::NAN,
                8 => f64::NEG_INFINITY,
                9 => n as f64 / 3.0,
                _ => n as f64 / 4.0 - 10.0,
            })
        }))),
        SqlType::Boolean => Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| number.map(|n| n % 3 == 0)))),
        SqlType::Text { .. } => Arc::new(StringViewArray::from_iter(numbers.iter().map(|number| number.map(text)))),
        _ => Arc::new(Int64Array::from_iter(numbers.iter().map(|number| number.map(|n| n * 1_000_003)))),
    }
}

fn predicate(rng: &mut SmallRng, columns: &[usize], values: i64, depth: usize) -> Predicate {
    let column = columns[rng.random_range(0..columns.len())];
    let one = |rng: &mut SmallRng| Some(rng.random_range(0..values + 3));
    match rng.random_range(0..if depth > 0 { 9 } else { 6 }) {
        0..=2 => {
            use CompareOp::*;
            let op = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual][rng.random_range(0..6)];
            Predicate::Compare { column, op, value: of_numbers(&KINDS[column], &[one(rng)]) }
        }
        3 => {
            let list: Vec<Option<i64>> = (0..rng.random_range(1..20)).map(|_| one(rng)).collect();
            Predicate::In { column, values: of_numbers(&KINDS[column], &list), negated: rng.random() }
        }
        4 => Predicate::IsNull { column, negated: rng.random() },
        5 => match columns.iter().find(|column| KINDS[**column] == SqlType::TEXT) {
            Some(column) => {
                let patterns = ["%google%", "go%", "%1", "google", "%o_gle%", "%go%gle%", "%", "", "%ф_т%", "\\%\\_%"];
                let pattern = patterns[rng.random_range(0..patterns.len())].to_owned();
                Predicate::Like { column: *column, pattern, negated: rng.random(), ignore_case: rng.random() }
            }
            None => Predicate::IsNull { column, negated: true },
        },
        6 => Predicate::Not(Box::new(predicate(rng, columns, values, depth - 1))),
        more => {
            let parts = (0..rng.random_range(0..4)).map(|_| predicate(rng, columns, values, depth - 1)).collect();
            if more == 7 { Predicate::And(parts) } else { Predicate::Or(parts) }
        }
    }
}

fn table(rng: &mut SmallRng, values: i64) -> Arc<TestTable> {
    let blocks = (0..3)
        .map(|block| {
            let rows = [1, 3000, 9000][rng.random_range(0..3)];
            // The first block is older than the last columns, so it must fill in their values.
            let columns = if block == 0 { KINDS.len() - 2 } else { KINDS.len() };
            let column = |kind| {
                let run = [1, 40, 700, rows][rng.random_range(0..4)];
                let null_in = [0, 0, 10, 2, 1][rng.random_range(0..5)];
                column(kind, ValuePattern { values: rng.random_range(1..=values), run, null_in }, rows, rng)
            };
            let columns = KINDS[..columns].iter().map(column).collect();
            let deleted: RoaringBitmap = match rng.random_range(0..3) {
                0 => (0..rows as u32).filter(|_| rng.random_range(0..30) == 0).collect(),
                _ => RoaringBitmap::new(),
            };
            (columns, deleted)
        })
        .collect();
    TestTable::new(&KINDS, None, blocks)
}

/// The numbers of the rows that pass.
fn rows_that_pass(table: &TestTable, predicates: &[Predicate]) -> Vec<u64> {
    let mut found = Vec::new();
    for (index, block) in table.blocks().iter().enumerate() {
        let mut read = |column: usize| match table.values(index, column) {
            Some(values) => Ok(Arc::clone(values)),
            None => repeat_missing(None, &KINDS[column].arrow(), block.rows()),
        };
        let truth = evaluate(&Predicate::And(predicates.to_vec()), block.rows(), &mut read).expect("conditions");
        let first = block.first_row().0;
        let live = |row: &usize| block.deleted().is_none_or(|deleted| !deleted.contains(*row as u32));
        found.extend(selected(&truth).set_indices().filter(live).map(|row| first + row as u64));
    }
    found
}

fn scan(table: &Arc<TestTable>, predicates: Vec<Predicate>) -> Vec<u64> {
    let mut numbers = scan_for(table, predicates, None);
    numbers.sort_unstable();
    numbers
}

/// The numbers of the rows that a scan returns; within a block they keep their order.
fn scan_for(table: &Arc<TestTable>, predicates: Vec<Predicate>, top: Option<TopRequest>) -> Vec<u64> {
    let request = ScanRequest {
        columns: (0..KINDS.len()).collect(),
        predicates,
        limit: None,
        top,
        batch_rows: 1000,
        row_numbers: true,
        cancel: Cancel::new(),
    };
    let scan = TableScan::new(Arc::clone(table) as Arc<dyn TableSource>, request).expect("a scan");
    let mut numbers = Vec::new();
    for batch in scan.cursor() {
        let batch = batch.expect("a batch");
        let rows = batch.column(KINDS.len()).as_primitive::<UInt64Type>().values();
        check_columns(table, rows, batch.columns());
        numbers.extend_from_slice(rows);
    }
    numbers
}

/// Checks that `columns` have the table's values of these rows.
fn check_columns(table: &TestTable, rows: &[u64], columns: &[ArrayRef]) {
    let Some(first) = rows.first() else { return };
    let block = table.blocks().iter().position(|block| block.end_row().0 > *first).expect("rows of the table");
    let start = table.blocks()[block].first_row().0;
    let places = UInt32Array::from_iter_values(rows.iter().map(|row| (row - start) as u32));
    for (column, found) in columns[..KINDS.len()].iter().enumerate() {
        match table.values(block, column) {
            Some(values) => assert_eq!(found, &take(values, &places, None).expect("rows of the block")),
            None => assert_eq!(found.null_count(), found.len()),
        }
    }
}

fn count(table: &Arc<TestTable>, predicates: Vec<Predicate>) -> i64 {
    let aggregates = vec![Aggregate::new(named("count"), None, DataType::Int64)];
    let request = GroupRequest {
        group: Group { predicates, keys: vec![], aggregates, always: vec![] },
        functions: vec![],
        schema: Arc::new(Schema::new(vec![Field::new("count", DataType::Int64, false)])),
        top: None,
        limit: None,
        only_presence: false,
        batch_rows: 1000,
        threads: 2,
        cancel: Cancel::new(),
        broker: Broker::new(1 << 40),
        temp: TempSpace::in_memory(),
        metrics: Arc::default(),
        counts_workers: true,
    };
    let group_by = GroupBy::new(Arc::clone(table) as Arc<dyn TableSource>, request).expect("a grouping");
    group_by.worker().map(|batch| batch.expect("a batch").column(0).as_primitive::<Int64Type>().value(0)).sum()
}

#[test]
fn scans_and_counts_agree_with_evaluating_every_row() {
    for seed in 0..150 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let values = [1, 5, 60, 5000][rng.random_range(0..4)];
        let table = table(rng, values);
        for _ in 0..8 {
            // Conditions on one column are often settled by its value list alone.
            let all: Vec<usize> = (0..KINDS.len()).collect();
            let one = [rng.random_range(0..KINDS.len())];
            let columns = if rng.random() { &all[..] } else { &one };
            let predicates: Vec<Predicate> =
                (0..rng.random_range(0..4)).map(|_| predicate(rng, columns, values, 2)).collect();
            let expected = rows_that_pass(&table, &predicates);
            assert_eq!(scan(&table, predicates.clone()), expected, "seed {seed}: {predicates:?}");
            assert_eq!(count(&table, predicates.clone()), expected.len() as i64, "seed {seed}: {predicates:?}");
        }
    }
}

/// The values of a column in the rows `numbers`.
fn values_of(table: &TestTable, column: usize, numbers: &[u64]) -> ArrayRef {
    let parts = table.blocks().iter().enumerate().map(|(index, block)| {
        let first = block.first_row().0;
        let places = numbers.iter().filter(|number| (first..block.end_row().0).contains(number));
        let places = UInt32Array::from_iter_values(places.map(|number| (number - first) as u32));
        match table.values(index, column) {
            Some(values) => take(values, &places, None).expect("rows of the block"),
            None => repeat_missing(None, &KINDS[column].arrow(), places.len()).expect("a NULL for each"),
        }
    });
    let parts: Vec<ArrayRef> = parts.collect();
    concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).expect("parts of one column")
}

#[test]
fn a_top_scan_returns_the_first_rows_of_the_order() {
    for seed in 0..100 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let values = [5, 60, 5000][rng.random_range(0..3)];
        let table = table(rng, values);
        for _ in 0..6 {
            let all: Vec<usize> = (0..KINDS.len()).collect();
            let predicates: Vec<Predicate> =
                (0..rng.random_range(0..3)).map(|_| predicate(rng, &all, values, 1)).collect();
            let keys = (0..rng.random_range(1..3)).map(|_| TopKey {
                column: rng.random_range(0..KINDS.len()),
                descending: rng.random(),
                nulls_first: rng.random(),
            });
            let top = TopRequest { keys: keys.collect(), rows: rng.random_range(1..20) };
            let fields = top.keys.iter().map(|key| {
                let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                SortField::new_with_options(KINDS[key.column].arrow(), options)
            });
            let converter = RowConverter::new(fields.collect()).expect("columns with an order");
            let first = |numbers: &[u64]| {
                let columns: Vec<ArrayRef> =
                    top.keys.iter().map(|key| values_of(&table, key.column, numbers)).collect();
                let rows = converter.convert_columns(&columns).expect("columns of one length");
                let mut rows: Vec<_> = rows.iter().map(|row| row.owned()).collect();
                rows.sort();
                rows.truncate(top.rows);
                rows
            };
            let expected = rows_that_pass(&table, &predicates);
            let given = scan_for(&table, predicates.clone(), Some(top.clone()));
            assert!(given.iter().all(|number| expected.binary_search(number).is_ok()), "seed {seed}: {predicates:?}");
            assert_eq!(first(&given), first(&expected), "seed {seed}: {predicates:?} by {top:?}");
        }
    }
}

#[test]
fn a_pattern_finds_the_same_rows_whether_few_or_all_are_tested() {
    for seed in 0..60 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let shape = |values, null_in| ValuePattern { values, run: 1, null_in };
        let blocks = (0..2).map(|_| {
            let columns = KINDS.iter().enumerate().map(|(place, kind)| {
                let values = if place == 0 { 400 } else { 20_000 };
                column(kind, shape(values, [0, 9][rng.random_range(0..2)]), 9000, rng)
            });
            (columns.collect(), RoaringBitmap::new())
        });
        let blocks: Vec<(Vec<ArrayRef>, RoaringBitmap)> = blocks.collect();
        let table = TestTable::new(&KINDS, None, blocks);
        for pattern in ["%google%", "%o_gle%1%", "%", "%7", "%ф_т%", "\\%%"] {
            let less = Predicate::Compare {
                column: 0,
                op: CompareOp::Less,
                value: of_numbers(&KINDS[0], &[Some(rng.random_range(0..30))]),
            };
            let like = |column: usize, rng: &mut SmallRng| Predicate::Like {
                column,
                pattern: pattern.to_owned(),
                negated: rng.random(),
                ignore_case: false,
            };
            // The comparison leaves few rows, so that the patterns are tested only for these.
            let predicates = vec![like(4, rng), less, like(5, rng)];
            let expected = rows_that_pass(&table, &predicates);
            assert_eq!(scan(&table, predicates.clone()), expected, "seed {seed}: {predicates:?}");
        }
    }
}

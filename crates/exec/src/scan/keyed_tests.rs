//! Scans of a keyed table under random conditions, compared with evaluating every row.

use crate::aggregate::named;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::{Field, Int64Type, Schema};
use arrow::row::{RowConverter, SortField};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel, ColumnId, Reservation, Settings, SqlType};
use rowmill_plan::{self as plan, Aggregate, CompareOp, Expr, Group, JoinKind, Node, Predicate, SortKey};
use rowmill_storage::spill::TempSpace;
use rowmill_storage::{KeyColumn, TableSource};
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, MAIN_SCHEMA};

use super::block_state::selected;
use super::{Scan, ScanRequest, TopKey, TopRequest};
use crate::collect::collect;
use crate::key_filter::KeyFilter;
use crate::operator::{Environment, RunningPlan};
use crate::predicate::evaluate;

const KINDS: [SqlType; 6] =
    [SqlType::Int64, SqlType::Int32, SqlType::TEXT, SqlType::Float64, SqlType::Int64, SqlType::TEXT];
/// The last column identifies rows and is in no key.
const NUMBER: usize = 6;

/// The values of a column for small numbers.
fn values(column: usize, numbers: &[Option<i64>]) -> ArrayRef {
    let words = ["", "a", "ab", "abc", "abd", "b", "b%", "b_c", "\u{10FFFF}", "футбол", "фут", "zz"];
    match KINDS.get(column) {
        Some(SqlType::Int32) => Arc::new(Int32Array::from_iter(numbers.iter().map(|n| n.map(|n| n as i32 - 3)))),
        Some(SqlType::Float64) => Arc::new(Float64Array::from_iter(numbers.iter().map(|n| {
            n.map(|n| match n {
                3 => f64::NAN,
                4 => f64::INFINITY,
                5 => -0.0,
                6 => 0.0,
                n => n as f64 / 2.0 - 4.0,
            })
        }))),
        Some(SqlType::Text { .. }) => Arc::new(StringViewArray::from_iter(
            numbers.iter().map(|n| n.map(|n| words[n as usize % words.len()].to_owned())),
        )),
        _ => Arc::new(Int64Array::from_iter(numbers.iter().copied())),
    }
}

/// A table with a primary key of two columns, the second one descending, some indexes, and its rows.
fn table(rng: &mut SmallRng, rows: usize) -> (Arc<Engine>, Arc<dyn TableSource>, RecordBatch) {
    let engine = Engine::memory(Settings::default()).expect("memory");
    let mut transaction = engine.begin().expect("open");
    let schema = transaction.view().expect("open").catalog().schema(MAIN_SCHEMA).expect("there").id;
    let mut columns: Vec<ColumnSpec> =
        (0..).zip(&KINDS).map(|(at, kind)| ColumnSpec::new(format!("c{at}"), kind.clone())).collect();
    columns.push(ColumnSpec::new("number".to_owned(), SqlType::Int64));
    let part = |column: u32, descending: bool| KeyColumn { column: ColumnId(column), descending };
    let key = [part(0, false), part(1, true)];
    let id = transaction.create_keyed_table(schema, "t", columns, &key).expect("a table");
    let all = [
        ("text", vec![part(2, false)]),
        ("float", vec![part(3, true), part(4, false)]),
        ("number", vec![part(4, false), part(2, true)]),
        ("other", vec![part(5, true)]),
        ("second", vec![part(1, false), part(5, false)]),
    ];
    for (name, parts) in all {
        if rng.random_range(0..4) > 0 {
            let spec = IndexSpec { name: name.to_owned(), parts, unique: false };
            transaction.create_index(id, spec).expect("an index");
        }
    }
    // Each pair of the primary key must occur once.
    let mut pairs: Vec<(i64, i64)> = (0..rows as i64).map(|row| (row / 12, row % 12)).collect();
    pairs.sort_by_cached_key(|_| rng.random_range(0..1_000_000));
    let mut arrays = vec![
        values(0, &pairs.iter().map(|pair| Some(pair.0)).collect::<Vec<_>>()),
        values(1, &pairs.iter().map(|pair| Some(pair.1)).collect::<Vec<_>>()),
    ];
    for column in 2..KINDS.len() {
        let null_in = [1, 3, 20][rng.random_range(0..3)];
        let of_row = |_| (rng.random_range(0..20) >= null_in).then(|| rng.random_range(0..14));
        arrays.push(values(column, &(0..rows).map(of_row).collect::<Vec<_>>()));
    }
    arrays.push(Arc::new(Int64Array::from_iter_values(0..rows as i64)));
    let fields =
        arrays.iter().enumerate().map(|(at, array)| Field::new(format!("c{at}"), array.data_type().clone(), true));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays).expect("rows");
    transaction.insert(id, &batch).expect("rows");
    transaction.commit().expect("no conflict");
    let table = engine.snapshot().expect("open").table(id).expect("a table");
    (engine, table, batch)
}

fn number(rng: &mut SmallRng) -> Option<i64> {
    Some(rng.random_range(0..16))
}

fn leaf(rng: &mut SmallRng) -> Predicate {
    let column = rng.random_range(0..KINDS.len());
    match rng.random_range(0..9) {
        0..=3 => {
            use CompareOp::*;
            let op = [Equal, Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual][rng.random_range(0..7)];
            Predicate::Compare { column, op, value: values(column, &[number(rng)]) }
        }
        4 | 5 => {
            let list: Vec<Option<i64>> = (0..rng.random_range(0..6)).map(|_| number(rng)).collect();
            Predicate::In { column, values: values(column, &list), negated: rng.random_range(0..5) == 0 }
        }
        6 => Predicate::IsNull { column, negated: rng.random() },
        _ => {
            let patterns = ["a%", "ab%", "abc", "b\\%", "b\\_%", "фут%", "%", "%b", "\u{10FFFF}%", "ab_", ""];
            let pattern = patterns[rng.random_range(0..patterns.len())].to_owned();
            let column = [2, 5][rng.random_range(0..2)];
            let (negated, ignore_case) = (rng.random_range(0..6) == 0, rng.random_range(0..6) == 0);
            Predicate::Like { column, pattern, negated, ignore_case }
        }
    }
}

fn predicate(rng: &mut SmallRng, depth: usize) -> Predicate {
    match rng.random_range(0..if depth > 0 { 8 } else { 4 }) {
        0..=3 => leaf(rng),
        4 => Predicate::Not(Box::new(predicate(rng, depth - 1))),
        5 => Predicate::And((0..rng.random_range(0..4)).map(|_| predicate(rng, depth - 1)).collect()),
        _ => Predicate::Or((0..rng.random_range(0..4)).map(|_| predicate(rng, depth - 1)).collect()),
    }
}

/// The rows for which all of `predicates` are true.
fn passing(rows: &RecordBatch, predicates: &[Predicate]) -> Vec<usize> {
    let mut read = |column: usize| Ok(Arc::clone(rows.column(column)));
    let truth = evaluate(&Predicate::And(predicates.to_vec()), rows.num_rows(), &mut read).expect("conditions");
    selected(&truth).set_indices().collect()
}

fn request(predicates: &[Predicate]) -> ScanRequest {
    ScanRequest {
        columns: vec![NUMBER, 0, 5],
        predicates: predicates.to_vec(),
        limit: None,
        top: None,
        batch_rows: 100,
        row_numbers: false,
        cancel: Cancel::new(),
    }
}

fn numbers_of(scan: &Scan) -> Vec<usize> {
    let batches = collect(&scan.source, 3).expect("rows");
    let all = concat_batches(scan.source.schema(), &batches).expect("of one scan");
    all.column(0).as_primitive::<Int64Type>().values().iter().map(|number| *number as usize).collect()
}

/// The ranks of all rows in an order. Rows with equal keys have equal ranks.
fn ranks(rows: &RecordBatch, keys: &[TopKey]) -> Vec<Vec<u8>> {
    let field = |key: &TopKey| {
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        SortField::new_with_options(rows.column(key.column).data_type().clone(), options)
    };
    let canonical = |key: &TopKey| match rows.column(key.column).as_any().downcast_ref::<Float64Array>() {
        Some(floats) => Arc::new(floats.unary::<_, arrow::datatypes::Float64Type>(|float| float + 0.0)) as ArrayRef,
        None => Arc::clone(rows.column(key.column)),
    };
    let converter = RowConverter::new(keys.iter().map(field).collect()).expect("ordered types");
    let columns: Vec<ArrayRef> = keys.iter().map(canonical).collect();
    let rows = converter.convert_columns(&columns).expect("columns of these types");
    rows.iter().map(|row| row.as_ref().to_vec()).collect()
}

#[test]
fn random_conditions_find_the_same_rows_as_evaluating_every_row() {
    let mut accesses = BTreeMap::<String, usize>::new();
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let size = [0, 1, 30, 400, 3000][rng.random_range(0..5)];
        let (_engine, table, rows) = table(&mut rng, size);
        for _ in 0..60 {
            let predicates: Vec<Predicate> = (0..rng.random_range(0..4)).map(|_| predicate(&mut rng, 3)).collect();
            let expected = passing(&rows, &predicates);
            let scan = Scan::new(Arc::clone(&table), request(&predicates)).expect("a scan");
            let access = scan.metrics.access.get().cloned().unwrap_or_default();
            let mut found = numbers_of(&scan);
            found.sort_unstable();
            assert_eq!(found, expected, "seed {seed}: {access}: {predicates:?}");
            *accesses.entry(access.replace(|c: char| c.is_ascii_digit(), "")).or_default() += 1;

            // With a limit, any rows that pass are right, but their number must be exact.
            let limit = rng.random_range(0..20);
            let limited = ScanRequest { limit: Some(limit), ..request(&predicates) };
            let found = numbers_of(&Scan::new(Arc::clone(&table), limited).expect("a scan"));
            assert_eq!(found.len(), limit.min(expected.len()), "seed {seed}: {predicates:?}");
            assert!(found.iter().all(|number| expected.binary_search(number).is_ok()), "seed {seed}: {predicates:?}");
        }
    }
    // The conditions must have led to many kinds of access.
    assert!(accesses.len() > 10, "{accesses:?}");
}

#[test]
fn a_top_scan_returns_the_first_rows_of_the_order() {
    let mut in_order = 0;
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let size = [0, 1, 30, 400, 3000][rng.random_range(0..5)];
        let (_engine, table, rows) = table(&mut rng, size);
        for _ in 0..60 {
            let predicates: Vec<Predicate> = (0..rng.random_range(0..3)).map(|_| predicate(&mut rng, 1)).collect();
            let expected = passing(&rows, &predicates);
            let orders: [&[usize]; 9] = [&[0], &[0, 1], &[1, 0], &[2], &[3, 4], &[4, 2], &[5], &[1, 5], &[0, 1, 5]];
            let flip: bool = rng.random();
            let keys = orders[rng.random_range(0..orders.len())].iter().map(|column| {
                let descending = if rng.random_range(0..3) > 0 { flip ^ [1, 3].contains(column) } else { rng.random() };
                TopKey { column: *column, descending, nulls_first: descending ^ (rng.random_range(0..5) == 0) }
            });
            let top = TopRequest { keys: keys.collect(), rows: rng.random_range(1..20) };
            let asked = ScanRequest { top: Some(top.clone()), ..request(&predicates) };
            let scan = Scan::new(Arc::clone(&table), asked).expect("a scan");
            let access = scan.metrics.access.get().cloned().unwrap_or_default();
            let is_ordered = access.contains("order");
            let found = numbers_of(&scan);
            let ranks = ranks(&rows, &top.keys);
            let ranked = |numbers: &[usize]| {
                let mut ranked: Vec<Vec<u8>> = numbers.iter().map(|number| ranks[*number].clone()).collect();
                ranked.sort();
                ranked.truncate(top.rows);
                ranked
            };
            assert_eq!(ranked(&found), ranked(&expected), "seed {seed}: {access}: {top:?} {predicates:?}");
            if is_ordered {
                in_order += 1;
                assert_eq!(found.len(), expected.len().min(top.rows));
            }
        }
    }
    assert!(in_order > 300, "{in_order}");
}

#[test]
fn a_few_values_of_a_join_are_looked_up_by_key() {
    let mut narrowed = 0;
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (_engine, table, rows) = table(&mut rng, 3000);
        for (column, place) in [(0, 1), (5, 2)] {
            let list: Vec<Option<i64>> =
                (0..rng.random_range(0..4)).map(|_| Some(rng.random_range(0..300)).filter(|n| *n > 30)).collect();
            let offered = values(column, &list);
            let keeps_null = rng.random();
            let mut memory: Reservation = Broker::new(1 << 30).reservation("a test");
            let kind = KINDS[column].arrow();
            let filter = KeyFilter::new(&kind, &[&offered], keeps_null, Arc::default(), &mut memory).expect("memory");
            let predicates: Vec<Predicate> = (0..rng.random_range(0..2)).map(|_| leaf(&mut rng)).collect();
            let scan = Scan::new(Arc::clone(&table), request(&predicates)).expect("a scan");
            narrowed += usize::from(scan.source.narrows(place));
            scan.source.offer(place, &Arc::new(filter));
            let found = numbers_of(&scan);
            let has_match = |number: &usize| {
                let value = rows.column(column).slice(*number, 1);
                (0..offered.len()).any(|at| {
                    let other = offered.slice(at, 1);
                    if value.is_null(0) || other.is_null(0) {
                        return keeps_null && value.is_null(0) && other.is_null(0);
                    }
                    value.as_ref() == other.as_ref()
                })
            };
            let expected = passing(&rows, &predicates);
            let needed = expected.iter().filter(|number| has_match(number));
            // A scan may keep rows without a match, but it must not lose a row with one.
            assert!(needed.clone().all(|number| found.contains(number)), "seed {seed}: {list:?}, {predicates:?}");
            assert!(found.iter().all(|number| expected.contains(number)), "seed {seed}: {list:?}, {predicates:?}");
            if column == 0 {
                // Each value of the first key column has at most 12 rows.
                let read = scan.metrics.rows_read.load(Ordering::Relaxed);
                assert!(read <= 12 * list.len() as u64 + 1_500, "{read} rows of {list:?}");
            }
        }
    }
    assert!(narrowed > 20, "{narrowed}");
}

/// Runs a plan over a table. Returns its rows, and the number of rows that its scans have read.
fn run(root: &Node, table: &Arc<dyn TableSource>) -> (RecordBatch, u64) {
    let (cancel, broker, foreign) = (Cancel::new(), Broker::new(1 << 26), BTreeMap::new());
    let environment = Environment {
        tables: &[Arc::clone(table)],
        functions: &[],
        foreign: &foreign,
        batch_rows: 1000,
        threads: 2,
        cancel: &cancel,
        broker: &broker,
        temp: &TempSpace::in_memory(),
        recursion_max: 100,
        early_filters: true,
    };
    let running = RunningPlan::new(root, &environment).expect("a plan");
    let batches: Vec<RecordBatch> = running.worker().collect::<rowmill_base::Result<_>>().expect("nothing fails");
    let mut read = 0;
    running.operator.each_scan(&mut |scan| read += scan.rows_read.load(Ordering::Relaxed));
    let schema = batches.first().map_or_else(|| Arc::clone(root.schema()), RecordBatch::schema);
    (concat_batches(&schema, &batches).expect("batches of one plan"), read)
}

fn scan_of(columns: &[usize], rows: &RecordBatch) -> Arc<Node> {
    let schema = Arc::new(rows.schema().project(columns).expect("columns of the table"));
    Arc::new(Node::Scan(plan::Scan {
        table: 0,
        columns: columns.to_vec(),
        predicates: Vec::new(),
        row_number: false,
        schema,
    }))
}

#[test]
fn plans_over_a_key_read_few_rows() {
    let (_engine, table, rows) = table(&mut SmallRng::seed_from_u64(1), 3000);
    let column =
        |batch: &RecordBatch, column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();

    // The greatest and least value of the first part of the primary key. Its values are 0 to 249.
    for (function, expected) in [(named("max"), 249), (named("min"), 0)] {
        let argument = Some((Expr::Column(0), SqlType::Int64.arrow()));
        let aggregates = vec![Aggregate::new(function, argument, SqlType::Int64.arrow())];
        let schema = Arc::new(rows.schema().project(&[0]).expect("a column"));
        let group = Group { predicates: Vec::new(), keys: Vec::new(), aggregates, always: Vec::new() };
        let (found, read) = run(&Node::Group { input: scan_of(&[0], &rows), group, rows: None, schema }, &table);
        assert_eq!((column(&found, 0), read <= 32), (vec![expected], true), "{read} rows");
    }

    // The last rows by the primary key, read through a projection.
    let schema = Arc::new(rows.schema().project(&[1, 0]).expect("columns"));
    let exprs = vec![Expr::Column(1), Expr::Column(0)];
    let input = Arc::new(Node::Project { input: scan_of(&[0, 1], &rows), exprs, schema });
    let keys = vec![SortKey { column: 1, descending: true, nulls_first: true }];
    let (found, read) = run(&Node::Sort { input, keys, skip: 3, rows: Some(5), rows_below: None }, &table);
    assert_eq!((column(&found, 1), read <= 32), (vec![249; 5], true), "{read} rows");

    // A join with few rows on one side, which should be looked up, whichever side that is.
    let few: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(100_000), Some(8)]));
    let few_schema = Arc::new(Schema::new(vec![Field::new("n", SqlType::Int64.arrow(), true)]));
    let few = Arc::new(Node::Values { rows: RecordBatch::try_new(few_schema, vec![few]).expect("a column") });
    let mut fields: Vec<Field> = vec![Field::new("n", SqlType::Int64.arrow(), true)];
    fields.push(Field::new("number", SqlType::Int64.arrow(), true));
    for (kind, expected) in [(JoinKind::Inner, 24), (JoinKind::BuildOuter, 26), (JoinKind::ProbeOuter, 26)] {
        let large = scan_of(&[0, NUMBER], &rows);
        let is_probe = kind != JoinKind::ProbeOuter;
        let join = plan::Join {
            build: if is_probe { Arc::clone(&few) } else { Arc::clone(&large) },
            probe: if is_probe { large } else { Arc::clone(&few) },
            kind,
            on: vec![(0, 0)],
            nulls_equal: false,
            null_aware: false,
            condition: None,
            bounds: Vec::new(),
            output: if is_probe { vec![0, 2] } else { vec![2, 1] },
            rows: None,
            schema: Arc::new(Schema::new(fields.clone())),
        };
        let (found, read) = run(&Node::Join(join), &table);
        assert_eq!((found.num_rows(), read), (expected, 24), "{kind:?}");
    }
}

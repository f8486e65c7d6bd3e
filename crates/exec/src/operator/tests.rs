use crate::aggregate::named;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch, StringViewArray,
    StructArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, IntervalMonthDayNano, Schema, SchemaRef, UInt64Type};
use rowmill_base::{Broker, Cancel, SqlType};
use rowmill_plan::{
    Aggregate, Expr, Group, GroupKey, Join, JoinKind, Names, Node, OrderBound, OrderedChoice, OrderedJoin,
    OrderedResult, Recursive, Scan, Series, SetAll, SortKey, Unnest,
};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

use super::{Environment, RunningPlan};
use crate::collect::collect;
use crate::testing::TestTable;

fn schema_of(columns: &[ArrayRef]) -> SchemaRef {
    let field = |(place, column): (usize, &ArrayRef)| Field::new(format!("c{place}"), column.data_type().clone(), true);
    Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()))
}

fn values(columns: Vec<ArrayRef>) -> Node {
    Node::Values { rows: RecordBatch::try_new(schema_of(&columns), columns).expect("columns of one length") }
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn run(root: &Node, tables: &[Arc<dyn TableSource>], workers: usize) -> RecordBatch {
    let (cancel, broker, foreign) = (Cancel::new(), Broker::new(1 << 26), BTreeMap::new());
    let environment = Environment {
        tables,
        functions: &[],
        foreign: &foreign,
        batch_rows: 3,
        threads: workers,
        cancel: &cancel,
        broker: &broker,
        temp: &TempSpace::in_memory(),
        recursion_max: 100,
        early_filters: true,
    };
    let running = RunningPlan::new(root, &environment).expect("a plan");
    let batches = collect(&running.source, workers).expect("nothing fails");
    concat_batches(running.source.schema(), &batches).expect("batches of one schema")
}

fn column(batch: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    batch.column(column).as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn lists_and_structs_are_sort_keys_over_values_and_tables() {
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(1.0), Some(2.0)]),
        None,
        Some(vec![Some(-0.0), Some(3.0)]),
        Some(vec![]),
        Some(vec![Some(0.0), Some(2.0)]),
        Some(vec![Some(f64::NAN)]),
    ]));
    let columns = vec![lists, numbers(0..6)];
    let kinds = [SqlType::List(Box::new(SqlType::Float64)), SqlType::Int64];
    let table = TestTable::new(&kinds, None, vec![(columns.clone(), Default::default())]) as Arc<dyn TableSource>;
    let schema = schema_of(&columns);
    let scan = Node::Scan(Scan { table: 0, columns: vec![0, 1], predicates: Vec::new(), row_number: false, schema });
    for input in [values(columns), scan] {
        for rows in [None, Some(4)] {
            let keys = vec![SortKey { column: 0, descending: false, nulls_first: false }];
            let sort = Node::Sort { input: Arc::new(input.clone()), keys, skip: 0, rows, rows_below: None };
            let expected = [3, 4, 2, 0, 5, 1].map(Some);
            assert_eq!(column(&run(&sort, &[Arc::clone(&table)], 2), 1), expected[..rows.unwrap_or(6)]);
        }
    }
    let structs = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int64, true)),
        Arc::new(Int64Array::from(vec![Some(5), None, Some(-1)])) as ArrayRef,
    )]);
    let keys = vec![SortKey { column: 0, descending: true, nulls_first: true }];
    let input = Arc::new(values(vec![Arc::new(structs), numbers(0..3)]));
    let sort = Node::Sort { input, keys, skip: 0, rows: None, rows_below: None };
    assert_eq!(column(&run(&sort, &[], 1), 1), [1, 0, 2].map(Some));
}

#[test]
fn null_inside_a_list_sorts_above_every_item_whatever_nulls_first_says() {
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        Some(vec![Some(1), Some(9)]),
        None,
        Some(vec![Some(1)]),
    ]));
    let input = Arc::new(values(vec![lists, numbers(0..4)]));
    let cases = [
        (false, false, [3, 1, 0, 2]),
        (false, true, [2, 3, 1, 0]),
        (true, true, [2, 0, 1, 3]),
        (true, false, [0, 1, 3, 2]),
    ];
    for (descending, nulls_first, expected) in cases {
        let keys = vec![SortKey { column: 0, descending, nulls_first }];
        let sort = Node::Sort { input: Arc::clone(&input), keys, skip: 0, rows: None, rows_below: None };
        assert_eq!(column(&run(&sort, &[], 1), 1), expected.map(Some), "{descending} {nulls_first}");
    }
}

#[test]
fn intervals_and_structs_are_join_keys() {
    let interval = |months, days, nanos| IntervalMonthDayNano::new(months, days, nanos);
    let day = 86_400_000_000_000;
    let left = [Some(interval(0, 1, 0)), Some(interval(0, 0, day)), None, Some(interval(1, 0, 0))];
    let right = [Some(interval(0, 0, day)), Some(interval(1, 0, 0)), None];
    let intervals = |values: &[Option<IntervalMonthDayNano>]| {
        Arc::new(IntervalMonthDayNanoArray::from(values.to_vec())) as ArrayRef
    };
    let structs = |values: &[Option<IntervalMonthDayNano>]| {
        let nulls = values.iter().map(Option::is_some).collect::<Vec<bool>>();
        let field = Field::new("i", intervals(values).data_type().clone(), true);
        Arc::new(StructArray::new(vec![field].into(), vec![intervals(values)], Some(nulls.into()))) as ArrayRef
    };
    for of in [&intervals as &dyn Fn(&[Option<IntervalMonthDayNano>]) -> ArrayRef, &structs] {
        let fields = [0, 1].map(|_| Field::new("n", DataType::Int64, true));
        let join = Node::Join(Join {
            build: Arc::new(values(vec![of(&left), numbers(0..4)])),
            probe: Arc::new(values(vec![of(&right), numbers(10..13)])),
            kind: JoinKind::Inner,
            on: vec![(0, 0)],
            nulls_equal: false,
            null_aware: false,
            condition: None,
            bounds: Vec::new(),
            output: vec![1, 3],
            rows: None,
            schema: Arc::new(Schema::new(fields.to_vec())),
        });
        let found = run(&join, &[], 1);
        let mut pairs: Vec<_> = column(&found, 0).into_iter().zip(column(&found, 1)).collect();
        pairs.sort();
        assert_eq!(pairs, [(Some(1), Some(10)), (Some(3), Some(11))]);
    }
}

#[test]
fn an_ordered_join_gives_rows_or_aggregates() {
    let schema = |kinds: &[DataType]| -> SchemaRef {
        Arc::new(Schema::new(kinds.iter().map(|kind| Field::new("n", kind.clone(), true)).collect::<Vec<_>>()))
    };
    let join = |choice, result, output, kinds: &[DataType]| {
        Node::OrderedJoin(OrderedJoin {
            left: Arc::new(values(vec![numbers([1, 1, 2, 3]), numbers([10, 25, 25, 25])])),
            right: Arc::new(values(vec![numbers([1, 1, 2, 1]), numbers([20, 5, 30, 15]), numbers([7, 8, 9, 6])])),
            on: vec![(0, 0)],
            nulls_equal: false,
            position: 1,
            tie: None,
            lower: None,
            upper: Some(OrderBound { column: 1, inclusive: true, origin: None }),
            choice,
            result,
            output,
            schema: schema(kinds),
        })
    };
    let kinds = [DataType::Int64, DataType::Int64];
    let last = join(OrderedChoice::Last, OrderedResult::Rows { inner: false }, vec![1, 4], &kinds);
    let found = run(&last, &[], 2);
    let mut pairs: Vec<_> = column(&found, 0).into_iter().zip(column(&found, 1)).collect();
    pairs.sort();
    assert_eq!(pairs, [(Some(10), Some(8)), (Some(25), None), (Some(25), None), (Some(25), Some(7))]);
    let least = Aggregate::new(named("min"), Some((Expr::Column(2), DataType::Int64)), DataType::Int64);
    let least = join(OrderedChoice::All, OrderedResult::Aggregates(vec![least]), vec![0], &kinds);
    let found = run(&least, &[], 2);
    let mut pairs: Vec<_> = column(&found, 0).into_iter().zip(column(&found, 1)).collect();
    pairs.sort();
    assert_eq!(pairs, [(Some(1), Some(6)), (Some(1), Some(8)), (Some(2), None), (Some(3), None)]);
}

#[test]
fn a_scan_returns_the_numbers_of_its_rows() {
    let columns = |range: std::ops::Range<i64>| vec![numbers(range)];
    let blocks = vec![(columns(0..5), [1, 3].into_iter().collect()), (columns(5..9), Default::default())];
    let table = TestTable::new(&[SqlType::Int64], None, blocks) as Arc<dyn TableSource>;
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("row number", DataType::UInt64, false)];
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let scan = Node::Scan(Scan { table: 0, columns: vec![0], predicates: Vec::new(), row_number: true, schema });
    let expected: Vec<u64> = vec![0, 2, 4, 5, 6, 7, 8];
    let found = run(&scan, &[Arc::clone(&table)], 2);
    let mut of_rows = found.column(1).as_primitive::<UInt64Type>().values().to_vec();
    of_rows.sort_unstable();
    assert_eq!(of_rows, expected);
    // A grouping and a sort above the scan must be able to read the row numbers like any other column.
    let keys = vec![SortKey { column: 1, descending: true, nulls_first: true }];
    let top = Node::Sort { input: Arc::new(scan.clone()), keys, skip: 0, rows: Some(2), rows_below: None };
    let found = run(&top, &[Arc::clone(&table)], 1);
    assert_eq!(found.column(1).as_primitive::<UInt64Type>().values(), &[8, 7]);
    let largest = Aggregate::new(named("max"), Some((Expr::Column(1), DataType::UInt64)), DataType::UInt64);
    let group = Group { predicates: Vec::new(), keys: Vec::new(), aggregates: vec![largest], always: Vec::new() };
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("m", DataType::UInt64, true)]));
    let group = Node::Group { input: Arc::new(scan), group, rows: None, schema };
    let found = run(&group, &[table], 2);
    assert_eq!(found.column(0).as_primitive::<UInt64Type>().values(), &[8]);
}

struct NoTestNames;

impl Names for NoTestNames {
    fn table(&self, _: usize) -> &str {
        "t"
    }

    fn column(&self, _: usize, _: usize) -> &str {
        "c"
    }

    fn size(&self, _: usize) -> (usize, u64) {
        (0, 0)
    }

    fn function(&self, _: usize) -> &str {
        "f"
    }
}

#[test]
fn explain_shows_a_line_and_columns_for_each_operator() {
    let rows = || Arc::new(values(vec![numbers([1, 2]), numbers([3, 4])]));
    let schema = |count: usize| -> SchemaRef {
        let field = |place| Field::new(format!("r{place}"), DataType::Int64, true);
        Arc::new(Schema::new((0..count).map(field).collect::<Vec<_>>()))
    };
    let last = Arc::new(Node::RecursiveRows { number: 5, schema: schema(2) });
    let series = |step, inclusive| {
        Node::Series(Series { input: rows(), keep: vec![1], start: 0, stop: 1, step, inclusive, schema: schema(2) })
    };
    let lists =
        Unnest { input: rows(), keep: vec![1], lists: vec![0], ordinality: true, outer: true, schema: schema(3) };
    let nodes = [
        (Node::clone(&rows()), "Values: 2 rows", "c0 c1"),
        (Node::SingleRow { input: rows(), by: vec![] }, "Single row", "c0 c1"),
        (Node::SingleRow { input: rows(), by: vec![1] }, "Single row: per [c1]", "c0 c1"),
        (Node::FirstRows { input: rows(), by: vec![0, 1] }, "First row: per [c0, c1]", "c0 c1"),
        (Node::Shared { number: 3, input: rows() }, "Shared: 3", "c0 c1"),
        (Node::clone(&last), "Rows of the last round: 5", "r0 r1"),
        (series(None, true), "Series: c0 to c1", "c1 r1"),
        (series(Some(1), false), "Series: c0 below c1 by c1", "c1 r1"),
        (Node::Unnest(lists), "Unnest: [c0], with ordinality, outer", "c1 r1 r2"),
        (Node::SetAll(SetAll { left: rows(), right: rows(), except: true }), "Except all", "c0 c1"),
        (Node::SetAll(SetAll { left: rows(), right: rows(), except: false }), "Intersect all", "c0 c1"),
        (
            Node::Recursive(Recursive { number: 5, base: rows(), step: last, distinct: true, schema: schema(2) }),
            "Recursive: 5, distinct rows",
            "c0 c1",
        ),
    ];
    for (node, line, columns) in &nodes {
        assert_eq!(node.line(&NoTestNames), *line);
        assert_eq!(node.column_names(&NoTestNames).join(" "), *columns);
        assert_eq!(node.schema().fields().len(), columns.split(' ').count());
    }
}

#[test]
fn one_grouping_may_have_text_keys_and_aggregates_of_pairs() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), Some("a"), None]));
    let floats = |values: [f64; 4]| Arc::new(arrow::array::Float64Array::from(values.to_vec())) as ArrayRef;
    let input = values(vec![texts, floats([1.0, 5.0, 3.0, 0.0]), floats([2.0, 1.0, 6.0, 0.0])]);
    let slope = Aggregate {
        more: vec![(Expr::Column(2), DataType::Float64)],
        ..Aggregate::new(named("regr_slope"), Some((Expr::Column(1), DataType::Float64)), DataType::Float64)
    };
    let filtered = Aggregate { distinct: true, ..slope.clone() };
    let key = GroupKey { expr: Expr::Column(0), kind: DataType::Utf8View, nullable: true };
    let group =
        Group { predicates: Vec::new(), keys: vec![key], aggregates: vec![slope, filtered], always: Vec::new() };
    let kinds = [DataType::Utf8View, DataType::Float64, DataType::Float64];
    let schema = Arc::new(Schema::new(kinds.map(|kind| Field::new("c", kind, true)).to_vec()));
    let found = run(&Node::Group { input: Arc::new(input), group, rows: None, schema }, &[], 2);
    for row in 0..found.num_rows() {
        let is_a = found.column(0).is_valid(row) && found.column(0).as_string_view().value(row) == "a";
        for column in [1, 2] {
            let slopes = found.column(column).as_primitive::<Float64Type>();
            assert_eq!(slopes.is_valid(row).then(|| slopes.value(row)), is_a.then_some(0.5));
        }
    }
    assert_eq!(found.num_rows(), 3);
}

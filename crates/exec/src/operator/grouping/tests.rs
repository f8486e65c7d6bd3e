use crate::aggregate::named;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, ListArray, RecordBatch, StructArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use arrow::util::display::array_value_to_string;
use rowmill_base::{Broker, Cancel, SqlType};
use rowmill_plan::{Aggregate, AggregateOrder, Expr, Group, GroupKey, Node, Scan, SortKey};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

use crate::collect::collect;
use crate::operator::{Environment, RunningPlan};
use crate::testing::TestTable;

type Lists = Vec<Option<Vec<Option<f64>>>>;

fn lists(values: &Lists) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values.iter().cloned()))
}

fn floats(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn numbers(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn values(columns: Vec<ArrayRef>) -> Node {
    let fields = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Node::Values { rows: RecordBatch::try_new(schema, columns).expect("columns of one length") }
}

fn group(input: Node, keys: &[usize], aggregates: Vec<Aggregate>) -> Node {
    let kind = |column: usize| input.schema().field(column).data_type().clone();
    let keys: Vec<GroupKey> = keys
        .iter()
        .map(|column| GroupKey { expr: Expr::Column(*column), kind: kind(*column), nullable: true })
        .collect();
    let kinds = keys.iter().map(|key| &key.kind).chain(aggregates.iter().map(|aggregate| &aggregate.kind));
    let fields: Vec<Field> = kinds.map(|kind| Field::new("c", kind.clone(), true)).collect();
    let group = Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() };
    Node::Group { input: Arc::new(input), group, rows: None, schema: Arc::new(Schema::new(fields)) }
}

/// Makes the aggregate `name` over columns of `input`, with the types that SQL gives it.
fn call(input: &Node, name: &str, columns: &[usize]) -> Aggregate {
    let kind = |column: usize| input.schema().field(column).data_type().clone();
    let of: Vec<DataType> = columns.iter().map(|column| kind(*column)).collect();
    let function = named(name);
    let (_, result) = function.kinds(&of).expect("arguments of an aggregate");
    let mut exprs = columns.iter().map(|column| (Expr::Column(*column), kind(*column)));
    let aggregate = Aggregate::new(function, exprs.next(), result);
    Aggregate { more: exprs.collect(), ..aggregate }
}

/// Runs a plan and returns its rows as sorted texts.
fn run_over(root: &Node, tables: &[Arc<dyn TableSource>], workers: usize, batch_rows: usize) -> Vec<String> {
    let (cancel, broker, foreign) = (Cancel::new(), Broker::new(1 << 26), BTreeMap::new());
    let environment = Environment {
        tables,
        functions: &[],
        foreign: &foreign,
        batch_rows,
        threads: workers,
        cancel: &cancel,
        broker: &broker,
        temp: &TempSpace::in_memory(),
        recursion_max: 1,
        early_filters: true,
    };
    let running = RunningPlan::new(root, &environment).expect("a plan");
    let batches = collect(&running.source, workers).expect("nothing fails");
    let whole = concat_batches(running.source.schema(), &batches).expect("batches of one schema");
    let text = |row: usize| {
        let values = whole.columns().iter().map(|column| array_value_to_string(column, row).expect("a value"));
        values.collect::<Vec<_>>().join("; ")
    };
    let mut rows: Vec<String> = (0..whole.num_rows()).map(text).collect();
    rows.sort();
    rows
}

fn run(root: &Node) -> Vec<String> {
    let first = run_over(root, &[], 1, 1024);
    for (workers, batch_rows) in [(1, 1), (1, 3), (4, 1), (4, 3), (4, 1024)] {
        assert_eq!(run_over(root, &[], workers, batch_rows), first, "{workers} workers, {batch_rows} rows");
    }
    first
}

fn some_lists() -> Lists {
    vec![
        Some(vec![Some(0.0), None]),
        Some(vec![Some(-0.0), None]),
        None,
        Some(vec![]),
        Some(vec![Some(f64::NAN)]),
        Some(vec![Some(-f64::NAN)]),
        None,
        Some(vec![Some(2.0)]),
        Some(vec![Some(0.0), None]),
    ]
}

#[test]
fn lists_and_structs_are_keys() {
    let input = values(vec![lists(&some_lists())]);
    let count = Aggregate::new(named("count"), None, DataType::Int64);
    let expected = ["; 2", "[0.0, ]; 3", "[2.0]; 1", "[NaN]; 2", "[]; 1"];
    assert_eq!(run(&group(input, &[0], vec![count.clone()])), expected);

    let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Float64, true)];
    let numbers_of_rows = numbers(&[Some(1), Some(1), None, None, Some(2)]);
    let floats_of_rows = floats(&[Some(0.0), Some(-0.0), None, None, Some(1.5)]);
    let structs = StructArray::new(fields.into(), vec![numbers_of_rows, floats_of_rows], None);
    let input = values(vec![Arc::new(structs), numbers(&[Some(7), Some(7), Some(7), Some(8), Some(7)])]);
    let expected = ["{a: , b: }; 7; 1", "{a: , b: }; 8; 1", "{a: 1, b: 0.0}; 7; 2", "{a: 2, b: 1.5}; 7; 1"];
    assert_eq!(run(&group(input, &[0, 1], vec![count])), expected);
}

#[test]
fn lists_are_aggregated() {
    let input = values(vec![
        numbers(&[Some(1); 9]),
        lists(&some_lists()),
        numbers(&[Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(7), Some(8), Some(9)]),
    ]);
    let of = |name: &str| call(&input, name, &[1]);
    let by_place =
        vec![AggregateOrder { expr: Expr::Column(2), kind: DataType::Int64, descending: true, nulls_first: false }];
    let ordered = |name: &str| Aggregate { order: by_place.clone(), ..of(name) };
    let aggregates = vec![
        of("count"),
        Aggregate { distinct: true, ..of("count") },
        of("min"),
        of("max"),
        of("mode"),
        ordered("first_value"),
        ordered("last_value"),
        ordered("array_agg"),
        Aggregate { skips_nulls: true, ..ordered("array_agg") },
    ];
    let lists_in_order = "[[0.0, ], [2.0], , [NaN], [NaN], [], , [0.0, ], [0.0, ]]";
    let without_nulls = lists_in_order.replace(" , ", " ");
    let expected = format!("1; 7; 4; []; [NaN]; [0.0, ]; [0.0, ]; [0.0, ]; {lists_in_order}; {without_nulls}");
    assert_eq!(run(&group(input, &[0], aggregates)), [expected]);
}

#[test]
fn array_agg_can_order_by_a_list() {
    let input =
        values(vec![numbers(&[Some(1), Some(2), Some(3)]), lists(&vec![Some(vec![Some(2.0)]), None, Some(vec![])])]);
    let kind = input.schema().field(1).data_type().clone();
    let order = vec![AggregateOrder { expr: Expr::Column(1), kind, descending: false, nulls_first: false }];
    let array = Aggregate { order, ..call(&input, "array_agg", &[0]) };
    assert_eq!(run(&group(input, &[], vec![array])), ["[3, 1, 2]"]);
}

#[test]
fn empty_input_has_no_groups_and_no_pairs() {
    let input = || values(vec![lists(&vec![]), floats(&[]), floats(&[])]);
    let count = call(&input(), "count", &[0]);
    assert!(run(&group(input(), &[0], vec![count])).is_empty());
    let aggregates = ["corr", "regr_count", "regr_avgx", "mode", "covar_pop"]
        .map(|name| call(&input(), name, if name == "mode" { &[0] } else { &[1, 2] }));
    assert_eq!(run(&group(input(), &[], aggregates.to_vec())), ["; 0; ; ; "]);
}

const PAIR_FUNCTIONS: [&str; 12] = [
    "regr_count",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
];

/// Computes the results of [`PAIR_FUNCTIONS`] by their definitions, in two passes.
fn model(pairs: &[(f64, f64)]) -> Vec<Option<f64>> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (y, x) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|pair| of(pair.0 - y, pair.1 - x)).sum::<f64>();
    let (sxx, syy, sxy) = (sum(&|_, x| x * x), sum(&|y, _| y * y), sum(&|y, x| x * y));
    let some = |is: bool, value: f64| is.then_some(value);
    let any = !pairs.is_empty();
    vec![
        Some(count),
        some(any && sxx > 0.0 && syy > 0.0, sxy / (sxx * syy).sqrt()),
        some(any, sxy / count),
        some(pairs.len() > 1, sxy / (count - 1.0)),
        some(any && sxx > 0.0, sxy / sxx),
        some(any && sxx > 0.0, y - x * sxy / sxx),
        some(any && sxx > 0.0, if syy > 0.0 { sxy * sxy / (sxx * syy) } else { 1.0 }),
        some(any, x),
        some(any, y),
        some(any, sxx),
        some(any, syy),
        some(any, sxy),
    ]
}

fn assert_close(found: &RecordBatch, first: usize, row: usize, pairs: &[(f64, f64)]) {
    for (place, expected) in model(pairs).into_iter().enumerate() {
        let column = found.column(first + place);
        let value = match column.data_type() {
            DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row) as f64),
            _ => column.is_valid(row).then(|| column.as_primitive::<Float64Type>().value(row)),
        };
        let is_close = match (value, expected) {
            (Some(value), Some(expected)) => (value - expected).abs() <= 1e-9 * expected.abs().max(1.0),
            (value, expected) => value == expected,
        };
        assert!(is_close, "{}: {value:?} for {expected:?} of {} pairs", PAIR_FUNCTIONS[place], pairs.len());
    }
}

#[test]
fn pairs_of_a_table_and_of_batches_agree_with_the_definitions() {
    let rows: Vec<(i64, Option<f64>, Option<f64>)> = (0..600_i64)
        .map(|row| {
            let group = if row < 3 { row + 100 } else { row % 7 };
            let x = (row % 11 != 5).then(|| 1e3 + (row * 37 % 101) as f64 / 7.0);
            let y = (row % 13 != 2).then(|| if group == 6 { 4.0 } else { (row * 53 % 97) as f64 - 0.25 * row as f64 });
            (group, y, if group == 5 { x.map(|_| 2.0) } else { x })
        })
        .collect();
    let columns = vec![
        numbers(&rows.iter().map(|row| Some(row.0)).collect::<Vec<_>>()),
        floats(&rows.iter().map(|row| row.1).collect::<Vec<_>>()),
        floats(&rows.iter().map(|row| row.2).collect::<Vec<_>>()),
    ];
    let mut groups: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for (group, y, x) in &rows {
        let pairs = groups.entry(*group).or_default();
        pairs.extend(y.zip(*x));
    }
    let kinds = [SqlType::Int64, SqlType::Float64, SqlType::Float64];
    let table = TestTable::new(&kinds, None, vec![(columns.clone(), Default::default())]) as Arc<dyn TableSource>;
    let of_batches = values(columns);
    let schema = Arc::clone(of_batches.schema());
    let of_table =
        Node::Scan(Scan { table: 0, columns: vec![0, 1, 2], predicates: Vec::new(), row_number: false, schema });
    for input in [of_batches, of_table] {
        let aggregates = PAIR_FUNCTIONS.map(|name| call(&input, name, &[1, 2])).to_vec();
        for workers in [1, 4] {
            let root = group(input.clone(), &[0], aggregates.clone());
            let (cancel, broker, foreign) = (Cancel::new(), Broker::new(1 << 26), BTreeMap::new());
            let environment = Environment {
                tables: &[Arc::clone(&table)],
                functions: &[],
                foreign: &foreign,
                batch_rows: 50,
                threads: workers,
                cancel: &cancel,
                broker: &broker,
                temp: &TempSpace::in_memory(),
                recursion_max: 1,
                early_filters: true,
            };
            let running = RunningPlan::new(&root, &environment).expect("a plan");
            let batches = collect(&running.source, workers).expect("nothing fails");
            let whole = concat_batches(running.source.schema(), &batches).expect("batches of one schema");
            assert_eq!(whole.num_rows(), groups.len());
            for row in 0..whole.num_rows() {
                let key = whole.column(0).as_primitive::<Int64Type>().value(row);
                assert_close(&whole, 1, row, &groups[&key]);
            }
        }
    }
}

#[test]
fn quantiles_and_modes_of_values() {
    let input = values(vec![
        numbers(&[Some(3), Some(1), None, Some(2), Some(1), Some(4), Some(3)]),
        floats(&[Some(1.0), Some(2.0), Some(9.0), Some(1.0), None, Some(0.0), Some(1.0)]),
        floats(&[Some(3.0), Some(1.0), None, Some(2.0), Some(1.0), Some(4.0), Some(3.0)]),
    ]);
    let share = |share: f64| Some(floats(&[Some(share)]));
    let order = |descending| {
        vec![AggregateOrder { expr: Expr::Column(0), kind: DataType::Int64, descending, nulls_first: false }]
    };
    let discrete = |of: f64| Aggregate { parameter: share(of), ..call(&input, "percentile_disc", &[0]) };
    let aggregates = vec![
        discrete(0.5),
        Aggregate { order: order(true), ..discrete(0.5) },
        Aggregate { order: order(true), ..discrete(0.01) },
        Aggregate { distinct: true, ..discrete(0.5) },
        call(&input, "mode", &[0]),
        Aggregate { order: order(true), ..call(&input, "mode", &[0]) },
        // The values repeated by their weights: 1, 1, 2, 3, 3
        Aggregate { parameter: share(0.5), ..call(&input, "approx_percentile_cont_with_weight", &[2, 1]) },
        Aggregate { parameter: share(0.375), ..call(&input, "approx_percentile_cont_with_weight", &[2, 1]) },
    ];
    assert_eq!(run(&group(input, &[], aggregates)), ["2; 3; 4; 2; 1; 3; 2.0; 1.5"]);
}

#[test]
fn lists_of_a_table_are_keys_and_counted() {
    let kinds = [SqlType::List(Box::new(SqlType::Float64)), SqlType::Int64];
    let columns = vec![lists(&some_lists()), numbers(&(0..9).map(Some).collect::<Vec<_>>())];
    let schema = Arc::clone(values(columns.clone()).schema());
    let table = TestTable::new(&kinds, None, vec![(columns, Default::default())]) as Arc<dyn TableSource>;
    let scan = Node::Scan(Scan { table: 0, columns: vec![0, 1], predicates: Vec::new(), row_number: false, schema });
    let distinct = Aggregate { distinct: true, ..call(&scan, "count", &[0]) };
    for workers in [1, 4] {
        let tables = [Arc::clone(&table)];
        assert_eq!(run_over(&group(scan.clone(), &[], vec![distinct.clone()]), &tables, workers, 3), ["4"]);
        let sum = Aggregate { kind: DataType::Decimal128(38, 0), ..call(&scan, "sum", &[1]) };
        let expected = ["; 8", "[0.0, ]; 9", "[2.0]; 7", "[NaN]; 9", "[]; 3"];
        assert_eq!(run_over(&group(scan.clone(), &[0], vec![sum]), &tables, workers, 3), expected);
    }
}

#[test]
fn the_first_groups_by_an_aggregate_of_pairs() {
    let rows: Vec<(i64, f64, f64)> = (0..400_i64)
        .flat_map(|group| {
            let slope = ((group * 37 % 401) - 200) as f64;
            (0..2 + group % 3).map(move |x| (group, slope * x as f64, x as f64))
        })
        .collect();
    let columns = vec![
        numbers(&rows.iter().map(|row| Some(row.0)).collect::<Vec<_>>()),
        floats(&rows.iter().map(|row| Some(row.1)).collect::<Vec<_>>()),
        floats(&rows.iter().map(|row| Some(row.2)).collect::<Vec<_>>()),
    ];
    let kinds = [SqlType::Int64, SqlType::Float64, SqlType::Float64];
    let table = TestTable::new(&kinds, None, vec![(columns.clone(), Default::default())]) as Arc<dyn TableSource>;
    let of_batches = values(columns);
    let schema = Arc::clone(of_batches.schema());
    let of_table =
        Node::Scan(Scan { table: 0, columns: vec![0, 1, 2], predicates: Vec::new(), row_number: false, schema });
    let mut slopes: Vec<i64> = (0..400).map(|group| (group * 37 % 401) - 200).collect();
    slopes.sort_unstable();
    for input in [of_batches, of_table] {
        let aggregates = vec![call(&input, "regr_slope", &[1, 2]), call(&input, "regr_count", &[1, 2])];
        let group = Arc::new(group(input, &[0], aggregates));
        for (descending, first) in [(false, slopes[..3].to_vec()), (true, slopes[397..].to_vec())] {
            let keys = vec![SortKey { column: 1, descending, nulls_first: descending }];
            let root = Node::Sort { input: Arc::clone(&group), keys, skip: 0, rows: Some(3), rows_below: None };
            for workers in [1, 4] {
                let found = run_over(&root, &[Arc::clone(&table)], workers, 64);
                let mut found: Vec<i64> = found
                    .iter()
                    .map(|row| row.split("; ").nth(1).and_then(|slope| slope.parse::<f64>().ok()).expect("a slope"))
                    .map(|slope| slope.round() as i64)
                    .collect();
                found.sort_unstable();
                assert_eq!(found, first);
            }
        }
        let keys = vec![SortKey { column: 2, descending: true, nulls_first: true }];
        let root = Node::Sort { input: group, keys, skip: 0, rows: Some(5), rows_below: None };
        assert!(run_over(&root, &[Arc::clone(&table)], 2, 64).iter().all(|row| row.ends_with("; 4")));
    }
}

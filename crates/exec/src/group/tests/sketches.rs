//! Sketches of groups, compared with the sketches of the values of each group.

use rowmill_expr::functions;
use rowmill_expr::sketch::SketchFunction;
use rowmill_plan::Operand;

use super::*;
use crate::aggregate::{AggregateState, state_of};

fn function_of(name: &str) -> &'static SketchFunction {
    match state_of(named(name)).expect("an aggregate") {
        AggregateState::Sketch(function) => function,
        _ => panic!("{name} makes no sketch"),
    }
}

/// The call of an aggregate with a size.
fn sketched(name: &str, argument: (Expr, DataType), size: i64) -> Aggregate {
    let parameter: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![size]));
    let of = Aggregate::new(named(name), Some(argument), DataType::BinaryView);
    Aggregate { parameter: Some(parameter), ..of }
}

/// The sketch of values that are not NULL; NULL if there are none.
fn sketch_of(function: &SketchFunction, size: i64, values: &[ArrayRef]) -> ModelValue {
    let mut sketch = function.start(size).expect("a sketch");
    let mut has_some = false;
    for values in values {
        let items = function.items.map(|items| items(values).expect("values of a type that is taken"));
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let item = match &items {
                Some(items) => items.value(row),
                None => values.as_binary_view().value(row),
            };
            function.take(&mut *sketch, item, 1).expect("an item");
            has_some = true;
        }
    }
    if has_some { ModelValue::Bytes(sketch.to_bytes().expect("a sketch")) } else { ModelValue::Null }
}

/// The value that a function reads from a sketch.
fn read(name: &str, sketch: &ModelValue) -> String {
    let ModelValue::Bytes(sketch) = sketch else { return "NULL".to_owned() };
    let function = functions::find(name).expect("a function");
    let sketch: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([sketch]));
    let kinds =
        (function.signature)(&[rowmill_plan::function::ArgumentKind { kind: &DataType::BinaryView, constant: None }]);
    let kind = kinds.expect("a sketch").result;
    format!("{:?}", (function.kernel)(&[Operand::rows(sketch)], &kind, 1).expect("a sketch"))
}

/// The rows of a column by the value of the keys, as arrays of one row.
fn by_key(data: &Data, keys: &[usize], column: usize) -> BTreeMap<Vec<ModelValue>, Vec<ArrayRef>> {
    let mut groups: BTreeMap<Vec<ModelValue>, Vec<ArrayRef>> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for batch in &data.batches {
        for row in 0..batch.num_rows() {
            let key = keys.iter().map(|key| ModelValue::of(batch.column(*key), row)).collect();
            groups.entry(key).or_default().push(batch.column(column).slice(row, 1));
        }
    }
    groups
}

fn random_data(random: &mut StdRng) -> Data {
    let key = RandomColumn {
        kind: SqlType::Int64,
        values: [1, 40, 100_000][random.random_range(0..3)],
        nullable: random.random(),
    };
    let mut value = RandomColumn::random(random);
    value.values = [3, 1_000, 1 << 40][random.random_range(0..3)];
    let columns = vec![key, value];
    let fields = columns.iter().map(|column| Field::new("c", column.kind.arrow(), column.nullable));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = (0..random.random_range(1..5)).map(|_| {
        let rows = [1, 300, 4_000][random.random_range(0..3)];
        let arrays = columns.iter().map(|column| column.array(random, rows)).collect();
        RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns as in the schema")
    });
    let batches = batches.collect();
    Data { columns, schema, batches }
}

#[test]
fn sketches_of_groups_are_those_of_their_values() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed + 9_000);
        let data = random_data(&mut random);
        let kind = data.kind(Expr::Column(1));
        let key = GroupKey { expr: Expr::Column(0), kind: DataType::Int64, nullable: true };
        let keys = if random.random_ratio(1, 4) { vec![] } else { vec![key] };
        let sizes = [("hll_sketch_agg", [4, 8, 12]), ("theta_sketch_agg", [5, 8, 12])];
        let calls: Vec<(&str, i64)> =
            sizes.iter().map(|(name, sizes)| (*name, sizes[random.random_range(0..3)])).collect();
        let aggregates: Vec<Aggregate> =
            calls.iter().map(|(name, size)| sketched(name, (Expr::Column(1), kind.clone()), *size)).collect();
        let columns: Vec<usize> = (0..keys.len()).collect();
        let mut expected: Vec<Vec<ModelValue>> = Vec::new();
        for (mut row, values) in by_key(&data, &columns, 1) {
            row.extend(calls.iter().map(|(name, size)| sketch_of(function_of(name), *size, &values)));
            expected.push(row);
        }
        expected.sort();
        let group = Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() };
        let table = data.as_table([50, 700, 100_000][random.random_range(0..3)], &[]);
        for policy in policies() {
            let request = request(group.clone(), Vec::new());
            let (broker, temp) = (request.broker.clone(), request.temp.clone());
            let is_spilled = spill_sometimes(&request, &mut random);
            let source = if random.random() { data.as_batches() } else { table.clone() };
            let group_by = GroupBy::with_policy(source, request, policy).expect("a grouping");
            let found = run(&group_by, random.random_range(1..5), false).expect("groups");
            assert!(found == expected, "seed {seed}, {policy:?}, {is_spilled}: {group:?}");
            drop(group_by);
            assert_eq!((broker.used_bytes(), temp.files().len()), (0, 0), "seed {seed}");
        }
    }
}

/// Groups of numbers and texts, in enough rows that logs must become sketches.
fn long(keys: u64, texts: u64) -> Data {
    let columns = vec![
        RandomColumn { kind: SqlType::Int64, values: keys, nullable: false },
        RandomColumn { kind: SqlType::Float64, values: 1 << 40, nullable: false },
        RandomColumn { kind: SqlType::TEXT, values: texts, nullable: true },
    ];
    let fields = columns.iter().map(|column| Field::new("c", column.kind.arrow(), column.nullable));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut random = StdRng::seed_from_u64(keys);
    let batches = (0..60).map(|_| {
        let arrays = columns.iter().map(|column| column.array(&mut random, 5_000)).collect();
        RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns as in the schema")
    });
    let batches = batches.collect();
    Data { columns, schema, batches }
}

fn aggregates_of_long() -> Vec<Aggregate> {
    vec![
        sketched("theta_sketch_agg", (Expr::Column(1), DataType::Float64), 8),
        sketched("kll_sketch_agg", (Expr::Column(1), DataType::Float64), 20),
        sketched("frequent_items_agg", (Expr::Column(2), DataType::Utf8View), 10),
        sketched("hll_sketch_agg", (Expr::Column(2), DataType::Utf8View), 11),
    ]
}

/// The values of [`aggregates_of_long`] for one group. The bytes of two of these sketches depend on the order of the
/// rows, which differs from run to run, so we keep values that a function reads from them.
struct LongSketches {
    theta: ModelValue,
    kll_count: String,
    items: String,
    hll: ModelValue,
}

impl LongSketches {
    fn of(floats: &[ArrayRef], texts: &[ArrayRef]) -> LongSketches {
        let sketch = |function: &str, size, values| sketch_of(function_of(function), size, values);
        LongSketches {
            theta: sketch("theta_sketch_agg", 8, floats),
            kll_count: read("kll_sketch_count", &sketch("kll_sketch_agg", 20, floats)),
            items: read("frequent_items", &sketch("frequent_items_agg", 10, texts)),
            hll: sketch("hll_sketch_agg", 11, texts),
        }
    }
}

#[test]
fn long_logs_become_sketches_on_every_way() {
    for (keys, is_in_one_group) in [(1, true), (3, false), (3_000, false), (60_000, false)] {
        let data = long(keys, 200);
        let key = GroupKey { expr: Expr::Column(0), kind: DataType::Int64, nullable: false };
        let keys = if is_in_one_group { vec![] } else { vec![key] };
        let columns: Vec<usize> = (0..keys.len()).collect();
        let (floats, texts) = (by_key(&data, &columns, 1), by_key(&data, &columns, 2));
        let expected: BTreeMap<_, _> =
            floats.iter().map(|(key, floats)| (key.clone(), LongSketches::of(floats, &texts[key]))).collect();
        let group = Group { predicates: Vec::new(), keys, aggregates: aggregates_of_long(), always: Vec::new() };
        let table = data.as_table(100_000, &[]);
        for (policy, source, spills) in [
            (None, data.as_batches(), false),
            (policies()[2], data.as_batches(), true),
            (policies()[3], data.as_batches(), false),
            (None, table.clone(), false),
            (policies()[1], table, true),
        ] {
            let request = request(group.clone(), Vec::new());
            request.broker.set_always_spills(spills);
            let group_by = GroupBy::with_policy(source, request, policy).expect("a grouping");
            let found = run(&group_by, 2, false).expect("groups");
            assert_eq!(found.len(), floats.len());
            for row in &found {
                let (key, sketches) = row.split_at(columns.len());
                let expected = &expected[key];
                assert!(sketches[0] == expected.theta, "{policy:?}");
                assert_eq!(read("kll_sketch_count", &sketches[1]), expected.kll_count, "{policy:?}");
                assert_eq!(read("frequent_items", &sketches[2]), expected.items, "{policy:?}");
                assert!(sketches[3] == expected.hll, "{policy:?}");
            }
        }
    }
}

#[test]
fn one_group_takes_the_memory_of_its_sketches() {
    let peak_of = |repeats: usize| {
        let mut data = long(1, 1 << 40);
        data.batches = std::iter::repeat_n(data.batches, repeats).flatten().collect();
        let group =
            Group { predicates: Vec::new(), keys: Vec::new(), aggregates: aggregates_of_long(), always: Vec::new() };
        let request = request(group, Vec::new());
        let broker = request.broker.clone();
        let group_by = GroupBy::with_policy(data.as_batches(), request, None).expect("a grouping");
        assert_eq!(run(&group_by, 2, false).expect("a group").len(), 1);
        broker.peak_bytes()
    };
    let (few, many) = (peak_of(2), peak_of(10));
    assert!(many < few + few / 4, "{few} bytes for some rows, {many} for five times as many");
}

#[test]
fn sketches_are_merged_by_aggregates_of_their_own() {
    let data = long(100, 40);
    let groups = by_key(&data, &[0], 2);
    let functions = [
        ("hll_sketch_agg", "hll_union_agg", 10),
        ("theta_sketch_agg", "theta_union_agg", 10),
        ("theta_sketch_agg", "theta_intersection_agg", 10),
    ];
    for (makes, merges, size) in functions {
        let parts: Vec<ModelValue> = groups.values().map(|texts| sketch_of(function_of(makes), size, texts)).collect();
        let parts = parts.iter().map(|part| match part {
            ModelValue::Bytes(bytes) => Some(bytes),
            _ => None,
        });
        let parts: ArrayRef = Arc::new(BinaryViewArray::from_iter(parts));
        let column = RandomColumn { kind: SqlType::Blob, values: 0, nullable: true };
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c", DataType::BinaryView, true)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&parts)]).expect("a column");
        let data = Data { columns: vec![column], schema, batches: vec![batch; 5] };
        let aggregates = vec![sketched(merges, (Expr::Column(0), DataType::BinaryView), size)];
        let group = Group { predicates: Vec::new(), keys: Vec::new(), aggregates, always: Vec::new() };
        for source in [data.as_batches(), data.as_table(3, &[])] {
            let group_by = GroupBy::with_policy(source, request(group.clone(), Vec::new()), None);
            let found = run(&group_by.expect("a grouping"), 2, false).expect("a group");
            assert!(found == [[sketch_of(function_of(merges), size, &[Arc::clone(&parts)])]], "{merges}");
        }
    }
}

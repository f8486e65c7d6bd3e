//! Distinct counts by ranges of values.

use super::super::distinct::{DistinctCounts, RangeSize};
use super::*;
use rowmill_storage::TableSource;

/// Ranges of the usual size, and ranges of a few values.
fn range_sizes() -> [RangeSize; 2] {
    [RangeSize::default(), RangeSize { pairs_max: 64, pairs: 8, values_per_list: 1, bytes: 200 }]
}

/// The way that must not be taken.
fn no_other(_: &Arc<dyn TableSource>, _: GroupRequest) -> Result<Arc<dyn BatchSource>> {
    Err(Error::internal("the pairs must fit memory"))
}

/// A way that can spill.
fn in_general(table: &Arc<dyn TableSource>, request: GroupRequest) -> Result<Arc<dyn BatchSource>> {
    Ok(GroupBy::new(Arc::clone(table), request)?)
}

fn counts_of(table: &Arc<dyn TableSource>, request: &GroupRequest, size: RangeSize) -> Option<Arc<dyn BatchSource>> {
    let counts = DistinctCounts::with_ranges(table, request, no_other, size).expect("heads");
    counts.map(|counts| counts as Arc<dyn BatchSource>)
}

fn key_of(data: &Data, column: usize) -> GroupKey {
    let RandomColumn { kind, nullable, .. } = &data.columns[column];
    GroupKey { expr: Expr::Column(column), kind: kind.arrow(), nullable: *nullable }
}

fn distinct_count(data: &Data, column: usize) -> Aggregate {
    let argument = Some((Expr::Column(column), data.columns[column].kind.arrow()));
    Aggregate { distinct: true, ..aggregate(named("count"), argument) }
}

/// Data with two columns that blocks list, of every type, in blocks and runs. The keys are the first columns.
fn random_distinct(random: &mut StdRng) -> (Data, Group) {
    let mut data = Data::random(random);
    let key = |random: &mut StdRng| RandomColumn {
        values: [1, 3, 40, 300][random.random_range(0..4)],
        ..RandomColumn::random(random)
    };
    let value = |random: &mut StdRng| RandomColumn {
        values: [1, 30, 500, 1_000_000][random.random_range(0..4)],
        ..RandomColumn::random(random)
    };
    data.columns = vec![key(random), key(random), value(random), value(random)];
    let fields = data.columns.iter().zip(["c0", "c1", "c2", "c3"]);
    let fields = fields.map(|(column, name)| Field::new(name, column.kind.arrow(), column.nullable));
    data.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = (0..random.random_range(1..6)).map(|_| {
        let rows = [1, 30, 400, 3_000][random.random_range(0..4)];
        // Values repeat, so that blocks list them.
        let arrays = data.columns.iter().map(|column| {
            let values = column.array(random, rows / 4 + 1);
            let places: Vec<u32> = (0..rows).map(|_| random.random_range(0..values.len() as u32)).collect();
            rows::take(&values, &places).expect("places below the length")
        });
        RecordBatch::try_new(Arc::clone(&data.schema), arrays.collect()).expect("columns as in the schema")
    });
    data.batches = batches.collect();
    let keys = (0..random.random_range(0..3)).map(|column| key_of(&data, column)).collect();
    let mut aggregates = vec![distinct_count(&data, 2)];
    if random.random() {
        aggregates.push(aggregate(named("count"), None));
    }
    if random.random() {
        aggregates.insert(0, distinct_count(&data, 3));
    }
    if random.random() {
        let column = random.random_range(0..4);
        let kind = data.columns[column].kind.arrow();
        if takes(named("max"), &kind) {
            aggregates.push(aggregate(named("max"), Some((Expr::Column(column), kind))));
        }
    }
    let group = Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() };
    (data, group)
}

/// A random table, a grouping of it, and its groups according to the model.
struct DistinctCase {
    table: Arc<dyn TableSource>,
    group: Group,
    rows: usize,
    expected: Vec<Vec<ModelValue>>,
}

fn random_case(seed: u64, random: &mut StdRng) -> DistinctCase {
    let (data, mut group) = random_distinct(random);
    let mut rows = data.rows();
    let deleted: std::collections::BTreeSet<u64> =
        (0..rows.len() as u64).filter(|_| seed.is_multiple_of(3) && random.random_range(0..4) == 0).collect();
    let mut numbers = 0..;
    rows.retain(|_| numbers.next().is_some_and(|number| !deleted.contains(&number)));
    if seed.is_multiple_of(2) {
        let column = random.random_range(0..4);
        group.predicates.push(Predicate::IsNull { column, negated: true });
        rows.retain(|row| row[column] != ModelValue::Null);
    }
    let expected = model(&rows, &data, &[], &group);
    let rows_per_block = [50, 700, 100_000][random.random_range(0..3)];
    let GroupSource::Table(table) = data.as_table(rows_per_block, &deleted.into_iter().collect::<Vec<_>>()) else {
        panic!("a table")
    };
    DistinctCase { table, group, rows: rows.len(), expected }
}

#[test]
fn distinct_counts_of_random_tables_are_those_of_the_model() {
    let mut counted = 0;
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed + 7_000);
        let DistinctCase { table, group, rows, expected } = random_case(seed, &mut random);
        for size in range_sizes() {
            let request = request(group.clone(), Vec::new());
            let broker = request.broker.clone();
            let Some(source) = counts_of(&table, &request, size) else { continue };
            counted += 1;
            let hashes_meet = rows < 500 && random.random();
            let workers = random.random_range(1..5);
            let found = run_source(&source, &request, workers, hashes_meet).expect("groups");
            assert_eq!(found, expected, "seed {seed}, {workers} workers, {size:?}: {group:?}");
            drop(source);
            assert_eq!(broker.used_bytes(), 0, "seed {seed}");
        }
    }
    assert!(counted > 200, "{counted} tables list their values");
}

#[test]
fn distinct_counts_whose_memory_is_refused_are_counted_in_another_way() {
    let mut refused = 0;
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed + 17_000);
        let DistinctCase { table, group, expected, .. } = random_case(seed, &mut random);
        let request = request(group.clone(), Vec::new());
        let (broker, temp) = (request.broker.clone(), request.temp.clone());
        spill_sometimes(&request, &mut random);
        let counts = DistinctCounts::with_ranges(&table, &request, in_general, range_sizes()[seed as usize % 2]);
        let Some(counts) = counts.expect("heads") else { continue };
        let number = random.random_range(1..20);
        broker.refuse_request(number);
        let source: Arc<dyn BatchSource> = counts;
        let found = run_source(&source, &request, random.random_range(1..5), false).expect("groups");
        assert_eq!(found, expected, "seed {seed}, request {number}: {group:?}");
        refused += usize::from(broker.refuse_request(0) == 0);
        drop(source);
        assert_eq!((broker.used_bytes(), temp.files().len()), (0, 0), "seed {seed}");
    }
    assert!(refused > 50, "{refused} requests were refused");
}

#[test]
fn distinct_values_are_counted_range_by_range() {
    // Enough values for several ranges, and too many groups for a bit each.
    let mut random = StdRng::seed_from_u64(8_000);
    let column = |kind, values| RandomColumn { kind, values, nullable: true };
    let columns = vec![column(SqlType::Int64, 300), column(SqlType::Int64, 20_000), column(SqlType::TEXT, 20_000)];
    let fields = columns.iter().zip(["c0", "c1", "c2"]);
    let fields = fields.map(|(column, name)| Field::new(name, column.kind.arrow(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|column| column.array(&mut random, 120_000)).collect();
    let batches = vec![RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns as in the schema")];
    let data = Data { columns, schema, batches };
    let rows = data.rows();
    let GroupSource::Table(table) = data.as_table(50_000, &[]) else { panic!("a table") };
    for (keys, column) in [(vec![], 1), (vec![0], 1), (vec![1], 0), (vec![], 2), (vec![0], 2), (vec![2], 0)] {
        let keys = keys.into_iter().map(|column| key_of(&data, column)).collect();
        let aggregates = vec![distinct_count(&data, column)];
        let group = Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() };
        let expected = model(&rows, &data, &[], &group);
        let request = request(group, Vec::new());
        let source = counts_of(&table, &request, RangeSize::default()).expect("lists");
        assert_eq!(run_source(&source, &request, 3, false).expect("groups"), expected);
        // Without enough memory for the pairs, a grouping that can spill does the work.
        let broker = Broker::new(1 << 16);
        let request = GroupRequest { broker: broker.clone(), ..request };
        let source: Arc<dyn BatchSource> =
            DistinctCounts::new(&table, &request, in_general).expect("heads").expect("lists");
        match run_source(&source, &request, 2, false) {
            Ok(found) => assert_eq!(found, expected),
            // A single group cannot be spilled.
            Err(error) => assert!(error.kind() == ErrorKind::MemoryLimit && request.group.keys.is_empty(), "{error}"),
        }
        drop(source);
        assert_eq!(broker.used_bytes(), 0);
    }
}

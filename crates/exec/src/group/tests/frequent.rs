//! Groupings that find only the groups of frequent values.

use super::super::choice::group_all;
use super::super::frequent::{Frequent, Limits};
use super::*;
use arrow::array::Int64Array;
use rowmill_plan::is_key_kind;
use rowmill_storage::TableSource;

/// Columns with a few values that have most of the rows.
fn skewed(random: &mut StdRng) -> Data {
    let mut columns: Vec<RandomColumn> = (0..random.random_range(2..4)).map(|_| RandomColumn::random(random)).collect();
    columns[0].values = 1_000_000;
    let fields = columns.iter().map(|column| Field::new("", column.kind.arrow(), column.nullable));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let different = [20, 300, 1_000][random.random_range(0..3)];
    let pools: Vec<ArrayRef> = columns.iter().map(|column| column.array(random, different)).collect();
    let batches = [3_000, 5_000, 100].map(|rows| {
        let arrays = pools.iter().map(|pool| {
            // The fourth power makes small places much more frequent.
            let place = |_| (random.random::<f64>().powi(4) * different as f64) as u32;
            take(pool, &(0..rows).map(place).collect::<Vec<_>>()).expect("places below the length")
        });
        RecordBatch::try_new(Arc::clone(&schema), arrays.collect()).expect("columns as in the schema")
    });
    Data { columns, schema, batches: batches.to_vec() }
}

/// Limits under which everything is worth it, and limits that leave by each early exit.
fn limits() -> [Limits; 7] {
    let all = Limits { rows_min: 1, share: 0, values_per_frequent: 0, ..Limits::default() };
    [
        all,
        Limits { share: 1_000, ..all },
        Limits { values_max: 0, ..all },
        Limits { values_per_frequent: 4, ..all },
        Limits { numbers_read: (0, 0), texts_read: (0, 0), numbers_share: 0, ..all },
        Limits { numbers_read: (0, 0), numbers_share: 2, ..all },
        Limits { numbers_read: (0, 1_000), texts_read: (0, 1_000), numbers_share: 0, ..all },
    ]
}

#[test]
fn frequent_values_give_the_groups_with_the_greatest_counts() {
    let mut taken = 0;
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed + 9_000);
        let data = skewed(&mut random);
        let mut group = random_group(&data, &mut random);
        let key = |column: usize| GroupKey {
            expr: Expr::Column(column),
            kind: data.columns[column].kind.arrow(),
            nullable: data.columns[column].nullable,
        };
        group.keys = (0..random.random_range(1..=data.columns.len())).map(key).collect();
        let counted = (random.random_range(0..2) == 0).then(|| (key(1).expr, key(1).kind));
        let counted = counted.filter(|(_, kind)| is_key_kind(kind));
        let distinct = counted.is_some();
        group.aggregates = vec![Aggregate { distinct, ..aggregate(named("count"), counted) }];
        if random.random() && !distinct {
            group.aggregates.push(aggregate(named("max"), Some((key(1).expr, key(1).kind))));
        }
        // Conditions on other columns are used only if nothing but the key is read.
        if group.keys.len() > 1 || distinct || group.aggregates.len() > 1 {
            group.predicates.retain(|predicate| {
                let mut columns = Vec::new();
                predicate.collect_columns(&mut columns);
                columns.iter().all(|column| *column == 0)
            });
        }
        let order = |column| SortKey { column, descending: true, nulls_first: random.random() };
        let keys = [group.keys.len(), 0].map(order).to_vec();
        let mut all = model(&data.rows(), &data, &functions_of(&data, &mut random), &group);
        let GroupSource::Table(table) = data.as_table(2_000, &[]) else { unreachable!("it is a table") };
        for limits in limits() {
            let top = GroupTop { keys: keys.clone(), rows: [1, 3, 10, 200][random.random_range(0..4)] };
            let request = GroupRequest { top: Some(top.clone()), ..request(group.clone(), Vec::new()) };
            let table: &Arc<dyn TableSource> = &table;
            let Some(frequent) = Frequent::new(table, &request, group_all, limits).expect("a grouping") else {
                continue;
            };
            taken += 1;
            let source: Arc<dyn BatchSource> = frequent;
            let mut found = run_source(&source, &request, random.random_range(1..4), false).expect("groups");
            assert!(found.iter().all(|row| all.binary_search(row).is_ok()), "seed {seed}: an unknown group");
            assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}: a group twice");
            check_first(&mut found, &mut all, &top, seed);
        }
    }
    assert!(taken > 50, "{taken} groupings");
}

#[test]
fn values_outside_of_lists_count_if_no_block_has_them() {
    let columns = vec![RandomColumn { kind: SqlType::Int64, values: 1, nullable: false }; 2];
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
    let batch = |rows: Vec<(i64, i64)>| {
        let (keys, values): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
        let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(keys)), Arc::new(Int64Array::from(values))];
        RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns as in the schema")
    };
    // The most frequent value has no group with more than two rows. Another value has one with thirty rows.
    let recent = (0..40).map(|row| (5_000, row / 2)).chain((0..30).map(|_| (5_001, 7)));
    let batches = vec![batch((0..4_000).map(|row| (row % 50, row % 7)).collect()), batch(recent.collect())];
    let data = Data { columns, schema: Arc::clone(&schema), batches };
    let GroupSource::Table(table) = data.as_table(2_000, &[]) else { unreachable!("it is a table") };
    let key = |column| GroupKey { expr: Expr::Column(column), kind: DataType::Int64, nullable: false };
    let value = Arc::new(Int64Array::from(vec![5_000]));
    let group = Group {
        predicates: vec![Predicate::Compare { column: 0, op: CompareOp::GreaterOrEqual, value }],
        keys: vec![key(0), key(1)],
        aggregates: vec![aggregate(named("count"), None)],
        always: Vec::new(),
    };
    let mut all = model(&data.rows(), &data, &[], &group);
    let top = GroupTop { keys: vec![SortKey { column: 2, descending: true, nulls_first: false }], rows: 1 };
    let request = GroupRequest { top: Some(top.clone()), ..request(group, Vec::new()) };
    let frequent = Frequent::new(&table, &request, group_all, limits()[0]).expect("a grouping");
    let source: Arc<dyn BatchSource> = frequent.expect("a table with frequent values");
    check_first(&mut run_source(&source, &request, 2, false).expect("groups"), &mut all, &top, 0);
}

#[test]
fn with_little_memory_all_rows_are_grouped() {
    let mut random = StdRng::seed_from_u64(3);
    let data = skewed(&mut random);
    let GroupSource::Table(table) = data.as_table(2_000, &[]) else { unreachable!("it is a table") };
    let key = GroupKey { expr: Expr::Column(0), kind: data.columns[0].kind.arrow(), nullable: true };
    let aggregates = vec![aggregate(named("count"), None)];
    let group = Group { predicates: Vec::new(), keys: vec![key], aggregates, always: Vec::new() };
    let all = model(&data.rows(), &data, &[], &group);
    let top = GroupTop { keys: vec![SortKey { column: 1, descending: true, nulls_first: false }], rows: 5 };
    let mut errors = 0;
    // With each limit, the grouping must succeed if a plain grouping of all rows does.
    for bytes in (10..24).map(|bits| 1 << bits) {
        let broker = Broker::new(bytes);
        let request = GroupRequest { top: Some(top.clone()), broker, ..request(group.clone(), Vec::new()) };
        let of = |source: Arc<dyn BatchSource>| run_source(&source, &request, 2, false);
        let frequent = Frequent::new(&table, &request, group_all, limits()[0]).expect("a grouping");
        let found = of(frequent.expect("a table with frequent values"));
        match group_all(&table, request.clone()).and_then(of) {
            Ok(_) => check_first(&mut found.expect("enough memory for all groups"), &mut all.clone(), &top, bytes),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::MemoryLimit);
                errors += 1;
            }
        }
    }
    assert!((1..14).contains(&errors), "{errors} of 14");
}

#[test]
fn a_function_that_may_fail_rules_out_skipping_groups() {
    let mut random = StdRng::seed_from_u64(1);
    let data = skewed(&mut random);
    let GroupSource::Table(table) = data.as_table(2_000, &[]) else { unreachable!("it is a table") };
    let key = GroupKey { expr: Expr::Column(0), kind: data.columns[0].kind.arrow(), nullable: true };
    let top = Some(GroupTop { keys: vec![SortKey { column: 1, descending: true, nulls_first: false }], rows: 1 });
    // Nothing is known about the errors of this function, so it may fail for any row.
    let functions: Vec<Arc<dyn VectorFunction>> = vec![Arc::new(Alike(vec![1]))];
    for (argument, is_taken) in [(Expr::Column(1), true), (Expr::Function(0), false)] {
        let count = aggregate(named("count"), Some((argument, data.kind(argument))));
        let group =
            Group { predicates: Vec::new(), keys: vec![key.clone()], aggregates: vec![count], always: Vec::new() };
        let request = GroupRequest { top: top.clone(), ..request(group, functions.clone()) };
        let frequent = Frequent::new(&table, &request, group_all, limits()[0]).expect("a grouping");
        assert_eq!(frequent.is_some(), is_taken);
    }
}

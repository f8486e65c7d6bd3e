//! `cargo bench -p rowmill-program` measures. `cargo test` runs every bench once with few rows, so none of them
//! breaks unnoticed.
//!
//! The table has the shape of TPC-C's customers: a key of three integers and ten other columns, in the base in memory.

// A bench may panic when a step fails.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use rowmill_allocator::CountingAllocator;
use rowmill_base::{ColumnId, Settings, SqlType, TableId};
use rowmill_plan::program::{
    Access, ArithmeticOp, Body, ChangeTarget, Insert, Program, ReadOutput, ReadPlan, RowOutput, Scalar, ScalarValue,
    Update,
};
use rowmill_program::{Compiled, ProgramScratch, ResultRows};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{ColumnSpec, Engine, KeyColumn, MAIN_SCHEMA};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const INT: SqlType = SqlType::Int32;
const BIG: SqlType = SqlType::Int64;
const MONEY: SqlType = SqlType::Decimal { precision: 12, scale: 2 };

/// Writes per transaction.
const WRITES: i64 = 20;

/// Returns `full` for a measurement and `few` within the tests. Only `cargo bench` passes `--bench`.
fn size(full: i64, few: i64) -> i64 {
    if std::env::args().any(|argument| argument == "--bench") { full } else { few }
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_millis(1_000))
}

fn kinds() -> Vec<SqlType> {
    let mut kinds = vec![INT; 3];
    kinds.extend([MONEY, MONEY, INT, INT]);
    kinds.extend(vec![SqlType::TEXT; 6]);
    kinds
}

fn values(row: i64) -> Vec<ValueRef<'static>> {
    let mut values = vec![ValueRef::Int(1), ValueRef::Int(row % 10), ValueRef::Int(row / 10)];
    values.extend([ValueRef::Decimal(-1_000), ValueRef::Decimal(1_000), ValueRef::Int(1), ValueRef::Int(0)]);
    values.extend(
        ["GC", "OE", "a first name", "BARBARBAR", "some street 12", "data of a customer, of some length"]
            .map(ValueRef::Text),
    );
    values
}

fn filled(rows: i64) -> (Arc<Engine>, TableId) {
    let engine = Engine::memory(Settings::default()).unwrap();
    let mut transaction = engine.begin().unwrap();
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).unwrap().id;
    let columns = kinds().into_iter().enumerate().map(|(at, kind)| ColumnSpec::new(format!("c{at}"), kind));
    let key: Vec<KeyColumn> = (0..3).map(|column| KeyColumn { column: ColumnId(column), descending: false }).collect();
    let table = transaction.create_keyed_table(main, "customer", columns.collect(), &key).unwrap();
    (0..rows).for_each(|row| transaction.insert_row(table, &values(row)).unwrap());
    transaction.commit().unwrap();
    (engine, table)
}

fn column(column: usize) -> Scalar {
    Scalar::column(kinds()[column].clone(), 0, column)
}

fn by(table: TableId, parameters: usize) -> Access {
    let equal = (0..parameters).map(|number| Scalar::parameter(BIG, number)).collect();
    Access { equal, ..Access::all(table) }
}

fn read(access: Access, limit: Option<i64>) -> Body {
    let limit = limit.map(|limit| Scalar::literal(BIG, ScalarValue::Int(limit)));
    let rows =
        RowOutput { columns: vec![column(3), column(9), column(2)], order: vec![], presorted: 0, skip: None, limit };
    Body::Read(ReadPlan::of_table(access, None, ReadOutput::Rows(rows)))
}

fn benches(criterion: &mut Criterion) {
    let rows = size(100_000, 1_000);
    let (engine, table) = filled(rows);
    let compiled = |parameters: usize, body| {
        let program = Program { parameters: vec![BIG; parameters], body };
        Compiled::new(&program, engine.snapshot().unwrap().catalog()).unwrap()
    };
    let (mut scratch, mut out) = (ProgramScratch::default(), ResultRows::default());
    let mut next = 0;
    let mut row = move || {
        next = (next + 7_919) % rows;
        next
    };
    let mut group = criterion.benchmark_group("statements");

    let snapshot = engine.snapshot().unwrap();
    let reader = snapshot.reader();
    // The part of a point lookup that no program can avoid.
    let codec = snapshot.keyed_codec(table).unwrap();
    let (mut key, mut found) = (Vec::new(), Vec::new());
    group.bench_function("point get, of the reader alone", |bencher| {
        bencher.iter(|| {
            let row = row();
            let parts = [ValueRef::Int(1), ValueRef::Int(row % 10), ValueRef::Int(row / 10)];
            codec.encode_key(None, &parts, &mut key).unwrap();
            assert!(reader.get(&key, &mut found).unwrap());
        });
    });
    let point = compiled(3, read(by(table, 3), None));
    group.bench_function("point get", |bencher| {
        bencher.iter(|| {
            let row = row();
            let parameters = [ValueRef::Int(1), ValueRef::Int(row % 10), ValueRef::Int(row / 10)];
            point.run_read(&reader, &parameters, &mut scratch, &mut out).unwrap().rows().unwrap();
            assert_eq!(out.len(), 1);
        });
    });
    let mut first = by(table, 2);
    let value = Scalar::parameter(BIG, 2);
    first.from = Some(rowmill_plan::program::AccessBound::new(value, true));
    let ten = compiled(3, read(first, Some(10)));
    group.bench_function("scan of 10 rows", |bencher| {
        bencher.iter(|| {
            let row = row();
            let parameters = [ValueRef::Int(1), ValueRef::Int(row % 10), ValueRef::Int((row / 10).min(rows / 10 - 10))];
            ten.run_read(&reader, &parameters, &mut scratch, &mut out).unwrap().rows().unwrap();
            assert_eq!(out.len(), 10);
        });
    });

    let more = Scalar::arithmetic(
        SqlType::Decimal { precision: 13, scale: 2 },
        column(3),
        ArithmeticOp::Plus,
        Scalar::literal(MONEY, ScalarValue::Decimal(1)),
    );
    let assignments = vec![(3, more)];
    let update = {
        let target = ChangeTarget::new(by(table, 3), None);
        Update { target, assignments, generated: vec![], checks: vec![], returning: vec![] }
    };
    let update = compiled(3, Body::Update(update));
    // In transactions of twenty, with their commits. One step of the bench is one statement.
    let mut open = None;
    let mut written = 0;
    group.bench_function("update by key", |bencher| {
        bencher.iter(|| {
            let row = row();
            let parameters = [ValueRef::Int(1), ValueRef::Int(row % 10), ValueRef::Int(row / 10)];
            let transaction = open.get_or_insert_with(|| engine.begin().unwrap());
            let changed = update.run_write(transaction, &parameters, &mut scratch, &mut out).unwrap().rows().unwrap();
            assert_eq!(changed, 1);
            written += 1;
            if written % WRITES == 0 {
                open.take().unwrap().commit().unwrap();
            }
        });
    });
    drop(open.take());
    let row = (0..3).map(|number| Scalar::parameter(BIG, number));
    let rest = [ScalarValue::Decimal(5), ScalarValue::Decimal(7), ScalarValue::Int(1), ScalarValue::Int(2)].into_iter();
    let rest = rest
        .chain(std::iter::repeat_n(ScalarValue::Text("a text".into()), 6))
        .zip(&kinds()[3..])
        .map(|(value, kind)| Scalar::literal(kind.clone(), value))
        .collect::<Vec<_>>();
    let insert = Insert {
        table,
        rows: vec![row.chain(rest).collect()],
        source: None,
        sequences: vec![],
        generated: vec![],
        on_conflict: None,
        checks: vec![],
        returning: vec![],
    };
    let insert = compiled(3, Body::Insert(insert));
    let mut number = rows;
    group.bench_function("insert", |bencher| {
        bencher.iter(|| {
            number += 1;
            let parameters = [ValueRef::Int(2), ValueRef::Int(number % 10), ValueRef::Int(number / 10)];
            let transaction = open.get_or_insert_with(|| engine.begin().unwrap());
            insert.run_write(transaction, &parameters, &mut scratch, &mut out).unwrap().rows().unwrap();
            if number % WRITES == 0 {
                open.take().unwrap().commit().unwrap();
            }
        });
    });
    drop(open);
    group.finish();
}

criterion_group! {
    name = statements;
    config = short();
    targets = benches
}
criterion_main!(statements);

//! Counts heap allocations of statements that have already run a few times.

// A test may panic when a step fails.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use rowmill_allocator::{CountingAllocator, allocations};
use rowmill_base::{ColumnId, Settings, SqlType, TableId};
use rowmill_plan::program::{
    Access, ArithmeticOp, Body, ChangeTarget, Insert, Program, ReadOutput, ReadPlan, RowOutput, Scalar, ScalarOp,
    ScalarValue, TextFunction, Update,
};
use rowmill_program::{Compiled, ProgramScratch, ResultRows};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, Transaction};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const INT: SqlType = SqlType::Int32;
const BIG: SqlType = SqlType::Int64;
const MONEY: SqlType = SqlType::Decimal { precision: 12, scale: 2 };

/// Statements over which the mean is taken.
const RUNS: i64 = 1_000;

struct World {
    engine: Arc<Engine>,
    table: TableId,
    history: TableId,
    scratch: ProgramScratch,
    out: ResultRows,
}

impl World {
    fn new() -> World {
        let engine = Engine::memory(Settings::default()).unwrap();
        let mut transaction = engine.begin().unwrap();
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).unwrap().id;
        let kinds = [INT, INT, SqlType::TEXT, MONEY];
        let columns = kinds.into_iter().enumerate().map(|(at, kind)| ColumnSpec::new(format!("c{at}"), kind));
        let part = |column| KeyColumn { column: ColumnId(column), descending: false };
        let table = transaction.create_keyed_table(main, "t", columns.collect(), &[part(0), part(1)]).unwrap();
        let spec = IndexSpec { name: "by_text".into(), parts: vec![part(2)], unique: false };
        transaction.create_index(table, spec).unwrap();
        let columns = vec![ColumnSpec::new("number", BIG), ColumnSpec::new("line", SqlType::TEXT)];
        let history = transaction.create_table(main, "history", columns).unwrap();
        for row in 0..RUNS {
            let values =
                [ValueRef::Int(row / 10), ValueRef::Int(row % 10), ValueRef::Text("a text"), ValueRef::Decimal(0)];
            transaction.insert_row(table, &values).unwrap();
        }
        transaction.commit().unwrap();
        World { engine, table, history, scratch: ProgramScratch::default(), out: ResultRows::default() }
    }

    fn compiled(&self, parameters: &[SqlType], body: Body) -> Compiled {
        let program = Program { parameters: parameters.to_vec(), body };
        Compiled::new(&program, self.engine.snapshot().unwrap().catalog()).unwrap()
    }

    fn by(&self, parameters: usize) -> Access {
        let equal = (0..parameters).map(|number| Scalar::parameter(BIG, number)).collect();
        Access { equal, ..Access::all(self.table) }
    }

    fn read(&self, access: Access) -> Body {
        let upper = Scalar::new(SqlType::TEXT, ScalarOp::Text(TextFunction::Upper, vec![column(2)]));
        let rows = RowOutput::all(vec![column(3), column(2), upper]);
        Body::Read(ReadPlan::of_table(access, None, ReadOutput::Rows(rows)))
    }

    /// The mean number of allocations of a read.
    fn of_reads(&mut self, compiled: &Compiled, parameters: usize) -> f64 {
        let snapshot = self.engine.snapshot().unwrap();
        let reader = snapshot.reader();
        let mut run = |row: i64| {
            let values = [ValueRef::Int(row / 10), ValueRef::Int(row % 10)];
            compiled
                .run_read(&reader, &values[..parameters], &mut self.scratch, &mut self.out)
                .unwrap()
                .rows()
                .unwrap();
            assert!(!self.out.is_empty());
        };
        (0..RUNS).for_each(&mut run);
        let before = allocations();
        (0..RUNS).for_each(&mut run);
        (allocations() - before) as f64 / RUNS as f64
    }

    /// The mean number of allocations of a statement in a transaction of many, without its commit.
    fn of_writes(&mut self, compiled: &Compiled, values: impl Fn(i64) -> Vec<ValueRef<'static>>) -> f64 {
        let mut total = 0;
        for round in 0..3 {
            let values: Vec<_> = (0..RUNS).map(|row| values(round * RUNS + row)).collect();
            let mut transaction: Transaction = self.engine.begin().unwrap();
            let before = allocations();
            for values in &values {
                compiled.run_write(&mut transaction, values, &mut self.scratch, &mut self.out).unwrap().rows().unwrap();
            }
            total = allocations() - before;
            transaction.commit().unwrap();
        }
        total as f64 / RUNS as f64
    }
}

fn column(column: usize) -> Scalar {
    Scalar::column([INT, INT, SqlType::TEXT, MONEY][column].clone(), 0, column)
}

/// One test only, because the counter counts the allocations of all threads.
#[test]
fn statements_hardly_allocate_once_they_have_run() {
    let mut world = World::new();
    let point = world.compiled(&[BIG, BIG], world.read(world.by(2)));
    let points = world.of_reads(&point, 2);
    let range = world.compiled(&[BIG], world.read(world.by(1)));
    let ranges = world.of_reads(&range, 1);

    let cent = Scalar::literal(SqlType::Decimal { precision: 2, scale: 2 }, ScalarValue::Decimal(1));
    let more = Scalar::arithmetic(SqlType::Decimal { precision: 13, scale: 2 }, column(3), ArithmeticOp::Plus, cent);
    let update = Update {
        target: ChangeTarget::new(world.by(2), None),
        assignments: vec![(3, more)],
        generated: vec![],
        checks: vec![],
        returning: vec![column(3)],
    };
    let update = world.compiled(&[BIG, BIG], Body::Update(update));
    let updates = world.of_writes(&update, |row| {
        let row = row % RUNS;
        vec![ValueRef::Int(row / 10), ValueRef::Int(row % 10)]
    });

    let values = vec![
        Scalar::parameter(BIG, 0),
        Scalar::literal(INT, ScalarValue::Int(1)),
        Scalar::literal(SqlType::TEXT, ScalarValue::Text("another text".into())),
        Scalar::literal(MONEY, ScalarValue::Decimal(100)),
    ];
    let insert = Insert {
        source: None,
        table: world.table,
        rows: vec![values],
        sequences: vec![],
        generated: vec![],
        on_conflict: None,
        checks: vec![],
        returning: vec![],
    };
    let insert = world.compiled(&[BIG], Body::Insert(insert));
    let inserts = world.of_writes(&insert, |row| vec![ValueRef::Int(1_000_000 + row)]);

    let line =
        vec![Scalar::parameter(BIG, 0), Scalar::literal(SqlType::TEXT, ScalarValue::Text("a line of history".into()))];
    let append = Insert {
        source: None,
        table: world.history,
        rows: vec![line],
        sequences: vec![],
        generated: vec![],
        on_conflict: None,
        checks: vec![],
        returning: vec![],
    };
    let append = world.compiled(&[BIG], Body::Insert(append));
    let appends = world.of_writes(&append, |row| vec![ValueRef::Int(row)]);

    println!("allocations: point {points}, range of 10 {ranges}, update {updates}, insert {inserts}, append {appends}");
    assert!(points < 0.1, "a point get allocates {points} times");
    assert!(ranges < 0.1, "a range allocates {ranges} times");
    assert!(updates < 0.2, "an update allocates {updates} times");
    assert!(inserts < 0.2, "an insert allocates {inserts} times");
    // An array for each column, and the batch.
    assert!(appends < 30.0, "an append of two columns allocates {appends} times");
}

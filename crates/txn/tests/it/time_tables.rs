//! Time tables: rows that come late, in any order, while other transactions delete them and background jobs move them.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::TimestampMicrosecondType;
use rowmill_base::{ColumnId, ErrorKind, SqlType, TableId, TimeUnit};
use rowmill_txn::{
    ColumnSpec, Engine, MAIN_SCHEMA, Savepoint, Snapshot, TableOrder, TableSource, TimeTableDef, Transaction,
};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, TestRow, open_at, read, specs, values};

/// The position of the time column.
pub(crate) const TIME: usize = 2;

pub(crate) fn create(engine: &Arc<Engine>) -> TableId {
    create_with(engine, TimeTableDef::new(ColumnId(TIME as u32)))
}

/// Creates the test table with a time column and with the clauses `time`.
pub(crate) fn create_with(engine: &Arc<Engine>, time: TimeTableDef) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let mut columns = specs();
    columns.push(ColumnSpec::new("At", SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }));
    let id = transaction.create_table(main, "T", columns).expect("a new table");
    transaction.set_time_table(id, time).expect("a time table");
    transaction.commit().expect("committed");
    id
}

pub(crate) fn insert(transaction: &mut Transaction, table: TableId, rows: &[(TestRow, i64)]) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0.0)));
    let texts: ArrayRef = Arc::new(rows.iter().map(|row| row.0.1.clone()).collect::<StringViewArray>());
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1)));
    let batch = RecordBatch::try_from_iter([("Number", numbers), ("Text", texts), ("At", times)]);
    transaction.insert(table, &batch.expect("three columns")).expect("inserted");
}

/// Checks that each block is in the order of time.
fn check_order(snapshot: &Snapshot, table: TableId) {
    let table = snapshot.table(table).expect("the table exists");
    for block in table.blocks() {
        let times = block.chunk(table.table(), TIME).expect("opened").expect("a column");
        let times = times.read(0..block.rows()).expect("read");
        assert!(times.as_primitive::<TimestampMicrosecondType>().values().is_sorted(), "block {}", block.id());
    }
}

/// Waits until background jobs leave at most four blocks over any moment.
fn settle(engine: &Arc<Engine>, table: TableId) -> TableOrder {
    let start = Instant::now();
    loop {
        let snapshot = engine.snapshot().expect("a snapshot");
        let order = snapshot.table(table).expect("the table exists").time_order().expect("read").expect("a time table");
        if order.depth <= 4 {
            return order;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "blocks still overlap: {order:?}");
        sleep(Duration::from_millis(20));
    }
}

struct LateRows {
    engine: Arc<Engine>,
    table: TableId,
    model: Vec<TestRow>,
    next: i64,
}

impl LateRows {
    fn rows(&mut self, count: u64, dice: &mut Dice) -> Vec<(TestRow, i64)> {
        (0..count)
            .map(|_| {
                self.next += 1;
                let late = [0, 0, 3, 100, 5_000][dice.roll(5) as usize];
                let time = 10 * self.next - dice.roll(late + 1) as i64;
                ((self.next, Some(format!("text {}", dice.roll(20)))), time)
            })
            .collect()
    }

    /// Lets a transaction delete some rows. Returns their numbers.
    fn delete(&self, transaction: &mut Transaction, dice: &mut Dice) -> Vec<i64> {
        let view = transaction.view().expect("a view");
        let (share, offset) = (dice.roll(5) + 2, dice.roll(7) as i64);
        let doomed = read(&view, self.table).expect("the table is read").into_iter();
        let doomed: Vec<(u64, TestRow)> =
            doomed.filter(|(_, row)| ((row.0 + offset) as u64).is_multiple_of(share)).collect();
        let numbers: Vec<u64> = doomed.iter().map(|(row, _)| *row).collect();
        assert_eq!(transaction.delete(self.table, &numbers).expect("deleted") as usize, numbers.len());
        doomed.into_iter().map(|(_, row)| row.0).collect()
    }

    /// Commits a transaction that stayed open while others committed. It fails exactly if one of the rows that it
    /// deletes is gone.
    fn commit_late(&mut self, transaction: Transaction, doomed: &[i64]) {
        let all_live = doomed.iter().all(|number| self.model.iter().any(|row| row.0 == *number));
        match transaction.commit() {
            Ok(_) => {
                assert!(all_live, "a deleted row was deleted again");
                self.model.retain(|row| !doomed.contains(&row.0));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
                assert!(!all_live, "a row that moved was taken for a deleted one: {error}");
            }
        }
    }

    /// A transaction that begins after the one before has ended.
    fn transact(&mut self, dice: &mut Dice) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let (mut model, mut savepoint): (Vec<TestRow>, Option<Savepoint>) = (self.model.clone(), None);
        for _ in 0..[1, 2, 3][dice.roll(3) as usize] {
            let before = model.clone();
            if dice.roll(2) == 0 {
                savepoint = Some(transaction.savepoint());
            }
            match dice.roll(4) {
                0..=2 => {
                    let count = [1, 2, 7, 40, 130][dice.roll(5) as usize];
                    let rows = self.rows(count, dice);
                    insert(&mut transaction, self.table, &rows);
                    model.extend(rows.into_iter().map(|(row, _)| row));
                }
                _ => {
                    let doomed = self.delete(&mut transaction, dice);
                    model.retain(|row| !doomed.contains(&row.0));
                }
            }
            if let Some(savepoint) = savepoint.take().filter(|_| dice.roll(3) == 0) {
                transaction.rollback_to(&savepoint);
                model = before;
            }
            self.check(&transaction.view().expect("a view"), &model);
        }
        if dice.roll(4) > 0 {
            transaction.commit().expect("committed");
            self.model = model;
        }
        check_order(&self.engine.snapshot().expect("a snapshot"), self.table);
    }
}

impl World for LateRows {
    type State = Vec<TestRow>;

    fn step(&mut self, dice: &mut Dice) {
        if dice.roll(3) > 0 {
            return self.transact(dice);
        }
        let mut late = self.engine.begin().expect("a transaction");
        let doomed = self.delete(&mut late, dice);
        for _ in 0..dice.roll(5) {
            self.transact(dice);
        }
        // Now and then after the pause that background jobs wait for.
        sleep(Duration::from_millis([0, 0, 250][dice.roll(3) as usize]));
        self.commit_late(late, &doomed);
    }

    fn model(&self) -> &Vec<TestRow> {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Vec<TestRow>) {
        let mut rows = values(snapshot, self.table);
        rows.sort();
        assert_eq!(&rows, expected);
    }

    fn engine(&mut self) -> &mut Arc<Engine> {
        &mut self.engine
    }
}

fn history(seed: u64, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    let mut dice = Dice(seed);
    let engine = open_at(path, rows_per_block);
    let table = create(&engine);
    let mut world = LateRows { engine, table, model: Vec::new(), next: 0 };
    live(&mut world, &mut dice, steps, rows_per_block, path);
}

#[test]
fn histories_of_late_rows_in_memory_agree_with_the_model() {
    for (seed, rows_per_block) in [(1, 4), (2, 30), (3, 30), (4, 500)] {
        history(seed, 60, rows_per_block, None);
    }
}

#[test]
fn histories_of_late_rows_on_disk_agree_with_the_model_through_reopenings() {
    of_seeds(5, 3, |seed, rows_per_block, path| history(seed, 40, rows_per_block, Some(path)));
}

#[test]
fn rows_of_any_time_end_in_blocks_that_overlap_little() {
    let engine = open_at(None, 100);
    let table = create(&engine);
    let mut dice = Dice(7);
    let mut expected = Vec::new();
    for part in 0..40 {
        let mut transaction = engine.begin().expect("a transaction");
        let rows: Vec<(TestRow, i64)> =
            (0..100).map(|row| ((part * 100 + row, None), dice.roll(1_000_000) as i64)).collect();
        insert(&mut transaction, table, &rows);
        transaction.commit().expect("committed");
        expected.extend(rows.into_iter().map(|(row, _)| row));
    }
    let order = settle(&engine, table);
    assert_eq!(order.rows + order.open_rows, 4_000);
    let snapshot = engine.snapshot().expect("a snapshot");
    check_order(&snapshot, table);
    let mut rows = values(&snapshot, table);
    rows.sort();
    assert_eq!(rows, expected);
}

#[test]
fn a_transaction_that_began_before_rows_moved_deletes_the_rows_that_it_saw() {
    let engine = open_at(None, 50);
    let table = create(&engine);
    let mut dice = Dice(9);
    let mut fill = |numbers: std::ops::Range<i64>| {
        let mut transaction = engine.begin().expect("a transaction");
        let rows: Vec<(TestRow, i64)> = numbers.map(|number| ((number, None), dice.roll(1_000) as i64)).collect();
        insert(&mut transaction, table, &rows);
        transaction.commit().expect("committed");
    };
    fill(0..20);
    let mut transaction = engine.begin().expect("a transaction");
    let view = transaction.view().expect("a view");
    let seen = read(&view, table).expect("read");
    let even: Vec<u64> = seen.iter().filter(|(_, row)| row.0 % 2 == 0).map(|(number, _)| *number).collect();
    transaction.delete(table, &even).expect("deleted");
    for part in 1..40 {
        fill(part * 20..(part + 1) * 20);
    }
    settle(&engine, table);
    let later = engine.snapshot().expect("a snapshot");
    let moved = read(&later, table).expect("read");
    assert!(seen.iter().any(|row| !moved.contains(row)), "no row has moved");
    transaction.commit().expect("no row of it was deleted by another");
    let mut left: Vec<i64> = values(&engine.snapshot().expect("a snapshot"), table).iter().map(|row| row.0).collect();
    left.sort_unstable();
    assert_eq!(left, (0..800).filter(|number| *number >= 20 || number % 2 == 1).collect::<Vec<_>>());
}

#[test]
fn rows_of_equal_times_stay_in_their_order_when_sparse_blocks_are_rewritten() {
    let engine = open_at(None, 10);
    let table = create(&engine);
    for part in 0..20 {
        let mut transaction = engine.begin().expect("a transaction");
        let rows: Vec<(TestRow, i64)> = (part * 20..part * 20 + 20).map(|row| ((row, None), row / 7)).collect();
        insert(&mut transaction, table, &rows);
        transaction.commit().expect("committed");
    }
    let mut transaction = engine.begin().expect("a transaction");
    let view = transaction.view().expect("a view");
    let doomed = read(&view, table).expect("read").into_iter().filter(|(_, row)| row.0 / 30 % 2 == 0 && row.0 % 3 > 0);
    let doomed: Vec<u64> = doomed.map(|(number, _)| number).collect();
    transaction.delete(table, &doomed).expect("deleted");
    transaction.commit().expect("committed");
    let start = Instant::now();
    let snapshot = loop {
        let snapshot = engine.snapshot().expect("a snapshot");
        let rows = snapshot.table(table).expect("the table exists");
        if rows.blocks().iter().all(|block| block.live_rows() * 4 >= block.rows() * 3) {
            break snapshot;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "blocks stay sparse");
        sleep(Duration::from_millis(20));
    };
    check_order(&snapshot, table);
    // The rows are in the order of their numbers, and were added in the order of `row.0`.
    let rows: Vec<i64> = read(&snapshot, table).expect("read").into_iter().map(|(_, row)| row.0).collect();
    assert_eq!(rows.len(), 400 - doomed.len());
    assert!(rows.is_sorted(), "rows of equal times changed their order: {rows:?}");
}

#[test]
fn emptying_a_table_does_not_conflict_with_rows_that_only_moved() {
    let engine = open_at(None, 50);
    let table = create(&engine);
    for part in 0..20 {
        let mut transaction = engine.begin().expect("a transaction");
        let rows: Vec<(TestRow, i64)> = (0..50).map(|row| ((part * 50 + row, None), row * 1_000 + part)).collect();
        insert(&mut transaction, table, &rows);
        transaction.commit().expect("committed");
    }
    let mut transaction = engine.begin().expect("a transaction");
    transaction.truncate(table).expect("emptied");
    settle(&engine, table);
    transaction.commit().expect("no row was added or deleted");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), []);
}

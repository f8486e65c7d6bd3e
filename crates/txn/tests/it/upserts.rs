//! `DEDUP UPSERT KEYS`: rows that replace others, against a map from keys to rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use rowmill_base::{ColumnId, ErrorKind, Isolation, TableId};
use rowmill_txn::{Engine, Snapshot, TimeTableDef, Transaction};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, TestRow, open_at, walk};
use crate::time_tables::{TIME, create_with, insert};

/// The rows by their time and number. Each text is written once, so it tells which row it is.
type Rows = BTreeMap<(i64, i64), String>;

fn create(engine: &Arc<Engine>) -> TableId {
    let time = ColumnId(TIME as u32);
    create_with(engine, TimeTableDef { dedup_keys: vec![time, ColumnId(0)], ..TimeTableDef::new(time) })
}

/// All live rows with their row numbers. Panics if two rows have the same keys.
fn read(snapshot: &Snapshot, table: TableId) -> BTreeMap<(i64, i64), (String, u64)> {
    let mut rows = BTreeMap::new();
    let mut each = |columns: &[arrow::array::ArrayRef], live: &[(usize, u64)]| {
        let (numbers, texts) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string_view());
        let times = columns[TIME].as_primitive::<TimestampMicrosecondType>();
        for (row, number) in live {
            let key = (times.value(*row), numbers.value(*row));
            let before = rows.insert(key, (texts.value(*row).to_owned(), *number));
            assert_eq!(before, None, "two rows have the keys {key:?}");
        }
    };
    walk(snapshot, table, &mut each).expect("the table is read");
    rows
}

fn values(snapshot: &Snapshot, table: TableId) -> Rows {
    read(snapshot, table).into_iter().map(|(key, (text, _))| (key, text)).collect()
}

fn put(transaction: &mut Transaction, table: TableId, rows: &[((i64, i64), String)]) {
    let rows: Vec<(TestRow, i64)> =
        rows.iter().map(|((time, number), text)| ((*number, Some(text.clone())), *time)).collect();
    insert(transaction, table, &rows);
}

struct Upserts {
    engine: Arc<Engine>,
    table: TableId,
    model: Rows,
    next: i64,
}

impl Upserts {
    /// Rows of about the present, some of which have keys of others.
    fn rows(&mut self, dice: &mut Dice) -> Vec<((i64, i64), String)> {
        let count = [1, 2, 7, 40, 130][dice.roll(5) as usize];
        let mut rows = Vec::new();
        for _ in 0..count {
            self.next += 1;
            let late = [0, 2, 20, 300][dice.roll(4) as usize];
            let time = (self.next - dice.roll(late + 1) as i64) / 4;
            rows.push(((time, dice.roll(2) as i64), format!("row {}", self.next)));
        }
        rows
    }

    fn transact(&mut self, dice: &mut Dice) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let mut model = self.model.clone();
        for _ in 0..[1, 2, 3][dice.roll(3) as usize] {
            let (before, savepoint) = (model.clone(), transaction.savepoint());
            if dice.roll(4) > 0 {
                let rows = self.rows(dice);
                put(&mut transaction, self.table, &rows);
                model.extend(rows);
            } else {
                let doomed = read(&transaction.view().expect("a view"), self.table);
                let (share, offset) = (dice.roll(5) + 2, dice.roll(7) as i64);
                let doomed = doomed.into_iter().filter(|(key, _)| ((key.0 + offset) as u64).is_multiple_of(share));
                let (keys, numbers): (Vec<_>, Vec<u64>) = doomed.map(|(key, (_, number))| (key, number)).unzip();
                transaction.delete(self.table, &numbers).expect("deleted");
                keys.iter().for_each(|key| drop(model.remove(key)));
            }
            if dice.roll(5) == 0 {
                transaction.rollback_to(&savepoint);
                model = before;
            }
            if dice.roll(2) == 0 {
                self.check(&transaction.view().expect("a view"), &model);
            }
        }
        if dice.roll(4) > 0 {
            transaction.commit().expect("committed");
            self.model = model;
        }
    }
}

impl World for Upserts {
    type State = Rows;

    fn step(&mut self, dice: &mut Dice) {
        if dice.roll(3) > 0 {
            return self.transact(dice);
        }
        // A transaction that others overtake.
        let before = self.model.clone();
        let mut late = self.engine.begin().expect("a transaction");
        let rows = self.rows(dice);
        put(&mut late, self.table, &rows);
        if dice.roll(2) == 0 {
            late.view().expect("a view");
        }
        for _ in 0..dice.roll(4) {
            self.transact(dice);
        }
        sleep(Duration::from_millis([0, 0, 250][dice.roll(3) as usize]));
        let changed = rows.iter().any(|(key, _)| before.get(key) != self.model.get(key));
        match late.commit() {
            Ok(_) => {
                assert!(!changed, "a row was replaced that the transaction has not seen");
                self.model.extend(rows);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
                assert!(changed, "no key of the transaction was written by another: {error}");
            }
        }
    }

    fn model(&self) -> &Rows {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Rows) {
        assert_eq!(&values(snapshot, self.table), expected);
    }

    fn engine(&mut self) -> &mut Arc<Engine> {
        &mut self.engine
    }
}

fn history(seed: u64, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    let mut dice = Dice(seed);
    let engine = open_at(path, rows_per_block);
    let table = create(&engine);
    let mut world = Upserts { engine, table, model: Rows::new(), next: 0 };
    live(&mut world, &mut dice, steps, rows_per_block, path);
}

#[test]
fn histories_of_upserts_in_memory_agree_with_the_model() {
    for (seed, rows_per_block) in [(1, 4), (2, 30), (3, 30), (4, 500)] {
        history(seed, 60, rows_per_block, None);
    }
}

#[test]
fn histories_of_upserts_on_disk_agree_with_the_model_through_reopenings() {
    of_seeds(5, 3, |seed, rows_per_block, path| history(seed, 40, rows_per_block, Some(path)));
}

#[test]
fn the_first_of_two_transactions_with_the_same_new_keys_wins() {
    let engine = open_at(None, 10);
    let table = create(&engine);
    let begin = |text: &str| {
        let mut transaction = engine.begin().expect("a transaction");
        put(&mut transaction, table, &[((1, 1), text.to_owned())]);
        transaction
    };
    let (first, second) = (begin("first"), begin("second"));
    first.commit().expect("committed");
    assert_eq!(second.commit().expect_err("a conflict").kind(), ErrorKind::SerializationFailure);
    begin("third").commit().expect("it has seen the first");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), Rows::from([((1, 1), "third".to_owned())]));
}

#[test]
fn a_later_snapshot_of_a_read_committed_transaction_does_not_hide_a_conflict() {
    let engine = open_at(None, 10);
    let table = create(&engine);
    let mut slow = engine.begin().expect("a transaction");
    slow.set_isolation(Isolation::ReadCommitted);
    put(&mut slow, table, &[((1, 1), "slow".to_owned())]);
    let mut fast = engine.begin().expect("a transaction");
    put(&mut fast, table, &[((1, 1), "fast".to_owned())]);
    fast.commit().expect("committed");
    assert_eq!(slow.refresh().expect_err("a conflict").kind(), ErrorKind::SerializationFailure);
}

#[test]
fn a_block_replaces_rows_and_its_own_earlier_rows() {
    struct Columns(Vec<arrow::array::ArrayRef>);
    impl rowmill_txn::BlockSource for Columns {
        fn rows(&self) -> usize {
            self.0[0].len()
        }
        fn column(&self, index: usize) -> rowmill_base::Result<arrow::array::ArrayRef> {
            Ok(Arc::clone(&self.0[index]))
        }
    }
    use arrow::array::{Int64Array, StringViewArray, TimestampMicrosecondArray};
    let engine = open_at(None, 10);
    let table = create(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    put(&mut transaction, table, &[((2, 1), "old".to_owned()), ((9, 1), "stays".to_owned())]);
    transaction.commit().expect("committed");
    let mut transaction = engine.begin().expect("a transaction");
    put(&mut transaction, table, &[((1, 1), "pending".to_owned())]);
    let block = Columns(vec![
        Arc::new(Int64Array::from(vec![1, 1, 1])),
        Arc::new(StringViewArray::from(vec!["first", "second", "third"])),
        Arc::new(TimestampMicrosecondArray::from(vec![2, 1, 2])),
    ]);
    transaction.insert_block(table, &block).expect("inserted");
    let expected = [((1, 1), "second"), ((2, 1), "third"), ((9, 1), "stays")];
    let expected: Rows = expected.into_iter().map(|(key, text)| (key, text.to_owned())).collect();
    assert_eq!(values(&transaction.view().expect("a view"), table), expected);
    transaction.commit().expect("committed");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), expected);
}

#[test]
fn the_last_of_few_and_of_many_rows_with_the_same_time_and_key_stays() {
    let engine = open_at(None, 10_000);
    let table = create(&engine);
    // The first times have more than a hundred rows each, and the last ones two to four. They come in no order.
    let time = |row: i64| if row % 2 == 0 { row * 7 % 5 } else { 10 + row * 31 % 191 };
    let rows: Vec<((i64, i64), String)> =
        (0..1_000).map(|row| ((time(row), row / 2 % 3), format!("row {row}"))).collect();
    for _ in 0..2 {
        let mut transaction = engine.begin().expect("a transaction");
        put(&mut transaction, table, &rows);
        transaction.commit().expect("committed");
        let expected: Rows = rows.iter().cloned().collect();
        assert!(expected.len() > 400, "few rows replace others");
        assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), expected);
    }
}

//! Commits of thousands of rows of a keyed table, in order and not, between others and over them, against a map: their
//! rows become recent versions without a copy, are not looked up where the snapshot has none, and go to the log in
//! slices.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Cancel, ErrorKind, Isolation, TableId};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Engine, Snapshot, Transaction};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, TestRow, create_keyed, open_at, values};

/// Numbers of all rows are below.
const NUMBERS: u64 = 30_000;

type Model = BTreeMap<i64, Option<String>>;

struct Rows {
    engine: Arc<Engine>,
    table: TableId,
    model: Model,
}

fn create(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    table
}

impl Rows {
    /// Inserts rows of which some may be there, which is refused.
    fn insert(&self, transaction: &mut Transaction, model: &mut Model, number: i64, text: &str) {
        let inserted = transaction.insert_row(self.table, &[ValueRef::Int(number), ValueRef::Text(text)]);
        match model.contains_key(&number) {
            true => assert_eq!(inserted.expect_err("it is there").kind(), ErrorKind::UniqueViolation),
            false => {
                inserted.expect("inserted");
                model.insert(number, Some(text.to_owned()));
            }
        }
    }

    fn delete(&self, transaction: &mut Transaction, model: &mut Model, number: i64) {
        let deleted = transaction.delete_by_key(self.table, &[ValueRef::Int(number)]).expect("deleted");
        assert_eq!(deleted, model.remove(&number).is_some());
    }

    fn see(&self, transaction: &Transaction, model: &Model, number: i64) {
        let found = transaction.get(self.table, &[ValueRef::Int(number)]).expect("read");
        assert_eq!(found.is_some(), model.contains_key(&number), "row {number}");
    }
}

impl World for Rows {
    type State = Model;

    fn step(&mut self, dice: &mut Dice) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let isolation = [Isolation::Snapshot, Isolation::Serializable, Isolation::ReadCommitted][dice.place(3)];
        transaction.set_isolation(isolation);
        let mut model = self.model.clone();
        let first = dice.roll(NUMBERS) as i64;
        let (count, apart) = ([3, 30, 1_500, 4_000][dice.place(4)], 1 + dice.roll(3) as i64);
        let order = dice.roll(4);
        let mut undone = None;
        for at in 0..count {
            let at = match order {
                0 => count - 1 - at,
                1 => at * 997 % count,
                _ => at,
            };
            let number = first + at * apart;
            self.insert(&mut transaction, &mut model, number, &format!("row {number} of {first}"));
            match dice.roll(400) {
                0 => self.delete(&mut transaction, &mut model, number - 3 * apart),
                1 => self.see(&transaction, &model, number - dice.roll(20) as i64),
                2 if undone.is_none() && dice.roll(4) == 0 => undone = Some((transaction.savepoint(), model.clone())),
                3 => {
                    if let Some((savepoint, before)) = undone.take() {
                        transaction.rollback_to(&savepoint);
                        model = before;
                    }
                }
                // What a view has stays, and the rows are copied.
                4 if dice.roll(4) == 0 => drop(transaction.keyed_view()),
                _ => {}
            }
        }
        // Another one may have written where this one has looked for nothing.
        let mut written = None;
        if dice.roll(3) == 0 {
            let mut other = self.engine.begin().expect("a transaction");
            let number = first + dice.roll(count as u64 * 2) as i64 * apart;
            let before = self.model.clone();
            let mut after = before.clone();
            match dice.roll(2) {
                0 => self.insert(&mut other, &mut after, number, "of another"),
                _ => self.delete(&mut other, &mut after, number),
            }
            other.commit().expect("committed");
            written = (after != before).then_some(number);
            self.model = after;
        }
        let view = (dice.roll(6) == 0).then(|| transaction.keyed_view());
        match (transaction.commit(), written) {
            (Ok(_), None) => self.model = model,
            (Ok(_), Some(number)) => {
                // It has not written that row, which is as the other has left it.
                model.remove(&number);
                model.extend(self.model.get_key_value(&number).map(|(number, text)| (*number, text.clone())));
                self.model = model;
            }
            (Err(error), written) => {
                assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
                let of_own = first - 3 * apart..first + count * apart;
                let is_lost = |number| isolation == Isolation::Serializable || of_own.contains(&number);
                assert!(written.is_some_and(is_lost), "no other transaction has written these rows: {error}");
            }
        }
        drop(view);
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Model) {
        let expected: Vec<TestRow> = expected.iter().map(|(number, text)| (*number, text.clone())).collect();
        assert!(values(snapshot, self.table) == expected, "rows of commit {:?}", snapshot.commit());
        let codec = snapshot.keyed_codec(self.table).expect("a codec");
        for number in (0..NUMBERS as i64).step_by(1_013) {
            let found = snapshot.get(&codec, &[ValueRef::Int(number)]).expect("read").is_some();
            assert_eq!(found, expected.binary_search_by_key(&number, |row| row.0).is_ok(), "row {number}");
        }
    }

    fn engine(&mut self) -> &mut Arc<Engine> {
        &mut self.engine
    }
}

fn history(seed: u64, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    let engine = open_at(path, rows_per_block);
    let table = create(&engine);
    let mut world = Rows { engine, table, model: Model::new() };
    live(&mut world, &mut Dice(seed), steps, rows_per_block, path);
    let checked = world.engine.check(&Cancel::new()).expect("a check");
    assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
}

#[test]
fn large_commits_in_memory_agree_with_the_model() {
    (1..4).for_each(|seed| history(seed, 40, 50, None));
}

#[test]
fn large_commits_on_disk_agree_with_the_model_through_reopenings_and_kills() {
    of_seeds(5, 3, |seed, rows_per_block, path| history(seed, 30, rows_per_block, Some(path)));
}

/// Where a key that is refused has told where the next one is, those before it are looked up all the same.
#[test]
fn a_refused_key_says_nothing_of_those_before_it() {
    let engine = open_at(None, 50);
    let table = create(&engine);
    let put = |transaction: &mut Transaction, number: i64| {
        transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text("row")])
    };
    let mut transaction = engine.begin().expect("a transaction");
    [100, 200, 300].into_iter().for_each(|number| put(&mut transaction, number).expect("put"));
    transaction.commit().expect("committed");
    // Whichever of the keys in order is the one behind which is looked.
    for keys in 1..64 {
        let mut transaction = engine.begin().expect("a transaction");
        (1..=keys).for_each(|number| put(&mut transaction, number).expect("put"));
        for taken in [200, 100, 300, 100] {
            let refused = put(&mut transaction, taken).expect_err("it is there");
            assert_eq!(refused.kind(), ErrorKind::UniqueViolation, "{taken} behind {keys}");
        }
        put(&mut transaction, 150).expect("put");
        for taken in [200, 100, 300] {
            put(&mut transaction, taken).expect_err("it is there");
        }
    }
}

/// Nor does one that is taken back.
#[test]
fn an_undone_key_says_nothing_of_those_before_it() {
    let engine = open_at(None, 50);
    let table = create(&engine);
    let put = |transaction: &mut Transaction, number: i64| {
        transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text("row")])
    };
    let mut transaction = engine.begin().expect("a transaction");
    [100, 200, 300].into_iter().for_each(|number| put(&mut transaction, number).expect("put"));
    transaction.commit().expect("committed");
    for keys in 0..64 {
        let mut transaction = engine.begin().expect("a transaction");
        (1..=keys).for_each(|number| put(&mut transaction, number).expect("put"));
        let mark = transaction.keyed_mark();
        for undone in [150, 250, 350, 150, 250] {
            (undone..undone + 40).for_each(|number| put(&mut transaction, number).expect("put"));
            transaction.undo_keyed_to(mark);
            for taken in [100, 200, 300] {
                let refused = put(&mut transaction, taken).expect_err("it is there");
                assert_eq!(refused.kind(), ErrorKind::UniqueViolation, "{taken} behind {keys}, {undone} taken back");
            }
        }
        (101..200).for_each(|number| put(&mut transaction, number).expect("put"));
        [200, 199, 300].into_iter().for_each(|taken| drop(put(&mut transaction, taken).expect_err("it is there")));
    }
}

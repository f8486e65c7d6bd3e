//! A random history of a keyed table against a map: rows and both indexes in both directions, transactions that commit
//! or not or lose against another, savepoints, emptying, old snapshots, checkpoints, reopening and kills.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Int32Type, Int64Type};
use rowmill_base::{Cancel, ColumnId, ErrorKind, IndexId, SqlType, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_txn::keyed::{RowBatch, TableCodec};
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, Snapshot, TableSource, Transaction};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, LiveRow, open_at, walk_source};

/// The area, greater ones first, and a number.
type Key = (Reverse<i32>, i64);
/// A name, and a score that no two rows share.
type Rest = (Option<String>, Option<i64>);
type Model = BTreeMap<Key, Rest>;

struct Rows {
    engine: Arc<Engine>,
    table: TableId,
    model: Model,
    steps: usize,
}

fn with_values<T>(key: &Key, rest: &Rest, go: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
    let name = rest.0.as_deref().map_or(ValueRef::Null, ValueRef::Text);
    let score = rest.1.map_or(ValueRef::Null, ValueRef::Int);
    go(&[ValueRef::Int(key.1), name, ValueRef::Int(key.0.0.into()), score])
}

fn key_values(key: &Key) -> [ValueRef<'static>; 2] {
    [ValueRef::Int(key.0.0.into()), ValueRef::Int(key.1)]
}

fn row_of(values: &[ValueRef<'_>]) -> (Key, Rest) {
    let [ValueRef::Int(id), name, ValueRef::Int(area), score] = values else { panic!("{values:?}") };
    let name = match name {
        ValueRef::Text(name) => Some((*name).to_owned()),
        _ => None,
    };
    let score = match score {
        ValueRef::Int(score) => Some(*score),
        _ => None,
    };
    ((Reverse(i32::try_from(*area).expect("an area")), *id), (name, score))
}

fn decode(codec: &TableCodec, rows: &RowBatch, found: &mut Vec<(Key, Rest)>) {
    let mut scratch = Vec::new();
    for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
        found.push(row_of(&codec.values(key, row, &mut scratch).expect("decoded")));
    }
}

fn create(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let columns = vec![
        ColumnSpec::new("id", SqlType::Int64),
        ColumnSpec::new("name", SqlType::TEXT),
        ColumnSpec::new("area", SqlType::Int32),
        ColumnSpec::new("score", SqlType::Int64),
    ];
    let part = |column, descending| KeyColumn { column: ColumnId(column), descending };
    let table = transaction.create_keyed_table(main, "T", columns, &[part(2, true), part(0, false)]).expect("a table");
    let names = IndexSpec { name: "names".into(), parts: vec![part(1, true)], unique: false };
    transaction.create_index(table, names).expect("an index");
    let scores = IndexSpec { name: "scores".into(), parts: vec![part(3, false)], unique: true };
    transaction.create_index(table, scores).expect("an index");
    transaction.commit().expect("committed");
    table
}

fn indexes(snapshot: &Snapshot, table: TableId) -> Vec<IndexId> {
    let def = snapshot.catalog().table_by_id(table).expect("the table");
    def.keyed.iter().flat_map(|keyed| &keyed.indexes).map(|index| index.id).collect()
}

/// A name as the index orders it: descending, NULL first.
fn name_order((key, rest): &(Key, Rest)) -> (Reverse<(bool, Option<String>)>, Key) {
    (Reverse((rest.0.is_none(), rest.0.clone())), *key)
}

fn score_order((key, rest): &(Key, Rest)) -> (bool, Option<i64>, Key) {
    (rest.1.is_none(), rest.1, *key)
}

fn agree(snapshot: &Snapshot, table: TableId, model: &Model) {
    let codec = snapshot.keyed_codec(table).expect("a codec");
    let ids = indexes(snapshot, table);
    for (index, backward) in [(None, false), (None, true), (Some(0), false), (Some(0), true), (Some(1), true)] {
        let id = index.map(|index| ids[index]);
        let mut cursor = snapshot.keyed_cursor(&codec, id, KeyRange::default(), backward).expect("a cursor");
        let (mut rows, mut found) = (RowBatch::default(), Vec::new());
        loop {
            snapshot.next_rows(&codec, &mut cursor, 7, &mut rows).expect("read");
            if rows.is_empty() {
                break;
            }
            decode(&codec, &rows, &mut found);
        }
        let mut expected: Vec<(Key, Rest)> = model.iter().map(|(key, rest)| (*key, rest.clone())).collect();
        match index {
            Some(0) => expected.sort_by_key(name_order),
            Some(_) => expected.sort_by_key(score_order),
            None => {}
        }
        if backward {
            expected.reverse();
        }
        assert_eq!(found, expected, "by index {index:?}, backward: {backward}");
    }
}

/// The rows of the column copy, if there is one for the snapshot.
fn copy_agrees(snapshot: &Snapshot, table: TableId, model: &Model) {
    let source = snapshot.table(table).expect("the table exists");
    let Some(copy) = source.keyed().expect("a keyed table").column_copy(&[0, 1, 2, 3]) else { return };
    let mut found = Model::new();
    let each = &mut |columns: &[ArrayRef], live: &[LiveRow]| {
        let (ids, areas) = (columns[0].as_primitive::<Int64Type>(), columns[2].as_primitive::<Int32Type>());
        let (names, scores) = (columns[1].as_string_view(), columns[3].as_primitive::<Int64Type>());
        for (row, _) in live {
            let name = names.is_valid(*row).then(|| names.value(*row).to_owned());
            let score = scores.is_valid(*row).then(|| scores.value(*row));
            let before = found.insert((Reverse(areas.value(*row)), ids.value(*row)), (name, score));
            assert_eq!(before, None, "a row is there twice");
        }
    };
    walk_source(&*copy, each).expect("the copy is read");
    assert_eq!(&found, model, "the column copy has other rows");
}

impl Rows {
    fn key(&self, dice: &mut Dice) -> Key {
        match dice.roll(3) {
            0 if !self.model.is_empty() => {
                *self.model.keys().nth(dice.place(self.model.len())).expect("it has so many")
            }
            _ => (Reverse(dice.roll(3) as i32 - 1), dice.roll(60) as i64),
        }
    }

    fn rest(dice: &mut Dice) -> Rest {
        let name = (dice.roll(5) > 0).then(|| ["", "a", "a\0b", "b", "other"][dice.place(5)].to_owned());
        (name, (dice.roll(3) > 0).then(|| dice.roll(200) as i64))
    }

    /// One change by the transaction and by the model; both refuse it, or none.
    fn change(&self, transaction: &mut Transaction, model: &mut Model, dice: &mut Dice) {
        let (table, key, rest) = (self.table, self.key(dice), Self::rest(dice));
        let is_taken = |model: &Model, but: Option<&Key>| {
            rest.1.is_some() && model.iter().any(|(key, other)| Some(key) != but && other.1 == rest.1)
        };
        let refused = |done: rowmill_base::Result<()>, is_refused: bool| match done {
            Ok(()) => assert!(!is_refused, "{key:?} {rest:?} was not refused"),
            Err(error) => {
                assert!(is_refused, "{error}");
                assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::UniqueViolation, "23505"));
            }
        };
        match dice.roll(10) {
            0..4 => {
                let is_refused = model.contains_key(&key) || is_taken(model, None);
                refused(with_values(&key, &rest, |values| transaction.insert_row(table, values)), is_refused);
                if !is_refused {
                    model.insert(key, rest);
                }
            }
            4..8 => {
                let old = self.key(dice);
                let found = transaction.get(table, &key_values(&old)).expect("looked up");
                assert_eq!(found.is_some(), model.contains_key(&old));
                let Some(found) = found else { return };
                let key = if dice.roll(2) == 0 { old } else { key };
                let is_refused = key != old && model.contains_key(&key) || is_taken(model, Some(&old));
                let how = dice.roll(4);
                let rest = match (how, &model[&old]) {
                    (0, before) => (rest.0.clone(), before.1),
                    (1, before) => (before.0.clone(), rest.1),
                    _ => rest.clone(),
                };
                let is_refused = is_refused && (how != 0 || key != old && model.contains_key(&key));
                let done = with_values(&key, &rest, |values| match how {
                    0 | 1 if key == old => {
                        // Only the column that changes is read, so the others may have any value.
                        let column = if how == 0 { 1 } else { 3 };
                        let mut one = [ValueRef::Null; 4];
                        one[column] = values[column];
                        let codec = transaction.keyed_codec(table)?;
                        transaction.update_columns(&codec, &found.key, &found.row, &[column], &one)
                    }
                    2 => {
                        let codec = transaction.keyed_codec(table)?;
                        transaction.update_columns(&codec, &found.key, &found.row, &[0, 1, 2, 3], values)
                    }
                    _ => transaction.update_row(table, &found, values),
                });
                refused(done, is_refused);
                if !is_refused {
                    model.remove(&old);
                    model.insert(key, rest);
                }
            }
            8 if dice.roll(12) == 0 => {
                assert_eq!(transaction.truncate(table).expect("emptied"), model.len() as u64);
                model.clear();
            }
            _ => {
                let was_there = transaction.delete_by_key(table, &key_values(&key)).expect("deleted");
                assert_eq!(was_there, model.remove(&key).is_some());
            }
        }
    }
}

/// What a transaction sees itself.
fn agree_within(transaction: &mut Transaction, table: TableId, model: &Model) {
    let codec = transaction.keyed_codec(table).expect("a codec");
    for backward in [false, true] {
        let mut cursor = transaction.keyed_cursor(table, None, KeyRange::default(), backward).expect("a cursor");
        let (mut rows, mut found) = (RowBatch::default(), Vec::new());
        loop {
            transaction.next_rows(&mut cursor, 5, &mut rows).expect("read");
            if rows.is_empty() {
                break;
            }
            decode(&codec, &rows, &mut found);
        }
        if backward {
            found.reverse();
        }
        assert!(found.iter().map(|(key, rest)| (key, rest)).eq(model), "{found:?} and not {model:?}");
    }
}

impl World for Rows {
    type State = Model;

    fn step(&mut self, dice: &mut Dice) {
        self.steps += 1;
        let mut transaction = self.engine.begin().expect("a transaction");
        let mut other = self.engine.begin().expect("a transaction");
        let mut model = self.model.clone();
        for _ in 0..[1, 2, 5, 30][dice.place(4)] {
            let (before, savepoint) = (model.clone(), transaction.savepoint());
            self.change(&mut transaction, &mut model, dice);
            if dice.roll(6) == 0 {
                transaction.rollback_to(&savepoint);
                model = before;
            }
        }
        agree_within(&mut transaction, self.table, &model);
        // Another one with the same beginning deletes a row, and commits after this one or, if that is undone, alone.
        let victim = self.model.keys().nth(dice.place(self.model.len())).copied();
        let was_there = victim.map(|victim| other.delete_by_key(self.table, &key_values(&victim)).expect("deleted"));
        assert_ne!(was_there, Some(false));
        if dice.roll(4) == 0 {
            transaction.rollback();
        } else {
            let before = std::mem::replace(&mut self.model, model);
            transaction.commit().expect("committed");
            if dice.roll(3) == 0 {
                self.engine.checkpoint().expect("a checkpoint");
            }
            if let Some(victim) = victim.filter(|victim| before.get(victim) != self.model.get(victim)) {
                let error = other.commit().expect_err("the row was changed meanwhile");
                assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::SerializationFailure, "40001"), "{victim:?}");
                return;
            }
        }
        match other.commit() {
            Ok(_) => {
                if let Some(victim) = victim {
                    self.model.remove(&victim);
                }
            }
            // The row was written as it was, or the table emptied and it came back.
            Err(error) => assert_eq!(error.kind(), ErrorKind::SerializationFailure),
        }
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Model) {
        agree(snapshot, self.table, expected);
        // In some histories, queries read column copies.
        if self.engine.rows_per_block() != 300 {
            self.engine.set("column_copy_rows", "1").expect("a setting");
            self.engine.wait_for_column_copies();
            copy_agrees(snapshot, self.table, expected);
        }
        if self.steps.is_multiple_of(9) {
            let checked = self.engine.check(&Cancel::new()).expect("a check");
            assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
        }
    }

    fn engine(&mut self) -> &mut Arc<Engine> {
        &mut self.engine
    }
}

pub(crate) fn history(seed: u64, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    let mut dice = Dice(seed);
    let engine = open_at(path, rows_per_block);
    let table = create(&engine);
    let mut world = Rows { engine, table, model: Model::new(), steps: 0 };
    live(&mut world, &mut dice, steps, rows_per_block, path);
}

#[test]
fn keyed_histories_in_memory_agree_with_the_model() {
    (1..4).for_each(|seed| history(seed, 80, 50, None));
}

#[test]
fn keyed_histories_on_disk_agree_with_the_model_through_reopenings_and_kills() {
    of_seeds(5, 3, |seed, rows_per_block, path| history(seed, 60, rows_per_block, Some(path)));
}

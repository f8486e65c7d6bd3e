//! Indexes of texts of thousands of bytes that begin alike, against a map: order and ranges in both directions, unique
//! ones, what transactions see themselves and what makes them fail, through checkpoints, reopenings and kills.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Cancel, ColumnId, ErrorKind, IndexId, Isolation, SqlType, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_txn::base::{OrderedBase, TreeBase, WriteBatch};
use rowmill_txn::keyed::{RowBatch, TableCodec};
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, OpenOptions, Snapshot, Transaction};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, open, open_at, settings};

/// A name.
type Key = String;
/// An address, an area, a note.
type Rest = (Option<String>, i64, Option<String>);
type Model = BTreeMap<Key, Rest>;
type Row = (Key, Rest);

/// The columns of each index, whether they descend, and whether no two rows have the same.
const INDEXES: [(&[(u32, bool)], bool); 4] = [
    (&[(1, true)], false),
    (&[(1, false), (2, false)], true),
    (&[(2, false), (1, false), (3, true)], false),
    (&[(3, false), (1, false)], false),
];

/// A value as it is compared.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(Option<String>),
    Int(i64),
}

impl Value {
    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Text(text) => text.as_deref().map_or(ValueRef::Null, ValueRef::Text),
            Value::Int(value) => ValueRef::Int(*value),
        }
    }

    /// NULLS LAST.
    fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => (a.is_none(), a).cmp(&(b.is_none(), b)),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            _ => panic!("{self:?} beside {other:?}"),
        }
    }
}

fn value((key, rest): &Row, column: u32) -> Value {
    match column {
        0 => Value::Text(Some(key.clone())),
        1 => Value::Text(rest.0.clone()),
        2 => Value::Int(rest.1),
        _ => Value::Text(rest.2.clone()),
    }
}

fn compare(index: usize, a: &Row, b: &Row) -> Ordering {
    let parts = INDEXES[index].0.iter().map(|(column, descending)| {
        let ascending = value(a, *column).compare(&value(b, *column));
        if *descending { ascending.reverse() } else { ascending }
    });
    parts.fold(Ordering::Equal, Ordering::then).then_with(|| a.0.cmp(&b.0))
}

/// Texts of up to 5,000 bytes, of which many begin alike.
fn text(dice: &mut Dice) -> String {
    let bytes =
        [0, 1, 500, 1_017, 1_018, 1_019, 1_020, 1_021, 1_022, 1_023, 1_024, 1_025, 2_000, 4_990][dice.place(14)];
    let of = ["p", "p", "p", "\0", "é"][dice.place(5)];
    let end = ["", "a", "b", "c", "\0", "\0\0", "é", "\u{10ffff}", "a\0c"][dice.place(9)];
    of.repeat(bytes / of.len()) + end
}

fn with_values<T>((key, rest): &Row, go: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
    let text = |text: &Option<String>| Value::Text(text.clone());
    let (url, note) = (text(&rest.0), text(&rest.2));
    go(&[ValueRef::Text(key), url.as_ref(), ValueRef::Int(rest.1), note.as_ref()])
}

fn row_of(values: &[ValueRef<'_>]) -> Row {
    let text = |value: &ValueRef<'_>| match value {
        ValueRef::Text(text) => Some((*text).to_owned()),
        _ => None,
    };
    let [key, url, ValueRef::Int(area), note] = values else { panic!("{values:?}") };
    (text(key).expect("a name"), (text(url), *area, text(note)))
}

fn create(engine: &Arc<Engine>) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let columns = vec![
        ColumnSpec::new("name", SqlType::TEXT),
        ColumnSpec::new("url", SqlType::TEXT),
        ColumnSpec::new("area", SqlType::Int64),
        ColumnSpec::new("note", SqlType::TEXT),
    ];
    let part = |(column, descending): &(u32, bool)| KeyColumn { column: ColumnId(*column), descending: *descending };
    let table = transaction.create_keyed_table(main, "T", columns, &[part(&(0, false))]).expect("a table");
    for (number, (parts, unique)) in INDEXES.iter().enumerate() {
        let parts = parts.iter().map(part).collect();
        let spec = IndexSpec { name: format!("by{number}"), parts, unique: *unique };
        transaction.create_index(table, spec).expect("an index");
    }
    transaction.commit().expect("committed");
    table
}

fn indexes(codec: &TableCodec) -> Vec<IndexId> {
    codec.def().keyed.iter().flat_map(|keyed| &keyed.indexes).map(|index| index.id).collect()
}

/// A question to an index: the values of its first columns, and bounds of the next one.
struct Asked {
    index: usize,
    equal: Vec<Value>,
    lower: Bound<Value>,
    upper: Bound<Value>,
    backward: bool,
}

impl Asked {
    fn everything(index: usize, backward: bool) -> Asked {
        Asked { index, equal: Vec::new(), lower: Bound::Unbounded, upper: Bound::Unbounded, backward }
    }

    fn some(model: &Model, dice: &mut Dice) -> Asked {
        let index = dice.place(INDEXES.len());
        let mut asked = Asked::everything(index, dice.roll(2) == 0);
        let row = |dice: &mut Dice| -> Row {
            let known = model.iter().nth(dice.place(model.len().max(1)));
            match known.filter(|_| dice.roll(4) > 0) {
                Some((key, rest)) => (key.clone(), rest.clone()),
                None => (String::new(), (Some(text(dice)), dice.roll(2) as i64, Some(text(dice)))),
            }
        };
        let (parts, of) = (INDEXES[index].0, row(dice));
        asked.equal = parts[..dice.place(parts.len() + 1)].iter().map(|(column, _)| value(&of, *column)).collect();
        if let Some((column, _)) = parts.get(asked.equal.len()) {
            let bound = |dice: &mut Dice| match (dice.roll(3), value(&row(dice), *column)) {
                (0, _) | (_, Value::Text(None)) => Bound::Unbounded,
                (1, value) => Bound::Included(value),
                (_, value) => Bound::Excluded(value),
            };
            (asked.lower, asked.upper) = (bound(dice), bound(dice));
        }
        asked
    }

    fn has(&self, row: &Row) -> bool {
        let parts = INDEXES[self.index].0;
        let are_equal = self.equal.iter().zip(parts).all(|(equal, (column, _))| value(row, *column) == *equal);
        let Some((column, _)) = parts.get(self.equal.len()) else { return are_equal };
        let value = value(row, *column);
        let above = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => value.compare(bound).is_ge(),
            Bound::Excluded(bound) => value.compare(bound).is_gt(),
        };
        let below = match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => value.compare(bound).is_le(),
            Bound::Excluded(bound) => value.compare(bound).is_lt(),
        };
        // With a bound there are no NULLs.
        let is_bounded = (&self.lower, &self.upper) != (&Bound::Unbounded, &Bound::Unbounded);
        are_equal && above && below && !(is_bounded && value == Value::Text(None))
    }

    fn expected(&self, model: &Model) -> Vec<Row> {
        let rows = model.iter().map(|(key, rest)| (key.clone(), rest.clone()));
        let mut rows: Vec<Row> = rows.filter(|row| self.has(row)).collect();
        rows.sort_by(|a, b| compare(self.index, a, b));
        if self.backward {
            rows.reverse();
        }
        rows
    }

    fn range(&self, codec: &TableCodec) -> (IndexId, KeyRange) {
        let index = indexes(codec)[self.index];
        let (head, keys) = codec.keys(Some(index)).expect("its keys");
        let equal: Vec<_> = self.equal.iter().map(Value::as_ref).collect();
        let bound = |bound| match bound {
            &Bound::Unbounded => Bound::Unbounded,
            Bound::Included(value) => Bound::Included(Value::as_ref(value)),
            Bound::Excluded(value) => Bound::Excluded(Value::as_ref(value)),
        };
        let mut range = KeyRange::default();
        keys.range(head, &equal, bound(&self.lower), bound(&self.upper), &mut range).expect("a range");
        (index, range)
    }
}

fn brief(rows: &[Row]) -> Vec<String> {
    let text = |text: &Option<String>| {
        let of = |text: &String| format!("{}:{:?}", text.len(), text.chars().rev().take(4).collect::<String>());
        text.as_ref().map_or("NULL".to_owned(), of)
    };
    rows.iter()
        .map(|(key, (url, area, note))| format!("{} {} {area} {}", text(&Some(key.clone())), text(url), text(note)))
        .collect()
}

fn decode(codec: &TableCodec, rows: &RowBatch, found: &mut Vec<Row>) {
    let mut scratch = Vec::new();
    for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
        found.push(row_of(&codec.values(key, row, &mut scratch).expect("decoded")));
    }
}

fn agree(snapshot: &Snapshot, table: TableId, model: &Model, asked: &Asked) {
    let codec = snapshot.keyed_codec(table).expect("a codec");
    let (index, range) = asked.range(&codec);
    let mut cursor = snapshot.keyed_cursor(&codec, Some(index), range, asked.backward).expect("a cursor");
    let (mut rows, mut found) = (RowBatch::default(), Vec::new());
    loop {
        snapshot.next_rows(&codec, &mut cursor, 3, &mut rows).expect("read");
        if rows.is_empty() {
            break;
        }
        decode(&codec, &rows, &mut found);
    }
    let expected = asked.expected(model);
    let said = format!("index {}, backward: {}", asked.index, asked.backward);
    assert!(found == expected, "{said}: {:#?} and not {:#?}", brief(&found), brief(&expected));
}

fn agree_within(transaction: &Transaction, table: TableId, model: &Model, asked: &Asked) {
    let codec = transaction.keyed_codec(table).expect("a codec");
    let (index, range) = asked.range(&codec);
    let mut cursor = transaction.keyed_cursor(table, Some(index), range, asked.backward).expect("a cursor");
    let (mut rows, mut found) = (RowBatch::default(), Vec::new());
    loop {
        transaction.next_rows(&mut cursor, 5, &mut rows).expect("read");
        if rows.is_empty() {
            break;
        }
        decode(&codec, &rows, &mut found);
    }
    let expected = asked.expected(model);
    assert!(found == expected, "index {}: {:#?} and not {:#?}", asked.index, brief(&found), brief(&expected));
}

struct Addresses {
    engine: Arc<Engine>,
    table: TableId,
    model: Model,
    steps: usize,
    dice: Dice,
}

impl Addresses {
    fn row(&self, dice: &mut Dice) -> Row {
        // A name of hundreds of bytes behind the columns is where one ends that is read by mistake.
        let key = ["", "n", "n\0", "nn"][dice.place(4)].to_owned() + &"m".repeat([0, 1, 30, 600][dice.place(4)]);
        let url = (dice.roll(6) > 0).then(|| text(dice));
        (key, (url, dice.roll(2) as i64, (dice.roll(4) > 0).then(|| text(dice))))
    }

    /// One change by the transaction and by the model; both refuse it, or none.
    fn change(&self, transaction: &mut Transaction, model: &mut Model, dice: &mut Dice) {
        let row = self.row(dice);
        let is_taken = |but: Option<&Key>| {
            row.1.0.is_some()
                && model.iter().any(|(key, rest)| Some(key) != but && (&rest.0, rest.1) == (&row.1.0, row.1.1))
        };
        let (done, is_refused) = match dice.roll(8) {
            0..4 => {
                let is_refused = model.contains_key(&row.0) || is_taken(None);
                (with_values(&row, |values| transaction.insert_row(self.table, values)), is_refused)
            }
            4..7 => {
                let Some(old) = model.keys().nth(dice.place(model.len().max(1))).cloned() else { return };
                let found = transaction.get(self.table, &[ValueRef::Text(&old)]).expect("looked up").expect("a row");
                let row = (if dice.roll(2) == 0 { old.clone() } else { row.0.clone() }, row.1.clone());
                let is_refused = row.0 != old && model.contains_key(&row.0) || is_taken(Some(&old));
                let done = with_values(&row, |values| match row.0 == old {
                    true => {
                        let codec = transaction.keyed_codec(self.table)?;
                        transaction.update_columns(&codec, &found.key, &found.row, &[1, 2, 3], values)
                    }
                    false => transaction.update_row(self.table, &found, values),
                });
                if done.is_ok() && !is_refused {
                    model.remove(&old);
                    model.insert(row.0, row.1);
                    return;
                }
                (done, is_refused)
            }
            _ => {
                let was_there = transaction.delete_by_key(self.table, &[ValueRef::Text(&row.0)]).expect("deleted");
                assert_eq!(was_there, model.remove(&row.0).is_some());
                return;
            }
        };
        match done {
            Ok(()) => {
                assert!(!is_refused, "{:?} was not refused", brief(&[row]));
                model.insert(row.0, row.1);
            }
            Err(error) => {
                assert!(is_refused, "{error}");
                assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::UniqueViolation, "23505"));
            }
        }
    }
}

impl World for Addresses {
    type State = Model;

    fn step(&mut self, dice: &mut Dice) {
        self.steps += 1;
        let mut transaction = self.engine.begin().expect("a transaction");
        let mut model = self.model.clone();
        for _ in 0..[1, 3, 12][dice.place(3)] {
            let (before, savepoint) = (model.clone(), transaction.savepoint());
            self.change(&mut transaction, &mut model, dice);
            if dice.roll(8) == 0 {
                transaction.rollback_to(&savepoint);
                model = before;
            }
        }
        (0..3).for_each(|_| agree_within(&transaction, self.table, &model, &Asked::some(&model, dice)));
        if dice.roll(5) == 0 {
            transaction.rollback();
            return;
        }
        transaction.commit().expect("committed");
        self.model = model;
        if dice.roll(3) == 0 {
            self.engine.checkpoint().expect("a checkpoint");
        }
        for _ in 0..4 {
            self.dice.0 = dice.roll(u64::MAX);
        }
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Model) {
        let mut dice = Dice(self.dice.0);
        let index = self.steps % INDEXES.len();
        agree(snapshot, self.table, expected, &Asked::everything(index, false));
        agree(snapshot, self.table, expected, &Asked::everything(index, true));
        (0..12).for_each(|_| agree(snapshot, self.table, expected, &Asked::some(expected, &mut dice)));
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
    let mut world = Addresses { engine, table, model: Model::new(), steps: 0, dice: Dice(seed) };
    live(&mut world, &mut dice, steps, rows_per_block, path);
}

#[test]
fn histories_of_long_keys_in_memory_agree_with_the_model() {
    (1..4).for_each(|seed| history(seed, 60, 50, None));
}

#[test]
fn histories_of_long_keys_on_disk_agree_with_the_model_through_reopenings_and_kills() {
    of_seeds(11, 3, |seed, rows_per_block, path| history(seed, 50, rows_per_block, Some(path)));
}

/// A table of numbers and texts with an index of the texts.
fn numbered(engine: &Arc<Engine>, unique: bool) -> (TableId, IndexId) {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let columns = vec![ColumnSpec::new("number", SqlType::Int64), ColumnSpec::new("text", SqlType::TEXT)];
    let part = |column| KeyColumn { column: ColumnId(column), descending: false };
    let table = transaction.create_keyed_table(main, "N", columns, &[part(0)]).expect("a table");
    let spec = IndexSpec { name: "texts".into(), parts: vec![part(1)], unique };
    let index = transaction.create_index(table, spec).expect("an index");
    transaction.commit().expect("committed");
    (table, index)
}

fn put(transaction: &mut Transaction, table: TableId, number: i64, text: &str) -> rowmill_base::Result<()> {
    transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(text)])
}

#[test]
fn more_values_that_begin_alike_than_are_held_at_a_time_come_in_order() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let (table, index) = numbered(&engine, false);
    let mut transaction = engine.begin().expect("a transaction");
    // 12 MB of them, each twice.
    let text = |value: i64| format!("{}{value:05}", "p".repeat(4_900));
    for number in 0..4_800_i64 {
        put(&mut transaction, table, number, &text(number * 7 % 2_400)).expect("put");
    }
    transaction.commit().expect("committed");
    let snapshot = engine.snapshot().expect("a snapshot");
    let codec = snapshot.keyed_codec(table).expect("a codec");
    for backward in [false, true] {
        let mut cursor = snapshot.keyed_cursor(&codec, Some(index), KeyRange::default(), backward).expect("a cursor");
        let (mut rows, mut found) = (RowBatch::default(), Vec::new());
        loop {
            snapshot.next_rows(&codec, &mut cursor, 100, &mut rows).expect("read");
            if rows.is_empty() {
                break;
            }
            for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                let mut scratch = Vec::new();
                let value = codec.column(key, row, 0, &mut scratch).expect("a value");
                let ValueRef::Int(number) = value else { panic!("{value:?}") };
                found.push((number * 7 % 2_400, number));
            }
        }
        if backward {
            found.reverse();
        }
        assert_eq!(found.len(), 4_800);
        assert!(found.is_sorted(), "backward: {backward}");
    }
}

#[test]
fn what_was_read_of_long_keys_is_validated() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let (table, index) = numbered(&engine, false);
    let long = |end: &str| "p".repeat(3_000) + end;
    let mut first = engine.begin().expect("a transaction");
    put(&mut first, table, 1, &long("b")).expect("put");
    put(&mut first, table, 2, "q").expect("put");
    first.commit().expect("committed");
    // Reads one value of which there is no row, or a range between two; another one writes into it, or beside it.
    for (number, lower, upper, written, is_conflict) in [
        (10, "a", "a", long("a"), true),
        (11, "a", "a", "other".to_owned(), false),
        (12, "a", "c", long("ba"), true),
        (13, "a", "c", "o".repeat(3_000), false),
    ] {
        let mut reading = engine.begin().expect("a transaction");
        reading.set_isolation(Isolation::Serializable);
        reading.refresh().expect("a snapshot");
        let codec = reading.keyed_codec(table).expect("a codec");
        let (head, keys) = codec.keys(Some(index)).expect("its keys");
        let (lower, upper) = (long(lower), long(upper));
        let mut range = KeyRange::default();
        let (from, to) = (Bound::Included(ValueRef::Text(&lower)), Bound::Included(ValueRef::Text(&upper)));
        keys.range(head, &[], from, to, &mut range).expect("a range");
        let mut cursor = reading.keyed_cursor(table, Some(index), range, false).expect("a cursor");
        let mut rows = RowBatch::default();
        reading.next_rows(&mut cursor, 10, &mut rows).expect("read");
        put(&mut reading, table, number + 100, "done").expect("put");
        let mut writing = engine.begin().expect("a transaction");
        put(&mut writing, table, number, &written).expect("put");
        writing.commit().expect("committed");
        let committed = reading.commit().map(drop).map_err(|error| error.sqlstate());
        assert_eq!(committed, if is_conflict { Err("40001") } else { Ok(()) }, "{number}");
    }
}

#[test]
fn of_two_that_write_one_long_unique_value_one_loses() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let (table, _) = numbered(&engine, true);
    let long = |end: &str| "p".repeat(5_000) + end;
    let begin = || engine.begin().expect("a transaction");
    let (mut one, mut two, mut three) = (begin(), begin(), begin());
    put(&mut one, table, 1, &long("a")).expect("put");
    put(&mut two, table, 2, &long("a")).expect("put");
    put(&mut three, table, 3, &long("b")).expect("put");
    let error = put(&mut one, table, 4, &long("a")).expect_err("taken");
    assert_eq!(error.sqlstate(), "23505");
    assert!(error.message().contains("'ppp") && error.message().len() < 300, "{error}");
    one.commit().expect("committed");
    assert_eq!(two.commit().expect_err("written meanwhile").sqlstate(), "40001");
    three.commit().expect("another value");
    // Rows with NULL are never alike, and two that write them do not meet.
    let error = put(&mut begin(), table, 5, &long("b")).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
}

#[test]
fn long_values_beside_null_are_not_unique() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let columns = vec![
        ColumnSpec::new("number", SqlType::Int64),
        ColumnSpec::new("text", SqlType::TEXT),
        ColumnSpec::new("other", SqlType::Int64),
    ];
    let part = |column| KeyColumn { column: ColumnId(column), descending: column == 1 };
    let table = transaction.create_keyed_table(main, "N", columns, &[part(0)]).expect("a table");
    let spec = IndexSpec { name: "both".into(), parts: vec![part(1), part(2)], unique: true };
    transaction.create_index(table, spec).expect("an index");
    transaction.commit().expect("committed");
    let long = "p".repeat(4_000);
    let row = |number, other| [ValueRef::Int(number), ValueRef::Text(&long), other];
    let begin = || engine.begin().expect("a transaction");
    let (mut one, mut two) = (begin(), begin());
    one.insert_row(table, &row(1, ValueRef::Null)).expect("put");
    one.insert_row(table, &row(2, ValueRef::Null)).expect("NULL is no value");
    two.insert_row(table, &row(3, ValueRef::Null)).expect("put");
    one.commit().expect("committed");
    two.commit().expect("they do not meet");
    let mut last = begin();
    last.insert_row(table, &row(4, ValueRef::Int(1))).expect("put");
    assert_eq!(last.insert_row(table, &row(5, ValueRef::Int(1))).expect_err("taken").sqlstate(), "23505");
}

#[test]
fn what_is_too_long_for_the_primary_key_is_refused_with_what_helps() {
    let engine = Engine::memory(settings(50)).expect("a database in memory");
    let table = create(&engine);
    let mut transaction = engine.begin().expect("a transaction");
    let row = |key: usize, url: usize| ("k".repeat(key), (Some("u".repeat(url)), 1, None));
    let mut put = |row: &Row| with_values(row, |values| transaction.insert_row(table, values));
    let error = put(&row(1_900, 1)).expect_err("too long");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::KeyTooLong, "54000"));
    assert!(error.message().contains("primary key of table T") && error.to_string().contains("UNIQUE"), "{error}");
    let error = put(&row(1_000, 3_000)).expect_err("too long");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::KeyTooLong, "54000"));
    assert!(error.message().contains("index by") && error.message().contains("1900"), "{error}");
    put(&row(850, 5_000)).expect("the index's own columns may be as long as they like");
    put(&row(1_700, 10)).expect("and so may be the primary key beside short ones");
    let long = "u".repeat(1_500);
    let (codec, mut key) = (transaction.keyed_codec(table).expect("a codec"), Vec::new());
    let index = indexes(&codec)[1];
    // Of some of the columns nothing is kept that a key would begin with.
    let error = codec.encode_key(Some(index), &[ValueRef::Text(&long)], &mut key).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::KeyTooLong);
    codec.encode_key(Some(index), &[ValueRef::Text(&long), ValueRef::Int(1)], &mut key).expect("of all it is");
}

#[test]
fn a_directory_of_version_3_is_read_and_its_indexes_take_what_they_took_until_they_are_made_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 50);
    let (table, index) = numbered(&engine, true);
    let mut transaction = engine.begin().expect("a transaction");
    for number in 0..100 {
        put(&mut transaction, table, number, &format!("text {number}")).expect("put");
    }
    transaction.commit().expect("committed");
    drop(engine);

    // What version 3 would have written: another head, and of an index whether it is unique.
    let head = |base: &TreeBase| base.read().expect("a read").get(b"m").expect("read").expect("the head");
    let base = TreeBase::open(folder.path(), false).expect("the base opens");
    let (of_this, mut key) = (head(&base), b"T".to_vec());
    key.extend_from_slice(&table.0.to_be_bytes());
    let mut def = base.read().expect("a read").get(&key).expect("read").expect("the table");
    let flags = def.windows(5).rposition(|word| word == b"texts").expect("the index") + 5;
    // It is unique, shortens long keys, and is no constraint.
    assert_eq!(std::mem::replace(&mut def[flags], 1), 7);
    let mut batch = WriteBatch::new();
    batch.put(b"m".to_vec(), [&3_u32.to_le_bytes()[..], &of_this[4..]].concat());
    batch.put(key, def);
    base.write(&batch, base.commit_id().expect("a commit")).expect("written");
    drop(base);

    let options = |read_only| OpenOptions { read_only, settings: settings(50), ..OpenOptions::default() };
    let long = "p".repeat(3_000);
    for read_only in [true, false] {
        let engine = Engine::open(folder.path(), options(read_only)).expect("opened");
        let snapshot = engine.snapshot().expect("a snapshot");
        let codec = snapshot.keyed_codec(table).expect("a codec");
        let mut cursor = snapshot.keyed_cursor(&codec, Some(index), KeyRange::default(), false).expect("a cursor");
        let mut rows = RowBatch::default();
        snapshot.next_rows(&codec, &mut cursor, 1_000, &mut rows).expect("read");
        assert_eq!(rows.len(), 100);
        if read_only {
            continue;
        }
        let mut transaction = engine.begin().expect("a transaction");
        let error = put(&mut transaction, table, 100, &long).expect_err("too long for it");
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::KeyTooLong, "54000"));
        assert!(error.to_string().contains("create it again"), "{error}");
        transaction.drop_index(table, index).expect("dropped");
        let parts = vec![KeyColumn { column: ColumnId(1), descending: false }];
        let spec = IndexSpec { name: "texts".into(), parts, unique: true };
        transaction.create_index(table, spec).expect("made anew");
        put(&mut transaction, table, 100, &long).expect("it is shortened");
        transaction.commit().expect("committed");
        let checked = engine.check(&Cancel::new()).expect("a check");
        assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
    }
    let base = TreeBase::open(folder.path(), false).expect("the base opens");
    assert_eq!(head(&base)[..4], of_this[..4], "a version that knows no short keys must not write here");
}

//! Tests of long values with equal hashes. We know of no two such values, so the tests write entries at the places
//! where they would be. Also tests indexes of the previous version, which keep long keys whole.

use rowmill_base::{Cancel, ColumnId, ErrorKind, IndexId, Settings, SqlType};
use rowmill_storage::keyed::{KeyRange, SHORT_BYTES, ValueRef};
use rowmill_storage::{ColumnSpec, KeyColumn};

use super::*;
use crate::keyed::{HEAD_BYTES, RowBatch};
use crate::{Engine, ForeignKeyDef, IndexSpec, MAIN_SCHEMA, ReferentialAction};

fn long(end: &str) -> String {
    "p".repeat(2_000) + end
}

/// A table of numbers and texts, with a unique index on the texts.
fn world() -> (Arc<Engine>, TableId, IndexId) {
    let engine = Engine::memory(Settings::default()).expect("a database in memory");
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always exists").id;
    let columns = vec![ColumnSpec::new("number", SqlType::Int64), ColumnSpec::new("text", SqlType::TEXT)];
    let part = |column| KeyColumn { column: ColumnId(column), descending: false };
    let table = transaction.create_keyed_table(main, "N", columns, &[part(0)]).expect("a table");
    let spec = IndexSpec { name: "texts".into(), parts: vec![part(1)], unique: true };
    let index = transaction.create_index(table, spec).expect("an index");
    transaction.commit().expect("committed");
    (engine, table, index)
}

/// The entry of a row in the index.
fn entry(codec: &TableCodec, index: IndexId, number: i64, text: &str) -> Vec<u8> {
    let (key, mut entry) = (codec.key_of(&[ValueRef::Int(number)]).expect("a key"), Vec::new());
    let index = codec.index(index).expect("an index");
    codec.encode_entry(index, |_| ValueRef::Text(text), &key, &mut entry).expect("an entry");
    entry
}

/// Replaces the entry of a row by one with the hash of another text, `of`.
fn forge(transaction: &mut Transaction, table: TableId, index: IndexId, number: i64, text: &str, of: &str) {
    let codec = transaction.keyed_codec(table).expect("a codec");
    transaction.start_keyed_change(&codec).expect("a change");
    transaction.put(&entry(&codec, index, number, text), None);
    transaction.put(&entry(&codec, index, number, of), Some(&[]));
}

fn numbers(transaction: &Transaction, table: TableId, index: IndexId, backward: bool) -> Vec<i64> {
    let codec = transaction.keyed_codec(table).expect("a codec");
    let mut cursor = transaction.keyed_cursor(table, Some(index), KeyRange::default(), backward).expect("a cursor");
    let (mut rows, mut scratch) = (RowBatch::default(), Vec::new());
    transaction.next_rows(&mut cursor, 100, &mut rows).expect("read");
    let number = |(key, row)| match codec.column(key, row, 0, &mut scratch).expect("a value") {
        ValueRef::Int(number) => number,
        other => panic!("{other:?}"),
    };
    rows.keys().iter().zip(rows.rows().iter()).map(number).collect()
}

#[test]
fn values_with_equal_hashes_stay_distinct_and_in_order() {
    let (engine, table, index) = world();
    let mut transaction = engine.begin().expect("a transaction");
    let put = |transaction: &mut Transaction, number, text: &str| {
        transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(text)])
    };
    for (number, end) in [(1, "d"), (2, "c"), (3, "a")] {
        put(&mut transaction, number, &long(end)).expect("put");
        forge(&mut transaction, table, index, number, &long(end), &long("b"));
    }
    // All three entries have the hash of "b", but no row has the value "b".
    put(&mut transaction, 4, &long("b")).expect("no other row has the value");
    let error = put(&mut transaction, 5, &long("b")).expect_err("row 4 has the value");
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(numbers(&transaction, table, index, false), [3, 4, 2, 1]);
    assert_eq!(numbers(&transaction, table, index, true), [1, 2, 4, 3]);

    let codec = transaction.keyed_codec(table).expect("a codec");
    let (head, keys) = codec.keys(Some(index)).expect("its keys");
    for (end, expected) in [("b", vec![4]), ("e", vec![])] {
        let (text, mut range) = (long(end), KeyRange::default());
        let unbounded = std::ops::Bound::Unbounded;
        keys.range(head, &[ValueRef::Text(&text)], unbounded, unbounded, &mut range).expect("a range");
        let mut cursor = transaction.keyed_cursor(table, Some(index), range, false).expect("a cursor");
        let mut rows = RowBatch::default();
        transaction.next_rows(&mut cursor, 10, &mut rows).expect("read");
        let found: Vec<_> = rows.keys().iter().map(<[u8]>::to_vec).collect();
        let expected: Vec<_> =
            expected.iter().map(|number| codec.key_of(&[ValueRef::Int(*number)]).expect("a key")).collect();
        assert_eq!(found, expected);
    }
    transaction.commit().expect("committed");
}

#[test]
fn a_foreign_key_distinguishes_values_with_equal_hashes() {
    for on_delete in [ReferentialAction::Restrict, ReferentialAction::Cascade] {
        let (engine, parents, of_parents) = world();
        let mut transaction = engine.begin().expect("a transaction");
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always exists").id;
        let columns = vec![ColumnSpec::new("number", SqlType::Int64), ColumnSpec::new("text", SqlType::TEXT)];
        let part = KeyColumn { column: ColumnId(0), descending: false };
        let children = transaction.create_keyed_table(main, "C", columns, &[part]).expect("a table");
        let key = ForeignKeyDef {
            name: "of".into(),
            columns: vec![ColumnId(1)],
            parent: parents,
            parent_columns: vec![ColumnId(1)],
            on_delete,
            on_update: ReferentialAction::Restrict,
        };
        transaction.add_foreign_key(children, key, "texts of C").expect("a foreign key");
        let codec = transaction.keyed_codec(children).expect("a codec");
        let of_children = codec.indexes().first().expect("the foreign key creates an index").def.id;
        let put = |transaction: &mut Transaction, table, number, text: &str| {
            transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(text)]).expect("put");
        };

        // The entry of "d" is where the one of "b" would be, but no row has the value "b".
        put(&mut transaction, parents, 1, &long("d"));
        put(&mut transaction, children, 11, &long("d"));
        forge(&mut transaction, parents, of_parents, 1, &long("d"), &long("b"));
        forge(&mut transaction, children, of_children, 11, &long("d"), &long("b"));
        let before = transaction.savepoint();
        put(&mut transaction, children, 12, &long("b"));
        let error = transaction.settle_references().expect_err("the parent with the same hash has another value");
        assert_eq!(error.kind(), ErrorKind::ForeignKeyViolation);
        transaction.rollback_to(&before);

        put(&mut transaction, parents, 2, &long("b"));
        put(&mut transaction, children, 12, &long("b"));
        transaction.settle_references().expect("it has a parent");
        if on_delete == ReferentialAction::Restrict {
            let before = transaction.savepoint();
            assert!(transaction.delete_by_key(parents, &[ValueRef::Int(2)]).expect("deleted"));
            let error = transaction.settle_references().expect_err("a child refers to it");
            assert_eq!(error.kind(), ErrorKind::ForeignKeyViolation);
            transaction.rollback_to(&before);
            assert!(transaction.delete_by_key(children, &[ValueRef::Int(12)]).expect("deleted"));
        }
        assert!(transaction.delete_by_key(parents, &[ValueRef::Int(2)]).expect("deleted"));
        transaction.settle_references().expect("the other child does not refer to the deleted row");
        assert_eq!(numbers(&transaction, children, of_children, false), [11]);
        transaction.commit().expect("committed");
    }
}

#[test]
fn a_check_finds_misplaced_and_duplicate_index_entries() {
    let (engine, table, index) = world();
    let problems = || -> Vec<String> {
        let checked = engine.check(&Cancel::new()).expect("a check");
        checked.into_iter().filter_map(|found| found.problem).map(|problem| problem.to_string()).collect()
    };
    let mut transaction = engine.begin().expect("a transaction");
    for number in 1..5 {
        let text = long(&number.to_string());
        transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(&text)]).expect("put");
    }
    transaction.commit().expect("committed");
    assert_eq!(problems(), Vec::<String>::new());

    let mut transaction = engine.begin().expect("a transaction");
    forge(&mut transaction, table, index, 1, &long("1"), &long("x"));
    // A row that was written without looking at the unique index.
    let codec = transaction.keyed_codec(table).expect("a codec");
    let (mut key, mut row, text) = (Vec::new(), Vec::new(), long("4"));
    codec.encode_row(&[ValueRef::Int(9), ValueRef::Text(&text)], &mut key, &mut row).expect("a row");
    transaction.put(&key, Some(&row));
    let twice = entry(&codec, index, 9, &text);
    assert_eq!(twice[..HEAD_BYTES + SHORT_BYTES], entry(&codec, index, 4, &text)[..HEAD_BYTES + SHORT_BYTES]);
    transaction.put(&twice, Some(&[]));
    transaction.commit().expect("committed");
    let problems = problems();
    let says = |words: &str| problems.iter().any(|problem| problem.contains(words));
    assert!(says("is not in index texts") && says("there is no such row") && says("twice"), "{problems:?}");
}

#[test]
fn an_index_of_the_previous_version_keeps_whole_keys_until_it_is_recreated() {
    let (engine, table, index) = world();
    let mut transaction = engine.begin().expect("a transaction");
    let def = Arc::clone(transaction.keyed_codec(table).expect("a codec").def());
    let mut keyed = def.keyed.as_deref().expect("a keyed table").clone();
    keyed.indexes[0].shortens = false;
    transaction.redefine(table, keyed).expect("redefined");
    let put = |transaction: &mut Transaction, number, text: &str| {
        transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text(text)])
    };
    let text = "p".repeat(1_800);
    put(&mut transaction, 1, &(text.clone() + "b")).expect("it fits");
    put(&mut transaction, 2, &(text.clone() + "a")).expect("it fits");
    assert_eq!(numbers(&transaction, table, index, false), [2, 1]);
    let error = put(&mut transaction, 3, &(text.clone() + "b")).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    let error = put(&mut transaction, 3, &long("c")).expect_err("too long");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::KeyTooLong, "54000"));
    assert!(error.to_string().contains("create it again"), "{error}");
    transaction.commit().expect("committed");

    let mut transaction = engine.begin().expect("a transaction");
    transaction.drop_index(table, index).expect("dropped");
    let parts = vec![KeyColumn { column: ColumnId(1), descending: false }];
    let anew = transaction.create_index(table, IndexSpec { name: "anew".into(), parts, unique: true });
    let anew = anew.expect("an index");
    put(&mut transaction, 3, &long("c")).expect("it is shortened");
    assert_eq!(numbers(&transaction, table, anew, false), [2, 1, 3]);
    transaction.commit().expect("committed");
}

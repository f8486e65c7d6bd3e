//! Two transactions at once: first committer wins, and only where it matters.

use std::sync::Arc;

use rowmill_base::{ColumnId, ErrorKind, SqlType};
use rowmill_txn::{ColumnSpec, Engine, MAIN_SCHEMA};

use crate::support::{create, insert, read, settings, values};

fn engine() -> Arc<Engine> {
    Engine::memory(settings(4)).expect("a database in memory")
}

#[test]
fn inserts_do_not_meet() {
    let engine = engine();
    let table = create(&engine, "T");
    let mut a = engine.begin().expect("a");
    let mut b = engine.begin().expect("b");
    insert(&mut a, table, &[(1, None)]);
    insert(&mut b, table, &[(2, None)]);
    b.commit().expect("b commits");
    a.commit().expect("a commits");
    let rows = read(&engine.snapshot().expect("a snapshot"), table).expect("read");
    assert_eq!(rows, [(0, (2, None)), (1, (1, None))], "rows are numbered as they are committed");
}

#[test]
fn the_second_to_delete_a_row_has_to_try_again() {
    let engine = engine();
    let table = create(&engine, "T");
    let mut fill = engine.begin().expect("fill");
    insert(&mut fill, table, &(0..10).map(|n| (n, None)).collect::<Vec<_>>());
    fill.commit().expect("filled");
    let mut a = engine.begin().expect("a");
    let mut b = engine.begin().expect("b");
    let mut c = engine.begin().expect("c");
    a.delete(table, &[1, 8]).expect("marked");
    b.delete(table, &[8]).expect("marked");
    c.delete(table, &[7]).expect("marked");
    a.commit().expect("the first wins");
    assert_eq!(b.commit().unwrap_err().kind(), ErrorKind::SerializationFailure);
    c.commit().expect("another row is no conflict");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table).len(), 7);
}

#[test]
fn a_changed_definition_stops_writers_of_the_table_and_no_others() {
    let engine = engine();
    let table = create(&engine, "T");
    let other = create(&engine, "Other");
    let mut a = engine.begin().expect("a");
    let mut b = engine.begin().expect("b");
    insert(&mut a, table, &[(1, None)]);
    insert(&mut b, other, &[(1, None)]);
    let mut ddl = engine.begin().expect("ddl");
    ddl.add_column(table, ColumnSpec::new("More", SqlType::Int32)).expect("added");
    ddl.commit().expect("committed");
    assert_eq!(a.commit().unwrap_err().kind(), ErrorKind::SerializationFailure);
    b.commit().expect("another table");
}

#[test]
fn two_tables_of_one_name_are_not_both_made() {
    let engine = engine();
    let mut a = engine.begin().expect("a");
    let mut b = engine.begin().expect("b");
    for transaction in [&mut a, &mut b] {
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
        transaction.create_table(main, "Twice", vec![ColumnSpec::new("x", SqlType::Int32)]).expect("new");
    }
    a.commit().expect("the first wins");
    assert_eq!(b.commit().unwrap_err().kind(), ErrorKind::SerializationFailure);
}

#[test]
fn null_and_length_are_checked_where_rows_enter() {
    let engine = engine();
    let table = create(&engine, "T");
    let mut transaction = engine.begin().expect("a transaction");
    transaction.set_nullable(table, ColumnId(1), false).expect("no rows yet");
    let error = transaction.insert(table, &crate::support::batch(&[(1, None)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotNullViolation);
    assert!(error.message().contains("Text"), "{error}");
}

#[test]
fn rows_deleted_by_their_own_transaction_stay_deleted_as_it_goes_on() {
    let engine = Engine::memory(settings(1_000)).expect("a database in memory");
    let table = create(&engine, "T");
    let mut transaction = engine.begin().expect("a transaction");
    let mut expected = Vec::new();
    for number in 0..100 {
        // A view makes a run of its own of each row, and runs are joined as they gather.
        insert(&mut transaction, table, &[(number, None)]);
        let view = transaction.view().expect("a view");
        expected.push((number, None));
        if number % 3 == 1 {
            let (row, _) = read(&view, table).expect("read").pop().expect("the row just inserted");
            assert_eq!(transaction.delete(table, &[row]).expect("deleted"), 1);
            expected.pop();
        }
        assert_eq!(values(&transaction.view().expect("a view"), table), expected, "after row {number}");
    }
    transaction.commit().expect("committed");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), expected);
}

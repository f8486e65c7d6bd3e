//! Column copies of keyed tables: when they are made and used, and that they have the rows of their snapshot while
//! writers and checkpoints go on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use rowmill_base::TableId;
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Engine, Snapshot, TableSource};

use crate::support::{Dice, TestRow, create_keyed, insert, open, open_at, read, walk_source};

/// The table `K` with the numbers up to `count`.
fn keyed(engine: &Arc<Engine>, count: i64) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    let rows: Vec<TestRow> = (0..count).map(|number| (number, Some(format!("text {}", number % 7)))).collect();
    insert(&mut transaction, table, &rows);
    transaction.commit().expect("committed");
    table
}

fn copy_of(snapshot: &Snapshot, table: TableId) -> Option<Arc<dyn TableSource>> {
    snapshot.table(table).expect("the table").keyed().expect("a keyed table").column_copy(&[0, 1])
}

fn rows_of(copy: &dyn TableSource) -> BTreeMap<i64, Option<String>> {
    let mut rows = BTreeMap::new();
    let each = &mut |columns: &[arrow::array::ArrayRef], live: &[(usize, u64)]| {
        let (numbers, texts) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string_view());
        for (row, _) in live {
            let text = texts.is_valid(*row).then(|| texts.value(*row).to_owned());
            assert_eq!(rows.insert(numbers.value(*row), text), None, "a row is there twice");
        }
    };
    walk_source(copy, each).expect("the copy is read");
    rows
}

/// Asserts that the copy has the rows of the snapshot. Returns whether there is a copy.
fn assert_same(snapshot: &Snapshot, table: TableId) -> bool {
    let Some(copy) = copy_of(snapshot, table) else { return false };
    let expected: BTreeMap<_, _> = read(snapshot, table).expect("read").into_iter().map(|(_, row)| row).collect();
    assert_eq!(rows_of(&*copy), expected);
    true
}

fn change(engine: &Arc<Engine>, table: TableId, numbers: impl Iterator<Item = i64>, text: Option<&str>) {
    let mut transaction = engine.begin().expect("a transaction");
    for number in numbers {
        match transaction.get(table, &[ValueRef::Int(number)]).expect("looked up") {
            Some(row) if text.is_some() => {
                let values = [ValueRef::Int(number), text.map_or(ValueRef::Null, ValueRef::Text)];
                transaction.update_row(table, &row, &values).expect("updated");
            }
            Some(_) => {
                transaction.delete_by_key(table, &[ValueRef::Int(number)]).expect("deleted");
            }
            None => insert(&mut transaction, table, &[(number, text.map(str::to_owned))]),
        }
    }
    transaction.commit().expect("committed");
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_copy(engine: &Arc<Engine>, table: TableId) -> bool {
    let source = engine.snapshot().expect("a snapshot").table(table).expect("the table");
    source.keyed().expect("a keyed table").has_column_copy(&[0, 1])
}

#[test]
fn a_table_that_is_read_as_a_whole_gets_a_copy_and_keeps_it_until_many_rows_have_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 4_096);
    let table = keyed(&engine, 20_000);
    engine.set("column_copy_rows", "20000").expect("a setting");
    let ask = || copy_of(&engine.snapshot().expect("a snapshot"), table);
    assert!(ask().is_none() && !has_copy(&engine, table));
    assert!(ask().is_none(), "the second read asks for a copy");
    wait_until("a copy is made", || has_copy(&engine, table));
    assert_eq!(ask().expect("a copy").blocks().len(), 5);
    assert!(engine.temp().files().iter().any(|file| file.owner == "a column copy"));

    let old = engine.snapshot().expect("a snapshot");
    change(&engine, table, 100..150, Some("other"));
    change(&engine, table, 19_990..20_010, None);
    engine.checkpoint().expect("a checkpoint");
    change(&engine, table, 140..160, Some("another"));
    let now = engine.snapshot().expect("a snapshot");
    assert!(assert_same(&now, table) && assert_same(&old, table));
    assert_eq!(
        copy_of(&now, table).expect("a copy").runs()[0].rows(),
        70,
        "changed and new rows, without deleted ones"
    );

    change(&engine, table, 1_000..3_000, Some("changed"));
    assert!(!has_copy(&engine, table), "more than one row in 16 has changed");
    engine.checkpoint().expect("a checkpoint");
    assert!(!assert_same(&engine.snapshot().expect("a snapshot"), table));
    // After these changes the pace is too high for the first reads.
    wait_until("another copy is made", || ask().is_some());
    assert!(assert_same(&engine.snapshot().expect("a snapshot"), table));

    // A reader keeps the files of a copy that is gone.
    let held = ask().expect("a copy");
    let mut transaction = engine.begin().expect("a transaction");
    transaction.truncate(table).expect("emptied");
    insert(&mut transaction, table, &[(1, None)]);
    transaction.commit().expect("committed");
    engine.checkpoint().expect("a checkpoint");
    assert!(!has_copy(&engine, table));
    assert_eq!(rows_of(&*held).len(), 20_000);
    drop((held, old, now));
    wait_until("the files are gone", || engine.temp().files().is_empty());
    assert_eq!(engine.temp().quota().used_bytes(), 0);
}

#[test]
fn texts_are_copied_when_a_query_has_read_them() {
    let engine = Engine::memory(Default::default()).expect("a database in memory");
    let table = keyed(&engine, 5_000);
    engine.set("column_copy_rows", "5000").expect("a setting");
    let snapshot = engine.snapshot().expect("a snapshot");
    let source = snapshot.table(table).expect("the table");
    let rows = source.keyed().expect("a keyed table");
    assert!(rows.column_copy(&[0]).is_none() && rows.column_copy(&[]).is_none());
    wait_until("a copy is made", || rows.has_column_copy(&[0]));
    let copy = rows.column_copy(&[0]).expect("a copy");
    assert!(copy.blocks()[0].chunk(source.table(), 1).expect("read").is_none(), "no query has read the texts");
    assert!(!rows.has_column_copy(&[1]) && rows.column_copy(&[1]).is_none() && rows.column_copy(&[1, 0]).is_none());
    wait_until("a copy with texts is made", || rows.has_column_copy(&[0, 1]));
    assert!(assert_same(&snapshot, table));
}

#[test]
fn a_table_that_changes_fast_has_no_copy() {
    let engine = Engine::memory(Default::default()).expect("a database in memory");
    let table = keyed(&engine, 10_000);
    engine.set("column_copy_rows", "1").expect("a setting");
    let ask = || copy_of(&engine.snapshot().expect("a snapshot"), table);
    for turn in 0..10 {
        assert!(ask().is_none());
        change(&engine, table, turn * 200..turn * 200 + 200, Some("changed"));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(!has_copy(&engine, table), "after ten reads, more than one row in 16 has changed");
    (0..4).for_each(|_| drop(ask()));
    wait_until("a copy is made", || has_copy(&engine, table));
    assert!(assert_same(&engine.snapshot().expect("a snapshot"), table));
}

#[test]
fn a_transaction_with_writes_of_its_own_and_a_database_without_copies_read_the_rows() {
    let engine = Engine::memory(Default::default()).expect("a database in memory");
    let table = keyed(&engine, 1_000);
    engine.set("column_copy_rows", "1").expect("a setting");
    engine.wait_for_column_copies();
    assert!(assert_same(&engine.snapshot().expect("a snapshot"), table));
    let mut transaction = engine.begin().expect("a transaction");
    assert!(assert_same(&transaction.view().expect("a view"), table));
    transaction.delete_by_key(table, &[ValueRef::Int(7)]).expect("deleted");
    assert!(copy_of(&transaction.view().expect("a view"), table).is_none());
    transaction.rollback();
    engine.set("column_copy_rows", "0").expect("a setting");
    assert!(copy_of(&engine.snapshot().expect("a snapshot"), table).is_none());
    assert!(engine.temp().files().is_empty());
}

/// Without disk space or memory there is no copy, and nothing fails.
#[test]
fn a_copy_that_cannot_be_made_is_no_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 1_000);
    let table = keyed(&engine, 5_000);
    engine.set("column_copy_rows", "1").expect("a setting");
    engine.wait_for_column_copies();
    // Each of the five blocks has 24,000 bytes before it is encoded: a quarter of the second limit.
    for limit in ["8192", "100000"] {
        engine.set("temp_disk_limit", limit).expect("a setting");
        assert!(copy_of(&engine.snapshot().expect("a snapshot"), table).is_none());
        assert_eq!(engine.temp().quota().used_bytes(), 0);
    }
    engine.set("temp_disk_limit", "100000000").expect("a setting");
    assert!(assert_same(&engine.snapshot().expect("a snapshot"), table));
}

fn readers_beside_writers(path: Option<&Path>) {
    let engine = open_at(path, 500);
    let table = keyed(&engine, 3_000);
    engine.set("column_copy_rows", "1").expect("a setting");
    engine.wait_for_column_copies();
    let is_over = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_millis(1_200);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut dice, mut dropped) = (Dice(3), Instant::now());
            while Instant::now() < until {
                let first = dice.roll(3_200) as i64;
                let text = ["a", "b", "c"][dice.place(3)];
                change(&engine, table, first..first + dice.roll(20) as i64, (dice.roll(3) > 0).then_some(text));
                if dice.roll(10) == 0 {
                    engine.checkpoint().expect("a checkpoint");
                }
                // Another copy from time to time, while readers use the one before.
                if dropped.elapsed() > Duration::from_millis(300) {
                    engine.set("column_copy_rows", "0").expect("a setting");
                    engine.set("column_copy_rows", "1").expect("a setting");
                    dropped = Instant::now();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut copies = 0;
        let mut held: Vec<Arc<Snapshot>> = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let snapshot = engine.snapshot().expect("a snapshot");
            copies += usize::from(assert_same(&snapshot, table));
            held.push(snapshot);
            if held.len() > 5 {
                let old = held.remove(0);
                copies += usize::from(assert_same(&old, table));
            }
        }
        assert!(copies > 5, "only {copies} reads found a copy");
    });
}

#[test]
fn copies_have_the_rows_of_their_snapshots_beside_writers_and_checkpoints() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    readers_beside_writers(Some(folder.path()));
    readers_beside_writers(None);
}

//! Processes that read beside the one that writes: each snapshot stays readable to its end, sees what was committed
//! when it began, and holds space back no longer than it lives.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill_base::TableId;
use rowmill_storage::PAGE_BYTES;
use rowmill_txn::{Engine, TableSource};

use crate::other_process::{Reader, digest};
use crate::space::named_bytes;
use crate::support::{TestRow, create, insert, open, read, values};

const ROWS_PER_BLOCK: usize = 100;

fn rows(first: i64, count: i64) -> Vec<TestRow> {
    (first..first + count).map(|n| (n, Some(format!("a text that is somewhat longer {n}")))).collect()
}

fn add(engine: &Arc<Engine>, table: TableId, first: i64, count: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows(first, count));
    transaction.commit().expect("committed");
}

/// Gives every row for which `chosen` another number.
fn update(engine: &Arc<Engine>, table: TableId, chosen: impl Fn(i64) -> bool) {
    let mut transaction = engine.begin().expect("a transaction");
    let view = transaction.view().expect("a view");
    let old: Vec<(u64, TestRow)> =
        read(&view, table).expect("read").into_iter().filter(|(_, row)| chosen(row.0)).collect();
    transaction.delete(table, &old.iter().map(|(number, _)| *number).collect::<Vec<_>>()).expect("deleted");
    let new: Vec<TestRow> = old.into_iter().map(|(_, (number, text))| (number + 1_000_000, text)).collect();
    insert(&mut transaction, table, &new);
    transaction.commit().expect("committed");
}

fn truncate(engine: &Arc<Engine>, table: TableId) {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.truncate(table).expect("truncated");
    transaction.commit().expect("committed");
}

fn drop_table(engine: &Arc<Engine>, table: TableId) {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.drop_table(table).expect("dropped");
    transaction.commit().expect("committed");
}

fn drop_text(engine: &Arc<Engine>, table: TableId) {
    let mut transaction = engine.begin().expect("a transaction");
    let column = transaction.base().table(table).expect("the table").table().columns[1].id;
    transaction.drop_column(table, column).expect("dropped");
    transaction.commit().expect("committed");
}

fn now(engine: &Engine, table: TableId) -> String {
    digest(&values(&engine.snapshot().expect("a snapshot"), table))
}

/// Waits until the background merge has left no sparse block in the table.
fn wait_for_merge(engine: &Engine, table: TableId) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let snapshot = engine.snapshot().expect("a snapshot");
        let found = snapshot.table(table).expect("the table");
        if found.blocks().iter().all(|block| block.live_rows() * 4 >= block.rows() * 3) {
            return;
        }
        assert!(Instant::now() < until, "sparse blocks are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes of the pages of column files that hold anything. The blocks of a file are no measure after many holes: some
/// file systems keep the list of a file's pieces in a block of its own.
fn data_bytes(engine: &Engine) -> u64 {
    let tables = engine.path().expect("on disk").join("tables");
    let files = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let pages = |file: PathBuf| {
        let bytes = fs::read(file).expect("a file");
        bytes.chunks(PAGE_BYTES as usize).filter(|page| page.iter().any(|byte| *byte != 0)).count() as u64
    };
    files(&tables).iter().flat_map(|folder| files(folder)).map(pages).sum::<u64>() * PAGE_BYTES
}

/// Makes checkpoints until the disk has exactly the extents that the manifest names: a running merge has written
/// extents that no manifest names yet.
fn assert_no_waste(engine: &Engine) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        engine.checkpoint().expect("a checkpoint");
        let (disk, named) = (data_bytes(engine), named_bytes(engine));
        if disk == named {
            return;
        }
        assert!(Instant::now() < until, "{disk} bytes on disk, {named} named");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_snapshot_of_another_process_outlives_what_is_done_to_its_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tables = folder.path().join("tables");
    let mut engine = open(folder.path(), ROWS_PER_BLOCK);
    let [updated, dropped, emptied, narrowed] = ["A", "B", "C", "D"].map(|name| create(&engine, name));
    let all = [updated, dropped, emptied, narrowed];
    all.iter().for_each(|table| add(&engine, *table, 0, 1_000));
    let before = digest(&rows(0, 1_000));

    // One reader has mapped its columns before anything happens to them, the other touches nothing until the end.
    let (mut reader, mut late) = (Reader::start(folder.path()), Reader::start(folder.path()));
    reader.hold("old");
    all.iter().for_each(|table| assert_eq!(reader.held("old", *table), before));
    late.hold("old");

    update(&engine, updated, |n| n % 2 == 0);
    drop_table(&engine, dropped);
    truncate(&engine, emptied);
    drop_text(&engine, narrowed);
    wait_for_merge(&engine, updated);
    engine.checkpoint().expect("a checkpoint");
    add(&engine, emptied, 5_000, 300);
    assert!(data_bytes(&engine) > named_bytes(&engine), "the reader holds space back");
    assert_eq!(reader.now(updated), now(&engine, updated));
    assert_eq!(reader.now(dropped), "no table");
    assert_eq!(reader.now(emptied), digest(&rows(5_000, 300)));

    for round in 1..4 {
        all.iter().for_each(|table| assert_eq!(reader.held("old", *table), before));
        drop(engine);
        engine = open(folder.path(), ROWS_PER_BLOCK);
        add(&engine, updated, round * 10_000, 1_000);
        update(&engine, updated, |n| n % 3 == 0);
        truncate(&engine, emptied);
        add(&engine, emptied, round * 10_000, 500);
        engine.checkpoint().expect("a checkpoint");
        assert_eq!(reader.now(updated), now(&engine, updated));
    }
    all.iter().for_each(|table| assert_eq!(late.held("old", *table), before));
    assert!(data_bytes(&engine) > named_bytes(&engine), "the reader holds space back");

    reader.release("old");
    late.release("old");
    wait_for_merge(&engine, updated);
    assert_no_waste(&engine);
    assert!(!tables.join(dropped.to_string()).exists(), "the dropped table is gone");
    assert!(!tables.join(narrowed.to_string()).join("1.col").exists(), "the dropped column is gone");
    assert_eq!(reader.now(updated), now(&engine, updated));
    assert_eq!(reader.now(emptied), digest(&rows(30_000, 500)));
}

#[test]
fn an_idle_reader_holds_nothing_back_and_follows_a_file_that_was_emptied() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    let mut reader = Reader::start(folder.path());
    for round in 0..10 {
        let first = round * 1_000;
        add(&engine, table, first, 100 * (round % 4 + 1));
        assert_eq!(reader.now(table), digest(&rows(first, 100 * (round % 4 + 1))));
        truncate(&engine, table);
        assert_no_waste(&engine);
        assert_eq!(data_bytes(&engine), 0);
        if round % 3 == 0 {
            assert_eq!(reader.now(table), digest(&[]));
        }
    }
}

#[test]
fn a_reader_that_died_holds_nothing_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    add(&engine, table, 0, 1_000);
    let mut reader = Reader::start(folder.path());
    reader.hold("all");
    truncate(&engine, table);
    engine.checkpoint().expect("a checkpoint");
    assert!(data_bytes(&engine) > 0);
    reader.kill();
    assert_no_waste(&engine);
}

#[test]
fn readers_come_and_go_while_rows_are_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut engine = open(folder.path(), ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    add(&engine, table, 0, 500);
    let mut readers = [Reader::start(folder.path()), Reader::start(folder.path())];
    let mut expected = [String::new(), String::new()];
    for round in 0_i64..60 {
        let index = (round % 2) as usize;
        let reader = &mut readers[index];
        if round >= 2 {
            assert_eq!(reader.held("old", table), expected[index], "round {round}");
            reader.release("old");
        }
        if round % 7 == 0 {
            reader.reopen();
        }
        reader.hold("old");
        expected[index] = now(&engine, table);
        truncate(&engine, table);
        add(&engine, table, round * 1_000, 200 + round % 5 * 150);
        update(&engine, table, |n| n % 3 == round % 3);
        if round % 11 == 10 {
            drop(engine);
            engine = open(folder.path(), ROWS_PER_BLOCK);
        }
    }
    readers.iter_mut().for_each(|reader| reader.release("old"));
    wait_for_merge(&engine, table);
    assert_no_waste(&engine);
}

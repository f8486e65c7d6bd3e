//! The memory limit: held memory is counted, released memory is given back, and a refusal names the step that asked.

use std::sync::Arc;

use rowmill_base::{ErrorKind, TableId};
use rowmill_txn::{Engine, OpenOptions, TableSource};

use crate::support::{TestRow, batch, create, insert, settings, values};

const LIMIT: u64 = 16 << 20;

fn open_limited(path: &std::path::Path, rows_per_block: usize) -> Arc<Engine> {
    let mut settings = settings(rows_per_block);
    settings.set("memory_limit", "16MiB").expect("the least limit");
    Engine::open(path, OpenOptions { settings, ..OpenOptions::default() }).expect("the directory opens")
}

/// Rows of about half a kilobyte.
fn wide(first: i64, count: i64) -> Vec<TestRow> {
    (first..first + count).map(|n| (n, Some(format!("{n:0500}")))).collect()
}

/// The memory of the rows of open blocks. While no statement runs, nothing else may take memory.
fn open_bytes(engine: &Engine) -> u64 {
    let snapshot = engine.snapshot().expect("a snapshot");
    let tables = snapshot.catalog().all_tables().filter_map(|def| snapshot.table(def.id));
    tables.flat_map(|table| table.runs().to_vec()).map(|run| run.memory_bytes()).sum()
}

fn live_rows(engine: &Engine, table: TableId) -> u64 {
    engine.snapshot().expect("a snapshot").table(table).expect("the table").row_count()
}

#[test]
fn a_transaction_counts_what_it_gathers_and_gives_it_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open_limited(folder.path(), 10_000);
    let tables = [create(&engine, "A"), create(&engine, "B")];
    for commit in [false, true] {
        let mut transaction = engine.begin().expect("a transaction");
        tables.iter().for_each(|table| insert(&mut transaction, *table, &wide(0, 1_000)));
        let gathered = engine.broker().used_bytes();
        assert!(gathered > 1_000_000, "{gathered} bytes are counted");
        let savepoint = transaction.savepoint();
        transaction.view().expect("a view");
        assert_eq!(engine.broker().used_bytes(), gathered, "pending rows have become runs");
        // Filling a block of one table gives back nothing of the other.
        insert(&mut transaction, tables[1], &wide(1_000, 10_000));
        assert!(engine.broker().used_bytes() >= gathered);
        transaction.rollback_to(&savepoint);
        drop(savepoint);
        assert_eq!(engine.broker().used_bytes(), gathered);
        match commit {
            true => drop(transaction.commit().expect("committed")),
            false => transaction.rollback(),
        }
        assert_eq!(engine.broker().used_bytes(), open_bytes(&engine));
        assert_eq!(open_bytes(&engine) > 0, commit);
    }
    drop(engine);
    let engine = open_limited(folder.path(), 10_000);
    assert_eq!(engine.broker().used_bytes(), open_bytes(&engine));
    assert!(open_bytes(&engine) > 1_000_000);
}

#[test]
fn more_rows_than_the_memory_holds_become_smaller_blocks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open_limited(folder.path(), 1 << 19);
    let table = create(&engine, "T");
    let mut transaction = engine.begin().expect("a transaction");
    for part in 0..50 {
        insert(&mut transaction, table, &wide(part * 2_000, 2_000));
        assert!(engine.broker().used_bytes() <= LIMIT);
    }
    transaction.commit().expect("committed");
    assert_eq!(live_rows(&engine, table), 100_000);
    let snapshot = engine.snapshot().expect("a snapshot");
    let all = values(&snapshot, table);
    assert!(all.iter().map(|(number, _)| *number).eq(0..100_000), "all rows are there, in order");
    // A block is encoded column by column, for a moment beyond the limit if need be.
    let peak = engine.broker().peak_bytes();
    assert!(peak < LIMIT * 4, "{peak} bytes at most");
}

#[test]
fn rows_one_by_one_are_refused_at_the_limit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open_limited(folder.path(), 1 << 19);
    let table = create(&engine, "T");
    let mut transaction = engine.begin().expect("a transaction");
    let mut inserted = 0;
    let error = loop {
        assert!(inserted < 100_000, "the limit holds");
        match transaction.insert(table, &batch(&wide(inserted, 1_000))) {
            Ok(()) => inserted += 1_000,
            Err(error) => break error,
        }
        // A statement that reads turns pending rows into runs, and those stay in memory.
        transaction.view().expect("a view");
    };
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert!(error.message().starts_with("rows of an open transaction with 0 bytes asked for"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("memory_limit")));
    assert!(inserted > 10_000, "{inserted} rows fit");
    transaction.rollback();
    assert_eq!(engine.broker().used_bytes(), 0);
    let mut next = engine.begin().expect("a transaction");
    insert(&mut next, table, &wide(0, 10));
    next.commit().expect("the database goes on");
}

#[test]
fn open_blocks_are_sealed_early_where_memory_is_short() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open_limited(folder.path(), 1 << 19);
    let tables = [create(&engine, "A"), create(&engine, "B"), create(&engine, "C")];
    for round in 0..60 {
        for table in tables {
            let mut transaction = engine.begin().expect("a transaction");
            insert(&mut transaction, table, &wide(round * 500, 500));
            transaction.commit().expect("committed");
            assert!(open_bytes(&engine) < LIMIT * 3 / 4, "{} bytes of open rows", open_bytes(&engine));
        }
    }
    for table in tables {
        let snapshot = engine.snapshot().expect("a snapshot");
        assert!(values(&snapshot, table).iter().map(|(number, _)| *number).eq(0..30_000));
    }
}

#[test]
fn a_database_in_memory_keeps_its_blocks_within_the_limit() {
    let mut settings = settings(1_000);
    settings.set("memory_limit", "16MiB").expect("the least limit");
    let engine = Engine::memory(settings).expect("a database in memory");
    let table = create(&engine, "T");
    let rows = |first: i64| -> Vec<TestRow> {
        // Digits of a product repeat nowhere, so the blocks are about as large as the rows.
        let text = |n: i64| (0..30).map(move |i| format!("{:016x}", (n * 31 + i).wrapping_mul(-7046029254386353131)));
        (first..first + 1_000).map(|n| (n, Some(text(n).collect()))).collect()
    };
    let mut committed = 0;
    let error = loop {
        assert!(committed < 200, "the limit holds");
        let mut transaction = engine.begin().expect("a transaction");
        match transaction.insert(table, &batch(&rows(committed * 1_000))) {
            Ok(()) => transaction.commit().expect("committed"),
            Err(error) => break error,
        };
        committed += 1;
    };
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert!(committed > 10, "{committed} blocks fit");
    assert_eq!(live_rows(&engine, table), committed as u64 * 1_000);
    let mut transaction = engine.begin().expect("a transaction");
    transaction.truncate(table).expect("truncated");
    transaction.commit().expect("committed");
    engine.checkpoint().expect("a checkpoint");
    assert!(engine.broker().used_bytes() < LIMIT / 2, "{} bytes are left", engine.broker().used_bytes());
}

#[test]
fn reading_counts_the_values_of_the_blocks_that_are_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open_limited(folder.path(), 10_000);
    let table = create(&engine, "T");
    let mut transaction = engine.begin().expect("a transaction");
    let rows: Vec<TestRow> = wide(0, 10_000).into_iter().map(|(n, _)| (n, Some(format!("{:0500}", n / 4)))).collect();
    insert(&mut transaction, table, &rows);
    transaction.commit().expect("committed");
    let snapshot = engine.snapshot().expect("a snapshot").table(table).expect("the table");
    let chunk = snapshot.blocks()[0].chunk(snapshot.table(), 1).expect("readable").expect("stored");
    assert_eq!(engine.broker().used_bytes(), 0);
    let listed = chunk.values().expect("decoded").expect("a value list").len();
    assert_eq!(listed, 2_500);
    let used = engine.broker().used_bytes();
    assert!((2_500 * 500..2_500 * 600).contains(&used), "{used} bytes are counted");
    drop(chunk);
    assert_eq!(engine.broker().used_bytes(), 0);
}

//! Databases whose base is one of RocksDB: what the others do is theirs too.

use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Cancel, ErrorKind};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::base::BaseKind;
use rowmill_txn::{Engine, OpenOptions, restore};

use crate::durability::killed;
use crate::history::of_seeds;
use crate::support::{TestRow, create, create_keyed, insert, open, settings, values};
use crate::{keyed_model, long_keys, model};

fn options() -> OpenOptions {
    OpenOptions { settings: settings(50), base: BaseKind::RocksDb, ..OpenOptions::default() }
}

/// A database in `path`, which keeps its base when it is opened again.
fn make(path: &Path) -> Arc<Engine> {
    let engine = Engine::open(path, options()).expect("a database");
    assert_eq!(BaseKind::of(path), Ok(Some(BaseKind::RocksDb)));
    engine
}

#[test]
fn commits_are_there_after_checkpoints_closing_and_kills() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, copied) = (folder.path().join("open"), folder.path().join("killed"));
    let mut engine = make(&path);
    let table = create(&engine, "T");
    let mut rows: Vec<TestRow> = Vec::new();
    for round in 0..6_i64 {
        for part in 0..4 {
            let new: Vec<TestRow> = (0..20).map(|n| (round * 100 + part * 20 + n, Some(format!("text {n}")))).collect();
            let mut transaction = engine.begin().expect("a transaction");
            insert(&mut transaction, table, &new);
            transaction.commit().expect("committed");
            rows.extend(new);
            if part == 1 {
                engine.checkpoint().expect("a checkpoint");
            }
        }
        let checked = engine.check(&Cancel::new()).expect("a check");
        assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
        let found = |engine: &Engine| {
            let mut found = values(&engine.snapshot().expect("a snapshot"), table);
            found.sort();
            found
        };
        assert_eq!(found(&killed(&engine, &copied, 50)), rows);
        drop(engine);
        // Whatever is asked for, it has what it has.
        engine = open(&path, 50);
        assert_eq!(found(&engine), rows);
    }
    assert_eq!(BaseKind::of(&path), Ok(Some(BaseKind::RocksDb)));
}

#[test]
fn it_is_opened_by_one_process_to_write_and_by_none_to_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = make(folder.path());
    let error = Engine::open(folder.path(), OpenOptions { read_only: true, ..options() }).expect_err("for reading");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("RocksDB") && error.hint_text().is_some(), "{error}");
    assert_eq!(Engine::open(folder.path(), options()).expect_err("twice").kind(), ErrorKind::Locked);
    drop(engine);
    let error = Engine::open(folder.path(), OpenOptions { read_only: true, ..options() }).expect_err("for reading");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_backup_of_it_is_read_and_restored_and_has_a_tree() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let engine = make(&path("database"));
    let table = create(&engine, "T");
    let rows: Vec<TestRow> = (0..300).map(|number| (number, Some(format!("text {number}")))).collect();
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows);
    transaction.commit().expect("committed");
    engine.backup(&path("backup"), &Cancel::new()).expect("a backup");
    restore(&path("backup"), &path("restored"), &Cancel::new()).expect("restored");
    for (name, read_only) in [("backup", true), ("restored", false)] {
        let copy = Engine::open(&path(name), OpenOptions { read_only, ..options() }).expect("it opens");
        assert_eq!(BaseKind::of(&path(name)), Ok(Some(BaseKind::Tree)));
        assert_eq!(values(&copy.snapshot().expect("a snapshot"), table), rows);
    }
}

#[test]
fn a_vacuum_gives_back_what_was_deleted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = make(folder.path());
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    let text = "x".repeat(1_000);
    let change = |delete: bool| {
        let mut transaction = engine.begin().expect("a transaction");
        for number in 0..4_000 {
            let key = ValueRef::Int(number);
            match delete {
                true => drop(transaction.delete_by_key(table, &[key]).expect("deleted")),
                false => transaction.insert_row(table, &[key, ValueRef::Text(&text)]).expect("inserted"),
            }
        }
        transaction.commit().expect("committed");
        engine.checkpoint().expect("a checkpoint");
    };
    change(false);
    engine.vacuum(&Cancel::new()).expect("a vacuum");
    let full = engine.held_back().expect("the space that is held").base.file_bytes;
    assert!(full > 4_000_000, "{full}");
    change(true);
    engine.vacuum(&Cancel::new()).expect("a vacuum");
    let empty = engine.held_back().expect("the space that is held").base.file_bytes;
    assert!(empty < 100_000, "{empty}");
    let checked = engine.check(&Cancel::new()).expect("a check");
    assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
}

#[test]
fn histories_over_rocksdb_agree_with_the_model() {
    of_seeds(21, 2, |seed, rows_per_block, path| {
        drop(make(path));
        keyed_model::history(seed, 60, rows_per_block, Some(path));
    });
    of_seeds(31, 1, |seed, rows_per_block, path| {
        drop(make(path));
        long_keys::history(seed, 40, rows_per_block, Some(path));
    });
    of_seeds(41, 1, |seed, rows_per_block, path| {
        drop(make(path));
        model::history(seed, 40, rows_per_block, Some(path));
    });
}

//! The disk has exactly the extents that the manifest names: after aborts, drops, merges and reopening.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use rowmill_base::{Cancel, TableId};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Engine, TableSource};

use crate::check::problems;
use crate::support::{create, create_keyed, insert, open, times, values};

/// Bytes of the extents that the current snapshot names.
pub(crate) fn named_bytes(engine: &Engine) -> u64 {
    let snapshot = engine.snapshot().expect("a snapshot");
    let tables = snapshot.catalog().all_tables().map(|def| snapshot.table(def.id).expect("listed"));
    tables
        .flat_map(|table| table.blocks().to_vec())
        .map(|block| block.chunks().iter().map(|chunk| chunk.extent().len).sum::<u64>())
        .sum()
}

/// Bytes that the column files take on disk.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    for entry in entries {
        let entry = entry.expect("an entry");
        let meta = entry.metadata().expect("its size");
        bytes += if meta.is_dir() { disk_bytes(&entry.path()) } else { meta.blocks() * 512 };
    }
    bytes
}

fn rows(count: i64) -> Vec<(i64, Option<String>)> {
    (0..count).map(|n| (n, Some(format!("a text that is somewhat longer {n}")))).collect()
}

fn fill(engine: &std::sync::Arc<Engine>, table: TableId, count: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows(count));
    transaction.commit().expect("committed");
}

#[test]
fn the_parts_of_the_directory_have_all_of_its_bytes() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 1000);
    let table = create(&engine, "Kept");
    for _ in 0..3 {
        fill(&engine, table, 3_000);
        engine.checkpoint().expect("a checkpoint");
    }
    // Until the next segment of the log is made ahead.
    std::thread::sleep(Duration::from_millis(500));
    let folders = ["", "log", "tables", &format!("tables/{table}")];
    let of_folders = folders.iter().map(|name| folder.path().join(name).metadata().expect("a folder").blocks() * 512);
    let parts = engine.disk_use().expect("parts");
    let sum = parts.iter().map(|part| part.bytes).sum::<u64>();
    assert_eq!(sum, disk_bytes(folder.path()) + of_folders.sum::<u64>(), "{parts:?}");
    let bytes = |name: &str| parts.iter().find(|part| part.part == name).expect("a part").bytes;
    assert!(bytes("base, in use") > 0 && bytes("log, in use") > 0 && bytes("log, spare") > 0, "{parts:?}");
    assert_eq!(bytes("tables, in use"), named_bytes(&engine), "{parts:?}");
    assert_eq!(bytes("other"), 4_096, "only the lock of the directory: {parts:?}");
    assert!(Engine::memory(Default::default()).expect("opened").disk_use().expect("parts").is_empty());
}

#[test]
fn quiet_times_leave_only_what_is_in_use() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 1000);
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    for first in 0..6 {
        // Rows that replace others, and a log that is longer than its base.
        let texts = |n: i64| (n, Some(format!("{first} {n} {}", "text ".repeat(20))));
        let mut transaction = engine.begin().expect("a transaction");
        let keys: Vec<i64> = (0..40_000).filter(|n| first == 0 || n % 7 == first).collect();
        for n in &keys {
            transaction.delete_by_key(table, &[ValueRef::Int(*n)]).expect("deleted or absent");
        }
        insert(&mut transaction, table, &keys.iter().map(|n| texts(*n)).collect::<Vec<_>>());
        transaction.commit().expect("committed");
        engine.checkpoint().expect("a checkpoint");
    }
    let mut transaction = engine.begin().expect("a transaction");
    for n in 10_000..40_000 {
        transaction.delete_by_key(table, &[ValueRef::Int(n)]).expect("deleted");
    }
    transaction.commit().expect("committed");
    let expected = values(&engine.snapshot().expect("a snapshot"), table);
    let begun = Instant::now();
    let is_small = || {
        let parts = engine.disk_use().expect("parts");
        let bytes = |name: &str| parts.iter().find(|part| part.part == name).expect("a part").bytes;
        let free = bytes("base, free") + bytes("base, held") + bytes("log, spare");
        free * 20 < bytes("base, in use") && bytes("log, in use") < 5 << 20
    };
    while !is_small() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", engine.disk_use());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table), expected);
    // The next commits find a log, and the next opening all rows.
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &[(50_000, None)]);
    transaction.commit().expect("committed");
    let killed = tempfile::tempdir().expect("a temporary folder");
    copy(folder.path(), killed.path());
    for engine in [engine, open(killed.path(), 1000)] {
        assert_eq!(values(&engine.snapshot().expect("a snapshot"), table).len(), expected.len() + 1);
        assert_eq!(problems(&engine.check(&Cancel::new()).expect("a check")), Vec::<String>::new());
    }
}

#[test]
fn aborted_and_dropped_rows_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tables = folder.path().join("tables");
    let engine = open(folder.path(), 1000);
    let (kept, dropped) = (create(&engine, "Kept"), create(&engine, "Dropped"));
    fill(&engine, kept, 5_000);
    fill(&engine, dropped, 5_000);
    let mut aborted = engine.begin().expect("a transaction");
    insert(&mut aborted, kept, &rows(20_000));
    assert!(disk_bytes(&tables) > named_bytes(&engine), "blocks of an open transaction are on disk already");
    aborted.rollback();
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(disk_bytes(&tables), named_bytes(&engine));

    let reader = engine.snapshot().expect("a snapshot");
    let mut drop_it = engine.begin().expect("a transaction");
    drop_it.drop_table(dropped).expect("dropped");
    drop_it.commit().expect("committed");
    assert_eq!(values(&reader, dropped).len(), 5_000, "an old snapshot still reads a dropped table");
    drop(reader);
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(disk_bytes(&tables), named_bytes(&engine));
}

#[test]
fn what_a_killed_process_left_is_gone_after_opening() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tables = folder.path().join("tables");
    let table;
    {
        let engine = open(folder.path(), 1000);
        table = create(&engine, "T");
        fill(&engine, table, 3_000);
        let mut killed = engine.begin().expect("a transaction");
        insert(&mut killed, table, &rows(10_000));
        // A killed process runs no destructors.
        std::mem::forget(killed);
        engine.checkpoint().expect("a checkpoint");
        assert!(disk_bytes(&tables) > named_bytes(&engine));
        let _ = std::fs::write(tables.join("0/77.col"), b"left over");
        let _ = std::fs::create_dir(tables.join("99"));
        // The leaked transaction holds the engine and with it the directory's lock; a copy stands for the next process.
        copy(folder.path(), &folder.path().join("../killed-copy"));
    }
    let copied = folder.path().join("../killed-copy");
    let engine = open(&copied, 1000);
    let tables = copied.join("tables");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table).len(), 3_000);
    assert_eq!(disk_bytes(&tables), named_bytes(&engine));
    drop(engine);
    std::fs::remove_dir_all(copied).expect("the copy is removed");
}

/// Copies a folder; files that are removed meanwhile may be missing.
pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).expect("a folder");
    let entries = match std::fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        entries => entries.expect("a folder"),
    };
    for entry in entries {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        let copied = match entry.metadata() {
            Ok(kind) if kind.is_dir() => {
                copy(&entry.path(), &target);
                continue;
            }
            Ok(_) => std::fs::copy(entry.path(), target).map(|_| ()),
            Err(error) => Err(error),
        };
        match copied {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => copied.expect("copied"),
        }
    }
}

#[test]
fn small_and_sparse_blocks_are_merged_in_the_background() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 1000);
    let table = create(&engine, "T");
    for _ in 0..6 {
        fill(&engine, table, 600);
    }
    let mut delete = engine.begin().expect("a transaction");
    let doomed: Vec<u64> = (0..3_600).filter(|row| row % 2 == 0).collect();
    delete.delete(table, &doomed).expect("deleted");
    delete.commit().expect("committed");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let snapshot = engine.snapshot().expect("a snapshot");
        let found = snapshot.table(table).expect("the table");
        if found.blocks().len() <= 3 && found.blocks().iter().all(|block| block.deleted().is_none()) {
            assert_eq!(found.row_count(), 1_800);
            break;
        }
        assert!(Instant::now() < until, "{} blocks are left", found.blocks().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Rows keep their numbers: a delete by an old number finds its row.
    let mut delete = engine.begin().expect("a transaction");
    assert_eq!(delete.delete(table, &[1, 3_599]).expect("deleted"), 2);
    delete.commit().expect("committed");
    assert_eq!(values(&engine.snapshot().expect("a snapshot"), table).len(), 1_798);
}

/// Files below `path`.
fn files(path: &Path) -> usize {
    let entries = std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[test]
fn many_commits_leave_no_more_files_than_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let relaxed = || {
        let engine = open(folder.path(), 1_000);
        engine.set("durability", "relaxed").expect("a durability");
        engine
    };
    let engine = relaxed();
    let table = create(&engine, "T");
    fill(&engine, table, 1_000);
    drop(engine);
    let engine = relaxed();
    fill(&engine, table, 1);
    drop(engine);
    let after_one = files(folder.path());
    let engine = relaxed();
    (0..times("ROWMILL_COMMITS", 20_000, 100_000)).for_each(|_| fill(&engine, table, 3));
    assert!(files(folder.path()) > after_one, "more than one segment of the log was needed");
    drop(engine);
    assert_eq!(files(folder.path()), after_one);
}

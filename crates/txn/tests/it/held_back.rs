//! The engine tells why it holds space back: which reader has an older state, for how long, and what is kept for it.

use std::path::Path;
use std::time::Duration;

use rowmill_base::TableId;
use rowmill_txn::{Engine, SnapshotInfo};

use crate::check::add;
use crate::other_process::Reader;
use crate::space::named_bytes;
use crate::support::{create, create_keyed, open};

fn truncate(engine: &std::sync::Arc<Engine>, table: TableId) {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.truncate(table).expect("truncated");
    transaction.commit().expect("committed");
}

fn listed(engine: &Engine) -> Vec<SnapshotInfo> {
    engine.held_back().expect("a look").snapshots
}

#[test]
fn a_snapshot_is_listed_with_what_it_keeps_from_the_commit_behind_it_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 100);
    let table = create(&engine, "T");
    add(&engine, table, 0, 1_000);
    let kept = named_bytes(&engine);
    let snapshot = engine.snapshot().expect("a snapshot");
    assert_eq!(listed(&engine), []);
    truncate(&engine, table);
    let since = std::time::Instant::now();
    add(&engine, table, 0, 100);
    std::thread::sleep(Duration::from_millis(20));
    engine.checkpoint().expect("a checkpoint");
    let [info] = listed(&engine)[..] else { panic!("{:?}", listed(&engine)) };
    assert_eq!((info.process, info.commit, info.commits_since), (std::process::id(), snapshot.commit(), 2));
    assert_eq!(info.held_bytes, kept);
    let age = info.age.expect("its own");
    assert!(age >= Duration::from_millis(20) && age <= since.elapsed() + Duration::from_secs(1), "{age:?}");
    assert_eq!(engine.oldest_snapshot().expect("a look").map(|info| info.commit), Some(snapshot.commit()));
    // A transaction has one too.
    let transaction = engine.begin().expect("a transaction");
    add(&engine, table, 5_000, 100);
    assert_eq!(listed(&engine).len(), 2);
    drop((snapshot, transaction));
    assert_eq!(listed(&engine), []);
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(engine.held_back().expect("a look").waiting_bytes, 0);
}

#[test]
fn many_commits_leave_nothing_to_be_listed() {
    let engine = Engine::memory(crate::support::settings(100)).expect("a database in memory");
    let table = create(&engine, "T");
    let first = engine.snapshot().expect("a snapshot");
    (0..5_000).for_each(|round| add(&engine, table, round, 1));
    let own: Vec<_> = listed(&engine).into_iter().filter(|info| info.commit == first.commit()).collect();
    assert_eq!(own.len(), 1);
    assert!(own[0].commits_since >= 5_000);
    drop(first);
    // The merge may have one this moment.
    assert!(listed(&engine).len() <= 1, "{:?}", listed(&engine));
}

#[test]
fn readers_of_other_processes_are_listed_with_what_waits_for_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 100);
    let table = create(&engine, "T");
    add(&engine, table, 0, 1_000);
    engine.checkpoint().expect("a checkpoint");
    let (kept, commit) = (named_bytes(&engine), engine.snapshot().expect("a snapshot").commit());
    let mut reader = Reader::start(folder.path());
    reader.hold("old");
    truncate(&engine, table);
    engine.checkpoint().expect("a checkpoint");
    let held_back = engine.held_back().expect("a look");
    let [info] = held_back.snapshots[..] else { panic!("{held_back:?}") };
    assert_ne!(info.process, std::process::id());
    assert_eq!((info.commit, info.held_bytes, info.age), (commit, kept, None));
    assert_eq!(held_back.waiting_bytes, kept);
    reader.release("old");
    engine.checkpoint().expect("a checkpoint");
    let held_back = engine.held_back().expect("a look");
    assert_eq!((held_back.snapshots.len(), held_back.waiting_bytes), (0, 0));
}

#[test]
fn pages_of_the_base_and_versions_that_older_states_keep_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 100);
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "K").expect("a keyed table");
    transaction.commit().expect("committed");
    add(&engine, table, 0, 5_000);
    engine.checkpoint().expect("a checkpoint");
    let mut reader = Reader::start(folder.path());
    reader.hold("old");
    truncate(&engine, table);
    assert!(engine.held_back().expect("a look").version_bytes > 0);
    engine.checkpoint().expect("a checkpoint");
    let base = engine.held_back().expect("a look").base;
    let file = std::fs::metadata(Path::join(folder.path(), "base.tree")).expect("a file").len();
    assert!(base.file_bytes <= file && base.held_bytes > 100_000 && base.held_bytes <= base.free_bytes, "{base:?}");
    reader.release("old");
    let base = engine.held_back().expect("a look").base;
    assert!(base.free_bytes > 100_000 && base.held_bytes == 0, "{base:?}");
}

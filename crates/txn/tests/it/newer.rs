//! A directory that a newer version has written: opening it reports which file has which version, and writes nothing.
//!
//! Each version that is stored anywhere is made a newer one in a copy of a directory with checkpoints, blocks and a
//! log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_txn::base::{BASE_FILE, OrderedBase, TreeBase, WriteBatch};
use rowmill_txn::{Engine, OpenOptions};

use crate::space::copy;
use crate::support::{TestRow, create, insert, open, read, settings, values};

/// What each of the two who open a directory writes for the other, and is no part of it.
const LOCK_FILES: [&str; 2] = ["LOCK", "base.tree-made"];

const ROWS: i64 = 250;

/// A directory as a process leaves it that was killed: with commits that only the log has.
fn prepare(folder: &Path) -> PathBuf {
    let (path, killed) = (folder.join("open"), folder.join("killed"));
    let engine = open(&path, 100);
    let table = create(&engine, "T");
    let add = |first: i64, count: i64| {
        let mut transaction = engine.begin().expect("a transaction");
        let rows: Vec<TestRow> = (first..first + count).map(|n| (n, Some(format!("text {n}")))).collect();
        insert(&mut transaction, table, &rows);
        transaction.commit().expect("committed");
    };
    add(0, 210);
    engine.checkpoint().expect("a checkpoint");
    add(210, ROWS - 210);
    copy(&path, &killed);
    killed
}

/// All that a directory holds, by path.
fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(bytes(&path)),
            false if LOCK_FILES.iter().any(|name| path.ends_with(name)) => {}
            false => drop(all.insert(path.clone(), fs::read(path).expect("read"))),
        }
    }
    all
}

/// Changes a file.
fn patch(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("read");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

/// Puts `version` where a head that ends with its checksum has its own.
fn set_version(head: &mut [u8], at: usize, version: &[u8]) {
    head[at..at + version.len()].copy_from_slice(version);
    let end = head.len() - 4;
    let sum = crc32fast::hash(&head[..end]);
    head[end..].copy_from_slice(&sum.to_le_bytes());
}

/// Makes something of a directory a newer one.
type MakeNewer = fn(&Path);

fn newer_layout(dir: &Path) {
    /// The pages of the heads, the length of a head with its checksum, and where it has the version of its layout.
    const PAGE: usize = 4_096;
    const HEAD: usize = 88;
    const LAYOUT_AT: usize = 8;
    patch(&dir.join(BASE_FILE), |bytes| {
        (0..4).for_each(|page| set_version(&mut bytes[page * PAGE..][..HEAD], LAYOUT_AT, &77_u32.to_le_bytes()));
    });
}

fn newer_head(dir: &Path) {
    let base = TreeBase::open(dir, false).expect("the base opens");
    let mut head = base.read().expect("a read").get(b"m").expect("read").expect("the head");
    head[..4].copy_from_slice(&77_u32.to_le_bytes());
    let mut batch = WriteBatch::new();
    batch.put(b"m".to_vec(), head);
    base.write(&batch, base.commit_id().expect("a commit")).expect("written");
}

fn newer_log(dir: &Path) {
    patch(&dir.join("log/0000"), |bytes| set_version(&mut bytes[..36], 8, &77_u32.to_le_bytes()));
}

fn newer_chunk(dir: &Path) {
    patch(&dir.join("tables/0/0.col"), |bytes| set_version(&mut bytes[..80], 4, &77_u16.to_le_bytes()));
}

fn opened(dir: &Path, read_only: bool) -> Result<Arc<Engine>> {
    Engine::open(dir, OpenOptions { read_only, settings: settings(100), ..OpenOptions::default() })
}

fn check(error: &Error, file: &str, what: &str) {
    assert_eq!(error.kind(), ErrorKind::NewerFormat, "{what}: {error:?}");
    let message = error.message();
    assert!(message.contains(file) && message.contains("77"), "{what}: file and version: {error:?}");
    let mut numbers =
        message.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse::<u32>().ok());
    assert!(numbers.any(|ours| (1..77).contains(&ours)), "{what}: our version: {error:?}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("newer")), "{what}: what helps: {error:?}");
}

#[test]
fn a_directory_of_a_newer_version_is_refused_and_not_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (original, dir) = (prepare(folder.path()), folder.path().join("newer"));
    let cases: [(&str, MakeNewer, &str); 3] = [
        ("layout of the base", newer_layout, BASE_FILE),
        ("format of the directory", newer_head, BASE_FILE),
        ("log", newer_log, "log/0000"),
    ];
    for (what, make_newer, file) in cases {
        copy(&original, &dir);
        make_newer(&dir);
        let before = bytes(&dir);
        let written = opened(&dir, false).map(drop);
        check(&written.expect_err(what), file, &format!("{what}, to write"));
        // Who reads meets the log with its first statement.
        let followed = opened(&dir, true).and_then(|engine| engine.snapshot()).map(drop);
        check(&followed.expect_err(what), file, &format!("{what}, to read"));
        assert!(bytes(&dir) == before, "{what}: something was written");
    }
    copy(&original, &dir);
    let engine = opened(&dir, false).expect("a directory of this version opens");
    let snapshot = engine.snapshot().expect("a snapshot");
    let table = snapshot.catalog().all_tables().next().expect("a table").id;
    assert_eq!(values(&snapshot, table).len() as i64, ROWS);
}

#[test]
fn a_block_of_a_newer_version_is_an_error_where_it_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = prepare(folder.path());
    newer_chunk(&dir);
    let columns = |dir: &Path| bytes(&dir.join("tables"));
    let before = columns(&dir);
    for read_only in [true, false] {
        let engine = opened(&dir, read_only).expect("no block is read");
        let snapshot = engine.snapshot().expect("a snapshot");
        let table = snapshot.catalog().all_tables().next().expect("a table").id;
        check(&read(&snapshot, table).expect_err("a block is read"), "tables/0/0.col", "a block");
    }
    assert!(columns(&dir) == before, "nothing of it was changed");
}

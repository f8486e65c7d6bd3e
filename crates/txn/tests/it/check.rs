//! The check of a whole database: it finds nothing in a healthy database, also beside other work, and every damage is
//! told by name.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rowmill_base::{Cancel, ErrorKind, Settings, SqlType, TableId};
use rowmill_io::{Call, Fault, FaultyDisk, MemoryDisk};
use rowmill_txn::base::{MemoryBase, OrderedBase, WriteBatch};
use rowmill_txn::{Checked, ColumnSpec, Engine, MAIN_SCHEMA, TableSource};

use crate::other_process::Reader;
use crate::support::{TestRow, create, create_keyed, insert, open, read, settings};
use crate::workload::wait_for_merge;

const ROWS_PER_BLOCK: usize = 50;

fn rows(first: i64, count: i64) -> Vec<TestRow> {
    (first..first + count).map(|n| (n, (n % 5 > 0).then(|| format!("a text that is somewhat longer {n}")))).collect()
}

pub(crate) fn add(engine: &Arc<Engine>, table: TableId, first: i64, count: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &rows(first, count));
    transaction.commit().expect("committed");
}

fn delete(engine: &Arc<Engine>, table: TableId, doomed: impl Fn(i64) -> bool) {
    let mut transaction = engine.begin().expect("a transaction");
    let found = read(&transaction.view().expect("a view"), table).expect("read");
    let numbers: Vec<u64> = found.iter().filter(|(_, row)| doomed(row.0)).map(|(number, _)| *number).collect();
    transaction.delete(table, &numbers).expect("deleted");
    transaction.commit().expect("committed");
}

/// Tables with blocks, sparse and merged ones among them, recent rows, deletes, and columns and tables that came and
/// went. The base has a part of it, the log the rest.
pub(crate) fn fill(engine: &Arc<Engine>) {
    let [many, sparse, recent, gone] = ["Many", "Sparse", "Recent", "Gone"].map(|name| create(engine, name));
    add(engine, many, 0, 4_000);
    let mut transaction = engine.begin().expect("a transaction");
    let keyed = create_keyed(&mut transaction, "Keyed").expect("a keyed table");
    transaction.commit().expect("committed");
    add(engine, keyed, 0, 300);
    (0..40).for_each(|part| add(engine, sparse, part * 50, 50));
    delete(engine, sparse, |n| n % 3 == 0);
    add(engine, gone, 0, 500);
    (0..30).for_each(|part| add(engine, recent, part * 10, 3));
    wait_for_merge(engine);
    engine.checkpoint().expect("a checkpoint");
    delete(engine, many, |n| n % 17 == 0);
    let mut transaction = engine.begin().expect("a transaction");
    transaction.drop_table(gone).expect("dropped");
    transaction.add_column(recent, ColumnSpec::new("Later", SqlType::Int32)).expect("a column");
    transaction.commit().expect("committed");
    engine.checkpoint().expect("a checkpoint");
    add(engine, sparse, 4_000, 130);
    wait_for_merge(engine);
    // From here on nothing is removed, and so no checkpoint is made.
    add(engine, many, 10_000, 130);
    delete(engine, sparse, |n| n % 17 == 1);
    (0..5).for_each(|part| add(engine, sparse, 5_000 + part * 10, 7));
    delete(engine, sparse, |n| n == 5_012);
    add(engine, keyed, 1_000, 60);
    create(engine, "Last");
}

fn check(engine: &Engine) -> Vec<Checked> {
    engine.check(&Cancel::new()).expect("a check")
}

pub(crate) fn problems(checked: &[Checked]) -> Vec<String> {
    let problem = |found: &Checked| Some(format!("{}: {}", found.object, found.problem.as_ref()?));
    checked.iter().filter_map(problem).collect()
}

fn notes(checked: &[Checked]) -> Vec<&str> {
    checked.iter().filter_map(|found| found.note.as_deref()).collect()
}

#[track_caller]
fn assert_whole(engine: &Engine) {
    let checked = check(engine);
    assert_eq!(problems(&checked), Vec::<String>::new());
    assert_eq!(notes(&checked), Vec::<&str>::new());
}

#[test]
fn nothing_is_wrong_with_a_healthy_database() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    assert_whole(&engine);
    fill(&engine);
    let checked = check(&engine);
    assert_eq!(problems(&checked), Vec::<String>::new());
    let bytes = |object: &str| checked.iter().find(|found| found.object == object).map_or(0, |found| found.bytes);
    let objects = [
        "base, pages",
        "base, entries",
        "log",
        "table main.Many, column Text",
        "table main.Sparse",
        "table main.Sparse, (row numbers)",
        "table main.Keyed, keys",
        "space",
    ];
    for object in objects {
        assert!(bytes(object) > 0, "{object} was not looked at: {checked:?}");
    }
    let mut reader = Reader::start(folder.path());
    assert_eq!(reader.check(), "");
    add(&engine, TableId(0), 20_000, 30);
    assert_eq!(reader.check(), "");
    engine.checkpoint().expect("a checkpoint");
    assert_whole(&engine);
    assert_eq!(reader.check(), "");
    drop(engine);
    assert_eq!(reader.check(), "");
    assert_whole(&open(folder.path(), ROWS_PER_BLOCK));
}

#[test]
fn a_database_in_memory_is_checked_too() {
    let engine = Engine::memory(settings(ROWS_PER_BLOCK)).expect("a database");
    fill_memory(&engine);
    let checked = check(&engine);
    assert_eq!(problems(&checked), Vec::<String>::new());
    assert!(notes(&checked)[0].contains("memory"), "{checked:?}");
}

fn fill_memory(engine: &Arc<Engine>) {
    let table = create(engine, "T");
    add(engine, table, 0, 1_000);
    delete(engine, table, |n| n % 2 == 0);
    add(engine, table, 5_000, 20);
}

#[test]
fn without_a_log_the_base_is_compared_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    fill_memory(&engine);
    engine.set("durability", "off").expect("it is a setting");
    assert_whole(&engine);
    add(&engine, TableId(0), 10_000, 70);
    let checked = check(&engine);
    assert_eq!(problems(&checked), Vec::<String>::new());
    assert!(notes(&checked)[0].contains("durability is off"), "{checked:?}");
    engine.set("durability", "relaxed").expect("it is a setting");
    add(&engine, TableId(0), 20_000, 70);
    assert_whole(&engine);
}

#[test]
fn commits_and_checkpoints_go_on_beside_a_check() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let kept = create(&engine, "Kept");
    let mut reader = Reader::start(folder.path());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                let other = create(&engine, &format!("Other{round}"));
                add(&engine, other, 0, 130);
                add(&engine, kept, round * 1_000, [3, 40, 120][round as usize % 3]);
                delete(&engine, kept, |n| n % 4 == round % 4 && n / 1_000 >= round - 3);
                if round % 3 == 0 {
                    engine.checkpoint().expect("a checkpoint");
                }
                let mut transaction = engine.begin().expect("a transaction");
                transaction.drop_table(other).expect("dropped");
                transaction.commit().expect("committed");
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let checks: Vec<Vec<String>> = (0..40).map(|_| problems(&check(&engine))).collect();
        let of_reader: Vec<String> = (0..20).map(|_| reader.check()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(checks.concat(), Vec::<String>::new());
        assert_eq!(of_reader.concat(), "");
    });
    assert_eq!(problems(&check(&engine)), Vec::<String>::new());
}

#[test]
fn a_check_ends_when_it_is_told_to() {
    let engine = Engine::memory(Settings::default()).expect("a database");
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(engine.check(&cancel).expect_err("cancelled").kind(), ErrorKind::Cancelled);
}

fn column_path(dir: &Path, table: TableId, column: u32) -> std::path::PathBuf {
    dir.join(format!("tables/{table}/{column}.col"))
}

/// The problems, each of which has to be of one of `objects`, and one of each.
#[track_caller]
fn assert_found(engine: &Engine, objects: &[&str]) {
    let checked = check(engine);
    let mut found: Vec<&str> =
        checked.iter().filter(|found| found.problem.is_some()).map(|found| found.object.as_str()).collect();
    found.dedup();
    assert_eq!(found, objects, "{checked:?}");
}

#[test]
fn what_is_damaged_under_an_open_database_is_told_by_name_and_raises_no_signal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    fill(&engine);
    // All of it is mapped and verified.
    read(&engine.snapshot().expect("a snapshot"), TableId(0)).expect("read");
    let write = |path: &Path| OpenOptions::new().write(true).open(path).expect("the file");
    let text = write(&column_path(folder.path(), TableId(0), 1));
    let snapshot = engine.snapshot().expect("a snapshot");
    let blocks = snapshot.table(TableId(0)).expect("the table").blocks().to_vec();
    for block in &blocks[3..5] {
        text.write_all_at(b"damage", block.chunks()[1].extent().offset + 100).expect("written");
    }
    let checked = check(&engine);
    assert_eq!(problems(&checked).len(), 2, "all are told: {checked:?}");
    assert_found(&engine, &["table main.Many, column Text"]);
    text.set_len(8_192).expect("cut");
    assert_found(&engine, &["table main.Many, column Text", "space"]);

    let bytes = fs::read(folder.path().join("log/0000")).expect("a segment");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("there is something") as u64;
    write(&folder.path().join("log/0000")).write_all_at(b"damage", used - 100).expect("written");
    assert_found(&engine, &["log", "table main.Many, column Text", "space"]);
    let base = write(&folder.path().join("base.tree"));
    base.write_all_at(&[0xFF; 4_096], 8_192).expect("written");
    base.write_all_at(&[0xFF; 4_096], 12_288).expect("written");
    base.set_len(3 * 4_096).expect("cut");
    let found = problems(&check(&engine));
    assert!(found.iter().any(|problem| problem.starts_with("base, pages")), "{found:?}");
    // Closing it would touch what is not there any more.
    std::mem::forget(engine);
}

#[test]
fn a_chunk_that_was_cut_after_it_was_read_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 2_000);
    let table = create(&engine, "T");
    add(&engine, table, 0, 2_000);
    let snapshot = engine.snapshot().expect("a snapshot");
    read(&snapshot, table).expect("read");
    let text = OpenOptions::new().write(true).open(column_path(folder.path(), table, 1)).expect("the file");
    assert!(text.metadata().expect("its length").len() > 2 * 4_096);
    text.set_len(4_096).expect("cut");
    assert_eq!(read(&snapshot, table).expect_err("its first page is there").kind(), ErrorKind::Corrupt);
    assert_found(&engine, &["table main.T, column Text", "space"]);
}

#[test]
fn two_chunks_in_each_others_place_are_found_by_who_reads_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    add(&engine, table, 0, 100);
    drop(engine);
    let path = column_path(folder.path(), table, 0);
    let mut bytes = fs::read(&path).expect("the file");
    assert_eq!(bytes.len(), 2 * 4_096, "two blocks");
    bytes.rotate_left(4_096);
    fs::write(&path, bytes).expect("written");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let error = read(&engine.snapshot().expect("a snapshot"), table).expect_err("each is whole, and not the other");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_found(&engine, &["table main.T, column Number"]);
}

#[test]
fn what_nobody_names_is_noted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    fill(&engine);
    // Private blocks of a transaction have no name yet.
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let private = transaction.create_table(main, "Private", crate::support::specs()).expect("a new table");
    insert(&mut transaction, private, &rows(0, 1_000));
    assert_whole(&engine);
    for path in ["tables/0/77.col", "tables/0/notes.txt", "tables/junk", "log/junk"] {
        fs::write(folder.path().join(path), b"left over").expect("written");
    }
    fs::create_dir(folder.path().join("tables/99")).expect("a folder");
    let checked = check(&engine);
    assert_eq!(problems(&checked), Vec::<String>::new());
    let notes = notes(&checked);
    for path in ["tables/0/77.col", "tables/0/notes.txt", "tables/junk", "tables/99", "log/junk"] {
        assert!(notes.iter().any(|note| note.contains(path)), "{path}: {notes:?}");
    }
    assert_eq!(notes.len(), 5, "{notes:?}");
}

#[test]
fn a_base_that_says_something_else_is_found() {
    let base = Arc::new(MemoryBase::new());
    let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::clone(&base) as _, settings(ROWS_PER_BLOCK));
    let engine = engine.expect("opened");
    let table = create(&engine, "T");
    add(&engine, table, 0, 120);
    engine.checkpoint().expect("a checkpoint");
    assert_whole(&engine);
    add(&engine, table, 200, 10);
    assert_whole(&engine);
    // A valid entry with another value, as no checksum finds it.
    let mut batch = WriteBatch::new();
    let key = [&b"N"[..], &table.0.to_be_bytes()].concat();
    batch.put(key, 77_u64.to_le_bytes());
    base.write(&batch, base.read().expect("a read").commit_id().expect("its commit")).expect("written");
    assert_found(&engine, &["log"]);
}

#[test]
fn what_the_disk_does_not_give_could_not_be_read() {
    let faulty = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = faulty.plan().clone();
    let engine = Engine::over(Arc::new(faulty), Arc::new(MemoryBase::new()), settings(ROWS_PER_BLOCK)).expect("opened");
    let table = create(&engine, "T");
    add(&engine, table, 0, 120);
    add(&engine, table, 200, 10);
    plan.fail_from(Call::Read, 1, Fault::Io);
    let found = problems(&check(&engine));
    plan.clear();
    assert!(found.iter().any(|problem| problem.starts_with("table main.T, column Number: it could not be read: ")));
    assert!(found.iter().all(|problem| problem.contains("could not be read")), "{found:?}");
    assert_whole(&engine);
}

#[test]
fn a_commit_whose_sync_is_to_come_is_no_problem() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let table = create(&open(folder.path(), 100), "T");
    for number in 0..3 {
        let engine = open(folder.path(), 100);
        engine.set("durability", "relaxed").expect("a durability");
        let mut transaction = engine.begin().expect("a transaction");
        insert(&mut transaction, table, &[(number, None)]);
        transaction.commit().expect("committed");
        let problems: Vec<_> = engine.check(&Cancel::new()).expect("checked");
        assert!(problems.iter().all(|checked| checked.problem.is_none()), "{problems:?}");
    }
}

//! Backups: each is one state that was committed, whole or refused, whatever is written meanwhile and whatever becomes
//! of its bytes.

#![allow(clippy::print_stdout)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rowmill_base::{Cancel, ErrorKind};
use rowmill_io::{Fault, FaultyDisk, RealDisk};
use rowmill_txn::{Engine, OpenOptions, backup_at, restore, restore_over};

use crate::check::{add, fill, problems};
use crate::ledger::{Writers, prepare, steps_of};
use crate::space::copy;
use crate::support::{Dice, create, open, settings, times};
use crate::workload::content_of;

const ROWS_PER_BLOCK: usize = 100;

fn go_on() -> Cancel {
    Cancel::new()
}

fn read_only(path: &Path) -> Arc<Engine> {
    let options = OpenOptions { read_only: true, settings: settings(ROWS_PER_BLOCK), ..OpenOptions::default() };
    Engine::open(path, options).expect("it opens for reading")
}

/// The files below a folder, those that readers leave left out.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.retain(|path| !path.ends_with("base.tree-made"));
    files.sort();
    files
}

/// A database with everything in it, and a backup of it beside.
fn backed_up() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(&folder.path().join("database"), ROWS_PER_BLOCK);
    fill(&engine);
    let to = folder.path().join("backup");
    engine.backup(&to, &go_on()).expect("a backup");
    (folder, to)
}

#[test]
fn a_backup_beside_writers_is_one_state_with_all_that_was_acknowledged_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let engine = open(&path("database"), ROWS_PER_BLOCK);
    prepare(&engine);
    let writers = Writers::start(&engine);
    let rounds = times("ROWMILL_BACKUPS", 6, 60);
    for round in 0..rounds {
        writers.wait_for(40);
        if round % 2 == 1 {
            engine.checkpoint().expect("a checkpoint");
        }
        let (before, _) = (writers.steps(), writers.longest());
        let begun = Instant::now();
        let made = engine.backup(&path("backup"), &go_on()).expect("a backup");
        let (took, longest, after) = (begun.elapsed(), writers.longest(), writers.steps());
        println!("{} files, {} bytes in {took:?}; the longest step meanwhile {longest:?}", made.files, made.bytes);
        assert_eq!(backup_at(&path("backup")).expect("a backup").commit, made.commit);

        let restored = restore(&path("backup"), &path("restored"), &go_on()).expect("restored");
        assert_eq!((restored.commit, restored.files, restored.bytes), (made.commit, made.files, made.bytes));
        let other = open(&path("restored"), ROWS_PER_BLOCK);
        let found = steps_of(&other.snapshot().expect("a snapshot"));
        let is_between = found.iter().zip(&before).zip(&after).all(|((found, before), after)| {
            // One step may be committed and not yet counted.
            before <= found && *found <= after + 1
        });
        assert!(is_between, "round {round}: {before:?}, {found:?}, {after:?}");
        let in_place = read_only(&path("backup"));
        assert_eq!(in_place.snapshot().expect("a snapshot").commit(), made.commit);
        assert_eq!(content_of(&in_place), content_of(&other));
        drop(in_place);
        // What was restored goes on by itself.
        let others = Writers::start(&other);
        others.wait_for(5);
        others.end();
        assert_eq!(problems(&other.check(&go_on()).expect("a check")), Vec::<String>::new());
        drop(other);
        ["backup", "restored"].iter().for_each(|name| fs::remove_dir_all(path(name)).expect("removed"));
    }
    let steps = writers.end();
    assert_eq!(steps_of(&engine.snapshot().expect("a snapshot")), steps);
    assert_eq!(problems(&engine.check(&go_on()).expect("a check")), Vec::<String>::new());
}

#[test]
fn everything_that_a_database_has_is_in_its_backup() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, backup, restored) =
        (folder.path().join("database"), folder.path().join("backup"), folder.path().join("restored"));
    let engine = open(&database, ROWS_PER_BLOCK);
    fill(&engine);
    let content = content_of(&engine);
    engine.backup(&backup, &go_on()).expect("a backup");
    let many = engine.snapshot().expect("a snapshot").catalog().all_tables().next().expect("a table").id;
    add(&engine, many, 90_000, 500);
    assert_ne!(content_of(&engine), content);
    drop(engine);

    restore(&backup, &restored, &go_on()).expect("restored");
    for round in 0..2 {
        let engine = open(&restored, ROWS_PER_BLOCK);
        assert_eq!(problems(&engine.check(&go_on()).expect("a check")), Vec::<String>::new());
        match round {
            0 => assert_eq!(content_of(&engine), content),
            _ => assert_ne!(content_of(&engine), content),
        }
        add(&engine, many, 50_000, 250);
        add(&engine, create(&engine, &format!("New{round}")), 0, 250);
    }
    // A backup that was read is still one.
    assert_eq!(content_of(&read_only(&backup)), content);
    fs::remove_dir_all(&restored).expect("removed");
    restore(&backup, &restored, &go_on()).expect("restored once more");
}

#[test]
fn who_only_reads_and_who_has_no_directory_make_backups_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let engine = open(&path("database"), ROWS_PER_BLOCK);
    fill(&engine);
    // What it has is partly in the log alone.
    let crashed = path("crashed");
    copy(&path("database"), &crashed);
    let reader = read_only(&crashed);
    let made = reader.backup(&path("of reader"), &go_on()).expect("a backup");
    assert_eq!(made.commit, reader.snapshot().expect("a snapshot").commit());
    restore(&path("of reader"), &path("restored"), &go_on()).expect("restored");
    let restored = open(&path("restored"), ROWS_PER_BLOCK);
    assert_eq!(content_of(&restored), content_of(&engine));
    add(&restored, create(&restored, "New"), 0, 250);
    assert_eq!(problems(&restored.check(&go_on()).expect("a check")), Vec::<String>::new());

    let memory = Engine::memory(settings(ROWS_PER_BLOCK)).expect("a database in memory");
    fill(&memory);
    memory.backup(&path("of memory"), &go_on()).expect("a backup");
    restore(&path("of memory"), &path("was memory"), &go_on()).expect("restored");
    let restored = open(&path("was memory"), ROWS_PER_BLOCK);
    assert_eq!(content_of(&restored), content_of(&memory));
    add(&restored, create(&restored, "New"), 0, 250);
    assert_eq!(problems(&restored.check(&go_on()).expect("a check")), Vec::<String>::new());
    drop(restored);

    // Without a log for a while.
    engine.set("durability", "off").expect("a durability");
    let before = content_of(&engine);
    engine.backup(&path("of off"), &go_on()).expect("a backup");
    restore(&path("of off"), &path("was off"), &go_on()).expect("restored");
    assert_eq!(content_of(&open(&path("was off"), ROWS_PER_BLOCK)), before);
}

#[test]
fn what_a_backup_copies_is_not_given_up_meanwhile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(&folder.path().join("database"), ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    std::thread::scope(|scope| {
        // All rows go and others come, in the same places of the same files as far as those are free.
        let writer = scope.spawn(|| {
            for round in 0..40 {
                let mut transaction = engine.begin().expect("a transaction");
                transaction.truncate(table).expect("truncated");
                transaction.commit().expect("committed");
                add(&engine, table, round * 1_000, 1_000);
                engine.checkpoint().expect("a checkpoint");
            }
        });
        let mut number = 0;
        while !writer.is_finished() {
            let to = folder.path().join(format!("backup {number}"));
            engine.backup(&to, &go_on()).expect("a backup");
            let content = content_of(&read_only(&to));
            let rows = &content["T"];
            assert!(rows.is_empty() || rows.len() == 1_000, "{} rows", rows.len());
            assert!(rows.iter().all(|row| row.0 / 1_000 == rows[0].0 / 1_000), "rows of two states");
            fs::remove_dir_all(&to).expect("removed");
            number += 1;
        }
        writer.join().expect("a writer");
    });
}

#[test]
fn every_damage_to_a_backup_is_found_and_nothing_is_restored() {
    let (folder, backup) = backed_up();
    let (damaged, restored) = (folder.path().join("damaged"), folder.path().join("restored"));
    let mut dice = Dice(0xBAC_C0DE);
    let all = files(&backup);
    assert!(all.len() > 6, "{all:?}");
    copy(&backup, &damaged);
    let found = |what: &str| {
        let error = restore(&damaged, &restored, &go_on()).expect_err(what);
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UndefinedFile), "{what}: {error}");
        assert!(!restored.exists(), "{what}: something was left");
        error
    };
    for number in 0..times("ROWMILL_DAMAGES", 300, 5_000) {
        let path = damaged.join(all[number % all.len()].strip_prefix(&backup).expect("a file of it"));
        let bytes = fs::read(&path).expect("read");
        if bytes.is_empty() {
            continue;
        }
        let (mut changed, at) = (bytes.clone(), dice.place(bytes.len()));
        let what = match dice.place(6) {
            0 => {
                changed.truncate(at);
                format!("{} cut at {at}", path.display())
            }
            1 => {
                changed.extend([0; 10]);
                format!("{} is longer", path.display())
            }
            _ => {
                changed[at] ^= 1 << dice.place(8);
                format!("byte {at} of {}", path.display())
            }
        };
        fs::write(&path, &changed).expect("written");
        let error = found(&what);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(error.message().contains(&name) || name == "BACKUP", "{what}: {error}");
        fs::write(&path, &bytes).expect("written");
    }
    for path in &all {
        let path = damaged.join(path.strip_prefix(&backup).expect("a file of it"));
        let aside = folder.path().join("aside");
        fs::rename(&path, &aside).expect("moved");
        found(&format!("{} is missing", path.display()));
        fs::rename(&aside, &path).expect("moved back");
    }
    let foreign = damaged.join("tables/foreign");
    fs::write(&foreign, b"x").expect("written");
    assert!(found("a foreign file").message().contains("foreign"));
    fs::remove_file(&foreign).expect("removed");
    restore(&damaged, &restored, &go_on()).expect("nothing is damaged any more");
}

#[test]
fn damage_of_the_database_is_found_by_its_backup() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, backup) = (folder.path().join("database"), folder.path().join("backup"));
    let engine = open(&database, ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    add(&engine, table, 0, 1_000);
    let file = database.join(format!("tables/{table}/1.col"));
    let mut bytes = fs::read(&file).expect("read");
    bytes[5_000] ^= 4;
    fs::write(&file, &bytes).expect("written");
    let error = engine.backup(&backup, &go_on()).expect_err("a chunk is damaged");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains("table T") && error.message().contains("1.col"), "{error}");
    assert!(!backup.exists());
}

#[test]
fn half_a_backup_is_neither_opened_nor_restored_nor_written_over() {
    let (folder, backup) = backed_up();
    fs::write(backup.join("UNFINISHED"), "a backup").expect("written");
    let whole = |read_only| OpenOptions { read_only, settings: settings(ROWS_PER_BLOCK), ..OpenOptions::default() };
    for error in [
        Engine::open(&backup, whole(true)).expect_err("half a backup"),
        Engine::open(&backup, whole(false)).expect_err("half a backup"),
        restore(&backup, &folder.path().join("restored"), &go_on()).expect_err("half a backup"),
        backup_at(&backup).expect_err("half a backup"),
    ] {
        assert!(error.message().contains("a backup that was not finished"), "{error}");
        assert!(error.hint_text().is_some(), "{error:?}");
    }
    let engine = open(&folder.path().join("database"), ROWS_PER_BLOCK);
    let error = engine.backup(&backup, &go_on()).expect_err("it is not empty");
    assert_eq!(error.kind(), ErrorKind::DuplicateObject, "{error}");
    fs::remove_file(backup.join("UNFINISHED")).expect("removed");
    let error = Engine::open(&backup, whole(false)).expect_err("a backup is not written");
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    // Unless the caller says that it is none.
    fs::remove_file(backup.join("BACKUP")).expect("removed");
    let error = restore(&backup, &folder.path().join("restored"), &go_on()).expect_err("it is no backup");
    assert_eq!(error.kind(), ErrorKind::UndefinedFile, "{error}");
    let engine = Engine::open(&backup, whole(false)).expect("a database");
    add(&engine, create(&engine, "New"), 0, 250);
}

#[test]
fn a_folder_that_is_in_use_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("database");
    let engine = open(&database, ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    add(&engine, table, 0, 250);
    let refused = |to: &Path, kind: ErrorKind| {
        let error = engine.backup(to, &go_on()).expect_err("a folder in use");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(&to.display().to_string()) && error.hint_text().is_some(), "{error:?}");
    };
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).expect("a folder");
    fs::write(taken.join("a file"), b"of somebody").expect("written");
    refused(&taken, ErrorKind::DuplicateObject);
    refused(&taken.join("a file"), ErrorKind::UndefinedFile);
    assert_eq!(fs::read(taken.join("a file")).expect("still there"), b"of somebody");
    refused(&database, ErrorKind::InvalidParameter);
    refused(&database.join("tables/backup"), ErrorKind::InvalidParameter);
    refused(folder.path(), ErrorKind::InvalidParameter);
    // Folders above it are made, and an empty one is taken.
    engine.backup(&folder.path().join("new/deep/backup"), &go_on()).expect("a backup");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    engine.backup(&empty, &go_on()).expect("a backup");
    let error = restore(&empty, &taken, &go_on()).expect_err("a folder in use");
    assert_eq!(error.kind(), ErrorKind::DuplicateObject, "{error}");
    assert_eq!(files(&taken).len(), 1);
    let error = restore(&database, &folder.path().join("x"), &go_on()).expect_err("no backup");
    assert_eq!(error.kind(), ErrorKind::UndefinedFile, "{error}");
}

#[test]
fn a_backup_or_restoring_that_is_ended_leaves_nothing() {
    let (folder, backup) = backed_up();
    let engine = open(&folder.path().join("database"), ROWS_PER_BLOCK);
    let cancelled = Cancel::new();
    cancelled.cancel();
    let to = folder.path().join("to");
    assert_eq!(engine.backup(&to, &cancelled).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    assert!(!to.exists());
    fs::create_dir(&to).expect("a folder");
    assert_eq!(restore(&backup, &to, &cancelled).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(&to).expect("a folder").count(), 0);
    restore(&backup, &to, &go_on()).expect("restored");
}

#[test]
fn a_disk_that_fails_fails_the_copy_alone() {
    let (folder, backup) = backed_up();
    let engine = open(&folder.path().join("database"), ROWS_PER_BLOCK);
    let content = content_of(&engine);
    let to = folder.path().join("to");
    type Run<'a> = &'a dyn Fn(&FaultyDisk) -> rowmill_base::Result<()>;
    let back_up: Run<'_> = &|disk| engine.backup_over(&to, disk, &go_on()).map(drop);
    let bring_back: Run<'_> = &|disk| restore_over(&backup, &to, disk, &go_on()).map(drop);
    for run in [back_up, bring_back] {
        let disk = FaultyDisk::new(Arc::new(RealDisk::new(&to)));
        run(&disk).expect("nothing fails");
        let calls = disk.plan().count_all();
        fs::remove_dir_all(&to).expect("removed");
        assert!(calls > 20, "{calls}");
        for nth in (1..=calls).step_by(times("ROWMILL_CALLS", 7, 1)) {
            for fault in [Fault::NoSpace, Fault::Io, Fault::ShortWrite] {
                let disk = FaultyDisk::new(Arc::new(RealDisk::new(&to)));
                disk.plan().fail(None, nth, fault);
                let error = run(&disk).expect_err("a call fails");
                let kind = if fault == Fault::Io { ErrorKind::Io } else { ErrorKind::DiskFull };
                assert_eq!(error.kind(), kind, "call {nth}: {error}");
                assert!(!to.exists(), "call {nth}, {fault:?}: something was left");
            }
        }
    }
    assert_eq!(content_of(&engine), content);
    add(&engine, create(&engine, "New"), 0, 250);
}

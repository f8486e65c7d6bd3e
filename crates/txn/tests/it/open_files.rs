//! A process that may open hardly any file more: what needs one is refused and says why, what was acknowledged stays,
//! and when there are descriptors again, writing and reading go on.
//!
//! Needs `sh`, which lowers the limit of the process that is tested.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_txn::{Engine, OpenOptions, Transaction};

use crate::support::settings;
use crate::workload::{Content, create, delete, drop_table, insert, try_content_of};

/// Names directory and role to the process of [`process_with_few_files`].
const CHILD_DIR: &str = "ROWMILL_TEST_FILES_DIR";
const CHILD_ROLE: &str = "ROWMILL_TEST_FILES_ROLE";

/// Descriptors that the process may have.
const LIMIT: usize = 64;
/// With so many that are free nothing is refused.
const ENOUGH: usize = 20;

fn open(dir: &Path, read_only: bool) -> Result<Arc<Engine>> {
    Engine::open(dir, OpenOptions { read_only, settings: settings(40), ..OpenOptions::default() })
}

/// Leaves so many descriptors until it is dropped.
fn leave(free: usize) -> Vec<File> {
    let mut taken: Vec<File> = (0..LIMIT).map_while(|_| File::open("/dev/null").ok()).collect();
    assert!(taken.len() < LIMIT, "the limit of this process was lowered");
    taken.truncate(taken.len() - free);
    taken
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn check(error: &Error, dir: &Path) {
    let (message, hint) = (error.message(), error.hint_text().unwrap_or_default());
    assert_eq!(error.kind(), ErrorKind::OpenFiles, "{error:?}");
    assert!(message.contains(&*dir.to_string_lossy()), "no file is named: {error:?}");
    assert!(message.contains("Too many open files") && hint.contains("limit of open files"), "{error:?}");
}

/// Checks the database, whose files are not at fault where they cannot be opened.
fn whole(engine: &Engine) -> Result<()> {
    let checked = engine.check(&Cancel::new())?;
    assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
    Ok(())
}

/// Commits, or is refused, which changes nothing.
fn commit(
    engine: &Arc<Engine>,
    content: &mut Content,
    change: impl FnOnce(&mut Transaction, &mut Content) -> Result<()>,
) -> Result<()> {
    let mut changed = content.clone();
    let mut transaction = engine.begin()?;
    change(&mut transaction, &mut changed)?;
    transaction.commit()?;
    *content = changed;
    Ok(())
}

/// One step after the other; the errors of those that were refused.
fn steps(engine: &Arc<Engine>, content: &mut Content, round: i64) -> Vec<Error> {
    let first = round * 10_000;
    // The first record of a log makes its files, the first block of a table those of its columns.
    let made = if content.contains_key("New") {
        commit(engine, content, |transaction, content| drop_table(transaction, content, "New"))
    } else {
        commit(engine, content, |transaction, content| {
            create(transaction, content, "New")?;
            insert(transaction, content, "New", 0, 90)
        })
    };
    let added = commit(engine, content, |transaction, content| insert(transaction, content, "Old", first, 3));
    let loaded = commit(engine, content, |transaction, content| insert(transaction, content, "Old", first + 100, 130));
    let deleted =
        commit(engine, content, |transaction, content| delete(transaction, content, "Old", |row| row % 100 > 50));
    let outcomes = [made, added, loaded, deleted, engine.checkpoint(), engine.readers().map(drop), whole(engine)];
    outcomes.into_iter().filter_map(Result::err).collect()
}

/// The other side of [`run`]. Does nothing when it is run as a test.
#[test]
fn process_with_few_files() {
    let (Some(dir), Ok(role)) = (std::env::var_os(CHILD_DIR), std::env::var(CHILD_ROLE)) else { return };
    let dir = Path::new(&dir);
    let before = descriptors();
    match role.as_str() {
        "write" => write(dir),
        _ => follow(dir),
    }
    assert_eq!(descriptors(), before, "what was opened is closed");
    println!("> done");
    // No process reads the output of the test harness.
    std::process::exit(0);
}

fn write(dir: &Path) {
    let mut content = Content::new();
    let engine = open(dir, false).expect("the directory opens");
    commit(&engine, &mut content, |transaction, content| create(transaction, content, "Old")).expect("committed");
    drop(engine);
    let (mut closed, mut refused, mut last) = (0, 0, 0);
    for free in 0..=ENOUGH {
        // A database that was never opened opens with few descriptors, and an open one works on with few.
        let taken = leave(free);
        let opened = open(dir, false).inspect_err(|error| check(error, dir));
        drop(taken);
        closed += usize::from(opened.is_err());
        let engine = opened.or_else(|_| open(dir, false)).expect("there are descriptors again");
        assert_eq!(try_content_of(&engine), Ok(content.clone()), "{free} descriptors, opened");

        let taken = leave(free);
        let errors = steps(&engine, &mut content, free as i64 * 2);
        errors.iter().for_each(|error| check(error, dir));
        match try_content_of(&engine) {
            Ok(found) => assert_eq!(found, content, "{free} descriptors"),
            Err(error) => check(&error, dir),
        }
        drop(taken);
        (refused, last) = (refused + errors.len(), errors.len());
        assert_eq!(try_content_of(&engine), Ok(content.clone()), "{free} descriptors, and enough again");
        let errors = steps(&engine, &mut content, free as i64 * 2 + 1);
        assert_eq!(errors, [], "{free} descriptors, and enough again");
        drop(engine);
    }
    assert!(closed > 0 && refused > 5, "{closed} openings and {refused} steps were refused");
    assert_eq!(last, 0, "{ENOUGH} descriptors are enough");
    let engine = open(dir, true).expect("the directory opens");
    assert_eq!(try_content_of(&engine), Ok(content));
}

/// Reads what the test that started this process has written.
fn follow(dir: &Path) {
    let expected = try_content_of(&open(dir, true).expect("the directory opens")).expect("read");
    let (mut closed, mut unread) = (0, 0);
    for free in 0..=ENOUGH {
        let taken = leave(free);
        let opened = open(dir, true).inspect_err(|error| check(error, dir));
        drop(taken);
        closed += usize::from(opened.is_err());
        let engine = opened.or_else(|_| open(dir, true)).expect("there are descriptors again");
        let taken = leave(free);
        match try_content_of(&engine) {
            Ok(found) => assert_eq!(found, expected, "{free} descriptors"),
            Err(error) => {
                check(&error, dir);
                unread += 1;
            }
        }
        let _ = whole(&engine).inspect_err(|error| check(error, dir));
        drop(taken);
        assert_eq!(try_content_of(&engine), Ok(expected.clone()), "{free} descriptors, and enough again");
    }
    assert!(closed > 0 && unread > 0, "{closed} openings and {unread} reads were refused");
}

/// Runs [`process_with_few_files`] under a lower limit.
fn run(dir: &Path, role: &str) {
    let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
    let process = Command::new("sh")
        .args(["-c", &format!("ulimit -n {LIMIT}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().expect("the test binary"))
        .args([&format!("{module}::process_with_few_files"), "--exact", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_ROLE, role)
        .stderr(Stdio::inherit())
        .output()
        .expect("a process");
    assert!(process.status.success(), "the process has ended with {}", process.status);
    assert!(String::from_utf8_lossy(&process.stdout).contains("> done"), "it has come to its end");
}

#[test]
fn without_descriptors_what_needs_one_is_refused_until_there_are_some() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(&folder.path().join("database"), "write");
}

#[test]
fn without_descriptors_a_follower_says_so_and_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("database");
    let engine = open(&dir, false).expect("the directory opens");
    let mut content = Content::new();
    let mut commit = |change: &dyn Fn(&mut Transaction, &mut Content) -> Result<()>| {
        commit(&engine, &mut content, change).expect("committed");
    };
    commit(&|transaction, content| create(transaction, content, "A"));
    commit(&|transaction, content| insert(transaction, content, "A", 0, 130));
    engine.checkpoint().expect("a checkpoint");
    commit(&|transaction, content| insert(transaction, content, "A", 1_000, 60));
    run(&dir, "follow");
}

//! Directories that may be read and not written: a mount that takes no writes, and a user that may not write. Reading
//! works, writing is refused with the reason, and no process may write while such a reader reads, because no writer
//! could see it.
//!
//! Needs root, and says so where it skips.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rowmill_base::{ErrorKind, TableId};
use rowmill_txn::Engine;

use crate::killed::{options, prepare, step_of};
use crate::other_process::Reader;
use crate::power_cut::run;
use crate::support::{create, insert, values};

/// Names directory and user to the process of [`process_that_may_not_write`].
const CHILD_DIR: &str = "ROWMILL_TEST_READ_ONLY_DIR";

/// A user who owns nothing.
const NOBODY: &str = "65534";

/// A folder under another path, through which nothing can be written.
struct Mount(PathBuf);

impl Mount {
    fn make(of: &Path, at: PathBuf) -> Option<Mount> {
        fs::create_dir(&at).expect("a folder");
        let (from, to) = (of.to_string_lossy().into_owned(), at.to_string_lossy().into_owned());
        let bound = run("mount", &["--bind", &from, &to]);
        let mount = bound.then_some(Mount(at))?;
        run("mount", &["-o", "remount,bind,ro", &to]).then_some(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &[&self.0.to_string_lossy()]);
    }
}

/// Makes a directory with commits that only the log has, as a killed process leaves it.
fn directory(folder: &Path) -> PathBuf {
    let (open, killed) = (folder.join("open"), folder.join("database"));
    prepare(&open);
    let engine = Engine::open(&open, options(false)).expect("the directory opens");
    let table = create(&engine, "More");
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &(0..150).map(|n| (n, Some(format!("text {n}")))).collect::<Vec<_>>());
    transaction.commit().expect("committed");
    crate::space::copy(&open, &killed);
    killed
}

const MORE: TableId = TableId(2);

/// Opens a directory that cannot be written, both ways.
fn check(dir: &Path) {
    let error = Engine::open(dir, options(false)).expect_err("it cannot be written");
    assert!(error.message().contains("LOCK"), "{error:?}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("read-only")), "{error:?}");
    let engine = Engine::open(dir, options(true)).unwrap_or_else(|error| panic!("it can be read: {error:?}"));
    for _ in 0..2 {
        let snapshot = engine.snapshot().expect("a snapshot");
        assert_eq!((step_of(&snapshot), values(&snapshot, MORE).len()), (0, 150));
    }
    let mut transaction = engine.begin().expect("a transaction");
    let error = transaction.truncate(MORE).and_then(|_| transaction.commit()).expect_err("it is read-only");
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error:?}");
}

/// Opens a directory that a process writes that cannot see who reads here.
fn check_written(dir: &Path) {
    let error = Engine::open(dir, options(true)).expect_err("the rows that are read could be written over");
    assert_eq!(error.kind(), ErrorKind::Locked, "{error:?}");
    assert!(error.message().contains("cannot see"), "{error:?}");
}

#[test]
fn a_file_system_that_takes_no_writes_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = directory(folder.path());
    let Some(mount) = Mount::make(&dir, folder.path().join("mounted")) else {
        eprintln!("skipped: a mount that takes no writes needs root");
        return;
    };
    check(&mount.0);
    // Also if no process ever opened the copied directory.
    for name in ["LOCK", "base.tree-made"] {
        fs::remove_file(dir.join(name)).expect("it is there");
    }
    let engine = Engine::open(&mount.0, options(true)).expect("it can be read");
    assert_eq!(step_of(&engine.snapshot().expect("a snapshot")), 0);
    drop(engine);
    check_kept_out(&mount.0, &dir);

    let writer = Engine::open(&dir, options(false)).expect("it can be written elsewhere");
    check_written_by_another(&mount.0);
    drop(writer);
    check_kept_out(&mount.0, &dir);
    Engine::open(&dir, options(false)).expect("no process reads");
}

/// Who reads without being seen keeps everybody out who would write.
fn check_kept_out(read: &Path, dir: &Path) {
    let reader = Reader::start(read);
    let error = Engine::open(dir, options(false)).expect_err("a reader that writers cannot see");
    assert_eq!(error.kind(), ErrorKind::Locked, "{error:?}");
    assert!(error.message().contains("is read by"), "{error:?}");
    fs::remove_file(dir.join("LOCK")).expect("who tried has made it");
    reader.kill();
}

/// In a process of its own, as the one that writes is this one.
fn check_written_by_another(dir: &Path) {
    assert!(process(dir, "written", &[]), "a directory that is written");
}

fn process(dir: &Path, role: &str, under: &[&str]) -> bool {
    let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
    let test = std::env::current_exe().expect("the test binary");
    let mut command = Command::new(under.first().map_or(test.as_os_str(), std::ffi::OsStr::new));
    command.args(under.iter().skip(1));
    if !under.is_empty() {
        command.arg(&test);
    }
    command.args([&format!("{module}::process_that_may_not_write"), "--exact", "--nocapture"]);
    let output = command.env(CHILD_DIR, dir).env("ROWMILL_TEST_READ_ONLY_ROLE", role).stderr(Stdio::inherit()).output();
    output.is_ok_and(|output| output.status.success() && String::from_utf8_lossy(&output.stdout).contains("> done"))
}

/// The other side of [`process`]. Does nothing when it is run as a test.
#[test]
fn process_that_may_not_write() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    match std::env::var("ROWMILL_TEST_READ_ONLY_ROLE").as_deref() {
        Ok("written") => check_written(Path::new(&dir)),
        _ => check(Path::new(&dir)),
    }
    println!("> done");
}

/// Lets every user read all of a folder, and no user write it.
fn take_away_writes(path: &Path) {
    let is_dir = path.is_dir();
    if is_dir {
        fs::read_dir(path).expect("a folder").for_each(|entry| take_away_writes(&entry.expect("an entry").path()));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(if is_dir { 0o555 } else { 0o444 }))
        .expect("its owner does it");
}

#[test]
fn a_user_that_may_not_write_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = directory(folder.path());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner does it");
    take_away_writes(&dir);
    let test = std::env::current_exe().expect("the test binary");
    let nobody = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
    if !run(nobody[0], &[&nobody[1..], &[&*test.to_string_lossy(), "--list"]].concat()) {
        eprintln!("skipped: another user needs root, setpriv and a test that everybody may run");
        return;
    }
    assert!(process(&dir, "read", &nobody), "who may only read reads");
    for name in ["LOCK", "base.tree-made"] {
        fs::remove_file(dir.join(name)).expect("it is there");
    }
    assert!(process(&dir, "read", &nobody), "where nobody ever opened it");
    let writer = Engine::open(&dir, options(false)).expect("root may write it");
    take_away_writes(&dir);
    assert!(process(&dir, "written", &nobody), "while somebody writes");
    drop(writer);
}

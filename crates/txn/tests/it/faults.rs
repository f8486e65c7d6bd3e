//! Calls that fail below every disk of ours, among them those of the lock and of the names of the base's files.
//! A library in front of the system's (`faults.c`) counts them and has the one or the other fail.
//!
//! A process with that library makes a directory, works on it, closes and opens it, and says what each transaction led
//! to. However a call fails, there are errors that say what happened to which file, reading goes on, and what was
//! acknowledged is there when the directory is opened without the library.
//!
//! Needs Linux and a C compiler, and says so where it skips.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_io::FaultPlan;
use rowmill_txn::base::{OrderedBase, TreeBase};
use rowmill_txn::{Engine, OpenOptions, Transaction};

use crate::support::{settings, times};
use crate::workload::{Content, Workload, content_of, create, delete, drop_table, insert, truncate, update};

/// Names the directory to the process of [`process_with_faults`].
const CHILD_DIR: &str = "ROWMILL_TEST_FAULTS_DIR";

/// Nothing that the process does takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(read_only: bool) -> OpenOptions {
    OpenOptions { read_only, settings: settings(40), ..OpenOptions::default() }
}

fn digest(content: &Content) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn say(what: &str, text: &str) {
    println!("> {what} {}", text.replace('\n', " "));
    std::io::stdout().flush().expect("the parent listens");
}

/// What the process does, over one opening after the other.
struct Story<'a> {
    dir: &'a Path,
    /// What was acknowledged, or found at the last opening.
    content: Content,
    /// What may be there instead.
    unknown: Option<Content>,
}

impl Story<'_> {
    fn check(&self, error: &Error) {
        say("error", &format!("{error:?}"));
        let dir = self.dir.to_string_lossy();
        // The system may refuse a mapping for want of memory.
        let kinds = [ErrorKind::Io, ErrorKind::DiskFull, ErrorKind::OpenFiles, ErrorKind::MemoryLimit];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        assert!(error.message().contains(&*dir), "no file is named: {error:?}");
    }

    /// Opens the directory, if it can be by now.
    fn open(&mut self) -> Option<Workload> {
        /// A call that fails once fails one opening.
        const TRIES: usize = 3;
        let opened = (0..TRIES).find_map(|_| {
            let opened = Engine::open(self.dir, options(false));
            opened.inspect_err(|error| self.check(error)).ok()
        })?;
        let found = content_of(&opened);
        assert!(found == self.content || self.unknown.as_ref() == Some(&found), "opened again: {found:?}");
        say("acknowledged", &digest(&found));
        (self.content, self.unknown) = (found.clone(), None);
        let mut workload = Workload::new(opened, &FaultPlan::default());
        workload.content = found;
        Some(workload)
    }

    /// Does a part of the story over one opening.
    fn part(&mut self, part: impl FnOnce(&mut Teller<'_, '_>)) {
        let Some(workload) = self.open() else { return };
        let mut teller = Teller { story: self, workload };
        part(&mut teller);
        let Teller { workload, .. } = teller;
        (self.content, self.unknown) = (workload.content, workload.unknown);
    }
}

/// Does transactions and says what they led to.
struct Teller<'a, 'b> {
    story: &'a Story<'b>,
    workload: Workload,
}

impl Teller<'_, '_> {
    fn commit(&mut self, change: impl FnOnce(&mut Transaction, &mut Content) -> Result<()>) {
        let errors = self.workload.errors.len();
        self.workload.commit(change);
        match self.workload.errors.get(errors) {
            // What a table would need that was refused before is no fault.
            Some(error) if error.kind() == ErrorKind::Internal && error.message().contains("was not made") => {}
            Some(error) => self.story.check(error),
            None => say("acknowledged", &digest(&self.workload.content)),
        }
        if let Some(unknown) = &self.workload.unknown {
            say("unknown", &digest(unknown));
        }
    }

    fn checkpoint(&self) {
        if let Err(error) = self.workload.engine.checkpoint() {
            self.story.check(&error);
        }
        assert_eq!(content_of(&self.workload.engine), self.workload.content, "behind a checkpoint");
        let _ = self.workload.engine.readers().inspect_err(|error| self.story.check(error));
    }

    fn vacuum(&self) {
        if let Err(error) = self.workload.engine.vacuum(&Cancel::new()) {
            self.story.check(&error);
        }
        assert_eq!(content_of(&self.workload.engine), self.workload.content, "behind a vacuum");
    }
}

/// The other side of [`Case::run`]. Does nothing when it is run as a test.
#[test]
fn process_with_faults() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let mut story = Story { dir: Path::new(&dir), content: Content::new(), unknown: None };
    story.part(|teller| {
        teller.commit(|transaction, content| create(transaction, content, "A"));
        teller.commit(|transaction, content| create(transaction, content, "B"));
        teller.commit(|transaction, content| insert(transaction, content, "A", 0, 100));
        teller.checkpoint();
        teller.commit(|transaction, content| {
            insert(transaction, content, "A", 1_000, 90)?;
            insert(transaction, content, "B", 1_000, 170)
        });
        teller.commit(|transaction, content| delete(transaction, content, "B", |n| n % 2 == 0));
        teller.checkpoint();
        teller.commit(|transaction, content| update(transaction, content, "A", |n| n % 3 == 0));
    });
    story.part(|teller| {
        teller.commit(|transaction, content| {
            create(transaction, content, "C")?;
            insert(transaction, content, "C", 0, 60)?;
            drop_table(transaction, content, "B")
        });
        teller.checkpoint();
        teller.commit(|transaction, content| truncate(transaction, content, "A"));
        teller.vacuum();
        teller.commit(|transaction, content| insert(transaction, content, "C", 100, 20));
        teller.checkpoint();
    });
    story.part(|teller| {
        teller.commit(|transaction, content| insert(transaction, content, "A", 5_000, 130));
        teller.checkpoint();
        teller.commit(|transaction, content| insert(transaction, content, "A", 6_000, 3));
        say("waiting", "");
        // Another reader reads at the same time.
        let _ = std::io::stdin().read_line(&mut String::new());
    });
    // No process reads the output of the test harness.
    std::process::exit(0);
}

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    /// What they fail with; 0 for writes that write the half.
    errno: i32,
    /// How many.
    times: u64,
    /// They do what they are to do before.
    after: bool,
}

const ONCE: u64 = 1;
const A_FEW: u64 = 3;
const FROM_THEN_ON: u64 = u32::MAX as u64;

/// The ways in which a call of this name fails.
fn faults_of(call: &str) -> Vec<Fault> {
    let kinds: &[(i32, bool)] = match call {
        "write" | "writev" | "pwrite" | "pwritev" => {
            &[(libc::EIO, false), (libc::EIO, true), (libc::ENOSPC, false), (libc::EINTR, false), (0, false)]
        }
        "fsync" | "fdatasync" => &[(libc::EIO, false), (libc::EIO, true), (libc::ENOSPC, false), (libc::EINTR, false)],
        "create" => &[(libc::EIO, false), (libc::EMFILE, false), (libc::ENOSPC, false), (libc::EINTR, false)],
        "open" | "look" => &[(libc::EIO, false), (libc::EMFILE, false), (libc::EINTR, false)],
        "ftruncate" | "fallocate" | "posix_fallocate" => {
            &[(libc::EIO, false), (libc::ENOSPC, false), (libc::EINTR, false)]
        }
        "mmap" => &[(libc::EIO, false), (libc::ENOMEM, false)],
        "fcntl" | "flock" => &[(libc::ENOLCK, false), (libc::EINTR, false)],
        _ => &[(libc::EIO, false)],
    };
    // A disk may be interrupted, but not for ever.
    let often = |errno| if errno == libc::EINTR { [ONCE, A_FEW].as_slice() } else { &[ONCE, A_FEW, FROM_THEN_ON] };
    let all = |(errno, after)| often(errno).iter().map(move |times| Fault { errno, times: *times, after });
    kinds.iter().copied().flat_map(all).collect()
}

/// Compiles the library. `None` where that cannot be done.
fn library(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("faults.c"), folder.join("faults.so"));
    std::fs::write(&source, include_str!("faults.c")).expect("written");
    let compiled = cfg!(target_os = "linux").then(|| {
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl").status()
    });
    if !matches!(&compiled, Some(Ok(status)) if status.success()) {
        eprintln!("skipped: a library of calls that fail needs Linux and cc");
        return None;
    }
    Some(library)
}

/// One process and what fails under it.
struct Case<'a> {
    library: &'a Path,
    folder: &'a Path,
    /// Part of the paths whose calls count.
    part: &'a str,
    /// Calls that only read do not.
    writes: bool,
    first: usize,
    fault: Fault,
}

/// What came of it.
struct Outcome {
    /// Calls and their files.
    calls: Vec<String>,
    errors: BTreeSet<String>,
}

impl Case<'_> {
    fn run(&self) -> Outcome {
        let (dir, notes, complaints) =
            (self.folder.join("database"), self.folder.join("notes"), self.folder.join("complaints"));
        let _ = std::fs::remove_dir_all(&dir);
        File::create(&notes).expect("a file");
        let what = || {
            let calls = std::fs::read_to_string(&notes).unwrap_or_default();
            let call = calls.lines().nth(self.first.saturating_sub(1)).unwrap_or("none").to_owned();
            let complaints = std::fs::read_to_string(&complaints).unwrap_or_default();
            format!("call {} ({call}), {:?}: {complaints}", self.first, self.fault)
        };
        let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
        let mut process = Command::new(std::env::current_exe().expect("the test binary"))
            .args([&format!("{module}::process_with_faults"), "--exact", "--nocapture"])
            .env(CHILD_DIR, &dir)
            .env("LD_PRELOAD", self.library)
            .env("ROWMILL_FAULT_PATH", self.part)
            .env("ROWMILL_FAULT_NOTES", &notes)
            .env("ROWMILL_FAULT_FIRST", self.first.to_string())
            .env("ROWMILL_FAULT_TIMES", self.fault.times.to_string())
            .env("ROWMILL_FAULT_ERRNO", self.fault.errno.to_string())
            .envs(self.fault.after.then_some(("ROWMILL_FAULT_AFTER", "1")))
            .envs(self.writes.then_some(("ROWMILL_FAULT_WRITES", "1")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaints).expect("a file"))
            .spawn()
            .expect("a process");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let (sender, heard) = mpsc::channel();
        let listener = std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));

        let deadline = Instant::now() + PATIENCE;
        let (mut acknowledged, mut unknown) = (digest(&Content::new()), None);
        let mut errors = BTreeSet::new();
        loop {
            let line = match heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = process.kill();
                    panic!("the process hangs: {}", what());
                }
            };
            match line.split_once("> ").map(|(_, said)| said.split_once(' ').unwrap_or((said, ""))) {
                Some(("acknowledged", content)) => (acknowledged, unknown) = (content.to_owned(), None),
                Some(("unknown", content)) => unknown = Some(content.to_owned()),
                Some(("error", error)) => drop(errors.insert(error.to_owned())),
                Some(("waiting", _)) => {
                    self.look(&dir, true, &acknowledged, unknown.as_deref(), &what);
                    drop(process.stdin.take());
                }
                _ => {}
            }
        }
        listener.join().expect("it only listens");
        let status = process.wait().expect("the process has ended");
        let quiet = !std::fs::read_to_string(&complaints).unwrap_or_default().contains("panicked");
        assert!(status.success() && quiet, "the process has ended with {status}: {}", what());
        self.look(&dir, true, &acknowledged, unknown.as_deref(), &what);
        self.look(&dir, false, &acknowledged, unknown.as_deref(), &what);
        let mut calls = String::new();
        File::open(&notes).and_then(|mut notes| notes.read_to_string(&mut calls)).expect("read");
        Outcome { calls: calls.lines().map(str::to_owned).collect(), errors }
    }

    /// Opens the directory without the library: it has what was acknowledged, and perhaps the commit behind that.
    fn look(&self, dir: &Path, read_only: bool, acknowledged: &str, unknown: Option<&str>, what: &dyn Fn() -> String) {
        let empty = digest(&Content::new());
        if read_only && !TreeBase::exists(dir).expect("it can be seen") {
            assert_eq!(acknowledged, empty, "{}", what());
            return;
        }
        let check = |engine: &Engine| {
            let found = digest(&content_of(engine));
            let is_expected = found == acknowledged || Some(found.as_str()) == unknown;
            assert!(is_expected, "other rows are there, read-only {read_only}: {}", what());
        };
        let engine = match Engine::open(dir, options(read_only)) {
            Ok(engine) => engine,
            // Made, and nothing ever committed to it.
            Err(error) if read_only && error.kind() == ErrorKind::UndefinedFile && acknowledged == empty => return,
            Err(error) => panic!("{error:?}: {}", what()),
        };
        // Where the writing process could not say how far the log goes, who follows it cannot tell, and says so.
        let unsaid = engine.snapshot().err().filter(|error| read_only && error.message().contains("log/synced"));
        if unsaid.is_none() {
            check(&engine);
        }
        if read_only {
            return;
        }
        let mut workload = Workload::new(engine, &FaultPlan::default());
        workload.content = content_of(&workload.engine);
        workload.commit(|transaction, content| create(transaction, content, "Next"));
        workload.commit(|transaction, content| insert(transaction, content, "Next", 0, 50));
        assert_eq!(workload.errors, [], "{}", what());
        let content = workload.content.clone();
        drop(workload);
        TreeBase::open(dir, true)
            .and_then(|base| base.verify())
            .unwrap_or_else(|error| panic!("{error:?}: {}", what()));
        let engine = Engine::open(dir, options(true)).unwrap_or_else(|error| panic!("{error:?}: {}", what()));
        assert_eq!(content_of(&engine), content, "{}", what());
    }
}

/// Has calls on files of `part` fail in the ways that are `meant`, each in a process of its own: all of them, or about
/// as many as `samples` says.
fn fail_calls(part: &str, writes: bool, samples: usize, meant: fn(&str, Fault) -> bool) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(library) = library(folder.path()) else { return };
    let case = |folder: &Path, first, fault| Case { library: &library, folder, part, writes, first, fault }.run();
    let Outcome { calls, errors } = case(folder.path(), 0, Fault { errno: 0, times: 0, after: false });
    assert_eq!(errors, BTreeSet::new(), "nothing fails");
    let ways = |(at, call): (usize, &String)| -> Vec<(usize, Fault)> {
        let name = call.split(' ').next().expect("its name");
        faults_of(name).into_iter().filter(|fault| meant(call, *fault)).map(|fault| (at + 1, fault)).collect()
    };
    let all: Vec<(usize, Fault)> = calls.iter().enumerate().flat_map(ways).collect();
    let chosen: Vec<(usize, Fault)> = all.iter().copied().step_by((all.len() / samples).max(1)).collect();
    let (next, kinds) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let work = |worker: usize| {
        let folder = folder.path().join(worker.to_string());
        std::fs::create_dir(&folder).expect("a folder");
        while let Some((first, fault)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            kinds.lock().extend(case(&folder, *first, *fault).errors);
        }
    };
    // They wait for the disk most of the time.
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let work = &work;
            scope.spawn(move || work(worker));
        }
    });
    assert!(chosen.len() >= 10 && !kinds.lock().is_empty(), "{} of {} variants of {calls:?}", chosen.len(), all.len());
}

#[test]
fn a_call_on_the_base_that_fails_loses_nothing() {
    fail_calls("base.tree", false, times("ROWMILL_FAULTS", 30, usize::MAX), |_, _| true);
}

#[test]
fn a_call_on_the_file_that_a_vacuum_makes_that_fails_loses_nothing() {
    fail_calls("base-1.tree", false, times("ROWMILL_FAULTS", 60, usize::MAX), |_, _| true);
}

#[test]
fn a_call_that_writes_any_file_and_fails_loses_nothing() {
    fail_calls("/database", true, times("ROWMILL_FAULTS", 30, usize::MAX), |_, _| true);
}

#[test]
fn a_record_that_is_there_though_its_write_failed_has_what_it_names() {
    fail_calls("/log/", true, times("ROWMILL_FAULTS", 20, usize::MAX), |call, fault| {
        call.starts_with("pwrite") && fault.after && fault.times == ONCE
    });
}

#[test]
fn a_base_that_is_not_seen_is_not_made_anew() {
    fail_calls("base.tree", false, times("ROWMILL_FAULTS", 20, usize::MAX), |call, fault| {
        call.starts_with("stat") && fault.times == A_FEW
    });
}

#[test]
fn who_follows_a_log_whose_end_is_half_written_is_told() {
    fail_calls("/log/", true, times("ROWMILL_FAULTS", 20, usize::MAX), |call, fault| {
        call.ends_with("/synced") && fault.errno == 0 && fault.times == FROM_THEN_ON
    });
}

//! `CHECK DATABASE`: reads everything that a database has on disk and compares it with the state in memory.
//!
//! ```text
//! base      its pages as trees, each key and value; together they must give the state of the last checkpoint
//! log       its records from there on, applied to that state, must lead to the state in memory
//! tables    rows in order, deletes within their bounds; each chunk by its checksums, and decoded from first to last
//! row
//! space     extents within their files, none used twice or free; files and folders that no definition names
//! ```
//!
//! It reads with system calls instead of mappings, because reading a mapping of a file that was cut, or that the disk
//! cannot read, raises a signal. It writes nothing, and commits go on. It checks one state, and only checkpoints wait
//! while the base and the log are compared with that state.

mod extents;
mod keyed;
mod states;
mod table;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;
use rowmill_base::{Cancel, Durability, Error, ErrorKind, Result};
use rowmill_storage::FreedExtents;

use crate::base::PROBLEMS_MAX;
use crate::column_files::ColumnFiles;
use crate::engine::Core;
use crate::keyed::generation::Generation;
use crate::keyed::store::KeyedStore;
use crate::log::{Log, LogOptions, Position};
use crate::recovery;
use crate::replay::Replay;
use crate::snapshot::Snapshot;

/// One result of a check: an object, and at most one problem or note about it. An object without problems and notes has
/// one such entry. An object with several has one entry for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The object that was checked, for example `base, pages`, `log`, or `table main.t, column a`.
    pub object: String,
    /// Number of its bytes that were checked. 0 in all entries of an object but the first.
    pub bytes: u64,
    /// Damage or an inconsistency.
    pub problem: Option<String>,
    /// A remark that is no problem.
    pub note: Option<String>,
}

/// All results for one object.
#[derive(Debug)]
struct Finding {
    object: String,
    bytes: u64,
    problems: Vec<String>,
    /// Number of problems beyond the listed ones.
    more_problems: usize,
    notes: Vec<String>,
}

impl Finding {
    fn new(object: impl Into<String>) -> Finding {
        Finding { object: object.into(), bytes: 0, problems: Vec::new(), more_problems: 0, notes: Vec::new() }
    }

    fn problem(&mut self, problem: impl Into<String>) {
        match self.problems.len() < PROBLEMS_MAX {
            true => self.problems.push(problem.into()),
            false => self.more_problems += 1,
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Returns the value, or records the error as a problem. An error of the check itself is returned, see
    /// [`ends_check`].
    fn take<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if ends_check(&error) => Err(error),
            Err(error) => {
                self.problem(problem_of(&error));
                Ok(None)
            }
        }
    }
}

/// Whether an error prevents the check and says nothing about the checked object.
fn ends_check(error: &Error) -> bool {
    use ErrorKind::{Cancelled, Deadline, Locked, MemoryLimit, OpenFiles};
    matches!(error.kind(), Cancelled | Deadline | Locked | MemoryLimit | OpenFiles)
}

/// The text of a problem. If the disk did not deliver the data, we do not know whether the data is damaged, so the text
/// says that instead.
fn problem_of(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Io => format!("it could not be read: {}", error.message()),
        _ => error.message().to_owned(),
    }
}

/// A check in progress.
struct RunningCheck<'a> {
    engine: &'a Core,
    cancel: &'a Cancel,
    /// Separate files and extents for the base and the log as we read them, so that nothing is freed by reading.
    files: ColumnFiles,
    freed: Arc<FreedExtents>,
    checked: Vec<Checked>,
}

impl Core {
    /// Checks everything on disk and reports all problems, object by object. It also works in a process that only
    /// reads.
    ///
    /// An error means that the check could not be completed: it was cancelled, or memory or file descriptors were
    /// short. Damage is reported in the result and is not an error.
    pub fn check(&self, cancel: &Cancel) -> Result<Vec<Checked>> {
        let files = ColumnFiles::new(Arc::clone(self.disk()), self.broker().clone());
        let mut check = RunningCheck { engine: self, cancel, files, freed: Arc::default(), checked: Vec::new() };
        // We hold the checkpoint lock, so that the base keeps its state and the log keeps the records after it.
        let stored = (!self.is_read_only()).then(|| self.stored().hold());
        let is_base_whole = check.base()?;
        match stored {
            Some(stored) => check.written(stored, is_base_whole)?,
            None if is_base_whole => check.followed()?,
            None => {
                let mut rest = Finding::new("log, tables and space");
                rest.problem("not checked: only the base names them, and it is damaged");
                check.finish(rest);
            }
        }
        Ok(check.checked)
    }
}

impl RunningCheck<'_> {
    /// Turns the findings for one object into results.
    fn finish(&mut self, finding: Finding) {
        let Finding { object, mut bytes, mut problems, more_problems, notes } = finding;
        if more_problems > 0 {
            problems.push(format!("and {more_problems} more"));
        }
        let problems = problems.into_iter().map(|problem| (Some(problem), None));
        let mut found: Vec<_> = problems.chain(notes.into_iter().map(|note| (None, Some(note)))).collect();
        if found.is_empty() {
            found.push((None, None));
        }
        for (problem, note) in found {
            self.checked.push(Checked { object: object.clone(), bytes: std::mem::take(&mut bytes), problem, note });
        }
    }

    /// Checks the base. Returns whether it is undamaged.
    fn base(&mut self) -> Result<bool> {
        let checked = self.engine.base().check(self.cancel)?;
        let is_whole = checked.is_whole();
        let (mut pages, mut entries) = (Finding::new("base, pages"), Finding::new("base, entries"));
        (pages.bytes, entries.bytes) = (checked.page_bytes, checked.entry_bytes);
        checked.page_problems.into_iter().try_for_each(|error| pages.take::<()>(Err(error)).map(drop))?;
        checked.entry_problems.into_iter().try_for_each(|error| entries.take::<()>(Err(error)).map(drop))?;
        self.finish(pages);
        self.finish(entries);
        Ok(is_whole)
    }

    /// Loads the state of the base, and checks what it reads again.
    fn load(&self) -> Result<Snapshot> {
        let read = self.engine.base().read_again()?;
        let state = recovery::load(&*read, &self.files, &self.freed, None)?.0;
        let store = KeyedStore::new(Generation::of_read(state.commit, read), self.files.memory(), None);
        let keyed = store.state(state.commit, &store.current());
        Ok(state.with_keyed(keyed))
    }

    /// Applies the records of a range of the log to `state`. Returns the end of the last whole record and the number of
    /// bytes read.
    fn replay(
        &self,
        options: LogOptions,
        stretch: Range<Position>,
        state: &mut Arc<Snapshot>,
    ) -> Result<(Position, u64)> {
        let mut bytes = 0;
        let mut replay = Replay::of(state, &self.files, &self.freed);
        let end = Log::read(&**self.engine.disk(), options, stretch, &mut |record| {
            self.cancel.check()?;
            bytes += record.len() as u64;
            replay.record(record)
        })?;
        let replayed = replay.finish()?.0;
        let store = replayed.keyed.store();
        let keyed = store.state(replayed.keyed.commit(), &store.current());
        *state = Arc::new(replayed.with_keyed(keyed));
        Ok((end, bytes))
    }

    /// Checks log, tables and space in the process that writes.
    fn written(&mut self, held: MutexGuard<'_, Arc<Snapshot>>, is_base_whole: bool) -> Result<()> {
        let engine = self.engine;
        let (stored, latest) = (Arc::clone(&held), engine.latest());
        let mut log = Finding::new("log");
        // We replay into versions of our own, because readers share those of the engine.
        let mut state = Arc::new(stored.detached(self.files.memory()));
        if !is_base_whole {
            log.note("the base is damaged, so its content is not compared with the expected state");
        } else if let Some(base) = log.take(self.load())? {
            for difference in states::differences(&base, &stored)? {
                log.problem(format!("the base differs from the last checkpoint: {difference}"));
            }
            state = Arc::new(base);
        }
        match engine.journal().log() {
            Some(written) => self.written_log(written, state, &latest, &mut log)?,
            None => log.note("there is no log: commits are only in memory"),
        }
        drop(held);
        // The base and the log were compared, so checkpoints may go on. `latest` keeps the rest of what we need.
        self.finish(log);
        if is_base_whole {
            self.keyed_tables(&latest)?;
        }
        self.tables(&latest, Some(engine.ids().meta()))?;
        match stored.commit == latest.commit {
            true => self.space(&[&latest]),
            false => self.space(&[&latest, &stored]),
        }
    }

    fn written_log(
        &self,
        written: &Log,
        mut state: Arc<Snapshot>,
        latest: &Arc<Snapshot>,
        log: &mut Finding,
    ) -> Result<()> {
        let engine = self.engine;
        let replayed = self.replay(written.options(), state.log_end..latest.log_end, &mut state);
        if let Some((end, bytes)) = log.take(replayed)? {
            log.bytes = bytes;
            let is_logged = engine.journal().durability() != Durability::Off;
            if end < latest.log_end {
                let known = latest.log_end.0;
                log.problem(format!("it was written up to {known}, but its records are whole only up to {}", end.0));
            } else if !is_logged && state.commit < latest.commit {
                let commits = latest.commit.0 - state.commit.0;
                log.note(format!("{commits} commits since the last checkpoint are only in memory: durability is off"));
            } else {
                for difference in states::differences(&state, latest)? {
                    log.problem(format!("base and log lead to a state that differs from memory: {difference}"));
                }
                if let Some(tables) = log.take(keyed::differences(&state, latest, self.cancel))? {
                    tables
                        .iter()
                        .for_each(|table| log.problem(format!("base and log have other rows of table {table}")));
                }
            }
        }
        log.take(written.check_published())?;
        // During a commit the log is ahead of the state, so we can only compare them while no commit runs.
        if let Some(_committing) = engine.try_lock_commit() {
            let (end, known) = (written.end(), engine.latest().log_end);
            if end != known {
                log.problem(format!("it ends at {}, but the state in memory ends at {}", end.0, known.0));
            }
        }
        log.take(Log::strays(&**engine.disk()))?
            .into_iter()
            .flatten()
            .for_each(|name| log.note(format!("{name} does not belong to the log")));
        Ok(())
    }

    /// Checks log, tables and space in a process that only reads.
    fn followed(&mut self) -> Result<()> {
        /// The writing process may make a checkpoint or start another log between our reads, but hardly this often in a
        /// row.
        const TRIES: usize = 16;
        let mut log = Finding::new("log");
        let mut failed = None;
        for _ in 0..TRIES {
            self.cancel.check()?;
            failed = None;
            // The snapshot keeps everything that it names, and everything that a later state of the base names.
            let Some(latest) = log.take(self.engine.snapshot())? else { break };
            let replayed = self.load().and_then(|base| {
                let mut state = Arc::new(base);
                let (_, bytes) = match state.commit < latest.commit {
                    true => self.replay(LogOptions::default(), state.log_end..latest.log_end, &mut state)?,
                    false => (state.log_end, 0),
                };
                Ok((state, bytes))
            });
            match replayed {
                Ok((state, bytes)) if state.commit == latest.commit => {
                    log.bytes = bytes;
                    for difference in states::differences(&state, &latest)? {
                        log.problem(format!("base and log lead to a state that differs from memory: {difference}"));
                    }
                    if let Some(tables) = log.take(keyed::differences(&state, &latest, self.cancel))? {
                        tables
                            .iter()
                            .for_each(|table| log.problem(format!("base and log have other rows of table {table}")));
                    }
                    self.finish(log);
                    self.keyed_tables(&latest)?;
                    self.tables(&latest, None)?;
                    return self.space(&[&latest]);
                }
                Ok((state, _)) => {
                    let (base, known) = (state.commit, latest.commit);
                    failed = Some(format!("base and log lead to commit {base}, but the state in memory has {known}"));
                }
                Err(error) if ends_check(&error) => return Err(error),
                Err(error) => failed = Some(problem_of(&error)),
            }
        }
        failed.into_iter().for_each(|problem| log.problem(problem));
        self.finish(log);
        Ok(())
    }
}

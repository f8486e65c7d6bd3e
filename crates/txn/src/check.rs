//! `CHECK DATABASE`: everything that a database has on disk is read and compared with what is known of it.
//!
//! ```text
//! base      its pages as trees, each key and value; what they say is the state of the last checkpoint
//! log       its records from there on, made to that state, lead to the state in memory
//! tables    rows in their order, deletes within them; each chunk by its checksums, decoded from its first to its last row
//! space     extents within their files, none of them twice or free; what lies there and is named by nobody
//! ```
//!
//! It reads by calls: a mapping of a file that was cut or that the disk cannot read is a signal. Nothing is written, and
//! commits go on: what is looked at is one state, and only a checkpoint waits while the base and the log are compared with it.

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

/// What a check has looked at, and one of the things that it has found there. An object of which nothing is to be said has one of
/// these; one with several problems or notes has one for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What was looked at: `base, pages`, `log`, `table main.t, column a`.
    pub object: String,
    /// Bytes of it that were looked at; 0 from its second problem or note on.
    pub bytes: u64,
    /// What is wrong.
    pub problem: Option<String>,
    /// What is not wrong and worth knowing.
    pub note: Option<String>,
}

/// What is found of one object.
#[derive(Debug)]
struct Finding {
    object: String,
    bytes: u64,
    problems: Vec<String>,
    /// Problems that are counted alone.
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

    /// What was asked for, or a problem more. An error of the check itself ends it.
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

/// Whether an error says nothing about what was looked at.
fn ends_check(error: &Error) -> bool {
    use ErrorKind::{Cancelled, Deadline, Locked, MemoryLimit, OpenFiles};
    matches!(error.kind(), Cancelled | Deadline | Locked | MemoryLimit | OpenFiles)
}

/// What an error says of what was looked at. Of what the disk did not give it is not known whether it is damaged.
fn problem_of(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Io => format!("it could not be read: {}", error.message()),
        _ => error.message().to_owned(),
    }
}

/// A check that is under way.
struct Check<'a> {
    engine: &'a Core,
    cancel: &'a Cancel,
    /// Of its own, for what is read of the base and the log: nothing is freed by what is only read.
    files: ColumnFiles,
    freed: Arc<FreedExtents>,
    checked: Vec<Checked>,
}

impl Core {
    /// Looks at everything that is on disk, and tells object by object what that was and all that is wrong with it. In a
    /// process that only reads, too.
    ///
    /// An error says that the check could not be made: it was cancelled, or memory or descriptors are short. Damage is no error.
    pub fn check(&self, cancel: &Cancel) -> Result<Vec<Checked>> {
        let files = ColumnFiles::new(Arc::clone(self.disk()), self.broker().clone());
        let mut check = Check { engine: self, cancel, files, freed: Arc::default(), checked: Vec::new() };
        // No checkpoint is made meanwhile: the base stays as it is, and the log has what is behind it.
        let stored = (!self.is_read_only()).then(|| self.stored().hold());
        let is_base_whole = check.base()?;
        match stored {
            Some(stored) => check.written(stored, is_base_whole)?,
            None if is_base_whole => check.followed()?,
            None => {
                let mut rest = Finding::new("log, tables and space");
                rest.problem("not looked at: only what the base says is known of them, and it is damaged");
                check.finish(rest);
            }
        }
        Ok(check.checked)
    }
}

impl Check<'_> {
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

    /// Whether the base is whole.
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

    /// What the base says, read by calls.
    fn load(&self) -> Result<Snapshot> {
        let read = self.engine.base().read_by_calls()?;
        let state = recovery::load(&*read, &self.files, &self.freed, None)?.0;
        let store = KeyedStore::new(Generation::of_read(state.commit, read), self.files.memory());
        let keyed = store.state(state.commit, &store.current());
        Ok(state.with_keyed(keyed))
    }

    /// The records of a stretch of the log, made to `state`; how far they are whole and how many bytes that is.
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

    /// The rest, in the process that writes.
    fn written(&mut self, held: MutexGuard<'_, Arc<Snapshot>>, is_base_whole: bool) -> Result<()> {
        let engine = self.engine;
        let (stored, latest) = (Arc::clone(&held), engine.latest());
        let mut log = Finding::new("log");
        // Not with the versions that everybody reads: the log is read to it.
        let mut state = Arc::new(stored.detached(self.files.memory()));
        if !is_base_whole {
            log.note("the base is damaged: what it says is not compared with what it should say");
        } else if let Some(base) = log.take(self.load())? {
            for difference in states::differences(&base, &stored)? {
                log.problem(format!("the base is not what the last checkpoint has written: {difference}"));
            }
            state = Arc::new(base);
        }
        match engine.journal().log() {
            Some(written) => self.written_log(written, state, &latest, &mut log)?,
            None => log.note("there is none: what is committed lives in memory alone"),
        }
        drop(held);
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
                log.problem(format!("it was written up to {known}, and its records are whole up to {}", end.0));
            } else if !is_logged && state.commit < latest.commit {
                let commits = latest.commit.0 - state.commit.0;
                log.note(format!(
                    "{commits} commits behind the last checkpoint are in memory alone: durability is off"
                ));
            } else {
                for difference in states::differences(&state, latest)? {
                    log.problem(format!("base and log lead to another state than the one in memory: {difference}"));
                }
                if let Some(tables) = log.take(keyed::differences(&state, latest, self.cancel))? {
                    tables
                        .iter()
                        .for_each(|table| log.problem(format!("base and log have other rows of table {table}")));
                }
            }
        }
        log.take(written.check_published())?;
        // While somebody commits the log is ahead of the state.
        if let Some(_committing) = engine.try_lock_commit() {
            let (end, known) = (written.end(), engine.latest().log_end);
            if end != known {
                log.problem(format!("it ends at {}, and the state in memory at {}", end.0, known.0));
            }
        }
        log.take(Log::strays(&**engine.disk()))?
            .into_iter()
            .flatten()
            .for_each(|name| log.note(format!("{name} is no file of the log")));
        Ok(())
    }

    /// The rest, in a process that only reads.
    fn followed(&mut self) -> Result<()> {
        /// The writing process may make a checkpoint or begin another log meanwhile, but hardly so often.
        const TRIES: usize = 16;
        let mut log = Finding::new("log");
        let mut failed = None;
        for _ in 0..TRIES {
            self.cancel.check()?;
            failed = None;
            // It keeps what it names, and all that any later state of the base names.
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
                        log.problem(format!("base and log lead to another state than the one in memory: {difference}"));
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
                    failed = Some(format!("base and log lead to commit {base}, and the state in memory has {known}"));
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

//! The reads of a tree's file, of this process and of others.
//!
//! A writer must not reuse a page that a read still needs. It knows the reads of its own process. Every other process
//! says in a file of its own which generation its oldest read has:
//!
//! ```text
//! base.tree-reader-0    generation (u64) | commit (u64) | process (u32)     0 as the generation means: no read
//! base.tree-reader-1    ...
//! ```
//!
//! A process holds a lock on its file, which the system releases when the process dies. So a file that can be locked
//! has no owner, and any process may remove it.
//!
//! **No read is missed.** A reader stores the generation, and then looks whether that generation is still the newest.
//! If not, it begins again. A writer reuses pages that generation g + 1 does not use, and looks at the files after it
//! made g + 1. So either the writer sees the read of g, or the reader sees that g is not the newest.
//!
//! The commit is stored before the generation. So the commit that a writer finds beside a generation is the commit of
//! that read, or of a later read of the same process if that read has ended.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use parking_lot::Mutex;
use rowmill_base::{CommitId, Error, Result};

use super::super::Reader;
use super::head::TreeState;
use super::names::{READER_SUFFIX, names, with_suffix};

/// The most processes that may read a file at once.
const PROCESSES_MAX: usize = 1 << 12;

const GENERATION_AT: u64 = 0;
const COMMIT_AT: u64 = 8;
const ENTRY_LEN: usize = 20;

/// The generation of a process without a read. The first state of a file has generation 1.
const NO_READ: u64 = 0;

/// The reads of one file.
#[derive(Debug)]
pub(super) struct HeldReads {
    held: Mutex<BTreeMap<u64, HeldGeneration>>,
    /// The file in which this process tells others of its reads; `None` if it is the writer.
    told: Option<ReaderFile>,
    /// The file of the base.
    base: PathBuf,
}

#[derive(Debug)]
struct HeldGeneration {
    commit: CommitId,
    reads: usize,
}

/// The oldest read of another process.
struct OtherReader {
    generation: u64,
    reader: Reader,
}

impl HeldReads {
    /// The reads of a process that no writer needs to be told of: it writes, or it keeps writers out.
    pub(super) fn untold(base: &Path) -> HeldReads {
        HeldReads { held: Mutex::default(), told: None, base: base.to_owned() }
    }

    /// The reads of a process that only reads. Returns an error of the kind of `PermissionDenied` if it may not make a
    /// file in the directory.
    pub(super) fn told(base: &Path) -> io::Result<HeldReads> {
        Ok(HeldReads { held: Mutex::default(), told: Some(ReaderFile::make(base)?), base: base.to_owned() })
    }

    /// Begins a read of the state that `newest` returns. `newest` must look at the newest state at each call.
    pub(super) fn begin(&self, newest: impl Fn() -> Result<TreeState>) -> Result<TreeState> {
        let mut held = self.held.lock();
        loop {
            let state = newest()?;
            let of_generation =
                held.entry(state.generation).or_insert(HeldGeneration { commit: state.commit, reads: 0 });
            of_generation.reads += 1;
            if of_generation.reads > 1 || self.told.is_none() {
                // A read of this generation is held, so nothing of it is reused. Or this process writes: it publishes
                // a state under the lock that `newest` takes, and looks at `held` afterwards.
                return Ok(state);
            }
            let told = self.tell(&held).and_then(|()| {
                fence(Ordering::SeqCst);
                newest()
            });
            match told {
                Ok(newest) if newest.generation == state.generation => return Ok(state),
                told => {
                    end_in(&mut held, state.generation);
                    told?;
                }
            }
        }
    }

    /// Ends a read of a generation.
    pub(super) fn end(&self, generation: u64) {
        let mut held = self.held.lock();
        if end_in(&mut held, generation) {
            // If this fails, the writer keeps pages for longer than it must, until this process tells again or ends.
            let _ = self.tell(&held);
        }
    }

    /// Stores the oldest generation that this process reads.
    fn tell(&self, held: &BTreeMap<u64, HeldGeneration>) -> Result<()> {
        let Some(file) = &self.told else { return Ok(()) };
        let oldest = held.first_key_value().map(|(generation, held)| (*generation, held.commit));
        file.store(oldest).map_err(|e| Error::io(format_args!("write {}", file.path.display()), &e))
    }

    /// The oldest generation that any process reads.
    pub(super) fn oldest_generation(&self) -> Result<Option<u64>> {
        let own = self.held.lock().keys().next().copied();
        let others = self.others()?;
        Ok(own.into_iter().chain(others.iter().map(|other| other.generation)).min())
    }

    /// The commit of the oldest read of any process.
    pub(super) fn oldest_commit(&self) -> Result<Option<CommitId>> {
        let own = self.held.lock().values().next().map(|held| held.commit);
        let others = self.others()?;
        Ok(own.into_iter().chain(others.iter().map(|other| other.reader.commit)).min())
    }

    /// The reads of this process, and the oldest read of each other one.
    pub(super) fn readers(&self) -> Result<Vec<Reader>> {
        let process = std::process::id();
        let mut readers = Vec::new();
        for HeldGeneration { commit, reads } in self.held.lock().values() {
            readers.extend(std::iter::repeat_n(Reader { commit: *commit, process }, *reads));
        }
        readers.extend(self.others()?.iter().map(|other| other.reader));
        Ok(readers)
    }

    /// The oldest read of each other process. Removes the files of processes that ended.
    fn others(&self) -> Result<Vec<OtherReader>> {
        let failed = |e: &io::Error| Error::io(format_args!("look for readers of {}", self.base.display()), e);
        let mut others = Vec::new();
        for path in reader_files(&self.base)? {
            if self.told.as_ref().is_some_and(|told| told.path == path) {
                continue;
            }
            others.extend(read_other(&path).map_err(|e| failed(&e))?);
        }
        Ok(others)
    }
}

/// Ends a read of a generation, and returns whether it was the last one of it.
fn end_in(held: &mut BTreeMap<u64, HeldGeneration>, generation: u64) -> bool {
    let of_generation = held.get_mut(&generation).expect("a read that ends has begun");
    of_generation.reads -= 1;
    let is_last = of_generation.reads == 0;
    if is_last {
        held.remove(&generation);
    }
    is_last
}

/// The paths of all reader files of a base.
fn reader_files(base: &Path) -> Result<Vec<PathBuf>> {
    let dir = base.parent().expect("a file in a directory has a parent");
    let base = base.file_name().expect("a file has a name").to_string_lossy();
    let is_of_reader = |name: &String| {
        let number = name.strip_prefix(&*base).and_then(|rest| rest.strip_prefix(READER_SUFFIX));
        number.is_some_and(|number| number.parse::<usize>().is_ok())
    };
    Ok(names(dir)?.iter().filter(|name| is_of_reader(name)).map(|name| dir.join(name)).collect())
}

/// Reads the entry of another process. Removes the file if its process has ended.
fn read_other(path: &Path) -> io::Result<Option<OtherReader>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        // No process has it. We hold its lock until it is gone: a process that has just made it, and has not locked it
        // yet, then finds that it is not the file of this name any longer.
        Ok(()) => match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => return Ok(None),
        },
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(e)) => return Err(e),
    }
    // The generation must be read first, because its owner stores it last.
    let mut generation = [0; 8];
    let mut rest = [0; ENTRY_LEN - 8];
    let read = file.read_exact_at(&mut generation, GENERATION_AT).and_then(|()| {
        fence(Ordering::SeqCst);
        file.read_exact_at(&mut rest, COMMIT_AT)
    });
    match read {
        // Its owner has not stored anything yet, so it has no read.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let generation = u64::from_le_bytes(generation);
    let (commit, process) = rest.split_first_chunk().expect("the entry has a commit");
    let process = u32::from_le_bytes(*process.first_chunk().expect("the entry has a process"));
    let reader = Reader { commit: CommitId(u64::from_le_bytes(*commit)), process };
    Ok((generation != NO_READ).then_some(OtherReader { generation, reader }))
}

/// The file in which this process tells of its reads.
#[derive(Debug)]
struct ReaderFile {
    file: File,
    path: PathBuf,
}

impl ReaderFile {
    /// Makes and locks a file that no other process has.
    fn make(base: &Path) -> io::Result<ReaderFile> {
        for number in 0..PROCESSES_MAX {
            let path = with_suffix(base, &format!("{READER_SUFFIX}{number}"));
            let file = match File::options().read(true).write(true).create_new(true).open(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            };
            let process = [0; 8].into_iter().chain([0; 8]).chain(std::process::id().to_le_bytes());
            file.lock()?;
            file.write_all_at(&process.collect::<Vec<_>>(), 0)?;
            // Another process may have removed it before we locked it. See `read_other`.
            let made = file.metadata()?;
            if fs::metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (made.dev(), made.ino())) {
                return Ok(ReaderFile { file, path });
            }
        }
        Err(io::Error::other(format!("{PROCESSES_MAX} processes read it already")))
    }

    fn store(&self, oldest: Option<(u64, CommitId)>) -> io::Result<()> {
        let (generation, commit) = oldest.unwrap_or((NO_READ, CommitId(0)));
        if generation != NO_READ {
            self.file.write_all_at(&commit.0.to_le_bytes(), COMMIT_AT)?;
            fence(Ordering::SeqCst);
        }
        self.file.write_all_at(&generation.to_le_bytes(), GENERATION_AT)
    }
}

impl Drop for ReaderFile {
    fn drop(&mut self) {
        // The name goes before the lock, so that no other process finds a file without an owner.
        let _ = fs::remove_file(&self.path);
        // Closing the file is not enough. A process that is being started at this moment holds a copy of it until it
        // runs its program.
        let _ = self.file.unlock();
    }
}

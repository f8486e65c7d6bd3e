//! The ordered base in one file of LMDB.
//!
//! LMDB is a copy-on-write B-tree in a mapped file. A commit writes the changed pages to free places, syncs them, and
//! then overwrites the older one of two heads. Each reader holds a slot in a table that all processes share. No writer
//! waits for a reader, but the pages of a state that is read are not reused.
//!
//! We add to that:
//! * **Checks.** Each value carries a checksum (`sealed_value.rs`). Before LMDB maps the file we check all pages, keys
//!   and values. For a long file we check only the heads and the length (`lmdb_pages.rs`).
//! * **Creating a base.** We create a new file under another name and then rename it, so that a base that exists is
//!   always complete (`lmdb_file.rs`).
//! * **Compaction.** To give free pages back we copy the base to another file, which replaces the old one
//!   (`lmdb_compaction.rs`).
//! * **Reads.** Searches and range scans read the mapped pages directly (`lmdb_tree.rs`). LMDB still does all writing,
//!   and does not overwrite the pages of a state that is read.
//! * **Runs.** Keys that arrive in order at many places leave full pages (`lmdb_run.rs`).
//! * **Growth.** Address space is cheap, and remapping must wait for every reader of the process (`gate.rs`). So the
//!   mapping is much longer than the file from the start. A write that does not fit doubles the mapping and runs again.
//! * **One environment per process.** LMDB's locks break if a process opens a file twice, so the second open is
//!   refused.
//! * **Killed writers.** LMDB repairs what they leave when the next write begins. A process that opens the base for
//!   writing begins such a write before the first read.
//! * **Commits of readers.** The table of readers names LMDB transactions. The base records which commit each one made.
//! * **Poison.** After an I/O error in a write we do not know what the disk holds, so we refuse all further writes.
//!
//! Reserved keys of the base:
//!
//! ```text
//! 00 'c'                      the last commit (u64)
//! 00 'h' transaction (u64 BE) the commit (u64) that this LMDB transaction made; kept from the oldest one that is read
//! 00 'v'                      the version of this layout (u32)
//! ```
//!
//! Numbers are little endian unless marked otherwise. As with every other key, the checksum follows the value.

use std::fmt;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use heed::{Env, MdbError, RoTxn, RwTxn, WithoutTls};
use parking_lot::{Mutex, RwLock};
use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_io::DirectoryLock;
use rowmill_storage::keyed::ByteRows;

use super::gate::{Entered, Gate};
use super::lmdb_by_calls::ReadByCalls;
use super::lmdb_compaction::{open_newest, open_older};
use super::lmdb_copy::LmdbCopy;
use super::lmdb_file::{Map, attach, error_of, is_full, open_env};
use super::lmdb_numbers::numbers;
use super::lmdb_pages::{check_pages, free_space};
use super::lmdb_readers::ReaderTable;
use super::lmdb_run::{RUN_KEYS_MIN, find_run, take_out};
use super::lmdb_tree::{LOOKUPS_AT_ONCE, MappedTree, TreeReader};
use super::sealed_value::{seal, unseal};
use super::{
    BaseChecked, BaseCopy, BaseRead, BaseSpace, Operation, OrderedBase, Reader, Visitor, WriteBatch, check_batch,
    has_keys, keys_of_prefix, prefix_range,
};

/// The name of the file in the directory of a database.
pub const BASE_FILE: &str = "base.lmdb";

/// The version of the layout of values and of the reserved keys.
pub(super) const LAYOUT_VERSION: u32 = 1;
pub(super) const VERSION_KEY: &[u8] = b"\0v";
pub(super) const LAST_COMMIT_KEY: &[u8] = b"\0c";
pub(super) const HISTORY_PREFIX: &[u8] = b"\0h";

/// The largest page size that a system has.
const PAGE_BYTES_MAX: usize = 1 << 14;
/// The most bytes of pages that one byte of a write can take: pages may be half full, and their ancestors are copied
/// too.
const WRITTEN_PER_BYTE: usize = 4;
/// Room that a write should have in addition to that.
const ROOM_BYTES: usize = 1 << 20;

/// The most times that we begin a read again because another commit came before we found the root of the read's tree.
const BEGINS_MAX: usize = 1_000;

/// Options for opening a base.
#[derive(Clone, Copy, Debug)]
pub struct LmdbOptions {
    /// Address space to map at the start. At least twice the length of the file is mapped, or less if the system does
    /// not grant that much.
    pub map_bytes: usize,
    /// The longest time that a mapping that must grow waits for the readers of this process.
    pub patience: Duration,
    /// A file of at most this many bytes is checked completely before it is mapped. For a longer file we check only the
    /// heads and the length, because a full check takes as long as reading the file.
    pub looked_through_max: u64,
}

impl Default for LmdbOptions {
    fn default() -> Self {
        LmdbOptions { map_bytes: 64 << 30, patience: Duration::from_secs(30), looked_through_max: 256 << 20 }
    }
}

/// An ordered base in an LMDB file.
pub struct LmdbBase {
    pub(super) dir: PathBuf,
    pub(super) options: LmdbOptions,
    /// The file that is the base now.
    pub(super) open: RwLock<Arc<OpenBase>>,
    /// Files that were the base before and that a process may still read, oldest first.
    pub(super) older: Mutex<Vec<Arc<OpenBase>>>,
    /// Locked by the writer.
    pub(super) writing: Mutex<()>,
}

/// An open file of a base, shared by the base and its reads. It is closed when the last of them is dropped.
pub(super) struct OpenBase {
    map: Map,
    tree: MappedTree,
    env: Env<WithoutTls>,
    /// Must come after `env`, so that it is closed after it. `None` if this process cannot write to the directory.
    readers: Option<ReaderTable>,
    /// Set if there is no table of readers. Then no writer could see our reads, so this lock keeps writers out.
    _without_writers: Option<DirectoryLock>,
    gate: Arc<Gate>,
    map_bytes: AtomicUsize,
    patience: Duration,
    pub(super) file: PathBuf,
    /// The number in the file's name.
    pub(super) number: u64,
    pub(super) read_only: bool,
    pub(super) poisoned: AtomicBool,
}

impl LmdbBase {
    /// Whether the directory `dir` has a base. Returns an error if the system does not tell, because a base that we
    /// cannot see may exist, and we must not create an empty one in its place.
    pub fn exists(dir: &Path) -> Result<bool> {
        Ok(!numbers(dir)?.is_empty())
    }

    /// Opens the base in the directory `dir`. To write, the caller must hold the directory's lock; a missing base is
    /// then created. Other processes may read the base at the same time. This process cannot open it a second time
    /// (`Locked`).
    pub fn open(dir: &Path, read_only: bool) -> Result<LmdbBase> {
        LmdbBase::open_with(dir, read_only, LmdbOptions::default())
    }

    /// Opens the base with the given options instead of the defaults.
    pub fn open_with(dir: &Path, read_only: bool, options: LmdbOptions) -> Result<LmdbBase> {
        let open = open_newest(dir, read_only, options)?;
        let older = if read_only { Vec::new() } else { open_older(dir, open.number, options)? };
        let base = LmdbBase {
            dir: dir.to_owned(),
            options,
            open: RwLock::new(open),
            older: Mutex::new(older),
            writing: Mutex::default(),
        };
        // A compaction of an earlier process may have left files that no process reads now. `oldest` removes them.
        if base.has_older() {
            base.oldest()?;
        }
        Ok(base)
    }

    /// The file that was the base when this process last looked.
    pub(super) fn now(&self) -> Arc<OpenBase> {
        Arc::clone(&self.open.read())
    }

    fn has_older(&self) -> bool {
        !self.older.lock().is_empty()
    }
}

impl OpenBase {
    pub(super) fn over(file: PathBuf, number: u64, read_only: bool, options: LmdbOptions) -> Result<Arc<OpenBase>> {
        let env = open_env(&file, read_only, options.map_bytes)?;
        if !read_only {
            // LMDB tells readers of a commit only after it has written the head. If the writer was killed in between,
            // the readers still see the state before, and only the next write transaction tells them. We begin one here
            // so that the first read sees the state that the first write will change.
            drop(env.write_txn().map_err(|e| error_of("open", &file, e))?);
        }
        let (map, readers) = attach(&env, &file, read_only)?;
        let dir = file.parent().expect("a file in a directory has a parent");
        let without_writers = match readers {
            Some(_) => None,
            None => Some(DirectoryLock::keep_writers_out(dir)?),
        };
        let tree = MappedTree::open(&file, env.info().map_size)?;
        let base = Arc::new(OpenBase {
            map,
            tree,
            readers,
            _without_writers: without_writers,
            gate: Arc::default(),
            map_bytes: AtomicUsize::new(env.info().map_size),
            patience: options.patience,
            env,
            file,
            number,
            read_only,
            poisoned: AtomicBool::new(false),
        });
        base.check_layout()?;
        Ok(base)
    }

    fn check_layout(self: &Arc<Self>) -> Result<()> {
        let version = self.begin()?.number::<4>(VERSION_KEY)?.map(u32::from_le_bytes);
        match version {
            Some(LAYOUT_VERSION) => Ok(()),
            Some(newer) => Err(Error::newer_format(format!(
                "{}: the base has layout {newer}, and this build reads layout {LAYOUT_VERSION}",
                self.file.display()
            ))),
            None => Err(Error::corrupt(format!("{}: the version of the layout is missing", self.file.display()))),
        }
    }

    /// Begins a read of the last commit of this file.
    #[allow(unsafe_code)]
    pub(super) fn begin(self: &Arc<Self>) -> Result<LmdbRead> {
        let mut tried_again = false;
        for _ in 0..BEGINS_MAX {
            let entered = self.gate.enter();
            match self.env.clone().static_read_txn() {
                Ok(transaction) => {
                    // The transaction must begin before we look up the root: it protects the pages of its state from
                    // then on. If another commit has come since, the heads no longer name our root, so begin again.
                    // SAFETY: `transaction` is a read of that state, and `LmdbRead` drops it after its tree.
                    let tree = unsafe { self.tree.reader(transaction.id() as u64)? };
                    if let Some(tree) = tree {
                        return Ok(LmdbRead { tree, transaction, _entered: entered, base: Arc::clone(self) });
                    }
                }
                Err(heed::Error::Mdb(MdbError::MapResized)) => {
                    // Another process let the file grow. Leave the gate first, because a remapping waits until the gate
                    // is empty.
                    drop(entered);
                    self.remap(0, self.patience)?;
                }
                Err(heed::Error::Mdb(MdbError::ReadersFull)) if !tried_again => {
                    // Some slots may belong to dead processes. Clear those once and try again.
                    tried_again = true;
                    self.env.clear_stale_readers().map_err(|e| self.error("read", e))?;
                }
                Err(e) => return Err(self.error("read", e)),
            }
        }
        let message = format!("{}: another commit came {BEGINS_MAX} times while a read began", self.file.display());
        Err(Error::new(ErrorKind::Locked, message).hint("run it again"))
    }

    /// Maps the file again over `bytes` of address space; 0 means the length that the process that grew the file chose.
    // LMDB's contract cannot be checked by the compiler.
    #[allow(unsafe_code)]
    fn remap(&self, bytes: usize, patience: Duration) -> Result<()> {
        // SAFETY: no transaction of this process is open and none begins: every transaction is inside the gate, and
        // `alone` keeps the gate shut. References into the mapping live no longer than their transaction.
        let resized = self.gate.alone(patience, || unsafe { self.env.resize(bytes) });
        match resized {
            Some(Ok(())) => {
                self.map_bytes.store(self.env.info().map_size, Ordering::Relaxed);
                Ok(())
            }
            Some(Err(e)) => Err(self.error("map", e)),
            None => Err(Error::new(
                ErrorKind::Locked,
                format!(
                    "{}: the mapping must grow, but statements of this process kept reading it for too long",
                    self.file.display()
                ),
            )
            .hint("run it again when the long-running statements of this process have ended")),
        }
    }

    /// Doubles the mapping, unless it grew after the caller read its length `seen`.
    fn grow(&self, seen: usize) -> Result<()> {
        let now = self.map_bytes.load(Ordering::Relaxed);
        if now > seen {
            // Another thread let it grow in the meantime.
            return Ok(());
        }
        self.remap(now.saturating_mul(2), self.patience)
    }

    /// Whether a write of `bytes` bytes of keys and values fits into the mapping, whatever pages it copies.
    fn has_room(&self, bytes: usize) -> bool {
        let info = self.env.info();
        let used = (info.last_page_number + 1).saturating_mul(PAGE_BYTES_MAX);
        used.saturating_add(bytes.saturating_mul(WRITTEN_PER_BYTE)).saturating_add(ROOM_BYTES) < info.map_size
    }

    /// Tries a write once. Returns `Ok(false)` if the write does not fit into the mapping, or the mapping is outdated.
    #[allow(unsafe_code)]
    fn try_write(&self, batch: &WriteBatch, at: CommitId) -> Result<bool> {
        // A remapping would unmap the pages of the write, so stay inside the gate until it ends.
        let _entered = self.gate.enter();
        let written = self.env.write_txn().map_err(WriteFailure::from).and_then(|transaction| {
            // The read is only an aid for `apply_in_runs`. Without a free reader slot we write without it.
            let before = self.env.read_txn().ok();
            let mut write = LmdbWrite { transaction, base: self, stored: Vec::new() };
            check_batch(batch, at, write.last_commit()?)?;
            let tree = match &before {
                // SAFETY: `before` is a read of that state, and is dropped after the tree.
                Some(before) => unsafe { self.tree.reader(before.id() as u64)? },
                None => None,
            };
            match tree {
                Some(tree) => write.apply_in_runs(batch, &tree)?,
                None => batch.operations().try_for_each(|operation| write.apply(operation))?,
            }
            // The commit number goes into the same transaction, so that data and number reach the disk together.
            write.note_commit(at)?;
            Ok(write.transaction.commit()?)
        });
        match written {
            Ok(()) => Ok(true),
            Err(WriteFailure::Lmdb(heed::Error::Mdb(MdbError::MapFull | MdbError::MapResized))) => Ok(false),
            Err(WriteFailure::Lmdb(e)) => Err(self.error("write", e)),
            Err(WriteFailure::Ours(e)) => Err(e),
        }
    }

    /// Turns an I/O error of a full disk into `DiskFull`. LMDB reports a partial write as an I/O error, and a full disk
    /// causes one. A full disk also refuses the next write and loses nothing, so it is no reason for us to refuse
    /// further writes.
    fn tell_full_from_broken(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Io || !is_full(&self.file) {
            return error;
        }
        let message = format!("write {}: the disk has no space left", self.file.display());
        Error::new(ErrorKind::DiskFull, message).hint("make some space and run it again")
    }

    /// Returns the last commit of the oldest read of this file in any process, as [`OrderedBase::oldest_reader`] does.
    pub(super) fn oldest(self: &Arc<Self>) -> Result<Option<CommitId>> {
        // Without the table we cannot see the reads, so assume that one reads the oldest state.
        let Some(readers) = &self.readers else { return Ok(Some(CommitId(0))) };
        self.env.clear_stale_readers().map_err(|e| self.error("look for readers of", e))?;
        let oldest = readers.oldest().map_err(|e| Error::io(format_args!("readers of {}", self.file.display()), &e))?;
        // Begin our own read only after looking at the table, so that it is not the reader that we find there.
        oldest.map(|transaction| self.begin()?.commit_of(transaction)).transpose()
    }

    /// Returns the reads of this file in all processes, as [`OrderedBase::readers`] does.
    fn readers(self: &Arc<Self>) -> Result<Vec<Reader>> {
        let Some(readers) = &self.readers else { return Ok(Vec::new()) };
        self.env.clear_stale_readers().map_err(|e| self.error("look for readers of", e))?;
        let all = readers.all().map_err(|e| Error::io(format_args!("readers of {}", self.file.display()), &e))?;
        let read = self.begin()?;
        let of = |(transaction, process)| Ok(Reader { commit: read.commit_of(transaction)?, process });
        all.into_iter().map(of).collect()
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, format!("{} is open for reading only", self.file.display())));
        }
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Io,
                format!("{}: an earlier write failed, so the content of the disk is unknown", self.file.display()),
            )
            .hint("open the database again to continue from the last commit that reached the disk"));
        }
        Ok(())
    }

    fn error(&self, call: &str, cause: heed::Error) -> Error {
        error_of(call, &self.file, cause)
    }
}

impl OrderedBase for LmdbBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        Ok(Box::new(self.begin()?))
    }

    fn write(&self, batch: &WriteBatch, at: CommitId) -> Result<()> {
        let _writing = self.writing.lock();
        let base = self.now();
        base.check_writable()?;
        loop {
            let seen = base.map_bytes.load(Ordering::Relaxed);
            match base.try_write(batch, at) {
                Ok(true) => return Ok(()),
                // LMDB has aborted the transaction, so nothing was written. Grow the mapping and run the whole write
                // again.
                Ok(false) => base.grow(seen)?,
                Err(e) => {
                    // `fetch_or` keeps an earlier poison. A full disk lost nothing, so only other I/O errors poison.
                    let e = base.tell_full_from_broken(e);
                    base.poisoned.fetch_or(e.kind() == ErrorKind::Io, Ordering::AcqRel);
                    return Err(e);
                }
            }
        }
    }

    fn make_room(&self, bytes: usize, patience: Duration) -> Result<bool> {
        let base = self.now();
        while !base.read_only && !base.has_room(bytes) {
            match base.remap(base.map_bytes.load(Ordering::Relaxed).saturating_mul(2), patience) {
                // Readers kept the mapping busy. That is no error here, because the caller may go on without more room.
                Err(error) if error.kind() == ErrorKind::Locked => return Ok(false),
                done => done?,
            }
        }
        Ok(true)
    }

    fn commit_id(&self) -> Result<CommitId> {
        self.begin()?.commit_id()
    }

    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        self.oldest()
    }

    fn readers(&self) -> Result<Vec<Reader>> {
        let older = self.older.lock();
        let mut all = Vec::new();
        for base in older.iter().chain([&self.now()]) {
            all.extend(base.readers()?);
        }
        Ok(all)
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        self.by_name(|file| check_pages(file, cancel))
    }

    fn read_by_calls(&self) -> Result<Box<dyn BaseRead>> {
        self.by_name(|file| Ok(Box::new(ReadByCalls::open(file)?) as Box<dyn BaseRead>))
    }

    fn space(&self) -> Result<BaseSpace> {
        // A process that only reads switches to the newest file here.
        drop(self.begin()?);
        let base = self.now();
        let older = self.older.lock().clone();
        let oldest = match &base.readers {
            Some(readers) => {
                base.env.clear_stale_readers().map_err(|e| base.error("look for readers of", e))?;
                readers.oldest().map_err(|e| Error::io(format_args!("readers of {}", base.file.display()), &e))?
            }
            None => Some(0),
        };
        // Begin a read after looking at the table, so that we do not find our own read. It keeps the pages of the free
        // list from being reused while we read them.
        let _read = base.begin()?;
        let mut space = free_space(&base.file, oldest.unwrap_or(u64::MAX))?;
        space.older_bytes = older.iter().filter_map(|base| Some(fs::metadata(&base.file).ok()?.len())).sum();
        Ok(space)
    }

    fn compact(&self, cancel: &Cancel) -> Result<bool> {
        self.compact_now(cancel).map(|()| true)
    }

    fn has_older_files(&self) -> bool {
        self.has_older()
    }

    fn begin_copy(&self, dir: &Path) -> Result<Box<dyn BaseCopy>> {
        Ok(Box::new(LmdbCopy::begin(dir.join(BASE_FILE))?))
    }
}

impl fmt::Debug for LmdbBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenBase { file, read_only, .. } = &*self.now();
        f.debug_struct("LmdbBase").field("file", file).field("read_only", read_only).finish_non_exhaustive()
    }
}

/// A failure inside a write. LMDB's may only mean that the mapping must grow.
pub(super) enum WriteFailure {
    Lmdb(heed::Error),
    Ours(Error),
}

impl From<heed::Error> for WriteFailure {
    fn from(error: heed::Error) -> Self {
        WriteFailure::Lmdb(error)
    }
}

impl From<Error> for WriteFailure {
    fn from(error: Error) -> Self {
        WriteFailure::Ours(error)
    }
}

struct LmdbWrite<'a> {
    transaction: RwTxn<'a>,
    base: &'a OpenBase,
    /// The sealed value of the last put. We keep the buffer to reuse its memory.
    stored: Vec<u8>,
}

impl LmdbWrite<'_> {
    fn last_commit(&self) -> Result<CommitId, WriteFailure> {
        let stored = self.base.map.get(&self.transaction, LAST_COMMIT_KEY)?;
        Ok(CommitId(number(LAST_COMMIT_KEY, stored, &self.base.file)?.map_or(0, u64::from_le_bytes)))
    }

    /// Applies a batch and treats runs of new keys as runs. `before` reads the state that the transaction began with.
    fn apply_in_runs(&mut self, batch: &WriteBatch, before: &TreeReader) -> Result<(), WriteFailure> {
        let map = &self.base.map;
        let mut operations = batch.operations().peekable();
        // After a failed look for a run we pass more operations before the next look, so that batches without runs pay
        // little for the looks.
        let mut passed = 1;
        while operations.peek().is_some() {
            let Some((first, keys)) = find_run(map, &self.transaction, operations.clone())? else {
                operations.by_ref().take(passed).try_for_each(|operation| self.apply(operation))?;
                passed = (passed * 2).min(RUN_KEYS_MIN);
                continue;
            };
            // The order matters: first take the entries after the run off their page, then append the run, then put the
            // entries back. See `lmdb_run.rs`.
            let behind = take_out(map, before, &mut self.transaction, first)?;
            operations.by_ref().take(keys).try_for_each(|operation| self.apply(operation))?;
            behind.put_back(map, &mut self.transaction)?;
            passed = 1;
        }
        Ok(())
    }

    fn apply(&mut self, operation: Operation<'_>) -> Result<(), WriteFailure> {
        match operation {
            Operation::Put { key, value } => self.put(key, value),
            Operation::Delete { key } => {
                self.base.map.delete(&mut self.transaction, key)?;
                Ok(())
            }
            Operation::DeletePrefix { prefix } => {
                self.base.map.delete_range(&mut self.transaction, &slices(&prefix_range(prefix)))?;
                Ok(())
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), WriteFailure> {
        seal(key, value, &mut self.stored);
        Ok(self.base.map.put(&mut self.transaction, key, &self.stored)?)
    }

    /// Records that this transaction made commit `at`, and forgets transactions that no process reads any longer.
    fn note_commit(&mut self, at: CommitId) -> Result<(), WriteFailure> {
        let this = self.transaction.id() as u64;
        let oldest = match &self.base.readers {
            Some(readers) => {
                readers.oldest().map_err(|e| Error::io(format_args!("readers of {}", self.base.file.display()), &e))?
            }
            None => Some(0),
        };
        // Until this transaction commits, a read may still begin on the state before it, so keep that entry.
        let kept_from = oldest.unwrap_or(this).min(this.saturating_sub(1));
        let forgotten = (Bound::Included(history_key(0)), Bound::Excluded(history_key(kept_from)));
        self.base.map.delete_range(&mut self.transaction, &slices(&forgotten))?;
        self.put(&history_key(this), &at.0.to_le_bytes())?;
        self.put(LAST_COMMIT_KEY, &at.0.to_le_bytes())
    }
}

pub(super) struct LmdbRead {
    // The order of the fields matters: the tree must be dropped before the transaction ends, the transaction must end
    // before its place inside the gate is given back, and both before the base is closed.
    tree: TreeReader,
    transaction: RoTxn<'static, WithoutTls>,
    _entered: Entered,
    base: Arc<OpenBase>,
}

impl LmdbRead {
    fn stored(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.tree.get(key)
    }

    fn number<const LEN: usize>(&self, key: &[u8]) -> Result<Option<[u8; LEN]>> {
        number(key, self.stored(key)?, &self.base.file)
    }

    /// The commit that `transaction` made, or an older commit if that one is no longer recorded.
    fn commit_of(&self, transaction: u64) -> Result<CommitId> {
        let key = history_key(transaction);
        let found = self.base.map.get_lower_than_or_equal_to(&self.transaction, &key);
        let found = found.map_err(|e| self.base.error("read", e))?;
        let Some((key, stored)) = found.filter(|(key, _)| key.starts_with(HISTORY_PREFIX)) else {
            return Ok(CommitId(0));
        };
        Ok(CommitId(number(key, Some(stored), &self.base.file)?.map_or(0, u64::from_le_bytes)))
    }

    fn visit(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        let file = &self.base.file;
        self.tree.visit(start, end, backward, &mut |key, stored| visit(key, unseal(key, stored, file)?))
    }
}

impl BaseRead for LmdbRead {
    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        super::check_key(key)?;
        let Some(stored) = self.stored(key)? else { return Ok(false) };
        out.extend_from_slice(unseal(key, stored, &self.base.file)?);
        Ok(true)
    }

    fn get_several(&self, keys: &ByteRows, wanted: &[usize], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for wanted in wanted.chunks(LOOKUPS_AT_ONCE) {
            let mut several = [&[][..]; LOOKUPS_AT_ONCE];
            for (several, at) in several.iter_mut().zip(wanted) {
                *several = keys.get(*at);
                super::check_key(several)?;
            }
            let values = self.tree.get_several(&several[..wanted.len()])?;
            for ((at, key), stored) in wanted.iter().zip(several).zip(values) {
                if let Some(stored) = stored {
                    found(*at, unseal(key, stored, &self.base.file)?);
                }
            }
        }
        Ok(())
    }

    fn scan(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> Result<()> {
        let (start, end) = keys_of_prefix(prefix);
        self.visit(start, &end, false, visit)
    }

    fn range(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        match has_keys(start, end)? {
            true => self.visit(start, end, backward, visit),
            false => Ok(()),
        }
    }

    fn pass(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, last: &mut Vec<u8>) -> Result<usize> {
        match has_keys(start, end)? {
            true => self.tree.pass(start, end, backward, keys_max, last),
            false => Ok(0),
        }
    }

    fn split_keys(&self, start: &[u8], end: &[u8], parts: usize) -> Result<Vec<Vec<u8>>> {
        match has_keys(start, end)? {
            true => self.tree.split_keys(start, end, parts),
            false => Ok(Vec::new()),
        }
    }

    fn commit_id(&self) -> Result<CommitId> {
        Ok(CommitId(self.number(LAST_COMMIT_KEY)?.map_or(0, u64::from_le_bytes)))
    }
}

pub(super) fn history_key(transaction: u64) -> Vec<u8> {
    [HISTORY_PREFIX, &transaction.to_be_bytes()].concat()
}

pub(super) fn number<const LEN: usize>(key: &[u8], stored: Option<&[u8]>, file: &Path) -> Result<Option<[u8; LEN]>> {
    let Some(stored) = stored else { return Ok(None) };
    let value = unseal(key, stored, file)?;
    let number = value.try_into().map_err(|_| {
        Error::corrupt(format!("{}: a number must have {LEN} bytes and has {}", file.display(), value.len()))
    })?;
    Ok(Some(number))
}

pub(super) fn slices(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice))
}

#[cfg(test)]
mod tests;

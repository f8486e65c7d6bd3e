//! The ordered base in a directory of RocksDB, for workloads with more random writes than a B-tree handles well.
//!
//! RocksDB is a log-structured merge tree. A write goes to a log, which is synced, and to memory. The content of memory
//! is later written to files of sorted keys, which are merged in the background. We use one column family.
//!
//! We add to that:
//! * **Checks.** Each value carries a checksum of key and value (`sealed_value.rs`), in addition to those of RocksDB's
//!   blocks, which do not cover the content of memory.
//! * **Creating a base.** We create a new base under another name and then rename it, so that a base that exists is
//!   always complete.
//! * **Its log.** A torn write at the end of the log was never acknowledged, so we skip it. Any other damage of the log
//!   is an error, because skipping it would show an older state.
//! * **Readers.** Only one process has the directory open, so we count all readers here. There are no followers.
//! * **Poison.** After an I/O error in a write we do not know what the disk holds, so we refuse all further writes.
//! * **Memory.** RocksDB's buffers have their own bounds and do not count against the memory limit.
//!
//! The reserved keys are those of `lmdb.rs` without the history: `00 'c'` for the last commit, and `00 'v'` for the
//! version of this layout.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, DBRecoveryMode, Options, ReadOptions, WriteOptions,
};
use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};

use super::kind::{ROCKS_DIR, is_there};
use super::rocks_snapshot::OwnedSnapshot;
use super::sealed_value::{LAST_COMMIT_KEY, VERSION_KEY, seal, unseal, unseal_number};
use super::tree;
use super::{
    BaseChecked, BaseCopy, BaseRead, BaseSpace, BatchParts, FIRST_KEY, KEY_LEN_MAX, Operation, OrderedBase,
    PROBLEMS_MAX, Reader, Visitor, WriteBatch, check_batch, check_key, has_keys, keys_of_prefix, prefix_end,
};

/// The version of the layout of values and of the reserved keys.
const LAYOUT_VERSION: u32 = 1;

/// The suffix of the name of a base that is being created.
const NEW_SUFFIX: &str = "-new";
/// The suffix of the name of a file that is written to find out whether the disk is full.
const PROBE_SUFFIX: &str = "-probe";
const PROBE_BYTES: usize = 1 << 20;
/// A file that every directory of RocksDB has.
const CURRENT_FILE: &str = "CURRENT";

/// Bytes of written data that RocksDB buffers in memory, and bytes of its cache of blocks.
const WRITE_BUFFER_BYTES: usize = 32 << 20;
const BLOCK_CACHE_BYTES: usize = 64 << 20;
/// The most files that RocksDB keeps open.
const FILES_MAX: i32 = 256;
/// The most bytes of the file to which RocksDB logs its own messages.
const MESSAGES_BYTES: usize = 1 << 20;

/// An ordered base in a directory of RocksDB.
pub struct RocksBase {
    database: Arc<DB>,
    path: PathBuf,
    readers: Arc<Readers>,
    /// The last commit. Locked during a write.
    last: Mutex<CommitId>,
    is_poisoned: AtomicBool,
}

/// Whether the disk of `file` is full. Finds out by writing a probe file.
fn is_full(file: &Path) -> bool {
    let probe = tree::with_suffix(file, PROBE_SUFFIX);
    let written = fs::write(&probe, vec![1; PROBE_BYTES]);
    // If the probe cannot be removed, the next one overwrites it. It is not part of the database.
    drop(fs::remove_file(&probe));
    written.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull)
}

/// The number of held reads, by the commit that they see.
#[derive(Debug, Default)]
struct Readers(Mutex<BTreeMap<CommitId, usize>>);

impl RocksBase {
    /// Whether the directory `dir` has a base. Returns an error if the system does not tell.
    pub fn exists(dir: &Path) -> Result<bool> {
        is_there(&dir.join(ROCKS_DIR))
    }

    /// Opens the base in the directory `dir`, and creates it if there is none. The caller must hold the directory's
    /// lock. Returns `Locked` if this process has it open already.
    pub fn open(dir: &Path) -> Result<RocksBase> {
        let path = dir.join(ROCKS_DIR);
        if !RocksBase::exists(dir)? {
            // If a tree was lost here, an empty RocksDB base must not take its place.
            tree::check_never_made(dir)?;
            make(&path)?;
        }
        if !is_there(&path.join(CURRENT_FILE))? {
            let what = format!("{} is missing, and it was there before", path.join(CURRENT_FILE).display());
            return Err(Error::corrupt(what).hint("restore the directory from a backup"));
        }
        let database = DB::open(&options(false), &path).map_err(|e| error_of("open", &path, &e))?;
        let base = RocksBase {
            database: Arc::new(database),
            path,
            readers: Arc::default(),
            last: Mutex::default(),
            is_poisoned: AtomicBool::new(false),
        };
        let read = base.begin();
        match read.number::<4>(VERSION_KEY)?.map(u32::from_le_bytes) {
            Some(LAYOUT_VERSION) => {}
            Some(newer) => {
                return Err(Error::newer_format(format!(
                    "{}: the base has layout {newer}, and this build reads layout {LAYOUT_VERSION}",
                    base.path.display()
                )));
            }
            None => {
                return Err(Error::corrupt(format!("{}: the version of the layout is missing", base.path.display())));
            }
        }
        *base.last.lock() = read.commit_id()?;
        drop(read);
        Ok(base)
    }

    /// Begins a read and counts it.
    fn begin(&self) -> RocksRead {
        // The readers must be locked while the snapshot is taken. Then a search for the oldest reader either sees this
        // read, or runs before the snapshot, which then sees that state or a newer one.
        let mut readers = self.readers.0.lock();
        let mut read = RocksRead {
            snapshot: OwnedSnapshot::of(&self.database),
            path: self.path.clone(),
            commit: CommitId(0),
            readers: Arc::clone(&self.readers),
        };
        // If the commit cannot be read, the read counts as one of the oldest state. The error is returned by a later
        // call.
        read.commit = read.stored_commit().unwrap_or_default();
        *readers.entry(read.commit).or_default() += 1;
        drop(readers);
        read
    }

    fn check_writable(&self) -> Result<()> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let what = format!("{}: an earlier write failed, so the content of the disk is unknown", self.path.display());
        Err(Error::new(ErrorKind::Io, what)
            .hint("open the database again to continue from the last commit that reached the disk"))
    }

    fn try_write(&self, parts: &[Cow<'_, WriteBatch>], at: CommitId) -> Result<()> {
        let mut to_write = rocksdb::WriteBatch::default();
        let mut stored = Vec::new();
        for operation in parts.iter().flat_map(|batch| batch.operations()) {
            match operation {
                Operation::Put { key, value } => {
                    seal(key, value, &mut stored);
                    to_write.put(key, &stored);
                }
                Operation::Delete { key } => to_write.delete(key),
                Operation::DeletePrefix { prefix } => {
                    let start = if prefix.is_empty() { FIRST_KEY } else { prefix };
                    // A string above all possible keys.
                    let end = prefix_end(prefix).unwrap_or_else(|| vec![u8::MAX; KEY_LEN_MAX + 1]);
                    to_write.delete_range(start, &end[..]);
                }
            }
        }
        // The commit number is in the same batch, so that data and number reach the disk together.
        seal(LAST_COMMIT_KEY, &at.0.to_le_bytes(), &mut stored);
        to_write.put(LAST_COMMIT_KEY, &stored);
        self.database.write_opt(to_write, &synced()).map_err(|e| error_of("write", &self.path, &e))
    }
}

impl OrderedBase for RocksBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        Ok(Box::new(self.begin()))
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, at: CommitId) -> Result<()> {
        // RocksDB takes one batch, and keeps it in memory.
        let parts: Vec<_> = parts.collect();
        // The lock is held during the write, so that commits reach RocksDB in their order.
        let mut last = self.last.lock();
        self.check_writable()?;
        parts.iter().try_for_each(|batch| check_batch(batch, at, *last))?;
        match self.try_write(&parts, at) {
            Ok(()) => {
                *last = at;
                Ok(())
            }
            Err(error) => {
                // RocksDB refuses all writes after a failed one, so we do too.
                self.is_poisoned.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    fn commit_id(&self) -> Result<CommitId> {
        Ok(*self.last.lock())
    }

    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        Ok(self.readers.0.lock().keys().next().copied())
    }

    fn readers(&self) -> Result<Vec<Reader>> {
        let readers = self.readers.0.lock();
        let of = |(commit, count): (&CommitId, &usize)| {
            vec![Reader { commit: *commit, process: std::process::id() }; *count]
        };
        Ok(readers.iter().flat_map(of).collect())
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        let read = self.begin();
        let mut checked = BaseChecked {
            page_bytes: self.database.property_int_value("rocksdb.total-sst-files-size").ok().flatten().unwrap_or(0),
            ..BaseChecked::default()
        };
        // Read every entry: RocksDB then checks its blocks, and we check our own sums.
        let mut entries = read.entries();
        entries.seek_to_first();
        while let Some((key, stored)) = entries.item() {
            cancel.check()?;
            checked.entries += 1;
            checked.entry_bytes += (key.len() + stored.len()) as u64;
            if let Err(problem) = unseal(key, stored, &self.path)
                && checked.entry_problems.len() < PROBLEMS_MAX
            {
                checked.entry_problems.push(problem);
            }
            entries.next();
        }
        if let Err(problem) = entries.status() {
            checked.page_problems.push(error_of("read", &self.path, &problem));
        }
        Ok(checked)
    }

    fn read_again(&self) -> Result<Box<dyn BaseRead>> {
        // RocksDB maps no file, so an ordinary read raises no signal.
        self.read()
    }

    fn compact(&self, cancel: &Cancel) -> Result<bool> {
        cancel.check()?;
        self.check_writable()?;
        // Merge everything. That removes deleted values and their deletions, except those that a read still needs.
        self.database.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(true)
    }

    fn space(&self) -> Result<BaseSpace> {
        let bytes = |property| {
            let found = self.database.property_int_value(property);
            Ok(found.map_err(|e| error_of("look at", &self.path, &e))?.unwrap_or(0))
        };
        let (all, live) = (bytes("rocksdb.total-sst-files-size")?, bytes("rocksdb.live-sst-files-size")?);
        Ok(BaseSpace { file_bytes: live, older_bytes: all.saturating_sub(live), ..BaseSpace::default() })
    }

    fn begin_copy(&self, dir: &Path) -> Result<Box<dyn BaseCopy>> {
        tree::begin_copy(dir)
    }
}

impl fmt::Debug for RocksBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksBase").field("path", &self.path).finish_non_exhaustive()
    }
}

struct RocksRead {
    snapshot: OwnedSnapshot,
    path: PathBuf,
    /// The commit under which the read is counted.
    commit: CommitId,
    readers: Arc<Readers>,
}

impl RocksRead {
    fn failed(&self, error: &rocksdb::Error) -> Error {
        error_of("read", &self.path, error)
    }

    fn number<const LEN: usize>(&self, key: &[u8]) -> Result<Option<[u8; LEN]>> {
        let stored = self.snapshot.get().get_pinned(key).map_err(|e| self.failed(&e))?;
        stored.map(|stored| unseal_number(key, &stored, &self.path)).transpose()
    }

    fn stored_commit(&self) -> Result<CommitId> {
        Ok(CommitId(self.number(LAST_COMMIT_KEY)?.map_or(0, u64::from_le_bytes)))
    }

    fn entries(&self) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.set_verify_checksums(true);
        self.snapshot.get().raw_iterator_opt(options)
    }

    /// Visits the keys from `start` up to, but not including, `end`. An empty `end` means no upper bound.
    fn visit(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        let mut entries = self.entries();
        match (backward, end) {
            (false, _) => entries.seek(start),
            (true, []) => entries.seek_to_last(),
            (true, end) => {
                // This goes to the last key that is not greater than `end`, but `end` itself is outside of the range.
                entries.seek_for_prev(end);
                if entries.key() == Some(end) {
                    entries.prev();
                }
            }
        }
        while let Some((key, stored)) = entries.item() {
            let is_inside = if backward { key >= start } else { end.is_empty() || key < end };
            if !is_inside || !visit(key, unseal(key, stored, &self.path)?)? {
                return Ok(());
            }
            if backward { entries.prev() } else { entries.next() }
        }
        entries.status().map_err(|e| self.failed(&e))
    }
}

impl BaseRead for RocksRead {
    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        check_key(key)?;
        let Some(stored) = self.snapshot.get().get_pinned(key).map_err(|e| self.failed(&e))? else { return Ok(false) };
        out.extend_from_slice(unseal(key, &stored, &self.path)?);
        Ok(true)
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

    fn commit_id(&self) -> Result<CommitId> {
        self.stored_commit()
    }
}

impl Drop for RocksRead {
    fn drop(&mut self) {
        let mut readers = self.readers.0.lock();
        let held = readers.get_mut(&self.commit).expect("a read is counted while it is held");
        *held -= 1;
        if *held == 0 {
            readers.remove(&self.commit);
        }
    }
}

/// Creates an empty base, completely or not at all.
fn make(path: &Path) -> Result<()> {
    let new = tree::with_suffix(path, NEW_SUFFIX);
    let failed = |e: &io::Error| Error::io(format_args!("make {}", path.display()), e);
    if is_there(&new)? {
        // Remove a base whose creation did not finish.
        fs::remove_dir_all(&new).map_err(|e| failed(&e))?;
    }
    let broken = |e| error_of("make", &new, &e);
    let database = DB::open(&options(true), &new).map_err(broken)?;
    let (mut to_write, mut stored) = (rocksdb::WriteBatch::default(), Vec::new());
    for (key, value) in [(VERSION_KEY, &LAYOUT_VERSION.to_le_bytes()[..]), (LAST_COMMIT_KEY, &0_u64.to_le_bytes())] {
        seal(key, value, &mut stored);
        to_write.put(key, &stored);
    }
    database.write_opt(to_write, &synced()).map_err(broken)?;
    drop(database);
    // The rename makes the base exist, and by then its content is synced. The sync of the directory keeps the name
    // after a power cut.
    fs::rename(&new, path).map_err(|e| failed(&e))?;
    let dir = path.parent().expect("a directory in a directory has a parent");
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(&e))
}

fn options(is_new: bool) -> Options {
    let mut options = Options::default();
    options.create_if_missing(is_new);
    options.set_error_if_exists(is_new);
    options.set_compression_type(DBCompressionType::None);
    options.set_paranoid_checks(true);
    // Only a torn record at the end of the log is tolerated. Any other damage of the log is an error.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_open_files(FILES_MAX);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(MESSAGES_BYTES);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    options.set_block_based_table_factory(&blocks);
    options
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

fn error_of(call: &str, path: &Path, error: &rocksdb::Error) -> Error {
    let message = format!("{call} {}: {error}", path.display());
    match error.kind() {
        rocksdb::ErrorKind::Corruption => Error::corrupt(message),
        // RocksDB locks a file in its directory. It reports a failure only as text, so we must match the text.
        rocksdb::ErrorKind::IOError
            if message.contains("lock hold by current process") || message.contains("While lock file") =>
        {
            Error::new(ErrorKind::Locked, message).hint("open the database once and share it between threads")
        }
        rocksdb::ErrorKind::IOError if message.contains("No space") || is_full(path) => {
            Error::new(ErrorKind::DiskFull, message).hint("make some space and open the database again")
        }
        _ => Error::new(ErrorKind::Io, message),
    }
}

#[cfg(test)]
mod tests;

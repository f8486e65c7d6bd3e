//! The ordered base in a directory of RocksDB, for who writes more at random than the pages of a B-tree take.
//!
//! RocksDB is a log-structured merge tree: a write goes to a log, which is synced, and to memory; what memory has is written
//! in files of sorted keys, which are merged behind it. There is one column family.
//!
//! What is added to that:
//! * **Checks.** Each value carries a checksum of key and value (`sealed_value.rs`), beside those of RocksDB's blocks, which
//!   do not cover what memory has.
//! * **Making a base.** A new one is made under another name and then renamed, so that one that exists is whole.
//! * **Its log.** A write that was torn by a crash was never answered, and is passed over at the log's end; other damage of it
//!   is an error, and never an older state.
//! * **Readers.** One process has the directory open, so that all who read are counted here. There are no followers.
//! * **Poison.** After an I/O error in a write nothing is known about what the disk holds; no further write is tried.
//! * **Memory.** What RocksDB holds has bounds of its own, outside of the memory limit.
//!
//! Keys of the base itself are those of `lmdb.rs`, without the history: `00 'c'`, the last commit, and `00 'v'`, the version
//! of this layout.

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

use super::kind::ROCKS_DIR;
use super::lmdb::{BASE_FILE, LAST_COMMIT_KEY, VERSION_KEY, number};
use super::lmdb_copy::LmdbCopy;
use super::lmdb_file::{check_never_made, is_full, is_there, with_suffix};
use super::rocks_snapshot::OwnedSnapshot;
use super::sealed_value::{seal, unseal};
use super::{
    BaseChecked, BaseCopy, BaseRead, BaseSpace, FIRST_KEY, KEY_LEN_MAX, Operation, OrderedBase, PROBLEMS_MAX, Reader,
    Visitor, WriteBatch, check_batch, check_key, has_keys, keys_of_prefix, prefix_end,
};

/// The version of the values' layout and of the base's own keys.
const LAYOUT_VERSION: u32 = 1;

/// What a base that is being made is called.
const NEW_SUFFIX: &str = "-new";
/// Every directory of RocksDB has it.
const CURRENT_FILE: &str = "CURRENT";

/// Bytes of writes that are in memory, and of blocks that were read.
const WRITE_BUFFER_BYTES: usize = 32 << 20;
const BLOCK_CACHE_BYTES: usize = 64 << 20;
/// Files that it has open.
const FILES_MAX: i32 = 256;
/// Bytes of the file in which RocksDB says what it does.
const MESSAGES_BYTES: usize = 1 << 20;

/// An ordered base in a directory of RocksDB.
pub struct RocksBase {
    database: Arc<DB>,
    path: PathBuf,
    readers: Arc<Readers>,
    /// The last commit. Held while one is written.
    last: Mutex<CommitId>,
    is_poisoned: AtomicBool,
}

/// Reads that are held: how many, by what they see.
#[derive(Debug, Default)]
struct Readers(Mutex<BTreeMap<CommitId, usize>>);

impl RocksBase {
    /// Whether the directory `dir` has a base. An error if the system does not say.
    pub fn exists(dir: &Path) -> Result<bool> {
        is_there(&dir.join(ROCKS_DIR))
    }

    /// Opens the base in the directory `dir`, which is made if there is none. The caller holds the directory's lock. `Locked` if
    /// this process has it open already.
    pub fn open(dir: &Path) -> Result<RocksBase> {
        let path = dir.join(ROCKS_DIR);
        if !RocksBase::exists(dir)? {
            // One of LMDB that was lost is not made up for by this one.
            check_never_made(&dir.join(BASE_FILE))?;
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
                    "{}: layout {newer} of the base, and {LAYOUT_VERSION} is what we read",
                    base.path.display()
                )));
            }
            None => {
                return Err(Error::corrupt(format!("{}: the layout's version is missing", base.path.display())));
            }
        }
        *base.last.lock() = read.commit_id()?;
        drop(read);
        Ok(base)
    }

    /// A read that is counted.
    fn begin(&self) -> RocksRead {
        // With the readers locked, so that who looks for the oldest one sees it or a state that is newer.
        let mut readers = self.readers.0.lock();
        let mut read = RocksRead {
            snapshot: OwnedSnapshot::of(&self.database),
            path: self.path.clone(),
            commit: CommitId(0),
            readers: Arc::clone(&self.readers),
        };
        // What cannot be read counts as the oldest state, and is said when it is read.
        read.commit = read.stored_commit().unwrap_or_default();
        *readers.entry(read.commit).or_default() += 1;
        drop(readers);
        read
    }

    fn check_writable(&self) -> Result<()> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let what = format!("{}: an earlier write failed, and what the disk holds is not known", self.path.display());
        Err(Error::new(ErrorKind::Io, what)
            .hint("open the database again to go on from the last commit that reached the disk"))
    }

    fn try_write(&self, batch: &WriteBatch, at: CommitId) -> Result<()> {
        let mut to_write = rocksdb::WriteBatch::default();
        let mut stored = Vec::new();
        for operation in batch.operations() {
            match operation {
                Operation::Put { key, value } => {
                    seal(key, value, &mut stored);
                    to_write.put(key, &stored);
                }
                Operation::Delete { key } => to_write.delete(key),
                Operation::DeletePrefix { prefix } => {
                    let start = if prefix.is_empty() { FIRST_KEY } else { prefix };
                    // Above all keys that there can be.
                    let end = prefix_end(prefix).unwrap_or_else(|| vec![u8::MAX; KEY_LEN_MAX + 1]);
                    to_write.delete_range(start, &end[..]);
                }
            }
        }
        seal(LAST_COMMIT_KEY, &at.0.to_le_bytes(), &mut stored);
        to_write.put(LAST_COMMIT_KEY, &stored);
        self.database.write_opt(to_write, &synced()).map_err(|e| error_of("write", &self.path, &e))
    }
}

impl OrderedBase for RocksBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        Ok(Box::new(self.begin()))
    }

    fn write(&self, batch: &WriteBatch, at: CommitId) -> Result<()> {
        let mut last = self.last.lock();
        self.check_writable()?;
        check_batch(batch, at, *last)?;
        match self.try_write(batch, at) {
            Ok(()) => {
                *last = at;
                Ok(())
            }
            Err(error) => {
                // RocksDB takes no further write after any failure, nor do we.
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

    fn read_by_calls(&self) -> Result<Box<dyn BaseRead>> {
        // RocksDB maps no file.
        self.read()
    }

    fn compact(&self, cancel: &Cancel) -> Result<bool> {
        cancel.check()?;
        self.check_writable()?;
        // All of it is merged: what was deleted and what has deleted it go, but for who reads it.
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
        Ok(Box::new(LmdbCopy::begin(dir.join(BASE_FILE))?))
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
    /// What it is counted by.
    commit: CommitId,
    readers: Arc<Readers>,
}

impl RocksRead {
    fn failed(&self, error: &rocksdb::Error) -> Error {
        error_of("read", &self.path, error)
    }

    fn number<const LEN: usize>(&self, key: &[u8]) -> Result<Option<[u8; LEN]>> {
        let stored = self.snapshot.get().get_pinned(key).map_err(|e| self.failed(&e))?;
        number(key, stored.as_deref(), &self.path)
    }

    fn stored_commit(&self) -> Result<CommitId> {
        Ok(CommitId(self.number(LAST_COMMIT_KEY)?.map_or(0, u64::from_le_bytes)))
    }

    fn entries(&self) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.set_verify_checksums(true);
        self.snapshot.get().raw_iterator_opt(options)
    }

    /// Visits the keys from `start` on that are below `end` (empty: that are there).
    fn visit(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        let mut entries = self.entries();
        match (backward, end) {
            (false, _) => entries.seek(start),
            (true, []) => entries.seek_to_last(),
            (true, end) => {
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

/// Makes an empty base, whole or not at all.
fn make(path: &Path) -> Result<()> {
    let new = with_suffix(path, NEW_SUFFIX);
    let failed = |e: &io::Error| Error::io(format_args!("make {}", path.display()), e);
    if is_there(&new)? {
        // Of one that was not made to its end.
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
    // Whatever else is wrong with its log is an error.
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
        // It locks a file in its directory, and tells no more of what it met than a text.
        rocksdb::ErrorKind::IOError
            if message.contains("lock hold by current process") || message.contains("While lock file") =>
        {
            Error::new(ErrorKind::Locked, message)
                .hint("a process opens a database once, and shares it among its threads")
        }
        rocksdb::ErrorKind::IOError if message.contains("No space") || is_full(path) => {
            Error::new(ErrorKind::DiskFull, message).hint("make some space and open the database again")
        }
        _ => Error::new(ErrorKind::Io, message),
    }
}

#[cfg(test)]
mod tests;

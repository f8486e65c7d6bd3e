//! The ordered base: what the database knows of itself, as one ordered map from keys to values.
//!
//! Catalog, manifest, delete vectors and runs of recent rows are keys and values here. The base gives three things that
//! the rest is built on: a batch is applied whole or not at all and is on disk when [`OrderedBase::write`] returns; a
//! read sees one committed state however long it lasts and never waits for a writer; and the oldest state that anybody
//! still reads is known, so that what no later state names can be given back.
//!
//! [`LmdbBase`] keeps the map in one file of LMDB, [`MemoryBase`] in memory, and with the feature `rocksdb` `RocksBase` in a
//! directory of RocksDB. One conformance suite runs over all. [`BaseKind`] says which of them a directory has.

mod gate;
mod kind;
mod lmdb;
mod lmdb_by_calls;
mod lmdb_compaction;
mod lmdb_copy;
mod lmdb_file;
mod lmdb_numbers;
mod lmdb_pages;
mod lmdb_readers;
mod lmdb_run;
mod lmdb_tree;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "rocksdb")]
mod rocks_snapshot;
mod sealed_value;
mod write_batch;

#[cfg(test)]
mod conformance;

use std::fmt::Debug;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};

pub use kind::BaseKind;
pub use lmdb::{BASE_FILE, LmdbBase, LmdbOptions};
pub use memory::MemoryBase;
#[cfg(feature = "rocksdb")]
pub use rocks::RocksBase;
pub use write_batch::{Operation, WriteBatch};

/// The longest key, in bytes. What LMDB takes on pages of 4 KiB, less a margin.
pub const KEY_LEN_MAX: usize = 1_900;

/// An ordered map from byte strings to byte strings, with atomic batches and snapshots.
///
/// Keys order by bytes. A key has 1 to [`KEY_LEN_MAX`] bytes and does not start with a zero byte: those keys are the
/// base's own. A thread that holds a read of a base may write to it; the read goes on seeing its state.
pub trait OrderedBase: Send + Sync + Debug {
    /// A snapshot of the last commit. It holds back the reuse of space while it lives, in every process, so keep it for a
    /// statement and not for a session. The base stays open as long as one of its reads.
    fn read(&self) -> Result<Box<dyn BaseRead>>;

    /// Applies the operations of `batch` in order, all or none of them, and remembers `at`, which must not be lower than
    /// the last one. On disk when it returns. Writers wait for each other. A batch that is made for another last commit
    /// ([`WriteBatch::behind`]) is refused.
    ///
    /// Kinds: `ReadOnly` for a base opened so, `DiskFull` and `Io` from the disk, `Locked` if the file's mapping has to
    /// grow and a reader of this process holds it for too long. Nothing is applied then. After an `Io` error all writes
    /// are refused until the base is opened again, since it is not known what the disk holds.
    fn write(&self, batch: &WriteBatch, at: CommitId) -> Result<()>;

    /// Makes room for a write of keys and values of so many bytes, if that takes a moment in which nobody of this process reads:
    /// `false` if there was none for all of `patience`. A write makes room by itself; this is for whoever holds a read while it
    /// writes.
    fn make_room(&self, _bytes: usize, _patience: Duration) -> Result<bool> {
        Ok(true)
    }

    /// The id given to the last write, 0 before the first.
    fn commit_id(&self) -> Result<CommitId>;

    /// The last commit of the oldest snapshot that a read in any process holds, after those of dead processes were
    /// cleared; `None` if nobody reads.
    ///
    /// A read that begins while this runs may be missing from the answer. It then sees the last commit or a later one.
    /// So after `write(.., n)` returned, what commit `n` dropped may be reused once the answer is `None` or at least
    /// `n`. The answer may be lower than the truth, never higher.
    fn oldest_reader(&self) -> Result<Option<CommitId>>;

    /// Everybody who reads in any process, after those of dead processes were cleared.
    fn readers(&self) -> Result<Vec<Reader>>;

    /// Looks at everything that the last commit has, and tells of every damage. Where there is a file it reads by calls, so
    /// that whatever the file holds raises no signal.
    fn check(&self, cancel: &Cancel) -> Result<BaseChecked>;

    /// The last commit, read as [`OrderedBase::check`] reads. Space that it reads is kept by nobody: it is for a base to which
    /// nobody writes meanwhile, or of which somebody holds a read.
    fn read_by_calls(&self) -> Result<Box<dyn BaseRead>>;

    /// Gives what is free in the base back to the file system, and says whether it can do that. Reads go on; writes wait. What is replaced
    /// stays as long as somebody reads it in any process ([`BaseSpace::older_bytes`]).
    ///
    /// An error changes nothing, or refuses further writes until the base is opened again.
    fn compact(&self, _cancel: &Cancel) -> Result<bool> {
        Ok(false)
    }

    /// Whether files of before a compaction are there, which [`OrderedBase::oldest_reader`] removes when nobody reads them.
    fn has_older_files(&self) -> bool {
        false
    }

    /// The space that it takes. All zeros where there is no file.
    fn space(&self) -> Result<BaseSpace> {
        Ok(BaseSpace::default())
    }

    /// Begins another base in the directory `dir`, which has none: one of LMDB, whatever this one is, so that it is opened for reading
    /// too. `Unsupported` where that cannot be.
    fn begin_copy(&self, dir: &Path) -> Result<Box<dyn BaseCopy>> {
        let message =
            format!("this database keeps its ordered base in a way of which no copy is made in {}", dir.display());
        Err(Error::new(ErrorKind::Unsupported, message).hint("close it and copy its directory"))
    }

    /// As [`OrderedBase::check`]. The first damage is the error.
    fn verify(&self) -> Result<()> {
        self.check(&Cancel::new())?.into_result()
    }
}

/// Problems of one kind that a check tells of. Where there are more nothing is right.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// What was looked at in a base, and what was wrong with it.
#[derive(Debug, Default)]
pub struct BaseChecked {
    /// Bytes of the pages in use; 0 where there are none.
    pub page_bytes: u64,
    /// What is wrong with pages.
    pub page_problems: Vec<Error>,
    /// Entries, the base's own among them.
    pub entries: u64,
    /// Their bytes.
    pub entry_bytes: u64,
    /// Which of them are not what was written.
    pub entry_problems: Vec<Error>,
}

impl BaseChecked {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.page_problems.is_empty() && self.entry_problems.is_empty()
    }

    fn into_result(self) -> Result<()> {
        self.page_problems.into_iter().chain(self.entry_problems).next().map_or(Ok(()), Err)
    }
}

/// A read of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    /// The last commit that it sees, or an older one.
    pub commit: CommitId,
    /// The process that reads.
    pub process: u32,
}

/// The file of a base, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseSpace {
    /// Its length.
    pub file_bytes: u64,
    /// What nothing lies in. It is used again by writes, and given back by nothing but a compaction.
    pub free_bytes: u64,
    /// What of that is read by somebody who sees an older state, and cannot be used again before.
    pub held_bytes: u64,
    /// Files of before a compaction, which somebody reads.
    pub older_bytes: u64,
}

/// A base that is being made of the entries of another one. Dropped before its end it leaves files of no meaning behind.
pub trait BaseCopy {
    /// Adds an entry. Keys ascend.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Applies `later` to what was put, and gives the base `at` as its last commit. On disk when it returns, but for the names of its
    /// files, which it gives, relative to the directory.
    fn finish(self: Box<Self>, later: &WriteBatch, at: CommitId) -> Result<Vec<String>>;
}

/// Takes a key and its value, and says whether to go on.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'a;

/// One committed state of a base.
pub trait BaseRead: Send {
    /// The value of `key`. `Corrupt` if it is not what was written.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.append_value(key, &mut value)?.then_some(value))
    }

    /// Appends the value of `key` to `out`, and says whether there is one. `Corrupt` if it is not what was written.
    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// Visits the keys that start with `prefix`, ascending, with their values, until the visitor says `false` or fails.
    fn scan(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> Result<()>;

    /// Visits the keys from `start` on that are below `end` (empty: that are there), with their values, ascending or from the
    /// end, until the visitor says `false` or fails. `start` is a key that may be kept.
    fn range(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()>;

    /// Passes over the first keys of a range, `keys_max` at most, in the order of [`BaseRead::range`]; how many there were. Where
    /// there are as many, `last` is set to the last one. Values are not looked at: damage of a value is not noticed.
    fn pass(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, last: &mut Vec<u8>) -> Result<usize> {
        let mut passed = 0;
        if keys_max == 0 {
            return Ok(0);
        }
        self.range(start, end, backward, &mut |key, _| {
            passed += 1;
            if passed == keys_max {
                last.clear();
                last.extend_from_slice(key);
            }
            Ok(passed < keys_max)
        })?;
        Ok(passed)
    }

    /// The id of the last write that this state has.
    fn commit_id(&self) -> Result<CommitId>;
}

/// The first byte of the base's own keys.
const RESERVED: u8 = 0;

/// The first key that is not the base's own.
const FIRST_KEY: &[u8] = &[RESERVED + 1];

/// Refuses keys that a base cannot keep.
fn check_key(key: &[u8]) -> Result<()> {
    match key.first() {
        None => Err(Error::internal("a key of the base is empty")),
        Some(&RESERVED) => Err(Error::internal("a key of the base starts with a zero byte, which is reserved")),
        Some(_) if key.len() > KEY_LEN_MAX => Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("a key of {} bytes is longer than the {KEY_LEN_MAX} bytes that a key may have", key.len()),
        )),
        Some(_) => Ok(()),
    }
}

/// Refuses a batch that a base cannot apply, before anything of it is applied.
fn check_batch(batch: &WriteBatch, at: CommitId, last: CommitId) -> Result<()> {
    if at < last {
        return Err(Error::internal(format!("commit {at} was written to the base behind commit {last}")));
    }
    if !batch.is_behind(last) {
        return Err(Error::internal(format!("a change of another state was to be written behind commit {last}")));
    }
    batch.operations().try_for_each(|operation| match operation {
        Operation::Put { key, .. } | Operation::Delete { key } => check_key(key),
        Operation::DeletePrefix { prefix } => match prefix.first() {
            Some(&RESERVED) => check_key(prefix),
            _ => Ok(()),
        },
    })
}

/// The first byte string behind all that start with `prefix`; `None` if there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The first and the last key of a range.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The first and the last bound of the keys that start with `prefix`, without the base's own.
fn prefix_range(prefix: &[u8]) -> Bounds {
    let (start, end) = keys_of_prefix(prefix);
    bounds(start, &end)
}

/// The keys that start with `prefix`, without the base's own, as the start and the end of [`BaseRead::range`].
fn keys_of_prefix(prefix: &[u8]) -> (&[u8], Vec<u8>) {
    let start = if prefix.is_empty() { FIRST_KEY } else { prefix };
    (start, prefix_end(prefix).unwrap_or_default())
}

/// The bounds of a range as [`BaseRead::range`] takes it.
fn bounds(start: &[u8], end: &[u8]) -> Bounds {
    let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.to_vec()) };
    (Bound::Included(start.to_vec()), upper)
}

/// Whether there can be keys in a range as [`BaseRead::range`] takes it.
fn has_keys(start: &[u8], end: &[u8]) -> Result<bool> {
    check_key(start.get(..start.len().min(KEY_LEN_MAX)).unwrap_or_default())?;
    Ok(end.is_empty() || start < end)
}

/// The bounds of [`BaseRead::range`]; `None` of a range without keys.
fn key_bounds(start: &[u8], end: &[u8]) -> Result<Option<Bounds>> {
    Ok(has_keys(start, end)?.then(|| bounds(start, end)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn prefixes_end_behind_their_last_key() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xFF\xFF"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xFF\xFF"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn keys_that_cannot_be_kept_are_refused() {
        assert_eq!(check_key(b"").unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(check_key(b"\0a").unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(check_key(&[1; KEY_LEN_MAX + 1]).unwrap_err().kind(), ErrorKind::InvalidParameter);
        assert_eq!(check_key(&[1; KEY_LEN_MAX]), Ok(()));
    }
}

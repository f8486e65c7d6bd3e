//! The ordered base: everything the database knows about itself, as one ordered map from keys to values.
//!
//! Catalog, manifest, delete vectors and runs of recent rows are keys and values in this map. The rest of the database
//! relies on three guarantees:
//!
//! * A batch is applied completely or not at all, and it is on disk when [`OrderedBase::write`] returns.
//! * A read sees one committed state for as long as it lives, and never waits for a writer.
//! * The oldest state that any process still reads is known, so that we can free space that no later state names.
//!
//! [`TreeBase`] keeps the map in one file of pages, [`MemoryBase`] keeps it in memory, and with the feature `rocksdb`
//! `RocksBase` keeps it in a directory of RocksDB. One conformance suite tests all of them. [`BaseKind`] tells which
//! kind a directory has.

mod kind;
mod lmdb;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "rocksdb")]
mod rocks_snapshot;
mod sealed_value;
mod tree;
mod write_batch;

#[cfg(test)]
mod conformance;

use std::borrow::Cow;
use std::fmt::Debug;
use std::iter;
use std::ops::Bound;
use std::path::Path;

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_storage::keyed::ByteRows;

pub use kind::BaseKind;
pub use memory::MemoryBase;
#[cfg(feature = "rocksdb")]
pub use rocks::RocksBase;
pub use tree::{BASE_FILE, TreeBase};
pub use write_batch::{Operation, WriteBatch};

/// The longest key, in bytes: a page of 4 KiB must have room for two.
pub(crate) const KEY_LEN_MAX: usize = 1_900;

/// An ordered map from byte strings to byte strings, with atomic batches and snapshots.
///
/// Keys are ordered by their bytes. A key must have 1 to [`KEY_LEN_MAX`] bytes and must not start with a zero byte,
/// because those keys are reserved for the base itself. A thread that holds a read of a base may write to the base; the
/// read still sees its own state.
pub trait OrderedBase: Send + Sync + Debug {
    /// Returns a snapshot of the last commit. Space that the snapshot uses is not reused by any process while the
    /// snapshot lives, so the caller should keep it for one statement, not for a session. The base stays open while any
    /// of its reads lives.
    fn read(&self) -> Result<Box<dyn BaseRead>>;

    /// Applies all operations of `batch` in order, or none of them, and records `at` as the last commit. `at` must not
    /// be lower than the previous one. The batch is on disk when this returns. Writers wait for each other. A batch
    /// that was made for another last commit (see [`WriteBatch::behind`]) is refused.
    ///
    /// Errors: `ReadOnly` if the base was opened for reading only; `DiskFull` and `Io` from the disk; `Corrupt` if a
    /// page to change is damaged. Nothing is applied then. After an `Io` error we refuse all writes until the base is
    /// opened again, because we no longer know what the disk holds.
    fn write(&self, batch: &WriteBatch, at: CommitId) -> Result<()> {
        self.write_parts(&mut iter::once(Cow::Borrowed(batch)), at)
    }

    /// Applies batches one after the other, all of them or none, as [`OrderedBase::write`] does with one batch. A base
    /// in files holds one of them in memory at a time.
    fn write_parts(&self, parts: &mut BatchParts<'_>, at: CommitId) -> Result<()>;

    /// The id that the last write recorded, or 0 before the first write.
    fn commit_id(&self) -> Result<CommitId>;

    /// The last commit of the oldest snapshot that a read in any process holds, after entries of dead processes were
    /// cleared; `None` if there are no reads.
    ///
    /// The answer may miss a read that begins while this runs. Such a read sees the last commit or a later one. So
    /// after `write(.., n)` returned, the space that commit `n` freed may be reused once the answer is `None` or at
    /// least `n`. The answer may be lower than the truth, but must never be higher.
    fn oldest_reader(&self) -> Result<Option<CommitId>>;

    /// All reads in all processes, after entries of dead processes were cleared.
    fn readers(&self) -> Result<Vec<Reader>>;

    /// Checks everything in the last commit and reports every damage. Whatever a file contains, this raises no signal.
    fn check(&self, cancel: &Cancel) -> Result<BaseChecked>;

    /// Returns a snapshot of the last commit that checks what it reads again, even if another read has checked it
    /// before.
    fn read_again(&self) -> Result<Box<dyn BaseRead>>;

    /// Returns the free space of the base to the file system; `false` if this kind of base cannot do that. Reads
    /// continue, writes wait. The replaced file stays while any process reads it (see [`BaseSpace::older_bytes`]).
    ///
    /// An error either changes nothing, or refuses further writes until the base is opened again.
    fn compact(&self, _cancel: &Cancel) -> Result<bool> {
        Ok(false)
    }

    /// Gives the space of pages that no read needs back to the file system. The file keeps its length, and later writes
    /// take the space again. Writes wait. The work ends early when `go_on` returns false, and a later call does the
    /// rest. After an `Io` error, writes are refused as after one of [`OrderedBase::write`].
    fn release_free(&self, _go_on: &dyn Fn() -> bool) -> Result<()> {
        Ok(())
    }

    /// Makes the file shorter by moving a part of its entries, and returns whether it may become even shorter. Reads
    /// continue, writes wait for some milliseconds. Errors are those of [`OrderedBase::write`].
    fn shrink(&self) -> Result<bool> {
        Ok(false)
    }

    /// Whether files from before a compaction still exist. [`OrderedBase::oldest_reader`] removes them once no process
    /// reads them.
    fn has_older_files(&self) -> bool {
        false
    }

    /// The space that the base takes. All zeros if it has no file.
    fn space(&self) -> Result<BaseSpace> {
        Ok(BaseSpace::default())
    }

    /// Begins a copy of the base in the directory `dir`, which must not have one. The copy is always a tree, so
    /// that it can also be opened for reading only. Returns `Unsupported` if this base cannot be copied.
    fn begin_copy(&self, dir: &Path) -> Result<Box<dyn BaseCopy>> {
        let message = format!("this kind of ordered base cannot be copied to {}", dir.display());
        Err(Error::new(ErrorKind::Unsupported, message).hint("close the database and copy its directory"))
    }

    /// Checks everything in the last commit, and returns the first damage as the error.
    fn verify(&self) -> Result<()> {
        self.check(&Cancel::new())?.into_result()
    }
}

/// The parts of a change, in order. A change of a large commit is made part by part, so that it needs little memory.
pub type BatchParts<'a> = dyn Iterator<Item = Cow<'a, WriteBatch>> + 'a;

/// The most problems of one kind that a check reports. We stop collecting there, because more add no information.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// The result of a check: what it looked at and what it found wrong.
#[derive(Debug, Default)]
pub struct BaseChecked {
    /// Bytes of the pages in use; 0 if the base has no pages.
    pub page_bytes: u64,
    /// Damage of pages.
    pub page_problems: Vec<Error>,
    /// The number of entries, including the base's own.
    pub entries: u64,
    /// The bytes of those entries.
    pub entry_bytes: u64,
    /// Entries whose value differs from the one written.
    pub entry_problems: Vec<Error>,
}

/// Adds a problem to `problems`, up to the limit. A cancellation or deadline is not a problem: it ends the check.
fn note_problem(problems: &mut Vec<Error>, error: Error) -> Result<()> {
    match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Deadline => Err(error),
        _ => {
            if problems.len() < PROBLEMS_MAX {
                problems.push(error);
            }
            Ok(())
        }
    }
}

impl BaseChecked {
    /// Whether the check found no problem.
    pub fn is_whole(&self) -> bool {
        self.page_problems.is_empty() && self.entry_problems.is_empty()
    }

    fn into_result(self) -> Result<()> {
        self.page_problems.into_iter().chain(self.entry_problems).next().map_or(Ok(()), Err)
    }
}

/// One read of a base, as the table of readers shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    /// The last commit that the read sees, or an older one.
    pub commit: CommitId,
    /// The process that holds the read.
    pub process: u32,
}

/// The space that a base takes on disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseSpace {
    /// The length of the file.
    pub file_bytes: u64,
    /// The free part of the file. Writes use it again; only a compaction returns it to the file system.
    pub free_bytes: u64,
    /// The part of the free bytes that a read of an older state still needs. It cannot be reused before that read ends.
    pub held_bytes: u64,
    /// The length of files from before a compaction that a process still reads.
    pub older_bytes: u64,
}

/// A base that is being built from the entries of another one. If it is dropped before [`BaseCopy::finish`], it leaves
/// incomplete files that must not be used.
pub trait BaseCopy {
    /// Adds an entry. Keys must ascend.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Applies `later` to the entries, records `at` as the last commit, and syncs the files. The directory itself is
    /// not synced: the caller must do that for the returned file names, which are relative to the directory.
    fn finish(self: Box<Self>, later: &WriteBatch, at: CommitId) -> Result<Vec<String>>;
}

/// Receives a key and its value, and returns whether to continue.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'a;

/// Receives consecutive keys and their values. Returns the most entries that it takes in the next call; 0 ends the
/// visit.
pub type RunVisitor<'a> = dyn FnMut(&[&[u8]], &[&[u8]]) -> Result<usize> + 'a;

/// One committed state of a base.
pub trait BaseRead: Send {
    /// Begins another read of the same state, for another thread; `None` if the base cannot do that.
    fn another(&self) -> Result<Option<Box<dyn BaseRead>>> {
        Ok(None)
    }

    /// The value of `key`. Returns `Corrupt` if it differs from the value written.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.append_value(key, &mut value)?.then_some(value))
    }

    /// Appends the value of `key` to `out`, and returns whether the key exists. Returns `Corrupt` if the value differs
    /// from the one written.
    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// Looks up the keys at the places `wanted` of `keys`. Passes the place and the value of each key that exists to
    /// `found`. This is faster than single look-ups for many keys of one index.
    fn get_several(&self, keys: &ByteRows, wanted: &[usize], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let mut value = Vec::new();
        for at in wanted {
            value.clear();
            if self.append_value(keys.get(*at), &mut value)? {
                found(*at, &value);
            }
        }
        Ok(())
    }

    /// Visits the keys that start with `prefix` and their values, ascending, until the visitor returns `false` or
    /// fails.
    fn scan(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> Result<()>;

    /// Visits the keys from `start` up to, but not including, `end`, with their values, until the visitor returns
    /// `false` or fails. An empty `end` means no upper bound. The order is ascending, or descending if `backward` is
    /// set. `start` must not be empty or reserved.
    fn range(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()>;

    /// Visits the entries of a range like [`BaseRead::range`], several in one call: `first` entries in the first call,
    /// and fewer than asked for only in the last one. Keys and values have the same numbers.
    fn range_in_runs(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        first: usize,
        visit: &mut RunVisitor<'_>,
    ) -> Result<()> {
        let (mut keys, mut values, mut wanted) = (ByteRows::new(), ByteRows::new(), first);
        let mut hand_over = |keys: &mut ByteRows, values: &mut ByteRows| {
            let wanted = visit(&keys.iter().collect::<Vec<_>>(), &values.iter().collect::<Vec<_>>())?;
            keys.clear();
            values.clear();
            Ok(wanted)
        };
        if wanted == 0 {
            return Ok(());
        }
        self.range(start, end, backward, &mut |key, value| {
            keys.push(key);
            values.push(value);
            if keys.len() == wanted {
                wanted = hand_over(&mut keys, &mut values)?;
            }
            Ok(wanted > 0)
        })?;
        if !keys.is_empty() {
            hand_over(&mut keys, &mut values)?;
        }
        Ok(())
    }

    /// Skips the first keys of a range, at most `keys_max`, in the order of [`BaseRead::range`], and returns how many
    /// it skipped. If it skipped all `keys_max`, it sets `last` to the last of them. It does not look at values, so a
    /// damaged value is not noticed.
    fn pass(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, last: &mut Vec<u8>) -> Result<usize> {
        let mut passed = 0;
        if keys_max == 0 {
            return Ok(0);
        }
        self.range(start, end, backward, &mut |key, _| {
            passed += 1;
            // `last` is set only with the final key, so a short range leaves it alone.
            if passed == keys_max {
                last.clear();
                last.extend_from_slice(key);
            }
            Ok(passed < keys_max)
        })?;
        Ok(passed)
    }

    /// Keys that split a range into about `parts` parts with similar numbers of keys, ascending. They are greater than
    /// `start` and less than `end`, if it is not empty. Empty if the base cannot tell without reading the range.
    fn split_keys(&self, start: &[u8], end: &[u8], parts: usize) -> Result<Vec<Vec<u8>>> {
        let _ = (start, end, parts);
        Ok(Vec::new())
    }

    /// The id of the last write that this state includes.
    fn commit_id(&self) -> Result<CommitId>;
}

/// The first byte of the keys that the base reserves for itself.
const RESERVED: u8 = 0;

/// The lowest key that is not reserved.
const FIRST_KEY: &[u8] = &[RESERVED + 1];

/// Returns an error for a key that a base cannot store.
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

/// Returns an error for a batch that a base cannot apply, before any of it is applied.
fn check_batch(batch: &WriteBatch, at: CommitId, last: CommitId) -> Result<()> {
    if at < last {
        return Err(Error::internal(format!("commit {at} is older than commit {last}, the last one of the base")));
    }
    // A batch that is bound to another last commit was computed from another state. Applying it could undo later
    // commits.
    if !batch.is_behind(last) {
        return Err(Error::internal(format!(
            "the batch was made for another state than commit {last}, the last one of the base"
        )));
    }
    batch.operations().try_for_each(|operation| match operation {
        Operation::Put { key, .. } | Operation::Delete { key } => check_key(key),
        // The empty prefix is valid: it means all keys that are not reserved.
        Operation::DeletePrefix { prefix } => match prefix.first() {
            Some(&RESERVED) => check_key(prefix),
            _ => Ok(()),
        },
    })
}

/// The lowest byte string above all that start with `prefix`; `None` if no such string exists.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    // A trailing 0xFF byte cannot be incremented, so increment the last byte that can and drop the rest.
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The lower and the upper bound of a range of keys.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds of the keys that start with `prefix`, without reserved keys.
fn prefix_range(prefix: &[u8]) -> Bounds {
    let (start, end) = keys_of_prefix(prefix);
    bounds(start, &end)
}

/// The keys that start with `prefix`, without reserved keys, as `start` and `end` of [`BaseRead::range`].
fn keys_of_prefix(prefix: &[u8]) -> (&[u8], Vec<u8>) {
    let start = if prefix.is_empty() { FIRST_KEY } else { prefix };
    (start, prefix_end(prefix).unwrap_or_default())
}

/// Converts `start` and `end` of [`BaseRead::range`] to bounds.
fn bounds(start: &[u8], end: &[u8]) -> Bounds {
    let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.to_vec()) };
    (Bound::Included(start.to_vec()), upper)
}

/// Whether the range `start`..`end` of [`BaseRead::range`] can contain keys.
fn has_keys(start: &[u8], end: &[u8]) -> Result<bool> {
    // `start` is only a bound and may be longer than a key. Check that it is not empty or reserved, but not its length.
    check_key(start.get(..start.len().min(KEY_LEN_MAX)).unwrap_or_default())?;
    Ok(end.is_empty() || start < end)
}

/// The bounds of the range `start`..`end` of [`BaseRead::range`]; `None` if the range can contain no key.
fn key_bounds(start: &[u8], end: &[u8]) -> Result<Option<Bounds>> {
    Ok(has_keys(start, end)?.then(|| bounds(start, end)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn prefix_end_is_the_first_string_above_all_with_the_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xFF\xFF"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xFF\xFF"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn invalid_keys_are_refused() {
        assert_eq!(check_key(b"").unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(check_key(b"\0a").unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(check_key(&[1; KEY_LEN_MAX + 1]).unwrap_err().kind(), ErrorKind::InvalidParameter);
        assert_eq!(check_key(&[1; KEY_LEN_MAX]), Ok(()));
    }
}

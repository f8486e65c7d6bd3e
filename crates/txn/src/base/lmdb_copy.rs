//! A new file of LMDB, filled with the entries of another base.
//!
//! The entries come in the order of their keys and are appended, so that the pages are full and in order. The file is
//! as short as it can be. We fill it in several transactions, because LMDB keeps a transaction in memory, and sync it
//! once at the end. Until then the file must not be used, and neither must the remains that a power cut leaves of it.

use std::fs;
use std::path::PathBuf;

use heed::{Env, MdbError, PutFlags, WithoutTls};
use rowmill_base::{CommitId, Error, ErrorKind, Result};

use super::lmdb::{LAST_COMMIT_KEY, LAYOUT_VERSION, LmdbOptions, VERSION_KEY, history_key, slices};
use super::lmdb_file::{LOCK_SUFFIX, Map, attach, error_of, is_full, open_env, with_suffix, without_syncs};
use super::sealed_value::seal;
use super::{BaseCopy, Operation, WriteBatch, check_key, prefix_range};

/// Bytes of keys and values that one transaction puts.
const PUT_AT_ONCE: usize = 16 << 20;

/// A new LMDB file that is being filled with the entries of another base.
pub(super) struct LmdbCopy {
    env: Env<WithoutTls>,
    map: Map,
    file: PathBuf,
    /// Keys and sealed values, one after the other, that are not in the file yet.
    pending: Vec<u8>,
    /// For each pending entry, where its key ends and where its value ends.
    ends: Vec<(usize, usize)>,
    /// A reused buffer for a sealed value.
    stored: Vec<u8>,
}

impl LmdbCopy {
    /// Creates the new file `file`, which must not exist.
    pub(super) fn begin(file: PathBuf) -> Result<LmdbCopy> {
        LmdbCopy::begin_with(file, LmdbOptions::default().map_bytes)
    }

    fn begin_with(file: PathBuf, map_bytes: usize) -> Result<LmdbCopy> {
        if fs::exists(&file).map_err(|e| Error::io(format_args!("look for {}", file.display()), &e))? {
            return Err(Error::internal(format!("{} exists already", file.display())));
        }
        let made = open_env(&file, false, map_bytes).and_then(|env| {
            without_syncs(&env, &file)?;
            let (map, _) = attach(&env, &file, false)?;
            Ok((env, map))
        });
        let (env, map) = made.map_err(|error| tell_full_from_broken(error, &file))?;
        let mut copy = LmdbCopy { env, map, file, pending: Vec::new(), ends: Vec::new(), stored: Vec::new() };
        // This key sorts before all others, so it must be appended first. The other reserved keys are set at the end.
        copy.push(VERSION_KEY, &LAYOUT_VERSION.to_le_bytes());
        Ok(copy)
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        seal(key, value, &mut self.stored);
        self.pending.extend_from_slice(key);
        let key_end = self.pending.len();
        self.pending.extend_from_slice(&self.stored);
        self.ends.push((key_end, self.pending.len()));
    }

    /// Appends the pending entries to the file in one transaction.
    fn put_pending(&mut self) -> Result<()> {
        self.write(|copy, write| {
            let mut start = 0;
            for (key_end, end) in &copy.ends {
                let (key, stored) = (&copy.pending[start..*key_end], &copy.pending[*key_end..*end]);
                copy.map.put_with_flags(write, PutFlags::APPEND, key, stored)?;
                start = *end;
            }
            Ok(())
        })?;
        self.pending.clear();
        self.ends.clear();
        Ok(())
    }

    /// Runs `change` in a transaction. If the mapping is too short, doubles it and runs `change` again.
    fn write(&self, change: impl Fn(&LmdbCopy, &mut heed::RwTxn<'_>) -> heed::Result<()>) -> Result<()> {
        loop {
            let written = self.env.write_txn().and_then(|mut write| {
                change(self, &mut write)?;
                write.commit()
            });
            match written {
                Ok(()) => return Ok(()),
                Err(heed::Error::Mdb(MdbError::MapFull)) => self.grow()?,
                Err(error) => return Err(tell_full_from_broken(error_of("write", &self.file, error), &self.file)),
            }
        }
    }

    // LMDB's contract cannot be checked by the compiler.
    #[allow(unsafe_code)]
    fn grow(&self) -> Result<()> {
        let bytes = self.env.info().map_size.saturating_mul(2);
        // SAFETY: no transaction is open: only this value has the environment, and its transactions end where they
        // began.
        unsafe { self.env.resize(bytes) }.map_err(|e| error_of("map", &self.file, e))
    }

    /// Applies an operation after the appended entries, anywhere in the order of keys.
    fn apply(&self, write: &mut heed::RwTxn<'_>, operation: Operation<'_>) -> heed::Result<()> {
        match operation {
            Operation::Put { key, value } => self.set(write, key, value),
            Operation::Delete { key } => self.map.delete(write, key).map(drop),
            Operation::DeletePrefix { prefix } => {
                self.map.delete_range(write, &slices(&prefix_range(prefix))).map(drop)
            }
        }
    }

    fn set(&self, write: &mut heed::RwTxn<'_>, key: &[u8], value: &[u8]) -> heed::Result<()> {
        let mut stored = Vec::new();
        seal(key, value, &mut stored);
        self.map.put(write, key, &stored)
    }
}

impl BaseCopy for LmdbCopy {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        self.push(key, value);
        if self.pending.len() >= PUT_AT_ONCE { self.put_pending() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>, later: &WriteBatch, at: CommitId) -> Result<Vec<String>> {
        self.put_pending()?;
        let operations: Vec<Operation<'_>> = later.operations().collect();
        // The transactions have a bounded size, because LMDB keeps the changed pages in memory until it commits.
        for some in operations.chunks(1 << 16) {
            self.write(|copy, write| some.iter().try_for_each(|operation| copy.apply(write, *operation)))?;
        }
        // This must be in the last transaction, because its state is the one that a process reads first after it opened
        // the base. The history must tell which commit that is.
        self.write(|copy, write| {
            let this = write.id() as u64;
            copy.set(write, &history_key(this), &at.0.to_le_bytes())?;
            copy.set(write, LAST_COMMIT_KEY, &at.0.to_le_bytes())
        })?;
        // The only sync: before it, the file may be incomplete on disk.
        let synced = self.env.force_sync().map_err(|e| error_of("sync", &self.file, e));
        synced.map_err(|error| tell_full_from_broken(error, &self.file))?;
        let LmdbCopy { env, file, .. } = *self;
        // Close the environment before its lock file is removed.
        drop(env);
        let lock_file = with_suffix(&file, LOCK_SUFFIX);
        fs::remove_file(&lock_file).map_err(|e| Error::io(format_args!("remove {}", lock_file.display()), &e))?;
        let name = file.file_name().and_then(|name| name.to_str()).expect("the name was made from UTF-8");
        Ok(vec![name.to_owned()])
    }
}

/// Turns an I/O error of a full disk into `DiskFull`, because LMDB reports a partial write as an I/O error.
fn tell_full_from_broken(error: Error, file: &std::path::Path) -> Error {
    if error.kind() != ErrorKind::Io || !is_full(file) {
        return error;
    }
    let message = format!("write {}: the disk has no space left", file.display());
    Error::new(ErrorKind::DiskFull, message).hint("make some space and run it again")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;
    use crate::base::{BASE_FILE, LmdbBase, OrderedBase};

    type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

    fn entries_of(base: &dyn OrderedBase) -> Entries {
        let mut found = Entries::new();
        let take = &mut |key: &[u8], value: &[u8]| Ok(found.insert(key.to_vec(), value.to_vec()).is_none());
        base.read().unwrap().scan(&[], take).unwrap();
        found
    }

    #[test]
    fn a_copy_grows_past_its_mapping_and_includes_the_later_batch() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Entries::new();
        for number in 0..40_000_u32 {
            let len = [0, 7, 100, 900, 9_000][number as usize % 5];
            expected.insert([&b"k"[..], &number.to_be_bytes()].concat(), vec![number as u8; len]);
        }
        let mut copy = Box::new(LmdbCopy::begin_with(dir.path().join(BASE_FILE), 1 << 20).unwrap());
        expected.iter().for_each(|(key, value)| copy.put(key, value).unwrap());
        let mut later = WriteBatch::new();
        later.put(*b"a", *b"first");
        later.delete(*b"k\0\0\0\x05");
        later.delete_prefix(*b"k\0\0\x01");
        later.put(*b"k\0\0\x01\x07", *b"behind");
        assert_eq!(copy.finish(&later, CommitId(77)).unwrap(), [BASE_FILE]);
        expected.retain(|key, _| key != b"k\0\0\0\x05" && !key.starts_with(b"k\0\0\x01"));
        expected.insert(b"a".to_vec(), b"first".to_vec());
        expected.insert(b"k\0\0\x01\x07".to_vec(), b"behind".to_vec());

        let base = LmdbBase::open(dir.path(), false).unwrap();
        base.verify().unwrap();
        assert!(entries_of(&base) == expected);
        assert_eq!(base.commit_id().unwrap(), CommitId(77));
        // A reader of the copied state must be known by its commit, even after the next write.
        let read = base.read().unwrap();
        let mut next = WriteBatch::behind(CommitId(77));
        next.put(*b"next", *b"1");
        base.write(&next, CommitId(78)).unwrap();
        assert_eq!(base.oldest_reader().unwrap(), Some(CommitId(77)));
        drop(read);
        expected.insert(b"next".to_vec(), b"1".to_vec());
        let before = std::fs::metadata(dir.path().join(BASE_FILE)).unwrap().len();

        assert!(base.compact(&rowmill_base::Cancel::new()).unwrap());
        assert_eq!(base.oldest_reader().unwrap(), None);
        base.verify().unwrap();
        assert!(entries_of(&base) == expected);
        assert_eq!((base.commit_id().unwrap(), base.space().unwrap().older_bytes), (CommitId(78), 0));
        assert!(base.space().unwrap().file_bytes <= before);
    }

    #[test]
    fn a_compaction_that_is_cancelled_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let base = LmdbBase::open(dir.path(), false).unwrap();
        let cancel = rowmill_base::Cancel::new();
        cancel.cancel();
        assert_eq!(base.compact(&cancel).unwrap_err().kind(), ErrorKind::Cancelled);
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [BASE_FILE, "base.lmdb-lock"]);
        base.compact(&rowmill_base::Cancel::new()).unwrap();
    }
}

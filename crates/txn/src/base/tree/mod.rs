//! The ordered base in one file of our own: a copy-on-write B-tree whose pages prove themselves.
//!
//! A commit writes new pages to free places, syncs them, and then stores the new head. No writer waits for a reader,
//! but the pages of a state that is read are not reused.
//!
//! * **Checks.** Each pointer to a page has the page's checksum, up to the head of the file (`page.rs`). A page is
//!   checked when it is first read (`mapped_pages.rs`), so opening a file takes no longer for a long one.
//! * **Writes.** A batch is applied in the order of keys, and each changed page is written once (`write.rs`,
//!   `page_writer.rs`, `commit.rs`).
//! * **Reads** search the mapped pages (`reader.rs`, `lookups.rs`).
//! * **Space.** The free pages are a list in the file (`free_pages.rs`). A commit cuts free pages off the end. The
//!   space of others is given back by holes in the file, by moving pages from the end to free places (`shrink.rs`), or
//!   by copying the base to another file, which replaces the old one (`compaction.rs`, `copy.rs`).
//! * **Other processes.** Each process tells in a file of its own what it reads (`held_reads.rs`).
//! * **Creating a base.** We create a new file under another name and then rename it, so that a base that exists is
//!   always complete (`names.rs`).
//! * **Poison.** After an I/O error in a write we do not know what the disk holds, so we refuse all further writes.

mod changes;
mod check;
mod commit;
mod compaction;
mod copy;
mod file;
mod free_pages;
mod head;
mod held_reads;
mod key_parts;
mod lookups;
mod mapped_pages;
mod names;
mod open_tree;
mod page;
mod page_writer;
mod reader;
mod shrink;
mod upgrade;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, RwLock};
use rowmill_base::{Cancel, CommitId, ErrorKind, Result};
use rowmill_storage::keyed::ByteRows;

use self::check::check_state;
use self::compaction::{open_newest, open_older};
use self::copy::TreeCopy;
use self::lookups::LOOKUPS_AT_ONCE;
pub use self::names::BASE_FILE;
use self::names::numbers;
#[cfg(feature = "rocksdb")]
pub(super) use self::names::{check_never_made, with_suffix};
use self::open_tree::{OpenTree, TreeRead};
use self::page::PAGE_BYTES;
use super::{
    BaseChecked, BaseCopy, BaseRead, BaseSpace, BatchParts, OrderedBase, Reader, RunVisitor, Visitor, check_key,
    has_keys, keys_of_prefix,
};

/// An ordered base in a file of our own.
pub struct TreeBase {
    dir: PathBuf,
    /// The file that is the base now.
    open: RwLock<Arc<OpenTree>>,
    /// Files that were the base before and that a process may still read, oldest first.
    older: Mutex<Vec<Arc<OpenTree>>>,
    /// Locked by the writer.
    writing: Mutex<()>,
}

impl TreeBase {
    /// Whether the directory `dir` has a base. Returns an error if the system does not tell, because a base that we
    /// cannot see may exist, and we must not create an empty one in its place.
    pub fn exists(dir: &Path) -> Result<bool> {
        Ok(!numbers(dir)?.is_empty() || upgrade::is_older_base(dir)?)
    }

    /// Opens the base in the directory `dir`. To write, the caller must hold the directory's lock; a missing base is
    /// then created, and a base of an earlier version is converted. Other processes may read the base at the same time.
    pub fn open(dir: &Path, read_only: bool) -> Result<TreeBase> {
        let open = open_newest(dir, read_only)?;
        let older = if read_only { Vec::new() } else { open_older(dir, open.number)? };
        let base = TreeBase {
            dir: dir.to_owned(),
            open: RwLock::new(open),
            older: Mutex::new(older),
            writing: Mutex::default(),
        };
        // A compaction of an earlier process may have left files that no process reads now. `oldest` removes them.
        if base.has_older_files() {
            base.oldest()?;
        }
        Ok(base)
    }

    /// Changes the file as its only writer.
    fn change_file<T>(&self, change: impl FnOnce(&Arc<OpenTree>) -> Result<T>) -> Result<T> {
        let _writing = self.writing.lock();
        let open = self.now();
        open.check_writable()?;
        change(&open).inspect_err(|error| {
            // A full disk lost nothing, so only other I/O errors poison.
            open.poisoned.fetch_or(error.kind() == ErrorKind::Io, Ordering::AcqRel);
        })
    }

    /// The file that was the base when this process last looked.
    fn now(&self) -> Arc<OpenTree> {
        Arc::clone(&self.open.read())
    }
}

impl OrderedBase for TreeBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        Ok(Box::new(self.begin()?))
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, at: CommitId) -> Result<()> {
        self.change_file(|open| open.write(parts, at))
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
        for open in older.iter().chain([&self.now()]) {
            all.extend(open.reads.readers()?);
        }
        Ok(all)
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        let mut read = self.begin()?;
        read.reader.check_again();
        check_state(&read, cancel)
    }

    fn read_again(&self) -> Result<Box<dyn BaseRead>> {
        let mut read = self.begin()?;
        read.reader.check_again();
        Ok(Box::new(read))
    }

    fn space(&self) -> Result<BaseSpace> {
        let read = self.begin()?;
        let (open, generation) = (&read.open, read.reader.state().generation);
        let oldest = open.reads.oldest_generation()?.unwrap_or(generation);
        let free = read.reader.free_pages()?;
        let older = self.older.lock().clone();
        let bytes = |pages: u64| pages * PAGE_BYTES as u64;
        Ok(BaseSpace {
            file_bytes: open.file.handle().len()?,
            free_bytes: bytes(free.count()),
            // A read needs the pages that later generations freed.
            held_bytes: bytes(free.count_held_from(oldest + 1)),
            older_bytes: older.iter().filter_map(|open| Some(fs::metadata(&open.path).ok()?.len())).sum(),
        })
    }

    fn compact(&self, cancel: &Cancel) -> Result<bool> {
        self.compact_now(cancel).map(|()| true)
    }

    fn release_free(&self, go_on: &dyn Fn() -> bool) -> Result<()> {
        self.change_file(|open| open.release_free(go_on))
    }

    fn shrink(&self) -> Result<bool> {
        self.change_file(|open| open.shrink())
    }

    fn has_older_files(&self) -> bool {
        !self.older.lock().is_empty()
    }

    fn begin_copy(&self, dir: &Path) -> Result<Box<dyn BaseCopy>> {
        begin_copy(dir)
    }
}

/// Begins a new base in the directory `dir`, which must not have one.
pub(super) fn begin_copy(dir: &Path) -> Result<Box<dyn BaseCopy>> {
    Ok(Box::new(TreeCopy::begin(dir, BASE_FILE)?))
}

impl fmt::Debug for TreeBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenTree { path, read_only, .. } = &*self.now();
        f.debug_struct("TreeBase").field("file", path).field("read_only", read_only).finish_non_exhaustive()
    }
}

impl BaseRead for TreeRead {
    fn another(&self) -> Result<Option<Box<dyn BaseRead>>> {
        Ok(Some(Box::new(self.open.begin_another(self)?)))
    }

    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        check_key(key)?;
        let Some(value) = self.reader.get(key)? else { return Ok(false) };
        out.extend_from_slice(value);
        Ok(true)
    }

    fn get_several(&self, keys: &ByteRows, wanted: &[usize], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for wanted in wanted.chunks(LOOKUPS_AT_ONCE) {
            let mut several = [&[][..]; LOOKUPS_AT_ONCE];
            for (several, at) in several.iter_mut().zip(wanted) {
                *several = keys.get(*at);
                check_key(several)?;
            }
            let values = self.reader.get_several(&several[..wanted.len()])?;
            for (at, value) in wanted.iter().zip(values) {
                if let Some(value) = value {
                    found(*at, value);
                }
            }
        }
        Ok(())
    }

    fn scan(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> Result<()> {
        let (start, end) = keys_of_prefix(prefix);
        self.reader.visit(start, &end, false, visit)
    }

    fn range(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        match has_keys(start, end)? {
            true => self.reader.visit(start, end, backward, visit),
            false => Ok(()),
        }
    }

    fn range_in_runs(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        first: usize,
        visit: &mut RunVisitor<'_>,
    ) -> Result<()> {
        match has_keys(start, end)? {
            true => self.reader.visit_runs(start, end, backward, first, visit),
            false => Ok(()),
        }
    }

    fn pass(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, last: &mut Vec<u8>) -> Result<usize> {
        match has_keys(start, end)? {
            true => self.reader.pass(start, end, backward, keys_max, last),
            false => Ok(0),
        }
    }

    fn split_keys(&self, start: &[u8], end: &[u8], parts: usize) -> Result<Vec<Vec<u8>>> {
        match has_keys(start, end)? {
            true => self.reader.split_keys(start, end, parts),
            false => Ok(Vec::new()),
        }
    }

    fn commit_id(&self) -> Result<CommitId> {
        Ok(self.reader.state().commit)
    }
}

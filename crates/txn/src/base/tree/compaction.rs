//! Compaction of a base: copies its entries to a new file without free pages, which replaces the old file.
//!
//! ```text
//! copy     fill base-1.tree-new with the last commit and sync it; no thread writes to the base during this
//! rename   rename it to base-1.tree: from now on it is the base for every process that opens the directory
//! switch   use it in this process: new reads and all writes go to it
//! remove   remove base.tree once no process reads it
//! ```
//!
//! Both files hold the same commit, so a reader may use either of them. A crash before the rename leaves the old file,
//! and a crash after it leaves the new one. A power cut may undo the rename before it is synced. That loses nothing,
//! because we write to the new file only after the sync.
//!
//! **Readers of the old file**, in this process and in others, continue, because the content of that file does not
//! change. Before we give any space back, we also look up which commits they see ([`TreeBase::oldest`]). After each
//! begin of a read, another process checks whether its file is still the base. If not, it begins again in the newer
//! file. It checks after it has told of its read, and we treat a file as unread only if no process had told of a read
//! after the rename. So either we see the reader's entry, or the reader sees the new file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_io::{Disk, RealDisk};

use super::super::kind::is_there;
use super::super::{BaseCopy, BaseRead, Visitor, WriteBatch};
use super::TreeBase;
use super::copy::TreeCopy;
use super::file::TreeFile;
use super::names::{
    BASE_FILE, NEW_SUFFIX, check_never_made, is_newest, name_of, note_made, numbers, path_of, remove_leftovers,
    remove_older, rename_new, sync_names,
};
use super::open_tree::{OpenTree, TreeRead};
use super::upgrade::{is_older_base, upgrade};

/// The most times that we try again because files came or went during an open.
const TRIES: usize = 64;

/// The number of entries to copy between two checks for cancellation.
const ENTRIES_PER_LOOK: usize = 1 << 12;

/// Opens the newest file in `dir`. To write, it creates the first one, or makes it of the base of an earlier version.
pub(super) fn open_newest(dir: &Path, read_only: bool) -> Result<Arc<OpenTree>> {
    if !read_only {
        upgrade(dir)?;
    }
    let mut tries = TRIES;
    loop {
        let number = match numbers(dir)?.last() {
            Some(number) => *number,
            None if read_only => return Err(no_base(dir)?),
            None => {
                check_never_made(dir)?;
                make_first(dir)?;
                0
            }
        };
        match OpenTree::open(dir, number, read_only) {
            // The writing process has compacted the base in the meantime. The failure may be due to that, so look
            // again.
            Err(_) if read_only && tries > 0 && !is_newest(dir, number)? => tries -= 1,
            Ok(open) => {
                if !read_only {
                    open.prepare_to_write()?;
                    note_made(dir)?;
                }
                return Ok(open);
            }
            Err(error) => return Err(error),
        }
    }
}

fn no_base(dir: &Path) -> Result<Error> {
    check_never_made(dir)?;
    if is_older_base(dir)? {
        let message = format!("{}: the database was written by an earlier version", dir.display());
        return Ok(Error::new(ErrorKind::Unsupported, message).hint("open it for writing once, which converts it"));
    }
    Ok(Error::new(ErrorKind::UndefinedFile, format!("{}: there is no such file", dir.join(BASE_FILE).display())))
}

/// Creates an empty base, completely or not at all.
fn make_first(dir: &Path) -> Result<()> {
    remove_leftovers(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir));
    drop(TreeFile::make(&disk, &format!("{BASE_FILE}{NEW_SUFFIX}"))?);
    // The rename makes the base exist, and by then the file is complete and synced. The sync of the directory keeps the
    // name after a power cut.
    rename_new(dir, BASE_FILE)?;
    note_made(dir)?;
    sync_names(dir)
}

/// Opens the files in `dir` that were the base before `newest` and that a process may still read, oldest first.
pub(super) fn open_older(dir: &Path, newest: u64) -> Result<Vec<Arc<OpenTree>>> {
    remove_leftovers(dir)?;
    let older = numbers(dir)?.into_iter().filter(|number| *number < newest);
    // We open them only to look up the commits of their readers.
    older.map(|number| OpenTree::open(dir, number, false)).collect()
}

impl TreeBase {
    /// Begins a read of the newest file.
    pub(super) fn begin(&self) -> Result<TreeRead> {
        for _ in 0..TRIES {
            let open = self.now();
            let read = open.begin()?;
            // Our entry must be visible before we look at the names: see the module header.
            fence(Ordering::SeqCst);
            if !open.read_only || is_newest(&self.dir, open.number)? {
                return Ok(read);
            }
            // The file was replaced. Open the newest one, unless another thread of this process already did.
            drop(read);
            let mut slot = self.open.write();
            if slot.number == open.number {
                *slot = open_newest(&self.dir, true)?;
            }
        }
        let message = format!("{}: the base was replaced by another file each time it was opened", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message).hint("run it again"))
    }

    /// Returns the last commit of the oldest read of any file in any process. Removes older files that no process
    /// reads.
    pub(super) fn oldest(&self) -> Result<Option<CommitId>> {
        let mut older = self.older.lock();
        let mut kept = Vec::new();
        let mut oldest = None;
        for open in older.iter() {
            let of_file = open.reads.oldest_commit()?;
            // The files must be removed oldest first (see `names.rs`), so stop at the first one that is read. The
            // strong count tells whether a read of this process still holds the file.
            if of_file.is_none() && kept.is_empty() && Arc::strong_count(open) == 1 {
                remove_older(&self.dir, open.number)?;
                continue;
            }
            kept.push(Arc::clone(open));
            oldest = oldest.into_iter().chain(of_file).min();
        }
        *older = kept;
        // The lock on `older` is still held, so a file that ceases to be the base is counted in one of the two places.
        Ok(oldest.into_iter().chain(self.now().reads.oldest_commit()?).min())
    }

    /// Copies the base to a new file without free pages, and makes that file the base. See the module header for the
    /// steps.
    pub(super) fn compact_now(&self, cancel: &Cancel) -> Result<()> {
        let _writing = self.writing.lock();
        let open = self.now();
        open.check_writable()?;
        let number = open.number + 1;
        remove_leftovers(&self.dir)?;
        if let Err(error) = copy(&open, &self.dir, &name_of(number), cancel) {
            // Try to remove the incomplete file. If that fails, the next compaction removes it.
            let _ = remove_leftovers(&self.dir);
            return Err(error);
        }
        if let Err(error) = rename_new(&self.dir, &name_of(number)) {
            // The rename may have happened although it reported an error, and then another process may already read the
            // new file. Writes to the old one would be lost, so we poison it.
            let is_done = is_there(&path_of(&self.dir, number)).unwrap_or(true);
            open.poisoned.fetch_or(is_done, Ordering::AcqRel);
            let _ = remove_leftovers(&self.dir);
            return Err(error);
        }
        // The rename must be synced before the first write to the new file. Otherwise a power cut could bring back the
        // old file, without that write.
        let open_next = || {
            sync_names(&self.dir)?;
            let next = OpenTree::open(&self.dir, number, false)?;
            next.prepare_to_write().map(|()| next)
        };
        let next = match open_next() {
            Ok(next) => next,
            Err(error) => {
                // Other processes already read the new file and would not see writes to the old one.
                open.poisoned.store(true, Ordering::Release);
                return Err(error);
            }
        };
        // Both changes happen under the lock on `older`, so that a search for readers sees the file in one of the
        // places.
        let mut older = self.older.lock();
        *self.open.write() = next;
        older.push(open);
        Ok(())
    }
}

/// Fills a new file for the name `name` with the last commit of `open`.
fn copy(open: &Arc<OpenTree>, dir: &Path, name: &str, cancel: &Cancel) -> Result<()> {
    // No commit can follow the state of this read, because the caller holds the lock of the writer.
    let read = open.begin()?;
    copy_entries(dir, name, read.commit_id()?, cancel, |visit| read.scan(&[], visit))
}

/// Fills a new file for the name `name` with the entries that `scan` visits in the order of their keys.
pub(super) fn copy_entries(
    dir: &Path,
    name: &str,
    commit: CommitId,
    cancel: &Cancel,
    scan: impl FnOnce(&mut Visitor<'_>) -> Result<()>,
) -> Result<()> {
    let mut copy = Box::new(TreeCopy::begin(dir, &format!("{name}{NEW_SUFFIX}"))?);
    let mut entries = 0_usize;
    scan(&mut |key, value| {
        entries += 1;
        if entries.is_multiple_of(ENTRIES_PER_LOOK) {
            cancel.check()?;
        }
        copy.put(key, value)?;
        Ok(true)
    })?;
    cancel.check()?;
    copy.finish(&WriteBatch::default(), commit).map(drop)
}

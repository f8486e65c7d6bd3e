//! Compaction of a base: copies its entries to a new file without free pages, which replaces the old file.
//!
//! ```text
//! copy     fill base-1.lmdb-new with the last commit and sync it; no thread writes to the base during this
//! rename   rename it to base-1.lmdb: from now on it is the base for every process that opens the directory
//! switch   use it in this process: new reads and all writes go to it
//! remove   remove base.lmdb once no process reads it
//! ```
//!
//! Both files hold the same commit, so a reader may use either of them. A crash before the rename leaves the old file,
//! and a crash after it leaves the new one. A power cut may undo the rename before it is synced. That loses nothing,
//! because we write to the new file only after the sync.
//!
//! **Readers of the old file**, in this process and in others, continue, because the content of that file does not
//! change. Before we give any space back, we also look up in the old file's table which commits they see
//! ([`LmdbBase::oldest`]). After each begin of a read, another process checks whether its file is still the base. If
//! not, it begins again in the newer file. It checks after its entry is in the table, and we treat a file as unread
//! only if we saw its table empty after the rename. So either we see the reader's entry, or the reader sees the new
//! file.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};

use super::lmdb::{LmdbBase, LmdbOptions, LmdbRead, OpenBase};
use super::lmdb_copy::LmdbCopy;
use super::lmdb_file::{NEW_SUFFIX, check_never_made, is_there, make, with_suffix};
use super::lmdb_numbers::{is_newest, numbers, path_of, remove_leftovers, remove_older};
use super::lmdb_pages::check_file;
use super::{BaseCopy, BaseRead, WriteBatch};

/// The most times that we try again because files came or went during an open.
const TRIES: usize = 64;

/// The number of entries to copy between two checks for cancellation.
const ENTRIES_PER_LOOK: usize = 1 << 12;

/// Opens the newest file in `dir`, or creates the first one.
pub(super) fn open_newest(dir: &Path, read_only: bool, options: LmdbOptions) -> Result<Arc<OpenBase>> {
    let mut tries = TRIES;
    loop {
        let number = match numbers(dir)?.last() {
            Some(number) => *number,
            None => {
                let file = path_of(dir, 0);
                check_never_made(&file)?;
                if read_only {
                    let message = format!("{}: there is no such file", file.display());
                    return Err(Error::new(ErrorKind::UndefinedFile, message));
                }
                make(&file)?;
                0
            }
        };
        let file = path_of(dir, number);
        let opened = check_file(&file, options.looked_through_max)
            .and_then(|()| OpenBase::over(file, number, read_only, options));
        match opened {
            // The writing process has compacted the base in the meantime. The failure may be due to that, so look
            // again.
            Err(_) if read_only && tries > 0 && !is_newest(dir, number)? => tries -= 1,
            opened => return opened,
        }
    }
}

/// Opens the files in `dir` that were the base before `newest` and that a process may still read, oldest first.
pub(super) fn open_older(dir: &Path, newest: u64, options: LmdbOptions) -> Result<Vec<Arc<OpenBase>>> {
    remove_leftovers(dir, newest)?;
    let older = numbers(dir)?.into_iter().filter(|number| *number < newest);
    older
        .map(|number| {
            let file = path_of(dir, number);
            // We open it only to look up the commits of its readers.
            check_file(&file, 0)?;
            OpenBase::over(file, number, true, options)
        })
        .collect()
}

impl LmdbBase {
    /// Begins a read of the newest file.
    pub(super) fn begin(&self) -> Result<LmdbRead> {
        for _ in 0..TRIES {
            let open = self.now();
            let read = open.begin()?;
            // The entry in the table must be visible before we look at the names: see the module header.
            fence(Ordering::SeqCst);
            if !open.read_only || is_newest(&self.dir, open.number)? {
                return Ok(read);
            }
            // The file was replaced. Open the newest one, unless another thread of this process already did.
            drop(read);
            let mut slot = self.open.write();
            if slot.number == open.number {
                *slot = open_newest(&self.dir, true, self.options)?;
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
        for base in older.iter() {
            let of_file = base.oldest()?;
            // The files must be removed oldest first (see `lmdb_numbers.rs`), so stop at the first one that is read.
            // The strong count tells whether a read of this process still holds the file.
            if of_file.is_none() && kept.is_empty() && Arc::strong_count(base) == 1 {
                remove_older(&self.dir, base.number)?;
                continue;
            }
            kept.push(Arc::clone(base));
            oldest = oldest.into_iter().chain(of_file).min();
        }
        *older = kept;
        // The lock on `older` is still held, so a file that ceases to be the base is counted in one of the two places.
        Ok(oldest.into_iter().chain(self.now().oldest()?).min())
    }

    /// Runs `work` with the name of the newest file. Runs it again if that file was replaced in the meantime.
    pub(super) fn by_name<T>(&self, mut work: impl FnMut(&Path) -> Result<T>) -> Result<T> {
        for _ in 1..TRIES {
            // In a process that only reads, this switches to the newest file.
            drop(self.begin()?);
            let open = self.now();
            let done = work(&open.file);
            if !open.read_only || is_newest(&self.dir, open.number)? {
                return done;
            }
        }
        work(&self.now().file)
    }

    /// Copies the base to a new file without free pages, and makes that file the base. See the module header for the
    /// steps.
    pub(super) fn compact_now(&self, cancel: &Cancel) -> Result<()> {
        let _writing = self.writing.lock();
        let open = self.now();
        open.check_writable()?;
        let number = open.number + 1;
        let file = path_of(&self.dir, number);
        let new = with_suffix(&file, NEW_SUFFIX);
        remove_leftovers(&self.dir, open.number)?;
        if let Err(error) = copy(&open, &new, cancel) {
            // Try to remove the incomplete file. If that fails, the next compaction removes it.
            let _ = remove_leftovers(&self.dir, open.number);
            return Err(error);
        }
        if let Err(e) = fs::rename(&new, &file) {
            let error = Error::io(format_args!("rename {} to {}", new.display(), file.display()), &e);
            // The rename may have happened although it reported an error, and then another process may already read the
            // new file. Writes to the old one would be lost, so we poison it.
            let is_done = is_there(&file).unwrap_or(true);
            open.poisoned.fetch_or(is_done, Ordering::AcqRel);
            let _ = remove_leftovers(&self.dir, open.number);
            return Err(error);
        }
        // The rename must be synced before the first write to the new file. Otherwise a power cut could bring back the
        // old file, without that write.
        let synced = sync_names(&self.dir);
        let next = match synced.and_then(|()| OpenBase::over(file, number, false, self.options)) {
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

fn sync_names(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|e| Error::io(format_args!("sync {}", dir.display()), &e))
}

/// Fills the new file `to` with the last commit of `open`.
fn copy(open: &Arc<OpenBase>, to: &Path, cancel: &Cancel) -> Result<()> {
    // No commit can follow the state of this read, because the caller holds the lock of the writer.
    let read = open.begin()?;
    let mut copy = Box::new(LmdbCopy::begin(to.to_owned())?);
    let mut entries = 0_usize;
    read.scan(&[], &mut |key, value| {
        entries += 1;
        if entries.is_multiple_of(ENTRIES_PER_LOOK) {
            cancel.check()?;
        }
        copy.put(key, value)?;
        Ok(true)
    })?;
    cancel.check()?;
    copy.finish(&WriteBatch::default(), read.commit_id()?).map(drop)
}

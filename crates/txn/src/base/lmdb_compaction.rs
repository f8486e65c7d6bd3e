//! A base without what is free in it: its entries go to a new file, which takes the place of the one before.
//!
//! ```text
//! copy     base-1.lmdb-new is filled with the last commit and synced; nobody writes to the base meanwhile
//! rename   it is base-1.lmdb from here on, and with that the base of whoever opens the directory
//! switch   it is the base of this process: reads that begin from here on are of it, writes go to it alone
//! remove   when nobody in any process reads base.lmdb any more
//! ```
//!
//! Both files have the same commit, so it does not matter which of them is read by whom. A crash before the rename leaves the one, and one
//! behind it the other; a power cut may take the rename back before it is synced, and nothing was written to the new file by then.
//!
//! **Readers of the file before**, in this process and in others, go on: what they read is not changed. Which commits they see is looked up
//! in the table of that file too before anything is given back ([`LmdbBase::oldest`]). Another process that has it open looks, whenever it
//! has begun a read, whether it is still the base, and begins anew in the newer one if not. It looks behind its entry in the table, and
//! a file counts as not read only if its table was seen to be empty behind the rename. So either it is seen, or it sees the new file.

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

/// Files that may come and go while one is opened.
const TRIES: usize = 64;

/// Entries that are copied between two looks at whether it is to go on.
const ENTRIES_PER_LOOK: usize = 1 << 12;

/// The newest file in `dir`.
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
            // The writing process has gone on in another one meanwhile.
            Err(_) if read_only && tries > 0 && !is_newest(dir, number)? => tries -= 1,
            opened => return opened,
        }
    }
}

/// The files in `dir` that were the base before `newest` and that somebody may read, oldest first.
pub(super) fn open_older(dir: &Path, newest: u64, options: LmdbOptions) -> Result<Vec<Arc<OpenBase>>> {
    remove_leftovers(dir, newest)?;
    let older = numbers(dir)?.into_iter().filter(|number| *number < newest);
    older
        .map(|number| {
            let file = path_of(dir, number);
            // It is read for its commits alone.
            check_file(&file, 0)?;
            OpenBase::over(file, number, true, options)
        })
        .collect()
}

impl LmdbBase {
    /// A read of the newest file.
    pub(super) fn begin(&self) -> Result<LmdbRead> {
        for _ in 0..TRIES {
            let open = self.now();
            let read = open.begin()?;
            // The entry in the table before the look at the names.
            fence(Ordering::SeqCst);
            if !open.read_only || is_newest(&self.dir, open.number)? {
                return Ok(read);
            }
            drop(read);
            let mut slot = self.open.write();
            if slot.number == open.number {
                *slot = open_newest(&self.dir, true, self.options)?;
            }
        }
        let message = format!("{}: another file has become the base whenever one was opened", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message).hint("try it again"))
    }

    /// The last commit of the oldest read that any process has of any file. Files that nobody reads and that are not the base are
    /// removed.
    pub(super) fn oldest(&self) -> Result<Option<CommitId>> {
        let mut older = self.older.lock();
        let mut kept = Vec::new();
        let mut oldest = None;
        for base in older.iter() {
            let of_file = base.oldest()?;
            // An older one first: see `lmdb_numbers.rs`.
            if of_file.is_none() && kept.is_empty() && Arc::strong_count(base) == 1 {
                remove_older(&self.dir, base.number)?;
                continue;
            }
            kept.push(Arc::clone(base));
            oldest = oldest.into_iter().chain(of_file).min();
        }
        *older = kept;
        // Under the lock: a file that ceases to be the base is in one of the two places.
        Ok(oldest.into_iter().chain(self.now().oldest()?).min())
    }

    /// Does something with the newest file by its name; once more where that went away meanwhile.
    pub(super) fn by_name<T>(&self, mut work: impl FnMut(&Path) -> Result<T>) -> Result<T> {
        for _ in 1..TRIES {
            // A process that only reads looks for a newer one.
            drop(self.begin()?);
            let open = self.now();
            let done = work(&open.file);
            if !open.read_only || is_newest(&self.dir, open.number)? {
                return done;
            }
        }
        work(&self.now().file)
    }

    /// See the module.
    pub(super) fn compact_now(&self, cancel: &Cancel) -> Result<()> {
        let _writing = self.writing.lock();
        let open = self.now();
        open.check_writable()?;
        let number = open.number + 1;
        let file = path_of(&self.dir, number);
        let new = with_suffix(&file, NEW_SUFFIX);
        remove_leftovers(&self.dir, open.number)?;
        if let Err(error) = copy(&open, &new, cancel) {
            // What stays is removed before the next one is made.
            let _ = remove_leftovers(&self.dir, open.number);
            return Err(error);
        }
        if let Err(e) = fs::rename(&new, &file) {
            let error = Error::io(format_args!("rename {} to {}", new.display(), file.display()), &e);
            // It may have been done all the same, and somebody may read it by now.
            let is_done = is_there(&file).unwrap_or(true);
            open.poisoned.fetch_or(is_done, Ordering::AcqRel);
            let _ = remove_leftovers(&self.dir, open.number);
            return Err(error);
        }
        let synced = sync_names(&self.dir);
        let next = match synced.and_then(|()| OpenBase::over(file, number, false, self.options)) {
            Ok(next) => next,
            Err(error) => {
                // Others read the new file already: what was written to the one before they would not see.
                open.poisoned.store(true, Ordering::Release);
                return Err(error);
            }
        };
        // Whoever looks for readers sees it among the one or the other.
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

/// Fills the new file `to` with the last commit.
fn copy(open: &Arc<OpenBase>, to: &Path, cancel: &Cancel) -> Result<()> {
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

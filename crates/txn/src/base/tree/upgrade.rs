//! Makes a tree of the base of an earlier version, which was a file of LMDB.
//!
//! ```text
//! copy     fill base.tree-new with the entries of base-2.lmdb, each checked, and sync it
//! rename   rename it to base.tree: from now on it is the base
//! remove   remove the files of LMDB
//! ```
//!
//! A crash before the rename leaves the old base, and one after it leaves the new one.

use std::path::Path;

use rowmill_base::{Cancel, Error, ErrorKind, Result};

use super::super::lmdb::LmdbFile;
use super::compaction::copy_entries;
use super::names::{BASE_FILE, note_made, numbers, remove, remove_leftovers, rename_new, sync_names};

/// Whether `dir` has a base of an earlier version and no tree.
pub(super) fn is_older_base(dir: &Path) -> Result<bool> {
    Ok(numbers(dir)?.is_empty() && LmdbFile::newest_in(dir)?.is_some())
}

/// Converts the base of an earlier version, if there is one.
pub(super) fn upgrade(dir: &Path) -> Result<()> {
    if numbers(dir)?.is_empty()
        && let Some(path) = LmdbFile::newest_in(dir)?
    {
        remove_leftovers(dir)?;
        let older = LmdbFile::open(&path)?;
        let unreadable = |error: Error| match error.kind() {
            ErrorKind::Cancelled => error,
            _ => error.hint("the database was written by an earlier version and could not be converted"),
        };
        let scanned = copy_entries(dir, BASE_FILE, older.commit(), &Cancel::new(), |visit| older.scan(visit));
        scanned.map_err(unreadable)?;
        rename_new(dir, BASE_FILE)?;
        note_made(dir)?;
        sync_names(dir)?;
    }
    // The files of LMDB are also removed if an earlier conversion was killed after the rename.
    LmdbFile::all_in(dir)?.iter().try_for_each(|path| remove(path))
}

//! Reads the base of an earlier version, which was a file of LMDB, to convert it (`tree/upgrade.rs`).
//!
//! ```text
//! base.lmdb            the base; after compactions base-1.lmdb and so on, and the highest number counts
//! base.lmdb-lock       LMDB's locks
//! ```
//!
//! `base.lmdb-lock` stays after the conversion. It tells an earlier version that the directory had a base, so that it
//! does not make an empty one.
//!
//! Each value carries a checksum (`sealed_value.rs`). Besides the reserved keys of all such bases, `00 'h'` with an
//! LMDB transaction (u64 BE) tells which commit that transaction made. It is not converted.

mod pages;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rowmill_base::{CommitId, Error, Result};

use self::pages::LmdbPages;
use super::sealed_value::{LAST_COMMIT_KEY, VERSION_KEY, unseal, unseal_number};
use super::{RESERVED, Visitor};

/// The version of the layout of values and of the reserved keys.
const LAYOUT_VERSION: u32 = 1;

const STEM: &str = "base-";
const SUFFIX: &str = ".lmdb";
const FIRST_FILE: &str = "base.lmdb";

/// The file of a base of an earlier version.
#[derive(Debug)]
pub(super) struct LmdbFile {
    path: PathBuf,
    pages: LmdbPages,
    commit: CommitId,
}

impl LmdbFile {
    /// The newest file in `dir`, if there is one.
    pub(super) fn newest_in(dir: &Path) -> Result<Option<PathBuf>> {
        Ok(files_in(dir)?.into_iter().max().map(|(_, path)| path))
    }

    /// The paths of all files in `dir`.
    pub(super) fn all_in(dir: &Path) -> Result<Vec<PathBuf>> {
        Ok(files_in(dir)?.into_iter().map(|(_, path)| path).collect())
    }

    /// Opens a file. Returns `NewerFormat` if its layout is not known.
    pub(super) fn open(path: &Path) -> Result<LmdbFile> {
        let mut file = LmdbFile { path: path.to_owned(), pages: LmdbPages::open(path)?, commit: CommitId(0) };
        // The reserved keys sort before all others.
        let mut version = None;
        let LmdbFile { pages, commit, .. } = &mut file;
        pages.scan(&mut |key, stored| {
            if key.first() != Some(&RESERVED) {
                return Ok(false);
            }
            match key {
                VERSION_KEY => version = Some(u32::from_le_bytes(unseal_number(key, stored, path)?)),
                LAST_COMMIT_KEY => *commit = CommitId(u64::from_le_bytes(unseal_number(key, stored, path)?)),
                _ => {}
            }
            Ok(true)
        })?;
        match version {
            Some(LAYOUT_VERSION) => Ok(file),
            Some(newer) => Err(Error::newer_format(format!(
                "{}: the base has layout {newer}, and this build reads layout {LAYOUT_VERSION}",
                path.display()
            ))),
            None => Err(Error::corrupt(format!("{}: the version of the layout is missing", path.display()))),
        }
    }

    /// The last commit.
    pub(super) fn commit(&self) -> CommitId {
        self.commit
    }

    /// Visits all entries, without the reserved ones.
    pub(super) fn scan(&self, visit: &mut Visitor<'_>) -> Result<()> {
        self.pages.scan(&mut |key, stored| match key.first() {
            Some(&RESERVED) => Ok(true),
            _ => visit(key, unseal(key, stored, &self.path)?),
        })
    }
}

/// The files in `dir` with their numbers.
fn files_in(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let failed = |e: &io::Error| Error::io(format_args!("list {}", dir.display()), e);
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| failed(&e))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| failed(&e))?;
        let number = entry.file_name().to_str().and_then(number_of);
        files.extend(number.map(|number| (number, entry.path())));
    }
    Ok(files)
}

fn number_of(name: &str) -> Option<u64> {
    match name {
        FIRST_FILE => Some(0),
        _ => name.strip_prefix(STEM)?.strip_suffix(SUFFIX)?.parse().ok(),
    }
}

#[cfg(test)]
pub(super) mod tests;

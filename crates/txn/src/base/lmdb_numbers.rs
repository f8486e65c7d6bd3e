//! The names of a base's files. Each compaction creates another file, and the file with the highest number is the base.
//!
//! ```text
//! base.lmdb            the first one, number 0; its lock file stays, to tell a lost base from a new directory
//! base-1.lmdb          the next one, and so on
//! base-1.lmdb-new      one that is being created; must not be used
//! ```
//!
//! A file that is no longer the base is removed once no process reads it. Older files must be removed before newer
//! ones. So a process can tell whether the file that it has open is outdated: either that file is gone, or the file
//! with the next number exists. One of the two holds, however many files came and went since.

use std::fs;
use std::path::{Path, PathBuf};

use rowmill_base::{Error, Result};

use super::lmdb::BASE_FILE;
use super::lmdb_file::{LOCK_SUFFIX, NEW_SUFFIX, is_there, with_suffix};

const STEM: &str = "base-";
const SUFFIX: &str = ".lmdb";

/// The most times that we list a directory before we believe that it has no base file.
const LISTS_MAX: usize = 3;

/// The path of the file with this number in the directory `dir`.
pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    match number {
        0 => dir.join(BASE_FILE),
        number => dir.join(format!("{STEM}{number}{SUFFIX}")),
    }
}

fn number_of(name: &str) -> Option<u64> {
    if name == BASE_FILE {
        return Some(0);
    }
    let digits = name.strip_prefix(STEM)?.strip_suffix(SUFFIX)?;
    // Accept only the canonical spelling, so that two names never have the same number.
    digits.parse().ok().filter(|number: &u64| *number > 0 && number.to_string() == digits)
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let failed = |e: &std::io::Error| Error::io(format_args!("list {}", dir.display()), e);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| failed(&e))? {
        // We never use a name that is not UTF-8.
        names.extend(entry.map_err(|e| failed(&e))?.file_name().into_string().ok());
    }
    Ok(names)
}

/// The numbers of the existing base files, ascending.
pub(super) fn numbers(dir: &Path) -> Result<Vec<u64>> {
    // A missing directory has no files.
    if !is_there(dir)? {
        return Ok(Vec::new());
    }
    let mut numbers = Vec::new();
    // A list that is read while one file appears and another one disappears may miss both. So read an empty one again.
    for _ in 0..LISTS_MAX {
        numbers = names(dir)?.iter().filter_map(|name| number_of(name)).collect();
        if !numbers.is_empty() {
            break;
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether the file with this number, which was the base, still is.
pub(super) fn is_newest(dir: &Path, number: u64) -> Result<bool> {
    Ok(!is_there(&path_of(dir, number + 1))? && is_there(&path_of(dir, number))?)
}

/// Removes unfinished files, and lock files of removed ones. `newest` is the number of the base.
pub(super) fn remove_leftovers(dir: &Path, newest: u64) -> Result<()> {
    let new_lock_suffix = format!("{NEW_SUFFIX}{LOCK_SUFFIX}");
    for name in names(dir)? {
        let unfinished = [&new_lock_suffix, NEW_SUFFIX].into_iter().find_map(|suffix| name.strip_suffix(suffix));
        let is_unfinished = unfinished.and_then(number_of).is_some();
        // The lock file of number 0 must stay: see the module header.
        let lock_of = name.strip_suffix(LOCK_SUFFIX).and_then(number_of).filter(|number| (1..newest).contains(number));
        let is_stray = match lock_of {
            Some(number) => !is_there(&path_of(dir, number))?,
            None => false,
        };
        if is_unfinished || is_stray {
            remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// Removes a file that is no longer the base and that no process has open.
pub(super) fn remove_older(dir: &Path, number: u64) -> Result<()> {
    let file = path_of(dir, number);
    // Remove the data before its lock file: a lock file alone is a leftover that a later run removes.
    remove(&file)?;
    if number > 0 { remove(&with_suffix(&file, LOCK_SUFFIX)) } else { Ok(()) }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", path.display()), &e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_lead_to_numbers_and_back() {
        for number in [0, 1, 17, u64::MAX] {
            let path = path_of(Path::new("d"), number);
            assert_eq!(number_of(path.file_name().unwrap().to_str().unwrap()), Some(number));
        }
        for name in ["base-.lmdb", "base-0.lmdb", "base-01.lmdb", "base-1.lmdb-lock", "base-1.lmdb-new", "base-x.lmdb"]
        {
            assert_eq!(number_of(name), None, "{name}");
        }
    }

    #[test]
    fn only_leftover_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept =
            ["base.lmdb-lock", "base-3.lmdb", "base-3.lmdb-lock", "base-2.lmdb", "base-2.lmdb-lock", "other-new"];
        let gone = ["base-1.lmdb-lock", "base-4.lmdb-new", "base-4.lmdb-new-lock"];
        for name in kept.iter().chain(&gone) {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        remove_leftovers(dir.path(), 3).unwrap();
        let mut left = names(dir.path()).unwrap();
        left.sort();
        let mut kept = kept.map(str::to_owned);
        kept.sort();
        assert_eq!(left, kept);
        assert_eq!(numbers(dir.path()).unwrap(), [2, 3]);
        assert!(is_newest(dir.path(), 3).unwrap() && !is_newest(dir.path(), 2).unwrap());
        assert!(!is_newest(dir.path(), 1).unwrap() && !is_newest(dir.path(), 0).unwrap());
    }
}

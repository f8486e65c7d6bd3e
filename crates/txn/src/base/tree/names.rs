//! The names of a base's files. Each compaction creates another file, and the file with the highest number is the base.
//!
//! ```text
//! base.tree            the first one, number 0
//! base-1.tree          the next one, and so on
//! base-1.tree-new      one that is being created; must not be used
//! base-1.tree-reader-0 the reads of another process (`held_reads.rs`)
//! base.tree-made       says that the directory has a base, to tell a lost base from a new directory; empty
//! ```
//!
//! A file that is no longer the base is removed once no process reads it. Older files must be removed before newer
//! ones. So a process can tell whether the file that it has open is outdated: either that file is gone, or the file
//! with the next number exists. One of the two holds, however many files came and went since.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rowmill_base::{Error, Result};

use super::super::kind::is_there;

/// The name of the first file in the directory of a database.
pub const BASE_FILE: &str = "base.tree";

pub(super) const NEW_SUFFIX: &str = "-new";
pub(super) const READER_SUFFIX: &str = "-reader-";
const MADE_FILE: &str = "base.tree-made";

const STEM: &str = "base-";
const SUFFIX: &str = ".tree";

/// The most times that we list a directory before we believe that it has no base file.
const LISTS_MAX: usize = 3;

/// The path of `file` with `suffix` appended to its name.
pub(in crate::base) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The name of the file with this number.
pub(super) fn name_of(number: u64) -> String {
    match number {
        0 => BASE_FILE.to_owned(),
        number => format!("{STEM}{number}{SUFFIX}"),
    }
}

/// The path of the file with this number in the directory `dir`.
pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(name_of(number))
}

fn number_of(name: &str) -> Option<u64> {
    if name == BASE_FILE {
        return Some(0);
    }
    let digits = name.strip_prefix(STEM)?.strip_suffix(SUFFIX)?;
    // Accept only the canonical spelling, so that two names never have the same number.
    digits.parse().ok().filter(|number: &u64| *number > 0 && number.to_string() == digits)
}

/// The names of everything in a directory.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
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

/// Removes unfinished files.
pub(super) fn remove_leftovers(dir: &Path) -> Result<()> {
    for name in names(dir)? {
        if name.strip_suffix(NEW_SUFFIX).and_then(number_of).is_some() {
            remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// Removes a file that is no longer the base and that no process has open.
pub(super) fn remove_older(dir: &Path, number: u64) -> Result<()> {
    remove(&path_of(dir, number))
}

/// Returns an error if the directory had a base before. An empty base in its place would make the rest of the database
/// unusable too.
pub(in crate::base) fn check_never_made(dir: &Path) -> Result<()> {
    if is_there(&dir.join(MADE_FILE))? {
        return Err(Error::corrupt(format!("{} is missing, and it was there before", dir.join(BASE_FILE).display()))
            .hint("restore the directory from a backup; its column files cannot be read without this file"));
    }
    Ok(())
}

/// Notes that the directory has a base. The caller must sync the directory.
pub(super) fn note_made(dir: &Path) -> Result<()> {
    let path = dir.join(MADE_FILE);
    let made = File::options().write(true).create(true).truncate(false).open(&path);
    made.map(drop).map_err(|e| Error::io(format_args!("make {}", path.display()), &e))
}

/// Gives the finished file `name` with [`NEW_SUFFIX`] its name. The caller must sync the directory.
pub(super) fn rename_new(dir: &Path, name: &str) -> Result<()> {
    let (new, file) = (dir.join(format!("{name}{NEW_SUFFIX}")), dir.join(name));
    let failed = |e: &io::Error| Error::io(format_args!("rename {} to {}", new.display(), file.display()), e);
    fs::rename(&new, &file).map_err(|e| failed(&e))
}

/// Makes the names in a directory durable.
pub(super) fn sync_names(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|e| Error::io(format_args!("sync {}", dir.display()), &e))
}

/// Removes a file. Does nothing if there is no such file.
pub(super) fn remove(path: &Path) -> Result<()> {
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
        for name in
            ["base-.tree", "base-0.tree", "base-01.tree", "base-1.tree-reader-0", "base-1.tree-new", "base-x.tree"]
        {
            assert_eq!(number_of(name), None, "{name}");
        }
    }

    #[test]
    fn only_unfinished_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = ["base-2.tree", "base-3.tree", "base-3.tree-reader-0", "base.tree-made", "other-new"];
        for name in kept.iter().chain(&["base-4.tree-new", "base.tree-new"]) {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        remove_leftovers(dir.path()).unwrap();
        let mut left = names(dir.path()).unwrap();
        left.sort();
        assert_eq!(left, kept);
        assert_eq!(numbers(dir.path()).unwrap(), [2, 3]);
        assert!(is_newest(dir.path(), 3).unwrap() && !is_newest(dir.path(), 2).unwrap());
        assert!(!is_newest(dir.path(), 1).unwrap() && !is_newest(dir.path(), 0).unwrap());
        assert_eq!(check_never_made(dir.path()).unwrap_err().kind(), rowmill_base::ErrorKind::Corrupt);
    }
}

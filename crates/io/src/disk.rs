//! What the engine asks of a disk.
//!
//! Assumed of every disk, and tested of every one of ours:
//! * A range that was written reads back as written, by calls and by mappings alike, at once and in this process.
//! * A range behind the end that was jumped over, added by `set_len` or given back by `punch` reads as zeros.
//! * What was written before a `sync` that succeeded survives a power cut. What was not may be there whole, in part or
//!   not at all, in any order. After a sync that failed nothing is known about the writes before it.
//! * The name of a new file survives a power cut only after `sync_dir` of its folder; the same holds for a removal.
//!   `open` and `create_dir` do not sync: that is the caller's duty, once for as many files as it makes.
//! * A removed file lives on for those who opened or mapped it before.
//!
//! Asked of the caller: a range is not written, punched or cut off while somebody holds a slice of it from a
//! [`Mapping`]. The engine has this from its extents, whose bytes never change between the commit that names them and
//! the last snapshot that reads them.

use std::fmt::Debug;
use std::sync::Arc;

use rowmill_base::Result;

use crate::Mapping;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading. The file must exist.
    Read,
    /// For reading and writing. The file must exist.
    Write,
    /// For reading and writing. The file is made, empty, if it does not exist.
    Create,
}

/// A directory of files. Paths are relative to it and separated by `/`.
///
/// Errors are of kind `Corrupt` where a file is missing or shorter than asked for, `DiskFull` where the disk is, and
/// `Io` otherwise; each names the whole path.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Opens a file. Its folder must exist.
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>>;

    /// The length of a file in bytes, or `None` if there is no such file.
    fn len(&self, path: &str) -> Result<Option<u64>>;

    /// The names of the files and folders in `dir`, sorted. Empty if there is no such folder.
    fn list(&self, dir: &str) -> Result<Vec<String>>;

    /// Makes a folder and those above it. Fine if it is there.
    fn create_dir(&self, dir: &str) -> Result<()>;

    /// Removes a file. Fine if there is none.
    fn remove(&self, path: &str) -> Result<()>;

    /// Removes a folder with all that it holds. Fine if there is none.
    fn remove_dir(&self, dir: &str) -> Result<()>;

    /// Makes the names in `dir` durable: what was created in it and removed from it.
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// Maps a file over at least `len_min` bytes of address space (and at least the file's length). The mapping keeps
    /// up with the file as it grows.
    fn map(&self, path: &str, len_min: u64) -> Result<Arc<Mapping>>;

    /// Whether files are memory of this process.
    fn is_memory(&self) -> bool {
        false
    }

    /// The whole path, for messages.
    fn describe(&self, path: &str) -> String;
}

/// An open file. All calls take positions, so one handle serves many threads.
pub trait DiskFile: Send + Sync + Debug {
    /// Fills `buf` from `offset`. `Corrupt` if the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// Writes all of `buf` at `offset`, growing the file as needed.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// Makes the bytes of the file durable, with its length (fdatasync).
    fn sync(&self) -> Result<()>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the length is zero.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Gives a range back to the file system. It reads as zeros; the length does not change.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;
}

/// Panics if `path` could leave the directory: paths are made by the engine from ids, so this is a bug and not input.
pub(crate) fn assert_inside(path: &str) {
    let inside = path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    assert!(inside, "a path of a disk is relative and has no empty or dotted part: {path:?}");
}

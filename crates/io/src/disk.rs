//! The interface between the engine and a disk.
//!
//! The engine assumes the following of every disk, and we test it for each of ours:
//! * A range that was written reads back as written, by calls and by mappings, immediately and in this process.
//! * A range reads as zeros if a write jumped over it, if `set_len` added it, or if `punch` gave it back.
//! * Bytes that were written before a successful `sync` survive a power cut. Later writes may survive in whole, in
//!   part or not at all, in any order. After a failed sync, nothing is known about the writes before it.
//! * The name of a new file survives a power cut only after `sync_dir` of its folder. The same holds for a removal.
//!   `open` and `create_dir` do not sync. The caller must do so, once for any number of files that it makes in a
//!   folder.
//! * A removed file stays readable for handles and mappings that were opened before.
//!
//! The caller must not write, punch or cut off a range while a slice of it from a [`Mapping`] exists. The engine
//! guarantees this by its extents: their bytes never change between the commit that names them and the last snapshot
//! that reads them.

use std::fmt::Debug;
use std::sync::Arc;

use rowmill_base::Result;

use crate::{FileMemory, Mapping};

/// The way in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading. The file must exist.
    Read,
    /// For reading and writing. The file must exist.
    Write,
    /// For reading and writing. Makes an empty file if it does not exist.
    Create,
}

/// A directory of files. Paths are relative to it and separated by `/`.
///
/// Errors have the kind `Corrupt` if a file is missing or too short, `DiskFull` if the disk is full, and `Io`
/// otherwise. Each error names the whole path.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Opens a file. Its folder must exist.
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>>;

    /// The length of a file in bytes, or `None` if there is no such file.
    fn len(&self, path: &str) -> Result<Option<u64>>;

    /// The names of the files and folders in `dir`, sorted. Empty if there is no such folder.
    fn list(&self, dir: &str) -> Result<Vec<String>>;

    /// Makes a folder and its parents. Does nothing if it exists.
    fn create_dir(&self, dir: &str) -> Result<()>;

    /// Removes a file. Does nothing if it does not exist.
    fn remove(&self, path: &str) -> Result<()>;

    /// Removes a folder with everything in it. Does nothing if it does not exist.
    fn remove_dir(&self, dir: &str) -> Result<()>;

    /// Makes the names in `dir` durable: files and folders that were created or removed in it.
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// Maps a file with at least `len_min` bytes of address space, and at least the file's length. The mapping follows
    /// the file as it grows.
    fn map(&self, path: &str, len_min: u64) -> Result<Arc<Mapping>>;

    /// Makes an empty file whose bytes are memory of this process. The file must not exist, and no other call may open
    /// it.
    fn file_memory(&self, path: &str) -> Result<FileMemory>;

    /// Whether files are stored in the memory of this process.
    fn is_memory(&self) -> bool {
        false
    }

    /// The whole path, for error messages.
    fn describe(&self, path: &str) -> String;
}

/// An open file. All calls take positions, so one handle serves many threads.
pub trait DiskFile: Send + Sync + Debug {
    /// Fills `buf` from `offset`. Fails with `Corrupt` if the file ends before the end of the range.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// Writes all of `buf` at `offset`, growing the file as needed.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// Makes the bytes and the length of the file durable (fdatasync).
    fn sync(&self) -> Result<()>;

    /// Has the system begin to store what was written to a range, so that a later `sync` has less to wait for. Only
    /// `sync` makes bytes durable. After an error, as after a failed sync, nothing is known about the writes before it.
    fn begin_store(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    /// Has the system store what was written to a range, and waits until the device has taken it. It promises no more
    /// than [`DiskFile::begin_store`], and its errors mean the same.
    fn wait_stored(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    /// The length of the file in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to `len` bytes, or extends it with zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Gives a range back to the file system. It then reads as zeros. The length of the file does not change.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;
}

/// Panics if `path` could leave the directory. The engine makes paths from ids, so such a path is a bug and not bad
/// input.
pub(crate) fn assert_inside(path: &str) {
    let inside = path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    assert!(inside, "a path of a disk must be relative, without empty or dotted parts: {path:?}");
}

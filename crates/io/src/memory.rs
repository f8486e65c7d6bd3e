//! A directory in memory. It is the disk of a database that lives as long as its process, and of most tests.
//!
//! A file is a long range of anonymous memory. A mapping of the file is the same memory, so it follows the file's
//! growth like a mapping of a real file. When a file outgrows its range, we copy it into a range twice as long. The
//! old range stays for the mappings that hold it, and while it exists, writes go to both ranges: an extent below the
//! old end may be freed and reused, and must then read the same through an old mapping as through a new one. (A file
//! from `memfd_create` would need no copy, but one descriptor per column, and a process has only about a thousand
//! descriptors.)

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rowmill_base::{Error, Result};

use crate::disk::assert_inside;
use crate::mapping::{Anonymous, FileLength, WeakAnonymous};
use crate::{Disk, DiskFile, FileMemory, Mapping, OpenMode};

/// A directory in memory. Clones are the same disk. It is freed with the last clone, open file and mapping.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<MemoryFolder>>);

#[derive(Debug, Default)]
struct MemoryFolder {
    files: BTreeMap<String, Arc<MemoryFile>>,
    /// All folders except the root, which always exists.
    dirs: BTreeSet<String>,
}

impl MemoryDisk {
    /// Makes an empty disk.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    fn file(&self, path: &str) -> Result<Arc<MemoryFile>> {
        self.0.lock().file(path).ok_or_else(|| self.missing("open", path))
    }

    fn missing(&self, call: &str, path: &str) -> Error {
        let file = self.describe(path);
        Error::corrupt(format!("{call} {file}: there is no such file or folder")).in_file(file)
    }

    fn wrong_kind(&self, call: &str, path: &str, cause: io::ErrorKind) -> Error {
        Error::io(format_args!("{call} {}", self.describe(path)), &io::Error::from(cause))
    }
}

impl MemoryFolder {
    fn file(&self, path: &str) -> Option<Arc<MemoryFile>> {
        self.files.get(path).cloned()
    }

    fn has_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.dirs.contains(dir)
    }
}

/// The folder that contains `path`.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The rest of `path` below `dir`. `None` if `path` is not below `dir`.
fn below<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    if dir.is_empty() { Some(path) } else { path.strip_prefix(dir)?.strip_prefix('/') }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>> {
        assert_inside(path);
        let mut folder = self.0.lock();
        if folder.has_dir(path) {
            return Err(self.wrong_kind("open", path, io::ErrorKind::IsADirectory));
        }
        let file = match folder.file(path) {
            Some(file) => file,
            None if mode == OpenMode::Create && folder.has_dir(parent(path)) => {
                let file = Arc::new(MemoryFile::new(self.describe(path))?);
                folder.files.insert(path.to_owned(), file.clone());
                file
            }
            None => return Err(self.missing("open", path)),
        };
        Ok(Box::new(Handle { file, writes: mode != OpenMode::Read }))
    }

    fn len(&self, path: &str) -> Result<Option<u64>> {
        assert_inside(path);
        Ok(self.0.lock().file(path).map(|file| file.length.get()))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        assert_inside(dir);
        let folder = self.0.lock();
        let paths = folder.files.keys().chain(&folder.dirs);
        let names = paths.filter_map(|path| below(path, dir)).filter(|name| !name.contains('/'));
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        Ok(names.into_iter().collect())
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        assert_inside(dir);
        let mut folder = self.0.lock();
        let mut path = dir;
        while !path.is_empty() {
            if folder.files.contains_key(path) {
                return Err(self.wrong_kind("create folder", path, io::ErrorKind::AlreadyExists));
            }
            // Walk up to the root, so that all parents exist.
            folder.dirs.insert(path.to_owned());
            path = parent(path);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        assert_inside(path);
        let mut folder = self.0.lock();
        if folder.has_dir(path) {
            return Err(self.wrong_kind("remove", path, io::ErrorKind::IsADirectory));
        }
        folder.files.remove(path);
        Ok(())
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        assert_inside(dir);
        let mut folder = self.0.lock();
        folder.files.retain(|path, _| below(path, dir).is_none());
        folder.dirs.retain(|path| path != dir && below(path, dir).is_none());
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        assert_inside(dir);
        if self.0.lock().has_dir(dir) { Ok(()) } else { Err(self.missing("sync folder", dir)) }
    }

    fn map(&self, path: &str, len_min: u64) -> Result<Arc<Mapping>> {
        assert_inside(path);
        self.file(path)?.map(len_min)
    }

    fn file_memory(&self, path: &str) -> Result<FileMemory> {
        // The file exists, so that it is listed and can be removed. Its bytes are elsewhere, because only this process
        // reads them.
        self.open(path, OpenMode::Create)?;
        FileMemory::anonymous(path)
    }

    fn is_memory(&self) -> bool {
        true
    }

    fn describe(&self, path: &str) -> String {
        format!("memory:{path}")
    }
}

#[derive(Debug)]
struct MemoryFile {
    name: String,
    length: Arc<FileLength>,
    /// Writers take the lock exclusively, so that a call never sees half of a write.
    bytes: RwLock<FileBytes>,
}

#[derive(Debug)]
struct FileBytes {
    current: Anonymous,
    /// Earlier ranges that the file has outgrown. Mappings may still hold them.
    outgrown: Vec<WeakAnonymous>,
}

impl MemoryFile {
    fn new(name: String) -> Result<MemoryFile> {
        let current = Anonymous::reserve(&name, 0)?;
        Ok(MemoryFile { name, length: Arc::default(), bytes: RwLock::new(FileBytes { current, outgrown: Vec::new() }) })
    }

    fn map(&self, len_min: u64) -> Result<Arc<Mapping>> {
        let mut bytes = self.bytes.write();
        bytes.reserve(&self.name, len_min, self.length.get())?;
        Ok(Arc::new(Mapping::of_memory(&bytes.current, self.name.clone(), self.length.clone())))
    }
}

impl FileBytes {
    /// Moves the file into a longer range if `capacity` bytes do not fit the current one.
    fn reserve(&mut self, name: &str, capacity: u64, len: u64) -> Result<()> {
        if capacity <= self.current.capacity() {
            return Ok(());
        }
        let longer = Anonymous::reserve(name, capacity)?;
        self.current.copy_to(&longer, len);
        // Drop the ranges that no mapping holds any longer, so that writes stay cheap.
        self.outgrown.retain(|old| old.upgrade().is_some());
        // A weak reference: the range must live only as long as a mapping of it.
        self.outgrown.push(self.current.downgrade());
        self.current = longer;
        Ok(())
    }

    /// Runs `change` on every range that a mapping may read, with the number of bytes from `offset` that this range
    /// holds.
    fn change(&self, offset: u64, len: u64, change: impl Fn(&Anonymous, u64)) {
        change(&self.current, len);
        for old in self.outgrown.iter().filter_map(WeakAnonymous::upgrade) {
            // An old range is shorter and may hold only a part of the bytes, or none.
            let inside = old.capacity().saturating_sub(offset).min(len);
            if inside > 0 {
                change(&old, inside);
            }
        }
    }

    fn write(&self, buf: &[u8], offset: u64) {
        self.change(offset, buf.len() as u64, |range, inside| range.write(&buf[..inside as usize], offset));
    }

    fn discard(&self, offset: u64, len: u64) {
        self.change(offset, len, |range, inside| range.discard(offset, inside));
    }
}

#[derive(Debug)]
struct Handle {
    file: Arc<MemoryFile>,
    writes: bool,
}

impl Handle {
    fn check_writes(&self, call: &str) -> Result<()> {
        if self.writes {
            return Ok(());
        }
        Err(Error::io(format_args!("{call} {}", self.file.name), &io::Error::from_raw_os_error(libc::EBADF)))
    }

    fn end(&self, offset: u64, len: u64) -> Result<u64> {
        let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
        end.ok_or_else(|| {
            Error::io(format_args!("write {}", self.file.name), &io::Error::from_raw_os_error(libc::EFBIG))
        })
    }
}

impl DiskFile for Handle {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let bytes = self.file.bytes.read();
        let len = self.file.length.get();
        if offset.saturating_add(buf.len() as u64) > len {
            return Err(Error::corrupt(format!(
                "{}: {} bytes at offset {offset} were asked for, but the file ends at {len}",
                self.file.name,
                buf.len()
            ))
            .in_file(&self.file.name)
            .at_offset(offset));
        }
        bytes.current.read(buf, offset);
        Ok(())
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writes("write")?;
        let end = self.end(offset, buf.len() as u64)?;
        if buf.is_empty() {
            return Ok(());
        }
        let mut bytes = self.file.bytes.write();
        let len = self.file.length.get();
        bytes.reserve(&self.file.name, end, len)?;
        bytes.write(buf, offset);
        // The length grows last, so that a mapping cannot see bytes that are not written yet.
        self.file.length.set(len.max(end));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.length.get())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writes("set the length of")?;
        self.end(len, 0)?;
        let mut bytes = self.file.bytes.write();
        let before = self.file.length.get();
        bytes.reserve(&self.file.name, len, before)?;
        // A shrinking file must lose its length before its bytes, so that no new slice of them can be made.
        self.file.length.set(len);
        if len < before {
            // All bytes after the end must be zeros, so that growing the file needs no work.
            bytes.discard(len, before - len);
        }
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writes("punch a hole into")?;
        let bytes = self.file.bytes.write();
        let inside = self.file.length.get().saturating_sub(offset).min(len);
        if inside > 0 {
            bytes.discard(offset, inside);
        }
        Ok(())
    }
}

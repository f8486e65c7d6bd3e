//! A directory of the file system.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rowmill_base::{Error, Result};

use crate::disk::assert_inside;
use crate::mapping::{FileLength, punch_hole, store};
use crate::{Disk, DiskFile, FileMemory, Mapping, OpenMode};

/// Zeros to write where the file system cannot punch holes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A directory of the file system. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: PathBuf,
    lengths: Arc<Mutex<Lengths>>,
}

/// The lengths that handles and mappings of a file share, by path.
#[derive(Debug, Default)]
struct Lengths {
    by_path: HashMap<String, Weak<FileLength>>,
    /// The number of entries at which we remove dead entries.
    sweep_at: usize,
}

impl Lengths {
    fn of(&mut self, path: &str) -> Arc<FileLength> {
        if let Some(length) = self.by_path.get(path).and_then(Weak::upgrade) {
            return length;
        }
        // Sweeping at twice the live entries keeps the average cost of a call constant.
        if self.by_path.len() >= self.sweep_at {
            self.by_path.retain(|_, length| length.strong_count() > 0);
            self.sweep_at = (self.by_path.len() * 2).max(64);
        }
        let length = Arc::new(FileLength::default());
        self.by_path.insert(path.to_owned(), Arc::downgrade(&length));
        length
    }

    /// Forgets a file that is about to be removed. The next file of this name must get a length of its own.
    fn forget(&mut self, path: &str) {
        self.by_path.remove(path);
    }

    fn forget_dir(&mut self, dir: &str) {
        self.by_path.retain(|path, _| !is_below(path, dir));
    }
}

fn is_below(path: &str, dir: &str) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

impl RealDisk {
    /// Makes a disk of the directory `root`. It need not exist before `create_dir("")`.
    pub fn new(root: impl Into<PathBuf>) -> RealDisk {
        RealDisk { root: root.into(), lengths: Arc::default() }
    }

    fn path(&self, path: &str) -> PathBuf {
        assert_inside(path);
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn error(&self, call: &str, path: &str, cause: &io::Error) -> Error {
        let what = format!("{call} {}", self.describe(path));
        match cause.kind() {
            io::ErrorKind::NotFound => {
                Error::corrupt(format!("{what}: there is no such file or folder")).in_file(self.describe(path))
            }
            _ => Error::io(what, cause),
        }
    }
}

/// Turns "not found" into success, for operations whose object may be absent.
fn absent_is_fine<T: Default>(outcome: io::Result<T>) -> io::Result<T> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>> {
        let whole = self.path(path);
        let writes = mode != OpenMode::Read;
        let create = mode == OpenMode::Create;
        // We hold the lock over the call, so that no removal can come between opening the file and getting its length.
        let mut lengths = self.lengths.lock();
        let opened = File::options().read(true).write(writes).create(create).truncate(false).open(&whole);
        let file = opened.map_err(|e| self.error("open", path, &e))?;
        Ok(Box::new(RealFile { file, path: whole, length: lengths.of(path) }))
    }

    fn len(&self, path: &str) -> Result<Option<u64>> {
        let metadata = absent_is_fine(fs::metadata(self.path(path)).map(Some));
        let metadata = metadata.map_err(|e| self.error("stat", path, &e))?;
        Ok(metadata.filter(|metadata| metadata.is_file()).map(|metadata| metadata.len()))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        let read = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(self.path(dir))? {
                // We never create names that are not UTF-8, so such a file is not ours.
                names.extend(entry?.file_name().into_string().ok());
            }
            names.sort();
            Ok(names)
        };
        absent_is_fine(read()).map_err(|e| self.error("list", dir, &e))
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        fs::create_dir_all(self.path(dir)).map_err(|e| self.error("create folder", dir, &e))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let mut lengths = self.lengths.lock();
        // Forget the length before the file disappears, and hold the lock until then: `open` must not find the old
        // length.
        lengths.forget(path);
        absent_is_fine(fs::remove_file(self.path(path))).map_err(|e| self.error("remove", path, &e))
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        let mut lengths = self.lengths.lock();
        lengths.forget_dir(dir);
        absent_is_fine(fs::remove_dir_all(self.path(dir))).map_err(|e| self.error("remove folder", dir, &e))
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let synced = File::open(self.path(dir)).and_then(|folder| folder.sync_all());
        synced.map_err(|e| self.error("sync folder", dir, &e))
    }

    fn map(&self, path: &str, len_min: u64) -> Result<Arc<Mapping>> {
        let whole = self.path(path);
        let mut lengths = self.lengths.lock();
        let file = File::open(&whole).map_err(|e| self.error("map", path, &e))?;
        Ok(Arc::new(Mapping::of_file(&file, whole, len_min, lengths.of(path))?))
    }

    fn file_memory(&self, path: &str) -> Result<FileMemory> {
        assert_inside(path);
        let whole = self.path(path);
        let file = File::options().read(true).write(true).create_new(true).open(&whole);
        FileMemory::of_file(file.map_err(|e| self.error("create", path, &e))?, whole)
    }

    fn describe(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
    length: Arc<FileLength>,
}

impl RealFile {
    fn error(&self, call: &str, cause: &io::Error) -> Error {
        Error::io(format_args!("{call} {}", self.path.display()), cause)
    }

    fn fill_with_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        // A punched range may end after the file. Writing there would make the file longer.
        let end = self.file.metadata()?.len().min(offset.saturating_add(len));
        let mut position = offset;
        while position < end {
            let part = (end - position).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..part as usize], position)?;
            position += part;
        }
        Ok(())
    }
}

impl DiskFile for RealFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        // Reading zero bytes makes no call, so we must look at the file's end ourselves.
        let read = match buf.is_empty() && self.len()? < offset {
            true => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            false => self.file.read_exact_at(buf, offset),
        };
        read.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(format!(
                "{}: {} bytes at offset {offset} were asked for, but the file ends before",
                self.path.display(),
                buf.len()
            ))
            .in_file(self.path.display())
            .at_offset(offset),
            _ => self.error("read", &e),
        })
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(buf, offset).map_err(|e| self.error("write", &e))
    }

    fn sync(&self) -> Result<()> {
        // This is fdatasync on Linux and F_FULLFSYNC on macOS.
        self.file.sync_data().map_err(|e| self.error("sync", &e))
    }

    fn begin_store(&self, offset: u64, len: u64) -> Result<()> {
        store(&self.file, offset, len, false).map_err(|e| self.error("store", &e))
    }

    fn wait_stored(&self, offset: u64, len: u64) -> Result<()> {
        store(&self.file, offset, len, true).map_err(|e| self.error("store", &e))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| self.error("stat", &e))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        // `cut` lowers the shared length before the file shrinks, so that no mapping hands out bytes that disappear.
        self.length.cut(len, || self.file.set_len(len)).map_err(|e| self.error("set the length of", &e))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        // Without support for holes we write zeros, which reads the same but frees no space.
        let punched = punch_hole(&self.file, offset, len)
            .and_then(|punched| if punched { Ok(()) } else { self.fill_with_zeros(offset, len) });
        punched.map_err(|e| self.error("punch a hole into", &e))
    }
}

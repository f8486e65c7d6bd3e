//! The temporary files of a database: their folder, their quota, and the list of them.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rowmill_base::{Broker, DiskQuota, Result};
use rowmill_io::{Disk, DiskFile, MemoryDisk, OpenMode};

use super::column_files::TempColumnFiles;
use super::file::FileOnDisk;
use super::folder::{TempFolder, remove_orphans};
use super::named_file::NamedTempFile;
use super::writer::SpillWriter;
use crate::schema::ColumnDef;

/// The most files that are open for reading at once. A process may have a limit of 64 open files, and needs some for
/// its log and its clients.
const OPEN_FILES_MAX: usize = 16;

/// The bytes of spilled state from which on it becomes a file of its own, until a setting changes that.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// Space is scarce when this part of the quota, as a divisor, is in use.
const SCARCE_DIVISOR: u64 = 4;

/// The place of temporary files. Clones are the same place.
#[derive(Clone, Debug)]
pub struct TempSpace {
    shared: Arc<SharedSpace>,
    /// Counts the files that are written through this clone.
    meter: Option<Arc<SpillMeter>>,
}

/// Counts the spilled state of one operator.
#[derive(Debug, Default)]
pub struct SpillMeter {
    bytes: AtomicU64,
    files: AtomicU64,
}

impl SpillMeter {
    /// The bytes spilled, compressed, in memory and on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of files on disk.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct SharedSpace {
    root: Mutex<TempRoot>,
    quota: DiskQuota,
    file_bytes_min: AtomicU64,
    next_number: AtomicU64,
    open: Mutex<VecDeque<(u64, Arc<dyn DiskFile>)>>,
    files: Mutex<BTreeMap<u64, SpillFileInfo>>,
}

/// Where new files are made.
#[derive(Debug)]
enum TempRoot {
    /// In a folder of the process in here, which is made with the first file.
    Path(PathBuf),
    /// In a folder of this process.
    Folder(Arc<TempFolder>),
}

/// One spill file, for a list of them.
#[derive(Clone, Debug)]
pub struct SpillFileInfo {
    /// The operator that wrote it.
    pub owner: &'static str,
    /// Its bytes so far.
    pub bytes: u64,
    /// Whether it is on disk. Otherwise its bytes are in memory.
    pub is_on_disk: bool,
}

impl TempSpace {
    /// Files in folders inside `root`, of at most `limit_bytes` bytes.
    pub fn in_folder(root: impl Into<PathBuf>, limit_bytes: u64) -> TempSpace {
        TempSpace::new(TempRoot::Path(root.into()), limit_bytes)
    }

    /// Files on `disk`, of at most `limit_bytes` bytes. For tests.
    pub fn on_disk(disk: impl Disk, limit_bytes: u64) -> TempSpace {
        TempSpace::new(TempRoot::Folder(Arc::new(TempFolder::on(Arc::new(disk)))), limit_bytes)
    }

    /// Files in memory, without a limit. For tests and benchmarks.
    pub fn in_memory() -> TempSpace {
        TempSpace::on_disk(MemoryDisk::new(), u64::MAX)
    }

    fn new(root: TempRoot, limit_bytes: u64) -> TempSpace {
        let shared = SharedSpace {
            root: Mutex::new(root),
            quota: DiskQuota::new(limit_bytes),
            file_bytes_min: AtomicU64::new(FILE_BYTES_MIN),
            next_number: AtomicU64::new(0),
            open: Mutex::default(),
            files: Mutex::default(),
        };
        TempSpace { shared: Arc::new(shared), meter: None }
    }

    /// The same place. Files that are written through it or its clones are counted in `meter`.
    #[must_use]
    pub fn metered(&self, meter: &Arc<SpillMeter>) -> TempSpace {
        TempSpace { shared: Arc::clone(&self.shared), meter: Some(Arc::clone(meter)) }
    }

    /// The quota of the files.
    pub fn quota(&self) -> &DiskQuota {
        &self.shared.quota
    }

    /// Whether so much of the quota is in use that files should be as small as possible.
    pub(super) fn is_scarce(&self) -> bool {
        let quota = self.quota();
        quota.used_bytes() > quota.limit_bytes() / SCARCE_DIVISOR
    }

    /// Makes new files in folders inside `root`. Existing files stay where they are.
    pub fn set_folder(&self, root: impl Into<PathBuf>) {
        *self.shared.root.lock() = TempRoot::Path(root.into());
    }

    /// Removes the folders that dead processes left.
    pub fn remove_orphans(&self) {
        if let TempRoot::Path(root) = &*self.shared.root.lock() {
            remove_orphans(root);
        }
    }

    /// The bytes of spilled state from which on it becomes a file.
    pub(crate) fn file_bytes_min(&self) -> u64 {
        self.shared.file_bytes_min.load(Ordering::Relaxed)
    }

    /// Changes the bytes of spilled state from which on it becomes a file. With 0, each flush is a file.
    pub fn set_file_bytes_min(&self, bytes: u64) {
        self.shared.file_bytes_min.store(bytes, Ordering::Relaxed);
    }

    /// The files that exist now.
    pub fn files(&self) -> Vec<SpillFileInfo> {
        self.shared.files.lock().values().cloned().collect()
    }

    /// A writer for `owner`. Bytes that are still in memory are counted in `broker`.
    pub fn writer(&self, owner: &'static str, broker: &Broker) -> SpillWriter {
        SpillWriter::new(self.clone(), owner, broker.reservation(owner))
    }

    /// A file with a path that `owner` fills with bytes from outside.
    pub fn named_file(&self, owner: &'static str) -> Result<NamedTempFile> {
        NamedTempFile::new(self, owner)
    }

    /// Column files that `owner` fills with blocks of `columns`. Their readers account for decoded values in `memory`.
    pub fn column_files<'c>(
        &self,
        owner: &'static str,
        columns: impl Iterator<Item = &'c ColumnDef>,
        memory: &Broker,
    ) -> Result<TempColumnFiles> {
        TempColumnFiles::new(self, owner, columns, memory)
    }

    /// The number of a new file.
    pub(super) fn next_number(&self, owner: &'static str) -> u64 {
        let number = self.shared.next_number.fetch_add(1, Ordering::Relaxed);
        self.shared.files.lock().insert(number, SpillFileInfo { owner, bytes: 0, is_on_disk: false });
        number
    }

    /// Notes the bytes of a file.
    pub(super) fn note(&self, number: u64, bytes: u64, is_on_disk: bool) {
        if let Some(info) = self.shared.files.lock().get_mut(&number) {
            (info.bytes, info.is_on_disk) = (bytes, is_on_disk);
        }
    }

    /// Counts a file that is complete.
    pub(super) fn count(&self, bytes: u64, is_on_disk: bool) {
        if let Some(meter) = &self.meter {
            meter.bytes.fetch_add(bytes, Ordering::Relaxed);
            meter.files.fetch_add(is_on_disk.into(), Ordering::Relaxed);
        }
    }

    /// Removes a file from the list and closes it.
    pub(super) fn forget(&self, number: u64) {
        self.shared.files.lock().remove(&number);
        self.shared.open.lock().retain(|(open, _)| *open != number);
    }

    /// The folder for a new file.
    pub(super) fn folder(&self) -> Result<Arc<TempFolder>> {
        let mut root = self.shared.root.lock();
        Ok(match &*root {
            TempRoot::Folder(folder) => Arc::clone(folder),
            TempRoot::Path(path) => {
                let folder = Arc::new(TempFolder::make(path)?);
                *root = TempRoot::Folder(Arc::clone(&folder));
                folder
            }
        })
    }

    /// Opens a file for reading, or returns it if it is open.
    pub(super) fn open_file(&self, number: u64, file: &FileOnDisk) -> Result<Arc<dyn DiskFile>> {
        let mut open = self.shared.open.lock();
        if let Some(at) = open.iter().position(|(other, _)| *other == number) {
            return Ok(Arc::clone(&open[at].1));
        }
        let opened: Arc<dyn DiskFile> = Arc::from(file.folder.disk.open(&file.path, OpenMode::Read)?);
        if open.len() == OPEN_FILES_MAX {
            open.pop_front();
        }
        open.push_back((number, Arc::clone(&opened)));
        Ok(opened)
    }
}

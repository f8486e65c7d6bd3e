//! A column has one file and one long mapping.
//!
//! The file appears with the first sealed block and stays as long as the column. A file descriptor is open only during
//! a call: a database of a thousand columns holds mappings and not descriptors. The mapping is longer than the file, so
//! that the file can grow without a call and without moving pointers. If the file outgrows the mapping, we make a
//! longer one, and the old one ends with its last reader.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rowmill_base::{Broker, Error, Reservation, Result};
use rowmill_io::{Disk, DiskFile, Mapping, OpenMode};

use crate::extent::{Extent, ExtentAllocator, whole_pages};

/// The file of one column of one table.
#[derive(Debug)]
pub struct ColumnFile {
    disk: Arc<dyn Disk>,
    memory: Broker,
    path: String,
    space: Mutex<Space>,
    mapping: RwLock<Option<Arc<Mapping>>>,
}

#[derive(Debug)]
struct Space {
    extents: ExtentAllocator,
    /// The account of the taken bytes, for a disk in memory.
    resident: Option<Reservation>,
}

impl Space {
    fn recount(&mut self) {
        if let Some(resident) = &mut self.resident {
            resident.recount(self.extents.taken_bytes());
        }
    }
}

impl ColumnFile {
    /// Makes the file at `path`, in which the extents `named` by the manifest are taken. Does not touch the disk.
    /// Readers and writers of the column account for their decoded data in `memory`.
    pub fn new(disk: Arc<dyn Disk>, memory: Broker, path: String, named: Vec<Extent>) -> Result<Self> {
        let extents = ExtentAllocator::new(named).map_err(|(a, b)| {
            Error::corrupt(format!(
                "the manifest names overlapping extents of {path}: {} bytes at {} and {} bytes at {}",
                a.len, a.offset, b.len, b.offset
            ))
        })?;
        // On a real disk, blocks are mapped and take no memory of their own.
        let resident = disk.is_memory().then(|| memory.reservation("the blocks of a database in memory"));
        let mut space = Space { extents, resident };
        space.recount();
        Ok(ColumnFile { disk, memory, path, space: Mutex::new(space), mapping: RwLock::new(None) })
    }

    /// The account for the memory of decoded or encoded data of this column.
    pub fn memory(&self) -> &Broker {
        &self.memory
    }

    /// The path within the database's directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Takes all parts of the file that no extent names, and returns them. The caller must free them once no process
    /// can be reading them.
    ///
    /// Must be called when the database is opened, before the first writer: at that time, every part without a name was
    /// left behind by an earlier process.
    pub fn take_unnamed(&self) -> Result<Vec<Extent>> {
        let Some(len) = self.disk.len(&self.path)? else { return Ok(Vec::new()) };
        let mut space = self.space.lock();
        let taken = space.extents.take_free(whole_pages(len));
        space.recount();
        Ok(taken)
    }

    /// Writes `bytes` into an extent of their own, padded with zeros to whole pages. Does not sync.
    pub fn write(&self, mut bytes: Vec<u8>) -> Result<Extent> {
        let extent = self.allocate(bytes.len() as u64)?;
        bytes.resize(extent.len as usize, 0);
        let written =
            self.disk.open(&self.path, OpenMode::Create).and_then(|file| file.write_all_at(&bytes, extent.offset));
        match written {
            Ok(()) => Ok(extent),
            Err(error) => {
                // The range may have some of the bytes. It is free again, and will be overwritten before any commit
                // names it. The error of the write is the one to report.
                let _ = self.release(&[extent]);
                Err(error)
            }
        }
    }

    fn allocate(&self, bytes: u64) -> Result<Extent> {
        let mut space = self.space.lock();
        if let Some(resident) = &mut space.resident {
            resident.grow(whole_pages(bytes.max(1)))?;
        }
        Ok(space.extents.allocate(bytes))
    }

    /// Opens the file, which contains everything written so far, so that the caller can sync it. If opening fails,
    /// nothing is lost yet. If the sync fails, written bytes may be lost.
    pub fn open(&self) -> Result<Box<dyn DiskFile>> {
        self.disk.open(&self.path, OpenMode::Write)
    }

    /// Frees `extents`: at once in the file system, and for the next writer.
    ///
    /// A file without extents becomes empty but keeps its name, because another process may have mapped it for later
    /// blocks.
    pub fn release(&self, extents: &[Extent]) -> Result<()> {
        // We hold the lock during the calls. Otherwise a writer could be given a range, or grow the file, before the
        // hole is punched, and would lose its bytes.
        let mut space = self.space.lock();
        extents.iter().for_each(|extent| space.extents.release(*extent));
        space.recount();
        let Some(len) = self.disk.len(&self.path)? else { return Ok(()) };
        // Bytes beyond the last taken extent are cut off below. Only holes before it must be punched.
        let end = space.extents.end();
        let mut holes = extents.iter().filter(|extent| extent.offset < end.min(len)).peekable();
        if len <= end && holes.peek().is_none() {
            return Ok(());
        }
        let file = self.disk.open(&self.path, OpenMode::Write)?;
        holes.try_for_each(|hole| file.punch(hole.offset, hole.len.min(len - hole.offset)))?;
        // We only shorten the file. If it is too short, it has lost bytes, and the reader that misses them must report
        // that.
        match len > end {
            true => file.set_len(end),
            false => Ok(()),
        }
    }

    /// Reads the bytes of `extent` with read calls. Returns an error where touching a mapping would raise a signal. The
    /// caller must account for the memory.
    pub fn read(&self, extent: Extent) -> Result<Vec<u8>> {
        let len = self.file_bytes()?;
        if extent.end() > len {
            let file = self.disk.describe(&self.path);
            let Extent { offset, len: bytes } = extent;
            let message = format!("{file}: {bytes} bytes at offset {offset} are missing: the file ends at {len}");
            return Err(Error::corrupt(message).in_file(file).at_offset(offset));
        }
        let mut bytes = vec![0; extent.len as usize];
        self.disk.open(&self.path, OpenMode::Read)?.read_exact_at(&mut bytes, extent.offset)?;
        Ok(bytes)
    }

    /// The length of the file in bytes, or 0 if it does not exist yet.
    pub fn file_bytes(&self) -> Result<u64> {
        Ok(self.disk.len(&self.path)?.unwrap_or(0))
    }

    /// Whether every part of `extent` is taken, so that no writer can be given it.
    pub fn is_taken(&self, extent: Extent) -> bool {
        self.space.lock().extents.is_taken(extent)
    }

    /// The mapping, which is at least long enough for `extent`.
    pub fn mapping(&self, extent: Extent) -> Result<Arc<Mapping>> {
        if let Some(mapping) = self.mapping.read().as_ref().filter(|mapping| mapping.capacity() >= extent.end()) {
            return Ok(Arc::clone(mapping));
        }
        let mut slot = self.mapping.write();
        // Another thread may have mapped the file while this one waited for the lock.
        if let Some(mapping) = slot.as_ref().filter(|mapping| mapping.capacity() >= extent.end()) {
            return Ok(Arc::clone(mapping));
        }
        // We map four times the needed length, so that a growing column is mapped again only a logarithmic number of
        // times.
        let mapping = self.disk.map(&self.path, extent.end() * 4)?;
        *slot = Some(Arc::clone(&mapping));
        Ok(mapping)
    }
}

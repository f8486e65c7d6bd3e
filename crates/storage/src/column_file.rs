//! A column is one file and one long mapping.
//!
//! The file appears with the first sealed block and stays as long as the column. Descriptors live only for a call: a database of a thousand columns
//! holds mappings, not descriptors. The mapping is longer than the file, so that growth is no call and moves no pointer;
//! one that is outgrown is followed by a longer one, and ends with its last reader.

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
    /// On a disk in memory: what is taken.
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
    /// The file at `path`, in which the extents `named` by the manifest are taken. Touches no disk. Whoever reads or writes
    /// the column asks `memory` for what it decodes.
    pub fn new(disk: Arc<dyn Disk>, memory: Broker, path: String, named: Vec<Extent>) -> Result<Self> {
        let extents = ExtentAllocator::new(named).map_err(|(a, b)| {
            Error::corrupt(format!(
                "the manifest names overlapping extents of {path}: {} bytes at {} and {} bytes at {}",
                a.len, a.offset, b.len, b.offset
            ))
        })?;
        let resident = disk.is_memory().then(|| memory.reservation("the blocks of a database in memory"));
        let mut space = Space { extents, resident };
        space.recount();
        Ok(ColumnFile { disk, memory, path, space: Mutex::new(space), mapping: RwLock::new(None) })
    }

    /// The account of memory for what is decoded or encoded of the column.
    pub fn memory(&self) -> &Broker {
        &self.memory
    }

    /// The path within the database's directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Takes every part of the file that no extent names, and returns the parts. The caller gives them back when nobody
    /// can be reading them.
    ///
    /// Called at opening, before the first writer, when whatever is not named was left by another process.
    pub fn take_unnamed(&self) -> Result<Vec<Extent>> {
        let Some(len) = self.disk.len(&self.path)? else { return Ok(Vec::new()) };
        let mut space = self.space.lock();
        let taken = space.extents.take_free(whole_pages(len));
        space.recount();
        Ok(taken)
    }

    /// Writes `bytes` into an extent of their own, padded with zeros to whole pages. Not yet synced.
    pub fn write(&self, mut bytes: Vec<u8>) -> Result<Extent> {
        let extent = self.allocate(bytes.len() as u64)?;
        bytes.resize(extent.len as usize, 0);
        let written =
            self.disk.open(&self.path, OpenMode::Create).and_then(|file| file.write_all_at(&bytes, extent.offset));
        match written {
            Ok(()) => Ok(extent),
            Err(error) => {
                // The range may hold a part of the bytes; it is free again and will be written before it is named.
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

    /// The file, with everything written so far in it, to be synced. Where it cannot be opened nothing is lost yet; where the sync
    /// fails it may be.
    pub fn open(&self) -> Result<Box<dyn DiskFile>> {
        self.disk.open(&self.path, OpenMode::Write)
    }

    /// Gives `extents` back: to the file system at once, and to the next writer.
    ///
    /// A file without extents is empty but keeps its name. Another process may have it mapped for what comes next.
    pub fn release(&self, extents: &[Extent]) -> Result<()> {
        // The lock is held over the calls: nobody may be handed the range, or grow the file, before it is gone.
        let mut space = self.space.lock();
        extents.iter().for_each(|extent| space.extents.release(*extent));
        space.recount();
        let Some(len) = self.disk.len(&self.path)? else { return Ok(()) };
        let end = space.extents.end();
        let mut holes = extents.iter().filter(|extent| extent.offset < end.min(len)).peekable();
        if len <= end && holes.peek().is_none() {
            return Ok(());
        }
        let file = self.disk.open(&self.path, OpenMode::Write)?;
        holes.try_for_each(|hole| file.punch(hole.offset, hole.len.min(len - hole.offset)))?;
        // Never longer: a file that is too short has lost bytes, and the reader that misses them says so.
        match len > end {
            true => file.set_len(end),
            false => Ok(()),
        }
    }

    /// The bytes of `extent`, read by calls: an error where touching a mapping would be a signal. The caller has counted them.
    pub fn read(&self, extent: Extent) -> Result<Vec<u8>> {
        let len = self.file_bytes()?;
        if extent.end() > len {
            let file = self.disk.describe(&self.path);
            let Extent { offset, len: bytes } = extent;
            let message = format!("{file}: {bytes} bytes at offset {offset} are named, but the file ends at {len}");
            return Err(Error::corrupt(message));
        }
        let mut bytes = vec![0; extent.len as usize];
        self.disk.open(&self.path, OpenMode::Read)?.read_exact_at(&mut bytes, extent.offset)?;
        Ok(bytes)
    }

    /// The length of the file, 0 where there is none yet.
    pub fn file_bytes(&self) -> Result<u64> {
        Ok(self.disk.len(&self.path)?.unwrap_or(0))
    }

    /// Whether no part of `extent` would be given to the next writer.
    pub fn is_taken(&self, extent: Extent) -> bool {
        self.space.lock().extents.is_taken(extent)
    }

    /// The mapping, long enough for `extent`.
    pub fn mapping(&self, extent: Extent) -> Result<Arc<Mapping>> {
        if let Some(mapping) = self.mapping.read().as_ref().filter(|mapping| mapping.capacity() >= extent.end()) {
            return Ok(Arc::clone(mapping));
        }
        let mut slot = self.mapping.write();
        if let Some(mapping) = slot.as_ref().filter(|mapping| mapping.capacity() >= extent.end()) {
            return Ok(Arc::clone(mapping));
        }
        // Four times what is needed now, so that a growing column is mapped anew a logarithmic number of times.
        let mapping = self.disk.map(&self.path, extent.end() * 4)?;
        *slot = Some(Arc::clone(&mapping));
        Ok(mapping)
    }
}

//! A column is one file and one long mapping.
//!
//! The file appears with the first sealed block. Descriptors live only for a call: a database of a thousand columns
//! holds mappings, not descriptors. The mapping is longer than the file, so that growth is no call and moves no pointer;
//! one that is outgrown is followed by a longer one, and ends with its last reader.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rowmill_base::{Error, Result};
use rowmill_io::{Disk, Mapping, OpenMode};

use crate::extent::{Extent, ExtentAllocator};

/// The file of one column of one table.
#[derive(Debug)]
pub struct ColumnFile {
    disk: Arc<dyn Disk>,
    path: String,
    space: Mutex<ExtentAllocator>,
    mapping: RwLock<Option<Arc<Mapping>>>,
}

impl ColumnFile {
    /// The file at `path`, in which the extents `named` by the manifest are taken. Touches no disk.
    pub fn new(disk: Arc<dyn Disk>, path: String, named: Vec<Extent>) -> Result<Self> {
        let space = ExtentAllocator::new(named).map_err(|(a, b)| {
            Error::corrupt(format!(
                "the manifest names overlapping extents of {path}: {} bytes at {} and {} bytes at {}",
                a.len, a.offset, b.len, b.offset
            ))
        })?;
        Ok(ColumnFile { disk, path, space: Mutex::new(space), mapping: RwLock::new(None) })
    }

    /// The path within the database's directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether nothing in it is taken.
    pub fn is_empty(&self) -> bool {
        self.space.lock().end() == 0
    }

    /// Gives everything that no extent names back to the file system.
    ///
    /// Called at opening, before the first writer, when whatever is not named was left by a killed process.
    pub fn reclaim(&self) -> Result<()> {
        let space = self.space.lock();
        let Some(len) = self.disk.len(&self.path)? else { return Ok(()) };
        if space.end() == 0 {
            return self.disk.remove(&self.path);
        }
        let mut gaps = space.gaps().peekable();
        if len <= space.end() && gaps.peek().is_none() {
            return Ok(());
        }
        let file = self.disk.open(&self.path, OpenMode::Write)?;
        for gap in gaps.filter(|gap| gap.offset < len) {
            file.punch(gap.offset, gap.len)?;
        }
        // Never longer: a file that is too short has lost bytes, and the reader that misses them says so.
        if len > space.end() {
            file.set_len(space.end())?;
        }
        Ok(())
    }

    /// Writes `bytes` into an extent of their own, padded with zeros to whole pages. Not yet synced.
    pub fn write(&self, mut bytes: Vec<u8>) -> Result<Extent> {
        let extent = self.space.lock().allocate(bytes.len() as u64);
        bytes.resize(extent.len as usize, 0);
        let written =
            self.disk.open(&self.path, OpenMode::Create).and_then(|file| file.write_all_at(&bytes, extent.offset));
        match written {
            Ok(()) => Ok(extent),
            Err(error) => {
                // The range may hold a part of the bytes; it is free again and will be written before it is named.
                let _ = self.release(extent);
                Err(error)
            }
        }
    }

    /// Makes everything written so far durable.
    pub fn sync(&self) -> Result<()> {
        self.disk.open(&self.path, OpenMode::Write)?.sync()
    }

    /// Gives `extent` back: to the file system at once, and to the next writer.
    pub fn release(&self, extent: Extent) -> Result<()> {
        // The lock is held over the calls: nobody may be handed the range, or grow the file, before it is gone.
        let mut space = self.space.lock();
        space.release(extent);
        let Some(len) = self.disk.len(&self.path)? else { return Ok(()) };
        if space.end() == 0 {
            // The next block makes a new file, and with it a new mapping.
            *self.mapping.write() = None;
            return self.disk.remove(&self.path);
        }
        let file = self.disk.open(&self.path, OpenMode::Write)?;
        if extent.end() > space.end() {
            if len > space.end() {
                file.set_len(space.end())?;
            }
            Ok(())
        } else {
            file.punch(extent.offset, extent.len.min(len.saturating_sub(extent.offset)))
        }
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

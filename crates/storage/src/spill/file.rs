//! One spill file. It has its bytes in memory while they are few, and on disk otherwise.

use std::sync::{Arc, OnceLock};

use rowmill_base::{DiskCharge, Error, Reservation, Result};

use super::folder::TempFolder;
use super::space::TempSpace;

/// A file that is written once, from its start to its end, and then read. It is removed with its last section.
#[derive(Debug)]
pub(super) struct SpillFile {
    pub(super) number: u64,
    space: TempSpace,
    contents: OnceLock<SpilledBytes>,
}

/// The bytes of a file that is complete.
#[derive(Debug)]
pub(super) enum SpilledBytes {
    Memory { bytes: Vec<u8>, _memory: Reservation },
    Disk(FileOnDisk),
}

/// A file on disk, and the space that is charged for it. Removed on drop.
#[derive(Debug)]
pub(super) struct FileOnDisk {
    pub(super) folder: Arc<TempFolder>,
    pub(super) path: String,
    pub(super) charge: Option<DiskCharge>,
}

impl SpillFile {
    pub(super) fn new(number: u64, space: TempSpace) -> SpillFile {
        SpillFile { number, space, contents: OnceLock::new() }
    }

    /// Makes the file readable. It must not be readable yet.
    pub(super) fn complete(&self, contents: SpilledBytes) {
        assert!(self.contents.set(contents).is_ok(), "a spill file is completed once");
    }

    /// Fills `into` with the bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.contents.get() {
            Some(SpilledBytes::Memory { bytes, .. }) => {
                let range = offset as usize..offset as usize + into.len();
                let found = bytes.get(range).ok_or_else(|| Error::internal("a read past the end of spilled bytes"))?;
                into.copy_from_slice(found);
                Ok(())
            }
            Some(SpilledBytes::Disk(file)) => self.space.open_file(self.number, file)?.read_exact_at(into, offset),
            None => Err(Error::internal("a spill file is read before it is complete")),
        }
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.space.forget(self.number);
    }
}

impl Drop for FileOnDisk {
    fn drop(&mut self) {
        let Some(charge) = self.charge.take() else { return };
        // The space is free only when the file is gone. After a failed removal, the charge must stay.
        match self.folder.disk.remove(&self.path) {
            Ok(()) => drop(charge),
            Err(_) => charge.keep(),
        }
    }
}

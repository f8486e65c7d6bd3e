//! Memory whose bytes are in a file, so that the kernel can write them out and take their pages back.
//!
//! The mapping is longer than the file, like a [`Mapping`](crate::Mapping), and the file grows in place. Its space is
//! taken from the file system before the bytes are used, because a write to a page without space raises SIGBUS. A disk
//! that cannot read a page back raises SIGBUS too, as with every mapping. A page that could not be written is noticed
//! by [`FileMemory::sync`].

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rowmill_base::{Error, Result};

use crate::mapping::{Region, allocate};

/// The address space of one file. It costs nothing until it is used. Miri takes memory for all of it.
pub(crate) const CAPACITY: usize = if cfg!(miri) { 1 << 20 } else { 1 << 37 };

/// A new file as memory that can be read and written.
pub struct FileMemory {
    region: Region,
    /// `None` for a file of a memory disk.
    file: Option<(File, PathBuf)>,
    guard: Option<Arc<dyn FileMemoryGuard>>,
    /// The first failure of a sync. The system reports a lost page only once.
    lost: OnceLock<Error>,
}

/// Runs before the calls of a file memory. A disk that injects faults uses it.
pub(crate) trait FileMemoryGuard: Send + Sync + fmt::Debug {
    fn before_grow(&self) -> Result<()>;
    fn before_sync(&self) -> Result<()>;
}

impl FileMemory {
    /// Maps an empty file of the file system. No other code may open it.
    pub(crate) fn of_file(file: File, path: PathBuf) -> Result<FileMemory> {
        let region = Region::of_writable_file(&file, CAPACITY)
            .map_err(|e| Error::io(format_args!("map {} for writing", path.display()), &e))?;
        Ok(FileMemory { region, file: Some((file, path)), guard: None, lost: OnceLock::new() })
    }

    /// Memory that belongs to no file.
    pub(crate) fn anonymous(name: &str) -> Result<FileMemory> {
        let region =
            Region::anonymous(CAPACITY).map_err(|e| Error::io(format_args!("reserve address space for {name}"), &e))?;
        Ok(FileMemory { region, file: None, guard: None, lost: OnceLock::new() })
    }

    /// The same memory, which calls `guard` before each of its calls.
    pub(crate) fn guarded(self, guard: Arc<dyn FileMemoryGuard>) -> FileMemory {
        FileMemory { guard: Some(guard), ..self }
    }

    /// Makes the file `bytes` bytes long and takes the space for them. It must not become shorter.
    pub(crate) fn grow_to(&self, bytes: usize) -> Result<()> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.before_grow())?;
        assert!(bytes <= CAPACITY, "a file memory must not outgrow its address space");
        let Some((file, path)) = &self.file else { return Ok(()) };
        allocate(file, bytes as u64).map_err(|e| Error::io(format_args!("take space for {}", path.display()), &e))
    }

    /// Stores all bytes. Returns an error if any page could not be written since the file was made.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.guard.as_ref().map_or(Ok(()), |guard| guard.before_sync()).and_then(|()| match &self.file {
            Some((file, path)) => file.sync_data().map_err(|e| Error::io(format_args!("sync {}", path.display()), &e)),
            None => Ok(()),
        });
        if let Err(error) = synced {
            // A later failure adds nothing: the bytes are lost.
            let _ = self.lost.set(error);
        }
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }
}

impl fmt::Debug for FileMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.file.as_ref().map(|(_, path)| path);
        f.debug_struct("FileMemory").field("file", &path).finish_non_exhaustive()
    }
}

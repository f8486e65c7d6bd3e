//! VACUUM: gives space back to the file system. This covers free pages of the base, files of the log that are kept for
//! reuse, and extents and files that no reader needs.
//!
//! Extents of column files are given back when their last reader is gone, and blocks with many deleted rows are
//! rewritten in the background. So VACUUM has little to do for those. The base keeps its free pages, so we copy it
//! without them. Commits go on during the copy. Checkpoints wait, because the base must not change while it is copied.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rowmill_base::{Cancel, Error, Result};

use crate::checkpoint;
use crate::engine::Core;

/// The space before and after a vacuum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Bytes that the directory used on disk before. 0 for a database in memory.
    pub bytes_before: u64,
    /// Bytes that the directory uses on disk afterwards.
    pub bytes_after: u64,
    /// The part of `bytes_after` that is kept for readers of older states. It is given back after them.
    pub bytes_held: u64,
}

/// Size of a block in the number of blocks that the system reports for a file.
const BLOCK_BYTES: u64 = 512;

impl Core {
    /// Gives space back. Readers keep the states that they read, see [`Vacuumed::bytes_held`].
    ///
    /// It needs the space of a second base for a while. An error, for example `DiskFull`, leaves everything as it was,
    /// or makes the database refuse further writes until it is opened again.
    pub fn vacuum(&self, cancel: &Cancel) -> Result<Vacuumed> {
        self.check_writable()?;
        let bytes_before = self.bytes_on_disk()?;
        {
            let mut stored = self.stored().hold();
            checkpoint::checkpoint_of(self, &mut stored)?;
            if self.base().compact(cancel)? {
                // Reads that seats keep for their next look-up belong to the old file and would keep its space in use.
                let current = self.latest().keyed.store().current_arc();
                current.let_go();
            }
        }
        if let Some(log) = self.journal().log() {
            log.trim()?;
        }
        self.try_reap()?;
        let bytes_held = self.freed().waiting().iter().map(|(_, extent)| extent.len).sum::<u64>();
        let bytes_held = bytes_held + self.base().space()?.older_bytes;
        Ok(Vacuumed { bytes_before, bytes_after: self.bytes_on_disk()?, bytes_held })
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        self.path().map_or(Ok(0), bytes_below)
    }
}

/// Disk space of the files below a folder. Files that disappear during the count may be included or not.
fn bytes_below(folder: &Path) -> Result<u64> {
    let gone_is_fine = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(0),
        _ => Err(Error::io(format_args!("look through {}", folder.display()), &error)),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return gone_is_fine(error),
    };
    let mut bytes = 0;
    for entry in entries {
        bytes += match entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) {
            Ok((path, metadata)) if metadata.is_dir() => bytes_below(&path)?,
            Ok((_, metadata)) => metadata.blocks() * BLOCK_BYTES,
            Err(error) => gone_is_fine(error)?,
        };
    }
    Ok(bytes)
}

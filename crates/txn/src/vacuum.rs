//! VACUUM: gives space back to the file system. This covers free pages of the base, files of the log that are kept for
//! reuse, and extents and files that no reader needs.
//!
//! Extents of column files are given back when their last reader is gone, and blocks with many deleted rows are
//! rewritten in the background. So VACUUM has little to do for those. The base keeps its free pages, so we copy it
//! without them. Commits go on during the copy. Checkpoints wait, because the base must not change while it is copied.

use rowmill_base::{Cancel, Result};

use crate::checkpoint;
use crate::disk_use::file_bytes_below;
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
        self.path().map_or(Ok(0), file_bytes_below)
    }
}

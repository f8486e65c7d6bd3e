//! Space given back to the file system: what is free in the base, the files of the log that are kept to be used again, and whatever of
//! column files nobody reads any more.
//!
//! Extents of column files are given back when their last reader has gone, and blocks with many deleted rows are rewritten in the
//! background, so of those there is little to do. The base keeps its free pages, and is made anew without them. Commits go on
//! meanwhile; checkpoints wait, since the base must not change while it is copied.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rowmill_base::{Cancel, Error, Result};

use crate::checkpoint;
use crate::engine::Core;

/// What a vacuum has given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// What the directory took on disk before. 0 where there is none.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
    /// What of that is kept for those who read an older state, and given back behind them.
    pub bytes_held: u64,
}

/// Bytes of a block of a file, as the system counts them.
const BLOCK_BYTES: u64 = 512;

impl Core {
    /// Gives space back. Others go on with what they read: [`Vacuumed::bytes_held`].
    ///
    /// It takes the space of a second base for a while. An error leaves everything as it was (`DiskFull` above all), or refuses
    /// further writes until the database is opened again.
    pub fn vacuum(&self, cancel: &Cancel) -> Result<Vacuumed> {
        self.check_writable()?;
        let bytes_before = self.bytes_on_disk()?;
        {
            let mut stored = self.stored().hold();
            checkpoint::checkpoint_of(self, &mut stored)?;
            if self.base().compact(cancel)? {
                // Reads that are kept for the next look-up are of the file before.
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

/// What the files below a folder take. Those that go away meanwhile count or not.
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

//! What a database takes on disk, and what its rows would take by themselves: whether a directory grows beyond its data.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use rowmill_base::{Error, Result};

use super::client::Engine;
use super::table::TABLES;
use crate::process::disk_bytes;

/// Bytes on disk of a database: a folder, or SQLite's file with its log.
pub fn database_bytes(path: &Path) -> Result<u64> {
    if path.is_dir() {
        return disk_bytes(path);
    }
    let mut bytes = 0;
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        bytes += match fs::metadata(&name) {
            Ok(metadata) => metadata.blocks() * 512,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(Error::io(Path::new(&name).display(), &error)),
        };
    }
    Ok(bytes)
}

/// Bytes of the rows of TPC-C's tables by the types of their columns, texts at their longest, without keys of indexes.
pub fn row_bytes<E: Engine>(engine: &E) -> Result<u64> {
    let mut bytes = 0;
    for table in TABLES {
        bytes += engine.number(&format!("SELECT COUNT(*) FROM {}", table.name))? * table.row_bytes();
    }
    Ok(bytes as u64)
}

/// Sizes around a run.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes on disk before.
    pub before: u64,
    /// When the last client has ended.
    pub after: u64,
    /// After a checkpoint behind that.
    pub settled: u64,
    /// Bytes of the rows before.
    pub rows_before: u64,
    /// Bytes of the rows after.
    pub rows_after: u64,
}

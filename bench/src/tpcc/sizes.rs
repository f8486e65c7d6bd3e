//! The size of a database on disk, and the size of its rows alone. They show whether a directory grows more than its
//! data.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use rowmill_base::{Error, Result};

use super::client::Engine;
use super::table::TABLES;
use crate::process::disk_bytes;

/// Returns the bytes on disk of a database: of a folder, or of SQLite's file with its log.
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

/// Returns the bytes of the rows of TPC-C's tables, by the types of their columns, with texts of maximum length and
/// without the keys of indexes.
pub fn row_bytes<E: Engine>(engine: &E) -> Result<u64> {
    let mut bytes = 0;
    for table in TABLES {
        bytes += engine.number(&format!("SELECT COUNT(*) FROM {}", table.name))? * table.row_bytes();
    }
    Ok(bytes as u64)
}

/// Sizes before and after a run.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes on disk before the run.
    pub before: u64,
    /// Bytes on disk after the last client has ended.
    pub after: u64,
    /// Bytes on disk after the rest that follows the run.
    pub rested: u64,
    /// Bytes on disk after a checkpoint that follows the rest.
    pub settled: u64,
    /// Bytes of the rows before the run.
    pub rows_before: u64,
    /// Bytes of the rows after the run.
    pub rows_after: u64,
}

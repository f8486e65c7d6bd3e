//! What each byte of the database's directory is used for.
//!
//! We walk through the directory, sort its files by their names, and ask the base and the log how much of their files
//! they need. The parts have all bytes that the system counts for the directory, as `du` does. Commits that happen
//! during the walk may be counted in part.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rowmill_base::{Error, Result};

use crate::column_files::TABLES;
use crate::engine::{Core, TEMP};
use crate::log::{LogFiles, SEGMENT_FILE_BYTES_MORE};

/// Size of a block in the number of blocks that the system reports for a file.
const BLOCK_BYTES: u64 = 512;

/// The folder of the log.
const LOG: &str = "log";
/// The beginning of the names of all kinds of bases.
const BASE: &str = "base";

/// A part of a directory's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPart {
    /// The part, for example `base, free`.
    pub part: &'static str,
    /// What the bytes are for, and when they are given back.
    pub about: &'static str,
    /// The bytes on disk.
    pub bytes: u64,
}

/// The bytes of the files below a directory, by their names.
#[derive(Debug, Default)]
struct FileBytes {
    base: u64,
    log: u64,
    tables: u64,
    temporary: u64,
    folders: u64,
    other: u64,
}

impl Core {
    /// The parts of the directory's bytes on disk, including those without any bytes. Empty for a database in memory.
    pub fn disk_use(&self) -> Result<Vec<DiskPart>> {
        let Some(path) = self.path() else { return Ok(Vec::new()) };
        let base = self.base().space()?;
        let LogFiles { spare, segment_bytes } = self.journal().log().map_or_else(LogFiles::default, |log| log.files());
        let waiting = self.freed().waiting().iter().map(|(_, extent)| extent.len).sum::<u64>();
        let files = FileBytes::below(path)?;
        // Files change while we look at them. A part must not be greater than the files that it is a part of.
        let mut base_rest = files.base;
        // Free pages may be holes in the file, so they have the rest. A base of another kind does not tell its
        // size.
        let base_used = match base.file_bytes {
            0 => u64::MAX,
            bytes => bytes.saturating_sub(base.free_bytes),
        };
        let [base_older, base_used, base_held] =
            [base.older_bytes, base_used, base.held_bytes].map(|bytes| take(&mut base_rest, bytes));
        let mut log_rest = files.log;
        let log_spare = take(&mut log_rest, spare as u64 * (segment_bytes + SEGMENT_FILE_BYTES_MORE));
        let mut tables_rest = files.tables;
        let tables_waiting = take(&mut tables_rest, waiting);
        let part = |part, bytes, about| DiskPart { part, about, bytes };
        Ok(vec![
            part(
                "base, in use",
                base_used,
                "definitions, rows of keyed tables, indexes and recent rows of other tables",
            ),
            part("base, free", base_rest, "pages for the next checkpoint; given back in quiet times and by VACUUM"),
            part("base, held", base_held, "replaced pages that a reader of an older state needs"),
            part("base, older files", base_older, "files from before a VACUUM that a reader needs"),
            part("log, in use", log_rest, "commits that the base does not have; given back by a checkpoint"),
            part("log, spare", log_spare, "files for the next commits; given back in quiet times and by VACUUM"),
            part("tables, in use", tables_rest, "blocks of tables without a primary key"),
            part("tables, held", tables_waiting, "removed blocks that a reader or the base needs"),
            part("temporary", files.temporary, "rows that memory has no room for, until their statement ends"),
            part("folders", files.folders, "the names of the files"),
            part("other", files.other, "the lock of the directory, and files that are not the database's"),
        ])
    }
}

/// Takes `wanted` bytes off `rest`, or all of them if there are fewer.
fn take(rest: &mut u64, wanted: u64) -> u64 {
    let taken = wanted.min(*rest);
    *rest -= taken;
    taken
}

impl FileBytes {
    fn below(folder: &Path) -> Result<FileBytes> {
        let mut bytes = FileBytes::default();
        let failed = |error: &io::Error| Error::io(format_args!("look through {}", folder.display()), error);
        bytes.folders += blocks_of(&fs::metadata(folder).map_err(|error| failed(&error))?);
        walk(folder, &mut |path, metadata| {
            let below = path.strip_prefix(folder).expect("a path below the folder");
            let first = below.iter().next().map(|name| name.to_string_lossy()).unwrap_or_default();
            let part = match &*first {
                _ if metadata.is_dir() => &mut bytes.folders,
                LOG => &mut bytes.log,
                TABLES => &mut bytes.tables,
                TEMP => &mut bytes.temporary,
                name if name.starts_with(BASE) => &mut bytes.base,
                _ => &mut bytes.other,
            };
            *part += blocks_of(metadata);
        })?;
        Ok(bytes)
    }
}

/// Disk space of the files below a folder.
pub(crate) fn file_bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    walk(folder, &mut |_, metadata| bytes += if metadata.is_dir() { 0 } else { blocks_of(metadata) })?;
    Ok(bytes)
}

fn blocks_of(metadata: &Metadata) -> u64 {
    metadata.blocks() * BLOCK_BYTES
}

/// Passes each file and folder below `folder` to `each`. Files that disappear during the walk may be included or not.
fn walk(folder: &Path, each: &mut dyn FnMut(&Path, &Metadata)) -> Result<()> {
    let gone_is_fine = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(Error::io(format_args!("look through {}", folder.display()), &error)),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return gone_is_fine(error),
    };
    for entry in entries {
        match entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) {
            Ok((path, metadata)) => {
                each(&path, &metadata);
                if metadata.is_dir() {
                    walk(&path, each)?;
                }
            }
            Err(error) => gone_is_fine(error)?,
        }
    }
    Ok(())
}

//! Simulates power cuts: builds the disk that a power cut might leave from a record of calls and a choice of
//! survivors.
//!
//! The rules are the ones that [`disk.rs`](crate::Disk) assumes of a disk. A change of a file's bytes or length is
//! certain once the file was synced after it. A name that was made or removed is certain once its folder was synced
//! after it. Every other change, alone or in any combination, may or may not have happened, and a write may have
//! happened in part. A test should record a run, cut the record after every call, and open the disk that
//! [`crash_state`] makes for many choices.

use std::collections::HashMap;

use rowmill_base::Result;

use crate::{Disk, MemoryDisk, OpenMode};

/// A call that changed a disk or made changes certain. The engine never gives a path to a second file, so a path
/// identifies a file here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DiskChange {
    CreateFile {
        path: String,
    },
    /// A single folder. Its parent must exist.
    CreateDir {
        path: String,
    },
    Remove {
        path: String,
    },
    RemoveDir {
        path: String,
    },
    Write {
        path: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    SetLen {
        path: String,
        len: u64,
    },
    Punch {
        path: String,
        offset: u64,
        len: u64,
    },
    Sync {
        path: String,
    },
    SyncDir {
        path: String,
    },
}

/// The fate of a change that was not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It happened.
    Kept,
    /// It did not happen.
    Lost,
    /// Only the bytes from `start` to `end` of a write happened. Other changes count as kept.
    Torn {
        /// The first byte that was written.
        start: usize,
        /// The byte after the last one that was written.
        end: usize,
    },
}

/// Builds the disk after a power cut that follows the last of `records`. Asks `fate` once for each change that is not
/// certain, in order. A change inside a file or folder that does not exist at that point is lost too.
pub fn crash_state(records: &[DiskChange], mut fate: impl FnMut(&DiskChange) -> Fate) -> Result<MemoryDisk> {
    let disk = MemoryDisk::new();
    for (record, certain) in records.iter().zip(certain_changes(records)) {
        // A certain change has no choice. For all others the test decides.
        let fate = if certain { Fate::Kept } else { fate(record) };
        if fate != Fate::Lost {
            apply(&disk, record, fate)?;
        }
    }
    Ok(disk)
}

/// Marks the records that a power cut after the last one cannot undo. Syncs themselves count as certain.
fn certain_changes(records: &[DiskChange]) -> Vec<bool> {
    // Only the last sync of each file and folder matters: it makes all earlier changes certain.
    let (mut files, mut dirs) = (HashMap::new(), HashMap::new());
    for (position, record) in records.iter().enumerate() {
        match record {
            DiskChange::Sync { path } => files.insert(path.as_str(), position),
            DiskChange::SyncDir { path } => dirs.insert(path.as_str(), position),
            _ => None,
        };
    }
    let synced_after = |position: usize, last: Option<&usize>| last.is_some_and(|last| *last > position);
    let certain = |(position, record): (usize, &DiskChange)| match record {
        DiskChange::CreateFile { path }
        | DiskChange::CreateDir { path }
        | DiskChange::Remove { path }
        | DiskChange::RemoveDir { path } => synced_after(position, dirs.get(parent(path))),
        DiskChange::Write { path, .. } | DiskChange::SetLen { path, .. } | DiskChange::Punch { path, .. } => {
            synced_after(position, files.get(path.as_str()))
        }
        DiskChange::Sync { .. } | DiskChange::SyncDir { .. } => true,
    };
    records.iter().enumerate().map(certain).collect()
}

fn apply(disk: &MemoryDisk, record: &DiskChange, fate: Fate) -> Result<()> {
    match record {
        // If the parent is lost, so is everything that was made in it.
        DiskChange::CreateDir { path } if is_dir(disk, parent(path))? => disk.create_dir(path),
        DiskChange::CreateFile { path } if is_dir(disk, parent(path))? => disk.open(path, OpenMode::Create).map(drop),
        DiskChange::Remove { path } => disk.remove(path),
        DiskChange::RemoveDir { path } => disk.remove_dir(path),
        DiskChange::Write { path, offset, bytes } if exists(disk, path)? => {
            let (start, end) = match fate {
                // The bytes outside of the torn range keep what the file had before: zeros, or older bytes.
                Fate::Torn { start, end } => (start.min(bytes.len()), end.min(bytes.len())),
                Fate::Kept | Fate::Lost => (0, bytes.len()),
            };
            let part = bytes.get(start..end).unwrap_or_default();
            disk.open(path, OpenMode::Write)?.write_all_at(part, offset + start as u64)
        }
        DiskChange::SetLen { path, len } if exists(disk, path)? => disk.open(path, OpenMode::Write)?.set_len(*len),
        DiskChange::Punch { path, offset, len } if exists(disk, path)? => {
            disk.open(path, OpenMode::Write)?.punch(*offset, *len)
        }
        _ => Ok(()),
    }
}

fn exists(disk: &MemoryDisk, path: &str) -> Result<bool> {
    Ok(disk.len(path)?.is_some())
}

pub(crate) fn is_dir(disk: &dyn Disk, dir: &str) -> Result<bool> {
    let name = dir.rsplit('/').next().unwrap_or_default();
    Ok(dir.is_empty() || disk.list(parent(dir))?.iter().any(|listed| listed == name))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Returns `path` and the folders above it except the root, nearest first.
pub(crate) fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |dir| Some(parent(dir))).take_while(|dir| !dir.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use crate::FaultyDisk;

    fn recorded() -> Vec<DiskChange> {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        disk.plan().record();
        disk.create_dir("d").unwrap();
        disk.sync_dir("").unwrap();
        let file = disk.open("d/f", OpenMode::Create).unwrap();
        disk.sync_dir("d").unwrap();
        file.write_all_at(b"certain", 0).unwrap();
        file.sync().unwrap();
        file.write_all_at(b"maybe", 7).unwrap();
        disk.open("d/g", OpenMode::Create).unwrap().write_all_at(b"x", 0).unwrap();
        disk.plan().records()
    }

    fn text(disk: &MemoryDisk, path: &str) -> Option<Vec<u8>> {
        let mut buf = vec![0; disk.len(path).unwrap()? as usize];
        disk.open(path, OpenMode::Read).unwrap().read_exact_at(&mut buf, 0).unwrap();
        Some(buf)
    }

    #[test]
    fn synced_changes_survive_whatever_happens_to_the_others() {
        let records = recorded();
        let lost = crash_state(&records, |_| Fate::Lost).unwrap();
        assert_eq!(text(&lost, "d/f").unwrap(), b"certain");
        assert_eq!(text(&lost, "d/g"), None);
        let kept = crash_state(&records, |_| Fate::Kept).unwrap();
        assert_eq!(text(&kept, "d/f").unwrap(), b"certainmaybe");
        assert_eq!(text(&kept, "d/g").unwrap(), b"x");
        let torn = crash_state(&records, |_| Fate::Torn { start: 2, end: 4 }).unwrap();
        assert_eq!(text(&torn, "d/f").unwrap(), b"certain\0\0yb");
    }

    #[test]
    fn a_folder_is_certain_if_every_name_on_its_path_is() {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        disk.plan().record();
        disk.create_dir("a").unwrap();
        disk.sync_dir("").unwrap();
        disk.create_dir("a/b").unwrap();
        disk.create_dir("a/b").unwrap();
        disk.sync_dir("a").unwrap();
        disk.create_dir("x/y").unwrap();
        disk.sync_dir("x").unwrap();
        let records = disk.plan().records();
        assert_eq!(records.len(), 7, "existing folders must not be recorded again");
        let lost = crash_state(&records, |_| Fate::Lost).unwrap();
        assert_eq!((lost.list("").unwrap(), lost.list("a").unwrap()), (vec!["a".to_owned()], vec!["b".to_owned()]));
    }

    #[test]
    fn files_are_lost_with_their_folder() {
        let records = &recorded()[..1];
        let asked = std::cell::Cell::new(0);
        let lost = crash_state(records, |_| {
            asked.set(asked.get() + 1);
            Fate::Lost
        });
        assert_eq!(lost.unwrap().list("").unwrap(), [""; 0]);
        assert_eq!(asked.get(), 1);
    }
}

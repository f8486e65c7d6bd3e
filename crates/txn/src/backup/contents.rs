//! The list of a backup's files with their lengths and checksums. A checksum protects the list itself.
//!
//! ```text
//! "RowmilBk" | version (u32) | commit (u64) | when it was begun, in ms of UNIX time (u64) | files (u32), each:
//!     path (text) | length (u64) | pieces (u32), each the CRC-32 (u32) of 1 MiB of it, the last piece shorter
//! CRC-32 of all before (u32)
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowmill_base::{Cancel, CommitId, Error, Result};
use rowmill_io::{Disk, DiskFile, OpenMode};

use super::BackedUp;
use crate::codec::{RecordReader, Writer};

/// The name of the list. A folder with such a file is a backup and must not be written.
pub(crate) const NAME: &str = "BACKUP";

const MARK: &[u8; 8] = b"RowmilBk";
const VERSION: u32 = 1;

/// Bytes of a file covered by one checksum. Damage is reported to a megabyte, and the checksums of a terabyte take 4
/// MB.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// We sync a file after this many bytes, so that the last sync need not write the whole file.
const UNSYNCED_BYTES_MAX: u64 = 32 << 20;

/// The list of a backup's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    commit: CommitId,
    made_ms: u64,
    pub(super) files: Vec<FileSums>,
}

/// A file with its checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSums {
    pub(super) path: String,
    pub(super) len: u64,
    pub(super) sums: Vec<u32>,
}

impl Contents {
    pub(super) fn new(commit: CommitId, made: SystemTime) -> Contents {
        let made_ms = made.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Contents { commit, made_ms, files: Vec::new() }
    }

    pub(super) fn push(&mut self, file: FileSums) {
        self.files.push(file);
    }

    pub(super) fn backed_up(&self) -> BackedUp {
        BackedUp {
            commit: self.commit,
            made: UNIX_EPOCH + Duration::from_millis(self.made_ms),
            files: self.files.len() as u64,
            bytes: self.files.iter().map(|file| file.len).sum(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::behind(MARK.to_vec());
        out.u32(VERSION).u64(self.commit.0).u64(self.made_ms).u32(self.files.len() as u32);
        for file in &self.files {
            out.text(&file.path).u64(file.len).u32(file.sums.len() as u32);
            for sum in &file.sums {
                out.u32(*sum);
            }
        }
        let mut bytes = out.finish();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Writes the list and syncs it. The caller must sync its name.
    pub(super) fn write(&self, disk: &dyn Disk) -> Result<()> {
        let file = disk.open(NAME, OpenMode::Create)?;
        file.write_all_at(&self.encode(), 0)?;
        file.sync()
    }

    /// Reads the list of a folder. Returns `None` if there is none.
    pub(super) fn read(disk: &dyn Disk) -> Result<Option<Contents>> {
        let Some(len) = disk.len(NAME)? else { return Ok(None) };
        let mut bytes = vec![0; len as usize];
        disk.open(NAME, OpenMode::Read)?.read_exact_at(&mut bytes, 0)?;
        let decoded = Contents::decode(&bytes);
        decoded.map(Some).map_err(|error| error.context(disk.describe(NAME)))
    }

    fn decode(bytes: &[u8]) -> Result<Contents> {
        let damaged = || Error::corrupt("the list of the backup's files is damaged").hint("use another backup");
        let (head, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        let listed = head.strip_prefix(MARK).ok_or_else(damaged)?;
        let mut input = RecordReader::new(listed, "the list of the backup's files");
        let version = input.u32()?;
        // We look at the version before the checksum, because a newer version may keep its checksum elsewhere.
        if version > VERSION && crc32fast::hash(head) == u32::from_le_bytes(*sum) {
            return Err(Error::newer_format(format!("version {version} of a backup, and we read up to {VERSION}")));
        }
        if version != VERSION || crc32fast::hash(head) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        let (commit, made_ms) = (CommitId(input.u64()?), input.u64()?);
        let count = input.count(16)?;
        let mut files = Vec::with_capacity(count);
        for _ in 0..count {
            let (path, len) = (input.text()?, input.u64()?);
            let count = input.count(4)?;
            let sums = (0..count).map(|_| input.u32()).collect::<Result<Vec<_>>>()?;
            let is_ours = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
            // A damaged or forged path must not lead out of the backup's folder.
            if !is_ours || sums.len() as u64 != len.div_ceil(PIECE_BYTES as u64) {
                return Err(damaged());
            }
            files.push(FileSums { path, len, sums });
        }
        input.end()?;
        Ok(Contents { commit, made_ms, files })
    }
}

/// A file that is written from start to end while its checksums are computed.
pub(super) struct Writing {
    file: Box<dyn DiskFile>,
    sums: FileSums,
    /// Checksum of the current piece, which is not full yet.
    hasher: crc32fast::Hasher,
    synced: u64,
}

impl Writing {
    pub(super) fn new(path: String, file: Box<dyn DiskFile>) -> Writing {
        let sums = FileSums { path, len: 0, sums: Vec::new() };
        Writing { file, sums, hasher: crc32fast::Hasher::new(), synced: 0 }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        for bytes in bytes.chunks(PIECE_BYTES) {
            self.file.write_all_at(bytes, self.sums.len)?;
            self.note(bytes);
            if self.sums.len - self.synced >= UNSYNCED_BYTES_MAX {
                self.file.sync()?;
                self.synced = self.sums.len;
            }
        }
        Ok(())
    }

    fn note(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - (self.sums.len % PIECE_BYTES as u64) as usize;
            let (here, behind) = bytes.split_at(bytes.len().min(room));
            self.hasher.update(here);
            self.sums.len += here.len() as u64;
            if self.sums.len.is_multiple_of(PIECE_BYTES as u64) {
                self.sums.sums.push(std::mem::take(&mut self.hasher).finalize());
            }
            bytes = behind;
        }
    }

    /// Syncs the file and returns its checksums.
    pub(super) fn finish(mut self) -> Result<FileSums> {
        self.file.sync()?;
        if !self.sums.len.is_multiple_of(PIECE_BYTES as u64) {
            self.sums.sums.push(self.hasher.finalize());
        }
        Ok(self.sums)
    }
}

/// Reads a file piece by piece.
pub(super) fn pieces(
    file: &dyn DiskFile,
    cancel: &Cancel,
    mut each: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<u64> {
    let len = file.len()?;
    let mut piece = vec![0; PIECE_BYTES.min(len as usize)];
    for at in (0..len).step_by(PIECE_BYTES) {
        cancel.check()?;
        let piece = &mut piece[..PIECE_BYTES.min((len - at) as usize)];
        file.read_exact_at(piece, at)?;
        each(at, piece)?;
    }
    Ok(len)
}

/// Computes the checksums of an existing file.
pub(super) fn sums_of(disk: &dyn Disk, path: &str, cancel: &Cancel) -> Result<FileSums> {
    let mut sums = FileSums { path: path.to_owned(), len: 0, sums: Vec::new() };
    let file = disk.open(path, OpenMode::Read)?;
    sums.len = pieces(&*file, cancel, |_, piece| {
        sums.sums.push(crc32fast::hash(piece));
        Ok(())
    })?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        let file = |path: &str, len: u64| FileSums {
            path: path.to_owned(),
            len,
            sums: vec![7; len.div_ceil(PIECE_BYTES as u64) as usize],
        };
        let files = vec![file("base.tree", 8_192), file("tables/1/0.col", 3 << 20), file("tables/2/0.col", 0)];
        Contents { commit: CommitId(77), made_ms: 1_700_000_000_123, files }
    }

    #[test]
    fn a_list_round_trips_and_any_changed_byte_is_an_error() {
        let bytes = contents().encode();
        assert_eq!(Contents::decode(&bytes).expect("a list"), contents());
        for at in 0..bytes.len() {
            assert!(Contents::decode(&bytes[..at]).is_err(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Contents::decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for path in ["../x", "/etc/passwd", "a//b", "", "a/./b"] {
            let mut contents = contents();
            contents.files[0].path = path.to_owned();
            assert!(Contents::decode(&contents.encode()).is_err(), "{path}");
        }
    }

    #[test]
    fn checksums_do_not_depend_on_how_the_bytes_were_written() {
        let disk = rowmill_io::MemoryDisk::new();
        let bytes: Vec<u8> = (0..PIECE_BYTES * 2 + 5_000).map(|at| (at % 251) as u8).collect();
        let file = disk.open("a", OpenMode::Create).expect("made");
        let mut writing = Writing::new("a".into(), file);
        let mut left = &bytes[..];
        for len in [1, 4_096, 700_000, 1_000_000].into_iter().cycle() {
            let (here, behind) = left.split_at(left.len().min(len));
            writing.write(here).expect("written");
            left = behind;
            if left.is_empty() {
                break;
            }
        }
        let written = writing.finish().expect("synced");
        assert_eq!(written.len, bytes.len() as u64);
        assert_eq!(written, sums_of(&disk, "a", &Cancel::new()).expect("read"));
    }
}

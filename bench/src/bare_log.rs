//! What the disk takes: a loop that appends records to a file that is there and syncs each of them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rowmill_base::{Error, Result};

use crate::process::cpu_s;

/// Bytes of the file, as many as a segment of Rowmill's log has.
const FILE_BYTES: u64 = 4 << 20;

/// What a sync of the loop takes, with the write before it.
#[derive(Clone, Copy, Debug)]
pub struct SyncTime {
    /// Seconds until it is done.
    pub seconds: f64,
    /// Seconds of processor time among them; zero where that is not known.
    pub cpu_s: f64,
}

impl SyncTime {
    /// How many there are in a second, one after the other.
    pub fn per_second(&self) -> f64 {
        1.0 / self.seconds
    }
}

/// The file: all of it is written, so that a sync has no space to account for. It has no name, and goes when it is closed.
#[derive(Debug)]
pub struct BareLog {
    file: File,
}

impl BareLog {
    /// Writes the file in a directory.
    pub fn create(directory: &Path) -> Result<BareLog> {
        let create = || -> std::io::Result<File> {
            let path = directory.join("bare");
            let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
            std::fs::remove_file(path)?;
            file.write_all(&vec![0; FILE_BYTES as usize])?;
            file.sync_all()?;
            Ok(file)
        };
        let file = create().map_err(|error| Error::io("the file of the bare loop", &error))?;
        Ok(BareLog { file })
    }

    /// Appends records of `bytes` each for so long; at the end of the file, it begins again. The process is to do nothing
    /// else meanwhile.
    pub fn sync_time(&self, bytes: usize, time: Duration) -> Result<SyncTime> {
        let (start, cpu) = (Instant::now(), cpu_s());
        let syncs = self.append(bytes, time).map_err(|error| Error::io("the bare loop", &error))?;
        let cpu = cpu_s().zip(cpu).map_or(0.0, |(after, before)| after - before);
        Ok(SyncTime { seconds: start.elapsed().as_secs_f64() / syncs, cpu_s: cpu / syncs })
    }

    /// How many it were.
    fn append(&self, bytes: usize, time: Duration) -> std::io::Result<f64> {
        let record = vec![0x5A; bytes];
        let (start, mut at, mut syncs) = (Instant::now(), 0, 0.0);
        loop {
            self.file.write_all_at(&record, at)?;
            self.file.sync_data()?;
            at = (at + bytes as u64) % (FILE_BYTES - bytes as u64);
            syncs += 1.0;
            if start.elapsed() >= time {
                return Ok(syncs);
            }
        }
    }
}

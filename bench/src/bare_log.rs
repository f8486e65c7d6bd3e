//! Measures the disk: a loop that appends records to an existing file and syncs each of them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rowmill_base::{Error, Result};

use crate::process::cpu_s;
use crate::tpcc::histogram::Histogram;

/// The bytes of the file, equal to a segment of Rowmill's log.
const FILE_BYTES: u64 = 4 << 20;

/// The time of a sync of the loop, including the write before it.
#[derive(Clone, Copy, Debug)]
pub struct SyncTime {
    /// Seconds until it is done.
    pub seconds: f64,
    /// Seconds of processor time in it, or zero if that is unknown.
    pub cpu_s: f64,
    /// The time that 99.9 % of the syncs did not exceed.
    pub p999: Duration,
    /// The time of the longest sync.
    pub longest: Duration,
}

impl SyncTime {
    /// The number of syncs per second, one after the other.
    pub fn per_second(&self) -> f64 {
        1.0 / self.seconds
    }
}

/// The file. We write all of it first, so that a sync need not allocate space. It has no name, and disappears when it
/// is closed.
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
            // We keep the open file and remove its name, so that it disappears even if the process is killed.
            std::fs::remove_file(path)?;
            file.write_all(&vec![0; FILE_BYTES as usize])?;
            file.sync_all()?;
            Ok(file)
        };
        let file = create().map_err(|error| Error::io("the file of the bare loop", &error))?;
        Ok(BareLog { file })
    }

    /// Appends and syncs records of `bytes` each for `time`, and starts again at the beginning when the file is full.
    /// The process should do nothing else during that time.
    pub fn sync_time(&self, bytes: usize, time: Duration) -> Result<SyncTime> {
        let (start, cpu) = (Instant::now(), cpu_s());
        let times = self.append(bytes, time).map_err(|error| Error::io("the bare loop", &error))?;
        let cpu = cpu_s().zip(cpu).map_or(0.0, |(after, before)| after - before);
        let syncs = times.count() as f64;
        Ok(SyncTime {
            seconds: start.elapsed().as_secs_f64() / syncs,
            cpu_s: cpu / syncs,
            p999: times.percentile(0.999),
            longest: times.longest(),
        })
    }

    /// Returns the times of the syncs, at least one.
    fn append(&self, bytes: usize, time: Duration) -> std::io::Result<Histogram> {
        let record = vec![0x5A; bytes];
        let (start, mut at, mut times) = (Instant::now(), 0, Histogram::new());
        loop {
            let begun = Instant::now();
            self.file.write_all_at(&record, at)?;
            self.file.sync_data()?;
            // The record must not reach beyond the end, because a longer file would need new space and metadata.
            at = (at + bytes as u64) % (FILE_BYTES - bytes as u64);
            times.record(begun.elapsed());
            if start.elapsed() >= time {
                return Ok(times);
            }
        }
    }
}

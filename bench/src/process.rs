//! Facts of the operating system about this process and its files.

use std::ops::{Add, Sub};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use rowmill_base::{Error, Result};

/// The peak resident memory of this process in megabytes (10^6 bytes), mapped files included. `None` without `/proc`.
pub fn peak_rss_mb() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1024.0 / 1e5).round() / 10.0)
}

/// The processor time of this process so far, in seconds. Unlike the clock, it hardly depends on other work of the
/// machine. `None` without `/proc`.
pub fn cpu_s() -> Option<f64> {
    /// Linux reports hundredths of a second to every program, whatever the kernel's own clock is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything, so we split after the last one. Then come the state and the numbers
    // of proc(5) from the fourth on.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// How a thread has spent its time so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimes {
    /// Seconds on a processor.
    pub running_s: f64,
    /// Seconds in which it was ready to run while all processors had other work.
    pub ready_s: f64,
}

impl ThreadTimes {
    /// Reads the times of this thread. `None` without `/proc`, or if it does not have them.
    pub fn of_this() -> Option<ThreadTimes> {
        let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut seconds = stat.split_whitespace().map(|nanos| nanos.parse::<f64>().map(|nanos| nanos / 1e9));
        Some(ThreadTimes { running_s: seconds.next()?.ok()?, ready_s: seconds.next()?.ok()? })
    }
}

impl Add for ThreadTimes {
    type Output = ThreadTimes;

    fn add(self, other: ThreadTimes) -> ThreadTimes {
        ThreadTimes { running_s: self.running_s + other.running_s, ready_s: self.ready_s + other.ready_s }
    }
}

impl Sub for ThreadTimes {
    type Output = ThreadTimes;

    fn sub(self, other: ThreadTimes) -> ThreadTimes {
        ThreadTimes { running_s: self.running_s - other.running_s, ready_s: self.ready_s - other.ready_s }
    }
}

/// The bytes on disk of all files of a folder. Holes take no space.
pub fn disk_bytes(folder: &Path) -> Result<u64> {
    let failed = |error: std::io::Error| Error::io(folder.display(), &error);
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = match entry.metadata() {
            // The file was removed after we had read the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata.map_err(failed)?,
        };
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn peaks_and_sizes_are_plausible() {
        #[cfg(target_os = "linux")]
        assert!(peak_rss_mb().unwrap() > 1.0 && cpu_s().unwrap() >= 0.0);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), vec![1; 10_000]).unwrap();
        assert!((10_000..100_000).contains(&disk_bytes(folder.path()).unwrap()));
    }
}

//! What the operating system knows about this process and its files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rowmill_base::{Error, Result};

/// Peak resident memory of this process in megabytes (10^6 bytes), mapped files included. None where `/proc` is not.
pub fn peak_rss_mb() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1024.0 / 1e5).round() / 10.0)
}

/// Seconds of processor time of this process so far: unlike the clock, it hardly minds what else the machine does.
/// None where `/proc` is not.
pub fn cpu_s() -> Option<f64> {
    /// Linux counts in hundredths for every program, whatever the kernel's own clock is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything, come the state and the numbers of proc(5) from the fourth on.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// Bytes on disk of all files of a folder: holes take none.
pub fn disk_bytes(folder: &Path) -> Result<u64> {
    let failed = |error: std::io::Error| Error::io(folder.display(), &error);
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = entry.metadata().map_err(failed)?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn peaks_and_sizes() {
        #[cfg(target_os = "linux")]
        assert!(peak_rss_mb().unwrap() > 1.0 && cpu_s().unwrap() >= 0.0);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), vec![1; 10_000]).unwrap();
        assert!((10_000..100_000).contains(&disk_bytes(folder.path()).unwrap()));
    }
}

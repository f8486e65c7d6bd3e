//! The limits of the machine: its memory, and the free space of its disks.

// The standard library cannot ask for the free space of a disk.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The memory that this process may use, in bytes: that of the machine, or the limit of the process's cgroup.
pub fn memory_bytes() -> u64 {
    // If the system does not tell, we assume a small machine.
    let of_machine = total_of_meminfo().unwrap_or(4 << 30);
    cgroup_limits().fold(of_machine, u64::min)
}

fn total_of_meminfo() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// The memory limits of the cgroup of this process and of the groups around it, in both versions of cgroups.
fn cgroup_limits() -> impl Iterator<Item = u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = text.lines().flat_map(files_of_cgroup).collect::<Vec<_>>();
    // A group without a limit has the word "max", which is no number.
    files.into_iter().filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
}

/// The files with the limits of one line of `/proc/self/cgroup`: a number, the controllers and a path, with colons in
/// between. In version 2 there are no controllers.
fn files_of_cgroup(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    groups.map(|group| Path::new(root).join(group).join(name)).collect()
}

/// The bytes that this process may still write to the disk with `path`; `None` if the system does not tell, for example
/// because `path` does not exist.
pub fn free_disk_bytes(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and `found` has room for one result.
    if unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it wrote the result.
    let found = unsafe { found.assume_init() };
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_and_its_disk_has_space() {
        assert!(memory_bytes() > 64 << 20);
        assert!(free_disk_bytes(Path::new("/")).is_some_and(|bytes| bytes > 0));
        assert_eq!(free_disk_bytes(Path::new("/no such folder")), None);
    }

    #[test]
    fn a_cgroup_has_its_own_limit_and_those_of_the_groups_around_it() {
        let names = |line| files_of_cgroup(line).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            names("0::/a/b"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(names("4:cpu,memory:/"), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
        assert!(names("4:cpu:/").is_empty() && names("").is_empty());
    }
}

//! The lock that makes one process the only writer of a directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result};

/// The file that is locked. It stays when the lock is given back, because removing it would let two processes lock two
/// different files of this name.
const LOCK_FILE: &str = "LOCK";

/// The lock of the process that may write a directory. It is given back when dropped, and by the system when the
/// process dies.
///
/// It is an advisory lock of the whole file (flock), so a second lock is refused even inside the same process. The
/// file contains the process ID of the holder, for the error that other processes report.
///
/// We also lock the directory itself. A reader that finds no file and cannot create one locks only the directory. It
/// also protects us if the file is removed.
#[derive(Debug)]
pub struct DirectoryLock {
    locked: Vec<File>,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough. A process that is being started at this moment holds a copy of it until it
        // runs its program.
        self.locked.iter().for_each(|file| drop(file.unlock()));
    }
}

impl DirectoryLock {
    /// Locks `dir`, which must exist. If another process holds it, returns an error of kind `Locked` that names the
    /// process.
    pub fn acquire(dir: &Path) -> Result<DirectoryLock> {
        let path = dir.join(LOCK_FILE);
        let failed = |e: &io::Error| {
            let error = Error::io(format_args!("lock {}", path.display()), e);
            match e.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    error.hint("this process has no permission to write the directory; open it read-only instead")
                }
                _ => error,
            }
        };
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(|e| failed(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(dir, &mut file)),
            Err(TryLockError::Error(e)) => return Err(failed(&e)),
        }
        let mut lock = DirectoryLock { locked: vec![file] };
        let folder = File::open(dir).map_err(|e| failed(&e))?;
        match folder.try_lock() {
            Ok(()) => lock.locked.push(folder),
            Err(TryLockError::WouldBlock) => return Err(held_without_file(dir, &folder)),
            // Not every file system can lock folders. The lock of the file must be enough there.
            Err(TryLockError::Error(_)) => {}
        }
        // Only the holder writes its ID, so this must follow the lock. Until then others see no ID or an old one.
        write_holder(&mut lock.locked[0]).map_err(|e| failed(&e))?;
        Ok(lock)
    }

    /// Keeps writers out of `dir` for a reader that leaves no trace a writer could see. Several such readers may hold
    /// the lock together. Returns an error of kind `Locked` if a process writes the directory.
    pub fn keep_writers_out(dir: &Path) -> Result<DirectoryLock> {
        let mut lock = DirectoryLock { locked: Vec::new() };
        for path in [dir.join(LOCK_FILE), dir.to_owned()] {
            let is_folder = path == dir;
            let failed = |e: &io::Error| Error::io(format_args!("lock {}", path.display()), e);
            let mut file = match File::open(&path) {
                // The directory was never written, or was copied without this file. The lock of the folder itself
                // must keep writers out then.
                Err(e) if e.kind() == io::ErrorKind::NotFound && !is_folder => continue,
                opened => opened.map_err(|e| failed(&e))?,
            };
            match file.try_lock_shared() {
                Ok(()) => lock.locked.push(file),
                Err(TryLockError::WouldBlock) => return Err(written(dir, &mut file)),
                Err(TryLockError::Error(_)) if is_folder => {}
                Err(TryLockError::Error(e)) => return Err(failed(&e)),
            }
        }
        Ok(lock)
    }
}

fn written(dir: &Path, file: &mut File) -> Error {
    let writer = holder(file).map_or("another process".to_owned(), |id| format!("process {id}"));
    let message = format!("{} is written by {writer}, which cannot see the reads of this process", dir.display());
    Error::new(ErrorKind::Locked, message)
        .hint("wait until it ends, or give this process permission to write the lock files of the directory")
}

fn write_holder(file: &mut File) -> io::Result<()> {
    // Remove the ID of an earlier holder, which may be longer.
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn held(dir: &Path, file: &mut File) -> Error {
    // If a shared lock is possible, the holders are readers and not a writer.
    if file.try_lock_shared().is_ok() {
        let _ = file.unlock();
        return read_by_others(dir);
    }
    let dir = dir.display();
    let error = match holder(file) {
        Some(id) if id == std::process::id() => {
            return Error::new(ErrorKind::Locked, format!("{dir} is already open in this process"))
                .hint("open the directory once and share the database between threads");
        }
        Some(id) => Error::new(ErrorKind::Locked, format!("{dir} is in use by process {id}")),
        // The holder has locked the file but not written its ID yet.
        None => Error::new(ErrorKind::Locked, format!("{dir} is in use by another process")),
    };
    error.hint("wait until it ends, or open the directory read-only")
}

/// The error for a directory that another process has locked although its lock file is free.
fn held_without_file(dir: &Path, folder: &File) -> Error {
    if folder.try_lock_shared().is_ok() {
        let _ = folder.unlock();
        return read_by_others(dir);
    }
    let message = format!("{} is in use by another process, whose file {LOCK_FILE} was removed", dir.display());
    Error::new(ErrorKind::Locked, message).hint("wait until it ends, or open the directory read-only")
}

fn read_by_others(dir: &Path) -> Error {
    let message = format!("{} is read by a process that cannot write its lock files", dir.display());
    Error::new(ErrorKind::Locked, message).hint("wait until it ends")
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn second_lock_is_refused_until_the_first_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(dir.path()).unwrap();
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.message().contains("this process"), "{error}");
        drop(first);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn dropping_a_lock_releases_it_even_if_its_file_was_duplicated() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(dir.path()).unwrap();
        let _copies: Vec<File> = lock.locked.iter().map(|file| file.try_clone().unwrap()).collect();
        drop(lock);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn readers_that_keep_writers_out_exclude_writers_but_not_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let writer = DirectoryLock::acquire(dir.path()).unwrap();
        let error = DirectoryLock::keep_writers_out(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.message().contains(&std::process::id().to_string()), "{error}");
        drop(writer);
        let both = [(); 2].map(|()| DirectoryLock::keep_writers_out(dir.path()).unwrap());
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert!(error.message().contains("is read by"), "{error}");
        drop(both);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_directory_without_its_lock_file_can_still_be_locked() {
        let dir = tempfile::tempdir().unwrap();
        let both = [(); 2].map(|()| DirectoryLock::keep_writers_out(dir.path()).unwrap());
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert!(error.message().contains("is read by"), "{error}");
        drop(both);
        drop(DirectoryLock::acquire(dir.path()).unwrap());
        let reader = DirectoryLock::keep_writers_out(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert!(error.message().contains("is read by"), "{error}");
        drop(reader);
        let writer = DirectoryLock::acquire(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
        let error = DirectoryLock::keep_writers_out(dir.path()).unwrap_err();
        assert!(error.message().contains("is written by another process"), "{error}");
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert!(error.message().contains("was removed"), "{error}");
        drop(writer);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_foreign_holder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let _first = DirectoryLock::acquire(dir.path()).unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "4194999\n").unwrap();
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert!(error.message().contains("process 4194999"), "{error}");
        std::fs::write(dir.path().join(LOCK_FILE), "").unwrap();
        let error = DirectoryLock::acquire(dir.path()).unwrap_err();
        assert!(error.message().contains("another process"), "{error}");
    }
}

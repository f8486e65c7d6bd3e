//! The lock that makes one process the writer of a directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result};

/// The file that is locked. It stays when the lock is given back: removing it would let two processes lock two files of
/// the same name.
const LOCK_FILE: &str = "LOCK";

/// Held by the process that may write a directory; given back when dropped, and by the system when the process dies.
///
/// It is an advisory lock of the whole file (flock), so a second one is refused within the same process too. The file
/// holds the holder's process id, for the message that others get.
///
/// The directory itself is locked too: for a reader that finds no file and may not make one, and in case the file is removed.
#[derive(Debug)]
pub struct DirectoryLock {
    locked: Vec<File>,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing a file is not enough: a process that is being started just now has a copy of it until it runs its program.
        self.locked.iter().for_each(|file| drop(file.unlock()));
    }
}

impl DirectoryLock {
    /// Locks `dir`, which must exist. An error of kind `Locked` names the process that holds it.
    pub fn acquire(dir: &Path) -> Result<DirectoryLock> {
        let path = dir.join(LOCK_FILE);
        let failed = |e: &io::Error| {
            let error = Error::io(format_args!("lock {}", path.display()), e);
            match e.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => error
                    .hint("this process may not write the directory; opening it read-only needs no more than reading"),
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
            // Not every file system locks folders. There the file alone has to do.
            Err(TryLockError::Error(_)) => {}
        }
        write_holder(&mut lock.locked[0]).map_err(|e| failed(&e))?;
        Ok(lock)
    }

    /// Keeps writers out of `dir` for one that reads and that no writer could see. Others of its kind may do so too. An error of
    /// kind `Locked` if a process writes it.
    pub fn keep_writers_out(dir: &Path) -> Result<DirectoryLock> {
        let mut lock = DirectoryLock { locked: Vec::new() };
        for path in [dir.join(LOCK_FILE), dir.to_owned()] {
            let is_folder = path == dir;
            let failed = |e: &io::Error| Error::io(format_args!("lock {}", path.display()), e);
            let mut file = match File::open(&path) {
                // Nobody has ever written it, or the file was not copied with the rest. It may be written from now on.
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
    let message = format!("{} is written by {writer}, which cannot see what this process reads", dir.display());
    Error::new(ErrorKind::Locked, message)
        .hint("wait until it ends, or read where this process may write the lock files of the directory")
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn held(dir: &Path, file: &mut File) -> Error {
    if file.try_lock_shared().is_ok() {
        let _ = file.unlock();
        return read_by_others(dir);
    }
    let dir = dir.display();
    let error = match holder(file) {
        Some(id) if id == std::process::id() => {
            return Error::new(ErrorKind::Locked, format!("{dir} is open in this process already"))
                .hint("open the directory once and share the database between threads");
        }
        Some(id) => Error::new(ErrorKind::Locked, format!("{dir} is in use by process {id}")),
        // The holder has locked the file and not yet written its id.
        None => Error::new(ErrorKind::Locked, format!("{dir} is in use by another process")),
    };
    error.hint("wait until it ends, or open the directory read-only")
}

/// The error of a directory that somebody holds, though not its file.
fn held_without_file(dir: &Path, folder: &File) -> Error {
    if folder.try_lock_shared().is_ok() {
        let _ = folder.unlock();
        return read_by_others(dir);
    }
    let message = format!("{} is in use by another process, whose file {LOCK_FILE} was removed", dir.display());
    Error::new(ErrorKind::Locked, message).hint("wait until it ends, or open the directory read-only")
}

fn read_by_others(dir: &Path) -> Error {
    let message = format!("{} is read by a process that may not write its lock files", dir.display());
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
    fn a_lock_is_given_back_though_somebody_has_a_copy_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(dir.path()).unwrap();
        let _copies: Vec<File> = lock.locked.iter().map(|file| file.try_clone().unwrap()).collect();
        drop(lock);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn who_keeps_writers_out_does_so_beside_others_and_not_beside_a_writer() {
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
    fn a_directory_without_its_file_is_held_all_the_same() {
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

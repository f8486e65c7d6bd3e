//! The folder of one process for its temporary files.
//!
//! Its name has the process and a number. It is locked while the process lives, so a folder that can be locked belongs
//! to a dead process, and is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_io::{DirectoryLock, Disk, RealDisk};

/// The start of the name of each such folder.
const NAME: &str = "rowmill-temp-";

/// Tells the folders of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder for temporary files. Removed on drop, with everything in it.
#[derive(Debug)]
pub(super) struct TempFolder {
    pub(super) disk: Arc<dyn Disk>,
    /// The path and its lock; `None` for a disk that the caller made.
    locked: Option<(PathBuf, DirectoryLock)>,
}

impl TempFolder {
    /// Makes a folder in `root`, which is created if it does not exist. Removes the folders of dead processes there.
    pub(super) fn make(root: &Path) -> Result<TempFolder> {
        remove_orphans(root);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = root.join(format!("{NAME}{}-{number}", std::process::id()));
            if path.exists() {
                continue;
            }
            fs::create_dir_all(&path).map_err(|error| {
                Error::io(format_args!("create the folder {} for temporary files", path.display()), &error)
                    .hint("choose another folder with SET temp_directory = '...'")
            })?;
            match DirectoryLock::acquire(&path) {
                Ok(lock) => {
                    return Ok(TempFolder { disk: Arc::new(RealDisk::new(&path)), locked: Some((path, lock)) });
                }
                // Another process took the new folder for an orphan, before it was locked.
                Err(error) if error.kind() == ErrorKind::Locked || !path.exists() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The path of the folder. `None` on a disk that the caller made.
    pub(super) fn path(&self) -> Option<&Path> {
        self.locked.as_ref().map(|(path, _)| path.as_path())
    }

    /// A folder on a disk that the caller made.
    pub(super) fn on(disk: Arc<dyn Disk>) -> TempFolder {
        TempFolder { disk, locked: None }
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Some((path, lock)) = self.locked.take() {
            // A folder that cannot be removed is removed by the next process.
            drop(fs::remove_dir_all(&path));
            drop(lock);
        }
    }
}

/// Removes the folders of dead processes in `root`.
pub(super) fn remove_orphans(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    for path in paths.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME))) {
        // The lock is held during the removal, so that two processes do not remove the same folder.
        if let Ok(lock) = DirectoryLock::acquire(&path) {
            drop(fs::remove_dir_all(&path));
            drop(lock);
        }
    }
}

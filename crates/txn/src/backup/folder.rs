//! A folder that is being filled. It holds a mark from the beginning to the end, so that no process takes a partial
//! folder for a complete one.
//!
//! The mark is on disk before all other files and is removed after they are complete. If filling fails, the folder
//! becomes empty again, or is removed if it did not exist before.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_io::{Disk, OpenMode};

/// The name of the mark. The file says what the folder was meant to become.
const UNFINISHED: &str = "UNFINISHED";

/// A folder that is being filled, with its mark. Dropping it unfinished removes everything again.
pub(super) struct Folder<'a> {
    path: PathBuf,
    disk: &'a dyn Disk,
    was_there: bool,
    is_finished: bool,
}

impl<'a> Folder<'a> {
    /// Starts to fill the folder at `path`, which must not exist or be empty. It must be the directory of `disk`.
    pub(super) fn begin(path: &Path, disk: &'a dyn Disk, what: &str) -> Result<Folder<'a>> {
        let failed = |e: &io::Error| Error::io(format_args!("make the folder {}", path.display()), e);
        let was_there = match fs::read_dir(path) {
            Ok(mut entries) => match entries.next() {
                None => true,
                Some(entry) => {
                    let name = entry.map_err(|e| failed(&e))?.file_name();
                    return Err(not_empty(path, what, &name.to_string_lossy()));
                }
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                let message = format!("{} is a file, but {what} needs a folder", path.display());
                return Err(Error::new(ErrorKind::UndefinedFile, message).hint("name a folder that does not exist yet"));
            }
            Err(e) => return Err(failed(&e)),
        };
        let folder = Folder { path: path.to_owned(), disk, was_there, is_finished: false };
        if !was_there {
            fs::create_dir_all(path).map_err(|e| failed(&e))?;
        }
        // The mark and its name must be on disk before the first file, so that a crash at any later point leaves them.
        let mark = disk.open(UNFINISHED, OpenMode::Create)?;
        mark.write_all_at(what.as_bytes(), 0)?;
        mark.sync()?;
        disk.sync_dir("")?;
        sync_parent(path).map_err(|e| failed(&e))?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn disk(&self) -> &'a dyn Disk {
        self.disk
    }

    /// Completes the folder. All files in it, and the folders below it, must be synced.
    pub(super) fn finish(mut self) -> Result<()> {
        // The names of all files must be on disk before the mark's name disappears.
        self.disk.sync_dir("")?;
        self.disk.remove(UNFINISHED)?;
        self.disk.sync_dir("")?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The mark goes last, so that a folder with leftovers stays marked.
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let removed = entries.filter(|entry| entry.file_name() != UNFINISHED).all(|entry| {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.is_ok()
        });
        if removed {
            let _ = fs::remove_file(self.path.join(UNFINISHED));
            if !self.was_there {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.canonicalize()?.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn not_empty(path: &Path, what: &str, name: &str) -> Error {
    let found = match name {
        UNFINISHED => "it holds an unfinished copy".to_owned(),
        name => format!("it holds {name}"),
    };
    let message = format!("{what} needs an empty folder, and {} is not empty: {found}", path.display());
    Error::new(ErrorKind::DuplicateObject, message).hint("name a folder that does not exist yet, or empty this one")
}

/// Refuses a folder with an unfinished backup or an unfinished restore.
pub(crate) fn check_finished(path: &Path) -> Result<()> {
    let mark = path.join(UNFINISHED);
    match mark.try_exists() {
        Ok(false) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(e) => Err(Error::io(format_args!("look for {}", mark.display()), &e)),
        Ok(true) => {
            let what = fs::read_to_string(&mark).ok().filter(|what| !what.is_empty());
            let what = what.unwrap_or_else(|| "a copy".to_owned());
            let message = format!("{} holds {what} that was not finished", path.display());
            Err(Error::new(ErrorKind::UndefinedFile, message).hint("remove the folder and make it again"))
        }
    }
}

/// Refuses to open a backup for writing.
pub(crate) fn check_no_backup(path: &Path) -> Result<()> {
    let list = path.join(super::contents::NAME);
    match list.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => {
            let message = format!("{} is a backup, which can only be read", path.display());
            Err(Error::new(ErrorKind::ReadOnly, message).hint(format!(
                "restore it to another folder, or remove the file {} to use this one as a database",
                list.display()
            )))
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(e) => Err(Error::io(format_args!("look for {}", list.display()), &e)),
    }
}

/// Refuses a folder `to` inside of the directory `own`, and the other way round.
pub(super) fn check_apart(own: &Path, to: &Path, what: &str) -> Result<()> {
    let whole = |path: &Path| -> Option<PathBuf> {
        // A path that does not exist yet is resolved from its nearest existing ancestor.
        let there = path.ancestors().find_map(|above| Some((above, above_or_here(above).canonicalize().ok()?)));
        let (above, found) = there?;
        Some(found.join(path.strip_prefix(above).ok()?))
    };
    let (Some(own_whole), Some(to_whole)) = (whole(own), whole(to)) else { return Ok(()) };
    if !to_whole.starts_with(&own_whole) && !own_whole.starts_with(&to_whole) {
        return Ok(());
    }
    let message = format!("cannot {what} {} to {}: one is inside of the other", own.display(), to.display());
    Err(Error::new(ErrorKind::InvalidParameter, message).hint("name a folder outside of it"))
}

fn above_or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

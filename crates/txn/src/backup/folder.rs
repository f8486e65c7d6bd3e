//! A folder that is being filled: with a mark in it from the beginning to the end, so that nobody takes a half for a whole.
//!
//! The mark is on disk before anything else is, and is removed when all else is. A folder whose filling failed is empty again, or gone
//! if it was not there before.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_io::{Disk, OpenMode};

/// The mark. It holds what the folder was to become.
const UNFINISHED: &str = "UNFINISHED";

/// See the module.
pub(super) struct Folder<'a> {
    path: PathBuf,
    disk: &'a dyn Disk,
    was_there: bool,
    is_finished: bool,
}

impl<'a> Folder<'a> {
    /// The folder at `path`, which is not there or empty. It is the directory of `disk`.
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
                let message = format!("{} is a file, and {what} is written to a folder", path.display());
                return Err(Error::new(ErrorKind::UndefinedFile, message).hint("name a folder that is not there yet"));
            }
            Err(e) => return Err(failed(&e)),
        };
        let folder = Folder { path: path.to_owned(), disk, was_there, is_finished: false };
        if !was_there {
            fs::create_dir_all(path).map_err(|e| failed(&e))?;
        }
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

    /// Makes it what it was to become. All files in it are synced, and the folders below it.
    pub(super) fn finish(mut self) -> Result<()> {
        // The names of all others before the mark's is gone.
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
        // The mark last: what cannot be removed stays marked.
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
        UNFINISHED => "what was left of one that did not come to its end".to_owned(),
        name => format!("{name} is there"),
    };
    let message = format!("{what} is written to an empty folder, and {} is not empty: {found}", path.display());
    Error::new(ErrorKind::DuplicateObject, message).hint("name a folder that is not there yet, or empty this one")
}

/// Refuses a folder of which a backup or a restoring has not come to its end.
pub(crate) fn check_finished(path: &Path) -> Result<()> {
    let mark = path.join(UNFINISHED);
    match mark.try_exists() {
        Ok(false) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(e) => Err(Error::io(format_args!("look for {}", mark.display()), &e)),
        Ok(true) => {
            let what = fs::read_to_string(&mark).ok().filter(|what| !what.is_empty());
            let what = what.unwrap_or_else(|| "a copy".to_owned());
            let message = format!("{} holds {what} that did not come to its end", path.display());
            Err(Error::new(ErrorKind::UndefinedFile, message).hint("remove the folder, and make it again"))
        }
    }
}

/// Refuses to write a folder that is a backup.
pub(crate) fn check_no_backup(path: &Path) -> Result<()> {
    let list = path.join(super::contents::NAME);
    match list.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => {
            let message = format!("{} is a backup, which is only read", path.display());
            Err(Error::new(ErrorKind::ReadOnly, message).hint(format!(
                "restore it to another folder, or remove the file {} to go on in this one",
                list.display()
            )))
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(e) => Err(Error::io(format_args!("look for {}", list.display()), &e)),
    }
}

/// Refuses a folder `to` within the directory `own`, or the other way round.
pub(super) fn check_apart(own: &Path, to: &Path, what: &str) -> Result<()> {
    let whole = |path: &Path| -> Option<PathBuf> {
        // What is not there yet lies in what is.
        let there = path.ancestors().find_map(|above| Some((above, above_or_here(above).canonicalize().ok()?)));
        let (above, found) = there?;
        Some(found.join(path.strip_prefix(above).ok()?))
    };
    let (Some(own_whole), Some(to_whole)) = (whole(own), whole(to)) else { return Ok(()) };
    if !to_whole.starts_with(&own_whole) && !own_whole.starts_with(&to_whole) {
        return Ok(());
    }
    let message = format!("cannot {what} {} to {}: one lies in the other", own.display(), to.display());
    Err(Error::new(ErrorKind::InvalidParameter, message).hint("name a folder beside it"))
}

fn above_or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

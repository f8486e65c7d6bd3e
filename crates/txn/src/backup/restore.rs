//! Restoring: a backup becomes a database in another folder, or nothing does.
//!
//! Each file is compared with the list while it is copied, then all that `CHECK DATABASE` looks at is looked at in the copy, and then
//! the mark of a folder that is not finished is removed.

use std::collections::BTreeSet;
use std::path::Path;

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_io::{Disk, OpenMode, RealDisk};

use super::contents::{self, Contents, FileSums, Writing};
use super::folder::{Folder, check_apart, check_finished};
use super::no_backup;
use crate::check::Checked;
use crate::engine::{Engine, OpenOptions};

/// Files that opening a backup to read it leaves there.
const OF_READERS: [&str; 3] = ["LOCK", "base.lmdb-lock", "base.lmdb-probe"];

/// A database that was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The last commit that it has.
    pub commit: CommitId,
    /// Files that were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the check has looked at; there was no problem.
    pub checked: Vec<Checked>,
}

/// Makes a database in the folder `to`, which is not there or empty, of the backup in `from`.
///
/// `Corrupt` where a file is not what was backed up, is missing or is none of the backup, `UndefinedFile` where there is no backup, or
/// half of one. An error leaves nothing in `to`.
pub fn restore(from: &Path, to: &Path, cancel: &Cancel) -> Result<Restored> {
    restore_over(from, to, &RealDisk::new(to), cancel)
}

/// The same, with all that is written through `disk`, which has `to` as its directory: for tests of faults.
pub fn restore_over(from: &Path, to: &Path, disk: &dyn Disk, cancel: &Cancel) -> Result<Restored> {
    check_finished(from)?;
    check_apart(from, to, "restore")?;
    let source = RealDisk::new(from);
    let contents = Contents::read(&source)?.ok_or_else(|| no_backup(from))?;
    check_names(&source, &contents)?;
    let folder = Folder::begin(to, disk, "a restored database")?;
    copy(&source, disk, &contents, cancel)?;
    let checked = check(to, &contents, cancel)?;
    folder.finish()?;
    let backed_up = contents.backed_up();
    Ok(Restored { commit: backed_up.commit, files: backed_up.files, bytes: backed_up.bytes, checked })
}

/// Refuses a backup of which a file is missing, or that has one that is not listed.
fn check_names(source: &RealDisk, contents: &Contents) -> Result<()> {
    let mut found = BTreeSet::new();
    names_below(source, "", &mut found)?;
    for file in &contents.files {
        if !found.remove(&file.path) {
            return Err(damaged(format!("{} is missing from the backup", source.describe(&file.path))));
        }
    }
    found.remove(contents::NAME);
    match found.iter().find(|name| !OF_READERS.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::corrupt(format!("{} is no file of the backup", source.describe(name)))
            .hint("remove it if it was put there by mistake, or use another backup")),
    }
}

fn names_below(disk: &RealDisk, folder: &str, found: &mut BTreeSet<String>) -> Result<()> {
    for name in disk.list(folder)? {
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match disk.len(&path)? {
            Some(_) => drop(found.insert(path)),
            None => names_below(disk, &path, found)?,
        }
    }
    Ok(())
}

fn copy(source: &RealDisk, disk: &dyn Disk, contents: &Contents, cancel: &Cancel) -> Result<()> {
    let mut folders = BTreeSet::new();
    // A database has one, though it has no rows.
    disk.create_dir(crate::column_files::TABLES)?;
    folders.insert(crate::column_files::TABLES.to_owned());
    for file in &contents.files {
        for (at, _) in file.path.match_indices('/') {
            folders.insert(file.path[..at].to_owned());
        }
        if let Some((folder, _)) = file.path.rsplit_once('/') {
            disk.create_dir(folder)?;
        }
        copy_file(source, disk, file, cancel)?;
    }
    // The deepest first.
    folders.iter().rev().try_for_each(|folder| disk.sync_dir(folder))
}

fn copy_file(source: &RealDisk, disk: &dyn Disk, file: &FileSums, cancel: &Cancel) -> Result<()> {
    let name = source.describe(&file.path);
    let opened = source.open(&file.path, OpenMode::Read)?;
    let len = opened.len()?;
    if len != file.len {
        return Err(damaged(format!("{name} has {len} bytes, and {} were backed up", file.len)));
    }
    let mut writing = Writing::new(file.path.clone(), disk.open(&file.path, OpenMode::Create)?);
    let mut sums = file.sums.iter();
    contents::pieces(&*opened, cancel, |at, piece| {
        if sums.next() != Some(&crc32fast::hash(piece)) {
            let end = at + piece.len() as u64;
            return Err(damaged(format!("{name}: the bytes from {at} to {end} are not what was backed up")));
        }
        writing.write(piece)
    })?;
    match writing.finish()? == *file {
        true => Ok(()),
        false => Err(damaged(format!("{name} was changed while it was read"))),
    }
}

/// Everything that `CHECK DATABASE` looks at, in what was copied.
fn check(to: &Path, contents: &Contents, cancel: &Cancel) -> Result<Vec<Checked>> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let engine = Engine::open_unfinished(to, options)?;
    let (found, known) = (engine.snapshot()?.commit(), contents.backed_up().commit);
    if found != known {
        return Err(damaged(format!("the backup is of commit {known}, and its base of commit {found}")));
    }
    let checked = engine.check(cancel)?;
    match checked.iter().find_map(|checked| Some((&checked.object, checked.problem.as_ref()?))) {
        None => Ok(checked),
        Some((object, problem)) => Err(damaged(format!("what was restored is damaged: {object}: {problem}"))),
    }
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message).hint("use another backup, or copy this one again from where it was made")
}

//! Restoring: turns a backup into a database in another folder, completely or not at all.
//!
//! We compare each file with the list while we copy it. Then we run `CHECK DATABASE` on the copy. Only after that we
//! remove the mark of an unfinished folder.

use std::collections::BTreeSet;
use std::path::Path;

use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_io::{Disk, OpenMode, RealDisk};

use super::contents::{self, Contents, FileSums, Writing};
use super::folder::{Folder, check_apart, check_finished};
use super::no_backup;
use crate::check::Checked;
use crate::engine::{Engine, OpenOptions};

/// Files that processes that read a backup, or an earlier version, leave in its folder, and the start of the names of
/// others.
const OF_READERS: [&str; 4] = ["LOCK", "base.tree-made", "base.lmdb-lock", "base.lmdb-probe"];
const OF_A_READER: &str = "base.tree-reader-";

/// A restored database.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Its last commit.
    pub commit: CommitId,
    /// Number of copied files.
    pub files: u64,
    /// Total length of the copied files.
    pub bytes: u64,
    /// The results of the check, which found no problem.
    pub checked: Vec<Checked>,
}

/// Restores the backup in `from` to the folder `to`, which must not exist or be empty.
///
/// Returns `Corrupt` if a file differs from the list, is missing or is not on the list, and `UndefinedFile` if there is
/// no backup or only part of one. After an error `to` is as it was before.
pub fn restore(from: &Path, to: &Path, cancel: &Cancel) -> Result<Restored> {
    restore_over(from, to, &RealDisk::new(to), cancel)
}

/// Restores a backup and writes all files through `disk`, whose directory must be `to`. Only tests that inject
/// faults should use it.
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

/// Refuses a backup with a missing file, or with a file that is not on the list.
fn check_names(source: &RealDisk, contents: &Contents) -> Result<()> {
    let mut found = BTreeSet::new();
    names_below(source, "", &mut found)?;
    for file in &contents.files {
        if !found.remove(&file.path) {
            return Err(damaged(format!("{} is missing from the backup", source.describe(&file.path))));
        }
    }
    found.remove(contents::NAME);
    let is_left = |name: &String| OF_READERS.contains(&name.as_str()) || name.starts_with(OF_A_READER);
    match found.iter().find(|name| !is_left(name)) {
        None => Ok(()),
        Some(name) => Err(Error::corrupt(format!("{} does not belong to the backup", source.describe(name)))
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
    // A database has this folder even if it has no columnar rows, so we create it in any case.
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
    // The deepest folders come first, so that each name is on disk after everything below it.
    folders.iter().rev().try_for_each(|folder| disk.sync_dir(folder))
}

fn copy_file(source: &RealDisk, disk: &dyn Disk, file: &FileSums, cancel: &Cancel) -> Result<()> {
    let name = source.describe(&file.path);
    let opened = source.open(&file.path, OpenMode::Read)?;
    let len = opened.len()?;
    if len != file.len {
        return Err(damaged(format!("{name} has {len} bytes, but {} were backed up", file.len)));
    }
    let mut writing = Writing::new(file.path.clone(), disk.open(&file.path, OpenMode::Create)?);
    let mut sums = file.sums.iter();
    contents::pieces(&*opened, cancel, |at, piece| {
        if sums.next() != Some(&crc32fast::hash(piece)) {
            let end = at + piece.len() as u64;
            return Err(damaged(format!("{name}: the bytes from {at} to {end} differ from the backed up ones")));
        }
        writing.write(piece)
    })?;
    // The second comparison covers the bytes that we wrote, in case the source changed between the two reads of it.
    match writing.finish()? == *file {
        true => Ok(()),
        false => Err(damaged(format!("{name} changed while it was read"))),
    }
}

/// Runs `CHECK DATABASE` on the copy.
fn check(to: &Path, contents: &Contents, cancel: &Cancel) -> Result<Vec<Checked>> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let engine = Engine::open_unfinished(to, options)?;
    let (found, known) = (engine.snapshot()?.commit(), contents.backed_up().commit);
    if found != known {
        return Err(damaged(format!("the backup should have commit {known}, but its base has commit {found}")));
    }
    let checked = engine.check(cancel)?;
    match checked.iter().find_map(|checked| Some((&checked.object, checked.problem.as_ref()?))) {
        None => Ok(checked),
        Some((object, problem)) => Err(damaged(format!("the restored database is damaged: {object}: {problem}"))),
    }
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message).hint("use another backup, or copy this one again from its origin")
}

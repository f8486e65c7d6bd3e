//! The directory of a database before its base exists: whether a database may be made there, and making the directory.

use std::io;
use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result};

use crate::engine::TEMP;

/// The names that a directory without a base may hold: remains of a database whose first opening was killed or whose
/// base was lost, the mark of an unfinished restore, and the folder that some file systems keep in their root.
const OWN_NAMES: &[&str] = &["LOCK", "UNFINISHED", "base.rocksdb", "log", "lost+found", "tables", TEMP];

/// Returns an error if `dir`, which has no base, holds files of someone else.
pub(crate) fn check_no_foreign_files(dir: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::io(format_args!("list {}", dir.display()), &error);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let is_base = name.starts_with("base") && (name.contains(".tree") || name.contains(".lmdb"));
        if !is_base && !OWN_NAMES.contains(&&*name) {
            let what = format!("{} holds no database but other files, for example {name}", dir.display());
            return Err(Error::new(ErrorKind::UndefinedFile, what)
                .hint("a database is a directory of its own: name a new or an empty one"));
        }
    }
    Ok(())
}

/// Creates a directory and syncs its parent, so that the name survives a power cut.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    match path.canonicalize()?.parent() {
        Some(parent) => std::fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, OpenOptions};

    #[test]
    fn a_directory_of_other_files_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("lost+found")).expect("created");
        drop(Engine::open(dir.path(), OpenOptions::default()).expect("it counts as empty"));
        // Other files beside a database do no harm.
        std::fs::write(dir.path().join("notes.txt"), "mine").expect("written");
        drop(Engine::open(dir.path(), OpenOptions::default()).expect("it is a database"));

        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("notes.txt"), "mine").expect("written");
        let error = Engine::open(dir.path(), OpenOptions::default()).expect_err("not a database");
        assert_eq!(error.kind(), ErrorKind::UndefinedFile);
        assert!(error.message().contains("notes.txt") && error.hint_text().is_some(), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1);
    }
}

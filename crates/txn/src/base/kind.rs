//! The kind of ordered base that a directory has, or should get.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};

use super::{OrderedBase, TreeBase};

/// The name of RocksDB's directory in the directory of a database. Builds without RocksDB need it too, to recognise
/// one.
pub(super) const ROCKS_DIR: &str = "base.rocksdb";

/// Whether `path` exists. Returns an error if the system does not tell.
pub(super) fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|e| Error::io(format_args!("look for {}", path.display()), &e))
}

/// The key-value store that keeps the ordered base of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BaseKind {
    /// A file of our own: a B-tree, which other processes can read too.
    #[default]
    Tree,
    /// A directory of RocksDB: a merge tree, for one process only. Requires a build with the feature `rocksdb`.
    RocksDb,
}

impl BaseKind {
    /// The kind of base that the directory `dir` has. Returns `Corrupt` if it has two.
    pub fn of(dir: &Path) -> Result<Option<BaseKind>> {
        match (TreeBase::exists(dir)?, is_there(&dir.join(ROCKS_DIR))?) {
            (true, true) => Err(Error::corrupt(format!("{} has a base of its own and one of RocksDB", dir.display()))
                .hint("one belongs to another database: restore the directory from a backup")),
            (true, false) => Ok(Some(BaseKind::Tree)),
            (false, true) => Ok(Some(BaseKind::RocksDb)),
            (false, false) => Ok(None),
        }
    }

    /// Returns `Unsupported` if a base of this kind in the directory `dir` cannot be opened. That is a RocksDB base
    /// opened for reading only, or by a build without RocksDB.
    pub(crate) fn check_supported(self, dir: &Path, read_only: bool) -> Result<()> {
        let unsupported = |what: String, help: &str| Err(Error::new(ErrorKind::Unsupported, what).hint(help));
        match self {
            BaseKind::Tree => Ok(()),
            BaseKind::RocksDb if !cfg!(feature = "rocksdb") => unsupported(
                format!("{}: the ordered base is in RocksDB, and this build has no RocksDB", dir.display()),
                "build with `--features rocksdb`, which needs a C++ compiler and libclang",
            ),
            // RocksDB locks its directory for one process, so a second one cannot follow the writer.
            BaseKind::RocksDb if read_only => unsupported(
                format!(
                    "{} cannot be opened for reading only: its base is in RocksDB, which only one process can open",
                    dir.display()
                ),
                "read it in the process that writes, or read a backup of it, which never has a base in RocksDB",
            ),
            BaseKind::RocksDb => Ok(()),
        }
    }

    /// Opens the base of this kind in the directory `dir`, and creates it if there is none. Returns `Unsupported` in
    /// the cases that [`BaseKind::check_supported`] lists.
    pub fn open(self, dir: &Path, read_only: bool) -> Result<Arc<dyn OrderedBase>> {
        self.check_supported(dir, read_only)?;
        match self {
            BaseKind::Tree => Ok(Arc::new(TreeBase::open(dir, read_only)?)),
            #[cfg(feature = "rocksdb")]
            BaseKind::RocksDb => Ok(Arc::new(super::RocksBase::open(dir)?)),
            #[cfg(not(feature = "rocksdb"))]
            BaseKind::RocksDb => Err(Error::internal("this build has no RocksDB")),
        }
    }
}

impl fmt::Display for BaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BaseKind::Tree => "a tree",
            BaseKind::RocksDb => "RocksDB",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_kind_is_found_from_the_files_in_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(BaseKind::of(dir.path()).unwrap(), None);
        std::fs::create_dir(dir.path().join(ROCKS_DIR)).unwrap();
        assert_eq!(BaseKind::of(dir.path()).unwrap(), Some(BaseKind::RocksDb));
        drop(BaseKind::Tree.open(dir.path(), false).unwrap());
        assert_eq!(BaseKind::of(dir.path()).unwrap_err().kind(), ErrorKind::Corrupt);
        std::fs::remove_dir(dir.path().join(ROCKS_DIR)).unwrap();
        assert_eq!(BaseKind::of(dir.path()).unwrap(), Some(BaseKind::Tree));
    }

    #[test]
    fn unsupported_opens_are_refused_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        // Opening for reading only is always refused. A build without RocksDB refuses writing too.
        for read_only in [true, cfg!(feature = "rocksdb")] {
            let error = BaseKind::RocksDb.open(dir.path(), read_only).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains("RocksDB") && error.hint_text().is_some(), "{error}");
        }
    }
}

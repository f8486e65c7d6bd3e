//! Which ordered base a directory has, or is to have.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};

use super::lmdb_file::is_there;
use super::{LmdbBase, OrderedBase};

/// The name of RocksDB's directory in the directory of a database, also for who cannot read it.
pub(super) const ROCKS_DIR: &str = "base.rocksdb";

/// What keeps the ordered base of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BaseKind {
    /// A file of LMDB: a B-tree, which other processes read too.
    #[default]
    Lmdb,
    /// A directory of RocksDB: a merge tree, for one process. Builds have it with the feature `rocksdb`.
    RocksDb,
}

impl BaseKind {
    /// What the directory `dir` has. `Corrupt` if it has two.
    pub fn of(dir: &Path) -> Result<Option<BaseKind>> {
        match (LmdbBase::exists(dir)?, is_there(&dir.join(ROCKS_DIR))?) {
            (true, true) => Err(Error::corrupt(format!("{} has a base of LMDB and one of RocksDB", dir.display()))
                .hint("one of them is of another database: restore the directory from a backup")),
            (true, false) => Ok(Some(BaseKind::Lmdb)),
            (false, true) => Ok(Some(BaseKind::RocksDb)),
            (false, false) => Ok(None),
        }
    }

    /// `Unsupported` where a base of this kind in the directory `dir` cannot be opened: one of RocksDB for reading only, or by a
    /// build that does not have it.
    pub fn check_supported(self, dir: &Path, read_only: bool) -> Result<()> {
        let unsupported = |what: String, help: &str| Err(Error::new(ErrorKind::Unsupported, what).hint(help));
        match self {
            BaseKind::Lmdb => Ok(()),
            BaseKind::RocksDb if !cfg!(feature = "rocksdb") => unsupported(
                format!("{}: its base is one of RocksDB, and this build has only LMDB", dir.display()),
                "build with `--features rocksdb`, which takes a C++ compiler and libclang",
            ),
            BaseKind::RocksDb if read_only => unsupported(
                format!(
                    "{} is opened for reading only, and its base is one of RocksDB, which one process alone can open",
                    dir.display()
                ),
                "read it in the process that writes, or read a backup of it, whose base is one of LMDB",
            ),
            BaseKind::RocksDb => Ok(()),
        }
    }

    /// Opens the base of this kind in the directory `dir`, which is made if there is none. `Unsupported` as
    /// [`BaseKind::check_supported`] says.
    pub fn open(self, dir: &Path, read_only: bool) -> Result<Arc<dyn OrderedBase>> {
        self.check_supported(dir, read_only)?;
        match self {
            BaseKind::Lmdb => Ok(Arc::new(LmdbBase::open(dir, read_only)?)),
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
            BaseKind::Lmdb => "LMDB",
            BaseKind::RocksDb => "RocksDB",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_directory_says_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(BaseKind::of(dir.path()).unwrap(), None);
        std::fs::create_dir(dir.path().join(ROCKS_DIR)).unwrap();
        assert_eq!(BaseKind::of(dir.path()).unwrap(), Some(BaseKind::RocksDb));
        drop(BaseKind::Lmdb.open(dir.path(), false).unwrap());
        assert_eq!(BaseKind::of(dir.path()).unwrap_err().kind(), ErrorKind::Corrupt);
        std::fs::remove_dir(dir.path().join(ROCKS_DIR)).unwrap();
        assert_eq!(BaseKind::of(dir.path()).unwrap(), Some(BaseKind::Lmdb));
    }

    #[test]
    fn what_cannot_be_opened_is_refused_with_what_helps() {
        let dir = tempfile::tempdir().unwrap();
        // By readers always, and by whoever has only LMDB.
        for read_only in [true, cfg!(feature = "rocksdb")] {
            let error = BaseKind::RocksDb.open(dir.path(), read_only).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains("RocksDB") && error.hint_text().is_some(), "{error}");
        }
    }
}

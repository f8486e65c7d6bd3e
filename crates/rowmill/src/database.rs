//! Opening.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill_base::{ErrorKind, Result, Settings};
use rowmill_sql::Session;
use rowmill_txn::base::BaseKind;
use rowmill_txn::{Engine, OpenOptions};

use crate::Connection;

/// How long opening for reading waits for this process to close the same directory.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// How a directory is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Settings,
    read_only: bool,
    base: BaseKind,
}

impl Options {
    /// For reading and writing, with every setting at its default.
    pub fn new() -> Self {
        Options::default()
    }

    /// Only for reading, beside the process that writes. Writes are refused.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// What keeps the ordered base of a directory that is made. One that is there is opened with what it has. RocksDB is there
    /// in builds with the feature `rocksdb`; others refuse it ([`Unsupported`](crate::ErrorKind::Unsupported)).
    #[must_use]
    pub fn base(mut self, base: BaseKind) -> Self {
        self.base = base;
        self
    }

    /// With a setting that differs from its default, as `SET` would give it: `set("memory_limit", "2GB")`.
    pub fn set(mut self, name: &str, value: &str) -> Result<Self> {
        self.settings.set(name, value)?;
        Ok(self)
    }
}

/// An open database. Clones share it; it closes with the last clone and connection.
#[derive(Clone, Debug)]
pub struct Database {
    engine: Arc<Engine>,
}

impl Database {
    /// Opens the directory at `path`, which is made if it is absent.
    ///
    /// One process at a time opens a directory for writing; another gets an error of kind
    /// [`Locked`](crate::ErrorKind::Locked) that names the first.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let path = folder.path().join("events");
    /// let database = Database::open(&path)?;
    /// database.connect()?.execute("CREATE TABLE t AS SELECT 1 AS one")?;
    /// drop(database);
    ///
    /// let again = Database::open(&path)?;
    /// let rows = again.connect()?.query("SELECT one FROM t")?.rows()?;
    /// assert_eq!(rows[0].get::<i64>(0)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, Options::new())
    }

    /// Opens the directory at `path` as `options` say.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let Options { settings, read_only, base } = options;
        let until = Instant::now() + CLOSING_PATIENCE;
        loop {
            match Engine::open(path.as_ref(), OpenOptions { read_only, settings: settings.clone(), base }) {
                Ok(engine) => return Ok(Database { engine }),
                // A reader takes no lock, so this process has the directory open itself: perhaps the last worker of a
                // statement that failed is about to let go of a database that was dropped.
                Err(error) if read_only && error.kind() == ErrorKind::Locked && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// An empty database that lives as long as its handles.
    pub fn memory() -> Result<Database> {
        Database::memory_with(Options::new())
    }

    /// An empty database in memory with settings.
    pub fn memory_with(options: Options) -> Result<Database> {
        Ok(Database { engine: Engine::memory(options.settings)? })
    }

    /// A new connection.
    pub fn connect(&self) -> Result<Connection> {
        Connection::new(Session::new(Arc::clone(&self.engine))?)
    }

    /// The directory, or `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.engine.path()
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.engine.is_read_only()
    }

    /// The engine behind it, for tests that look beneath SQL.
    #[doc(hidden)]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The most bytes of memory that statements held at once.
    pub fn memory_peak_bytes(&self) -> u64 {
        self.engine.broker().peak_bytes()
    }
}

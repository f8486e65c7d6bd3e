//! Opens databases: [`Options`] say how, [`Database`] is the shared handle.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill_base::{ErrorKind, Result, Settings};
use rowmill_sql::{
    AttachedDatabases, Authority, BackgroundJobs, ConnectionList, IdleStatements, MEMORY_PATH, RunningStatement,
    RunningStatements, Session, Workers, no_memory_to_read, query_threads,
};
use rowmill_txn::base::BaseKind;
use rowmill_txn::{Engine, OpenOptions};

use crate::Connection;
use crate::database_load::DatabaseLoad;

/// Opening for reading waits at most this long for this process to close the same directory.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// Options for opening a directory.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Settings,
    read_only: bool,
    base: BaseKind,
}

impl Options {
    /// Opens for reading and writing, with every setting at its default.
    pub fn new() -> Self {
        Options::default()
    }

    /// Opens only for reading, while another process may write. Writes are refused.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Chooses the store of the ordered base for a new directory. An existing directory is opened with the base that it
    /// has. Only builds with the feature `rocksdb` have RocksDB; others must refuse it
    /// ([`Unsupported`](crate::ErrorKind::Unsupported)).
    #[must_use]
    pub fn base(mut self, base: BaseKind) -> Self {
        self.base = base;
        self
    }

    /// Gives a setting a value, as `SET` does. For example: `set("memory_limit", "2GB")`.
    pub fn set(mut self, name: &str, value: &str) -> Result<Self> {
        self.settings.set(name, value)?;
        Ok(self)
    }
}

/// An open database. Clones share it. It closes when the last clone and the last connection are dropped.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) engine: Arc<Engine>,
    /// The threads that run the queries of all connections.
    workers: Arc<Workers>,
    /// The cached statements of closed connections.
    idle: Arc<IdleStatements>,
    running: Arc<RunningStatements>,
    connections: Arc<ConnectionList>,
    attached: Arc<AttachedDatabases>,
    /// `None` in a process that only reads.
    jobs: Option<Arc<BackgroundJobs>>,
}

impl Database {
    fn new(engine: Arc<Engine>) -> Result<Database> {
        let workers = query_threads();
        let jobs = match engine.is_read_only() {
            true => None,
            false => Some(Arc::new(BackgroundJobs::start(&engine, &workers)?)),
        };
        let (idle, running, connections, attached) = Default::default();
        Ok(Database { engine, workers, idle, running, connections, attached, jobs })
    }

    /// Opens the directory at `path`, and makes it if it is absent. The path `:memory:` means a database in memory, as
    /// for SQLite and DuckDB.
    ///
    /// Only one process can have a directory open for writing. A second one gets an error of kind
    /// [`Locked`](crate::ErrorKind::Locked) that names the first.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let path = folder.path().join("events");
    /// let database = Database::open(&path)?;
    /// database.connect()?.execute("CREATE TABLE t AS SELECT 1 AS one", ())?;
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

    /// Opens the directory at `path` with `options`. Returns an error of kind
    /// [`InvalidParameter`](crate::ErrorKind::InvalidParameter) if a database in memory should only be read.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        if path.as_ref() == Path::new(MEMORY_PATH) {
            return if options.read_only { Err(no_memory_to_read()) } else { Database::memory_with(options) };
        }
        let Options { settings, read_only, base } = options;
        let until = Instant::now() + CLOSING_PATIENCE;
        loop {
            match Engine::open(path.as_ref(), OpenOptions { read_only, settings: settings.clone(), base, broker: None })
            {
                Ok(engine) => return Database::new(engine),
                // A reader takes no lock, so this error means that this process itself has the directory open. For
                // example, the last worker of a failed statement may be about to drop its handle of a database that the
                // caller has dropped. So we try again for a while.
                Err(error) if read_only && error.kind() == ErrorKind::Locked && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens an empty database in memory. It lives as long as its handles.
    pub fn memory() -> Result<Database> {
        Database::memory_with(Options::new())
    }

    /// Opens an empty database in memory with `options`.
    pub fn memory_with(options: Options) -> Result<Database> {
        Database::new(Engine::memory(options.settings)?)
    }

    /// Makes a new connection. This is cheap: a connection goes on with the statements that closed ones have prepared,
    /// so a program may open one for each transaction.
    pub fn connect(&self) -> Result<Connection> {
        self.connect_for(Authority::default())
    }

    /// Makes a new connection that acts for `authority`, for example for a client of a server that has logged in. All
    /// other connections may do everything.
    pub fn connect_for(&self, authority: Authority) -> Result<Connection> {
        let session = Session::new(Arc::clone(&self.engine), Arc::clone(&self.workers))?.acting_for(authority);
        let session = session.sharing(&self.attached);
        Connection::new(session.reusing(&self.idle).listed_in(&self.running, &self.connections), self.jobs.clone())
    }

    /// The directory of the database, or `None` for a database in memory.
    pub fn path(&self) -> Option<&Path> {
        self.engine.path()
    }

    /// Whether the database refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.engine.is_read_only()
    }

    /// The engine of this database. Only tests that examine state that SQL does not show should use it.
    #[doc(hidden)]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The statements that the engine runs at the moment, over all connections of this database, the oldest first.
    /// Statements that run as programs (`docs/explain.md`) are not among them.
    pub fn running_statements(&self) -> Vec<RunningStatement> {
        self.running.list()
    }

    /// Cancels a running statement by its number. Returns `false` if no statement with this number runs.
    pub fn cancel_statement(&self, id: u64) -> bool {
        self.running.cancel(id)
    }

    /// The memory of the database at this moment, and the work of its log.
    pub fn load(&self) -> DatabaseLoad {
        DatabaseLoad::of(&self.engine)
    }

    /// The most bytes of memory that statements have held at once.
    pub fn memory_peak_bytes(&self) -> u64 {
        self.engine.broker().peak_bytes()
    }
}

//! Attached databases: other directories that the connections of a database read and write under a name.
//!
//! All connections of a database share the list. Each entry is a whole database of its own, with its own lock, log,
//! recovery and background jobs; only the account of memory is shared. A statement sees each of them in one snapshot:
//!
//! ```text
//! Database ── AttachedDatabases ── AttachedDatabase "sales" ── Engine
//!                                                                 │ snapshot, at the begin of the statement
//! Session ── StatementContext ── DatabaseViews ── DatabaseView "sales"
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Result, nearest};
use rowmill_exec::workers::Workers;
use rowmill_query::catalog::{CatalogRelation, RelationName};
use rowmill_storage::TableSource;
use rowmill_txn::{Engine, Snapshot};

use crate::attached_table::AttachedTable;
use crate::background_jobs::BackgroundJobs;
#[cfg(feature = "sqlite")]
use crate::files::SqliteFile;
use crate::names::{CATALOG, DEFAULT_SCHEMA};
use crate::query_catalog::parsed_view;

/// A database that is attached under a name. It closes when it is detached and no connection uses it.
#[derive(Debug)]
pub(crate) struct AttachedDatabase {
    /// The name in lower case.
    pub(crate) name: String,
    /// The directory or file, as the statement wrote it.
    pub(crate) path: PathBuf,
    pub(crate) content: AttachedContent,
}

/// The content of an attached database.
#[derive(Debug)]
pub(crate) enum AttachedContent {
    /// A database of ours.
    Stored {
        /// `None` if the database is only read. The jobs must end before the engine.
        _jobs: Option<BackgroundJobs>,
        engine: Arc<Engine>,
    },
    /// A database of SQLite, which is only read.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteFile),
}

impl AttachedContent {
    /// Starts the background jobs of a database.
    pub(crate) fn stored(engine: Arc<Engine>, workers: &Arc<Workers>) -> Result<AttachedContent> {
        let jobs = match engine.is_read_only() {
            true => None,
            false => Some(BackgroundJobs::start(&engine, workers)?),
        };
        Ok(AttachedContent::Stored { _jobs: jobs, engine })
    }
}

impl AttachedDatabase {
    /// The engine. Returns an error if the database is not one of ours, because then nothing runs in it.
    pub(crate) fn engine(&self) -> Result<&Arc<Engine>> {
        match &self.content {
            AttachedContent::Stored { engine, .. } => Ok(engine),
            #[cfg(feature = "sqlite")]
            AttachedContent::Sqlite(_) => {
                let what = format!("the database \"{}\" is a file of SQLite, which is only read", self.name);
                Err(Error::new(ErrorKind::ReadOnly, what)
                    .hint(format!("read its tables: SELECT * FROM {}.table", self.name)))
            }
        }
    }

    /// Whether it is only read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.engine().is_err() || self.engine().is_ok_and(|engine| engine.is_read_only())
    }
}

/// The attached databases, in the order in which they were attached.
#[derive(Debug, Default)]
pub struct AttachedDatabases(Mutex<Vec<Arc<AttachedDatabase>>>);

impl AttachedDatabases {
    pub(crate) fn list(&self) -> Vec<Arc<AttachedDatabase>> {
        self.0.lock().clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<AttachedDatabase>> {
        self.0.lock().iter().find(|database| database.name == name).cloned()
    }

    /// Adds a database. Its name must be free.
    pub(crate) fn attach(&self, database: AttachedDatabase) -> Result<()> {
        let mut list = self.0.lock();
        // Another connection may have taken the name while the directory was opened.
        if list.iter().any(|other| other.name == database.name) {
            return Err(name_is_taken(&database.name));
        }
        list.push(Arc::new(database));
        Ok(())
    }

    /// Takes a database out of the list.
    pub(crate) fn detach(&self, name: &str) -> Option<Arc<AttachedDatabase>> {
        let mut list = self.0.lock();
        let at = list.iter().position(|database| database.name == name)?;
        Some(list.remove(at))
    }
}

pub(crate) fn name_is_taken(name: &str) -> Error {
    Error::new(ErrorKind::DuplicateDatabase, format!("there is a database \"{name}\" already"))
        .hint("give it another name: ATTACH 'path' AS name, or DETACH the other one")
}

/// The error for a database that is not attached. `known` are the names of the databases.
pub(crate) fn no_database<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Error {
    let error = Error::new(ErrorKind::UndefinedDatabase, format!("there is no database \"{name}\""));
    let near = nearest(name, known);
    match near.as_slice() {
        [] => error.hint("SHOW DATABASES lists the databases; ATTACH 'path' AS name adds one"),
        near => error.hint(format!("did you mean {}?", near.join(", "))),
    }
}

/// The databases as one statement sees them.
#[derive(Debug)]
pub(crate) struct DatabaseViews {
    /// The name of the database that the statement runs in.
    pub(crate) current: String,
    /// The others.
    pub(crate) others: Vec<DatabaseView>,
}

impl Default for DatabaseViews {
    fn default() -> Self {
        DatabaseViews { current: CATALOG.to_owned(), others: Vec::new() }
    }
}

/// Another database in the snapshot that a statement reads.
#[derive(Debug)]
pub(crate) struct DatabaseView {
    pub(crate) name: String,
    pub(crate) rows: DatabaseRows,
}

/// The rows of another database.
#[derive(Debug)]
pub(crate) enum DatabaseRows {
    /// A snapshot, or the error if the database cannot be read at the moment.
    Stored(Result<Arc<Snapshot>>),
    /// The file, which each scan reads for itself.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteFile),
}

impl DatabaseViews {
    /// Finds a relation of another database.
    pub(crate) fn relation(&self, database: &str, name: &RelationName) -> Result<Option<CatalogRelation>> {
        let Some(view) = self.others.iter().find(|view| view.name == database) else {
            return Err(no_database(database, self.names()));
        };
        view.relation(name)
    }

    /// The names of all databases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.current.as_str()).chain(self.others.iter().map(|view| view.name.as_str()))
    }

    /// The snapshots of all databases that can be read, with their names: first that of the current one, which the
    /// caller gives.
    pub(crate) fn snapshots<'s>(
        &'s self,
        current: &'s Arc<Snapshot>,
    ) -> impl Iterator<Item = (&'s str, &'s Arc<Snapshot>)> {
        let others = self.others.iter().filter_map(|view| match &view.rows {
            DatabaseRows::Stored(Ok(snapshot)) => Some((view.name.as_str(), snapshot)),
            _ => None,
        });
        std::iter::once((self.current.as_str(), current)).chain(others)
    }
}

impl DatabaseView {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        let snapshot = match &self.rows {
            DatabaseRows::Stored(snapshot) => snapshot.as_ref().map_err(Error::clone)?,
            #[cfg(feature = "sqlite")]
            DatabaseRows::Sqlite(file) => {
                let is_main = name.schema.as_deref().is_none_or(|schema| schema == DEFAULT_SCHEMA);
                let table = if is_main { file.table(&name.name)? } else { None };
                return Ok(table.map(|table| CatalogRelation::Source(table)));
            }
        };
        let catalog = snapshot.catalog();
        let Some(schema) = catalog.schema(name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA)) else { return Ok(None) };
        if let Some(table) = catalog.table(schema.id, &name.name) {
            let table = snapshot.table(table.id).expect("a snapshot holds every table of its catalog");
            let table: Arc<dyn TableSource> = Arc::new(AttachedTable::new(table));
            return Ok(Some(CatalogRelation::Table(table)));
        }
        let view = catalog.view(schema.id, &name.name);
        view.map(|view| parsed_view(view).map(CatalogRelation::View)).transpose()
    }
}

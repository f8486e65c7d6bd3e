//! The context of one statement: its snapshot, its settings, and the notices of its queries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Settings};
use rowmill_exec::scan::ScanMetrics;
use rowmill_exec::workers::Workers;
use rowmill_expr::functions::SessionRandom;
use rowmill_storage::spill::TempSpace;
use rowmill_txn::{Engine, SchemaDef, Snapshot, TakenNumbers};

use crate::access::{Access, Authority};
use crate::advisory_locks::ConnectionLocks;
use crate::databases::DatabaseViews;
use crate::files::{FileFolders, ReadOptions, Secrets};
use crate::names::{DEFAULT_SCHEMA, lower};
use crate::open_connections::ConnectionList;
use crate::running_statements::RunningStatements;
use crate::scan_progress::ScanProgress;
use crate::search_path::SearchPath;
use crate::session::{Work, temporary};
use crate::session_objects::SessionObjects;

/// The parameter of a program that each run sets to the value of `now()`.
#[derive(Debug)]
pub(crate) struct ClockParameter {
    /// Its number: that after the parameters of the statement.
    pub(crate) number: usize,
    is_read: AtomicBool,
}

impl ClockParameter {
    pub(crate) fn new(number: usize) -> Self {
        ClockParameter { number, is_read: AtomicBool::new(false) }
    }

    /// Returns the number, for a plan that reads the parameter.
    pub(crate) fn read(&self) -> usize {
        self.is_read.store(true, Ordering::Relaxed);
        self.number
    }

    /// Whether a plan reads the parameter.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }
}

/// The snapshot, the settings and the services that one statement works with.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cancel: Cancel,
    pub(crate) settings: Settings,
    /// The database, for facts beside its rows. The reference is weak because a plan that outlives its statement must
    /// not keep the database open.
    pub(crate) engine: Weak<Engine>,
    /// The threads that run the query.
    pub(crate) workers: Arc<Workers>,
    /// The statements that run on all connections of the database.
    pub(crate) running: Arc<RunningStatements>,
    /// The open connections of the database, and the number of the one that runs the statement.
    pub(crate) connections: Arc<ConnectionList>,
    pub(crate) connection: Option<u64>,
    /// Grants the memory of the engine's operators.
    pub(crate) broker: Broker,
    /// The place of temporary files.
    pub(crate) temp: TempSpace,
    /// Notices of planning, shown beside the result.
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// The tables and functions that the connection has added.
    pub(crate) objects: Arc<SessionObjects>,
    /// What the connection shows to stores of files.
    pub(crate) secrets: Secrets,
    /// The scans of the statement, from which its progress is computed.
    pub(crate) scans: Mutex<Vec<Arc<ScanProgress>>>,
    /// The value of `now()` in this statement: microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
    /// The parameter that plans have in place of `now_us`, if they must serve other transactions too.
    pub(crate) clock: Option<Arc<ClockParameter>>,
    /// The number of the open transaction, or of the statement if none is open.
    pub(crate) transaction_number: i64,
    /// The last numbers that the connection has taken from sequences.
    pub(crate) taken_numbers: Arc<TakenNumbers>,
    /// The random numbers of the connection.
    pub(crate) random: Arc<SessionRandom>,
    /// The advisory locks of the connection.
    pub(crate) locks: Arc<ConnectionLocks>,
    /// Who runs the statement.
    pub(crate) authority: Authority,
    /// The schemas in which bare names are looked up.
    pub(crate) path: Arc<SearchPath>,
    /// The schema of the connection's temporary tables, once it has made one.
    pub(crate) temporary: Option<String>,
    /// The databases that the statement can read.
    pub(crate) databases: Arc<DatabaseViews>,
}

impl StatementContext {
    /// Creates the context of a query of a statement over `snapshot`.
    pub(crate) fn new(work: &Work<'_>, snapshot: Arc<Snapshot>) -> Arc<Self> {
        work.session.note_read(snapshot.commit());
        let (engine, settings) = (work.engine(), work.settings().clone());
        Arc::new(StatementContext {
            snapshot,
            cancel: work.cancel.clone(),
            broker: engine.broker().for_statement(settings.number("statement_memory_limit")),
            temp: engine.temp().clone(),
            engine: Arc::downgrade(engine),
            settings,
            workers: Arc::clone(&work.session.workers),
            running: Arc::clone(work.session.running_statements()),
            connections: Arc::clone(work.session.connections()),
            connection: work.session.connection_number(),
            notices: Arc::clone(work.notices()),
            objects: work.objects(),
            secrets: work.session.secrets().clone(),
            scans: Mutex::default(),
            now_us: work.now_us(),
            clock: work.clock.clone(),
            transaction_number: work.transaction_number(),
            taken_numbers: Arc::clone(work.session.taken_numbers()),
            random: Arc::clone(work.session.random()),
            locks: Arc::clone(work.session.locks()),
            authority: work.session.authority().clone(),
            path: Arc::clone(work.session.search_path()),
            temporary: work.session.known_temporary_schema().map(str::to_owned),
            databases: Arc::clone(&work.databases),
        })
    }

    /// Returns the schema of the connection's temporary tables, if there are any.
    pub(crate) fn temporary_schema(&self) -> Option<&SchemaDef> {
        self.snapshot.catalog().schema(self.temporary.as_deref()?).map(|schema| &**schema)
    }

    /// Returns the schema that a bare name of a relation means: that of a temporary table of this name, the first one
    /// of the search path that has the relation, or else the first one.
    pub(crate) fn schema_of(&self, relation: &str) -> String {
        let default = || DEFAULT_SCHEMA.to_owned();
        let catalog = self.snapshot.catalog();
        if let Some(schema) = self.temporary_schema()
            && catalog.table(schema.id, relation).is_some()
        {
            return lower(&schema.name);
        }
        if self.path.is_default() {
            return default();
        }
        let schemas = self.path.schemas(catalog);
        let has = |schema: &&&SchemaDef| {
            catalog.table(schema.id, relation).is_some() || catalog.view(schema.id, relation).is_some()
        };
        let found = schemas.iter().find(has).or(schemas.first());
        found.map_or_else(default, |schema| lower(&schema.name))
    }

    /// Returns the schema and the name of the relation that a text names, in lower case.
    pub(crate) fn relation_named(&self, text: &str) -> (String, String) {
        let name = lower(&text.replace('"', ""));
        match name.split_once('.') {
            Some((schema, relation)) => {
                let own = self.temporary_schema().filter(|_| schema == temporary::OWN);
                (own.map_or_else(|| schema.to_owned(), |own| lower(&own.name)), relation.to_owned())
            }
            None => (self.schema_of(&name), name),
        }
    }

    /// What the statement may do.
    pub(crate) fn access(&self) -> Access<'_> {
        Access::of(self.snapshot.catalog(), self.authority.actor)
    }

    /// The folders in which the files of the statement must lie.
    pub(crate) fn folders(&self) -> FileFolders {
        if self.access().is_unlimited() { FileFolders::default() } else { self.authority.folders.clone() }
    }

    /// The options of reading files, with what the statement may read.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            cancel: self.cancel.clone(),
            folders: self.folders(),
            secrets: self.secrets.clone(),
            memory: Some(self.broker.clone()),
            ..ReadOptions::default()
        }
    }

    /// Lets `progress` count with `metrics` and makes it a part of the statement's progress.
    pub(crate) fn follow(&self, progress: &Arc<ScanProgress>, metrics: &Arc<ScanMetrics>) {
        if progress.follow(Arc::clone(metrics)) {
            self.scans.lock().push(Arc::clone(progress));
        }
    }
}

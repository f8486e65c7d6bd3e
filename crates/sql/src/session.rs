//! One connection: its settings, its transaction, and the path of a statement through it.
//!
//! Outside of a transaction, a statement reads the last commit or writes in its own transaction. Between `BEGIN` and
//! `COMMIT`, all statements share one transaction. A statement that fails there undoes only its own changes, and the
//! transaction goes on.

mod admission;
mod authority;
mod elsewhere;
mod execution;
mod lost_rows;
mod name_resolution;
pub(crate) mod temporary;
mod write_target;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Isolation, Result, SETTINGS, SettingScope, Settings};
use rowmill_exec::workers::Workers;
use rowmill_expr::functions::SessionRandom;
use rowmill_expr::session_zone::{SessionZone, with_session_zone};
use rowmill_plan::Constant;
use rowmill_program::{ProgramScratch, ResultRows};
use rowmill_query::memory_rows::MemoryRows;
use rowmill_txn::{Engine, KeyedMark, Snapshot, TakenNumbers, Transaction};

use self::elsewhere::SessionDatabases;
pub use self::execution::PlacedOutcome;
use self::lost_rows::LostRows;
use crate::access::Authority;
use crate::advisory_locks::{ConnectionLocks, LockSpan};
use crate::catalog::ClockParameter;
use crate::databases::DatabaseViews;
use crate::deep::with_room;
use crate::dispatch;
use crate::exhausted::naming_statement;
use crate::files::Secrets;
use crate::guards::catch_panics;
use crate::idle_statements::IdleStatements;
use crate::open_connections::{ConnectionEnd, ConnectionGuard, ConnectionList, OpenConnection};
use crate::open_transaction::{OpenTransaction, PROCESS_BEGAN_US, TransactionInfo, next_transaction_number, now_us};
use crate::outcome::{Outcome, ProgressFn, TransactionState};
use crate::parse::{self, Statement};
use crate::running_statements::{ClientInfo, ListedGuard, RunningStatements};
use crate::search_path::SearchPath;
use crate::session_objects::SessionObjects;
use crate::statement::named_statement::NamedStatements;
use crate::statement_cache::{ParsedText, StatementCache};

pub use self::admission::{Admission, AdmissionGuard};

/// One connection to a database. It runs one statement at a time.
pub struct Session {
    engine: Arc<Engine>,
    /// Who runs the statements.
    authority: Authority,
    /// The last temporary file that was made for rows from outside.
    own_file: Option<PathBuf>,
    admission: Option<Arc<dyn Admission>>,
    /// The permit of the statement that runs, or whose result is open.
    permit: Weak<AdmissionGuard>,
    settings: Settings,
    transaction: Option<OpenTransaction>,
    /// The threads that run queries. The connections of a database share them.
    pub(crate) workers: Arc<Workers>,
    running: Arc<Mutex<Cancel>>,
    progress: Option<ProgressFn>,
    notices: Arc<Mutex<Vec<String>>>,
    statements: StatementCache,
    /// Where the statements go when the connection closes.
    idle: Option<Arc<IdleStatements>>,
    /// The statements that run on all connections of the database.
    running_statements: Arc<RunningStatements>,
    /// Who has opened the connection.
    client: Arc<ClientInfo>,
    /// The open connections of the database.
    connections: Arc<ConnectionList>,
    /// The entry of this connection among them, if its host has entered it.
    listed: Option<ConnectionGuard>,
    /// A number that changes with every change of a setting.
    settings_version: u64,
    /// The time zone of the settings; `None` is UTC.
    zone: Option<SessionZone>,
    /// The tables and functions that the connection has added for its own statements.
    pub(crate) objects: Arc<SessionObjects>,
    /// What the connection shows to stores of files.
    secrets: Secrets,
    /// The schema of the connection's temporary tables, once it has made one.
    temporary: Option<String>,
    /// The schemas in which bare names are looked up.
    path: Arc<SearchPath>,
    /// The search path after the open transaction, if `SET LOCAL` has changed it.
    outer_path: Option<Arc<SearchPath>>,
    /// The other databases that statements can name.
    databases: SessionDatabases,
    /// The statements that PREPARE has given a name.
    pub(crate) named_statements: NamedStatements,
    /// The last numbers that the connection has taken from sequences.
    taken_numbers: Arc<TakenNumbers>,
    /// The random numbers of the connection.
    random: Arc<SessionRandom>,
    /// The number of the open transaction while a statement writes in it and therefore holds it.
    writing_number: Option<i64>,
    /// The cancel flag of the programs that have run since the last other statement.
    program_cancel: Option<Cancel>,
    /// Memory that programs reuse from run to run.
    scratch: ProgramScratch,
    rows: ResultRows,
    lost_row: LostRows,
    /// The advisory locks of the connection.
    locks: Arc<ConnectionLocks>,
}

/// The properties that a transaction begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Characteristics {
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
}

/// Cancels the statement that its session runs at that moment. Any thread may hold a handle. A host program should keep
/// one for its interrupt handler.
#[derive(Clone, Debug)]
pub struct CancelHandle(Arc<Mutex<Cancel>>);

impl CancelHandle {
    /// Ends the running statement with an error of kind `Cancelled`. Does nothing if no statement runs.
    pub fn cancel(&self) {
        self.0.lock().cancel();
    }

    /// Whether the statement was cancelled, or its deadline has passed.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().is_cancelled()
    }
}

impl Session {
    /// Creates a connection to `engine` with the settings of the database. Queries run on `workers`, which the
    /// connections of a database share ([`query_threads`](crate::query_threads)).
    pub fn new(engine: Arc<Engine>, workers: Arc<Workers>) -> Result<Session> {
        let settings = engine.settings();
        // The first connection notes the time.
        LazyLock::force(&PROCESS_BEGAN_US);
        Ok(Session {
            engine,
            authority: Authority::default(),
            own_file: None,
            admission: None,
            permit: Weak::new(),
            workers,
            settings,
            transaction: None,
            running: Arc::default(),
            progress: None,
            notices: Arc::default(),
            statements: StatementCache::default(),
            idle: None,
            running_statements: Arc::default(),
            client: Arc::default(),
            connections: Arc::default(),
            listed: None,
            settings_version: 0,
            zone: None,
            objects: Arc::default(),
            secrets: Secrets::default(),
            temporary: None,
            path: Arc::default(),
            outer_path: None,
            databases: SessionDatabases::default(),
            named_statements: NamedStatements::default(),
            taken_numbers: Arc::default(),
            random: Arc::default(),
            writing_number: None,
            program_cancel: None,
            scratch: ProgramScratch::default(),
            rows: ResultRows::default(),
            lost_row: LostRows::default(),
            locks: Arc::new(ConnectionLocks::new(Arc::default())),
        })
    }

    /// Lets the session begin with the statements of a closed connection, and leave its own for a later one. Must be
    /// called before the first statement.
    #[must_use]
    pub fn reusing(mut self, idle: &Arc<IdleStatements>) -> Session {
        self.statements = idle.take(&self.settings, self.authority.actor);
        self.statements.set_settings_version(self.settings_version);
        self.idle = Some(Arc::clone(idle));
        self
    }

    /// Lets the session enter its statements, and itself, into the lists of its database.
    #[must_use]
    pub fn listed_in(mut self, statements: &Arc<RunningStatements>, connections: &Arc<ConnectionList>) -> Session {
        self.running_statements = Arc::clone(statements);
        self.connections = Arc::clone(connections);
        self.locks = Arc::new(ConnectionLocks::new(Arc::clone(connections.locks())));
        self
    }

    /// Notes who has opened the connection, for the list of running statements. If the client has a number, enters the
    /// connection into the list of open connections; `end` then ends it from another thread.
    pub fn set_client(&mut self, client: ClientInfo, end: Option<ConnectionEnd>) -> Option<Arc<OpenConnection>> {
        self.lost_row.set_connection(client.connection);
        self.client = Arc::new(client);
        self.listed = self.connections.enter(Arc::clone(&self.client), self.cancel_handle(), end);
        self.listed.as_ref().map(|listed| Arc::clone(listed.connection()))
    }

    /// Returns the advisory locks of the connection.
    pub(crate) fn locks(&self) -> &Arc<ConnectionLocks> {
        &self.locks
    }

    /// Returns the open connections of the database.
    pub(crate) fn connections(&self) -> &Arc<ConnectionList> {
        &self.connections
    }

    /// Returns the number of the connection, if its host has told it.
    pub(crate) fn connection_number(&self) -> Option<u64> {
        self.client.connection
    }

    /// Notes that the statement that runs reads the state of a commit.
    pub(crate) fn note_read(&self, commit: CommitId) {
        if let Some(listed) = &self.listed {
            listed.connection().reads(commit);
        }
    }

    /// Facts about the open transaction. `None` without one.
    pub fn open_transaction(&self) -> Option<TransactionInfo> {
        self.transaction.as_ref().map(OpenTransaction::info)
    }

    /// Returns the statements that run on all connections of the database.
    pub(crate) fn running_statements(&self) -> &Arc<RunningStatements> {
        &self.running_statements
    }

    /// Parses one or several statements. If one of them cannot be parsed, no statement is returned.
    pub fn parse(&mut self, sql: &str) -> Result<Vec<Statement>> {
        if let Some(ParsedText::Statement(statement)) = self.statements.parsed(sql, self.settings_version) {
            return Ok(vec![statement]);
        }
        let statements = parse::parse(sql, &self.settings)?;
        // We cache only single statements that are likely to run again.
        if let [statement] = statements.as_slice()
            && statement.is_repeated()
        {
            self.statements.keep_statement(sql, statement);
        }
        Ok(statements)
    }

    /// Parses one statement.
    pub fn parse_one(&mut self, sql: &str) -> Result<Statement> {
        let mut statements = self.parse(sql)?;
        match (statements.pop(), statements.len()) {
            (Some(statement), 0) => Ok(statement),
            (None, _) => Err(Error::new(ErrorKind::Syntax, "the text holds no statement")),
            (Some(_), more) => {
                Err(Error::new(ErrorKind::Syntax, format!("one statement is needed here, the text holds {}", more + 1))
                    .hint("execute_batch() and run() take several"))
            }
        }
    }

    /// Runs `statement` in the engine, with values for its parameters. A result with rows is computed while the caller
    /// pulls it.
    pub fn run_in_engine(&mut self, statement: &Statement, params: &[Constant]) -> Result<Outcome> {
        self.until_rows_are_kept(|session| session.run_once_in_engine(statement, params))
    }

    fn run_once_in_engine(&mut self, statement: &Statement, params: &[Constant]) -> Result<Outcome> {
        check_parameters(statement.parameter_count(), params)?;
        let (mut listed, mut permit) = (None, None);
        let ran = self.work_on(statement, params, |work| {
            permit = work.session.admit(statement)?;
            listed = Some(work.enter_list());
            dispatch::run(work)
        });
        let outcome = naming_statement(ran, statement)?;
        let outcome = admission::holding(outcome, permit);
        Ok(match (outcome, listed) {
            // The statement runs until its rows are taken.
            (Outcome::Rows(rows), Some(listed)) => Outcome::Rows(rows.listed(listed)),
            (outcome, _) => outcome,
        })
    }

    /// Runs `work` as this session's work on `statement`. Gives it a new cancel flag and deadline and the stack for its
    /// syntax tree, and turns panics into errors.
    pub(crate) fn work_on<T>(
        &mut self,
        statement: &Statement,
        params: &[Constant],
        work: impl FnOnce(&mut Work<'_>) -> Result<T>,
    ) -> Result<T> {
        let cancel = self.begin_statement();
        let target = self.write_target(statement)?;
        let resolved = self.with_resolved_names(statement, target.as_deref())?;
        let statement = resolved.as_ref().unwrap_or(statement);
        let done = match target {
            None => self.work_here(statement, params, cancel, work),
            Some(target) => self.in_database(&target, |session| session.work_here(statement, params, cancel, work)),
        };
        done.map_err(|error| statement.placed(error))
    }

    /// Runs `work` in the database that the session is in. The names of the statement are resolved.
    fn work_here<T>(
        &mut self,
        statement: &Statement,
        params: &[Constant],
        cancel: Cancel,
        work: impl FnOnce(&mut Work<'_>) -> Result<T>,
    ) -> Result<T> {
        self.check_statement(statement)?;
        if statement.is_repeated() {
            self.begin_in_transaction()?;
        }
        let databases = self.database_views()?;
        let (started, now_us, progress) = (Instant::now(), now_us(), self.progress.clone());
        let mut this = Work {
            session: self,
            statement,
            params,
            cancel,
            started,
            now_us,
            clock: None,
            databases,
            progress,
            objects: None,
        };
        let zone = this.session.zone;
        with_session_zone(zone, || with_room(statement.room_bytes_at_first(), || catch_panics(|| work(&mut this))))
    }

    /// Runs `BEGIN` or `BEGIN READ ONLY`.
    pub fn begin(&mut self, read_only: bool) -> Result<()> {
        self.begin_with(Characteristics { isolation: self.settings.isolation(), read_only })
    }

    pub(crate) fn begin_with(&mut self, characteristics: Characteristics) -> Result<()> {
        if self.transaction.is_some() {
            return Err(Error::new(ErrorKind::ActiveTransaction, "a transaction is open already")
                .hint("end it with COMMIT or ROLLBACK"));
        }
        let Characteristics { isolation, read_only } = characteristics;
        let mut transaction = lost_rows::begin(&self.engine, &self.settings, isolation, None, self.client.connection)?;
        transaction.set_owner(self.authority.owner());
        transaction.note_numbers_in(&self.taken_numbers);
        let mut open = OpenTransaction::new(transaction, read_only);
        open.locks = Some(self.locks.begin());
        self.transaction = Some(open);
        Ok(())
    }

    /// Begins a transaction at an isolation level, or at the level of the settings.
    pub fn begin_at(&mut self, isolation: Option<Isolation>, read_only: bool) -> Result<()> {
        let isolation = isolation.unwrap_or(self.settings.isolation());
        self.begin_with(Characteristics { isolation, read_only })
    }

    /// Runs `SAVEPOINT name`.
    pub fn set_savepoint(&mut self, name: &str) -> Result<()> {
        let open = self.transaction.as_mut().ok_or_else(|| no_transaction("SAVEPOINT"))?;
        open.set_savepoint(name)?;
        self.set_savepoint_elsewhere(name)
    }

    /// Runs `ROLLBACK TO name`.
    pub fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.transaction.as_mut().ok_or_else(|| no_transaction("ROLLBACK TO"))?.rollback_to(name)?;
        self.rollback_elsewhere_to(name);
        Ok(())
    }

    /// Runs `RELEASE name`.
    pub fn release(&mut self, name: &str) -> Result<()> {
        self.transaction.as_mut().ok_or_else(|| no_transaction("RELEASE"))?.release(name)?;
        self.release_elsewhere(name);
        Ok(())
    }

    /// Runs `change` on the open transaction, as one statement without SQL. If it fails, nothing of it remains.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.begin_in_transaction()?;
        self.check_one_database()?;
        let cancel = self.begin_statement();
        let open = self.transaction.as_mut().ok_or_else(|| no_transaction("a change without SQL"))?;
        let transaction = open.for_writing()?;
        transaction.set_cancel(cancel);
        let savepoint = transaction.savepoint();
        let result = catch_panics(|| {
            let value = change(transaction)?;
            transaction.settle_references()?;
            Ok(value)
        });
        if result.is_err() {
            transaction.rollback_to(&savepoint);
        }
        result
    }

    /// Runs `COMMIT`.
    pub fn commit(&mut self) -> Result<()> {
        // The transaction leaves the session before it commits, so that a failed commit does not leave it open.
        let own = self.take_transaction("COMMIT")?;
        self.commit_all(own)
    }

    /// Runs `ROLLBACK`.
    pub fn rollback(&mut self) -> Result<()> {
        self.take_transaction("ROLLBACK")?.rollback();
        self.rollback_elsewhere();
        Ok(())
    }

    /// The search path.
    pub(crate) fn search_path(&self) -> &Arc<SearchPath> {
        &self.path
    }

    /// Sets the search path until the open transaction ends.
    pub(crate) fn set_local_search_path(&mut self, path: SearchPath) {
        self.outer_path.get_or_insert_with(|| Arc::clone(&self.path));
        self.set_search_path(path);
    }

    pub(crate) fn set_search_path(&mut self, path: SearchPath) {
        if *self.path != path {
            // What statements of this connection have made of their texts must not reach another one.
            self.settings_version += 1;
            self.idle = None;
            self.path = Arc::new(path);
        }
    }

    fn take_transaction(&mut self, what: &str) -> Result<OpenTransaction> {
        if let Some(path) = self.outer_path.take() {
            self.set_search_path(SearchPath::clone(&path));
        }
        self.transaction.take().ok_or_else(|| no_transaction(what))
    }

    /// Begins a statement that may be a program. Returns the snapshot that it reads, or `None` if a transaction is
    /// open.
    #[inline]
    fn begin_reading(&mut self) -> Result<Option<Arc<Snapshot>>> {
        self.begin_in_transaction()?;
        self.transaction.is_none().then(|| self.engine.snapshot()).transpose()
    }

    /// Begins a statement in the open transaction, if any. At READ COMMITTED it must see everything that is committed
    /// by now.
    #[inline]
    fn begin_in_transaction(&mut self) -> Result<()> {
        let Some(open) = &mut self.transaction else { return Ok(()) };
        open.is_used = true;
        open.refresh()
    }

    /// Returns the last numbers that the connection has taken from sequences.
    pub(crate) fn taken_numbers(&self) -> &Arc<TakenNumbers> {
        &self.taken_numbers
    }

    /// Returns the random numbers of the connection.
    pub(crate) fn random(&self) -> &Arc<SessionRandom> {
        &self.random
    }

    /// Returns the tables and functions that the connection has added.
    pub(crate) fn objects(&self) -> &Arc<SessionObjects> {
        &self.objects
    }

    /// Forgets what the connection shows to stores of files.
    pub fn drop_secrets(&mut self) {
        self.secrets.clear();
    }

    /// Returns what the connection shows to stores of files.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Changes the tables and functions that the connection has added.
    pub(crate) fn change_objects<T>(&mut self, change: impl FnOnce(&mut SessionObjects) -> T) -> T {
        // Plans hold what their names meant. Plans of this connection must never reach another one.
        self.settings_version += 1;
        self.idle = None;
        change(Arc::make_mut(&mut self.objects))
    }

    /// Whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Returns a number that changes with every change of a setting of this connection.
    pub(crate) fn settings_version(&self) -> u64 {
        self.settings_version
    }

    /// Returns the cache of statements, plans and programs.
    pub(crate) fn statements(&mut self) -> &mut StatementCache {
        &mut self.statements
    }

    /// Returns a handle with which other threads can cancel the statement that runs at that moment.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(Arc::clone(&self.running))
    }

    /// Calls `report` with the progress of every later statement.
    pub fn set_progress(&mut self, report: Option<ProgressFn>) {
        self.progress = report;
    }

    /// Whether a transaction is open.
    pub fn transaction_state(&self) -> TransactionState {
        if self.transaction.is_some() { TransactionState::Active } else { TransactionState::Idle }
    }

    /// Returns the notices of all statements since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock())
    }

    /// Returns the database of the connection.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the settings as this connection sees them.
    pub fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// The time zone in which the results of the session show instants; `None` is UTC.
    pub fn zone(&self) -> Option<SessionZone> {
        self.zone
    }

    /// Takes the zone of the settings over.
    fn note_zone(&mut self) -> Result<()> {
        self.zone = self.settings.time_zone().map(SessionZone::of).transpose()?;
        Ok(())
    }

    /// Runs `run` on the texts of this session, which are read in its time zone.
    #[inline]
    fn in_zone<T>(&mut self, run: impl FnOnce(&mut Session) -> T) -> T {
        match self.zone {
            None => run(self),
            zone => with_session_zone(zone, || run(self)),
        }
    }

    /// Copies the settings that other connections have changed for the whole database.
    fn refresh_settings(&mut self) {
        let shared = self.engine.settings();
        for setting in SETTINGS.iter().filter(|setting| setting.scope == SettingScope::Database) {
            // `copy` tells whether the value changed. Only then must cached plans be dropped.
            let copied = self.settings.copy(setting.name, &shared);
            if copied.expect("the name comes from the table of settings") {
                self.settings_version += 1;
            }
        }
    }

    /// Begins a program. Returns a new cancel flag with its deadline running, or `None` if the flag of the last program
    /// is still good: without a deadline, programs share one flag, because making one takes time.
    #[inline]
    fn begin_program(&mut self) -> Option<Cancel> {
        if self.program_cancel.as_ref().is_some_and(|cancel| !cancel.is_cancelled()) {
            return None;
        }
        let cancel = self.begin_statement();
        if cancel.remaining().is_none() {
            // A flag with a deadline serves only one program, because the deadline runs.
            self.program_cancel = Some(cancel.clone());
        }
        Some(cancel)
    }

    /// Begins a statement. Returns its cancel flag, with its deadline running.
    fn begin_statement(&mut self) -> Cancel {
        self.program_cancel = None;
        self.refresh_settings();
        let cancel = Cancel::new();
        let limit_ms = self.settings.number("statement_timeout_ms");
        if limit_ms > 0 {
            cancel.set_deadline(Duration::from_millis(limit_ms));
        }
        // From now on a cancel handle reaches this statement and no longer the previous one.
        *self.running.lock() = cancel.clone();
        cancel
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close_temporary();
        self.close_elsewhere();
        self.locks.give_all_up(LockSpan::Session);
        // Statements that were made before the last change of a setting serve no settings that we still know.
        if let Some(idle) = &self.idle
            && self.statements.settings_version() == self.settings_version
        {
            idle.give_back(self.settings.clone(), self.authority.actor, std::mem::take(&mut self.statements));
        }
    }
}

fn check_parameters(wanted: usize, params: &[Constant]) -> Result<()> {
    if params.len() == wanted {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::CardinalityViolation,
        format!("the statement takes {wanted} parameters, but {} values were given", params.len()),
    ))
}

/// One statement that runs, with everything that its code may use.
pub(crate) struct Work<'w> {
    pub(crate) session: &'w mut Session,
    pub(crate) statement: &'w Statement,
    pub(crate) params: &'w [Constant],
    pub(crate) cancel: Cancel,
    pub(crate) started: Instant,
    /// The time of the statement's begin, in microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
    /// The parameter that plans have in place of the time, if they must serve other transactions too.
    pub(crate) clock: Option<Arc<ClockParameter>>,
    /// The databases that the statement can read.
    pub(crate) databases: Arc<DatabaseViews>,
    progress: Option<ProgressFn>,
    /// The connection's tables and functions, with the rows of the statement's parts that have run.
    objects: Option<SessionObjects>,
}

impl Work<'_> {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.session.engine
    }

    /// The tables and functions that names mean besides those of the catalog.
    pub(crate) fn objects(&self) -> Arc<SessionObjects> {
        match &self.objects {
            Some(objects) => Arc::new(objects.clone()),
            None => Arc::clone(self.session.objects()),
        }
    }

    /// Lets later parts of the statement read `rows` under a name.
    pub(crate) fn show_part(&mut self, name: &str, rows: Arc<MemoryRows>) {
        self.objects.get_or_insert_with(|| (*self.session.objects).clone()).show_part(name, rows);
    }

    /// Makes it an error that a later part of the statement reads the part of this name, which returns no rows.
    pub(crate) fn hide_part(&mut self, name: &str) {
        self.objects.get_or_insert_with(|| (*self.session.objects).clone()).hide_part(name);
    }

    /// Runs `plan` with the stack that planning this statement may take.
    pub(crate) fn with_planning_room<T>(&self, plan: impl FnOnce() -> T) -> T {
        with_room(self.statement.room_bytes(), plan)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.session.settings
    }

    pub(crate) fn notices(&self) -> &Arc<Mutex<Vec<String>>> {
        &self.session.notices
    }

    pub(crate) fn progress(&self) -> Option<&ProgressFn> {
        self.progress.as_ref()
    }

    /// Enters the statement into the list of its database, which also follows its progress from now on.
    fn enter_list(&mut self) -> ListedGuard {
        let Session { running_statements, client, .. } = &*self.session;
        let listed = running_statements.enter(client, self.statement.shared_text(), self.now_us, &self.cancel);
        self.progress = Some(listed.progress(self.progress.take()));
        listed
    }

    /// Returns the value of `now()`, in microseconds since 1970-01-01 UTC: the begin of the open transaction, or of the
    /// statement if none is open.
    pub(crate) fn now_us(&self) -> i64 {
        self.session.transaction.as_ref().map_or(self.now_us, |open| open.began_us)
    }

    /// Returns the number of the open transaction, or a new one if none is open.
    pub(crate) fn transaction_number(&self) -> i64 {
        let open = self.session.transaction.as_ref().map(|open| open.number);
        open.or(self.session.writing_number).unwrap_or_else(next_transaction_number)
    }

    /// Adds a notice that the user should see beside the result.
    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.session.notices.lock().push(text.into());
    }

    /// Returns the snapshot that a reading statement sees: the last commit, or the view of the open transaction.
    pub(crate) fn view(&mut self) -> Result<Arc<Snapshot>> {
        match &mut self.session.transaction {
            Some(open) => {
                let transaction = open.settled()?;
                transaction.set_cancel(self.cancel.clone());
                transaction.view()
            }
            None => self.session.engine.snapshot(),
        }
    }

    /// Runs `change` in the open transaction, or in its own transaction, which commits if it succeeds. If it fails,
    /// nothing of it remains. Inside `change` the current view is `transaction.view()`; [`Work::view`] must not be
    /// used, because the session does not hold the transaction then.
    pub(crate) fn write<T>(&mut self, change: impl FnOnce(&mut Self, &mut Transaction) -> Result<T>) -> Result<T> {
        if self.session.engine.is_read_only() {
            return Err(self.session.read_only_error());
        }
        if let Some(open) = &mut self.session.transaction {
            open.for_writing()?;
            self.session.check_one_database()?;
        }
        match self.session.transaction.take() {
            Some(mut open) => {
                open.is_used = true;
                self.session.writing_number = Some(open.number);
                let result = self.write_in(&mut open, change);
                self.session.writing_number = None;
                self.session.transaction = Some(open);
                result
            }
            None => {
                let Session { engine, settings, lost_row, .. } = &mut *self.session;
                let mut transaction = lost_row.begin_own(engine, settings)?;
                transaction.set_owner(self.session.authority.owner());
                transaction.note_numbers_in(&self.session.taken_numbers);
                transaction.set_cancel(self.cancel.clone());
                // Dropping the transaction after an error rolls it back.
                let value = change(self, &mut transaction)?;
                transaction.settle_references()?;
                self.session.lost_row.keep_rows(&mut transaction, KeyedMark::default())?;
                transaction.commit()?;
                Ok(value)
            }
        }
    }

    /// Runs `change` as a statement of the open transaction.
    fn write_in<T>(
        &mut self,
        open: &mut OpenTransaction,
        change: impl FnOnce(&mut Self, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let transaction = open.settled()?;
        transaction.set_cancel(self.cancel.clone());
        // A statement that fails must leave no trace, so it can be undone to this point.
        let savepoint = transaction.savepoint();
        // A panic must not lose the transaction. Otherwise each later statement would commit on its own, and the user
        // could no longer roll back.
        let result = catch_panics(|| {
            let value = change(self, transaction)?;
            // Foreign keys are checked at the end of the statement. Then its rows may refer to each other in any order.
            transaction.settle_references()?;
            self.session.lost_row.keep_rows(transaction, savepoint.keyed_mark())?;
            Ok(value)
        });
        if result.is_err() {
            transaction.rollback_to(&savepoint);
        }
        result
    }

    /// Claims the rows that the statement has locked in the open transaction, if the transaction waits for rows.
    pub(crate) fn keep_locked_rows(&mut self) -> Result<()> {
        let Session { transaction, lost_row, .. } = &mut *self.session;
        let Some(open) = transaction else { return Ok(()) };
        let transaction = open.settled()?;
        let mark = transaction.keyed_mark();
        lost_row.keep_rows(transaction, mark)
    }

    /// Runs `COMMIT`.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let cancel = self.cancel.clone();
        // If rows of earlier statements cannot be inserted, the commit below fails with that error.
        if let Some(Ok(transaction)) = self.session.transaction.as_mut().map(OpenTransaction::settled) {
            transaction.set_cancel(cancel);
        }
        self.session.commit()
    }

    /// Returns the open transaction, without which `what` cannot run.
    pub(crate) fn open_transaction(&mut self, what: &str) -> Result<&mut OpenTransaction> {
        self.session.transaction.as_mut().ok_or_else(|| no_transaction(what))
    }

    /// Sets a setting to the value that `text` gives.
    pub(crate) fn set(&mut self, name: &str, text: &str) -> Result<()> {
        match Settings::describe(name)?.scope {
            SettingScope::Database => {
                self.session.require_superuser(&format!("SET {name}"))?;
                self.session.engine.set(name, text)?;
            }
            SettingScope::Connection => self.session.settings.set(name, text)?,
        }
        self.session.settings_version += 1;
        self.session.refresh_settings();
        self.session.note_zone()
    }

    /// Sets a setting of the connection to the value that the database was opened with.
    pub(crate) fn reset_setting(&mut self, name: &str) -> Result<()> {
        let setting = Settings::describe(name)?;
        if setting.scope == SettingScope::Database {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the setting {} belongs to the database and keeps the value it was given", setting.name),
            )
            .hint("SET gives it another"));
        }
        let opened = self.session.engine.settings();
        self.session.settings_version += 1;
        self.session.settings.copy(name, &opened)?;
        self.session.note_zone()
    }
}

fn no_transaction(what: &str) -> Error {
    Error::new(ErrorKind::NoActiveTransaction, format!("{what} without an open transaction"))
        .hint("a transaction starts with BEGIN")
}

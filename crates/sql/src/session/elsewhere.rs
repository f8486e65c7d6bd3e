//! The databases of a session besides the one that it works in.
//!
//! A session works in one database at a time: at first in its own, after `USE name` in an attached one. A statement
//! that writes to another database works there for as long as it runs. For each database that it does not work in at
//! the moment, the session keeps what belongs to that database: its engine, its transaction, its temporary tables and
//! the statements that were planned for it.
//!
//! ```text
//! INSERT INTO sales.t SELECT * FROM u       session: rowmill     elsewhere: sales
//!   enter sales                             session: sales       elsewhere: rowmill
//!   INSERT INTO t SELECT * FROM rowmill.main.u
//!   leave                                   session: rowmill     elsewhere: sales
//! ```
//!
//! Within BEGIN and COMMIT each database that a statement reads or writes has its own transaction. Only one of them may
//! change anything, because no two logs commit in one step.

use std::mem;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_txn::{Engine, Snapshot, TakenNumbers, Transaction};

use super::lost_rows::LostRows;
use super::{Characteristics, Session};
use crate::access::Authority;
#[cfg(feature = "sqlite")]
use crate::databases::AttachedContent;
use crate::databases::{AttachedDatabase, AttachedDatabases, DatabaseRows, DatabaseView, DatabaseViews, no_database};
use crate::names::CATALOG;
use crate::open_transaction::OpenTransaction;
use crate::search_path::SearchPath;
use crate::statement_cache::StatementCache;

/// The databases of a session.
#[derive(Default)]
pub(super) struct SessionDatabases {
    /// The attached databases, which all connections share.
    attached: Arc<AttachedDatabases>,
    /// The database that the session works in, unless it is its own.
    current: Option<Arc<AttachedDatabase>>,
    /// The state in the other databases that the session has used.
    elsewhere: Vec<DatabaseState>,
    /// The databases as a statement sees them if none is attached.
    alone: Arc<DatabaseViews>,
}

/// What belongs to a database that the session does not work in at the moment.
struct DatabaseState {
    /// `None` for the session's own database.
    attached: Option<Arc<AttachedDatabase>>,
    engine: Arc<Engine>,
    authority: Authority,
    transaction: Option<OpenTransaction>,
    temporary: Option<String>,
    statements: StatementCache,
    taken_numbers: Arc<TakenNumbers>,
    lost_row: LostRows,
}

impl DatabaseState {
    fn new(database: Arc<AttachedDatabase>) -> Result<DatabaseState> {
        Ok(DatabaseState {
            engine: Arc::clone(database.engine()?),
            attached: Some(database),
            // Only superusers come here. The roles of one database mean nothing in another.
            authority: Authority::default(),
            transaction: None,
            temporary: None,
            statements: StatementCache::default(),
            taken_numbers: Arc::default(),
            lost_row: LostRows::default(),
        })
    }

    /// Begins a transaction, unless one is open. The advisory locks stay with the first transaction of the session.
    fn begin(&mut self, characteristics: Characteristics) -> Result<()> {
        if self.transaction.is_none() {
            let mut transaction = self.engine.begin()?;
            transaction.set_isolation(characteristics.isolation);
            transaction.set_owner(self.authority.owner());
            transaction.note_numbers_in(&self.taken_numbers);
            self.transaction = Some(OpenTransaction::new(transaction, characteristics.read_only));
        }
        Ok(())
    }

    fn name(&self) -> &str {
        self.attached.as_ref().map_or(CATALOG, |database| &database.name)
    }
}

impl SessionDatabases {
    /// Whether the session can name its own database only.
    fn is_alone(&self) -> bool {
        self.current.is_none() && self.elsewhere.is_empty() && self.attached.is_empty()
    }
}

impl Session {
    /// Lets the session use the attached databases of its database.
    #[must_use]
    pub fn sharing(mut self, attached: &Arc<AttachedDatabases>) -> Session {
        self.databases.attached = Arc::clone(attached);
        self
    }

    pub(crate) fn attached(&self) -> &Arc<AttachedDatabases> {
        &self.databases.attached
    }

    /// The name of the database that the session works in.
    pub(crate) fn database_name(&self) -> &str {
        self.databases.current.as_ref().map_or(CATALOG, |database| &database.name)
    }

    /// The engine of the session's own database.
    pub(crate) fn own_engine(&self) -> &Arc<Engine> {
        let own = self.databases.elsewhere.iter().find(|state| state.attached.is_none());
        own.map_or(&self.engine, |state| &state.engine)
    }

    /// The names of the databases that the session can use besides the one that it works in.
    pub(crate) fn other_databases(&self) -> Vec<String> {
        if self.databases.is_alone() {
            return Vec::new();
        }
        let attached = self.databases.attached.list();
        let names = std::iter::once(CATALOG).chain(attached.iter().map(|database| database.name.as_str()));
        names.filter(|name| *name != self.database_name()).map(str::to_owned).collect()
    }

    /// Forgets what the session keeps of databases that were detached.
    fn forget_detached(&mut self) {
        let attached = &self.databases.attached;
        let is_current = |state: &DatabaseState| match &state.attached {
            None => true,
            // A transaction keeps its database until it ends.
            Some(database) => {
                state.transaction.is_some()
                    || attached.named(&database.name).is_some_and(|named| Arc::ptr_eq(&named, database))
            }
        };
        self.databases.elsewhere.retain(is_current);
    }

    /// Returns the place of the state in another database.
    fn state_in(&mut self, name: &str) -> Result<usize> {
        self.forget_detached();
        if let Some(at) = self.databases.elsewhere.iter().position(|state| state.name() == name) {
            return Ok(at);
        }
        let Some(database) = self.databases.attached.named(name) else {
            return Err(no_database(name, self.other_databases().iter().map(String::as_str)));
        };
        let state = DatabaseState::new(database)?;
        // Statements may name other databases from now on, so those of this session must not reach another one.
        self.idle = None;
        self.databases.elsewhere.push(state);
        Ok(self.databases.elsewhere.len() - 1)
    }

    /// Exchanges the state of the database that the session works in with that at a place. Then the state there is that
    /// of the database that the session has left.
    fn exchange(&mut self, at: usize) {
        let state = &mut self.databases.elsewhere[at];
        mem::swap(&mut self.databases.current, &mut state.attached);
        mem::swap(&mut self.engine, &mut state.engine);
        mem::swap(&mut self.authority, &mut state.authority);
        mem::swap(&mut self.transaction, &mut state.transaction);
        mem::swap(&mut self.temporary, &mut state.temporary);
        mem::swap(&mut self.statements, &mut state.statements);
        mem::swap(&mut self.taken_numbers, &mut state.taken_numbers);
        mem::swap(&mut self.lost_row, &mut state.lost_row);
    }

    /// Goes to another database, and opens a transaction there if one is open here.
    fn go_to(&mut self, name: &str) -> Result<()> {
        let at = self.state_in(name)?;
        if let Some(open) = &self.transaction {
            self.databases.elsewhere[at].begin(characteristics(open))?;
        }
        self.exchange(at);
        Ok(())
    }

    /// Runs `work` in another database.
    pub(super) fn in_database<T>(&mut self, name: &str, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let left = self.database_name().to_owned();
        self.go_to(name)?;
        let done = work(self);
        let back = self.databases.elsewhere.iter().position(|state| state.name() == left);
        self.exchange(back.expect("the database that was left has a state"));
        done
    }

    /// Runs `USE name` of another database.
    pub(crate) fn use_database(&mut self, name: &str) -> Result<()> {
        if name == self.database_name() {
            return Ok(());
        }
        self.go_to(name)?;
        self.settings_version += 1;
        self.path = Arc::new(SearchPath::default());
        Ok(())
    }

    /// Returns an error if the session works in a database, or has a transaction there.
    pub(crate) fn check_not_used(&self, name: &str) -> Result<()> {
        let in_use = |what: &str, help: &str| {
            Err(Error::new(ErrorKind::DependentObjects, format!("{what} the database \"{name}\"")).hint(help))
        };
        if self.database_name() == name {
            return in_use("the session works in", "USE rowmill first");
        }
        let state = self.databases.elsewhere.iter().find(|state| state.name() == name);
        match state {
            Some(state) if state.transaction.is_some() => {
                in_use("the open transaction reads", "end it with COMMIT or ROLLBACK")
            }
            _ => Ok(()),
        }
    }

    /// Closes what the session keeps of a database that was detached.
    pub(crate) fn leave_detached(&mut self, name: &str) {
        if let Some(at) = self.databases.elsewhere.iter().position(|state| state.name() == name) {
            self.exchange(at);
            self.close_temporary();
            self.exchange(at);
            self.databases.elsewhere.remove(at);
        }
    }

    /// Drops the temporary tables in all databases, when the session ends.
    pub(super) fn close_elsewhere(&mut self) {
        for at in 0..self.databases.elsewhere.len() {
            self.exchange(at);
            self.close_temporary();
        }
    }

    /// Returns the databases as the next statement sees them: each in its last commit, or in the view of the open
    /// transaction.
    pub(super) fn database_views(&mut self) -> Result<Arc<DatabaseViews>> {
        if self.databases.is_alone() {
            return Ok(Arc::clone(&self.databases.alone));
        }
        let names = self.other_databases();
        let mut others = Vec::with_capacity(names.len());
        for name in names {
            let rows = self.rows_of(&name);
            others.push(DatabaseView { name, rows });
        }
        Ok(Arc::new(DatabaseViews { current: self.database_name().to_owned(), others }))
    }

    fn rows_of(&mut self, name: &str) -> DatabaseRows {
        #[cfg(feature = "sqlite")]
        if let Some(database) = self.databases.attached.named(name)
            && let AttachedContent::Sqlite(file) = &database.content
        {
            return DatabaseRows::Sqlite(file.clone());
        }
        // A database that cannot be read is an error only of the statements that read it.
        DatabaseRows::Stored(self.snapshot_of(name))
    }

    fn snapshot_of(&mut self, name: &str) -> Result<Arc<Snapshot>> {
        let at = self.state_in(name)?;
        let open = self.transaction.as_ref().map(characteristics);
        let state = &mut self.databases.elsewhere[at];
        let Some(characteristics) = open else { return state.engine.snapshot() };
        state.begin(characteristics)?;
        let transaction = state.transaction.as_mut().expect("it is open from here on");
        transaction.refresh()?;
        transaction.settled()?.view()
    }

    /// The name of another database that the open transaction has changed.
    pub(crate) fn changed_elsewhere(&self) -> Option<&str> {
        let changed = |state: &&DatabaseState| state.transaction.as_ref().is_some_and(OpenTransaction::has_changes);
        self.databases.elsewhere.iter().find(changed).map(DatabaseState::name)
    }

    /// Returns an error if the open transaction has changed another database.
    pub(crate) fn check_one_database(&self) -> Result<()> {
        let Some(other) = self.changed_elsewhere() else { return Ok(()) };
        let what = format!(
            "the transaction has changed the database \"{other}\", so it cannot change \"{}\" as well",
            self.database_name()
        );
        Err(Error::new(ErrorKind::Unsupported, what).hint("a transaction writes one database: COMMIT first"))
    }

    /// The error for a write to the database that the session works in, if it is open for reading only.
    pub(super) fn read_only_error(&self) -> Error {
        match &self.databases.current {
            None => Error::new(ErrorKind::ReadOnly, "the database is open for reading only")
                .hint("open it without --read-only"),
            Some(database) => {
                let what = format!("the database \"{}\" is attached for reading only", database.name);
                Error::new(ErrorKind::ReadOnly, what).hint("attach it without READ_ONLY")
            }
        }
    }

    /// Takes the transactions in the other databases.
    fn take_elsewhere(&mut self) -> Vec<OpenTransaction> {
        self.databases.elsewhere.iter_mut().filter_map(|state| state.transaction.take()).collect()
    }

    /// Commits the transactions of all databases. `own` is that of the database that the session works in.
    pub(super) fn commit_all(&mut self, own: OpenTransaction) -> Result<()> {
        let mut all = self.take_elsewhere();
        all.push(own);
        // Others must see the changes when they get the locks.
        let locks: Vec<_> = all.iter_mut().map(|open| open.locks.take()).collect();
        let settled = all.into_iter().map(OpenTransaction::into_settled).collect::<Result<Vec<Transaction>>>();
        let committed = settled.and_then(|mut all| {
            // The one with changes comes last: if another one fails its validation, nothing is committed.
            all.sort_by_key(|transaction| !transaction.is_empty());
            all.into_iter().try_for_each(|transaction| transaction.commit().map(|_| ()))
        });
        drop(locks);
        committed
    }

    /// Ends the transactions in the other databases without their changes.
    pub(super) fn rollback_elsewhere(&mut self) {
        self.take_elsewhere().into_iter().for_each(OpenTransaction::rollback);
    }

    /// Runs `SAVEPOINT name` in the other databases.
    pub(super) fn set_savepoint_elsewhere(&mut self, name: &str) -> Result<()> {
        let mut open = self.databases.elsewhere.iter_mut().filter_map(|state| state.transaction.as_mut());
        open.try_for_each(|transaction| transaction.set_savepoint(name))
    }

    /// Runs `ROLLBACK TO name` in the other databases. A transaction that began after the savepoint ends.
    pub(super) fn rollback_elsewhere_to(&mut self, name: &str) {
        for state in &mut self.databases.elsewhere {
            let undone = state.transaction.as_mut().map(|transaction| transaction.rollback_to(name));
            if let Some(Err(_)) = undone {
                state.transaction = None;
            }
        }
    }

    /// Runs `RELEASE name` in the other databases.
    pub(super) fn release_elsewhere(&mut self, name: &str) {
        for transaction in self.databases.elsewhere.iter_mut().filter_map(|state| state.transaction.as_mut()) {
            // A transaction that began after the savepoint has none of this name.
            let _ = transaction.release(name);
        }
    }
}

fn characteristics(open: &OpenTransaction) -> Characteristics {
    Characteristics { isolation: open.info().isolation, read_only: open.read_only }
}

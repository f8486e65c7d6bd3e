//! The connections that are open, over all hosts of a database, with what each of them does at the moment.
//!
//! A host, for example a server, enters a connection with [`ConnectionList::enter`] and tells when a statement begins
//! and when the connection waits for its client again. Connections of programs that use the library are not in the
//! list.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rowmill_base::CommitId;

use crate::advisory_locks::AdvisoryLocks;
use crate::open_transaction::now_us;
use crate::running_statements::ClientInfo;
use crate::session::CancelHandle;

/// Ends a connection from another thread.
pub type ConnectionEnd = Arc<dyn Fn() + Send + Sync>;

/// The list of one database.
#[derive(Debug, Default)]
pub struct ConnectionList {
    by_number: Mutex<BTreeMap<u64, Arc<OpenConnection>>>,
    /// How many connections have been entered since the database was opened.
    entered: AtomicU64,
    /// The advisory locks of all connections.
    locks: Arc<AdvisoryLocks>,
}

/// An open connection. It leaves the list when its [`ConnectionGuard`] is dropped.
pub struct OpenConnection {
    /// The number by which its host knows it. PostgreSQL's clients call it the process.
    pub number: u64,
    /// Who uses it.
    pub client: Arc<ClientInfo>,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub began_us: i64,
    cancel: CancelHandle,
    end: Option<ConnectionEnd>,
    now: Mutex<ConnectionActivity>,
}

/// What a connection does at the moment. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug)]
pub struct ConnectionActivity {
    /// Whether it runs a statement, or waits for its client.
    pub state: ConnectionState,
    /// The text of the statement that runs, or of the last one.
    pub text: Arc<str>,
    /// When the statement began. `None` before the first one.
    pub statement_us: Option<i64>,
    /// When the open transaction began. A statement that runs without one is a transaction of its own.
    pub transaction_us: Option<i64>,
    /// When `state` changed.
    pub changed_us: i64,
    /// The name that the client has given to its program.
    pub application: Arc<str>,
    /// Something other than the client that it waits for.
    pub waits_for: Option<WaitReason>,
    /// The commit whose state the open transaction reads.
    pub reads: Option<CommitId>,
}

/// Whether a connection works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// It waits for its client, without a transaction.
    Idle,
    /// It runs a statement.
    Active,
    /// It waits for its client, with an open transaction.
    InTransaction,
    /// It waits for its client, with an open transaction in which a statement has failed.
    InFailedTransaction,
}

/// What a statement that runs waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A row that another open transaction has written.
    Row,
    /// Its turn, because the server runs as many statements as it may.
    Turn,
}

/// Keeps a connection in the list.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    list: Arc<ConnectionList>,
    connection: Arc<OpenConnection>,
}

impl ConnectionState {
    /// The name that PostgreSQL has for it.
    pub fn name(self) -> &'static str {
        match self {
            ConnectionState::Idle => "idle",
            ConnectionState::Active => "active",
            ConnectionState::InTransaction => "idle in transaction",
            ConnectionState::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

impl WaitReason {
    /// The kind and the name of the reason, in PostgreSQL's words as far as it has them.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            WaitReason::Row => ("Lock", "transactionid"),
            WaitReason::Turn => ("Extension", "running_statements"),
        }
    }
}

impl ConnectionList {
    /// The advisory locks of all connections of the database.
    pub(crate) fn locks(&self) -> &Arc<AdvisoryLocks> {
        &self.locks
    }

    /// The open connections, by their numbers.
    pub fn all(&self) -> Vec<Arc<OpenConnection>> {
        self.by_number.lock().values().cloned().collect()
    }

    /// The connection with a number.
    pub fn find(&self, number: u64) -> Option<Arc<OpenConnection>> {
        self.by_number.lock().get(&number).cloned()
    }

    /// How many connections have been entered since the database was opened.
    pub(crate) fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }

    /// Enters a connection. Without a number it is not entered.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: Arc<ClientInfo>,
        cancel: CancelHandle,
        end: Option<ConnectionEnd>,
    ) -> Option<ConnectionGuard> {
        let (number, began_us) = (client.connection?, now_us());
        let now = ConnectionActivity {
            state: ConnectionState::Idle,
            text: "".into(),
            statement_us: None,
            transaction_us: None,
            changed_us: began_us,
            application: "".into(),
            waits_for: None,
            reads: None,
        };
        let connection = Arc::new(OpenConnection { number, client, began_us, cancel, end, now: Mutex::new(now) });
        self.by_number.lock().insert(number, Arc::clone(&connection));
        self.entered.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionGuard { list: Arc::clone(self), connection })
    }
}

impl OpenConnection {
    /// What the connection does at the moment.
    pub(crate) fn activity(&self) -> ConnectionActivity {
        self.now.lock().clone()
    }

    /// Cancels the statement that runs.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Ends the connection; its open transaction is rolled back. A connection whose host cannot end it only loses its
    /// statement.
    pub fn end(&self) {
        if let Some(end) = &self.end {
            end();
        }
        self.cancel.cancel();
    }

    /// Notes that a statement begins, and since when the transaction is open in which it runs.
    pub fn begins(&self, text: Arc<str>, transaction_us: Option<i64>) {
        let begins_us = now_us();
        let mut now = self.now.lock();
        if now.state != ConnectionState::Active {
            (now.state, now.changed_us) = (ConnectionState::Active, begins_us);
        }
        now.text = text;
        now.statement_us = Some(begins_us);
        now.transaction_us = transaction_us.or(Some(begins_us));
    }

    /// Notes that the connection waits for its client, since when its transaction is open, and what that reads.
    pub fn rests(&self, state: ConnectionState, transaction_us: Option<i64>, reads: Option<CommitId>) {
        let mut now = self.now.lock();
        if now.state != state {
            (now.state, now.changed_us) = (state, now_us());
        }
        now.transaction_us = transaction_us;
        now.reads = reads;
    }

    /// Notes that the statement that runs reads the state of a commit.
    pub(crate) fn reads(&self, commit: CommitId) {
        self.now.lock().reads = Some(commit);
    }

    /// Notes the name of the client's program.
    pub fn set_application(&self, name: &str) {
        self.now.lock().application = name.into();
    }

    /// Notes that the connection waits for something while `wait` runs.
    pub(crate) fn waiting<T>(&self, reason: WaitReason, wait: impl FnOnce() -> T) -> T {
        self.now.lock().waits_for = Some(reason);
        let value = wait();
        self.now.lock().waits_for = None;
        value
    }
}

impl fmt::Debug for OpenConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenConnection").field("number", &self.number).field("now", &self.now).finish_non_exhaustive()
    }
}

impl ConnectionGuard {
    pub(crate) fn connection(&self) -> &Arc<OpenConnection> {
        &self.connection
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut connections = self.list.by_number.lock();
        // Another connection may have the number by now.
        if connections.get(&self.connection.number).is_some_and(|listed| Arc::ptr_eq(listed, &self.connection)) {
            connections.remove(&self.connection.number);
        }
    }
}

//! Transactions as guards: dropping one that was not committed rolls it back.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rowmill_base::{ErrorKind, Isolation, Result};
use rowmill_sql::TransactionState;

use crate::Connection;

/// [`Connection::transact`] runs a transaction at most this number of times.
const ATTEMPTS_MAX: u32 = 10;

/// The pause before the second attempt, at most. It doubles with each attempt.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// How a transaction begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    isolation: Option<Isolation>,
    read_only: bool,
}

impl TransactionOptions {
    /// A transaction that may write, at the isolation level of the settings.
    pub fn new() -> Self {
        TransactionOptions::default()
    }

    /// Chooses the isolation level.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// Refuses writes in the transaction.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

/// An open transaction of a connection. It is used as the connection itself. Dropping it rolls it back.
///
/// ```
/// # use rowmill::{Database, Result};
/// # fn main() -> Result<()> {
/// let mut connection = Database::memory()?.connect()?;
/// connection.execute("CREATE TABLE moves (amount BIGINT)", ())?;
/// let mut transaction = connection.transaction()?;
/// transaction.execute("INSERT INTO moves VALUES (?)", [5])?;
/// let mut savepoint = transaction.savepoint()?;
/// savepoint.execute("INSERT INTO moves VALUES (?)", [70])?;
/// drop(savepoint); // not committed: its row is gone
/// transaction.commit()?;
/// let sum: i64 = connection.query_row("SELECT SUM(amount) FROM moves", (), |row| row.get(0))?;
/// assert_eq!(sum, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Transaction<'c> {
    connection: &'c mut Connection,
}

impl Transaction<'_> {
    /// Commits the changes.
    pub fn commit(self) -> Result<()> {
        self.connection.session().commit()
    }

    /// Rolls the changes back. Dropping the transaction does the same.
    pub fn rollback(self) -> Result<()> {
        self.connection.session().rollback()
    }

    /// Sets a savepoint, to which later changes can be rolled back alone.
    pub fn savepoint(&mut self) -> Result<SavepointGuard<'_>> {
        SavepointGuard::new(self.connection, 1)
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // A statement of the transaction, such as COMMIT, may have ended it.
        if self.connection.transaction_state() != TransactionState::Idle {
            let _ = self.connection.session().rollback();
        }
    }
}

/// A part of a transaction. It is used as the connection itself. Dropping it undoes the part.
#[derive(Debug)]
pub struct SavepointGuard<'c> {
    connection: &'c mut Connection,
    depth: usize,
    is_released: bool,
}

impl<'c> SavepointGuard<'c> {
    fn new(connection: &'c mut Connection, depth: usize) -> Result<SavepointGuard<'c>> {
        connection.session().set_savepoint(&name(depth))?;
        Ok(SavepointGuard { connection, depth, is_released: false })
    }

    /// Keeps the changes since the savepoint as a part of the transaction.
    pub fn commit(mut self) -> Result<()> {
        self.is_released = true;
        self.connection.session().release(&name(self.depth))
    }

    /// Undoes the changes since the savepoint. Dropping the guard does the same.
    pub fn rollback(mut self) -> Result<()> {
        self.undo()
    }

    /// Sets a savepoint within this one.
    pub fn savepoint(&mut self) -> Result<SavepointGuard<'_>> {
        SavepointGuard::new(self.connection, self.depth + 1)
    }

    fn undo(&mut self) -> Result<()> {
        self.is_released = true;
        let session = self.connection.session();
        session.rollback_to(&name(self.depth))?;
        session.release(&name(self.depth))
    }
}

/// The name of a savepoint of a guard, which no savepoint in SQL has.
fn name(depth: usize) -> String {
    format!("guard {depth}")
}

impl Deref for SavepointGuard<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl DerefMut for SavepointGuard<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

impl Drop for SavepointGuard<'_> {
    fn drop(&mut self) {
        // A statement of the transaction may have ended it, and with it the savepoint.
        if !self.is_released && self.connection.transaction_state() != TransactionState::Idle {
            let _ = self.undo();
        }
    }
}

impl Connection {
    /// Begins a transaction that is rolled back if it is dropped before [`Transaction::commit`].
    pub fn transaction(&mut self) -> Result<Transaction<'_>> {
        self.transaction_with(TransactionOptions::new())
    }

    /// Begins a transaction with options.
    pub fn transaction_with(&mut self, options: TransactionOptions) -> Result<Transaction<'_>> {
        self.session().begin_at(options.isolation, options.read_only)?;
        Ok(Transaction { connection: self })
    }

    /// Runs `work` in a transaction and commits it. If another transaction came first
    /// ([`SerializationFailure`](ErrorKind::SerializationFailure), SQLSTATE 40001), runs both again, at most ten times
    /// in all. So `work` must not change anything outside of the transaction.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT)", ())?;
    /// connection.execute("INSERT INTO stock VALUES ('bolt', 10)", ())?;
    /// let left = connection.transact(|transaction| {
    ///     transaction.execute("UPDATE stock SET pieces = pieces - 1 WHERE item = ?", ["bolt"])?;
    ///     transaction.query_row("SELECT pieces FROM stock WHERE item = ?", ["bolt"], |row| row.get::<i64>(0))
    /// })?;
    /// assert_eq!(left, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<T>(&mut self, work: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.transact_with(TransactionOptions::new(), work)
    }

    /// Runs `work` in a transaction with options and commits it, as [`Connection::transact`] does.
    pub fn transact_with<T>(
        &mut self,
        options: TransactionOptions,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = 1;
        loop {
            let mut transaction = self.transaction_with(options)?;
            let result = work(&mut transaction).and_then(|value| transaction.commit().map(|()| value));
            match result {
                Err(error) if error.kind() == ErrorKind::SerializationFailure && attempt < ATTEMPTS_MAX => {
                    std::thread::sleep(pause(attempt));
                    attempt += 1;
                }
                result => return result,
            }
        }
    }
}

/// The pause after a failed attempt. It differs from thread to thread, so that two of them do not meet again.
fn pause(attempt: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let share = RandomState::new().hash_one(attempt) % 1000;
    PAUSE_MAX * (1 << attempt.min(6)) / 1000 * share as u32 / 2
}

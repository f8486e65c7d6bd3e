//! The transaction between `BEGIN` and `COMMIT`, with its savepoints and permissions.

use std::time::{SystemTime, UNIX_EPOCH};

use rowmill_base::{Error, ErrorKind, Result, nearest};
use rowmill_txn::{Savepoint, Transaction};

/// The open transaction of a session.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) transaction: Transaction,
    /// Whether it began with `READ ONLY`.
    pub(crate) read_only: bool,
    /// The savepoints, oldest first. A name may be used again; then the latest savepoint of that name is meant.
    savepoints: Vec<(String, Savepoint)>,
    /// Whether a statement has run in the transaction.
    pub(crate) is_used: bool,
    /// The time of its begin, in microseconds since 1970-01-01 UTC.
    pub(crate) began_us: i64,
}

/// Returns the time of the system clock, in microseconds since 1970-01-01 UTC.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock that is set before 1970 should not make statements fail.
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

impl OpenTransaction {
    pub(crate) fn new(transaction: Transaction, read_only: bool) -> Self {
        OpenTransaction { transaction, read_only, savepoints: Vec::new(), is_used: false, began_us: now_us() }
    }

    /// Returns the transaction for writing. The error is `ReadOnly` if the transaction began so.
    #[inline]
    pub(crate) fn for_writing(&mut self) -> Result<&mut Transaction> {
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the transaction is READ ONLY")
                .hint("end it, and begin the next one without READ ONLY"));
        }
        Ok(&mut self.transaction)
    }

    /// Runs `SAVEPOINT name`.
    pub(crate) fn set_savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_string(), self.transaction.savepoint()));
    }

    /// Runs `ROLLBACK TO name`. Keeps that savepoint and drops the later ones.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let position = self.savepoint(name)?;
        self.savepoints.truncate(position + 1);
        // The savepoint stays, so ROLLBACK TO can be repeated.
        self.transaction.rollback_to(&self.savepoints[position].1);
        Ok(())
    }

    /// Runs `RELEASE name`. Drops that savepoint and the later ones, but keeps the changes made since.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let position = self.savepoint(name)?;
        self.savepoints.truncate(position);
        Ok(())
    }

    fn savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|(known, _)| known == name).ok_or_else(|| {
            let error = Error::new(ErrorKind::UndefinedObject, format!("there is no savepoint \"{name}\""));
            let near = nearest(name, self.savepoints.iter().map(|(known, _)| known.as_str()));
            if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
        })
    }
}

//! The transaction between `BEGIN` and `COMMIT`: what it may do and the points it can go back to.

use std::time::{SystemTime, UNIX_EPOCH};

use rowmill_base::{Error, ErrorKind, Result, nearest};
use rowmill_txn::{Savepoint, Transaction};

/// The open transaction of a session.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) transaction: Transaction,
    /// It began with `READ ONLY`.
    pub(crate) read_only: bool,
    /// Oldest first. A name may be used again; the latest of that name counts.
    savepoints: Vec<(String, Savepoint)>,
    /// Whether a statement has run in it.
    pub(crate) is_used: bool,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub(crate) began_us: i64,
}

/// The clock of the system, in microseconds since 1970-01-01 UTC.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock that is set before 1970 is no reason to fail.
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

impl OpenTransaction {
    pub(crate) fn new(transaction: Transaction, read_only: bool) -> Self {
        OpenTransaction { transaction, read_only, savepoints: Vec::new(), is_used: false, began_us: now_us() }
    }

    /// The transaction, to be written to. `ReadOnly` if it began so.
    #[inline]
    pub(crate) fn for_writing(&mut self) -> Result<&mut Transaction> {
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the transaction is READ ONLY")
                .hint("end it, and begin the next one without READ ONLY"));
        }
        Ok(&mut self.transaction)
    }

    /// `SAVEPOINT name`
    pub(crate) fn set_savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_string(), self.transaction.savepoint()));
    }

    /// `ROLLBACK TO name`: the savepoint stays, later ones are gone.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let position = self.savepoint(name)?;
        self.savepoints.truncate(position + 1);
        self.transaction.rollback_to(&self.savepoints[position].1);
        Ok(())
    }

    /// `RELEASE name`: the savepoint and later ones are gone, what was done since stays.
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

//! The transaction between `BEGIN` and `COMMIT`, with its savepoints and permissions.
//!
//! Rows of prepared INSERT statements into columnar tables wait here until something else needs the transaction. So the
//! transaction is only given out after they are in it ([`OpenTransaction::settled`]).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::ArrayRef;
use rowmill_base::{CommitId, Error, ErrorKind, Isolation, Result, nearest};
use rowmill_txn::{Catalog, Savepoint, Transaction};

use crate::advisory_locks::TransactionLocks;
use crate::cell_builder::Conversion;
use crate::param::Param;
use crate::row_builder::RowBuilder;
use crate::statement::append::AppendPlan;

/// Rows of INSERT statements that are not in the transaction yet.
#[derive(Debug)]
struct WaitingRows {
    plan: Arc<AppendPlan>,
    rows: RowBuilder,
    /// The rows that could not be inserted at the last attempt. They must not get lost, because their statements have
    /// succeeded: the transaction inserts them, or it cannot commit.
    refused: Option<(Vec<ArrayRef>, usize)>,
}

/// Facts about an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionInfo {
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub began_us: i64,
    /// The commit whose state it reads.
    pub reads: CommitId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Whether it refuses to write.
    pub is_read_only: bool,
}

/// The open transaction of a session.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    transaction: Transaction,
    waiting: Option<WaitingRows>,
    /// Whether it began with `READ ONLY`.
    pub(crate) read_only: bool,
    /// The savepoints, oldest first. A name may be used again; then the latest savepoint of that name is meant.
    savepoints: Vec<(String, Savepoint)>,
    /// Whether a statement has run in the transaction.
    pub(crate) is_used: bool,
    /// The time of its begin, in microseconds since 1970-01-01 UTC.
    pub(crate) began_us: i64,
    /// The number that no other transaction of this process has.
    pub(crate) number: i64,
    /// Gives the advisory locks of the transaction up when it ends.
    pub(crate) locks: Option<TransactionLocks>,
}

/// The time at which this process opened its first connection, in microseconds since 1970-01-01 UTC.
pub(crate) static PROCESS_BEGAN_US: LazyLock<i64> = LazyLock::new(now_us);

/// Returns a number for a transaction. Numbers begin at the time of the process, so that those of a later process are
/// greater.
pub(crate) fn next_transaction_number() -> i64 {
    static LAST: LazyLock<AtomicI64> = LazyLock::new(|| AtomicI64::new(*PROCESS_BEGAN_US));
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Returns the time of the system clock, in microseconds since 1970-01-01 UTC.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock that is set before 1970 should not make statements fail.
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

impl OpenTransaction {
    pub(crate) fn info(&self) -> TransactionInfo {
        TransactionInfo {
            began_us: self.began_us,
            reads: self.transaction.base().commit(),
            isolation: self.transaction.isolation(),
            is_read_only: self.read_only,
        }
    }

    pub(crate) fn new(transaction: Transaction, read_only: bool) -> Self {
        OpenTransaction {
            transaction,
            waiting: None,
            read_only,
            savepoints: Vec::new(),
            is_used: false,
            began_us: now_us(),
            number: next_transaction_number(),
            locks: None,
        }
    }

    /// Returns the transaction with all rows of earlier statements.
    #[inline]
    pub(crate) fn settled(&mut self) -> Result<&mut Transaction> {
        if self.waiting.is_some() {
            self.insert_waiting()?;
        }
        Ok(&mut self.transaction)
    }

    /// Returns the transaction with all rows of earlier statements, to commit it.
    pub(crate) fn into_settled(mut self) -> Result<Transaction> {
        self.settled()?;
        Ok(self.transaction)
    }

    /// Whether a statement has changed anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.waiting.is_some() || !self.transaction.is_empty()
    }

    /// Ends the transaction without its changes.
    pub(crate) fn rollback(self) {
        self.transaction.rollback();
    }

    /// Gives a READ COMMITTED transaction the newest snapshot. Must be called before each statement.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<()> {
        self.transaction.refresh()
    }

    /// Sets the isolation level of a transaction that has run no statement yet.
    pub(crate) fn set_isolation(&mut self, isolation: Isolation) {
        self.transaction.set_isolation(isolation);
    }

    /// The definitions that the next statement sees.
    pub(crate) fn catalog(&self) -> &Catalog {
        self.transaction.catalog()
    }

    /// The version of the definitions that the next statement sees.
    #[inline]
    pub(crate) fn catalog_version(&self) -> u64 {
        self.transaction.catalog().version()
    }

    /// Adds the row of a prepared INSERT.
    #[inline]
    pub(crate) fn add_row(&mut self, plan: &Arc<AppendPlan>, parameters: &[Param<'_>]) -> Result<()> {
        let fits = |waiting: &WaitingRows| {
            Arc::ptr_eq(&waiting.plan, plan) && !waiting.rows.is_full() && waiting.refused.is_none()
        };
        if !self.waiting.as_ref().is_some_and(fits) {
            self.settled()?;
            let (plan, rows) = (Arc::clone(plan), plan.builder(Conversion::Assign));
            self.waiting = Some(WaitingRows { plan, rows, refused: None });
        }
        let waiting = self.waiting.as_mut().expect("rows wait from here on");
        waiting.rows.push(plan.parameters().iter().map(|place| parameters[*place]))
    }

    #[cold]
    fn insert_waiting(&mut self) -> Result<()> {
        let Some(WaitingRows { plan, rows, refused }) = &mut self.waiting else { return Ok(()) };
        let (columns, count) = match refused.take() {
            Some(rows) => rows,
            None => rows.take()?,
        };
        if count > 0 {
            let savepoint = self.transaction.savepoint();
            if let Err(error) = plan.insert(&mut self.transaction, &columns, count) {
                self.transaction.rollback_to(&savepoint);
                *refused = Some((columns, count));
                return Err(error);
            }
        }
        self.waiting = None;
        Ok(())
    }

    /// Returns the transaction for writing. The error is `ReadOnly` if the transaction began so.
    #[inline]
    pub(crate) fn for_writing(&mut self) -> Result<&mut Transaction> {
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the transaction is READ ONLY")
                .hint("end it, and begin the next one without READ ONLY"));
        }
        self.settled()
    }

    /// Runs `SAVEPOINT name`.
    pub(crate) fn set_savepoint(&mut self, name: &str) -> Result<()> {
        let savepoint = self.settled()?.savepoint();
        self.savepoints.push((name.to_string(), savepoint));
        Ok(())
    }

    /// Runs `ROLLBACK TO name`. Keeps that savepoint and drops the later ones.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let position = self.savepoint(name)?;
        self.savepoints.truncate(position + 1);
        // Waiting rows are younger than every savepoint, because a savepoint settles them.
        self.waiting = None;
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

//! Advisory locks: locks on numbers whose meaning only the programs know. `pg_advisory_lock(1)` waits until no other
//! connection has the lock 1.
//!
//! A lock belongs to a connection until it gives the lock up or closes, or to a transaction until it ends. A connection
//! may take a lock that it has several times, and gives it up as often. Shared locks exclude exclusive ones only. The
//! locks of a database are in memory, so they end with the process, and a process that only follows has its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Error, ErrorKind, Result};

/// The most locks that one database holds.
const LOCKS_MAX: usize = 1 << 20;

/// The longest time between two looks at the cancel flag.
const LOOK: Duration = Duration::from_millis(20);

/// What a lock is on: one number of 64 bits, or two of 32 bits, which are different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockKey {
    One(i64),
    Two(i32, i32),
}

/// Who may have a lock beside another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Exclusive,
    Shared,
}

/// How long a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockSpan {
    Session,
    Transaction,
}

/// How often a connection has a lock.
#[derive(Debug)]
struct Held {
    connection: u64,
    mode: LockMode,
    span: LockSpan,
    count: u32,
}

/// The locks of a database.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    held: Mutex<HashMap<LockKey, Vec<Held>>>,
    released: Condvar,
}

/// The locks of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionLocks {
    all: Arc<AdvisoryLocks>,
    connection: u64,
    in_transaction: AtomicBool,
}

/// Gives the locks of a transaction up when it ends.
#[derive(Debug)]
pub(crate) struct TransactionLocks(Arc<ConnectionLocks>);

impl ConnectionLocks {
    pub(crate) fn new(all: Arc<AdvisoryLocks>) -> ConnectionLocks {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let connection = NEXT.fetch_add(1, Ordering::Relaxed);
        ConnectionLocks { all, connection, in_transaction: AtomicBool::new(false) }
    }

    /// Takes a lock. With `cancel`, waits until it is free or the statement is cancelled; otherwise returns `false` if
    /// another connection has it. A lock of a transaction that is only one statement is given up at once.
    pub(crate) fn take(&self, key: LockKey, mode: LockMode, span: LockSpan, cancel: Option<&Cancel>) -> Result<bool> {
        let mut held = self.all.held.lock();
        while self.is_excluded(&held, key, mode) {
            let Some(cancel) = cancel else { return Ok(false) };
            cancel.check()?;
            self.all.released.wait_for(&mut held, LOOK);
        }
        if span == LockSpan::Transaction && !self.in_transaction.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if held.len() >= LOCKS_MAX && !held.contains_key(&key) {
            let message = format!("there are {LOCKS_MAX} advisory locks, and no more are possible");
            return Err(
                Error::new(ErrorKind::InvalidParameter, message).hint("pg_advisory_unlock_all() gives locks up")
            );
        }
        let holders = held.entry(key).or_default();
        let own = |of: &&mut Held| of.connection == self.connection && of.mode == mode && of.span == span;
        match holders.iter_mut().find(own) {
            Some(of) => of.count += 1,
            None => holders.push(Held { connection: self.connection, mode, span, count: 1 }),
        }
        Ok(true)
    }

    fn is_excluded(&self, held: &HashMap<LockKey, Vec<Held>>, key: LockKey, mode: LockMode) -> bool {
        let excludes = |of: &Held| mode == LockMode::Exclusive || of.mode == LockMode::Exclusive;
        held.get(&key).into_iter().flatten().any(|of| of.connection != self.connection && excludes(of))
    }

    /// Gives a lock of the session up once. Returns whether the connection had it.
    pub(crate) fn give_up(&self, key: LockKey, mode: LockMode) -> bool {
        let mut held = self.all.held.lock();
        let Some(holders) = held.get_mut(&key) else { return false };
        let own = |of: &Held| of.connection == self.connection && of.mode == mode && of.span == LockSpan::Session;
        let Some(place) = holders.iter().position(own) else { return false };
        holders[place].count -= 1;
        if holders[place].count == 0 {
            holders.remove(place);
            if holders.is_empty() {
                held.remove(&key);
            }
            self.all.released.notify_all();
        }
        true
    }

    /// Gives all locks of the connection with this span up.
    pub(crate) fn give_all_up(&self, span: LockSpan) {
        let mut held = self.all.held.lock();
        held.retain(|_, holders| {
            holders.retain(|of| of.connection != self.connection || of.span != span);
            !holders.is_empty()
        });
        self.all.released.notify_all();
    }

    /// Notes that a transaction begins. The value must live as long as the transaction.
    pub(crate) fn begin(self: &Arc<Self>) -> TransactionLocks {
        self.in_transaction.store(true, Ordering::Relaxed);
        TransactionLocks(Arc::clone(self))
    }
}

impl Drop for TransactionLocks {
    fn drop(&mut self) {
        self.0.in_transaction.store(false, Ordering::Relaxed);
        self.0.give_all_up(LockSpan::Transaction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Arc<ConnectionLocks>; 2] {
        let all: Arc<AdvisoryLocks> = Arc::default();
        [Arc::clone(&all), all].map(|all| Arc::new(ConnectionLocks::new(all)))
    }

    #[test]
    fn a_lock_excludes_others_until_it_was_given_up_as_often_as_taken() {
        let [a, b] = two();
        let (key, mode, span) = (LockKey::One(1), LockMode::Exclusive, LockSpan::Session);
        let take = |of: &ConnectionLocks, key, mode| of.take(key, mode, span, None).expect("no error");
        assert!(take(&a, key, mode) && take(&a, key, mode));
        assert!(!take(&b, key, mode) && !take(&b, key, LockMode::Shared));
        assert!(take(&b, LockKey::Two(0, 1), mode), "two numbers are another lock");
        assert!(a.give_up(key, mode) && !take(&b, key, mode));
        assert!(a.give_up(key, mode) && !a.give_up(key, mode));
        assert!(take(&b, key, LockMode::Shared) && take(&a, key, LockMode::Shared));
        assert!(!take(&a, key, mode));
        b.give_all_up(LockSpan::Session);
        assert!(take(&a, key, mode));
    }

    #[test]
    fn locks_of_a_transaction_end_with_it() {
        let [a, b] = two();
        let take = |of: &ConnectionLocks| {
            of.take(LockKey::One(7), LockMode::Exclusive, LockSpan::Transaction, None).expect("no error")
        };
        assert!(take(&a) && take(&b), "outside of a transaction they end at once");
        let transaction = a.begin();
        assert!(take(&a) && !take(&b));
        assert!(!a.give_up(LockKey::One(7), LockMode::Exclusive));
        drop(transaction);
        assert!(take(&b));
    }

    #[test]
    fn a_waiting_connection_goes_on_when_the_lock_is_free_or_it_is_cancelled() {
        let [a, b] = two();
        let (key, mode, span) = (LockKey::One(1), LockMode::Exclusive, LockSpan::Session);
        assert!(a.take(key, mode, span, None).expect("no error"));
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(b.take(key, mode, span, Some(&cancel)).unwrap_err().kind(), ErrorKind::Cancelled);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| b.take(key, mode, span, Some(&Cancel::new())));
            assert!(a.give_up(key, mode));
            assert!(waits.join().expect("no panic").expect("no error"));
        });
    }
}

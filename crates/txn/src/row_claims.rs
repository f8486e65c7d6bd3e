//! Rows that open transactions have written, so that other transactions can wait for them.
//!
//! Commits are validated: without claims, a transaction finds out at its commit that another one has written a row
//! first, and fails. A transaction that waits for rows claims the keys of each statement when the statement has run:
//!
//! ```text
//! transaction 1    UPDATE row 7, claims 7                   COMMIT, gives up 7
//! transaction 2          UPDATE row 7: 7 is claimed, so the statement is undone and waits
//!                                                           gets 7, sees the new row, runs the statement again
//! ```
//!
//! Each key has a queue. Its claim goes to the transaction that has waited longest, so that no other one wakes up in
//! vain. A claim lasts until its transaction ends. Two keys with the same hash share a claim, which only makes a
//! transaction wait longer.
//!
//! A transaction that would wait for one that waits for it, directly or through others, gets a `Deadlock` error.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};

/// How often a waiting transaction looks whether its statement was cancelled. A cancelled statement should end within a
/// tenth of a second.
const CANCEL_CHECKED_EVERY: Duration = Duration::from_millis(10);

/// The most transactions that wait at a time. Each holds a thread of its program. A server has more threads than this,
/// so that the transactions for which others wait can go on.
const WAITING_MAX: usize = 256;

/// The reason why a statement must run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRow {
    /// Another open transaction has claimed a key. Holds its hash.
    Claimed(u64),
    /// A row was written after the snapshot of this commit, which the statement has read.
    Written(CommitId),
}

impl LostRow {
    /// The error of a statement that does not run again.
    pub fn error(self) -> Error {
        Error::new(ErrorKind::SerializationFailure, "a row of the statement was written by another transaction")
            .hint("run the transaction again")
    }
}

/// The claims of all transactions of a database.
pub(crate) struct RowClaims {
    secrets: RapidSecrets,
    claims: Mutex<Claims>,
}

#[derive(Default)]
struct Claims {
    /// By the hash of the key.
    by_key: HashMap<u64, Claim>,
    /// The key for which each waiting claimant waits.
    waiting: HashMap<u64, u64>,
    /// The number of the next claimant.
    next: u64,
}

struct Claim {
    holder: Claimant,
    queue: VecDeque<Waiter>,
}

/// A claimant by its number, and the connection of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claimant {
    number: u64,
    connection: Option<u64>,
}

/// A claimant in the queue of a key.
struct Waiter {
    claimant: Claimant,
    turn: Arc<Turn>,
    since: SystemTime,
}

/// A transaction that has claimed rows, or that waits for one that has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowClaimInfo {
    /// A number of the transaction with the claim. No other transaction has had it since the database was opened.
    pub transaction: u64,
    /// The connection of the transaction that has the claim, or that waits for it, if its host has told it.
    pub connection: Option<u64>,
    /// Since when it waits. `None` for the transaction that has the claim.
    pub waits_since: Option<SystemTime>,
}

/// Tells a waiting claimant that it got its key.
#[derive(Default)]
struct Turn {
    has_come: Mutex<bool>,
    changed: Condvar,
}

/// One transaction as a holder of claims. Dropping it gives them up.
pub struct RowClaimant {
    claims: Arc<RowClaims>,
    own: Claimant,
    keys: Vec<u64>,
}

impl RowClaims {
    pub(crate) fn new() -> Arc<RowClaims> {
        Arc::new(RowClaims { secrets: RapidSecrets::random(), claims: Mutex::default() })
    }

    /// Makes a claimant without claims, for a transaction of a connection.
    pub(crate) fn claimant(self: &Arc<Self>, connection: Option<u64>) -> RowClaimant {
        let mut claims = self.claims.lock();
        claims.next += 1;
        let own = Claimant { number: claims.next, connection };
        RowClaimant { claims: Arc::clone(self), own, keys: Vec::new() }
    }

    /// The transactions that have claimed rows, each once, followed by those that wait for them.
    pub(crate) fn list(&self) -> Vec<RowClaimInfo> {
        let claims = self.claims.lock();
        let mut holders = BTreeMap::new();
        let mut waiting = Vec::new();
        for Claim { holder, queue } in claims.by_key.values() {
            holders.insert(holder.number, holder.connection);
            waiting.extend(queue.iter().map(|waiter| RowClaimInfo {
                transaction: holder.number,
                connection: waiter.claimant.connection,
                waits_since: Some(waiter.since),
            }));
        }
        let held = |(transaction, connection)| RowClaimInfo { transaction, connection, waits_since: None };
        let mut list: Vec<RowClaimInfo> = holders.into_iter().map(held).collect();
        waiting.sort_by_key(|waiter| (waiter.transaction, waiter.waits_since));
        list.extend(waiting);
        list
    }
}

impl Claims {
    /// Whether the holder of `key` waits for `claimant`, directly or through others.
    fn waits_for(&self, key: u64, claimant: u64) -> bool {
        let mut holder = self.by_key.get(&key).map(|claim| claim.holder.number);
        while let Some(number) = holder {
            if number == claimant {
                return true;
            }
            let next = self.waiting.get(&number).and_then(|key| self.by_key.get(key));
            holder = next.map(|claim| claim.holder.number);
        }
        false
    }

    /// Gives the claim of a key to the claimant that has waited longest.
    fn pass_on(&mut self, key: u64) {
        let Some(claim) = self.by_key.get_mut(&key) else { return };
        match claim.queue.pop_front() {
            Some(Waiter { claimant, turn, .. }) => {
                claim.holder = claimant;
                self.waiting.remove(&claimant.number);
                *turn.has_come.lock() = true;
                turn.changed.notify_one();
            }
            None => drop(self.by_key.remove(&key)),
        }
    }
}

impl RowClaimant {
    /// Claims the key unless another claimant has it. Returns its hash in that case.
    pub(crate) fn claim(&mut self, key: &[u8]) -> Result<(), u64> {
        let key = rapidhash_v3_seeded(key, &self.claims.secrets);
        let mut claims = self.claims.claims.lock();
        let mut is_new = false;
        let claim = claims.by_key.entry(key).or_insert_with(|| {
            is_new = true;
            Claim { holder: self.own, queue: VecDeque::new() }
        });
        if is_new {
            self.keys.push(key);
        }
        if claim.holder == self.own { Ok(()) } else { Err(key) }
    }

    /// Waits for a key that another claimant has, and claims it. Returns `Deadlock` if that one waits for this
    /// claimant, `SerializationFailure` if too many transactions wait, and the errors of `cancel`.
    pub fn wait(&mut self, key: u64, cancel: &Cancel) -> Result<()> {
        let turn = {
            let mut claims = self.claims.claims.lock();
            if claims.waits_for(key, self.own.number) {
                return Err(Error::new(ErrorKind::Deadlock, "the transaction and another one wait for each other")
                    .hint("run the transaction again; deadlocks are rare if all write rows in the same order"));
            }
            if claims.waiting.len() >= WAITING_MAX {
                let what = format!("{WAITING_MAX} transactions wait for rows already");
                return Err(Error::new(ErrorKind::SerializationFailure, what).hint("run the transaction again later"));
            }
            let Some(claim) = claims.by_key.get_mut(&key) else { return Ok(()) };
            let turn = Arc::new(Turn::default());
            let since = SystemTime::now();
            claim.queue.push_back(Waiter { claimant: self.own, turn: Arc::clone(&turn), since });
            claims.waiting.insert(self.own.number, key);
            turn
        };
        let mut has_come = turn.has_come.lock();
        while !*has_come {
            turn.changed.wait_for(&mut has_come, CANCEL_CHECKED_EVERY);
            if !*has_come && let Err(cancelled) = cancel.check() {
                drop(has_come);
                self.leave(key);
                return Err(cancelled);
            }
        }
        self.keys.push(key);
        Ok(())
    }

    /// Leaves the queue of a key.
    fn leave(&mut self, key: u64) {
        let mut claims = self.claims.claims.lock();
        if claims.waiting.remove(&self.own.number).is_none() {
            // The claim came in this moment.
            self.keys.push(key);
        } else if let Some(claim) = claims.by_key.get_mut(&key) {
            claim.queue.retain(|waiter| waiter.claimant != self.own);
        }
    }
}

impl Drop for RowClaimant {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            let mut claims = self.claims.claims.lock();
            self.keys.drain(..).for_each(|key| claims.pass_on(key));
        }
    }
}

impl fmt::Debug for RowClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowClaims").field("keys", &self.claims.lock().by_key.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RowClaimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowClaimant").field("own", &self.own).field("keys", &self.keys.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_claim_goes_to_the_claimant_that_has_waited_longest() {
        let claims = RowClaims::new();
        let mut first = claims.claimant(Some(7));
        first.claim(b"a").unwrap();
        first.claim(b"a").unwrap();
        let key = claims.claimant(None).claim(b"a").unwrap_err();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..4 {
                let before = claims.claims.lock().waiting.len();
                let (claims, order) = (&claims, &order);
                scope.spawn(move || {
                    let mut claimant = claims.claimant(None);
                    claimant.wait(key, &Cancel::new()).unwrap();
                    claimant.claim(b"a").unwrap();
                    order.lock().push(number);
                });
                while claims.claims.lock().waiting.len() == before {
                    thread::yield_now();
                }
            }
            let list = claims.list();
            assert_eq!((list.len(), list[0].waits_since, list[0].connection), (5, None, Some(7)));
            assert!(list[1..].iter().all(|waiter| waiter.waits_since.is_some() && waiter.connection.is_none()));
            drop(first);
        });
        assert_eq!(*order.lock(), [0, 1, 2, 3]);
        assert!(claims.claims.lock().by_key.is_empty() && claims.claims.lock().waiting.is_empty());
    }

    #[test]
    fn a_circle_of_waits_is_an_error_of_the_last_one() {
        let claims = RowClaims::new();
        let [mut one, mut two, mut three] = [(); 3].map(|()| claims.claimant(None));
        one.claim(b"1").unwrap();
        two.claim(b"2").unwrap();
        three.claim(b"3").unwrap();
        let [first, second, third] = [b"1", b"2", b"3"].map(|key| claims.claimant(None).claim(key).unwrap_err());
        thread::scope(|scope| {
            // Both give up their claims at the end of their threads.
            let of_one = scope.spawn(move || one.wait(second, &Cancel::new()));
            let of_two = scope.spawn(move || two.wait(third, &Cancel::new()));
            while claims.claims.lock().waiting.len() < 2 {
                thread::yield_now();
            }
            assert_eq!(three.wait(first, &Cancel::new()).unwrap_err().kind(), ErrorKind::Deadlock);
            drop(three);
            of_two.join().unwrap().unwrap();
            of_one.join().unwrap().unwrap();
        });
        assert!(claims.claims.lock().by_key.is_empty());
    }

    #[test]
    fn a_cancelled_wait_leaves_the_queue() {
        let claims = RowClaims::new();
        let (mut one, mut two) = (claims.claimant(None), claims.claimant(None));
        one.claim(b"a").unwrap();
        let key = two.claim(b"a").unwrap_err();
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(two.wait(key, &cancel).unwrap_err().kind(), ErrorKind::Cancelled);
        drop(one);
        assert!(claims.claims.lock().by_key.is_empty());
        two.claim(b"a").unwrap();
    }

    #[test]
    fn claims_exclude_each_other_under_load() {
        let claims = RowClaims::new();
        let counters = [(); 4].map(|()| AtomicU64::new(0));
        thread::scope(|scope| {
            for seed in 0..4_usize {
                let (claims, counters) = (&claims, &counters);
                scope.spawn(move || {
                    for round in 0..2_000_usize {
                        let mut claimant = claims.claimant(None);
                        // Ascending keys cannot block each other in a circle.
                        for at in [(seed + round) % 3, 3] {
                            while let Err(key) = claimant.claim(&[at as u8]) {
                                claimant.wait(key, &Cancel::new()).unwrap();
                            }
                            let seen = counters[at].load(Ordering::Relaxed);
                            counters[at].store(seen + 1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let counts = counters.map(AtomicU64::into_inner);
        assert_eq!((counts[3], counts[..3].iter().sum::<u64>()), (8_000, 8_000));
        assert!(claims.claims.lock().by_key.is_empty());
    }
}

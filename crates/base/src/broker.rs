//! The broker: one per database, hands out memory against one limit.
//!
//! Whoever holds state asks before it takes. A reservation gives back what it holds when it is dropped, so an error
//! path cannot leak a grant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, ErrorKind, Result};

/// Hands out memory. Clones share one account.
#[derive(Clone, Debug)]
pub struct Broker(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Broker {
    /// A broker over `limit_bytes` of memory.
    pub fn new(limit_bytes: u64) -> Self {
        Broker(Arc::new(Account {
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
        }))
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit. What is granted already stays granted.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.0.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes granted now.
    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that were granted at once.
    pub fn peak_bytes(&self) -> u64 {
        self.0.peak_bytes.load(Ordering::Relaxed)
    }

    /// An empty reservation for `owner`, the operator or the part of the engine that errors name.
    pub fn reservation(&self, owner: &'static str) -> Reservation {
        Reservation { broker: self.clone(), owner, bytes: 0 }
    }

    /// Takes `bytes` for `owner`, who gives them back with [`Broker::give_back`]. For accounts that a reservation does
    /// not fit, such as those of another library's operators.
    pub fn take(&self, owner: &str, bytes: u64) -> Result<()> {
        let used = self.0.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let limit = self.limit_bytes();
        if used > limit {
            self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::MemoryLimit,
                format!(
                    "{owner} asked for {bytes} bytes, but {} of the memory limit of {limit} bytes are in use",
                    used - bytes
                ),
            )
            .hint("raise it with SET memory_limit = '...'"));
        }
        self.0.peak_bytes.fetch_max(used, Ordering::Relaxed);
        Ok(())
    }

    /// Takes `bytes` that exist already, past the limit if need be.
    pub fn take_always(&self, bytes: u64) {
        let used = self.0.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.peak_bytes.fetch_max(used, Ordering::Relaxed);
    }

    /// Gives back `bytes` of what was taken.
    pub fn give_back(&self, bytes: u64) {
        let before = self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "a reservation gives back no more than it was granted");
    }
}

/// Memory granted to one owner, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    broker: Broker,
    owner: &'static str,
    bytes: u64,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Asks for `bytes` more. Fails, with nothing taken, if that would pass the limit.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.broker.take(self.owner, bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Holds exactly `bytes`: asks for what is missing or gives back what is left over.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.bytes {
            self.grow(bytes - self.bytes)
        } else {
            self.shrink(self.bytes - bytes);
            Ok(())
        }
    }

    /// Gives `bytes` back.
    pub fn shrink(&mut self, bytes: u64) {
        assert!(bytes <= self.bytes, "a reservation gives back no more than it holds");
        self.broker.give_back(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.broker.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_takes_nothing_and_names_its_owner() {
        let broker = Broker::new(100);
        let mut a = broker.reservation("sort");
        a.grow(80).expect("under the limit");
        let mut b = broker.reservation("group by");
        let error = b.grow(30).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert!(error.message().contains("group by"));
        assert_eq!(broker.used_bytes(), 80);
        drop(a);
        assert_eq!(broker.used_bytes(), 0);
        b.grow(30).expect("room again");
        assert_eq!(broker.peak_bytes(), 80);
    }

    #[test]
    fn resize_goes_both_ways() {
        let broker = Broker::new(100);
        let mut a = broker.reservation("table");
        a.resize(70).expect("under the limit");
        a.resize(20).expect("shrinks");
        assert_eq!((a.bytes(), broker.used_bytes()), (20, 20));
    }
}

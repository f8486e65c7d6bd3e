//! The broker: one per database, hands out memory against one limit.
//!
//! Whoever holds state asks before it takes. A reservation gives back what it holds when it is dropped, so an error
//! path cannot leak a grant.
//!
//! State that could grow without end is asked for and refused at the limit: [`Reservation`]. What one step cannot do
//! without and lets go of soon, such as the values of the block that is being read, is [`Scratch`]: it is counted, so
//! that operators that can spill do so earlier, but it passes the limit for a moment and refuses nobody. Otherwise a sort
//! that has filled its share with what it reads would be the end of its own scan, and whether a transaction fits would
//! depend on what is merged in the background meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, ErrorKind, Result};

const RAISE_IT: &str = "raise it with SET memory_limit = '...'";

/// Hands out memory. Clones share one account.
#[derive(Clone, Debug)]
pub struct Broker {
    account: Arc<Account>,
    /// Counts what is taken through this clone.
    meter: Option<Arc<Meter>>,
}

#[derive(Debug)]
struct Account {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
    /// The part of `used_bytes` that is scratch.
    scratch_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// What was granted of an account to one holder, such as an operator.
#[derive(Debug, Default)]
pub struct Meter {
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Meter {
    /// The most bytes that the holder had at once.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(used, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Broker {
    /// A broker over `limit_bytes` of memory.
    pub fn new(limit_bytes: u64) -> Self {
        let account = Account {
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
            scratch_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
        };
        Broker { account: Arc::new(account), meter: None }
    }

    /// The same account; what is taken through the result and its clones is counted in `meter`, and in no other one.
    #[must_use]
    pub fn metered(&self, meter: &Arc<Meter>) -> Broker {
        Broker { account: Arc::clone(&self.account), meter: Some(Arc::clone(meter)) }
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.account.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit. What is granted already stays granted.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.account.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes granted now.
    pub fn used_bytes(&self) -> u64 {
        self.account.used_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that were granted at once.
    pub fn peak_bytes(&self) -> u64 {
        self.account.peak_bytes.load(Ordering::Relaxed)
    }

    /// An empty reservation for `owner`, the operator or the part of the engine that errors name.
    pub fn reservation(&self, owner: &'static str) -> Reservation {
        Reservation { broker: self.clone(), owner, bytes: 0 }
    }

    /// Empty scratch for `owner`.
    pub fn scratch(&self, owner: &'static str) -> Scratch {
        Scratch { broker: self.clone(), owner, bytes: 0 }
    }

    /// Takes `bytes` for `owner`, who gives them back with [`Broker::give_back`]. For accounts that a reservation does
    /// not fit, such as those of another library's operators.
    pub fn take(&self, owner: &str, bytes: u64) -> Result<()> {
        let used = self.account.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let lasting = used.saturating_sub(self.account.scratch_bytes.load(Ordering::Relaxed));
        let limit = self.limit_bytes();
        if lasting > limit {
            self.account.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::MemoryLimit,
                format!(
                    "{owner} asked for {bytes} bytes, but {} of the memory limit of {limit} bytes are in use",
                    lasting - bytes
                ),
            )
            .hint(RAISE_IT));
        }
        self.taken(bytes, used);
        Ok(())
    }

    /// Takes `bytes` that exist already, past the limit if need be.
    pub fn take_always(&self, bytes: u64) {
        let used = self.account.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.taken(bytes, used);
    }

    /// Counts `bytes` that were taken, with which `used` are.
    fn taken(&self, bytes: u64, used: u64) {
        self.account.peak_bytes.fetch_max(used, Ordering::Relaxed);
        if let Some(meter) = &self.meter {
            meter.take(bytes);
        }
    }

    /// Gives back `bytes` of what was taken.
    pub fn give_back(&self, bytes: u64) {
        let before = self.account.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "a reservation gives back no more than it was granted");
        if let Some(meter) = &self.meter {
            meter.give_back(bytes);
        }
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

    /// Holds exactly `bytes`, which exist already, past the limit if need be.
    pub fn recount(&mut self, bytes: u64) {
        match bytes > self.bytes {
            true => self.broker.take_always(bytes - self.bytes),
            false => self.broker.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.broker.give_back(self.bytes);
    }
}

/// Memory that one step needs, given back on drop. It may pass the limit and refuses nobody.
#[derive(Debug)]
pub struct Scratch {
    broker: Broker,
    owner: &'static str,
    bytes: u64,
}

impl Scratch {
    /// Takes `bytes` more. Fails, with nothing taken, only if they alone are more than the limit.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        let limit = self.broker.limit_bytes();
        if bytes > limit {
            let message = format!("{} needs {bytes} bytes, more than the memory limit of {limit} bytes", self.owner);
            return Err(Error::new(ErrorKind::MemoryLimit, message).hint(RAISE_IT));
        }
        // In this order, here and below: who looks in between sees less of what lasts, and is not refused by mistake.
        self.broker.account.scratch_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.broker.take_always(bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.broker.give_back(bytes);
        self.broker.account.scratch_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Empty scratch of the same owner, whose bytes are counted in `meter` as well.
    #[must_use]
    pub fn metered(&self, meter: &Arc<Meter>) -> Scratch {
        self.broker.metered(meter).scratch(self.owner)
    }

    /// Empty scratch of the same owner.
    #[must_use]
    pub fn another(&self) -> Scratch {
        self.broker.scratch(self.owner)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
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
    fn what_exists_is_counted_both_ways() {
        let broker = Broker::new(100);
        let mut a = broker.reservation("table");
        a.recount(170);
        assert_eq!((a.bytes(), broker.used_bytes()), (170, 170));
        a.recount(20);
        assert_eq!((a.bytes(), broker.used_bytes()), (20, 20));
    }

    #[test]
    fn a_meter_counts_its_holder_alone() {
        let broker = Broker::new(100);
        let meter = Arc::new(Meter::default());
        let mut other = broker.reservation("table");
        other.grow(40).expect("under the limit");
        let metered = broker.metered(&meter);
        let mut held = metered.reservation("sort");
        held.grow(20).expect("under the limit");
        held.grow(50).expect_err("above the limit");
        held.recount(5);
        let mut scratch = broker.scratch("scan").metered(&meter);
        scratch.grow(10).expect("needed");
        drop(scratch);
        held.grow(1).expect("under the limit");
        assert_eq!((meter.peak_bytes(), broker.used_bytes()), (20, 46));
        drop(held);
        assert_eq!((meter.used_bytes.load(Ordering::Relaxed), broker.used_bytes()), (0, 40));
    }

    #[test]
    fn scratch_passes_the_limit_and_refuses_nobody() {
        let broker = Broker::new(100);
        let mut sort = broker.reservation("sort");
        sort.grow(80).expect("under the limit");
        let mut scan = broker.scratch("scan");
        scan.grow(100).expect("needed");
        assert_eq!(broker.used_bytes(), 180);
        sort.grow(20).expect("up to the limit");
        assert!(sort.grow(1).unwrap_err().message().contains("but 100 of the memory limit"));
        let error = scan.another().grow(101).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert!(error.message().starts_with("scan needs 101 bytes"), "{error}");
        drop(scan);
        assert_eq!(broker.used_bytes(), 100);
    }
}

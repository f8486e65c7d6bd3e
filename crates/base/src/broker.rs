//! The memory broker. Each database has one, and it grants memory against one limit.
//!
//! Code that holds state must ask before it takes memory. A reservation gives back its memory when it is dropped, so
//! an error path cannot leak a grant.
//!
//! Memory comes in three forms:
//!
//! - A [`Reservation`] is for state that could grow without end. A request that would pass the limit is refused.
//! - [`SpillableMemory`] is for state that its owner can write to disk. It may pass the limit by half, because the
//!   owner could not stop in the middle of a batch. Between two batches the owner asks whether it must spill, so this
//!   memory never causes the refusal of a reservation.
//! - [`StepMemory`] is for memory that one step cannot do without and frees soon, for example the values of the block
//!   that is being read. It is counted, so that operators that can spill do so earlier, but it may pass the limit for
//!   a moment and never causes a refusal.
//!
//! Without scratch, a sort that has filled its share could no longer read its own input. Also, whether a transaction
//! fits would depend on the blocks that a background thread happens to merge at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::limited_bytes::LimitedBytes;
use crate::{Error, ErrorKind, Result, allocations};

const RAISE_IT: &str = "raise it with SET memory_limit = '...'";

/// Smaller pieces of freed memory are not counted, because the allocator soon uses them again.
const FREED_BYTES_MIN: u64 = 1 << 16;

/// The least memory by which spillable state may pass the limit: a batch of long texts for each of several workers.
const PASSED_BYTES_MIN: u64 = 1 << 26;

/// Spilling less state than this would free too little for its costs.
const SPILLED_BYTES_MIN: u64 = 1 << 20;

/// Grants memory. Clones share one account.
#[derive(Clone, Debug)]
pub struct Broker {
    account: Arc<Account>,
    /// Also counts the memory that is taken through this clone.
    meter: Option<Arc<Meter>>,
    /// Grants requests past the limit, because the state can be spilled soon.
    spills: Option<Arc<Meter>>,
}

#[derive(Debug)]
struct Account {
    memory: LimitedBytes,
    /// The part of the memory in use that is scratch.
    scratch_bytes: AtomicU64,
    /// The part of the memory in use that can be spilled.
    spillable_bytes: AtomicU64,
    /// The number of holders of memory that can be spilled.
    spillable_holders: AtomicU64,
    /// Whether holders must spill whenever they are asked, for tests.
    always_spills: AtomicBool,
    /// The bytes that were given back since freed memory was last released to the system.
    freed_bytes: AtomicU64,
}

/// Counts the memory granted to one holder, such as an operator.
#[derive(Debug, Default)]
pub struct Meter {
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Meter {
    /// The most bytes that the holder held at once.
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
    /// Makes a broker with a limit of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        let account = Account {
            memory: LimitedBytes::new(limit_bytes),
            scratch_bytes: AtomicU64::new(0),
            spillable_bytes: AtomicU64::new(0),
            spillable_holders: AtomicU64::new(0),
            always_spills: AtomicBool::new(false),
            freed_bytes: AtomicU64::new(0),
        };
        Broker { account: Arc::new(account), meter: None, spills: None }
    }

    /// Returns a broker of the same account. Memory taken through it or its clones is counted in `meter`, and no
    /// longer in the meter of this broker.
    #[must_use]
    pub fn metered(&self, meter: &Arc<Meter>) -> Broker {
        Broker { account: Arc::clone(&self.account), meter: Some(Arc::clone(meter)), spills: self.spills.clone() }
    }

    /// Registers a holder of state that can be spilled.
    pub fn spillable(&self) -> SpillableMemory {
        self.account.spillable_holders.fetch_add(1, Ordering::Relaxed);
        SpillableMemory {
            broker: Broker { spills: Some(Arc::default()), ..self.clone() },
            last_bytes: AtomicU64::new(0),
            growth_bytes: AtomicU64::new(0),
        }
    }

    /// Makes holders of spillable state spill whenever they ask, however little they hold. For tests.
    pub fn set_always_spills(&self, always: bool) {
        self.account.always_spills.store(always, Ordering::Relaxed);
    }

    /// The bytes that one holder of spillable state may take for a step, such as reading spilled state back. The
    /// holders share half of the limit.
    pub fn step_share_bytes(&self) -> u64 {
        let holders = self.account.spillable_holders.load(Ordering::Relaxed).max(1);
        (self.limit_bytes() / 2 / holders).max(SPILLED_BYTES_MIN)
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.account.memory.limit()
    }

    /// Changes the limit. Memory that is already granted stays granted.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.account.memory.set_limit(bytes);
    }

    /// The bytes granted now.
    pub fn used_bytes(&self) -> u64 {
        self.account.memory.used()
    }

    /// The most bytes that were granted at once.
    pub fn peak_bytes(&self) -> u64 {
        self.account.memory.peak()
    }

    /// Makes an empty reservation. Errors name `owner`, the operator or the part of the engine that holds the memory.
    pub fn reservation(&self, owner: &'static str) -> Reservation {
        Reservation { broker: self.clone(), owner, bytes: 0 }
    }

    /// Makes an empty scratch for `owner`.
    pub fn scratch(&self, owner: &'static str) -> StepMemory {
        StepMemory { broker: self.clone(), owner, bytes: 0 }
    }

    /// Takes `bytes` for `owner`, which must give them back with [`Broker::give_back`]. For memory that a reservation
    /// cannot represent, such as the memory of another library's operators.
    pub fn take(&self, owner: &str, bytes: u64) -> Result<()> {
        let limit = self.limit_bytes();
        // Only memory that lasts counts against the limit. Scratch is about to be freed, and state that can be spilled
        // is spilled soon.
        let (spillable, max) = match self.spills.is_some() {
            true => (0, self.spillable_bytes_max()),
            false => (self.account.spillable_bytes.load(Ordering::Relaxed), limit),
        };
        self.begin_spillable(bytes);
        let used = self.account.memory.take(bytes);
        let lasting = used.saturating_sub(self.account.scratch_bytes.load(Ordering::Relaxed) + spillable);
        if lasting > max {
            self.account.memory.give_back(bytes);
            self.end_spillable(bytes);
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

    /// The lasting memory up to which requests of spillable state are granted.
    fn spillable_bytes_max(&self) -> u64 {
        let limit = self.limit_bytes();
        limit.saturating_add((limit / 2).max(PASSED_BYTES_MIN))
    }

    /// Takes `bytes` that already exist, even past the limit.
    pub(crate) fn take_always(&self, bytes: u64) {
        self.begin_spillable(bytes);
        let used = self.account.memory.take(bytes);
        self.taken(bytes, used);
    }

    /// Updates peak and meter after `bytes` were taken, which brought the account to `used` bytes.
    fn taken(&self, bytes: u64, used: u64) {
        self.account.memory.keep(used);
        for meter in self.meter.iter().chain(&self.spills) {
            meter.take(bytes);
        }
    }

    /// Releases freed memory to the system if the allocator may keep so much of it that the process has more memory
    /// than the limit. `used` bytes are in use, and `bytes` were freed just now.
    #[cold]
    fn release_if_much(&self, used: u64, bytes: u64) {
        let freed = &self.account.freed_bytes;
        if freed.fetch_add(bytes, Ordering::Relaxed) + bytes + used > self.limit_bytes() {
            freed.store(0, Ordering::Relaxed);
            allocations::release();
        }
    }

    /// Gives back `bytes` that were taken before.
    pub fn give_back(&self, bytes: u64) {
        let used = self.account.memory.give_back(bytes);
        if bytes >= FREED_BYTES_MIN {
            self.release_if_much(used, bytes);
        }
        for meter in self.meter.iter().chain(&self.spills) {
            meter.give_back(bytes);
        }
        self.end_spillable(bytes);
    }

    /// Counts `bytes` that are about to be taken as spillable, if they are. The order matters here and in
    /// [`Broker::end_spillable`], as it does for scratch: a thread that looks between the two steps must see too little
    /// lasting memory rather than too much. Otherwise `take` might refuse a request by mistake.
    fn begin_spillable(&self, bytes: u64) {
        if self.spills.is_some() {
            self.account.spillable_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Undoes [`Broker::begin_spillable`] after the bytes were given back.
    fn end_spillable(&self, bytes: u64) {
        if self.spills.is_some() {
            self.account.spillable_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// A holder of state that it can write to disk. All memory that is taken through [`SpillableMemory::broker`] counts as
/// such state.
#[derive(Debug)]
pub struct SpillableMemory {
    broker: Broker,
    /// The bytes of the state when the holder asked last.
    last_bytes: AtomicU64,
    /// The most bytes by which the state grew before the holder asked again.
    growth_bytes: AtomicU64,
}

impl SpillableMemory {
    /// Grants the memory of the state.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The bytes of the state.
    pub fn held_bytes(&self) -> u64 {
        self.broker.spills.as_ref().map_or(0, |meter| meter.used_bytes.load(Ordering::Relaxed))
    }

    /// Whether the holder must spill all its state now. This is so if memory is short and the holder has at least its
    /// share of it, or if more memory is in use than the limit allows. A holder of little state never has to spill,
    /// because that would free nothing.
    pub fn must_spill(&self) -> bool {
        let held = self.held_bytes();
        let last = self.last_bytes.swap(held, Ordering::Relaxed);
        let growth = held.saturating_sub(last);
        let growth = self.growth_bytes.fetch_max(growth, Ordering::Relaxed).max(growth);
        let must_spill = match self.broker.account.always_spills.load(Ordering::Relaxed) {
            true => held > 0,
            false => self.is_short(held, growth),
        };
        if must_spill {
            self.last_bytes.store(0, Ordering::Relaxed);
        }
        must_spill
    }

    /// Whether memory is short for a holder of `held` bytes that may grow by `growth` before it asks again.
    fn is_short(&self, held: u64, growth: u64) -> bool {
        let account = &self.broker.account;
        let (used, limit) = (self.broker.used_bytes(), self.broker.limit_bytes());
        let holders = account.spillable_holders.load(Ordering::Relaxed).max(1);
        // All holders may grow before they are asked again. We assume that they grow alike, and by a quarter at least.
        let spendable = limit.saturating_sub((growth * holders).max(limit / 4));
        if used <= spendable || held < SPILLED_BYTES_MIN {
            return false;
        }
        held >= spendable / holders || used > limit
    }
}

impl Drop for SpillableMemory {
    fn drop(&mut self) {
        self.broker.account.spillable_holders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory granted to one owner. Given back on drop.
#[derive(Debug)]
pub struct Reservation {
    broker: Broker,
    owner: &'static str,
    bytes: u64,
}

impl Reservation {
    /// The bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes an empty reservation for the same owner.
    #[must_use]
    pub fn another(&self) -> Reservation {
        self.broker.reservation(self.owner)
    }

    /// Asks for `bytes` more. Fails and takes nothing if that would pass the limit.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.broker.take(self.owner, bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Changes the reservation to exactly `bytes`. They already exist, so this may pass the limit.
    pub fn recount(&mut self, bytes: u64) {
        match bytes > self.bytes {
            // The memory exists already, so refusing it would only make the account wrong.
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

/// Memory that one step needs. Given back on drop. It may pass the limit and never causes a refusal.
#[derive(Debug)]
pub struct StepMemory {
    broker: Broker,
    owner: &'static str,
    bytes: u64,
}

impl StepMemory {
    /// Takes `bytes` more. Fails and takes nothing only if `bytes` alone are more than the limit, or more than what
    /// spillable state may take.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        let limit = self.broker.limit_bytes();
        let max = if self.broker.spills.is_some() { self.broker.spillable_bytes_max() } else { limit };
        if bytes > max {
            let message = format!("{} needs {bytes} bytes, more than the memory limit of {limit} bytes", self.owner);
            return Err(Error::new(ErrorKind::MemoryLimit, message).hint(RAISE_IT));
        }
        // The order matters here and in `clear`, as in `Broker::begin_spillable`.
        self.count_scratch(|scratch| scratch.fetch_add(bytes, Ordering::Relaxed));
        self.broker.take_always(bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back all bytes.
    pub fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.broker.give_back(bytes);
        self.count_scratch(|scratch| scratch.fetch_sub(bytes, Ordering::Relaxed));
    }

    /// Calls `change` with the account of scratch. Scratch of spillable state counts as that state alone.
    fn count_scratch(&self, change: impl FnOnce(&AtomicU64) -> u64) {
        if self.broker.spills.is_none() {
            change(&self.broker.account.scratch_bytes);
        }
    }

    /// Makes an empty scratch for the same owner, whose bytes are also counted in `meter`.
    #[must_use]
    pub fn metered(&self, meter: &Arc<Meter>) -> StepMemory {
        self.broker.metered(meter).scratch(self.owner)
    }

    /// Makes an empty scratch for the same owner.
    #[must_use]
    pub fn another(&self) -> StepMemory {
        self.broker.scratch(self.owner)
    }
}

impl Drop for StepMemory {
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
    fn recount_may_grow_past_the_limit_and_shrink() {
        let broker = Broker::new(100);
        let mut a = broker.reservation("table");
        a.recount(170);
        assert_eq!((a.bytes(), broker.used_bytes()), (170, 170));
        a.recount(20);
        assert_eq!((a.bytes(), broker.used_bytes()), (20, 20));
    }

    #[test]
    fn a_meter_counts_only_its_holder() {
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

    const MIB: u64 = 1 << 20;

    /// Grows `held` by a MiB at a time, and asks after each whether `holder` must spill. Returns the answers.
    fn grow_in_steps(holder: &SpillableMemory, held: &mut Reservation, steps: usize) -> Vec<bool> {
        let step = |_| {
            held.grow(MIB).expect("granted");
            holder.must_spill()
        };
        (0..steps).map(step).collect()
    }

    #[test]
    fn state_that_can_be_spilled_is_granted_and_the_larger_holder_must_spill() {
        let broker = Broker::new(16 * MIB);
        let (large, small) = (broker.spillable(), broker.spillable());
        let mut of_large = large.broker().reservation("sort");
        let mut of_small = small.broker().reservation("group by");
        assert_eq!(grow_in_steps(&large, &mut of_large, 9), [false; 9]);
        assert_eq!(grow_in_steps(&small, &mut of_small, 4), [false; 4]);
        assert!(large.must_spill() && !small.must_spill());
        of_large.grow(9 * MIB).expect("granted past the limit");
        assert!(large.must_spill() && small.must_spill());
        assert_eq!((large.held_bytes(), small.held_bytes(), broker.used_bytes()), (18 * MIB, 4 * MIB, 22 * MIB));
        drop(of_large);
        assert_eq!(large.held_bytes(), 0);
        broker.set_always_spills(true);
        assert!(small.must_spill() && !large.must_spill());
    }

    #[test]
    fn a_holder_that_grows_fast_must_spill_earlier() {
        let broker = Broker::new(64 * MIB);
        let (slow, fast) = (broker.spillable(), broker.spillable());
        let mut of_slow = slow.broker().reservation("sort");
        assert_eq!(grow_in_steps(&slow, &mut of_slow, 20), [false; 20]);
        // Another such step of both holders would pass the limit.
        let mut of_fast = fast.broker().reservation("group by");
        of_fast.grow(18 * MIB).expect("granted");
        assert!(!slow.must_spill() && fast.must_spill());
    }

    #[test]
    fn spillable_state_ends_at_its_own_limit_and_refuses_no_reservation() {
        let broker = Broker::new(200 * MIB);
        let spillable = broker.spillable();
        let mut sort = spillable.broker().reservation("sort");
        sort.grow(290 * MIB).expect("granted past the limit");
        let mut scratch = spillable.broker().scratch("sort");
        scratch.grow(10 * MIB).expect("needed");
        let mut join = broker.reservation("join");
        join.grow(200 * MIB).expect("spillable state counts less");
        assert!(join.grow(1).unwrap_err().message().contains("join asked for 1 bytes"));
        drop(join);
        assert_eq!(sort.grow(1).unwrap_err().kind(), ErrorKind::MemoryLimit);
        drop((sort, scratch));
        assert_eq!((broker.used_bytes(), broker.account.spillable_bytes.load(Ordering::Relaxed)), (0, 0));
        assert_eq!(broker.account.scratch_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn scratch_may_pass_the_limit_and_causes_no_refusal() {
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

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

use crate::memory_account::{MemoryAccount, MemoryForm};
use crate::memory_holders::{HeldMemory, MemoryHolders};
use crate::{Error, ErrorKind, Result, allocations};

/// The holders that a refusal names.
const HOLDERS_NAMED: usize = 3;

/// Grants memory. Clones share one account.
#[derive(Clone, Debug)]
pub struct Broker {
    database: Arc<DatabaseMemory>,
    /// The account of the statement, if it has a limit of its own.
    statement: Option<Arc<MemoryAccount>>,
    /// Also counts the memory that is taken through this clone.
    meter: Option<Arc<Meter>>,
    /// Counts the memory that is taken through this clone if it can be spilled.
    spills: Option<Arc<Meter>>,
}

#[derive(Debug)]
struct DatabaseMemory {
    account: MemoryAccount,
    holders: MemoryHolders,
    /// Whether holders must spill whenever they are asked, for tests.
    always_spills: AtomicBool,
    /// The number of the next request that is refused, counted from the next one; 0 for none. For tests.
    refused_request: AtomicU64,
}

impl Drop for DatabaseMemory {
    fn drop(&mut self) {
        allocations::add_limit(self.account.memory().limit().wrapping_neg());
    }
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
        allocations::add_limit(limit_bytes);
        let database = DatabaseMemory {
            account: MemoryAccount::new("memory_limit", limit_bytes),
            holders: MemoryHolders::new(),
            always_spills: AtomicBool::new(false),
            refused_request: AtomicU64::new(0),
        };
        Broker { database: Arc::new(database), statement: None, meter: None, spills: None }
    }

    /// Returns a broker of the same account for one statement, which may hold at most `limit_bytes` of the memory. With
    /// 0, only the limit of the account counts.
    #[must_use]
    pub fn for_statement(&self, limit_bytes: u64) -> Broker {
        let account = || Arc::new(MemoryAccount::new("statement_memory_limit", limit_bytes));
        Broker { statement: (limit_bytes > 0).then(account), ..self.clone() }
    }

    /// Returns a broker of the same account. Memory taken through it or its clones is counted in `meter`, and no
    /// longer in the meter of this broker.
    #[must_use]
    pub fn metered(&self, meter: &Arc<Meter>) -> Broker {
        Broker { meter: Some(Arc::clone(meter)), ..self.clone() }
    }

    /// Registers a holder of state that can be spilled.
    pub fn spillable(&self) -> SpillableMemory {
        self.accounts().for_each(MemoryAccount::add_holder);
        SpillableMemory {
            broker: Broker { spills: Some(Arc::default()), ..self.clone() },
            last_bytes: AtomicU64::new(0),
            growth_bytes: AtomicU64::new(0),
        }
    }

    /// Makes holders of spillable state spill whenever they ask, however little they hold. For tests.
    pub fn set_always_spills(&self, always: bool) {
        self.database.always_spills.store(always, Ordering::Relaxed);
    }

    /// Refuses the request for memory with this number, counted from 1 for the next one. Requests that cannot be
    /// refused do not count. With 0, refuses none. Returns the number of a refusal that has not come yet. For tests.
    pub fn refuse_request(&self, number: u64) -> u64 {
        self.database.refused_request.swap(number, Ordering::Relaxed)
    }

    /// Whether a test wants this request to be refused.
    fn is_refused_by_test(&self) -> bool {
        let counter = &self.database.refused_request;
        counter.load(Ordering::Relaxed) > 0
            && counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| number.checked_sub(1)) == Ok(1)
    }

    /// The bytes that one holder of spillable state may take for a step, such as reading spilled state back. The
    /// holders share half of the limit.
    pub fn step_share_bytes(&self) -> u64 {
        self.accounts().map(MemoryAccount::step_share_bytes).min().unwrap_or(u64::MAX)
    }

    /// The limit, in bytes: that of the statement, if it has a lower one than the database.
    pub fn limit_bytes(&self) -> u64 {
        self.accounts().map(|account| account.memory().limit()).min().unwrap_or(u64::MAX)
    }

    /// Changes the limit of the database. Memory that is already granted stays granted.
    pub fn set_limit_bytes(&self, bytes: u64) {
        let account = self.database.account.memory();
        allocations::add_limit(bytes.wrapping_sub(account.limit()));
        account.set_limit(bytes);
    }

    /// The bytes granted now, to all statements.
    pub fn used_bytes(&self) -> u64 {
        self.database.account.memory().used()
    }

    /// The most bytes that were granted at once, to all statements.
    pub fn peak_bytes(&self) -> u64 {
        self.database.account.memory().peak()
    }

    /// All holders of memory since the database was opened, the largest first.
    pub fn holders(&self) -> Vec<HeldMemory> {
        self.database.holders.all()
    }

    /// Makes an empty reservation. Errors name `owner`, the operator or the part of the engine that holds the memory.
    pub fn reservation(&self, owner: &'static str) -> Reservation {
        Reservation { broker: self.clone(), owner, bytes: 0 }
    }

    /// Makes an empty scratch for `owner`.
    pub fn scratch(&self, owner: &'static str) -> StepMemory {
        StepMemory { broker: self.clone(), owner, bytes: 0 }
    }

    /// The accounts that memory is taken from.
    fn accounts(&self) -> impl Iterator<Item = &MemoryAccount> {
        std::iter::once(&self.database.account).chain(self.statement.as_deref())
    }

    /// The form of memory that is taken through this broker: spillable, or else `otherwise`.
    fn form(&self, otherwise: MemoryForm) -> MemoryForm {
        // All memory of spillable state counts as such state.
        if self.spills.is_some() { MemoryForm::Spillable } else { otherwise }
    }

    /// Takes `bytes` for `owner`, unless that would pass a limit.
    fn take(&self, owner: &'static str, bytes: u64) -> Result<()> {
        let form = self.form(MemoryForm::Lasting);
        if self.is_refused_by_test() {
            let account = &self.database.account;
            return Err(self.refused(account, owner, bytes, account.memory().used()));
        }
        for (taken, account) in self.accounts().enumerate() {
            if let Err(in_use) = account.take(form, bytes) {
                for account in self.accounts().take(taken) {
                    account.give_back(form, bytes);
                }
                return Err(self.refused(account, owner, bytes, in_use));
            }
        }
        self.taken(owner, bytes);
        Ok(())
    }

    /// The error of a request of `bytes` for which `in_use` bytes leave no room.
    #[cold]
    fn refused(&self, account: &MemoryAccount, owner: &'static str, bytes: u64, in_use: u64) -> Error {
        let (holders, limit, setting) = (&self.database.holders, account.memory().limit(), account.setting());
        let largest: Vec<String> = holders
            .all()
            .iter()
            .filter(|held| held.used_bytes > 0)
            .take(HOLDERS_NAMED)
            .map(|held| format!("{} with {}", held.holder, held.used_bytes))
            .collect();
        let largest = match largest.is_empty() {
            true => String::new(),
            false => format!("; the largest holders of the database are {}", largest.join(", ")),
        };
        let held = holders.used_bytes(owner);
        Error::new(
            ErrorKind::MemoryLimit,
            format!(
                "{owner} with {held} bytes asked for {bytes} more, but {in_use} of the {limit} bytes of {setting} are \
                 in use{largest}"
            ),
        )
        .hint(raise(setting))
    }

    /// Takes `bytes` for `owner` that exist already or that a step cannot do without, even past the limit.
    fn take_always(&self, owner: &'static str, form: MemoryForm, bytes: u64) {
        self.accounts().for_each(|account| account.take_always(form, bytes));
        self.taken(owner, bytes);
    }

    /// Counts `bytes` that were taken.
    fn taken(&self, owner: &'static str, bytes: u64) {
        self.database.holders.take(owner, bytes);
        for meter in self.meter.iter().chain(&self.spills) {
            meter.take(bytes);
        }
    }

    /// Gives back `bytes` that were taken in this form.
    fn give_back(&self, owner: &'static str, form: MemoryForm, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.database.holders.give_back(owner, bytes);
        for meter in self.meter.iter().chain(&self.spills) {
            meter.give_back(bytes);
        }
        if let Some(statement) = &self.statement {
            statement.give_back(form, bytes);
        }
        self.database.account.give_back(form, bytes);
    }
}

/// The hint that a setting could be higher.
fn raise(setting: &str) -> String {
    format!("raise it with SET {setting} = '...'")
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
        let must_spill = match self.broker.database.always_spills.load(Ordering::Relaxed) {
            true => held > 0,
            false => self.broker.accounts().any(|account| account.is_short(held, growth)),
        };
        if must_spill {
            // The bytes that are left are known only at the next question. If several threads share the holder, each of
            // them spills a part, so zero would make the rest look like growth.
            self.last_bytes.store(u64::MAX, Ordering::Relaxed);
        }
        must_spill
    }
}

impl Drop for SpillableMemory {
    fn drop(&mut self) {
        self.broker.accounts().for_each(MemoryAccount::remove_holder);
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
        let form = self.broker.form(MemoryForm::Lasting);
        match bytes > self.bytes {
            // The memory exists already, so refusing it would only make the account wrong.
            true => self.broker.take_always(self.owner, form, bytes - self.bytes),
            false => self.broker.give_back(self.owner, form, self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.broker.give_back(self.owner, self.broker.form(MemoryForm::Lasting), self.bytes);
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
        let form = self.broker.form(MemoryForm::Step);
        for account in self.broker.accounts() {
            let limit = account.memory().limit();
            let max = if form == MemoryForm::Spillable { account.spillable_bytes_max() } else { limit };
            if bytes > max {
                let (owner, setting) = (self.owner, account.setting());
                let message = format!("{owner} needs {bytes} bytes, more than the {limit} bytes of {setting}");
                return Err(Error::new(ErrorKind::MemoryLimit, message).hint(raise(setting)));
            }
        }
        self.broker.take_always(self.owner, form, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back all bytes.
    pub fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.broker.give_back(self.owner, self.broker.form(MemoryForm::Step), bytes);
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
        // The other thread of the fast holder has spilled a third of its bytes. The rest is no growth.
        of_slow.recount(12 * MIB);
        of_fast.recount(12 * MIB);
        assert!(!fast.must_spill());
        of_fast.grow(MIB).expect("granted");
        assert!(!fast.must_spill());
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
        assert!(join.grow(1).unwrap_err().message().starts_with("join with 209715200 bytes asked for 1 more"));
        drop(join);
        assert_eq!(sort.grow(1).unwrap_err().kind(), ErrorKind::MemoryLimit);
        drop((sort, scratch));
        assert_eq!(broker.used_bytes(), 0);
        join = broker.reservation("join");
        join.grow(200 * MIB).expect("nothing is in use");
        join.grow(1).expect_err("nothing is uncounted");
    }

    #[test]
    fn a_statement_has_a_limit_of_its_own_within_that_of_the_database() {
        let database = Broker::new(100 * MIB);
        let (statement, other) = (database.for_statement(16 * MIB), database.for_statement(0));
        assert_eq!((statement.limit_bytes(), other.limit_bytes()), (16 * MIB, 100 * MIB));
        let mut join = statement.reservation("join");
        join.grow(16 * MIB).expect("up to the limit");
        let error = join.grow(1).unwrap_err();
        assert!(error.message().contains("16777216 bytes of statement_memory_limit"), "{error}");
        assert_eq!(error.hint_text(), Some("raise it with SET statement_memory_limit = '...'"));
        assert_eq!(database.used_bytes(), 16 * MIB);
        let mut sort = other.reservation("sort");
        assert!(sort.grow(85 * MIB).unwrap_err().message().contains("of memory_limit"));
        drop(join);
        let spillable = statement.spillable();
        let mut group = spillable.broker().reservation("group by");
        assert_eq!(grow_in_steps(&spillable, &mut group, 13), [[false; 12].as_slice(), &[true]].concat());
        statement.scratch("scan").grow(16 * MIB + 1).expect_err("more than the statement may have");
        drop(group);
        assert_eq!(database.used_bytes(), 0);
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
        let message = "sort with 100 bytes asked for 1 more, but 100 of the 100 bytes of memory_limit are in use; the \
                       largest holders of the database are scan with 100, sort with 100";
        assert_eq!(sort.grow(1).unwrap_err().message(), message);
        let error = scan.another().grow(101).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert!(error.message().starts_with("scan needs 101 bytes"), "{error}");
        drop(scan);
        assert_eq!(broker.used_bytes(), 100);
    }
}

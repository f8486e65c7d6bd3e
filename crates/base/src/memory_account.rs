//! One limit of memory and the bytes that count against it: those of a database, or those of one statement.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limited_bytes::LimitedBytes;

/// The least memory by which spillable state may pass the limit: a batch of long texts for each of several workers.
const PASSED_BYTES_MIN: u64 = 1 << 26;

/// Spilling less state than this would free too little for its costs.
const SPILLED_BYTES_MIN: u64 = 1 << 20;

/// The form in which memory is granted. `broker.rs` describes the three forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryForm {
    Lasting,
    Step,
    Spillable,
}

/// The bytes in use of one limit, by their form.
#[derive(Debug)]
pub(crate) struct MemoryAccount {
    /// The setting that changes the limit.
    setting: &'static str,
    memory: LimitedBytes,
    /// The part of the memory in use that is needed for single steps.
    step_bytes: AtomicU64,
    /// The part of the memory in use that can be spilled.
    spillable_bytes: AtomicU64,
    /// The number of holders of memory that can be spilled.
    spillable_holders: AtomicU64,
}

impl MemoryAccount {
    pub(crate) fn new(setting: &'static str, limit_bytes: u64) -> MemoryAccount {
        MemoryAccount {
            setting,
            memory: LimitedBytes::new(limit_bytes),
            step_bytes: AtomicU64::new(0),
            spillable_bytes: AtomicU64::new(0),
            spillable_holders: AtomicU64::new(0),
        }
    }

    pub(crate) fn setting(&self) -> &'static str {
        self.setting
    }

    pub(crate) fn memory(&self) -> &LimitedBytes {
        &self.memory
    }

    /// Takes `bytes` unless that would pass the limit. Then it takes nothing and returns the bytes in use that caused
    /// the refusal.
    pub(crate) fn take(&self, form: MemoryForm, bytes: u64) -> Result<(), u64> {
        // Memory of a single step is about to be freed, and state that can be spilled is spilled soon. So neither
        // should cause the refusal of lasting memory.
        let (uncounted, max) = match form {
            MemoryForm::Spillable => (self.step_bytes.load(Ordering::Relaxed), self.spillable_bytes_max()),
            MemoryForm::Lasting | MemoryForm::Step => {
                let (step, spillable) = (&self.step_bytes, &self.spillable_bytes);
                (step.load(Ordering::Relaxed) + spillable.load(Ordering::Relaxed), self.memory.limit())
            }
        };
        self.begin(form, bytes);
        let used = self.memory.take(bytes);
        let counted = used.saturating_sub(uncounted);
        if counted > max {
            self.memory.give_back(bytes);
            self.end(form, bytes);
            return Err(counted - bytes);
        }
        self.memory.keep(used);
        Ok(())
    }

    /// Takes `bytes`, even past the limit.
    pub(crate) fn take_always(&self, form: MemoryForm, bytes: u64) {
        self.begin(form, bytes);
        self.memory.keep(self.memory.take(bytes));
    }

    /// Gives back `bytes`.
    pub(crate) fn give_back(&self, form: MemoryForm, bytes: u64) {
        self.memory.give_back(bytes);
        self.end(form, bytes);
    }

    /// Counts `bytes` that are about to be taken in their form. The order matters here and in [`MemoryAccount::end`]: a
    /// thread that looks between the two steps must see too little lasting memory rather than too much. Otherwise
    /// [`MemoryAccount::take`] might refuse a request by mistake.
    fn begin(&self, form: MemoryForm, bytes: u64) {
        if let Some(part) = self.part(form) {
            part.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Undoes [`MemoryAccount::begin`] after the bytes were given back.
    fn end(&self, form: MemoryForm, bytes: u64) {
        if let Some(part) = self.part(form) {
            part.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn part(&self, form: MemoryForm) -> Option<&AtomicU64> {
        match form {
            MemoryForm::Lasting => None,
            MemoryForm::Step => Some(&self.step_bytes),
            MemoryForm::Spillable => Some(&self.spillable_bytes),
        }
    }

    /// The memory up to which requests of spillable state are granted.
    pub(crate) fn spillable_bytes_max(&self) -> u64 {
        let limit = self.memory.limit();
        limit.saturating_add((limit / 2).max(PASSED_BYTES_MIN))
    }

    /// Registers a holder of spillable state.
    pub(crate) fn add_holder(&self) {
        self.spillable_holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets a holder that was registered.
    pub(crate) fn remove_holder(&self) {
        self.spillable_holders.fetch_sub(1, Ordering::Relaxed);
    }

    fn holders(&self) -> u64 {
        self.spillable_holders.load(Ordering::Relaxed).max(1)
    }

    /// The bytes that one holder of spillable state may take for a step. The holders share half of the limit.
    pub(crate) fn step_share_bytes(&self) -> u64 {
        (self.memory.limit() / 2 / self.holders()).max(SPILLED_BYTES_MIN)
    }

    /// Whether memory is short for a holder of `held` spillable bytes that may grow by `growth` before it asks again.
    pub(crate) fn is_short(&self, held: u64, growth: u64) -> bool {
        let (used, limit, holders) = (self.memory.used(), self.memory.limit(), self.holders());
        // All holders may grow before they are asked again. We assume that they grow alike, and by a quarter at least.
        let spendable = limit.saturating_sub((growth * holders).max(limit / 4));
        if used <= spendable || held < SPILLED_BYTES_MIN {
            return false;
        }
        held >= spendable / holders || used > limit
    }
}

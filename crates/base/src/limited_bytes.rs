//! Bytes in use, their limit, and their peak: the account that memory and temporary disk space share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts bytes in use. The owner decides which of them must stay below the limit.
#[derive(Debug)]
pub(crate) struct LimitedBytes {
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl LimitedBytes {
    pub(crate) fn new(limit: u64) -> LimitedBytes {
        LimitedBytes { limit: AtomicU64::new(limit), used: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes in use at once, as far as [`LimitedBytes::keep`] was told.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, and returns the bytes in use with them. The caller must then [keep](LimitedBytes::keep) them or
    /// give them back. Taking first means that two threads cannot both pass a check against the same free bytes.
    pub(crate) fn take(&self, bytes: u64) -> u64 {
        self.used.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Keeps bytes that were taken. `used` is the result of [`LimitedBytes::take`].
    pub(crate) fn keep(&self, used: u64) {
        self.peak.fetch_max(used, Ordering::Relaxed);
    }

    /// Gives back `bytes`.
    pub(crate) fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "no more bytes must be given back than were taken");
    }
}

//! The caches of a core. Limits that keep something inside of a cache are derived from these sizes.
//!
//! We do not ask the machine, because the sizes of present cores differ by a factor of two around these, and a limit
//! that is wrong by a factor of two costs little: what no longer fits one cache is mostly in the next one.

/// The bytes of the first-level cache for data. Present server cores have 32 to 64 KiB.
pub(crate) const L1_BYTES: usize = 32 << 10;
/// The bytes of the second-level cache. Present server cores have 512 KiB to 2 MiB.
pub(crate) const L2_BYTES: usize = 1 << 20;

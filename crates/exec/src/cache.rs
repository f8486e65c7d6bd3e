//! The caches of a core. Limits that keep something inside of a cache are derived from these sizes.
//!
//! We do not ask the machine, because the sizes of present cores differ by a factor of two around these, and a limit
//! that is wrong by a factor of two costs little: what no longer fits one cache is mostly in the next one.

/// The bytes of the first-level cache for data. Present server cores have 32 to 64 KiB.
pub(crate) const L1_BYTES: usize = 32 << 10;
/// The bytes of the second-level cache. Present server cores have 512 KiB to 2 MiB.
pub(crate) const L2_BYTES: usize = 1 << 20;
/// The bytes that move between memory and the caches together.
const LINE_BYTES: usize = 64;

/// The look-ups whose memory is read before the first result is used, so that the processor fetches it at the same
/// time. Their cache lines take half of the first-level cache. With 32, 64, 256 and 1,024 of them, a look-up takes 9.1,
/// 7.5, 6.5 and 5.7 ns in a table of 32 MiB, and 1.5, 1.3, 1.2 and 1.2 ns in one of 2 MiB.
pub(crate) const LOOKUPS_AT_ONCE: usize = L1_BYTES / 2 / LINE_BYTES;

/// The rows that are put into partitions at once. With few rows, writes to hundreds of places in turn miss the caches
/// and the TLB. With 1,024, 4,096 and 16,384 rows, a row takes 7.8, 5.3 and 5.6 ns for 256 partitions, and 14.4, 7.9
/// and 6.5 ns for 1,024.
pub(crate) const ROWS_PARTITIONED_AT_ONCE: usize = L1_BYTES / size_of::<u64>();

/// The most partitions that rows are put into at once. With 64, 256, 1,024 and 4,096, H2O's window by id3 takes 214,
/// 152, 150 and 145 ms; more partitions would each take too few of the rows that are put into them at once.
pub(crate) const PARTITIONS_MAX: usize = ROWS_PARTITIONED_AT_ONCE / 4;

//! Rows that do not fit into memory, in temporary files: in buckets by the hash of their keys.
//!
//! Rows with equal keys are in the same bucket, so an operator can work on one bucket after the other. A bucket that
//! does not fit into memory is divided again, by further bits of the hash. Joins, windows and set operations use
//! this.

mod rows;
mod writer;

pub(crate) use self::rows::{SpilledBatch, SpilledRows, SpilledRowsForm, row_count};
pub(crate) use self::writer::{BucketRequest, BucketRows, BucketWriter, spilled_schema};

/// The bits of a hash that choose buckets, by all divisions together. Rows that are still together after them have the
/// same hash, or nearly so.
pub(crate) const HASH_BITS_MAX: u32 = 32;

/// The sizes of spilled rows. Tests have few rows and use smaller sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpillSizes {
    /// The bits of a hash that choose a bucket.
    pub(crate) bucket_bits: u32,
    /// The most bytes that a writer gathers before it writes them.
    pub(crate) gathered_bytes_max: u64,
    /// The most bytes of a batch that is written as one frame. Only few very long values make a larger one.
    pub(crate) batch_bytes_max: u64,
    /// The most bytes of buckets that are read back at once, if that is less than the memory for a step.
    pub(crate) stage_bytes_max: u64,
}

impl Default for SpillSizes {
    fn default() -> Self {
        // With 32 buckets, two divisions are enough for a build side of five hundred times the memory. Of 8 MiB, each
        // bucket gets about 256 KiB at once, so that it is read with few calls.
        let (gathered_bytes_max, batch_bytes_max) = (8 << 20, 1 << 26);
        SpillSizes { bucket_bits: 5, gathered_bytes_max, batch_bytes_max, stage_bytes_max: u64::MAX }
    }
}

impl SpillSizes {
    /// The sizes for operators that tests do not give other ones.
    pub(crate) fn usual() -> SpillSizes {
        #[cfg(test)]
        return SpillSizes::small();
        #[cfg(not(test))]
        SpillSizes::default()
    }

    /// Sizes for tests: small enough that buckets of a few rows are divided again.
    #[cfg(test)]
    pub(crate) fn small() -> SpillSizes {
        SpillSizes { bucket_bits: 2, gathered_bytes_max: 1, batch_bytes_max: 200, stage_bytes_max: 2_000 }
    }

    /// Whether a bucket with `rows` of the `of_all` rows that were divided together can be divided again. It is the
    /// result of `depth` divisions.
    pub(crate) fn can_be_divided(self, rows: u64, of_all: u64, depth: u32) -> bool {
        // If nearly all rows came together, they would come together again.
        rows <= of_all / 10 * 9 && depth * self.bucket_bits < HASH_BITS_MAX
    }
}

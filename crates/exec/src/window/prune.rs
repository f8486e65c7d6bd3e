//! Leaves out rows that cannot be among the first of their partition, before they are sorted.
//!
//! A worker remembers the best order codes of each partition in a table. The low bits of the partition's code choose a
//! slot. If two partitions fall into the same slot, the newer one replaces the older one, and the table forgets what
//! it knew about the older one. That is safe, because it only lets more rows pass.

use crate::cache::L2_BYTES;

/// The most rows of a partition that are remembered. Each row that passes moves up to this many codes. Of 1,001
/// partitions of 10,000 random rows, 2, 7, 12 and 20 % pass with 32, 128, 256 and 512, and each row takes 3, 5, 13 and
/// 26 ns. To sort a row takes about 20 ns.
const KEPT_MAX: usize = 128;
/// The most bits of a partition's code that choose a slot. Partitions that share a slot only let more rows pass. Nearly
/// all random rows of five million partitions pass, in 7.6 ns with 18 bits and in 25 ns with 20.
const SLOT_BITS_MAX: u32 = 18;
/// The most order codes in the table, which takes eight bytes for each. Of 100,000 partitions of 100 random rows, 9,
/// 28, 45 and 68 % pass with tables of 2^18, 2^20, 2^21 and 2^22 codes, and each row takes 3, 9, 29 and 77 ns.
const TABLE_MAX: usize = L2_BYTES;

/// Marks an empty place for a row. The rows of this code always pass.
const NONE: u64 = u64::MAX;

/// The best rows of each partition that a worker has seen.
pub(super) struct BestRows {
    kept: usize,
    /// Whether rows that tie with the last of the best rows are needed too (rank).
    with_ties: bool,
    mask: u64,
    /// The partition that owns each slot.
    owners: Vec<u64>,
    /// The order codes of the best rows of each slot, in order.
    best: Vec<u64>,
}

impl BestRows {
    /// Makes a table for the first `kept` rows of each partition. Codes of partitions and orders have the given
    /// numbers of bits. `None` if the table would be too large to be useful.
    pub(super) fn new(kept: usize, with_ties: bool, partition_bits: u32, order_bits: u32) -> Option<BestRows> {
        let bits = partition_bits.min(SLOT_BITS_MAX);
        let is_small = (1..=KEPT_MAX).contains(&kept) && kept << bits <= TABLE_MAX && order_bits <= u64::BITS;
        is_small.then(|| BestRows {
            kept,
            with_ties,
            mask: (1 << bits) - 1,
            owners: vec![0; 1 << bits],
            best: vec![NONE; kept << bits],
        })
    }

    /// Whether a row may be among the first of its partition. Remembers the row if so.
    #[inline]
    pub(super) fn admits(&mut self, partition: u64, order: u64) -> bool {
        let slot = (partition & self.mask) as usize;
        let best = &mut self.best[slot * self.kept..][..self.kept];
        if self.owners[slot] != partition {
            self.owners[slot] = partition;
            best.fill(NONE);
        }
        let last = best[best.len() - 1];
        if order >= last {
            return order == NONE || self.with_ties && order == last;
        }
        let place = best.partition_point(|better| *better <= order);
        // Insert the code in order. The worst remembered code drops out.
        best[place..].rotate_right(1);
        best[place] = order;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_after_the_best_are_left_out() {
        let mut best = BestRows::new(2, false, 20, 10).expect("a small table");
        let admitted =
            |best: &mut BestRows, orders: &[u64]| orders.iter().map(|order| best.admits(7, *order)).collect::<Vec<_>>();
        assert_eq!(
            admitted(&mut best, &[5, 9, 9, 7, 8, 7, 1, 5]),
            [true, true, false, true, false, false, true, false]
        );
        // Another partition falls into the same slot and replaces this one.
        assert!(best.admits(7 + (1 << SLOT_BITS_MAX), 100));
        assert!(best.admits(7, 100));
        let mut ties = BestRows::new(1, true, 3, 10).expect("a small table");
        assert_eq!(admitted(&mut ties, &[5, 5, 6, 4, 5]), [true, true, false, true, false]);
        assert!(BestRows::new(0, false, 3, 3).is_none() && BestRows::new(1, false, 3, 65).is_none());
        let mut widest = BestRows::new(1, false, 3, 64).expect("a small table");
        assert_eq!(admitted(&mut widest, &[u64::MAX, u64::MAX, 3, u64::MAX, 4]), [true, true, true, true, false]);
    }
}

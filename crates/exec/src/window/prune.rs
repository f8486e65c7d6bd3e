//! Rows that are not among the first of their partition, left out before they are sorted.
//!
//! A worker remembers the best codes of the order that it met in each partition, in a table with a place for each code
//! of a partition, or for each of some low bits of it. There a partition may take the place of another one, whose rows
//! are then looked at again. That only lets more rows through.

/// Rows of a partition that are remembered at most.
const KEPT_MAX: usize = 32;
/// Bits of the codes of partitions by which the table is divided.
const SLOT_BITS_MAX: u32 = 18;
/// Numbers in the table at most.
const TABLE_MAX: usize = 1 << 21;

/// Stands for no row. All codes must be less.
const NONE: u64 = u64::MAX;

/// The best rows of partitions that a worker has met.
pub(super) struct BestRows {
    kept: usize,
    /// Whether rows like the last of the best are needed as well.
    with_ties: bool,
    mask: u64,
    /// The partition of a slot.
    owners: Vec<u64>,
    /// The codes of a slot's best rows, in order.
    best: Vec<u64>,
}

impl BestRows {
    /// A table for the first `kept` rows, of partitions and orders with codes of these widths in bits; `None` if it
    /// would be too large to be of use.
    pub(super) fn new(kept: usize, with_ties: bool, partition_bits: u32, order_bits: u32) -> Option<BestRows> {
        let bits = partition_bits.min(SLOT_BITS_MAX);
        let is_small = (1..=KEPT_MAX).contains(&kept) && kept << bits <= TABLE_MAX && order_bits < u64::BITS;
        is_small.then(|| BestRows {
            kept,
            with_ties,
            mask: (1 << bits) - 1,
            owners: vec![0; 1 << bits],
            best: vec![NONE; kept << bits],
        })
    }

    /// Whether a row may be among the first of its partition.
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
            return self.with_ties && order == last;
        }
        let place = best.partition_point(|better| *better <= order);
        best[place..].rotate_right(1);
        best[place] = order;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_behind_the_best_are_left_out() {
        let mut best = BestRows::new(2, false, 20, 10).expect("a small table");
        let admitted =
            |best: &mut BestRows, orders: &[u64]| orders.iter().map(|order| best.admits(7, *order)).collect::<Vec<_>>();
        assert_eq!(
            admitted(&mut best, &[5, 9, 9, 7, 8, 7, 1, 5]),
            [true, true, false, true, false, false, true, false]
        );
        // Another partition of the same slot is met.
        assert!(best.admits(7 + (1 << SLOT_BITS_MAX), 100));
        assert!(best.admits(7, 100));
        let mut ties = BestRows::new(1, true, 3, 10).expect("a small table");
        assert_eq!(admitted(&mut ties, &[5, 5, 6, 4, 5]), [true, true, false, true, false]);
        assert!(BestRows::new(0, false, 3, 3).is_none() && BestRows::new(1, false, 3, 64).is_none());
    }
}

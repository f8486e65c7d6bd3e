//! Estimates the number of distinct values from the hashes of all values with HyperLogLog.
//!
//! The highest bits of a hash choose a register, and the number of leading zeros after them gives its rank. A register
//! keeps the greatest rank it has seen. The standard error is 1.04 / √registers.
//!
//! Flajolet, Fusy, Gandouet, Meunier: HyperLogLog (2007). We use the estimate of Ertl: New cardinality estimation
//! algorithms for HyperLogLog sketches (2017), because it needs no correction for any range.

/// The number of bits of a hash that choose a register: an error of 1.6 % with 4 KiB.
const SLOT_BITS: u32 = 12;
/// The greatest rank: all bits of the hash after those of the register are zero.
const RANK_MAX: usize = (u64::BITS - SLOT_BITS + 1) as usize;

/// The greatest rank of each register; 0 if it has seen no hash.
#[derive(Clone, Debug)]
pub(super) struct Registers(Vec<u8>);

impl Registers {
    pub(super) fn new() -> Registers {
        Registers(vec![0; 1 << SLOT_BITS])
    }

    pub(super) const BYTES: usize = 1 << SLOT_BITS;

    #[inline]
    pub(super) fn put(&mut self, hash: u64) {
        let slot = (hash >> (u64::BITS - SLOT_BITS)) as usize;
        // The shift fills up with zeros, so the rank must be limited.
        let rank = ((hash << SLOT_BITS).leading_zeros() + 1).min(RANK_MAX as u32) as u8;
        self.0[slot] = self.0[slot].max(rank);
    }

    pub(super) fn estimate(&self) -> f64 {
        let mut ranks = [0; RANK_MAX + 1];
        self.0.iter().for_each(|rank| ranks[usize::from(*rank)] += 1);
        cardinality(&ranks)
    }
}

/// Estimates the number of distinct values. `ranks` has the number of registers of each rank, from 0 (empty registers)
/// to the greatest possible one. This is Ertl's algorithm 6.
pub fn cardinality(ranks: &[usize]) -> f64 {
    let registers = ranks.iter().sum::<usize>() as f64;
    let (Some(empty), Some(full)) = (ranks.first(), ranks.last()) else { return 0.0 };
    let mut sum = registers * tau(1.0 - *full as f64 / registers);
    for count in ranks[1..ranks.len() - 1].iter().rev() {
        sum = 0.5 * (sum + *count as f64);
    }
    sum += registers * sigma(*empty as f64 / registers);
    registers * registers / (2.0 * std::f64::consts::LN_2 * sum)
}

/// Computes x + Σ x^(2^k) 2^(k-1), for the empty registers. Infinite if all registers are empty.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// Computes (1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3, for the full registers.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

//! Random numbers that belong to things, not to threads.
//!
//! Every page, visitor, phrase and session draws from a stream of its own, seeded from (seed, kind of thing, number of
//! the thing). So a page has the same address in all rows, a visitor has the same screen in every session, and any
//! thread can make any part of the table without asking another thread.
//!
//! We use only integer arithmetic, and multiplication, division and square roots of floats. These are exact on every
//! machine, unlike powers and logarithms. So a seed must give the same bytes everywhere.

/// The kinds of things that have random streams of their own.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Run = 1,
    Session,
    Visitor,
    VisitorHome,
    Address,
    Site,
    Page,
    Title,
    Phrase,
    PhraseEngine,
    Network,
    RunLength,
}

/// A stream of random numbers (SplitMix64, Steele, Lea and Flood 2014).
pub(crate) struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit numbers without a visible pattern (the finaliser of SplitMix64).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A bijection of the numbers below `2^bits`: distinct numbers in, distinct numbers out, in no visible order.
pub(crate) fn scramble(x: u64, bits: u32, key: u64) -> u64 {
    let mask = (1 << bits) - 1;
    let half = bits.div_ceil(2);
    // A multiplication by an odd number modulo 2^bits and an xor with a shifted copy can both be reversed, so each
    // round is a bijection.
    let mut x = (x ^ key) & mask;
    for factor in [0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db] {
        x = x.wrapping_mul(factor) & mask;
        x ^= x >> half;
    }
    x
}

impl Random {
    /// Makes the stream of thing number `number` of its kind.
    pub(crate) fn new(seed: u64, kind: Stream, number: u64) -> Random {
        // We mix twice, so that neighbouring numbers of neighbouring kinds have unrelated streams.
        Random(mix(mix(seed ^ ((kind as u64) << 56)) ^ number.wrapping_mul(GOLDEN)))
    }

    /// Draws 64 random bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Draws a number uniformly from [0, 1).
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        // A double has 53 bits of precision, so we use the highest 53.
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws a number uniformly from 0..n.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // The high half of the product is uniform enough, and needs no division.
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// Returns true with probability `p`.
    #[inline]
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Draws a number from 0..n. Small numbers are common: the k-th has a share of about k^(-2/3). The share of
    /// distinct numbers among draws depends only on draws / n, so that tables of all sizes have the same shape.
    #[inline]
    pub(crate) fn skewed(&mut self, n: u64) -> u64 {
        // The cube of a uniform number has this distribution, and multiplications are exact on every machine.
        let u = self.unit();
        ((u * u * u) * n as f64) as u64
    }

    /// Draws like [`skewed`](Self::skewed), with a flatter head: the k-th number has a share of about k^(-1/2).
    #[inline]
    pub(crate) fn mildly_skewed(&mut self, n: u64) -> u64 {
        let u = self.unit();
        ((u * u) * n as f64) as u64
    }

    /// Draws one of a few values, each with a weight.
    pub(crate) fn pick<T: Copy>(&mut self, table: &[(u32, T)]) -> T {
        let total: u32 = table.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total.into()) as u32;
        // We subtract the weights one after the other until the draw falls into one.
        for (weight, value) in table {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *value,
            }
        }
        unreachable!("a draw below the total must fall into one of the weights")
    }

    /// Draws one of a few values with equal probability.
    pub(crate) fn any<T: Copy>(&mut self, table: &[T]) -> T {
        table[self.below(table.len() as u64) as usize]
    }
}

/// Draws from 0..n. The k-th number has a share of (k + shift)^(-3/2), so that a few numbers have most of the draws.
pub(crate) struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(n: usize, shift: f64) -> Zipf {
        let weights = (0..n).map(|k| {
            let x = k as f64 + shift;
            1.0 / (x * x.sqrt())
        });
        Zipf::of_weights(weights)
    }

    pub(crate) fn of_weights(weights: impl Iterator<Item = f64>) -> Zipf {
        let mut sum = 0.0;
        let cumulative = weights.map(|weight| {
            sum += weight;
            sum
        });
        Zipf { cumulative: cumulative.collect() }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let at = random.unit() * total;
        // Rounding can give a value equal to the total, so we limit the index.
        self.cumulative.partition_point(|&sum| sum <= at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn scramble_is_a_bijection() {
        for bits in [1, 2, 7, 12, 16] {
            let seen: HashSet<u64> = (0..1 << bits).map(|x| scramble(x, bits, 0x55)).collect();
            assert_eq!(seen.len(), 1 << bits);
            assert!(seen.iter().all(|x| x >> bits == 0));
        }
    }

    #[test]
    fn streams_repeat_and_differ() {
        let draws = |kind, number| {
            let mut random = Random::new(7, kind, number);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draws(Stream::Page, 3), draws(Stream::Page, 3));
        assert_ne!(draws(Stream::Page, 3), draws(Stream::Page, 4));
        assert_ne!(draws(Stream::Page, 3), draws(Stream::Title, 3));
    }

    #[test]
    fn pick_follows_the_weights() {
        let mut random = Random::new(1, Stream::Run, 0);
        let mut seen = [0u32; 3];
        for _ in 0..10_000 {
            seen[random.pick(&[(1, 0usize), (0, 1), (3, 2)])] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!((2_300..2_700).contains(&seen[0]), "{seen:?}");
    }
}

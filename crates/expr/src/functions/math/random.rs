//! Random numbers: xoshiro256++ (Blackman and Vigna, 2019), one generator per thread, seeded by the system. A session
//! that has called `setseed` has a generator of its own, so that its numbers can be had again.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

thread_local! {
    static GENERATOR: RefCell<Xoshiro> = RefCell::new(Xoshiro::seeded());
}

pub(super) fn random(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    Ok(GENERATOR.with_borrow_mut(|generator| generator.doubles(rows)))
}

/// The random numbers of a session: the same ones after the same seed. Without a seed, those of the thread.
#[derive(Debug, Default)]
pub struct SessionRandom(Mutex<Option<Xoshiro>>);

impl SessionRandom {
    /// Begins the numbers that belong to `seed`.
    pub fn seed(&self, seed: f64) {
        *self.0.lock() = Some(Xoshiro::of_seed(seed));
    }

    /// Returns the next numbers, from 0 to below 1.
    pub fn next(&self, rows: usize) -> ArrayRef {
        match &mut *self.0.lock() {
            Some(generator) => generator.doubles(rows),
            None => GENERATOR.with_borrow_mut(|generator| generator.doubles(rows)),
        }
    }
}

#[derive(Debug)]
struct Xoshiro([u64; 4]);

impl Xoshiro {
    /// The generator of a seed. Its words are the first numbers of SplitMix64, as the authors of xoshiro advise.
    fn of_seed(seed: f64) -> Xoshiro {
        // 0 and -0 are one seed.
        let mut state = (seed + 0.0).to_bits();
        Xoshiro(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }))
    }

    fn doubles(&mut self, rows: usize) -> ArrayRef {
        // We use the upper 53 bits, because a double has 53.
        const STEP: f64 = 1.0 / (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let values: Vec<f64> = (0..rows).map(|_| (self.next() >> 11) as f64 * STEP).collect();
        Arc::new(Float64Array::from(values))
    }

    fn seeded() -> Xoshiro {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the system has randomness");
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(seed.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // The generator never leaves the state of all zeros, so it must not begin there.
        words[0] |= 1;
        Xoshiro(words)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let made = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        made
    }
}

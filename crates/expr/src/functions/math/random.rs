//! Random numbers: xoshiro256++ (Blackman and Vigna, 2019), one generator per thread, seeded by the system.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

thread_local! {
    static GENERATOR: RefCell<Xoshiro> = RefCell::new(Xoshiro::seeded());
}

pub(super) fn random(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    // We use the upper 53 bits, because a double has 53.
    const STEP: f64 = 1.0 / (1_u64 << f64::MANTISSA_DIGITS) as f64;
    GENERATOR.with_borrow_mut(|generator| {
        let values: Vec<f64> = (0..rows).map(|_| (generator.next() >> 11) as f64 * STEP).collect();
        Ok(Arc::new(Float64Array::from(values)) as ArrayRef)
    })
}

#[derive(Debug)]
struct Xoshiro([u64; 4]);

impl Xoshiro {
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

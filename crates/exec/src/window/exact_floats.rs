//! Running totals of floats, without rounding.
//!
//! A finite float is a whole number of 53 bits times a power of two. If the exponents of the values are not far apart,
//! all values are whole numbers of one unit, the last bit of the least value, and 128 bits hold their totals:
//!
//! ```text
//! 127 bits:  | sign | log2(rows) | greatest exponent - least exponent | 53 bits |
//! ```
//!
//! So differences of running totals are exact, as those of integers are (total.rs), and are rounded once. Other floats
//! are folded with a tree (tree.rs), which reads several values and nodes for each frame.

use std::ops::Range;

use arrow::buffer::BooleanBuffer;

/// The bits of a float after its exponent.
const FRACTION_BITS: u32 = 52;
/// The exponent of infinity and NaN.
const EXPONENT_MAX: u64 = 0x7ff;
/// Exponents within these bounds are used. So the unit is no subnormal number, and no total is infinite.
const EXPONENTS: Range<u64> = FRACTION_BITS as u64 + 1..EXPONENT_MAX - 64;

/// Item `i` is the total of the first `i` values, in units.
pub(super) struct ExactFloats {
    before: Vec<i128>,
    unit: f64,
}

impl ExactFloats {
    /// The bytes that a value takes.
    pub(super) const BYTES: usize = size_of::<i128>();

    /// The totals of the values of `mask`. Returns `None` if 128 bits cannot hold them.
    pub(super) fn new(values: &[f64], mask: Option<&BooleanBuffer>) -> Option<ExactFloats> {
        let (mut least, mut greatest) = (u64::MAX, 0);
        // A value that does not count only makes the bounds wider, which is safe. Zero has no exponent of its own.
        for value in values {
            let magnitude = value.abs().to_bits();
            greatest = greatest.max(magnitude);
            least = least.min(if magnitude == 0 { u64::MAX } else { magnitude });
        }
        if greatest == 0 {
            return Some(ExactFloats { before: vec![0; values.len() + 1], unit: 1.0 });
        }
        let (least, greatest) = (least >> FRACTION_BITS, greatest >> FRACTION_BITS);
        if !EXPONENTS.contains(&least) || !EXPONENTS.contains(&greatest) {
            return None;
        }
        let bits = u64::from(FRACTION_BITS + 1 + usize::BITS - values.len().leading_zeros()) + greatest - least;
        if bits >= u64::from(i128::BITS) {
            return None;
        }
        let mut before = Vec::with_capacity(values.len() + 1);
        let mut total = 0;
        before.push(0);
        match mask {
            None => before.extend(values.iter().map(|value| {
                total += units(*value, least);
                total
            })),
            Some(mask) => before.extend(values.iter().zip(mask.iter()).map(|(value, counts)| {
                total += if counts { units(*value, least) } else { 0 };
                total
            })),
        }
        let exponent = least - u64::from(FRACTION_BITS);
        Some(ExactFloats { before, unit: f64::from_bits(exponent << FRACTION_BITS) })
    }

    /// The total of a range of positions.
    #[inline(always)]
    pub(super) fn of(&self, range: Range<usize>) -> f64 {
        let total = self.before[range.end] - self.before[range.start];
        // The processor converts 64 bits with one instruction, and 128 bits take longer than all else here.
        let units = i64::try_from(total).map_or_else(|_| total as f64, |total| total as f64);
        units * self.unit
    }
}

/// A value as a whole number of units, where the unit is the last bit of values with the exponent `least`.
#[inline(always)]
fn units(value: f64, least: u64) -> i128 {
    let bits = value.abs().to_bits();
    if bits == 0 {
        return 0;
    }
    let whole = (bits & ((1 << FRACTION_BITS) - 1)) | 1 << FRACTION_BITS;
    let units = i128::from(whole) << ((bits >> FRACTION_BITS) - least);
    if value.is_sign_negative() { -units } else { units }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::aggregate::{Fold, SumFloat};

    #[test]
    fn totals_of_ranges_are_rounded_once() {
        let values = [1e10, 0.1, -1e10, 0.2, 0.0, -0.0, 3.0];
        let totals = ExactFloats::new(&values, None).expect("near exponents");
        assert_eq!(totals.of(0..3), 0.1, "a large neighbour takes no digits away");
        assert_eq!(totals.of(1..2), 0.1);
        assert_eq!(totals.of(4..6).to_bits(), 0.0_f64.to_bits());
        assert_eq!(totals.of(0..7), 3.3, "not 3.3000000000000003");
        let mask = BooleanBuffer::from(vec![false, true, true, true, true, true, true]);
        let totals = ExactFloats::new(&values, Some(&mask)).expect("near exponents");
        assert_eq!(totals.of(0..2), 0.1);
    }

    #[test]
    fn random_totals_equal_those_with_rounding_errors_kept() {
        let random = &mut SmallRng::seed_from_u64(1);
        for _ in 0..300 {
            let exponents = random.random_range(1..25);
            let value = |random: &mut SmallRng| {
                random.random_range(-1.0..1.0) * 2.0_f64.powi(random.random_range(-exponents..=exponents))
            };
            let values: Vec<f64> = (0..random.random_range(1..200)).map(|_| value(random)).collect();
            // The least exponents may be too far away, but seldom.
            let Some(totals) = ExactFloats::new(&values, None) else { continue };
            for _ in 0..20 {
                let start = random.random_range(0..=values.len());
                let end = random.random_range(start..=values.len());
                let mut sum = SumFloat::load(SumFloat::INITIAL);
                for value in &values[start..end] {
                    sum.take(*value);
                }
                let size: f64 = values[start..end].iter().map(|value| value.abs()).sum();
                let difference = (totals.of(start..end) - sum.total()).abs();
                assert!(difference <= size * f64::EPSILON * 1e-3 || difference <= sum.total().abs() * f64::EPSILON);
            }
        }
    }

    #[test]
    fn values_too_far_apart_have_no_exact_totals() {
        for values in [[1e300, 1.0], [f64::INFINITY, 1.0], [f64::NAN, 1.0], [f64::MAX, f64::MAX], [5e-324, 5e-324]] {
            assert!(ExactFloats::new(&values, None).is_none(), "{values:?}");
        }
        assert!(ExactFloats::new(&[], None).is_some());
        assert!(ExactFloats::new(&[1e15, 1e-6], None).is_some());
    }
}

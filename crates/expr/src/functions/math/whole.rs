//! Whole numbers next to doubles.
//!
//! The processors for which we compile have no instruction that rounds a double to a whole number, so each of the
//! standard library's functions is a call. Conversions to integers and back do the same in a few instructions.

/// Doubles from here on are whole.
const WHOLE_FROM: f64 = (1_u64 << (f64::MANTISSA_DIGITS - 1)) as f64;

/// The greatest double below one half.
const BELOW_HALF: f64 = 0.5_f64.next_down();

/// The whole number next to `value`, towards zero.
#[inline]
pub(super) fn trunc(value: f64) -> f64 {
    // NaN is not less than any number, so it is kept.
    if value.abs() < WHOLE_FROM { ((value as i64) as f64).copysign(value) } else { value }
}

/// The greatest whole number that is not greater than `value`.
#[inline]
pub(super) fn floor(value: f64) -> f64 {
    let whole = trunc(value);
    if whole > value { whole - 1.0 } else { whole }
}

/// The least whole number that is not less than `value`.
#[inline]
pub(super) fn ceil(value: f64) -> f64 {
    let whole = trunc(value);
    // The sum of a negative number and one may be zero, which has the sign of the number.
    if whole < value { (whole + 1.0).copysign(value) } else { whole }
}

/// The whole number nearest to `value`, and of two the one away from zero.
#[inline]
pub(super) fn round(value: f64) -> f64 {
    // One half itself would turn the double just below one half to one.
    trunc(value + BELOW_HALF.copysign(value))
}

/// The whole number nearest to `value`, and of two the even one.
#[inline]
pub(super) fn round_ties_even(value: f64) -> f64 {
    // In a sum of this size the last bit is one, so the addition itself rounds.
    let large = WHOLE_FROM.copysign(value);
    if value.abs() < WHOLE_FROM { ((value + large) - large).copysign(value) } else { value }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn they_agree_with_the_standard_library() {
        let random = &mut SmallRng::seed_from_u64(7);
        let mut values = vec![0.0, 0.5, BELOW_HALF, 1.5, 2.5, WHOLE_FROM, WHOLE_FROM - 0.5, WHOLE_FROM + 1.0, 1e300];
        values.extend([f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 0.49, 0.51, 1e15 + 0.5]);
        values.extend((0..100_000).map(|_| f64::from_bits(random.random())));
        values.extend((0..100_000).map(|_| random.random_range(-1_000_000..1_000_000) as f64 / 8.0));
        values.extend((0..100_000).map(|_| random.random_range(-9e15..9e15)));
        for value in values.into_iter().flat_map(|value| [value, -value]) {
            for (ours, theirs) in [
                (trunc(value), value.trunc()),
                (floor(value), value.floor()),
                (ceil(value), value.ceil()),
                (round(value), value.round()),
                (round_ties_even(value), value.round_ties_even()),
            ] {
                assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{value:e}");
            }
        }
    }
}

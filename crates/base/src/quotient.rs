//! Averages: the double that is nearest to a quotient of integers.

/// The double nearest to `total / 10^scale / count`. `count` must not be zero.
pub fn average(total: i128, count: u64, scale: i8) -> f64 {
    match u128::from(count).checked_mul(10_u128.pow(scale.max(0) as u32)) {
        Some(divisor) => nearest(total, divisor),
        None => total as f64 / 10_f64.powi(i32::from(scale)) / count as f64,
    }
}

/// The double nearest to `dividend / divisor`, with ties to even. The divisor must not be zero.
fn nearest(dividend: i128, divisor: u128) -> f64 {
    const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
    let size = dividend.unsigned_abs();
    let quotient = if size <= EXACT && divisor <= EXACT {
        // Both numbers are exact as doubles, and dividing doubles rounds only once.
        size as f64 / divisor as f64
    } else {
        nearest_long(size, divisor)
    };
    if dividend < 0 { -quotient } else { quotient }
}

/// The bits that a quotient needs before we can round it: the bits of a double, one bit to round by, and one bit that
/// represents all bits after it.
const BITS: u32 = f64::MANTISSA_DIGITS + 2;

fn nearest_long(dividend: u128, divisor: u128) -> f64 {
    let mut quotient = dividend / divisor;
    let mut rest = dividend % divisor;
    let mut exponent = 0_i32;
    if quotient == 0 && rest == 0 {
        return 0.0;
    }
    // Long division in binary until there are enough bits. Each step takes as many bits as the rest has room for.
    while quotient.checked_ilog2().is_none_or(|bits| bits < BITS) {
        // The rest may be shifted by its leading zeros without losing a bit.
        let room = rest.leading_zeros().clamp(1, BITS);
        let Some(shifted) = rest.checked_mul(1 << room) else {
            // The divisor fills 128 bits. An error in the last digit does not matter for a number of this size.
            return quotient as f64 + rest as f64 / divisor as f64;
        };
        quotient = (quotient << room) | (shifted / divisor);
        rest = shifted % divisor;
        exponent -= room as i32;
        if quotient.leading_zeros() <= BITS {
            break;
        }
    }
    // The last bit says whether the division left a rest, so that the conversion treats a tie as a tie only if it is
    // one.
    let rounded = (quotient | u128::from(rest != 0)) as f64;
    rounded * 2_f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_divide_as_doubles_do() {
        assert_eq!(nearest(10, 4), 2.5);
        assert_eq!(nearest(-1, 3), -1.0 / 3.0);
        assert_eq!(nearest(0, 7), 0.0);
    }

    #[test]
    fn large_numbers_round_once() {
        // 2^53 + 1 is not a double. It is halfway between two doubles, and the even one is taken.
        assert_eq!(nearest((1 << 53) + 1, 1), (1_u64 << 53) as f64);
        // A little more than halfway is rounded up.
        assert_eq!(nearest(((1 << 53) + 1) * 1_000 + 1, 1_000), ((1_u64 << 53) + 2) as f64);
        assert_eq!(nearest(i128::from(i64::MAX) * 1_000_003, 1_000_003), i64::MAX as f64);
        assert_eq!(nearest(10_i128.pow(37), 10_u128.pow(37) * 3), 1.0 / 3.0);
        assert_eq!(nearest(-(10_i128.pow(38)), 7), -(10_f64.powi(38) / 7.0));
        assert_eq!(nearest(1, 10_u128.pow(30)), 1e-30);
        assert_eq!(nearest(123_456_789_012_345_678_901, 10_u128.pow(10)), 12_345_678_901.234_568);
    }

    #[test]
    fn quotients_agree_with_parsed_decimals() {
        // The parser rounds a decimal text once, so it must agree with a quotient by a power of ten.
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..2_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let dividend = i128::from(state) * i128::from(state >> 20 | 1);
            let digits = state % 30;
            let text = format!("{dividend}e-{digits}");
            let parsed: f64 = text.parse().expect("a number");
            assert_eq!(nearest(dividend, 10_u128.pow(digits as u32)), parsed, "{text}");
        }
    }
}

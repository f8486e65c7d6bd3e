//! Ranks: numbers by which groups are ordered, from the first to the last.

/// The way in which one order key ranks values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Rank {
    /// The rank of a number in the order of the values. The number must be neither the least nor the greatest `i128`,
    /// because these are the ranks of NULL.
    #[inline]
    pub(crate) fn of(self, number: i128) -> i128 {
        if self.descending { !number } else { number }
    }

    /// The rank of NULL.
    #[inline]
    pub(crate) fn of_null(self) -> i128 {
        if self.nulls_first { i128::MIN } else { i128::MAX }
    }
}

/// A number in the order of floats. NaN is the greatest, and both zeros are equal.
pub(crate) fn float_rank(value: f64) -> i128 {
    let bits = super::bits::f64_bits(value) as i64;
    (bits ^ (bits >> 63 & i64::MAX)).into()
}

/// A number in the order of texts. Texts that share their first 15 bytes have the same rank.
pub(crate) fn text_rank(text: &[u8]) -> i128 {
    let mut first = [0; 16];
    let len = text.len().min(15);
    first[1..=len].copy_from_slice(&text[..len]);
    i128::from_be_bytes(first)
}

//! Chooses the encoding of a column: the smallest of the fast ones.
//!
//! We measure every encoding that suits the data instead of guessing: the packed sizes follow from the least and the
//! greatest value of each vector, and runs and row lists are only built if they may be short. We compare the size times
//! a price, which reflects the cost or gain for readers:
//!
//! | encoding | price | why |
//! | --- | --- | --- |
//! | value list and codes | 0.85 | predicates, functions and aggregates run per value, and counts answer without rows |
//! | value list and runs | 0.85 | like codes |
//! | value list and rows | 0.85 | like codes |
//! | frame of reference | 1.00 | unpacks at memory speed |
//! | decimals | 1.00 | one division per value |
//! | plain | 0.97 | a copy; a smaller saving is not worth unpacking |
//! | delta | 1.10 | a row needs all rows of its vector before it |
//!
//! A column with one value, or with only NULLs, is constant and not measured. We do not try a value list if more than
//! three quarters of the rows have a value of their own: finding and sorting the values would take longer than
//! everything else, and the list would hardly be shorter than the rows.

use super::Encoding;

/// Up to this many values, a list is always tried.
const DISTINCT_ALWAYS: usize = 256;

/// The maximum number of distinct values of a list.
pub(super) fn distinct_max(rows: usize) -> usize {
    (rows / 4 * 3).max(DISTINCT_ALWAYS)
}

/// The price of `encoding` for a size of `bytes`.
pub(super) fn price(encoding: Encoding, bytes: usize) -> usize {
    let hundredths = match encoding {
        Encoding::Constant => 0,
        Encoding::ListCodes | Encoding::ListRuns | Encoding::ListRows => 85,
        Encoding::Frame | Encoding::Decimal | Encoding::Rows | Encoding::Nested => 100,
        Encoding::Plain => 97,
        Encoding::Delta => 110,
    };
    bytes * hundredths / 100
}

/// The cheapest of the encodings offered so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Best(Option<(usize, Encoding)>);

impl Best {
    /// Offers an encoding of `bytes`. Ignored if `bytes` is `None`, or if `forced` names another encoding.
    pub(super) fn offer(&mut self, encoding: Encoding, bytes: Option<usize>, forced: Option<Encoding>) {
        // With a forced encoding, all others are ignored.
        let Some(bytes) = bytes.filter(|_| forced.is_none_or(|forced| forced == encoding)) else { return };
        let price = price(encoding, bytes);
        if self.0.is_none_or(|(best, _)| price < best) {
            self.0 = Some((price, encoding));
        }
    }

    /// The cheapest encoding.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        self.0.map(|(_, encoding)| encoding)
    }

    /// The price of the cheapest encoding.
    pub(super) fn price(&self) -> usize {
        self.0.map_or(usize::MAX, |(price, _)| price)
    }
}

//! Which encoding a column gets: the smallest among those that are fast.
//!
//! Every encoding that suits the data is measured, not guessed: the packed sizes follow from the least and the greatest
//! value of each vector, and runs and row lists are short where they are tried at all. What is compared is the size times
//! a price for what the readers pay or gain:
//!
//! | encoding | price | why |
//! | --- | --- | --- |
//! | value list and codes | 0.85 | predicates, functions and aggregates run per value, and counts answer without rows |
//! | value list and runs | 0.85 | the same |
//! | value list and rows | 0.85 | the same |
//! | frame of reference | 1.00 | unpacks at memory speed |
//! | decimals | 1.00 | one division per value |
//! | plain | 0.97 | a copy; what saves less than this is not worth unpacking |
//! | delta | 1.10 | a row needs all rows of its vector before it |
//!
//! A column with one value, or with NULLs only, is constant and not measured. A value list is not tried where more than
//! three quarters of the rows have a value of their own: finding and sorting the values would take longer than all else,
//! and the list would hardly be shorter than the rows.

use super::Encoding;

/// So few values are always tried.
const DISTINCT_ALWAYS: usize = 256;

/// The most distinct values that a list may have.
pub(super) fn distinct_max(rows: usize) -> usize {
    (rows / 4 * 3).max(DISTINCT_ALWAYS)
}

/// The size that counts when `encoding` takes `bytes`.
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

/// The cheapest of some encodings, if there is any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Best(Option<(usize, Encoding)>);

impl Best {
    /// Takes part with `bytes`, if there are any and `forced` names no other.
    pub(super) fn offer(&mut self, encoding: Encoding, bytes: Option<usize>, forced: Option<Encoding>) {
        let Some(bytes) = bytes.filter(|_| forced.is_none_or(|forced| forced == encoding)) else { return };
        let price = price(encoding, bytes);
        if self.0.is_none_or(|(best, _)| price < best) {
            self.0 = Some((price, encoding));
        }
    }

    /// The cheapest one.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        self.0.map(|(_, encoding)| encoding)
    }

    /// Its price.
    pub(super) fn price(&self) -> usize {
        self.0.map_or(usize::MAX, |(price, _)| price)
    }
}

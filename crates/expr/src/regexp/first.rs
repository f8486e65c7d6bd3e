//! The bytes that a part of a pattern can begin with. The next byte of a text can rule the part out, or tell where to
//! search for it.

use memchr::{memchr, memrchr};

use super::class::continues;

/// A superset of the bytes that a part of a pattern can continue with. Bytes that only continue a character are never
/// among them, so every hit is the border of a character.
#[derive(Clone, Debug)]
pub(super) struct First {
    bytes: [bool; 256],
    /// Whether the part can match at the end of the text.
    at_end: bool,
    /// The only byte, if there is just one and the end is not possible.
    only: Option<u8>,
}

impl First {
    pub(super) const NOTHING: First = First { bytes: [false; 256], at_end: false, only: None };

    /// Adds first bytes of characters.
    pub(super) fn add(&mut self, bytes: impl IntoIterator<Item = u8>) {
        bytes.into_iter().for_each(|byte| self.bytes[usize::from(byte)] = true);
    }

    /// Adds the end of the text.
    pub(super) fn add_end(&mut self) {
        self.at_end = true;
    }

    /// Adds every first byte and the end of the text.
    pub(super) fn add_all(&mut self) {
        self.add_end();
        self.add((0..=u8::MAX).filter(|&byte| !continues(byte)));
    }

    /// Finishes the set after all bytes were added.
    pub(super) fn settle(mut self) -> First {
        let mut all = (0..=u8::MAX).filter(|&byte| self.has(byte));
        self.only = match (all.next(), all.next()) {
            (Some(only), None) if !self.at_end => Some(only),
            _ => None,
        };
        self
    }

    /// Whether the part can continue with a byte.
    pub(super) fn has(&self, byte: u8) -> bool {
        self.bytes[usize::from(byte)]
    }

    /// Whether the part can continue at a position.
    #[inline]
    pub(super) fn is_at(&self, text: &[u8], at: usize) -> bool {
        text.get(at).map_or(self.at_end, |&byte| self.has(byte))
    }

    /// Returns the first position of `from..end` at which the part can continue. The end of the text is a position too.
    #[inline]
    pub(super) fn find(&self, text: &[u8], from: usize, end: usize) -> Option<usize> {
        let within = &text[from..end.min(text.len())];
        let found = match self.only {
            Some(only) => memchr(only, within),
            None => within.iter().position(|&byte| self.has(byte)),
        };
        found.map(|place| from + place).or_else(|| (self.at_end && end > text.len()).then_some(text.len()))
    }

    /// Returns the last position of `from..end` at which the part can continue.
    #[inline]
    pub(super) fn rfind(&self, text: &[u8], from: usize, end: usize) -> Option<usize> {
        if self.at_end && end > text.len() {
            return Some(text.len());
        }
        let within = &text[from..end.min(text.len())];
        let found = match self.only {
            Some(only) => memrchr(only, within),
            None => within.iter().rposition(|&byte| self.has(byte)),
        };
        found.map(|place| from + place)
    }
}

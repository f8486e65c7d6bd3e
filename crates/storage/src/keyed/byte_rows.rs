//! A list of byte strings in one buffer.

/// Byte strings stored one after another, for example the keys or rows of a batch. Callers should clear and refill it
/// instead of making a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteRows {
    /// Makes an empty list.
    pub fn new() -> Self {
        ByteRows::default()
    }

    /// Removes all strings but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The number of strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list has no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The total length of all strings in bytes.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The string at `row`.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        // Only ends are kept: a string starts where the one before ends.
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }

    /// All strings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Adds a copy of `bytes`.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// Adds the bytes that `write` appends. Adds nothing if it fails.
    pub(crate) fn push_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.bytes.len();
        match write(&mut self.bytes) {
            Ok(()) => self.ends.push(self.bytes.len()),
            Err(error) => {
                self.bytes.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_push_adds_nothing() {
        let mut rows = ByteRows::new();
        rows.push(b"ab");
        let failed = rows.push_with(|bytes| {
            bytes.push(1);
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        rows.push(b"");
        rows.push(b"c");
        assert_eq!(rows.iter().collect::<Vec<_>>(), [&b"ab"[..], b"", b"c"]);
        assert_eq!(rows.total_bytes(), 3);
    }
}

//! Many byte strings in one buffer.

/// Byte strings one behind the other: keys or rows of a batch. Made to be cleared and filled again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteRows {
    /// None.
    pub fn new() -> Self {
        ByteRows::default()
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all together.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The string at `row`.
    pub fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }

    /// All in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Adds a copy of `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// Adds what `write` appends; nothing if it fails.
    pub fn push_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
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
    fn what_fails_leaves_nothing() {
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

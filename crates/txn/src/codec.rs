//! The encoding of catalog and manifest values: little endian, length-prefixed, and read with every bound checked.
//!
//! The byte tables are in `docs/file-format.md`, "Ordered base".

use rowmill_base::{Error, Result};

/// Encodes values by appending them to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Self {
        Writer::default()
    }

    /// A writer that appends to `bytes`.
    pub(crate) fn behind(bytes: Vec<u8>) -> Self {
        Writer(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Empties the buffer and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(u32::try_from(value.len()).expect("a catalog value is shorter than 4 GiB"));
        self.0.extend(value);
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// Appends the bytes that `write` appends, with their length in front like [`Writer::bytes`].
    pub(crate) fn bytes_of(&mut self, write: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.later();
        write(self);
        let len = self.0.len() - at - size_of::<u32>();
        self.set_later(at, u32::try_from(len).expect("a catalog value is shorter than 4 GiB"))
    }

    /// Reserves four bytes for a number that [`Writer::set_later`] fills in. Returns their place.
    pub(crate) fn later(&mut self) -> usize {
        self.u32(0);
        self.0.len() - size_of::<u32>()
    }

    pub(crate) fn set_later(&mut self, at: usize, value: u32) -> &mut Self {
        self.0[at..at + size_of::<u32>()].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes values that a [`Writer`] encoded.
#[derive(Debug)]
pub(crate) struct RecordReader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> RecordReader<'a> {
    /// Starts reading `bytes`. `what` names the value in errors.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        RecordReader { bytes, at: 0, what }
    }

    pub(crate) fn damaged(&self, problem: &str) -> Error {
        Error::corrupt(format!("{}, offset {}: {problem}", self.what, self.at))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.bytes[self.at..].get(..len) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(self.damaged("the value ends too early")),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    /// The number that [`RecordReader::u32`] would read next.
    pub(crate) fn peek_u32(&self) -> Option<u32> {
        self.bytes[self.at..].first_chunk().copied().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    pub(crate) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(self.damaged("neither there nor absent")),
        }
    }

    /// Reads a count of items that take at least `bytes_each` bytes. Checks that they can fit, so that damaged bytes
    /// cannot make us allocate unbounded memory.
    pub(crate) fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        match count <= (self.bytes.len() - self.at) / bytes_each {
            true => Ok(count),
            false => Err(self.damaged("a count is too large for the bytes that follow")),
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn end(&self) -> Result<()> {
        match self.is_at_end() {
            true => Ok(()),
            false => Err(self.damaged("bytes are left over")),
        }
    }
}

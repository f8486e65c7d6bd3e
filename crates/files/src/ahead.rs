//! Bytes of a file that were read ahead, for decoders that take them in small pieces.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;

/// Ranges of a file that are read ahead. A decoder may also ask for other bytes, which takes longer.
pub(crate) trait AheadBytes: fmt::Debug + Send + Sync {
    /// Returns `length` bytes at `at`.
    fn bytes(&self, at: u64, length: usize) -> io::Result<Bytes>;

    /// Reads bytes at `at`: at least one, unless the file ends there.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// Reads on from a position.
#[derive(Debug)]
pub(crate) struct AheadReader {
    source: Arc<dyn AheadBytes>,
    at: u64,
}

impl AheadReader {
    pub(crate) fn new(source: Arc<dyn AheadBytes>, at: u64) -> AheadReader {
        AheadReader { source, at }
    }
}

impl Read for AheadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read_at(buffer, self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

//! The bytes of a chunk: a range of a column file's mapping, or memory.
//!
//! Only this file of the crate reads mapped bytes. Therefore it has unsafe code.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use rowmill_base::{Error, Result};
use rowmill_io::Mapping;

use crate::block::StoredChunk;

/// The extent of one chunk. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct ChunkBytes {
    place: ByteOrigin,
    offset: u64,
    len: usize,
}

#[derive(Clone, Debug)]
enum ByteOrigin {
    Memory(Arc<[u8]>),
    Mapped {
        mapping: Arc<Mapping>,
        /// Keeps the extent from being freed.
        _owner: Arc<StoredChunk>,
    },
}

impl ChunkBytes {
    /// The extent of `chunk` in its column file. These bytes keep `chunk`, so that the extent is not freed while a
    /// reader has them.
    pub fn stored(chunk: &Arc<StoredChunk>) -> Result<ChunkBytes> {
        let extent = chunk.extent();
        let place = ByteOrigin::Mapped { mapping: chunk.file().mapping(extent)?, _owner: Arc::clone(chunk) };
        Ok(ChunkBytes { place, offset: extent.offset, len: extent.len as usize })
    }

    /// The chunk in bytes in memory.
    pub fn memory(bytes: impl Into<Arc<[u8]>>) -> ChunkBytes {
        let bytes = bytes.into();
        ChunkBytes { len: bytes.len(), place: ByteOrigin::Memory(bytes), offset: 0 }
    }

    /// The length of the extent in bytes, including the padding after the chunk.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the extent has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn check(&self, range: &Range<usize>) -> Result<()> {
        match range.start <= range.end && range.end <= self.len {
            true => Ok(()),
            false => {
                let message = format!("byte {} of the chunk: the extent ends after {} bytes", range.end, self.len);
                Err(Error::corrupt(message))
            }
        }
    }

    /// A part of the bytes. Shares them.
    pub(crate) fn part(&self, range: Range<usize>) -> Result<ChunkBytes> {
        self.check(&range)?;
        let offset = self.offset + range.start as u64;
        Ok(ChunkBytes { place: self.place.clone(), offset, len: range.len() })
    }

    /// Bytes that the caller has already fetched. Touching mapped bytes that were not fetched may raise a signal.
    pub(crate) fn get(&self, range: Range<usize>) -> Result<&[u8]> {
        self.check(&range)?;
        let start = self.offset + range.start as u64;
        match &self.place {
            ByteOrigin::Memory(bytes) => Ok(&bytes[start as usize..start as usize + range.len()]),
            // SAFETY: the range is inside the extent of a `StoredChunk` (`check`, and `part` only narrows it). That
            // owns the extent: the bytes were written before it was made, and they are freed only after it was
            // dropped. `self`, from which the slice borrows, keeps it.
            ByteOrigin::Mapped { mapping, .. } => unsafe { mapping.slice(start, range.len()) },
        }
    }

    /// Bytes that may have to come from the disk. Returns an error where touching them would raise a signal, for
    /// example if the file was truncated.
    pub(crate) fn fetch(&self, range: Range<usize>) -> Result<&[u8]> {
        self.check(&range)?;
        if let ByteOrigin::Mapped { mapping, .. } = &self.place {
            // This reads the pages and reports a disk error or a truncated file as an error instead of a signal.
            mapping.populate(self.offset + range.start as u64, range.len())?;
        }
        self.get(range)
    }
}

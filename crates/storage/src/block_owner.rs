//! The owner of a chunk. The checksums of a chunk only say that it is whole. A chunk that the disk wrote to a wrong
//! place, or an old one that it failed to overwrite, is whole too. So each chunk has a checksum of the ids of its
//! table, column and block.

use rowmill_base::{BlockId, ColumnId, Error, Result, TableId};

use crate::chunk::{self, ChunkHead};

/// The mark of a chunk that was written without an owner.
const UNKNOWN: u32 = 0;

/// A block of a table. The ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOwner {
    /// The id of the table.
    pub table: TableId,
    /// The id of the block.
    pub block: BlockId,
}

impl BlockOwner {
    /// The CRC-32 of the ids of the table (4 bytes), the column (4) and the block (8), little-endian.
    fn mark(self, column: ColumnId) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.table.0.to_le_bytes());
        hasher.update(&column.0.to_le_bytes());
        hasher.update(&self.block.0.to_le_bytes());
        hasher.finalize()
    }

    /// Writes the mark into the whole chunk of a column.
    pub(crate) fn sign(self, column: ColumnId, chunk: &mut [u8]) {
        chunk::set_owner(chunk, self.mark(column));
    }

    /// Returns a `Corrupt` error if the head belongs to a chunk of another owner.
    pub(crate) fn check(self, column: ColumnId, head: &ChunkHead) -> Result<()> {
        match head.owner() {
            // Older chunks have no owner, so they cannot be checked.
            UNKNOWN => Ok(()),
            mark if mark == self.mark(column) => Ok(()),
            _ => Err(Error::corrupt("byte 72 of the chunk: it belongs to another column or block")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Chunk, ChunkBytes};
    use arrow::array::Int64Array;
    use rowmill_base::SqlType;

    #[test]
    fn a_chunk_is_accepted_only_by_its_own_block() {
        let mut bytes = chunk::encode(&Int64Array::from_iter_values(0..100), &SqlType::Int64).expect("integers");
        let head = |bytes: &[u8]| ChunkHead::read(&ChunkBytes::memory(bytes)).expect("a head");
        let owner = BlockOwner { table: TableId(1), block: BlockId(7) };
        owner.check(ColumnId(2), &head(&bytes)).expect("a chunk without an owner is accepted");
        owner.sign(ColumnId(2), &mut bytes);
        owner.check(ColumnId(2), &head(&bytes)).expect("its own block accepts it");
        for other in [BlockOwner { block: BlockId(8), ..owner }, BlockOwner { table: TableId(0), ..owner }] {
            other.check(ColumnId(2), &head(&bytes)).expect_err("another block or table refuses it");
        }
        owner.check(ColumnId(3), &head(&bytes)).expect_err("another column refuses it");
        Chunk::open(ChunkBytes::memory(bytes), &SqlType::Int64).and_then(|chunk| chunk.verify()).expect("whole");
    }
}

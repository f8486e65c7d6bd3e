//! Whose chunk it is. A chunk by itself says only that it is whole: one that a disk wrote to a wrong place, or did not write
//! over, is as whole as any. So each has the mark of its table, column and block.

use rowmill_base::{BlockId, ColumnId, Error, Result, TableId};

use crate::chunk::{self, ChunkHead};

/// The mark of chunks that were written without one.
const UNKNOWN: u32 = 0;

/// A block of a table. Neither id is ever given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOwner {
    /// The table.
    pub table: TableId,
    /// The block.
    pub block: BlockId,
}

impl BlockOwner {
    /// A CRC-32 of the ids: the table's (4 bytes), the column's (4) and the block's (8), little endian.
    fn mark(self, column: ColumnId) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.table.0.to_le_bytes());
        hasher.update(&column.0.to_le_bytes());
        hasher.update(&self.block.0.to_le_bytes());
        hasher.finalize()
    }

    /// Marks the whole chunk of a column.
    pub(crate) fn sign(self, column: ColumnId, chunk: &mut [u8]) {
        chunk::set_owner(chunk, self.mark(column));
    }

    /// `Corrupt` if the chunk with this head is another's.
    pub(crate) fn check(self, column: ColumnId, head: &ChunkHead) -> Result<()> {
        match head.owner() {
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
    fn a_chunk_is_that_of_its_block_alone() {
        let mut bytes = chunk::encode(&Int64Array::from_iter_values(0..100), &SqlType::Int64).expect("integers");
        let head = |bytes: &[u8]| ChunkHead::read(&ChunkBytes::memory(bytes)).expect("a head");
        let owner = BlockOwner { table: TableId(1), block: BlockId(7) };
        owner.check(ColumnId(2), &head(&bytes)).expect("it does not say whose it is");
        owner.sign(ColumnId(2), &mut bytes);
        owner.check(ColumnId(2), &head(&bytes)).expect("its own");
        for other in [BlockOwner { block: BlockId(8), ..owner }, BlockOwner { table: TableId(0), ..owner }] {
            other.check(ColumnId(2), &head(&bytes)).expect_err("another's");
        }
        owner.check(ColumnId(3), &head(&bytes)).expect_err("another column's");
        Chunk::open(ChunkBytes::memory(bytes), &SqlType::Int64).and_then(|chunk| chunk.verify()).expect("whole");
    }
}

//! The places of a state's extents in its copy. In each file they follow each other without gaps, in their old order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rowmill_base::{BlockId, ColumnId, TableId};
use rowmill_storage::{Block, Extent};

use crate::snapshot::Snapshot;

/// A chunk that will be copied.
pub(super) struct CopiedChunk {
    pub(super) block: Arc<Block>,
    /// The number of the chunk in its block.
    pub(super) chunk: usize,
}

impl CopiedChunk {
    fn extent(&self) -> Extent {
        self.block.chunks()[self.chunk].extent()
    }
}

/// The pieces of each column's file, in the order of their extents.
type Files = BTreeMap<(TableId, ColumnId), Vec<CopiedChunk>>;

/// The pieces of all files of a state, with their offsets in the copy.
pub(super) struct ChunkPlaces {
    files: Files,
    /// The new offset, by table, column and old offset.
    offsets: HashMap<(TableId, ColumnId, u64), u64>,
    blocks: HashSet<BlockId>,
}

impl ChunkPlaces {
    pub(super) fn of(state: &Snapshot) -> ChunkPlaces {
        let (mut files, mut blocks) = (Files::new(), HashSet::new());
        for (table, rows) in &*state.tables {
            for block in &*rows.blocks {
                blocks.insert(block.id());
                for (chunk, stored) in block.chunks().iter().enumerate() {
                    let of_file = files.entry((*table, stored.column())).or_default();
                    of_file.push(CopiedChunk { block: Arc::clone(block), chunk });
                }
            }
        }
        let mut offsets = HashMap::new();
        for ((table, column), pieces) in &mut files {
            pieces.sort_by_key(|piece| piece.extent().offset);
            // Sorting by the old offset keeps the order, and gaps between extents close.
            let mut end = 0;
            for extent in pieces.iter().map(CopiedChunk::extent) {
                offsets.insert((*table, *column, extent.offset), end);
                end += extent.len;
            }
        }
        ChunkPlaces { files, offsets, blocks }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Whether the state has the block.
    pub(super) fn has(&self, block: BlockId) -> bool {
        self.blocks.contains(&block)
    }

    /// The extent of a block's chunk in the copy, or `None` if no block has such a chunk.
    pub(super) fn place(&self, table: TableId, column: ColumnId, extent: Extent) -> Option<Extent> {
        let offset = *self.offsets.get(&(table, column, extent.offset))?;
        Some(Extent { offset, len: extent.len })
    }
}

//! Seals a block: encodes its columns in parallel, each into an extent of its own.
//!
//! Workers take columns from a shared cursor. A worker gets a column's values, encodes and writes them, and drops them
//! before it takes the next column. So sealing needs the values of one column per worker, beyond the memory of the
//! source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;
use rowmill_base::{Cancel, ColumnId, Error, Result, SqlType};

use crate::block::{FreedExtents, StoredChunk};
use crate::block_owner::BlockOwner;
use crate::chunk;
use crate::column_file::ColumnFile;
use crate::open_run::value_bytes;

/// The maximum number of rows of a block. The place of a row then fits the 20 bits that sorts and groupings have for
/// it, and a column of eight bytes takes at most 4 MiB.
pub const ROWS_PER_BLOCK_MAX: usize = 1 << 19;

/// The memory for encoding a column, in multiples of its values: the values, and as much again for the distinct ones.
const ENCODING_FACTOR: u64 = 2;

/// The memory for encoding a column of documents, in multiples of its values: skeletons and parts have most of their
/// bytes again.
const DOCUMENTS_FACTOR: u64 = 3;

/// Rows to be sealed, column by column.
pub trait BlockSource: Sync {
    /// The number of rows, at most [`ROWS_PER_BLOCK_MAX`].
    fn rows(&self) -> usize;
    /// The values of the table's column at `index`, in its Arrow type. Called at most once per column, from any thread.
    fn column(&self, index: usize) -> Result<ArrayRef>;

    /// The whole chunk of the table's column at `index`, if another block stores the same rows in the same order.
    fn encoded(&self, _index: usize) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// The destination of one column of the block.
#[derive(Clone, Debug)]
pub struct ColumnTarget {
    /// The id of the column.
    pub id: ColumnId,
    /// The type of the column.
    pub kind: SqlType,
    /// The file of the column.
    pub file: Arc<ColumnFile>,
}

/// A function that gets every column before it is encoded.
type Check<'a> = dyn Fn(usize, &ArrayRef) -> Result<()> + Sync + 'a;

/// Writes the columns of `source`, column `i` to `targets[i]`, with `threads` workers. Each chunk is marked with
/// `owner`. The chunks are private: dropping them frees their extents, as any error here does. `check` gets every
/// column before it is encoded.
pub fn write_block(
    owner: BlockOwner,
    source: &dyn BlockSource,
    targets: &[ColumnTarget],
    freed: &Arc<FreedExtents>,
    threads: usize,
    cancel: &Cancel,
    check: &Check<'_>,
) -> Result<Vec<StoredChunk>> {
    let rows = source.rows();
    assert!((1..=ROWS_PER_BLOCK_MAX).contains(&rows), "a block must have 1 to {ROWS_PER_BLOCK_MAX} rows, not {rows}");
    let next = AtomicUsize::new(0);
    let outcome: Mutex<Result<Vec<StoredChunk>>> = Mutex::new(Ok(Vec::with_capacity(targets.len())));
    let write_column = |index: usize| -> Result<StoredChunk> {
        cancel.check()?;
        let target = &targets[index];
        let mut memory = target.file.memory().scratch("writing a block");
        let mut bytes = match source.encoded(index)? {
            Some(bytes) => bytes,
            None => {
                let values = source.column(index)?;
                if values.len() != rows {
                    let what = format!("column {index} of a block has {} rows, not {rows}", values.len());
                    return Err(Error::internal(what));
                }
                check(index, &values)?;
                // Reserve before encoding, so that a load that exceeds the memory limit fails early.
                let factor = if target.kind == SqlType::Json { DOCUMENTS_FACTOR } else { ENCODING_FACTOR };
                memory.grow(factor * value_bytes(&values))?;
                chunk::encode_sealed(values, &target.kind, threads)?
            }
        };
        owner.sign(target.id, &mut bytes);
        // The values are gone. Only the encoded bytes count now.
        memory.clear();
        memory.grow(bytes.len() as u64)?;
        let extent = target.file.write(bytes)?;
        // From here on the chunk owns the extent, so a later error frees it.
        Ok(StoredChunk::private(target.id, Arc::clone(&target.file), extent, Arc::clone(freed)))
    };
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // After an error in any worker, the others stop at their next column.
            if index >= targets.len() || outcome.lock().is_err() {
                return;
            }
            let written = write_column(index);
            let mut outcome = outcome.lock();
            match (written, outcome.as_mut()) {
                (Ok(chunk), Ok(chunks)) => chunks.push(chunk),
                (Err(error), Ok(_)) => *outcome = Err(error),
                (_, Err(_)) => return,
            }
        }
    };
    // The caller's thread works too.
    std::thread::scope(|scope| {
        for _ in 1..threads.min(targets.len()) {
            scope.spawn(work);
        }
        work();
    });
    outcome.into_inner()
}

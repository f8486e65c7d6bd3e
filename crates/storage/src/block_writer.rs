//! Seals a block: encodes column by column, in parallel, each into an extent of its own.
//!
//! Workers take columns from a shared cursor, pull the column's values, encode and write them, and let them go before
//! they take the next, so a block in the making holds one column's values per worker beyond what its source holds.

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

/// The most rows of a block.
pub const ROWS_PER_BLOCK_MAX: usize = 1 << 19;

/// Memory that encoding a column takes, its values included: as much again for the distinct ones.
const ENCODING_FACTOR: u64 = 2;

/// Rows that are to become a block, column by column.
pub trait BlockSource: Sync {
    /// Rows, at most [`ROWS_PER_BLOCK_MAX`].
    fn rows(&self) -> usize;
    /// The values of the table's column at `index`, in its Arrow type. Called once per column, from any thread.
    fn column(&self, index: usize) -> Result<ArrayRef>;
}

/// Where a column of the block goes.
#[derive(Clone, Debug)]
pub struct ColumnTarget {
    /// The column.
    pub id: ColumnId,
    /// Its type.
    pub kind: SqlType,
    /// Its file.
    pub file: Arc<ColumnFile>,
}

/// Sees every column before it is encoded.
type Check<'a> = dyn Fn(usize, &ArrayRef) -> Result<()> + Sync + 'a;

/// Writes the columns of `source`, column `i` to `targets[i]`, with `threads` workers; each chunk says that it is `owner`'s. The
/// chunks are private: dropping them, as a failure here does, frees their extents. `check` sees every column before it is encoded.
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
    assert!((1..=ROWS_PER_BLOCK_MAX).contains(&rows), "a block has 1 to {ROWS_PER_BLOCK_MAX} rows, not {rows}");
    let next = AtomicUsize::new(0);
    let outcome: Mutex<Result<Vec<StoredChunk>>> = Mutex::new(Ok(Vec::with_capacity(targets.len())));
    let write_column = |index: usize| -> Result<StoredChunk> {
        cancel.check()?;
        let target = &targets[index];
        let values = source.column(index)?;
        if values.len() != rows {
            return Err(Error::internal(format!("column {index} of a block has {} of {rows} rows", values.len())));
        }
        check(index, &values)?;
        let mut memory = target.file.memory().scratch("writing a block");
        memory.grow(ENCODING_FACTOR * value_bytes(&values))?;
        let mut bytes = chunk::encode(&values, &target.kind)?;
        drop(values);
        owner.sign(target.id, &mut bytes);
        memory.clear();
        memory.grow(bytes.len() as u64)?;
        let extent = target.file.write(bytes)?;
        Ok(StoredChunk::private(target.id, Arc::clone(&target.file), extent, Arc::clone(freed)))
    };
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
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
    std::thread::scope(|scope| {
        for _ in 1..threads.min(targets.len()) {
            scope.spawn(work);
        }
        work();
    });
    outcome.into_inner()
}

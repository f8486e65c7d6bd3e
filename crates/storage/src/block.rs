//! Sealed blocks: up to 2^19 rows, whose columns are chunks in the column files.
//!
//! A block is immutable except for its deletes. A delete replaces the small `Block` around the shared chunks. A chunk
//! owns its extent. While a transaction is open, the chunk is private, and dropping it frees the extent. A commit keeps
//! it. A later commit that removes the block dooms it, and then the extent is freed when the last snapshot that could
//! read it is gone.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use rowmill_base::{BlockId, Cancel, ColumnId, CommitId, Error, Result, RowNumber, SqlType, StepMemory};

use crate::block_owner::BlockOwner;
use crate::chunk::{self, Chunk, ChunkBytes, ChunkHead};
use crate::column_file::ColumnFile;
use crate::column_part::{ColumnPart, PartForm};
use crate::documents::{PartAnswer, PathDirectory};
use crate::extent::Extent;
use crate::open_run::value_bytes;
use crate::schema::TableDef;

/// The column id of the chunk of row numbers. A block has that chunk only if its row numbers have gaps.
pub const ROW_NUMBERS: ColumnId = ColumnId(u32::MAX);

/// Shown to users in place of a column name for [`ROW_NUMBERS`].
pub const ROW_NUMBERS_NAME: &str = "(row numbers)";

/// Extents that no reader in this process uses any longer, each with the commit that removed it (0: no commit ever
/// named it).
#[derive(Debug, Default)]
pub struct FreedExtents(Mutex<Vec<(CommitId, Arc<ColumnFile>, Extent)>>);

impl FreedExtents {
    /// Frees the extents for which `may_free` returns true for the removing commit, and keeps the others.
    pub fn reap(&self, may_free: impl Fn(CommitId) -> bool) -> Result<()> {
        let mut ready: Vec<_> = {
            let mut freed = self.0.lock();
            // The lock is held only while the list is divided, and not during the calls to the file system.
            let (ready, waiting) = freed.drain(..).partition(|(removed_by, _, _)| may_free(*removed_by));
            *freed = waiting;
            ready
        };
        // One call per file frees all its extents, so sort by file.
        ready.sort_by_key(|(_, file, _)| Arc::as_ptr(file));
        let mut outcome = Ok(());
        for of_file in ready.chunk_by(|(_, a, _), (_, b, _)| Arc::ptr_eq(a, b)) {
            let extents: Vec<Extent> = of_file.iter().map(|(_, _, extent)| *extent).collect();
            // If one file cannot be punched, the extents of the other files must still be freed.
            outcome = of_file[0].1.release(&extents).and(outcome);
        }
        outcome
    }

    /// Adds an extent. No commit from `removed_by` on may name it, and no reader in this process may use it.
    pub fn add(&self, removed_by: CommitId, file: &Arc<ColumnFile>, extent: Extent) {
        self.0.lock().push((removed_by, Arc::clone(file), extent));
    }

    /// The extents that wait to be freed, with their files.
    pub fn waiting(&self) -> Vec<(Arc<ColumnFile>, Extent)> {
        self.0.lock().iter().map(|(_, file, extent)| (Arc::clone(file), *extent)).collect()
    }

    /// The bytes that a reader of `commit` keeps from being freed.
    pub fn bytes_kept_by(&self, commit: CommitId) -> u64 {
        let kept = self.0.lock();
        kept.iter().filter(|(removed_by, _, _)| *removed_by > commit).map(|(_, _, extent)| extent.len).sum()
    }

    /// The number of waiting extents.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether no extent waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The fate of an extent that no commit names.
const PRIVATE: u64 = 0;
/// The fate of an extent that the newest commit names. Every other number is the commit that removed it.
const KEPT: u64 = u64::MAX;

/// A chunk at its place in a column file. Owns its extent.
#[derive(Debug)]
pub struct StoredChunk {
    column: ColumnId,
    file: Arc<ColumnFile>,
    extent: Extent,
    fate: AtomicU64,
    /// Whether this process has verified the checksums once.
    verified: AtomicBool,
    /// The head after its first use. We keep it because every query looks at zone maps.
    head: OnceLock<ChunkHead>,
    /// The paths of documents after their first use, and the parts whose checksums this process has verified.
    paths: OnceLock<Option<Arc<PathDirectory>>>,
    verified_parts: Mutex<HashSet<usize>>,
    freed: Arc<FreedExtents>,
}

impl StoredChunk {
    /// Makes a chunk that was just written. No commit may name it yet.
    pub(crate) fn private(column: ColumnId, file: Arc<ColumnFile>, extent: Extent, freed: Arc<FreedExtents>) -> Self {
        let (fate, verified, head) = (AtomicU64::new(PRIVATE), AtomicBool::new(false), OnceLock::new());
        let (paths, verified_parts) = (OnceLock::new(), Mutex::default());
        StoredChunk { column, file, extent, fate, verified, head, paths, verified_parts, freed }
    }

    /// Makes a chunk that the manifest names.
    pub fn kept(column: ColumnId, file: Arc<ColumnFile>, extent: Extent, freed: Arc<FreedExtents>) -> Self {
        let chunk = Self::private(column, file, extent, freed);
        chunk.fate.store(KEPT, Ordering::Relaxed);
        chunk
    }

    /// The column of this chunk.
    pub fn column(&self) -> ColumnId {
        self.column
    }

    /// The file that has this chunk.
    pub fn file(&self) -> &Arc<ColumnFile> {
        &self.file
    }

    /// The range of the file.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

impl Drop for StoredChunk {
    fn drop(&mut self) {
        let fate = *self.fate.get_mut();
        // No `Block` and no `ChunkBytes` of this process has the chunk any longer, so this process does not read it.
        // `reap` decides about other processes.
        if fate != KEPT {
            self.freed.add(CommitId(fate), &self.file, self.extent);
        }
    }
}

/// Verifies the checksums of a part, unless this process has verified them before. A part is a chunk of its own, so
/// those of the other parts are not needed.
fn verify_part(stored: &StoredChunk, number: usize, part: &Chunk) -> Result<()> {
    if stored.verified.load(Ordering::Relaxed) || stored.verified_parts.lock().contains(&number) {
        // The file may have been truncated since the verification.
        part.look_for()?;
        part.assume_verified();
        return Ok(());
    }
    part.verify()?;
    stored.verified_parts.lock().insert(number);
    Ok(())
}

/// What a chunk of documents can say about a path.
fn answer_of(stored: &StoredChunk, documents: &Chunk, keys: &[String]) -> Result<PartAnswer> {
    let paths = match stored.paths.get() {
        Some(paths) => paths,
        None => {
            let paths = documents.paths()?.map(Arc::new);
            // Two threads may read the paths at the same time. The first one wins.
            stored.paths.get_or_init(|| paths)
        }
    };
    Ok(paths.as_ref().map_or(PartAnswer::Unknown, |paths| paths.answer(keys)))
}

/// A sealed block.
#[derive(Clone, Debug)]
pub struct Block {
    id: BlockId,
    first_row: RowNumber,
    /// The number after the last row.
    end_row: RowNumber,
    rows: usize,
    /// Sorted by column id.
    chunks: Arc<[Arc<StoredChunk>]>,
    /// The positions of deleted rows.
    deleted: Option<Arc<RoaringBitmap>>,
}

impl Block {
    /// Makes a block of `rows` rows with the row numbers `numbers`. If the numbers have gaps, one of the chunks must be
    /// [`ROW_NUMBERS`]: the distance of each row's number from the first, ascending.
    pub fn new(
        id: BlockId,
        numbers: Range<RowNumber>,
        rows: usize,
        mut chunks: Vec<StoredChunk>,
        deleted: Option<Arc<RoaringBitmap>>,
    ) -> Self {
        chunks.sort_by_key(StoredChunk::column);
        let chunks = chunks.into_iter().map(Arc::new).collect();
        let block = Block { id, first_row: numbers.start, end_row: numbers.end, rows, chunks, deleted };
        assert!(
            block.numbers_are_dense() == (block.end_row.0 - block.first_row.0 == rows as u64),
            "a block must have a chunk of row numbers exactly if they have gaps"
        );
        block
    }

    /// The id, which is never reused within the database.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// The number of the first row.
    pub fn first_row(&self) -> RowNumber {
        self.first_row
    }

    /// The number after the last row.
    pub fn end_row(&self) -> RowNumber {
        self.end_row
    }

    /// The number of rows when the block was sealed, including deleted ones.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.rows - self.deleted.as_ref().map_or(0, |deleted| deleted.len() as usize)
    }

    /// The positions of deleted rows.
    pub fn deleted(&self) -> Option<&RoaringBitmap> {
        self.deleted.as_deref()
    }

    /// The chunks, sorted by column id.
    pub fn chunks(&self) -> &[Arc<StoredChunk>] {
        &self.chunks
    }

    /// Returns this block with consecutive row numbers from `first_row`.
    #[must_use]
    pub fn at(&self, first_row: RowNumber) -> Self {
        assert!(self.numbers_are_dense(), "only a block with consecutive row numbers can be renumbered");
        Block { first_row, end_row: RowNumber(first_row.0 + self.rows as u64), ..self.clone() }
    }

    /// Returns this block with the rows at `positions` deleted too.
    #[must_use]
    pub fn with_deleted(&self, positions: &RoaringBitmap) -> Self {
        let deleted = self.deleted.as_deref().map_or_else(|| positions.clone(), |deleted| deleted | positions);
        assert!(deleted.max().is_none_or(|last| (last as usize) < self.rows), "deletes must be within the block");
        Block { deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)), ..self.clone() }
    }

    /// Returns this block with exactly the rows at `positions` deleted.
    #[must_use]
    pub fn with_all_deleted(&self, positions: Option<Arc<RoaringBitmap>>) -> Self {
        Block { deleted: positions, ..self.clone() }
    }

    /// Marks the extents as kept, because a commit names the block now. Must be called before the block is shown to
    /// readers.
    pub fn keep(&self) {
        for chunk in &*self.chunks {
            chunk.fate.store(KEPT, Ordering::Release);
        }
    }

    /// Marks the block as removed by `commit`. Its extents are freed when the last snapshot that has the block is gone.
    pub fn doom(&self, commit: CommitId) {
        for chunk in &*self.chunks {
            chunk.fate.store(commit.0, Ordering::Release);
        }
    }

    fn stored(&self, column: ColumnId) -> Option<&Arc<StoredChunk>> {
        self.chunks.binary_search_by_key(&column, |chunk| chunk.column).ok().map(|index| &self.chunks[index])
    }

    /// The size on disk of a column's chunk, in bytes.
    pub fn chunk_bytes(&self, column: ColumnId) -> u64 {
        self.stored(column).map_or(0, |chunk| chunk.extent.len)
    }

    /// Opens the chunk of `table`'s column at `index` and verifies its checksums. `None` if the block is older than the
    /// column.
    ///
    /// The chunk keeps what it decodes, so callers should hold it for one scan and not longer.
    pub fn chunk(&self, table: &TableDef, index: usize) -> Result<Option<Chunk>> {
        let column = &table.columns[index];
        let Some(stored) = self.stored(column.id) else { return Ok(None) };
        let opened = match &column.part {
            Some(part) => self.open_part(table, stored, part, true),
            None => self.open_verified(table, stored, &column.kind),
        };
        opened.map(Some).map_err(|error| self.locate(error, table, &column.name, stored))
    }

    /// Opens the chunk of `table`'s column at `index` and verifies only its head. Enough for zone maps and counts,
    /// which are in the head. `None` if the block is older than the column.
    pub fn chunk_head(&self, table: &TableDef, index: usize) -> Result<Option<Chunk>> {
        let column = &table.columns[index];
        let Some(stored) = self.stored(column.id) else { return Ok(None) };
        let opened = match &column.part {
            Some(part) => self.open_part(table, stored, part, false),
            None => self.open(table, stored, &column.kind),
        };
        opened.map(Some).map_err(|error| self.locate(error, table, &column.name, stored))
    }

    /// Opens the chunk of row numbers and verifies only its head. `None` if the row numbers are consecutive.
    pub fn row_numbers_head(&self, table: &TableDef) -> Result<Option<Chunk>> {
        let Some(stored) = self.stored(ROW_NUMBERS) else { return Ok(None) };
        let head = self.open(table, stored, &SqlType::UInt64).map(Some);
        head.map_err(|error| self.locate(error, table, ROW_NUMBERS_NAME, stored))
    }

    fn open(&self, table: &TableDef, stored: &Arc<StoredChunk>, kind: &SqlType) -> Result<Chunk> {
        let bytes = ChunkBytes::stored(stored)?;
        let memory = stored.file.memory().scratch("reading a block");
        // Parse the head only once per process.
        let head = match stored.head.get() {
            Some(head) => head.clone(),
            None => {
                let head = self.read_head(table, stored, &bytes)?;
                // Two threads may read the head at the same time. The first one wins.
                stored.head.get_or_init(|| head).clone()
            }
        };
        self.with_head(bytes, head, kind, memory)
    }

    /// Reads the head and checks that the chunk belongs to this block.
    fn read_head(&self, table: &TableDef, stored: &StoredChunk, bytes: &ChunkBytes) -> Result<ChunkHead> {
        let head = ChunkHead::read(bytes)?;
        BlockOwner { table: table.id, block: self.id }.check(stored.column, &head)?;
        Ok(head)
    }

    fn with_head(&self, bytes: ChunkBytes, head: ChunkHead, kind: &SqlType, memory: StepMemory) -> Result<Chunk> {
        let chunk = Chunk::with_head(bytes, head, kind)?.with_memory(memory);
        match chunk.rows() == self.rows {
            true => Ok(chunk),
            false => Err(Error::corrupt(format!("a chunk of {} rows in a block of {} rows", chunk.rows(), self.rows))),
        }
    }

    fn open_verified(&self, table: &TableDef, stored: &Arc<StoredChunk>, kind: &SqlType) -> Result<Chunk> {
        let chunk = self.open(table, stored, kind)?;
        if stored.verified.load(Ordering::Relaxed) {
            // The file may have been truncated since the verification.
            chunk.look_for()?;
            chunk.assume_verified();
        } else {
            chunk.verify()?;
            stored.verified.store(true, Ordering::Relaxed);
        }
        Ok(chunk)
    }

    /// What the block can say about a path of the documents in `table`'s column at `index` without reading them. `None`
    /// if the block is older than the column.
    pub(crate) fn path_answer(&self, table: &TableDef, index: usize, keys: &[String]) -> Result<Option<PartAnswer>> {
        let column = &table.columns[index];
        let Some(stored) = self.stored(column.id) else { return Ok(None) };
        if let Some(Some(paths)) = stored.paths.get() {
            return Ok(Some(paths.answer(keys)));
        }
        let answer = self.open(table, stored, &SqlType::Json).and_then(|chunk| answer_of(stored, &chunk, keys));
        answer.map(Some).map_err(|error| self.locate(error, table, &column.name, stored))
    }

    /// Opens a part of documents, and verifies its checksums if `is_read`.
    fn open_part(
        &self,
        table: &TableDef,
        stored: &Arc<StoredChunk>,
        part: &ColumnPart,
        is_read: bool,
    ) -> Result<Chunk> {
        let documents = self.open(table, stored, &SqlType::Json)?;
        let kind = part.form.sql();
        match (answer_of(stored, &documents, &part.keys)?, part.form) {
            (PartAnswer::Missing, _) => Chunk::of_nulls(self.rows, &kind),
            (PartAnswer::Stored(_, stored_kind), PartForm::Rest(wanted)) if stored_kind == wanted => {
                Chunk::of_nulls(self.rows, &kind)
            }
            (PartAnswer::Stored(number, stored_kind), PartForm::Values(wanted)) if stored_kind == wanted => {
                let chunk = documents.part(number, &kind)?;
                if is_read {
                    verify_part(stored, number, &chunk)?;
                }
                Ok(chunk)
            }
            // A plan for another snapshot may ask for a part that this block does not have.
            (PartAnswer::Stored(..) | PartAnswer::Unknown, _) => {
                let documents = self.open_verified(table, stored, &SqlType::Json)?.read(0..self.rows)?;
                let mut memory = stored.file.memory().scratch("reading a block");
                memory.grow(2 * value_bytes(&documents))?;
                let values = part.reader.read(&documents)?;
                Chunk::open(ChunkBytes::memory(chunk::encode(&values, &kind)?), &kind)
            }
        }
    }

    /// Reads the chunk of `table`'s column at `index` with read calls, not through the mapping, and decodes all of it.
    /// Returns the number of bytes read: 0 if the block is older than the column.
    pub fn check_chunk(&self, table: &TableDef, index: usize, cancel: &Cancel) -> Result<u64> {
        let column = &table.columns[index];
        let Some(stored) = self.stored(column.id) else { return Ok(0) };
        let checked = self.open_by_calls(table, stored, &column.kind).and_then(|chunk| chunk.check(cancel));
        checked.map_err(|error| self.locate(error, table, &column.name, stored))?;
        Ok(stored.extent.len)
    }

    /// Reads and decodes the chunk of row numbers, if there is one, and checks that they ascend from the first row to
    /// the last. Returns the number of bytes read.
    pub fn check_row_numbers(&self, table: &TableDef, cancel: &Cancel) -> Result<u64> {
        let Some(stored) = self.stored(ROW_NUMBERS) else { return Ok(0) };
        let check = || {
            let chunk = self.open_by_calls(table, stored, &SqlType::UInt64)?;
            chunk.check(cancel)?;
            let distances = chunk.read(0..self.rows)?;
            let distances = distances.as_primitive::<UInt64Type>().values();
            let (first, last) = (distances.first().copied(), distances.last().copied());
            // The first and the last distance must be those of the block, because scans find rows by them.
            let all = self.end_row.0 - self.first_row.0;
            match distances.is_sorted_by(|one, next| one < next) && first == Some(0) && last == Some(all - 1) {
                true => Ok(()),
                false => Err(Error::corrupt(format!("the row numbers do not ascend from 0 to {}", all - 1))),
            }
        };
        check().map_err(|error: Error| self.locate(error, table, ROW_NUMBERS_NAME, stored))?;
        Ok(stored.extent.len)
    }

    /// Opens a copy of the chunk's bytes without the cached head or verification, so that the check sees the disk.
    fn open_by_calls(&self, table: &TableDef, stored: &StoredChunk, kind: &SqlType) -> Result<Chunk> {
        let mut memory = stored.file.memory().scratch("checking a block");
        memory.grow(stored.extent.len)?;
        let bytes = ChunkBytes::memory(stored.file.read(stored.extent)?);
        let head = self.read_head(table, stored, &bytes)?;
        self.with_head(bytes, head, kind, memory)
    }

    /// Reads one of the block's chunks with read calls, including the padding of its extent, verifies its checksums,
    /// and passes the bytes to `take`.
    pub fn with_verified_bytes<T>(
        &self,
        table: &TableDef,
        stored: &StoredChunk,
        take: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let column = table.column_by_id(stored.column).map(|index| &table.columns[index]);
        let (name, kind) = match column {
            Some(column) => (column.name.as_str(), column.kind.clone()),
            None => (ROW_NUMBERS_NAME, SqlType::UInt64),
        };
        let read = || {
            let mut memory = stored.file.memory().scratch("copying a block");
            memory.grow(stored.extent.len)?;
            let bytes: Arc<[u8]> = stored.file.read(stored.extent)?.into();
            let shared = ChunkBytes::memory(Arc::clone(&bytes));
            let head = self.read_head(table, stored, &shared)?;
            let chunk = self.with_head(shared, head, &kind, memory)?;
            chunk.verify()?;
            Ok((bytes, chunk))
        };
        // The chunk holds the account of the memory, so it must live as long as the bytes.
        let (bytes, _chunk) = read().map_err(|error| self.locate(error, table, name, stored))?;
        take(&bytes)
    }

    /// Returns the verified bytes of the chunk of `table`'s column at `index`, for another block of the same rows.
    /// `None` if the block is older than the column.
    pub fn encoded(&self, table: &TableDef, index: usize) -> Result<Option<Vec<u8>>> {
        match self.stored(table.columns[index].id) {
            Some(stored) => self.with_verified_bytes(table, stored, |bytes| Ok(Some(bytes.to_vec()))),
            None => Ok(None),
        }
    }

    fn locate(&self, error: Error, table: &TableDef, column: &str, stored: &StoredChunk) -> Error {
        let (file, offset) = (stored.file.path(), stored.extent.offset);
        error
            .context(format_args!(
                "table {}, column {column}, block {}, offset {offset} of {file}",
                table.name, self.id
            ))
            .in_file(file)
            .in_block(self.id)
            .at_offset(offset)
    }

    fn numbers_are_dense(&self) -> bool {
        self.stored(ROW_NUMBERS).is_none()
    }

    /// The row numbers of all rows, in order.
    pub fn row_numbers(&self, table: &TableDef) -> Result<RowNumbers> {
        let Some(stored) = self.stored(ROW_NUMBERS) else { return Ok(RowNumbers::Dense(self.first_row)) };
        let distances: Result<ArrayRef> =
            self.open_verified(table, stored, &SqlType::UInt64).and_then(|chunk| chunk.read(0..self.rows));
        let distances = distances.map_err(|error| self.locate(error, table, ROW_NUMBERS_NAME, stored))?;
        let first = self.first_row.0;
        Ok(RowNumbers::Listed(
            distances
                .as_primitive::<UInt64Type>()
                .values()
                .iter()
                .map(|distance| first.wrapping_add(*distance))
                .collect(),
        ))
    }
}

/// The row numbers of a block.
#[derive(Clone, Debug)]
pub enum RowNumbers {
    /// Consecutive numbers from the first.
    Dense(RowNumber),
    /// One number per row, ascending.
    Listed(Vec<u64>),
}

impl RowNumbers {
    /// The number of the row at `position`.
    pub fn at(&self, position: usize) -> u64 {
        match self {
            RowNumbers::Dense(first) => first.0 + position as u64,
            RowNumbers::Listed(numbers) => numbers[position],
        }
    }

    /// The position of the row with number `row`, or `None` if the block does not have it. The block has `rows` rows.
    pub fn position(&self, row: u64, rows: usize) -> Option<u32> {
        match self {
            RowNumbers::Dense(first) => {
                row.checked_sub(first.0).filter(|position| *position < rows as u64).map(|position| position as u32)
            }
            RowNumbers::Listed(numbers) => numbers.binary_search(&row).ok().map(|position| position as u32),
        }
    }
}

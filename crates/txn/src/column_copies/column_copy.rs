//! One copy of a keyed table: how it is made of the table's rows at one commit, and its rows at a later commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use rowmill_base::{
    Cancel, ColumnId, CommitId, Error, ErrorKind, IndexId, Physical, Reservation, Result, RowNumber, SqlType,
};
use rowmill_storage::spill::TempColumnFiles;
use rowmill_storage::{
    Block, BlockOwner, BlockSource, ColumnDef, FreedExtents, KeyBounds, KeyedRows, KeyedSource, OpenRun, TableDef,
    TableSource, value_bytes, write_block,
};

use super::changed_keys::ChangedKeys;
use super::key_list::KeyList;
use crate::background_pace::rest_if_due;
use crate::engine::Core;
use crate::keyed::{KeyedTable, RowLookups};

/// The holder of a copy's memory and disk space, in errors and in lists of holders.
const OWNER: &str = "a column copy";

/// Rows that are read and decoded at once. Their columns should stay in the second-level cache.
const ROWS_AT_ONCE: usize = 1 << 12;

/// The rows of a block may take one part in this many of the memory limit while they are gathered. Encoding takes
/// twice as much for the columns that are being encoded.
const GATHERED_SHARE: u64 = 16;

/// After this number of steps from one commit to a later one, the changed rows are read again as one run. With few
/// runs, rows that changed again and again take no memory. We have not measured other numbers.
const RUNS_MAX: usize = 8;

/// The keys of a copy, which stay in memory, may take one part in this many of the memory limit.
const KEYS_SHARE: u64 = 16;

/// A copy is made only while temporary files take less than one part in this many of their limit. The rest is for
/// statements, which fail without it.
const DISK_SHARE: u64 = 4;

/// Whether the values of a type may be long.
fn is_wide(kind: &SqlType) -> bool {
    matches!(Physical::of(kind), Physical::Text | Physical::Blob | Physical::Nested)
}

/// A copy that should be made.
#[derive(Debug)]
pub(super) struct WantedCopy {
    pub(super) def: Arc<TableDef>,
    /// The columns that queries read.
    pub(super) columns: BTreeSet<ColumnId>,
    /// Notes the changes since before the copy is begun.
    pub(super) changed: Arc<ChangedKeys>,
}

/// The rows of a keyed table at one commit, in blocks.
#[derive(Debug)]
pub(super) struct ColumnCopy {
    def: Arc<TableDef>,
    index: IndexId,
    /// The columns that the copy has, by their positions in the table.
    columns: Vec<usize>,
    /// The commit whose rows the blocks have.
    commit: CommitId,
    /// The blocks in the order of the primary key, each with the keys of its rows.
    blocks: Vec<(Arc<Block>, KeyList)>,
    changed: Arc<ChangedKeys>,
    /// The rows at the newest commit that was asked for.
    newest: Mutex<Option<Arc<RowsAtCommit>>>,
    /// Dropped after the blocks.
    _files: TempColumnFiles,
    _memory: Reservation,
}

impl ColumnCopy {
    /// Makes a copy of the rows that are shown now. Returns `None` if the table is gone, if it is empty, or if too many
    /// rows have changed in the meantime.
    pub(super) fn make(engine: &Core, wanted: WantedCopy, stop: &Cancel) -> Result<Option<ColumnCopy>> {
        let snapshot = engine.snapshot()?;
        let index_of = |def: &TableDef| def.keyed.as_ref().map(|keyed| keyed.index);
        let table = snapshot.table(wanted.def.id).filter(|table| index_of(&table.def) == index_of(&wanted.def));
        let (Some(table), Some(index)) = (table, index_of(&wanted.def)) else { return Ok(None) };
        let Some(keyed) = &table.keyed else { return Ok(None) };
        let Some(def) = keyed.def() else { return Ok(None) };
        let WantedCopy { columns, changed, .. } = wanted;
        let commit = keyed.commit();
        changed.set_since(commit);
        let is_copied = |column: &ColumnDef| !is_wide(&column.kind) || columns.contains(&column.id);
        let columns: Vec<usize> = (0..def.columns.len()).filter(|column| is_copied(&def.columns[*column])).collect();
        let copied = columns.iter().map(|column| &def.columns[*column]);
        let files = engine.temp().column_files(OWNER, copied, engine.broker())?;
        let mut maker = CopyMaker {
            engine,
            keyed,
            def: &def,
            columns: &columns,
            files,
            bytes: 0,
            next_row: RowNumber(0),
            blocks: Vec::new(),
            freed: Arc::default(),
            memory: engine.broker().reservation(OWNER),
            stop,
        };
        let mut rows = keyed.read(&KeyBounds::ALL)?;
        while maker.add_block(&mut *rows)? {}
        let CopyMaker { files, blocks, memory, .. } = maker;
        if blocks.is_empty() || changed.are_too_many() {
            return Ok(None);
        }
        Ok(Some(ColumnCopy {
            def: Arc::clone(&def),
            index,
            columns,
            commit,
            blocks,
            changed,
            newest: Mutex::default(),
            _files: files,
            _memory: memory,
        }))
    }

    /// Whether the copy has the columns at `columns`.
    pub(super) fn has(&self, columns: &[usize]) -> bool {
        columns.iter().all(|column| self.columns.binary_search(column).is_ok())
    }

    /// Whether the copy is one of a table with this definition. Two open transactions can give a table definitions with
    /// the same version, so only the same definition will do.
    pub(super) fn is_of(&self, def: &Arc<TableDef>) -> bool {
        Arc::ptr_eq(&self.def, def)
    }

    /// The keys that have changed since.
    pub(super) fn changed(&self) -> &Arc<ChangedKeys> {
        &self.changed
    }

    /// The rows that `table` sees. `None` if it sees an older state than the copy has, or if too many rows have
    /// changed.
    pub(super) fn rows_at(self: &Arc<Self>, table: &KeyedTable) -> Option<CopiedRows> {
        let commit = table.commit();
        if commit < self.commit {
            return None;
        }
        // Held while the rows are made, so that queries of the same commit make them once.
        let mut newest = self.newest.lock();
        let known = newest.as_ref().filter(|rows| rows.commit <= commit);
        let rows = match known {
            Some(known) if known.commit == commit => Arc::clone(known),
            known => {
                let later = known.and_then(|known| self.rows_after(known, table));
                let rows = Arc::new(later.or_else(|| self.rows_after(&self.first_rows(), table))?);
                // A query of an older commit leaves the rows of the newest one to others.
                if newest.as_ref().is_none_or(|newest| newest.commit < commit) {
                    *newest = Some(Arc::clone(&rows));
                }
                rows
            }
        };
        Some(CopiedRows {
            blocks: rows.blocks.clone(),
            runs: rows.runs.iter().map(|(run, _)| Arc::clone(run)).collect(),
            changed_rows: rows.changed_rows,
            copy: Arc::clone(self),
        })
    }

    /// The rows at the commit of the copy.
    fn first_rows(&self) -> RowsAtCommit {
        let blocks = self.blocks.iter().map(|(block, _)| Arc::clone(block)).collect();
        RowsAtCommit { commit: self.commit, blocks, runs: Vec::new(), changed_rows: 0 }
    }

    /// The rows that `table` sees, made of those at an earlier commit. `None` if too many rows have changed, or in too
    /// many steps, or if a changed row cannot be read: then the query meets the error when it reads the table.
    fn rows_after(&self, earlier: &RowsAtCommit, table: &KeyedTable) -> Option<RowsAtCommit> {
        let commit = table.commit();
        let keys = self.changed.between(table.store(), self.index, (earlier.commit, commit))?;
        let changed_rows = earlier.changed_rows + keys.len() as u64;
        if changed_rows > self.changed.keys_max() || earlier.runs.len() == RUNS_MAX {
            return None;
        }
        let (mut blocks, mut runs) = (earlier.blocks.clone(), earlier.runs.clone());
        for (block, (_, list)) in blocks.iter_mut().zip(&self.blocks) {
            let gone = places_of(&keys, list);
            if !gone.is_empty() {
                *block = Arc::new(block.with_deleted(&gone));
            }
        }
        for (run, list) in &mut runs {
            let gone = places_of(&keys, list);
            if !gone.is_empty() {
                *run = Arc::new(run.with_deleted(&gone));
            }
        }
        runs.extend(self.current_rows(&keys, earlier.end_row(), table).ok()?);
        Some(RowsAtCommit { commit, blocks, runs, changed_rows })
    }

    /// The rows that `table` has for `keys`, in their order, with their keys. `None` if there are none.
    fn current_rows(
        &self,
        keys: &[Box<[u8]>],
        first_row: RowNumber,
        table: &KeyedTable,
    ) -> Result<Option<RunWithKeys>> {
        let mut lookups = RowLookups::default();
        keys.iter().for_each(|key| lookups.push(key));
        table.look_up(&mut lookups)?;
        let found = (0..lookups.len()).filter_map(|at| {
            let (key, row) = lookups.get(at);
            Some((key, row?))
        });
        let (keys, rows): (Vec<&[u8]>, Vec<&[u8]>) = found.unzip();
        if keys.is_empty() {
            return Ok(None);
        }
        let columns = self.columns.iter().map(|column| self.def.columns[*column].id);
        let columns = columns.zip(table.decode(&keys, &rows, &self.columns)?).collect();
        let run = OpenRun::of_columns(first_row, keys.len(), columns).counted(table.store().broker());
        let mut list = KeyList::default();
        keys.iter().for_each(|key| list.push(key));
        Ok(Some((Arc::new(run), Arc::new(list))))
    }
}

/// The positions of those of `keys`, which ascend, that a list has.
fn places_of(keys: &[Box<[u8]>], list: &KeyList) -> RoaringBitmap {
    let range = keys.partition_point(|key| **key < *list.first())..keys.partition_point(|key| **key <= *list.last());
    keys[range].iter().filter_map(|key| list.find(key)).collect()
}

/// Changed rows, and their keys.
type RunWithKeys = (Arc<OpenRun>, Arc<KeyList>);

/// The blocks of a copy without the rows that have changed up to a commit, and these rows.
#[derive(Debug)]
struct RowsAtCommit {
    commit: CommitId,
    blocks: Vec<Arc<Block>>,
    /// The changed rows. Each run has those of the commits between two queries; rows that changed again are deleted.
    runs: Vec<RunWithKeys>,
    changed_rows: u64,
}

impl RowsAtCommit {
    /// The number after the last row.
    fn end_row(&self) -> RowNumber {
        let of_runs = self.runs.last().map(|(run, _)| RowNumber(run.first_row().0 + run.rows() as u64));
        of_runs.or_else(|| Some(self.blocks.last()?.end_row())).unwrap_or(RowNumber(0))
    }
}

/// The rows of a keyed table at one commit, in columns.
#[derive(Debug)]
pub(super) struct CopiedRows {
    blocks: Vec<Arc<Block>>,
    runs: Vec<Arc<OpenRun>>,
    changed_rows: u64,
    /// Keeps the files of the blocks.
    copy: Arc<ColumnCopy>,
}

impl CopiedRows {
    /// The number of rows that have changed since the copy was made.
    pub(super) fn changed_rows(&self) -> u64 {
        self.changed_rows
    }
}

impl TableSource for CopiedRows {
    fn table(&self) -> &Arc<TableDef> {
        &self.copy.def
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &self.runs
    }
}

/// A copy that is being made.
struct CopyMaker<'e> {
    engine: &'e Core,
    keyed: &'e KeyedTable,
    def: &'e Arc<TableDef>,
    columns: &'e [usize],
    files: TempColumnFiles,
    /// The bytes of all blocks.
    bytes: u64,
    next_row: RowNumber,
    blocks: Vec<(Arc<Block>, KeyList)>,
    freed: Arc<FreedExtents>,
    memory: Reservation,
    stop: &'e Cancel,
}

/// The rows of one block, as they were decoded.
struct GatheredRows {
    /// For each column, its values in parts.
    columns: Vec<Vec<ArrayRef>>,
    keys: KeyList,
}

impl BlockSource for GatheredRows {
    fn rows(&self) -> usize {
        self.keys.len()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.columns[index].iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(|error| Error::internal(error.to_string()))
    }
}

impl CopyMaker<'_> {
    /// Makes a block of the next rows. Returns `false` if there are none.
    fn add_block(&mut self, rows: &mut dyn KeyedRows) -> Result<bool> {
        let mut gathered_memory = self.engine.broker().reservation(OWNER);
        let Some(gathered) = self.gather(rows, &mut gathered_memory)? else { return Ok(false) };
        let count = gathered.keys.len();
        // No column takes more than its values.
        let (quota, bytes) = (self.engine.temp().quota(), gathered_memory.bytes());
        if quota.used_bytes() + bytes > quota.limit_bytes() / DISK_SHARE {
            return Err(Error::new(
                ErrorKind::DiskFull,
                "a column copy takes too much of the limit of temporary files",
            ));
        }
        self.files.reserve(bytes)?;
        let owner = BlockOwner { table: self.def.id, block: self.engine.ids().block() };
        let threads = self.engine.threads();
        let chunks =
            write_block(owner, &gathered, self.files.targets(), &self.freed, threads, self.stop, &|_, _| Ok(()))?;
        let end = RowNumber(self.next_row.0 + count as u64);
        let block = Block::new(owner.block, self.next_row..end, count, chunks, None);
        self.bytes += block.chunks().iter().map(|chunk| chunk.extent().len).sum::<u64>();
        self.files.settle(self.bytes)?;
        self.memory.grow(gathered.keys.memory_bytes())?;
        if self.memory.bytes() > self.engine.broker().limit_bytes() / KEYS_SHARE {
            return Err(Error::new(ErrorKind::MemoryLimit, "the keys of a column copy take too much memory"));
        }
        self.blocks.push((Arc::new(block), gathered.keys));
        self.next_row = end;
        Ok(true)
    }

    /// Reads and decodes the rows of the next block, or fewer if memory allows no more.
    fn gather(&self, rows: &mut dyn KeyedRows, memory: &mut Reservation) -> Result<Option<GatheredRows>> {
        let columns = vec![Vec::new(); self.columns.len()];
        let mut gathered = GatheredRows { columns, keys: KeyList::default() };
        let (rows_max, bytes_max) = (self.engine.rows_per_block(), self.engine.broker().limit_bytes() / GATHERED_SHARE);
        while gathered.keys.len() < rows_max && memory.bytes() < bytes_max {
            self.stop.check()?;
            rest_if_due();
            let at_once = ROWS_AT_ONCE.min(rows_max - gathered.keys.len());
            let read = rows.next_in_place(at_once, &mut |keys, rows| {
                let columns = self.keyed.decode(keys, rows, self.columns)?;
                memory.grow(columns.iter().map(value_bytes).sum())?;
                keys.iter().for_each(|key| gathered.keys.push(key));
                gathered.columns.iter_mut().zip(columns).for_each(|(parts, values)| parts.push(values));
                Ok(())
            })?;
            if read == 0 {
                break;
            }
        }
        Ok((gathered.keys.len() > 0).then_some(gathered))
    }
}

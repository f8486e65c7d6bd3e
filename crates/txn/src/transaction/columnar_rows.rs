//! Changes of rows of columnar tables, and the state that a transaction sees because of them.
//!
//! ```text
//! insert         pending batches  ── a view needs them ──>  runs    ── joined, as committed runs are
//!                                 └─ they fill a block ──>  blocks  ── in private extents
//! insert_block   ────────────────────────────────────────>  blocks
//! replace        ─── replaced_rows.rs ────────────────────>  blocks, and pending batches
//! delete         bitmaps: one of committed rows, one of the transaction's own
//! ```
//!
//! Everything large is shared, so that a savepoint can clone the changes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use rowmill_base::{Broker, Error, ErrorKind, Result, RowNumber, SqlType, TableId};
use rowmill_storage::{
    Block, BlockOwner, BlockSource, OpenRun, TableDef, TableSource, TimeOrdered, value_bytes, write_block,
};

use super::{PRIVATE_ROWS, Transaction, gone};
use crate::deletes::{self, DeletesByHolder, RowFinder};
use crate::snapshot::TableSnapshot;

/// When memory is short, pending rows become a block only if there are at least this many. Fewer rows are not worth a
/// write to every column file.
const EARLY_BLOCK_ROWS_MIN: usize = 1 << 12;

/// Pending rows of more bytes become a block, even if they are few. A run is one value of the base and one piece of a
/// log record, so it must not grow without bound.
const RUN_BYTES_MAX: u64 = 32 << 20;

/// Pending rows may take at most one part in this many of the memory limit.
pub(super) const PENDING_SHARE: u64 = 4;

/// The changes of a transaction to one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableChanges {
    /// All rows of the base snapshot are deleted.
    pub(crate) truncated: bool,
    /// Deleted rows of the base snapshot.
    pub(crate) deleted: DeletesByHolder,
    /// Deleted rows that this transaction inserted itself.
    pub(crate) own_deleted: DeletesByHolder,
    /// Inserted rows that fill a block, under private row numbers.
    pub(crate) blocks: Vec<Arc<Block>>,
    /// Inserted rows that do not fill a block yet, under private row numbers.
    pub(crate) runs: Vec<Arc<OpenRun>>,
    /// Inserted batches that are not a run yet. Their rows come after the runs.
    pub(super) pending: Vec<RecordBatch>,
    pub(super) pending_rows: usize,
    pub(super) pending_bytes: u64,
    /// All rows that were inserted, including the pending ones.
    pub(super) inserted: u64,
}

impl TableChanges {
    fn next_row(&self) -> RowNumber {
        // Pending rows have no numbers yet: they take theirs when they become a run or a block.
        RowNumber(PRIVATE_ROWS + self.inserted - self.pending_rows as u64)
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.truncated && self.deleted.is_empty() && self.inserted == 0
    }

    /// Makes one run of the pending batches.
    fn flush(&mut self, table: &TableDef, memory: &Broker) -> Result<()> {
        let batch = concat_batches(table, &self.pending, self.pending_rows)?;
        let run = OpenRun::new(self.next_row(), table, &batch).counted(memory);
        self.forget_pending();
        self.runs.push(Arc::new(run));
        for run in join_tail(table, &mut self.runs, memory)? {
            self.move_own_deletes(run.first_row());
        }
        Ok(())
    }

    /// Moves the deletes of a run that started at `first_row` to the joined run that now holds its rows.
    fn move_own_deletes(&mut self, first_row: RowNumber) {
        let Some(positions) = self.own_deleted.remove(&first_row) else { return };
        let holder = self.runs.iter().rfind(|run| run.first_row() <= first_row).expect("a joined run holds its parts");
        let offset = (first_row.0 - holder.first_row().0) as u32;
        let moved = self.own_deleted.entry(holder.first_row()).or_default();
        moved.extend(positions.iter().map(|position| position + offset));
    }

    /// Forgets the pending rows, because they are now a run or a block.
    fn forget_pending(&mut self) {
        (self.pending_rows, self.pending_bytes) = (0, 0);
        self.pending.clear();
    }
}

/// Joins the last runs while enough runs of one size tier are at the end. Returns the runs that were replaced.
pub(crate) fn join_tail(table: &TableDef, runs: &mut Vec<Arc<OpenRun>>, memory: &Broker) -> Result<Vec<Arc<OpenRun>>> {
    let mut gone = Vec::new();
    loop {
        let tail = OpenRun::tail_to_join(runs);
        if tail == 0 {
            return Ok(gone);
        }
        let joined = OpenRun::join(table, &runs[runs.len() - tail..])?.counted(memory);
        gone.extend(runs.drain(runs.len() - tail..));
        runs.push(Arc::new(joined));
    }
}

impl Transaction {
    /// The definition of a columnar table. Returns an error if the table is keyed, because its rows have no numbers.
    pub(super) fn columnar_def(&self, id: TableId) -> Result<Arc<TableDef>> {
        let def = self.table_def(id)?;
        match def.keyed {
            None => Ok(def),
            Some(_) => Err(Error::new(ErrorKind::WrongObject, format!("rows of table {} have keys", def.name))),
        }
    }

    /// Appends the rows of `batch`. Its columns must be those of the table, in order and in their Arrow types.
    pub fn insert(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        self.start_change()?;
        let def = self.table_def(table)?;
        check_batch(&def, batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if def.keyed.is_some() {
            return self.insert_keyed(table, batch);
        }
        let block_rows = self.engine.rows_per_block();
        let mut rest = batch.clone();
        // A batch may be longer than the room in the current block, so it is split at block boundaries.
        loop {
            let room = block_rows - self.changes.tables.get(&table).map_or(0, |changes| changes.pending_rows);
            let taken = rest.num_rows().min(room);
            let part = rest.slice(0, taken);
            let bytes = part.columns().iter().map(value_bytes).sum();
            self.grow_pending(&def, bytes)?;
            let changes = Arc::make_mut(self.changes.tables.entry(table).or_default());
            changes.inserted += taken as u64;
            changes.pending_rows += taken;
            changes.pending_bytes += bytes;
            changes.pending.push(part);
            if changes.pending_rows == block_rows {
                self.seal_pending(&def)?;
            }
            if taken == rest.num_rows() {
                return Ok(());
            }
            rest = rest.slice(taken, rest.num_rows() - taken);
        }
    }

    /// Reserves memory for rows to come. If memory is short, or would be during the encoding of a larger block, the
    /// pending rows become a smaller block first.
    fn grow_pending(&mut self, def: &Arc<TableDef>, bytes: u64) -> Result<()> {
        let memory = self.engine.broker();
        let waiting = self.changes.tables.get(&def.id).map_or(0, |changes| changes.pending_rows);
        let is_much = self.memory.bytes() + bytes > memory.limit_bytes() / PENDING_SHARE;
        let is_short = memory.used_bytes() + bytes > memory.limit_bytes();
        if waiting >= EARLY_BLOCK_ROWS_MIN && (is_much || is_short) {
            self.seal_pending(def)?;
        }
        self.memory.grow(bytes)
    }

    /// Accounts for the pending rows again, after some became a run or a block, or came back with a rollback.
    pub(super) fn recount(&mut self) {
        self.memory.recount(self.changes.tables.values().map(|changes| changes.pending_bytes).sum());
    }

    /// Appends a whole block. The encoder's threads pull the columns from `source`.
    ///
    /// An error leaves the transaction as it was before the call.
    pub fn insert_block(&mut self, table: TableId, source: &dyn BlockSource) -> Result<()> {
        self.start_change()?;
        let def = self.columnar_def(table)?;
        self.flush_pending(&def)?;
        let first_row = self.changes.tables.entry(table).or_default().next_row();
        self.recount();
        // If the block cannot be written, the rows that it was to replace must stay.
        let before = self.changes.tables.get(&table).map(Arc::clone);
        let picked = self.replace_by_source(&def, source)?;
        let source = picked.as_ref().map_or(source, |picked| picked as &dyn BlockSource);
        let block = match self.write_block(&def, first_row, source, true) {
            Ok(block) => block,
            Err(error) => {
                self.changes.tables.extend(before.map(|changes| (table, changes)));
                return Err(error);
            }
        };
        let changes = Arc::make_mut(self.changes.tables.entry(table).or_default());
        changes.inserted += block.rows() as u64;
        changes.blocks.push(Arc::new(block));
        Ok(())
    }

    /// Makes one run of the pending rows of a table, or a block if the run would be too long.
    pub(crate) fn flush_pending(&mut self, def: &Arc<TableDef>) -> Result<()> {
        self.replace_by_pending(def)?;
        match self.changes.tables.get_mut(&def.id).filter(|changes| changes.pending_rows > 0) {
            None => Ok(()),
            Some(changes) if changes.pending_bytes > RUN_BYTES_MAX => self.seal_pending(def),
            Some(changes) => Arc::make_mut(changes).flush(def, self.engine.broker()),
        }
    }

    fn seal_pending(&mut self, def: &Arc<TableDef>) -> Result<()> {
        self.replace_by_pending(def)?;
        let changes = Arc::make_mut(self.changes.tables.entry(def.id).or_default());
        let first_row = changes.next_row();
        // The pending rows stay until the block is written, because a failure must not lose rows of earlier statements.
        let waiting = PendingRows { batches: changes.pending.clone(), rows: changes.pending_rows };
        let block = self.write_block(def, first_row, &waiting, false)?;
        let changes = Arc::make_mut(self.changes.tables.entry(def.id).or_default());
        changes.forget_pending();
        changes.blocks.push(Arc::new(block));
        self.recount();
        Ok(())
    }

    fn write_block(
        &self,
        def: &Arc<TableDef>,
        first_row: RowNumber,
        source: &dyn BlockSource,
        unchecked: bool,
    ) -> Result<Block> {
        let targets = self.engine.column_targets(def)?;
        let check = |index: usize, values: &ArrayRef| match unchecked {
            true => check_column(def, index, values),
            false => Ok(()),
        };
        // The rows have no numbers yet, so those of a time table take any order.
        let ordered = def.time_column().map(|column| TimeOrdered::new(source, column)).transpose()?;
        let source = ordered.as_ref().map_or(source, |ordered| ordered as &dyn BlockSource);
        let threads = self.engine.threads();
        let owner = BlockOwner { table: def.id, block: self.engine.ids().block() };
        let chunks = write_block(owner, source, &targets, self.engine.freed(), threads, &self.cancel, &check)?;
        let numbers = first_row..RowNumber(first_row.0 + source.rows() as u64);
        Ok(Block::new(owner.block, numbers, source.rows(), chunks, None))
    }

    /// Turns the pending rows of each table into a block if there are more than the setting `small_block_rows`,
    /// otherwise into a run.
    pub(crate) fn finish_inserts(&mut self) -> Result<()> {
        let small = self.engine.small_block_rows();
        let ids: Vec<TableId> = self.changes.tables.keys().copied().collect();
        for id in ids {
            let def = self.table_def(id)?;
            match self.changes.tables[&id].pending_rows > small {
                true => self.seal_pending(&def)?,
                false => self.flush_pending(&def)?,
            }
        }
        self.recount();
        Ok(())
    }

    /// Deletes the rows numbered `rows`, which may be the transaction's own. Returns how many were live before the
    /// call.
    pub fn delete(&mut self, table: TableId, rows: &[u64]) -> Result<u64> {
        self.start_change()?;
        let def = self.columnar_def(table)?;
        let (private, committed): (Vec<u64>, Vec<u64>) = rows.iter().partition(|row| **row >= PRIVATE_ROWS);
        // Pending rows cannot be among them, because they have no numbers yet: a view turns them into runs before it
        // shows them.
        let changes = Arc::make_mut(self.changes.tables.entry(table).or_default());
        let mut marked = 0;
        if !committed.is_empty() {
            let base = self.base.tables.get(&table).ok_or_else(|| gone("table"))?;
            let mut finder = RowFinder::new(&def, &base.blocks, &base.runs);
            marked += deletes::mark(&mut finder, &mut changes.deleted, &committed)?;
        }
        if !private.is_empty() {
            let mut finder = RowFinder::new(&def, &changes.blocks, &changes.runs);
            marked += deletes::mark(&mut finder, &mut changes.own_deleted, &private)?;
        }
        Ok(marked)
    }

    /// Deletes every row and returns how many there were.
    pub fn truncate(&mut self, table: TableId) -> Result<u64> {
        if let Some(keyed) = self.table_def(table)?.keyed.clone() {
            return self.truncate_keyed(table, &keyed);
        }
        let rows = self.view()?.table(table).ok_or_else(|| gone("table"))?.row_count();
        self.start_change()?;
        // The transaction's own rows go with the old changes. Committed rows exist only if the base snapshot has the
        // table.
        let changes = TableChanges { truncated: self.base.tables.contains_key(&table), ..TableChanges::default() };
        self.changes.tables.insert(table, Arc::new(changes));
        self.recount();
        Ok(rows)
    }
}

/// The base's rows with a transaction's changes applied.
pub(super) fn overlay(def: &Arc<TableDef>, base: Option<&Arc<TableSnapshot>>, changes: &TableChanges) -> TableSnapshot {
    assert_eq!(changes.pending_rows, 0, "a view is made of runs");
    let (mut blocks, mut runs) = match base.filter(|_| !changes.truncated) {
        Some(base) => deletes::apply(&base.blocks, &base.runs, &changes.deleted),
        None => (Vec::new(), Vec::new()),
    };
    let (own_blocks, own_runs) = deletes::apply(&changes.blocks, &changes.runs, &changes.own_deleted);
    blocks.extend(own_blocks);
    runs.extend(own_runs);
    let next_row = changes.next_row();
    let (numbering, moved_rows) = base.map(|base| (base.numbering.clone(), base.moved_rows)).unwrap_or_default();
    let (blocks, runs) = (blocks.into(), runs.into());
    TableSnapshot { def: Arc::clone(def), blocks, runs, next_row, moved_rows, numbering, _pin: None, keyed: None }
}

/// Collected rows that make a block.
struct PendingRows {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl BlockSource for PendingRows {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        concat(&parts).map_err(|error| Error::internal(error.to_string()))
    }
}

pub(super) fn concat_batches(table: &TableDef, batches: &[RecordBatch], rows: usize) -> Result<RecordBatch> {
    let columns = (0..table.columns.len()).map(|index| {
        let parts: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(index))).collect();
        rowmill_storage::concat_values(&parts)
    });
    let batch = RecordBatch::try_new(table.arrow_schema(), columns.collect::<Result<_>>()?);
    let batch = batch.map_err(|error| Error::internal(error.to_string()))?;
    assert_eq!(batch.num_rows(), rows, "the pending batches hold the pending rows");
    Ok(batch)
}

fn check_batch(def: &TableDef, batch: &RecordBatch) -> Result<()> {
    if batch.num_columns() != def.columns.len() {
        return Err(Error::new(
            ErrorKind::CardinalityViolation,
            format!("table {} has {} columns, the rows have {}", def.name, def.columns.len(), batch.num_columns()),
        ));
    }
    batch.columns().iter().enumerate().try_for_each(|(index, values)| check_column(def, index, values))
}

/// Checks one column of new rows: its type, NOT NULL and the length of texts.
pub(super) fn check_column(def: &TableDef, index: usize, values: &ArrayRef) -> Result<()> {
    let column = &def.columns[index];
    let value_type = match values.data_type() {
        DataType::Dictionary(_, value) => value,
        kind => kind,
    };
    let wanted = column.kind.arrow();
    if *value_type != wanted && !(matches!(wanted, DataType::Utf8View) && *value_type == DataType::Utf8) {
        return Err(Error::new(
            ErrorKind::DatatypeMismatch,
            format!("column {} of table {} takes {}, not {}", column.name, def.name, column.kind, values.data_type()),
        ));
    }
    if !column.nullable && values.logical_null_count() > 0 {
        return Err(Error::new(
            ErrorKind::NotNullViolation,
            format!("NULL in column {} of table {}, which is NOT NULL", column.name, def.name),
        )
        .breaks_not_null(&def.name, &column.name));
    }
    if let SqlType::Text { chars_max: Some(chars_max) } = column.kind {
        check_length(def, &column.name, chars_max as usize, values)?;
    }
    Ok(())
}

fn check_length(def: &TableDef, column: &str, chars_max: usize, values: &ArrayRef) -> Result<()> {
    let too_long = |text: &str| {
        // A character has at least one byte, so the length in bytes is enough for most values.
        (text.len() > chars_max && text.chars().count() > chars_max).then(|| {
            let shown: String = text.chars().take(40).collect();
            Error::new(
                ErrorKind::StringTooLong,
                format!(
                    "a text of {} characters for column {column} of table {}, which takes {chars_max}: \"{shown}...\"",
                    text.chars().count(),
                    def.name
                ),
            )
        })
    };
    let found = match values.data_type() {
        DataType::Utf8View => values.as_string_view().iter().flatten().find_map(too_long),
        DataType::Utf8 => values.as_string::<i32>().iter().flatten().find_map(too_long),
        DataType::Dictionary(_, _) => {
            let strings = arrow::compute::cast(values.as_any_dictionary().values(), &DataType::Utf8View)
                .map_err(|error| Error::internal(error.to_string()))?;
            strings.as_string_view().iter().flatten().find_map(too_long)
        }
        _ => None,
    };
    found.map_or(Ok(()), Err)
}

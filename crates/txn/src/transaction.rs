//! Transactions: a private write set over a snapshot.
//!
//! No other transaction sees the changes of a transaction, or pays for them, before it commits. Inserted rows are
//! collected in memory and go to private extents when they fill a block. Deletes are bitmaps, and definitions are a
//! private catalog. The whole private state is cheap to clone, because everything large in it is shared. A savepoint is
//! such a clone.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use rowmill_base::{
    Broker, Cancel, ColumnId, CommitId, Durability, Error, ErrorKind, Reservation, Result, RowNumber, SchemaId,
    SqlType, TableId, ViewId,
};
use rowmill_storage::{
    Block, BlockOwner, BlockSource, ColumnDef, ColumnSpec, OpenRun, TableDef, TableSource, value_bytes, write_block,
};

use crate::catalog::{Catalog, MAIN_SCHEMA, SchemaDef, ViewDef};
use crate::deletes::{self, DeletesByHolder, RowFinder};
use crate::engine::{Engine, NO_COMMIT};
use crate::isolation::TransactionReads;
use crate::keyed::WriteBuffers;
use crate::keyed::seat::BaseReader;
use crate::keyed::write_set::WriteSet;
use crate::keyed_writes::KeyedMark;
use crate::references::Unsettled;
use crate::snapshot::{Snapshot, TableSnapshot};

/// The first row number of uncommitted rows. Each transaction numbers the new rows of each table from here, and the
/// commit gives them their final numbers.
pub(crate) const PRIVATE_ROWS: u64 = 1 << 62;

/// When memory is short, pending rows become a block only if there are at least this many. Fewer rows are not worth a
/// write to every column file.
const EARLY_BLOCK_ROWS_MIN: usize = 1 << 12;

/// Pending rows of more bytes become a block, even if they are few. A run is one value of the base and one piece of a
/// log record, so it must not grow without bound.
const RUN_BYTES_MAX: u64 = 32 << 20;

/// Pending rows may take at most one part in this many of the memory limit.
const PENDING_SHARE: u64 = 4;

/// A unit of change over one snapshot. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) engine: Arc<Engine>,
    /// The committed state that the transaction reads. READ COMMITTED replaces it before each statement.
    pub(crate) base: Arc<Snapshot>,
    pub(crate) changes: Changes,
    /// The memory of pending rows. Runs account for their own memory.
    memory: Reservation,
    /// Rows and index entries written to keyed tables, from the first write on. Views share the set; the next write
    /// takes a copy of its own if a view still holds it.
    pub(crate) keyed: Option<Arc<WriteSet>>,
    pub(crate) keyed_memory: Reservation,
    pub(crate) write_buffers: Option<Box<WriteBuffers>>,
    /// Checks that foreign keys require at the end of the statement.
    pub(crate) unsettled: Unsettled,
    /// Reads keyed rows of the base.
    pub(crate) base_reader: BaseReader,
    durability: Option<Durability>,
    pub(crate) reads: TransactionReads,
    pub(crate) cancel: Cancel,
    /// The view of the last call, until the next change.
    view: Option<Arc<Snapshot>>,
}

/// All changes of a transaction. Savepoints clone it, so everything large in it is shared.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: HashMap<TableId, Arc<TableChanges>>,
}

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
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: u64,
    /// All rows that were inserted, including the pending ones.
    inserted: u64,
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

/// A point of a transaction to which it can roll back.
#[derive(Clone, Debug)]
pub struct Savepoint {
    changes: Changes,
    /// The snapshot that the changes apply to.
    base: Arc<Snapshot>,
    keyed: KeyedMark,
}

impl Transaction {
    pub(crate) fn new(engine: Arc<Engine>, base: Arc<Snapshot>) -> Self {
        let changes = Changes { catalog: base.catalog_arc(), tables: HashMap::new() };
        let memory = engine.broker().reservation("rows of an open transaction");
        let keyed_memory = engine.broker().reservation("keyed rows of an open transaction");
        let base_reader = BaseReader::new(base.keyed.generation());
        Transaction {
            engine,
            base,
            changes,
            memory,
            keyed: None,
            keyed_memory,
            write_buffers: None,
            unsettled: Unsettled::default(),
            base_reader,
            durability: None,
            reads: TransactionReads::default(),
            cancel: Cancel::new(),
            view: None,
        }
    }

    /// Sets the flag that cancels long calls of this transaction: sealing a block, and building an index of a keyed
    /// table, emptying or analyzing it.
    pub fn set_cancel(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }

    /// The committed state that the transaction reads.
    pub fn base(&self) -> &Arc<Snapshot> {
        &self.base
    }

    /// Whether the transaction has changed nothing yet.
    pub fn is_empty(&self) -> bool {
        self.changes.tables.values().all(|table| table.is_empty())
            && self.keyed.as_ref().is_none_or(|keyed| keyed.is_empty())
            && Arc::ptr_eq(&self.changes.catalog, &self.base.catalog)
    }

    /// The definitions that the next statement sees, including the transaction's own changes.
    #[inline]
    pub fn catalog(&self) -> &Catalog {
        &self.changes.catalog
    }

    /// The state that the next statement sees: the base snapshot with the transaction's own changes applied. For keyed
    /// tables the view holds the rows of the base snapshot and shares the write set, which readers consult first.
    pub fn view(&mut self) -> Result<Arc<Snapshot>> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        // Without changes the base itself is the view, unless reads must be recorded.
        let view = match self.is_empty() && self.noted_reads().is_none() {
            true => Arc::clone(&self.base),
            false => Arc::new(self.build_view()?),
        };
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }

    fn build_view(&mut self) -> Result<Snapshot> {
        let catalog = Arc::clone(&self.changes.catalog);
        let mut tables = HashMap::with_capacity(self.base.tables.len());
        for def in catalog.all_tables() {
            self.flush_pending(def)?;
            let base = self.base.tables.get(&def.id);
            if let Some(changes) = self.changes.tables.get(&def.id) {
                tables.insert(def.id, Arc::new(overlay(def, base, changes)));
            } else {
                let mut table = base.map_or_else(|| TableSnapshot::empty(Arc::clone(def)), |base| (**base).clone());
                table.def = Arc::clone(def);
                tables.insert(def.id, Arc::new(table));
            }
        }
        self.recount();
        Ok(Snapshot {
            commit: self.base.commit,
            catalog,
            tables: Arc::new(tables),
            log_end: self.base.log_end,
            keyed: Arc::clone(&self.base.keyed),
            pin: self.base.pin.clone(),
            own: self.keyed.clone(),
            reads: self.noted_reads().cloned(),
        })
    }

    // Definitions.

    /// Creates an empty schema.
    pub fn create_schema(&mut self, name: &str) -> Result<SchemaId> {
        let id = self.engine.ids().schema();
        self.catalog_mut()?.put_schema(Arc::new(SchemaDef { id, name: name.to_owned() }))?;
        Ok(id)
    }

    /// Drops a schema, which must be empty.
    pub fn drop_schema(&mut self, id: SchemaId) -> Result<()> {
        let catalog = self.catalog_mut()?;
        let name = catalog.schema_by_id(id).ok_or_else(|| gone("schema"))?.name.clone();
        if name == MAIN_SCHEMA {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("the schema \"{name}\" cannot be dropped")));
        }
        if catalog.tables(id).next().is_some() || catalog.views(id).next().is_some() {
            return Err(Error::new(ErrorKind::DependentObjects, format!("the schema \"{name}\" is not empty"))
                .hint("DROP SCHEMA ... CASCADE drops its tables and views too"));
        }
        catalog.remove_schema(id);
        Ok(())
    }

    /// Creates an empty columnar table.
    pub fn create_table(&mut self, schema: SchemaId, name: &str, columns: Vec<ColumnSpec>) -> Result<TableId> {
        if columns.is_empty() {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("the table \"{name}\" has no columns")));
        }
        let id = self.engine.ids().table();
        let next_column = ColumnId(columns.len() as u32);
        let columns: Vec<ColumnDef> =
            (0..).zip(columns).map(|(id, spec)| ColumnDef::from_spec(ColumnId(id), spec)).collect();
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].iter().any(|other| other.name.to_lowercase() == column.name.to_lowercase()) {
                return Err(duplicate_column(&column.name, name));
            }
        }
        let def = TableDef { id, schema, name: name.to_owned(), version: 1, columns, next_column, keyed: None };
        self.catalog_mut()?.put_table(Arc::new(def))?;
        Ok(id)
    }

    /// Drops a table with its rows, its sequences and the foreign keys that refer to it.
    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        let def = self.table_def(id)?;
        self.check_not_owned(&def)?;
        self.drop_references_of(&def)?;
        self.catalog_mut()?.remove_table(id);
        self.drop_sequences_of(&def, |_| true)?;
        if let Some(keyed) = &def.keyed {
            self.forget_keyed(keyed);
        }
        self.changes.tables.remove(&id);
        self.recount();
        Ok(())
    }

    /// Gives a table another name.
    pub fn rename_table(&mut self, id: TableId, name: &str) -> Result<()> {
        self.alter(id, |table| {
            table.name = name.to_owned();
            Ok(())
        })
    }

    /// Adds a column. Rows that exist already read its `missing` value.
    pub fn add_column(&mut self, id: TableId, spec: ColumnSpec) -> Result<ColumnId> {
        let mut column = ColumnId(0);
        self.alter(id, |table| {
            if table.column_index(&spec.name).is_some() {
                return Err(duplicate_column(&spec.name, &table.name));
            }
            column = table.next_column;
            table.next_column = ColumnId(column.0 + 1);
            if let Some(keyed) = &mut table.keyed {
                Arc::make_mut(keyed).stored.push((column, spec.kind.clone()));
            }
            table.columns.push(ColumnDef::from_spec(column, spec));
            Ok(())
        })?;
        Ok(column)
    }

    /// Drops a column with its values.
    pub fn drop_column(&mut self, id: TableId, column: ColumnId) -> Result<()> {
        self.alter(id, |table| {
            let index = table.column_by_id(column).ok_or_else(|| gone("column"))?;
            if table.columns.len() == 1 {
                return Err(Error::new(
                    ErrorKind::InvalidDefinition,
                    format!("\"{}\" is the last column of table \"{}\"", table.columns[index].name, table.name),
                )
                .hint("DROP TABLE drops the table"));
            }
            if table.keyed.as_ref().is_some_and(|keyed| keyed.has_key_of(column)) {
                let what = format!("\"{}\" is in a key of table \"{}\"", table.columns[index].name, table.name);
                return Err(Error::new(ErrorKind::DependentObjects, what));
            }
            table.columns.remove(index);
            Ok(())
        })?;
        self.drop_identity(id, column)
    }

    /// Gives a column another name.
    pub fn rename_column(&mut self, id: TableId, column: ColumnId, name: &str) -> Result<()> {
        self.alter(id, |table| {
            let index = table.column_by_id(column).ok_or_else(|| gone("column"))?;
            if table.column_index(name).is_some_and(|other| other != index) {
                return Err(duplicate_column(name, &table.name));
            }
            table.columns[index].name = name.to_owned();
            Ok(())
        })
    }

    /// Sets or drops the default of a column. Existing rows keep their values.
    pub fn set_default(&mut self, id: TableId, column: ColumnId, default: Option<String>) -> Result<()> {
        self.alter(id, |table| {
            let index = table.column_by_id(column).ok_or_else(|| gone("column"))?;
            table.columns[index].default = default;
            Ok(())
        })
    }

    /// Allows or forbids NULL in a column. The caller must have checked that the column has no NULL.
    pub fn set_nullable(&mut self, id: TableId, column: ColumnId, nullable: bool) -> Result<()> {
        self.alter(id, |table| {
            let index = table.column_by_id(column).ok_or_else(|| gone("column"))?;
            if nullable && table.keyed.as_ref().is_some_and(|keyed| keyed.key.iter().any(|part| part.column == column))
            {
                let what = format!("\"{}\" is in the primary key of \"{}\"", table.columns[index].name, table.name);
                return Err(Error::new(ErrorKind::InvalidDefinition, what));
            }
            table.columns[index].nullable = nullable;
            Ok(())
        })
    }

    /// Creates a view. With `replace`, it takes the place of an existing view of that name.
    pub fn create_view(
        &mut self,
        schema: SchemaId,
        name: &str,
        sql: &str,
        column_names: Vec<String>,
        replace: bool,
    ) -> Result<ViewId> {
        let older = self.changes.catalog.view(schema, name).filter(|_| replace).map(|view| view.id);
        let id = older.unwrap_or_else(|| self.engine.ids().view());
        let def = ViewDef { id, schema, name: name.to_owned(), sql: sql.to_owned(), column_names };
        self.catalog_mut()?.put_view(Arc::new(def))?;
        Ok(id)
    }

    /// Drops a view.
    pub fn drop_view(&mut self, id: ViewId) -> Result<()> {
        self.changes.catalog.view_by_id(id).ok_or_else(|| gone("view"))?;
        self.catalog_mut()?.remove_view(id);
        Ok(())
    }

    pub(crate) fn alter(&mut self, id: TableId, change: impl FnOnce(&mut TableDef) -> Result<()>) -> Result<()> {
        let before = self.table_def(id)?;
        // Pending rows must become a run first, because a run keeps the columns that its rows were inserted with.
        self.flush_pending(&before)?;
        self.recount();
        let mut def = (*before).clone();
        change(&mut def)?;
        def.version += 1;
        self.catalog_mut()?.put_table(Arc::new(def))
    }

    pub(crate) fn catalog_mut(&mut self) -> Result<&mut Catalog> {
        self.start_change()?;
        Ok(Arc::make_mut(&mut self.changes.catalog))
    }

    pub(crate) fn start_change(&mut self) -> Result<()> {
        self.engine.check_writable()?;
        self.view = None;
        Ok(())
    }

    pub(crate) fn forget_view(&mut self) {
        self.view = None;
    }

    pub(crate) fn table_def(&self, id: TableId) -> Result<Arc<TableDef>> {
        self.changes.catalog.table_by_id(id).map(Arc::clone).ok_or_else(|| gone("table"))
    }

    /// The definition of a columnar table. Returns an error if the table is keyed, because its rows have no numbers.
    fn columnar_def(&self, id: TableId) -> Result<Arc<TableDef>> {
        let def = self.table_def(id)?;
        match def.keyed {
            None => Ok(def),
            Some(_) => Err(Error::new(ErrorKind::WrongObject, format!("rows of table {} have keys", def.name))),
        }
    }

    // Rows.

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
    fn recount(&mut self) {
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
        let block = self.write_block(&def, first_row, source, true)?;
        let changes = Arc::make_mut(self.changes.tables.entry(table).or_default());
        changes.inserted += block.rows() as u64;
        changes.blocks.push(Arc::new(block));
        Ok(())
    }

    /// Makes one run of the pending rows of a table, or a block if the run would be too long.
    fn flush_pending(&mut self, def: &Arc<TableDef>) -> Result<()> {
        match self.changes.tables.get_mut(&def.id).filter(|changes| changes.pending_rows > 0) {
            None => Ok(()),
            Some(changes) if changes.pending_bytes > RUN_BYTES_MAX => self.seal_pending(def),
            Some(changes) => Arc::make_mut(changes).flush(def, self.engine.broker()),
        }
    }

    fn seal_pending(&mut self, def: &Arc<TableDef>) -> Result<()> {
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

    // Savepoints, commit and rollback.

    /// Takes a savepoint of the current state, so that a failing statement can be undone.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { changes: self.changes.clone(), base: Arc::clone(&self.base), keyed: self.keyed_mark() }
    }

    /// Undoes everything since the savepoint.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) {
        self.changes = savepoint.changes.clone();
        if !Arc::ptr_eq(&self.base, &savepoint.base) {
            self.stand_on(Arc::clone(&savepoint.base));
        }
        self.undo_keyed_to(savepoint.keyed);
        self.recount();
    }

    /// Commits all changes or none of them. When it returns, they are as durable as the settings demand.
    pub fn commit(mut self) -> Result<CommitId> {
        self.settle_references()?;
        if self.is_empty() {
            // A transaction that only reads commits without a record, but the reads that it must validate are checked
            // all the same.
            if self.has_required_reads() {
                crate::commit::commit_reads(&self)?;
            }
            return Ok(self.base.commit);
        }
        self.finish_inserts()?;
        crate::commit::commit(&mut self)
    }

    /// Overrides the durability of the database for this transaction. In a database without a log this has no effect.
    /// Returns `InvalidParameter` for [`Durability::Off`], which only a whole database can have.
    pub fn set_durability(&mut self, durability: Durability) -> Result<()> {
        if durability == Durability::Off {
            let what = "one transaction cannot turn the log off";
            return Err(Error::new(ErrorKind::InvalidParameter, what)
                .hint("SET durability = 'off' changes it for the whole database"));
        }
        self.durability = Some(durability);
        Ok(())
    }

    pub(crate) fn durability(&self) -> Option<Durability> {
        self.durability
    }

    /// Forgets all changes. Dropping the transaction does the same.
    pub fn rollback(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Private blocks are dropped with the changes. We hold the engine, so that `reap` can free their extents at the
        // end.
        let engine = Arc::clone(&self.engine);
        let current = engine.latest();
        // After a failed write, the log may hold the record of this very transaction. Then we keep its files: only the
        // next opening finds out whether the record counts.
        let is_known = engine.journal().check().is_ok();
        for (id, _) in self.changes.tables.drain() {
            if is_known && !self.base.tables.contains_key(&id) && !current.tables.contains_key(&id) {
                // The table was created here and never committed, so no reader can need its files.
                engine.note_dropped(id, NO_COMMIT);
            }
        }
        self.view = None;
        if let Some(keyed) = self.keyed.take() {
            self.base.keyed.store().give_write_set_back(keyed, self.write_buffers.take().unwrap_or_default());
        }
        self.reads = TransactionReads::default();
        self.stand_on(current);
        engine.reap();
    }
}

/// The base's rows with a transaction's changes applied.
fn overlay(def: &Arc<TableDef>, base: Option<&Arc<TableSnapshot>>, changes: &TableChanges) -> TableSnapshot {
    assert_eq!(changes.pending_rows, 0, "a view is made of runs");
    let (mut blocks, mut runs) = match base.filter(|_| !changes.truncated) {
        Some(base) => deletes::apply(&base.blocks, &base.runs, &changes.deleted),
        None => (Vec::new(), Vec::new()),
    };
    let (own_blocks, own_runs) = deletes::apply(&changes.blocks, &changes.runs, &changes.own_deleted);
    blocks.extend(own_blocks);
    runs.extend(own_runs);
    let next_row = changes.next_row();
    TableSnapshot { def: Arc::clone(def), blocks: blocks.into(), runs: runs.into(), next_row, _pin: None, keyed: None }
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

fn concat_batches(table: &TableDef, batches: &[RecordBatch], rows: usize) -> Result<RecordBatch> {
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
fn check_column(def: &TableDef, index: usize, values: &ArrayRef) -> Result<()> {
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
        ));
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

fn gone(what: &str) -> Error {
    Error::new(ErrorKind::UndefinedTable, format!("the {what} no longer exists"))
}

fn duplicate_column(column: &str, table: &str) -> Error {
    Error::new(ErrorKind::DuplicateColumn, format!("table \"{table}\" has a column \"{column}\" already"))
        .hint("names that differ only in upper and lower case are the same")
}

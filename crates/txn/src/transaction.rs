//! Transactions: a private write set over a snapshot.
//!
//! No other transaction sees the changes of a transaction, or pays for them, before it commits. Inserted rows are
//! collected in memory and go to private extents when they fill a block. Deletes are bitmaps, and definitions are a
//! private catalog. The whole private state is cheap to clone, because everything large in it is shared. A savepoint is
//! such a clone.
//!
//! This file has the life of a transaction: its view, savepoints, commit and rollback. Each other thing that a caller
//! does with a transaction has a file of its own, named in the documentation of [`Transaction`].

mod access;
mod claimed_rows;
mod columnar_rows;
mod dedup;
mod definitions;
mod picked_rows;
mod refill;
mod replaced_rows;

use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::{Cancel, CommitId, Durability, Error, ErrorKind, Reservation, Result, RoleId, TableId};
use rowmill_storage::TableDef;

use self::columnar_rows::overlay;
pub(crate) use self::columnar_rows::{TableChanges, join_tail};
pub(crate) use self::dedup::check_same_keys;
pub use self::replaced_rows::ReplacedRows;
use crate::back_pressure::wait_for_memory;
use crate::catalog::Catalog;
use crate::engine::{Engine, NO_COMMIT};
use crate::isolation::TransactionReads;
use crate::keyed::WriteBuffers;
use crate::keyed::seat::BaseReader;
use crate::keyed::write_set::WriteSet;
use crate::keyed_writes::KeyedMark;
use crate::references::Unsettled;
use crate::row_claims::RowClaimant;
use crate::sequences::TakenNumbers;
use crate::snapshot::{Snapshot, TableSnapshot};

/// The first row number of uncommitted rows. Each transaction numbers the new rows of each table from here, and the
/// commit gives them their final numbers.
pub(crate) const PRIVATE_ROWS: u64 = 1 << 62;

/// A unit of change over one snapshot. Dropping it rolls it back.
///
/// What a caller does with it, and the file that has the methods:
///
/// * **Read.** [`view`](Self::view), [`catalog`](Self::catalog); keyed rows: [`reader`](Self::reader),
///   [`get`](Self::get), [`keyed_cursor`](Self::keyed_cursor) (`keyed_rows.rs`).
/// * **Record reads**, which commit validates: [`set_isolation`](Self::set_isolation),
///   [`validate_read`](Self::validate_read), [`validate_range`](Self::validate_range) (`isolation.rs`).
/// * **Write rows of columnar tables.** [`insert`](Self::insert), [`insert_block`](Self::insert_block),
///   [`delete`](Self::delete), [`truncate`](Self::truncate) (`transaction/columnar_rows.rs`);
///   [`replace`](Self::replace) some columns of rows (`transaction/replaced_rows.rs`).
/// * **Write keyed rows**, one by one: [`insert_row`](Self::insert_row), [`update_row`](Self::update_row),
///   [`delete_by_key`](Self::delete_by_key) (`keyed_writes.rs`); in batches: [`update_keyed`](Self::update_keyed),
///   [`delete_keyed`](Self::delete_keyed) (`keyed_batches.rs`).
/// * **End a statement.** [`settle_references`](Self::settle_references) (`references.rs`),
///   [`claim_rows`](Self::claim_rows) (`transaction/claimed_rows.rs`),
///   [`savepoint`](Self::savepoint), [`rollback_to`](Self::rollback_to).
/// * **Define** schemas, tables, columns and views: [`create_table`](Self::create_table),
///   [`add_column`](Self::add_column), [`create_view`](Self::create_view), [`set_time_table`](Self::set_time_table)
///   (`transaction/definitions.rs`); roles and rights: [`put_role`](Self::put_role), [`set_access`](Self::set_access)
///   (`transaction/access.rs`); keyed tables
///   and indexes: [`create_keyed_table`](Self::create_keyed_table), [`create_index`](Self::create_index)
///   (`keyed_tables.rs`); constraints and sequences: [`add_foreign_key`](Self::add_foreign_key) (`foreign_keys.rs`),
///   [`create_sequence`](Self::create_sequence) (`sequences.rs`). [`analyze`](Self::analyze) makes statistics
///   (`analyze.rs`).
/// * **End it.** [`commit`](Self::commit), [`rollback`](Self::rollback); [`set_durability`](Self::set_durability)
///   before that.
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
    /// Why no temporary file can have keyed rows.
    pub(crate) keyed_failure: Option<Error>,
    pub(crate) write_buffers: Option<Box<WriteBuffers>>,
    /// Checks that foreign keys require at the end of the statement.
    pub(crate) unsettled: Unsettled,
    /// Reads keyed rows of the base.
    pub(crate) base_reader: BaseReader,
    durability: Option<Durability>,
    /// The owner of the objects that the transaction makes.
    owner: Option<RoleId>,
    /// Where the numbers that the transaction takes from sequences are noted.
    pub(crate) taken_numbers: Option<Arc<TakenNumbers>>,
    /// Sequences whose counting the transaction has changed. It takes their numbers within itself.
    pub(crate) recounted: Vec<TableId>,
    pub(crate) reads: TransactionReads,
    /// The claims of a transaction that waits for rows.
    pub(crate) claimant: Option<RowClaimant>,
    /// Keys that the current statement has locked and not claimed yet, and the commits that it has read them at.
    pub(crate) locked_keys: Vec<(Vec<u8>, CommitId)>,
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

/// A point of a transaction to which it can roll back.
#[derive(Clone, Debug)]
pub struct Savepoint {
    changes: Changes,
    /// The snapshot that the changes apply to.
    base: Arc<Snapshot>,
    keyed: KeyedMark,
}

impl Savepoint {
    /// The point in the keyed writes.
    pub fn keyed_mark(&self) -> KeyedMark {
        self.keyed
    }
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
            keyed_failure: None,
            write_buffers: None,
            unsettled: Unsettled::default(),
            base_reader,
            durability: None,
            owner: None,
            taken_numbers: None,
            recounted: Vec::new(),
            reads: TransactionReads::default(),
            claimant: None,
            locked_keys: Vec::new(),
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
            && !self.has_keyed_writes()
            && Arc::ptr_eq(&self.changes.catalog, &self.base.catalog)
    }

    /// Whether the transaction has changed rows of keyed tables.
    pub fn has_keyed_writes(&self) -> bool {
        self.keyed.as_ref().is_some_and(|keyed| !keyed.is_empty())
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
        self.note_locked_keys();
        if self.is_empty() {
            // A transaction that only reads commits without a record, but the reads that it must validate are checked
            // all the same.
            if self.has_required_reads() {
                crate::commit::commit_reads(&self)?;
            }
            return Ok(self.base.commit);
        }
        self.finish_inserts()?;
        let commit = crate::commit::commit(&mut self)?;
        let (engine, cancel) = (Arc::clone(&self.engine), self.cancel.clone());
        drop(self);
        wait_for_memory(&engine, &cancel);
        Ok(commit)
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
        if let (false, Some(taken)) = (self.recounted.is_empty(), &self.taken_numbers) {
            taken.note_recounted(&[]);
        }
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

pub(crate) fn gone(what: &str) -> Error {
    Error::new(ErrorKind::UndefinedTable, format!("the {what} no longer exists"))
}

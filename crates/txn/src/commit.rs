//! The commit: one synced write of the ordered base, after the blocks that it names are synced.
//!
//! Everything that changes the committed state passes [`publish`]: it writes the difference between the current
//! snapshot and the next one, and then shows the next one to readers. Transactions add validation in front of it: first
//! committer wins. What a commit costs is what changed: a row inserted writes one run, a table of a thousand blocks
//! compares a thousand pointers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rowmill_base::{Broker, CommitId, Error, ErrorKind, Result, RowNumber, TableId};
use rowmill_storage::{Block, ColumnFile, OpenRun, TableDef};

use crate::base::WriteBatch;
use crate::catalog::Catalog;
use crate::deletes::{self, DeletesByHolder, Holder, RowFinder};
use crate::engine::Core;
use crate::manifest::{self, BLOCK, BlockEntry, DELETES, NEXT_ROW, RUN, SCHEMA, TABLE, VIEW, id_key, row_key};
use crate::seal;
use crate::snapshot::{Snapshot, TableSnapshot};
use crate::transaction::{TableChanges, Transaction, join_tail};

/// The tables of a snapshot.
type Tables = HashMap<TableId, Arc<TableSnapshot>>;

/// Validates the transaction against what was committed since it began, and commits it.
pub(crate) fn commit(transaction: &Transaction) -> Result<CommitId> {
    let engine = &transaction.engine;
    sync_blocks(engine, transaction.changes.tables.values().flat_map(|table| &table.blocks))?;

    let committing = engine.lock_commit();
    let current = engine.current();
    let catalog = merge_catalogs(&transaction.base.catalog, &transaction.changes.catalog, &current.catalog)?;
    let mut tables: Tables = HashMap::with_capacity(current.tables.len() + 1);
    for def in catalog.all_tables() {
        let changes = transaction.changes.tables.get(&def.id).filter(|changes| !changes.is_empty());
        let (now, base) = (current.tables.get(&def.id), transaction.base.tables.get(&def.id));
        let next = next_table(def, now, base, changes, engine.broker())?;
        tables.insert(def.id, next);
    }
    let commit = publish(engine, &current, catalog, tables)?;
    drop(committing);

    for (id, changes) in &transaction.changes.tables {
        if !changes.is_empty() {
            // The commit stands. What cannot be sealed now is tried again behind the next one.
            let _ = seal::seal_full_table(engine, *id);
        }
    }
    let _ = seal::relieve_memory(engine);
    engine.wake_merger();
    Ok(commit)
}

/// Makes private blocks durable, so that a commit may name them.
pub(crate) fn sync_blocks<'a>(engine: &Core, blocks: impl Iterator<Item = &'a Arc<Block>>) -> Result<()> {
    let mut files: BTreeMap<&str, &Arc<ColumnFile>> = BTreeMap::new();
    for chunk in blocks.flat_map(|block| block.chunks()) {
        files.insert(chunk.file().path(), chunk.file());
    }
    if files.is_empty() {
        return Ok(());
    }
    for file in files.values() {
        file.sync()?;
    }
    engine.sync_directories(files.keys().copied())
}

/// Writes the difference between `current` and the next state, then lets readers see it. The caller holds the commit
/// lock and has synced every new block.
pub(crate) fn publish(
    engine: &Core,
    current: &Arc<Snapshot>,
    catalog: Arc<Catalog>,
    tables: Tables,
) -> Result<CommitId> {
    let commit = CommitId(current.commit.0 + 1);
    let mut difference = Difference::default();
    difference.catalogs(&current.catalog, &catalog)?;
    for (id, before) in &*current.tables {
        match tables.get(id) {
            Some(after) => difference.tables(before, after)?,
            None => difference.dropped_table(before),
        }
    }
    for (id, after) in &tables {
        if !current.tables.contains_key(id) {
            difference.tables(&TableSnapshot::empty(Arc::clone(&after.def)), after)?;
        }
    }
    difference.batch.put(manifest::META_KEY.to_vec(), engine.ids().meta().encode());
    engine.base().write(&difference.batch, commit)?;

    // From here on nothing can fail: the state on disk and the state in memory change as one.
    for block in &difference.named {
        block.keep();
    }
    for block in &difference.removed {
        block.doom(commit);
    }
    for table in &difference.dropped {
        engine.note_dropped(*table, commit);
    }
    engine.show(Arc::new(Snapshot { commit, catalog, tables: Arc::new(tables), pin: None }));
    Ok(commit)
}

/// What a commit writes, and which blocks and tables it names or removes.
#[derive(Default)]
struct Difference {
    batch: WriteBatch,
    named: Vec<Arc<Block>>,
    removed: Vec<Arc<Block>>,
    dropped: Vec<TableId>,
}

impl Difference {
    fn catalogs(&mut self, before: &Arc<Catalog>, after: &Arc<Catalog>) -> Result<()> {
        if Arc::ptr_eq(before, after) {
            return Ok(());
        }
        for schema in before.schemas().filter(|schema| after.schema_by_id(schema.id).is_none()) {
            self.batch.delete(id_key(SCHEMA, schema.id.0));
        }
        for schema in after.schemas() {
            self.batch.put(id_key(SCHEMA, schema.id.0), manifest::encode_schema(schema));
        }
        for view in before.all_views().filter(|view| after.view_by_id(view.id).is_none()) {
            self.batch.delete(id_key(VIEW, view.id.0));
        }
        for view in after.all_views() {
            if !before.view_by_id(view.id).is_some_and(|old| Arc::ptr_eq(old, view)) {
                self.batch.put(id_key(VIEW, view.id.0), manifest::encode_view(view));
            }
        }
        for table in before.all_tables().filter(|table| after.table_by_id(table.id).is_none()) {
            self.batch.delete(id_key(TABLE, table.id.0));
        }
        for table in after.all_tables() {
            if !before.table_by_id(table.id).is_some_and(|old| Arc::ptr_eq(old, table)) {
                self.batch.put(id_key(TABLE, table.id.0), manifest::encode_table(table)?);
            }
        }
        Ok(())
    }

    fn dropped_table(&mut self, before: &Arc<TableSnapshot>) {
        for kind in [BLOCK, DELETES, RUN, NEXT_ROW] {
            self.batch.delete_prefix(id_key(kind, before.def.id.0));
        }
        self.removed.extend(before.blocks.iter().cloned());
        self.dropped.push(before.def.id);
    }

    fn tables(&mut self, before: &TableSnapshot, after: &TableSnapshot) -> Result<()> {
        let table = after.def.id;
        if !Arc::ptr_eq(&before.blocks, &after.blocks) {
            self.blocks(table, &before.blocks, &after.blocks)?;
        }
        if !Arc::ptr_eq(&before.runs, &after.runs) {
            self.runs(table, &before.runs, &after.runs)?;
        }
        if before.next_row != after.next_row {
            self.batch.put(id_key(NEXT_ROW, table.0), after.next_row.0.to_le_bytes().to_vec());
        }
        Ok(())
    }

    fn blocks(&mut self, table: TableId, before: &[Arc<Block>], after: &[Arc<Block>]) -> Result<()> {
        let mut old: HashMap<_, _> = before.iter().map(|block| (block.id(), block)).collect();
        let mut puts = Vec::new();
        for block in after {
            match old.remove(&block.id()) {
                Some(old) if Arc::ptr_eq(old, block) => {}
                Some(_) => puts.push((block, false)),
                None => puts.push((block, true)),
            }
        }
        // Removals first: a rewritten block may start at the row of one that it replaces.
        for block in old.into_values() {
            self.batch.delete(row_key(BLOCK, table, block.first_row()));
            self.batch.delete(row_key(DELETES, table, block.first_row()));
            self.removed.push(Arc::clone(block));
        }
        for (block, new) in puts {
            if new {
                self.batch.put(row_key(BLOCK, table, block.first_row()), BlockEntry::of(block).encode());
                self.named.push(Arc::clone(block));
            }
            self.deletes(&Holder::Block(Arc::clone(block)), table)?;
        }
        Ok(())
    }

    fn runs(&mut self, table: TableId, before: &[Arc<OpenRun>], after: &[Arc<OpenRun>]) -> Result<()> {
        let mut old: HashMap<_, _> = before.iter().map(|run| (run.first_row(), run)).collect();
        let mut puts = Vec::new();
        for run in after {
            match old.remove(&run.first_row()) {
                Some(old) if Arc::ptr_eq(old, run) => {}
                Some(old) => puts.push((run, !old.same_rows(run))),
                None => puts.push((run, true)),
            }
        }
        for run in old.into_values() {
            self.batch.delete(row_key(RUN, table, run.first_row()));
            // A sealed block that starts at the same row has written its own deletes before.
            if !self.batch.puts(&row_key(DELETES, table, run.first_row())) {
                self.batch.delete(row_key(DELETES, table, run.first_row()));
            }
        }
        for (run, new) in puts {
            if new {
                self.batch.put(row_key(RUN, table, run.first_row()), run.encode()?);
            }
            self.deletes(&Holder::Run(Arc::clone(run)), table)?;
        }
        Ok(())
    }

    fn deletes(&mut self, holder: &Holder, table: TableId) -> Result<()> {
        let key = row_key(DELETES, table, holder.first_row());
        match holder.deleted() {
            Some(deleted) => self.batch.put(key, manifest::encode_deletes(deleted)?),
            None => self.batch.delete(key),
        };
        Ok(())
    }
}

fn conflict(message: String) -> Error {
    Error::new(ErrorKind::SerializationFailure, message).hint("another transaction committed first; run this one again")
}

/// The current catalog under the changes that a transaction made to the one it began with.
fn merge_catalogs(base: &Arc<Catalog>, changed: &Arc<Catalog>, current: &Arc<Catalog>) -> Result<Arc<Catalog>> {
    if Arc::ptr_eq(base, changed) {
        return Ok(Arc::clone(current));
    }
    if Arc::ptr_eq(base, current) {
        return Ok(Arc::clone(changed));
    }
    let mut merged = (**current).clone();
    let same = |a: Option<&Arc<TableDef>>, b: Option<&Arc<TableDef>>| match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    // Removals before additions, so that names that were given up can be taken.
    for table in base.all_tables() {
        let after = changed.table_by_id(table.id);
        if same(Some(table), after) {
            continue;
        }
        if !same(Some(table), current.table_by_id(table.id)) {
            return Err(conflict(format!("the definition of table \"{}\" was changed meanwhile", table.name)));
        }
        merged.remove_table(table.id);
    }
    for view in base.all_views() {
        if changed.view_by_id(view.id) == Some(view) {
            continue;
        }
        if current.view_by_id(view.id) != Some(view) {
            return Err(conflict(format!("the view \"{}\" was changed meanwhile", view.name)));
        }
        merged.remove_view(view.id);
    }
    let taken = |error: Error| conflict(error.message().to_owned());
    for schema in changed.schemas().filter(|schema| base.schema_by_id(schema.id).is_none()) {
        merged.put_schema(Arc::clone(schema)).map_err(taken)?;
    }
    for table in changed.all_tables().filter(|table| !same(Some(table), base.table_by_id(table.id))) {
        merged.put_table(Arc::clone(table)).map_err(taken)?;
    }
    for view in changed.all_views().filter(|view| base.view_by_id(view.id) != Some(view)) {
        merged.put_view(Arc::clone(view)).map_err(taken)?;
    }
    for schema in base.schemas().filter(|schema| changed.schema_by_id(schema.id).is_none()) {
        if merged.tables(schema.id).next().is_some() || merged.views(schema.id).next().is_some() {
            return Err(conflict(format!("the schema \"{}\" is no longer empty", schema.name)));
        }
        merged.remove_schema(schema.id);
    }
    Ok(Arc::new(merged))
}

/// The next state of a table: the current one under a transaction's changes.
fn next_table(
    def: &Arc<TableDef>,
    current: Option<&Arc<TableSnapshot>>,
    base: Option<&Arc<TableSnapshot>>,
    changes: Option<&Arc<TableChanges>>,
    memory: &Broker,
) -> Result<Arc<TableSnapshot>> {
    let Some(current) = current else {
        let mut table = TableSnapshot::empty(Arc::clone(def));
        if let Some(changes) = changes {
            append(&mut table, changes, memory)?;
        }
        return Ok(Arc::new(table));
    };
    let Some(changes) = changes else {
        if Arc::ptr_eq(&current.def, def) {
            return Ok(Arc::clone(current));
        }
        return Ok(Arc::new(TableSnapshot { def: Arc::clone(def), ..(**current).clone() }));
    };
    let base = base.ok_or_else(|| Error::internal("a table that is committed was there at the beginning"))?;
    if !Arc::ptr_eq(&base.def, &current.def) {
        return Err(conflict(format!("the definition of table \"{}\" was changed meanwhile", current.def.name)));
    }
    let mut next = TableSnapshot { def: Arc::clone(def), ..(**current).clone() };
    if changes.truncated {
        if current.next_row != base.next_row || live_rows_differ(base, current) {
            return Err(conflict(format!("rows of table \"{}\" were changed meanwhile", current.def.name)));
        }
        next.blocks = Arc::default();
        next.runs = Arc::default();
    } else if !changes.deleted.is_empty() {
        let deleted = validate_deletes(base, current, &changes.deleted)?;
        let (mut blocks, mut runs) = deletes::apply(&current.blocks, &current.runs, &deleted);
        blocks.retain(|block| block.live_rows() > 0);
        runs.retain(|run| run.live_rows() > 0);
        next.blocks = blocks.into();
        next.runs = runs.into();
    }
    append(&mut next, changes, memory)?;
    Ok(Arc::new(next))
}

/// Whether rows were deleted between the two states (row numbers only grow, so counts tell).
fn live_rows_differ(base: &TableSnapshot, current: &TableSnapshot) -> bool {
    use rowmill_storage::TableSource;
    base.row_count() != current.row_count()
}

/// The deletes of a transaction as positions in the current blocks and runs; fails if one of the rows is gone already.
fn validate_deletes(
    base: &TableSnapshot,
    current: &TableSnapshot,
    deleted: &DeletesByHolder,
) -> Result<DeletesByHolder> {
    let lost = || conflict(format!("a row of table \"{}\" was changed or deleted meanwhile", current.def.name));
    let before = RowFinder::new(&base.def, &base.blocks, &base.runs);
    let mut now = RowFinder::new(&current.def, &current.blocks, &current.runs);
    let mut valid = DeletesByHolder::new();
    for (first_row, positions) in deleted {
        let holder = before.holder_at(*first_row).expect("deletes name holders of the base snapshot");
        if let Some(same) = now.holder_at(*first_row).filter(|same| same.same_rows(holder)) {
            if same.deleted().is_some_and(|gone| !gone.is_disjoint(positions)) {
                return Err(lost());
            }
            *valid.entry(*first_row).or_default() |= positions;
            continue;
        }
        let numbers = holder.row_numbers(&base.def)?;
        for position in positions {
            let (holder, position) = now.find(numbers.at(position as usize))?.ok_or_else(lost)?;
            if holder.deleted().is_some_and(|gone| gone.contains(position)) {
                return Err(lost());
            }
            valid.entry(holder.first_row()).or_default().insert(position);
        }
    }
    Ok(valid)
}

/// Numbers the transaction's own rows and puts them behind the others, in the order in which they were inserted.
fn append(table: &mut TableSnapshot, changes: &TableChanges, memory: &Broker) -> Result<()> {
    let (own_blocks, own_runs) = deletes::apply(&changes.blocks, &changes.runs, &changes.own_deleted);
    let mut own: Vec<Holder> =
        own_blocks.into_iter().map(Holder::Block).chain(own_runs.into_iter().map(Holder::Run)).collect();
    own.sort_by_key(Holder::first_row);
    let mut blocks = table.blocks.to_vec();
    let mut runs = table.runs.to_vec();
    for holder in own {
        let first_row = table.next_row;
        match &holder {
            Holder::Block(block) if block.live_rows() > 0 => blocks.push(Arc::new(block.at(first_row))),
            Holder::Run(run) if run.live_rows() > 0 => runs.push(Arc::new(run.at(first_row))),
            _ => continue,
        }
        table.next_row = RowNumber(first_row.0 + holder.rows() as u64);
    }
    if blocks.len() != table.blocks.len() {
        table.blocks = blocks.into();
    }
    if runs.len() != table.runs.len() {
        join_tail(&table.def, &mut runs, memory)?;
        table.runs = runs.into();
    }
    Ok(())
}

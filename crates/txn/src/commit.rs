//! The commit: a record of the log, written after the blocks that it names.
//!
//! Every change of the committed state goes through [`publish`]. It makes the next state from a [`Change`], appends the
//! change to the log, and publishes the state. Transactions are validated first, and the first committer wins. The cost
//! of a commit grows with its changes, plus one sync, which it shares with all commits that wait for one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rowmill_base::{CommitId, Durability, Error, ErrorKind, Result, RowNumber};
use rowmill_storage::{Block, ColumnFile, TableDef};

use crate::catalog::Catalog;
use crate::change::{CommitChange, TableChange};
use crate::deletes::{self, DeletesByHolder, Holder, RowFinder};
use crate::engine::Core;
use crate::journal::Published;
use crate::seal;
use crate::snapshot::{Snapshot, TableSnapshot};
use crate::transaction::{TableChanges, Transaction, check_same_keys};

/// Validates the transaction against all commits since it began, and commits it.
pub(crate) fn commit(transaction: &mut Transaction) -> Result<CommitId> {
    let committed = try_commit(transaction);
    if committed.as_ref().is_err_and(|error| error.kind() == ErrorKind::SerializationFailure) {
        // The winning commit may still wait for the disk. We wait until readers see it, because otherwise a retry would
        // read the old state and lose again.
        transaction.engine.journal().show_latest();
    }
    committed
}

fn try_commit(transaction: &mut Transaction) -> Result<CommitId> {
    let engine = &Arc::clone(&transaction.engine);
    // Blocks are large, so we sync them before we take the commit lock.
    sync_blocks(engine, transaction.changes.tables.values().flat_map(|table| &table.blocks))?;

    if let Some(keyed) = transaction.keyed.as_ref().filter(|keyed| keyed.memory().file_bytes() > 0)
        && engine.journal().log().is_some()
    {
        // A row that the temporary file has lost must not get into the log.
        keyed.memory().sync()?;
    }

    let committing = engine.lock_commit();
    let current = engine.latest();
    let catalog = merge_catalogs(&transaction.base.catalog, &transaction.changes.catalog, &current.catalog)?;
    let mut tables = BTreeMap::new();
    for (id, changes) in transaction.changes.tables.iter().filter(|(_, changes)| !changes.is_empty()) {
        let gone = || conflict("another transaction dropped a table that this one changed".to_owned());
        let def = catalog.table_by_id(*id).ok_or_else(gone)?;
        let (now, base) = (current.tables.get(id), transaction.base.tables.get(id));
        tables.insert(*id, change_of(def, now.map(|now| &**now), base.map(|base| &**base), changes)?);
    }
    transaction.validate_keyed(&current, &catalog)?;
    if let Some(keyed) = &transaction.keyed {
        current.keyed.store().check_room(keyed)?;
    }
    // The view shares the write set. We drop it, so that the commit is the only owner and can take the set's contents.
    transaction.forget_view();
    let keyed = transaction.keyed.take_if(|keyed| !keyed.is_empty());
    let mut change = CommitChange { catalog, tables, keyed };
    let published = publish_as(engine, &current, &mut change, transaction.durability());
    if change.keyed.is_some() {
        // Whether the commit succeeded or not, the next transaction can reuse this memory.
        transaction.keyed = change.keyed;
    }
    let published = published?;
    // The lock protects the order of commits, not the wait for the disk. Others can commit while we wait.
    drop(committing);
    engine.journal().wait_for(&published)?;
    let commit = published.commit;

    for (id, changes) in &transaction.changes.tables {
        if !changes.is_empty() {
            // The commit is done. Rows that cannot be sealed now are sealed after the next commit.
            let _ = seal::seal_full_table(engine, *id);
        }
    }
    let _ = seal::relieve_memory(engine);
    engine.reap();
    Ok(commit)
}

/// Validates the reads of a transaction that changes nothing.
pub(crate) fn commit_reads(transaction: &Transaction) -> Result<()> {
    let engine = &transaction.engine;
    let _committing = engine.lock_commit();
    transaction.validate_reads(&engine.latest())
}

/// Makes private blocks durable. A commit must not name a block before this.
pub(crate) fn sync_blocks<'a>(engine: &Core, blocks: impl Iterator<Item = &'a Arc<Block>>) -> Result<()> {
    let mut files: BTreeMap<&str, &Arc<ColumnFile>> = BTreeMap::new();
    for chunk in blocks.flat_map(|block| block.chunks()) {
        files.insert(chunk.file().path(), chunk.file());
    }
    if files.is_empty() {
        return Ok(());
    }
    for file in files.values() {
        if let Err(error) = file.open()?.sync() {
            // The system reports a lost write only once: the next sync of this file would succeed although the data is
            // lost. So the log must refuse all further commits.
            engine.journal().refuse(&error);
            return Err(error);
        }
    }
    engine.sync_directories(files.keys().copied())
}

/// Applies `change` to `current`, which must be the latest state, and makes the result the latest. The caller must hold
/// the commit lock and have synced every new block. Readers see the new state when the log is on disk up to the
/// returned position.
pub(crate) fn publish(engine: &Core, current: &Arc<Snapshot>, mut change: CommitChange) -> Result<Published> {
    publish_as(engine, current, &mut change, None)
}

/// Publishes a change as [`publish`] does, with a durability that overrides the database's. It may move large parts out
/// of the change's write set.
fn publish_as(
    engine: &Core,
    current: &Arc<Snapshot>,
    change: &mut CommitChange,
    durability: Option<Durability>,
) -> Result<Published> {
    let applied = change.apply(current, engine.broker())?;
    let mut next = applied.snapshot;
    let was_sound = engine.journal().check().is_ok();
    let appended = engine.journal().append(|buffer| change.encode(current, next.commit, engine.ids().meta(), buffer));
    if appended.is_err() && was_sound && engine.journal().check().is_err() {
        // The failed write may have reached the disk anyway. Then the next opening finds the record and needs the
        // blocks that it names, so we keep them.
        change.blocks().for_each(|block| block.keep());
    }
    next.log_end = appended?;

    // Nothing can fail from here on, so the state in memory follows the log in every case.
    for block in change.blocks() {
        block.keep();
    }
    for block in &applied.removed {
        block.doom(next.commit);
    }
    for (id, _) in change.tables.iter().filter(|(_, change)| change.renumbered.is_some()) {
        engine.refreshes().limit_translations(*id, &next.tables[id].numbering, engine.broker());
    }
    let (commit, end, catalog) = (next.commit, next.log_end, Arc::clone(&next.catalog));
    let store = current.keyed.store();
    if let Some(keyed) = &mut change.keyed
        && store.apply(commit, keyed)
    {
        engine.analyzer().ring();
    }
    let published = {
        // We hold the generation while we publish, so that a checkpoint cannot switch the base's rows in between.
        let generation = store.current();
        if change.keyed.is_some() {
            next.keyed = store.state(commit, &generation);
        } else if !Arc::ptr_eq(current.keyed.generation(), &generation) {
            next.keyed = store.state(current.keyed.commit().max(generation.commit()), &generation);
        }
        engine.journal().advance(Arc::new(next), durability)
    };
    for table in &applied.dropped {
        engine.note_dropped(*table, commit);
    }
    if !applied.removed.is_empty() || !applied.dropped.is_empty() {
        engine.stored().note_space();
    }
    engine.tidy(end, &catalog);
    Ok(published)
}

pub(crate) fn conflict(message: String) -> Error {
    Error::new(ErrorKind::SerializationFailure, message).hint("another transaction committed first; run this one again")
}

/// Returns a conflict if a table that the transaction changed uses a type that others have changed since.
fn check_types(table: &TableDef, base: &Catalog, changed: &Catalog, current: &Catalog) -> Result<()> {
    let mut conflicting = None;
    let mut check = |id| {
        let (before, latest) = (base.type_by_id(id), current.type_by_id(id));
        if latest != before && latest != changed.type_by_id(id) {
            conflicting = before.map(|def| def.name.clone());
        }
    };
    table.columns.iter().for_each(|column| crate::types::each_type_id(&column.kind, &mut check));
    match conflicting {
        Some(name) => Err(conflict(format!("the type \"{name}\" was changed by another transaction"))),
        None => Ok(()),
    }
}

/// Applies the changes that a transaction made to the catalog of its snapshot to the current catalog.
pub(crate) fn merge_catalogs(
    base: &Arc<Catalog>,
    changed: &Arc<Catalog>,
    current: &Arc<Catalog>,
) -> Result<Arc<Catalog>> {
    if Arc::ptr_eq(base, changed) {
        // In the common cases one side did not change, so there is nothing to merge.
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
    // Removals come before additions, so that an object can take a name that was given up.
    for table in base.all_tables() {
        let after = changed.table_by_id(table.id);
        if same(Some(table), after) {
            continue;
        }
        if !same(Some(table), current.table_by_id(table.id)) {
            return Err(conflict(format!(
                "the definition of table \"{}\" was changed by another transaction",
                table.name
            )));
        }
        merged.remove_table(table.id);
    }
    for view in base.all_views() {
        if changed.view_by_id(view.id) == Some(view) {
            continue;
        }
        if current.view_by_id(view.id) != Some(view) {
            return Err(conflict(format!("the view \"{}\" was changed by another transaction", view.name)));
        }
        merged.remove_view(view.id);
    }
    for def in base.macros() {
        if changed.macro_by_id(def.id) == Some(def) {
            continue;
        }
        if current.macro_by_id(def.id) != Some(def) {
            return Err(conflict(format!("the macro \"{}\" was changed by another transaction", def.name)));
        }
        merged.remove_macro(def.id);
    }
    for def in base.types().filter(|def| changed.type_by_id(def.id) != Some(def)) {
        if current.type_by_id(def.id) != Some(def) {
            return Err(conflict(format!("the type \"{}\" was changed by another transaction", def.name)));
        }
        merged.remove_type(def.id);
    }
    let taken = |error: Error| conflict(error.message().to_owned());
    for schema in changed.schemas().filter(|schema| base.schema_by_id(schema.id).is_none()) {
        merged.put_schema(Arc::clone(schema)).map_err(taken)?;
    }
    for def in changed.types().filter(|def| base.type_by_id(def.id) != Some(def)) {
        merged.put_type(Arc::clone(def)).map_err(taken)?;
    }
    for table in changed.all_tables().filter(|table| !same(Some(table), base.table_by_id(table.id))) {
        check_types(table, base, changed, current)?;
        merged.put_table(Arc::clone(table)).map_err(taken)?;
    }
    for view in changed.all_views().filter(|view| base.view_by_id(view.id) != Some(view)) {
        merged.put_view(Arc::clone(view)).map_err(taken)?;
    }
    for def in changed.macros().filter(|def| base.macro_by_id(def.id) != Some(def)) {
        merged.put_macro(Arc::clone(def)).map_err(taken)?;
    }
    for table in base.materialized_views().chain(changed.materialized_views()).map(|view| view.table) {
        let (before, after) = (base.materialized(table), changed.materialized(table));
        let latest = current.materialized(table);
        let is_changed = before.map(Arc::as_ptr) != after.map(Arc::as_ptr);
        // A view that was dropped, or whose rows are no longer known, stays so whatever a refresh has done meanwhile.
        let shows_rows = after.is_some_and(|view| view.refreshed.is_some());
        if is_changed && shows_rows && before.map(Arc::as_ptr) != latest.map(Arc::as_ptr) {
            let name = changed.table_by_id(table).or_else(|| base.table_by_id(table)).map_or("", |table| &table.name);
            return Err(conflict(format!("the materialized view \"{name}\" was refreshed by another transaction")));
        }
        match if is_changed { after } else { latest } {
            Some(view) if merged.table_by_id(table).is_some() => merged.put_materialized(Arc::clone(view))?,
            _ => merged.remove_materialized(table),
        }
    }
    // Statistics do not affect results, so the last ones win without a conflict. `set_statistics` ignores those of a
    // table that was emptied or dropped.
    for table in current.all_tables().chain(changed.all_tables()).map(|table| table.id) {
        let (before, after) = (base.statistics(table), changed.statistics(table));
        let is_same = before.map(Arc::as_ptr) == after.map(Arc::as_ptr);
        merged.set_statistics(table, if is_same { current.statistics(table) } else { after });
    }
    merge_access(base, changed, current, &mut merged)?;
    for table in current.all_tables().chain(changed.all_tables()).map(|table| table.id) {
        let (before, after, latest) = (base.comments(table), changed.comments(table), current.comments(table));
        let is_changed = before.map(Arc::as_ptr) != after.map(Arc::as_ptr);
        if is_changed && before.map(Arc::as_ptr) != latest.map(Arc::as_ptr) {
            let name = current.table_by_id(table).map_or("", |table| &table.name);
            return Err(conflict(format!("the comments on table \"{name}\" were changed by another transaction")));
        }
        merged.set_comments(table, if is_changed { after } else { latest }.cloned());
    }
    for schema in base.schemas().filter(|schema| changed.schema_by_id(schema.id).is_none()) {
        if merged.tables(schema.id).next().is_some() || merged.views(schema.id).next().is_some() {
            return Err(conflict(format!("the schema \"{}\" is no longer empty", schema.name)));
        }
        merged.remove_schema(schema.id);
    }
    Ok(Arc::new(merged))
}

/// Applies the changes that a transaction made to roles and rights. A role or an object that both sides changed is a
/// conflict, and so is a definition that names a role which the other side has dropped.
fn merge_access(base: &Catalog, changed: &Catalog, current: &Catalog, merged: &mut Catalog) -> Result<()> {
    let taken = |error: Error| conflict(error.message().to_owned());
    let mut is_changed = false;
    let ids: BTreeSet<_> = base.roles().chain(changed.roles()).map(|role| role.id).collect();
    for id in ids {
        let (before, after) = (base.role_by_id(id), changed.role_by_id(id));
        if before == after {
            continue;
        }
        is_changed = true;
        if current.role_by_id(id) != before {
            let name = before.or(after).map_or("", |role| &role.name);
            return Err(conflict(format!("the role \"{name}\" was changed by another transaction")));
        }
        match after {
            Some(role) => merged.put_role(Arc::clone(role)).map_err(taken)?,
            None => merged.remove_role(id),
        }
    }
    let objects: BTreeSet<_> = base.all_access().chain(changed.all_access()).map(|access| access.object).collect();
    for object in objects {
        let (before, after) = (base.access(object), changed.access(object));
        if before == after {
            continue;
        }
        is_changed = true;
        if current.access(object) != before {
            return Err(conflict("the rights on an object were changed by another transaction".to_owned()));
        }
        match after {
            Some(access) if merged.has_object(object) => merged.put_access((**access).clone()),
            Some(_) => return Err(conflict("another transaction dropped an object that rights were given on".into())),
            None => merged.remove_access(object),
        }
    }
    if is_changed { merged.check_roles().map_err(taken) } else { Ok(()) }
}

/// Translates the changes of a transaction to one table into changes of its current state.
fn change_of(
    def: &Arc<TableDef>,
    current: Option<&TableSnapshot>,
    base: Option<&TableSnapshot>,
    changes: &TableChanges,
) -> Result<TableChange> {
    let Some(current) = current else { return Ok(appended(RowNumber(0), changes)) };
    let base = base.ok_or_else(|| Error::internal("a committed table is missing from the transaction's snapshot"))?;
    if !Arc::ptr_eq(&base.def, &current.def) {
        return Err(conflict(format!("the definition of table \"{}\" was changed by another transaction", def.name)));
    }
    let mut change = appended(current.next_row, changes);
    if changes.truncated {
        if rows_differ(base, current) {
            return Err(conflict(format!(
                "rows of table \"{}\" were changed by another transaction",
                current.def.name
            )));
        }
        change.truncated = true;
    } else if !changes.deleted.is_empty() {
        change.deleted = moved_deletes(base, current, &changes.deleted)?;
    }
    check_same_keys(def, base, current, changes, &change.deleted)?;
    Ok(change)
}

/// Whether rows were added or deleted between the two states. Counts are enough: if no row was added, each deleted row
/// makes the number of live rows smaller.
pub(crate) fn rows_differ(base: &TableSnapshot, current: &TableSnapshot) -> bool {
    use rowmill_storage::TableSource;
    base.rows_added() != current.rows_added() || base.row_count() != current.row_count()
}

/// Translates the deletes of a transaction into positions in the current blocks and runs. Fails if another transaction
/// has deleted one of the rows.
pub(crate) fn moved_deletes(
    base: &TableSnapshot,
    current: &TableSnapshot,
    deleted: &DeletesByHolder,
) -> Result<DeletesByHolder> {
    let lost =
        || conflict(format!("a row of table \"{}\" was changed or deleted by another transaction", current.def.name));
    let before = RowFinder::new(&base.def, &base.blocks, &base.runs);
    let mut now = RowFinder::new(&current.def, &current.blocks, &current.runs);
    let moved = current.numbering.since(&base.numbering);
    let mut valid = DeletesByHolder::new();
    for (first_row, positions) in deleted {
        let holder = before.holder_at(*first_row).expect("deletes name holders of the base snapshot");
        // The holder is unchanged, so its positions still hold. Otherwise we find each row again by its number.
        if let Some(same) = now.holder_at(*first_row).filter(|same| same.same_rows(holder)) {
            if same.deleted().is_some_and(|gone| !gone.is_disjoint(positions)) {
                return Err(lost());
            }
            *valid.entry(*first_row).or_default() |= positions;
            continue;
        }
        let numbers = holder.row_numbers(&base.def)?;
        for position in positions {
            let row = moved.translate(numbers.at(position as usize));
            let (holder, position) = now.find(row)?.ok_or_else(lost)?;
            if holder.deleted().is_some_and(|gone| gone.contains(position)) {
                return Err(lost());
            }
            valid.entry(holder.first_row()).or_default().insert(position);
        }
    }
    Ok(valid)
}

/// The transaction's own rows, numbered from `next_row` on in the order in which they were inserted. Blocks and runs
/// without live rows are left out.
fn appended(next_row: RowNumber, changes: &TableChanges) -> TableChange {
    let (own_blocks, own_runs) = deletes::apply(&changes.blocks, &changes.runs, &changes.own_deleted);
    let mut change = TableChange { next_row, ..TableChange::default() };
    for holder in Holder::all(&own_blocks, &own_runs) {
        let first_row = change.next_row;
        match &holder {
            Holder::Block(block) if block.live_rows() > 0 => change.blocks.push(Arc::new(block.at(first_row))),
            Holder::Run(run) if run.live_rows() > 0 => change.runs.push(Arc::new(run.at(first_row))),
            _ => continue,
        }
        change.next_row = RowNumber(first_row.0 + holder.rows() as u64);
    }
    change
}

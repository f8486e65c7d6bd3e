//! Rows of keyed tables in a transaction and in a snapshot: found, read in order, inserted, updated and deleted by key.
//!
//! What a transaction writes gathers in its [`WriteSet`](crate::keyed::write_set::WriteSet), rows and index entries alike,
//! and becomes part of its commit. A call that fails leaves the transaction as it was before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{ColumnId, Error, ErrorKind, IndexId, Result, SchemaId, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_storage::{CheckDef, ColumnSpec, IndexDef, KeyColumn, KeyedDef, TableDef};

use crate::catalog::Catalog;
use crate::commit::conflict;
use crate::keyed::store::{KeyedChanges, KeyedState};
use crate::keyed::{
    Entries, IndexCodec, KeyedCursor, KeyedRow, RowBatch, Sources, TableCodec, column_values, index_head, index_of,
};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// Rows that are read at a time to make the entries of a new index.
const ROWS_AT_ONCE: usize = 1024;

/// An index to be made: an [`IndexDef`] that has no id yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSpec {
    /// The name as spelled.
    pub name: String,
    /// Its columns in order.
    pub parts: Vec<KeyColumn>,
    /// Whether no two rows have the same values in all its columns, NULL being no value.
    pub unique: bool,
}

impl Transaction {
    /// A new, empty table whose rows lie under the primary key `key`, columns by their places in `columns`. Those are made
    /// NOT NULL.
    ///
    /// `InvalidDefinition` of a key that is empty or has a column twice, `Unsupported` of one whose values have no order.
    pub fn create_keyed_table(
        &mut self,
        schema: SchemaId,
        name: &str,
        mut columns: Vec<ColumnSpec>,
        key: &[KeyColumn],
    ) -> Result<TableId> {
        let named = |column: ColumnId| columns.get(column.0 as usize).map(|spec| (&spec.name[..], &spec.kind));
        check_parts("the primary key", key, named)?;
        for part in key {
            columns[part.column.0 as usize].nullable = false;
        }
        let kinds: Vec<_> = (0..).map(ColumnId).zip(columns.iter().map(|column| column.kind.clone())).collect();
        let table = self.create_table(schema, name, columns)?;
        let is_key = |id: &ColumnId| key.iter().any(|part| part.column == *id);
        let keyed = KeyedDef {
            index: self.engine.ids().index(),
            key: key.to_vec(),
            stored: kinds.into_iter().filter(|(id, _)| !is_key(id)).collect(),
            indexes: Vec::new(),
            checks: Vec::new(),
        };
        self.redefine(table, keyed)?;
        Ok(table)
    }

    /// A condition that rows of a keyed table have to meet from now on. Whoever writes rows checks it.
    ///
    /// `DuplicateObject` if there is one of that name.
    pub fn add_check(&mut self, table: TableId, check: CheckDef) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let mut with_check = (*self.keyed_def(codec.def())?).clone();
        if with_check.checks.iter().any(|other| other.name.to_lowercase() == check.name.to_lowercase()) {
            let what = format!("table \"{}\" has a constraint \"{}\" already", codec.def().name, check.name);
            return Err(Error::new(ErrorKind::DuplicateObject, what));
        }
        with_check.checks.push(check);
        self.redefine(table, with_check)
    }

    /// A new index of a keyed table, with the entries of all rows that the transaction sees.
    ///
    /// `UniqueViolation` if rows have the same values where none may, and what [`Transaction::create_keyed_table`] says.
    pub fn create_index(&mut self, table: TableId, spec: IndexSpec) -> Result<IndexId> {
        let codec = self.keyed_codec(table)?;
        let def = codec.def();
        let keyed = self.keyed_def(def)?;
        let column = |id: ColumnId| def.column_by_id(id).map(|at| (&def.columns[at].name[..], &def.columns[at].kind));
        check_parts(&format!("index \"{}\"", spec.name), &spec.parts, column)?;
        if keyed.indexes.iter().any(|index| index.name.to_lowercase() == spec.name.to_lowercase()) {
            let what = format!("table \"{}\" has an index \"{}\" already", def.name, spec.name);
            return Err(Error::new(ErrorKind::DuplicateTable, what));
        }
        let IndexSpec { name, parts, unique } = spec;
        let id = self.engine.ids().index();
        let mut with_index = (*keyed).clone();
        with_index.indexes.push(IndexDef { id, name, parts, unique });
        let before = self.savepoint();
        self.redefine(table, with_index)?;
        let filled = self.fill_index(table, id);
        if filled.is_err() {
            self.rollback_to(&before);
        }
        filled.map(|()| id)
    }

    fn fill_index(&mut self, table: TableId, id: IndexId) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let index = codec.index(id)?;
        let mut cursor = self.keyed_cursor(table, None, KeyRange::default(), false)?;
        let (mut rows, mut scratch) = (RowBatch::default(), Vec::new());
        loop {
            self.next_rows(&mut cursor, ROWS_AT_ONCE, &mut rows)?;
            if rows.is_empty() {
                return Ok(());
            }
            for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                let values = codec.values(key, row, &mut scratch)?;
                let entry = codec.entry(index, &values, key)?;
                self.put_entry(&codec, index, entry)?;
            }
        }
    }

    /// Drops an index.
    pub fn drop_index(&mut self, table: TableId, id: IndexId) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        codec.index(id)?;
        let mut without = (*self.keyed_def(codec.def())?).clone();
        without.indexes.retain(|index| index.id != id);
        self.redefine(table, without)?;
        self.keyed.clear(&index_head(id));
        Ok(())
    }

    fn keyed_def(&self, def: &TableDef) -> Result<Arc<KeyedDef>> {
        def.keyed.clone().ok_or_else(|| crate::keyed::not_keyed(def))
    }

    /// Has a table its rows by other keys.
    pub(crate) fn redefine(&mut self, table: TableId, keyed: KeyedDef) -> Result<()> {
        self.alter(table, |def| {
            def.keyed = Some(Arc::new(keyed));
            Ok(())
        })
    }

    /// Gives a keyed table and its indexes other ids: those that lie under the old ones go with the old definition.
    pub(crate) fn truncate_keyed(&mut self, table: TableId, keyed: &KeyedDef) -> Result<u64> {
        let mut rows = 0;
        let mut cursor = self.keyed_cursor(table, None, KeyRange::default(), false)?;
        let mut batch = RowBatch::default();
        loop {
            self.next_rows(&mut cursor, ROWS_AT_ONCE, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            rows += batch.len() as u64;
        }
        let mut emptied = keyed.clone();
        emptied.index = self.engine.ids().index();
        for index in &mut emptied.indexes {
            index.id = self.engine.ids().index();
        }
        self.redefine(table, emptied)?;
        self.forget_keyed(keyed);
        Ok(rows)
    }

    /// Forgets what was written under the keys of a table.
    pub(crate) fn forget_keyed(&mut self, keyed: &KeyedDef) {
        keyed.index_ids().for_each(|id| self.keyed.clear(&index_head(id)));
    }

    /// Makes keys and rows of the table's values and reads them. `WrongObject` if it is not a keyed table.
    pub fn keyed_codec(&mut self, table: TableId) -> Result<Arc<TableCodec>> {
        let def = self.table_def(table)?;
        if let Some(codec) = self.codecs.get(&table).filter(|codec| Arc::ptr_eq(codec.def(), &def)) {
            return Ok(Arc::clone(codec));
        }
        let codec = Arc::new(TableCodec::new(&def)?);
        self.codecs.insert(table, Arc::clone(&codec));
        Ok(codec)
    }

    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources { state: &self.base.keyed, own: Some(&self.keyed) }
    }

    /// The row whose primary key has the values `key`, as the transaction sees it.
    pub fn get(&mut self, table: TableId, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
        let key = self.keyed_codec(table)?.key_of(key)?;
        let mut row = Vec::new();
        Ok(self.sources().get(&key, &mut row)?.then_some(KeyedRow { key, row }))
    }

    /// A place at the beginning of `range`, or at its end to be read backward: keys of rows, or entries of `index`, behind the
    /// head of the index ([`TableCodec::keys`]). A range beyond those keys is cut; the default one has all.
    pub fn keyed_cursor(
        &mut self,
        table: TableId,
        index: Option<IndexId>,
        range: KeyRange,
        backward: bool,
    ) -> Result<KeyedCursor> {
        let codec = self.keyed_codec(table)?;
        cursor(&codec, &self.base.keyed, index, range, backward)
    }

    /// Fills `rows` with the next rows of the table, `rows_max` at most; with none at the end of the range.
    pub fn next_rows(&mut self, cursor: &mut KeyedCursor, rows_max: usize, rows: &mut RowBatch) -> Result<()> {
        let codec = self.keyed_codec(cursor.table)?;
        next_rows(&codec, self.sources(), cursor, rows_max, rows)
    }

    /// Adds a row of all columns in the order of the table.
    ///
    /// `UniqueViolation` if the transaction sees a row with its key, or with its values in a unique index. `KeyTooLong` if one
    /// of its keys is longer than the base keeps. `NotNullViolation`, `StringTooLong` and `NumericOutOfRange` of its values.
    pub fn insert_row(&mut self, table: TableId, values: &[ValueRef<'_>]) -> Result<()> {
        self.start_change()?;
        let codec = self.keyed_codec(table)?;
        self.whole(|transaction| transaction.put_new(&codec, values))
    }

    /// Adds the rows of a batch, whose columns are the table's.
    pub(crate) fn insert_keyed(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let columns = column_values(codec.def(), batch)?;
        self.whole(|transaction| {
            let mut values = Vec::with_capacity(columns.len());
            (0..batch.num_rows()).try_for_each(|row| {
                values.clear();
                values.extend(columns.iter().map(|column| column.get(row)));
                transaction.put_new(&codec, &values)
            })
        })
    }

    /// Puts a row of all columns in the place of `old`, which the transaction sees. Its key may be another one.
    /// Errors are those of [`Transaction::insert_row`].
    pub fn update_row(&mut self, table: TableId, old: &KeyedRow, values: &[ValueRef<'_>]) -> Result<()> {
        self.start_change()?;
        let codec = self.keyed_codec(table)?;
        self.whole(|transaction| {
            let (key, row) = codec.encode(values)?;
            if key != old.key {
                transaction.remove(&codec, old)?;
                return transaction.put_new(&codec, values);
            }
            let mut scratch = Vec::new();
            let before = codec.values(&old.key, &old.row, &mut scratch)?;
            for index in codec.indexes() {
                let (gone, entry) = (codec.entry(index, &before, &key)?, codec.entry(index, values, &key)?);
                if gone != entry {
                    transaction.keyed.put(gone, None);
                    transaction.put_entry(&codec, index, entry)?;
                }
            }
            transaction.keyed.put(key, Some(row));
            Ok(())
        })
    }

    /// Removes `old`, which the transaction sees.
    pub fn delete_row(&mut self, table: TableId, old: &KeyedRow) -> Result<()> {
        self.start_change()?;
        let codec = self.keyed_codec(table)?;
        self.whole(|transaction| transaction.remove(&codec, old))
    }

    /// Removes the row whose primary key has the values `key`; whether there was one.
    pub fn delete_by_key(&mut self, table: TableId, key: &[ValueRef<'_>]) -> Result<bool> {
        let old = self.get(table, key)?;
        old.map_or(Ok(false), |old| self.delete_row(table, &old).map(|()| true))
    }

    /// Does all of it or nothing, and counts the memory that it takes.
    fn whole(&mut self, change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let mark = self.keyed.mark();
        let changed = change(self).and_then(|()| {
            let more = self.keyed.bytes().saturating_sub(self.keyed_memory.bytes());
            self.keyed_memory.grow(more)
        });
        if changed.is_err() {
            self.keyed.undo_to(mark);
        }
        changed
    }

    fn put_new(&mut self, codec: &TableCodec, values: &[ValueRef<'_>]) -> Result<()> {
        let (key, row) = codec.encode(values)?;
        if self.sources().get(&key, &mut Vec::new())? {
            let what = format!("table {} has a row with the primary key {} already", codec.def().name, codec.say(&key));
            return Err(Error::new(ErrorKind::UniqueViolation, what));
        }
        for index in codec.indexes() {
            let entry = codec.entry(index, values, &key)?;
            self.put_entry(codec, index, entry)?;
        }
        self.keyed.put(key, Some(row));
        Ok(())
    }

    fn put_entry(&mut self, codec: &TableCodec, index: &IndexCodec, entry: Vec<u8>) -> Result<()> {
        if let Some(range) = codec.unique_range(index, &entry)?
            && self.sources().first(range)?.is_some()
        {
            let (table, name) = (&codec.def().name, &index.def.name);
            let what = format!("table {table} has a row with {} in the unique index {name} already", codec.say(&entry));
            return Err(Error::new(ErrorKind::UniqueViolation, what));
        }
        self.keyed.put(entry, Some(Vec::new()));
        Ok(())
    }

    fn remove(&mut self, codec: &TableCodec, old: &KeyedRow) -> Result<()> {
        let mut scratch = Vec::new();
        let values = codec.values(&old.key, &old.row, &mut scratch)?;
        for index in codec.indexes() {
            let entry = codec.entry(index, &values, &old.key)?;
            self.keyed.put(entry, None);
        }
        self.keyed.put(old.key.clone(), None);
        Ok(())
    }

    /// Fails if a commit behind the transaction's snapshot has written what this one writes, or has changed a table whose keys
    /// this one defines anew. That the versions in memory know of all such commits is `keyed/store.rs`' matter.
    pub(crate) fn validate_keyed(&self, changes: &KeyedChanges, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        self.validate_definitions(current, catalog)?;
        if changes.is_empty() {
            return Ok(());
        }
        let owners: BTreeMap<IndexId, &Arc<TableDef>> = catalog
            .all_tables()
            .flat_map(|def| def.keyed.iter().flat_map(move |keyed| keyed.index_ids().map(move |id| (id, def))))
            .collect();
        let (after, versions) = (self.base.keyed.commit(), current.keyed.store().versions());
        let mut known: Option<(IndexId, Arc<TableCodec>)> = None;
        for (key, row) in changes {
            let id = index_of(key)?;
            if known.as_ref().is_none_or(|(known, _)| *known != id) {
                let gone = || conflict("a table was dropped or emptied meanwhile".to_owned());
                let def = owners.get(&id).ok_or_else(gone)?;
                if let Some(now) = current.tables.get(&def.id)
                    && !self.base.tables.get(&def.id).is_some_and(|base| Arc::ptr_eq(&base.def, &now.def))
                {
                    return Err(conflict(format!("the definition of table \"{}\" was changed meanwhile", def.name)));
                }
                known = Some((id, Arc::new(TableCodec::new(def)?)));
            }
            if current.keyed.commit() == after {
                continue;
            }
            let (_, codec) = known.as_ref().expect("it was made for the key");
            let lost = |key: &[u8]| {
                conflict(format!("{} of table {} was written meanwhile", codec.say(key), codec.def().name))
            };
            if versions.latest_commit(key).is_some_and(|commit| commit > after) {
                return Err(lost(key));
            }
            if row.is_some()
                && let Ok(index) = codec.index(id)
                && let Some(range) = codec.unique_range(index, key)?
                && versions.changed_in(&range, after).is_some()
            {
                return Err(lost(key));
            }
        }
        Ok(())
    }

    /// A table that is emptied, or of which an index is made, must have the rows that the transaction has seen.
    fn validate_definitions(&self, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        if Arc::ptr_eq(&self.base.catalog, &self.changes.catalog) || current.keyed.commit() == self.base.keyed.commit()
        {
            return Ok(());
        }
        for before in self.base.catalog.all_tables() {
            let after = catalog.table_by_id(before.id).and_then(|def| def.keyed.as_ref());
            let (Some(old), Some(new)) = (&before.keyed, after) else { continue };
            let is_known = |id| old.index_ids().any(|old| old == id);
            let rows = KeyRange::of_prefix(&index_head(old.index));
            if !new.index_ids().all(is_known)
                && current.keyed.store().versions().changed_in(&rows, self.base.keyed.commit()).is_some()
            {
                return Err(conflict(format!("rows of table \"{}\" were changed meanwhile", before.name)));
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// Makes keys and rows of a table's values and reads them.
    pub fn keyed_codec(&self, table: TableId) -> Result<Arc<TableCodec>> {
        let gone = || Error::new(ErrorKind::UndefinedTable, "the table is gone");
        Ok(Arc::new(TableCodec::new(self.catalog.table_by_id(table).ok_or_else(gone)?)?))
    }

    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources { state: &self.keyed, own: None }
    }

    /// As [`Transaction::get`].
    pub fn get(&self, codec: &TableCodec, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
        let key = codec.key_of(key)?;
        let mut row = Vec::new();
        Ok(self.sources().get(&key, &mut row)?.then_some(KeyedRow { key, row }))
    }

    /// As [`Transaction::keyed_cursor`].
    pub fn keyed_cursor(
        &self,
        codec: &TableCodec,
        index: Option<IndexId>,
        range: KeyRange,
        backward: bool,
    ) -> Result<KeyedCursor> {
        cursor(codec, &self.keyed, index, range, backward)
    }

    /// As [`Transaction::next_rows`].
    pub fn next_rows(
        &self,
        codec: &TableCodec,
        cursor: &mut KeyedCursor,
        rows_max: usize,
        rows: &mut RowBatch,
    ) -> Result<()> {
        next_rows(codec, self.sources(), cursor, rows_max, rows)
    }
}

pub(crate) fn cursor(
    codec: &TableCodec,
    state: &KeyedState,
    index: Option<IndexId>,
    mut range: KeyRange,
    backward: bool,
) -> Result<KeyedCursor> {
    let all = KeyRange::of_prefix(codec.keys(index)?.0);
    if range.start < all.start {
        range.start = all.start;
    }
    if range.end.is_empty() || range.end > all.end {
        range.end = all.end;
    }
    let entries = Entries::new(range, state, backward, usize::MAX);
    Ok(KeyedCursor { table: codec.def().id, index, entries })
}

pub(crate) fn next_rows(
    codec: &TableCodec,
    sources: Sources<'_>,
    cursor: &mut KeyedCursor,
    rows_max: usize,
    rows: &mut RowBatch,
) -> Result<()> {
    let Some(index) = cursor.index else { return cursor.entries.next_batch(sources, rows_max, rows) };
    let index = codec.index(index)?;
    let mut entries = RowBatch::default();
    cursor.entries.next_batch(sources, rows_max, &mut entries)?;
    rows.clear();
    let mut row = Vec::new();
    for entry in entries.keys().iter() {
        let key = codec.row_key(index, entry)?;
        if !sources.get(&key, &mut row)? {
            let (name, table) = (&index.def.name, &codec.def().name);
            let what = format!("table {table}: the index {name} has {}, and there is no such row", codec.say(entry));
            return Err(Error::corrupt(what));
        }
        rows.push(&key, &row);
    }
    Ok(())
}

fn check_parts<'a>(
    what: &str,
    parts: &[KeyColumn],
    column: impl Fn(ColumnId) -> Option<(&'a str, &'a rowmill_base::SqlType)>,
) -> Result<()> {
    if parts.is_empty() {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("{what} has no columns")));
    }
    for (at, part) in parts.iter().enumerate() {
        let unknown = || Error::new(ErrorKind::UndefinedColumn, format!("{what} has a column that is not there"));
        let (name, kind) = column(part.column).ok_or_else(unknown)?;
        if parts[..at].iter().any(|other| other.column == part.column) {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("{what} has the column \"{name}\" twice")));
        }
        if !kind.is_ordered() {
            let what = format!("{what} has the column \"{name}\" of type {kind}, whose values have no order");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
    }
    Ok(())
}

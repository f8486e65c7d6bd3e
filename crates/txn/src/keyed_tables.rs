//! Keyed tables and their indexes: how a transaction creates, changes and empties them.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, IndexId, Result, SchemaId, SqlType, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{CheckDef, ColumnSpec, IndexDef, KeyColumn, KeyedDef, TableDef};

use crate::keyed::{RowBatch, index_head};
use crate::transaction::Transaction;

/// Rows read at a time to build a new index. A column of numbers then takes 8 KiB, so that a hundred columns fit the
/// second-level cache, and the cost of a call is shared by a thousand rows.
const ROWS_AT_ONCE: usize = 1024;

/// An index to be created: an [`IndexDef`] without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSpec {
    /// The name as spelled.
    pub name: String,
    /// Its columns, in order.
    pub parts: Vec<KeyColumn>,
    /// Whether no two rows may have the same values in all its columns. NULL never equals another value.
    pub unique: bool,
}

impl Transaction {
    /// Creates an empty table with the primary key `key`, whose columns are given by their places in `columns`. The key
    /// columns become NOT NULL.
    ///
    /// Returns `InvalidDefinition` if the key is empty or has a column twice, and `Unsupported` if the values of a
    /// column have no order.
    pub fn create_keyed_table(
        &mut self,
        schema: SchemaId,
        name: &str,
        mut columns: Vec<ColumnSpec>,
        key: &[KeyColumn],
    ) -> Result<TableId> {
        let named = |column: ColumnId| columns.get(column.0 as usize).map(|spec| (&spec.name[..], &spec.kind));
        check_parts(PRIMARY_KEY, key, named)?;
        for part in key {
            columns[part.column.0 as usize].nullable = false;
        }
        let table = self.create_table(schema, name, columns)?;
        let keyed = KeyedDef::of_columns(self.engine.ids().index(), key, &self.table_def(table)?.columns);
        self.redefine(table, keyed)?;
        Ok(table)
    }

    /// Adds a check constraint to a table. The caller must have checked the existing rows, and callers that write
    /// rows must check them.
    ///
    /// Returns `DuplicateObject` if the table has a constraint of that name.
    pub fn add_check(&mut self, table: TableId, check: CheckDef) -> Result<()> {
        self.alter(table, |def| {
            if def.has_constraint(&check.name) {
                return Err(constraint_exists(def, &check.name));
            }
            def.rules.checks.push(check);
            Ok(())
        })
    }

    /// Gives the check constraint of this name another text, which must mean the same.
    pub fn set_check(&mut self, table: TableId, check: CheckDef) -> Result<()> {
        self.alter(table, |def| {
            let found = def.rules.checks.iter_mut().find(|other| other.name == check.name);
            *found.ok_or_else(|| Error::internal("a constraint that is gone gets another text"))? = check;
            Ok(())
        })
    }

    /// Creates an index of a keyed table with entries for all rows that the transaction sees.
    ///
    /// Returns `UniqueViolation` if the index is unique and rows have equal values, and the errors of
    /// [`Transaction::create_keyed_table`].
    pub fn create_index(&mut self, table: TableId, spec: IndexSpec) -> Result<IndexId> {
        self.add_index(table, spec, false)
    }

    /// Adds a `UNIQUE` constraint to a keyed table: a unique index that is listed among the constraints. `spec` must
    /// be unique. Returns the errors of [`Transaction::create_index`].
    pub fn add_unique(&mut self, table: TableId, spec: IndexSpec) -> Result<IndexId> {
        self.add_index(table, spec, true)
    }

    /// Lists an index of a columnar table, which has no entries.
    ///
    /// Returns `DuplicateTable` if the table lists one of that name, and the errors of
    /// [`Transaction::create_keyed_table`].
    pub fn list_index(&mut self, table: TableId, spec: IndexSpec) -> Result<()> {
        let IndexSpec { name, parts, unique } = spec;
        let id = self.engine.ids().index();
        self.alter(table, |def| {
            check_index(def, &name, &parts)?;
            let index = IndexDef { id, name, parts, unique, is_constraint: false, shortens: false };
            def.rules.listed_indexes.push(index);
            Ok(())
        })
    }

    /// Gives the primary key of a keyed table a name.
    ///
    /// Returns `DuplicateObject` if a constraint of the table has the name.
    pub fn name_primary_key(&mut self, table: TableId, name: &str) -> Result<()> {
        self.alter(table, |def| {
            let is_named = |other: &str| other.to_lowercase() == name.to_lowercase();
            let is_own = def.primary_key_name().is_some_and(|own| is_named(&own));
            let is_index = def.named_indexes().any(|index| is_named(&index.name));
            if is_index || !is_own && def.has_constraint(name) {
                return Err(constraint_exists(def, name));
            }
            let Some(keyed) = &mut def.keyed else { return Err(crate::keyed::not_keyed(def)) };
            Arc::make_mut(keyed).key_name = Some(name.to_owned());
            Ok(())
        })
    }

    /// Gives a constraint of a table another name. Returns whether there was one.
    ///
    /// Returns `DuplicateObject` if another constraint or index of the table has the new name.
    pub fn rename_constraint(&mut self, table: TableId, old: &str, new: &str) -> Result<bool> {
        let def = self.table_def(table)?;
        let is_named = |name: &str, other: &str| name.to_lowercase() == other.to_lowercase();
        if def.primary_key_name().is_some_and(|name| is_named(&name, old)) {
            return self.name_primary_key(table, new).map(|()| true);
        }
        let is_unique = |index: &IndexDef| index.is_constraint && is_named(&index.name, old);
        if !def.has_constraint(old) && !def.named_indexes().any(is_unique) {
            return Ok(false);
        }
        let is_taken = def.has_constraint(new) || def.named_indexes().any(|index| is_named(&index.name, new));
        if is_taken && !is_named(old, new) {
            return Err(constraint_exists(&def, new));
        }
        self.alter(table, |def| {
            let checks = def.rules.checks.iter_mut().map(|check| &mut check.name);
            let mut keyed = def.keyed.as_ref().map(|keyed| KeyedDef::clone(keyed));
            let of_keys = keyed.iter_mut().flat_map(|keyed| {
                let unique = keyed.indexes.iter_mut().filter(|index| index.is_constraint);
                keyed.foreign_keys.iter_mut().map(|key| &mut key.name).chain(unique.map(|index| &mut index.name))
            });
            checks.chain(of_keys).filter(|name| is_named(name, old)).for_each(|name| *name = new.to_owned());
            def.keyed = keyed.map(Arc::new);
            Ok(())
        })?;
        Ok(true)
    }

    fn add_index(&mut self, table: TableId, spec: IndexSpec, is_constraint: bool) -> Result<IndexId> {
        let codec = self.keyed_codec(table)?;
        let def = codec.def();
        let keyed = self.keyed_def(def)?;
        check_index(def, &spec.name, &spec.parts)?;
        let IndexSpec { name, parts, unique } = spec;
        let id = self.engine.ids().index();
        let mut with_index = (*keyed).clone();
        with_index.indexes.push(IndexDef { id, name, parts, unique, is_constraint, shortens: true });
        let before = self.savepoint();
        self.redefine(table, with_index)?;
        // Now the definition has the index, so the codec can encode its entries.
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
        let mut rows = RowBatch::default();
        loop {
            self.cancel.check()?;
            self.next_rows(&mut cursor, ROWS_AT_ONCE, &mut rows)?;
            if rows.is_empty() {
                return Ok(());
            }
            for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                self.put_entry_of_row(&codec, index, key, row)?;
            }
        }
    }

    /// Drops an index, or takes it from the list of a columnar table.
    pub fn drop_index(&mut self, table: TableId, id: IndexId) -> Result<()> {
        if self.table_def(table)?.keyed.is_none() {
            return self.alter(table, |def| {
                def.rules.listed_indexes.retain(|index| index.id != id);
                Ok(())
            });
        }
        let codec = self.keyed_codec(table)?;
        codec.index(id)?;
        let mut without = (*self.keyed_def(codec.def())?).clone();
        without.indexes.retain(|index| index.id != id);
        self.check_references_without(codec.def(), &without)?;
        // We refuse the drop before any change, because a foreign key may need this index for its look-ups.
        self.redefine(table, without)?;
        self.clear_keyed(&index_head(id));
        Ok(())
    }

    /// Drops the check constraint called `name`. Returns whether there was one.
    pub fn drop_check(&mut self, table: TableId, name: &str) -> Result<bool> {
        let def = self.table_def(table)?;
        let is_named = |check: &CheckDef| check.name.to_lowercase() == name.to_lowercase();
        if !def.rules.checks.iter().any(is_named) {
            return Ok(false);
        }
        self.alter(table, |def| {
            def.rules.checks.retain(|check| !is_named(check));
            Ok(())
        })?;
        Ok(true)
    }

    /// Makes the commit fail if another transaction writes a row of this table before it, at every isolation level.
    /// Needed for conditions that were checked on all rows.
    pub fn validate_rows(&mut self, table: TableId) -> Result<()> {
        if self.table_def(table)?.keyed.is_none() {
            self.validate_table(table);
            return Ok(());
        }
        let all = KeyRange::of_prefix(self.keyed_codec(table)?.keys(None)?.0);
        self.validate_range(&all.start, &all.end);
        Ok(())
    }

    fn keyed_def(&self, def: &TableDef) -> Result<Arc<KeyedDef>> {
        def.keyed.clone().ok_or_else(|| crate::keyed::not_keyed(def))
    }

    /// Changes the keyed part of a table's definition.
    pub(crate) fn redefine_with(&mut self, table: TableId, change: impl FnOnce(&mut KeyedDef)) -> Result<()> {
        let mut keyed = (*self.keyed_def(&*self.table_def(table)?)?).clone();
        change(&mut keyed);
        self.redefine(table, keyed)
    }

    /// Replaces the keyed part of a table's definition.
    pub(crate) fn redefine(&mut self, table: TableId, keyed: KeyedDef) -> Result<()> {
        self.alter(table, |def| {
            def.keyed = Some(Arc::new(keyed));
            Ok(())
        })
    }

    /// Empties a keyed table by giving it and its indexes new ids. The rows under the old ids are removed with the old
    /// definition. Returns the number of rows.
    pub(crate) fn truncate_keyed(&mut self, table: TableId, keyed: &KeyedDef) -> Result<u64> {
        self.check_emptied(&*self.table_def(table)?, keyed)?;
        let mut rows = 0;
        let mut cursor = self.keyed_cursor(table, None, KeyRange::default(), false)?;
        let mut batch = RowBatch::default();
        loop {
            self.cancel.check()?;
            self.next_rows(&mut cursor, ROWS_AT_ONCE, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            rows += batch.len() as u64;
        }
        self.renew_indexes(table, keyed)?;
        Ok(rows)
    }

    /// Gives a keyed table and its indexes new ids, under which there are no rows yet.
    pub(crate) fn renew_indexes(&mut self, table: TableId, keyed: &KeyedDef) -> Result<()> {
        let mut emptied = keyed.clone();
        emptied.index = self.engine.ids().index();
        for index in &mut emptied.indexes {
            index.id = self.engine.ids().index();
            // No old entries remain, so the new index can shorten its keys even if the old one did not.
            index.shortens = true;
        }
        self.redefine(table, emptied)?;
        self.forget_keyed(keyed);
        Ok(())
    }

    /// Forgets the transaction's writes to the keys of a table.
    pub(crate) fn forget_keyed(&mut self, keyed: &KeyedDef) {
        keyed.index_ids().for_each(|id| self.clear_keyed(&index_head(id)));
    }
}

fn constraint_exists(def: &TableDef, name: &str) -> Error {
    let what = format!("table \"{}\" has a constraint \"{name}\" already", def.name);
    Error::new(ErrorKind::DuplicateObject, what)
}

/// Checks that a table can have an index of these columns under this name.
fn check_index(def: &TableDef, name: &str, parts: &[KeyColumn]) -> Result<()> {
    let column = |id: ColumnId| def.column_by_id(id).map(|at| (&def.columns[at].name[..], &def.columns[at].kind));
    check_parts(&format!("index \"{name}\""), parts, column)?;
    let primary = def.primary_key_name();
    let mut names = def.named_indexes().map(|index| &index.name).chain(&primary);
    if names.any(|other| other.to_lowercase() == name.to_lowercase()) {
        let what = format!("table \"{}\" has an index \"{name}\" already", def.name);
        return Err(Error::new(ErrorKind::DuplicateTable, what));
    }
    Ok(())
}

/// The name of a primary key in errors.
pub(crate) const PRIMARY_KEY: &str = "the primary key";

/// Checks that columns can be a key.
pub(crate) fn check_parts<'a>(
    what: &str,
    parts: &[KeyColumn],
    column: impl Fn(ColumnId) -> Option<(&'a str, &'a SqlType)>,
) -> Result<()> {
    if parts.is_empty() {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("{what} has no columns")));
    }
    for (at, part) in parts.iter().enumerate() {
        let unknown = || Error::new(ErrorKind::UndefinedColumn, format!("{what} has a column that does not exist"));
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

//! Changes of definitions for which all rows of a table are written again.
//!
//! A caller first reads the rows, then calls a method of this file, which empties the table and changes its definition,
//! and then inserts the rows again. The table keeps its id, so its rights, comments and sequences stay.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SqlType, TableId};
use rowmill_storage::{ColumnSpec, GeneratedDef, IndexDef, KeyColumn, KeyedDef, TableDef};

use super::{Transaction, gone};
use crate::keyed_tables::{PRIMARY_KEY, check_parts};

impl Transaction {
    /// Empties a table and gives one of its columns another type.
    ///
    /// Returns `DependentObjects` if a foreign key or a clause of a time table uses the column, and `Unsupported` if
    /// the column is in a key and values of the new type have no order.
    pub fn refill_with_type(&mut self, id: TableId, column: ColumnId, kind: SqlType) -> Result<()> {
        let def = self.table_def(id)?;
        check_free_to_change(&def, column, &kind)?;
        self.empty_for_refill(&def)?;
        self.alter(id, |table| {
            let index = table.column_by_id(column).ok_or_else(|| gone("column"))?;
            table.columns[index].kind = kind.clone();
            table.columns[index].missing = None;
            if let Some(keyed) = &mut table.keyed {
                for (_, stored) in Arc::make_mut(keyed).stored.iter_mut().filter(|(id, _)| *id == column) {
                    stored.clone_from(&kind);
                }
            }
            Ok(())
        })
    }

    /// Empties a table and adds a generated column. `expression` is its expression, as
    /// [`set_generated`](Self::set_generated) takes it.
    pub fn refill_with_generated(&mut self, id: TableId, spec: ColumnSpec, expression: String) -> Result<()> {
        let def = self.table_def(id)?;
        self.empty_for_refill(&def)?;
        let column = self.add_column(id, spec)?;
        self.set_generated(id, GeneratedDef { column, sql: expression })
    }

    /// Empties a columnar table and makes it a keyed table with the primary key `key`. The key columns become NOT NULL.
    ///
    /// Returns `WrongObject` for a time table, `InvalidDefinition` for a keyed table, and the errors of
    /// [`create_keyed_table`](Self::create_keyed_table).
    pub fn refill_with_key(&mut self, id: TableId, key: &[KeyColumn]) -> Result<()> {
        let def = self.table_def(id)?;
        if def.keyed.is_some() {
            let what = format!("table \"{}\" has a primary key already", def.name);
            return Err(Error::new(ErrorKind::InvalidDefinition, what));
        }
        if def.time.is_some() {
            let what = format!("table \"{}\" has a time column, so it cannot get a primary key", def.name);
            return Err(Error::new(ErrorKind::WrongObject, what));
        }
        let column = |id: ColumnId| def.column_by_id(id).map(|at| (&def.columns[at].name[..], &def.columns[at].kind));
        check_parts(PRIMARY_KEY, key, column)?;
        self.empty_for_refill(&def)?;
        let index = self.engine.ids().index();
        self.alter(id, |table| {
            for part in key {
                let column = table.column_by_id(part.column).ok_or_else(|| gone("column"))?;
                table.columns[column].nullable = false;
            }
            // Every row is written with all columns, so none of them needs a value for older rows.
            table.columns.iter_mut().for_each(|column| column.missing = None);
            let mut keyed = KeyedDef::of_columns(index, key, &table.columns);
            // The rows are written with entries of all indexes.
            keyed.indexes = std::mem::take(&mut table.rules.listed_indexes);
            keyed.indexes.iter_mut().for_each(|index| index.shortens = true);
            table.keyed = Some(Arc::new(keyed));
            Ok(())
        })
    }

    fn empty_for_refill(&mut self, def: &TableDef) -> Result<()> {
        // The rows that the caller has read must still be all rows when this transaction commits.
        self.validate_rows(def.id)?;
        match &def.keyed {
            None => self.truncate(def.id).map(drop),
            Some(keyed) => {
                self.catalog_mut()?.set_statistics(def.id, None);
                // The rows come back with the same keys, so rows that refer to them need no check.
                self.renew_indexes(def.id, keyed)
            }
        }
    }
}

fn check_free_to_change(def: &TableDef, column: ColumnId, kind: &SqlType) -> Result<()> {
    let index = def.column_by_id(column).ok_or_else(|| gone("column"))?;
    let name = &def.columns[index].name;
    let used = |what: String| Err(Error::new(ErrorKind::DependentObjects, what));
    if let Some(part) = def.part_in_time_table(column) {
        return used(format!("\"{name}\" is {part} of table \"{}\", so its type must stay", def.name));
    }
    let Some(keyed) = &def.keyed else {
        let is_of_index = |index: &IndexDef| index.parts.iter().any(|part| part.column == column);
        if kind.is_ordered() || !def.rules.listed_indexes.iter().any(is_of_index) {
            return Ok(());
        }
        let what =
            format!("\"{name}\" is in an index of table \"{}\", and values of type {kind} have no order", def.name);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("drop the index first: DROP INDEX"));
    };
    let is_referring = keyed.foreign_keys.iter().any(|key| key.columns.contains(&column));
    let is_referred = keyed.referrers.iter().any(|referrer| referrer.columns.contains(&column))
        || keyed.foreign_keys.iter().any(|key| key.parent == def.id && key.parent_columns.contains(&column));
    if is_referring || is_referred {
        let what = format!("a foreign key uses \"{name}\" of table \"{}\", so its type must stay", def.name);
        return used(what).map_err(|error| error.hint("drop the foreign key first: ALTER TABLE ... DROP CONSTRAINT"));
    }
    if keyed.has_key_of(column) && !kind.is_ordered() {
        let what = format!("\"{name}\" is in a key of table \"{}\", and values of type {kind} have no order", def.name);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

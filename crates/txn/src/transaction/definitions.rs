//! Changes of definitions: schemas, tables, columns and views. `keyed_tables.rs`, `foreign_keys.rs` and `sequences.rs`
//! have those of keyed tables, indexes and constraints.
//!
//! A transaction has a private catalog, which is copied at its first change.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SchemaId, TableId, ViewId};
use rowmill_storage::{ColumnDef, ColumnSpec, GeneratedDef, TableDef, TimeTableDef};

use super::{Transaction, gone};
use crate::catalog::{MAIN_SCHEMA, SchemaDef, ViewDef};
use crate::materialized::MaterializedView;
use crate::roles::ObjectId;

impl Transaction {
    /// Creates an empty schema.
    pub fn create_schema(&mut self, name: &str) -> Result<SchemaId> {
        let id = self.engine.ids().schema();
        self.catalog_mut()?.put_schema(Arc::new(SchemaDef { id, name: name.to_owned() }))?;
        self.claim(ObjectId::Schema(id))?;
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
        catalog.remove_access(ObjectId::Schema(id));
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
        let (keyed, time, rules) = Default::default();
        let def = TableDef { id, schema, name: name.to_owned(), version: 1, columns, next_column, keyed, time, rules };
        self.catalog_mut()?.put_table(Arc::new(def))?;
        self.claim(ObjectId::Table(id))?;
        Ok(id)
    }

    /// Makes a columnar table a time table, or changes its clauses. The time column becomes NOT NULL: the caller must
    /// have checked that it has no NULL.
    ///
    /// Returns `WrongObject` for a keyed table, and `InvalidDefinition` if a column cannot have its part.
    pub fn set_time_table(&mut self, id: TableId, time: TimeTableDef) -> Result<()> {
        self.alter(id, |table| {
            if table.keyed.is_some() {
                let what = format!("table \"{}\" has a primary key, so it cannot have a time column", table.name);
                return Err(Error::new(ErrorKind::WrongObject, what));
            }
            let invalid = |what: String| Error::new(ErrorKind::InvalidDefinition, what);
            let index = table.column_by_id(time.column).ok_or_else(|| gone("column"))?;
            let column = &mut table.columns[index];
            if !TimeTableDef::is_time(&column.kind) {
                return Err(invalid(format!(
                    "column \"{}\" of table \"{}\" has the type {}, so it cannot be the time column",
                    column.name, table.name, column.kind
                ))
                .hint("the time column must be a TIMESTAMP or a DATE"));
            }
            column.nullable = false;
            let mut keys = time.dedup_keys.iter().map(|key| table.column_by_id(*key));
            if keys.any(|key| key.is_none_or(|key| !table.columns[key].kind.is_ordered())) {
                return Err(invalid(format!("rows of table \"{}\" cannot be replaced by these keys", table.name)));
            }
            if !time.dedup_keys.is_empty() && !time.dedup_keys.contains(&time.column) {
                let what = format!("the keys of table \"{}\" must contain its time column", table.name);
                return Err(invalid(what));
            }
            table.time = Some(Arc::new(time));
            Ok(())
        })
    }

    /// Drops a table with its rows, its sequences and the foreign keys that refer to it.
    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        let def = self.table_def(id)?;
        self.check_not_owned(&def)?;
        self.drop_references_of(&def)?;
        self.catalog_mut()?.remove_table(id);
        self.catalog_mut()?.remove_access(ObjectId::Table(id));
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
            if let Some(part) = table.part_in_time_table(column) {
                let what = format!("\"{}\" is {part} of table \"{}\"", table.columns[index].name, table.name);
                return Err(Error::new(ErrorKind::DependentObjects, what));
            }
            table.columns.remove(index);
            table.rules.listed_indexes.retain(|listed| listed.parts.iter().all(|part| part.column != column));
            table.rules.generated.retain(|generated| generated.column != column);
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

    /// Makes a column a generated column, or changes its expression. The caller must have checked that the expression
    /// reads other columns only, none of them generated, and callers that write rows must compute it.
    pub fn set_generated(&mut self, id: TableId, generated: GeneratedDef) -> Result<()> {
        self.alter(id, |table| {
            table.column_by_id(generated.column).ok_or_else(|| gone("column"))?;
            match table.rules.generated.iter_mut().find(|def| def.column == generated.column) {
                Some(def) => *def = generated,
                None => table.rules.generated.push(generated),
            }
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
            if nullable && table.time.as_ref().is_some_and(|time| time.column == column) {
                let what = format!("\"{}\" is the time column of \"{}\"", table.columns[index].name, table.name);
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
        let older = self.changes.catalog.view(schema, name).filter(|_| replace).cloned();
        let id = older.as_ref().map_or_else(|| self.engine.ids().view(), |view| view.id);
        let comment = older.as_ref().and_then(|view| view.comment.clone());
        let def = ViewDef { id, schema, name: name.to_owned(), sql: sql.to_owned(), column_names, comment };
        self.catalog_mut()?.put_view(Arc::new(def))?;
        if older.is_none() {
            self.claim(ObjectId::View(id))?;
        }
        Ok(id)
    }

    /// Returns an id that no view or macro has had.
    pub(crate) fn next_view_id(&self) -> ViewId {
        self.engine.ids().view()
    }

    /// Drops a view.
    pub fn drop_view(&mut self, id: ViewId) -> Result<()> {
        self.changes.catalog.view_by_id(id).ok_or_else(|| gone("view"))?;
        self.catalog_mut()?.remove_view(id);
        self.catalog_mut()?.remove_access(ObjectId::View(id));
        Ok(())
    }

    /// Makes a columnar table a materialized view, or changes its definition as one, for example after a refresh.
    pub fn set_materialized(&mut self, view: MaterializedView) -> Result<()> {
        self.catalog_mut()?.put_materialized(Arc::new(view))
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
}

fn duplicate_column(column: &str, table: &str) -> Error {
    Error::new(ErrorKind::DuplicateColumn, format!("table \"{table}\" has a column \"{column}\" already"))
        .hint("names that differ only in upper and lower case are the same")
}

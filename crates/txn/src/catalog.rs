//! The catalog: schemas, tables and views by id and by name. Immutable; a change makes a new one that shares what stays.
//!
//! Names keep their spelling and are looked up in lower case, so that `Hits` and `hits` are one table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rowmill_base::{Error, ErrorKind, Result, SchemaId, TableId, ViewId};
use rowmill_storage::{TableDef, TableStatistics};

use crate::keyed::TableCodec;

/// The schema that is always there, in which names without a schema are looked up.
pub const MAIN_SCHEMA: &str = "main";

/// A schema (namespace).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaDef {
    /// Never reused.
    pub id: SchemaId,
    /// The name as spelled.
    pub name: String,
}

/// A view: a name for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDef {
    /// Never reused.
    pub id: ViewId,
    /// The schema it lives in.
    pub schema: SchemaId,
    /// The name as spelled.
    pub name: String,
    /// The query.
    pub sql: String,
    /// The names of its columns where the definition gives them, otherwise empty.
    pub column_names: Vec<String>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Table(TableId),
    View(ViewId),
}

/// All definitions of one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    version: u64,
    schemas: BTreeMap<SchemaId, Arc<SchemaDef>>,
    tables: BTreeMap<TableId, Arc<TableDef>>,
    /// Of keyed tables, made when they are asked for and shared by all catalogs that have the definition.
    codecs: BTreeMap<TableId, Arc<OnceLock<Arc<TableCodec>>>>,
    /// Of keyed tables that were looked through. Beside the definitions: a new one of these is none of those.
    statistics: BTreeMap<TableId, Arc<TableStatistics>>,
    views: BTreeMap<ViewId, Arc<ViewDef>>,
    schema_names: BTreeMap<String, SchemaId>,
    names: BTreeMap<(SchemaId, String), Named>,
}

impl Catalog {
    /// Two catalogs of one process with the same version are the same.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All schemas, by id.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<SchemaDef>> {
        self.schemas.values()
    }

    /// The schema called `name`.
    pub fn schema(&self, name: &str) -> Option<&Arc<SchemaDef>> {
        self.schema_names.get(&name.to_lowercase()).map(|id| &self.schemas[id])
    }

    /// The schema with `id`.
    pub fn schema_by_id(&self, id: SchemaId) -> Option<&Arc<SchemaDef>> {
        self.schemas.get(&id)
    }

    /// The tables of a schema, by name.
    pub fn tables(&self, schema: SchemaId) -> impl Iterator<Item = &Arc<TableDef>> {
        self.named(schema).filter_map(|named| match named {
            Named::Table(id) => Some(&self.tables[&id]),
            Named::View(_) => None,
        })
    }

    /// The views of a schema, by name.
    pub fn views(&self, schema: SchemaId) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.named(schema).filter_map(|named| match named {
            Named::View(id) => Some(&self.views[&id]),
            Named::Table(_) => None,
        })
    }

    fn named(&self, schema: SchemaId) -> impl Iterator<Item = Named> + '_ {
        self.names
            .range((schema, String::new())..)
            .take_while(move |((of, _), _)| *of == schema)
            .map(|(_, named)| *named)
    }

    /// The table called `name` in `schema`.
    pub fn table(&self, schema: SchemaId, name: &str) -> Option<&Arc<TableDef>> {
        match self.names.get(&(schema, name.to_lowercase()))? {
            Named::Table(id) => self.tables.get(id),
            Named::View(_) => None,
        }
    }

    /// The view called `name` in `schema`.
    pub fn view(&self, schema: SchemaId, name: &str) -> Option<&Arc<ViewDef>> {
        match self.names.get(&(schema, name.to_lowercase()))? {
            Named::View(id) => self.views.get(id),
            Named::Table(_) => None,
        }
    }

    /// The table with `id`.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableDef>> {
        self.tables.get(&id)
    }

    /// What makes keys and rows of the values of a keyed table, for its definition here. `WrongObject` if it is not a keyed
    /// table, `UndefinedTable` if it is none.
    pub fn codec(&self, id: TableId) -> Result<Arc<TableCodec>> {
        let gone = || Error::new(ErrorKind::UndefinedTable, "the table is gone");
        let def = self.tables.get(&id).ok_or_else(gone)?;
        let known = self.codecs.get(&id).ok_or_else(|| crate::keyed::not_keyed(def))?;
        if let Some(codec) = known.get() {
            return Ok(Arc::clone(codec));
        }
        let codec = Arc::new(TableCodec::new(def)?);
        Ok(Arc::clone(known.get_or_init(|| codec)))
    }

    /// What is known of the values of a keyed table, if it was looked through.
    pub fn statistics(&self, id: TableId) -> Option<&Arc<TableStatistics>> {
        self.statistics.get(&id)
    }

    pub(crate) fn all_statistics(&self) -> impl Iterator<Item = (TableId, &Arc<TableStatistics>)> {
        self.statistics.iter().map(|(id, statistics)| (*id, statistics))
    }

    /// The view with `id`.
    pub fn view_by_id(&self, id: ViewId) -> Option<&Arc<ViewDef>> {
        self.views.get(&id)
    }

    /// All tables, by id.
    pub fn all_tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.tables.values()
    }

    pub(crate) fn all_views(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.views.values()
    }

    /// Adds a schema or gives the one with its id a new definition.
    pub(crate) fn put_schema(&mut self, def: Arc<SchemaDef>) -> Result<()> {
        self.remove_schema(def.id);
        let name = def.name.to_lowercase();
        if self.schema_names.contains_key(&name) {
            return Err(exists(ErrorKind::DuplicateSchema, "schema", &def.name));
        }
        self.schema_names.insert(name, def.id);
        self.schemas.insert(def.id, def);
        self.version = next_version();
        Ok(())
    }

    pub(crate) fn remove_schema(&mut self, id: SchemaId) {
        if let Some(def) = self.schemas.remove(&id) {
            self.schema_names.remove(&def.name.to_lowercase());
            self.version = next_version();
        }
    }

    /// Adds a table or gives the one with its id a new definition. Statistics stay, unless they are of rows that it has no more.
    pub(crate) fn put_table(&mut self, def: Arc<TableDef>) -> Result<()> {
        self.withdraw_table(def.id);
        self.claim_name(def.schema, &def.name, Named::Table(def.id))?;
        if def.keyed.is_some() {
            self.codecs.insert(def.id, Arc::default());
        }
        if self.statistics.get(&def.id).is_some_and(|statistics| !are_of(statistics, &def)) {
            self.statistics.remove(&def.id);
        }
        self.tables.insert(def.id, def);
        Ok(())
    }

    pub(crate) fn remove_table(&mut self, id: TableId) {
        self.withdraw_table(id);
        self.statistics.remove(&id);
    }

    /// Removes the definition of a table that gets another one: what is known of its rows stays for that.
    pub(crate) fn withdraw_table(&mut self, id: TableId) {
        if let Some(def) = self.tables.remove(&id) {
            self.names.remove(&(def.schema, def.name.to_lowercase()));
            self.codecs.remove(&id);
            self.version = next_version();
        }
    }

    /// Has these statistics, or none, be those of a table. Those of a table that is not there, or of rows that it has no more, are
    /// none.
    pub(crate) fn set_statistics(&mut self, id: TableId, statistics: Option<&Arc<TableStatistics>>) {
        let table = self.tables.get(&id);
        let fitting = statistics.filter(|statistics| table.is_some_and(|def| are_of(statistics, def)));
        match (self.statistics.get(&id), fitting) {
            (None, None) => return,
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => return,
            (_, Some(new)) => self.statistics.insert(id, Arc::clone(new)),
            (_, None) => self.statistics.remove(&id),
        };
        self.version = next_version();
    }

    /// Adds a view or gives the one with its id a new definition.
    pub(crate) fn put_view(&mut self, def: Arc<ViewDef>) -> Result<()> {
        self.remove_view(def.id);
        self.claim_name(def.schema, &def.name, Named::View(def.id))?;
        self.views.insert(def.id, def);
        Ok(())
    }

    pub(crate) fn remove_view(&mut self, id: ViewId) {
        if let Some(def) = self.views.remove(&id) {
            self.names.remove(&(def.schema, def.name.to_lowercase()));
            self.version = next_version();
        }
    }

    fn claim_name(&mut self, schema: SchemaId, name: &str, named: Named) -> Result<()> {
        if !self.schemas.contains_key(&schema) {
            return Err(Error::new(ErrorKind::UndefinedSchema, format!("the schema of \"{name}\" is gone")));
        }
        let key = (schema, name.to_lowercase());
        match self.names.get(&key) {
            Some(Named::Table(_)) => return Err(exists(ErrorKind::DuplicateTable, "table", name)),
            Some(Named::View(_)) => return Err(exists(ErrorKind::DuplicateTable, "view", name)),
            None => self.names.insert(key, named),
        };
        self.version = next_version();
        Ok(())
    }
}

/// Whether statistics are of the rows that a table has, and not of those that it had before it was emptied.
fn are_of(statistics: &TableStatistics, def: &TableDef) -> bool {
    def.keyed.as_ref().is_some_and(|keyed| keyed.index == statistics.index)
}

/// A number for a catalog that differs from every other of this process, those of open transactions included.
fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn exists(kind: ErrorKind, what: &str, name: &str) -> Error {
    Error::new(kind, format!("there is a {what} \"{name}\" already"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowmill_base::ColumnId;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.put_schema(Arc::new(SchemaDef { id: SchemaId(0), name: "main".into() })).expect("empty");
        catalog
    }

    fn table(id: u32, name: &str) -> Arc<TableDef> {
        Arc::new(TableDef {
            id: TableId(id),
            schema: SchemaId(0),
            name: name.into(),
            version: 0,
            columns: Vec::new(),
            next_column: ColumnId(0),
            keyed: None,
        })
    }

    #[test]
    fn names_are_one_whatever_their_case() {
        let mut catalog = catalog();
        catalog.put_table(table(1, "Hits")).expect("new");
        assert_eq!(catalog.table(SchemaId(0), "HITS").expect("found").name, "Hits");
        assert_eq!(catalog.put_table(table(2, "hits")).unwrap_err().kind(), ErrorKind::DuplicateTable);
        catalog.put_table(table(1, "visits")).expect("renamed");
        assert!(catalog.table(SchemaId(0), "hits").is_none());
        assert_eq!(catalog.tables(SchemaId(0)).count(), 1);
    }

    #[test]
    fn a_view_and_a_table_share_one_space_of_names() {
        let mut catalog = catalog();
        catalog.put_table(table(1, "a")).expect("new");
        let view = ViewDef {
            id: ViewId(1),
            schema: SchemaId(0),
            name: "A".into(),
            sql: "SELECT 1".into(),
            column_names: vec![],
        };
        assert_eq!(catalog.put_view(Arc::new(view)).unwrap_err().kind(), ErrorKind::DuplicateTable);
    }
}

//! The catalog: schemas, tables, views and roles by id and by name. It is immutable. A change makes a new catalog that
//! shares all unchanged definitions.
//!
//! Names keep their spelling but are looked up in lower case. For example, `Hits` and `hits` are the same table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rowmill_base::{Error, ErrorKind, Result, RoleId, SchemaId, TableId, ViewId};
use rowmill_storage::{TableDef, TableStatistics};

use crate::comments::TableComments;
use crate::keyed::TableCodec;
use crate::macros::MacroDef;
use crate::materialized::MaterializedView;
use crate::roles::{ObjectAccess, ObjectId, RoleDef};
use crate::types::TypeDef;

/// The schema that always exists. Names without a schema are looked up in it.
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
    /// The schema of the view.
    pub schema: SchemaId,
    /// The name as spelled.
    pub name: String,
    /// The query.
    pub sql: String,
    /// The names of its columns if the definition gives them, otherwise empty.
    pub column_names: Vec<String>,
    /// The comment on it.
    pub comment: Option<String>,
}

/// The object that a name refers to.
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
    /// Codecs of keyed tables. Each is made when it is first needed and shared by all catalogs with the same
    /// definition.
    codecs: BTreeMap<TableId, Arc<OnceLock<Arc<TableCodec>>>>,
    /// Statistics of analyzed keyed tables. They are separate from the definitions, so that new statistics do not
    /// change a definition.
    statistics: BTreeMap<TableId, Arc<TableStatistics>>,
    /// The tables that are materialized views.
    materialized: BTreeMap<TableId, Arc<MaterializedView>>,
    /// Comments on tables and their columns.
    comments: BTreeMap<TableId, Arc<TableComments>>,
    views: BTreeMap<ViewId, Arc<ViewDef>>,
    macros: BTreeMap<ViewId, Arc<MacroDef>>,
    macro_names: BTreeMap<String, ViewId>,
    types: BTreeMap<ViewId, Arc<TypeDef>>,
    type_names: BTreeMap<String, ViewId>,
    schema_names: BTreeMap<String, SchemaId>,
    names: BTreeMap<(SchemaId, String), Named>,
    roles: BTreeMap<RoleId, Arc<RoleDef>>,
    role_names: BTreeMap<String, RoleId>,
    /// The owners and the rights of objects. An object without an entry belongs to superusers.
    access: BTreeMap<ObjectId, Arc<ObjectAccess>>,
}

impl Catalog {
    /// The version of this catalog. Two catalogs of one process with the same version are equal, except for the refresh
    /// points of materialized views, on which no plan depends.
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

    /// The codec that converts values of a keyed table to keys and rows, for the definition in this catalog. Returns
    /// `UndefinedTable` if there is no such table and `WrongObject` if it is not keyed.
    pub fn codec(&self, id: TableId) -> Result<Arc<TableCodec>> {
        let gone = || Error::new(ErrorKind::UndefinedTable, "the table no longer exists");
        let def = self.tables.get(&id).ok_or_else(gone)?;
        let known = self.codecs.get(&id).ok_or_else(|| crate::keyed::not_keyed(def))?;
        if let Some(codec) = known.get() {
            return Ok(Arc::clone(codec));
        }
        let codec = Arc::new(TableCodec::new(def)?);
        Ok(Arc::clone(known.get_or_init(|| codec)))
    }

    /// The statistics of a keyed table, if it was analyzed.
    pub fn statistics(&self, id: TableId) -> Option<&Arc<TableStatistics>> {
        self.statistics.get(&id)
    }

    pub(crate) fn all_statistics(&self) -> impl Iterator<Item = (TableId, &Arc<TableStatistics>)> {
        self.statistics.iter().map(|(id, statistics)| (*id, statistics))
    }

    /// The query of a table that is a materialized view.
    pub fn materialized(&self, id: TableId) -> Option<&Arc<MaterializedView>> {
        self.materialized.get(&id)
    }

    /// All materialized views, by the ids of their tables.
    pub fn materialized_views(&self) -> impl Iterator<Item = &Arc<MaterializedView>> {
        self.materialized.values()
    }

    /// The comments on a table and its columns, if it has any.
    pub fn comments(&self, id: TableId) -> Option<&Arc<TableComments>> {
        self.comments.get(&id)
    }

    pub(crate) fn all_comments(&self) -> impl Iterator<Item = (TableId, &Arc<TableComments>)> {
        self.comments.iter().map(|(id, comments)| (*id, comments))
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

    /// All roles, by id.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<RoleDef>> {
        self.roles.values()
    }

    /// The role called `name`.
    pub fn role(&self, name: &str) -> Option<&Arc<RoleDef>> {
        self.role_names.get(&name.to_lowercase()).map(|id| &self.roles[id])
    }

    /// The role with `id`.
    pub fn role_by_id(&self, id: RoleId) -> Option<&Arc<RoleDef>> {
        self.roles.get(&id)
    }

    /// The owner and the rights of an object, if it has any.
    pub fn access(&self, object: ObjectId) -> Option<&Arc<ObjectAccess>> {
        self.access.get(&object)
    }

    /// The owners and the rights of all objects that have any.
    pub(crate) fn all_access(&self) -> impl Iterator<Item = &Arc<ObjectAccess>> {
        self.access.values()
    }

    /// The owners and the rights of all objects, with the numbers under which they are stored.
    pub(crate) fn numbered_access(&self) -> impl Iterator<Item = (u32, &Arc<ObjectAccess>)> {
        self.access.values().filter_map(|access| Some((access.object.number()?, access)))
    }

    /// Adds a role, or replaces the definition of the role with this id.
    pub(crate) fn put_role(&mut self, def: Arc<RoleDef>) -> Result<()> {
        self.remove_role(def.id);
        let name = def.name.to_lowercase();
        if self.role_names.contains_key(&name) {
            return Err(exists(ErrorKind::DuplicateObject, "role", &def.name));
        }
        self.role_names.insert(name, def.id);
        self.roles.insert(def.id, def);
        self.version = next_version();
        Ok(())
    }

    pub(crate) fn remove_role(&mut self, id: RoleId) {
        if let Some(def) = self.roles.remove(&id) {
            self.role_names.remove(&def.name.to_lowercase());
            self.version = next_version();
        }
    }

    /// Sets the owner and the rights of an object. The object need not exist, because a log is read definition by
    /// definition.
    pub(crate) fn put_access(&mut self, access: ObjectAccess) {
        self.access.insert(access.object, Arc::new(access));
        self.version = next_version();
    }

    pub(crate) fn remove_access(&mut self, object: ObjectId) {
        if self.access.remove(&object).is_some() {
            self.version = next_version();
        }
    }

    /// Adds a schema, or replaces the definition of the schema with this id.
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

    /// Adds a table, or replaces the definition of the table with this id. Its statistics stay, unless the table was
    /// emptied and they describe the old rows.
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
        self.materialized.remove(&id);
        self.comments.remove(&id);
    }

    /// Removes the definition of a table that will get another one. Its statistics stay for the new definition.
    pub(crate) fn withdraw_table(&mut self, id: TableId) {
        if let Some(def) = self.tables.remove(&id) {
            self.names.remove(&(def.schema, def.name.to_lowercase()));
            self.codecs.remove(&id);
            self.version = next_version();
        }
    }

    /// Sets or removes the statistics of a table. Statistics of a table that does not exist, or of rows that were
    /// removed by emptying it, are ignored.
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

    /// Sets or removes the comments on a table. Comments on a table that does not exist are ignored.
    pub(crate) fn set_comments(&mut self, id: TableId, comments: Option<Arc<TableComments>>) {
        let is_same = self.comments.get(&id).map(Arc::as_ptr) == comments.as_ref().map(Arc::as_ptr);
        if is_same || !self.tables.contains_key(&id) {
            return;
        }
        match comments {
            Some(comments) => self.comments.insert(id, comments),
            None => self.comments.remove(&id),
        };
        // Queries of the catalog show comments, and their plans may be kept.
        self.version = next_version();
    }

    /// Makes a columnar table a materialized view, or replaces its definition as one. Returns an error if there is no
    /// such table.
    pub(crate) fn put_materialized(&mut self, view: Arc<MaterializedView>) -> Result<()> {
        if self.tables.get(&view.table).is_none_or(|table| table.keyed.is_some()) {
            return Err(Error::corrupt(format!("the materialized view {} has no columnar table", view.table)));
        }
        let is_new = self.materialized.get(&view.table).is_none_or(|old| old.sql != view.sql);
        self.materialized.insert(view.table, view);
        // A refresh gets the same version, because no plan depends on the refresh point.
        if is_new {
            self.version = next_version();
        }
        Ok(())
    }

    pub(crate) fn remove_materialized(&mut self, id: TableId) {
        if self.materialized.remove(&id).is_some() {
            self.version = next_version();
        }
    }

    /// Adds a view, or replaces the definition of the view with this id.
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

    /// Returns the macro called `name`.
    pub fn macro_named(&self, name: &str) -> Option<&Arc<MacroDef>> {
        self.macro_names.get(&name.to_lowercase()).map(|id| &self.macros[id])
    }

    /// Returns all macros, by id.
    pub fn macros(&self) -> impl Iterator<Item = &Arc<MacroDef>> {
        self.macros.values()
    }

    /// The macro with `id`.
    pub(crate) fn macro_by_id(&self, id: ViewId) -> Option<&Arc<MacroDef>> {
        self.macros.get(&id)
    }

    /// Adds a macro, or replaces the definition of the macro with this id.
    pub(crate) fn put_macro(&mut self, def: Arc<MacroDef>) -> Result<()> {
        self.remove_macro(def.id);
        let name = def.name.to_lowercase();
        if self.macro_names.contains_key(&name) {
            return Err(exists(ErrorKind::DuplicateObject, "macro", &def.name));
        }
        self.macro_names.insert(name, def.id);
        self.macros.insert(def.id, def);
        self.version = next_version();
        Ok(())
    }

    pub(crate) fn remove_macro(&mut self, id: ViewId) {
        if let Some(def) = self.macros.remove(&id) {
            self.macro_names.remove(&def.name.to_lowercase());
            self.version = next_version();
        }
    }

    /// Returns the type called `name`.
    pub fn type_named(&self, name: &str) -> Option<&Arc<TypeDef>> {
        self.type_names.get(&name.to_lowercase()).map(|id| &self.types[id])
    }

    /// Returns all types that statements have made, by id.
    pub fn types(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    /// Returns the type with this id.
    pub(crate) fn type_by_id(&self, id: ViewId) -> Option<&Arc<TypeDef>> {
        self.types.get(&id)
    }

    /// Adds a type, or replaces the definition of the type with this id.
    pub(crate) fn put_type(&mut self, def: Arc<TypeDef>) -> Result<()> {
        let name = def.name.to_lowercase();
        if self.type_names.get(&name).is_some_and(|other| *other != def.id) {
            return Err(exists(ErrorKind::DuplicateObject, "type", &def.name));
        }
        self.remove_type(def.id);
        self.type_names.insert(name, def.id);
        self.types.insert(def.id, def);
        self.version = next_version();
        Ok(())
    }

    pub(crate) fn remove_type(&mut self, id: ViewId) {
        if let Some(def) = self.types.remove(&id) {
            self.type_names.remove(&def.name.to_lowercase());
            self.version = next_version();
        }
    }

    fn claim_name(&mut self, schema: SchemaId, name: &str, named: Named) -> Result<()> {
        if !self.schemas.contains_key(&schema) {
            return Err(Error::new(ErrorKind::UndefinedSchema, format!("the schema of \"{name}\" no longer exists")));
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

/// Whether statistics describe the rows that the table has now. Emptying a table gives it another index id.
fn are_of(statistics: &TableStatistics, def: &TableDef) -> bool {
    def.keyed.as_ref().is_some_and(|keyed| keyed.index == statistics.index)
}

/// A version number that differs from those of all other catalogs of this process, including catalogs of open
/// transactions.
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
            time: None,
            rules: Default::default(),
        })
    }

    #[test]
    fn names_are_looked_up_without_regard_to_case() {
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
            comment: None,
        };
        assert_eq!(catalog.put_view(Arc::new(view)).unwrap_err().kind(), ErrorKind::DuplicateTable);
    }
}

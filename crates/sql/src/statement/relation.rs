//! Lookup of names in the catalog. An error suggests similar names.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SchemaId, TableId, ViewId, nearest};
use rowmill_storage::TableDef;
use rowmill_txn::roles::ObjectId;
use rowmill_txn::{Catalog, SchemaDef, ViewDef};

use crate::names::{DEFAULT_SCHEMA, QualifiedName};
use crate::session::temporary::is_temporary;

/// A relation that a name refers to.
#[derive(Clone, Debug)]
pub(crate) enum NamedRelation {
    Table(Arc<TableDef>),
    View(Arc<ViewDef>),
    /// A materialized view. The table has its rows.
    Materialized(Arc<TableDef>),
    /// The catalog keeps it as a table.
    Sequence(Arc<TableDef>),
}

/// The kind of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelationKind {
    Table,
    View,
    Materialized,
    Sequence,
}

impl RelationKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RelationKind::Table => "table",
            RelationKind::View => "view",
            RelationKind::Materialized => "materialized view",
            RelationKind::Sequence => "sequence",
        }
    }
}

impl NamedRelation {
    /// The relation as an object that has an owner and rights.
    pub(crate) fn object(&self) -> ObjectId {
        match self {
            NamedRelation::Table(table) | NamedRelation::Materialized(table) | NamedRelation::Sequence(table) => {
                ObjectId::Table(table.id)
            }
            NamedRelation::View(view) => ObjectId::View(view.id),
        }
    }

    pub(crate) fn kind(&self) -> RelationKind {
        match self {
            NamedRelation::Table(_) => RelationKind::Table,
            NamedRelation::View(_) => RelationKind::View,
            NamedRelation::Materialized(_) => RelationKind::Materialized,
            NamedRelation::Sequence(_) => RelationKind::Sequence,
        }
    }

    pub(crate) fn schema(&self) -> SchemaId {
        match self {
            NamedRelation::Table(table) | NamedRelation::Materialized(table) | NamedRelation::Sequence(table) => {
                table.schema
            }
            NamedRelation::View(view) => view.schema,
        }
    }

    /// Returns the name as spelled.
    pub(crate) fn name(&self) -> &str {
        match self {
            NamedRelation::Table(table) | NamedRelation::Materialized(table) | NamedRelation::Sequence(table) => {
                &table.name
            }
            NamedRelation::View(view) => &view.name,
        }
    }
}

/// Identifies a relation even after a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RelationId {
    Table(TableId),
    View(ViewId),
}

impl From<&NamedRelation> for RelationId {
    fn from(relation: &NamedRelation) -> Self {
        match relation {
            NamedRelation::Table(table) | NamedRelation::Materialized(table) | NamedRelation::Sequence(table) => {
                RelationId::Table(table.id)
            }
            NamedRelation::View(view) => RelationId::View(view.id),
        }
    }
}

/// Returns the schema with the name `name`.
pub(crate) fn schema<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c Arc<SchemaDef>> {
    catalog.schema(name).ok_or_else(|| {
        let error = Error::new(ErrorKind::UndefinedSchema, format!("there is no schema \"{name}\""));
        let near = nearest(name, catalog.schemas().map(|schema| schema.name.as_str()));
        if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
    })
}

/// Returns the table, view or sequence with the name `name`, if it exists.
pub(crate) fn find(catalog: &Catalog, name: &QualifiedName) -> Option<NamedRelation> {
    let schema = catalog.schema(&name.schema)?.id;
    match catalog.table(schema, &name.name) {
        Some(table) if table.is_sequence() => Some(NamedRelation::Sequence(Arc::clone(table))),
        Some(table) if catalog.materialized(table.id).is_some() => Some(NamedRelation::Materialized(Arc::clone(table))),
        Some(table) => Some(NamedRelation::Table(Arc::clone(table))),
        None => catalog.view(schema, &name.name).map(|view| NamedRelation::View(Arc::clone(view))),
    }
}

/// Returns the table or view with the name `name`.
pub(crate) fn relation(catalog: &Catalog, name: &QualifiedName) -> Result<NamedRelation> {
    schema(catalog, &name.schema)?;
    let kinds = [RelationKind::Table, RelationKind::View, RelationKind::Materialized];
    find(catalog, name).ok_or_else(|| unknown(catalog, name, &kinds))
}

/// Returns the table with the name `name`.
pub(crate) fn table(catalog: &Catalog, name: &QualifiedName) -> Result<Arc<TableDef>> {
    schema(catalog, &name.schema)?;
    match find(catalog, name) {
        Some(NamedRelation::Table(table)) => Ok(table),
        Some(other) => Err(wrong_kind(other.name(), other.kind(), RelationKind::Table)),
        None => Err(unknown(catalog, name, &[RelationKind::Table])),
    }
}

/// Returns the error for a relation of the wrong kind.
pub(crate) fn wrong_kind(name: &str, found: RelationKind, wanted: RelationKind) -> Error {
    let error =
        Error::new(ErrorKind::WrongObject, format!("\"{name}\" is a {}, not a {}", found.name(), wanted.name()));
    match (found, wanted) {
        (RelationKind::Materialized, RelationKind::Table) => error.hint(format!(
            "its rows follow from its query: change the tables that the query reads, then REFRESH MATERIALIZED VIEW \
             {name}"
        )),
        _ => error,
    }
}

/// Returns the error for an unknown name. Suggests relations of `kinds`.
pub(crate) fn unknown(catalog: &Catalog, name: &QualifiedName, kinds: &[RelationKind]) -> Error {
    let what = match kinds {
        [kind] => kind.name(),
        _ => "table or view",
    };
    let error = Error::new(ErrorKind::UndefinedTable, format!("there is no {what} \"{}\"", written(name)));
    let known = qualified_names(catalog, kinds);
    let near = nearest(&name.name, known.iter().map(|(bare, _)| bare.as_str()));
    let near: Vec<&str> = near
        .iter()
        .flat_map(|bare| known.iter().filter(move |known| known.0 == **bare).map(|known| known.1.as_str()))
        .collect();
    match (near.is_empty(), known.len()) {
        (false, _) => error.hint(format!("did you mean {}?", near.join(", "))),
        (true, 0) => error.hint("there are none yet"),
        (true, 1..=20) => {
            let known: Vec<&str> = known.iter().map(|known| known.1.as_str()).collect();
            error.hint(format!("there are {}", known.join(", ")))
        }
        (true, _) => error.hint("SHOW TABLES lists them"),
    }
}

/// Returns the name as the user would write it, without the default schema.
pub(crate) fn written(name: &QualifiedName) -> String {
    if name.schema == DEFAULT_SCHEMA { name.spelled.clone() } else { format!("{}.{}", name.schema, name.spelled) }
}

/// Returns the bare and the qualified name of every relation of `kinds`.
fn qualified_names(catalog: &Catalog, kinds: &[RelationKind]) -> Vec<(String, String)> {
    let mut names = Vec::new();
    // Temporary tables of other connections are no help.
    for schema in catalog.schemas().filter(|schema| !is_temporary(&schema.name)) {
        let mut push = |name: &String| {
            let written = if schema.name == DEFAULT_SCHEMA { name.clone() } else { format!("{}.{name}", schema.name) };
            names.push((name.clone(), written));
        };
        let is_materialized = |table: &&Arc<TableDef>| catalog.materialized(table.id).is_some();
        if kinds.contains(&RelationKind::Table) {
            let tables = catalog.tables(schema.id).filter(|table| !table.is_sequence() && !is_materialized(table));
            tables.for_each(|table| push(&table.name));
        }
        if kinds.contains(&RelationKind::Materialized) {
            catalog.tables(schema.id).filter(is_materialized).for_each(|table| push(&table.name));
        }
        if kinds.contains(&RelationKind::Sequence) {
            catalog.tables(schema.id).filter(|table| table.is_sequence()).for_each(|table| push(&table.name));
        }
        if kinds.contains(&RelationKind::View) {
            catalog.views(schema.id).for_each(|view| push(&view.name));
        }
    }
    names
}

/// Returns the position of the column `name` in `table`.
pub(crate) fn column(table: &TableDef, name: &str) -> Result<usize> {
    table.column_index(name).ok_or_else(|| {
        let error = Error::new(
            ErrorKind::UndefinedColumn,
            format!("there is no column \"{name}\" in table \"{}\"", table.name),
        );
        let near = nearest(name, table.columns.iter().map(|column| column.name.as_str()));
        match (near.is_empty(), table.columns.len()) {
            (false, _) => error.hint(format!("did you mean {}?", near.join(", "))),
            (true, 1..=20) => {
                let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
                error.hint(format!("the columns are {}", names.join(", ")))
            }
            (true, _) => error.hint(format!("DESCRIBE {} lists the columns", table.name)),
        }
    })
}

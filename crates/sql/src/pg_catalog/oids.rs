//! Numbers of objects, as PostgreSQL's tools know them.
//!
//! Each kind of object has a range of its own, so that no two objects share a number. Within its range, an object has
//! the number of its id. Numbers below the first range are PostgreSQL's own.
//!
//! ```text
//! kind (4 bits) │ id (28 bits)
//! ```

use rowmill_base::{IndexId, RoleId, TableId, ViewId};
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::roles::ObjectId;
use rowmill_txn::{Catalog, SchemaDef, ViewDef};

/// The number of `pg_catalog`.
pub(super) const PG_CATALOG_OID: u32 = 11;
/// The number of the default schema, which PostgreSQL gives to `public`.
pub(super) const MAIN_OID: u32 = 2200;
/// The number of `information_schema`.
pub(super) const INFORMATION_SCHEMA_OID: u32 = 13_000;
/// The number of `pg_class`, by which other tables say that an object is a relation.
pub(super) const PG_CLASS_OID: u32 = 1259;
/// The numbers of `pg_type` and `pg_proc`.
pub(super) const PG_TYPE_OID: u32 = 1247;
pub(super) const PG_PROC_OID: u32 = 1255;
/// The number of the role that always exists: it owns what was made without a role.
pub(super) const ROLE_OID: u32 = 10;
/// The number of the database.
pub(super) const DATABASE_OID: u32 = 5;
/// The numbers of the ways in which tables and indexes are stored.
pub(super) const COLUMNAR_OID: u32 = 9_001;
pub(super) const KEYED_OID: u32 = 2;
pub(super) const TREE_OID: u32 = 403;
/// The name of the role that always exists.
pub(crate) const ROLE: &str = "rowmill";

/// The kinds of objects that have ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OidKind {
    Table = 1,
    View = 2,
    Index = 3,
    Schema = 4,
    PrimaryKey = 5,
    Unique = 6,
    Check = 7,
    ForeignKey = 8,
    Default = 9,
    Role = 10,
    Type = 11,
    TypeArray = 12,
    Label = 13,
    Macro = 14,
}

const ID_BITS: u32 = 28;
/// The constraints and defaults that a table can have before their numbers run into those of another table.
const PARTS_BITS: u32 = 10;

fn oid(kind: OidKind, id: u32) -> u32 {
    ((kind as u32) << ID_BITS) | (id & ((1 << ID_BITS) - 1))
}

fn part(kind: OidKind, table: TableId, part: u32) -> u32 {
    oid(kind, ((table.0) << PARTS_BITS) | (part & ((1 << PARTS_BITS) - 1)))
}

pub(crate) fn table_oid(table: TableId) -> u32 {
    oid(OidKind::Table, table.0)
}

pub(super) fn role_oid(role: RoleId) -> u32 {
    oid(OidKind::Role, role.0)
}

/// The number of the owner of an object. What was made without a role belongs to the role that always exists.
pub(super) fn owner_oid(catalog: &Catalog, object: ObjectId) -> u32 {
    catalog.access(object).and_then(|access| access.owner).map_or(ROLE_OID, role_oid)
}

/// The name of the owner of an object.
pub(crate) fn owner_name(catalog: &Catalog, object: ObjectId) -> String {
    let owner = catalog.access(object).and_then(|access| access.owner);
    owner.and_then(|owner| catalog.role_by_id(owner)).map_or_else(|| ROLE.to_owned(), |role| role.name.clone())
}

pub(super) fn view_oid(view: &ViewDef) -> u32 {
    oid(OidKind::View, view.id.0)
}

pub(super) fn type_oid(id: ViewId) -> u32 {
    oid(OidKind::Type, id.0)
}

/// The number of the arrays of a type.
pub(super) fn type_array_oid(id: ViewId) -> u32 {
    oid(OidKind::TypeArray, id.0)
}

pub(super) fn macro_oid(id: ViewId) -> u32 {
    oid(OidKind::Macro, id.0)
}

/// The number of the label at this place of its type.
pub(super) fn label_oid(id: ViewId, place: usize) -> u32 {
    oid(OidKind::Label, (id.0 << PARTS_BITS) | (place as u32 & ((1 << PARTS_BITS) - 1)))
}

pub(super) fn index_oid(index: IndexId) -> u32 {
    oid(OidKind::Index, index.0)
}

pub(super) fn schema_oid(schema: &SchemaDef) -> u32 {
    match schema.name.as_str() {
        crate::names::DEFAULT_SCHEMA => MAIN_OID,
        _ => oid(OidKind::Schema, schema.id.0),
    }
}

pub(super) fn primary_key_oid(table: TableId) -> u32 {
    oid(OidKind::PrimaryKey, table.0)
}

pub(super) fn unique_oid(index: IndexId) -> u32 {
    oid(OidKind::Unique, index.0)
}

/// The number of the check at this place of its table.
pub(super) fn check_oid(table: TableId, place: usize) -> u32 {
    part(OidKind::Check, table, place as u32)
}

/// The number of the foreign key at this place of its table.
pub(super) fn foreign_key_oid(table: TableId, place: usize) -> u32 {
    part(OidKind::ForeignKey, table, place as u32)
}

pub(super) fn default_oid(table: TableId, column: &ColumnDef) -> u32 {
    part(OidKind::Default, table, column.id.0)
}

/// A relation that has a number.
pub(super) struct NumberedRelation<'c> {
    pub(super) schema: &'c SchemaDef,
    pub(super) name: String,
}

/// Finds the table, view or index with a number.
pub(super) fn relation_of(catalog: &Catalog, wanted: u32) -> Option<NumberedRelation<'_>> {
    for schema in catalog.schemas() {
        let named = |name: &str| Some(NumberedRelation { schema, name: name.to_owned() });
        for view in catalog.views(schema.id) {
            if view_oid(view) == wanted {
                return named(&view.name);
            }
        }
        for table in catalog.tables(schema.id) {
            if table_oid(table.id) == wanted {
                return named(&table.name);
            }
            for index in indexes(table) {
                if index_oid(index.id) == wanted {
                    return named(&index.name);
                }
            }
        }
    }
    None
}

/// Finds the number of a table or view.
pub(super) fn oid_of_relation(catalog: &Catalog, schema: &str, name: &str) -> Option<u32> {
    let schema = catalog.schema(schema)?;
    let table = catalog.table(schema.id, name).map(|table| table_oid(table.id));
    table.or_else(|| catalog.view(schema.id, name).map(|view| view_oid(view)))
}

/// An index of a table: the primary key first.
pub(crate) struct TableIndex<'t> {
    pub(crate) id: IndexId,
    pub(crate) name: String,
    pub(crate) parts: &'t [rowmill_storage::KeyColumn],
    pub(crate) is_unique: bool,
    pub(crate) is_primary: bool,
    /// Whether it is a primary key or belongs to a UNIQUE constraint.
    pub(crate) is_constraint: bool,
}

/// The indexes of a table. A sequence has none.
pub(crate) fn indexes(table: &TableDef) -> Vec<TableIndex<'_>> {
    let primary = table.keyed.as_ref().zip(table.primary_key_name()).map(|(keyed, name)| TableIndex {
        id: keyed.index,
        name,
        parts: &keyed.key,
        is_unique: true,
        is_primary: true,
        is_constraint: true,
    });
    let others = table.named_indexes().map(|index| TableIndex {
        id: index.id,
        name: index.name.clone(),
        parts: &index.parts,
        is_unique: index.unique,
        is_primary: false,
        is_constraint: index.is_constraint,
    });
    primary.into_iter().chain(others).collect()
}

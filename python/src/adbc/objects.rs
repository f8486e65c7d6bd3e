//! The catalog as ADBC shows it: the one database, its schemas, their tables, and columns and constraints of these.

use adbc_core::options::ObjectDepth;
use arrow_array::RecordBatch;
use rowmill::FromRow;

use crate::adbc::catalog_batch::batch_of;
use crate::adbc::connection::SharedSession;
use crate::adbc::errors::AdbcResult;

/// The kinds of tables.
pub(super) const TABLE_TYPES: [&str; 2] = ["BASE TABLE", "VIEW"];

/// The query for the name of the database.
pub(super) const CURRENT_CATALOG: &str = "SELECT current_database()";

const SCHEMAS: &str = "SELECT schema_name FROM information_schema.schemata ORDER BY 1";
const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2";
const COLUMNS: &str = "SELECT table_schema, table_name, column_name, ordinal_position::INTEGER, data_type, is_nullable,
        column_default FROM information_schema.columns ORDER BY 1, 2, 4";
/// A constraint with one of its columns, and the column that this one refers to.
const CONSTRAINTS: &str = "SELECT t.table_schema, t.table_name, t.constraint_name, t.constraint_type, k.column_name,
        u.table_schema, u.table_name, u.column_name
    FROM information_schema.table_constraints t
    LEFT JOIN information_schema.key_column_usage k
        ON k.constraint_schema = t.constraint_schema AND k.constraint_name = t.constraint_name
        AND k.table_name = t.table_name
    LEFT JOIN information_schema.referential_constraints r
        ON r.constraint_schema = t.constraint_schema AND r.constraint_name = t.constraint_name
        AND t.constraint_type = 'FOREIGN KEY'
    LEFT JOIN information_schema.key_column_usage u
        ON u.constraint_schema = r.unique_constraint_schema AND u.constraint_name = r.unique_constraint_name
        AND u.ordinal_position = k.position_in_unique_constraint
    WHERE t.constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')
    ORDER BY 1, 2, 3, k.ordinal_position";

/// The objects that a caller wants.
pub(super) struct ObjectFilter {
    depth: ObjectDepth,
    catalog: Option<String>,
    schema: Option<String>,
    table: Option<String>,
    column: Option<String>,
    types: Option<Vec<String>>,
}

impl ObjectFilter {
    /// The patterns are those for the names of catalogs, schemas, tables and columns.
    pub(super) fn new(depth: ObjectDepth, patterns: [Option<&str>; 4], types: Option<Vec<String>>) -> ObjectFilter {
        let [catalog, schema, table, column] = patterns.map(|pattern| pattern.map(str::to_owned));
        ObjectFilter { depth, catalog, schema, table, column, types }
    }
}

/// The database.
pub(super) struct CatalogEntry {
    pub(super) name: String,
    /// `None` where the caller wants no schemas.
    pub(super) schemas: Option<Vec<SchemaEntry>>,
}

/// A schema.
pub(super) struct SchemaEntry {
    pub(super) name: String,
    pub(super) tables: Option<Vec<TableEntry>>,
}

/// A table or view.
pub(super) struct TableEntry {
    pub(super) name: String,
    pub(super) kind: String,
    /// `None` where the caller wants no columns. Then there are no constraints either.
    pub(super) columns: Option<Vec<ColumnEntry>>,
    pub(super) constraints: Vec<ConstraintEntry>,
}

/// A column.
pub(super) struct ColumnEntry {
    pub(super) name: String,
    pub(super) place: i32,
    pub(super) kind: String,
    pub(super) is_nullable: String,
    pub(super) default: Option<String>,
}

/// A constraint.
pub(super) struct ConstraintEntry {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) columns: Vec<String>,
    /// The columns that a foreign key refers to.
    pub(super) referred: Vec<ReferredColumn>,
}

/// A column that a foreign key refers to.
pub(super) struct ReferredColumn {
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) column: String,
}

/// Makes the batch of the objects that pass a filter.
pub(super) fn objects_batch(session: &SharedSession, filter: &ObjectFilter) -> AdbcResult<RecordBatch> {
    let mut entries = Vec::new();
    for (name,) in rows::<(String,)>(session, CURRENT_CATALOG)? {
        if matches(&filter.catalog, &name) {
            let schemas = match filter.depth {
                ObjectDepth::Catalogs => None,
                _ => Some(schemas(session, filter)?),
            };
            entries.push(CatalogEntry { name, schemas });
        }
    }
    batch_of(&entries)
}

fn rows<T: for<'r> FromRow<'r>>(session: &SharedSession, sql: &str) -> AdbcResult<Vec<T>> {
    session.run(|connection| connection.query_as(sql, ()))
}

fn schemas(session: &SharedSession, filter: &ObjectFilter) -> AdbcResult<Vec<SchemaEntry>> {
    let names = rows::<(String,)>(session, SCHEMAS)?.into_iter().map(|(name,)| name);
    let mut entries: Vec<SchemaEntry> =
        names.filter(|name| matches(&filter.schema, name)).map(|name| SchemaEntry { name, tables: None }).collect();
    if !matches!(filter.depth, ObjectDepth::Schemas) {
        entries.iter_mut().for_each(|schema| schema.tables = Some(Vec::new()));
        fill_tables(session, filter, &mut entries)?;
    }
    Ok(entries)
}

fn fill_tables(session: &SharedSession, filter: &ObjectFilter, schemas: &mut [SchemaEntry]) -> AdbcResult<()> {
    let has_columns = !matches!(filter.depth, ObjectDepth::Tables);
    for (schema, name, kind) in rows::<(String, String, String)>(session, TABLES)? {
        let is_wanted = filter.types.as_ref().is_none_or(|types| types.contains(&kind));
        if is_wanted
            && matches(&filter.table, &name)
            && let Some(tables) = tables_of(schemas, &schema)
        {
            tables.push(TableEntry { name, kind, columns: has_columns.then(Vec::new), constraints: Vec::new() });
        }
    }
    if has_columns {
        fill_columns(session, filter, schemas)?;
        fill_constraints(session, schemas)?;
    }
    Ok(())
}

fn tables_of<'s>(schemas: &'s mut [SchemaEntry], schema: &str) -> Option<&'s mut Vec<TableEntry>> {
    schemas.iter_mut().find(|entry| entry.name == schema)?.tables.as_mut()
}

fn table_of<'s>(schemas: &'s mut [SchemaEntry], schema: &str, table: &str) -> Option<&'s mut TableEntry> {
    tables_of(schemas, schema)?.iter_mut().find(|entry| entry.name == table)
}

fn fill_columns(session: &SharedSession, filter: &ObjectFilter, schemas: &mut [SchemaEntry]) -> AdbcResult<()> {
    type ColumnRow = (String, String, String, i32, String, String, Option<String>);
    for (schema, table, name, place, kind, is_nullable, default) in rows::<ColumnRow>(session, COLUMNS)? {
        if matches(&filter.column, &name)
            && let Some(entry) = table_of(schemas, &schema, &table)
            && let Some(columns) = &mut entry.columns
        {
            columns.push(ColumnEntry { name, place, kind, is_nullable, default });
        }
    }
    Ok(())
}

fn fill_constraints(session: &SharedSession, schemas: &mut [SchemaEntry]) -> AdbcResult<()> {
    type Text = Option<String>;
    type ConstraintRow = (String, String, String, String, Text, Text, Text, Text);
    for (schema, table, name, kind, column, to_schema, to_table, to_column) in
        rows::<ConstraintRow>(session, CONSTRAINTS)?
    {
        let Some(entry) = table_of(schemas, &schema, &table) else { continue };
        if entry.constraints.last().is_none_or(|last| last.name != name) {
            entry.constraints.push(ConstraintEntry { name, kind, columns: Vec::new(), referred: Vec::new() });
        }
        let Some(constraint) = entry.constraints.last_mut() else { continue };
        constraint.columns.extend(column);
        if let (Some(schema), Some(table), Some(column)) = (to_schema, to_table, to_column) {
            constraint.referred.push(ReferredColumn { schema, table, column });
        }
    }
    Ok(())
}

/// Whether a name fits a pattern: `%` is any text, `_` any character. Everything fits no pattern.
fn matches(pattern: &Option<String>, name: &str) -> bool {
    fn fits(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['%', rest @ ..] => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
            [first, rest @ ..] => {
                name.first().is_some_and(|letter| *first == '_' || first == letter) && fits(rest, &name[1..])
            }
        }
    }
    pattern.as_ref().is_none_or(|pattern| {
        let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
        fits(&pattern, &name)
    })
}

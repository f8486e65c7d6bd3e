//! `EXPORT DATABASE`: writes one state of the database as text and files, which other programs can read.
//!
//! ```text
//! folder/schema.sql     schemas, types, macros, sequences, tables with their indexes, comments, views
//! folder/load.sql       a COPY for each table, then the materialized views
//! folder/visits.parquet the rows of a table
//! ```
//!
//! The statements are in an order in which they can run: a table comes after the tables that its foreign keys refer to,
//! and a view after the views that it reads. `load.sql` names its files without a folder, so that the folder can move.
//! Sequences continue after the numbers that were given out. Roles and rights are not exported.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_storage::{IdentityDef, SequenceDef, TableDef};
use rowmill_txn::{Catalog, SchemaDef, Snapshot};

use super::clause::unsupported;
use super::copy::{check_once, option_text};
use super::copy_to::write_rows;
use super::dependents::read_by;
use super::relation::RelationId;
use super::show::{create_macro, create_materialized, create_sequence, create_table, create_type, create_view};
use super::sql_text::{self, name_text};
use super::write::binder::given_columns;
use crate::files::{FileFormat, WriteOptions, is_url};
use crate::names::DEFAULT_SCHEMA;
use crate::outcome::Outcome;
use crate::parse::ExportStatement;
use crate::session::{Work, temporary};

pub(super) const STATEMENT: &str = "EXPORT DATABASE";

/// The file with the definitions, and the file that loads the rows.
pub(super) const SCHEMA_FILE: &str = "schema.sql";
pub(super) const LOAD_FILE: &str = "load.sql";

pub(crate) fn run(work: &mut Work<'_>, export: &ExportStatement) -> Result<Outcome> {
    let format = format_of(export)?;
    refuse_url(STATEMENT, &export.to)?;
    let folder = Path::new(&export.to);
    make_folder(folder)?;
    let view = work.view()?;
    let texts = Definitions { work, view: &view }.texts()?;
    let mut load = String::new();
    let mut names = BTreeSet::new();
    let mut rows = 0;
    for (schema, table) in &texts.tables {
        let file = file_name(schema, table, format, &mut names);
        rows += export_table(work, &view, schema, table, &folder.join(&file), format)?;
        let (name, columns) = (qualified_text(schema, &table.name), column_list(table));
        load.push_str(&format!("COPY {name} ({columns}) FROM '{file}' (FORMAT {});\n", format.name()));
    }
    texts.materialized.iter().for_each(|text| load.push_str(&format!("{text};\n")));
    write_text(&folder.join(SCHEMA_FILE), &texts.schema)?;
    // The file that an import looks for comes last, so that it never finds half an export.
    write_text(&folder.join(LOAD_FILE), &load)?;
    Ok(Outcome::Changed { tag: STATEMENT, rows })
}

fn format_of(export: &ExportStatement) -> Result<FileFormat> {
    check_once(&export.options)?;
    let mut format = FileFormat::Parquet;
    for option in &export.options {
        match option_text(option)? {
            ("format", name) => format = FileFormat::from_name(name)?,
            (name, _) => {
                return Err(unsupported(STATEMENT, &format!("the option {name}")).hint("the only option is FORMAT"));
            }
        }
    }
    match format {
        FileFormat::Parquet | FileFormat::Csv => Ok(format),
        other => {
            Err(unsupported(STATEMENT, &format!("FORMAT {}", other.name())).hint("the formats are parquet and csv"))
        }
    }
}

/// Refuses a URL, because folders are on disk. As a path, it would name a folder with a strange name.
pub(super) fn refuse_url(statement: &str, folder: &str) -> Result<()> {
    match is_url(folder) {
        false => Ok(()),
        true => Err(unsupported(statement, "a URL").hint("name a folder, and copy it, or COPY the tables one by one")),
    }
}

/// Makes the folder. An existing one must be empty, so that no file of another export stays in it.
fn make_folder(folder: &Path) -> Result<()> {
    let failed =
        |error: std::io::Error| Error::io(format!("{STATEMENT}: cannot make the folder {}", folder.display()), &error);
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        let what = format!("{STATEMENT}: the folder {} is not empty", folder.display());
        return Err(Error::new(ErrorKind::InvalidParameter, what).hint("name a new folder"));
    }
    Ok(())
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io(format!("{STATEMENT}: cannot write {}", path.display()), &error))
}

/// Writes the rows of a table to a file. Returns their number.
fn export_table(
    work: &Work<'_>,
    view: &Arc<Snapshot>,
    schema: &SchemaDef,
    table: &TableDef,
    path: &Path,
    format: FileFormat,
) -> Result<u64> {
    let sql = format!("SELECT {} FROM {}", column_list(table), qualified_text(schema, &table.name));
    let query = sql_text::query(&sql, work.settings())?;
    let rows = work.ready_own(Arc::clone(view), &query)?.start(work.progress().cloned(), work.started);
    let engine = work.engine();
    let (threads, memory) = (engine.threads(), Some(engine.broker().clone()));
    let mut options = WriteOptions { threads, memory, ..WriteOptions::default() };
    options.set("format", format.name())?;
    write_rows(work, &path.to_string_lossy(), rows, &options)
}

/// Returns a name for the file of a table that no other table has. It has only letters, digits and underscores, because
/// not every file system takes other characters.
fn file_name(schema: &SchemaDef, table: &TableDef, format: FileFormat, names: &mut BTreeSet<String>) -> String {
    let whole = match schema.name == DEFAULT_SCHEMA {
        true => table.name.clone(),
        false => format!("{}_{}", schema.name, table.name),
    };
    let plain: String = whole.chars().map(|of| if of.is_ascii_alphanumeric() { of } else { '_' }).collect();
    let numbered = std::iter::once(plain.clone()).chain((1..).map(|number| format!("{plain}_{number}")));
    let mut free = numbered.filter(|name| names.insert(name.to_lowercase()));
    format!("{}.{}", free.next().expect("there are more numbers than tables"), format.name())
}

/// Returns the columns of a table whose values are exported, separated by commas. Generated ones are computed again.
fn column_list(table: &TableDef) -> String {
    let columns = given_columns(table).into_iter().map(|place| name_text(&table.columns[place].name));
    columns.collect::<Vec<_>>().join(", ")
}

fn qualified_text(schema: &SchemaDef, name: &str) -> String {
    format!("{}{}", qualifier(schema), name_text(name))
}

/// Returns the qualifier that a name of the schema needs, with its dot. It is empty for the default schema.
fn qualifier(schema: &SchemaDef) -> String {
    if schema.name == DEFAULT_SCHEMA { String::new() } else { format!("{}.", name_text(&schema.name)) }
}

/// The texts of an export.
struct ExportTexts {
    /// The contents of `schema.sql`.
    schema: String,
    /// The tables whose rows are exported, in an order in which they can be loaded.
    tables: Vec<(Arc<SchemaDef>, Arc<TableDef>)>,
    /// The statements that make the materialized views.
    materialized: Vec<String>,
}

/// Makes the statements that make the objects of one state.
struct Definitions<'a> {
    work: &'a Work<'a>,
    view: &'a Arc<Snapshot>,
}

impl Definitions<'_> {
    fn texts(&self) -> Result<ExportTexts> {
        let catalog = self.view.catalog();
        let schemas = catalog.schemas().filter(|schema| !temporary::is_temporary(&schema.name));
        let schemas: Vec<&Arc<SchemaDef>> = schemas.collect();
        let mut statements = Vec::new();
        for schema in schemas.iter().filter(|schema| schema.name != DEFAULT_SCHEMA) {
            statements.push(format!("CREATE SCHEMA {}", name_text(&schema.name)));
        }
        for def in catalog.types() {
            statements.push(create_type(def));
            statements.extend(comment("TYPE", &name_text(&def.name), def.comment.as_deref()));
        }
        // A macro may name tables that do not exist yet, and a view or a default may call it.
        for def in catalog.macros() {
            statements.push(create_macro(def));
            statements.extend(comment("MACRO", &name_text(&def.name), def.comment.as_deref()));
        }
        let of_all = schemas.iter().flat_map(|schema| catalog.tables(schema.id).map(move |table| (*schema, table)));
        let (sequences, others): (Vec<_>, Vec<_>) = of_all.partition(|(_, table)| table.is_sequence());
        for (schema, sequence) in sequences {
            let is_owned = catalog
                .all_tables()
                .any(|table| table.rules.identities.iter().any(|of| of.sequence == sequence.id && of.fills));
            // A sequence of an identity column comes with its table.
            if !is_owned {
                let counts = self.continued(sequence.id)?;
                statements.push(create_sequence(sequence, &qualifier(schema), counts.as_ref()));
                statements.extend(comments(catalog, schema, sequence));
            }
        }
        let (materialized, tables): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, table)| catalog.materialized(table.id).is_some());
        let tables: Vec<_> =
            tables.into_iter().map(|(schema, table)| (Arc::clone(schema), Arc::clone(table))).collect();
        let tables = parents_first(tables)?;
        for (schema, table) in &tables {
            statements.push(self.table(schema, table)?);
            statements.extend(comments(catalog, schema, table));
            statements.extend(owned_sequences(catalog, schema, table));
        }
        let mut queries = Vec::new();
        for schema in &schemas {
            for view in catalog.views(schema.id) {
                let name = qualified_text(schema, &view.name);
                let text = [create_view(view, &qualifier(schema))].into_iter();
                let text = text.chain(comment("VIEW", &name, view.comment.as_deref())).collect::<Vec<_>>().join(";\n");
                queries.push(ViewText { id: RelationId::View(view.id), sql: &view.sql, text, is_materialized: false });
            }
        }
        for (schema, table) in materialized {
            let Some(view) = catalog.materialized(table.id) else { continue };
            let text = create_materialized(catalog, table, &qualifier(schema));
            queries.push(ViewText { id: RelationId::Table(table.id), sql: &view.sql, text, is_materialized: true });
        }
        let (plain, late) = divided(in_order(catalog, queries));
        statements.extend(plain);
        let schema = statements.iter().map(|text| format!("{text};\n")).collect();
        Ok(ExportTexts { schema, tables, materialized: late })
    }

    fn table(&self, schema: &SchemaDef, table: &TableDef) -> Result<String> {
        let mut counts = Vec::new();
        for identity in &table.rules.identities {
            counts.extend(self.continued(identity.sequence)?.map(|counting| (identity.sequence, counting)));
        }
        let counting = |id: TableId| counts.iter().find(|(of, _)| *of == id).map(|(_, counting)| *counting);
        Ok(create_table(self.view.catalog(), table, &qualifier(schema), &counting))
    }

    /// Returns the definition of a sequence that goes on where this one is.
    fn continued(&self, id: TableId) -> Result<Option<SequenceDef>> {
        let catalog = self.view.catalog();
        let Some(table) = catalog.table_by_id(id) else { return Ok(None) };
        let Some(sequence) = table.keyed.as_ref().and_then(|keyed| keyed.sequence) else { return Ok(None) };
        let Some(schema) = catalog.schema_by_id(table.schema) else { return Ok(None) };
        let sql = format!("SELECT last_value FROM {}", qualified_text(schema, &table.name));
        let query = sql_text::query(&sql, self.work.settings())?;
        let mut last = None;
        for batch in self.work.ready_own(Arc::clone(self.view), &query)?.start(None, self.work.started) {
            let batch = batch?;
            let values = batch.column(0).as_primitive::<Int64Type>();
            last = (0..values.len()).find(|row| values.is_valid(*row)).map(|row| values.value(row));
        }
        let start = match last {
            None => sequence.start,
            // A sequence at its end would give its last number once more, which is better than one that cannot be made.
            Some(last) => sequence.value_after(Some(last)).unwrap_or(last),
        };
        Ok(Some(SequenceDef { start, ..sequence }))
    }
}

/// Sorts tables so that each comes after those that its foreign keys refer to.
fn parents_first(mut left: Vec<(Arc<SchemaDef>, Arc<TableDef>)>) -> Result<Vec<(Arc<SchemaDef>, Arc<TableDef>)>> {
    let mut sorted = Vec::new();
    while !left.is_empty() {
        let waits: BTreeSet<TableId> = left.iter().map(|(_, table)| table.id).collect();
        let is_ready = |table: &TableDef| {
            let mut keys = table.keyed.iter().flat_map(|keyed| &keyed.foreign_keys);
            keys.all(|key| key.parent == table.id || !waits.contains(&key.parent))
        };
        let (ready, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, table)| is_ready(table));
        if ready.is_empty() {
            let names: Vec<&str> = later.iter().map(|(_, table)| table.name.as_str()).collect();
            let what = format!("{STATEMENT}: the foreign keys of {} refer to each other in a circle", names.join(", "));
            return Err(Error::new(ErrorKind::Unsupported, what).hint("BACKUP DATABASE copies such a database"));
        }
        sorted.extend(ready);
        left = later;
    }
    Ok(sorted)
}

/// The statement that makes a view.
struct ViewText<'a> {
    id: RelationId,
    sql: &'a str,
    text: String,
    is_materialized: bool,
}

/// Sorts views so that each comes after those that it reads. Views that read each other in a circle, which no statement
/// makes, keep their order.
fn in_order<'a>(catalog: &Catalog, mut left: Vec<ViewText<'a>>) -> Vec<ViewText<'a>> {
    let mut sorted = Vec::new();
    loop {
        let waits: BTreeSet<RelationId> = left.iter().map(|view| view.id).collect();
        let is_ready = |view: &ViewText<'_>| read_by(catalog, view.sql).is_disjoint(&waits);
        let (ready, later): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
        let is_end = ready.is_empty();
        sorted.extend(ready);
        if is_end {
            sorted.extend(later);
            return sorted;
        }
        left = later;
    }
}

/// Divides the statements into those of plain views, and those that must wait for the rows: materialized views, and the
/// views that come after one.
fn divided(views: Vec<ViewText<'_>>) -> (Vec<String>, Vec<String>) {
    let first = views.iter().position(|view| view.is_materialized).unwrap_or(views.len());
    let mut texts: Vec<String> = views.into_iter().map(|view| view.text).collect();
    let late = texts.split_off(first);
    (texts, late)
}

/// Returns the statements of the comments on a table and its columns.
fn comments(catalog: &Catalog, schema: &SchemaDef, table: &TableDef) -> Vec<String> {
    let Some(comments) = catalog.comments(table.id) else { return Vec::new() };
    let name = qualified_text(schema, &table.name);
    let kind = if table.is_sequence() { "SEQUENCE" } else { "TABLE" };
    let of_table = comment(kind, &name, comments.table.as_deref());
    let of_columns = table.columns.iter().filter_map(|column| {
        let text = comments.columns.get(&column.id)?;
        comment("COLUMN", &format!("{name}.{}", name_text(&column.name)), Some(text))
    });
    of_table.into_iter().chain(of_columns).collect()
}

/// Returns the statements that let sequences belong to the columns of a table, without filling them.
fn owned_sequences(catalog: &Catalog, schema: &SchemaDef, table: &TableDef) -> Vec<String> {
    let owned = table.rules.identities.iter().filter(|identity| !identity.fills);
    let statement = |identity: &IdentityDef| {
        let sequence = qualified_text(schema, &catalog.table_by_id(identity.sequence)?.name);
        let column = &table.columns[table.column_by_id(identity.column)?].name;
        let owner = format!("{}.{}", qualified_text(schema, &table.name), name_text(column));
        Some(format!("ALTER SEQUENCE {sequence} OWNED BY {owner}"))
    };
    owned.filter_map(statement).collect()
}

/// Returns the statement that comments on an object, if it has a comment.
fn comment(kind: &str, name: &str, comment: Option<&str>) -> Option<String> {
    comment.map(|text| format!("COMMENT ON {kind} {name} IS '{}'", text.replace('\'', "''")))
}

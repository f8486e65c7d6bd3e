//! `SHOW`: lists objects and shows how they were defined.

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId};
use rowmill_storage::{ForeignKeyDef, IdentityDef, IndexDef, KeyColumn, ReferentialAction, SequenceDef, TableDef};
use rowmill_txn::{Catalog, MacroDef, MacroParameter, SchemaDef, TypeDef, ViewDef};
use sqlparser::ast::{
    ObjectName, ShowCreateObject, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementIn,
    ShowStatementOptions, Statement,
};

use super::attach;
use super::clause::{refuse, unsupported};
use super::describe;
use super::drop::schema_name;
use super::relation::{self, NamedRelation, RelationKind};
use super::sql_text::name_text;
use super::text_rows::TextRows;
use super::time_clause;
use crate::function_list;
use crate::names::{DEFAULT_SCHEMA, qualified};
use crate::outcome::{Outcome, RowStream};
use crate::parse::rule_text;
use crate::pg_catalog::key_columns;
use crate::session::Work;

/// Runs every kind of `SHOW` except that of settings.
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    match statement {
        Statement::ShowTables { terse, history, extended, full, external, show_options } => {
            let clauses = [
                (*terse, "TERSE"),
                (*history, "HISTORY"),
                (*extended, "EXTENDED"),
                (*full, "FULL"),
                (*external, "EXTERNAL"),
            ];
            refuse("SHOW TABLES", clauses)?;
            let kinds = [RelationKind::Table, RelationKind::View, RelationKind::Materialized];
            relations(work, "SHOW TABLES", show_options, &kinds)
        }
        Statement::ShowViews { terse, materialized, show_options } => {
            refuse("SHOW VIEWS", [(*terse, "TERSE")])?;
            match materialized {
                true => relations(work, "SHOW MATERIALIZED VIEWS", show_options, &[RelationKind::Materialized]),
                false => relations(work, "SHOW VIEWS", show_options, &[RelationKind::View, RelationKind::Materialized]),
            }
        }
        Statement::ShowSchemas { terse, history, show_options } => {
            refuse("SHOW SCHEMAS", [(*terse, "TERSE"), (*history, "HISTORY")])?;
            schemas(work, show_options)
        }
        Statement::ShowDatabases { terse, history, show_options } => {
            refuse("SHOW DATABASES", [(*terse, "TERSE"), (*history, "HISTORY")])?;
            let ShowOptions { within, like } = options("SHOW DATABASES", show_options)?;
            refuse("SHOW DATABASES", [(within.is_some(), "IN"), (like.is_some(), "LIKE")])?;
            attach::show_databases(work)
        }
        Statement::ShowColumns { extended, full, show_options } => {
            refuse("SHOW COLUMNS", [(*extended, "EXTENDED"), (*full, "FULL")])?;
            let ShowOptions { within, like } = options("SHOW COLUMNS", show_options)?;
            refuse("SHOW COLUMNS", [(like.is_some(), "LIKE")])?;
            match within {
                Some(name) => describe::relation(work, name),
                None => Err(unsupported("SHOW COLUMNS", "anything but FROM a table")),
            }
        }
        Statement::ShowFunctions { filter } => {
            refuse("SHOW FUNCTIONS", [(filter.is_some(), "a filter")])
                .map_err(|error| error.hint("SELECT * FROM rowmill_functions() WHERE ..."))?;
            Ok(Outcome::Rows(RowStream::ready(function_list::batch()?)))
        }
        Statement::ShowCreate { obj_type, obj_name } => show_create(work, obj_type, obj_name),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(Error::new(ErrorKind::Unsupported, format!("{} is not supported", words.join(" "))).hint(
                "use SHOW TABLES, VIEWS, SCHEMAS, DATABASES, FUNCTIONS, COLUMNS FROM t, CREATE TABLE t, ALL \
                 and SHOW of a setting",
            ))
        }
    }
}

/// The options of a `SHOW` that we execute.
struct ShowOptions<'a> {
    /// The object after `FROM` or `IN`.
    within: Option<&'a ObjectName>,
    like: Option<&'a ShowStatementFilter>,
}

fn options<'a>(statement: &str, options: &'a ShowStatementOptions) -> Result<ShowOptions<'a>> {
    let ShowStatementOptions { show_in, starts_with, limit, limit_from, filter_position } = options;
    let clauses =
        [(starts_with.is_some(), "STARTS WITH"), (limit.is_some(), "LIMIT"), (limit_from.is_some(), "LIMIT ... FROM")];
    refuse(statement, clauses)?;
    let within = match show_in {
        None => None,
        Some(ShowStatementIn { clause: _, parent_type, parent_name }) => {
            refuse(statement, [(parent_type.is_some(), "the kind of object after IN")])?;
            parent_name.as_ref()
        }
    };
    let like = match filter_position {
        None => None,
        Some(ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter)) => {
            refuse(statement, [(matches!(filter, ShowStatementFilter::Where(_)), "WHERE")])?;
            Some(filter)
        }
    };
    Ok(ShowOptions { within, like })
}

fn relations(
    work: &mut Work<'_>,
    statement: &str,
    show_options: &ShowStatementOptions,
    kinds: &[RelationKind],
) -> Result<Outcome> {
    let ShowOptions { within, like } = options(statement, show_options)?;
    let view = work.view()?;
    let catalog = view.catalog();
    let only = match within {
        None => None,
        Some(name) => Some(relation::schema(catalog, schema_name(name)?)?.id),
    };
    let mut rows = TextRows::new(["schema", "name", "kind"]);
    for schema in catalog.schemas().filter(|schema| only.is_none_or(|only| only == schema.id)) {
        for (name, kind) in names_in(catalog, schema, kinds) {
            if matches(like, name) {
                rows.push([schema.name.as_str(), name, kind.name()].map(|text| Some(text.to_string())));
            }
        }
    }
    rows.outcome()
}

/// Returns the tables and views of a schema, ordered by name.
fn names_in<'c>(catalog: &'c Catalog, schema: &SchemaDef, kinds: &[RelationKind]) -> Vec<(&'c str, RelationKind)> {
    let tables = catalog.tables(schema.id).filter(|table| !table.is_sequence());
    let tables = tables.map(|table| match catalog.materialized(table.id) {
        Some(_) => (table.name.as_str(), RelationKind::Materialized),
        None => (table.name.as_str(), RelationKind::Table),
    });
    let views = catalog.views(schema.id).map(|view| (view.name.as_str(), RelationKind::View));
    let mut names: Vec<(&str, RelationKind)> = tables.chain(views).filter(|(_, kind)| kinds.contains(kind)).collect();
    names.sort_by_key(|(name, _)| name.to_lowercase());
    names
}

fn schemas(work: &mut Work<'_>, show_options: &ShowStatementOptions) -> Result<Outcome> {
    let ShowOptions { within, like } = options("SHOW SCHEMAS", show_options)?;
    refuse("SHOW SCHEMAS", [(within.is_some(), "IN")])?;
    let mut rows = TextRows::new(["schema"]);
    for schema in work.view()?.catalog().schemas().filter(|schema| matches(like, &schema.name)) {
        rows.push([Some(schema.name.clone())]);
    }
    rows.outcome()
}

/// Whether a name matches the filter, ignoring case.
fn matches(like: Option<&ShowStatementFilter>, name: &str) -> bool {
    match like {
        None => true,
        Some(
            ShowStatementFilter::Like(pattern)
            | ShowStatementFilter::ILike(pattern)
            | ShowStatementFilter::NoKeyword(pattern),
        ) => like_matches(&pattern.to_lowercase(), &name.to_lowercase()),
        Some(ShowStatementFilter::Where(_)) => false,
    }
}

/// Matches `LIKE` patterns on short names: `%` is any run of characters, `_` is one character.
fn like_matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.chars();
    match parts.next() {
        None => name.is_empty(),
        Some('%') => name
            .char_indices()
            .map(|(at, _)| at)
            .chain([name.len()])
            .any(|at| like_matches(parts.as_str(), &name[at..])),
        Some(wanted) => {
            let mut rest = name.chars();
            rest.next().is_some_and(|found| wanted == '_' || wanted == found)
                && like_matches(parts.as_str(), rest.as_str())
        }
    }
}

fn show_create(work: &mut Work<'_>, kind: &ShowCreateObject, name: &ObjectName) -> Result<Outcome> {
    let wanted = match kind {
        ShowCreateObject::Table => RelationKind::Table,
        ShowCreateObject::View => RelationKind::View,
        other => return Err(unsupported("SHOW CREATE", &other.to_string())),
    };
    let name = qualified(name, work.statement.spellings())?;
    let view = work.view()?;
    let found = relation::relation(view.catalog(), &name)?;
    let is_view = wanted == RelationKind::View && found.kind() == RelationKind::Materialized;
    if found.kind() != wanted && !is_view {
        return Err(relation::wrong_kind(found.name(), found.kind(), wanted));
    }
    let schema = view.catalog().schema_by_id(found.schema()).expect("a relation lives in a schema");
    let qualifier = if schema.name == DEFAULT_SCHEMA { String::new() } else { format!("{}.", name_text(&schema.name)) };
    let text = match &found {
        NamedRelation::Table(table) => create_table(view.catalog(), table, &qualifier, &|_| None),
        NamedRelation::Sequence(sequence) => create_sequence(sequence, &qualifier, None),
        NamedRelation::Materialized(table) => create_materialized(view.catalog(), table, &qualifier),
        NamedRelation::View(view) => create_view(view, &qualifier),
    };
    let mut rows = TextRows::new(["name", "sql"]);
    rows.push([Some(found.name().to_string()), Some(text)]);
    rows.outcome()
}

/// Returns a statement that creates an equal view.
pub(super) fn create_view(view: &ViewDef, qualifier: &str) -> String {
    let columns: Vec<String> = view.column_names.iter().map(|name| name_text(name)).collect();
    let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    format!("CREATE VIEW {qualifier}{}{columns} AS {}", name_text(&view.name), view.sql)
}

/// Returns a statement that creates an equal sequence, or one that counts as `counting` says.
pub(super) fn create_sequence(sequence: &TableDef, qualifier: &str, counting: Option<&SequenceDef>) -> String {
    let counting = counting.or_else(|| sequence.keyed.as_ref()?.sequence.as_ref());
    let options = counting.map(sequence_options).unwrap_or_default();
    format!("CREATE SEQUENCE {qualifier}{}{options}", name_text(&sequence.name))
}

/// Returns a statement that creates an equal type.
pub(super) fn create_type(def: &TypeDef) -> String {
    let labels = def.labels().labels().iter().map(|label| format!("'{}'", label.text.replace('\'', "''")));
    format!("CREATE TYPE {} AS ENUM ({})", name_text(&def.name), labels.collect::<Vec<_>>().join(", "))
}

/// Returns a statement that creates an equal macro.
pub(super) fn create_macro(def: &MacroDef) -> String {
    let parameter = |parameter: &MacroParameter| {
        let kind = parameter.kind.as_ref().map_or_else(String::new, |kind| format!(" {kind}"));
        let default = parameter.default.as_ref().map_or_else(String::new, |text| format!(" := {text}"));
        format!("{}{kind}{default}", name_text(&parameter.name))
    };
    let parameters = def.parameters.iter().map(parameter).collect::<Vec<_>>().join(", ");
    let sql = &def.sql;
    let body = match &def.result {
        _ if def.is_table => format!("AS TABLE {sql}"),
        Some(result) => format!("RETURNS {result} RETURN {sql}"),
        // After AS, a string alone could be read as the text of a query.
        None if sql.starts_with(['\'', '$']) => format!("AS ({sql})"),
        None => format!("AS {sql}"),
    };
    format!("CREATE MACRO {}({parameters}) {body}", name_text(&def.name))
}

/// Returns a statement that creates an equal materialized view.
pub(super) fn create_materialized(catalog: &Catalog, table: &TableDef, qualifier: &str) -> String {
    let view = catalog.materialized(table.id).expect("the table is a materialized view");
    let columns: Vec<String> = table.columns.iter().map(|column| name_text(&column.name)).collect();
    let (name, columns, rule) = (name_text(&table.name), columns.join(", "), rule_text(view.refresh));
    format!("CREATE MATERIALIZED VIEW {qualifier}{name} ({columns}) {rule} AS {}", view.sql)
}

/// Returns the statements that create an equal table with its indexes. `counting` says how sequences of identity
/// columns count, if not as they are defined.
pub(super) fn create_table(
    catalog: &Catalog,
    table: &TableDef,
    qualifier: &str,
    counting: &dyn Fn(TableId) -> Option<SequenceDef>,
) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let not_null = if column.nullable { "" } else { " NOT NULL" };
            let default = column.default.as_ref().map_or(String::new(), |text| format!(" DEFAULT {text}"));
            let identity = table
                .identity(column.id)
                .map_or(String::new(), |identity| identity_text(catalog, identity, counting(identity.sequence)));
            let generated =
                table.generated(column.id).map_or(String::new(), |sql| format!(" GENERATED ALWAYS AS ({sql}) STORED"));
            format!("{} {}{not_null}{default}{identity}{generated}", name_text(&column.name), column.kind)
        })
        .chain(keys(catalog, table))
        .collect();
    let clauses = time_clause::text_of(table);
    let name = format!("{qualifier}{}", name_text(&table.name));
    format!("CREATE TABLE {name} ({}){clauses}{}", columns.join(", "), index_statements(table, &name))
}

/// Returns the statements that create the indexes of a table that are no constraints, each after a semicolon. An index
/// that a foreign key has made for itself comes with the foreign key.
fn index_statements(table: &TableDef, name: &str) -> String {
    let foreign_keys = table.keyed.as_ref().map_or(&[][..], |keyed| &keyed.foreign_keys);
    let is_of_key = |index: &IndexDef, key: &ForeignKeyDef| {
        let same_columns = index.parts.iter().map(|part| (part.column, part.descending));
        let same_columns = same_columns.eq(key.columns.iter().map(|column| (*column, false)));
        same_columns && index.name.to_lowercase().starts_with(&generated_name(table, &key.columns, "idx"))
    };
    let plain = table.named_indexes().filter(|index| !is_in_table(table, index));
    let own = plain.filter(|index| index.unique || !foreign_keys.iter().any(|key| is_of_key(index, key)));
    let statement = |index: &IndexDef| {
        let (columns, unique) = (key_columns(table, &index.parts), if index.unique { "UNIQUE " } else { "" });
        format!("; CREATE {unique}INDEX {} ON {name} ({columns})", name_text(&index.name))
    };
    own.map(statement).collect()
}

/// Whether an index is written among the constraints of its table. A unique index is, too, if a foreign key of the
/// table refers to the table itself by its columns, because that key needs it at once.
fn is_in_table(table: &TableDef, index: &IndexDef) -> bool {
    let is_needed = |key: &ForeignKeyDef| {
        key.parent == table.id && index.parts.iter().map(|part| &part.column).eq(&key.parent_columns)
    };
    let mut foreign = table.keyed.iter().flat_map(|keyed| &keyed.foreign_keys);
    index.is_constraint || index.unique && foreign.any(is_needed)
}

/// The beginning of a name that was made of the names of a table and its columns, in lower case.
fn generated_name(table: &TableDef, columns: &[ColumnId], ending: &str) -> String {
    let names = columns.iter().filter_map(|id| Some(table.columns[table.column_by_id(*id)?].name.as_str()));
    let parts: Vec<&str> = std::iter::once(table.name.as_str()).chain(names).chain([ending]).collect();
    parts.join("_").to_lowercase()
}

fn identity_text(catalog: &Catalog, identity: &IdentityDef, counting: Option<SequenceDef>) -> String {
    let defined = || catalog.table_by_id(identity.sequence).and_then(|def| def.keyed.as_ref()?.sequence);
    let sequence = counting.or_else(defined);
    let options = sequence.as_ref().map(sequence_options).unwrap_or_default();
    let when = if identity.always { "ALWAYS" } else { "BY DEFAULT" };
    format!(" GENERATED {when} AS IDENTITY ({})", options.trim_start())
}

fn sequence_options(sequence: &SequenceDef) -> String {
    let SequenceDef { start, increment, min, max, cycle } = sequence;
    let cycle = if *cycle { " CYCLE" } else { "" };
    format!(" INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start}{cycle}")
}

/// Returns the keys and conditions of a table. Other indexes have their own statements.
fn keys(catalog: &Catalog, table: &TableDef) -> Vec<String> {
    let checks = table.rules.checks.iter();
    let checks = checks.map(|check| format!("CONSTRAINT {} CHECK ({})", name_text(&check.name), check.sql));
    let Some(keyed) = &table.keyed else { return checks.collect() };
    let list = |parts: &[KeyColumn]| key_columns(table, parts);
    let unique = keyed.indexes.iter().filter(|index| is_in_table(table, index));
    let unique = unique.map(|index| format!("CONSTRAINT {} UNIQUE ({})", name_text(&index.name), list(&index.parts)));
    let foreign = keyed.foreign_keys.iter().map(|key| foreign_key(catalog, table, key));
    let named = keyed.key_name.as_ref().map_or_else(String::new, |name| format!("CONSTRAINT {} ", name_text(name)));
    let primary = format!("{named}PRIMARY KEY ({})", list(&keyed.key));
    std::iter::once(primary).chain(unique).chain(checks).chain(foreign).collect()
}

pub(crate) fn foreign_key(catalog: &Catalog, table: &TableDef, key: &ForeignKeyDef) -> String {
    let list = |table: Option<&TableDef>, columns: &[ColumnId]| {
        let name = |id: &ColumnId| {
            let column = table.and_then(|table| Some(&table.columns[table.column_by_id(*id)?]));
            column.map_or_else(|| "?".to_owned(), |column| name_text(&column.name))
        };
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let parent = catalog.table_by_id(key.parent).map(|def| &**def);
    let schema = parent.and_then(|def| catalog.schema_by_id(def.schema)).filter(|schema| schema.name != DEFAULT_SCHEMA);
    let qualifier = schema.map_or_else(String::new, |schema| format!("{}.", name_text(&schema.name)));
    let action = |event: &str, action: ReferentialAction| match action {
        ReferentialAction::Restrict => String::new(),
        ReferentialAction::Cascade => format!(" ON {event} CASCADE"),
        ReferentialAction::SetNull => format!(" ON {event} SET NULL"),
    };
    format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {qualifier}{} ({}){}{}",
        name_text(&key.name),
        list(Some(table), &key.columns),
        parent.map_or_else(|| "?".to_owned(), |def| name_text(&def.name)),
        list(parent, &key.parent_columns),
        action("DELETE", key.on_delete),
        action("UPDATE", key.on_update),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_matches_percent_and_underscore() {
        assert!(like_matches("%", ""));
        assert!(like_matches("h%s", "hits"));
        assert!(like_matches("_its", "hits"));
        assert!(like_matches("%t%", "hits"));
        assert!(!like_matches("h_s", "hits"));
        assert!(!like_matches("hit", "hits"));
        assert!(like_matches("ä_%", "äöü"));
    }
}

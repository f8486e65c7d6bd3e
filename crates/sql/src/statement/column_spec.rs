//! Columns of `CREATE TABLE` and `ALTER TABLE ADD COLUMN`, from the syntax tree to the catalog's definition.

use std::collections::BTreeMap;

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_txn::{Catalog, ColumnSpec};
use sqlparser::ast::{ColumnDef, ColumnOption, ColumnOptionDef, ObjectName};

use super::clause::unsupported;
use super::create_table::STATEMENT as CREATE_TABLE;
use super::default_value;
use super::generated_column::is_untyped;
use super::key_clauses::is_key_clause;
use super::named_type::sql_type;
use super::sequence::{is_identity, serial};
use crate::names::lower;
use crate::session::Work;

/// Returns the column that `column` defines, for `statement`. Checks that its default can be evaluated and fits the
/// type.
pub(super) fn column_spec(
    work: &Work<'_>,
    catalog: &Catalog,
    statement: &str,
    column: &ColumnDef,
) -> Result<ColumnSpec> {
    let ColumnDef { name, data_type, options } = column;
    let name = work.statement.spell(name);
    let kind = match serial(data_type) {
        Some(kind) if statement == CREATE_TABLE => kind,
        // The type of the expression takes its place when all columns are known.
        _ if is_untyped(data_type) => SqlType::Boolean,
        _ => sql_type(catalog, data_type).map_err(|error| error.context(format!("column \"{name}\"")))?,
    };
    spec_with_options(work, statement, name, kind, options)
}

/// Returns a column named `name` of type `kind`, with the options that follow its type.
pub(super) fn spec_with_options(
    work: &Work<'_>,
    statement: &str,
    name: &str,
    kind: SqlType,
    options: &[ColumnOptionDef],
) -> Result<ColumnSpec> {
    check_name(name)?;
    let mut nullable = None;
    let mut default = None;
    let mut generated = None;
    for ColumnOptionDef { name: constraint, option } in options {
        // The key clauses of the table read these options: keys, conditions and sequences.
        if statement == CREATE_TABLE && (is_key_clause(option) || is_identity(option)) {
            continue;
        }
        if constraint.is_some() {
            return Err(unsupported(statement, &format!("the name of a constraint on column \"{name}\"")));
        }
        match option {
            ColumnOption::Null => once(&mut nullable, true, name, "NULL or NOT NULL")?,
            ColumnOption::NotNull => once(&mut nullable, false, name, "NULL or NOT NULL")?,
            ColumnOption::Default(expr) => {
                let text = default_value::check(work, expr, name, &kind)?;
                once(&mut default, text, name, "DEFAULT")?;
            }
            ColumnOption::Generated { generation_expr: Some(_), .. } => once(&mut generated, (), name, "GENERATED")?,
            // Texts are ordered by their bytes, which is what these names mean.
            ColumnOption::Collation(collation) if is_bytewise(collation) => {}
            other => {
                let clause = format!("{} on column \"{name}\"", option_name(other));
                let error = unsupported(statement, &clause);
                return Err(match other {
                    ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) => error.hint(KEY_HINT),
                    _ => error,
                });
            }
        }
    }
    let is_counted = options.iter().any(|option| is_identity(&option.option));
    if generated.is_some() && (default.is_some() || is_counted) {
        let what = format!("column \"{name}\" is generated, so it has no DEFAULT and no sequence");
        return Err(Error::new(ErrorKind::InvalidDefinition, what));
    }
    Ok(ColumnSpec { name: name.into(), kind, nullable: nullable.unwrap_or(true), default, missing: None })
}

/// Whether a collation is one of the names for an order by bytes.
fn is_bytewise(collation: &ObjectName) -> bool {
    let last = collation.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|name| matches!(name.value.as_str(), "c" | "posix" | "ucs_basic" | "binary"))
}

/// The advice for a key that cannot be declared at this place.
const KEY_HINT: &str = "CREATE TABLE declares keys, CREATE UNIQUE INDEX adds them to a table that has a primary key";

/// Fills `slot`. A second option of the same kind is an error, because it would contradict or repeat the first.
fn once<T>(slot: &mut Option<T>, value: T, column: &str, what: &str) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("{what} is written more than once on column \"{column}\""),
        )),
    }
}

/// Returns the name of a clause. The match is exhaustive, so that a new option of the parser does not compile until we
/// name it.
fn option_name(option: &ColumnOption) -> &'static str {
    match option {
        ColumnOption::Null => "NULL",
        ColumnOption::NotNull => "NOT NULL",
        ColumnOption::Default(_) => "DEFAULT",
        ColumnOption::Materialized(_) => "MATERIALIZED",
        ColumnOption::Ephemeral(_) => "EPHEMERAL",
        ColumnOption::Alias(_) => "ALIAS",
        ColumnOption::PrimaryKey(_) => "PRIMARY KEY",
        ColumnOption::Unique(_) => "UNIQUE",
        ColumnOption::ForeignKey(_) => "REFERENCES",
        ColumnOption::Check(_) => "CHECK",
        ColumnOption::DialectSpecific(_) => "an option of another database",
        ColumnOption::CharacterSet(_) => "CHARACTER SET",
        ColumnOption::Collation(_) => "COLLATE",
        ColumnOption::Comment(_) => "COMMENT",
        ColumnOption::OnUpdate(_) => "ON UPDATE",
        ColumnOption::Generated { .. } => "GENERATED",
        ColumnOption::Options(_) => "OPTIONS",
        ColumnOption::Identity(_) => "IDENTITY",
        ColumnOption::OnConflict(_) => "ON CONFLICT",
        ColumnOption::Policy(_) => "POLICY",
        ColumnOption::Tags(_) => "TAG",
        ColumnOption::Srid(_) => "SRID",
        ColumnOption::Invisible => "INVISIBLE",
    }
}

/// Refuses a name that no user could write or see. Names with control characters belong to the engine.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(ErrorKind::InvalidDefinition, "a name cannot be empty"));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("{name:?} cannot be a name: it holds control characters"),
        ));
    }
    Ok(())
}

/// Refuses columns whose names differ only by case, because every statement would take them for one column.
pub(super) fn check_distinct(columns: &[ColumnSpec]) -> Result<()> {
    check_names_distinct(columns.iter().map(|column| column.name.as_str()))
}

/// Refuses names that differ only by case, because every statement would take them for one column.
pub(super) fn check_names_distinct<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<()> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in names {
        let Some(first) = seen.insert(lower(name), name) else { continue };
        let message = if first == name {
            format!("there are two columns \"{name}\"")
        } else {
            format!("columns \"{first}\" and \"{name}\" differ only by case, and names are compared without case")
        };
        return Err(Error::new(ErrorKind::DuplicateColumn, message).hint("give one of them another name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Vec<ColumnSpec> {
        names.iter().map(|name| ColumnSpec::new(*name, SqlType::Int64)).collect()
    }

    #[test]
    fn names_that_differ_only_by_case_are_refused() {
        assert!(check_distinct(&columns(&["a", "b"])).is_ok());
        let error = check_distinct(&columns(&["a", "B", "A"])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateColumn);
        assert!(error.message().contains("\"a\" and \"A\" differ only by case"), "{error}");
        assert!(check_distinct(&columns(&["Ä", "ä"])).is_err());
    }

    #[test]
    fn names_that_cannot_be_seen_are_refused() {
        assert!(check_name("").is_err());
        assert!(check_name("a\u{1}b").is_err());
        assert!(check_name("a b").is_ok());
    }
}

//! `COMMENT ON`: comments on tables, views, their columns, sequences, types and macros.

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId, ViewId};
use rowmill_txn::{Catalog, Transaction};
use sqlparser::ast::{CommentObject, Ident, ObjectName, ObjectNamePart, Statement};

use super::clause::unsupported;
use super::relation::{self, NamedRelation, RelationKind};
use super::{macro_definition, type_definition};
use crate::names::{identifiers, qualified};
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "COMMENT";

/// The object that has a comment.
enum Commented {
    /// A table, a materialized view, a sequence, or a column of one.
    Table(TableId, Option<ColumnId>),
    View(ViewId),
    Macro(ViewId),
    Type(ViewId),
}

/// Runs a [`Statement::Comment`].
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Comment { object_type, object_name, comment, if_exists } = statement else {
        return Err(Error::internal("the dispatch hands COMMENT to comment"));
    };
    work.write(|work, transaction| {
        let found = match object(work, transaction.catalog(), object_type, object_name) {
            Err(error) if *if_exists && is_absent(&error) => {
                work.notice(error.message());
                return Ok(());
            }
            found => found?,
        };
        // PostgreSQL treats an empty comment as none.
        let comment = comment.clone().filter(|comment| !comment.is_empty());
        set(transaction, &found, comment)
    })?;
    Ok(Outcome::Done { tag: STATEMENT })
}

fn set(transaction: &mut Transaction, object: &Commented, comment: Option<String>) -> Result<()> {
    match object {
        Commented::Table(table, column) => transaction.set_comment(*table, *column, comment),
        Commented::View(view) => transaction.set_view_comment(*view, comment),
        Commented::Macro(id) => transaction.set_macro_comment(*id, comment),
        Commented::Type(id) => transaction.set_type_comment(*id, comment),
    }
}

/// Finds the object that the statement names.
fn object(work: &Work<'_>, catalog: &Catalog, kind: &CommentObject, name: &ObjectName) -> Result<Commented> {
    let spellings = work.statement.spellings();
    let relation = |kinds: &[RelationKind]| {
        let name = qualified(name, spellings)?;
        relation::schema(catalog, &name.schema)?;
        let found = relation::find(catalog, &name).ok_or_else(|| relation::unknown(catalog, &name, kinds))?;
        match &found {
            other if !kinds.contains(&other.kind()) => Err(relation::wrong_kind(other.name(), other.kind(), kinds[0])),
            NamedRelation::View(view) => Ok(Commented::View(view.id)),
            NamedRelation::Table(table) | NamedRelation::Materialized(table) | NamedRelation::Sequence(table) => {
                Ok(Commented::Table(table.id, None))
            }
        }
    };
    match kind {
        CommentObject::Table => relation(&[RelationKind::Table, RelationKind::Materialized]),
        CommentObject::View => relation(&[RelationKind::View, RelationKind::Materialized]),
        CommentObject::MaterializedView => relation(&[RelationKind::Materialized]),
        CommentObject::Sequence => relation(&[RelationKind::Sequence]),
        CommentObject::Column => {
            let (table, column) = column_of(name)?;
            match relation::relation(catalog, &qualified(&table, spellings)?)? {
                NamedRelation::Table(table) | NamedRelation::Materialized(table) => {
                    let column = relation::column(&table, work.statement.spell(column))?;
                    Ok(Commented::Table(table.id, Some(table.columns[column].id)))
                }
                other => Err(unsupported(STATEMENT, &format!("on a column of a {}", other.kind().name()))
                    .hint("COMMENT ON VIEW gives the view itself a comment")),
            }
        }
        CommentObject::Function => {
            let name = macro_name(name)?;
            let found = catalog.macro_named(name).ok_or_else(|| macro_definition::unknown(catalog, name))?;
            Ok(Commented::Macro(found.id))
        }
        CommentObject::Type => {
            let name = &type_definition::type_name(name)?.value;
            let found = catalog.type_named(name).ok_or_else(|| type_definition::unknown(catalog, name))?;
            Ok(Commented::Type(found.id))
        }
        other => {
            let error = unsupported(STATEMENT, &format!("ON {other}"));
            Err(error.hint("tables, views, their columns, sequences, types and macros can have comments"))
        }
    }
}

/// Whether the error says that the object does not exist. `IF EXISTS` excuses nothing else.
fn is_absent(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UndefinedTable
            | ErrorKind::UndefinedSchema
            | ErrorKind::UndefinedColumn
            | ErrorKind::UndefinedFunction
            | ErrorKind::UndefinedObject
    )
}

/// Returns the name of a macro, for example `main.f`.
fn macro_name(name: &ObjectName) -> Result<&str> {
    match identifiers(name)?.as_slice() {
        [name] => Ok(&name.value),
        [schema, name] if schema.value == crate::names::DEFAULT_SCHEMA => Ok(&name.value),
        _ => Err(Error::new(ErrorKind::UndefinedObject, format!("\"{name}\" is not the name of a macro"))
            .hint("macros belong to no schema")),
    }
}

/// Takes the name of a column apart: its table, and the column itself.
fn column_of(name: &ObjectName) -> Result<(ObjectName, &Ident)> {
    match name.0.as_slice() {
        [table @ .., ObjectNamePart::Identifier(column)] if !table.is_empty() => {
            Ok((ObjectName(table.to_vec()), column))
        }
        _ => Err(Error::new(ErrorKind::Syntax, format!("\"{name}\" is not the name of a column"))
            .hint("write the table before it: table.column")),
    }
}

//! `COMMENT ON TABLE` and `COMMENT ON COLUMN`.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{CommentObject, Ident, ObjectName, ObjectNamePart, Statement};

use super::clause::{refuse, unsupported};
use super::relation::{self, NamedRelation};
use crate::names::qualified;
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "COMMENT";

/// Runs a [`Statement::Comment`].
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Comment { object_type, object_name, comment, if_exists } = statement else {
        return Err(Error::internal("the dispatch hands COMMENT to comment"));
    };
    refuse(STATEMENT, [(*if_exists, "IF EXISTS")])?;
    let (table, column) = match object_type {
        CommentObject::Table | CommentObject::MaterializedView => (object_name.clone(), None),
        CommentObject::Column => {
            let (table, column) = column_of(object_name)?;
            (table, Some(column))
        }
        other => {
            let error = unsupported(STATEMENT, &format!("ON {other}"));
            return Err(error.hint("tables, materialized views and their columns can have comments"));
        }
    };
    let name = qualified(&table, work.statement.spellings())?;
    work.write(|work, transaction| {
        let table = match relation::relation(transaction.catalog(), &name)? {
            NamedRelation::Table(table) | NamedRelation::Materialized(table) => table,
            other => return Err(unsupported(STATEMENT, &format!("on a {}", other.kind().name()))),
        };
        let column = match column {
            Some(column) => Some(table.columns[relation::column(&table, work.statement.spell(column))?].id),
            None => None,
        };
        // PostgreSQL treats an empty comment as none.
        let comment = comment.clone().filter(|comment| !comment.is_empty());
        transaction.set_comment(table.id, column, comment)
    })?;
    Ok(Outcome::Done { tag: STATEMENT })
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

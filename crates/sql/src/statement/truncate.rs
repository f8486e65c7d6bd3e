//! `TRUNCATE`: removes all rows of one or several tables without looking for them.

use rowmill_base::{ErrorKind, Result};
use sqlparser::ast::{CascadeOption, Truncate, TruncateIdentityOption, TruncateTableTarget};

use super::clause::refuse;
use super::relation;
use crate::names::qualified;
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "TRUNCATE";

pub(crate) fn run(work: &mut Work<'_>, truncate: &Truncate) -> Result<Outcome> {
    let Truncate { table_names, partitions, table: _, if_exists, identity, cascade, on_cluster } = truncate;
    // RESTRICT and CONTINUE IDENTITY are the defaults and the only forms that we execute.
    let clauses = [
        (partitions.is_some(), "PARTITION"),
        (matches!(identity, Some(TruncateIdentityOption::Restart)), "RESTART IDENTITY"),
        (matches!(cascade, Some(CascadeOption::Cascade)), "CASCADE"),
        (on_cluster.is_some(), "ON CLUSTER"),
    ];
    refuse(STATEMENT, clauses)?;
    let rows = work.write(|work, transaction| {
        let mut rows = 0;
        for TruncateTableTarget { name, only, has_asterisk } in table_names {
            refuse(STATEMENT, [(*only, "ONLY"), (*has_asterisk, "*")])?;
            let name = qualified(name, work.statement.spellings())?;
            match relation::table(transaction.view()?.catalog(), &name) {
                Ok(table) => rows += transaction.truncate(table.id)?,
                Err(error) if *if_exists && error.kind() == ErrorKind::UndefinedTable => work.notice(error.message()),
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    })?;
    Ok(Outcome::Changed { tag: STATEMENT, rows })
}

//! `TRUNCATE`: removes all rows of one or several tables without looking for them.

use std::sync::Arc;

use rowmill_base::{ErrorKind, Result};
use rowmill_storage::TableDef;
use rowmill_txn::Transaction;
use sqlparser::ast::{CascadeOption, Truncate, TruncateIdentityOption, TruncateTableTarget};

use super::clause::refuse;
use super::relation;
use crate::names::qualified;
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "TRUNCATE";

pub(crate) fn run(work: &mut Work<'_>, truncate: &Truncate) -> Result<Outcome> {
    let Truncate { table_names, partitions, table: _, if_exists, identity, cascade, on_cluster } = truncate;
    // RESTRICT is the default and the only form that we execute.
    let clauses = [
        (partitions.is_some(), "PARTITION"),
        (matches!(cascade, Some(CascadeOption::Cascade)), "CASCADE"),
        (on_cluster.is_some(), "ON CLUSTER"),
    ];
    refuse(STATEMENT, clauses)?;
    let rows = work.write(|work, transaction| {
        let mut tables: Vec<Arc<TableDef>> = Vec::new();
        for TruncateTableTarget { name, only, has_asterisk } in table_names {
            refuse(STATEMENT, [(*only, "ONLY"), (*has_asterisk, "*")])?;
            let name = qualified(name, work.statement.spellings())?;
            match relation::table(transaction.view()?.catalog(), &name) {
                Ok(table) => tables.push(table),
                Err(error) if *if_exists && error.kind() == ErrorKind::UndefinedTable => work.notice(error.message()),
                Err(error) => return Err(error),
            }
        }
        if matches!(identity, Some(TruncateIdentityOption::Restart)) {
            tables.iter().try_for_each(|table| restart_sequences(transaction, table))?;
        }
        let mut rows = 0;
        while let Some(table) = next_table(&mut tables) {
            rows += transaction.truncate(table.id)?;
        }
        Ok(rows)
    })?;
    Ok(Outcome::Changed { tag: STATEMENT, rows })
}

/// Lets the sequences of a table's columns begin again.
fn restart_sequences(transaction: &mut Transaction, table: &TableDef) -> Result<()> {
    let view = transaction.view()?;
    for identity in &table.rules.identities {
        let sequence = view.catalog().table_by_id(identity.sequence).and_then(|sequence| sequence.keyed.as_ref());
        if let Some(def) = sequence.and_then(|keyed| keyed.sequence) {
            transaction.alter_sequence(identity.sequence, def, Some(def.start))?;
        }
    }
    Ok(())
}

/// Takes a table to which no other one of the list refers, because a table can be emptied only after those that refer
/// to it. In a circle of references, takes any.
fn next_table(tables: &mut Vec<Arc<TableDef>>) -> Option<Arc<TableDef>> {
    let is_parent = |table: &TableDef| {
        let referrers = table.keyed.iter().flat_map(|keyed| &keyed.referrers);
        referrers
            .filter(|referrer| referrer.table != table.id)
            .any(|referrer| tables.iter().any(|other| other.id == referrer.table))
    };
    let at = tables.iter().position(|table| !is_parent(table)).unwrap_or(0);
    (!tables.is_empty()).then(|| tables.remove(at))
}

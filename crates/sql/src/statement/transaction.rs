//! `BEGIN`, `COMMIT`, `ROLLBACK` and savepoints.
//!
//! A transaction reads one snapshot from beginning to end and fails at `COMMIT` when another one changed the same rows
//! first. That is snapshot isolation: it keeps every promise of READ COMMITTED and REPEATABLE READ, so those may be
//! asked for, and not those of SERIALIZABLE, which is refused.

use datafusion::sql::sqlparser::ast::{Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use rowmill_base::{Error, Result};

use super::clause::{refuse, unsupported};
use crate::outcome::Outcome;
use crate::session::Work;

/// Runs `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT` and `RELEASE`.
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let tag = match statement {
        Statement::StartTransaction {
            modes,
            begin: _,
            transaction: _,
            modifier,
            statements,
            exception,
            has_end_keyword: _,
        } => {
            let block = !statements.is_empty() || exception.is_some();
            refuse("BEGIN", [(modifier.is_some(), "a modifier"), (block, "a block of statements")])?;
            work.session.begin(access_mode(modes)? == TransactionAccessMode::ReadOnly)?;
            "BEGIN"
        }
        Statement::Commit { chain, end: _, modifier } => {
            refuse("COMMIT", [(*chain, "AND CHAIN"), (modifier.is_some(), "a modifier")])?;
            work.commit()?;
            "COMMIT"
        }
        Statement::Rollback { chain, savepoint: None } => {
            refuse("ROLLBACK", [(*chain, "AND CHAIN")])?;
            work.session.rollback()?;
            "ROLLBACK"
        }
        Statement::Rollback { chain, savepoint: Some(name) } => {
            refuse("ROLLBACK", [(*chain, "AND CHAIN")])?;
            work.open_transaction("ROLLBACK TO")?.rollback_to(&name.value)?;
            "ROLLBACK"
        }
        Statement::Savepoint { name } => {
            work.open_transaction("SAVEPOINT")?.set_savepoint(&name.value);
            "SAVEPOINT"
        }
        Statement::ReleaseSavepoint { name } => {
            work.open_transaction("RELEASE")?.release(&name.value)?;
            "RELEASE"
        }
        other => return Err(Error::internal(format!("the dispatch hands transaction statements over, not {other}"))),
    };
    Ok(Outcome::Done { tag })
}

fn access_mode(modes: &[TransactionMode]) -> Result<TransactionAccessMode> {
    let mut access = TransactionAccessMode::ReadWrite;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => access = *mode,
            TransactionMode::IsolationLevel(
                TransactionIsolationLevel::ReadUncommitted
                | TransactionIsolationLevel::ReadCommitted
                | TransactionIsolationLevel::RepeatableRead
                | TransactionIsolationLevel::Snapshot,
            ) => {}
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(unsupported("BEGIN", "ISOLATION LEVEL SERIALIZABLE")
                    .hint("transactions have snapshot isolation, which is REPEATABLE READ or stronger"));
            }
        }
    }
    Ok(access)
}

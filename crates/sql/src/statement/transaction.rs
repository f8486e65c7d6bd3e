//! `BEGIN`, `COMMIT`, `ROLLBACK` and savepoints.
//!
//! At REPEATABLE READ, a transaction reads one snapshot from its begin to its end, and `COMMIT` fails if another
//! transaction changed the same rows first. At READ COMMITTED, each statement reads its own snapshot. At SERIALIZABLE,
//! the commit also fails if another transaction changed rows that were read.

use rowmill_base::{Error, ErrorKind, Isolation, Result};
use sqlparser::ast::{Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};

use super::clause::{refuse, unsupported};
use crate::outcome::Outcome;
use crate::session::{Characteristics, Work};

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
            let characteristics = characteristics(work, modes);
            work.session.begin_with(characteristics)?;
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
            work.session.rollback_to(&name.value)?;
            "ROLLBACK"
        }
        Statement::Savepoint { name } => {
            work.session.set_savepoint(&name.value)?;
            "SAVEPOINT"
        }
        Statement::ReleaseSavepoint { name } => {
            work.session.release(&name.value)?;
            "RELEASE"
        }
        other => return Err(Error::internal(format!("the dispatch hands transaction statements over, not {other}"))),
    };
    Ok(Outcome::Done { tag })
}

/// Runs `SET TRANSACTION`, which must precede the first statement, and `SET SESSION CHARACTERISTICS AS TRANSACTION`.
pub(crate) fn set_modes(work: &mut Work<'_>, modes: &[TransactionMode], session: bool) -> Result<()> {
    let characteristics = characteristics(work, modes);
    if session {
        if characteristics.read_only {
            return Err(unsupported("SET SESSION CHARACTERISTICS", "READ ONLY"));
        }
        return work.set("default_transaction_isolation", characteristics.isolation.name());
    }
    let (waits, connection) = (work.settings().flag("wait_for_rows"), work.session.connection_number());
    let open = work.open_transaction("SET TRANSACTION")?;
    // A statement has already chosen its snapshot by the old isolation level.
    if open.is_used {
        return Err(Error::new(ErrorKind::ActiveTransaction, "SET TRANSACTION comes after another statement")
            .hint("SET TRANSACTION must be the first statement after BEGIN"));
    }
    // SET TRANSACTION READ ONLY keeps the level that BEGIN has given.
    if modes.iter().any(|mode| matches!(mode, TransactionMode::IsolationLevel(_))) {
        open.set_isolation(characteristics.isolation);
        if waits {
            open.settled()?.wait_for_rows(None, connection);
        }
    }
    if modes.iter().any(|mode| matches!(mode, TransactionMode::AccessMode(_))) {
        open.read_only = characteristics.read_only;
    }
    Ok(())
}

fn characteristics(work: &Work<'_>, modes: &[TransactionMode]) -> Characteristics {
    let mut characteristics = Characteristics { isolation: work.settings().isolation(), read_only: false };
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => characteristics.read_only = *mode == TransactionAccessMode::ReadOnly,
            TransactionMode::IsolationLevel(level) => {
                characteristics.isolation = match level {
                    // No transaction ever sees uncommitted rows, so the weakest level is READ COMMITTED.
                    TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
                        Isolation::ReadCommitted
                    }
                    TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => {
                        Isolation::Snapshot
                    }
                    TransactionIsolationLevel::Serializable => Isolation::Serializable,
                };
            }
        }
    }
    characteristics
}

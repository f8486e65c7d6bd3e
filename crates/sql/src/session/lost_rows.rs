//! Statements that run again after another transaction was first to write one of their rows.
//!
//! Only connections with the setting `wait_for_rows` do this, at READ COMMITTED. The transaction claims the rows of a
//! statement when the statement has run ([`Transaction::claim_rows`]). If another one has a claim, the statement is
//! undone, waits for that transaction to end, and runs again over a newer snapshot.

use std::sync::Arc;

use rowmill_base::{Error, Isolation, Result, Settings};
use rowmill_txn::{Engine, KeyedMark, LostRow, RowClaimant, Transaction};

use super::Session;
use crate::open_connections::WaitReason;

/// The row that the last statement has lost.
#[derive(Debug, Default)]
pub(super) struct LostRows {
    row: Option<LostRow>,
    /// The claims of a statement outside of a transaction, for its next run.
    claimant: Option<RowClaimant>,
    /// The number of the connection, for the list of claims.
    connection: Option<u64>,
}

/// Begins a transaction that waits for rows if the settings say so.
pub(super) fn begin(
    engine: &Arc<Engine>,
    settings: &Settings,
    isolation: Isolation,
    claimant: Option<RowClaimant>,
    connection: Option<u64>,
) -> Result<Transaction> {
    let mut transaction = engine.begin()?;
    transaction.set_isolation(isolation);
    // Only READ COMMITTED waits, so that other levels need not look up the setting.
    if isolation == Isolation::ReadCommitted && settings.flag("wait_for_rows") {
        transaction.wait_for_rows(claimant, connection);
    }
    Ok(transaction)
}

impl LostRows {
    pub(super) fn set_connection(&mut self, number: Option<u64>) {
        self.connection = number;
    }

    /// Begins the transaction of a statement outside of a transaction, with the claims of its last run.
    pub(super) fn begin_own(&mut self, engine: &Arc<Engine>, settings: &Settings) -> Result<Transaction> {
        begin(engine, settings, settings.isolation(), self.claimant.take(), self.connection)
    }

    /// Notes the row for which the statement must wait. Returns the error of the statement, which must be
    /// undone.
    pub(super) fn lose(&mut self, lost: LostRow) -> Error {
        self.row = Some(lost);
        lost.error()
    }

    /// Claims the rows of a statement that began at `mark`. After an error the statement must be undone.
    pub(super) fn keep_rows(&mut self, transaction: &mut Transaction, mark: KeyedMark) -> Result<()> {
        match transaction.claim_rows(mark)? {
            None => Ok(()),
            Some(lost) => Err(self.lose(lost)),
        }
    }
}

impl Session {
    /// Runs a statement until it has all of its rows.
    #[inline]
    pub(super) fn until_rows_are_kept<T>(&mut self, mut run: impl FnMut(&mut Session) -> Result<T>) -> Result<T> {
        let mut before = None;
        loop {
            let result = run(self);
            match self.lost_row.row.take() {
                // The snapshot did not move on: the transaction has lost another row to one that claims none.
                Some(lost) if result.is_err() && before != Some(lost) => {
                    self.wait_for(lost)?;
                    before = Some(lost).filter(|lost| matches!(lost, LostRow::Written(_)));
                }
                _ => {
                    self.lost_row.claimant = None;
                    return result;
                }
            }
        }
    }

    fn wait_for(&mut self, lost: LostRow) -> Result<()> {
        let listed = self.listed.as_ref().map(|listed| Arc::clone(listed.connection()));
        match listed {
            Some(connection) => connection.waiting(WaitReason::Row, || self.wait_for_turn(lost)),
            None => self.wait_for_turn(lost),
        }
    }

    fn wait_for_turn(&mut self, lost: LostRow) -> Result<()> {
        let cancel = self.running.lock().clone();
        match &mut self.transaction {
            Some(open) => open.settled()?.wait_for(lost, &cancel),
            None => {
                let LostRow::Claimed(key) = lost else { return Ok(()) };
                let connection = self.client.connection;
                let claimant = self.lost_row.claimant.get_or_insert_with(|| self.engine.row_claimant(connection));
                claimant.wait(key, &cancel)
            }
        }
    }
}

//! Transactions as PostgreSQL's clients expect them.
//!
//! ```text
//!            several statements              BEGIN
//!   Idle ─────────────────────────► Implicit ─────► Open ──a statement fails──► Failed
//!     ▲                                │              │ ▲                          │
//!     └──── end of the text, Sync ─────┘              │ └────── ROLLBACK TO ───────┤
//!     └───────────────── COMMIT, ROLLBACK ────────────┴────────────────────────────┘
//! ```
//!
//! The engine undoes only the statement that fails and lets the transaction go on. PostgreSQL's clients rely on more:
//! after an error every statement is refused until the transaction ends, and COMMIT then rolls back. So the server
//! keeps a state of its own on top of the engine's. The statements of one text, or of the messages up to a Sync, are
//! one transaction too, without BEGIN.

use std::borrow::Cow;

use pgwire::messages::response::TransactionStatus;
use rowmill::{Connection, Outcome, Result, TransactionState};

use crate::sql_words::words;
use crate::wire_error::{FAILED_TRANSACTION, StepResult, WireError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    /// No transaction is open.
    Idle,
    /// The server has begun a transaction that ends with the text or with Sync.
    Implicit,
    /// The client has begun a transaction.
    Open,
    /// A statement of the client's transaction has failed.
    Failed,
}

/// The transaction of a session.
#[derive(Debug)]
pub(crate) struct TransactionBlock {
    state: BlockState,
}

/// The answer to a statement that begins or ends a transaction.
pub(crate) struct ControlAnswer {
    pub(crate) outcome: Outcome,
    /// A warning, with its SQLSTATE.
    pub(crate) warning: Option<(&'static str, &'static str)>,
}

impl ControlAnswer {
    fn done(tag: &'static str) -> ControlAnswer {
        ControlAnswer { outcome: Outcome::Done { tag }, warning: None }
    }

    fn warned(tag: &'static str, sqlstate: &'static str, message: &'static str) -> ControlAnswer {
        ControlAnswer { outcome: Outcome::Done { tag }, warning: Some((sqlstate, message)) }
    }
}

impl TransactionBlock {
    pub(crate) fn new() -> TransactionBlock {
        TransactionBlock { state: BlockState::Idle }
    }

    /// The state as `ReadyForQuery` reports it.
    pub(crate) fn status(&self) -> TransactionStatus {
        match self.state {
            BlockState::Idle | BlockState::Implicit => TransactionStatus::Idle,
            BlockState::Open => TransactionStatus::Transaction,
            BlockState::Failed => TransactionStatus::Error,
        }
    }

    /// Whether no transaction is open, not even one that the server has begun.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == BlockState::Idle
    }

    /// Refuses a statement whose first word is `word` if only the end of the transaction is allowed.
    pub(crate) fn check_allowed(&self, word: &str) -> Result<(), WireError> {
        let is_end = matches!(word, "COMMIT" | "END" | "ROLLBACK" | "ABORT");
        if self.state != BlockState::Failed || is_end {
            return Ok(());
        }
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Err(WireError::new(FAILED_TRANSACTION, message).hint("ROLLBACK ends the transaction"))
    }

    /// Begins a transaction for several statements that are not between BEGIN and COMMIT.
    pub(crate) fn begin_implicit(&mut self, connection: &mut Connection, reads_only: bool) -> Result<()> {
        if self.state == BlockState::Idle {
            connection.begin(reads_only)?;
            self.state = BlockState::Implicit;
        }
        Ok(())
    }

    /// Commits the transaction that the server has begun, if there is one.
    pub(crate) fn end_implicit(&mut self, connection: &mut Connection) -> Result<()> {
        if self.state != BlockState::Implicit {
            return Ok(());
        }
        self.state = BlockState::Idle;
        connection.commit()
    }

    /// Notes that a statement has failed.
    pub(crate) fn fail(&mut self, connection: &mut Connection) {
        self.settle(connection);
        match self.state {
            BlockState::Implicit => self.abandon(connection),
            BlockState::Open => self.state = BlockState::Failed,
            BlockState::Idle | BlockState::Failed => {}
        }
    }

    /// Rolls back whatever is open.
    pub(crate) fn abandon(&mut self, connection: &mut Connection) {
        self.state = BlockState::Idle;
        if connection.transaction_state() != TransactionState::Idle {
            // Rolling back only fails without a transaction.
            let _ = connection.rollback();
        }
    }

    /// Notes what a statement has done to the transaction: one that failed to commit is gone.
    fn settle(&mut self, connection: &Connection) {
        if connection.transaction_state() == TransactionState::Idle {
            self.state = BlockState::Idle;
        }
    }

    /// Runs a statement that begins or ends a transaction. `None` if `word`, the first word of `sql`, begins another
    /// statement.
    pub(crate) fn run_control(
        &mut self,
        word: &str,
        sql: &str,
        reads_only: bool,
        connection: &mut Connection,
    ) -> StepResult<Option<ControlAnswer>> {
        Ok(Some(match word {
            "BEGIN" | "START" => self.begin(sql, reads_only, connection)?,
            "COMMIT" | "END" if !has_word(sql, &["CHAIN", "PREPARED"]) => self.commit(connection)?,
            "ROLLBACK" | "ABORT" if has_word(sql, &["TO"]) => {
                let outcome = run_engine(sql, connection)?;
                self.state = BlockState::Open;
                ControlAnswer { outcome, warning: None }
            }
            "ROLLBACK" | "ABORT" if !has_word(sql, &["CHAIN", "PREPARED"]) => {
                let was_open = matches!(self.state, BlockState::Open | BlockState::Failed);
                self.abandon(connection);
                match was_open {
                    true => ControlAnswer::done("ROLLBACK"),
                    false => ControlAnswer::warned("ROLLBACK", "25P01", "there is no transaction in progress"),
                }
            }
            _ => return Ok(None),
        }))
    }

    fn begin(&mut self, sql: &str, reads_only: bool, connection: &mut Connection) -> StepResult<ControlAnswer> {
        match self.state {
            BlockState::Idle => {
                run_engine(&without_deferrable(sql), connection)?;
                if reads_only && !has_word(sql, &["READ"]) {
                    run_engine("SET TRANSACTION READ ONLY", connection)?;
                }
                self.state = BlockState::Open;
                Ok(ControlAnswer::done("BEGIN"))
            }
            // The statements before BEGIN belong to the transaction, as in PostgreSQL.
            BlockState::Implicit => {
                self.state = BlockState::Open;
                Ok(ControlAnswer::done("BEGIN"))
            }
            BlockState::Open | BlockState::Failed => {
                Ok(ControlAnswer::warned("BEGIN", "25001", "there is already a transaction in progress"))
            }
        }
    }

    fn commit(&mut self, connection: &mut Connection) -> StepResult<ControlAnswer> {
        match self.state {
            BlockState::Failed => {
                self.abandon(connection);
                Ok(ControlAnswer::done("ROLLBACK"))
            }
            BlockState::Open => {
                // The transaction is over even if it cannot be committed.
                self.state = BlockState::Idle;
                connection.commit()?;
                Ok(ControlAnswer::done("COMMIT"))
            }
            BlockState::Implicit | BlockState::Idle => {
                self.end_implicit(connection)?;
                Ok(ControlAnswer::warned("COMMIT", "25P01", "there is no transaction in progress"))
            }
        }
    }
}

fn run_engine(sql: &str, connection: &mut Connection) -> StepResult<Outcome> {
    connection.run_one(sql, &[]).map_err(|error| WireError::in_text(&error, sql, 0).into())
}

/// Takes `[NOT] DEFERRABLE` out of a statement. A transaction here never waits for a safe snapshot, so both forms mean
/// the same.
fn without_deferrable(sql: &str) -> Cow<'_, str> {
    if !has_word(sql, &["DEFERRABLE"]) {
        return Cow::Borrowed(sql);
    }
    let mut kept: Vec<&str> = Vec::new();
    for word in words(sql) {
        if word.text.eq_ignore_ascii_case("deferrable") {
            kept.pop_if(|before| before.eq_ignore_ascii_case("not"));
            kept.pop_if(|before| *before == ",");
        } else {
            kept.push(word.text);
        }
    }
    Cow::Owned(kept.join(" "))
}

fn has_word(sql: &str, wanted: &[&str]) -> bool {
    words(sql).any(|word| wanted.iter().any(|wanted| word.text.eq_ignore_ascii_case(wanted)))
}

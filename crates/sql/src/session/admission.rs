//! Admission of statements: a server decides how many statements the engine runs at a time.
//!
//! Statements that run as programs are short and need no admission. The permit of a statement lives as long as its
//! result, because a result is computed while it is read.

use std::sync::Arc;

use rowmill_base::Result;

use super::{CancelHandle, Session};
use crate::open_connections::WaitReason;
use crate::outcome::{Outcome, RowStream};
use crate::parse::{Statement, StatementBody};

/// What a statement holds while it runs. Dropping it lets another statement run.
pub type AdmissionGuard = Box<dyn Send + Sync>;

/// Decides when the engine may run a statement.
pub trait Admission: Send + Sync {
    /// Waits until a statement may run. Returns an error if `cancel` cancels the statement during the wait, or if too
    /// many statements wait.
    fn enter(&self, cancel: &CancelHandle) -> Result<AdmissionGuard>;
}

impl Session {
    /// Lets `admission` decide when the engine runs the statements of this session.
    pub fn set_admission(&mut self, admission: Option<Arc<dyn Admission>>) {
        self.admission = admission;
    }

    /// Waits until `statement` may run. The statement must have begun, so that it can be cancelled while it waits.
    pub(super) fn admit(&mut self, statement: &Statement) -> Result<Option<Arc<AdmissionGuard>>> {
        let Some(admission) = &self.admission else { return Ok(None) };
        let is_work = statement.is_repeated() || matches!(statement.body(), StatementBody::Copy(_));
        if !is_work {
            return Ok(None);
        }
        // A session has one permit at most. Otherwise, sessions with open results could wait for each other.
        if let Some(held) = self.permit.upgrade() {
            return Ok(Some(held));
        }
        let enter = || admission.enter(&self.cancel_handle());
        let permit = match &self.listed {
            Some(listed) => listed.connection().waiting(WaitReason::Turn, enter),
            None => enter(),
        };
        let permit = Arc::new(permit?);
        self.permit = Arc::downgrade(&permit);
        Ok(Some(permit))
    }
}

/// Keeps a permit until the rows of an outcome are read.
pub(super) fn holding(outcome: Outcome, permit: Option<Arc<AdmissionGuard>>) -> Outcome {
    match (outcome, permit) {
        (Outcome::Rows(rows), Some(permit)) => {
            let schema = rows.schema();
            let rows = rows.inspect(move |_| {
                // The closure owns the permit.
                let _ = &permit;
            });
            Outcome::Rows(RowStream::new(schema, rows))
        }
        (outcome, _) => outcome,
    }
}

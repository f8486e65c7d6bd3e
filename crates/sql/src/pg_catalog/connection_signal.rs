//! `pg_cancel_backend(pid)` and `pg_terminate_backend(pid)`: end the statement of another connection, or the
//! connection.
//!
//! A role may do so with connections of its own and of the roles that it is a member of, a superuser with all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{DynamicFunction, Volatility};

use super::connections::may_manage;
use crate::catalog::StatementContext;

/// One of the two functions.
pub(super) struct ConnectionSignal {
    context: Arc<StatementContext>,
    ends_connection: bool,
}

impl ConnectionSignal {
    /// Returns the function with this name and number of arguments.
    pub(super) fn of(context: &Arc<StatementContext>, name: &str, arguments: usize) -> Option<ConnectionSignal> {
        let ends_connection = match (name, arguments) {
            ("pg_cancel_backend", 1) => false,
            ("pg_terminate_backend", 1) => true,
            _ => return None,
        };
        Some(ConnectionSignal { context: Arc::clone(context), ends_connection })
    }

    /// Sends the signal. Returns `false` if there is no connection with this number.
    fn send(&self, number: i64) -> Result<bool> {
        let connection = u64::try_from(number).ok().and_then(|number| self.context.connections.find(number));
        let Some(connection) = connection else {
            self.context.notices.lock().push(format!("no connection has the number {number}"));
            return Ok(false);
        };
        if !may_manage(&self.context, &connection) {
            let what = format!("{}({number}): the connection belongs to another role", self.name());
            return Err(Error::new(ErrorKind::InsufficientPrivilege, what)
                .hint("a superuser, or a member of that role, may do this"));
        }
        match self.ends_connection {
            true => connection.end(),
            false => connection.cancel(),
        }
        Ok(true)
    }
}

impl std::fmt::Debug for ConnectionSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl DynamicFunction for ConnectionSignal {
    fn name(&self) -> &str {
        if self.ends_connection { "pg_terminate_backend" } else { "pg_cancel_backend" }
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let refused = |error| Error::new(ErrorKind::UndefinedFunction, format!("{}: {error}", self.name()));
        let numbers = cast(&arguments[0], &DataType::Int64).map_err(refused)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let sent = (0..rows).map(|row| numbers.is_valid(row).then(|| self.send(numbers.value(row))).transpose());
        Ok(Arc::new(sent.collect::<Result<BooleanArray>>()?))
    }
}

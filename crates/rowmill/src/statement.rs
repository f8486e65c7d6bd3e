//! Prepared statements.

use rowmill_base::Result;
use rowmill_sql::{Outcome, ScalarValue};

use crate::connection::count;
use crate::{Connection, Rows, Value};

/// A parsed statement, which any connection of the database may run.
#[derive(Clone, Debug)]
pub struct Statement {
    parsed: rowmill_sql::Statement,
}

impl Statement {
    pub(crate) fn new(parsed: rowmill_sql::Statement) -> Self {
        Statement { parsed }
    }

    /// The text of the statement.
    pub fn text(&self) -> &str {
        self.parsed.text()
    }

    /// How many parameters (`$1` or `?`) it takes.
    pub fn parameter_count(&self) -> usize {
        self.parsed.parameter_count()
    }

    /// Runs it with values for its parameters.
    pub fn run(&self, connection: &mut Connection, params: &[Value]) -> Result<Outcome> {
        let params: Vec<ScalarValue> = params.iter().map(Value::to_scalar).collect();
        connection.session().run(&self.parsed, &params)
    }

    /// Runs it and gives its rows.
    pub fn query(&self, connection: &mut Connection, params: &[Value]) -> Result<Rows> {
        Rows::of(self.run(connection, params)?)
    }

    /// Runs it and tells how many rows it changed.
    pub fn execute(&self, connection: &mut Connection, params: &[Value]) -> Result<u64> {
        count(self.run(connection, params)?)
    }
}

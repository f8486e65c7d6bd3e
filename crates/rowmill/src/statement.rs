//! Prepared statements.

use rowmill_base::Result;
use rowmill_sql::Outcome;

use crate::connection::count;
use crate::{Answer, Connection, Param, Rows, Value};

/// A parsed statement. Any connection of the database can run it.
#[derive(Clone, Debug)]
pub struct Statement {
    parsed: rowmill_sql::Statement,
}

impl Statement {
    pub(crate) fn new(parsed: rowmill_sql::Statement) -> Self {
        Statement { parsed }
    }

    pub(crate) fn parsed(&self) -> &rowmill_sql::Statement {
        &self.parsed
    }

    /// The SQL text of the statement.
    pub fn text(&self) -> &str {
        self.parsed.text()
    }

    /// The number of parameters (`$1`, `?1` or `?`).
    pub fn parameter_count(&self) -> usize {
        self.parsed.parameter_count()
    }

    /// Runs the statement with values for its parameters.
    pub fn run(&self, connection: &mut Connection, params: &[Value]) -> Result<Outcome> {
        let params: Vec<Param<'_>> = params.iter().map(Param::from).collect();
        self.run_with(connection, &params)
    }

    /// Runs the statement with borrowed values for its parameters.
    pub fn run_with(&self, connection: &mut Connection, params: &[Param<'_>]) -> Result<Outcome> {
        Ok(connection.session().run(&self.parsed, params)?.outside())
    }

    /// Runs the statement with borrowed values for its parameters, and returns rows that are read in place. This is the
    /// fastest way for statements that read or change few rows of tables with a primary key.
    ///
    /// ```
    /// # use rowmill::{Database, Param, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT)")?;
    /// let add = connection.prepare("INSERT INTO stock VALUES (?, ?)")?;
    /// add.ask(&mut connection, &[Param::Text("bolt"), Param::Integer(200)])?;
    ///
    /// let find = connection.prepare("SELECT pieces FROM stock WHERE item = ?")?;
    /// let answer = find.ask(&mut connection, &[Param::Text("bolt")])?;
    /// assert_eq!((answer.len(), answer.integer(0, 0)?), (1, 200));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ask<'c>(&self, connection: &'c mut Connection, params: &[Param<'_>]) -> Result<Answer<'c>> {
        let session = connection.session();
        let changed = session.ask(&self.parsed, params)?;
        Ok(Answer::new(session.rows(), changed))
    }

    /// Runs the statement and returns its rows.
    pub fn query(&self, connection: &mut Connection, params: &[Value]) -> Result<Rows> {
        Rows::of(self.run(connection, params)?)
    }

    /// Runs the statement and returns the number of rows that it changed.
    pub fn execute(&self, connection: &mut Connection, params: &[Value]) -> Result<u64> {
        count(self.run(connection, params)?)
    }
}

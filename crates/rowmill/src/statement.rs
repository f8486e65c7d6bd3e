//! Prepared statements.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Result, SqlType};
use rowmill_sql::{Outcome, PlacedOutcome, PreparedStatement};

use crate::connection::{count, no_row};
use crate::params::with_values;
use crate::rows::MappedRows;
use crate::{Answer, Connection, Param, Params, PlacedAnswer, Row, Rows, Value};

/// A prepared statement. Any connection of the database can run it. Clones share it.
#[derive(Clone, Debug)]
pub struct Statement(Arc<Prepared>);

/// The facts of a statement.
#[derive(Debug)]
struct Prepared {
    parsed: rowmill_sql::Statement,
    parameters: Vec<ParameterInfo>,
    schema: Option<SchemaRef>,
}

/// A parameter of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterInfo {
    /// Its name, without the colon, if it has one.
    pub name: Option<String>,
    /// The type that the statement gives it; `None` if it takes the type of its value.
    pub kind: Option<SqlType>,
}

impl Statement {
    /// A statement that was parsed but not bound: its columns and the types of its parameters are not known yet.
    pub(crate) fn parsed_only(parsed: rowmill_sql::Statement) -> Self {
        Statement::with_kinds(parsed, &[], None)
    }

    pub(crate) fn new(prepared: &PreparedStatement) -> Self {
        let kinds: Vec<Option<SqlType>> =
            prepared.parameter_types().iter().map(|kind| kind.as_ref().and_then(SqlType::from_arrow)).collect();
        Statement::with_kinds(prepared.statement().clone(), &kinds, prepared.schema())
    }

    fn with_kinds(parsed: rowmill_sql::Statement, kinds: &[Option<SqlType>], schema: Option<SchemaRef>) -> Self {
        let parameters = (0..parsed.parameter_count()).map(|place| ParameterInfo {
            name: parsed.parameter_names().get(place).cloned(),
            kind: kinds.get(place).cloned().flatten(),
        });
        Statement(Arc::new(Prepared { parameters: parameters.collect(), parsed, schema }))
    }

    pub(crate) fn parsed(&self) -> &rowmill_sql::Statement {
        &self.0.parsed
    }

    /// Gives the statement a name in a connection, as `PREPARE name AS ...` does: `EXECUTE` runs it by that name, and
    /// `DEALLOCATE` ends the name.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// let double = connection.prepare("SELECT 2 * $1")?;
    /// double.set_name(&mut connection, "double")?;
    /// assert!(connection.has_named_statement("double"));
    /// assert_eq!(connection.query("EXECUTE double(21)")?.rows()?[0].get::<i64>(0)?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_name(&self, connection: &mut Connection, name: &str) -> Result<()> {
        connection.session().name_statement(name, &self.0.parsed)
    }

    /// The SQL text of the statement.
    pub fn text(&self) -> &str {
        self.0.parsed.text()
    }

    /// The number of parameters (`$1`, `?1`, `?` or `:name`).
    pub fn parameter_count(&self) -> usize {
        self.0.parsed.parameter_count()
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.0.parameters
    }

    /// The names and types of the columns of the result, as they were when the statement was prepared. `None` if it is
    /// neither a query nor a change with RETURNING.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.0.schema.as_ref()
    }

    /// The names of the columns of the result.
    pub fn column_names(&self) -> Vec<&str> {
        let fields = self.0.schema.iter().flat_map(|schema| schema.fields());
        fields.map(|field| field.name().as_str()).collect()
    }

    /// The number of columns of the result.
    pub fn column_count(&self) -> usize {
        self.0.schema.as_ref().map_or(0, |schema| schema.fields().len())
    }

    /// Runs the statement with values for its parameters.
    pub fn run(&self, connection: &mut Connection, params: &[Value]) -> Result<Outcome> {
        self.run_values(connection, params)
    }

    /// Runs the statement with borrowed values for its parameters.
    pub fn run_with(&self, connection: &mut Connection, params: &[Param<'_>]) -> Result<Outcome> {
        let session = connection.session();
        let outcome = session.run(&self.0.parsed, params)?;
        Ok(outcome.outside(session.zone()))
    }

    fn run_values(&self, connection: &mut Connection, params: impl Params) -> Result<Outcome> {
        with_values(&params, self.0.parsed.parameter_names(), |values| self.run_with(connection, values))
    }

    /// Runs the statement with borrowed values for its parameters, and returns rows that are read in place. Statements
    /// that read or change few rows of tables with a primary key should run in this way, because it is the fastest one.
    ///
    /// ```
    /// # use rowmill::{Database, Param, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT)", ())?;
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
        let changed = session.ask(&self.0.parsed, params)?;
        let zone = session.zone();
        Ok(Answer::new(session.rows(), changed, zone))
    }

    /// Runs the statement with borrowed values for its parameters. The rows of a statement on few rows of tables with a
    /// primary key are read in place, as with [`Statement::ask`]; any other result is a stream.
    ///
    /// ```
    /// # use rowmill::{Database, Param, PlacedAnswer, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT)", ())?;
    /// let find = connection.prepare("SELECT pieces FROM stock WHERE item = ?")?;
    /// match find.run_in_place(&mut connection, &[Param::Text("bolt")])? {
    ///     PlacedAnswer::Rows(answer) => assert!(answer.is_empty()),
    ///     PlacedAnswer::Other(outcome) => panic!("a lookup by the key has a program: {outcome:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_in_place<'c>(&self, connection: &'c mut Connection, params: &[Param<'_>]) -> Result<PlacedAnswer<'c>> {
        let session = connection.session();
        let outcome = session.run_in_place(&self.0.parsed, params)?;
        let zone = session.zone();
        Ok(match outcome {
            PlacedOutcome::Rows => PlacedAnswer::Rows(Answer::new(session.rows(), 0, zone)),
            PlacedOutcome::Other(outcome) => PlacedAnswer::Other(outcome.outside(zone)),
        })
    }

    /// Runs the statement and returns its rows.
    pub fn query(&self, connection: &mut Connection, params: impl Params) -> Result<Rows> {
        Ok(Rows::from(self.run_values(connection, params)?))
    }

    /// Runs the statement and returns what `read` makes of each row, as the rows are computed.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let mut connection = Database::memory()?.connect()?;
    /// let squares = connection.prepare("SELECT value * value FROM generate_series(1, ?)")?;
    /// let found = squares.query_map(&mut connection, [3], |row| row.get::<i64>(0))?;
    /// assert_eq!(found.collect::<Result<Vec<i64>>>()?, [1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_map<T, F: FnMut(&Row) -> Result<T>>(
        &self,
        connection: &mut Connection,
        params: impl Params,
        read: F,
    ) -> Result<MappedRows<F>> {
        Ok(self.query(connection, params)?.map_rows(read))
    }

    /// Runs the statement and returns what `read` makes of its first row. It is an error if there is no row.
    pub fn query_row<T>(
        &self,
        connection: &mut Connection,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<T> {
        let row = self.query(connection, params)?.next_row()?.ok_or_else(no_row)?;
        read(&row)
    }

    /// Runs the statement and returns its result as batches of Arrow.
    pub fn query_arrow(&self, connection: &mut Connection, params: impl Params) -> Result<Vec<RecordBatch>> {
        self.query(connection, params)?.batches()
    }

    /// Runs the statement and returns whether it has a row.
    pub fn exists(&self, connection: &mut Connection, params: impl Params) -> Result<bool> {
        Ok(self.query(connection, params)?.next_row()?.is_some())
    }

    /// Runs the statement and returns the number of rows that it changed.
    pub fn execute(&self, connection: &mut Connection, params: impl Params) -> Result<u64> {
        count(self.run_values(connection, params)?)
    }
}

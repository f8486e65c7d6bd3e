//! Prepared statements: parsed and checked once, run many times with different values.
//!
//! We bind and optimize a query once for each list of types that its parameters are given. We choose its operators in
//! every run, because the best ones may depend on the values. `INSERT ... VALUES` of parameters and literals is never
//! planned: its values go into arrays of the columns' types, and these go into the transaction.

use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::Result;
use rowmill_plan::Constant;

use crate::outcome::Outcome;
use crate::parse::Statement;
use crate::session::Session;
use crate::shape::StatementShape;

/// A statement that is ready to run with values for its parameters.
#[derive(Clone, Debug)]
pub struct PreparedStatement {
    statement: Statement,
    parameters: Vec<Option<DataType>>,
    schema: Option<SchemaRef>,
}

impl PreparedStatement {
    /// The statement's text.
    pub fn text(&self) -> &str {
        self.statement.text()
    }

    /// Returns the types that the statement itself gives its parameters; `None` where it does not determine one. Values
    /// of other types are converted.
    pub fn parameter_types(&self) -> &[Option<DataType>] {
        &self.parameters
    }

    /// Returns the columns of the result if the statement is a query or has RETURNING.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// The statement.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }
}

impl Session {
    /// Parses one statement. Also determines the types of its parameters and the columns of its result, as far as the
    /// statement is a query or changes rows.
    pub fn prepare(&mut self, sql: &str) -> Result<PreparedStatement> {
        let statement = self.parse_one(sql)?;
        let shape = match statement.is_repeated() {
            true => self.shape(&statement, &[])?,
            false => {
                StatementShape { parameters: vec![None; statement.parameter_count()], declared: vec![], columns: None }
            }
        };
        let parameters = shape.parameters.into_iter().map(|kind| kind.map(|kind| kind.arrow())).collect();
        Ok(PreparedStatement { statement, parameters, schema: shape.columns })
    }

    /// Runs a prepared statement with values for its parameters.
    pub fn run_prepared(&mut self, prepared: &PreparedStatement, params: &[Constant]) -> Result<Outcome> {
        self.run_in_engine(&prepared.statement, params)
    }
}

//! Prepared statements: parsed once, checked once, run many times with other values.
//!
//! A query is planned anew for every run, because a plan holds the snapshot that it reads and the best plan may depend
//! on the values. `INSERT ... VALUES` of parameters and literals is never planned at all: its values go into arrays of
//! the columns' types and from there into the transaction.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement as Sql;
use rowmill_base::{Error, ErrorKind, Result};

use crate::errors::{NoCandidates, from_datafusion};
use crate::outcome::Outcome;
use crate::parse::{Body, Statement};
use crate::query::{self, BoundQuery};
use crate::session::Session;

/// A statement that is ready to be run with values for its parameters.
#[derive(Clone, Debug)]
pub struct Prepared {
    statement: Statement,
    parameters: Vec<Option<DataType>>,
    schema: Option<SchemaRef>,
}

impl Prepared {
    /// The statement's text.
    pub fn text(&self) -> &str {
        self.statement.text()
    }

    /// The types that the parameters have in the statement, as far as it says so. Values of other types are converted.
    pub fn parameter_types(&self) -> &[Option<DataType>] {
        &self.parameters
    }

    /// The columns of the result, for a statement that gives rows and is a query.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// The statement.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }
}

impl Session {
    /// Parses one statement, and for a query settles the types of its parameters and the columns of its result.
    pub fn prepare(&mut self, sql: &str) -> Result<Prepared> {
        let mut statements = self.parse(sql)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(Error::new(
                ErrorKind::Syntax,
                "one statement can be prepared at a time, neither none nor several",
            ));
        };
        let mut prepared = Prepared { parameters: vec![None; statement.parameter_count()], schema: None, statement };
        if let Some(bound) = self.bind_query(&prepared.statement)? {
            prepared.parameters = parameter_types(&bound, prepared.statement.parameter_count())?;
            prepared.schema = Some(result_schema(&bound));
        }
        Ok(prepared)
    }

    /// Runs a prepared statement with values for its parameters.
    pub fn run_prepared(&mut self, prepared: &Prepared, params: &[ScalarValue]) -> Result<Outcome> {
        self.run(&prepared.statement, params)
    }

    fn bind_query(&mut self, statement: &Statement) -> Result<Option<BoundQuery>> {
        match statement.body() {
            Body::Sql(sql) if matches!(**sql, Sql::Query(_)) => self
                .work_on(statement, &[], |work| {
                    let view = work.view()?;
                    let context = work.context(view);
                    query::bind(work.planner(), context, (**sql).clone(), statement.spellings())
                })
                .map(Some),
            _ => Ok(None),
        }
    }
}

fn parameter_types(bound: &BoundQuery, count: usize) -> Result<Vec<Option<DataType>>> {
    let types: HashMap<String, Option<DataType>> =
        bound.plan.get_parameter_types().map_err(|error| from_datafusion(error, &NoCandidates))?;
    Ok((1..=count).map(|number| types.get(&format!("${number}")).cloned().flatten()).collect())
}

fn result_schema(bound: &BoundQuery) -> SchemaRef {
    let fields = bound.plan.schema().fields().iter().zip(&bound.names);
    let field =
        |(field, name): (&Arc<Field>, &String)| Field::new(name, field.data_type().clone(), field.is_nullable());
    Arc::new(Schema::new(fields.map(field).collect::<Vec<_>>()))
}

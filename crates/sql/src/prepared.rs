//! Prepared statements: parsed and checked once, run many times with different values.
//!
//! We bind and optimize a query once for each list of types that its parameters are given. We choose its operators in
//! every run, because the best ones may depend on the values. `INSERT ... VALUES` of parameters and literals is never
//! planned: its values go into arrays of the columns' types, and these go into the transaction.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::Result;
use rowmill_plan::Constant;
use rowmill_query::binder::BoundQuery;
use sqlparser::ast::Statement as Sql;

use crate::engine_query;
use crate::outcome::Outcome;
use crate::parse::{Statement, StatementBody};
use crate::session::Session;
use crate::statement::write::ChangeSyntax;

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

    /// Returns the columns of the result if the statement is a query.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// The statement.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }
}

impl Session {
    /// Parses one statement. For a query, also determines the types of its parameters and the columns of its result.
    pub fn prepare(&mut self, sql: &str) -> Result<PreparedStatement> {
        let statement = self.parse_one(sql)?;
        let mut prepared =
            PreparedStatement { parameters: vec![None; statement.parameter_count()], schema: None, statement };
        if let Some(bound) = self.bind_query(&prepared.statement)? {
            for (known, kind) in prepared.parameters.iter_mut().zip(&bound.parameters) {
                known.clone_from(kind);
            }
            prepared.schema = Some(result_schema(&bound));
        }
        Ok(prepared)
    }

    /// Runs a prepared statement with values for its parameters.
    pub fn run_prepared(&mut self, prepared: &PreparedStatement, params: &[Constant]) -> Result<Outcome> {
        self.run_in_engine(&prepared.statement, params)
    }

    fn bind_query(&mut self, statement: &Statement) -> Result<Option<BoundQuery>> {
        let StatementBody::Sql(sql) = statement.body() else { return Ok(None) };
        let Sql::Query(query) = &**sql else { return Ok(None) };
        if ChangeSyntax::of(sql).is_some() {
            return Ok(None);
        }
        // No values are known yet. The type NULL lets the binder infer each parameter from its place.
        let kinds = vec![DataType::Null; statement.parameter_count()];
        let bound = self.work_on(statement, &[], |work| {
            let view = work.view()?;
            let context = work.context(view);
            work.with_planning_room(|| engine_query::bind(&context, query, statement.spellings(), &kinds))
        });
        bound.map(Some)
    }
}

/// Returns the columns of the result: names as spelled, and types.
fn result_schema(bound: &BoundQuery) -> SchemaRef {
    let fields = bound.query.output.iter().map(|(id, name)| {
        let kind = bound.query.columns.get(*id).kind.clone();
        Field::new(name, kind, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

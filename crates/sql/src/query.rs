//! Queries: from a syntax tree to a stream of batches.
//!
//! ```text
//! syntax tree -> distinct column names -> logical plan -> parameters bound -> optimised -> physical plan -> batches
//! ```
//!
//! Everything up to the physical plan happens on a thread with a large stack, under the statement's deadline. The
//! operators run on the shared pool; whoever pulls the batches waits on a channel that holds a few of them.

mod result_names;
mod running;
mod select_list;

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as DataFusionStatement;
use datafusion::sql::sqlparser::ast;
use rowmill_base::Result;
use rowmill_txn::Snapshot;

use crate::catalog::StatementContext;
use crate::names::Spellings;
use crate::outcome::{ProgressFn, RowStream};
use crate::planner::Planner;
use crate::runtime;
use crate::session::Work;
pub(crate) use result_names::Aliases;
pub(crate) use running::Running;

/// A query after binding: what it means is settled, how it runs is not.
pub(crate) struct BoundQuery {
    pub(crate) context: Arc<StatementContext>,
    pub(crate) state: SessionState,
    pub(crate) plan: LogicalPlan,
    /// The names of the result's columns, as spelled.
    pub(crate) names: Vec<String>,
}

/// A query that is ready to run.
pub(crate) struct ReadyQuery {
    pub(crate) context: Arc<StatementContext>,
    pub(crate) state: SessionState,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) schema: SchemaRef,
}

/// Binds `statement` to the tables of `context`.
pub(crate) fn bind(
    planner: &Planner,
    context: Arc<StatementContext>,
    statement: ast::Statement,
    spellings: &Spellings,
) -> Result<BoundQuery> {
    let state = planner.state(&context);
    let (plan, names) = runtime::handle()
        .block_on(plan_named(&state, statement, spellings))
        .map_err(|error| planner.translate(error, &context))?;
    Ok(BoundQuery { context, state, plan, names })
}

/// The plan of `statement`, and the names of its columns as spelled.
pub(crate) async fn plan_named(
    state: &SessionState,
    mut statement: ast::Statement,
    spellings: &Spellings,
) -> datafusion::common::Result<(LogicalPlan, Vec<String>)> {
    select_list::make_distinct(&mut statement);
    let aliases = Aliases::of(&statement, spellings);
    let plan = state.statement_to_plan(DataFusionStatement::Statement(Box::new(statement))).await?;
    let names = result_names::result_names(&plan, &aliases);
    Ok((plan, names))
}

impl BoundQuery {
    /// The same query with values for its parameters.
    pub(crate) fn with_parameters(mut self, params: &[ScalarValue], planner: &Planner) -> Result<Self> {
        if !params.is_empty() {
            let values = ParamValues::from(params.to_vec());
            self.plan = self.plan.with_param_values(values).map_err(|error| planner.translate(error, &self.context))?;
        }
        Ok(self)
    }

    /// Optimises and chooses operators.
    pub(crate) fn ready(self, planner: &Planner) -> Result<ReadyQuery> {
        self.context.cancel.check()?;
        let plan = runtime::handle()
            .block_on(self.state.create_physical_plan(&self.plan))
            .map_err(|error| planner.translate(error, &self.context))?;
        let schema = named_schema(&plan.schema(), &self.names);
        Ok(ReadyQuery { context: self.context, state: self.state, plan, schema })
    }
}

/// `schema` under `names`, without the metadata that only planning needs.
fn named_schema(schema: &Schema, names: &[String]) -> SchemaRef {
    let fields = schema.fields().iter().zip(names);
    let field =
        |(field, name): (&Arc<Field>, &String)| Field::new(name, field.data_type().clone(), field.is_nullable());
    Arc::new(Schema::new(fields.map(field).collect::<Vec<_>>()))
}

impl ReadyQuery {
    /// Starts the operators.
    pub(crate) fn start(self, progress: Option<ProgressFn>, started: Instant) -> RowStream {
        let schema = Arc::clone(&self.schema);
        RowStream::new(schema, Running::start(self, progress, started))
    }
}

impl Work<'_> {
    /// What a query of this statement works with.
    pub(crate) fn context(&self, snapshot: Arc<Snapshot>) -> Arc<StatementContext> {
        StatementContext::new(snapshot, self.cancel.clone(), self.settings().clone())
    }

    /// Plans a query of this statement over `snapshot`, with the statement's parameters.
    pub(crate) fn ready(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<ReadyQuery> {
        let statement = ast::Statement::Query(Box::new(query.clone()));
        bind(self.planner(), self.context(snapshot), statement, self.statement.spellings())?
            .with_parameters(self.params, self.planner())?
            .ready(self.planner())
    }

    /// Runs a query of this statement over `snapshot`.
    pub(crate) fn rows(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<RowStream> {
        Ok(self.ready(snapshot, query)?.start(self.progress().cloned(), self.started))
    }
}

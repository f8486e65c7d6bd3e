//! Queries: from a syntax tree to a stream of batches.
//!
//! ```text
//! syntax tree -> distinct column names -> logical plan -> parameters bound -> optimised -> physical plan -> batches
//! ```
//!
//! Everything up to the physical plan happens on a thread with a large stack, under the statement's deadline. The
//! operators run on the shared pool; whoever pulls the batches waits on a channel that holds a few of them.

mod merged_columns;
mod merged_stars;
mod natural;
mod order_names;
mod outer_names;
mod result_names;
mod rewrite;
mod row_in;
mod running;
mod select_list;
mod unsupported;
mod using_chains;
mod with_names;

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, Result as PlanResult, ScalarValue};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as DataFusionStatement;
use datafusion::sql::sqlparser::ast;
use rowmill_base::{ErrorKind, Result};
use rowmill_txn::Snapshot;

use crate::catalog::StatementContext;
use crate::engine_query::EngineQuery;
use crate::errors::to_datafusion;
use crate::guards::{StatementLimits, check_growth, run_on_large_stack};
use crate::names::Spellings;
use crate::native::{self, Lowering, NativeExec, NativePlan};
use crate::operators;
use crate::outcome::{ProgressFn, RowStream};
use crate::plan_cache::{CachedPlan, is_timeless};
use crate::planner::Planner;
use crate::runtime;
use crate::session::Work;
pub(crate) use merged_columns::function as merged_column_mark;
pub(crate) use result_names::Aliases;
pub(crate) use running::Running;

/// A query that is ready to run.
pub(crate) struct ReadyQuery {
    pub(crate) context: Arc<StatementContext>,
    pub(crate) plan: ReadyPlan,
    /// The names of the result as spelled, and the types that the operators give.
    pub(crate) schema: SchemaRef,
    /// What another statement with the same text can run again.
    reusable: Option<CachedPlan>,
}

/// How a query runs.
#[derive(Clone)]
pub(crate) enum ReadyPlan {
    /// Our own front end planned it, and the engine runs it.
    Engine(Arc<EngineQuery>),
    /// DataFusion planned it.
    Mixed {
        task: Arc<TaskContext>,
        plan: Arc<dyn ExecutionPlan>,
        /// The plan, where all of it is the engine's.
        native: Option<Arc<NativeExec>>,
    },
}

/// A query after binding: what it means is settled, how it runs is not.
pub(crate) struct BoundQuery {
    pub(crate) plan: LogicalPlan,
    /// The names of the result's columns, as spelled.
    pub(crate) names: Vec<String>,
}

/// Binds `statement`, a query, to the tables of `context`.
pub(crate) fn bind(
    planner: &Arc<Planner>,
    context: Arc<StatementContext>,
    statement: ast::Statement,
    spellings: &Spellings,
) -> Result<BoundQuery> {
    let (planner, spellings, patience) = (Arc::clone(planner), spellings.clone(), context.patience());
    run_on_large_stack(&patience, move || {
        let state = planner.state(&context);
        runtime::handle()
            .block_on(plan_named(&state, statement, &spellings))
            .map(|(plan, names)| BoundQuery { plan, names })
            .map_err(|error| planner.translate(error, &context))
    })
}

/// What a query is planned from. It goes to the planning thread whole.
pub(crate) struct Draft {
    pub(crate) planner: Arc<Planner>,
    pub(crate) context: Arc<StatementContext>,
    pub(crate) query: Box<ast::Query>,
    pub(crate) spellings: Spellings,
    pub(crate) params: Vec<ScalarValue>,
}

impl Draft {
    /// Plans the query on a thread with a large stack, until the statement is cancelled.
    pub(crate) fn ready(self) -> Result<ReadyQuery> {
        let patience = self.context.patience();
        run_on_large_stack(&patience, move || self.ready_here())
    }

    /// Binds the query on a thread with a large stack: what it means is settled, and nothing is optimised.
    pub(crate) fn bound(self) -> Result<LogicalPlan> {
        let patience = self.context.patience();
        run_on_large_stack(&patience, move || {
            let state = self.planner.state(&self.context);
            let statement = ast::Statement::Query(self.query);
            runtime::handle()
                .block_on(plan_named(&state, statement, &self.spellings))
                .map(|(plan, _)| plan)
                .map_err(|error| self.planner.translate(error, &self.context))
        })
    }

    fn ready_here(self) -> Result<ReadyQuery> {
        if let Some(ready) = self.ready_by_engine()? {
            return Ok(ready);
        }
        let state = self.planner.state(&self.context);
        let has_params = !self.params.is_empty();
        let planned = runtime::handle().block_on(async {
            let statement = ast::Statement::Query(self.query);
            let (plan, names) = plan_named(&state, statement, &self.spellings).await?;
            let plan = bind_parameters(plan, self.params)?;
            check_growth(&plan, &StatementLimits::from(&self.context.settings)).map_err(to_datafusion)?;
            let is_reusable = !has_params && is_timeless(&plan)?;
            let plan = state.optimize(&plan)?;
            let lowering = match self.context.settings.flag("native_operators") {
                true => native::lower(plan, &state, &self.context)?,
                false => Lowering::Mixed(plan),
            };
            Ok(match lowering {
                Lowering::Whole(plan, schema) => {
                    let named = named_schema(&schema, &names);
                    let is_reusable = is_reusable && plan.is_whole();
                    let cached = CachedPlan::Native { shape: Arc::clone(plan.shape()), schema: Arc::clone(&named) };
                    let native = plan.exec(schema, &state).await?;
                    let plan = Arc::clone(&native) as Arc<dyn ExecutionPlan>;
                    (plan, named, Some(native), is_reusable.then_some(cached))
                }
                Lowering::Mixed(plan) => {
                    let plan = operators::plan(plan, &state, &self.context).await?;
                    let named = named_schema(&plan.schema(), &names);
                    (plan, named, None, None)
                }
            })
        });
        let (plan, schema, native, reusable) = planned.map_err(|error| self.planner.translate(error, &self.context))?;
        let plan = ReadyPlan::Mixed { task: state.task_ctx(), plan, native };
        Ok(ReadyQuery { context: self.context, plan, schema, reusable })
    }

    /// The query as our own front end plans it; `None` if it is left to DataFusion.
    fn ready_by_engine(&self) -> Result<Option<ReadyQuery>> {
        let mode = front_end_mode();
        if mode == "old" || !self.context.settings.flag("native_operators") {
            return Ok(None);
        }
        match EngineQuery::plan(&self.context, &self.query, &self.spellings, &self.params) {
            Ok(query) => {
                let reusable = query.reusable().filter(|_| self.params.is_empty()).map(CachedPlan::Engine);
                let (schema, plan) = (Arc::clone(query.schema()), ReadyPlan::Engine(Arc::new(query)));
                let context = Arc::clone(&self.context);
                Ok(Some(ReadyQuery { context, plan, schema, reusable }))
            }
            Err(error) if mode != "new" && is_left_over(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a query that our own front end refuses with such an error is tried by the other one.
fn is_left_over(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unsupported | ErrorKind::UndefinedFunction | ErrorKind::Internal)
}

/// Which front end plans queries, while both exist: `old`, `new` without the other, or the new one and then the old one.
fn front_end_mode() -> &'static str {
    static MODE: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("ROWMILL_FRONT_END").unwrap_or_default());
    &MODE
}

/// The plan of `statement`, and the names of its columns as spelled.
pub(crate) async fn plan_named(
    state: &SessionState,
    mut statement: ast::Statement,
    spellings: &Spellings,
) -> PlanResult<(LogicalPlan, Vec<String>)> {
    unsupported::refuse(&statement, state).map_err(to_datafusion)?;
    with_names::tell_apart(&mut statement);
    rewrite::rewrite(&mut statement, state);
    row_in::rewrite(&mut statement);
    natural::spell_out(&mut statement, state).await;
    let merges = merged_columns::mark(&mut statement).map_err(to_datafusion)?;
    let has_outer_names = outer_names::mark(&mut statement);
    using_chains::name_owners(&mut statement);
    merged_stars::spell_out(&mut statement);
    order_names::tell_apart(&mut statement);
    select_list::make_distinct(&mut statement);
    let aliases = Aliases::of(&statement, spellings);
    let mut plan = state.statement_to_plan(DataFusionStatement::Statement(Box::new(statement))).await?;
    if has_outer_names {
        outer_names::refuse_ambiguous(&plan)?;
    }
    if merges || has_outer_names {
        plan = merged_columns::separate(plan)?;
    }
    unsupported::refuse_plan(&plan)?;
    let names = result_names::result_names(&plan, &aliases);
    Ok((plan, names))
}

fn bind_parameters(plan: LogicalPlan, params: Vec<ScalarValue>) -> PlanResult<LogicalPlan> {
    if params.is_empty() { Ok(plan) } else { plan.with_param_values(ParamValues::from(params)) }
}

/// `schema` under `names`, without the metadata that only planning needs.
pub(crate) fn named_schema(schema: &Schema, names: &[String]) -> SchemaRef {
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
        let (notices, now_us) = (Arc::clone(self.notices()), self.now_us());
        StatementContext::new(snapshot, self.cancel.clone(), self.settings().clone(), self.engine(), notices, now_us)
    }

    /// Plans a query of this statement over `snapshot`, with the statement's parameters.
    pub(crate) fn ready(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<ReadyQuery> {
        let draft = Draft {
            planner: Arc::clone(self.planner()),
            context: self.context(snapshot),
            query: Box::new(query.clone()),
            spellings: self.statement.spellings().clone(),
            params: self.params.to_vec(),
        };
        draft.ready()
    }

    /// Runs a query of this statement over `snapshot`.
    pub(crate) fn rows(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<RowStream> {
        Ok(self.ready(snapshot, query)?.start(self.progress().cloned(), self.started))
    }

    /// Plans the query that this statement is over `snapshot`, or finds the plan of one with the same text.
    pub(crate) fn ready_whole(&mut self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<ReadyQuery> {
        let version = snapshot.catalog().version();
        if self.params.is_empty()
            && let Some(ready) = self.known(&snapshot, version)
        {
            return Ok(ready);
        }
        let mut ready = self.ready(snapshot, query)?;
        if let Some(plan) = ready.reusable.take() {
            let (text, settings) = (self.statement.text(), self.settings().clone());
            self.plans().lock().keep_plan(text, plan, &settings, version);
        }
        Ok(ready)
    }

    /// The query with this statement's text, if its plan is known.
    fn known(&self, snapshot: &Arc<Snapshot>, version: u64) -> Option<ReadyQuery> {
        let known = self.plans().lock().plan(self.statement.text(), self.settings(), version)?;
        let context = self.context(Arc::clone(snapshot));
        let (shape, schema) = match known {
            CachedPlan::Native { shape, schema } => (shape, schema),
            CachedPlan::Engine(physical) => {
                let query = EngineQuery::again(&physical, &context)?;
                let schema = Arc::clone(query.schema());
                let plan = ReadyPlan::Engine(Arc::new(query));
                return Some(ReadyQuery { context, plan, schema, reusable: None });
            }
        };
        let plan = NativePlan::over(shape, &context)?;
        let native = NativeExec::new(plan, Default::default(), Arc::clone(&schema));
        let plan = Arc::clone(&native) as Arc<dyn ExecutionPlan>;
        let plan = ReadyPlan::Mixed { task: self.planner().task(), plan, native: Some(native) };
        Some(ReadyQuery { context, plan, schema, reusable: None })
    }
}

//! A session without the rest of the engine: our rules and guards over DataFusion's own tables in memory.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;
use futures::StreamExt;
use rowmill_base::{Broker, Cancel, Result};
use tokio::runtime::Runtime;

use crate::dialect::RowmillDialect;
use crate::errors::{NameCandidates, from_datafusion, syntax_error};
use crate::guards::{
    BrokerPool, GuardOptions, Patience, STACK_BYTES, StatementLimits, check_expansion, check_growth, check_statement,
    flatten_chains, guard_joins, guard_plan, guarded_stream, quiet_panics, run_on_large_stack,
};
use crate::semantics;

/// A statement that parses, as the parser gives it.
pub(crate) fn parsed(sql: &str) -> ast::Statement {
    let dialect = RowmillDialect::new(false, sql.len());
    let parsed = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_statement());
    parsed.expect("a statement that parses")
}

/// One connection.
#[derive(Clone)]
pub(crate) struct Session {
    context: SessionContext,
    runtime: Arc<Runtime>,
    pub(crate) limits: StatementLimits,
    pub(crate) options: GuardOptions,
    pub(crate) broker: Broker,
}

struct Names<'a>(&'a SessionContext);

impl NameCandidates for Names<'_> {
    fn tables(&self) -> Vec<String> {
        let catalog = self.0.catalog("datafusion");
        catalog.and_then(|catalog| catalog.schema("public")).map_or(vec![], |schema| schema.table_names())
    }

    fn functions(&self) -> Vec<String> {
        let state = self.0.state();
        state.scalar_functions().keys().chain(state.aggregate_functions().keys()).cloned().collect()
    }
}

impl Session {
    pub(crate) fn new() -> Session {
        Session::with_memory(1 << 30, 2)
    }

    pub(crate) fn with_memory(bytes: u64, threads: usize) -> Session {
        let broker = Broker::new(bytes);
        let options = GuardOptions::default();
        let mut config = semantics::configure(SessionConfig::new().with_target_partitions(threads));
        options.clone().install(config.options_mut());
        let environment = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(BrokerPool::new(broker.clone()))).build();
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::new(environment.expect("an environment in memory")))
            .with_default_features();
        let context = SessionContext::new_with_state(semantics::install(builder).build());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(quiet_panics)
            .enable_all()
            .build()
            .expect("a runtime");
        let limits = StatementLimits::from(&rowmill_base::Settings::default());
        Session { context, runtime: Arc::new(runtime), limits, options, broker }
    }

    pub(crate) fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.run_with(sql, &Cancel::new())
    }

    pub(crate) fn run_with(&self, sql: &str, cancel: &Cancel) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        self.each(sql, cancel, &mut |batch| batches.push(batch))?;
        Ok(batches)
    }

    /// Runs one statement and drops its rows; their number.
    pub(crate) fn count(&self, sql: &str, cancel: &Cancel) -> Result<usize> {
        let mut rows = 0;
        self.each(sql, cancel, &mut |batch| rows += batch.num_rows())?;
        Ok(rows)
    }

    fn each(&self, sql: &str, cancel: &Cancel, take: &mut dyn FnMut(RecordBatch)) -> Result<()> {
        check_statement(sql, &self.limits)?;
        let names = Names(&self.context);
        let plan = run_on_large_stack(&Patience::new(cancel, &rowmill_base::Settings::default()), {
            let (session, sql, cancel) = (self.clone(), sql.to_string(), cancel.clone());
            move || session.plan(&sql, &cancel)
        })?;
        let Some(plan) = plan else { return Ok(()) };
        let translate = |error| from_datafusion(error, &names);
        self.runtime.block_on(async {
            let stream = datafusion::physical_plan::execute_stream(plan, self.context.task_ctx()).map_err(translate)?;
            let mut stream = guarded_stream(stream, cancel.clone());
            while let Some(batch) = stream.next().await {
                take(batch.map_err(translate)?);
            }
            Ok(())
        })
    }

    /// The physical plan of a query; statements that make something are run here.
    fn plan(&self, sql: &str, cancel: &Cancel) -> Result<Option<Arc<dyn datafusion::physical_plan::ExecutionPlan>>> {
        let dialect = RowmillDialect::new(false, sql.len());
        let parser = Parser::new(&dialect).with_recursion_limit(1_000_000);
        let parsed = parser.try_with_sql(sql).and_then(|mut parser| parser.parse_statements());
        let mut statement = parsed.map_err(|error| syntax_error(&error))?.remove(0);
        semantics::prepare(&mut statement)?;
        flatten_chains(&mut statement);
        check_expansion(&statement, &self.limits)?;
        let names = Names(&self.context);
        let translate = |error| from_datafusion(error, &names);
        self.runtime.block_on(async {
            let state = self.context.state();
            let plan = state.statement_to_plan(Statement::Statement(Box::new(statement))).await.map_err(translate)?;
            if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Dml(_)) {
                let frame = self.context.execute_logical_plan(plan).await.map_err(translate)?;
                frame.collect().await.map_err(translate)?;
                return Ok(None);
            }
            check_growth(&plan, &self.limits)?;
            let plan = guard_joins(state.optimize(&plan).map_err(translate)?, cancel).map_err(translate)?;
            let plan = state.query_planner().create_physical_plan(&plan, &state).await.map_err(translate)?;
            Ok(Some(guard_plan(plan, cancel, self.options.recursion_max).map_err(translate)?))
        })
    }
}

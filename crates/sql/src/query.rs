//! Queries, from a syntax tree to a stream of batches.
//!
//! ```text
//! syntax tree -> bound and optimized (crate query) -> values for the parameters -> operators -> batches
//! ```
//!
//! All steps but the last run on the caller's thread. The operators run on the engine's threads, or on the caller's
//! thread if they have hardly any work ([`running`]).

mod plan_work;
mod running;

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use rowmill_base::Result;
use rowmill_plan::Constant;
use rowmill_query::binder::BoundQuery;
use rowmill_query::optimizer::Executor;
use rowmill_txn::Snapshot;
use sqlparser::ast;

use crate::catalog::StatementContext;
use crate::engine_query::{EngineQuery, PlannedQuery};
use crate::names::Spellings;
use crate::outcome::{ProgressFn, RowStream};
use crate::session::Work;
use crate::statement_cache::{CachedPlan, MadeFor};

pub(crate) use running::RunningQuery;

/// A query that is ready to run.
pub(crate) struct ReadyQuery {
    pub(crate) context: Arc<StatementContext>,
    pub(crate) query: Arc<EngineQuery>,
}

impl ReadyQuery {
    /// Returns the columns of the result: names as spelled, and types.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.query.schema()
    }

    /// Starts the operators.
    pub(crate) fn start(self, progress: Option<ProgressFn>, started: Instant) -> RowStream {
        let schema = Arc::clone(self.schema());
        RowStream::new(schema, RunningQuery::start(self, progress, started))
    }
}

impl Work<'_> {
    /// Creates the context of a query of this statement.
    pub(crate) fn context(&self, snapshot: Arc<Snapshot>) -> Arc<StatementContext> {
        StatementContext::new(self, snapshot)
    }

    /// Plans a query of this statement over `snapshot`, with the statement's parameters.
    pub(crate) fn ready(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<ReadyQuery> {
        self.ready_in(self.context(snapshot), query, self.statement.spellings(), self.params)
    }

    /// Plans a query that this statement generates itself over `snapshot`. It has no parameters.
    pub(crate) fn ready_own(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<ReadyQuery> {
        self.ready_in(self.context(snapshot), query, &Spellings::default(), &[])
    }

    /// Plans a query in `context`.
    pub(crate) fn ready_in(
        &self,
        context: Arc<StatementContext>,
        query: &ast::Query,
        spellings: &Spellings,
        params: &[Constant],
    ) -> Result<ReadyQuery> {
        self.with_planning_room(|| {
            let planned = PlannedQuery::new(&context, query, spellings, &kinds_of(params))?;
            let query = EngineQuery::new(planned, params, &context)?;
            Ok(ReadyQuery { query: Arc::new(query), context })
        })
    }

    /// Runs a bound query of this statement over `snapshot`, with the statement's parameters.
    pub(crate) fn rows_of(&self, snapshot: Arc<Snapshot>, bound: BoundQuery) -> Result<RowStream> {
        let context = self.context(snapshot);
        let ready = self.with_planning_room(|| {
            let query =
                EngineQuery::new(PlannedQuery::of_bound(&context, bound, Executor::Engine)?, self.params, &context)?;
            Ok(ReadyQuery { query: Arc::new(query), context })
        })?;
        Ok(ready.start(self.progress().cloned(), self.started))
    }

    /// Runs a query of this statement over `snapshot`.
    pub(crate) fn rows(&self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<RowStream> {
        Ok(self.ready(snapshot, query)?.start(self.progress().cloned(), self.started))
    }

    /// Plans the query of this statement over `snapshot`, or reuses the cached plan of the same text.
    pub(crate) fn ready_whole(&mut self, snapshot: Arc<Snapshot>, query: &ast::Query) -> Result<ReadyQuery> {
        let made_for = MadeFor { catalog: snapshot.catalog().version(), settings: self.session.settings_version() };
        let kinds = kinds_of(self.params);
        let context = self.context(snapshot);
        // The cache must be asked with the catalog and settings of this moment; an older plan may name dropped tables.
        let known = self.session.statements().plan(self.statement, &kinds, made_for);
        if let Some(known) = known
            && let Some(query) = self.with_planning_room(|| EngineQuery::again(&known, self.params, &context))?
        {
            return Ok(ReadyQuery { query: Arc::new(query), context });
        }
        let (query, plan) = self.with_planning_room(|| {
            let planned = PlannedQuery::new(&context, query, self.statement.spellings(), &kinds)?;
            // A plan without parameters is cached with its operators. With parameters we cache only the optimized plan,
            // because the best operators may depend on the values.
            let known = planned.is_reusable().then(|| planned.unread());
            let query = EngineQuery::new(planned, self.params, &context)?;
            let plan = match (known, kinds.is_empty()) {
                (Some(_), true) => query.reusable().map(CachedPlan::Physical),
                (Some(planned), false) => Some(CachedPlan::Planned(Arc::new(planned))),
                (None, _) => None,
            };
            Ok((query, plan))
        })?;
        if let Some(plan) = plan {
            self.session.statements().keep_plan(self.statement, kinds, plan, made_for);
        }
        Ok(ReadyQuery { query: Arc::new(query), context })
    }
}

/// Returns the types of parameters.
pub(crate) fn kinds_of(params: &[Constant]) -> Vec<arrow::datatypes::DataType> {
    params.iter().map(|value| value.kind().clone()).collect()
}

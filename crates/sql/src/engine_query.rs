//! Queries that the engine runs.
//!
//! ```text
//! syntax tree -> binder -> optimizer -> lowering (crate query) -> operators (crate exec)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, SchemaRef};
use parking_lot::Mutex;
use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::join::JoinMetrics;
use rowmill_exec::operator::{Environment, Operator, RunningPlan};
use rowmill_exec::scan::ScanMetrics;
use rowmill_expr::functions;
use rowmill_plan::{Constant, Node};
use rowmill_query::binder::{self, BoundQuery};
use rowmill_query::optimizer::{self, Executor};
use rowmill_query::{PhysicalQuery, estimate};
use rowmill_storage::TableSource;
use sqlparser::ast;

use crate::catalog::StatementContext;
use crate::explain::below;
use crate::names::Spellings;
use crate::query_catalog::ContextCatalog;
use crate::scan_progress::ScanProgress;
use crate::statement_cache::CachedPlan;

/// A query that is bound and optimized. This is all the work that does not depend on the values of its parameters.
#[derive(Clone, Debug)]
pub(crate) struct PlannedQuery(BoundQuery);

impl PlannedQuery {
    /// Binds `query` and optimizes it for the engine. `kinds` are the types of its parameters, the type NULL for a
    /// parameter whose value is NULL.
    pub(crate) fn new(
        context: &Arc<StatementContext>,
        query: &ast::Query,
        spellings: &Spellings,
        kinds: &[DataType],
    ) -> Result<PlannedQuery> {
        PlannedQuery::of_bound(context, bind(context, query, spellings, kinds)?, Executor::Engine)
    }

    /// Optimizes a bound query for an executor.
    pub(crate) fn of_bound(
        context: &StatementContext,
        mut bound: BoundQuery,
        executor: Executor,
    ) -> Result<PlannedQuery> {
        let deadline = PlanningDeadline::new(context);
        // The optimizer asks between its steps, so a plan that takes too long stops soon after the limit.
        optimizer::optimize_until(&mut bound, executor, &|| deadline.check())?;
        Ok(PlannedQuery(bound))
    }

    /// Returns the plan.
    pub(crate) fn into_bound(self) -> BoundQuery {
        self.0
    }

    /// Whether the plan is valid for every snapshot with the same catalog.
    pub(crate) fn is_reusable(&self) -> bool {
        self.0.is_reusable()
    }

    /// Returns the plan without the rows of its tables, for the cache.
    pub(crate) fn unread(&self) -> PlannedQuery {
        PlannedQuery(self.0.unread())
    }

    /// Returns the plan over the tables of this statement's snapshot, or `None` if one of them does not exist there.
    fn over(&self, context: &StatementContext) -> Option<PlannedQuery> {
        let table = |id| Some(context.snapshot.table(id)? as Arc<dyn TableSource>);
        Some(PlannedQuery(self.0.over(&table)?))
    }
}

/// Binds `query`. `kinds` are the types of its parameters.
pub(crate) fn bind(
    context: &Arc<StatementContext>,
    query: &ast::Query,
    spellings: &Spellings,
    kinds: &[DataType],
) -> Result<BoundQuery> {
    let catalog = ContextCatalog::new(Arc::clone(context));
    let spelling = |ident: &ast::Ident| spellings.of(ident).to_owned();
    binder::bind(query, &catalog, &spelling, kinds)
}

/// The time limit of planning (`planning_timeout_ms`).
struct PlanningDeadline<'c> {
    cancel: &'c Cancel,
    started: Instant,
    max_ms: u64,
}

impl PlanningDeadline<'_> {
    fn new(context: &StatementContext) -> PlanningDeadline<'_> {
        let max_ms = context.settings.number("planning_timeout_ms");
        PlanningDeadline { cancel: &context.cancel, started: Instant::now(), max_ms }
    }

    fn check(&self) -> Result<()> {
        self.cancel.check()?;
        let max = self.max_ms;
        if max == 0 || self.started.elapsed() < Duration::from_millis(max) {
            return Ok(());
        }
        let message = format!("planning the statement takes longer than {max} ms (planning_timeout_ms)");
        Err(Error::new(ErrorKind::Deadline, message)
            .hint("split the statement, or raise the limit with SET planning_timeout_ms = ...; 0 means no limit"))
    }
}

/// A query that is ready to run, over the tables of one statement's snapshot.
#[derive(Debug)]
pub(crate) struct EngineQuery {
    physical: Arc<PhysicalQuery>,
    context: Arc<StatementContext>,
    /// The progress of the scans, in the order of the plan.
    progress: Vec<Arc<ScanProgress>>,
    /// The operators that ran last, for their measurements.
    last: Mutex<Option<Arc<RunningPlan>>>,
}

impl EngineQuery {
    /// Chooses the operators of `planned` for these values of its parameters.
    pub(crate) fn new(
        planned: PlannedQuery,
        params: &[Constant],
        context: &Arc<StatementContext>,
    ) -> Result<EngineQuery> {
        let PlannedQuery(mut bound) = planned;
        // From here on the plan depends on the values and cannot be cached.
        bound.set_parameters(params)?;
        // The compiled expressions keep the limit, so it must be set while they are built.
        let result_bytes_max = context.settings.number("result_value_max_bytes");
        let physical = functions::with_result_limit(result_bytes_max, || rowmill_query::lower(&bound))?;
        Ok(EngineQuery::over(Arc::new(physical), context))
    }

    fn over(physical: Arc<PhysicalQuery>, context: &Arc<StatementContext>) -> EngineQuery {
        let mut progress = Vec::new();
        physical.root.each(&mut |node| {
            if let Node::Scan(scan) = node {
                progress.push(Arc::new(ScanProgress::new(physical.tables[scan.table].row_count())));
            }
        });
        EngineQuery { physical, context: Arc::clone(context), progress, last: Mutex::default() }
    }

    /// The operators and the tables.
    pub(crate) fn physical(&self) -> &Arc<PhysicalQuery> {
        &self.physical
    }

    /// Returns a cached plan over the tables of this statement's snapshot, or `None` if one of them does not exist
    /// there.
    pub(crate) fn again(
        known: &CachedPlan,
        params: &[Constant],
        context: &Arc<StatementContext>,
    ) -> Result<Option<EngineQuery>> {
        match known {
            CachedPlan::Physical(physical) => {
                let table = |id| Some(context.snapshot.table(id)? as Arc<dyn TableSource>);
                Ok(physical.over(&table).map(|physical| EngineQuery::over(Arc::new(physical), context)))
            }
            CachedPlan::Planned(planned) => match planned.over(context) {
                Some(planned) => EngineQuery::new(planned, params, context).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Returns the operators if another statement with the same text and without parameters can run them again.
    pub(crate) fn reusable(&self) -> Option<Arc<PhysicalQuery>> {
        self.physical.is_reusable.then(|| Arc::new(self.physical.unread()))
    }

    /// The schema of the result: the names as spelled, and the types.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.physical.schema
    }

    /// Prepares the operators and connects the progress of each scan to its metrics.
    pub(crate) fn begin(&self) -> Result<Arc<RunningPlan>> {
        let (physical, context) = (&self.physical, &self.context);
        let (batch_rows, threads) = (context.settings.number("batch_rows") as usize, context.settings.threads());
        let mut foreign: BTreeMap<usize, Arc<dyn BatchSource>> = BTreeMap::new();
        for (number, scan) in physical.sources.iter().enumerate() {
            // Foreign sources are opened only here, so EXPLAIN reads no rows of files.
            let source = scan.source.open(&scan.columns, &scan.predicates, batch_rows, threads, &context.cancel)?;
            foreign.insert(number, source);
        }
        let environment = Environment {
            tables: &physical.tables,
            functions: &physical.functions,
            foreign: &foreign,
            batch_rows,
            threads,
            cancel: &context.cancel,
            broker: &context.broker,
            temp: &context.temp,
            recursion_max: context.settings.number("recursion_max"),
            early_filters: context.settings.flag("early_filters"),
        };
        let running = Arc::new(RunningPlan::new(&physical.root, &environment)?);
        // `each_scan` visits the scans in the order of the plan, the order in which `over` made their progress.
        let mut progress = self.progress.iter();
        running.operator.each_scan(&mut |metrics| {
            if let Some(progress) = progress.next() {
                context.follow(progress, metrics);
            }
        });
        *self.last.lock() = Some(Arc::clone(&running));
        Ok(running)
    }

    /// Returns the lines of EXPLAIN, with the measurements if the query ran and `measured` is set.
    pub(crate) fn lines(&self, measured: bool) -> Vec<String> {
        let running = self.last.lock().clone().filter(|_| measured);
        let mut lines = Vec::new();
        let operator = running.as_deref().map(|running| &running.operator);
        self.node_lines(&self.physical.root, operator, "", "", &mut lines);
        lines
    }

    fn node_lines(&self, node: &Node, operator: Option<&Operator>, branch: &str, stem: &str, lines: &mut Vec<String>) {
        let estimate = estimate::row_count(node, &self.physical.tables);
        let facts = match operator {
            Some(operator) => measures(operator, estimate),
            None => estimated(estimate),
        };
        let line = match node {
            Node::Foreign(foreign) => format!("Rows of {}", self.physical.sources[foreign.plan].source.name()),
            node => node.line(&*self.physical),
        };
        lines.push(format!("{branch}{line}  ({facts})"));
        let inputs = node.inputs();
        for (place, input) in inputs.iter().enumerate() {
            let (branch, stem) = below(stem, place + 1 == inputs.len());
            self.node_lines(input, operator.map(|operator| &operator.inputs[place]), &branch, &stem, lines);
        }
    }
}

/// Formats an estimated number of rows.
fn estimated(rows: f64) -> String {
    format!("~{rows:.0} rows")
}

/// Formats the measurements of an operator for which `estimate` rows were expected.
fn measures(operator: &Operator, estimate: f64) -> String {
    let mut parts = Vec::new();
    match &operator.measured {
        Some(measured) => {
            parts.push(format!("{} of {}", measured.rows(), estimated(estimate)));
            parts.push(format!("{:.1} ms", measured.seconds() * 1e3));
        }
        None => parts.push(estimated(estimate)),
    }
    let workers = operator.workers();
    parts.push(format!("{workers} thread{}", if workers == 1 { "" } else { "s" }));
    let granted = Some(operator.memory.peak_bytes()).filter(|bytes| *bytes > 0);
    parts.extend(granted.map(|bytes| format!("{bytes} bytes granted")));
    let spilled = Some(&operator.spilled).filter(|spilled| spilled.bytes() > 0);
    parts.extend(spilled.map(|spilled| format!("{} bytes spilled to {} files", spilled.bytes(), spilled.files())));
    let allocations = operator.measured.as_ref().and_then(|measured| measured.allocations());
    parts.extend(allocations.map(|allocations| format!("{allocations} allocations")));
    parts.extend(operator.scan.as_ref().map(|scan| in_words(scan)));
    parts.extend(operator.join.as_ref().map(|join| join_in_words(join)));
    parts.join(", ")
}

/// Formats the counters of a join.
fn join_in_words(metrics: &JoinMetrics) -> String {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (seen, kept) = (count(&metrics.filters.seen), count(&metrics.filters.kept));
    let mut words = format!("{} build rows, {} probe rows", count(&metrics.build_rows), count(&metrics.probe_rows));
    if seen > 0 {
        words += &format!(", its filters left out {} of {seen} rows", seen - kept);
    }
    words
}

/// Formats the counters of a scan or grouping.
fn in_words(metrics: &ScanMetrics) -> String {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "{} rows read, {} blocks read, {} skipped, {} bytes read, {} values skipped",
        count(&metrics.rows_read),
        count(&metrics.blocks_read),
        count(&metrics.blocks_skipped),
        metrics.reads.bytes(),
        metrics.reads.values_skipped()
    )
}

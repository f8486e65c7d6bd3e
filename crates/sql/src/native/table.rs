//! A plan of the engine's as a table inside DataFusion's plans, and as the leaf that runs it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchemaRef, Result as PlanResult, TableReference, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType, reset_plan_states};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use rowmill_base::Result;
use rowmill_exec::batch::BatchSource;
use rowmill_exec::join::JoinMetrics;
use rowmill_exec::operator::{Environment, Operator, Running};
use rowmill_plan::Node;
use rowmill_storage::TableSource;

use super::NativePlan;
use super::estimate::row_count;
use super::foreign::ForeignSource;
use super::handover::Handover;
use crate::errors::to_datafusion;
use crate::explain::{below, tree};
use crate::leaf::{Passes, leaf_methods};
use crate::table_scan::{ScanProgress, in_words};

/// A plan of the engine's as the scan of a table with the columns of `schema`.
pub(super) fn leaf(plan: NativePlan, schema: &DFSchemaRef) -> PlanResult<LogicalPlan> {
    Ok(LogicalPlan::TableScan(TableScan {
        table_name: TableReference::bare("native"),
        source: provider_as_source(Arc::new(NativeTable { plan, schema: Arc::clone(schema.inner()) })),
        projection: None,
        projected_schema: Arc::clone(schema),
        filters: Vec::new(),
        fetch: None,
        statistics_requests: Default::default(),
    }))
}

#[derive(Debug)]
struct NativeTable {
    plan: NativePlan,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for NativeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        if projection.is_some() || !filters.is_empty() || limit.is_some() {
            return internal_err!("what is lowered is optimised no further");
        }
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("plans are made in a session of ours");
        };
        Ok(self.plan.clone().exec(Arc::clone(&self.schema), state).await?)
    }
}

/// The leaf of a plan that the engine runs, often the whole of it.
#[derive(Debug)]
pub(crate) struct NativeExec {
    plan: NativePlan,
    /// What DataFusion runs below.
    foreign: BTreeMap<usize, Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    passes: Passes<Arc<Handover>>,
    /// Of the scans, in the order in which they stand in the plan.
    progress: Vec<Arc<ScanProgress>>,
}

impl NativeExec {
    /// `plan` over `foreign`, the plans that it names by number.
    pub(crate) fn new(
        plan: NativePlan,
        foreign: BTreeMap<usize, Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
    ) -> Arc<NativeExec> {
        let parts: usize = plan.tables.iter().map(|table| parts_of(&**table)).sum();
        let parts = if foreign.is_empty() { parts.max(1) } else { usize::MAX };
        let threads = plan.context.settings.threads().clamp(1, parts);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(threads),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        let mut progress = Vec::new();
        plan.shape.root.each(&mut |node| {
            if let Node::Scan(scan) = node {
                progress.push(Arc::new(ScanProgress::new(plan.tables[scan.table].row_count())));
            }
        });
        Arc::new(NativeExec {
            plan,
            foreign,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            passes: Passes::default(),
            progress,
        })
    }

    /// Prepares the operators, for workers of the engine's own.
    pub(crate) fn begin(&self, task: Arc<TaskContext>) -> Result<Arc<Running>> {
        Ok(Arc::clone(&self.handover(0, task)?.running))
    }

    fn handover(&self, partition: usize, task: Arc<TaskContext>) -> Result<Arc<Handover>> {
        self.passes.enter(partition, || {
            let NativePlan { shape, tables, context, .. } = &self.plan;
            let threads = context.settings.threads();
            let foreign = self.foreign.iter().map(|(number, plan)| {
                let source = ForeignSource::new(Arc::clone(plan), Arc::clone(&task), context.cancel.clone(), threads);
                (*number, Arc::new(source) as Arc<dyn BatchSource>)
            });
            let foreign = foreign.collect();
            let environment = Environment {
                tables,
                functions: &shape.functions,
                foreign: &foreign,
                batch_rows: context.settings.number("batch_rows") as usize,
                threads: context.settings.threads(),
                cancel: &context.cancel,
                broker: &context.broker,
                recursion_max: context.settings.number("recursion_max"),
            };
            let running = Running::new(&shape.root, &environment)?;
            let mut progress = self.progress.iter();
            running.operator.each_scan(&mut |metrics| {
                if let Some(progress) = progress.next() {
                    context.follow(progress, metrics);
                }
            });
            Ok(Arc::new(Handover::new(running, self.schema(), self.partitions(), context.cancel.clone())))
        })
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// Adds the lines that EXPLAIN shows of the operators, with what was measured of them if they ran: the first behind
    /// `branch`, the others behind `stem`.
    pub(crate) fn tree(&self, branch: &str, stem: &str, measured: bool, lines: &mut Vec<String>) {
        let pass = if measured { self.passes.last() } else { None };
        let operator = pass.as_deref().map(|pass| &pass.running.operator);
        self.node_tree(&self.plan.shape.root, operator, branch, stem, lines);
    }

    fn node_tree(&self, node: &Node, operator: Option<&Operator>, branch: &str, stem: &str, lines: &mut Vec<String>) {
        let estimate = row_count(node, &self.plan.tables);
        let facts = match operator {
            Some(operator) => measures(operator, estimate),
            None => estimated(estimate),
        };
        lines.push(format!("{branch}{}  ({facts})  [native]", node.line(&self.plan)));
        if let Node::Foreign(foreign) = node {
            let (branch, stem) = below(stem, true);
            tree(&self.foreign[&foreign.plan], &branch, &stem, operator.is_some(), lines);
        }
        let inputs = node.inputs();
        for (place, input) in inputs.iter().enumerate() {
            let (branch, stem) = below(stem, place + 1 == inputs.len());
            self.node_tree(input, operator.map(|operator| &operator.inputs[place]), &branch, &stem, lines);
        }
    }
}

/// Rows of a keyed table that are worth a worker.
const KEYED_PART_ROWS: u64 = 1 << 14;

/// Parts of a table that workers may read at the same time, about.
fn parts_of(table: &dyn TableSource) -> usize {
    match table.keyed() {
        Some(keyed) => (keyed.rows_about() / KEYED_PART_ROWS) as usize + 1,
        None => table.blocks().len() + table.runs().len(),
    }
}

/// Rows that were estimated, in words.
pub(crate) fn estimated(rows: f64) -> String {
    format!("~{rows:.0} rows")
}

/// What was measured of an operator that was to give `estimate` rows, in words.
pub(crate) fn measures(operator: &Operator, estimate: f64) -> String {
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
    let allocations = operator.measured.as_ref().and_then(|measured| measured.allocations());
    parts.extend(allocations.map(|allocations| format!("{allocations} allocations")));
    parts.extend(operator.scan.as_ref().map(|scan| in_words(scan)));
    parts.extend(operator.join.as_ref().map(|join| join_in_words(join)));
    parts.join(", ")
}

/// What a join did, in words.
fn join_in_words(metrics: &JoinMetrics) -> String {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (seen, kept) = (count(&metrics.filters.seen), count(&metrics.filters.kept));
    let mut words = format!("{} build rows, {} probe rows", count(&metrics.build_rows), count(&metrics.probe_rows));
    if seen > 0 {
        words += &format!(", its filters left out {} of {seen} rows", seen - kept);
    }
    words
}

impl DisplayAs for NativeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plan.shape.root.line(&self.plan))
    }
}

impl ExecutionPlan for NativeExec {
    leaf_methods!("Native");

    fn reset_state(self: Arc<Self>) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let reset =
            |(number, plan): (&usize, &Arc<dyn ExecutionPlan>)| Ok((*number, reset_plan_states(Arc::clone(plan))?));
        let foreign = self.foreign.iter().map(reset).collect::<PlanResult<_>>()?;
        Ok(NativeExec::new(self.plan.clone(), foreign, self.schema()))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
        let handover = self.handover(partition, task).map_err(to_datafusion)?;
        let batches = handover.partition(BaselineMetrics::new(&self.metrics, partition));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

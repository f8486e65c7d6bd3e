//! A GROUP BY that the engine runs, as a table inside DataFusion's plans.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result as PlanResult, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use parking_lot::Mutex;
use rowmill_exec::group::{GroupBy, GroupRequest};
use rowmill_storage::TableSource;

use crate::catalog::StatementContext;
use crate::errors::to_datafusion;
use crate::leaf::leaf_methods;
use crate::table_scan::ScanProgress;

/// The groups of a table's rows.
#[derive(Debug)]
pub(super) struct GroupTable {
    pub(super) source: Arc<dyn TableSource>,
    pub(super) context: Arc<StatementContext>,
    pub(super) request: GroupRequest,
    /// What is grouped by and computed, in words.
    pub(super) text: String,
}

#[async_trait]
impl TableProvider for GroupTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.request.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        if projection.is_some() || !filters.is_empty() || limit.is_some() {
            return internal_err!("a lowered GROUP BY is optimised no further");
        }
        let parts = self.source.blocks().len() + self.source.runs().len();
        let partitions = self.context.settings.threads().clamp(1, parts.max(1));
        Ok(Arc::new(GroupExec::new(self, partitions)))
    }
}

/// The leaf of a plan that groups the rows of a table.
#[derive(Debug)]
pub(crate) struct GroupExec {
    source: Arc<dyn TableSource>,
    context: Arc<StatementContext>,
    request: GroupRequest,
    text: String,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    run: Mutex<Run>,
    progress: Arc<ScanProgress>,
}

/// One grouping; a plan that is executed a second time asks again for a partition that it has had, which starts the next.
#[derive(Debug, Default)]
struct Run {
    group_by: Option<Arc<GroupBy>>,
    started: Vec<usize>,
}

impl GroupExec {
    fn new(table: &GroupTable, partitions: usize) -> GroupExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&table.request.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        GroupExec {
            source: Arc::clone(&table.source),
            context: Arc::clone(&table.context),
            request: table.request.clone(),
            text: table.text.clone(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            run: Mutex::default(),
            progress: Arc::new(ScanProgress::new(table.source.row_count())),
        }
    }

    fn grouping(&self, partition: usize) -> Arc<GroupBy> {
        let mut run = self.run.lock();
        if run.started.contains(&partition) {
            *run = Run::default();
        }
        run.started.push(partition);
        let group_by = run.group_by.get_or_insert_with(|| GroupBy::new(Arc::clone(&self.source), self.request.clone()));
        if self.progress.follow(Arc::clone(group_by.metrics())) {
            self.context.scans.lock().push(Arc::clone(&self.progress));
        }
        Arc::clone(group_by)
    }

    /// What the last grouping did, in words.
    pub(crate) fn measures(&self) -> Option<String> {
        let run = self.run.lock();
        let metrics = run.group_by.as_ref()?.metrics();
        Some(format!(
            "{} rows read, {} blocks read, {} skipped",
            metrics.rows_read.load(Ordering::Relaxed),
            metrics.blocks_read.load(Ordering::Relaxed),
            metrics.blocks_skipped.load(Ordering::Relaxed)
        ))
    }
}

impl DisplayAs for GroupExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group: {}, {} blocks, {} rows", self.text, self.source.blocks().len(), self.source.row_count())
    }
}

impl ExecutionPlan for GroupExec {
    leaf_methods!("Group");

    fn reset_state(self: Arc<Self>) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let table = GroupTable {
            source: Arc::clone(&self.source),
            context: Arc::clone(&self.context),
            request: self.request.clone(),
            text: self.text.clone(),
        };
        Ok(Arc::new(GroupExec::new(&table, self.properties.partitioning.partition_count())))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
        let mut worker = self.grouping(partition).worker();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = std::iter::from_fn(move || {
            let timer = metrics.elapsed_compute().timer();
            let batch = worker.next();
            timer.done();
            if let Some(Ok(batch)) = &batch {
                metrics.record_output(batch.num_rows());
            }
            batch.map(|batch| batch.map_err(to_datafusion))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::iter(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

//! A GROUP BY that the engine runs, as a table inside DataFusion's plans.

use std::fmt;
use std::sync::Arc;

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
use rowmill_base::Result;
use rowmill_exec::group::{GroupBy, GroupRequest};
use rowmill_storage::TableSource;

use crate::catalog::StatementContext;
use crate::errors::to_datafusion;
use crate::leaf::{Passes, leaf_methods};
use crate::table_scan::{ScanProgress, in_words};

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
    passes: Passes<Arc<GroupBy>>,
    progress: Arc<ScanProgress>,
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
            passes: Passes::default(),
            progress: Arc::new(ScanProgress::new(table.source.row_count())),
        }
    }

    fn grouping(&self, partition: usize) -> Result<Arc<GroupBy>> {
        self.passes.enter(partition, || {
            let group_by = GroupBy::new(Arc::clone(&self.source), self.request.clone())?;
            self.context.follow(&self.progress, group_by.metrics());
            Ok(group_by)
        })
    }

    /// What the last grouping did, in words.
    pub(crate) fn measures(&self) -> Option<String> {
        self.passes.last().map(|group_by| in_words(group_by.metrics()))
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
        let mut worker = self.grouping(partition).map_err(to_datafusion)?.worker();
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

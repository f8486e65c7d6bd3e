//! A stored table inside DataFusion's plans: the table it asks for columns, and the leaf that reads them.
//!
//! The leaf is the engine's own scan behind DataFusion's interface. It takes over projection, limit and every filter
//! that [`crate::predicate`] translates; a count of rows, and minimum and maximum where no row is deleted, it answers
//! from zone maps without being run. All partitions pull from one shared cursor, so none is left with the slow part.

mod estimate;
mod known_values;
mod zones;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result as PlanResult, Statistics, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use parking_lot::Mutex;
use rowmill_base::{Error, Result};
use rowmill_exec::scan::{Scan, ScanMetrics, ScanRequest};
use rowmill_plan::{Predicate, where_clause};
use rowmill_storage::{TableDef, TableSource};

use crate::catalog::{ROW_NUMBER_COLUMN, StatementContext};
use crate::errors::to_datafusion;
use crate::leaf::{Passes, leaf_methods};
use crate::names::planned_field;
use crate::predicate::{is_settled, translate};
pub(crate) use estimate::selectivity;
pub(crate) use known_values::distinct_values;
pub(crate) use zones::column_statistics;

/// A stored table of one snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotTable {
    source: Arc<dyn TableSource>,
    context: Arc<StatementContext>,
    schema: SchemaRef,
    /// Whether the schema ends with [`ROW_NUMBER_COLUMN`].
    row_numbers: bool,
}

impl SnapshotTable {
    pub(crate) fn new(source: Arc<dyn TableSource>, context: Arc<StatementContext>, row_numbers: bool) -> Self {
        let columns =
            source.table().columns.iter().map(|column| {
                planned_field(Field::new(&column.name, column.kind.arrow(), column.nullable), &column.name)
            });
        let of_row = if source.table().keyed.is_some() { DataType::Binary } else { DataType::UInt64 };
        let number = row_numbers.then(|| Field::new(ROW_NUMBER_COLUMN, of_row, false));
        let schema = Arc::new(Schema::new(columns.chain(number).collect::<Vec<_>>()));
        SnapshotTable { source, context, schema, row_numbers }
    }

    pub(crate) fn source(&self) -> &Arc<dyn TableSource> {
        &self.source
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        let table = self.source.table();
        Ok(filters
            .iter()
            .map(|filter| match translate(filter, table) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let filters = filters.iter().filter(|filter| !is_settled(filter));
        let predicates = filters.map(|filter| translate(filter, self.source.table()));
        let Some(predicates) = predicates.collect::<Option<Vec<_>>>() else {
            return internal_err!("a filter was pushed into a scan that does not take it");
        };
        let columns = ScanColumns::new(projection, self.row_numbers.then_some(self.schema.fields().len() - 1));
        let schema = Arc::new(self.schema.project(&columns.projection)?);
        let request = ScanShape { columns, predicates, limit };
        Ok(Arc::new(ScanExec::new(Arc::clone(&self.source), Arc::clone(&self.context), schema, request)))
    }
}

/// Which columns a scan gives, in which order.
#[derive(Clone, Debug)]
struct ScanColumns {
    /// Positions in the planned schema, as the plan above wants them.
    projection: Vec<usize>,
    /// Positions in the table, without the row number.
    stored: Vec<usize>,
    /// Where among `projection` the row number stands; the scan itself always puts it last.
    row_number_at: Option<usize>,
}

impl ScanColumns {
    fn new(projection: Vec<usize>, row_number: Option<usize>) -> Self {
        let row_number_at = projection.iter().position(|column| Some(*column) == row_number);
        let stored = projection.iter().copied().filter(|column| Some(*column) != row_number).collect();
        ScanColumns { projection, stored, row_number_at }
    }
}

/// What of the table a scan reads.
#[derive(Clone, Debug)]
struct ScanShape {
    columns: ScanColumns,
    predicates: Vec<Predicate>,
    limit: Option<usize>,
}

/// Rows a scan has to read and has read, for the progress of its statement.
#[derive(Debug)]
pub(crate) struct ScanProgress {
    rows_total: u64,
    running: Mutex<Option<Arc<ScanMetrics>>>,
}

impl ScanProgress {
    pub(crate) fn new(rows_total: u64) -> Self {
        ScanProgress { rows_total, running: Mutex::default() }
    }

    /// Counts by `metrics` from now on. Whether there were none before.
    pub(crate) fn follow(&self, metrics: Arc<ScanMetrics>) -> bool {
        self.running.lock().replace(metrics).is_none()
    }

    pub(crate) fn rows_total(&self) -> u64 {
        self.rows_total
    }

    pub(crate) fn rows_done(&self) -> u64 {
        let rows = self.running.lock().as_ref().map_or(0, |metrics| metrics.rows_read.load(Ordering::Relaxed));
        rows.min(self.rows_total)
    }
}

/// Rows below which a second thread costs more than it saves.
const ROWS_PER_PARTITION_MIN: u64 = 1 << 14;

/// The leaf of a plan that reads a stored table.
#[derive(Debug)]
pub(crate) struct ScanExec {
    source: Arc<dyn TableSource>,
    context: Arc<StatementContext>,
    shape: ScanShape,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    statistics: OnceLock<Arc<Statistics>>,
    passes: Passes<Scan>,
    progress: Arc<ScanProgress>,
}

impl ScanExec {
    fn new(source: Arc<dyn TableSource>, context: Arc<StatementContext>, schema: SchemaRef, shape: ScanShape) -> Self {
        let rows_total = source.row_count();
        let threads = context.settings.threads() as u64;
        let partitions = (rows_total / ROWS_PER_PARTITION_MIN).clamp(1, threads) as usize;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        ScanExec {
            source,
            context,
            shape,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            statistics: OnceLock::new(),
            passes: Passes::default(),
            progress: Arc::new(ScanProgress::new(rows_total)),
        }
    }

    fn table(&self) -> &TableDef {
        self.source.table()
    }

    /// The pass that `partition` takes part in.
    fn pass(&self, partition: usize) -> Result<Scan> {
        self.passes.enter(partition, || {
            let scan = Scan::new(Arc::clone(&self.source), self.request())?;
            self.context.follow(&self.progress, &scan.metrics);
            Ok(scan)
        })
    }

    fn request(&self) -> ScanRequest {
        ScanRequest {
            columns: self.shape.columns.stored.clone(),
            predicates: self.shape.predicates.clone(),
            limit: self.shape.limit,
            top: None,
            batch_rows: self.context.settings.number("batch_rows") as usize,
            row_numbers: self.shape.columns.row_number_at.is_some(),
            cancel: self.context.cancel.clone(),
        }
    }

    fn compute_statistics(&self) -> Statistics {
        let mut statistics = zones::statistics(&*self.source, &self.shape.columns.stored);
        if let Some(at) = self.shape.columns.row_number_at {
            statistics.column_statistics.insert(at, zones::unknown_column());
        }
        if !self.shape.predicates.is_empty() {
            let share = selectivity(&*self.source, &self.shape.predicates);
            statistics = zones::filtered(statistics, share);
        }
        match self.shape.limit {
            Some(limit) => zones::limited(statistics, limit),
            None => statistics,
        }
    }

    /// What the last pass over the table did, in words.
    pub(crate) fn measures(&self) -> Option<String> {
        self.passes.last().map(|scan| in_words(&scan.metrics))
    }

    fn names(&self, columns: &[usize]) -> String {
        let names: Vec<&str> = columns.iter().map(|column| self.table().columns[*column].name.as_str()).collect();
        names.join(", ")
    }
}

/// What a scan or grouping read, in words.
pub(crate) fn in_words(metrics: &ScanMetrics) -> String {
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

/// Columns that EXPLAIN lists before it only counts them.
const COLUMNS_SHOWN_MAX: usize = 12;

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scan: {}", self.table().name)?;
        match self.shape.columns.stored.as_slice() {
            [] => {}
            all if all.len() == self.table().columns.len() => write!(f, ", all {} columns", all.len())?,
            few if few.len() <= COLUMNS_SHOWN_MAX => write!(f, ", columns [{}]", self.names(few))?,
            many => write!(f, ", {} of {} columns", many.len(), self.table().columns.len())?,
        }
        let name = |column: usize| self.table().columns[column].name.clone();
        f.write_str(&where_clause(&self.shape.predicates, &name))?;
        if let Some(limit) = self.shape.limit {
            write!(f, ", limit {limit}")?;
        }
        write!(f, ", {} blocks, {} rows", self.source.blocks().len(), self.source.row_count())
    }
}

impl ExecutionPlan for ScanExec {
    leaf_methods!("Scan");

    fn reset_state(self: Arc<Self>) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ScanExec::new(
            Arc::clone(&self.source),
            Arc::clone(&self.context),
            self.schema(),
            self.shape.clone(),
        )))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
        let mut batches = self.pass(partition).map_err(to_datafusion)?.source.worker();
        let schema = self.schema();
        let planned = Arc::clone(&schema);
        let row_number_at = self.shape.columns.row_number_at;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = std::iter::from_fn(move || {
            let timer = metrics.elapsed_compute().timer();
            let batch = batches.next().map(|batch| batch.and_then(|batch| conform(batch, &planned, row_number_at)));
            timer.done();
            if let Some(Ok(batch)) = &batch {
                metrics.record_output(batch.num_rows());
            }
            batch.map(|batch| batch.map_err(to_datafusion))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> PlanResult<Arc<Statistics>> {
        // Which rows a partition gets is decided while it runs.
        if args.partition().is_some() && self.properties.partitioning.partition_count() > 1 {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema())));
        }
        Ok(Arc::clone(self.statistics.get_or_init(|| Arc::new(without_bounds(self.compute_statistics())))))
    }
}

/// DataFusion estimates conditions by arithmetic on bounds, and takes what that cannot do (a difference of dates) for an
/// error of the statement. The scan has counted on them itself already.
fn without_bounds(mut statistics: Statistics) -> Statistics {
    for column in &mut statistics.column_statistics {
        column.min_value = Precision::Absent;
        column.max_value = Precision::Absent;
    }
    statistics
}

/// A batch of the scan with the plan's names, and with the row number where the plan wants it.
pub(crate) fn conform(batch: RecordBatch, schema: &SchemaRef, row_number_at: Option<usize>) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let mut columns = batch.columns().to_vec();
    if let Some(at) = row_number_at {
        let numbers = columns.pop().expect("the scan was asked for row numbers");
        columns.insert(at, numbers);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(format!("a scan gave other columns than it was asked for: {error}")))
}

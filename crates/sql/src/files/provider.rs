//! Files as tables of a query: `SELECT ... FROM 'events-*.csv'`.
//!
//! Parquet is scanned by DataFusion's own source, which prunes row groups and pages by filters ([`super::parquet_table`]).
//! Every other format is scanned here: the files are cut into pieces, and each partition of the scan takes the next piece
//! that nobody has taken yet, so that none is left with the slow part. Only the columns that the query asks for are
//! parsed.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result as PlanResult, Statistics};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use rowmill_base::{Error, Result};

use super::file_set::FileSet;
use super::jobs::{Jobs, Progress};
use super::mapping::TargetColumn;
use super::options::{FileFormat, ReadOptions};
use super::parquet_table::ParquetTable;
use crate::errors::to_datafusion;
use crate::leaf::{Passes, leaf_methods};
use crate::names::planned_field;

/// Bytes of files below which a second thread costs more than it saves.
const BYTES_PER_PARTITION_MIN: u64 = 2 << 20;

/// The files of a path or pattern as a table. Its columns have the types that the files tell or their first rows
/// suggest, and are planned in lower case with their spelling as metadata.
pub fn table_provider(pattern: &str) -> Result<Arc<dyn TableProvider>> {
    provider_of(FileSet::open(pattern, &ReadOptions::default())?)
}

/// Files that are open already as a table; [`FileSet::notices`] has what the user should be told.
pub fn provider_of(files: FileSet) -> Result<Arc<dyn TableProvider>> {
    let columns = files.own_columns()?;
    let schema = planned_schema(&columns);
    if let Some(parquet) = files.parquet_files()
        && let Some(table) = ParquetTable::new(parquet, &columns, Arc::clone(&schema))
    {
        return Ok(Arc::new(table));
    }
    Ok(Arc::new(FileTable { files: Arc::new(files), schema }))
}

fn planned_schema(columns: &[TargetColumn]) -> SchemaRef {
    let field = |column: &TargetColumn| {
        planned_field(Field::new(&column.name, column.kind.arrow(), column.nullable), &column.name)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Files that are read by this crate's own readers.
#[derive(Debug)]
struct FileTable {
    files: Arc<FileSet>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&wanted)?);
        let threads = match self.files.format() {
            // Its columns are streams that threads side by side would only pull back and forth.
            FileFormat::Parquet => 1,
            _ => state.config().target_partitions() as u64,
        };
        let partitions = (self.files.bytes() / BYTES_PER_PARTITION_MIN).clamp(1, threads.max(1)) as usize;
        Ok(Arc::new(FileScanExec::new(Arc::clone(&self.files), wanted, schema, partitions)))
    }
}

/// The leaf of a plan that reads files.
#[derive(Debug)]
struct FileScanExec {
    files: Arc<FileSet>,
    /// Numbers of the columns that are read.
    wanted: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    passes: Passes<Arc<dyn Jobs>>,
}

impl FileScanExec {
    fn new(files: Arc<FileSet>, wanted: Vec<usize>, schema: SchemaRef, partitions: usize) -> FileScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        FileScanExec {
            files,
            wanted,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            passes: Passes::default(),
        }
    }

    /// The jobs of the pass that `partition` takes part in.
    fn pass(&self, partition: usize) -> Result<Arc<dyn Jobs>> {
        self.passes.enter(partition, || self.files.own_jobs(&self.wanted, &Progress::default()))
    }
}

impl DisplayAs for FileScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileScan: {}, {}", self.files.describe(), self.files.format().name())?;
        let names: Vec<&str> = self.wanted.iter().map(|column| self.files.columns()[*column].name.as_str()).collect();
        write!(f, ", columns [{}]", super::mapping::listed(names.into_iter()))
    }
}

impl ExecutionPlan for FileScanExec {
    leaf_methods!("FileScan");

    fn reset_state(self: Arc<Self>) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let partitions = self.properties.partitioning.partition_count();
        Ok(Arc::new(FileScanExec::new(Arc::clone(&self.files), self.wanted.clone(), self.schema(), partitions)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
        let schema = self.schema();
        let batches = FileBatches {
            jobs: self.pass(partition).map_err(to_datafusion)?,
            schema: Arc::clone(&schema),
            rows_max: context.session_config().batch_size().max(1),
            batch: None,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = batches.map(|batch| batch.map_err(to_datafusion));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> PlanResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if args.partition().is_none() {
            statistics.num_rows = match self.files.rows() {
                Some(rows) => Precision::Exact(rows as usize),
                None => Precision::Absent,
            };
        }
        Ok(Arc::new(statistics))
    }
}

/// The batches of one partition, cut to the size that the plan works with.
struct FileBatches {
    jobs: Arc<dyn Jobs>,
    schema: SchemaRef,
    rows_max: usize,
    /// What is left of the piece that was read last.
    batch: Option<RecordBatch>,
    metrics: BaselineMetrics,
}

impl FileBatches {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => match self.jobs.next_job()? {
                    Some(job) => self.planned(&job()?)?,
                    None => return Ok(None),
                },
            };
            if batch.num_rows() > self.rows_max {
                self.batch = Some(batch.slice(self.rows_max, batch.num_rows() - self.rows_max));
                return Ok(Some(batch.slice(0, self.rows_max)));
            }
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    /// The batch under the names that columns are planned by.
    fn planned(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &options)
            .map_err(|error| Error::internal(format!("files gave other columns than they were asked for: {error}")))
    }
}

impl Iterator for FileBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let compute = self.metrics.elapsed_compute().clone();
        let timer = compute.timer();
        let batch = self.next_batch().transpose();
        timer.done();
        if let Some(Ok(batch)) = &batch {
            self.metrics.record_output(batch.num_rows());
        }
        batch
    }
}

#[cfg(test)]
mod tests;

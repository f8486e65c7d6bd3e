//! Parquet files as a table of a query, scanned by DataFusion's Parquet source.
//!
//! The source prunes row groups and pages by the filters of the query and reads only the columns it needs. It works on
//! the names of the files; a projection on top renames them to the planned ones, and the optimizer moves filters and
//! projections through it. The metadata that opening the files has parsed is handed over, and with it the schema that
//! columns are safely read with.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result as PlanResult, Statistics, internal_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::file::reader::ChunkReader;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::mapping::TargetColumn;
use super::parquet_file::{ParquetFile, SharedFile};

/// Parquet files of the same columns.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    files: Vec<Arc<ParquetFile>>,
    /// The names that columns are planned by.
    planned: SchemaRef,
    /// The names in the files, with the same types.
    spelled: SchemaRef,
}

impl ParquetTable {
    /// `None` if the source cannot tell the columns apart because two have the same name.
    pub(crate) fn new(
        files: &[Arc<ParquetFile>],
        columns: &[TargetColumn],
        planned: SchemaRef,
    ) -> Option<ParquetTable> {
        let names: Vec<&str> = files.first()?.columns.iter().map(|column| column.name.as_str()).collect();
        let distinct: std::collections::HashSet<&str> = names.iter().copied().collect();
        if distinct.len() < names.len() {
            return None;
        }
        let fields = columns.iter().zip(planned.fields()).zip(names).map(|((column, planned), name)| {
            Field::new(name, column.kind.arrow(), column.nullable).with_metadata(planned.metadata().clone())
        });
        let spelled = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Some(ParquetTable { files: files.to_vec(), planned, spelled })
    }

    fn partitioned(&self, file: &Arc<ParquetFile>) -> PartitionedFile {
        let statistics = DFParquetMetadata::statistics_from_parquet_metadata(file.metadata(), &self.spelled);
        // Counts of rows are facts; bounds prune, but whether they are values depends on the writer.
        let statistics = statistics.map_or_else(|_| Statistics::new_unknown(&self.spelled), Statistics::to_inexact);
        let statistics = Statistics { num_rows: Precision::Exact(file.rows as usize), ..statistics };
        PartitionedFile::new(file.source.name.clone(), file.source.bytes)
            .with_arrow_schema(Arc::clone(file.read_schema()))
            .with_extension(Arc::clone(file))
            .with_statistics(Arc::new(statistics))
    }

    /// The files dealt out to at most `partitions` groups; the optimizer cuts large files further.
    fn groups(&self, files: Vec<PartitionedFile>, partitions: usize) -> Vec<FileGroup> {
        let per_group = files.len().div_ceil(partitions.max(1)).max(1);
        files.chunks(per_group).map(|files| FileGroup::new(files.to_vec())).collect()
    }
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.planned)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        // The filter stays above the scan, from where the physical optimizer offers it to the source for pruning.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.planned.fields().len()).collect());
        let files: Vec<PartitionedFile> = self.files.iter().map(|file| self.partitioned(file)).collect();
        let rows = self.files.iter().map(|file| file.rows as usize).sum();
        let statistics = match files.as_slice() {
            [file] => file.statistics.as_deref().cloned(),
            _ => None,
        };
        let statistics = statistics.unwrap_or_else(|| Statistics {
            num_rows: Precision::Exact(rows),
            ..Statistics::new_unknown(&self.spelled)
        });
        let source = ParquetSource::new(Arc::clone(&self.spelled))
            .with_table_parquet_options(state.table_options().parquet.clone())
            .with_parquet_file_reader_factory(Arc::new(OpenFiles));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(self.groups(files, state.config().target_partitions()))
            .with_statistics(statistics)
            .with_projection_indices(Some(wanted.clone()))?
            // A limit counts rows behind the filters.
            .with_limit(limit.filter(|_| filters.is_empty()))
            .build();
        let scan = DataSourceExec::from_data_source(config);
        let renamed = wanted.iter().enumerate().map(|(at, column)| ProjectionExpr {
            expr: Arc::new(Column::new(self.spelled.field(*column).name(), at)),
            alias: self.planned.field(*column).name().clone(),
        });
        Ok(Arc::new(ProjectionExec::try_new(renamed.collect::<Vec<_>>(), scan)?))
    }
}

/// Gives the source readers of files that are open already.
#[derive(Debug)]
struct OpenFiles;

impl ParquetFileReaderFactory for OpenFiles {
    fn create_reader(
        &self,
        _: usize,
        file: PartitionedFile,
        _: Option<usize>,
        _: &ExecutionPlanMetricsSet,
    ) -> PlanResult<Box<dyn AsyncFileReader + Send>> {
        let file = file.extension::<Arc<ParquetFile>>();
        let file = file.ok_or_else(|| internal_datafusion_err!("a file of a scan came without its metadata"))?;
        Ok(Box::new(OpenFile { bytes: file.bytes().clone(), metadata: Arc::clone(file.metadata()) }))
    }
}

/// Reads one file whose metadata is known. Reads are answered at once: the pages are in the kernel's cache or are about
/// to be read by this thread anyway.
struct OpenFile {
    bytes: SharedFile,
    metadata: Arc<ParquetMetaData>,
}

impl AsyncFileReader for OpenFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let length = range.end.saturating_sub(range.start) as usize;
        futures::future::ready(self.bytes.get_bytes(range.start, length)).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        futures::future::ready(Ok(Arc::clone(&self.metadata))).boxed()
    }
}

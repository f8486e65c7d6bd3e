//! Reads the files' own columns as rows of a query.

use std::sync::Arc;

use rowmill_base::Result;
use rowmill_exec::batch::BatchSource;

use super::{FileSet, LearnedFacts};
use crate::ipc_file::IpcJobs;
use crate::jobs::{Jobs, ReadProgress};
use crate::json_reader::JsonPlan;
use crate::mapping::TargetColumn;
use crate::parquet_scan::{ParquetScan, ScannedFile};
use crate::piece_rows::PieceRows;
use crate::report::Reporter;
use crate::rows::RowsRequest;
use crate::text_source::ChunkJobs;

impl FileSet {
    /// Opens the rows of the requested columns, which are given by their numbers.
    pub(crate) fn own_rows(&self, request: &RowsRequest<'_>) -> Result<Arc<dyn BatchSource>> {
        let wanted = request.columns;
        let target: Vec<TargetColumn> =
            wanted.iter().map(|i| self.own_column(*i, &self.columns[*i])).collect::<Result<_>>()?;
        let reporter = Reporter { on_error: self.options.on_error, rejects: None };
        let progress = ReadProgress::default();
        let jobs: Arc<dyn Jobs> = match &self.contents {
            LearnedFacts::Parquet(files) => {
                let files = files
                    .iter()
                    .enumerate()
                    .map(|(number, file)| ScannedFile { file: Arc::clone(file), places: self.order_in_file(number) });
                return Ok(Arc::new(ParquetScan::new(files.collect(), &self.own_columns()?, request)));
            }
            LearnedFacts::Arrow(files) => {
                let columns =
                    self.columns_of_files(&target, true, |file, column| files[file].data_type(column).clone())?;
                Arc::new(IpcJobs::new(files.clone(), &target, columns, progress))
            }
            LearnedFacts::Csv(shape) => {
                // A column of the set is the field with the same number.
                let fields = wanted.iter().map(|i| Some(*i)).collect();
                let hint = self.guess_hint(shape.sampled);
                self.csv_jobs(shape, shape.header, fields, &target, reporter, Some(hint), &progress)
            }
            LearnedFacts::Json { keys, boundaries, sampled } => {
                // Keys that the query does not need are mapped to `None` and skipped.
                let place = |i: usize| wanted.iter().position(|wanted| *wanted == i);
                let columns = keys.iter().enumerate().map(|(i, key)| (key.clone(), place(i))).collect();
                let hint = self.guess_hint(*sampled);
                let plan = JsonPlan::new(&target, columns, self.options.ignore_unknown, reporter, Some(hint))?;
                Arc::new(ChunkJobs::new(plan, self.chunks(boundaries, &progress)))
            }
        };
        Ok(Arc::new(PieceRows::new(jobs, &target, self.bytes(), request)))
    }
}

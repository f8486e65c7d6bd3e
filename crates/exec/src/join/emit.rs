//! Makes result batches from pairs of rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use rowmill_base::{Error, Result};

use super::HashJoin;
use super::layout::PairColumnOrigin;
use super::prepare::StoredBuild;

/// The rows of the build side in a batch of pairs.
#[derive(Clone, Copy)]
pub(super) enum BuildSide<'a> {
    /// These rows; a NULL is a pair without a row of the build side.
    Rows(&'a UInt32Array),
    /// No row: NULL in all columns.
    Null,
}

/// The rows of the probe side in a batch of pairs.
#[derive(Clone, Copy)]
pub(super) enum ProbeSide<'a> {
    /// All of them.
    All(&'a [ArrayRef]),
    /// These rows.
    Rows(&'a [ArrayRef], &'a UInt32Array),
    /// No row: NULL in all columns.
    Null,
}

impl HashJoin {
    /// The most rows of a batch.
    pub(super) fn batch_rows(&self) -> usize {
        self.request.batch_rows.max(1)
    }

    /// Makes a batch of the result.
    pub(super) fn emit(
        &self,
        stored: &StoredBuild,
        build: BuildSide<'_>,
        probe: ProbeSide<'_>,
        mark: Option<BooleanArray>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let mark = mark.map(|mark| Arc::new(mark) as ArrayRef);
        self.emit_with(stored, build, probe, mark, rows)
    }

    /// Makes a batch of the result whose last columns are `more`.
    pub(super) fn emit_with(
        &self,
        stored: &StoredBuild,
        build: BuildSide<'_>,
        probe: ProbeSide<'_>,
        more: impl IntoIterator<Item = ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let mut columns = columns(stored, &self.layout.output, build, probe, rows)?;
        columns.extend(more);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.request.schema), columns, &options).map_err(failed)
    }
}

/// The columns of `rows` pairs.
pub(super) fn columns(
    stored: &StoredBuild,
    origins: &[(PairColumnOrigin, DataType)],
    build: BuildSide<'_>,
    probe: ProbeSide<'_>,
    rows: usize,
) -> Result<Vec<ArrayRef>> {
    let column = |(origin, kind): &(PairColumnOrigin, DataType)| match (*origin, build, probe) {
        // Arrow cannot take rows of an empty column, not even NULL rows, so an empty side must not get here.
        (PairColumnOrigin::Build(column), BuildSide::Rows(rows), _) if stored.rows > 0 => {
            take(&stored.columns[column].values, rows, None).map_err(failed)
        }
        (PairColumnOrigin::Probe(column), _, ProbeSide::All(columns)) => Ok(Arc::clone(&columns[column])),
        (PairColumnOrigin::Probe(column), _, ProbeSide::Rows(columns, rows)) => {
            take(&columns[column], rows, None).map_err(failed)
        }
        _ => Ok(new_null_array(kind, rows)),
    };
    origins.iter().map(column).collect()
}

pub(super) fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the rows of a join: {error}"))
}

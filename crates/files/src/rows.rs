//! Files as rows of a query: `SELECT ... FROM 'events-*.csv'`.
//!
//! The files are cut into pieces, and every worker takes the next piece that no other has taken, so that none is left with
//! the slow part. Only the columns that the query asks for are read.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Cancel, Result};
use rowmill_exec::batch::BatchSource;
use rowmill_plan::Predicate;
use rowmill_query::catalog::RowSource;

use crate::FileSet;
use crate::mapping::schema_of;

/// Bytes of files below which a second thread costs more than it saves.
pub(crate) const BYTES_PER_WORKER_MIN: u64 = 2 << 20;

/// What a query asks of files: the arguments of [`RowSource::open`].
pub(crate) struct RowsRequest<'a> {
    pub(crate) columns: &'a [usize],
    /// Rows for which one of them is not true may be left out.
    pub(crate) predicates: &'a [Predicate],
    pub(crate) batch_rows: usize,
    pub(crate) threads: usize,
    pub(crate) cancel: &'a Cancel,
}

/// The files of a path or pattern.
#[derive(Debug)]
pub struct FileRows {
    files: FileSet,
    schema: SchemaRef,
    name: String,
}

impl FileRows {
    /// Files that are open. Columns have the types that the files tell or their first rows suggest.
    pub fn new(files: FileSet) -> Result<Arc<FileRows>> {
        let schema = schema_of(&files.own_columns()?);
        let name = files.describe();
        Ok(Arc::new(FileRows { files, schema, name }))
    }
}

impl RowSource for FileRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn row_count(&self) -> Option<u64> {
        self.files.rows()
    }

    fn open(
        &self,
        columns: &[usize],
        predicates: &[Predicate],
        batch_rows: usize,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Arc<dyn BatchSource>> {
        self.files.own_rows(&RowsRequest { columns, predicates, batch_rows, threads, cancel })
    }
}

#[cfg(test)]
mod tests;

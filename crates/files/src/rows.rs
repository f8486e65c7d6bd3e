//! Files as rows of a query, for example `SELECT ... FROM 'events-*.csv'`.
//!
//! The files are cut into pieces. Every worker takes the next free piece, so that no worker is left with a slow share.
//! Only the columns that the query needs are read.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Cancel, Result};
use rowmill_exec::batch::BatchSource;
use rowmill_plan::Predicate;
use rowmill_query::catalog::RowSource;

use crate::FileSet;
use crate::mapping::schema_of;

/// With fewer bytes than this per thread, another thread costs more than it saves.
pub(crate) const BYTES_PER_WORKER_MIN: u64 = 2 << 20;

/// The request of a query: the arguments of [`RowSource::open`].
pub(crate) struct RowsRequest<'a> {
    pub(crate) columns: &'a [usize],
    /// The source may leave out rows for which any of these is not true.
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
    /// Makes a row source of open files. The columns have the types stated by the files or guessed from their first
    /// rows.
    pub fn new(files: FileSet) -> Result<Arc<FileRows>> {
        // Fails here if a column has a type that SQL does not have.
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

//! Some rows of a source of a block.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use rowmill_base::{Error, Result};
use rowmill_storage::BlockSource;

/// The rows of a source at some positions.
pub(crate) struct PickedRows<'a> {
    pub(crate) source: &'a dyn BlockSource,
    /// Columns that were read already, with their positions in the table. A source must not be asked for them again.
    pub(crate) known: Vec<(usize, ArrayRef)>,
    /// Which rows; `None` for all of them.
    pub(crate) rows: Option<UInt32Array>,
}

impl BlockSource for PickedRows<'_> {
    fn rows(&self) -> usize {
        self.rows.as_ref().map_or_else(|| self.source.rows(), Array::len)
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        let values = match self.known.iter().find(|(column, _)| *column == index) {
            Some((_, values)) => Arc::clone(values),
            None => self.source.column(index)?,
        };
        match &self.rows {
            Some(rows) => take(&values, rows, None).map_err(|error| Error::internal(error.to_string())),
            None => Ok(values),
        }
    }
}

//! The rows of a batch that an expression is evaluated for, and batches narrowed to some of their rows.

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::FilterBuilder;
use rowmill_base::{Error, Result};

use crate::kinds::arrow_failed;

/// The columns and rows that an expression is evaluated over.
#[derive(Clone, Copy)]
pub(super) struct InputRows<'a> {
    pub(super) columns: &'a [ArrayRef],
    pub(super) rows: usize,
}

impl InputRows<'_> {
    pub(super) fn column(&self, position: usize) -> Result<&ArrayRef> {
        self.columns
            .get(position)
            .ok_or_else(|| Error::internal(format!("an expression reads column {position} of {}", self.columns.len())))
    }

    /// Returns the rows of `mask`, in the columns `wanted`. The other columns keep all rows and must not be read.
    pub(super) fn narrowed(&self, mask: &BooleanBuffer, wanted: &[usize]) -> Result<NarrowedRows> {
        let rows = mask.count_set_bits();
        let mut builder = FilterBuilder::new(&BooleanArray::new(mask.clone(), None));
        // Preparing the filter pays off only if it is applied more than once.
        if wanted.len() > 1 {
            builder = builder.optimize();
        }
        let filter = builder.build();
        let mut columns = self.columns.to_vec();
        for position in wanted {
            columns[*position] = filter.filter(self.column(*position)?).map_err(arrow_failed)?;
        }
        Ok(NarrowedRows { columns, rows })
    }
}

/// Some rows of a batch.
pub(super) struct NarrowedRows {
    columns: Vec<ArrayRef>,
    rows: usize,
}

impl NarrowedRows {
    pub(super) fn input(&self) -> InputRows<'_> {
        InputRows { columns: &self.columns, rows: self.rows }
    }
}

/// Spreads the truth values of the rows of `mask` over all rows. The others get `other`.
pub(super) fn widened(narrow: &BooleanArray, mask: &BooleanBuffer, other: bool) -> BooleanArray {
    use arrow::array::Array;
    let mut values = BooleanBufferBuilder::new(mask.len());
    values.append_n(mask.len(), other);
    let mut valid = narrow.nulls().map(|_| {
        let mut valid = BooleanBufferBuilder::new(mask.len());
        valid.append_n(mask.len(), true);
        valid
    });
    for (position, row) in mask.set_indices().enumerate() {
        values.set_bit(row, narrow.value(position));
        if let Some(valid) = &mut valid {
            valid.set_bit(row, narrow.is_valid(position));
        }
    }
    BooleanArray::new(values.finish(), valid.map(|mut valid| NullBuffer::new(valid.finish())))
}

//! Tracks which rows of a chunk are kept, because some cannot be read.

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::compute::filter;
use rowmill_base::{Error, Result};

/// The kept rows of columns that are being built. Costs nothing as long as all rows are kept.
#[derive(Default)]
pub(crate) struct KeptRows {
    rows: usize,
    kept: Option<BooleanBufferBuilder>,
}

impl KeptRows {
    /// Adds `rows` more rows. Those in `bad`, counted from the first of these rows, are not kept.
    pub(crate) fn add(&mut self, rows: usize, bad: impl ExactSizeIterator<Item = usize>) {
        let before = self.rows;
        self.rows += rows;
        if bad.len() == 0 && self.kept.is_none() {
            return;
        }
        // The bitmap starts with the first bad row. All rows before are kept.
        let kept = self.kept.get_or_insert_with(|| {
            let mut kept = BooleanBufferBuilder::new(before + rows);
            kept.append_n(before, true);
            kept
        });
        kept.append_n(rows, true);
        for row in bad {
            kept.set_bit(before + row, false);
        }
    }

    /// Removes the rows that are not kept from the columns. Returns the columns and the number of kept rows.
    pub(crate) fn apply(&mut self, mut columns: Vec<ArrayRef>) -> Result<(Vec<ArrayRef>, usize)> {
        let Some(mut kept) = self.kept.take() else { return Ok((columns, self.rows)) };
        let kept = BooleanArray::from(kept.finish());
        for column in &mut columns {
            *column = filter(column, &kept).map_err(|error| Error::internal(error.to_string()))?;
        }
        Ok((columns, kept.true_count()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn bad_rows_go_and_others_stay() {
        let mut rows = KeptRows::default();
        rows.add(2, [].into_iter());
        rows.add(3, [0, 2].into_iter());
        let column: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 3, 4]));
        let (columns, count) = rows.apply(vec![column]).expect("filtered");
        assert_eq!(columns[0].as_ref(), &Int64Array::from(vec![0, 1, 3]));
        assert_eq!(count, 3);
    }
}

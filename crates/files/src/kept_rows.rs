//! Which rows of a chunk stay, where some cannot be read.

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::compute::filter;
use rowmill_base::{Error, Result};

/// The rows of columns that are being built; costs nothing while all of them stay.
#[derive(Default)]
pub(crate) struct KeptRows {
    rows: usize,
    kept: Option<BooleanBufferBuilder>,
}

impl KeptRows {
    /// Notes `rows` more rows, of which those in `bad`, counted from the first of them, do not stay.
    pub(crate) fn add(&mut self, rows: usize, bad: impl ExactSizeIterator<Item = usize>) {
        let before = self.rows;
        self.rows += rows;
        if bad.len() == 0 && self.kept.is_none() {
            return;
        }
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

    /// The columns without the rows that do not stay, and the number of those that do.
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

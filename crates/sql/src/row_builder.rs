//! Collects rows that come value by value as columns: rows of an appender, and of prepared INSERT statements that wait
//! within a transaction.

use arrow::array::ArrayRef;
use rowmill_base::{Error, Result};

use crate::cell_builder::CellBuilder;
use crate::param::Param;

/// The most rows that wait in a [`RowBuilder`], and the most values. This bounds its memory, and one batch of this size
/// costs little more for each row than a larger one.
const WAITING_ROWS_MAX: usize = 1 << 14;
const WAITING_VALUES_MAX: usize = 1 << 17;

/// The most bytes of texts that wait in a [`RowBuilder`].
const WAITING_BYTES_MAX: usize = 1 << 22;

/// Why a row was not added.
#[derive(Debug)]
pub enum RowRefusal {
    /// A value does not fit its column.
    Value(Error),
    /// It has another number of values than the builder has columns.
    Width {
        /// The number of values.
        found: usize,
    },
}

/// Writes the values of one row into a [`RowBuilder`], in the order of its columns.
#[derive(Debug)]
pub struct RowWriter<'b> {
    cells: std::slice::IterMut<'b, CellBuilder>,
    bytes: usize,
    /// Values beyond the last column.
    surplus: usize,
}

impl RowWriter<'_> {
    /// Writes the next value.
    #[inline]
    pub fn push(&mut self, value: Param<'_>) -> Result<()> {
        match value {
            Param::Text(text) => self.bytes += text.len(),
            Param::Blob(blob) => self.bytes += blob.len(),
            _ => {}
        }
        match self.cells.next() {
            Some(cell) => cell.append(value),
            None => {
                self.surplus += 1;
                Ok(())
            }
        }
    }
}

/// Collects rows as columns.
#[derive(Debug)]
pub struct RowBuilder {
    cells: Vec<CellBuilder>,
    rows: usize,
    rows_max: usize,
    bytes: usize,
    /// Whether a row was refused after some of its values were appended.
    is_ragged: bool,
}

impl RowBuilder {
    /// An empty builder of these columns.
    pub fn new(cells: Vec<CellBuilder>) -> RowBuilder {
        let rows_max = WAITING_ROWS_MAX.min(WAITING_VALUES_MAX / cells.len().max(1)).max(1);
        RowBuilder { cells, rows: 0, rows_max, bytes: 0, is_ragged: false }
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.cells.len()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the rows must be taken out before the next one is added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_ragged || self.rows >= self.rows_max || self.bytes >= WAITING_BYTES_MAX
    }

    /// Adds a row, whose values `write` gives in order. Must not be called while the builder is full. A row with a
    /// value that does not fit is not added.
    #[inline]
    pub fn push_row(&mut self, write: impl FnOnce(&mut RowWriter<'_>) -> Result<()>) -> Result<(), RowRefusal> {
        let mut writer = RowWriter { cells: self.cells.iter_mut(), bytes: 0, surplus: 0 };
        let written = write(&mut writer);
        let RowWriter { cells, bytes, surplus } = writer;
        let missing = cells.len();
        self.bytes += bytes;
        if written.is_ok() && missing == 0 && surplus == 0 {
            self.rows += 1;
            return Ok(());
        }
        self.is_ragged = true;
        Err(match written {
            Err(error) => RowRefusal::Value(error),
            Ok(()) => RowRefusal::Width { found: self.cells.len() - missing + surplus },
        })
    }

    /// Adds a row, which must have a value for each column. Otherwise as [`RowBuilder::push_row`].
    #[inline]
    pub fn push<'v>(&mut self, values: impl IntoIterator<Item = Param<'v>>) -> Result<()> {
        let pushed = self.push_row(|row| values.into_iter().try_for_each(|value| row.push(value)));
        pushed.map_err(|refusal| match refusal {
            RowRefusal::Value(error) => error,
            RowRefusal::Width { found } => Error::internal(format!("a row of {found} values")),
        })
    }

    /// Takes all rows out. Returns the columns and the number of rows.
    pub fn take(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        let columns = self.cells.iter_mut().map(|cell| Ok(cell.finish()?.slice(0, self.rows)));
        let taken = (columns.collect::<Result<_>>()?, self.rows);
        (self.rows, self.bytes, self.is_ragged) = (0, 0, false);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::{ErrorKind, SqlType};

    use super::*;
    use crate::cell_builder::Conversion;

    #[test]
    fn a_refused_row_leaves_the_others() {
        let cell = |name| CellBuilder::new(name, &SqlType::Int64, false, Conversion::Exact);
        let mut rows = RowBuilder::new(vec![cell("a"), cell("b")]);
        rows.push([Param::Integer(1), Param::Integer(2)]).unwrap();
        let short = rows.push_row(|row| row.push(Param::Integer(1)));
        assert!(matches!(short, Err(RowRefusal::Width { found: 1 })) && rows.is_full());
        assert_eq!(rows.take().unwrap().1, 1);
        rows.push([Param::Integer(1), Param::Integer(2)]).unwrap();
        let error = rows.push([Param::Integer(3), Param::Null]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotNullViolation);
        assert!(rows.is_full());
        let (columns, count) = rows.take().unwrap();
        assert_eq!((columns[0].len(), columns[1].len(), count), (1, 1, 1));
        assert!(!rows.is_full());
    }
}

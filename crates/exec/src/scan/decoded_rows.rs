//! The columns of rows that were read as bytes. Each is decoded when it is needed.
//!
//! The columns of conditions must be decoded for all rows. If few rows pass the conditions, the other columns should be
//! decoded for those rows alone. For example, `SELECT name FROM users WHERE city = 'Oslo'` decodes the city of each
//! row, and the names of the users in Oslo.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use rowmill_base::{Error, Result};
use rowmill_storage::KeyedSource;

/// If at most one of this number of rows passes, the passing rows are copied before their other columns are decoded. To
/// copy a row takes about as long as to decode a text.
const ROWS_PER_PASSING_ROW: usize = 2;

/// Rows and their columns, as far as these are decoded.
pub(super) struct DecodedRows<'r> {
    source: &'r dyn KeyedSource,
    keys: &'r [&'r [u8]],
    rows: &'r [&'r [u8]],
    /// The columns that may be needed, each once, by their positions in the table.
    read: &'r [usize],
    columns: Vec<Option<ArrayRef>>,
}

impl<'r> DecodedRows<'r> {
    pub(super) fn new(
        source: &'r dyn KeyedSource,
        [keys, rows]: [&'r [&'r [u8]]; 2],
        read: &'r [usize],
    ) -> DecodedRows<'r> {
        DecodedRows { source, keys, rows, read, columns: vec![None; read.len()] }
    }

    /// The values of a column in a range of the rows.
    pub(super) fn values(&mut self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        self.decode(&[column])?;
        let at = self.place(column)?;
        self.columns[at].as_ref().map(|values| values.slice(rows.start, rows.len())).ok_or_else(missing)
    }

    /// Decodes columns that are not decoded yet, all at once.
    pub(super) fn decode(&mut self, columns: &[usize]) -> Result<()> {
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            let at = self.place(*column)?;
            if self.columns[at].is_none() && !places.contains(&at) {
                places.push(at);
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        let wanted: Vec<usize> = places.iter().map(|at| self.read[*at]).collect();
        let decoded = self.source.decode(self.keys, self.rows, &wanted)?;
        places.into_iter().zip(decoded).for_each(|(at, values)| self.columns[at] = Some(values));
        Ok(())
    }

    /// The columns `wanted` of the rows at `positions`, or of all rows.
    pub(super) fn pick(mut self, wanted: &[usize], positions: Option<&UInt32Array>) -> Result<Vec<ArrayRef>> {
        let Some(positions) = positions else {
            self.decode(wanted)?;
            return wanted.iter().map(|column| self.values(*column, 0..self.keys.len())).collect();
        };
        if positions.len() * ROWS_PER_PASSING_ROW > self.keys.len() {
            self.decode(wanted)?;
        }
        let take = |values: &ArrayRef| {
            arrow::compute::take(values, positions, None).map_err(|error| Error::internal(error.to_string()))
        };
        self.columns =
            self.columns.iter().map(|values| values.as_ref().map(take).transpose()).collect::<Result<_>>()?;
        // The columns that are still missing are decoded for the picked rows alone.
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        let is_missing = |column: &&usize| self.place(**column).is_ok_and(|at| self.columns[at].is_none());
        if wanted.iter().any(|column| is_missing(&column)) {
            for at in positions.values() {
                keys.push(self.keys[*at as usize]);
                rows.push(self.rows[*at as usize]);
            }
        }
        let mut picked = DecodedRows { keys: &keys, rows: &rows, ..self };
        picked.decode(wanted)?;
        wanted.iter().map(|column| picked.values(*column, 0..positions.len())).collect()
    }

    fn place(&self, column: usize) -> Result<usize> {
        self.read.iter().position(|read| *read == column).ok_or_else(missing)
    }
}

#[cold]
fn missing() -> Error {
    Error::internal("a scan needs a column that it does not read")
}

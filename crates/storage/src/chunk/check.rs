//! A chunk looked at as a whole: whether all of it decodes, and to what its head says.

use arrow::array::{Array, make_comparator};
use arrow::compute::SortOptions;
use rowmill_base::{Cancel, Error, Result, SqlType};

use super::Chunk;

/// Rows that are decoded at a time.
const ROWS_AT_A_TIME: usize = 1 << 16;

impl Chunk {
    /// Decodes all rows and compares them with what is stored of them beside: NULLs, and of each value its rows. Its
    /// checksums are compared before.
    pub fn check(&self, cancel: &Cancel) -> Result<()> {
        self.verify()?;
        let mut nulls = 0;
        let mut codes = Vec::new();
        let mut rows_of = vec![0; self.values_and_null()];
        for first in (0..self.rows()).step_by(ROWS_AT_A_TIME) {
            cancel.check()?;
            let rows = first..(first + ROWS_AT_A_TIME).min(self.rows());
            let values = self.read(rows.clone())?;
            if values.len() != rows.len() {
                return Err(Error::corrupt(format!("rows {rows:?} of the chunk are {} rows", values.len())));
            }
            nulls += values.null_count();
            if self.has_values() {
                codes.clear();
                self.codes(rows, &mut codes)?;
                codes.iter().for_each(|code| rows_of[*code as usize] += 1);
            }
        }
        if nulls != self.null_count() {
            let message = format!("byte 12 of the chunk: {} rows are NULL, and {nulls} are", self.null_count());
            return Err(Error::corrupt(message));
        }
        match self.has_values() {
            true => self.check_values(&rows_of),
            false => Ok(()),
        }
    }

    /// Codes that there may be.
    fn values_and_null(&self) -> usize {
        if self.has_values() { self.distinct().unwrap_or_default() + 1 } else { 0 }
    }

    /// The list ascends, and its counts are those of the rows: some answers come from it alone.
    fn check_values(&self, rows_of: &[u32]) -> Result<()> {
        let counts = self.counts()?.unwrap_or_default();
        // Of a constant NULL the only code is that of no value.
        if rows_of[..counts.len()] != counts {
            return Err(Error::corrupt("the chunk has values with other numbers of rows than it says"));
        }
        let Some(values) = self.values()? else { return Ok(()) };
        // Intervals have no order, and are listed in that of their bytes.
        if *self.kind() == SqlType::Interval {
            return Ok(());
        }
        let order = make_comparator(&values, &values, SortOptions::default());
        let order = order.map_err(|error| Error::internal(error.to_string()))?;
        match (1..values.len()).find(|next| order(next - 1, *next).is_ge()) {
            None => Ok(()),
            Some(place) => {
                Err(Error::corrupt(format!("value {place} of the chunk's list is not behind the one before")))
            }
        }
    }
}

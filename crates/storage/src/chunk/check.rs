//! Checks a chunk as a whole: every row must decode, and the rows must agree with the head.

use arrow::array::{Array, ArrayRef, BooleanArray, Datum, Scalar, make_comparator};
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::{eq, gt, lt};
use arrow::error::ArrowError;
use rowmill_base::{Cancel, Error, Result, SqlType};

use super::{Chunk, Zone, ZoneBound};

/// Rows decoded at a time. Numbers of 16 bytes then take 1 MiB, and the check looks for its cancellation eight times in
/// a column of a full block.
const ROWS_AT_A_TIME: usize = 1 << 16;

impl Chunk {
    /// Verifies the checksums, decodes all rows, and compares them with the stored facts: the number of NULLs, the
    /// least and the greatest value, and the number of rows of each value.
    pub fn check(&self, cancel: &Cancel) -> Result<()> {
        self.verify()?;
        self.encoding().check(self)?;
        let mut nulls = 0;
        let mut codes = Vec::new();
        let mut rows_of = vec![0; self.values_and_null()];
        let mut bounds = self.zone().map(Bounds::new);
        for first in (0..self.rows()).step_by(ROWS_AT_A_TIME) {
            cancel.check()?;
            let rows = first..(first + ROWS_AT_A_TIME).min(self.rows());
            // Reads as a scan does, so the check covers the whole path.
            let values = self.read(rows.clone())?;
            if values.len() != rows.len() {
                return Err(Error::corrupt(format!("rows {rows:?} of the chunk are {} rows", values.len())));
            }
            nulls += values.null_count();
            bounds.iter_mut().try_for_each(|bounds| bounds.see(&values))?;
            if self.has_values() {
                codes.clear();
                self.codes(rows, &mut codes)?;
                // `codes` has checked that every code is valid, so this index is in bounds.
                codes.iter().for_each(|code| rows_of[*code as usize] += 1);
            }
        }
        if nulls != self.null_count() {
            let message = format!("byte 12 of the chunk: {} NULLs stated, {nulls} found", self.null_count());
            return Err(Error::corrupt(message));
        }
        bounds.iter().try_for_each(Bounds::finish)?;
        match self.has_values() {
            true => self.check_values(&rows_of),
            false => Ok(()),
        }
    }

    /// The number of codes, including one for NULL.
    fn values_and_null(&self) -> usize {
        if self.has_values() { self.distinct().unwrap_or_default() + 1 } else { 0 }
    }

    /// Checks that the list ascends, and that its counts are those of the rows. Some queries are answered from the list
    /// alone, so it must be right.
    fn check_values(&self, rows_of: &[u32]) -> Result<()> {
        let counts = self.counts()?.unwrap_or_default();
        // The last entry counts NULL. A chunk of only NULLs has no other.
        if rows_of[..counts.len()] != counts {
            return Err(Error::corrupt("the number of rows of some values differs from the stored counts"));
        }
        let Some(values) = self.values()? else { return Ok(()) };
        // Intervals have no order. They are listed in the order of their keys.
        if *self.kind() == SqlType::Interval {
            return Ok(());
        }
        let order = make_comparator(&values, &values, SortOptions::default());
        let order = order.map_err(|error| Error::internal(error.to_string()))?;
        match (1..values.len()).find(|next| order(next - 1, *next).is_ge()) {
            None => Ok(()),
            Some(place) => {
                Err(Error::corrupt(format!("value {place} of the chunk's list is not above the value before it")))
            }
        }
    }
}

/// A zone map, checked against the values.
struct Bounds {
    zone: Zone,
    /// Whether a value equals the bound.
    is_min: bool,
    is_max: bool,
}

impl Bounds {
    fn new(zone: Zone) -> Bounds {
        Bounds { zone, is_min: false, is_max: false }
    }

    fn see(&mut self, values: &ArrayRef) -> Result<()> {
        let is_outside =
            any(lt, values, &self.zone.min)? || self.zone.max.as_ref().map_or(Ok(false), |max| any(gt, values, max))?;
        if is_outside {
            return Err(Error::corrupt("byte 66 of the chunk: a value is outside of the stored bounds"));
        }
        self.is_min = self.is_min || any(eq, values, &self.zone.min)?;
        self.is_max = self.is_max || self.zone.max.as_ref().map_or(Ok(false), |max| any(eq, values, max))?;
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        let is_exact = |bound: Option<&ZoneBound>| bound.is_some_and(|bound| bound.exact);
        match is_exact(Some(&self.zone.min)) && !self.is_min || is_exact(self.zone.max.as_ref()) && !self.is_max {
            true => Err(Error::corrupt("byte 66 of the chunk: no row has the stored least or greatest value")),
            false => Ok(()),
        }
    }
}

type Compare = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>;

/// Whether `compare` is true for any value and `bound`.
fn any(compare: Compare, values: &ArrayRef, bound: &ZoneBound) -> Result<bool> {
    let found = compare(values, &Scalar::new(&bound.value));
    found.map(|found| found.true_count() > 0).map_err(|error| Error::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use rowmill_base::ErrorKind;

    use super::super::head::FIXED_BYTES;
    use super::super::{ChunkBytes, encode_as};
    use super::*;
    use crate::encoding::encoding_named;

    /// Recomputes the checksums of the head.
    fn seal(chunk: &mut [u8]) {
        let rest = u32::from_le_bytes(chunk[56..60].try_into().expect("four bytes")) as usize;
        let sum = crc32fast::hash(&chunk[FIXED_BYTES..FIXED_BYTES + rest]);
        chunk[60..64].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32fast::hash(&chunk[..FIXED_BYTES - 4]);
        chunk[FIXED_BYTES - 4..FIXED_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    #[test]
    fn a_head_that_contradicts_its_rows_is_found() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000).map(|row| row % 10 * 2)));
        for encoding in ["list+codes", "plain"].map(encoding_named) {
            let bytes = encode_as(&column, &SqlType::Int64, Some(encoding)).expect("integers").expect("suits them");
            let check = |bytes: &[u8]| {
                Chunk::open(ChunkBytes::memory(bytes), &SqlType::Int64).and_then(|chunk| chunk.check(&Cancel::new()))
            };
            check(&bytes).expect("an unchanged chunk passes");
            // Bounds are keys: the least is 0, the greatest 18, each with its highest bit flipped.
            for (at, byte) in [(FIXED_BYTES, 1), (FIXED_BYTES + 7, 0), (FIXED_BYTES + 8, 17), (FIXED_BYTES + 8, 19)] {
                let mut other = bytes.clone();
                other[at] = byte;
                seal(&mut other);
                let error = check(&other).expect_err("a wrong bound must be found");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.message().contains("byte 66"), "{error}");
            }
        }
    }
}

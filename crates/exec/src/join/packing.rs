//! Packs keys of a fixed size into one number each.
//!
//! When the build side is complete, we know the least and greatest value of each key column, and so the number of
//! possible keys. If this number fits a `u64`, a key is packed as a number whose digits are the distances of its values
//! from the least values. For example, with values from 10 to 12 in the second column, the key (5, 11) is 3 times the
//! distance of 5 plus 1. A key that the build side cannot have, such as one with NULL, is [`NO_KEY`]. Most keys can
//! therefore be compared as a whole in one step, and if there are few possible keys, they index an array.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use rowmill_base::Result;

use crate::numbers::{self, Width};

/// The word of a row that matches no row.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// The least and greatest number of a key column.
pub(super) type Range = Option<(u128, u128)>;

/// Says how keys are packed.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    columns: Vec<PackedColumn>,
    /// Whether NULL equals NULL.
    nulls_equal: bool,
    keys: u64,
}

#[derive(Clone, Debug)]
struct PackedColumn {
    width: Width,
    min: u128,
    /// The number of possible values without NULL. If NULL equals NULL, this number is also the digit of NULL.
    values: u64,
    /// The number of possible digits.
    digits: u64,
}

impl Packing {
    /// Makes a packing for columns with these widths and ranges. `None` if there are too many possible keys.
    pub(super) fn new(columns: &[(Width, Range)], nulls_equal: bool) -> Option<Packing> {
        let columns: Vec<PackedColumn> = columns
            .iter()
            .map(|(width, range)| {
                let (min, span) = range.map_or((0, None), |(min, max)| (min, Some(max - min)));
                let values = span.map_or(Some(0), |span| u64::try_from(span).ok()?.checked_add(1))?;
                let digits = values.checked_add(u64::from(nulls_equal))?;
                Some(PackedColumn { width: *width, min, values, digits })
            })
            .collect::<Option<_>>()?;
        // The product of all digits must fit, otherwise keys could not be told apart.
        let keys = columns.iter().try_fold(1_u64, |keys, column| keys.checked_mul(column.digits))?;
        Some(Packing { columns, nulls_equal, keys })
    }

    /// The number of possible keys. Every key is less than this number.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// Puts the keys of rows into `keys`.
    pub(super) fn pack(&self, columns: &[ArrayRef], scratch: &mut PackScratch, keys: &mut Vec<u64>) -> Result<()> {
        keys.clear();
        for (index, (column, values)) in self.columns.iter().zip(columns).enumerate() {
            if index == 0 {
                self.digits(column, values, scratch, keys)?;
                continue;
            }
            let mut digits = std::mem::take(&mut scratch.digits);
            digits.clear();
            self.digits(column, values, scratch, &mut digits)?;
            for (key, digit) in keys.iter_mut().zip(&digits) {
                let is_none = *key == NO_KEY || *digit == NO_KEY;
                // If neither is `NO_KEY`, the result is less than the number of keys, so it does not wrap.
                let longer = key.wrapping_mul(column.digits).wrapping_add(*digit);
                *key = if is_none { NO_KEY } else { longer };
            }
            scratch.digits = digits;
        }
        Ok(())
    }

    fn digits(
        &self,
        column: &PackedColumn,
        values: &ArrayRef,
        scratch: &mut PackScratch,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        match column.width {
            Width::Narrow => {
                numbers::extend_narrow(values, out)?;
                let min = column.min as u64;
                for number in &mut *out {
                    // A value below the least one wraps to a large distance, so one comparison checks both bounds.
                    let digit = number.wrapping_sub(min);
                    *number = if digit < column.values { digit } else { NO_KEY };
                }
            }
            Width::Wide => {
                scratch.wide.clear();
                numbers::extend_wide(values, &mut scratch.wide)?;
                out.extend(scratch.wide.iter().map(|number| {
                    let digit = number.wrapping_sub(column.min);
                    if digit < u128::from(column.values) { digit as u64 } else { NO_KEY }
                }));
            }
        }
        if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
            // NULLs are set last, because their slots hold arbitrary numbers.
            let null = if self.nulls_equal { column.values } else { NO_KEY };
            each_null(nulls, |row| out[row] = null);
        }
        Ok(())
    }
}

/// Calls `at` for every NULL.
pub(super) fn each_null(nulls: &NullBuffer, at: impl FnMut(usize)) {
    (!nulls.inner()).set_indices().for_each(at);
}

/// Buffers that packing reuses.
#[derive(Debug, Default)]
pub(super) struct PackScratch {
    digits: Vec<u64>,
    wide: Vec<u128>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int64Array};

    use super::*;

    fn pack(packing: &Packing, columns: &[ArrayRef]) -> Vec<u64> {
        let mut keys = Vec::new();
        packing.pack(columns, &mut PackScratch::default(), &mut keys).expect("numbers");
        keys
    }

    fn ints(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from(values))
    }

    fn range(values: &ArrayRef) -> (Width, Range) {
        let mut found = Vec::new();
        numbers::extend_narrow(values, &mut found).expect("numbers");
        let range = numbers::range(&found, values.nulls());
        (Width::Narrow, range.map(|(min, max)| (min.into(), max.into())))
    }

    #[test]
    fn keys_are_digits_of_distances() {
        let build = [ints(vec![Some(-2), Some(3), None]), ints(vec![Some(10), Some(11), Some(12)])];
        let ranges = [range(&build[0]), range(&build[1])];
        let packing = Packing::new(&ranges, false).expect("few");
        assert_eq!(packing.keys(), 18);
        assert_eq!(pack(&packing, &build), [0, 5 * 3 + 1, NO_KEY]);
        let probe = [ints(vec![Some(4), Some(-3), Some(0)]), ints(vec![Some(10), Some(10), None])];
        assert_eq!(pack(&packing, &probe), [NO_KEY; 3]);

        let packing = Packing::new(&ranges, true).expect("few");
        assert_eq!(packing.keys(), 7 * 4);
        assert_eq!(pack(&packing, &build), [0, 5 * 4 + 1, 6 * 4 + 2]);
        assert_eq!(pack(&packing, &probe), [NO_KEY, NO_KEY, 2 * 4 + 3]);
    }

    #[test]
    fn columns_without_values_have_no_keys_but_null() {
        let nothing = (Width::Narrow, None);
        assert_eq!(Packing::new(&[nothing], false).expect("none").keys(), 0);
        let packing = Packing::new(&[nothing], true).expect("one");
        assert_eq!(pack(&packing, &[ints(vec![Some(0), None])]), [NO_KEY, 0]);
    }

    #[test]
    fn too_many_keys_are_not_packed() {
        let all = (Width::Narrow, Some((0, u128::from(u64::MAX))));
        assert!(Packing::new(&[all], false).is_none());
        let most = (Width::Narrow, Some((1, u128::from(u64::MAX))));
        assert_eq!(Packing::new(&[most], false).expect("most").keys(), NO_KEY);
        assert!(Packing::new(&[most], true).is_none());
        let half = (Width::Narrow, Some((0, 1 << 40)));
        assert!(Packing::new(&[half, half], false).is_none());
    }

    #[test]
    fn wide_values_near_each_other_are_packed() {
        let far = 10_i128.pow(30);
        let values: ArrayRef = Arc::new(Decimal128Array::from(vec![Some(far), Some(far + 7), None, Some(-far)]));
        let mut found = Vec::new();
        numbers::extend_wide(&values, &mut found).expect("numbers");
        let packing = Packing::new(&[(Width::Wide, Some((found[0], found[1])))], false).expect("near");
        assert_eq!(pack(&packing, &[values]), [0, 7, NO_KEY, NO_KEY]);
    }
}

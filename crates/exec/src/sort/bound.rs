//! The bound of the best rows: the key of the last row that can still be in the result.
//!
//! Rows that do not come before the bound are dropped. Workers share it, and it only moves forward. Most rows are
//! dropped by one comparison of the whole first key column, before we look at the rest of their keys.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, Scalar};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

use super::SortKey;
use super::entry::Entry;
use super::numbers::{SortNumbers, numbers_of, width_of};
use super::order::EntryOrder;

/// A key that the best rows must come before.
pub(super) struct SortBound<E> {
    /// The key's entry. Its place has no meaning.
    entry: E,
    /// The bytes of the key that do not fit the entry.
    rest: Vec<u8>,
    first: FirstKey,
}

impl<E: Entry> SortBound<E> {
    /// Makes a bound from the key of a row. `entry` is its entry in `order`, and `value` has one row, its first key
    /// column.
    pub(super) fn new(entry: E, order: &EntryOrder<'_>, value: ArrayRef, keys: &[SortKey]) -> SortBound<E> {
        let first = FirstKey { value, key: keys[0], is_only: keys.len() == 1 };
        SortBound { entry, rest: order.rest(entry).to_vec(), first }
    }

    /// Whether the key of an entry comes before the bound.
    pub(super) fn admits(&self, entry: E, order: &EntryOrder<'_>) -> bool {
        order.compare_keys(entry, self.entry, &self.rest) == Ordering::Less
    }

    /// Whether this bound comes before another one.
    pub(super) fn is_tighter(&self, other: &SortBound<E>, order: &EntryOrder<'_>) -> bool {
        let keys = self.entry.key().cmp(&other.entry.key());
        keys.then_with(|| order.compare_bytes(&self.rest, &other.rest)) == Ordering::Less
    }

    /// Marks the rows that may come before the bound, judged by the first key column alone. `None` if that is not
    /// possible.
    pub(super) fn passing(&self, values: &ArrayRef) -> Result<Option<BooleanBuffer>> {
        self.first.passing(values)
    }
}

/// The first key column of the bound.
struct FirstKey {
    /// The value, as an array of one row.
    value: ArrayRef,
    key: SortKey,
    /// Whether this is the only key column. Then values equal to the bound do not pass.
    is_only: bool,
}

impl FirstKey {
    fn passing(&self, values: &ArrayRef) -> Result<Option<BooleanBuffer>> {
        let is_null = self.value.is_null(0);
        // If the bound is NULL and NULLs come first, no value can come before it. With NULLs last, every value does.
        let passing = match is_null {
            true if self.key.nulls_first => BooleanBuffer::new_unset(values.len()),
            true => BooleanBuffer::new_set(values.len()),
            false => match self.passing_values(values)? {
                Some(passing) => passing,
                None => return Ok(None),
            },
        };
        // A NULL ties with a NULL bound. Ties pass only if further key columns may decide.
        let nulls_pass = if is_null { !self.is_only } else { self.key.nulls_first };
        Ok(Some(match values.nulls() {
            Some(nulls) if nulls_pass => &passing | &!nulls.inner(),
            Some(nulls) => &passing & nulls.inner(),
            None => passing,
        }))
    }

    /// Marks the values that pass. The marks of NULLs have no meaning.
    fn passing_values(&self, values: &ArrayRef) -> Result<Option<BooleanBuffer>> {
        let kind = values.data_type();
        if width_of(kind).is_some() {
            return Ok(Some(match (numbers_of(values)?, numbers_of(&self.value)?) {
                (SortNumbers::Narrow(numbers), SortNumbers::Narrow(bound)) => self.passing_numbers(&numbers, bound[0]),
                (SortNumbers::Wide(numbers), SortNumbers::Wide(bound)) => self.passing_numbers(&numbers, bound[0]),
                _ => return Err(Error::internal(format!("values of {kind} became numbers of two widths"))),
            }));
        }
        if !matches!(kind, DataType::Utf8View | DataType::BinaryView) {
            return Ok(None);
        }
        let bound = Scalar::new(&self.value);
        // If there are further key columns, rows that tie in the first one must pass.
        let passing = match (self.key.descending, self.is_only) {
            (false, true) => cmp::lt(values, &bound),
            (false, false) => cmp::lt_eq(values, &bound),
            (true, true) => cmp::gt(values, &bound),
            (true, false) => cmp::gt_eq(values, &bound),
        };
        let passing = passing.map_err(|error| Error::internal(format!("cannot compare with a bound: {error}")))?;
        Ok(Some(passing.values().clone()))
    }

    fn passing_numbers<N: Copy + Ord>(&self, numbers: &[N], bound: N) -> BooleanBuffer {
        match (self.key.descending, self.is_only) {
            (false, true) => mask(numbers, |number| number < bound),
            (false, false) => mask(numbers, |number| number <= bound),
            (true, true) => mask(numbers, |number| number > bound),
            (true, false) => mask(numbers, |number| number >= bound),
        }
    }
}

fn mask<N: Copy>(numbers: &[N], passes: impl Fn(N) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(numbers.len(), |row| passes(numbers[row]))
}

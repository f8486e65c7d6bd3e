//! The bound of the best rows: the key of the last of as many as are asked for.
//!
//! Rows that do not come before it are dropped. It is shared by the workers and only moves forward. Most rows are dropped
//! for their first key column alone, by one comparison of the whole column, before anything else of them is looked at.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, Scalar};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

use super::SortKey;
use super::entry::Entry;
use super::numbers::{Numbers, numbers_of, width_of};
use super::order::Order;

/// A key that the best rows come before.
pub(super) struct Bound<E> {
    /// Its place means nothing.
    entry: E,
    /// What the key goes on with.
    rest: Vec<u8>,
    first: FirstKey,
}

impl<E: Entry> Bound<E> {
    /// The key of a row: `entry` in `order`, with `value`, one row, in its first key column.
    pub(super) fn new(entry: E, order: &Order<'_>, value: ArrayRef, keys: &[SortKey]) -> Bound<E> {
        let first = FirstKey { value, key: keys[0], is_only: keys.len() == 1 };
        Bound { entry, rest: order.rest(entry).to_vec(), first }
    }

    /// Whether the key of an entry comes before the bound.
    pub(super) fn admits(&self, entry: E, order: &Order<'_>) -> bool {
        order.compare_keys(entry, self.entry, &self.rest) == Ordering::Less
    }

    /// Whether the bound comes before another.
    pub(super) fn is_tighter(&self, other: &Bound<E>, order: &Order<'_>) -> bool {
        let keys = self.entry.key().cmp(&other.entry.key());
        keys.then_with(|| order.compare_bytes(&self.rest, &other.rest)) == Ordering::Less
    }

    /// Which rows may come before the bound, by the values of the first key column; `None` if that is not known.
    pub(super) fn passing(&self, values: &ArrayRef) -> Result<Option<BooleanBuffer>> {
        self.first.passing(values)
    }
}

/// The first column of the key.
struct FirstKey {
    /// One row.
    value: ArrayRef,
    key: SortKey,
    /// There are no other columns, so that equal values do not pass.
    is_only: bool,
}

impl FirstKey {
    fn passing(&self, values: &ArrayRef) -> Result<Option<BooleanBuffer>> {
        let is_null = self.value.is_null(0);
        let passing = match is_null {
            true if self.key.nulls_first => BooleanBuffer::new_unset(values.len()),
            true => BooleanBuffer::new_set(values.len()),
            false => match self.passing_values(values)? {
                Some(passing) => passing,
                None => return Ok(None),
            },
        };
        let nulls_pass = if is_null { !self.is_only } else { self.key.nulls_first };
        Ok(Some(match values.nulls() {
            Some(nulls) if nulls_pass => &passing | &!nulls.inner(),
            Some(nulls) => &passing & nulls.inner(),
            None => passing,
        }))
    }

    /// Which values pass; what it says of NULLs means nothing.
    fn passing_values(&self, values: &ArrayRef) -> Result<Option<BooleanBuffer>> {
        let kind = values.data_type();
        if width_of(kind).is_some() {
            return Ok(Some(match (numbers_of(values)?, numbers_of(&self.value)?) {
                (Numbers::Narrow(numbers), Numbers::Narrow(bound)) => self.passing_numbers(&numbers, bound[0]),
                (Numbers::Wide(numbers), Numbers::Wide(bound)) => self.passing_numbers(&numbers, bound[0]),
                _ => return Err(Error::internal(format!("two kinds of numbers of {kind}"))),
            }));
        }
        if !matches!(kind, DataType::Utf8View | DataType::BinaryView) {
            return Ok(None);
        }
        let bound = Scalar::new(&self.value);
        let passing = match (self.key.descending, self.is_only) {
            (false, true) => cmp::lt(values, &bound),
            (false, false) => cmp::lt_eq(values, &bound),
            (true, true) => cmp::gt(values, &bound),
            (true, false) => cmp::gt_eq(values, &bound),
        };
        let passing = passing.map_err(|error| Error::internal(format!("the bound of an order: {error}")))?;
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

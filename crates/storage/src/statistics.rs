//! Statistics of the values of a keyed table, as ANALYZE found them: how many rows there were, which values are
//! frequent, and how the others are distributed. They decide which key a scan uses and in which order tables are
//! joined. They must never change the result of a query.
//!
//! ```text
//! all rows     | NULL | frequent values, each with its share | the others, equally many between any two bounds |
//! ```
//!
//! A value is represented by its [`ValueKeys`]: bytes that sort like the values, so that nothing here depends on types.
//! Shares are fractions of all rows, from 0 to 1. The histogram of the values that are not frequent is equi-depth:
//! every bucket has equally many rows. So bounds are dense where values are dense, and an estimate is wrong by at most
//! one bucket at each end of a range.
//!
//! Frequent values and bounds come from a sample of the rows, and the number of distinct values from all rows. See
//! [`StatisticsCollector`].

mod collector;
mod registers;
#[cfg(test)]
mod tests;
mod value_keys;

use std::ops::Bound;

use rowmill_base::{ColumnId, IndexId};

use crate::keyed::ValueRef;
use crate::schema::ColumnDef;

pub use collector::{SAMPLE_ROWS, StatisticsCollector};
pub use registers::cardinality;
pub use value_keys::{VALUE_KEY_BYTES_MAX, ValueKeys};

/// The maximum number of frequent values. Each other value then has less than a hundredth of the rows, as a bucket of
/// the histogram has.
pub const FREQUENT_MAX: usize = 100;

/// The maximum number of buckets of the histogram. Each then has a hundredth of the rows, which bounds the error of an
/// estimate at each end of a range.
pub const BUCKETS_MAX: usize = 100;

/// The estimated share of rows with one value, for a column without statistics.
pub const EQUAL_SHARE: f64 = 0.05;

/// The estimated share of rows within a range, for a column without statistics or for unknown bounds.
pub const RANGE_SHARE: f64 = 0.3;

/// The cost of one row that is found through an index, in rows read in primary key order. The row is searched from the
/// root of the tree and is far from the row before.
pub const LOOKED_UP_ROWS: f64 = 8.0;

/// The statistics of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatistics {
    /// The index of the rows when ANALYZE ran. An emptied table gets a new index, so these statistics no longer apply
    /// to it.
    pub index: IndexId,
    /// The number of rows.
    pub rows: u64,
    /// The statistics of the columns, sorted by column id. A dropped column stays until the next ANALYZE, but no query
    /// asks for its id.
    pub columns: Vec<ColumnStatistics>,
}

/// The statistics of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatistics {
    /// The id of the column.
    pub column: ColumnId,
    /// The share of rows with NULL.
    pub null_share: f64,
    /// The estimated number of distinct values, without NULL.
    pub distinct: u64,
    /// The keys and shares of the frequent values, sorted by key.
    pub frequent: Vec<(Vec<u8>, f64)>,
    /// The bounds of the other values: the least one, values with equally many rows between them, and the greatest one.
    /// Empty if the type has no order or all values are frequent.
    pub bounds: Vec<Vec<u8>>,
}

impl TableStatistics {
    /// The statistics of a column, if ANALYZE has seen it.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnStatistics> {
        let at = self.columns.binary_search_by_key(&id, |column| column.column).ok()?;
        Some(&self.columns[at])
    }

    /// The estimated share of rows in which `column` equals `value`.
    pub fn share_equal(&self, column: &ColumnDef, value: ValueRef<'_>) -> Option<f64> {
        let known = self.column(column.id)?;
        if value.is_null() {
            return Some(0.0);
        }
        // Without a key, for example for a value of another type, nothing is known.
        let key = ValueKeys::new(&column.kind).key(value)?;
        Some(self.at_least_some(known.share_equal(&key)))
    }

    /// The estimated share of rows in which `column` is within bounds.
    pub fn share_within(
        &self,
        column: &ColumnDef,
        lower: Bound<ValueRef<'_>>,
        upper: Bound<ValueRef<'_>>,
    ) -> Option<f64> {
        let known = self.column(column.id)?;
        let keys = ValueKeys::new(&column.kind);
        let key_of = |bound: Bound<ValueRef<'_>>| match bound {
            Bound::Unbounded => Some(Bound::Unbounded),
            Bound::Included(value) => keys.key(value).map(Bound::Included),
            Bound::Excluded(value) => keys.key(value).map(Bound::Excluded),
        };
        // A comparison with NULL is never true.
        let is_null = |bound| matches!(bound, Bound::Included(ValueRef::Null) | Bound::Excluded(ValueRef::Null));
        if is_null(lower) || is_null(upper) {
            return Some(0.0);
        }
        let (lower, upper) = (key_of(lower)?, key_of(upper)?);
        let share = known.share_within(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        Some(self.at_least_some(share))
    }

    /// Raises a share to at least half a row. Rows may have been added since ANALYZE, so no value is certain to be
    /// missing.
    fn at_least_some(&self, share: f64) -> f64 {
        share.clamp((0.5 / self.rows.max(1) as f64).min(1.0), 1.0)
    }
}

impl ColumnStatistics {
    /// The share of rows whose value has the key `key`.
    pub fn share_equal(&self, key: &[u8]) -> f64 {
        match self.frequent.binary_search_by(|(frequent, _)| frequent.as_slice().cmp(key)) {
            Ok(at) => self.frequent[at].1,
            Err(_) => self.share_of_other(),
        }
    }

    /// The share of rows whose value has a key less than `key`, or with `or_equal` also equal to it.
    pub fn share_below(&self, key: &[u8], or_equal: bool) -> f64 {
        // Frequent values are counted exactly, and the others by the histogram.
        let before = self.frequent.partition_point(|(frequent, _)| frequent.as_slice() < key);
        let frequent: f64 = self.frequent[..before].iter().map(|(_, share)| share).sum();
        let others = self.share_of_others();
        let below = frequent + (others * self.other_share_below(key)).min(others);
        if !or_equal {
            return below;
        }
        // Below the least of the other values no such value exists.
        let is_within = self.bounds.first().is_some_and(|first| first.as_slice() <= key);
        match self.frequent.get(before).filter(|(frequent, _)| frequent.as_slice() == key) {
            Some((_, share)) => below + share,
            None if is_within => (below + self.share_of_other()).min(frequent + others),
            None => below,
        }
    }

    /// The share of rows whose value has a key within bounds.
    pub fn share_within(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> f64 {
        let before = match lower {
            Bound::Unbounded => 0.0,
            Bound::Included(key) => self.share_below(key, false),
            Bound::Excluded(key) => self.share_below(key, true),
        };
        let up_to = match upper {
            Bound::Unbounded => 1.0 - self.null_share,
            Bound::Included(key) => self.share_below(key, true),
            Bound::Excluded(key) => self.share_below(key, false),
        };
        (up_to - before).clamp(0.0, 1.0)
    }

    /// The share of rows with a value that is not frequent.
    fn share_of_others(&self) -> f64 {
        let frequent: f64 = self.frequent.iter().map(|(_, share)| share).sum();
        (1.0 - self.null_share - frequent).max(0.0)
    }

    /// The share of rows with one particular value that is not frequent, if all such values have equally many rows.
    fn share_of_other(&self) -> f64 {
        let others = self.distinct.saturating_sub(self.frequent.len() as u64);
        if others == 0 {
            return 0.0;
        }
        // A value that is not frequent cannot have more rows than the least frequent value.
        let least = self.frequent.iter().map(|(_, share)| *share).fold(1.0, f64::min);
        (self.share_of_others() / others as f64).min(least)
    }

    /// The share of values that are less than `key`, among those that are not frequent.
    fn other_share_below(&self, key: &[u8]) -> f64 {
        // Count whole buckets below the key, and interpolate within its own.
        let passed = self.bounds.partition_point(|bound| bound.as_slice() < key);
        match passed {
            0 => 0.0,
            _ if passed == self.bounds.len() => 1.0,
            _ => {
                let part = place_between(&self.bounds[passed - 1], key, &self.bounds[passed]);
                ((passed - 1) as f64 + part) / (self.bounds.len() - 1) as f64
            }
        }
    }
}

/// The relative position of `key` between `first` and `last`, from 0 to 1. Skips the bytes that both ends share and
/// compares the next eight as numbers.
pub fn place_between(first: &[u8], key: &[u8], last: &[u8]) -> f64 {
    // Long common prefixes, as in addresses, would leave no difference within eight bytes.
    let same = first.iter().zip(last).take_while(|(one, other)| one == other).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(same..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    let (first, key, last) = (number(first), number(key), number(last));
    if last <= first {
        return 0.5;
    }
    ((key.saturating_sub(first)) as f64 / (last - first) as f64).min(1.0)
}

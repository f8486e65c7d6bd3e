//! What is known of the values of a keyed table since it was last looked through: how many there are, which are frequent, and how
//! the others are spread. It decides which key a scan reads by and in which order tables are joined, and never what they give.
//!
//! ```text
//! all rows     | NULL | frequent values, each with its share | the others, as many between any two bounds |
//! ```
//!
//! A value is known by its [`ValueKeys`]: bytes that are ordered as values are, so that nothing here depends on types. Shares are of
//! all rows, from 0 to 1. Beside the frequent values, the histogram of the others has as many rows in each of its buckets (it is
//! equi-depth): where values crowd its bounds do too, and a guess is wrong by a bucket at each end of a range at most.
//!
//! Frequent values and bounds come of a sample of the rows, the number of values of all rows: see [`StatisticsCollector`].

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

/// Values that are noted with their shares, at most.
pub const FREQUENT_MAX: usize = 100;

/// Parts of the histogram of the other values, at most.
pub const BUCKETS_MAX: usize = 100;

/// The share of rows that one value of a column has of which nothing is known.
pub const EQUAL_SHARE: f64 = 0.05;

/// The share of rows within a range of a column of which nothing is known, or by bounds that are not.
pub const RANGE_SHARE: f64 = 0.3;

/// What a row costs that an index leads to, as rows that follow each other in the order of the primary key: it is looked for from the
/// root of the tree on, and lies elsewhere than the one before.
pub const LOOKED_UP_ROWS: f64 = 8.0;

/// What is known of a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatistics {
    /// The index under which the rows lay. An emptied table has another one, and nothing is known of its rows.
    pub index: IndexId,
    /// How many there were.
    pub rows: u64,
    /// By the ids of the columns. One that was dropped since stays until the table is looked through again: its id is never asked for.
    pub columns: Vec<ColumnStatistics>,
}

/// What is known of the values of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatistics {
    /// The column.
    pub column: ColumnId,
    /// The share of rows in which it is NULL.
    pub null_share: f64,
    /// How many different values there are, NULL not among them, about.
    pub distinct: u64,
    /// Values with their shares, ordered by their bytes.
    pub frequent: Vec<(Vec<u8>, f64)>,
    /// The least of the other values, those between which lie as many of them each, and the greatest. None if the type has no order,
    /// or there are no other values.
    pub bounds: Vec<Vec<u8>>,
}

impl TableStatistics {
    /// What is known of a column.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnStatistics> {
        let at = self.columns.binary_search_by_key(&id, |column| column.column).ok()?;
        Some(&self.columns[at])
    }

    /// The share of rows in which `column` is equal to `value`.
    pub fn share_equal(&self, column: &ColumnDef, value: ValueRef<'_>) -> Option<f64> {
        let known = self.column(column.id)?;
        if value.is_null() {
            return Some(0.0);
        }
        let key = ValueKeys::new(&column.kind).key(value)?;
        Some(self.at_least_some(known.share_equal(&key)))
    }

    /// The share of rows in which `column` lies within bounds.
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
        let is_null = |bound| matches!(bound, Bound::Included(ValueRef::Null) | Bound::Excluded(ValueRef::Null));
        if is_null(lower) || is_null(upper) {
            return Some(0.0);
        }
        let (lower, upper) = (key_of(lower)?, key_of(upper)?);
        let share = known.share_within(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        Some(self.at_least_some(share))
    }

    /// Rows come after these were counted, so that no value is known to be missing: half a row is the least.
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

    /// The share of rows with a value whose key is less than `key`, or with `or_equal` at most that.
    pub fn share_below(&self, key: &[u8], or_equal: bool) -> f64 {
        let before = self.frequent.partition_point(|(frequent, _)| frequent.as_slice() < key);
        let frequent: f64 = self.frequent[..before].iter().map(|(_, share)| share).sum();
        let others = self.share_of_others();
        let below = frequent + (others * self.other_share_below(key)).min(others);
        if !or_equal {
            return below;
        }
        let is_within = self.bounds.first().is_some_and(|first| first.as_slice() <= key);
        match self.frequent.get(before).filter(|(frequent, _)| frequent.as_slice() == key) {
            Some((_, share)) => below + share,
            None if is_within => (below + self.share_of_other()).min(frequent + others),
            None => below,
        }
    }

    /// The share of rows with a value whose key lies within bounds.
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

    /// The share of rows with one value that is not frequent: as if all of those had as many.
    fn share_of_other(&self) -> f64 {
        let others = self.distinct.saturating_sub(self.frequent.len() as u64);
        if others == 0 {
            return 0.0;
        }
        let least = self.frequent.iter().map(|(_, share)| *share).fold(1.0, f64::min);
        (self.share_of_others() / others as f64).min(least)
    }

    /// The share of the values that are not frequent that are less than `key`.
    fn other_share_below(&self, key: &[u8]) -> f64 {
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

/// How far from `first` to `last` a key lies that is between them, from 0 to 1: where those differ first, eight bytes are read as
/// numbers.
pub fn place_between(first: &[u8], key: &[u8], last: &[u8]) -> f64 {
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

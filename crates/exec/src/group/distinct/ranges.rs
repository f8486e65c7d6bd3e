//! Ranges of values with about as many entries of lists in each.

use arrow::array::ArrayRef;
use rowmill_base::{Error, Result, SqlType};
use rowmill_storage::chunk::ValueSet;

use super::pairs::Pairs;
use crate::group::state::signed_array;

/// Entries of a range: those of its set fit a core's second cache, going by common ones.
const ENTRIES_PER_RANGE: usize = 1 << 14;
/// Of many lists a range has more: what it has of each is unpacked 1,024 entries at a time, and fewer cost as much. Above the
/// last of these numbers caches matter more.
const ENTRIES_PER_LIST: usize = 1 << 10;
const ENTRIES_PER_RANGE_MAX: usize = 1 << 16;
const RANGES_MAX: usize = 1 << 12;

/// Entries of which one is looked at to choose ranges.
pub(super) const ENTRIES_PER_SAMPLE: usize = 1 << 9;

/// Where a range starts or ends.
#[derive(Clone, Debug)]
pub(super) struct Border {
    /// The least rank behind it.
    pub(super) rank: i64,
    /// The values before it.
    pub(super) before: ValueSet,
}

/// The values between two borders, or before the first, or behind the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range<'a> {
    pub(super) from: Option<&'a Border>,
    pub(super) to: Option<&'a Border>,
}

/// Ranges that hold all values.
#[derive(Debug)]
pub(super) struct Ranges(Vec<Border>);

impl Ranges {
    /// Ranges of values of a column of the type `kind`, by what lists in `pairs` hold.
    pub(super) fn new<'p>(pairs: impl Iterator<Item = &'p Pairs>, kind: &SqlType) -> Result<Ranges> {
        let (mut entries, mut lists, mut samples) = (0, 0, Vec::new());
        for pairs in pairs {
            entries += pairs.entries();
            lists += 1;
            pairs.sample(&mut samples)?;
        }
        samples.sort_unstable();
        let per_range = (lists * ENTRIES_PER_LIST).clamp(ENTRIES_PER_RANGE, ENTRIES_PER_RANGE_MAX);
        let ranges = (entries / per_range).clamp(1, RANGES_MAX);
        let places = (1..ranges).map(|range| range * samples.len() / ranges);
        let mut ranks: Vec<i64> = places.filter_map(|place| samples.get(place).copied()).collect();
        ranks.dedup();
        let values = signed_array(ranks.iter().copied(), None, &kind.arrow())?;
        let borders = ranks.into_iter().enumerate().map(|(place, rank)| {
            let before = below(kind, &values.slice(place, 1))?;
            Ok(Border { rank, before })
        });
        Ok(Ranges(borders.collect::<Result<_>>()?))
    }

    /// The range of a number; `None` behind the last.
    pub(super) fn get(&self, number: usize) -> Option<Range<'_>> {
        let from = number.checked_sub(1).and_then(|before| self.0.get(before));
        (number <= self.0.len()).then(|| Range { from, to: self.0.get(number) })
    }
}

fn below(kind: &SqlType, border: &ArrayRef) -> Result<ValueSet> {
    ValueSet::less_than(kind, border, false).ok_or_else(|| Error::internal(format!("values of {kind} have no order")))
}

//! Ranges of values that each have about the same number of list entries.

use arrow::array::ArrayRef;
use rowmill_base::{Error, Result, SqlType};
use rowmill_storage::chunk::ValueSet;

use super::pairs::DistinctPairs;
use crate::cache::L2_BYTES;
use crate::group::state::signed_array;
use crate::sort::SAMPLES_PER_RANGE;

/// The entries of a range at most. The set of its values has up to two slots of a word for each, and must fit the
/// second-level cache.
const ENTRIES_PER_RANGE_MAX: usize = L2_BYTES / (2 * size_of::<u64>());
/// The entries of a range if that is enough for the lists. The other columns of the range then fit the cache too.
const ENTRIES_PER_RANGE: usize = ENTRIES_PER_RANGE_MAX / 4;
/// With many lists, a range has more entries, because each list is unpacked 1,024 entries at a time and fewer cost as
/// much. With 256, 1,024 and 4,096, ClickBench's Q9 takes 51, 50 and 49 ms.
const ENTRIES_PER_LIST: usize = 1 << 10;

/// Entries per sample when ranges are chosen.
pub(super) const ENTRIES_PER_SAMPLE: usize = ENTRIES_PER_RANGE / SAMPLES_PER_RANGE;

/// The start or end of a range.
#[derive(Clone, Debug)]
pub(super) struct Border {
    /// The least rank after the border.
    pub(super) rank: i64,
    /// The values before the border.
    pub(super) before: ValueSet,
}

/// The values between two borders, before the first border, or after the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range<'a> {
    pub(super) from: Option<&'a Border>,
    pub(super) to: Option<&'a Border>,
}

/// Ranges that together hold all values.
#[derive(Debug)]
pub(super) struct DistinctRanges(Vec<Border>);

impl DistinctRanges {
    /// Chooses ranges of values of a column of type `kind`, by a sample of the lists in `pairs`.
    pub(super) fn new<'p>(pairs: impl Iterator<Item = &'p DistinctPairs>, kind: &SqlType) -> Result<DistinctRanges> {
        let (mut entries, mut lists, mut samples) = (0, 0, Vec::new());
        for pairs in pairs {
            entries += pairs.entries();
            lists += 1;
            pairs.sample(&mut samples)?;
        }
        samples.sort_unstable();
        let per_range = (lists * ENTRIES_PER_LIST).clamp(ENTRIES_PER_RANGE, ENTRIES_PER_RANGE_MAX);
        let ranges = (entries / per_range).max(1);
        let places = (1..ranges).map(|range| range * samples.len() / ranges);
        let mut ranks: Vec<i64> = places.filter_map(|place| samples.get(place).copied()).collect();
        // Equal samples would give empty ranges.
        ranks.dedup();
        let values = signed_array(ranks.iter().copied(), None, &kind.arrow())?;
        let borders = ranks.into_iter().enumerate().map(|(place, rank)| {
            let before = below(kind, &values.slice(place, 1))?;
            Ok(Border { rank, before })
        });
        Ok(DistinctRanges(borders.collect::<Result<_>>()?))
    }

    /// The range with a number; `None` after the last.
    pub(super) fn get(&self, number: usize) -> Option<Range<'_>> {
        let from = number.checked_sub(1).and_then(|before| self.0.get(before));
        (number <= self.0.len()).then(|| Range { from, to: self.0.get(number) })
    }
}

fn below(kind: &SqlType, border: &ArrayRef) -> Result<ValueSet> {
    ValueSet::less_than(kind, border, false).ok_or_else(|| Error::internal(format!("values of {kind} have no order")))
}

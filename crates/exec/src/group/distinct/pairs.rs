//! Finds the groups in which each value of a block occurs.
//!
//! ```text
//!   list     3   8   9  15  22          the values, in order
//!   one      0   2   0   -   1          one group of each value, if it has any
//!   others  (8, 5) (22, 0) (22, 4)      further groups, with the index of the value in the list
//! ```
//!
//! With many values and few groups, most values have only one group, or the groups are few enough to keep a bit for
//! each. So no row is hashed.

use std::mem::size_of;
use std::ops::Range as Places;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use rowmill_base::{Error, Reservation, Result};
use rowmill_storage::chunk::Chunk;

use super::groups::RowGroups;
use super::ranges::{Border, ENTRIES_PER_SAMPLE, Range};
use crate::group::bits::{Bits, bits_of};
use crate::group::local;
use crate::group::rows::{PartValues, take};
use crate::group::state::BitOrder;

/// The group of a value that no row has.
const NONE: u32 = u32::MAX;

/// Up to this many groups, each value keeps a bit per group.
const BITS: usize = u64::BITS as usize;

/// Values in order.
pub(super) enum Ranks {
    /// The value list of a chunk.
    List(Box<Chunk>),
    /// Their numbers in the order of the type.
    Sorted(Vec<i64>),
}

/// The values of a block or run, and the groups in which they occur.
pub(super) struct DistinctPairs {
    ranks: Ranks,
    /// Empty if all values are in the only group of a count without keys.
    one: Vec<u32>,
    /// Indexes of values in the high halves, groups in the low halves, ascending.
    others: Vec<u64>,
}

impl Ranks {
    fn len(&self) -> usize {
        match self {
            Ranks::List(chunk) => chunk.distinct().unwrap_or_default(),
            Ranks::Sorted(ranks) => ranks.len(),
        }
    }

    /// The number of values before a border.
    fn before(&self, border: &Border) -> Result<usize> {
        match self {
            Ranks::List(chunk) => match chunk.codes_of(&border.before)? {
                Some(codes) => Ok(codes.count()),
                None => Err(Error::internal("a chunk without a value list")),
            },
            Ranks::Sorted(ranks) => Ok(ranks.partition_point(|rank| *rank < border.rank)),
        }
    }

    /// Bytes of memory, not counting the chunk's.
    fn bytes(&self) -> usize {
        match self {
            Ranks::List(_) => 0,
            Ranks::Sorted(ranks) => ranks.capacity() * size_of::<i64>(),
        }
    }
}

impl DistinctPairs {
    /// The values of a chunk's list, all in one group.
    pub(super) fn of_list(chunk: Box<Chunk>) -> DistinctPairs {
        DistinctPairs { ranks: Ranks::List(chunk), one: Vec::new(), others: Vec::new() }
    }

    /// Pairs the values of rows with their groups; without `groups` all rows are in one. `codes` are the indexes of the
    /// rows' values, or the number of values for NULL. Takes memory from `memory`.
    pub(super) fn new(
        ranks: Ranks,
        codes: &[u32],
        groups: Option<RowGroups>,
        memory: &mut Reservation,
    ) -> Result<DistinctPairs> {
        let values = ranks.len();
        memory.grow((ranks.bytes() + values * size_of::<u32>()) as u64)?;
        let Some(RowGroups { places, numbers }) = groups else {
            return Ok(DistinctPairs { ranks, one: used(codes, values), others: Vec::new() });
        };
        assert_eq!(places.len(), codes.len(), "a row has a value and a group");
        let (mut one, others) = match numbers.len() <= BITS {
            true => few_groups(codes, &places, values),
            false => many_groups(codes, &places, values),
        };
        // So far groups are numbered within these rows. Replace that by the worker's numbers.
        one.iter_mut().filter(|group| **group != NONE).for_each(|group| *group = numbers[*group as usize]);
        memory.grow((others.len() * size_of::<u64>()) as u64)?;
        let numbered = |other: u64| other >> 32 << 32 | u64::from(numbers[other as u32 as usize]);
        let others = others.into_iter().map(numbered).collect::<Box<[u64]>>().into_vec();
        Ok(DistinctPairs { ranks, one, others })
    }

    /// The number of values and further groups.
    pub(super) fn entries(&self) -> usize {
        self.ranks.len() + self.others.len()
    }

    /// Appends the ranks of some values to `samples`.
    pub(super) fn sample(&self, samples: &mut Vec<i64>) -> Result<()> {
        let len = self.ranks.len();
        let places = (len.min(ENTRIES_PER_SAMPLE) / 2..len).step_by(ENTRIES_PER_SAMPLE);
        match &self.ranks {
            Ranks::List(chunk) => {
                let codes: Vec<u32> = places.map(|place| place as u32).collect();
                push_ranks(&chunk.values_at(&codes)?, samples)
            }
            Ranks::Sorted(ranks) => {
                samples.extend(places.map(|place| ranks[place]));
                Ok(())
            }
        }
    }

    /// The indexes of the values in `range`. Puts their ranks into `ranks`.
    pub(super) fn places(&self, range: Range<'_>, ranks: &mut Vec<i64>) -> Result<Places<usize>> {
        let start = range.from.map_or(Ok(0), |from| self.ranks.before(from))?;
        let end = range.to.map_or(Ok(self.ranks.len()), |to| self.ranks.before(to))?.max(start);
        ranks.clear();
        match &self.ranks {
            Ranks::List(chunk) => push_ranks(&chunk.values_in(start..end)?, ranks)?,
            Ranks::Sorted(sorted) => ranks.extend_from_slice(&sorted[start..end]),
        }
        // The value list comes from a file, so its order must be checked: the count relies on it.
        let (first, last) = (ranks.first().copied(), ranks.last().copied());
        let is_inside = range.from.zip(first).is_none_or(|(from, first)| from.rank <= first)
            && range.to.zip(last).is_none_or(|(to, last)| last < to.rank);
        match is_inside && ranks.is_sorted_by(|left, right| left < right) {
            true => Ok(start..end),
            false => Err(Error::corrupt("the values of a list are not in order")),
        }
    }

    /// The further groups of the values at `places`.
    fn others_of(&self, places: &Places<usize>) -> &[u64] {
        let at = |place: usize| self.others.partition_point(|other| (other >> 32) < place as u64);
        &self.others[at(places.start)..at(places.end)]
    }

    /// An upper bound for the pairs of the values at `places`.
    pub(super) fn len_of(&self, places: &Places<usize>) -> usize {
        places.len() + self.others_of(places).len()
    }

    /// Calls `each` with the rank and group of every pair of the values at `places`; `ranks` has their ranks.
    pub(super) fn each(&self, places: Places<usize>, ranks: &[i64], mut each: impl FnMut(u64, u32)) {
        if self.one.is_empty() {
            ranks.iter().for_each(|rank| each(*rank as u64, 0));
            return;
        }
        for (rank, group) in ranks.iter().zip(&self.one[places.clone()]) {
            if *group != NONE {
                each(*rank as u64, *group);
            }
        }
        for other in self.others_of(&places) {
            each(ranks[(other >> 32) as usize - places.start] as u64, *other as u32);
        }
    }
}

/// One group of each value, and its further groups. Collects the groups of each value in a bit set.
fn few_groups(codes: &[u32], groups: &[u32], values: usize) -> (Vec<u32>, Vec<u64>) {
    let mut bits = vec![0_u64; values + 1];
    codes.iter().zip(groups).for_each(|(code, group)| bits[*code as usize] |= 1 << (group % u64::BITS));
    let mut others = Vec::new();
    let first = bits[..values].iter().zip(0_u64..).map(|(bits, place)| {
        // Drop the lowest bit, which is returned as the first group, and list the others.
        let mut left = bits & bits.wrapping_sub(1);
        while left != 0 {
            others.push(place << 32 | u64::from(left.trailing_zeros()));
            left &= left - 1;
        }
        if *bits == 0 { NONE } else { bits.trailing_zeros() }
    });
    (first.collect(), others)
}

/// One group of each value, and its further groups in the order of the values.
fn many_groups(codes: &[u32], groups: &[u32], values: usize) -> (Vec<u32>, Vec<u64>) {
    let mut one = vec![NONE; values + 1];
    // The last row of a value decides its one group. All pairs that differ from it are further groups.
    codes.iter().zip(groups).for_each(|(code, group)| one[*code as usize] = *group);
    let mut others = Vec::new();
    for (code, group) in codes.iter().zip(groups) {
        if one[*code as usize] != *group {
            others.push(u64::from(*code) << 32 | u64::from(*group));
        }
    }
    one.truncate(values);
    others.retain(|other| (other >> 32) < values as u64);
    let mut once: Vec<u64> = local::first_of_each(&others).into_iter().map(|place| others[place as usize]).collect();
    once.sort_unstable();
    (one, once)
}

/// The group 0 for each value that some row has.
fn used(codes: &[u32], values: usize) -> Vec<u32> {
    let mut first = vec![NONE; values + 1];
    codes.iter().for_each(|code| first[*code as usize] = 0);
    first.truncate(values);
    first
}

/// The values of a column in order, and for each row the index of its value, or the number of values for NULL.
pub(super) fn ranked(column: PartValues, rows: usize) -> Result<(Ranks, Arc<Vec<u32>>)> {
    let each_row = || (0..rows as u32).collect::<Vec<u32>>();
    let PartValues { values, codes, is_list } = &column;
    let mut ranks = Vec::new();
    if *is_list {
        // NULL comes last, so cutting it off keeps all codes.
        push_ranks(&values.slice(0, values.len() - values.logical_null_count()), &mut ranks)?;
        return Ok((Ranks::Sorted(ranks), codes.clone().unwrap_or_else(|| Arc::new(each_row()))));
    }
    let column = std::slice::from_ref(&column);
    let (groups, first_rows) = match local::group(column, rows)? {
        Some(local) => (local.groups, local.first_rows),
        None => (each_row(), each_row()),
    };
    let values = take(values, &first_rows)?;
    push_ranks(&values, &mut ranks)?;
    let mut sorted: Vec<u32> = (0..ranks.len() as u32).filter(|group| values.is_valid(*group as usize)).collect();
    sorted.sort_unstable_by_key(|group| ranks[*group as usize]);
    // Equal ranks become one value, because -0 and 0, and all NaNs, count once.
    let mut once: Vec<i64> = Vec::with_capacity(sorted.len());
    let mut places = vec![NONE; ranks.len()];
    for group in sorted {
        let rank = ranks[group as usize];
        if once.last() != Some(&rank) {
            once.push(rank);
        }
        places[group as usize] = once.len() as u32 - 1;
    }
    let codes = groups.into_iter().map(|group| places[group as usize].min(once.len() as u32)).collect();
    Ok((Ranks::Sorted(once), Arc::new(codes)))
}

/// Appends the numbers of values in their order. The number of a NULL is arbitrary.
fn push_ranks(values: &ArrayRef, ranks: &mut Vec<i64>) -> Result<()> {
    let Bits::Narrow { numbers, width } = bits_of(values)? else {
        return Err(Error::internal(format!("values of {} do not fit 64 bits", values.data_type())));
    };
    let order = BitOrder::of(values.data_type(), width);
    ranks.extend(numbers.iter().map(|bits| order.number(*bits)));
    Ok(())
}

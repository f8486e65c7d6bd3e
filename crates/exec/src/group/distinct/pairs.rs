//! Finds the groups in which each value of a block occurs.
//!
//! ```text
//!   list     a   b   c   d   e          the values, in order; only their places are used
//!
//!   up to 64 groups:                    more groups:
//!   bits     01  10  11  10  01         one      0   1   0   1   0        one group of each value
//!                                       others  (2, 1)                    further groups, with the place of the value
//! ```
//!
//! With many values and few groups, most values have only one group, or the groups are few enough to keep a bit for
//! each. So no row is hashed.

use std::mem::size_of;
use std::ops::Range;

use rowmill_base::{Reservation, Result};

use super::groups::RowGroups;
use crate::group::value_list::ValueList;
use crate::window::sort_entries;

/// The group of a value that no row has.
const NONE: u32 = u32::MAX;

/// Up to this many groups, each value keeps a bit per group.
pub(super) const BITS: usize = u64::BITS as usize;

/// The values of a block, and the groups in which they occur.
pub(super) struct DistinctPairs {
    list: ValueList,
    groups: ValueGroups,
}

/// The groups of each value of a list, by the numbers of one worker.
enum ValueGroups {
    /// All values are in group 0.
    Same,
    /// A bit for each of a few groups. `numbers` has the group of each bit.
    Bits { of_values: Vec<u64>, numbers: Vec<u32> },
    Lists {
        one: Vec<u32>,
        /// Places of values in the high halves, groups in the low halves, ascending.
        others: Vec<u64>,
    },
}

impl DistinctPairs {
    /// The values of a list, all in group 0.
    pub(super) fn of_list(list: ValueList) -> DistinctPairs {
        DistinctPairs { list, groups: ValueGroups::Same }
    }

    /// Pairs the values of rows with their groups; without `groups` all rows are in group 0. `codes` are the places of
    /// the rows' values in `list`, or the number of values for NULL. Takes memory from `memory`.
    pub(super) fn new(
        list: ValueList,
        codes: &[u32],
        groups: Option<&RowGroups>,
        memory: &mut Reservation,
    ) -> Result<DistinctPairs> {
        memory.grow(list.bytes())?;
        let Some(RowGroups { places, numbers }) = groups else { return Ok(DistinctPairs::of_list(list)) };
        assert_eq!(places.len(), codes.len(), "a row has a value and a group");
        let values = list.len_without_null();
        if numbers.len() <= BITS {
            memory.grow((values * size_of::<u64>()) as u64)?;
            let groups = ValueGroups::Bits { of_values: few_groups(codes, places, values), numbers: numbers.clone() };
            return Ok(DistinctPairs { list, groups });
        }
        memory.grow((values * size_of::<u32>()) as u64)?;
        let (mut one, mut others) = many_groups(codes, places, values, numbers.len());
        memory.grow((others.len() * size_of::<u64>()) as u64)?;
        others.shrink_to_fit();
        // So far groups are numbered within these rows. Replace that by the worker's numbers.
        one.iter_mut().filter(|group| **group != NONE).for_each(|group| *group = numbers[*group as usize]);
        let numbered = |other: u64| other >> 32 << 32 | u64::from(numbers[other as u32 as usize]);
        others.iter_mut().for_each(|other| *other = numbered(*other));
        Ok(DistinctPairs { list, groups: ValueGroups::Lists { one, others } })
    }

    /// The values.
    pub(super) fn list(&self) -> &ValueList {
        &self.list
    }

    /// An upper bound for the pairs of all values.
    pub(super) fn len(&self) -> usize {
        self.len_of(&(0..self.list.len_without_null()))
    }

    /// An upper bound for the pairs of the values at `places`.
    pub(super) fn len_of(&self, places: &Range<usize>) -> usize {
        match &self.groups {
            ValueGroups::Same => places.len(),
            ValueGroups::Bits { of_values, .. } => {
                of_values[places.clone()].iter().map(|bits| bits.count_ones() as usize).sum()
            }
            ValueGroups::Lists { others, .. } => places.len() + others[others_of(others, places)].len(),
        }
    }

    /// Calls `each` with the number and group of every pair of the values at `places`. `numbers` has the number of each
    /// value, and `group_of` turns a group of the worker into the group of the result.
    pub(super) fn each(
        &self,
        places: &Range<usize>,
        numbers: &[u64],
        group_of: impl Fn(u32) -> u32,
        mut each: impl FnMut(u64, u32),
    ) {
        match &self.groups {
            ValueGroups::Same => {
                let group = group_of(0);
                numbers.iter().for_each(|number| each(*number, group));
            }
            ValueGroups::Bits { of_values, numbers: of_bits } => {
                let of_bits: Vec<u32> = of_bits.iter().map(|group| group_of(*group)).collect();
                for (number, bits) in numbers.iter().zip(&of_values[places.clone()]) {
                    let mut left = *bits;
                    while left != 0 {
                        each(*number, of_bits[left.trailing_zeros() as usize]);
                        left &= left - 1;
                    }
                }
            }
            ValueGroups::Lists { one, others } => {
                for (number, group) in numbers.iter().zip(&one[places.clone()]) {
                    if *group != NONE {
                        each(*number, group_of(*group));
                    }
                }
                for other in &others[others_of(others, places)] {
                    each(numbers[(other >> 32) as usize - places.start], group_of(*other as u32));
                }
            }
        }
    }
}

/// The further groups of the values at `places`.
fn others_of(others: &[u64], places: &Range<usize>) -> Range<usize> {
    let at = |place: usize| others.partition_point(|other| (other >> 32) < place as u64);
    at(places.start)..at(places.end)
}

/// The groups of each value, as bits.
fn few_groups(codes: &[u32], groups: &[u32], values: usize) -> Vec<u64> {
    let mut bits = vec![0_u64; values + 1];
    codes.iter().zip(groups).for_each(|(code, group)| bits[*code as usize] |= 1 << (group % u64::BITS));
    bits.truncate(values);
    bits
}

/// One group of each value, and its further groups in the order of the values. `groups` are numbers below
/// `group_count`.
fn many_groups(codes: &[u32], groups: &[u32], values: usize, group_count: usize) -> (Vec<u32>, Vec<u64>) {
    let mut one = vec![NONE; values + 1];
    // The last row of a value decides its one group. All pairs that differ from it are further groups.
    codes.iter().zip(groups).for_each(|(code, group)| one[*code as usize] = *group);
    // Pairs are sorted by as few bits as possible.
    let bits_of = |greatest: usize| usize::BITS - greatest.leading_zeros();
    let group_bits = bits_of(group_count);
    let (mut others, mut len) = (vec![0_u64; codes.len()], 0);
    for (code, group) in codes.iter().zip(groups) {
        // The processor cannot predict whether a pair is another one, so no branch depends on it.
        others[len] = u64::from(*code) << group_bits | u64::from(*group);
        len += usize::from((one[*code as usize] != *group) & ((*code as usize) < values));
    }
    others.truncate(len);
    one.truncate(values);
    sort_entries(&mut others, &mut Vec::new(), 0, group_bits + bits_of(values));
    others.dedup();
    let group_mask = (1 << group_bits) - 1;
    others.iter_mut().for_each(|other| *other = *other >> group_bits << 32 | *other & group_mask);
    (one, others)
}

//! Finds the values of a stored list that contain a text, without putting whole values together.
//!
//! ```text
//!   values                  shared  own                         "google" ends at
//!   http://goo.gl/1              0  http://goo.gl/1
//!   http://google.com/           9  ogle.com/                   13: starts in the shared bytes, ends in its own
//!   http://google.com/maps      18  maps                        13, which is before 18: known from the value before
//!   http://mail.google.com/      7  mail.google.com/            18: completely in its own bytes
//! ```
//!
//! The own bytes of many values are stored one after another, so one pass searches all of them. If the text ends in the
//! bytes that a value shares, this is known from the value before. A text across the border of shared and own bytes is
//! only searched if the first own byte occurs in the text after its first byte, which is rare.

use memchr::memmem::Finder;
use rowmill_base::{Error, Result};

use super::StringList;
use super::groups::TextGroups;
use super::windows::{OwnBytes, SlabScratch};

/// No occurrence of the text. Greater than the end of every occurrence.
const NOWHERE: u32 = u32::MAX;

impl StringList<'_> {
    /// Sets the truth of each value of the groups `among` that contains `needle`, which must not be empty. `truth` must
    /// have one entry for each value of the list.
    pub fn contains(&self, needle: &[u8], among: &TextGroups, truth: &mut [bool]) -> Result<()> {
        assert_eq!(truth.len(), self.len(), "each value must have a truth");
        let search = ListSearch::new(needle);
        let mut scratch = SlabScratch::default();
        for slab in self.slabs(among) {
            let values = self.values_of(slab.clone());
            search.find(&self.own_of_slab(slab, &mut scratch)?, &mut truth[values])?;
        }
        Ok(())
    }
}

struct ListSearch<'n> {
    needle: &'n [u8],
    finder: Finder<'n>,
    /// For each byte, whether the needle has it after its first byte.
    is_inside: [bool; 256],
}

impl ListSearch<'_> {
    fn new(needle: &[u8]) -> ListSearch<'_> {
        assert!(!needle.is_empty(), "the needle must not be empty");
        let mut is_inside = [false; 256];
        needle[1..].iter().for_each(|byte| is_inside[usize::from(*byte)] = true);
        ListSearch { needle, finder: Finder::new(needle), is_inside }
    }

    fn find(&self, own: &OwnBytes<'_>, truth: &mut [bool]) -> Result<()> {
        let find_from =
            |from: usize| self.finder.find(&own.bytes[from..]).map_or(usize::MAX, |distance| from + distance);
        let mut hit = find_from(0);
        // The end of the first occurrence in the value before, and the length of that value.
        let (mut end, mut before) = (NOWHERE, 0);
        for (value, truth) in truth.iter_mut().enumerate() {
            let (start, behind) = (own.offsets[value] as usize, own.offsets[value + 1] as usize);
            let shared = own.shared.map_or(0, |shared| shared[value]);
            if shared > before {
                return Err(Error::corrupt(format!("a value shares {shared} bytes of only {before}")));
            }
            before = shared + (behind - start) as u32;
            // An occurrence that ends within the shared bytes is in this value too. Otherwise look at the border, and
            // then at the own bytes.
            if end > shared {
                end = NOWHERE;
                if shared > 0 && start < behind && self.is_inside[usize::from(own.bytes[start])] {
                    end = self.end_across(own, value, shared).unwrap_or(NOWHERE);
                }
                // The last hit is in an earlier value, so search again from this value on.
                if hit < start {
                    hit = find_from(start);
                }
                let hit_end = hit.saturating_add(self.needle.len());
                if end == NOWHERE && hit_end <= behind {
                    end = shared + (hit_end - start) as u32;
                }
            }
            *truth = end != NOWHERE;
        }
        Ok(())
    }

    /// The end of the first occurrence that starts in the shared bytes of a value and ends in its own.
    fn end_across(&self, own: &OwnBytes<'_>, value: usize, shared: u32) -> Option<u32> {
        let bytes = &own.bytes[own.offsets[value] as usize..own.offsets[value + 1] as usize];
        (1..self.needle.len()).rev().find_map(|before| {
            // Try every split of the needle between the shared and the own bytes, the earliest occurrence first.
            let (front, back) = self.needle.split_at(before);
            // In most cases the first byte decides.
            let is_there = bytes[0] == back[0] && bytes.starts_with(back) && own.ends_shared(value, shared, front);
            is_there.then(|| shared + back.len() as u32)
        })
    }
}

impl OwnBytes<'_> {
    /// Whether the `shared` bytes of a value end with `front`.
    fn ends_shared(&self, value: usize, shared: u32, front: &[u8]) -> bool {
        let Some(start) = shared.checked_sub(front.len() as u32) else { return false };
        (start..shared).zip(front).all(|(place, byte)| self.byte_before(value, place) == Some(*byte))
    }

    /// The byte at `place` of the value before `value`. It comes from the last value before that owns a byte at that
    /// place.
    fn byte_before(&self, value: usize, place: u32) -> Option<u8> {
        let shared = |value: usize| self.shared.map_or(0, |shared| shared[value]);
        let owner = (0..value).rev().find(|owner| shared(*owner) <= place)?;
        let own = &self.bytes[self.offsets[owner] as usize..self.offsets[owner + 1] as usize];
        own.get((place - shared(owner)) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::{ListLayout, encode_list_as};
    use super::*;

    /// Values of few letters contain most texts, and often across the border of shared and own bytes.
    #[test]
    fn texts_are_found_in_shared_and_own_bytes_and_across() {
        let mut rng = SmallRng::seed_from_u64(9);
        for letters in [2, 3, 20] {
            let value = |rng: &mut SmallRng| -> Vec<u8> {
                (0..rng.random_range(0..30)).map(|_| b'a' + rng.random_range(0..letters)).collect()
            };
            let mut values: Vec<Vec<u8>> = (0..5000).map(|_| value(&mut rng)).collect();
            values.sort();
            values.dedup();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            for layout in ListLayout::ALL {
                let bytes = encode_list_as(&values, layout).unwrap();
                let list = StringList::open(&bytes, values.len()).unwrap();
                for length in [1, 2, 4, 9] {
                    let needle: Vec<u8> = (0..length).map(|_| b'a' + rng.random_range(0..letters)).collect();
                    let mut found = vec![false; values.len()];
                    list.contains(&needle, &list.all_groups(), &mut found).unwrap();
                    let finder = Finder::new(&needle);
                    assert!(values.iter().map(|value| finder.find(value).is_some()).eq(found), "{layout:?} {needle:?}");
                }
            }
        }
    }
}

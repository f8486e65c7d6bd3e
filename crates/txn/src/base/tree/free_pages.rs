//! The free pages of a file.
//!
//! A write frees the pages that its state no longer uses. States before it still use them, so they are held until no
//! read of such a state is left, and until a crash can no longer bring the state before back. Then they are ready for
//! another write:
//!
//! ```text
//! write 7 frees page 50     a read of state 6 may use it: held by 7
//! write 8                   while it runs, a crash leaves state 7, which does not use page 50: ready for this write
//!                           if no read of state 6 or of an older one is left
//! ```
//!
//! Each write stores the whole list as a long value:
//!
//! ```text
//! list     length of the groups in bytes (u64) | group ... | zeros to the end of the last page
//! group    generation (u64; 0 for ready pages) | number of runs (u64) | run ...
//! run      first page, less the end of the run before it | number of pages        (both as variable-length integers)
//! ```

use std::ops::RangeInclusive;

use rowmill_base::{Error, Result};

use super::head::HEAD_PAGES;

/// A run of free pages: the first one, and their number.
pub(super) type PageRun = (u64, u64);

/// The most bytes that an encoded list grows when a run of pages is taken: the distance to the run after it.
pub(super) const ENCODED_MORE_MAX: usize = 10;

/// The ready places that a page needs to move: its own, and one for a branch above it.
const MOVE_PLACES: u64 = 2;

/// The free pages of one state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FreePages {
    /// The pages that a write may use, as ascending runs with gaps between them.
    ready: Vec<PageRun>,
    /// The place of the first run in `ready` that has pages.
    next: usize,
    /// The pages that a generation freed and that reads of states before it may use, oldest generation first.
    held: Vec<(u64, Vec<PageRun>)>,
}

impl FreePages {
    /// Makes the pages ready that were freed by `generation` or an earlier one.
    pub(super) fn release(&mut self, generation: u64) {
        let count = self.held.partition_point(|(freed_by, _)| *freed_by <= generation);
        if count == 0 {
            return;
        }
        let mut runs = self.ready.split_off(self.next);
        runs.extend(self.held.drain(..count).flat_map(|(_, runs)| runs));
        (self.ready, self.next) = (merged(runs), 0);
    }

    /// Takes one ready page.
    pub(super) fn take_page(&mut self) -> Option<u64> {
        let (first, count) = self.ready.get_mut(self.next)?;
        let page = *first;
        (*first, *count) = (*first + 1, *count - 1);
        self.next += usize::from(*count == 0);
        Some(page)
    }

    /// Takes `count` consecutive ready pages and returns the first one.
    pub(super) fn take_run(&mut self, count: u64) -> Option<u64> {
        let at = (self.next..self.ready.len()).find(|at| self.ready[*at].1 >= count)?;
        let run = &mut self.ready[at];
        let first = run.0;
        *run = (first + count, run.1 - count);
        if run.1 == 0 {
            self.ready.remove(at);
        }
        Some(first)
    }

    /// Takes the last ready pages if they are the last ones of the file, which has `pages` pages. Returns the number
    /// of pages that the file then has.
    pub(super) fn cut(&mut self, pages: u64) -> u64 {
        let count = self.count_at_end(pages);
        if count > 0 {
            self.ready.pop();
        }
        pages - count
    }

    /// The number of ready pages at the end of a file of `pages` pages.
    pub(super) fn count_at_end(&self, pages: u64) -> u64 {
        self.ready[self.next..].last().filter(|(first, count)| first + count == pages).map_or(0, |(_, count)| *count)
    }

    /// The number of ready pages.
    pub(super) fn count_ready(&self) -> u64 {
        self.ready[self.next..].iter().map(|(_, count)| *count).sum()
    }

    /// The first ready page.
    pub(super) fn first_ready(&self) -> Option<u64> {
        self.ready.get(self.next).map(|(first, _)| *first)
    }

    /// Chooses the page of a file of `pages` pages from which on used pages should move to ready places before it: at
    /// most `moved_max` pages, and no more than there are places for them and for the branches above them. Returns
    /// `pages` if there is no place.
    pub(super) fn place_to_move_from(&self, pages: u64, moved_max: u64) -> u64 {
        let mut free: Vec<(PageRun, bool)> = self.ready[self.next..].iter().map(|run| (*run, true)).collect();
        free.extend(self.held.iter().flat_map(|(_, runs)| runs).map(|run| (*run, false)));
        free.sort_unstable();
        let (mut places, mut moved, mut end) = (self.count_ready(), 0, pages);
        for ((first, count), is_ready) in free.into_iter().rev() {
            // The pages from this run to the run after it are in use.
            let used = end - (first + count);
            let room = (places / MOVE_PLACES).saturating_sub(moved).min(moved_max - moved);
            if used > room {
                return end - room;
            }
            moved += used;
            places = if is_ready { places.saturating_sub(count) } else { places };
            if places < MOVE_PLACES * moved {
                return first + count;
            }
            end = first;
        }
        end
    }

    /// Adds the pages that `generation` freed. It must be greater than all generations before.
    pub(super) fn hold(&mut self, generation: u64, pages: Vec<PageRun>) {
        if !pages.is_empty() {
            self.held.push((generation, merged(pages)));
        }
    }

    /// The number of pages in the list.
    pub(super) fn count(&self) -> u64 {
        self.runs().map(|(_, count)| count).sum()
    }

    /// The number of pages that `generation` or a later one freed.
    pub(super) fn count_held_from(&self, generation: u64) -> u64 {
        let held = self.held.iter().filter(|(freed_by, _)| *freed_by >= generation);
        held.flat_map(|(_, runs)| runs).map(|(_, count)| count).sum()
    }

    /// The runs of pages that these generations freed. Pages that are ready count for generation 0.
    pub(super) fn runs_freed_by(&self, generations: RangeInclusive<u64>) -> impl Iterator<Item = PageRun> + '_ {
        let ready = if generations.contains(&0) { &self.ready[self.next..] } else { &[] };
        let held = self.held.iter().filter(move |(freed_by, _)| generations.contains(freed_by));
        ready.iter().chain(held.flat_map(|(_, runs)| runs)).copied()
    }

    /// All runs of free pages.
    pub(super) fn runs(&self) -> impl Iterator<Item = PageRun> + '_ {
        self.ready[self.next..].iter().chain(self.held.iter().flat_map(|(_, runs)| runs)).copied()
    }

    /// The list as bytes, without the zeros at its end. Taking one more run of pages makes it at most
    /// [`ENCODED_MORE_MAX`] bytes longer.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<u64>()];
        let ready = (0, &self.ready[self.next..]);
        let held = self.held.iter().map(|(generation, runs)| (*generation, &runs[..]));
        for (generation, runs) in std::iter::once(ready).chain(held).filter(|(_, runs)| !runs.is_empty()) {
            bytes.extend(generation.to_le_bytes());
            bytes.extend((runs.len() as u64).to_le_bytes());
            let mut end = 0;
            for (first, count) in runs {
                push_integer(&mut bytes, first - end);
                push_integer(&mut bytes, *count);
                end = first + count;
            }
        }
        let len = (bytes.len() - size_of::<u64>()) as u64;
        bytes[..size_of::<u64>()].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    /// Reads a list of a state with `pages` pages. The error's message names the damage.
    pub(super) fn decode(mut bytes: &[u8], pages: u64) -> Result<FreePages> {
        let damaged = || Error::corrupt("the list of free pages is damaged");
        let mut free = FreePages::default();
        let mut last = None;
        let len = take_u64(&mut bytes).and_then(|len| usize::try_from(len).ok());
        let mut groups = len.and_then(|len| bytes.get(..len)).ok_or_else(damaged)?;
        while !groups.is_empty() {
            let group = take_group(&mut groups, pages).filter(|(generation, _)| last < Some(*generation));
            let (generation, runs) = group.ok_or_else(damaged)?;
            last = Some(generation);
            match generation {
                0 => free.ready = runs,
                _ => free.held.push((generation, runs)),
            }
        }
        Ok(free)
    }
}

/// Takes a group off the start of `bytes`.
fn take_group(bytes: &mut &[u8], pages: u64) -> Option<(u64, Vec<PageRun>)> {
    let (generation, count) = (take_u64(bytes)?, take_u64(bytes)?);
    // Each run takes two bytes at least, so a damaged count cannot make us reserve more than the list justifies.
    let mut runs = Vec::with_capacity(usize::try_from(count).ok().filter(|count| *count <= bytes.len() / 2)?);
    let mut end = 0_u64;
    for _ in 0..count {
        let first = end.checked_add(take_integer(bytes)?)?;
        let count = take_integer(bytes)?;
        end = first.checked_add(count)?;
        if first < HEAD_PAGES || count == 0 || end > pages {
            return None;
        }
        runs.push((first, count));
    }
    Some((generation, runs))
}

/// Sorts runs and joins those that touch each other.
fn merged(mut runs: Vec<PageRun>) -> Vec<PageRun> {
    runs.sort_unstable();
    let mut merged: Vec<PageRun> = Vec::with_capacity(runs.len());
    for (first, count) in runs {
        match merged.last_mut() {
            Some(last) if last.0 + last.1 == first => last.1 += count,
            _ => merged.push((first, count)),
        }
    }
    merged
}

fn push_integer(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take_integer(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (value, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn free() -> FreePages {
        let mut free = FreePages::default();
        free.hold(3, vec![(10, 1), (12, 2), (11, 1)]);
        free.hold(5, vec![(1_000, 300), (4, 1)]);
        free.hold(9, vec![(20, 1)]);
        free
    }

    #[test]
    fn pages_become_ready_once_no_read_needs_them() {
        let mut free = free();
        assert_eq!((free.take_page(), free.count(), free.count_held_from(5)), (None, 306, 302));
        assert_eq!(free.runs_freed_by(0..=4).collect::<Vec<_>>(), [(10, 4)]);
        assert_eq!(free.runs_freed_by(5..=8).collect::<Vec<_>>(), [(4, 1), (1_000, 300)]);
        free.release(2);
        assert_eq!(free.take_page(), None);
        free.release(5);
        assert_eq!(free.runs().collect::<Vec<_>>(), [(4, 1), (10, 4), (1_000, 300), (20, 1)]);
        assert_eq!([free.take_page(), free.take_page(), free.take_run(5)], [Some(4), Some(10), Some(1_000)]);
        assert_eq!([free.take_run(3), free.take_run(300)], [Some(11), None]);
        assert_eq!((free.count_at_end(1_300), free.cut(1_300), free.cut(1_300)), (295, 1_005, 1_300));
        free.release(9);
        assert_eq!((free.take_page(), free.take_page()), (Some(20), None));
    }

    #[test]
    fn pages_move_to_as_many_places_as_there_are() {
        let mut free = FreePages::default();
        free.hold(3, vec![(10, 8), (50, 10), (98, 1)]);
        free.hold(4, vec![(90, 2)]);
        free.release(3);
        assert_eq!(free.first_ready(), Some(10));
        // 19 places are ready. Page 99 and pages 92 to 97 move to 14 of the 18 before page 98, and pages 88 and 89 to
        // the rest.
        assert_eq!(free.place_to_move_from(100, 100), 88);
        assert_eq!(free.place_to_move_from(100, 3), 96);
        assert_eq!(FreePages::default().place_to_move_from(100, 100), 100);
    }

    #[test]
    fn a_list_reads_back_and_a_damaged_one_is_refused_or_harmless() {
        let mut free = free();
        free.release(3);
        let bytes = free.encode();
        assert_eq!(FreePages::decode(&[&bytes[..], &[0; 9]].concat(), 1_300).unwrap(), free);
        let mut fewer = free.clone();
        fewer.take_run(1).unwrap();
        assert!(fewer.encode().len() <= bytes.len() + ENCODED_MORE_MAX);
        FreePages::decode(&bytes, 1_299).unwrap_err();
        for len in 0..bytes.len() {
            FreePages::decode(&bytes[..len], 1_300).unwrap_err();
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(free) = FreePages::decode(&bytes, 1_300) {
                    assert!(free.runs().all(|(first, count)| first >= HEAD_PAGES && first + count <= 1_300));
                }
            }
        }
    }
}

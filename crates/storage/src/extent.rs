//! Extents: ranges of a column file, and the allocator that hands them out.
//!
//! The bytes of an extent must never change once a commit names it. Extents start and end on page boundaries. So
//! freeing one (punching a hole) never touches its neighbours, and `du` shows the size of the named extents. We reuse
//! free ranges before the file grows, and prefer the smallest range that fits, so that large ranges stay whole.

use std::collections::BTreeMap;

/// Extents must start and end at multiples of this.
pub const PAGE_BYTES: u64 = 4096;

/// A range of a column file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The offset of the first byte. Must be a multiple of [`PAGE_BYTES`].
    pub offset: u64,
    /// The length in bytes. Must be a multiple of [`PAGE_BYTES`] and not 0.
    pub len: u64,
}

impl Extent {
    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Rounds `bytes` up to whole pages.
pub(crate) fn whole_pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

/// The free space of one column file.
#[derive(Debug, Default)]
pub(crate) struct ExtentAllocator {
    /// Every byte from here on is free.
    end: u64,
    /// Free ranges before `end`, from offset to length. No two of them may touch, and none may touch `end`.
    free: BTreeMap<u64, u64>,
}

impl ExtentAllocator {
    /// Makes an allocator in which exactly the extents `named` are taken. Fails with the first two extents that
    /// overlap.
    pub(crate) fn new(mut named: Vec<Extent>) -> Result<Self, (Extent, Extent)> {
        named.sort();
        for pair in named.windows(2) {
            if pair[0].end() > pair[1].offset {
                return Err((pair[0], pair[1]));
            }
        }
        let mut allocator = ExtentAllocator::default();
        for extent in named {
            if extent.offset > allocator.end {
                allocator.free.insert(allocator.end, extent.offset - allocator.end);
            }
            allocator.end = extent.end();
        }
        Ok(allocator)
    }

    /// The offset after the last taken extent.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The number of bytes that are taken.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.end - self.free.values().sum::<u64>()
    }

    /// The free ranges before the end of the last taken extent.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Extent> + '_ {
        self.free.iter().map(|(&offset, &len)| Extent { offset, len })
    }

    /// Whether no part of `extent` is free.
    pub(crate) fn is_taken(&self, extent: Extent) -> bool {
        // Free ranges do not touch, so only the last one that starts before the end of `extent` can overlap it.
        let before = self.free.range(..extent.end()).next_back();
        extent.end() <= self.end && before.is_none_or(|(offset, len)| offset + len <= extent.offset)
    }

    /// Takes an extent of `bytes`, rounded up to whole pages.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Extent {
        let len = whole_pages(bytes.max(1));
        // Best fit: large ranges stay whole.
        let fit = self.free.iter().filter(|(_, free)| **free >= len).min_by_key(|(_, free)| **free);
        if let Some((&offset, &free)) = fit {
            self.free.remove(&offset);
            if free > len {
                self.free.insert(offset + len, free - len);
            }
            return Extent { offset, len };
        }
        let extent = Extent { offset: self.end, len };
        self.end += len;
        extent
    }

    /// Takes all free ranges before `end` and returns them.
    pub(crate) fn take_free(&mut self, end: u64) -> Vec<Extent> {
        let mut taken: Vec<Extent> = self.gaps().collect();
        self.free.clear();
        if end > self.end {
            taken.push(Extent { offset: self.end, len: end - self.end });
            self.end = end;
        }
        taken
    }

    /// Frees `extent`, and joins it with the free ranges next to it.
    pub(crate) fn release(&mut self, extent: Extent) {
        let Extent { mut offset, mut len } = extent;
        assert!(extent.end() <= self.end, "only a taken extent can be freed");
        if let Some((&before, &before_len)) = self.free.range(..offset).next_back() {
            assert!(before + before_len <= offset, "an extent must be freed only once");
            if before + before_len == offset {
                self.free.remove(&before);
                offset = before;
                len += before_len;
            }
        }
        if let Some((&after, &after_len)) = self.free.range(offset..).next() {
            assert!(offset + len <= after, "an extent must be freed only once");
            if offset + len == after {
                self.free.remove(&after);
                len += after_len;
            }
        }
        // A free range at the end is not listed. The end moves back instead.
        if offset + len == self.end {
            self.end = offset;
        } else {
            self.free.insert(offset, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_ranges_are_joined_and_reused() {
        let mut allocator = ExtentAllocator::default();
        let a = allocator.allocate(1);
        let b = allocator.allocate(PAGE_BYTES * 3);
        let c = allocator.allocate(PAGE_BYTES);
        let d = allocator.allocate(PAGE_BYTES);
        assert_eq!((a.len, b.len, d.end()), (PAGE_BYTES, PAGE_BYTES * 3, PAGE_BYTES * 6));
        allocator.release(a);
        allocator.release(c);
        allocator.release(b);
        assert_eq!(allocator.gaps().collect::<Vec<_>>(), [Extent { offset: 0, len: PAGE_BYTES * 5 }]);
        assert_eq!(allocator.allocate(PAGE_BYTES * 5).offset, 0);
        allocator.release(d);
        assert_eq!(allocator.end(), PAGE_BYTES * 5);
    }

    #[test]
    fn exactly_the_named_extents_are_taken() {
        let page = |offset: u64, pages: u64| Extent { offset: offset * PAGE_BYTES, len: pages * PAGE_BYTES };
        let allocator = ExtentAllocator::new(vec![page(4, 1), page(1, 2)]).expect("no overlap");
        assert_eq!(allocator.gaps().collect::<Vec<_>>(), [page(0, 1), page(3, 1)]);
        assert_eq!(allocator.end(), 5 * PAGE_BYTES);
        assert!([page(1, 2), page(1, 1), page(4, 1)].into_iter().all(|extent| allocator.is_taken(extent)));
        assert!(![page(0, 2), page(2, 2), page(3, 2), page(4, 2)].into_iter().any(|extent| allocator.is_taken(extent)));
        assert!(ExtentAllocator::new(vec![page(4, 1), page(3, 2)]).is_err());
    }

    #[test]
    fn unnamed_ranges_can_be_taken_and_freed() {
        let page = |offset: u64, pages: u64| Extent { offset: offset * PAGE_BYTES, len: pages * PAGE_BYTES };
        let mut allocator = ExtentAllocator::new(vec![page(1, 2), page(4, 1)]).expect("no overlap");
        let taken = allocator.take_free(7 * PAGE_BYTES);
        assert_eq!(taken, [page(0, 1), page(3, 1), page(5, 2)]);
        assert_eq!(allocator.take_free(2 * PAGE_BYTES), []);
        assert_eq!(allocator.allocate(1), page(7, 1));
        taken.into_iter().for_each(|extent| allocator.release(extent));
        assert_eq!(allocator.gaps().collect::<Vec<_>>(), [page(0, 1), page(3, 1), page(5, 2)]);
    }

    #[test]
    fn random_traffic_never_hands_out_a_taken_page() {
        let mut allocator = ExtentAllocator::default();
        let mut taken: Vec<Extent> = Vec::new();
        let mut state = 7u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if state >> 63 == 0 || taken.is_empty() {
                let extent = allocator.allocate((state >> 40) % 50_000);
                assert!(taken.iter().all(|other| other.end() <= extent.offset || extent.end() <= other.offset));
                taken.push(extent);
            } else {
                let index = (state >> 33) as usize % taken.len();
                allocator.release(taken.swap_remove(index));
            }
        }
        let same = ExtentAllocator::new(taken).expect("no overlap");
        assert_eq!(same.end(), allocator.end());
        assert_eq!(same.taken_bytes(), allocator.taken_bytes());
        assert_eq!(same.gaps().collect::<Vec<_>>(), allocator.gaps().collect::<Vec<_>>());
    }
}

//! Looks up several keys of a tree at once.
//!
//! In a large tree, a search waits for memory at nearly every step, because the keys of a leaf are in as many lines of
//! the cache. Searches for different keys do not depend on each other. So we take one step of each search in turns, and
//! the processor waits for the steps of all searches together:
//!
//! ```text
//! one by one   key 1: root, branch, leaf, leaf, leaf   key 2: root, branch, leaf, ...
//! in turns     root of 1, 2, 3   branch of 1, 2, 3   leaf of 1, 2, 3   leaf of 1, 2, 3
//! ```
//!
//! Keys near the last entry of the reader's path need no search from the root. The first key that is not near moves the
//! path, so that keys in order are all found near each other.

use std::cmp::Ordering;

use rowmill_base::Result;

use super::{NO_PAGE, Page, Path, PathStep, TreeReader};
use crate::key_bytes::compare;

/// The most keys that are looked up in turns. A processor waits for about as many lines of memory at a time.
pub(in crate::base) const LOOKUPS_AT_ONCE: usize = 16;

/// The values of some keys as stored, with their checksums; `None` if a key does not exist.
pub(in crate::base) type StoredValues<'m> = [Option<&'m [u8]>; LOOKUPS_AT_ONCE];

/// The search for one key.
#[derive(Clone, Copy)]
struct KeySearch<'m, 'k> {
    /// The place of the key among all keys.
    at: usize,
    key: &'k [u8],
    page: Page<'m>,
    /// The node to find in the page is one of these, or the first one after them.
    low: usize,
    high: usize,
}

impl TreeReader {
    /// Returns the values of at most [`LOOKUPS_AT_ONCE`] keys. This is fastest if all keys belong to one index.
    pub(in crate::base) fn get_several(&self, keys: &[&[u8]]) -> Result<StoredValues<'_>> {
        let mut values = [None; LOOKUPS_AT_ONCE];
        if self.root.page == NO_PAGE {
            return Ok(values);
        }
        let root = self.page(self.root.page, 0)?;
        let mut searches = [KeySearch { at: 0, key: &[], page: root, low: 0, high: 0 }; LOOKUPS_AT_ONCE];
        self.with_path(keys.first().copied().unwrap_or_default(), |path| {
            let (mut far, mut has_sought) = (0, false);
            for (at, key) in keys.iter().enumerate() {
                if self.goes_near(path, key)? {
                    values[at] = self.value_at(path, key)?;
                } else if std::mem::replace(&mut has_sought, true) {
                    (searches[far].at, searches[far].key) = (at, key);
                    far += 1;
                } else if self.seek(path, key)? {
                    // The keys after this one may be in the next leaf, so the path goes there once.
                    values[at] = self.value_at(path, key)?;
                }
            }
            let searches = &mut searches[..far];
            self.search_in_turns(path, searches)?;
            for KeySearch { at, key, page, low, .. } in searches {
                if *low < page.nodes && compare(page.key(*low)?, key).is_eq() {
                    values[*at] = Some(self.value(page, *low)?);
                }
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Takes the searches from the root to their leaves. The path then leads to the place of the last key.
    fn search_in_turns<'m>(&'m self, path: &mut Path, searches: &mut [KeySearch<'m, '_>]) -> Result<()> {
        let Some(last) = searches.len().checked_sub(1) else { return Ok(()) };
        path.0.clear();
        for level in 1..usize::from(self.root.depth) {
            narrow(searches, 1, true)?;
            path.0.push(PathStep { page: searches[last].page.number, node: searches[last].low - 1 });
            for search in &mut *searches {
                search.page = self.page(search.page.child(search.low - 1)?, level)?;
            }
        }
        narrow(searches, 0, false)?;
        let KeySearch { page, low, .. } = searches[last];
        path.0.push(PathStep { page: page.number, node: low.min(page.nodes.saturating_sub(1)) });
        Ok(())
    }
}

/// Sets `low` of each search to the first node of its page, from `first` on, whose key is not less than the key that is
/// searched for, or is greater than it if `after_equal` is set.
fn narrow(searches: &mut [KeySearch<'_, '_>], first: usize, after_equal: bool) -> Result<()> {
    for search in &mut *searches {
        (search.low, search.high) = (first, search.page.nodes);
    }
    let mut is_open = true;
    while is_open {
        is_open = false;
        for KeySearch { key, page, low, high, .. } in &mut *searches {
            if *low >= *high {
                continue;
            }
            let middle = low.midpoint(*high);
            let is_before = match compare(page.key(middle)?, key) {
                Ordering::Less => true,
                Ordering::Equal => after_equal,
                Ordering::Greater => false,
            };
            (*low, *high) = if is_before { (middle + 1, *high) } else { (*low, middle) };
            is_open |= *low < *high;
        }
    }
    Ok(())
}

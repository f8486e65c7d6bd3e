//! Looks up several keys of a tree at once.
//!
//! In a large tree, a search waits for memory at nearly every step. Searches for different keys do not depend on each
//! other. So we take one step of each search in turns, and the processor waits for the steps of all searches together:
//!
//! ```text
//! one by one   key 1: root, branch, leaf   key 2: root, branch, leaf   ...
//! in turns     root of 1, 2, 3   branch of 1, 2, 3   leaf of 1, 2, 3
//! ```
//!
//! Keys near the last entry of the reader's path need no search from the root. The first key that is not near moves the
//! path if it is below the same branch, so that keys in order are all found near each other.

use rowmill_base::Result;

use super::page::{Page, PagePointer};
use super::reader::{Path, PathStep, TreeReader};

/// The most keys that are looked up in turns. A processor waits for about as many lines of memory at a time.
pub(super) const LOOKUPS_AT_ONCE: usize = 16;

/// The values of some keys; `None` if a key does not exist.
pub(super) type FoundValues<'m> = [Option<&'m [u8]>; LOOKUPS_AT_ONCE];

/// The search for one key.
#[derive(Clone, Copy)]
struct KeySearch<'m, 'k> {
    /// The place of the key among all keys.
    at: usize,
    key: &'k [u8],
    pointer: PagePointer,
    page: Page<'m>,
    node: usize,
}

impl TreeReader {
    /// Returns the values of at most [`LOOKUPS_AT_ONCE`] keys. This is fastest if all keys belong to one index.
    pub(super) fn get_several(&self, keys: &[&[u8]]) -> Result<FoundValues<'_>> {
        let mut values = [None; LOOKUPS_AT_ONCE];
        let Some((pointer, level)) = self.root() else { return Ok(values) };
        let page = self.page(pointer, level)?;
        let mut searches = [KeySearch { at: 0, key: &[], pointer, page, node: 0 }; LOOKUPS_AT_ONCE];
        self.with_path(keys.first().copied().unwrap_or_default(), |path| {
            // Most keys of one call are in one leaf, so it is kept from key to key.
            let mut leaf = self.leaf_of(path)?;
            let (mut far, mut has_sought) = (0, false);
            for (at, key) in keys.iter().enumerate() {
                if let Some((page, node)) = &mut leaf
                    && let Some(near) = page.search_near(*node, key)
                {
                    *node = near.at;
                    values[at] = if near.has_key { Some(self.value(page, near.at)?) } else { None };
                } else if !has_sought && (keys.len() == 1 || self.is_below_same_branch(path, key)?) {
                    has_sought = true;
                    // The keys after this one may be in the next leaf, so the path goes there once.
                    leaf = self.seek_far(path, key)?;
                    if let Some((page, node)) = leaf
                        && page.has_key(node, key)
                    {
                        values[at] = Some(self.value(&page, node)?);
                    }
                } else {
                    (searches[far].at, searches[far].key) = (at, key);
                    far += 1;
                }
            }
            if let Some((_, node)) = leaf {
                path.stand_at(node);
            }
            let searches = &mut searches[..far];
            self.search_in_turns(path, level, searches)?;
            for KeySearch { at, key, page, node, .. } in searches {
                if *node < page.nodes() && page.has_key(*node, key) {
                    values[*at] = Some(self.value(page, *node)?);
                }
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Takes the searches from the root, which has the level `top`, to their leaves. The path then leads to the place
    /// of the last key.
    fn search_in_turns<'m>(&'m self, path: &mut Path, top: u32, searches: &mut [KeySearch<'m, '_>]) -> Result<()> {
        let Some(last) = searches.len().checked_sub(1) else { return Ok(()) };
        path.0.clear();
        for level in (0..=top).rev() {
            for search in &mut *searches {
                search.node =
                    if level == 0 { search.page.search(search.key) } else { search.page.search_child(search.key) };
            }
            let KeySearch { pointer, page, node, .. } = searches[last];
            path.0.push(PathStep { page: pointer, node: node.min(page.nodes() - 1) });
            if level > 0 {
                // Ask for all pages before the first search in one of them, so that they arrive together.
                for search in &mut *searches {
                    search.pointer = search.page.child(search.node).page;
                    search.page = self.page(search.pointer, level - 1)?;
                }
            }
        }
        Ok(())
    }
}

//! Reads one state of a tree.
//!
//! A [`TreeReader`] keeps, for each of a few indexes, the path from the root to the last entry that it returned,
//! because the next key is usually near:
//!
//! ```text
//! root         | m | t |            a key between the first and the last key of a page on the path is searched for
//! branch       | n | p | r |        from that page down: mostly from the leaf, where keys come near one another
//! leaf         | p1 | p4 | p9 |
//!                     ^             the next entry is the next node
//! ```
//!
//! Branches know the numbers of entries below their nodes. So the rank of a key, which is the number of keys before it,
//! takes one look at each level, and with ranks ranges are counted, skipped and split.

use std::cell::Cell;
use std::sync::Arc;

use rowmill_base::{Result, recycled};

use super::super::{RunVisitor, Visitor};
use super::free_pages::FreePages;
use super::head::TreeState;
use super::key_parts::KeyParts;
use super::mapped_pages::MappedPages;
use super::page::{LeafValue, LongValue, NearNode, Page, PagePointer};

/// Reads one state of a tree. Only one thread at a time may search it.
pub(super) struct TreeReader {
    mapped: Arc<MappedPages>,
    state: TreeState,
    /// The paths to the entries that were visited last. A join reads several indexes in turns, so each has its own
    /// path, or shares one with few others.
    paths: [Cell<Path>; PATHS],
    /// The memory of the key of [`TreeReader::visit`].
    key: Cell<Vec<u8>>,
    /// The memory of [`TreeReader::visit_runs`].
    run: Cell<RunMemory>,
}

/// The memory of the keys and values of a run.
#[derive(Default)]
struct RunMemory {
    /// The bytes of the keys, and where each key ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    keys: Vec<&'static [u8]>,
    values: Vec<&'static [u8]>,
}

/// The number of paths that a reader keeps.
const PATHS: usize = 8;

/// The place of the byte that selects a path: in the keys of keyed tables, the last byte of the index's id.
pub(super) const PATH_BYTE: usize = 4;

/// Leaves that a skip counts one by one before it uses ranks. Three ranks take about 1 µs, and a leaf about 50 ns. For
/// example, groups of some ten leaves each took 50 µs with 4 and 26 µs without ranks.
const LEAVES_PASSED_MAX: usize = 16;

/// The nodes that lead to an entry, root first. Empty before the first search and after a failed one.
#[derive(Debug, Default)]
pub(super) struct Path(pub(super) Vec<PathStep>);

/// A node of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathStep {
    pub(super) page: PagePointer,
    pub(super) node: usize,
}

impl Path {
    pub(super) fn stand_at(&mut self, node: usize) {
        self.0.last_mut().expect("the path leads to an entry").node = node;
    }
}

impl TreeReader {
    /// Makes a reader of `state`.
    ///
    /// # Safety
    ///
    /// No thread of any process may overwrite pages of the state while the reader exists.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(mapped: Arc<MappedPages>, state: TreeState) -> TreeReader {
        TreeReader { mapped, state, paths: Default::default(), key: Cell::default(), run: Cell::default() }
    }

    /// Forgets which pages were checked, so that each of them is checked again.
    pub(super) fn check_again(&mut self) {
        self.mapped = Arc::new(self.mapped.unchecked());
    }

    pub(super) fn mapped(&self) -> &Arc<MappedPages> {
        &self.mapped
    }

    pub(super) fn state(&self) -> &TreeState {
        &self.state
    }

    /// Returns the value of `key`.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.with_path(key, |path| {
            if let Some((page, near)) = self.seek_near(path, key)? {
                return if near.has_key { self.value(&page, near.at).map(Some) } else { Ok(None) };
            }
            match self.seek_far(path, key)? {
                Some((page, node)) if page.has_key(node, key) => self.value(&page, node).map(Some),
                _ => Ok(None),
            }
        })
    }

    /// Visits the entries from `start` up to, but not including, `end` (no upper bound if it is empty) until the
    /// visitor returns `false`. With `backward` it begins with the last entry and goes down.
    pub(super) fn visit(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        self.with_path(start, |path| {
            let mut key = self.key.take();
            let mut is_there = self.begin(path, start, end, backward)?;
            while is_there {
                let (page, mut node) = self.leaf(path)?;
                // If the last entry of the leaf in this direction is inside of the range, all of them are.
                let last = if backward { 0 } else { page.nodes() - 1 };
                let is_whole = !is_outside(page.key(last), start, end, backward);
                loop {
                    let parts = page.key(node);
                    if !is_whole && is_outside(parts, start, end, backward) {
                        is_there = false;
                        break;
                    }
                    path.stand_at(node);
                    parts.copy_to(&mut key);
                    if !visit(&key, self.value(&page, node)?)? {
                        is_there = false;
                        break;
                    }
                    match if backward { node.checked_sub(1) } else { Some(node + 1) } {
                        Some(next) if next < page.nodes() => node = next,
                        _ => break,
                    }
                }
                is_there = is_there && self.advance(path, backward)?;
            }
            self.key.set(key);
            Ok(())
        })
    }

    /// Visits the entries of a range like [`TreeReader::visit`], several in one call. See [`BaseRead::range_in_runs`].
    ///
    /// [`BaseRead::range_in_runs`]: super::super::BaseRead::range_in_runs
    pub(super) fn visit_runs(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        first: usize,
        visit: &mut RunVisitor<'_>,
    ) -> Result<()> {
        self.with_path(start, |path| {
            let RunMemory { mut bytes, mut ends, mut keys, values } = self.run.take();
            let (mut values, mut wanted) = (recycled(values), first);
            let mut visit = |bytes: &mut Vec<u8>, ends: &mut Vec<usize>, values: &mut Vec<&[u8]>| {
                let mut found: Vec<&[u8]> = recycled(std::mem::take(&mut keys));
                let starts = std::iter::once(0).chain(ends.iter().copied());
                found.extend(starts.zip(&*ends).map(|(start, end)| &bytes[start..*end]));
                let wanted = visit(&found, values);
                keys = recycled(found);
                bytes.clear();
                ends.clear();
                values.clear();
                wanted
            };
            let mut is_there = wanted > 0 && self.begin(path, start, end, backward)?;
            while is_there {
                let (page, node) = self.leaf(path)?;
                let left = if backward { node + 1 } else { page.nodes() - node };
                let within = nodes_within(&page, node, left, start, end, backward);
                let mut taken = 0;
                while taken < within {
                    let to = within.min(taken + wanted - values.len());
                    for at in taken..to {
                        let at = if backward { node - at } else { node + at };
                        page.key(at).append_to(&mut bytes);
                        ends.push(bytes.len());
                        values.push(self.value(&page, at)?);
                    }
                    taken = to;
                    if values.len() == wanted {
                        wanted = visit(&mut bytes, &mut ends, &mut values)?;
                    }
                    if wanted == 0 {
                        path.stand_at(if backward { node + 1 - taken } else { node + taken - 1 });
                        break;
                    }
                }
                is_there = wanted > 0 && within == left && self.advance_leaf(path, backward)?;
            }
            if !values.is_empty() {
                visit(&mut bytes, &mut ends, &mut values)?;
            }
            self.run.set(RunMemory { bytes, ends, keys, values: recycled(values) });
            Ok(())
        })
    }

    /// Skips the first keys of a range, at most `keys_max`, and returns how many it skipped. If it skipped all
    /// `keys_max`, it sets `last` to the last of them.
    pub(super) fn pass(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        keys_max: usize,
        last: &mut Vec<u8>,
    ) -> Result<usize> {
        self.with_path(start, |path| {
            let (mut passed, mut leaves) = (0, 0);
            let mut is_there = keys_max > 0 && self.begin(path, start, end, backward)?;
            while is_there {
                if leaves == LEAVES_PASSED_MAX {
                    return self.pass_by_ranks(path, (start, end), backward, (passed, keys_max), last);
                }
                leaves += 1;
                let (page, node) = self.leaf(path)?;
                // How many entries of this leaf are left in the direction of the scan, from the current node on, and
                // how many of those are wanted.
                let left = if backward { node + 1 } else { page.nodes() - node };
                let wanted = left.min(keys_max - passed);
                let taken = nodes_within(&page, node, wanted, start, end, backward);
                passed += taken;
                if taken > 0 {
                    path.stand_at(if backward { node + 1 - taken } else { node + taken - 1 });
                }
                if passed == keys_max {
                    page.key(self.leaf(path)?.1).copy_to(last);
                    break;
                }
                is_there = taken == left && self.advance(path, backward)?;
            }
            Ok(passed)
        })
    }

    /// Continues [`TreeReader::pass`] from the entry to which the path leads, after `passed` keys of `keys_max`.
    fn pass_by_ranks(
        &self,
        path: &Path,
        (start, end): (&[u8], &[u8]),
        backward: bool,
        (passed, keys_max): (usize, usize),
        last: &mut Vec<u8>,
    ) -> Result<usize> {
        let (page, node) = self.leaf(path)?;
        let here = self.rank(&page.key(node).to_vec())?;
        let left = match backward {
            true => (here + 1).saturating_sub(self.rank(start)?),
            false => self.rank_of_end(end)?.saturating_sub(here),
        };
        let taken = left.min((keys_max - passed) as u64);
        if taken > 0 && passed + taken as usize == keys_max {
            let at = if backward { here + 1 - taken } else { here + taken - 1 };
            self.key_of_rank(at)?.copy_to(last);
        }
        Ok(passed + taken as usize)
    }

    /// Keys that split a range into about `parts` parts with the same numbers of keys, ascending. They are inside of
    /// the range, and none of them is its start.
    pub(super) fn split_keys(&self, start: &[u8], end: &[u8], parts: usize) -> Result<Vec<Vec<u8>>> {
        let (from, to) = (self.rank(start)?, self.rank_of_end(end)?);
        let count = to.saturating_sub(from);
        let parts = (parts as u64).min(count);
        let keys = (1..parts).map(|part| Ok(self.key_of_rank(from + count * part / parts)?.to_vec()));
        let mut keys = keys.collect::<Result<Vec<_>>>()?;
        keys.retain(|key| &key[..] > start);
        Ok(keys)
    }

    fn rank_of_end(&self, end: &[u8]) -> Result<u64> {
        if end.is_empty() { Ok(self.state.entries) } else { self.rank(end) }
    }

    /// The number of keys less than `key`.
    fn rank(&self, key: &[u8]) -> Result<u64> {
        let Some((mut pointer, mut level)) = self.root() else { return Ok(0) };
        let mut rank = 0;
        loop {
            let page = self.page(pointer, level)?;
            if level == 0 {
                return Ok(rank + page.search(key) as u64);
            }
            let node = page.search_child(key);
            rank += page.entries_before(node);
            (pointer, level) = (page.child(node).page, level - 1);
        }
    }

    /// The key that has `rank` keys before it. The tree must have more than `rank` entries.
    fn key_of_rank(&self, mut rank: u64) -> Result<KeyParts<'_>> {
        let (mut pointer, mut level) = self.root().expect("a tree with entries has a root");
        loop {
            let page = self.page(pointer, level)?;
            if level == 0 {
                let node = usize::try_from(rank).ok().filter(|node| *node < page.nodes());
                return match node {
                    Some(node) => Ok(page.key(node)),
                    None => Err(self.mapped.damage(page.number, "has fewer entries than its branch says")),
                };
            }
            let mut node = 0;
            while node + 1 < page.nodes() && rank >= page.child(node).entries {
                rank -= page.child(node).entries;
                node += 1;
            }
            (pointer, level) = (page.child(node).page, level - 1);
        }
    }

    /// Goes to the first entry of a range, or with `backward` to the last one. If the range has no entry, the path may
    /// lead to an entry outside of it. Returns whether the path leads to an entry.
    fn begin(&self, path: &mut Path, start: &[u8], end: &[u8], backward: bool) -> Result<bool> {
        match backward {
            false => self.seek(path, start),
            true if end.is_empty() => self.to_edge(path, true),
            true => match self.seek(path, end)? {
                true => self.advance(path, true),
                false => self.to_edge(path, true),
            },
        }
    }

    /// Calls `search` with the path of the last search in the index of `key`. After an error the path stays empty,
    /// because it may be invalid.
    pub(super) fn with_path<T>(&self, key: &[u8], search: impl FnOnce(&mut Path) -> Result<T>) -> Result<T> {
        let kept = &self.paths[usize::from(key.get(PATH_BYTE).copied().unwrap_or_default()) % PATHS];
        let mut path = kept.take();
        let found = search(&mut path)?;
        kept.set(path);
        Ok(found)
    }

    /// The leaf to which the path leads, and the node in it. `None` if the path leads to no entry.
    #[inline]
    pub(super) fn leaf_of(&self, path: &Path) -> Result<Option<(Page<'_>, usize)>> {
        let is_whole = !path.0.is_empty() && path.0.len() >= self.state.levels as usize;
        if is_whole { self.leaf(path).map(Some) } else { Ok(None) }
    }

    /// Whether `key` certainly belongs below the branch of the leaf to which the path leads.
    pub(super) fn is_below_same_branch(&self, path: &Path, key: &[u8]) -> Result<bool> {
        let levels = self.state.levels as usize;
        match levels > 1 && path.0.len() == levels {
            true => Ok(self.page_of(path, levels - 2)?.is_around(key)),
            false => Ok(false),
        }
    }

    /// Goes to the first entry whose key is not less than `key`. Returns whether such an entry exists.
    pub(super) fn seek(&self, path: &mut Path, key: &[u8]) -> Result<bool> {
        Ok(self.seek_near(path, key)?.is_some() || self.seek_far(path, key)?.is_some())
    }

    /// Goes to the first entry whose key is not less than `key`, if it is in the leaf to which the path leads. Returns
    /// the leaf and the node.
    #[inline]
    fn seek_near(&self, path: &mut Path, key: &[u8]) -> Result<Option<(Page<'_>, NearNode)>> {
        let Some((page, node)) = self.leaf_of(path)? else { return Ok(None) };
        let near = page.search_near(node, key);
        near.iter().for_each(|near| path.stand_at(near.at));
        Ok(near.map(|near| (page, near)))
    }

    /// Goes to the first entry whose key is not less than `key`, if that is not near the entry to which the path leads.
    /// Returns the leaf of the entry and its node, or `None` if there is no such entry.
    pub(super) fn seek_far(&self, path: &mut Path, key: &[u8]) -> Result<Option<(Page<'_>, usize)>> {
        let mut levels = path.0.len().min((self.state.levels as usize).saturating_sub(1));
        // Climb to the lowest branch that certainly covers `key`. The root needs no check.
        while levels > 1 && !self.page_of(path, levels - 1)?.is_around(key) {
            levels -= 1;
        }
        path.0.truncate(levels);
        let from = path.0.pop().map(|step| step.page);
        let Some(mut pointer) = from.or(self.root().map(|(root, _)| root)) else { return Ok(None) };
        loop {
            let level = self.level_below(path);
            let page = self.page(pointer, level)?;
            if level == 0 {
                let node = page.search(key);
                path.0.push(PathStep { page: pointer, node });
                if node < page.nodes() {
                    return Ok(Some((page, node)));
                }
                return if self.advance_leaf(path, false)? { self.leaf(path).map(Some) } else { Ok(None) };
            }
            let node = page.search_child(key);
            path.0.push(PathStep { page: pointer, node });
            pointer = page.child(node).page;
        }
    }

    /// Goes to the next entry, or with `backward` to the previous one. Returns whether such an entry exists.
    fn advance(&self, path: &mut Path, backward: bool) -> Result<bool> {
        let (page, node) = self.leaf(path)?;
        match if backward { node.checked_sub(1) } else { Some(node + 1) } {
            Some(next) if next < page.nodes() => {
                path.stand_at(next);
                Ok(true)
            }
            _ => self.advance_leaf(path, backward),
        }
    }

    /// Goes to the first entry of the next leaf, or with `backward` to the last entry of the previous leaf. Returns
    /// whether such an entry exists.
    fn advance_leaf(&self, path: &mut Path, backward: bool) -> Result<bool> {
        // Climb until a branch has another child in this direction, then descend along its edge.
        path.0.pop();
        while !path.0.is_empty() {
            let page = self.page_of(path, path.0.len() - 1)?;
            let step = path.0.last_mut().expect("the path has a step");
            match if backward { step.node.checked_sub(1) } else { Some(step.node + 1) } {
                Some(next) if next < page.nodes() => {
                    step.node = next;
                    return self.descend(path, page.child(next).page, backward);
                }
                _ => drop(path.0.pop()),
            }
        }
        Ok(false)
    }

    /// Goes to the first entry of the tree, or with `to_last` to the last one. Returns whether there is one.
    fn to_edge(&self, path: &mut Path, to_last: bool) -> Result<bool> {
        path.0.clear();
        match self.root() {
            Some((root, _)) => self.descend(path, root, to_last),
            None => Ok(false),
        }
    }

    /// Goes to the first entry below the page `pointer`, to which the path leads, or with `to_last` to the last one.
    fn descend(&self, path: &mut Path, mut pointer: PagePointer, to_last: bool) -> Result<bool> {
        loop {
            let level = self.level_below(path);
            let page = self.page(pointer, level)?;
            let node = if to_last { page.nodes() - 1 } else { 0 };
            path.0.push(PathStep { page: pointer, node });
            if level == 0 {
                return Ok(true);
            }
            pointer = page.child(node).page;
        }
    }

    /// The level of the page to which a path of branches leads.
    fn level_below(&self, path: &Path) -> u32 {
        self.state.levels - 1 - path.0.len() as u32
    }

    /// The page of a step of a path.
    fn page_of(&self, path: &Path, step: usize) -> Result<Page<'_>> {
        self.page(path.0[step].page, self.state.levels - 1 - step as u32)
    }

    /// The leaf that a path leads to, and the node in the leaf.
    #[inline]
    fn leaf(&self, path: &Path) -> Result<(Page<'_>, usize)> {
        let PathStep { page, node } = *path.0.last().expect("the path leads to an entry");
        Ok((self.page(page, 0)?, node))
    }

    /// The root and its level; `None` if the tree is empty.
    pub(super) fn root(&self) -> Option<(PagePointer, u32)> {
        self.state.levels.checked_sub(1).map(|level| (self.state.root, level))
    }

    /// Returns a page of the state.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn page(&self, pointer: PagePointer, level: u32) -> Result<Page<'_>> {
        // SAFETY: pointers come from the state's root, and the creator of this reader keeps the pages of the state.
        unsafe { self.mapped.page(pointer, level) }
    }

    /// Returns the value of a leaf's node.
    #[inline]
    pub(super) fn value<'m>(&'m self, page: &Page<'m>, at: usize) -> Result<&'m [u8]> {
        match page.value(at) {
            LeafValue::InPage(value) => Ok(value),
            LeafValue::Long(value) => self.long_value(value),
        }
    }

    /// Returns the free pages of the state.
    pub(super) fn free_pages(&self) -> Result<FreePages> {
        let TreeState { free, pages, .. } = self.state;
        if free.len == 0 {
            return Ok(FreePages::default());
        }
        let list = FreePages::decode(self.long_value(free)?, pages);
        list.map_err(|error| self.mapped.damage(free.first.number, error.message()))
    }

    #[allow(unsafe_code)]
    fn long_value(&self, value: LongValue) -> Result<&[u8]> {
        // SAFETY: the value belongs to the state, and the creator of this reader keeps the pages of the state.
        unsafe { self.mapped.long_value(value) }
    }
}

/// How many of `wanted` nodes of a leaf, from `node` on in the direction of the scan, are inside of the range.
#[inline]
fn nodes_within(page: &Page<'_>, node: usize, wanted: usize, start: &[u8], end: &[u8], backward: bool) -> usize {
    let last = if backward { node + 1 - wanted } else { node + wanted - 1 };
    match backward {
        // If the last one is inside of the range, all of them are, and no search is needed.
        _ if !is_outside(page.key(last), start, end, backward) => wanted,
        _ if is_outside(page.key(node), start, end, backward) => 0,
        true => node + 1 - page.search(start),
        false => page.search(end) - node,
    }
}

#[inline]
fn is_outside(key: KeyParts<'_>, start: &[u8], end: &[u8], backward: bool) -> bool {
    if backward { key.compare(start).is_lt() } else { !end.is_empty() && key.compare(end).is_ge() }
}

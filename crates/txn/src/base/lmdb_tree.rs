//! Reads the tree of a base directly from the pages of the mapped file.
//!
//! LMDB's own cursor is allocated for each range, begins each search at the root, and needs a call for each entry.
//! A [`TreeReader`] keeps, for each of a few indexes, the path from the root to the last entry that it returned,
//! because the next key is usually near:
//!
//! ```text
//! root         | m | t |            a key between the first and the last key of a page on the path is searched for
//! branch       | n | p | r |        from that page down: mostly from the leaf, where keys come near one another
//! leaf         | p1 | p4 | p9 |
//!                     ^             the next entry is the next node; a range is counted by the nodes of its leaves
//! ```
//!
//! `lmdb_pages.rs` describes the layout of pages. Before we read a page we check its own number and its kind, and we
//! check each offset before we follow it. So a damaged page gives an error that names the page.
//!
//! The caller must hold an LMDB transaction on the state that it reads, so that LMDB does not overwrite pages of that
//! state.

mod lookups;

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Error, Result};
use rowmill_io::{Disk, Mapping, RealDisk};

pub(super) use self::lookups::LOOKUPS_AT_ONCE;
use super::lmdb_pages::{
    BIG_VALUE, BRANCH, HEADER_LEN, LEAF, NO_PAGE, NODE_LEN, OVERFLOW, Pages, TreeRoot, u16_at, u32_at, u64_at,
};
use super::{BASE_FILE, Visitor};
use crate::key_bytes::{common_bytes, compare, head_of};

/// The file of a base, mapped for reading.
pub(super) struct MappedTree {
    pages: Pages,
    disk: RealDisk,
    name: String,
    newest: Mutex<NewestTree>,
}

/// The tree that was read last. As far as we know it is the newest one.
struct NewestTree {
    mapping: Arc<Mapping>,
    /// The LMDB transaction that made the tree, and the tree's root.
    root: Option<(u64, TreeRoot)>,
}

impl MappedTree {
    /// Maps the file of a base over `map_bytes` of address space, or over less if the system does not grant that much.
    pub(super) fn open(file: &FilePath, map_bytes: usize) -> Result<MappedTree> {
        let (pages, _) = Pages::open(file)?;
        let (Some(dir), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
            return Err(Error::internal(format!("{} is no file of a base", file.display())));
        };
        let (disk, name) = (RealDisk::new(dir), name.to_owned());
        let mapping = disk.map(&name, map_bytes as u64).or_else(|_| disk.map(&name, 0))?;
        Ok(MappedTree { pages, disk, name, newest: Mutex::new(NewestTree { mapping, root: None }) })
    }

    /// Returns a reader of the state that `transaction` made. Returns `None` if a later transaction committed after the
    /// caller began.
    ///
    /// # Safety
    ///
    /// The caller must hold a read of that state until the reader is dropped, so that its pages are not overwritten.
    #[allow(unsafe_code)]
    pub(super) unsafe fn reader(&self, transaction: u64) -> Result<Option<TreeReader>> {
        let mut newest = self.newest.lock();
        let root = match newest.root {
            // Usually the state is the one that was read last. Then its root is known without reading the heads.
            Some((made_by, root)) if made_by == transaction => root,
            _ => {
                let (made_by, root) = self.pages.newest_root()?;
                if made_by != transaction {
                    return Ok(None);
                }
                // The file outgrew our mapping. Readers of older states keep the old mapping alive through their `Arc`.
                if newest.mapping.capacity() < root.end {
                    newest.mapping = self.disk.map(&self.name, root.end.saturating_mul(2))?;
                }
                newest.root = Some((made_by, root));
                root
            }
        };
        Ok(Some(TreeReader { mapping: Arc::clone(&newest.mapping), root, paths: Default::default() }))
    }
}

impl fmt::Debug for MappedTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedTree").field("file", &self.pages.path()).finish_non_exhaustive()
    }
}

/// Reads one state of a tree. Only one thread at a time may search it.
pub(super) struct TreeReader {
    mapping: Arc<Mapping>,
    root: TreeRoot,
    /// The paths to the entries that were visited last. A join reads several indexes in turns, so each has its own
    /// path, or shares one with few others.
    paths: [Cell<Path>; PATHS],
}

/// The number of paths that a reader keeps.
const PATHS: usize = 8;

/// Keys of branches at least for each part into which a range is split, so that the parts have similar sizes.
const SPLIT_KEYS_PER_PART: usize = 4;

/// The place of the byte that selects a path: in the keys of keyed tables, the last byte of the index's id.
const PATH_BYTE: usize = 4;

/// The nodes that lead to an entry, root first. Empty before the first search and after a failed one.
#[derive(Debug, Default)]
struct Path(Vec<PathStep>);

/// A node of a page.
#[derive(Clone, Copy, Debug)]
struct PathStep {
    page: u64,
    node: usize,
}

/// A page whose number, kind and node table length were checked.
#[derive(Clone, Copy)]
struct Page<'m> {
    number: u64,
    bytes: &'m [u8],
    nodes: usize,
}

impl<'m> Page<'m> {
    /// The bytes from the start of a node to the end of the page.
    #[inline]
    fn node(&self, at: usize) -> Result<&'m [u8]> {
        let offset = HEADER_LEN + at * size_of::<u16>();
        let start =
            self.bytes[..HEADER_LEN + self.nodes * size_of::<u16>()].get(offset..).and_then(<[u8]>::first_chunk);
        let node = start.and_then(|start| self.bytes.get(usize::from(u16::from_ne_bytes(*start))..));
        node.filter(|node| node.len() >= NODE_LEN).ok_or_else(|| self.damage("a node outside of the page"))
    }

    #[inline]
    fn key(&self, at: usize) -> Result<&'m [u8]> {
        let (header, rest) = self.node(at)?.split_at(NODE_LEN);
        let len = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        rest.get(..len).ok_or_else(|| self.damage("a key that does not fit into the page"))
    }

    /// The child page of a node of a branch.
    #[inline]
    fn child(&self, at: usize) -> Result<u64> {
        let node = self.node(at)?;
        Ok(u64::from_ne_bytes([node[0], node[1], node[2], node[3], node[4], node[5], 0, 0]))
    }

    /// Returns the first node at or after `low` whose key is not less than `key`, or is greater than `key` if
    /// `after_equal` is set. All keys of the page must begin with the first `common` bytes of `key`.
    #[inline]
    fn search(&self, mut low: usize, key: &[u8], after_equal: bool, common: usize) -> Result<usize> {
        let mut high = self.nodes;
        let rest = &key[common..];
        let head = head_of(rest);
        while low < high {
            let middle = low.midpoint(high);
            let other = self.key(middle)?.get(common..).ok_or_else(|| self.damage("keys out of order"))?;
            // Usually the first eight bytes decide, which compare as one integer.
            let is_before = match head_of(other).cmp(&head) {
                Ordering::Equal => other < rest || after_equal && other == rest,
                unequal => unequal.is_lt(),
            };
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns how many leading bytes of `key` all keys below node `at` share, as far as the keys of this branch tell.
    /// At least `known`.
    #[inline]
    fn common_below(&self, at: usize, key: &[u8], known: usize) -> Result<usize> {
        // Keys below the first node have no lower bound here, and those below the last one no upper bound.
        if at == 0 || at + 1 >= self.nodes {
            return Ok(known);
        }
        // Every key between two bounds that share a prefix with `key` shares that prefix too.
        let bounds = [self.key(at)?, self.key(at + 1)?];
        Ok(bounds.into_iter().map(|bound| common_bytes(key, bound)).fold(usize::MAX, usize::min).max(known))
    }

    /// Whether `key` certainly belongs below this branch, judged by the branch's own keys.
    #[inline]
    fn is_around(&self, key: &[u8]) -> Result<bool> {
        // LMDB does not keep the first key of a branch. A key less than the second key may be in an earlier page.
        let is_inside = |at: usize, side: Ordering| Ok::<_, Error>(compare(self.key(at)?, key) != side);
        Ok(self.nodes > 1 && is_inside(self.nodes - 1, Ordering::Less)? && is_inside(1, Ordering::Greater)?)
    }

    #[inline]
    fn is_before(&self, at: usize, key: &[u8]) -> Result<bool> {
        Ok(compare(self.key(at)?, key).is_lt())
    }

    /// Returns the first node of this leaf whose key is not less than `key`. Looks near node `from` first, because the
    /// next key is usually near. Returns `None` if the node may be in another leaf.
    #[inline]
    fn search_near(&self, from: usize, key: &[u8]) -> Result<Option<usize>> {
        if from >= self.nodes {
            return Ok(None);
        }
        if self.is_before(from, key)? {
            let is_here = !self.is_before(self.nodes - 1, key)?;
            return is_here.then(|| self.search_up(from, key)).transpose();
        }
        let is_here = compare(self.key(0)?, key).is_le();
        is_here.then(|| self.search_down(from, key)).transpose()
    }

    /// Returns the first node after `from` whose key is not less than `key`, or the number of nodes if there is none.
    /// The key of `from` must be less. Goes up in steps that double.
    fn search_up(&self, from: usize, key: &[u8]) -> Result<usize> {
        let (mut low, mut high, mut step) = (from + 1, from + 1, 1);
        while high < self.nodes && self.is_before(high, key)? {
            (low, high, step) = (high + 1, high + step + 1, 2 * step);
        }
        self.search_between(low, high.min(self.nodes), key)
    }

    /// Returns the first node whose key is not less than `key`. The key of `from` must not be less. Goes down in steps
    /// that double.
    fn search_down(&self, from: usize, key: &[u8]) -> Result<usize> {
        let (mut low, mut high, mut step) = (from, from, 1);
        while low > 0 {
            low = low.saturating_sub(step);
            if self.is_before(low, key)? {
                low += 1;
                break;
            }
            (high, step) = (low, 2 * step);
        }
        self.search_between(low, high, key)
    }

    /// Returns the first node from `low` on whose key is not less than `key`, or `high` if there is none before it.
    #[inline]
    fn search_between(&self, mut low: usize, mut high: usize, key: &[u8]) -> Result<usize> {
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, key)? { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    #[cold]
    fn damage(&self, what: &str) -> Error {
        damage(self.number, self.bytes.len(), what)
    }
}

#[cold]
fn damage(page: u64, page_len: usize, what: &str) -> Error {
    Error::corrupt(format!("page {page} of the ordered base has {what}"))
        .in_file(BASE_FILE)
        .at_offset(page.saturating_mul(page_len as u64))
        .hint("the ordered base of this database is damaged; restore the directory from a backup")
}

impl TreeReader {
    /// Returns the value of `key` as stored, with its checksum.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.with_path(key, |path| match self.seek(path, key)? {
            true => self.value_at(path, key),
            false => Ok(None),
        })
    }

    /// The value of the entry to which the path leads, if its key is `key`.
    fn value_at(&self, path: &Path, key: &[u8]) -> Result<Option<&[u8]>> {
        let (page, node) = self.leaf(path)?;
        match compare(page.key(node)?, key) {
            Ordering::Equal => self.value(&page, node).map(Some),
            _ => Ok(None),
        }
    }

    /// Visits the entries from `start` up to, but not including, `end` (no upper bound if it is empty) until the
    /// visitor returns `false`. With `backward` it begins with the last entry and goes down.
    pub(super) fn visit(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        self.with_path(start, |path| {
            let mut is_there = self.begin(path, start, end, backward)?;
            while is_there {
                let (page, mut node) = self.leaf(path)?;
                // Visit the entries of one leaf.
                loop {
                    let key = page.key(node)?;
                    if is_outside(key, start, end, backward) {
                        return Ok(());
                    }
                    path.stand_at(node);
                    if !visit(key, self.value(&page, node)?)? {
                        return Ok(());
                    }
                    match if backward { node.checked_sub(1) } else { Some(node + 1) } {
                        Some(next) if next < page.nodes => node = next,
                        _ => break,
                    }
                }
                is_there = self.advance(path, backward)?;
            }
            Ok(())
        })
    }

    /// Visits the entries that follow the place of `key` on its page, until the visitor returns `false`. None if the
    /// key comes before all others.
    pub(super) fn visit_rest_of_page(&self, key: &[u8], visit: &mut Visitor<'_>) -> Result<()> {
        self.with_path(key, |path| {
            // LMDB puts a key onto the page of the last key before it.
            if !self.begin(path, &[], key, true)? {
                return Ok(());
            }
            let (page, last) = self.leaf(path)?;
            for node in last + 1..page.nodes {
                let behind = page.key(node)?;
                if behind != key && !visit(behind, self.value(&page, node)?)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Skips the first keys of a range, at most `keys_max`, and returns how many it skipped. It counts whole leaves
    /// instead of looking at each key. If it skipped all `keys_max`, it sets `last` to the last of them.
    pub(super) fn pass(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        keys_max: usize,
        last: &mut Vec<u8>,
    ) -> Result<usize> {
        self.with_path(start, |path| {
            let mut passed = 0;
            let mut is_there = keys_max > 0 && self.begin(path, start, end, backward)?;
            while is_there {
                let (page, node) = self.leaf(path)?;
                // How many entries of this leaf are left in the direction of the scan, from the current node on, and
                // how many of those are wanted. If the last of these is inside of the range, all of them are, and no
                // search is needed.
                let left = if backward { node + 1 } else { page.nodes - node };
                let wanted = left.min(keys_max - passed);
                let last_wanted = if backward { node + 1 - wanted } else { node + wanted - 1 };
                let taken = match backward {
                    _ if !is_outside(page.key(last_wanted)?, start, end, backward) => wanted,
                    _ if is_outside(page.key(node)?, start, end, backward) => 0,
                    true => node + 1 - page.search_down(node, start)?,
                    false => page.search_up(node, end)? - node,
                };
                passed += taken;
                if taken > 0 {
                    path.stand_at(if backward { node + 1 - taken } else { node + taken - 1 });
                }
                if passed == keys_max {
                    last.clear();
                    last.extend_from_slice(page.key(self.leaf(path)?.1)?);
                    break;
                }
                is_there = taken == left && self.advance(path, backward)?;
            }
            Ok(passed)
        })
    }

    /// Keys that split a range into about `parts` parts with similar numbers of leaves, ascending. They are inside of
    /// the range, and none of them is its start.
    pub(super) fn split_keys(&self, start: &[u8], end: &[u8], parts: usize) -> Result<Vec<Vec<u8>>> {
        let is_below_end = |key: &[u8]| end.is_empty() || key < end;
        let (mut keys, mut pages, mut level) = (Vec::new(), vec![self.root.page], 0);
        // Go down until the branches of a level have enough keys. The first key of a branch is not kept, but a branch
        // above has it, so the keys of all levels together separate the children.
        while self.root.page != NO_PAGE && !self.is_leaf(level) && keys.len() < SPLIT_KEYS_PER_PART * parts {
            let mut below = Vec::new();
            for number in pages.drain(..) {
                let page = self.page(number, level)?;
                for node in 0..page.nodes {
                    let key = if node == 0 { &[][..] } else { page.key(node)? };
                    let is_last = node + 1 == page.nodes;
                    if is_below_end(key) && (is_last || page.key(node + 1)? > start) {
                        below.push(page.child(node)?);
                    }
                    if key > start && is_below_end(key) {
                        keys.push(key.to_vec());
                    }
                }
            }
            (pages, level) = (below, level + 1);
        }
        keys.sort_unstable();
        keys.dedup();
        let wanted = parts.saturating_sub(1).min(keys.len());
        Ok((1..=wanted).map(|part| keys[part * keys.len() / (wanted + 1)].clone()).collect())
    }

    /// Goes to the first entry of a range, or with `backward` to the last one. If the range has no entry, the path may
    /// lead to an entry outside of it. Returns whether the path leads to an entry.
    fn begin(&self, path: &mut Path, start: &[u8], end: &[u8], backward: bool) -> Result<bool> {
        match backward {
            false => self.seek(path, start),
            true if end.is_empty() => self.descend(path, None, true),
            true => match self.seek(path, end)? {
                true => self.advance(path, true),
                false => self.descend(path, None, true),
            },
        }
    }

    /// Calls `search` with the path of the last search in the index of `key`. After an error the path stays empty,
    /// because it may be invalid.
    fn with_path<T>(&self, key: &[u8], search: impl FnOnce(&mut Path) -> Result<T>) -> Result<T> {
        let kept = &self.paths[usize::from(key.get(PATH_BYTE).copied().unwrap_or_default()) % PATHS];
        let mut path = kept.take();
        let found = search(&mut path)?;
        kept.set(path);
        Ok(found)
    }

    /// Goes to the first entry whose key is not less than `key` if the path leads to its leaf already. Returns whether
    /// it does.
    #[inline]
    fn goes_near(&self, path: &mut Path, key: &[u8]) -> Result<bool> {
        if path.0.is_empty() || path.0.len() < usize::from(self.root.depth) {
            return Ok(false);
        }
        let (page, node) = self.leaf(path)?;
        let near = page.search_near(node, key)?;
        if let Some(near) = near {
            path.stand_at(near);
        }
        Ok(near.is_some())
    }

    /// Goes to the first entry whose key is not less than `key`. Returns whether such an entry exists.
    fn seek(&self, path: &mut Path, key: &[u8]) -> Result<bool> {
        if self.goes_near(path, key)? {
            return Ok(true);
        }
        let mut levels = path.0.len().min(usize::from(self.root.depth).saturating_sub(1));
        // Climb to the lowest branch that certainly covers `key`. The root needs no check.
        while levels > 1 && !self.page(path.0[levels - 1].page, levels - 1)?.is_around(key)? {
            levels -= 1;
        }
        path.0.truncate(levels);
        let from = path.0.pop().map_or(self.root.page, |step| step.page);
        if from == NO_PAGE {
            return Ok(false);
        }
        let (mut page, mut common) = (self.page(from, path.0.len())?, 0);
        // Descend to the leaf. Further down, all keys share more leading bytes with `key`, so fewer bytes need
        // comparing.
        while !self.is_leaf(path.0.len()) {
            let node = page.search(1, key, true, common)? - 1;
            common = page.common_below(node, key, common)?;
            path.0.push(PathStep { page: page.number, node });
            page = self.page(page.child(node)?, path.0.len())?;
        }
        let node = page.search(0, key, false, common)?;
        path.0.push(PathStep { page: page.number, node });
        match node < page.nodes {
            true => Ok(true),
            false => self.advance_leaf(path, false),
        }
    }

    /// Goes to the next entry, or with `backward` to the previous one. Returns whether such an entry exists.
    fn advance(&self, path: &mut Path, backward: bool) -> Result<bool> {
        let (page, node) = self.leaf(path)?;
        match if backward { node.checked_sub(1) } else { Some(node + 1) } {
            Some(next) if next < page.nodes => {
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
        while let Some(PathStep { page, node }) = path.0.pop() {
            let page = self.page(page, path.0.len())?;
            match if backward { node.checked_sub(1) } else { Some(node + 1) } {
                Some(next) if next < page.nodes => {
                    path.0.push(PathStep { page: page.number, node: next });
                    return self.descend(path, Some(page.child(next)?), backward);
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// Goes to the first entry below the page `from`, or with `to_last` to the last one. The path must already lead to
    /// `from`; without `from` this begins at the root. Returns whether such an entry exists.
    fn descend(&self, path: &mut Path, from: Option<u64>, to_last: bool) -> Result<bool> {
        let mut next = match from {
            Some(page) => page,
            None => {
                path.0.clear();
                self.root.page
            }
        };
        if next == NO_PAGE {
            return Ok(false);
        }
        loop {
            let page = self.page(next, path.0.len())?;
            let node = if to_last { page.nodes - 1 } else { 0 };
            let is_leaf = self.is_leaf(path.0.len());
            path.0.push(PathStep { page: next, node });
            if is_leaf {
                return Ok(true);
            }
            next = page.child(node)?;
        }
    }

    /// The leaf that a path leads to, and the node in the leaf.
    fn leaf(&self, path: &Path) -> Result<(Page<'_>, usize)> {
        let PathStep { page, node } = *path.0.last().expect("the path leads to an entry");
        Ok((self.page(page, path.0.len() - 1)?, node))
    }

    fn is_leaf(&self, level: usize) -> bool {
        level + 1 == usize::from(self.root.depth)
    }

    /// Reads page `number` on a level of the tree. The root has level 0.
    #[inline]
    fn page(&self, number: u64, level: usize) -> Result<Page<'_>> {
        let page_len = self.root.page_len;
        let bytes = self.bytes(number, page_len)?;
        let kind = if self.is_leaf(level) { LEAF } else { BRANCH };
        // The file may be damaged, so check the page's number, kind and node table before any use.
        let (own_number, lower) = (u64_at(bytes, 0), usize::from(u16_at(bytes, 12)));
        if own_number != number || u16_at(bytes, 10) != kind || level >= usize::from(self.root.depth) {
            return Err(damage(number, page_len, "another number or kind than expected"));
        }
        if !(HEADER_LEN + size_of::<u16>()..=page_len).contains(&lower) {
            return Err(damage(number, page_len, "nodes that do not fit into it"));
        }
        Ok(Page { number, bytes, nodes: (lower - HEADER_LEN) / size_of::<u16>() })
    }

    /// The value of a leaf's node, as stored.
    fn value<'m>(&'m self, page: &Page<'m>, at: usize) -> Result<&'m [u8]> {
        let node = page.node(at)?;
        let (len, flags) = (u32_at(node, 0) as usize, u16_at(node, 4));
        let start = NODE_LEN + usize::from(u16_at(node, 6));
        // The node of a long value holds only the number of its first page.
        let held = if flags == BIG_VALUE { size_of::<u64>() } else { len };
        let value = node.get(start..).and_then(|rest| rest.get(..held));
        let value = value.ok_or_else(|| page.damage("a value that does not fit into the page"))?;
        match flags {
            0 => Ok(value),
            BIG_VALUE => self.big_value(u64_at(value, 0), len),
            _ => Err(page.damage("a node of an unknown kind")),
        }
    }

    /// Reads a value that fills page `number` and the pages after it.
    fn big_value(&self, number: u64, len: usize) -> Result<&[u8]> {
        let header = self.bytes(number, HEADER_LEN)?;
        // The header counts the pages of the value. They must have room for all of it.
        let room = (u32_at(header, 12) as usize).saturating_mul(self.root.page_len);
        if u64_at(header, 0) != number || u16_at(header, 10) != OVERFLOW || room < HEADER_LEN + len {
            return Err(damage(number, self.root.page_len, "no long value of the expected length"));
        }
        Ok(&self.bytes(number, HEADER_LEN + len)?[HEADER_LEN..])
    }

    /// The first `len` bytes from page `number` on.
    #[inline]
    #[allow(unsafe_code)]
    fn bytes(&self, number: u64, len: usize) -> Result<&[u8]> {
        let offset = number.saturating_mul(self.root.page_len as u64);
        // SAFETY: LMDB never writes a page of a state that a reader holds, and it only lets the file grow. The caller
        // of `MappedTree::reader` holds the state, whose root leads to this page. Only a damaged pointer could lead to
        // a page that LMDB writes; checksums (`sealed_value.rs`) find the damage before a value is used.
        unsafe { self.mapping.slice(offset, len) }
    }
}

impl Path {
    fn stand_at(&mut self, node: usize) {
        self.0.last_mut().expect("the path leads to an entry").node = node;
    }
}

#[inline]
fn is_outside(key: &[u8], start: &[u8], end: &[u8], backward: bool) -> bool {
    if backward { compare(key, start).is_lt() } else { !end.is_empty() && compare(key, end).is_ge() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rowmill_base::{CommitId, ErrorKind};

    use super::*;
    use crate::base::{BASE_FILE, LmdbBase, OrderedBase, WriteBatch};

    const KEYS: u32 = 3_000;

    fn key(i: u32) -> Vec<u8> {
        format!("k{:07}", i * 7).into_bytes()
    }

    /// The bytes of a base with a tree of three levels, and with values that have their own pages.
    fn file() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let base = LmdbBase::open(dir.path(), false).unwrap();
        let mut batch = WriteBatch::new();
        for i in 0..KEYS {
            batch.put(key(i), vec![i as u8; if i % 300 == 0 { 10_000 } else { 150 }]);
        }
        base.write(&batch, CommitId(1)).unwrap();
        drop(base);
        std::fs::read(dir.path().join(BASE_FILE)).unwrap()
    }

    #[allow(unsafe_code)]
    fn reader_of(tree: &MappedTree, transaction: u64) -> Option<TreeReader> {
        // SAFETY: the tests write a file only before they make a reader of it.
        unsafe { tree.reader(transaction) }.unwrap()
    }

    /// Reads the tree in every way. Each read should return entries or report a damaged page.
    fn read(tree: &TreeReader, rng: &mut SmallRng) -> Result<()> {
        let (mut entries, mut last) = (0, Vec::new());
        for _ in 0..20 {
            let (start, end) = (key(rng.random_range(0..KEYS)), key(rng.random_range(0..KEYS)));
            let backward = rng.random_bool(0.5);
            tree.get(&start)?;
            tree.get_several(&[&start, &end, &key(rng.random_range(0..2 * KEYS))])?;
            tree.pass(&start, &end, backward, 500, &mut last)?;
            tree.visit(&start, &end, backward, &mut |_, _| {
                entries += 1;
                Ok(entries < 20_000)
            })?;
        }
        Ok(())
    }

    #[test]
    fn damaged_pages_give_errors_and_never_crash() {
        let whole = file();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(BASE_FILE);
        std::fs::write(&path, &whole).unwrap();
        let page_len = MappedTree::open(&path, 0).unwrap().pages.newest_root().unwrap().1.page_len;
        // We leave the two heads intact, because they are checked when the file is opened.
        let (heads, pages) = (2 * page_len, whole.len() / page_len);
        let mut rng = SmallRng::seed_from_u64(11);
        let mut refused = 0;
        for round in 0..400 {
            let mut damaged = whole.clone();
            match round % 4 {
                0 => {
                    let (one, other) = (rng.random_range(2..pages), rng.random_range(2..pages));
                    damaged.copy_within(one * page_len..(one + 1) * page_len, other * page_len);
                }
                1 => {
                    // Damage the header and the node offsets of a page, or one node.
                    let page = rng.random_range(2..pages) * page_len;
                    (0..4).for_each(|_| damaged[page + rng.random_range(0..64)] = rng.random());
                }
                2 => (0..40).for_each(|_| damaged[rng.random_range(heads..whole.len())] = rng.random()),
                _ => damaged.truncate(rng.random_range(heads + page_len..whole.len())),
            }
            std::fs::write(&path, &damaged).unwrap();
            let tree = MappedTree::open(&path, 0).unwrap();
            let (transaction, _) = tree.pages.newest_root().unwrap();
            let reader = reader_of(&tree, transaction).unwrap();
            if let Err(error) = read(&reader, &mut rng) {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "round {round}: {error}");
                refused += 1;
            }
        }
        assert!(refused > 50, "reads met too little damage: {refused}");
        std::fs::write(&path, &whole).unwrap();
        let tree = MappedTree::open(&path, 0).unwrap();
        let (transaction, _) = tree.pages.newest_root().unwrap();
        read(&reader_of(&tree, transaction).unwrap(), &mut rng).unwrap();
        assert!(reader_of(&tree, transaction + 1).is_none(), "a state that the file does not contain");
    }
}

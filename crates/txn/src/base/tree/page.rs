//! The pages of a tree.
//!
//! ```text
//! page     number (u64) | generation (u64) | kind (u8) | level (u8) | nodes (u16) | common (u16) | used (u16)
//!          | slots | in a leaf: the common bytes of all keys | nodes, in the order of their keys | zeros
//! slot     offset of the node (u16) | length of its key (u16) | head (u32)
//! node     in a leaf:   rest of the key | length of the value (u16) | value
//!          or:          rest of the key | 65535 (u16) | first page (u64) | length of the value (u64) | checksum (u32)
//!          in a branch: key | page (48 bits) | checksum (u32) | entries below (48 bits)
//! ```
//!
//! Numbers are little endian. `used` is the offset at which the last node ends. The key of a branch's node is not
//! greater than any key below it, and greater than all keys below the nodes before it. The first node of a branch has
//! an empty key, because the branch above separates it.
//!
//! **Heads.** All keys of a page, except the first one of a branch, begin with the same `common` bytes. The head of a
//! key is the next four bytes as a number. A search compares heads, which are next to each other, and looks at keys
//! only where heads are equal. In many pages the heads are evenly spread, for example those of numbers that were given
//! one after another. A bit of the kind marks such a page. There the head tells about where its node is:
//!
//! ```text
//! heads   100  110  119  131  140        120: (120 - 100) / (140 - 100) of 4 nodes = node 2, and its neighbours
//! ```
//!
//! **Short keys.** A leaf stores the common bytes once, and of each key only the rest after its head:
//!
//! ```text
//! keys     order:7:0001:a  order:7:0002:b        common bytes  order:7:    heads  0001  0002    rests  :a  :b
//! ```
//!
//! A bit of the kind marks leaves with short keys. Leaves of earlier versions have whole keys. Branches have them too,
//! because their keys are short anyway.
//!
//! **Checksums.** Whatever names a page also has its checksum: a branch for the pages below it, the head of the file
//! for the root. So a page that was exchanged, damaged, written to a wrong place or not written at all does not match.

use std::cmp::Ordering;

use super::super::KEY_LEN_MAX;
use super::key_parts::{HEAD_BYTES, KeyParts};
use crate::key_bytes::{compare, head_of_few};

/// The length of a page in bytes.
pub(super) const PAGE_BYTES: usize = 4_096;

/// The bytes of a page.
pub(super) type PageBytes = [u8; PAGE_BYTES];

pub(super) const HEADER_LEN: usize = 24;
pub(super) const SLOT_LEN: usize = 8;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// The bit of the kind that marks a page with evenly spread heads.
const EVEN: u8 = 0x80;
/// The bit of the kind that marks a leaf with short keys.
const SHORT: u8 = 0x40;

/// The most nodes between a node and the place that its head tells, in a page with evenly spread heads. A search of
/// such a page compares the eight heads around that place, which are mostly in one line of memory. In pages of 70
/// numbers, a search took 5 ns and not 33 ns by halves, and outside of the caches 82 and 150 ns.
const EVEN_ERROR_MAX: usize = 3;

/// With fewer nodes, a search by halves takes few steps.
const EVEN_NODES_MIN: usize = 8;

/// The length of a value that has pages of its own, as a leaf stores it.
const LONG: u16 = u16::MAX;

/// Bytes of a branch's node after its key.
const CHILD_LEN: usize = 16;
/// Bytes of the node of a long value after its key and its length.
const LONG_LEN: usize = 20;

/// The longest node, so that a page has room for two.
pub(super) const NODE_LEN_MAX: usize = (PAGE_BYTES - HEADER_LEN) / 2 - SLOT_LEN;

const _: () = assert!(KEY_LEN_MAX + size_of::<u16>() + LONG_LEN <= NODE_LEN_MAX);

/// The most levels of a tree. A page has at least two nodes, so no tree is deeper.
pub(super) const LEVELS_MAX: u32 = 48;

/// The checksum of a page or a long value. It is never 0, which means "not checked" (`mapped_pages.rs`).
pub(super) fn checksum_of(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes).max(1)
}

/// The place of a page and the checksum of its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PagePointer {
    pub(super) number: u64,
    pub(super) checksum: u32,
}

/// A page below a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildPage {
    pub(super) page: PagePointer,
    /// The number of entries below it.
    pub(super) entries: u64,
}

/// The pages of a long value. They follow one another and have no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongValue {
    /// The first page, and the checksum of the value.
    pub(super) first: PagePointer,
    /// The length of the value in bytes.
    pub(super) len: u64,
}

impl LongValue {
    /// The number of pages.
    pub(super) fn pages(&self) -> u64 {
        self.len.div_ceil(PAGE_BYTES as u64)
    }
}

/// A value as a leaf has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafValue<'m> {
    InPage(&'m [u8]),
    Long(LongValue),
}

/// A page whose bytes match their checksum and whose structure was checked.
#[derive(Clone, Copy)]
pub(super) struct Page<'m> {
    pub(super) number: u64,
    bytes: &'m PageBytes,
    nodes: usize,
    is_branch: bool,
    is_even: bool,
    /// The bytes of each key that its node lacks: 0, or those that are common to all keys and the head.
    left_out: usize,
}

impl<'m> Page<'m> {
    /// Takes bytes that [`check_page`] accepted for this number.
    #[inline]
    pub(super) fn of_checked(number: u64, bytes: &'m PageBytes) -> Page<'m> {
        let kind = bytes[16];
        let (is_branch, is_even) = (kind & !(EVEN | SHORT) == BRANCH, kind & EVEN != 0);
        let left_out = if kind & SHORT != 0 { usize::from(u16_at(bytes, 20)) + HEAD_BYTES } else { 0 };
        Page { number, bytes, nodes: usize::from(u16_at(bytes, 18)), is_branch, is_even, left_out }
    }

    /// The number of nodes, at least 1.
    #[inline]
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// The level: 0 for a leaf.
    #[inline]
    pub(super) fn level(&self) -> u32 {
        u32::from(self.bytes[17])
    }

    /// Bytes of the page that slots and nodes take.
    pub(super) fn filled(&self) -> usize {
        usize::from(u16_at(self.bytes, 22)) - HEADER_LEN
    }

    fn common(&self) -> usize {
        usize::from(u16_at(self.bytes, 20))
    }

    #[inline]
    fn head(&self, at: usize) -> u32 {
        u32_at(self.bytes, HEADER_LEN + at * SLOT_LEN + 4)
    }

    /// The length of the key of a node.
    #[inline]
    pub(super) fn key_len(&self, at: usize) -> usize {
        usize::from(u16_at(self.bytes, HEADER_LEN + at * SLOT_LEN + 2))
    }

    /// Where the stored part of a node's key begins and ends.
    #[inline]
    fn stored_range(&self, at: usize) -> (usize, usize) {
        let start = usize::from(u16_at(self.bytes, HEADER_LEN + at * SLOT_LEN));
        (start, start + self.key_len(at).saturating_sub(self.left_out))
    }

    /// The stored part of a node's key.
    #[inline]
    fn stored(&self, at: usize) -> &'m [u8] {
        let (start, end) = self.stored_range(at);
        &self.bytes[start..end]
    }

    /// The key of a branch's node.
    #[inline]
    pub(super) fn branch_key(&self, at: usize) -> &'m [u8] {
        debug_assert!(self.is_branch, "a leaf may have short keys");
        self.stored(at)
    }

    /// The key of a node.
    #[inline]
    pub(super) fn key(&self, at: usize) -> KeyParts<'m> {
        match self.left_out {
            0 => KeyParts::whole(self.stored(at)),
            _ => KeyParts::new(self.prefix(), self.head(at), self.stored(at), self.key_len(at)),
        }
    }

    /// The bytes with which all keys begin, except the first one of a branch.
    #[inline]
    fn prefix(&self) -> &'m [u8] {
        let (common, first) = (self.common(), self.first_key());
        let start = match self.left_out {
            0 if first == self.nodes => return &[],
            0 => self.stored_range(first).0,
            _ => HEADER_LEN + self.nodes * SLOT_LEN,
        };
        &self.bytes[start..start + common]
    }

    /// The bytes of a node's key after its head.
    #[inline]
    fn rest(&self, at: usize) -> &'m [u8] {
        match self.left_out {
            0 => self.stored(at).get(self.common() + HEAD_BYTES..).unwrap_or_default(),
            _ => self.stored(at),
        }
    }

    /// The child of a branch's node.
    #[inline]
    pub(super) fn child(&self, at: usize) -> ChildPage {
        debug_assert!(self.is_branch, "only a branch has children");
        let (_, end) = self.stored_range(at);
        let page = PagePointer { number: u48_at(self.bytes, end), checksum: u32_at(self.bytes, end + 6) };
        ChildPage { page, entries: u48_at(self.bytes, end + 10) }
    }

    /// The value of a leaf's node.
    #[inline]
    pub(super) fn value(&self, at: usize) -> LeafValue<'m> {
        debug_assert!(!self.is_branch, "only a leaf has values");
        let (_, end) = self.stored_range(at);
        let start = end + size_of::<u16>();
        match u16_at(self.bytes, end) {
            LONG => {
                let first = PagePointer { number: u64_at(self.bytes, start), checksum: u32_at(self.bytes, start + 16) };
                LeafValue::Long(LongValue { first, len: u64_at(self.bytes, start + 8) })
            }
            len => LeafValue::InPage(&self.bytes[start..start + usize::from(len)]),
        }
    }

    /// The first node that a search looks at. A branch's first node has no key.
    #[inline]
    fn first_key(&self) -> usize {
        usize::from(self.is_branch)
    }

    /// Returns the first node whose key is not less than `key`; in a branch, the first one whose key is greater.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> usize {
        let first = self.first_key();
        if first == self.nodes {
            return first;
        }
        match self.sought(key) {
            Ok(sought) => self.search_sought(&sought),
            Err(Ordering::Less) => first,
            Err(_) => self.nodes,
        }
    }

    /// Does the work of [`Page::search`] for a key that begins with the common bytes of this page. The page must have a
    /// node with a key.
    #[inline]
    fn search_sought(&self, sought: &SoughtKey<'_>) -> usize {
        let (first, head) = (self.first_key(), sought.head);
        let low = match self.is_even {
            true => self.first_even(first, head),
            false => self.heads_before(first, self.nodes, |other| other < head),
        };
        if low == self.nodes || self.head(low) != head {
            return low;
        }
        // Most keys have a head of their own.
        let is_alone = low + 1 == self.nodes || self.head(low + 1) != head;
        let high = if is_alone { low + 1 } else { self.heads_before(low + 1, self.nodes, |other| other == head) };
        self.search_rests(low, high, sought)
    }

    /// Splits a key at the common bytes of this page. Returns its order to all keys of the page if it begins with
    /// other bytes.
    #[inline]
    fn sought<'k>(&self, key: &'k [u8]) -> Result<SoughtKey<'k>, Ordering> {
        let common = self.common();
        match compare(&key[..common.min(key.len())], self.prefix()) {
            Ordering::Equal => {
                let rest = key.get(common + HEAD_BYTES..).unwrap_or_default();
                Ok(SoughtKey { head: head_of(&key[common..]), rest, len: key.len() })
            }
            order => Err(order),
        }
    }

    /// Compares the key of a node with a sought key of the same head.
    #[inline]
    fn compare_rest(&self, at: usize, sought: &SoughtKey<'_>) -> Ordering {
        // Missing bytes of a head count as zeros, so that keys may differ only in their lengths. If the sought key ends
        // in its head, which is usual for numbers, the lengths decide alone.
        let of_lengths = self.key_len(at).cmp(&sought.len);
        if sought.rest.is_empty() { of_lengths } else { compare(self.rest(at), sought.rest).then(of_lengths) }
    }

    /// Compares the key of a node with a sought key.
    #[inline]
    fn compare(&self, at: usize, sought: &SoughtKey<'_>) -> Ordering {
        self.head(at).cmp(&sought.head).then_with(|| self.compare_rest(at, sought))
    }

    /// Whether a leaf's node has this key.
    #[inline]
    pub(super) fn has_key(&self, at: usize, key: &[u8]) -> bool {
        self.key_len(at) == key.len() && self.sought(key).is_ok_and(|sought| self.compare(at, &sought).is_eq())
    }

    /// Returns the first node from `first` on whose head is not less than `head`, in a page with evenly spread heads.
    #[inline]
    fn first_even(&self, first: usize, head: u32) -> usize {
        let (least, most) = (self.head(first), self.head(self.nodes - 1));
        if head <= least {
            return first;
        }
        if head > most {
            return self.nodes;
        }
        let about = first + place_of_head(head, least, most, self.nodes - first);
        let from = about.saturating_sub(EVEN_ERROR_MAX).max(first);
        let to = (from + 2 * EVEN_ERROR_MAX + 2).min(self.nodes);
        // No branch depends on the heads.
        from + (from..to).map(|at| usize::from(self.head(at) < head)).sum::<usize>()
    }

    /// Whether each head tells about where its node is.
    fn has_even_heads(&self) -> bool {
        let first = self.first_key();
        let nodes = self.nodes - first;
        if nodes < EVEN_NODES_MIN {
            return false;
        }
        let (least, most) = (self.head(first), self.head(self.nodes - 1));
        if least >= most {
            return false;
        }
        let slots = &self.bytes[HEADER_LEN + first * SLOT_LEN..][..nodes * SLOT_LEN];
        // No branch depends on the heads, because most marked pages are even.
        let is_near = |(at, slot): (usize, &[u8; SLOT_LEN])| {
            let head = u32_at(slot, 4);
            place_of_head(head, least, most, nodes).abs_diff(at) <= EVEN_ERROR_MAX
        };
        slots.as_chunks().0.iter().enumerate().fold(true, |all, slot| all & is_near(slot))
    }

    /// Returns the first node of `low..high` whose head fails `is_before`, or `high`. No branch depends on the heads,
    /// because the processor could not predict it.
    #[inline]
    fn heads_before(&self, mut low: usize, high: usize, is_before: impl Fn(u32) -> bool) -> usize {
        let mut len = high - low;
        while len > 0 {
            let half = len / 2;
            let goes_up = is_before(self.head(low + half));
            low = if goes_up { low + half + 1 } else { low };
            len = if goes_up { len - half - 1 } else { half };
        }
        low
    }

    /// Does the work of [`Page::search`] in `low..high`, whose keys have the head of `sought`.
    fn search_rests(&self, mut low: usize, mut high: usize, sought: &SoughtKey<'_>) -> usize {
        while low < high {
            let middle = low.midpoint(high);
            let is_before = match self.compare_rest(middle, sought) {
                Ordering::Less => true,
                Ordering::Equal => self.is_branch,
                Ordering::Greater => false,
            };
            (low, high) = if is_before { (middle + 1, high) } else { (low, middle) };
        }
        low
    }

    /// The node of a branch whose page has `key`, if any page has it.
    #[inline]
    pub(super) fn search_child(&self, key: &[u8]) -> usize {
        self.search(key) - 1
    }

    /// Whether `key` certainly belongs below this branch, judged by the branch's own keys.
    #[inline]
    pub(super) fn is_around(&self, key: &[u8]) -> bool {
        // A key before the second node may be in an earlier page, and one after the last node in a later page.
        self.nodes > 1
            && compare(self.branch_key(1), key).is_le()
            && compare(self.branch_key(self.nodes - 1), key).is_gt()
    }

    /// Returns the first node of this leaf whose key is not less than `key`. Looks near node `from` first, because the
    /// next key is usually near. Returns `None` if the node may be in another leaf.
    #[inline]
    pub(super) fn search_near(&self, from: usize, key: &[u8]) -> Option<NearNode> {
        // A key that begins with other bytes is before or after all keys of this leaf.
        let sought = self.sought(key).ok()?;
        let compare = |at: usize| self.compare(at, &sought);
        match compare(from) {
            Ordering::Equal => return Some(NearNode { at: from, has_key: true }),
            Ordering::Less if from + 1 == self.nodes => return None,
            Ordering::Less => {
                // Keys in order often follow one another directly.
                let next = compare(from + 1);
                if next.is_ge() {
                    return Some(NearNode { at: from + 1, has_key: next.is_eq() });
                }
                if compare(self.nodes - 1).is_lt() {
                    return None;
                }
            }
            Ordering::Greater if from > 0 && compare(from - 1).is_lt() => {
                return Some(NearNode { at: from, has_key: false });
            }
            Ordering::Greater if compare(0).is_gt() => return None,
            Ordering::Greater => {}
        }
        let at = self.search_sought(&sought);
        Some(NearNode { at, has_key: compare(at).is_eq() })
    }

    /// The number of entries below the nodes before `at` of a branch.
    pub(super) fn entries_before(&self, at: usize) -> u64 {
        (0..at).map(|node| self.child(node).entries).sum()
    }
}

/// The place among `nodes` heads that `head` has if they are evenly spread from `least` to `most`. A greater head has
/// no smaller place.
#[inline]
fn place_of_head(head: u32, least: u32, most: u32, nodes: usize) -> usize {
    let places = (nodes - 1) as f32 / (most - least) as f32;
    (((head - least) as f32 * places) as usize).min(nodes - 1)
}

/// The first node of a leaf whose key is not less than a sought key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NearNode {
    pub(super) at: usize,
    /// Whether the node has the sought key.
    pub(super) has_key: bool,
}

/// A key that is looked for in a page, split at the common bytes of the page.
struct SoughtKey<'k> {
    head: u32,
    /// The bytes after the head.
    rest: &'k [u8],
    /// The length of the whole key.
    len: usize,
}

/// The first four bytes of `rest` as a number that compares like the bytes. Missing bytes count as zeros.
#[inline]
pub(super) fn head_of(rest: &[u8]) -> u32 {
    match rest.first_chunk() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => (head_of_few(rest) >> 32) as u32,
    }
}

/// A node to be written to a page.
pub(super) trait PageNode {
    const IS_BRANCH: bool;

    fn key(&self) -> KeyParts<'_>;

    /// The bytes of the node after its key.
    fn rest_len(&self) -> usize;

    fn write_rest(&self, out: &mut [u8]);

    /// The entries that the node counts for: 1 in a leaf.
    fn entries(&self) -> u64;

    /// Whether the current write added the node.
    fn is_new(&self) -> bool;

    /// The bytes that the node takes in a page if its key is whole, with its slot.
    fn page_len(&self) -> usize {
        SLOT_LEN + self.key().len() + self.rest_len()
    }
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafNode<'w> {
    pub(super) key: KeyParts<'w>,
    pub(super) value: LeafValue<'w>,
    /// Whether the current write added the key.
    pub(super) is_new: bool,
}

/// A child of a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BranchNode<'w> {
    /// Not greater than any key below the child, and greater than all keys below the children before it.
    pub(super) key: KeyParts<'w>,
    pub(super) child: ChildPage,
    /// Whether the current write added the page, in addition to those that it replaced.
    pub(super) is_new: bool,
}

impl PageNode for LeafNode<'_> {
    const IS_BRANCH: bool = false;

    fn key(&self) -> KeyParts<'_> {
        self.key
    }

    fn rest_len(&self) -> usize {
        size_of::<u16>()
            + match self.value {
                LeafValue::InPage(value) => value.len(),
                LeafValue::Long(_) => LONG_LEN,
            }
    }

    fn write_rest(&self, out: &mut [u8]) {
        let (len, rest) = out.split_at_mut(size_of::<u16>());
        match self.value {
            LeafValue::InPage(value) => {
                len.copy_from_slice(&(value.len() as u16).to_le_bytes());
                rest.copy_from_slice(value);
            }
            LeafValue::Long(value) => {
                len.copy_from_slice(&LONG.to_le_bytes());
                rest[..8].copy_from_slice(&value.first.number.to_le_bytes());
                rest[8..16].copy_from_slice(&value.len.to_le_bytes());
                rest[16..].copy_from_slice(&value.first.checksum.to_le_bytes());
            }
        }
    }

    fn entries(&self) -> u64 {
        1
    }

    fn is_new(&self) -> bool {
        self.is_new
    }
}

impl PageNode for BranchNode<'_> {
    const IS_BRANCH: bool = true;

    fn key(&self) -> KeyParts<'_> {
        self.key
    }

    fn rest_len(&self) -> usize {
        CHILD_LEN
    }

    fn write_rest(&self, out: &mut [u8]) {
        out[..6].copy_from_slice(&self.child.page.number.to_le_bytes()[..6]);
        out[6..10].copy_from_slice(&self.child.page.checksum.to_le_bytes());
        out[10..].copy_from_slice(&self.child.entries.to_le_bytes()[..6]);
    }

    fn entries(&self) -> u64 {
        self.child.entries
    }

    fn is_new(&self) -> bool {
        self.is_new
    }
}

/// Whether a leaf has room for an entry with its value, or the value needs pages of its own.
pub(super) fn fits_in_page(key: &[u8], value: &[u8]) -> bool {
    key.len() + size_of::<u16>() + value.len() <= NODE_LEN_MAX
}

/// Counts the bytes that nodes take in a page.
#[derive(Debug, Default)]
pub(super) struct PageFill {
    /// Bytes of the nodes with whole keys.
    whole: usize,
    nodes: usize,
    first: Vec<u8>,
    /// The common bytes of the keys.
    common: usize,
    /// The length of the shortest key.
    shortest: usize,
}

impl PageFill {
    /// Begins an empty page.
    pub(super) fn clear(&mut self) {
        (self.whole, self.nodes) = (0, 0);
    }

    /// Adds a node unless the page then has more than `room` bytes. Returns whether it was added. Keys must ascend.
    pub(super) fn add<N: PageNode>(&mut self, node: &N, room: usize) -> bool {
        let (whole, nodes) = (self.whole + node.page_len(), self.nodes + 1);
        let (mut common, mut shortest) = (0, 0);
        if !N::IS_BRANCH {
            let key = node.key();
            if self.nodes == 0 {
                key.copy_to(&mut self.first);
                (common, shortest) = (key.len(), key.len());
            } else {
                common = key.common_bytes(&self.first[..self.common]);
                shortest = self.shortest.min(key.len());
            }
        }
        // Short keys leave out the common bytes and their heads, as far as they have them.
        let left_out = if N::IS_BRANCH { 0 } else { nodes * shortest.min(common + HEAD_BYTES) - common };
        if self.nodes > 0 && whole - left_out > room {
            return false;
        }
        (self.whole, self.nodes, self.common, self.shortest) = (whole, nodes, common, shortest);
        true
    }

    /// Bytes of the nodes with whole keys.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }
}

/// Writes a page with these nodes, which must fit, and returns what a branch must know of it.
pub(super) fn build_page<N: PageNode>(
    number: u64,
    generation: u64,
    level: u32,
    nodes: &[N],
    page: &mut PageBytes,
) -> ChildPage {
    let first = usize::from(N::IS_BRANCH);
    let mut buffer = Vec::new();
    let common = match (nodes.get(first), nodes.last()) {
        (Some(one), Some(last)) => {
            one.key().copy_to(&mut buffer);
            last.key().common_bytes(&buffer)
        }
        _ => 0,
    };
    page.fill(0);
    let mut end = HEADER_LEN + nodes.len() * SLOT_LEN;
    let mut left_out = 0;
    if !N::IS_BRANCH {
        left_out = common + HEAD_BYTES;
        page[end..end + common].copy_from_slice(&buffer[..common]);
        end += common;
    }
    for (at, node) in nodes.iter().enumerate() {
        let key = if at < first { KeyParts::whole(&[]) } else { node.key() };
        let slot = &mut page[HEADER_LEN + at * SLOT_LEN..][..SLOT_LEN];
        slot[..2].copy_from_slice(&(end as u16).to_le_bytes());
        slot[2..4].copy_from_slice(&(key.len() as u16).to_le_bytes());
        slot[4..].copy_from_slice(&key.head_after(common).to_le_bytes());
        end += key.write_after(left_out, &mut page[end..]);
        let rest = node.rest_len();
        node.write_rest(&mut page[end..end + rest]);
        end += rest;
    }
    page[..8].copy_from_slice(&number.to_le_bytes());
    page[8..16].copy_from_slice(&generation.to_le_bytes());
    page[16] = if N::IS_BRANCH { BRANCH } else { LEAF | SHORT };
    page[17] = level as u8;
    page[18..20].copy_from_slice(&(nodes.len() as u16).to_le_bytes());
    page[20..22].copy_from_slice(&(common as u16).to_le_bytes());
    page[22..24].copy_from_slice(&(end as u16).to_le_bytes());
    if Page::of_checked(number, page).has_even_heads() {
        page[16] |= EVEN;
    }
    let page = PagePointer { number, checksum: checksum_of(page) };
    ChildPage { page, entries: nodes.iter().map(PageNode::entries).sum() }
}

/// Checks the structure of a page, so that no read of it can leave it. Returns the damage, for example "has keys out of
/// order".
///
/// A page with the right checksum should have the right structure, unless it was forged. Checking costs little, because
/// each page is checked once.
pub(super) fn check_page(number: u64, level: u32, bytes: &PageBytes) -> Result<(), &'static str> {
    let (kind, nodes) = (bytes[16] & !(EVEN | SHORT), usize::from(u16_at(bytes, 18)));
    let (common, used) = (usize::from(u16_at(bytes, 20)), usize::from(u16_at(bytes, 22)));
    let is_short = bytes[16] & SHORT != 0;
    if u64_at(bytes, 0) != number {
        return Err("has the number of another page");
    }
    if kind != if level == 0 { LEAF } else { BRANCH } || u32::from(bytes[17]) != level {
        return Err("is on the wrong level of the tree");
    }
    if is_short && kind == BRANCH {
        return Err("is a branch with short keys");
    }
    let mut end = HEADER_LEN + nodes * SLOT_LEN + if is_short { common } else { 0 };
    if nodes == 0 || end > used || used > PAGE_BYTES {
        return Err("has nodes that do not fit into it");
    }
    let page = Page::of_checked(number, bytes);
    let first = page.first_key();
    if first == nodes && common > 0 {
        return Err("has keys without their common bytes");
    }
    // The common bytes of whole keys are those of the first key, whose place is not checked yet.
    if first < nodes && !is_short && page.stored_range(first).0 + common > used {
        return Err("has a node outside of it");
    }
    let prefix = page.prefix();
    let mut before: Option<CheckedKey> = None;
    // The slots are inside of the page, because its nodes begin after them.
    for (at, slot) in bytes[HEADER_LEN..][..nodes * SLOT_LEN].as_chunks::<SLOT_LEN>().0.iter().enumerate() {
        let (start, len) = (usize::from(u16_at(slot, 0)), usize::from(u16_at(slot, 2)));
        let key_end = start + len.saturating_sub(page.left_out);
        let rest = match kind {
            BRANCH => CHILD_LEN,
            _ if key_end + size_of::<u16>() > used => return Err("has a node outside of it"),
            _ => match u16_at(bytes, key_end) {
                LONG => size_of::<u16>() + LONG_LEN,
                len => size_of::<u16>() + usize::from(len),
            },
        };
        // Nodes follow each other without gaps, in the order of their slots.
        if start != end || key_end + rest > used {
            return Err("has a node outside of it");
        }
        end = key_end + rest;
        if at < first {
            continue;
        }
        let key = CheckedKey { head: u32_at(slot, 4), len, start, end: key_end };
        check_key(&page, key, prefix)?;
        // Most keys have a head of their own, which tells their order.
        if before.is_some_and(|before| !is_before(&page, before, key)) {
            return Err("has keys out of order");
        }
        before = Some(key);
    }
    if end != used {
        return Err("has bytes that belong to no node");
    }
    if page.is_even && !page.has_even_heads() {
        return Err("is marked as having evenly spread heads, but has none");
    }
    Ok(())
}

/// A key of a page that is being checked: its slot, and where its stored part begins and ends.
#[derive(Clone, Copy)]
struct CheckedKey {
    head: u32,
    len: usize,
    start: usize,
    end: usize,
}

/// Checks the common bytes and the head of a key whose node is inside of the page.
#[inline]
fn check_key(page: &Page<'_>, key: CheckedKey, prefix: &[u8]) -> Result<(), &'static str> {
    let Some(after) = key.len.checked_sub(prefix.len()) else { return Err("has keys without their common bytes") };
    let has_head = match page.left_out {
        0 => {
            let stored = &page.bytes[key.start..key.end];
            stored.starts_with(prefix) && key.head == head_of(&stored[prefix.len()..])
        }
        // Bytes that a short key does not have are zeros in its head.
        _ => after >= HEAD_BYTES || key.head.trailing_zeros() as usize >= 8 * (HEAD_BYTES - after),
    };
    if has_head { Ok(()) } else { Err("has a key without its head") }
}

/// Whether a key comes before another one of the page. Both must have passed [`check_key`].
#[inline]
fn is_before(page: &Page<'_>, one: CheckedKey, other: CheckedKey) -> bool {
    if one.head != other.head {
        return one.head < other.head;
    }
    let rest = |key: CheckedKey| {
        let stored = &page.bytes[key.start..key.end];
        if page.left_out == 0 { stored.get(page.common() + HEAD_BYTES..).unwrap_or_default() } else { stored }
    };
    compare(rest(one), rest(other)).then(one.len.cmp(&other.len)).is_lt()
}

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("the field is inside the page"))
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the field is inside the page"))
}

#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the field is inside the page"))
}

#[inline]
fn u48_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u16_at(bytes, at + 4)) << 32
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::key_bytes::common_bytes;

    /// Writes a leaf as earlier versions did, with whole keys.
    pub(in super::super) fn build_whole_leaf(
        number: u64,
        entries: &[(&[u8], &[u8])],
        page: &mut PageBytes,
    ) -> PagePointer {
        let common = common_bytes(entries[0].0, entries[entries.len() - 1].0);
        let mut end = HEADER_LEN + entries.len() * SLOT_LEN;
        for (at, (key, value)) in entries.iter().enumerate() {
            let slot = [(end as u16).to_le_bytes(), (key.len() as u16).to_le_bytes()].concat();
            let slot = [slot, head_of(&key[common..]).to_le_bytes().to_vec()].concat();
            page[HEADER_LEN + at * SLOT_LEN..][..SLOT_LEN].copy_from_slice(&slot);
            let node = [key, &(value.len() as u16).to_le_bytes()[..], value].concat();
            page[end..end + node.len()].copy_from_slice(&node);
            end += node.len();
        }
        page[..8].copy_from_slice(&number.to_le_bytes());
        page[8] = 1;
        page[16] = LEAF;
        for (at, field) in [(18, entries.len()), (20, common), (22, end)] {
            page[at..at + 2].copy_from_slice(&(field as u16).to_le_bytes());
        }
        if Page::of_checked(number, page).has_even_heads() {
            page[16] |= EVEN;
        }
        PagePointer { number, checksum: checksum_of(page) }
    }

    fn leaf(keys: &[Vec<u8>]) -> Box<PageBytes> {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        let nodes = keys.iter().map(|key| LeafNode {
            key: KeyParts::whole(key),
            value: LeafValue::InPage(&key[..1]),
            is_new: true,
        });
        let child = build_page(7, 1, 0, &nodes.collect::<Vec<_>>(), &mut bytes);
        assert_eq!(child.entries, keys.len() as u64);
        bytes
    }

    fn branch(keys: &[Vec<u8>]) -> Box<PageBytes> {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        let child = ChildPage { page: PagePointer { number: 1 << 40, checksum: 5 }, entries: 1 << 41 };
        let nodes: Vec<_> =
            keys.iter().map(|key| BranchNode { key: KeyParts::whole(key), child, is_new: false }).collect();
        build_page(7, 1, 3, &nodes, &mut bytes);
        assert_eq!(Page::of_checked(7, &bytes).child(keys.len() - 1), child);
        bytes
    }

    fn key_sets() -> Vec<Vec<Vec<u8>>> {
        let numbers = |step: u32| (1..40_u32).map(|n| [&b"id"[..], &(n * step).to_be_bytes()].concat()).collect();
        // Some keys have equal heads, and others are missing.
        let pairs = |n: u32| [&b"id"[..], &(n / 3).to_be_bytes(), &n.to_be_bytes()].concat();
        let uneven = (1..90_u32).filter(|n| n % 7 != 3 && n % 11 != 5).map(pairs).collect();
        let far = (0..30_u32).map(|n| [&b"id"[..], &n.pow(5).to_be_bytes()].concat()).collect();
        let texts = (1..40).map(|n| vec![b'x'; n]).collect();
        let zeros = (1..30).map(|n| [&b"k"[..], &vec![0; n]].concat()).collect();
        vec![
            numbers(1),
            numbers(1 << 20),
            uneven,
            far,
            texts,
            zeros,
            vec![b"one".to_vec()],
            vec![b"a".to_vec(), b"b".to_vec()],
        ]
    }

    #[test]
    fn searches_find_what_a_scan_finds() {
        for keys in key_sets() {
            let (leaf, branch) = (leaf(&keys), branch(&keys));
            let mut whole = Box::new([0; PAGE_BYTES]);
            let entries: Vec<_> = keys.iter().map(|key| (&key[..], &key[..1])).collect();
            build_whole_leaf(7, &entries, &mut whole);
            check_page(7, 0, &leaf).unwrap();
            check_page(7, 0, &whole).unwrap();
            check_page(7, 3, &branch).unwrap();
            let (leaf, branch) = (Page::of_checked(7, &leaf), Page::of_checked(7, &branch));
            let whole = Page::of_checked(7, &whole);
            for (at, key) in keys.iter().enumerate() {
                assert_eq!((&leaf.key(at).to_vec(), &whole.key(at).to_vec()), (key, key));
                assert_eq!(leaf.value(at), whole.value(at));
            }
            let near =
                |key: &Vec<u8>| [key.clone(), [&key[..], &[0]].concat(), key[..key.len() - 1].to_vec(), b"~".to_vec()];
            for key in keys.iter().flat_map(near) {
                assert_eq!(leaf.search(&key), keys.partition_point(|other| *other < key), "{key:?}");
                assert_eq!(whole.search(&key), leaf.search(&key), "{key:?}");
                (0..keys.len()).for_each(|at| assert_eq!(leaf.has_key(at, &key), keys[at] == key));
                let below = keys[1..].partition_point(|other| *other <= key);
                assert_eq!(branch.search_child(&key), below, "{key:?}");
                for from in 0..keys.len() {
                    if let Some(near) = leaf.search_near(from, &key) {
                        assert_eq!(near.at, leaf.search(&key), "{key:?} from {from}");
                        assert_eq!(near.has_key, keys[near.at] == key, "{key:?} from {from}");
                    }
                    assert_eq!(leaf.search_near(from, &key), whole.search_near(from, &key), "{key:?} from {from}");
                }
            }
        }
    }

    #[test]
    fn pages_of_evenly_spread_heads_are_marked() {
        let is_even = |keys: &[Vec<u8>]| {
            let (leaf, branch) = (leaf(keys), branch(keys));
            let is_even = Page::of_checked(7, &leaf).is_even;
            assert_eq!(Page::of_checked(7, &branch).is_even, is_even);
            is_even
        };
        let marked: Vec<bool> = key_sets().iter().map(|keys| is_even(keys)).collect();
        assert_eq!(marked, [true, true, true, false, false, false, false, false]);
        // A mark without evenly spread heads would lead searches to wrong nodes.
        let mut far = leaf(&key_sets()[3]);
        far[16] |= EVEN;
        check_page(7, 0, &far).unwrap_err();
    }

    #[test]
    fn a_page_of_a_wrong_structure_is_refused() {
        for keys in key_sets() {
            let whole = leaf(&keys);
            for at in 0..usize::from(u16_at(&*whole, 22)) {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x80;
                if check_page(7, 0, &bytes).is_ok() {
                    // What passes can be read without leaving the page.
                    let page = Page::of_checked(7, &bytes);
                    (0..page.nodes()).for_each(|node| {
                        assert!(page.key(node).to_vec().len() <= PAGE_BYTES, "{:?}", page.value(node))
                    });
                }
            }
            check_page(8, 0, &whole).unwrap_err();
            check_page(7, 1, &whole).unwrap_err();
        }
    }
}

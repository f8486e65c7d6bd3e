//! Makes the next state of a tree from the current one and a batch of changes.
//!
//! Pages are never changed. The walk goes down to each leaf with a change, and writes new pages for the leaf and for
//! the branches above it, at free places. Each of them is written once, however many changes it has.
//!
//! ```text
//! before                          after a batch that changes leaves 2 and 3
//! root -- branch -- leaf 1        new root -- new branch -- leaf 1
//!                |- leaf 2                               |- leaf 5  \  the entries of leaves 2 and 3,
//!                |- leaf 3                               |- leaf 6   | packed together
//!                |- leaf 4                               |- leaf 7  /
//!                                                        |- leaf 4
//! ```
//!
//! **Packing.** The entries of neighbouring leaves that change are packed together. If they no longer fit:
//! * New entries that follow one another, such as the next orders of a district, will probably be followed by more. So
//!   the pages before the last one get full, and the last one gets the rest.
//! * Other new entries are as likely in one place as in another, so all pages get equally full.
//!
//! A few entries that are left of a leaf join a neighbour if it has room.
//!
//! A leaf should have the entries of one index only. The newest rows of a table are often the last ones of an index,
//! and are read most. Next to entries of another index, their keys would have few common bytes and equal heads.

use std::cmp::Ordering;

use rowmill_base::Result;

use super::changes::{Changes, KeyChange};
use super::free_pages::PageRun;
use super::key_parts::KeyParts;
use super::page::{BranchNode, LeafNode, LeafValue, Page, PageFill, PageNode, PagePointer};
use super::page_writer::{PageWriter, ROOM};
use super::reader::{PATH_BYTE, TreeReader};

/// Nodes of fewer bytes join a neighbour if it has room for them.
const FEW_BYTES: usize = ROOM / 4;

/// The first bytes of the keys of one index.
const INDEX_BYTES: usize = PATH_BYTE + 1;

/// The new pages of new entries get full if at least this many of them follow one another.
const RUN_NODES_MIN: usize = 2;

/// A new state of a tree: its root, levels and entries.
#[derive(Debug)]
pub(super) struct NewTree {
    pub(super) root: PagePointer,
    pub(super) levels: u32,
    pub(super) entries: u64,
    /// The pages that the new state no longer uses.
    pub(super) freed: Vec<PageRun>,
}

/// A page with the keys from `lower` up to `upper`, and their changes.
#[derive(Clone, Copy)]
struct KeySpan<'w, 'c> {
    page: PagePointer,
    level: u32,
    lower: &'w [u8],
    upper: Option<&'w [u8]>,
    changes: &'c [KeyChange<'w>],
}

struct TreeWrite<'w, 'c, 'f> {
    reader: &'w TreeReader,
    changes: &'c Changes<'w>,
    pages: &'c mut PageWriter<'f>,
    freed: Vec<PageRun>,
}

/// Applies `changes` to the state of `reader`, and writes the new pages with `pages`.
pub(super) fn apply(reader: &TreeReader, changes: &Changes<'_>, pages: &mut PageWriter<'_>) -> Result<NewTree> {
    let state = reader.state();
    if changes.is_empty() {
        return Ok(NewTree { root: state.root, levels: state.levels, entries: state.entries, freed: Vec::new() });
    }
    let (page, level) = reader.root().unwrap_or_default();
    let span = KeySpan { page, level, lower: &[], upper: None, changes: &changes.changes };
    let mut write = TreeWrite { reader, changes, pages, freed: Vec::new() };
    let mut children = Vec::new();
    // The level of the pages that get `children` as nodes.
    let mut level = level.max(1);
    match reader.root() {
        Some((_, 1..)) => write.branch_nodes(span, &mut children)?,
        root => {
            let mut nodes = Vec::new();
            match root {
                Some(_) => write.leaf_nodes(span, &mut nodes)?,
                None => write.merge_leaf(None, span, &mut nodes)?,
            }
            write.pack(&nodes, &[], 0, &mut children)?;
        }
    }
    while children.len() > 1 {
        let nodes = std::mem::take(&mut children);
        write.pack(&nodes, &[], level, &mut children)?;
        level += 1;
    }
    let freed = write.freed;
    Ok(match children.first() {
        Some(root) => NewTree { root: root.child.page, levels: level, entries: root.child.entries, freed },
        None => NewTree { root: PagePointer::default(), levels: 0, entries: 0, freed },
    })
}

/// A node that pages of one level have.
trait LevelNode<'w>: PageNode + Sized {
    /// Appends the nodes of the page of `span` after the changes, and frees the page.
    fn collect(write: &mut TreeWrite<'w, '_, '_>, span: KeySpan<'w, '_>, out: &mut Vec<Self>) -> Result<()>;

    /// A short key that is greater than the key of `before` and not greater than the key of `self`.
    fn separator(&self, before: &Self) -> KeyParts<'w>;
}

impl<'w> LevelNode<'w> for LeafNode<'w> {
    fn collect(write: &mut TreeWrite<'w, '_, '_>, span: KeySpan<'w, '_>, out: &mut Vec<Self>) -> Result<()> {
        write.leaf_nodes(span, out)
    }

    fn separator(&self, before: &Self) -> KeyParts<'w> {
        let common = self.key.common_bytes(&before.key.to_vec());
        self.key.first_bytes(common + 1)
    }
}

impl<'w> LevelNode<'w> for BranchNode<'w> {
    fn collect(write: &mut TreeWrite<'w, '_, '_>, span: KeySpan<'w, '_>, out: &mut Vec<Self>) -> Result<()> {
        write.branch_nodes(span, out)
    }

    fn separator(&self, _before: &Self) -> KeyParts<'w> {
        self.key
    }
}

impl<'w> TreeWrite<'w, '_, '_> {
    /// Appends the entries of a leaf after the changes of `span`.
    fn leaf_nodes(&mut self, span: KeySpan<'w, '_>, out: &mut Vec<LeafNode<'w>>) -> Result<()> {
        let page = self.reader.page(span.page, 0)?;
        self.freed.push((span.page.number, 1));
        self.merge_leaf(Some(page), span, out)
    }

    /// Merges the entries of a leaf, if there is one, with changes.
    fn merge_leaf(&mut self, leaf: Option<Page<'w>>, span: KeySpan<'w, '_>, out: &mut Vec<LeafNode<'w>>) -> Result<()> {
        let removes_some = self.changes.removes_some(span.lower, span.upper);
        let mut changes = span.changes.iter().peekable();
        let mut whole_key = Vec::new();
        for (page, at) in leaf.iter().flat_map(|page| (0..page.nodes()).map(move |at| (page, at))) {
            let (key, value) = (page.key(at), page.value(at));
            let mut is_changed = false;
            while let Some(change) = changes.peek() {
                match key.compare(change.key) {
                    Ordering::Less => break,
                    order => {
                        is_changed = order.is_eq();
                        self.put(change, !is_changed, out)?;
                        changes.next();
                    }
                }
            }
            let is_removed = !is_changed && removes_some && {
                key.copy_to(&mut whole_key);
                self.changes.removes(&whole_key)
            };
            match is_changed || is_removed {
                true => self.free_value(value),
                false => out.push(LeafNode { key, value, is_new: false }),
            }
        }
        changes.try_for_each(|change| self.put(change, true, out))
    }

    fn put(&mut self, change: &KeyChange<'w>, is_new: bool, out: &mut Vec<LeafNode<'w>>) -> Result<()> {
        if let Some(value) = change.value {
            let value = self.pages.value(change.key, value)?;
            out.push(LeafNode { key: KeyParts::whole(change.key), value, is_new });
        }
        Ok(())
    }

    fn free_value(&mut self, value: LeafValue<'_>) {
        if let LeafValue::Long(value) = value {
            self.freed.push((value.first.number, value.pages()));
        }
    }

    /// Appends the nodes of a branch after the changes of `span`. Writes the pages below them.
    fn branch_nodes(&mut self, span: KeySpan<'w, '_>, out: &mut Vec<BranchNode<'w>>) -> Result<()> {
        let page = self.reader.page(span.page, span.level)?;
        self.freed.push((span.page.number, 1));
        match span.level {
            1 => self.children::<LeafNode<'w>>(page, span, out),
            _ => self.children::<BranchNode<'w>>(page, span, out),
        }
    }

    /// Does the work of [`TreeWrite::branch_nodes`] for a branch whose children have nodes of the type `N`.
    fn children<N: LevelNode<'w>>(
        &mut self,
        branch: Page<'w>,
        mut span: KeySpan<'w, '_>,
        out: &mut Vec<BranchNode<'w>>,
    ) -> Result<()> {
        let level = branch.level() - 1;
        // The nodes of neighbouring children with changes, and the lower bound of their keys.
        let (mut changed, mut changed_from): (Vec<N>, _) = (Vec::new(), span.lower);
        // The lower bound of the last child, if it did not change.
        let mut last_unchanged = None;
        for at in 0..branch.nodes() {
            let child = branch.child(at);
            let part = self.part(&branch, at, &mut span);
            if part.changes.is_empty() && !self.changes.removes_some(part.lower, part.upper) {
                if !changed.is_empty() && self.has_room(child.page, level, &changed)? {
                    N::collect(self, part, &mut changed)?;
                    continue;
                }
                self.pack(&changed, changed_from, level, out)?;
                changed.clear();
                out.push(BranchNode { key: KeyParts::whole(part.lower), child, is_new: false });
                last_unchanged = Some(part.lower);
                continue;
            }
            if changed.is_empty() {
                changed_from = part.lower;
            }
            match part.changes.is_empty() && self.changes.removes_all(part.lower, part.upper) {
                true => self.free_below(child.page, level)?,
                false => N::collect(self, part, &mut changed)?,
            }
        }
        // Few nodes at the end can only join the child before them.
        if !changed.is_empty()
            && let Some(lower) = last_unchanged
            && let Some(before) = out.last().copied()
            && self.has_room(before.child.page, level, &changed)?
        {
            out.pop();
            let page = before.child.page;
            let part = KeySpan { page, level, lower, upper: Some(changed_from), changes: &[] };
            let mut joined = Vec::new();
            N::collect(self, part, &mut joined)?;
            joined.append(&mut changed);
            (changed, changed_from) = (joined, lower);
        }
        self.pack(&changed, changed_from, level, out)
    }

    /// The part of `span` that belongs to a node of a branch. Takes its changes off the start of `span`.
    fn part<'c>(&self, branch: &Page<'w>, at: usize, span: &mut KeySpan<'w, 'c>) -> KeySpan<'w, 'c> {
        let lower = if at == 0 { span.lower } else { branch.branch_key(at) };
        let upper = if at + 1 < branch.nodes() { Some(branch.branch_key(at + 1)) } else { span.upper };
        let count = match upper {
            Some(upper) if at + 1 < branch.nodes() => span.changes.partition_point(|change| change.key < upper),
            _ => span.changes.len(),
        };
        let (changes, rest) = span.changes.split_at(count);
        span.changes = rest;
        KeySpan { page: branch.child(at).page, level: branch.level() - 1, lower, upper, changes }
    }

    /// Whether `nodes` are few and fit into the page `neighbour`.
    fn has_room<N: PageNode>(&self, neighbour: PagePointer, level: u32, nodes: &[N]) -> Result<bool> {
        let bytes = nodes.iter().map(PageNode::page_len).sum::<usize>();
        Ok(bytes < FEW_BYTES && bytes + self.reader.page(neighbour, level)?.filled() <= ROOM)
    }

    /// Frees a page and everything below it.
    fn free_below(&mut self, pointer: PagePointer, level: u32) -> Result<()> {
        let page = self.reader.page(pointer, level)?;
        self.freed.push((pointer.number, 1));
        for at in 0..page.nodes() {
            match level {
                0 => self.free_value(page.value(at)),
                _ => self.free_below(page.child(at).page, level - 1)?,
            }
        }
        Ok(())
    }

    /// Writes pages with `nodes` and appends a node for each of them to `out`. `lower` is the lower bound of the keys.
    fn pack<N: LevelNode<'w>>(
        &mut self,
        nodes: &[N],
        lower: &'w [u8],
        level: u32,
        out: &mut Vec<BranchNode<'w>>,
    ) -> Result<()> {
        let mut fill = PageFill::default();
        let mut from = 0;
        while from < nodes.len() {
            let end = from + until_border(&nodes[from..]);
            let part = &nodes[from..end];
            // Without a run, the pages that are needed get equal shares of the nodes. A share is told by whole keys,
            // because the bytes in a page depend on the other keys there.
            let mut shares = match count_for(part, usize::MAX, &mut fill) {
                count if count == part.len() || is_run(part) => None,
                _ => Some((part.iter().map(PageNode::page_len).sum::<usize>(), full_pages(part, &mut fill))),
            };
            while from < end {
                let wanted = shares.map_or(usize::MAX, |(left, pages)| left.div_ceil(pages));
                let count = count_for(&nodes[from..end], wanted, &mut fill);
                let key = if from == 0 { KeyParts::whole(lower) } else { nodes[from].separator(&nodes[from - 1]) };
                let child = self.pages.write_page(level, &nodes[from..from + count])?;
                out.push(BranchNode { key, child, is_new: from > 0 });
                from += count;
                shares = shares.map(|(left, pages)| (left - fill.whole(), (pages - 1).max(1)));
            }
        }
        Ok(())
    }
}

/// The number of nodes before the first one of another index, if they take a good part of a leaf. Otherwise the number
/// of all nodes, so that many small tables share pages.
fn until_border<N: PageNode>(nodes: &[N]) -> usize {
    let index = |node: &N| node.key().first_bytes(INDEX_BYTES.min(node.key().len())).to_vec();
    let [first, .., last] = nodes else { return nodes.len() };
    let of_first = index(first);
    if N::IS_BRANCH || index(last) == of_first {
        return nodes.len();
    }
    let border = nodes.partition_point(|node| index(node) == of_first);
    match nodes[..border].iter().map(PageNode::page_len).sum::<usize>() {
        FEW_BYTES.. => border,
        _ => nodes.len(),
    }
}

/// The number of pages that nodes take if each page gets as full as possible.
fn full_pages<N: PageNode>(mut nodes: &[N], fill: &mut PageFill) -> usize {
    let mut pages = 0;
    while !nodes.is_empty() {
        nodes = &nodes[count_for(nodes, usize::MAX, fill)..];
        pages += 1;
    }
    pages
}

/// Returns how many of the first nodes a page gets, at least one, if it should get nodes of about `wanted` bytes with
/// whole keys. Leaves these nodes in `fill`.
fn count_for<N: PageNode>(nodes: &[N], wanted: usize, fill: &mut PageFill) -> usize {
    fill.clear();
    for (count, node) in nodes.iter().enumerate() {
        let (bytes, len) = (fill.whole(), node.page_len());
        // A node that ends after the wanted bytes belongs to the page that gets the greater part of it.
        let is_too_much = count > 0 && bytes + len > wanted && bytes + len / 2 >= wanted;
        if is_too_much || !fill.add(node, ROOM) {
            return count;
        }
    }
    nodes.len()
}

/// Whether the new nodes follow one another, so that more nodes after them are probable.
fn is_run<N: PageNode>(nodes: &[N]) -> bool {
    let Some(first) = nodes.iter().position(PageNode::is_new) else { return false };
    let count = nodes[first..].iter().take_while(|node| node.is_new()).count();
    let is_alone = nodes[first + count..].iter().all(|node| !node.is_new());
    is_alone && (count >= RUN_NODES_MIN || first + count == nodes.len())
}

//! Reads an LMDB file as plain bytes and checks it: is everything there, and do the pages form valid trees?
//!
//! LMDB maps its file and trusts the content. A page number past the end of the file raises SIGBUS, an offset past the
//! end of a page is a wild pointer, and a key in the wrong place is not found. So we check every page in use, every key
//! and every value before LMDB opens the file. For a long file we check only the heads and the length at open, and the
//! rest when a check is requested. This module reads with read calls, and checks each number before it follows it.
//!
//! ```text
//! file    meta | meta | page | page ...                  even and odd transactions take turns; the higher one counts
//! page    number (u64) | pad (u16) | flags (u16) | lower (u16) | upper (u16) | node offsets (u16 each) .. nodes
//!         an overflow page has its number of pages (u32) in place of lower and upper
//! node    in a branch: page number (48 bits) | key length (u16) | key
//!         in a leaf:   value length (u32) | flags (u16) | key length (u16) | key | value, or the number (u64) of the
//!                      overflow page with the value
//! meta    after a page's first 16 bytes: magic (u32) | version (u32) | address (u64) | map length (u64)
//!         | free list's tree (48 bytes) | main tree (48) | last page (u64) | transaction (u64)
//! tree    page length (u32, the free list's tree only) | flags (u16) | depth (u16) | pages (3 x u64) | entries (u64)
//!         | root (u64)
//! ```
//!
//! Each page up to the last one must be used exactly once: either by a tree, or by the free list. A value of the free
//! list is a count (u64) followed by that number of page numbers (u64 each), descending. The next commit would
//! overwrite a page that is both in use and free.
//!
//! Keys must ascend through a tree. The keys below a node of a branch must not be less than the node's key, and must be
//! less than the next node's key. The first node of a branch need not have a key. Nodes fill a page from `upper` to its
//! end.
//!
//! A file may validly end before the last page that its meta names, when the last pages are free and were never
//! written. A truncated file looks the same. Only a walk over the pages in use tells the two apart.
//!
//! Another process may commit during a walk. The pages of the newest state do not change while it is the newest. So
//! damage that a walk finds is real only if the newest meta is still the one with which the walk began.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rowmill_base::{Cancel, Error, ErrorKind, Result};

use super::sealed_value::unseal;
use super::{BaseChecked, BaseSpace, PROBLEMS_MAX, Visitor};

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
pub(super) const HEADER_LEN: usize = 16;
const META_LEN: usize = 136;
pub(super) const NODE_LEN: usize = 8;

pub(super) const BRANCH: u16 = 0x01;
pub(super) const LEAF: u16 = 0x02;
pub(super) const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;

/// Flag of a leaf's node whose value is stored in overflow pages.
pub(super) const BIG_VALUE: u16 = 0x01;

/// Flags of the free list's tree in our files: its keys are integers, and the environment is one file without a folder.
const FREE_FLAGS: u16 = 0x4008;

/// Flags of the main tree: none.
const MAIN_FLAGS: u16 = 0;

/// The most levels of a tree that LMDB can descend.
const DEPTH_MAX: u16 = 32;

/// The root of an empty tree.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// The most walks that we begin because another process committed during the one before. After that the file passes.
const WALKS_MAX: usize = 8;

/// The most times that we read the heads again because another process wrote one of them.
const LOOKS_MAX: usize = 8;

/// A range of keys, from one bound to another.
pub(super) type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

const ALL_KEYS: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Returns the first damage in a file as an error. For a file of more than `looked_through_max` bytes it checks the
/// heads only, unless the file is shorter than they say: then it checks all pages too.
pub(super) fn check_file(path: &Path, looked_through_max: u64) -> Result<()> {
    let (pages, meta) = Pages::open(path)?;
    let is_as_long = pages.len >= meta.last_page.saturating_add(1).saturating_mul(meta.page_len);
    match is_as_long && pages.len > looked_through_max {
        true => Ok(()),
        false => check_pages(path, &Cancel::new())?.into_result(),
    }
}

/// Checks everything that the newest state uses, and reports every damage.
pub(super) fn check_pages(path: &Path, cancel: &Cancel) -> Result<BaseChecked> {
    for _ in 0..WALKS_MAX {
        let (checked, is_quiet) = check_once(path, cancel)?;
        if checked.is_whole() || is_quiet {
            return Ok(checked);
        }
    }
    // Other processes committed during every walk, so no damage was confirmed.
    Ok(BaseChecked::default())
}

/// Returns the length of the file, the bytes of its free pages, and how many of those `held_from` or a later
/// transaction freed: a read of the state before that transaction may still need them. The caller must hold a read of
/// the base so that the pages of the free list are not reused while this reads them.
pub(super) fn free_space(path: &Path, held_from: u64) -> Result<BaseSpace> {
    let (pages, meta) = Pages::open(path)?;
    let mut space = BaseSpace { file_bytes: pages.len, ..BaseSpace::default() };
    let met = Met::new(pages.len.div_ceil(meta.page_len));
    let mut walk = Walk { pages: &pages, meta: &meta, cancel: &Cancel::new(), met, bytes: 0 };
    walk.tree(&meta.free, ALL_KEYS, &mut Err, &mut |page, freed_by, value| {
        let numbers =
            free_numbers(value).ok_or_else(|| pages.damage(format_args!("page {page} holds no list of free pages")))?;
        let bytes = numbers.len() as u64 * meta.page_len;
        space.free_bytes += bytes;
        if u64_at(freed_by, 0) >= held_from {
            space.held_bytes += bytes;
        }
        Ok(true)
    })?;
    Ok(space)
}

/// Checks once. Returns the findings, and whether no process committed during the check.
fn check_once(path: &Path, cancel: &Cancel) -> Result<(BaseChecked, bool)> {
    let mut checked = BaseChecked::default();
    let (pages, meta) = match Pages::open(path) {
        Ok(opened) => opened,
        Err(error) => {
            checked.page_problems.push(error);
            return Ok((checked, true));
        }
    };
    pages.walk(&meta, cancel, &mut checked)?;
    // If the newest head is still the same, no commit can have overwritten a page of our state during the walk.
    let is_quiet = pages.newest_meta().map_or(true, |newest| newest.transaction == meta.transaction);
    Ok((checked, is_quiet))
}

/// The file of a base, read with read calls.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    len: u64,
    path: PathBuf,
}

/// The content of one of the two heads.
#[derive(Debug)]
pub(super) struct Meta {
    page_len: u64,
    free: Tree,
    main: Tree,
    last_page: u64,
    transaction: u64,
}

/// The root of the main tree of one state.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeRoot {
    /// The number of the root page, or [`NO_PAGE`] for an empty tree.
    pub(super) page: u64,
    /// The number of levels.
    pub(super) depth: u16,
    pub(super) page_len: usize,
    /// The offset at which the last page of the state ends.
    pub(super) end: u64,
}

#[derive(Debug)]
struct Tree {
    flags: u16,
    depth: u16,
    entries: u64,
    root: u64,
}

impl Tree {
    fn parse(bytes: &[u8]) -> Tree {
        Tree { flags: u16_at(bytes, 4), depth: u16_at(bytes, 6), entries: u64_at(bytes, 32), root: u64_at(bytes, 40) }
    }

    /// Converts a key of this tree to bytes that sort in the tree's order; `None` if the key has the wrong length.
    fn in_order(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.flags {
            FREE_FLAGS => Some(u64::from_ne_bytes(key.try_into().ok()?).to_be_bytes().to_vec()),
            _ => Some(key.to_vec()),
        }
    }
}

impl Pages {
    /// Opens the file and reads its newest head.
    pub(super) fn open(path: &Path) -> Result<(Pages, Meta)> {
        let failed = |call: &str, e: &io::Error| Error::io(format_args!("{call} {}", path.display()), e);
        let file = File::open(path).map_err(|e| failed("open", &e))?;
        let mut pages = Pages { file, len: 0, path: path.to_owned() };
        let meta = pages.newest_meta()?;
        // The length must be read after the head. A commit may come in between, and a commit writes its pages before
        // the head that names them, so this order never sees a head that names pages past the length.
        pages.len = pages.file.metadata().map_err(|e| failed("stat", &e))?.len();
        Ok((pages, meta))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn damage(&self, what: impl std::fmt::Display) -> Error {
        Error::corrupt(format!("{}: {what}", self.path.display()))
            .in_file(self.path.display())
            .hint("the ordered base of this database is damaged; restore the directory from a backup")
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damage(format_args!("the file ends before offset {}", offset + buf.len() as u64))
            }
            _ => Error::io(format_args!("read {}", self.path.display()), &e),
        })
    }

    /// Reads the head of the newest state.
    fn newest_meta(&self) -> Result<Meta> {
        let mut outcome = self.metas();
        for _ in 0..LOOKS_MAX {
            // A commit may come between the reads of the two heads, or during one of them. The newest head is
            // overwritten only by the second commit from now. So a result is right if the next read finds the same.
            let now = self.metas();
            match (&outcome, &now) {
                (Ok(before), Ok(now)) if before.transaction == now.transaction => break,
                (Err(before), Err(now)) if before == now => break,
                _ => outcome = now,
            }
        }
        outcome
    }

    /// Returns the transaction that made the newest state, and the root of its tree.
    pub(super) fn newest_root(&self) -> Result<(u64, TreeRoot)> {
        let meta = self.newest_meta()?;
        let end = meta.last_page.saturating_add(1).saturating_mul(meta.page_len);
        let (page, depth) = (meta.main.root, meta.main.depth);
        Ok((meta.transaction, TreeRoot { page, depth, page_len: meta.page_len as usize, end }))
    }

    fn metas(&self) -> Result<Meta> {
        let first = self.meta(0)?;
        // Transactions take turns: even ones write the first head, odd ones the second, and the two are consecutive.
        // The second head begins with the second page, so its place depends on the page length.
        let second = self.meta(first.page_len)?;
        let odd = [&first, &second].map(|meta| meta.transaction % 2);
        if first.page_len != second.page_len || first.transaction.abs_diff(second.transaction) > 1 || odd != [0, 1] {
            return Err(self.damage("its two heads contradict each other"));
        }
        Ok(if second.transaction > first.transaction { second } else { first })
    }

    fn meta(&self, offset: u64) -> Result<Meta> {
        let mut buf = [0; HEADER_LEN + META_LEN];
        self.read(&mut buf, offset)?;
        let (header, fields) = buf.split_at(HEADER_LEN);
        if u16_at(header, 10) & META == 0 || u32_at(fields, 0) != MAGIC {
            return Err(self.damage(format_args!("there is no head at offset {offset}")));
        }
        let version = u32_at(fields, 4);
        if version != VERSION {
            let path = self.path.display();
            return Err(Error::newer_format(format!(
                "{path}: the file has version {version} of LMDB's format, and this build reads version {VERSION}"
            )));
        }
        let page_len = u64::from(u32_at(fields, 24));
        if !page_len.is_power_of_two() || !(1 << 8..=1 << 15).contains(&page_len) {
            return Err(self.damage(format_args!("{page_len} is no valid page size in the head at offset {offset}")));
        }
        let (free, main) = (Tree::parse(&fields[24..]), Tree::parse(&fields[72..]));
        if (free.flags, main.flags) != (FREE_FLAGS, MAIN_FLAGS) || free.depth.max(main.depth) > DEPTH_MAX {
            return Err(self
                .damage(format_args!("the head at offset {offset} describes trees that this database does not make")));
        }
        Ok(Meta { page_len, free, main, last_page: u64_at(fields, 120), transaction: u64_at(fields, 128) })
    }

    /// Visits every page in use, every entry and every number in the free list. No page may be both in use and free.
    /// Pages past the end of the file must all be free.
    fn walk(&self, meta: &Meta, cancel: &Cancel, checked: &mut BaseChecked) -> Result<()> {
        let pages = self.len.div_ceil(meta.page_len);
        let mut walk = Walk { pages: self, meta, cancel, met: Met::new(pages), bytes: 0 };
        let BaseChecked { page_bytes, page_problems, entries, entry_bytes, entry_problems } = checked;
        let damaged = &mut |error: Error| note(page_problems, error);
        walk.tree(&meta.main, ALL_KEYS, damaged, &mut |_, key, stored| {
            *entries += 1;
            *entry_bytes += (key.len() + stored.len()) as u64;
            match unseal(key, stored, &self.path) {
                Ok(_) => Ok(true),
                Err(error) => note(entry_problems, error).map(|()| true),
            }
        })?;
        let (mut free, mut unlisted) = (Vec::new(), Vec::new());
        walk.tree(&meta.free, ALL_KEYS, damaged, &mut |page, freed_by, value| {
            match free_numbers(value).filter(|_| u64_at(freed_by, 0) <= meta.transaction) {
                Some(numbers) => free.extend(numbers),
                None => unlisted.push(page),
            }
            Ok(true)
        })?;
        for page in unlisted {
            damaged(self.damage(format_args!("page {page} holds no list of free pages")))?;
        }
        // Free pages must be marked after the pages of both trees: only then does a page that is both in use and free
        // count as a problem of the free list.
        for number in free {
            walk.free(number).or_else(&mut *damaged)?;
        }
        // Pages that the file does not contain were never written, so each of them must be in the free list.
        let missing = meta.last_page.saturating_add(1).saturating_sub(pages);
        if walk.met.behind.len() as u64 != missing {
            damaged(self.damage(format_args!("its last {missing} pages are missing, and not all of them are free")))?;
        }
        *page_bytes = walk.bytes;
        Ok(())
    }

    /// Visits the entries of a range of keys in the state of `meta`, ascending, with their values as stored.
    pub(super) fn scan(&self, meta: &Meta, range: KeyRange<'_>, visit: &mut Visitor<'_>) -> Result<()> {
        let met = Met::new(self.len.div_ceil(meta.page_len));
        let mut walk = Walk { pages: self, meta, cancel: &Cancel::new(), met, bytes: 0 };
        walk.tree(&meta.main, range, &mut Err, &mut |_, key, stored| visit(key, stored))
    }
}

fn is_inside(range: &KeyRange<'_>, key: &[u8]) -> bool {
    RangeBounds::<[u8]>::contains(range, key)
}

/// Adds a problem to `problems`, up to the limit. A cancellation or deadline is not a problem: it ends the walk.
fn note(problems: &mut Vec<Error>, error: Error) -> Result<()> {
    match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Deadline => Err(error),
        _ => {
            if problems.len() < PROBLEMS_MAX {
                problems.push(error);
            }
            Ok(())
        }
    }
}

/// Parses a value of the free list; `None` if it is no descending list of page numbers.
fn free_numbers(value: &[u8]) -> Option<Vec<u64>> {
    let (words, _) = value.as_chunks::<{ size_of::<u64>() }>();
    let (count, numbers) = words.split_first()?;
    let numbers = numbers.get(..usize::try_from(u64::from_ne_bytes(*count)).ok()?)?;
    let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect();
    // LMDB searches for adjacent pages by their distance in the list, so the numbers must descend.
    numbers.is_sorted_by(|one, next| one > next).then_some(numbers)
}

/// A walk over the pages of one state. It must not meet a page twice.
struct Walk<'a> {
    pages: &'a Pages,
    meta: &'a Meta,
    cancel: &'a Cancel,
    met: Met,
    /// Bytes of the pages in use that the walk met.
    bytes: u64,
}

/// A page that the walk has still to visit.
struct Below {
    number: u64,
    /// The level of the page. The root has level 1.
    level: u16,
    /// The keys in the page must not be less than this,
    from: Option<Vec<u8>>,
    /// and must be less than this.
    to: Option<Vec<u8>>,
}

impl Below {
    /// Whether the page can contain no key of `range`.
    fn is_outside(&self, range: &KeyRange<'_>) -> bool {
        let ends_before = match (&self.to, range.0) {
            (Some(to), Bound::Included(start) | Bound::Excluded(start)) => to.as_slice() <= start,
            _ => false,
        };
        let begins_behind = match (&self.from, range.1) {
            (Some(from), Bound::Excluded(end)) => from.as_slice() >= end,
            (Some(from), Bound::Included(end)) => from.as_slice() > end,
            _ => false,
        };
        ends_before || begins_behind
    }

    /// Whether `keys` ascend and fit between the bounds of the page.
    fn holds(&self, keys: &[Vec<u8>]) -> bool {
        let (first, last) = (keys.first(), keys.last());
        keys.is_sorted_by(|one, next| one < next)
            && self.from.as_ref().is_none_or(|from| first.is_none_or(|first| first >= from))
            && self.to.as_ref().is_none_or(|to| last.is_none_or(|last| last < to))
    }
}

/// Receives the number of a leaf, one of its keys and the value, and returns whether to continue.
type Visit<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<bool> + 'a;

/// Receives damage. Returns an error to stop the walk, or `Ok` to continue with the rest.
type Damaged<'a> = dyn FnMut(Error) -> Result<()> + 'a;

impl Walk<'_> {
    /// Visits the pages of one tree that can contain keys of `range`, and the entries in `range`.
    fn tree(
        &mut self,
        tree: &Tree,
        range: KeyRange<'_>,
        damaged: &mut Damaged<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut page = vec![0; self.meta.page_len as usize];
        let root = Below { number: tree.root, level: 1, from: None, to: None };
        let mut left = Vec::from_iter((tree.root != NO_PAGE).then_some(root));
        // Depth first, with the pages still to visit on a stack. A branch pushes its children in reverse order, so that
        // the leaves come in the order of their keys.
        let (mut entries, mut goes_on) = (0, true);
        while let Some(below) = left.pop_if(|_| goes_on) {
            self.cancel.check()?;
            let looked_at = self.load(below.number, 1, &mut page).and_then(|()| self.nodes(&below, tree, &page));
            match looked_at {
                Ok(nodes) if nodes.is_branch => {
                    left.extend(nodes.below(&below).into_iter().rev().filter(|page| !page.is_outside(&range)));
                }
                Ok(nodes) => {
                    entries += nodes.keys.len() as u64;
                    goes_on = self.leaf(&below, &nodes, &range, damaged, visit)?;
                }
                Err(error) => damaged(error)?,
            }
        }
        // Only a walk over all keys has counted every entry.
        if range == ALL_KEYS && entries != tree.entries {
            damaged(self.pages.damage(format_args!("a tree should have {} entries and has {entries}", tree.entries)))?;
        }
        Ok(())
    }

    /// Reads the start of page `number`, the first of `count` pages, and marks all of them as met.
    fn load(&mut self, number: u64, count: u64, buf: &mut [u8]) -> Result<()> {
        let end = number.saturating_add(count);
        if number < 2
            || end > self.meta.last_page.saturating_add(1)
            || end.saturating_mul(self.meta.page_len) > self.pages.len
        {
            return Err(self.pages.damage(format_args!("page {number} is in use, but it is not in the file")));
        }
        // The marks detect pages with two parents and cycles, so the walk always ends.
        if !(number..end).all(|number| self.met.mark(number)) {
            return Err(self.pages.damage(format_args!("page {number} is in use twice")));
        }
        self.pages.read(buf, number * self.meta.page_len)?;
        if u64_at(buf, 0) != number {
            return Err(self.pages.damage(format_args!("page {number} says that it is page {}", u64_at(buf, 0))));
        }
        self.bytes += count * self.meta.page_len;
        Ok(())
    }

    fn free(&mut self, number: u64) -> Result<()> {
        match self.met.mark(number) {
            true if (2..=self.meta.last_page).contains(&number) => Ok(()),
            true => Err(self.pages.damage(format_args!("page {number} is free, but it is not in the file"))),
            false => Err(self.pages.damage(format_args!("page {number} is free, but also in use, or free twice"))),
        }
    }

    /// Visits the entries of a leaf in `range`, and returns whether to continue.
    fn leaf(
        &mut self,
        below: &Below,
        nodes: &Nodes<'_>,
        range: &KeyRange<'_>,
        damaged: &mut Damaged<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        for node in nodes.nodes.iter().filter(|node| is_inside(range, node.key)) {
            let goes_on = match node.flags {
                BIG_VALUE => match self.big_value(u64_at(node.value, 0), node.value_len) {
                    Ok(value) => visit(below.number, node.key, &value)?,
                    Err(error) => damaged(error).map(|()| true)?,
                },
                _ => visit(below.number, node.key, node.value)?,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a value that fills page `number` and the pages after it.
    fn big_value(&mut self, number: u64, value_len: usize) -> Result<Vec<u8>> {
        let count = ((HEADER_LEN + value_len) as u64).div_ceil(self.meta.page_len);
        let mut header = [0; HEADER_LEN];
        self.load(number, 1, &mut header)?;
        // A value that became shorter keeps its pages, so it may have more than it needs. All of them are freed
        // together.
        let pages = u64::from(u32_at(&header, 12));
        if u16_at(&header, 10) != OVERFLOW || pages < count {
            return Err(self.pages.damage(format_args!("page {number} does not hold a value of {value_len} bytes")));
        }
        let end = number.saturating_add(pages);
        if end > self.meta.last_page.saturating_add(1) || end.saturating_mul(self.meta.page_len) > self.pages.len {
            return Err(self
                .pages
                .damage(format_args!("{pages} pages from {number} are in use, but not all of them are in the file")));
        }
        // The pages after the first one have no header, but they must not be used twice either.
        if !(number + 1..end).all(|number| self.met.mark(number)) {
            return Err(self.pages.damage(format_args!("a page of the {pages} from {number} is in use twice")));
        }
        self.bytes += (pages - 1) * self.meta.page_len;
        let mut value = vec![0; value_len];
        self.pages.read(&mut value, number * self.meta.page_len + HEADER_LEN as u64)?;
        Ok(value)
    }

    /// Parses and checks the nodes of a page of `tree`.
    fn nodes<'p>(&self, below: &Below, tree: &Tree, page: &'p [u8]) -> Result<Nodes<'p>> {
        let number = below.number;
        let damage = |what: &str| self.pages.damage(format_args!("page {number} {what}"));
        let is_branch = match u16_at(page, 10) {
            BRANCH => true,
            LEAF => false,
            _ => return Err(damage("has an unknown kind")),
        };
        // All leaves must be on the last level, and all branches above it.
        if is_branch == (below.level == tree.depth) || below.level > tree.depth {
            return Err(damage("is on the wrong level of its tree"));
        }
        let nodes = parse_nodes(page, is_branch).ok_or_else(|| damage("has nodes that do not fit into it"))?;
        if nodes.len() < if is_branch { 2 } else { 1 } {
            return Err(damage("has too few nodes"));
        }
        // LMDB never looks at the key of a branch's first node, so it may be anything.
        let keys = nodes.iter().skip(is_branch.into()).map(|node| tree.in_order(node.key)).collect();
        let keys: Option<Vec<Vec<u8>>> = keys;
        match keys.filter(|keys| below.holds(keys)) {
            Some(keys) => Ok(Nodes { nodes, keys, is_branch }),
            None => Err(damage("has keys out of order")),
        }
    }
}

/// A node of a page.
struct PageNode<'p> {
    flags: u16,
    key: &'p [u8],
    /// In a branch, the number of the child page. Has no meaning in a leaf.
    page: u64,
    value_len: usize,
    /// The value, or the number of its overflow page. Empty in a branch.
    value: &'p [u8],
}

/// The nodes of a page, and their keys in the form in which they sort.
struct Nodes<'p> {
    nodes: Vec<PageNode<'p>>,
    /// In a branch, without the key of the first node.
    keys: Vec<Vec<u8>>,
    is_branch: bool,
}

impl Nodes<'_> {
    /// The child pages of a branch, with the bounds of their keys.
    fn below(&self, branch: &Below) -> Vec<Below> {
        let keys = self.keys.iter().cloned().map(Some);
        let from = std::iter::once(branch.from.clone()).chain(keys.clone());
        let to = keys.chain([branch.to.clone()]);
        let level = branch.level + 1;
        self.nodes
            .iter()
            .zip(from.zip(to))
            .map(|(node, (from, to))| Below { number: node.page, level, from, to })
            .collect()
    }
}

/// Parses the nodes of a page; `None` if they are invalid, or do not fill the page from `upper` to its end without
/// gaps.
fn parse_nodes(page: &[u8], is_branch: bool) -> Option<Vec<PageNode<'_>>> {
    let (lower, upper) = (usize::from(u16_at(page, 12)), usize::from(u16_at(page, 14)));
    let (offsets, rest) = page.get(HEADER_LEN..lower)?.as_chunks::<2>();
    if !rest.is_empty() || lower > upper || upper > page.len() {
        return None;
    }
    let mut places = Vec::with_capacity(offsets.len());
    let mut nodes = Vec::with_capacity(offsets.len());
    for offset in offsets {
        let start = usize::from(u16::from_ne_bytes(*offset));
        let bytes = page.get(start..).filter(|bytes| bytes.len() >= NODE_LEN)?;
        let (key, behind_key) = bytes[NODE_LEN..].split_at_checked(usize::from(u16_at(bytes, 6)))?;
        let (value_len, flags) = (u32_at(bytes, 0) as usize, u16_at(bytes, 4));
        let value = match (is_branch, flags) {
            (true, _) => &[],
            (false, 0) => behind_key.get(..value_len)?,
            (false, BIG_VALUE) => behind_key.get(..size_of::<u64>())?,
            _ => return None,
        };
        // LMDB rounds the size of a node up to an even number.
        places.push((start, start + (NODE_LEN + key.len() + value.len()).next_multiple_of(2)));
        let page = u64::from(u32_at(bytes, 0)) | u64::from(flags) << 32;
        nodes.push(PageNode { flags, key, page, value_len, value });
    }
    // The nodes may have any order in the page, but must neither overlap nor leave a gap.
    places.sort_unstable();
    let end = places.iter().try_fold(upper, |behind, (start, end)| (*start == behind).then_some(*end));
    (end == Some(page.len())).then_some(nodes)
}

/// The set of pages that a walk met.
struct Met {
    /// The number of pages in the file.
    pages: u64,
    /// One bit for each of them.
    inside: Vec<u64>,
    /// Met pages past the end of the file. Only the free list may name such pages.
    behind: HashSet<u64>,
}

impl Met {
    fn new(pages: u64) -> Met {
        Met { pages, inside: vec![0; pages.div_ceil(64) as usize], behind: HashSet::new() }
    }

    /// Marks a page as met. Returns `false` if it was marked before.
    fn mark(&mut self, number: u64) -> bool {
        if number >= self.pages {
            return self.behind.insert(number);
        }
        let (word, bit) = (&mut self.inside[(number / 64) as usize], 1 << (number % 64));
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_behind_the_file_are_told_from_those_inside() {
        for pages in [0, 1, 63, 64, 65, 100] {
            let mut met = Met::new(pages);
            assert!((0..pages + 70).all(|number| met.mark(number)));
            assert!(!(0..pages + 70).any(|number| met.mark(number)));
            assert_eq!(met.behind, HashSet::from_iter(pages..pages + 70));
        }
    }
}

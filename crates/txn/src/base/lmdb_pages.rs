//! LMDB's file as bytes: is it all there, and do its pages form trees?
//!
//! LMDB maps its file and trusts it: a page number behind the end of the file is a SIGBUS, an offset behind the end of a
//! page is a wild pointer, and a key that is not where it belongs is not found. So every page that is in use, every key and
//! every value is looked at before LMDB sees the file, unless it is long, and again when asked. This reads by calls and
//! checks each number before it follows it.
//!
//! ```text
//! file    meta | meta | page | page ...                  even and odd transactions take turns; the higher one counts
//! page    number (u64) | pad (u16) | flags (u16) | lower (u16) | upper (u16) | node offsets (u16 each) .. nodes
//!         an overflow page has its number of pages (u32) in place of lower and upper
//! node    in a branch: page number (48 bits) | key length (u16) | key
//!         in a leaf:   value length (u32) | flags (u16) | key length (u16) | key | value, or the number (u64) of the
//!                      overflow page with the value
//! meta    behind a page's first 16 bytes: magic (u32) | version (u32) | address (u64) | map length (u64)
//!         | free list's tree (48 bytes) | main tree (48) | last page (u64) | transaction (u64)
//! tree    page length (u32, the free list's tree only) | flags (u16) | depth (u16) | pages (3 x u64) | entries (u64)
//!         | root (u64)
//! ```
//!
//! Each page up to the last one is used once: by a tree, or named in the free list, whose values are page numbers (u64)
//! behind their count (u64), descending. A page that is both in use and free would be overwritten by the next commit.
//!
//! Keys ascend through a tree; those below a branch's node are not less than its key, which the first node need not have, and
//! less than the next one's. Nodes fill a page from `upper` to its end.
//!
//! A file may rightly end before the last page that its meta names, when the last pages are free and were never written.
//! A file that was cut looks the same, and only a walk over the pages that are in use tells the two apart.
//!
//! Another process may commit meanwhile. The pages of the state that the newest meta names stay as they are while it is
//! the newest, so what a walk finds wrong counts if it ends with the same meta with which it began.

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

/// Flag of a leaf's node whose value lies in an overflow page.
pub(super) const BIG_VALUE: u16 = 0x01;

/// Flags in the free list's tree of a base of ours: its keys are numbers, and the file is not a folder's.
const FREE_FLAGS: u16 = 0x4008;

/// Flags of the main tree: none.
const MAIN_FLAGS: u16 = 0;

/// Levels of a tree that LMDB can climb.
const DEPTH_MAX: u16 = 32;

/// The root of an empty tree.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// Walks begun anew because somebody committed, before it is taken for whole.
const WALKS_MAX: usize = 8;

/// Looks at the heads, because somebody wrote one meanwhile, before what they say is believed.
const LOOKS_MAX: usize = 8;

/// Keys from one bound to another.
pub(super) type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

const ALL_KEYS: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// The first damage that there is, if any. Of a file of more than `looked_through_max` bytes the heads are looked at, and its pages
/// only where it is shorter than they say.
pub(super) fn check_file(path: &Path, looked_through_max: u64) -> Result<()> {
    let (pages, meta) = Pages::open(path)?;
    let is_as_long = pages.len >= meta.last_page.saturating_add(1).saturating_mul(meta.page_len);
    match is_as_long && pages.len > looked_through_max {
        true => Ok(()),
        false => check_pages(path, &Cancel::new())?.into_result(),
    }
}

/// Looks at everything that the newest state has, and tells of every damage.
pub(super) fn check_pages(path: &Path, cancel: &Cancel) -> Result<BaseChecked> {
    for _ in 0..WALKS_MAX {
        let (checked, is_quiet) = check_once(path, cancel)?;
        if checked.is_whole() || is_quiet {
            return Ok(checked);
        }
    }
    Ok(BaseChecked::default())
}

/// The length of the file, the bytes of its free pages, and of those that were freed by the transaction `held_from` or a later one: who
/// reads the state of that sees them. The caller reads a state of the base meanwhile.
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

/// What is found, and whether nobody has committed meanwhile.
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
    let is_quiet = pages.newest_meta().map_or(true, |newest| newest.transaction == meta.transaction);
    Ok((checked, is_quiet))
}

/// The file of a base, read by calls.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    len: u64,
    path: PathBuf,
}

/// What one of the two heads says.
#[derive(Debug)]
pub(super) struct Meta {
    page_len: u64,
    free: Tree,
    main: Tree,
    last_page: u64,
    transaction: u64,
}

/// Where the main tree of one state begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeRoot {
    /// The number of its uppermost page, or [`NO_PAGE`].
    pub(super) page: u64,
    /// Levels of its pages.
    pub(super) depth: u16,
    pub(super) page_len: usize,
    /// Where the last page ends that the state may have.
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

    /// A key of this tree as bytes that order as it does; `None` if it has none like that.
    fn in_order(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.flags {
            FREE_FLAGS => Some(u64::from_ne_bytes(key.try_into().ok()?).to_be_bytes().to_vec()),
            _ => Some(key.to_vec()),
        }
    }
}

impl Pages {
    /// The file and its newest head.
    pub(super) fn open(path: &Path) -> Result<(Pages, Meta)> {
        let failed = |call: &str, e: &io::Error| Error::io(format_args!("{call} {}", path.display()), e);
        let file = File::open(path).map_err(|e| failed("open", &e))?;
        let mut pages = Pages { file, len: 0, path: path.to_owned() };
        let meta = pages.newest_meta()?;
        // Behind the head: somebody may commit, and what a head names is in the file before it is.
        pages.len = pages.file.metadata().map_err(|e| failed("stat", &e))?.len();
        Ok((pages, meta))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn damage(&self, what: impl std::fmt::Display) -> Error {
        Error::corrupt(format!("{}: {what}", self.path.display()))
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

    /// The head that counts.
    fn newest_meta(&self) -> Result<Meta> {
        let mut outcome = self.metas();
        for _ in 0..LOOKS_MAX {
            // A commit may come between the looks at the two, or during one. The head that counts is written over by the
            // second commit from now, so that a look is right which is followed by one that finds the same.
            let now = self.metas();
            match (&outcome, &now) {
                (Ok(before), Ok(now)) if before.transaction == now.transaction => break,
                (Err(before), Err(now)) if before == now => break,
                _ => outcome = now,
            }
        }
        outcome
    }

    /// The transaction that made the newest state, and the root of its tree.
    pub(super) fn newest_root(&self) -> Result<(u64, TreeRoot)> {
        let meta = self.newest_meta()?;
        let end = meta.last_page.saturating_add(1).saturating_mul(meta.page_len);
        let (page, depth) = (meta.main.root, meta.main.depth);
        Ok((meta.transaction, TreeRoot { page, depth, page_len: meta.page_len as usize, end }))
    }

    fn metas(&self) -> Result<Meta> {
        let first = self.meta(0)?;
        let second = self.meta(first.page_len)?;
        let odd = [&first, &second].map(|meta| meta.transaction % 2);
        if first.page_len != second.page_len || first.transaction.abs_diff(second.transaction) > 1 || odd != [0, 1] {
            return Err(self.damage("its two heads do not go together"));
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
                "{path}: version {version} of LMDB's format, and {VERSION} is what we read"
            )));
        }
        let page_len = u64::from(u32_at(fields, 24));
        if !page_len.is_power_of_two() || !(1 << 8..=1 << 15).contains(&page_len) {
            return Err(self.damage(format_args!("pages of {page_len} bytes in the head at offset {offset}")));
        }
        let (free, main) = (Tree::parse(&fields[24..]), Tree::parse(&fields[72..]));
        if (free.flags, main.flags) != (FREE_FLAGS, MAIN_FLAGS) || free.depth.max(main.depth) > DEPTH_MAX {
            return Err(self.damage(format_args!("the head at offset {offset} describes trees that are not ours")));
        }
        Ok(Meta { page_len, free, main, last_page: u64_at(fields, 120), transaction: u64_at(fields, 128) })
    }

    /// Visits every page in use, every entry and every number in the free list. Pages in use and free ones exclude each
    /// other, and together they have all pages behind the end of the file.
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
        for number in free {
            walk.free(number).or_else(&mut *damaged)?;
        }
        let missing = meta.last_page.saturating_add(1).saturating_sub(pages);
        if walk.met.behind.len() as u64 != missing {
            damaged(self.damage(format_args!("its last {missing} pages are missing, and not all of them are free")))?;
        }
        *page_bytes = walk.bytes;
        Ok(())
    }

    /// Visits the entries of a range of keys in the state of `meta`, ascending, as they are stored.
    pub(super) fn scan(&self, meta: &Meta, range: KeyRange<'_>, visit: &mut Visitor<'_>) -> Result<()> {
        let met = Met::new(self.len.div_ceil(meta.page_len));
        let mut walk = Walk { pages: self, meta, cancel: &Cancel::new(), met, bytes: 0 };
        walk.tree(&meta.main, range, &mut Err, &mut |_, key, stored| visit(key, stored))
    }
}

fn is_inside(range: &KeyRange<'_>, key: &[u8]) -> bool {
    RangeBounds::<[u8]>::contains(range, key)
}

/// Keeps a problem, unless there are enough of them. What ends the walk is no problem but its end.
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

/// The page numbers in a value of the free list.
fn free_numbers(value: &[u8]) -> Option<Vec<u64>> {
    let (words, _) = value.as_chunks::<{ size_of::<u64>() }>();
    let (count, numbers) = words.split_first()?;
    let numbers = numbers.get(..usize::try_from(u64::from_ne_bytes(*count)).ok()?)?;
    let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect();
    // LMDB looks for neighbours by their distance in the list.
    numbers.is_sorted_by(|one, next| one > next).then_some(numbers)
}

/// A walk over the pages of one state. Each page may be met once.
struct Walk<'a> {
    pages: &'a Pages,
    meta: &'a Meta,
    cancel: &'a Cancel,
    met: Met,
    /// Bytes of the pages that were met and not free.
    bytes: u64,
}

/// A page that is to be visited.
struct Below {
    number: u64,
    /// 1 for the root.
    level: u16,
    /// The keys in it are not less than this,
    from: Option<Vec<u8>>,
    /// and less than this.
    to: Option<Vec<u8>>,
}

impl Below {
    /// Whether no key of `range` can be there.
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

    /// Whether ascending keys lie where the page's keys have to.
    fn holds(&self, keys: &[Vec<u8>]) -> bool {
        let (first, last) = (keys.first(), keys.last());
        keys.is_sorted_by(|one, next| one < next)
            && self.from.as_ref().is_none_or(|from| first.is_none_or(|first| first >= from))
            && self.to.as_ref().is_none_or(|to| last.is_none_or(|last| last < to))
    }
}

/// Takes the number of a leaf, one of its keys and the value, and says whether to go on.
type Visit<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<bool> + 'a;

/// Takes what is wrong, and says whether to go on with the rest.
type Damaged<'a> = dyn FnMut(Error) -> Result<()> + 'a;

impl Walk<'_> {
    /// Visits the pages of one tree that can have keys of `range`, and the entries that have them.
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
        if range == ALL_KEYS && entries != tree.entries {
            damaged(self.pages.damage(format_args!("a tree of {} entries has {entries}", tree.entries)))?;
        }
        Ok(())
    }

    /// Reads from the start of page `number`, which is the first of `count`, and marks all of them as met.
    fn load(&mut self, number: u64, count: u64, buf: &mut [u8]) -> Result<()> {
        let end = number.saturating_add(count);
        if number < 2
            || end > self.meta.last_page.saturating_add(1)
            || end.saturating_mul(self.meta.page_len) > self.pages.len
        {
            return Err(self.pages.damage(format_args!("page {number} is in use and not in the file")));
        }
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
            true => Err(self.pages.damage(format_args!("page {number} is free and not in the file"))),
            false => Err(self.pages.damage(format_args!("page {number} is free, and in use or free twice"))),
        }
    }

    /// Visits the entries of a leaf, and says whether to go on.
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

    /// The value that fills the page `number` and those behind it.
    fn big_value(&mut self, number: u64, value_len: usize) -> Result<Vec<u8>> {
        let count = ((HEADER_LEN + value_len) as u64).div_ceil(self.meta.page_len);
        let mut header = [0; HEADER_LEN];
        self.load(number, 1, &mut header)?;
        // A value that became shorter has more pages than it needs. All of them become free with it.
        let pages = u64::from(u32_at(&header, 12));
        if u16_at(&header, 10) != OVERFLOW || pages < count {
            return Err(self.pages.damage(format_args!("page {number} does not hold a value of {value_len} bytes")));
        }
        let end = number.saturating_add(pages);
        if end > self.meta.last_page.saturating_add(1) || end.saturating_mul(self.meta.page_len) > self.pages.len {
            return Err(self.pages.damage(format_args!("{pages} pages from {number} are in use and not in the file")));
        }
        if !(number + 1..end).all(|number| self.met.mark(number)) {
            return Err(self.pages.damage(format_args!("a page of the {pages} from {number} is in use twice")));
        }
        self.bytes += (pages - 1) * self.meta.page_len;
        let mut value = vec![0; value_len];
        self.pages.read(&mut value, number * self.meta.page_len + HEADER_LEN as u64)?;
        Ok(value)
    }

    /// The nodes of a page of `tree`.
    fn nodes<'p>(&self, below: &Below, tree: &Tree, page: &'p [u8]) -> Result<Nodes<'p>> {
        let number = below.number;
        let damage = |what: &str| self.pages.damage(format_args!("page {number} {what}"));
        let is_branch = match u16_at(page, 10) {
            BRANCH => true,
            LEAF => false,
            _ => return Err(damage("is of unknown kind")),
        };
        if is_branch == (below.level == tree.depth) || below.level > tree.depth {
            return Err(damage("is not as deep in its tree as it should be"));
        }
        let nodes = parse_nodes(page, is_branch).ok_or_else(|| damage("has nodes that do not fit into it"))?;
        if nodes.len() < if is_branch { 2 } else { 1 } {
            return Err(damage("has too few nodes"));
        }
        // The key of a branch's first node is never looked at.
        let keys = nodes.iter().skip(is_branch.into()).map(|node| tree.in_order(node.key)).collect();
        let keys: Option<Vec<Vec<u8>>> = keys;
        match keys.filter(|keys| below.holds(keys)) {
            Some(keys) => Ok(Nodes { nodes, keys, is_branch }),
            None => Err(damage("has keys out of order")),
        }
    }
}

/// A node of a page.
struct Node<'p> {
    flags: u16,
    key: &'p [u8],
    /// In a branch the number of a page, in a leaf the length of the value.
    page: u64,
    value_len: usize,
    /// The value or the number of its page; nothing in a branch.
    value: &'p [u8],
}

/// The nodes of a page, and what their keys order by.
struct Nodes<'p> {
    nodes: Vec<Node<'p>>,
    /// Of a branch without the first.
    keys: Vec<Vec<u8>>,
    is_branch: bool,
}

impl Nodes<'_> {
    /// The pages of a branch.
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

/// The nodes of a page, which lie without gaps from `upper` to its end; `None` if they do not.
fn parse_nodes(page: &[u8], is_branch: bool) -> Option<Vec<Node<'_>>> {
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
        places.push((start, start + (NODE_LEN + key.len() + value.len()).next_multiple_of(2)));
        let page = u64::from(u32_at(bytes, 0)) | u64::from(flags) << 32;
        nodes.push(Node { flags, key, page, value_len, value });
    }
    places.sort_unstable();
    let end = places.iter().try_fold(upper, |behind, (start, end)| (*start == behind).then_some(*end));
    (end == Some(page.len())).then_some(nodes)
}

/// The pages that a walk has met.
struct Met {
    /// Pages of the file.
    pages: u64,
    /// A bit for each of them.
    inside: Vec<u64>,
    /// Pages behind the end of the file, which only the free list may name.
    behind: HashSet<u64>,
}

impl Met {
    fn new(pages: u64) -> Met {
        Met { pages, inside: vec![0; pages.div_ceil(64) as usize], behind: HashSet::new() }
    }

    /// Marks a page. False if it was marked before.
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
    u16::from_ne_bytes(*bytes[at..].first_chunk().expect("the field lies inside"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("the field lies inside"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*bytes[at..].first_chunk().expect("the field lies inside"))
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

//! LMDB's file as bytes: is it all there, and do its pages form trees?
//!
//! LMDB maps its file and trusts it: a page number behind the end of the file is a SIGBUS, and an offset behind the end
//! of a page is a wild pointer. So before LMDB sees the file this looks at what is cheap to see, and at every page when
//! there is a reason to or when asked. It reads by calls and checks each number before it follows it.
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
//! behind their count (u64). A page that is both in use and free would be overwritten by the next commit.
//!
//! A file may rightly end before the last page that its meta names, when the last pages are free and were never written.
//! A file that was cut looks the same, and only a walk over the pages that are in use tells the two apart.
//!
//! Another process may commit meanwhile. The pages of the state that the newest meta names stay as they are while it is
//! the newest, so a walk counts if it ends with the same meta with which it began.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result};

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
const META_LEN: usize = 136;
const NODE_LEN: usize = 8;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;

/// Flag of a leaf's node whose value lies in an overflow page.
const BIG_VALUE: u16 = 0x01;

/// Flags in the free list's tree of a base of ours: its keys are numbers, and the file is not a folder's.
const FREE_FLAGS: u16 = 0x4008;

/// Flags of the main tree: none.
const MAIN_FLAGS: u16 = 0;

/// Levels of a tree that LMDB can climb.
const DEPTH_MAX: u16 = 32;

/// The root of an empty tree.
const NO_PAGE: u64 = u64::MAX;

/// Walks begun anew because somebody committed, before the last one is believed.
const WALKS_MAX: usize = 8;

/// Checks what is cheap: both metas, and that the file is as long as they say. Walks the pages if it is shorter.
pub(super) fn check_file(path: &Path) -> Result<()> {
    let pages = Pages::open(path)?;
    let meta = pages.newest_meta()?;
    if pages.len >= meta.last_page.saturating_add(1).saturating_mul(meta.page_len) {
        return Ok(());
    }
    walk_until_quiet(path)
}

/// Checks every page that the newest state uses.
pub(super) fn check_pages(path: &Path) -> Result<()> {
    walk_until_quiet(path)
}

fn walk_until_quiet(path: &Path) -> Result<()> {
    for _ in 0..WALKS_MAX {
        let pages = Pages::open(path)?;
        let meta = pages.newest_meta()?;
        let outcome = pages.walk(&meta);
        if pages.newest_meta()?.transaction == meta.transaction {
            return outcome;
        }
    }
    Ok(())
}

struct Pages<'a> {
    file: File,
    len: u64,
    path: &'a Path,
}

struct Meta {
    page_len: u64,
    free: Tree,
    main: Tree,
    last_page: u64,
    transaction: u64,
}

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
}

impl<'a> Pages<'a> {
    fn open(path: &'a Path) -> Result<Pages<'a>> {
        let open = || -> io::Result<(File, u64)> {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        };
        let (file, len) = open().map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        Ok(Pages { file, len, path })
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

    fn newest_meta(&self) -> Result<Meta> {
        // Somebody may commit between the looks at the two, or during one.
        self.metas().or_else(|_| self.metas()).or_else(|_| self.metas())
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
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("{}: version {version} of LMDB's format, and {VERSION} is what we read", self.path.display()),
            ));
        }
        let page_len = u64::from(u32_at(fields, 24));
        if !page_len.is_power_of_two() || !(1 << 8..=1 << 16).contains(&page_len) {
            return Err(self.damage(format_args!("pages of {page_len} bytes in the head at offset {offset}")));
        }
        let (free, main) = (Tree::parse(&fields[24..]), Tree::parse(&fields[72..]));
        if (free.flags, main.flags) != (FREE_FLAGS, MAIN_FLAGS) || free.depth.max(main.depth) > DEPTH_MAX {
            return Err(self.damage(format_args!("the head at offset {offset} describes trees that are not ours")));
        }
        Ok(Meta { page_len, free, main, last_page: u64_at(fields, 120), transaction: u64_at(fields, 128) })
    }

    /// Visits every page in use and every number in the free list. Together they are all pages up to the last one.
    fn walk(&self, meta: &Meta) -> Result<()> {
        let pages = self.len.div_ceil(meta.page_len);
        let mut walk = Walk { pages: self, meta, met: Met::new(pages) };
        walk.tree(&meta.main, &mut |_, _| Ok(()))?;
        let mut free = Vec::new();
        walk.tree(&meta.free, &mut |page, value| {
            let numbers = free_numbers(value);
            free.extend(numbers.ok_or_else(|| self.damage(format_args!("page {page} holds no list of free pages")))?);
            Ok(())
        })?;
        free.into_iter().try_for_each(|number| walk.free(number))?;
        let missing = meta.last_page.saturating_add(1).saturating_sub(pages);
        if walk.met.behind.len() as u64 != missing {
            return Err(self.damage(format_args!("its last {missing} pages are missing, and not all of them are free")));
        }
        Ok(())
    }
}

/// The page numbers in a value of the free list.
fn free_numbers(value: &[u8]) -> Option<Vec<u64>> {
    let (words, _) = value.as_chunks::<{ size_of::<u64>() }>();
    let (count, numbers) = words.split_first()?;
    let numbers = numbers.get(..usize::try_from(u64::from_ne_bytes(*count)).ok()?)?;
    Some(numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect())
}

/// A walk over the pages of one state. Each page may be met once.
struct Walk<'a> {
    pages: &'a Pages<'a>,
    meta: &'a Meta,
    met: Met,
}

/// Takes the number of a leaf and one of its values.
type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

impl Walk<'_> {
    /// Visits the pages and values of one tree.
    fn tree(&mut self, tree: &Tree, visit: &mut Visit<'_>) -> Result<()> {
        let mut page = vec![0; self.meta.page_len as usize];
        let mut left = Vec::from_iter((tree.root != NO_PAGE).then_some(tree.root));
        let mut entries = 0;
        while let Some(number) = left.pop() {
            self.load(number, 1, &mut page)?;
            match u16_at(&page, 10) & (BRANCH | LEAF | OVERFLOW) {
                BRANCH => self.branch(number, &page, &mut left)?,
                LEAF => entries += self.leaf(number, &page, visit)?,
                flags => return Err(self.pages.damage(format_args!("page {number} is of unknown kind {flags:#x}"))),
            }
        }
        if entries != tree.entries {
            return Err(self.pages.damage(format_args!("a tree of {} entries has {entries}", tree.entries)));
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
        Ok(())
    }

    fn free(&mut self, number: u64) -> Result<()> {
        match self.met.mark(number) {
            true if (2..=self.meta.last_page).contains(&number) => Ok(()),
            true => Err(self.pages.damage(format_args!("page {number} is free and not in the file"))),
            false => Err(self.pages.damage(format_args!("page {number} is free, and in use or free twice"))),
        }
    }

    fn branch(&self, number: u64, page: &[u8], left: &mut Vec<u64>) -> Result<()> {
        let nodes = self.nodes(number, page)?;
        if nodes.len() < 2 {
            return Err(self.pages.damage(format_args!("page {number} branches into {}", nodes.len())));
        }
        left.extend(nodes.into_iter().map(|node| u64::from(u32_at(node, 0)) | u64::from(u16_at(node, 4)) << 32));
        Ok(())
    }

    /// Visits the values of a leaf. How many there are.
    fn leaf(&mut self, number: u64, page: &[u8], visit: &mut Visit<'_>) -> Result<u64> {
        let nodes = self.nodes(number, page)?;
        for node in &nodes {
            let (value_len, flags) = (u32_at(node, 0) as usize, u16_at(node, 4));
            let behind_key = &node[NODE_LEN + usize::from(u16_at(node, 6))..];
            match flags {
                0 if behind_key.len() >= value_len => visit(number, &behind_key[..value_len])?,
                BIG_VALUE if behind_key.len() >= size_of::<u64>() => {
                    visit(number, &self.big_value(u64_at(behind_key, 0), value_len)?)?;
                }
                _ => return Err(self.pages.damage(format_args!("page {number} has a value that does not fit"))),
            }
        }
        Ok(nodes.len() as u64)
    }

    /// The value that fills the page `number` and those behind it.
    fn big_value(&mut self, number: u64, value_len: usize) -> Result<Vec<u8>> {
        let count = ((HEADER_LEN + value_len) as u64).div_ceil(self.meta.page_len);
        let mut header = [0; HEADER_LEN];
        self.load(number, count, &mut header)?;
        if u16_at(&header, 10) & OVERFLOW == 0 || u64::from(u32_at(&header, 12)) < count {
            return Err(self.pages.damage(format_args!("page {number} does not hold a value of {value_len} bytes")));
        }
        let mut value = vec![0; value_len];
        self.pages.read(&mut value, number * self.meta.page_len + HEADER_LEN as u64)?;
        Ok(value)
    }

    /// The nodes of a page, each from its start to the end of the page.
    fn nodes<'p>(&self, number: u64, page: &'p [u8]) -> Result<Vec<&'p [u8]>> {
        let lower = usize::from(u16_at(page, 12));
        let offsets = page.get(HEADER_LEN..lower).filter(|offsets| offsets.len().is_multiple_of(2));
        let nodes = offsets.and_then(|offsets| {
            let (offsets, _) = offsets.as_chunks::<2>();
            offsets.iter().map(|at| page.get(usize::from(u16::from_ne_bytes(*at))..)).collect::<Option<Vec<_>>>()
        });
        let whole = |node: &&[u8]| node.len() >= NODE_LEN && node.len() >= NODE_LEN + usize::from(u16_at(node, 6));
        let nodes = nodes.filter(|nodes| nodes.iter().all(whole));
        nodes.ok_or_else(|| self.pages.damage(format_args!("page {number} has a node outside of it")))
    }
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

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(*bytes[at..].first_chunk().expect("the field lies inside"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("the field lies inside"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
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

//! Reads an LMDB file with read calls, and checks each number before it follows it.
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

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rowmill_base::{Error, Result};

use super::super::Visitor;

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
const META_LEN: usize = 136;
const NODE_LEN: usize = 8;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;

/// Flag of a leaf's node whose value is stored in overflow pages.
const BIG_VALUE: u16 = 0x01;

/// The most levels of a tree that LMDB can descend.
const DEPTH_MAX: u16 = 32;

/// The root of an empty tree.
const NO_PAGE: u64 = u64::MAX;

/// The newest state in an LMDB file.
#[derive(Debug)]
pub(super) struct LmdbPages {
    file: File,
    path: PathBuf,
    meta: LmdbMeta,
}

/// The content of one of the two heads.
#[derive(Debug)]
struct LmdbMeta {
    page_len: u64,
    depth: u16,
    entries: u64,
    root: u64,
    last_page: u64,
    transaction: u64,
}

/// The keys that a page may have.
#[derive(Clone, Copy)]
struct LmdbBounds<'a> {
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
}

/// A node of a page.
struct LmdbNode<'p> {
    key: &'p [u8],
    /// In a branch, the number of the child page.
    page: u64,
    flags: u16,
    value_len: usize,
    /// The value, or the number of its overflow page. Empty in a branch.
    value: &'p [u8],
}

impl LmdbPages {
    /// Opens the file and reads its newest head.
    pub(super) fn open(path: &Path) -> Result<LmdbPages> {
        let file = File::open(path).map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        let none = LmdbMeta { page_len: 0, depth: 0, entries: 0, root: NO_PAGE, last_page: 0, transaction: 0 };
        let mut pages = LmdbPages { file, path: path.to_owned(), meta: none };
        let first = pages.meta(0)?;
        // The second head begins with the second page, so its place depends on the page length.
        let second = pages.meta(first.page_len)?;
        // Even transactions write the first head, odd ones the second, and the two are consecutive.
        let odd = [&first, &second].map(|meta| meta.transaction % 2);
        if first.page_len != second.page_len || first.transaction.abs_diff(second.transaction) > 1 || odd != [0, 1] {
            return Err(pages.damage("its two heads contradict each other"));
        }
        pages.meta = if second.transaction > first.transaction { second } else { first };
        Ok(pages)
    }

    fn meta(&self, offset: u64) -> Result<LmdbMeta> {
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
        let depth = u16_at(fields, 78);
        if !page_len.is_power_of_two() || !(1 << 8..=1 << 15).contains(&page_len) || depth > DEPTH_MAX {
            return Err(self.damage(format_args!("the head at offset {offset} describes no tree of this database")));
        }
        let (entries, root) = (u64_at(fields, 104), u64_at(fields, 112));
        Ok(LmdbMeta {
            page_len,
            depth,
            entries,
            root,
            last_page: u64_at(fields, 120),
            transaction: u64_at(fields, 128),
        })
    }

    /// Visits all entries, ascending, with their values as stored.
    pub(super) fn scan(&self, visit: &mut Visitor<'_>) -> Result<()> {
        if self.meta.root == NO_PAGE {
            return Ok(());
        }
        let mut walk = LmdbWalk { pages: self, met: HashSet::new(), entries: 0, visit };
        let goes_on = walk.page(self.meta.root, 1, LmdbBounds { lower: None, upper: None })?;
        if goes_on && walk.entries != self.meta.entries {
            let found = walk.entries;
            return Err(self.damage(format_args!("the tree should have {} entries and has {found}", self.meta.entries)));
        }
        Ok(())
    }

    fn damage(&self, what: impl std::fmt::Display) -> Error {
        Error::corrupt(format!("{}: {what}", self.path.display()))
            .in_file(self.path.display())
            .hint("the ordered base of this database is damaged; restore the directory from a backup")
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damage(format_args!("the file ends before offset {}", offset.saturating_add(buf.len() as u64)))
            }
            _ => Error::io(format_args!("read {}", self.path.display()), &e),
        })
    }
}

/// A walk over the pages of a tree.
struct LmdbWalk<'a, 'v> {
    pages: &'a LmdbPages,
    /// The pages that the walk met. It must not meet a page twice, so it always ends.
    met: HashSet<u64>,
    entries: u64,
    visit: &'a mut Visitor<'v>,
}

impl LmdbWalk<'_, '_> {
    /// Visits the entries of a page and of the pages below it. Returns whether to continue. The root has level 1.
    fn page(&mut self, number: u64, level: u16, bounds: LmdbBounds<'_>) -> Result<bool> {
        let mut bytes = vec![0; self.pages.meta.page_len as usize];
        self.load(number, &mut bytes)?;
        let damage = |what: &str| self.pages.damage(format_args!("page {number} {what}"));
        let is_branch = match u16_at(&bytes, 10) {
            BRANCH => true,
            LEAF => false,
            _ => return Err(damage("has an unknown kind")),
        };
        if is_branch == (level == self.pages.meta.depth) || level > self.pages.meta.depth {
            return Err(damage("is on the wrong level of its tree"));
        }
        let nodes = parse_nodes(&bytes, is_branch).ok_or_else(|| damage("has nodes that do not fit into it"))?;
        // LMDB never looks at the key of a branch's first node, so it may be anything.
        let keys: Vec<&[u8]> = nodes.iter().skip(is_branch.into()).map(|node| node.key).collect();
        let is_inside = keys.first().is_none_or(|first| bounds.lower.is_none_or(|lower| lower <= *first))
            && keys.last().is_none_or(|last| bounds.upper.is_none_or(|upper| *last < upper));
        if !is_inside || !keys.is_sorted_by(|one, next| one < next) {
            return Err(damage("has keys out of order"));
        }
        for (at, node) in nodes.iter().enumerate() {
            let goes_on = if is_branch {
                let lower = if at == 0 { bounds.lower } else { Some(node.key) };
                let upper = nodes.get(at + 1).map(|next| next.key).or(bounds.upper);
                self.page(node.page, level + 1, LmdbBounds { lower, upper })?
            } else {
                self.entries += 1;
                match node.flags {
                    BIG_VALUE => {
                        let value = self.big_value(u64_at(node.value, 0), node.value_len)?;
                        (self.visit)(node.key, &value)?
                    }
                    _ => (self.visit)(node.key, node.value)?,
                }
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the start of page `number`.
    fn load(&mut self, number: u64, bytes: &mut [u8]) -> Result<()> {
        if !(2..=self.pages.meta.last_page).contains(&number) {
            return Err(self.pages.damage(format_args!("page {number} is in use, but it is not in the file")));
        }
        if !self.met.insert(number) {
            return Err(self.pages.damage(format_args!("page {number} is in use twice")));
        }
        self.pages.read(bytes, number.saturating_mul(self.pages.meta.page_len))?;
        match u64_at(bytes, 0) == number {
            true => Ok(()),
            false => Err(self.pages.damage(format_args!("page {number} says that it is page {}", u64_at(bytes, 0)))),
        }
    }

    /// Reads a value that fills page `number` and the pages after it.
    fn big_value(&mut self, number: u64, value_len: usize) -> Result<Vec<u8>> {
        let mut header = [0; HEADER_LEN];
        self.load(number, &mut header)?;
        let room = u64::from(u32_at(&header, 12)).saturating_mul(self.pages.meta.page_len);
        let is_in_file = number + u64::from(u32_at(&header, 12)) <= self.pages.meta.last_page + 1;
        if u16_at(&header, 10) != OVERFLOW || room < (HEADER_LEN + value_len) as u64 || !is_in_file {
            return Err(self.pages.damage(format_args!("page {number} does not hold a value of {value_len} bytes")));
        }
        let mut value = vec![0; value_len];
        self.pages.read(&mut value, number * self.pages.meta.page_len + HEADER_LEN as u64)?;
        Ok(value)
    }
}

/// Parses the nodes of a page; `None` if they do not fit into it.
fn parse_nodes(page: &[u8], is_branch: bool) -> Option<Vec<LmdbNode<'_>>> {
    let (offsets, rest) = page.get(HEADER_LEN..usize::from(u16_at(page, 12)))?.as_chunks::<2>();
    if !rest.is_empty() || offsets.is_empty() {
        return None;
    }
    let node = |offset: &[u8; 2]| {
        let bytes = page.get(usize::from(u16::from_ne_bytes(*offset))..).filter(|bytes| bytes.len() >= NODE_LEN)?;
        let (key, after_key) = bytes[NODE_LEN..].split_at_checked(usize::from(u16_at(bytes, 6)))?;
        let (value_len, flags) = (u32_at(bytes, 0) as usize, u16_at(bytes, 4));
        let value = match (is_branch, flags) {
            (true, _) => &[],
            (false, 0) => after_key.get(..value_len)?,
            (false, BIG_VALUE) => after_key.get(..size_of::<u64>())?,
            _ => return None,
        };
        let page = u64::from(u32_at(bytes, 0)) | u64::from(flags) << 32;
        Some(LmdbNode { key, page, flags, value_len, value })
    };
    offsets.iter().map(node).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

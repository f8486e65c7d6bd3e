//! LMDB's file as bytes: is it all there, and do its pages form trees?
//!
//! LMDB maps its file and trusts it: a page number behind the end of the file is a SIGBUS, and an offset behind the end
//! of a page is a wild pointer. So before LMDB sees the file this looks at what is cheap to see, and at every page when
//! there is a reason to or when asked. It reads by calls and checks each number before it follows it.
//!
//! ```text
//! file    meta | meta | page | page ...                  the meta with the higher transaction counts
//! page    number (u64) | pad (u16) | flags (u16) | lower (u16) | upper (u16) | node offsets (u16 each) .. nodes
//!         an overflow page has its number of pages (u32) in place of lower and upper
//! node    in a branch: page number (48 bits) | key length (u16) | key
//!         in a leaf:   value length (u32) | flags (u16) | key length (u16) | key | value, or the number (u64) of the
//!                      overflow page with the value
//! meta    behind a page's first 16 bytes: magic (u32) | version (u32) | address (u64) | map length (u64)
//!         | free list's tree (48 bytes) | main tree (48) | last page (u64) | transaction (u64)
//! tree    page length (u32, the free list's tree only) | flags (u16) | depth (u16) | counts (4 x u64) | root (u64)
//! ```
//!
//! A file may rightly end before the last page that its meta names, when the last pages are free and were never written.
//! A file that was cut looks the same, and only a walk over the pages that are in use tells the two apart.
//!
//! Another process may commit meanwhile. The pages of the state that the newest meta names stay as they are while it is
//! the newest, so a walk counts if it ends with the same meta with which it began.

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

/// The root of an empty tree.
const NO_PAGE: u64 = u64::MAX;

/// Walks begun anew because somebody committed, before the last one is believed.
const WALKS_MAX: usize = 8;

/// Checks what is cheap: both metas, and that the file is as long as they say. Walks the pages if it is shorter.
pub(super) fn check_file(path: &Path) -> Result<()> {
    let pages = Pages::open(path)?;
    let meta = pages.newest_meta()?;
    if pages.len >= (meta.last_page + 1).saturating_mul(meta.page_len) {
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
    roots: [u64; 2],
    last_page: u64,
    transaction: u64,
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
        let first = self.meta(0)?;
        let second = self.meta(first.page_len)?;
        if first.page_len != second.page_len {
            return Err(self.damage("its two heads disagree about the length of a page"));
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
        let roots = [u64_at(fields, 64), u64_at(fields, 112)];
        Ok(Meta { page_len, roots, last_page: u64_at(fields, 120), transaction: u64_at(fields, 128) })
    }

    /// Visits every page in use. Each may be met once.
    fn walk(&self, meta: &Meta) -> Result<()> {
        let mut met = Met::new(self.len.div_ceil(meta.page_len));
        let mut page = vec![0; meta.page_len as usize];
        let mut left: Vec<u64> = meta.roots.into_iter().filter(|root| *root != NO_PAGE).collect();
        while let Some(number) = left.pop() {
            self.load(number, 1, meta, &mut met, &mut page)?;
            match u16_at(&page, 10) & (BRANCH | LEAF | OVERFLOW) {
                BRANCH => self.branch(number, &page, &mut left)?,
                LEAF => self.leaf(number, &page, meta, &mut met)?,
                flags => return Err(self.damage(format_args!("page {number} is of unknown kind {flags:#x}"))),
            }
        }
        Ok(())
    }

    /// Reads the page `number`, which is the first of `count`, and marks all of them as met.
    fn load(&self, number: u64, count: u64, meta: &Meta, met: &mut Met, page: &mut [u8]) -> Result<()> {
        let end = number.saturating_add(count);
        if number < 2 || end > meta.last_page + 1 || end > met.pages {
            return Err(self.damage(format_args!("page {number} is in use and not in the file")));
        }
        if !(number..end).all(|number| met.mark(number)) {
            return Err(self.damage(format_args!("page {number} is in use twice")));
        }
        if end * meta.page_len > self.len {
            return Err(self.damage(format_args!("page {number} is cut")));
        }
        self.read(page, number * meta.page_len)?;
        if u64_at(page, 0) != number {
            return Err(self.damage(format_args!("page {number} says that it is page {}", u64_at(page, 0))));
        }
        Ok(())
    }

    /// The nodes of a page, each from its start to the end of the page.
    fn nodes<'p>(&self, number: u64, page: &'p [u8]) -> Result<Vec<&'p [u8]>> {
        let lower = usize::from(u16_at(page, 12));
        let offsets = page.get(HEADER_LEN..lower).filter(|offsets| offsets.len().is_multiple_of(2));
        let nodes = offsets.and_then(|offsets| {
            let (offsets, _) = offsets.as_chunks::<2>();
            offsets.iter().map(|at| page.get(usize::from(u16::from_ne_bytes(*at))..)).collect::<Option<Vec<_>>>()
        });
        let nodes = nodes.filter(|nodes| {
            nodes.iter().all(|node| node.len() >= NODE_LEN && node.len() >= NODE_LEN + usize::from(u16_at(node, 6)))
        });
        nodes.ok_or_else(|| self.damage(format_args!("page {number} has a node outside of it")))
    }

    fn branch(&self, number: u64, page: &[u8], left: &mut Vec<u64>) -> Result<()> {
        let nodes = self.nodes(number, page)?;
        if nodes.len() < 2 {
            return Err(self.damage(format_args!("page {number} branches into {}", nodes.len())));
        }
        left.extend(nodes.into_iter().map(|node| u64::from(u32_at(node, 0)) | u64::from(u16_at(node, 4)) << 32));
        Ok(())
    }

    fn leaf(&self, number: u64, page: &[u8], meta: &Meta, met: &mut Met) -> Result<()> {
        for node in self.nodes(number, page)? {
            let (value_len, flags) = (u32_at(node, 0) as usize, u16_at(node, 4));
            let value = &node[NODE_LEN + usize::from(u16_at(node, 6))..];
            match flags {
                0 if value.len() >= value_len => {}
                BIG_VALUE if value.len() >= size_of::<u64>() => {
                    self.big_value(u64_at(value, 0), value_len as u64, meta, met)?;
                }
                _ => return Err(self.damage(format_args!("page {number} has a value that does not fit"))),
            }
        }
        Ok(())
    }

    fn big_value(&self, number: u64, value_len: u64, meta: &Meta, met: &mut Met) -> Result<()> {
        let count = (HEADER_LEN as u64 + value_len).div_ceil(meta.page_len);
        let mut header = [0; HEADER_LEN];
        self.load(number, count, meta, met, &mut header)?;
        if u16_at(&header, 10) & OVERFLOW == 0 || u64::from(u32_at(&header, 12)) < count {
            return Err(self.damage(format_args!("page {number} does not hold a value of {value_len} bytes")));
        }
        Ok(())
    }
}

/// A bit per page of the file.
struct Met {
    pages: u64,
    bits: Vec<u64>,
}

impl Met {
    fn new(pages: u64) -> Met {
        Met { pages, bits: vec![0; pages.div_ceil(64) as usize] }
    }

    /// Marks a page of the file. False if it was marked before.
    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = (&mut self.bits[(number / 64) as usize], 1 << (number % 64));
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

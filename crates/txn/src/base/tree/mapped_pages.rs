//! The mapped pages of a file, each checked when it is first read.
//!
//! A page is checked against the checksum in the pointer that led to it, before any of its bytes is used. After that we
//! remember the checksum for the page's number. A page that is written again has another checksum, so a pointer to it
//! does not match what we remember, and the page is checked again.
//!
//! Before we touch a page for the first time, we let the kernel bring it in. A file that is too short, or a disk that
//! fails, is then an error and not a signal.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rowmill_base::{Error, Result};
use rowmill_io::Mapping;

use super::page::{LongValue, PAGE_BYTES, Page, PagePointer, check_page, checksum_of};

/// Pages per part of the table of checksums, which is allocated when one of them is first read.
const PAGES_PER_PART: usize = 1 << 12;

/// Pages that the kernel is asked for at once. A call costs about as much as checking a page, and the kernel reads more
/// than one page from a disk anyway.
const PAGES_PER_POPULATE: usize = 16;

/// The mapping of a tree's file, and which of its pages were checked.
#[derive(Debug)]
pub(super) struct MappedPages {
    mapping: Arc<Mapping>,
    /// The name of the file, for errors.
    name: String,
    parts: Box<[OnceLock<Box<CheckedPart>>]>,
}

/// What we know of some consecutive pages.
#[derive(Debug)]
struct CheckedPart {
    /// The checksums that the pages had when they were checked; 0 for the others.
    checksums: [AtomicU32; PAGES_PER_PART],
    /// A bit for each group of pages that the kernel was asked for.
    populated: [AtomicU64; PAGES_PER_PART / PAGES_PER_POPULATE / 64],
}

impl CheckedPart {
    fn new() -> Box<CheckedPart> {
        Box::new(CheckedPart {
            checksums: [const { AtomicU32::new(0) }; PAGES_PER_PART],
            populated: [const { AtomicU64::new(0) }; PAGES_PER_PART / PAGES_PER_POPULATE / 64],
        })
    }
}

impl MappedPages {
    pub(super) fn new(mapping: Arc<Mapping>, name: String) -> MappedPages {
        let pages = mapping.capacity() as usize / PAGE_BYTES;
        let parts = (0..pages.div_ceil(PAGES_PER_PART)).map(|_| OnceLock::new()).collect();
        MappedPages { mapping, name, parts }
    }

    /// The same mapping, with no page checked.
    pub(super) fn unchecked(&self) -> MappedPages {
        MappedPages::new(Arc::clone(&self.mapping), self.name.clone())
    }

    /// The number of pages that the mapping has room for.
    pub(super) fn capacity(&self) -> u64 {
        self.mapping.capacity() / PAGE_BYTES as u64
    }

    /// Returns the page that `pointer` names, on a level of the tree.
    ///
    /// # Safety
    ///
    /// `pointer` must come from a state that no thread of any process may overwrite while the page is used.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) unsafe fn page(&self, pointer: PagePointer, level: u32) -> Result<Page<'_>> {
        let is_checked = self.is_checked(pointer);
        if !is_checked {
            self.populate(pointer.number, 1)?;
        }
        // SAFETY: the caller guarantees that the page of this pointer is not written.
        let bytes = unsafe { self.mapping.slice(pointer.number.saturating_mul(PAGE_BYTES as u64), PAGE_BYTES)? };
        let bytes = bytes.first_chunk().expect("the slice has the length of a page");
        if !is_checked {
            self.check(pointer, bytes)?;
            check_page(pointer.number, level, bytes).map_err(|what| self.damage(pointer.number, what))?;
            self.note_checked(pointer);
        }
        let page = Page::of_checked(pointer.number, bytes);
        // A checked page can be asked for on another level only if a pointer to it is in a wrong place.
        if page.level() != level {
            return Err(self.damage(pointer.number, "is on the wrong level of the tree"));
        }
        Ok(page)
    }

    /// Returns the bytes of a long value.
    ///
    /// # Safety
    ///
    /// `value` must come from a state that no thread of any process may overwrite while the bytes are used.
    #[allow(unsafe_code)]
    pub(super) unsafe fn long_value(&self, value: LongValue) -> Result<&[u8]> {
        let first = value.first;
        let is_checked = self.is_checked(first);
        if !is_checked {
            self.populate(first.number, value.pages())?;
        }
        let offset = first.number.saturating_mul(PAGE_BYTES as u64);
        // SAFETY: the caller guarantees that the pages of this value are not written.
        let bytes = unsafe { self.mapping.slice(offset, value.len as usize)? };
        if !is_checked {
            self.check(first, bytes)?;
            self.note_checked(first);
        }
        Ok(bytes)
    }

    #[inline]
    fn is_checked(&self, pointer: PagePointer) -> bool {
        let (part, at) = place_of(pointer.number);
        let part = self.parts.get(part).and_then(OnceLock::get);
        part.is_some_and(|part| part.checksums[at].load(Ordering::Acquire) == pointer.checksum)
    }

    #[cold]
    fn note_checked(&self, pointer: PagePointer) {
        let (part, at) = place_of(pointer.number);
        let part = self.parts[part].get_or_init(CheckedPart::new);
        part.checksums[at].store(pointer.checksum, Ordering::Release);
    }

    #[cold]
    fn check(&self, pointer: PagePointer, bytes: &[u8]) -> Result<()> {
        match checksum_of(bytes) == pointer.checksum {
            true => Ok(()),
            false => Err(self.damage(pointer.number, "does not match its checksum")),
        }
    }

    /// Has the kernel bring in `count` pages, and some pages around them.
    #[cold]
    fn populate(&self, number: u64, count: u64) -> Result<()> {
        let group = PAGES_PER_POPULATE as u64;
        let end = number.saturating_add(count);
        if end > self.capacity() {
            return Err(self.damage(number, "is not in the file"));
        }
        for first in (number / group * group..end).step_by(PAGES_PER_POPULATE) {
            let (part, at) = place_of(first);
            let part = self.parts[part].get_or_init(CheckedPart::new);
            let bit = at / PAGES_PER_POPULATE;
            let (word, mask) = (&part.populated[bit / 64], 1 << (bit % 64));
            if word.load(Ordering::Acquire) & mask != 0 {
                continue;
            }
            let (offset, len) = (first * PAGE_BYTES as u64, PAGES_PER_POPULATE * PAGE_BYTES);
            if self.mapping.populate(offset, len).is_ok() {
                word.fetch_or(mask, Ordering::AcqRel);
                continue;
            }
            // The last group of the file is not complete, and a page that no one asked for may be damaged. So ask for
            // the pages of the caller alone.
            let (from, to) = (first.max(number), (first + group).min(end));
            self.mapping.populate(from * PAGE_BYTES as u64, (to - from) as usize * PAGE_BYTES)?;
        }
        Ok(())
    }

    #[cold]
    pub(super) fn damage(&self, number: u64, what: impl Display) -> Error {
        Error::corrupt(format!("{}: page {number} {what}", self.name))
            .in_file(&self.name)
            .at_offset(number.saturating_mul(PAGE_BYTES as u64))
            .hint("the ordered base of this database is damaged; restore the directory from a backup")
    }
}

/// The part that has a page, and the page's place in it.
#[inline]
fn place_of(number: u64) -> (usize, usize) {
    (number as usize / PAGES_PER_PART, number as usize % PAGES_PER_PART)
}

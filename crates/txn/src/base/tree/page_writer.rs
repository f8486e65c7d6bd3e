//! Writes new pages of a tree to places that no state uses.
//!
//! Pages get the lowest free places, so that the file stays compact and pages that are written together come to be next
//! to each other. Neighbours go to the disk in one call.

use std::ops::Range;

use rowmill_base::Result;
use rowmill_io::DiskFile;

use super::super::KEY_LEN_MAX;
use super::free_pages::FreePages;
use super::page::{
    ChildPage, HEADER_LEN, LeafValue, LongValue, PAGE_BYTES, PageBytes, PageNode, PagePointer, build_page, checksum_of,
    fits_in_page,
};
use crate::background_pace::rest_if_due;

/// Bytes of neighbouring pages to gather before a call, and bytes that the system stores in one step. A commit that
/// syncs the log at the same time waits for at most two steps, and not for the pages of a whole checkpoint.
const STEP_BYTES: usize = 256 << 10;

/// The range of a step in which nothing was written yet.
const NOTHING: Range<u64> = Range { start: u64::MAX, end: 0 };

/// The bytes of a page that nodes and slots can take.
pub(super) const ROOM: usize = PAGE_BYTES - HEADER_LEN;

const _: () = assert!(KEY_LEN_MAX < ROOM);

/// Writes the pages of one new state.
pub(super) struct PageWriter<'f> {
    file: &'f dyn DiskFile,
    generation: u64,
    pub(super) free: FreePages,
    /// The number of pages of the file.
    pub(super) pages: u64,
    /// Neighbouring pages that are not written yet, and the number of the first of them.
    pending: Vec<u8>,
    pending_at: u64,
    /// The range of the file that was written since the last step, and its bytes.
    written: Range<u64>,
    written_bytes: usize,
    /// The range of the last step, which the system has begun to store.
    storing: Range<u64>,
}

impl<'f> PageWriter<'f> {
    /// A writer of the state `generation`, which may use the ready pages of `free` and grow a file of `pages` pages.
    pub(super) fn new(file: &'f dyn DiskFile, generation: u64, free: FreePages, pages: u64) -> PageWriter<'f> {
        PageWriter {
            file,
            generation,
            free,
            pages,
            pending: Vec::new(),
            pending_at: 0,
            written: NOTHING,
            written_bytes: 0,
            storing: NOTHING,
        }
    }

    /// Writes a page with these nodes, which must fit.
    pub(super) fn write_page<N: PageNode>(&mut self, level: u32, nodes: &[N]) -> Result<ChildPage> {
        rest_if_due();
        let number = self.free.take_page().unwrap_or_else(|| self.grow(1));
        let mut page: PageBytes = [0; PAGE_BYTES];
        let child = build_page(number, self.generation, level, nodes, &mut page);
        self.gather(number, &page)?;
        Ok(child)
    }

    /// Prepares a value for a leaf. A long one is written to pages of its own.
    pub(super) fn value<'w>(&mut self, key: &[u8], value: &'w [u8]) -> Result<LeafValue<'w>> {
        match fits_in_page(key, value) {
            true => Ok(LeafValue::InPage(value)),
            false => self.write_long(value).map(LeafValue::Long),
        }
    }

    fn write_long(&mut self, value: &[u8]) -> Result<LongValue> {
        let len = value.len() as u64;
        let first = self.take_run(len.div_ceil(PAGE_BYTES as u64));
        self.write_long_at(first, value)
    }

    /// Takes `count` consecutive pages and returns the first one.
    pub(super) fn take_run(&mut self, count: u64) -> u64 {
        self.free.take_run(count).unwrap_or_else(|| self.grow(count))
    }

    /// Writes a value to pages that were taken for it, from page `first` on.
    pub(super) fn write_long_at(&mut self, first: u64, value: &[u8]) -> Result<LongValue> {
        let whole = value.len() / PAGE_BYTES * PAGE_BYTES;
        let offset = first * PAGE_BYTES as u64;
        if whole > 0 {
            self.write(&value[..whole], offset)?;
        }
        // The rest of the last page is written too, so that the file has all of its pages.
        if whole < value.len() {
            let mut last: PageBytes = [0; PAGE_BYTES];
            last[..value.len() - whole].copy_from_slice(&value[whole..]);
            self.write(&last, offset + whole as u64)?;
        }
        let first = PagePointer { number: first, checksum: checksum_of(value) };
        Ok(LongValue { first, len: value.len() as u64 })
    }

    fn grow(&mut self, count: u64) -> u64 {
        let first = self.pages;
        self.pages += count;
        first
    }

    fn gather(&mut self, number: u64, page: &PageBytes) -> Result<()> {
        let next = self.pending_at + (self.pending.len() / PAGE_BYTES) as u64;
        if number != next || self.pending.len() >= STEP_BYTES {
            self.flush()?;
            self.pending_at = number;
        }
        self.pending.extend_from_slice(page);
        Ok(())
    }

    /// Writes the gathered pages.
    pub(super) fn flush(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.write(&pending, self.pending_at * PAGE_BYTES as u64)?;
            self.pending = pending;
            self.pending.clear();
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        for (at, step) in (offset..).step_by(STEP_BYTES).zip(bytes.chunks(STEP_BYTES)) {
            self.file.write_all_at(step, at)?;
            self.written = self.written.start.min(at)..self.written.end.max(at + step.len() as u64);
            self.written_bytes += step.len();
            if self.written_bytes >= STEP_BYTES {
                self.end_step()?;
            }
        }
        Ok(())
    }

    /// Has the system begin to store the pages of this step, and waits for those of the step before.
    fn end_step(&mut self) -> Result<()> {
        let (written, before) = (self.written.clone(), std::mem::replace(&mut self.storing, self.written.clone()));
        self.file.begin_store(written.start, written.end - written.start)?;
        if !before.is_empty() {
            self.file.wait_stored(before.start, before.end - before.start)?;
        }
        (self.written, self.written_bytes) = (NOTHING, 0);
        Ok(())
    }
}

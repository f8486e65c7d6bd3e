//! Makes and stores the next state of a tree.
//!
//! A change that comes in parts is applied part by part. Each part reads the pages that the parts before it wrote, and
//! no head ever names a state between two of them.
//!
//! ```text
//! write   new pages and the new list of free pages, to places that neither the newest state nor a held read uses
//! sync    everything that the new state names is on disk
//! head    store the new head in place of the one before the newest; until this is on disk, the newest state counts
//! sync
//! copy    store the copy of the new head; the sync of the next commit makes it durable
//! ```

use rowmill_base::{CommitId, Result};

use super::super::{BatchParts, check_batch};
use super::changes::Changes;
use super::file::TreeFile;
use super::free_pages::{ENCODED_MORE_MAX, FreePages};
use super::head::{TreeState, head_offsets};
use super::page::{LongValue, PAGE_BYTES};
use super::page_writer::PageWriter;
use super::reader::TreeReader;
use super::write::apply;

/// A file is cut when this part of it, as a divisor, is free at its end.
const CUT_DIVISOR: u64 = 32;
/// The least number of pages to cut off a file.
const CUT_PAGES_MIN: u64 = 256;

/// Writes the pages of the state that follows the one of `reader` after all batches of `parts`, and returns that state
/// and its free pages.
///
/// # Safety
///
/// The caller must be the only writer of the file, `free` must be the free pages of the state, and no read of any
/// process may need those that are ready.
#[allow(unsafe_code)]
pub(super) unsafe fn write_next(
    file: &TreeFile,
    reader: &TreeReader,
    free: FreePages,
    parts: &mut BatchParts<'_>,
    at: CommitId,
) -> Result<(TreeState, FreePages)> {
    let state = reader.state();
    let generation = state.generation + 1;
    let mut pages = PageWriter::new(file.handle(), generation, free, state.pages);
    let (mut next, mut freed) = (*state, Vec::new());
    let mut between;
    for (part, batch) in parts.enumerate() {
        check_batch(&batch, at, state.commit)?;
        let reader = if part == 0 {
            reader
        } else {
            // The reader of the next part needs the pages of this one in the file.
            pages.flush()?;
            next.pages = pages.pages;
            // SAFETY: the pages of `next` belong to `state`, or were written by this call. The caller promises that no
            // other thread writes, and this call frees pages only for later states.
            between = unsafe { TreeReader::new(file.mapped(&next)?, next) };
            &between
        };
        let tree = apply(reader, &Changes::of(&batch), &mut pages)?;
        (next.root, next.levels, next.entries) = (tree.root, tree.levels, tree.entries);
        freed.extend(tree.freed);
    }
    if state.free.len > 0 {
        freed.push((state.free.first.number, state.free.pages()));
    }
    pages.free.hold(generation, freed);
    let at_end = pages.free.count_at_end(pages.pages);
    if at_end >= (pages.pages / CUT_DIVISOR).max(CUT_PAGES_MIN) {
        pages.pages = pages.free.cut(pages.pages);
    }
    let free = write_free_list(&mut pages)?;
    pages.flush()?;
    Ok((TreeState { generation, commit: at, pages: pages.pages, free, ..next }, pages.free))
}

/// Writes the list of free pages. Its own pages are taken from the free ones, which changes the list.
pub(super) fn write_free_list(pages: &mut PageWriter<'_>) -> Result<LongValue> {
    if pages.free.count() == 0 {
        return Ok(TreeState::empty().free);
    }
    let bytes = pages.free.encode().len() + ENCODED_MORE_MAX;
    let first = pages.take_run(bytes.div_ceil(PAGE_BYTES) as u64);
    let mut list = pages.free.encode();
    list.resize(bytes.next_multiple_of(PAGE_BYTES), 0);
    pages.write_long_at(first, &list)
}

/// Stores the head of a state whose pages are written, and makes both durable.
pub(super) fn store_head(file: &TreeFile, state: &TreeState) -> Result<()> {
    let (head, [first, copy]) = (state.encode(), head_offsets(state.generation));
    file.handle().sync()?;
    file.handle().write_all_at(&head, first)?;
    file.handle().sync()?;
    file.handle().write_all_at(&head, copy)
}

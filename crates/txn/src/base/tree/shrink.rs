//! Makes a file shorter: moves pages from its end to free places before them, and cuts it.
//!
//! ```text
//! before   | root | leaf 1 | free | leaf 2 | free | free | leaf 3 |       leaf 3 and the branches above it move
//! after    | free | leaf 1 | leaf 3 | leaf 2 | root |                      the pages that are left at the end are cut
//! ```
//!
//! A move is a write like any other: it copies pages to free places, and the pages that it replaces are held until no
//! read needs them and no crash can bring them back. So they are cut off by the next write, not by this one. Entries
//! do not change.
//!
//! We find the pages at the end by a walk over all branches, because no page knows its parent. Leaves are read only if
//! they move. Long values stay where they are: a write of their row moves them.

use rowmill_base::Result;

use super::commit::write_free_list;
use super::file::TreeFile;
use super::free_pages::FreePages;
use super::head::TreeState;
use super::page::{BranchNode, ChildPage, LeafNode, PageNode};
use super::page_writer::PageWriter;
use super::reader::TreeReader;

/// The least number of free pages that we give back.
const PAGES_MIN: u64 = 64;
/// We give pages back if this part of the file, as a divisor, is free.
const FREE_DIVISOR: u64 = 128;

/// Writes the pages of a state with the entries of `reader`, in which at most `moved_max` pages have moved to ready
/// pages of `free`, and cuts the end of the file. Returns the state and its free pages, or `None` if there is too
/// little to gain.
///
/// # Safety
///
/// The caller must be the only writer of the file, `free` must be the free pages of the state, and no read of any
/// process may need those that are ready.
#[allow(unsafe_code)]
pub(super) unsafe fn shrink(
    file: &TreeFile,
    reader: &TreeReader,
    free: FreePages,
    moved_max: u64,
) -> Result<Option<(TreeState, FreePages)>> {
    let state = reader.state();
    let wanted = (state.pages / FREE_DIVISOR).max(PAGES_MIN);
    if free.count_ready() < wanted {
        return Ok(None);
    }
    let generation = state.generation + 1;
    let from = free.place_to_move_from(state.pages, moved_max);
    let mut pages = PageWriter::new(file.handle(), generation, free, state.pages);
    let (mut root, mut freed) = (state.root, Vec::new());
    if let Some((page, level)) = reader.root().filter(|_| from < state.pages) {
        let mut moves = PageMoves { reader, pages: &mut pages, from, freed: Vec::new() };
        root = moves.page(ChildPage { page, entries: state.entries }, level)?.page;
        freed = moves.freed;
    }
    if freed.is_empty() && pages.free.count_at_end(pages.pages) == 0 {
        // The pages at the end cannot move.
        return Ok(None);
    }
    if state.free.len > 0 {
        freed.push((state.free.first.number, state.free.pages()));
    }
    pages.free.hold(generation, freed);
    pages.pages = pages.free.cut(pages.pages);
    let free = write_free_list(&mut pages)?;
    pages.flush()?;
    Ok(Some((TreeState { generation, root, free, pages: pages.pages, ..*state }, pages.free)))
}

struct PageMoves<'r, 'p, 'f> {
    reader: &'r TreeReader,
    pages: &'p mut PageWriter<'f>,
    /// Pages from this one on move.
    from: u64,
    /// The pages that moved or that name another page now.
    freed: Vec<(u64, u64)>,
}

impl PageMoves<'_, '_, '_> {
    /// Moves a page and the pages below it, as far as they are at the end of the file. Returns what its branch must
    /// know of it.
    fn page(&mut self, at: ChildPage, level: u32) -> Result<ChildPage> {
        // Without a free place before it, a page stays.
        let has_place = self.pages.free.first_ready().is_some_and(|place| place < self.from);
        let moves = at.page.number >= self.from && has_place;
        if level == 0 && !moves {
            return Ok(at);
        }
        let page = self.reader.page(at.page, level)?;
        if level == 0 {
            let entry = |node| LeafNode { key: page.key(node), value: page.value(node), is_new: false };
            return self.write(at, level, &(0..page.nodes()).map(entry).collect::<Vec<_>>());
        }
        let (mut nodes, mut is_changed) = (Vec::with_capacity(page.nodes()), moves);
        for node in 0..page.nodes() {
            let before = page.child(node);
            let child = self.page(before, level - 1)?;
            is_changed |= child != before;
            nodes.push(BranchNode { key: page.key(node), child, is_new: false });
        }
        if is_changed { self.write(at, level, &nodes) } else { Ok(at) }
    }

    fn write<N: PageNode>(&mut self, before: ChildPage, level: u32, nodes: &[N]) -> Result<ChildPage> {
        self.freed.push((before.page.number, 1));
        self.pages.write_page(level, nodes)
    }
}

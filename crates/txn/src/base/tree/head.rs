//! The heads of a tree's file: which state is the newest.
//!
//! ```text
//! page 0, page 2   head of the last even generation, twice
//! page 1, page 3   head of the last odd generation, twice
//! page 4 ...       pages of the tree, long values, the list of free pages
//!
//! head   "ROWMTREE" | layout (u32) | page length (u32) | generation (u64) | commit (u64)
//!        | root: page (u64), checksum (u32) | levels (u32) | entries (u64) | pages (u64)
//!        | free list: page (u64), checksum (u32), length in bytes (u64) | checksum of all that (u32)
//! ```
//!
//! A write stores its pages, syncs, stores its head, syncs, and stores its head again as a copy. A power cut during the
//! first head leaves the head of the generation before, in two other pages. After the write, damage to one page leaves
//! the copy. So of all valid heads, the one with the highest generation counts.

use rowmill_base::{CommitId, Error, Result};
use rowmill_io::DiskFile;

use super::page::{LEVELS_MAX, LongValue, PAGE_BYTES, PagePointer, checksum_of, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"ROWMTREE";
/// The layout of new states: leaves have short keys.
const LAYOUT: u32 = 2;
/// The layout of earlier versions. Pages tell whether their keys are short, so such a state is read as it is, and each
/// write brings the pages that it changes to the new layout.
const LAYOUT_OF_WHOLE_KEYS: u32 = 1;
const HEAD_LEN: usize = 84;

/// The first page that is not a head.
pub(super) const HEAD_PAGES: u64 = 4;

/// One state of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeState {
    /// The number of the write that made the state.
    pub(super) generation: u64,
    pub(super) commit: CommitId,
    pub(super) root: PagePointer,
    /// The number of levels; 0 if the tree is empty.
    pub(super) levels: u32,
    pub(super) entries: u64,
    /// The number of pages that the state knows of, with heads and free pages.
    pub(super) pages: u64,
    /// The list of free pages, as a long value; empty if there are none.
    pub(super) free: LongValue,
}

impl TreeState {
    /// The state of a new file.
    pub(super) fn empty() -> TreeState {
        let free = LongValue { first: PagePointer::default(), len: 0 };
        let root = PagePointer::default();
        TreeState { generation: 1, commit: CommitId(0), root, levels: 0, entries: 0, pages: HEAD_PAGES, free }
    }

    pub(super) fn encode(&self) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        let fields: [&[u8]; 13] = [
            MAGIC,
            &LAYOUT.to_le_bytes(),
            &(PAGE_BYTES as u32).to_le_bytes(),
            &self.generation.to_le_bytes(),
            &self.commit.0.to_le_bytes(),
            &self.root.number.to_le_bytes(),
            &self.root.checksum.to_le_bytes(),
            &self.levels.to_le_bytes(),
            &self.entries.to_le_bytes(),
            &self.pages.to_le_bytes(),
            &self.free.first.number.to_le_bytes(),
            &self.free.first.checksum.to_le_bytes(),
            &self.free.len.to_le_bytes(),
        ];
        let fields = fields.concat();
        let (head, rest) = page.split_at_mut(HEAD_LEN);
        head.copy_from_slice(&fields);
        rest[..4].copy_from_slice(&checksum_of(&fields).to_le_bytes());
        page
    }

    /// Returns the state in a head page; `Ok(None)` if the page holds no valid head. Returns `NewerFormat` for a valid
    /// head of another layout.
    fn decode(page: &[u8; PAGE_BYTES], name: &str) -> Result<Option<TreeState>> {
        let (head, rest) = page.split_at(HEAD_LEN);
        if !head.starts_with(MAGIC) || u32_at(rest, 0) != checksum_of(head) {
            return Ok(None);
        }
        let layout = u32_at(head, 8);
        if !matches!(layout, LAYOUT_OF_WHOLE_KEYS | LAYOUT) || u32_at(head, 12) != PAGE_BYTES as u32 {
            return Err(Error::newer_format(format!(
                "{name}: the base has layout {layout} with pages of {} bytes, and this build reads layout {LAYOUT} \
                 with pages of {PAGE_BYTES} bytes",
                u32_at(head, 12)
            )));
        }
        let state = TreeState {
            generation: u64_at(head, 16),
            commit: CommitId(u64_at(head, 24)),
            root: PagePointer { number: u64_at(head, 32), checksum: u32_at(head, 40) },
            levels: u32_at(head, 44),
            entries: u64_at(head, 48),
            pages: u64_at(head, 56),
            free: LongValue {
                first: PagePointer { number: u64_at(head, 64), checksum: u32_at(head, 72) },
                len: u64_at(head, 76),
            },
        };
        Ok((state.levels <= LEVELS_MAX).then_some(state))
    }
}

/// Reads the newest state of a file.
pub(super) fn newest_state(file: &dyn DiskFile, name: &str) -> Result<TreeState> {
    let damaged = |what: &str| {
        Error::corrupt(format!("{name}: {what}"))
            .in_file(name)
            .at_offset(0)
            .hint("the ordered base of this database is damaged; restore the directory from a backup")
    };
    if file.len()? < HEAD_PAGES * PAGE_BYTES as u64 {
        return Err(damaged("the file is too short for the heads of a base"));
    }
    let mut heads = [[0; PAGE_BYTES]; HEAD_PAGES as usize];
    // One call reads all heads. A head that a writer stores at this moment may be torn, and is then invalid.
    file.read_exact_at(heads.as_flattened_mut(), 0)?;
    let mut newest: Option<TreeState> = None;
    for head in &heads {
        let Some(state) = TreeState::decode(head, name)? else { continue };
        if newest.is_none_or(|newest| newest.generation < state.generation) {
            newest = Some(state);
        }
    }
    newest.ok_or_else(|| damaged("it has no valid head"))
}

/// Whether both heads of a state are whole.
pub(super) fn has_both_heads(file: &dyn DiskFile, state: &TreeState, name: &str) -> Result<bool> {
    for offset in head_offsets(state.generation) {
        let mut head = [0; PAGE_BYTES];
        file.read_exact_at(&mut head, offset)?;
        if TreeState::decode(&head, name)? != Some(*state) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The offsets of the head of a generation and of its copy.
pub(super) fn head_offsets(generation: u64) -> [u64; 2] {
    [generation % 2, generation % 2 + 2].map(|page| page * PAGE_BYTES as u64)
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use rowmill_base::ErrorKind;
    use rowmill_io::{Disk, MemoryDisk, OpenMode};

    use super::*;

    fn state(generation: u64) -> TreeState {
        let page = PagePointer { number: 9, checksum: 10 };
        let free = LongValue { first: PagePointer { number: 11, checksum: 12 }, len: 13 };
        TreeState { generation, commit: CommitId(7), root: page, levels: 3, entries: 5, pages: 100, free }
    }

    /// Stores the checksum of a head that was changed.
    fn sign(head: &mut [u8; PAGE_BYTES]) {
        let sum = checksum_of(&head[..HEAD_LEN]);
        head[HEAD_LEN..HEAD_LEN + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// The head of a state in the layout of whole keys.
    pub(in super::super) fn of_whole_keys(state: &TreeState) -> [u8; PAGE_BYTES] {
        let mut head = state.encode();
        head[8] = LAYOUT_OF_WHOLE_KEYS as u8;
        sign(&mut head);
        head
    }

    /// A file with the heads of two generations.
    fn file() -> Box<dyn DiskFile> {
        let file = MemoryDisk::new().open("base", OpenMode::Create).unwrap();
        for generation in [4, 5] {
            for offset in head_offsets(generation) {
                file.write_all_at(&state(generation).encode(), offset).unwrap();
            }
        }
        file
    }

    #[test]
    fn the_newest_head_survives_damage_to_any_one_page() {
        let file = file();
        assert_eq!(newest_state(&*file, "base").unwrap(), state(5));
        for page in 0..HEAD_PAGES {
            for at in 0..HEAD_LEN as u64 + 4 {
                let offset = page * PAGE_BYTES as u64 + at;
                let mut byte = [0];
                file.read_exact_at(&mut byte, offset).unwrap();
                file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
                assert_eq!(newest_state(&*file, "base").unwrap(), state(5));
                file.write_all_at(&byte, offset).unwrap();
            }
        }
        // A torn head of the next generation leaves this one.
        file.write_all_at(&state(6).encode()[..40], head_offsets(6)[0]).unwrap();
        assert_eq!(newest_state(&*file, "base").unwrap(), state(5));
    }

    #[test]
    fn a_file_without_heads_or_of_another_layout_is_refused() {
        let file = file();
        let mut newer = state(6).encode();
        newer[8] = 3;
        sign(&mut newer);
        file.write_all_at(&newer, head_offsets(6)[0]).unwrap();
        assert_eq!(newest_state(&*file, "base").unwrap_err().kind(), ErrorKind::NewerFormat);
        file.write_all_at(&vec![0; HEAD_PAGES as usize * PAGE_BYTES], 0).unwrap();
        assert_eq!(newest_state(&*file, "base").unwrap_err().kind(), ErrorKind::Corrupt);
        file.set_len(5_000).unwrap();
        assert_eq!(newest_state(&*file, "base").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

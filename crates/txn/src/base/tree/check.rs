//! Checks everything that a state of a tree uses: each page against its checksum, the order of all keys, the counts of
//! entries, and that each page of the file is used exactly once or free.

use rowmill_base::{Cancel, Error, Result};

use super::super::{BaseChecked, note_problem};
use super::head::HEAD_PAGES;
use super::key_parts::KeyParts;
use super::open_tree::TreeRead;
use super::page::{LeafValue, LongValue, PAGE_BYTES, Page, PagePointer};

/// Checks the state of a read. The read must not have checked any page before, so that each of them is read again.
pub(super) fn check_state(read: &TreeRead, cancel: &Cancel) -> Result<BaseChecked> {
    let state = *read.reader.state();
    let met = PageSet::new(state.pages);
    let mut walk = CheckWalk { read, cancel, met, checked: BaseChecked::default() };
    for page in 0..HEAD_PAGES {
        walk.met.mark(page);
    }
    let mut entries = 0;
    if let Some((root, level)) = read.reader.root() {
        entries = walk.page(root, level, KeyBounds { lower: &[], upper: None })?;
    }
    // Damaged pages hide entries. Then the number of entries says nothing more.
    if walk.checked.page_problems.is_empty() && entries != state.entries {
        walk.problem(state.root.number, format!("leads to {entries} entries, and the head says {}", state.entries))?;
    }
    walk.free_pages()?;
    // A file that ends before its heads is a problem of the file too.
    if let Some(problem) = read.open.file.head_problem(&state).unwrap_or_else(Some) {
        note_problem(&mut walk.checked.page_problems, problem)?;
    }
    walk.checked.entries = entries;
    Ok(walk.checked)
}

/// The keys that a page may have.
#[derive(Clone, Copy)]
struct KeyBounds<'m> {
    lower: &'m [u8],
    upper: Option<&'m [u8]>,
}

impl KeyBounds<'_> {
    fn hold(&self, key: KeyParts<'_>) -> bool {
        key.compare(self.lower).is_ge() && self.upper.is_none_or(|upper| key.compare(upper).is_lt())
    }
}

struct CheckWalk<'r> {
    read: &'r TreeRead,
    cancel: &'r Cancel,
    met: PageSet,
    checked: BaseChecked,
}

impl<'r> CheckWalk<'r> {
    /// Checks a page and everything below it, and returns the number of entries.
    fn page(&mut self, pointer: PagePointer, level: u32, bounds: KeyBounds<'r>) -> Result<u64> {
        self.cancel.check()?;
        if !self.take(pointer.number, 1)? {
            return Ok(0);
        }
        let page = match self.read.reader.page(pointer, level) {
            Ok(page) => page,
            Err(error) => return note_problem(&mut self.checked.page_problems, error).map(|()| 0),
        };
        // A branch's first node has no key.
        let mut keys = (usize::from(level > 0)..page.nodes()).map(|at| page.key(at));
        if !keys.all(|key| bounds.hold(key)) {
            self.problem(pointer.number, "has keys that belong to other pages")?;
        }
        match level {
            0 => self.leaf(&page),
            _ => self.branch(&page, level, bounds),
        }
    }

    fn branch(&mut self, page: &Page<'r>, level: u32, bounds: KeyBounds<'r>) -> Result<u64> {
        let mut entries = 0;
        for at in 0..page.nodes() {
            let lower = if at == 0 { bounds.lower } else { page.branch_key(at) };
            let upper = if at + 1 < page.nodes() { Some(page.branch_key(at + 1)) } else { bounds.upper };
            let child = page.child(at);
            let problems = self.checked.page_problems.len();
            let below = self.page(child.page, level - 1, KeyBounds { lower, upper })?;
            if below != child.entries && self.checked.page_problems.len() == problems {
                self.problem(
                    child.page.number,
                    format!("leads to {below} entries, and its branch says {}", child.entries),
                )?;
            }
            entries += below;
        }
        Ok(entries)
    }

    fn leaf(&mut self, page: &Page<'r>) -> Result<u64> {
        for at in 0..page.nodes() {
            let mut len = 0;
            if let LeafValue::Long(value) = page.value(at)
                && !self.take(value.first.number, value.pages())?
            {
                continue;
            }
            match self.read.reader.value(page, at) {
                Ok(value) => len += value.len(),
                Err(error) => note_problem(&mut self.checked.page_problems, error)?,
            }
            if let LeafValue::Long(value) = page.value(at) {
                self.rest_of_page(value)?;
            }
            self.checked.entry_bytes += (page.key_len(at) + len) as u64;
        }
        Ok(page.nodes() as u64)
    }

    /// Checks that zeros follow a long value in its last page. Its checksum does not cover them.
    fn rest_of_page(&mut self, value: LongValue) -> Result<()> {
        let end = value.first.number * PAGE_BYTES as u64 + value.len;
        let mut rest = vec![0; (end.next_multiple_of(PAGE_BYTES as u64) - end) as usize];
        match self.read.open.file.handle().read_exact_at(&mut rest, end) {
            Ok(()) if rest.iter().all(|byte| *byte == 0) => Ok(()),
            Ok(()) => self.problem(end / PAGE_BYTES as u64, "has other bytes than zeros after its long value"),
            Err(error) => note_problem(&mut self.checked.page_problems, error),
        }
    }

    /// Checks that each page that the tree does not use is free, and no other one.
    fn free_pages(&mut self) -> Result<()> {
        let state = *self.read.reader.state();
        if state.free.len > 0 && !self.take(state.free.first.number, state.free.pages())? {
            return Ok(());
        }
        let free = match self.read.reader.free_pages() {
            Ok(free) => free,
            Err(error) => return note_problem(&mut self.checked.page_problems, error),
        };
        for (first, count) in free.runs() {
            for number in first..first + count {
                if !self.met.mark(number) {
                    self.problem(number, "is free, but also in use, or free twice")?;
                }
            }
        }
        // A damaged branch hides the pages below it.
        if self.checked.page_problems.is_empty()
            && let Some(number) = self.met.first_unmarked()
        {
            self.problem(number, "is neither in use nor free")?;
        }
        Ok(())
    }

    /// Marks `count` pages as met, and returns whether they are inside of the file and were not met before.
    fn take(&mut self, number: u64, count: u64) -> Result<bool> {
        let end = number.saturating_add(count);
        if number < HEAD_PAGES || end > self.read.reader.state().pages {
            return self.problem(number, "is in use, but it is not in the file").map(|()| false);
        }
        // The marks find pages with two parents and cycles, so the walk always ends.
        for number in number..end {
            if !self.met.mark(number) {
                return self.problem(number, "is in use twice").map(|()| false);
            }
        }
        self.checked.page_bytes += count * PAGE_BYTES as u64;
        Ok(true)
    }

    fn problem(&mut self, number: u64, what: impl std::fmt::Display) -> Result<()> {
        let error: Error = self.read.open.file.damage(number, what);
        note_problem(&mut self.checked.page_problems, error)
    }
}

/// A set of pages of a file.
struct PageSet {
    pages: u64,
    words: Vec<u64>,
}

impl PageSet {
    fn new(pages: u64) -> PageSet {
        PageSet { pages, words: vec![0; pages.div_ceil(64) as usize] }
    }

    /// Adds a page, which must be in the file. Returns `false` if the set had it.
    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = (&mut self.words[(number / 64) as usize], 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn first_unmarked(&self) -> Option<u64> {
        let word = self.words.iter().position(|word| *word != u64::MAX)?;
        let number = word as u64 * 64 + u64::from(self.words[word].trailing_ones());
        (number < self.pages).then_some(number)
    }
}

//! The file of a tree: its pages, its heads and the state that was committed last.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rowmill_base::{Error, Result};
use rowmill_io::{Disk, DiskFile, OpenMode};

use super::head::{HEAD_PAGES, TreeState, has_both_heads, head_offsets, newest_state};
use super::mapped_pages::MappedPages;
use super::page::PAGE_BYTES;

/// How often we look for the copy of a head before we call it missing.
const HEAD_LOOKS: usize = 10;
const HEAD_PAUSE: Duration = Duration::from_millis(2);

/// An open file of a tree.
pub(super) struct TreeFile {
    disk: Arc<dyn Disk>,
    /// The name of the file in `disk`.
    name: String,
    file: Box<dyn DiskFile>,
    mapped: RwLock<Arc<MappedPages>>,
}

impl TreeFile {
    /// Makes a new file with an empty tree. The caller must sync the directory.
    pub(super) fn make(disk: &Arc<dyn Disk>, name: &str) -> Result<(TreeFile, TreeState)> {
        let file = disk.open(name, OpenMode::Create)?;
        let state = TreeState::empty();
        let mut heads = vec![0; HEAD_PAGES as usize * PAGE_BYTES];
        for offset in head_offsets(state.generation) {
            heads[offset as usize..][..PAGE_BYTES].copy_from_slice(&state.encode());
        }
        file.write_all_at(&heads, 0)?;
        file.sync()?;
        drop(file);
        TreeFile::open(disk, name, false)
    }

    /// Opens a file and finds its newest state. Returns `Corrupt` if the file is shorter than that state says.
    pub(super) fn open(disk: &Arc<dyn Disk>, name: &str, read_only: bool) -> Result<(TreeFile, TreeState)> {
        let file = disk.open(name, if read_only { OpenMode::Read } else { OpenMode::Write })?;
        let described = disk.describe(name);
        let (mut state, mut len) = (newest_state(&*file, &described)?, file.len()?);
        let bytes_of = |state: &TreeState| state.pages.saturating_mul(PAGE_BYTES as u64);
        // A writer may have stored a shorter state and cut the file after we had read the head.
        while len < bytes_of(&state) {
            let newest = newest_state(&*file, &described)?;
            if newest.generation == state.generation {
                break;
            }
            (state, len) = (newest, file.len()?);
        }
        let expected = bytes_of(&state);
        if len < expected {
            return Err(Error::corrupt(format!("{described}: the file should have {expected} bytes and has {len}"))
                .in_file(&described)
                .at_offset(len)
                .hint("the ordered base of this database is damaged; restore the directory from a backup"));
        }
        // Room to grow, so that a growing file is rarely mapped again. Address space costs nothing.
        let mapping = disk.map(name, len.saturating_mul(2))?;
        let mapped = RwLock::new(Arc::new(MappedPages::new(mapping, described)));
        Ok((TreeFile { disk: Arc::clone(disk), name: name.to_owned(), file, mapped }, state))
    }

    /// The whole path of the file, for errors.
    pub(super) fn describe(&self) -> String {
        self.disk.describe(&self.name)
    }

    pub(super) fn handle(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// The newest state that any process has stored.
    pub(super) fn newest_state(&self) -> Result<TreeState> {
        newest_state(&*self.file, &self.describe())
    }

    /// The mapping of a state's pages. A file that outgrew its mapping is mapped again. Readers of older states keep
    /// the mapping that they have.
    pub(super) fn mapped(&self, state: &TreeState) -> Result<Arc<MappedPages>> {
        let mapped = Arc::clone(&self.mapped.read());
        if state.pages <= mapped.capacity() {
            return Ok(mapped);
        }
        let mut mapped = self.mapped.write();
        if state.pages > mapped.capacity() {
            let bytes = state.pages.saturating_mul(2 * PAGE_BYTES as u64);
            *mapped = Arc::new(MappedPages::new(self.disk.map(&self.name, bytes)?, self.describe()));
        }
        Ok(Arc::clone(&mapped))
    }

    /// Returns an error if a head of `state` is damaged and the state is still the newest one.
    pub(super) fn head_problem(&self, state: &TreeState) -> Result<Option<Error>> {
        // A writer stores the copy of a head a moment after the head. A later look finds both.
        for _ in 0..HEAD_LOOKS {
            if has_both_heads(&*self.file, state, &self.describe())? || self.newest_state()? != *state {
                return Ok(None);
            }
            std::thread::sleep(HEAD_PAUSE);
        }
        Ok(Some(self.damage(state.generation % 2, "and its copy are not the same head")))
    }

    /// Stores both heads of the newest state, unless they are whole. A crash or damage may have left only one.
    pub(super) fn repair_heads(&self, state: &TreeState) -> Result<()> {
        if has_both_heads(&*self.file, state, &self.describe())? {
            return Ok(());
        }
        // One of the two is whole, so write only one at a time.
        for offset in head_offsets(state.generation) {
            self.file.write_all_at(&state.encode(), offset)?;
            self.file.sync()?;
        }
        Ok(())
    }

    /// The error for a damaged page.
    pub(super) fn damage(&self, number: u64, what: impl fmt::Display) -> Error {
        self.mapped.read().damage(number, what)
    }
}

impl fmt::Debug for TreeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeFile").field("file", &self.describe()).finish_non_exhaustive()
    }
}

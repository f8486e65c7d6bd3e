//! A new file of a tree, filled with entries in the order of their keys.
//!
//! The entries are written in steps, each like a commit whose head is never stored. So the pages get full and the file
//! gets as short as it can be, but for a few pages that steps replaced. The file must not be used before it is
//! finished.

use std::borrow::Cow;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use rowmill_base::{CommitId, Error, Result};
use rowmill_io::{Disk, RealDisk};

use super::super::{BaseCopy, WriteBatch, check_key};
use super::commit::{store_head, write_next};
use super::file::TreeFile;
use super::free_pages::FreePages;
use super::head::TreeState;
use super::reader::TreeReader;

/// Bytes of keys and values that one step writes.
const STEP_BYTES: usize = 16 << 20;

/// A new file that is being filled with the entries of another base.
pub(super) struct TreeCopy {
    file: TreeFile,
    name: String,
    state: TreeState,
    free: FreePages,
    pending: WriteBatch,
    pending_bytes: usize,
}

impl TreeCopy {
    /// Creates the new file `name` in the directory `dir`. It must not exist.
    pub(super) fn begin(dir: &Path, name: &str) -> Result<TreeCopy> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir));
        if disk.len(name)?.is_some() {
            return Err(Error::internal(format!("{} exists already", disk.describe(name))));
        }
        let (file, state) = TreeFile::make(&disk, name)?;
        let (free, pending) = (FreePages::default(), WriteBatch::new());
        Ok(TreeCopy { file, name: name.to_owned(), state, free, pending, pending_bytes: 0 })
    }

    /// Writes a batch as the next state.
    #[allow(unsafe_code)]
    fn step(&mut self, batch: &WriteBatch, at: CommitId) -> Result<()> {
        let (mapped, mut free) = (self.file.mapped(&self.state)?, std::mem::take(&mut self.free));
        // No read exists, and no head names a state that a crash could bring back.
        free.release(self.state.generation);
        // SAFETY: no other thread or process knows the file. So nothing overwrites pages of the state, this is the only
        // writer, and no read exists.
        (self.state, self.free) = unsafe {
            let reader = TreeReader::new(mapped, self.state);
            write_next(&self.file, &reader, free, &mut iter::once(Cow::Borrowed(batch)), at)?
        };
        Ok(())
    }

    fn put_pending(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.step(&pending, self.state.commit)
    }
}

impl BaseCopy for TreeCopy {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        self.pending.set_row(key, Some(value));
        self.pending_bytes += key.len() + value.len();
        if self.pending_bytes >= STEP_BYTES { self.put_pending() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>, later: &WriteBatch, at: CommitId) -> Result<Vec<String>> {
        self.put_pending()?;
        self.step(later, at)?;
        store_head(&self.file, &self.state)?;
        self.file.handle().sync()?;
        Ok(vec![self.name])
    }
}

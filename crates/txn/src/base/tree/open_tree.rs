//! An open file of a base: its newest state, the reads of its states, and its writer.
//!
//! Two rules make it safe to use mapped pages as slices:
//! * A read is in [`HeldReads`] as long as it exists, and the writer makes no page ready that such a read needs.
//! * The writer needs the newest state too. Its pages were not freed, so they are not ready.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use rowmill_base::{CommitId, Error, ErrorKind, Result};
use rowmill_io::{DirectoryLock, Disk, RealDisk};

use super::super::BatchParts;
use super::commit::{store_head, write_next};
use super::file::TreeFile;
use super::free_pages::{FreePages, PageRun};
use super::head::TreeState;
use super::held_reads::HeldReads;
use super::names::{name_of, path_of};
use super::page::PAGE_BYTES;
use super::reader::TreeReader;
use super::shrink::shrink;
use crate::background_pace::rest_if_due;

/// The most pages that move at once, so that a checkpoint that waits for it waits for few milliseconds.
const MOVED_MAX: u64 = 2_048;

/// An open file of a base, shared by the base and its reads. It is closed when the last of them is dropped.
pub(super) struct OpenTree {
    pub(super) file: TreeFile,
    /// The newest state, if this process writes. Otherwise the newest state is in the file.
    newest: RwLock<TreeState>,
    /// The free pages of the newest state. Only a writer uses them.
    free: Mutex<FreePages>,
    /// The free pages that generations before this one freed are holes, unless they were written since.
    released: Mutex<u64>,
    pub(super) reads: HeldReads,
    /// Set if this process cannot tell a writer of its reads. This lock keeps writers out.
    _without_writers: Option<DirectoryLock>,
    pub(super) path: PathBuf,
    /// The number in the file's name.
    pub(super) number: u64,
    pub(super) read_only: bool,
    pub(super) poisoned: AtomicBool,
}

/// Whether an error says that the directory takes no new file, so that this process cannot tell of its reads there.
fn takes_no_file(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull | QuotaExceeded)
}

impl OpenTree {
    /// Opens the file of this number in `dir`. To write, the caller must hold the directory's lock.
    pub(super) fn open(dir: &Path, number: u64, read_only: bool) -> Result<Arc<OpenTree>> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir));
        let path = path_of(dir, number);
        let (file, state) = TreeFile::open(&disk, &name_of(number), read_only)?;
        let mut without_writers = None;
        let reads = match if read_only { HeldReads::told(&path) } else { Ok(HeldReads::untold(&path)) } {
            Ok(reads) => reads,
            Err(e) if takes_no_file(&e) => {
                without_writers = Some(DirectoryLock::keep_writers_out(dir)?);
                HeldReads::untold(&path)
            }
            Err(e) => return Err(Error::io(format_args!("make a file of reads of {}", path.display()), &e)),
        };
        Ok(Arc::new(OpenTree {
            file,
            newest: RwLock::new(state),
            free: Mutex::default(),
            released: Mutex::default(),
            reads,
            _without_writers: without_writers,
            path,
            number,
            read_only,
            poisoned: AtomicBool::new(false),
        }))
    }

    /// Makes the file ready for writes. The caller must hold the directory's lock.
    pub(super) fn prepare_to_write(self: &Arc<Self>) -> Result<()> {
        let read = self.begin()?;
        self.file.repair_heads(read.reader.state())?;
        *self.free.lock() = read.reader.free_pages()?;
        Ok(())
    }

    /// The newest state. A process that only reads looks into the file, because another one may have committed.
    pub(super) fn newest(&self) -> Result<TreeState> {
        if self.read_only { self.file.newest_state() } else { Ok(*self.newest.read()) }
    }

    /// Begins a read of the newest state of this file.
    #[allow(unsafe_code)]
    pub(super) fn begin(self: &Arc<Self>) -> Result<TreeRead> {
        let state = self.reads.begin(|| self.newest())?;
        let mapped = self.file.mapped(&state).inspect_err(|_| self.reads.end(state.generation))?;
        // SAFETY: `reads` has the generation until the read is dropped, together with its reader. So no writer reuses
        // pages of the state.
        let reader = unsafe { TreeReader::new(mapped, state) };
        Ok(TreeRead { reader, open: Arc::clone(self) })
    }

    /// Begins another read of the state of `read`.
    #[allow(unsafe_code)]
    pub(super) fn begin_another(self: &Arc<Self>, read: &TreeRead) -> Result<TreeRead> {
        let state = self.reads.begin(|| Ok(*read.reader.state()))?;
        // SAFETY: as for `begin`, `reads` has the generation until this read is dropped too.
        let reader = unsafe { TreeReader::new(Arc::clone(read.reader.mapped()), state) };
        Ok(TreeRead { reader, open: Arc::clone(self) })
    }

    /// Applies batches as the commit `at`. The caller must hold the lock of the writer.
    #[allow(unsafe_code)]
    pub(super) fn write(self: &Arc<Self>, parts: &mut BatchParts<'_>, at: CommitId) -> Result<()> {
        // The writer's own read keeps the newest state, like any other read.
        let read = self.begin()?;
        let state = *read.reader.state();
        // Pages that a generation freed belong to the states before it. A crash during this write leaves `state`, which
        // `read` holds.
        let free = self.free_for(&state)?;
        // SAFETY: the caller holds the writer's lock, and this process the directory's lock. The ready pages were freed
        // by a generation that is not newer than the oldest read of any process, so no read needs them.
        let (next, free) = unsafe { write_next(&self.file, &read.reader, free, parts, at)? };
        self.store(&state, next, free)
    }

    /// The free pages for a change of `state`, which the caller reads. Those that no read of any process needs are
    /// ready.
    fn free_for(&self, state: &TreeState) -> Result<FreePages> {
        let oldest = self.reads.oldest_generation()?.unwrap_or(state.generation);
        let mut free = self.free.lock().clone();
        self.note_ready(oldest);
        free.release(oldest);
        Ok(free)
    }

    /// Notes that pages which generations up to `oldest` freed become ready. Some of them may not be holes, so the next
    /// [`OpenTree::release_free`] looks at all ready pages.
    fn note_ready(&self, oldest: u64) {
        let mut released = self.released.lock();
        if *released <= oldest {
            *released = 0;
        }
    }

    /// Makes holes of the free pages that no read needs, until `go_on` returns false. The caller must hold the lock of
    /// the writer.
    pub(super) fn release_free(self: &Arc<Self>, go_on: &dyn Fn() -> bool) -> Result<()> {
        let read = self.begin()?;
        let oldest = self.reads.oldest_generation()?.unwrap_or(read.reader.state().generation);
        // The newest state is on disk, so no crash brings back a state that uses these pages.
        let mut released = self.released.lock();
        let mut runs: Vec<PageRun> = self.free.lock().runs_freed_by(*released..=oldest).collect();
        // Each run costs a system call, which takes milliseconds on a busy disk. The longest runs give most for it.
        runs.sort_unstable_by_key(|(_, count)| Reverse(*count));
        for (first, count) in runs {
            rest_if_due();
            if !go_on() {
                // The next call begins again. Making a hole of a hole is cheap.
                return Ok(());
            }
            self.file.handle().punch(first * PAGE_BYTES as u64, count * PAGE_BYTES as u64)?;
        }
        *released = oldest + 1;
        Ok(())
    }

    /// Moves pages from the end of the file, and cuts it. Returns whether it may become even shorter. The caller must
    /// hold the lock of the writer.
    #[allow(unsafe_code)]
    pub(super) fn shrink(self: &Arc<Self>) -> Result<bool> {
        let read = self.begin()?;
        let state = *read.reader.state();
        let free = self.free_for(&state)?;
        // SAFETY: the caller holds the writer's lock, and this process the directory's lock. As for `write`, no read
        // needs the ready pages.
        match unsafe { shrink(&self.file, &read.reader, free, MOVED_MAX)? } {
            Some((next, free)) => self.store(&state, next, free).map(|()| true),
            None => Ok(false),
        }
    }

    /// Stores the head of `next`, whose pages are written, in place of `state`.
    fn store(&self, state: &TreeState, next: TreeState, free: FreePages) -> Result<()> {
        let stored = store_head(&self.file, &next);
        // From here on the new head may be on disk, whatever the calls said.
        self.poisoned.fetch_or(stored.is_err(), Ordering::AcqRel);
        stored?;
        if next.pages < state.pages {
            // Only free pages are cut off. If this fails, the file stays longer than it must be.
            let _ = self.file.handle().set_len(next.pages * PAGE_BYTES as u64);
        }
        *self.free.lock() = free;
        *self.newest.write() = next;
        Ok(())
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        let path = self.path.display();
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, format!("{path} is open for reading only")));
        }
        if self.poisoned.load(Ordering::Acquire) {
            let message = format!("{path}: an earlier write failed, so the content of the disk is unknown");
            return Err(Error::new(ErrorKind::Io, message)
                .hint("open the database again to continue from the last commit that reached the disk"));
        }
        Ok(())
    }
}

/// A read of one state, which keeps the state's pages from being reused.
pub(super) struct TreeRead {
    pub(super) reader: TreeReader,
    pub(super) open: Arc<OpenTree>,
}

impl Drop for TreeRead {
    fn drop(&mut self) {
        // References into the pages borrow `self`, so none is left.
        self.open.reads.end(self.reader.state().generation);
    }
}

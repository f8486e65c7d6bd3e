//! Memory that overflows to a file: an allocator that takes pieces from the heap up to a bound, and from a file of its
//! own after that.
//!
//! ```text
//! small pieces ──────────────────────────────► heap
//! large pieces ── heap below its bound ──────► heap
//!              └─ else ──────────────────────► file, mapped: the kernel writes pages out when memory is short
//! ```
//!
//! Structures that need not be written to a file as a whole, such as the rows that a transaction writes, therefore
//! finish in little memory without a second form. What they hold stays where it is, and only what they add goes to the
//! file.
//!
//! A piece that is freed is used again for a piece of the same size. The file is removed with its last piece.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Result};

use crate::file_memory::{CAPACITY, FileMemory};

/// Pieces of fewer bytes always come from the heap. They would cost more lists than memory.
const FILE_PIECE_BYTES_MIN: usize = 1 << 10;

/// Pieces in the file begin at multiples of this many bytes, a line of the cache.
const ALIGNMENT: usize = 64;

/// The file grows by at least this many bytes, and by a quarter of its length.
const GROW_BYTES_MIN: usize = 1 << 20;
const GROW_DIVISOR: usize = 4;

/// Opens files for [`OverflowMemory`].
pub trait OverflowFiles: Send + Sync + fmt::Debug {
    /// Makes a new file.
    fn open(&self) -> Result<Box<dyn OverflowFile>>;
}

/// A file that memory overflows to. It is removed on drop.
pub trait OverflowFile: Send + Sync + fmt::Debug {
    /// The memory of the file.
    fn memory(&self) -> &Arc<FileMemory>;

    /// Charges the space of a file that grows to `bytes`, before it grows. An error says which limit is reached.
    fn charge(&mut self, bytes: u64) -> Result<()>;
}

/// An allocator that overflows to a file. Clones share the bound and the file. The default one knows no files, so it is
/// the heap.
#[derive(Clone, Default)]
pub struct OverflowMemory(Option<Arc<SharedMemory>>);

struct SharedMemory {
    files: Box<dyn OverflowFiles>,
    heap_bytes: AtomicU64,
    heap_bytes_max: AtomicU64,
    /// Copies of the bytes of pieces in the file, and of whether a failure is kept, because they are asked for often.
    file_bytes: AtomicU64,
    has_failed: AtomicBool,
    file: Mutex<FilePieces>,
}

/// The file, if there is one, and its pieces.
#[derive(Default)]
struct FilePieces {
    file: Option<Box<dyn OverflowFile>>,
    /// The length of the file.
    len: usize,
    /// Where the next new piece begins.
    end: usize,
    /// The bytes of pieces in use.
    used: usize,
    /// The places of free pieces by their length.
    free: HashMap<usize, Vec<usize>>,
    /// Why the last piece did not get a place in the file.
    failure: Option<Error>,
}

impl OverflowMemory {
    /// Memory that takes at most `heap_bytes_max` bytes of the heap before it overflows to a file of `files`.
    pub fn new(files: Box<dyn OverflowFiles>, heap_bytes_max: u64) -> OverflowMemory {
        OverflowMemory(Some(Arc::new(SharedMemory {
            files,
            heap_bytes: AtomicU64::new(0),
            heap_bytes_max: AtomicU64::new(heap_bytes_max),
            file_bytes: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            file: Mutex::default(),
        })))
    }

    /// Whether it can overflow.
    pub fn knows_files(&self) -> bool {
        self.0.is_some()
    }

    /// Changes the bytes of the heap from which on it overflows. Pieces stay where they are.
    pub fn set_heap_bytes_max(&self, bytes: u64) {
        if let Some(shared) = &self.0 {
            shared.heap_bytes_max.store(bytes, Ordering::Relaxed);
        }
    }

    /// The bytes of pieces on the heap; 0 if it cannot overflow.
    pub fn heap_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.heap_bytes.load(Ordering::Relaxed))
    }

    /// The bytes of pieces in the file.
    pub fn file_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.file_bytes.load(Ordering::Relaxed))
    }

    /// Takes the reason for which a piece had to come from the heap although that is over its bound. Until it is taken,
    /// no further piece goes to the file.
    pub fn take_failure(&self) -> Option<Error> {
        let shared = self.0.as_ref().filter(|shared| shared.has_failed.load(Ordering::Relaxed))?;
        shared.has_failed.store(false, Ordering::Relaxed);
        shared.file.lock().failure.take()
    }

    /// Whether a reason is kept ([`OverflowMemory::take_failure`]).
    pub fn has_failed(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.has_failed.load(Ordering::Relaxed))
    }

    /// Stores the pieces in the file. An error means that some of them may be lost.
    pub fn sync(&self) -> Result<()> {
        let Some(shared) = &self.0 else { return Ok(()) };
        // The lock is not held during the sync, because other threads need it to free pieces.
        let memory = shared.file.lock().file.as_ref().map(|file| Arc::clone(file.memory()));
        memory.map_or(Ok(()), |memory| memory.sync())
    }
}

impl SharedMemory {
    /// Whether a piece of this layout may be in the file.
    fn may_be_in_file(layout: Layout) -> bool {
        layout.size() >= FILE_PIECE_BYTES_MIN && layout.align() <= ALIGNMENT
    }

    /// Whether another piece would pass the bound of the heap.
    fn is_over_bound(&self, bytes: usize) -> bool {
        self.heap_bytes.load(Ordering::Relaxed) + bytes as u64 > self.heap_bytes_max.load(Ordering::Relaxed)
    }

    /// Takes a piece of the file. `None` if the file cannot have it.
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let mut pieces = self.file.lock();
        if pieces.failure.is_some() {
            return None;
        }
        let taken = pieces.take(bytes, &*self.files);
        self.file_bytes.store(pieces.used as u64, Ordering::Relaxed);
        taken
            .map_err(|error| {
                pieces.failure = Some(error);
                self.has_failed.store(true, Ordering::Relaxed);
            })
            .ok()
    }

    /// Gives a piece back, if it is in the file.
    fn give_back(&self, piece: NonNull<u8>, bytes: usize) -> bool {
        // A piece of the file is counted as long as it lives.
        if self.file_bytes.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut pieces = self.file.lock();
        let was_in_file = pieces.give_back(piece, bytes);
        self.file_bytes.store(pieces.used as u64, Ordering::Relaxed);
        was_in_file
    }
}

fn piece_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

impl FilePieces {
    fn take(&mut self, bytes: usize, files: &dyn OverflowFiles) -> Result<NonNull<u8>> {
        let bytes = piece_bytes(bytes);
        let at = match self.free.get_mut(&bytes).and_then(Vec::pop) {
            Some(at) => at,
            None => self.append(bytes, files).inspect_err(|_| self.close_if_unused())?,
        };
        self.used += bytes;
        Ok(self.start().expect("a file with a piece is open").add_bytes(at))
    }

    /// Takes a place at the end of the file.
    fn append(&mut self, bytes: usize, files: &dyn OverflowFiles) -> Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(files.open()?),
        };
        let (at, end) = (self.end, self.end + bytes);
        if end > self.len {
            if end > CAPACITY {
                let message = format!("a file of memory would have more than {CAPACITY} bytes");
                return Err(Error::new(ErrorKind::MemoryLimit, message));
            }
            // The space is charged before it is taken, so that the charge is never too low. If there is no room to grow
            // ahead, the piece alone may fit.
            let ahead = end.max(self.len + (self.len / GROW_DIVISOR).max(GROW_BYTES_MIN)).min(CAPACITY);
            let len = match file.charge(ahead as u64) {
                Ok(()) => ahead,
                Err(_) => file.charge(end as u64).map(|()| end)?,
            };
            file.memory().grow_to(len)?;
            self.len = len;
        }
        self.end = end;
        Ok(at)
    }

    fn start(&self) -> Option<FileStart> {
        self.file.as_ref().map(|file| FileStart(file.memory().region().start()))
    }

    fn give_back(&mut self, piece: NonNull<u8>, bytes: usize) -> bool {
        let Some(at) = self.start().and_then(|start| start.place_of(piece)).filter(|at| *at < self.end) else {
            return false;
        };
        let bytes = piece_bytes(bytes);
        self.used -= bytes;
        self.free.entry(bytes).or_default().push(at);
        self.close_if_unused();
        true
    }

    /// Removes the file if no piece is left. Then nothing refers to its memory.
    fn close_if_unused(&mut self) {
        if self.used == 0 {
            *self = FilePieces { failure: self.failure.take(), ..FilePieces::default() };
        }
    }
}

/// The address at which the memory of a file begins.
struct FileStart(NonNull<u8>);

impl FileStart {
    /// The address of the byte `at`, which must be inside the capacity.
    fn add_bytes(&self, at: usize) -> NonNull<u8> {
        assert!(at < CAPACITY, "a piece must be inside its file");
        // SAFETY: the region has `CAPACITY` bytes, so the address is inside of it.
        unsafe { self.0.add(at) }
    }

    /// The place of an address in the file, if it is inside the capacity.
    fn place_of(&self, piece: NonNull<u8>) -> Option<usize> {
        piece.addr().get().checked_sub(self.0.addr().get()).filter(|at| *at < CAPACITY)
    }
}

// SAFETY: 1. A piece of the heap comes from `Global`, which has all properties of an allocator. 2. A piece of the file
// is a range of the region that overlaps no other piece in use: `append` gives each range once, and `give_back` lists
// it only after its piece was freed. It is aligned to 64 bytes, because the region begins at a page and all lengths are
// multiples of 64. It stays valid until it is freed: the region is unmapped only when no piece is in use, or with the
// last clone. 3. Clones share the region, so a piece may be freed through any of them.
unsafe impl Allocator for OverflowMemory {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some(shared) = &self.0 else { return Global.allocate(layout) };
        if SharedMemory::may_be_in_file(layout)
            && shared.is_over_bound(layout.size())
            && let Some(piece) = shared.take(layout.size())
        {
            return Ok(NonNull::slice_from_raw_parts(piece, layout.size()));
        }
        let piece = Global.allocate(layout)?;
        shared.heap_bytes.fetch_add(layout.size() as u64, Ordering::Relaxed);
        Ok(piece)
    }

    unsafe fn deallocate(&self, piece: NonNull<u8>, layout: Layout) {
        if let Some(shared) = &self.0 {
            if SharedMemory::may_be_in_file(layout) && shared.give_back(piece, layout.size()) {
                return;
            }
            shared.heap_bytes.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        }
        // SAFETY: the caller frees a piece of this allocator with its layout. It is not in the file, so it came from
        // `Global`.
        unsafe { Global.deallocate(piece, layout) }
    }
}

impl fmt::Debug for OverflowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (heap_bytes, file_bytes) = (self.heap_bytes(), self.file_bytes());
        f.debug_struct("OverflowMemory").field("heap_bytes", &heap_bytes).field("file_bytes", &file_bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use allocator_api2::vec::Vec as PieceVec;

    use super::*;
    use crate::{Disk, RealDisk};

    /// Files in a folder, of at most `bytes_max` bytes.
    #[derive(Debug)]
    struct Folder {
        disk: Arc<RealDisk>,
        bytes_max: u64,
    }

    #[derive(Debug)]
    struct FolderFile {
        memory: Arc<FileMemory>,
        disk: Arc<RealDisk>,
        bytes_max: u64,
    }

    impl OverflowFiles for Folder {
        fn open(&self) -> Result<Box<dyn OverflowFile>> {
            let memory = Arc::new(self.disk.file_memory("pieces")?);
            Ok(Box::new(FolderFile { memory, disk: Arc::clone(&self.disk), bytes_max: self.bytes_max }))
        }
    }

    impl OverflowFile for FolderFile {
        fn memory(&self) -> &Arc<FileMemory> {
            &self.memory
        }

        fn charge(&mut self, bytes: u64) -> Result<()> {
            if bytes > self.bytes_max { Err(Error::new(ErrorKind::DiskFull, "too much")) } else { Ok(()) }
        }
    }

    impl Drop for FolderFile {
        fn drop(&mut self) {
            self.disk.remove("pieces").expect("removed");
        }
    }

    fn memory(dir: &tempfile::TempDir, heap_bytes_max: u64, bytes_max: u64) -> OverflowMemory {
        let disk = Arc::new(RealDisk::new(dir.path()));
        OverflowMemory::new(Box::new(Folder { disk, bytes_max }), heap_bytes_max)
    }

    fn piece(memory: &OverflowMemory, bytes: usize, value: u8) -> PieceVec<u8, OverflowMemory> {
        let mut piece = PieceVec::with_capacity_in(bytes, memory.clone());
        piece.resize(bytes, value);
        piece
    }

    #[test]
    fn pieces_go_to_the_file_when_the_heap_is_at_its_bound() {
        let dir = tempfile::tempdir().expect("a folder");
        let memory = memory(&dir, 10_000, u64::MAX);
        let mut pieces: Vec<_> = (0..40_u8).map(|at| (at, piece(&memory, 4_000, at))).collect();
        assert_eq!(memory.heap_bytes(), 8_000);
        assert_eq!(memory.file_bytes(), 38 * 4_032);
        assert!(dir.path().join("pieces").exists());
        // Small pieces stay on the heap.
        let small = piece(&memory, 100, 1);
        assert_eq!(memory.heap_bytes(), 8_100);
        // A freed piece is used again, and no piece touches another one.
        pieces.retain(|(at, _)| at % 3 != 1);
        pieces.extend((100..113).map(|at| (at, piece(&memory, 4_000, at))));
        assert_eq!(memory.file_bytes(), 38 * 4_032);
        assert!(pieces.iter().all(|(at, piece)| piece.iter().all(|byte| byte == at)));
        memory.sync().expect("stored");
        drop((pieces, small));
        assert_eq!((memory.heap_bytes(), memory.file_bytes()), (0, 0));
        assert!(!dir.path().join("pieces").exists());
        // The next pieces get another file.
        memory.set_heap_bytes_max(0);
        let mut long = piece(&memory, 3 << 20, 7);
        long.extend_from_slice(&[8; 1 << 20]);
        assert_eq!((memory.heap_bytes(), long[3 << 20]), (0, 8));
        let copy = long.clone();
        drop(long);
        assert!(dir.path().join("pieces").exists() && copy[0] == 7);
    }

    #[test]
    fn a_piece_that_the_file_cannot_have_comes_from_the_heap_and_the_reason_is_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let memory = memory(&dir, 0, 2 << 20);
        let first = piece(&memory, 1 << 20, 1);
        let second = piece(&memory, 2 << 20, 2);
        assert_eq!((memory.file_bytes(), memory.heap_bytes()), (1 << 20, 2 << 20));
        // Until the failure is seen, the file is left alone.
        let third = piece(&memory, 5_000, 3);
        assert_eq!(memory.heap_bytes(), (2 << 20) + 5_000);
        assert_eq!(memory.take_failure().map(|error| error.kind()), Some(ErrorKind::DiskFull));
        assert_eq!(memory.take_failure(), None);
        assert!(second.iter().all(|byte| *byte == 2) && third[4_999] == 3 && first[0] == 1);
        drop((first, second, third));
        assert_eq!((memory.heap_bytes(), memory.file_bytes()), (0, 0));
    }

    #[test]
    fn memory_without_files_is_the_heap() {
        let memory = OverflowMemory::default();
        let pieces: Vec<_> = (0..10).map(|at| piece(&memory, 100_000, at)).collect();
        assert_eq!((pieces[9][99_999], memory.file_bytes(), memory.heap_bytes()), (9, 0, 0));
    }
}

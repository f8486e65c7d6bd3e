//! The long mapping: a file as one slice of memory that is longer than the file.
//!
//! ```text
//! address space   |======================================================|  capacity: a power of two, at least 1 GiB
//! file            |#################|                                        length: grows, the same pages appear here
//!                    ^ slice          ^ slice here: error, not SIGBUS
//! ```
//!
//! We reserve address space once, and it costs nothing. A file that grows therefore needs no new mapping, moves no
//! pointer and takes no lock from its readers. A file that outgrows its mapping is mapped again with more space. Later
//! readers get the new mapping, and earlier readers keep the old one. We close the descriptor once the file is mapped,
//! because a table may have a hundred columns, but a process only about a thousand descriptors.
//!
//! Touching a page after the end of the file raises SIGBUS, so every slice is checked against the file's length. The
//! length is cached, because files grow and nearly every slice is inside the length seen last. For a slice beyond it
//! we ask again (by `stat`, or from the memory disk). All mappings and handles that one disk has of a file share the
//! cached length, so that the others know at once when one of them cuts the file. Two cases remain: another process
//! cuts the file after the check, or the disk fails. Code that touches bytes for the first time must therefore call
//! [`Mapping::populate`], which has the kernel bring the pages in and turns both cases into an error. Another process
//! must not cut a file that this one reads. The engine's own processes agree on that through the ordered base.
//!
//! Only this file of the crate has unsafe code. Therefore it also contains the anonymous memory for the memory disk,
//! and system calls that the standard library does not have.

#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Result};

const _: () = assert!(size_of::<usize>() == 8, "mappings need a 64-bit address space");

/// The least address space of a mapping. A process has 2^17 times this much. Miri takes memory for all of it.
const CAPACITY_MIN: u64 = if cfg!(miri) { 1 << 20 } else { 1 << 30 };

/// A file, or a file of a memory disk, as memory. See the header of `mapping.rs` for how it grows.
pub struct Mapping {
    region: Arc<Region>,
    length: Arc<FileLength>,
    origin: MappingOrigin,
    guard: Option<Arc<dyn PopulateGuard>>,
}

/// The source of a mapping's bytes, which decides how we ask for the file's length.
#[derive(Clone)]
enum MappingOrigin {
    /// A file of the file system. Device and inode distinguish it from another file that has taken its name since.
    File { path: PathBuf, device: u64, inode: u64 },
    /// A file of a memory disk, which keeps the shared length itself.
    Memory { name: String },
}

/// Runs before every populate. A disk that injects faults uses it, because reads through a mapping are no calls.
pub(crate) trait PopulateGuard: Send + Sync + fmt::Debug {
    fn before_populate(&self, offset: u64, len: u64) -> Result<()>;
}

impl Mapping {
    /// Maps an open file of the file system. `length` is the one that all handles of the file share.
    pub(crate) fn of_file(file: &File, path: PathBuf, len_min: u64, length: Arc<FileLength>) -> Result<Mapping> {
        let metadata = file.metadata().map_err(|e| Error::io(format_args!("stat {}", path.display()), &e))?;
        let len = length.update(|| stat_len(file)).map_err(|e| Error::io(path.display(), &e))?;
        let region = Region::of_file(file, capacity_for(len_min.max(len)))
            .map_err(|e| reserve_error(format_args!("map {}", path.display()), &e))?;
        let origin = MappingOrigin::File { path, device: metadata.dev(), inode: metadata.ino() };
        Ok(Mapping { region: Arc::new(region), length, origin, guard: None })
    }

    /// Returns the mapping of a file of a memory disk.
    pub(crate) fn of_memory(memory: &Anonymous, name: String, length: Arc<FileLength>) -> Mapping {
        Mapping { region: memory.0.clone(), length, origin: MappingOrigin::Memory { name }, guard: None }
    }

    /// Returns a mapping of the same memory that calls `guard` before every populate.
    pub(crate) fn guarded(&self, guard: Arc<dyn PopulateGuard>) -> Mapping {
        Mapping {
            region: self.region.clone(),
            length: self.length.clone(),
            origin: self.origin.clone(),
            guard: Some(guard),
        }
    }

    /// The bytes of address space. An extent beyond them needs a new mapping.
    pub fn capacity(&self) -> u64 {
        self.region.len as u64
    }

    /// Returns the bytes from `offset`. Fails with `Corrupt` if the file is too short, is missing, or has been
    /// replaced by another file.
    ///
    /// # Safety
    ///
    /// While the slice lives, no thread of any process may write, punch or cut the range (see the rules in `disk.rs`).
    #[inline]
    pub unsafe fn slice(&self, offset: u64, len: usize) -> Result<&[u8]> {
        self.check(offset, len)?;
        // SAFETY: 1. [offset, offset + len) is inside the region and inside the file's length: checked above, and the
        // region lives as long as `self`. 2. u8 has no alignment and no invalid values. 3. No thread writes the range
        // while the slice lives: the caller promises it.
        Ok(unsafe { std::slice::from_raw_parts(self.region.start.as_ptr().add(offset as usize), len) })
    }

    /// Brings the range into memory. Returns an error in the cases in which touching it would raise SIGBUS: `Io` if
    /// the disk cannot read it, `Corrupt` if another process cut the file.
    pub fn populate(&self, offset: u64, len: usize) -> Result<()> {
        // A test may let the read fail here.
        if let Some(guard) = &self.guard {
            guard.before_populate(offset, len as u64)?;
        }
        self.check(offset, len)?;
        match &self.origin {
            MappingOrigin::Memory { .. } => Ok(()),
            MappingOrigin::File { .. } if len == 0 => Ok(()),
            MappingOrigin::File { path, device, inode } => match self.region.populate(offset as usize, len) {
                Populated::Yes => Ok(()),
                // Without the advice, calls at least find the errors that a touch would meet.
                Populated::Unsupported => read_through(path, (*device, *inode), offset, len),
                Populated::Failed(cause) => {
                    // EFAULT says only that a touch would have raised SIGBUS. Reading the range says why.
                    read_through(path, (*device, *inode), offset, len)?;
                    Err(Error::io(format_args!("read {len} bytes at {offset} of {}", path.display()), &cause))
                }
            },
        }
    }

    #[inline]
    fn check(&self, offset: u64, len: usize) -> Result<()> {
        let end = offset.saturating_add(len as u64);
        if end <= self.capacity() && end <= self.length.get() {
            return Ok(());
        }
        self.check_again(offset, len, end)
    }

    /// The slow part of `check`: the file may have grown since we last asked for its length.
    #[cold]
    fn check_again(&self, offset: u64, len: usize, end: u64) -> Result<()> {
        let length = self.refresh()?;
        if end > length {
            return Err(Error::corrupt(format!(
                "{}: {len} bytes at offset {offset} were asked for, but the file ends at {length}",
                self.name()
            ))
            .in_file(self.name())
            .at_offset(offset));
        }
        if end > self.capacity() {
            return Err(Error::internal(format!(
                "{}: {len} bytes at offset {offset} end after the {} bytes that are mapped",
                self.name(),
                self.capacity()
            )));
        }
        Ok(())
    }

    fn refresh(&self) -> Result<u64> {
        let MappingOrigin::File { path, device, inode } = &self.origin else {
            // We ask by path, because the descriptor is closed. The file now under this name must be the one that was
            // mapped.
            return Ok(self.length.get());
        };
        self.length
            .update(|| {
                let metadata = std::fs::metadata(path)?;
                if (metadata.dev(), metadata.ino()) != (*device, *inode) {
                    return Err(io::Error::from(io::ErrorKind::NotFound));
                }
                Ok(metadata.len())
            })
            .map_err(|e| file_error(path, &e))
    }

    fn name(&self) -> String {
        match &self.origin {
            MappingOrigin::File { path, .. } => path.display().to_string(),
            MappingOrigin::Memory { name } => name.clone(),
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, capacity, length) = (self.name(), self.capacity(), self.length.get());
        f.debug_struct("Mapping").field("file", &name).field("capacity", &capacity).field("length", &length).finish()
    }
}

/// The length of a file as its handles and mappings know it. It may be too small for a file that grows, but it must
/// never be too large for a file that this process cuts. Therefore every change of the length and every new question
/// for it happens under the lock.
#[derive(Debug, Default)]
pub(crate) struct FileLength {
    bytes: AtomicU64,
    changing: Mutex<()>,
}

impl FileLength {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Sets the length. Only for a memory disk, which has a lock of its own.
    pub(crate) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
    }

    /// Runs `change` under the lock. It returns the file's new length.
    pub(crate) fn update(&self, change: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        let _changing = self.changing.lock();
        let bytes = change()?;
        self.bytes.store(bytes, Ordering::Release);
        Ok(bytes)
    }

    /// Lowers the length to at most `bytes`, then runs `cut`. The order matters: no thread may pass a check against
    /// bytes that are about to disappear.
    pub(crate) fn cut(&self, bytes: u64, cut: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _changing = self.changing.lock();
        // Lower the length before the bytes disappear.
        self.bytes.fetch_min(bytes, Ordering::AcqRel);
        cut()
    }
}

/// Memory that belongs to no file. A memory disk keeps its files in it. It reads as zeros until it is written, and
/// takes no memory until it is touched.
#[derive(Clone, Debug)]
pub(crate) struct Anonymous(Arc<Region>);

impl Anonymous {
    /// Reserves at least `len_min` bytes of address space.
    pub(crate) fn reserve(name: &str, len_min: u64) -> Result<Anonymous> {
        let region = Region::anonymous(capacity_for(len_min))
            .map_err(|e| reserve_error(format_args!("reserve memory for {name}"), &e))?;
        Ok(Anonymous(Arc::new(region)))
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.0.len as u64
    }

    pub(crate) fn downgrade(&self) -> WeakAnonymous {
        WeakAnonymous(Arc::downgrade(&self.0))
    }

    /// Copies the first `len` bytes into another range. Both ranges must be at least that long.
    pub(crate) fn copy_to(&self, target: &Anonymous, len: u64) {
        assert!(!Arc::ptr_eq(&self.0, &target.0), "a file must move into another range");
        let (from, to) = (self.0.at(0, len), target.0.at(0, len));
        // SAFETY: 1. `at` checked both ranges. 2. They are different regions, so they do not overlap. 3. No thread
        // writes the source or touches the target: the caller holds the file's lock and the target is new.
        unsafe { ptr::copy_nonoverlapping(from, to, len as usize) }
    }

    /// Copies bytes out of the region. The range must be inside the capacity.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) {
        let from = self.0.at(offset, buf.len() as u64);
        // SAFETY: 1. `at` checked that the source is inside the region, which is readable and lives as long as `self`.
        // 2. The target is a slice of its own. 3. No thread writes the source: the caller holds the file's lock.
        unsafe { ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), buf.len()) }
    }

    /// Copies bytes into the region. The range must be inside the capacity.
    pub(crate) fn write(&self, buf: &[u8], offset: u64) {
        let to = self.0.at(offset, buf.len() as u64);
        // SAFETY: 1. `at` checked that the target is inside the region, which is writable because it is anonymous and
        // lives as long as `self`. 2. `buf` does not overlap it: a slice of the target would break the rule that no
        // slice of a range may exist while the range is written. 3. No other thread reads or writes the target: the
        // caller holds the file's lock, and the same rule excludes holders of slices.
        unsafe { ptr::copy_nonoverlapping(buf.as_ptr(), to, buf.len()) }
    }

    /// Zeros a range and gives its whole pages back to the system. The range must be inside the capacity.
    pub(crate) fn discard(&self, offset: u64, len: u64) {
        let page = page_len();
        let (start, end) = (offset, offset + len);
        let pages_start = start.next_multiple_of(page).min(end);
        let pages_end = (end / page * page).max(pages_start);
        // Only whole pages can be given back, so we zero the partial pages at both ends by hand.
        self.zero(start, pages_start - start);
        self.zero(pages_end, end - pages_end);
        if pages_end > pages_start && !self.0.discard_pages(pages_start, pages_end - pages_start) {
            self.zero(pages_start, pages_end - pages_start);
        }
    }

    fn zero(&self, offset: u64, len: u64) {
        let to = self.0.at(offset, len);
        // SAFETY: 1. `at` checked that the range is inside the region, which is writable. 2. No other thread touches
        // the range: the caller holds the file's lock, and no slice of it may exist.
        unsafe { ptr::write_bytes(to, 0, len as usize) }
    }
}

/// A range of anonymous memory that is freed when its last mapping is dropped.
#[derive(Debug)]
pub(crate) struct WeakAnonymous(Weak<Region>);

impl WeakAnonymous {
    pub(crate) fn upgrade(&self) -> Option<Anonymous> {
        self.0.upgrade().map(Anonymous)
    }
}

/// One range of address space, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is an address range and not tied to a thread. The methods that access its bytes say which thread
// may touch which bytes at which time.
unsafe impl Send for Region {}
// SAFETY: as for `Send`: the methods that access the bytes rule out data races.
unsafe impl Sync for Region {}

impl Region {
    fn of_file(file: &File, len: usize) -> io::Result<Region> {
        Region::map(len, libc::PROT_READ, libc::MAP_SHARED | libc::MAP_NORESERVE, file.as_raw_fd())
    }

    /// Maps a file for reading and writing.
    pub(crate) fn of_writable_file(file: &File, len: usize) -> io::Result<Region> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        Region::map(len, protection, libc::MAP_SHARED | libc::MAP_NORESERVE, file.as_raw_fd())
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn anonymous(len: usize) -> io::Result<Region> {
        // NORESERVE, because most of the address space is never touched. Miri does not know it.
        let no_reserve = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | no_reserve;
        Region::map(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
    }

    fn map(len: usize, protection: i32, flags: i32, descriptor: i32) -> io::Result<Region> {
        // SAFETY: a new range at an address that the kernel chooses touches no memory of ours; the descriptor is open
        // for the length of the call or -1 for anonymous memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("the kernel must not map address zero unless asked to");
        Ok(Region { start, len })
    }

    /// The address of a range inside the region. Panics if the range is not inside, because callers must have checked
    /// it.
    fn at(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len as u64), "a range must be inside its region");
        // SAFETY: the offset is at most the region's length, so the address stays inside or one past the end of it.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }

    // Miri knows no advice about memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn populate(&self, offset: usize, len: usize) -> Populated {
        let page = page_len() as usize;
        let first = offset / page * page;
        let len = (offset + len).next_multiple_of(page) - first;
        let start = self.at(first as u64, len as u64);
        loop {
            // SAFETY: the range is inside the region (checked by `at`; its length is a multiple of the page length),
            // and the advice changes no bytes.
            if unsafe { libc::madvise(start.cast(), len, libc::MADV_POPULATE_READ) } == 0 {
                return Populated::Yes;
            }
            let cause = io::Error::last_os_error();
            match cause.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => continue,
                // A kernel before 5.14 does not know the advice. A lack of memory for page tables is no fault of the
                // file.
                Some(libc::EINVAL | libc::ENOSYS | libc::ENOMEM) => return Populated::Unsupported,
                _ => return Populated::Failed(cause),
            }
        }
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    fn populate(&self, _offset: usize, _len: usize) -> Populated {
        Populated::Unsupported
    }

    /// Drops whole pages of anonymous memory, which read as zeros afterwards. Returns false if the system does not
    /// promise that.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn discard_pages(&self, offset: u64, len: u64) -> bool {
        let start = self.at(offset, len);
        // SAFETY: the range is inside the region and starts at a page. It is anonymous and private, so its bytes
        // become zeros. No other thread touches them, as in `Anonymous::write`.
        unsafe { libc::madvise(start.cast(), len as usize, libc::MADV_DONTNEED) == 0 }
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    fn discard_pages(&self, _offset: u64, _len: u64) -> bool {
        false
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` with this length and is unmapped once; all slices of it borrow from a
        // mapping that holds the region.
        let outcome = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(outcome, 0, "unmapping a mapped range must succeed");
    }
}

#[cfg_attr(any(not(target_os = "linux"), miri), allow(dead_code))]
enum Populated {
    Yes,
    Failed(io::Error),
    Unsupported,
}

/// Gives a range of a file back to the file system. Returns false if the system or the file system cannot.
#[cfg(target_os = "linux")]
pub(crate) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
}

/// Makes a file `len` bytes long, with space for all of them. It must not be longer.
#[cfg(target_os = "linux")]
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    let before = stat_len(file)?;
    match before < len && !fallocate(file, 0, before, len - before)? {
        true => write_zeros_to(file, len),
        false => Ok(()),
    }
}

/// Makes a file `len` bytes long, with space for all of them. It must not be longer.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    write_zeros_to(file, len)
}

/// Extends a file with zeros that take space, for systems that cannot take space otherwise.
fn write_zeros_to(mut file: &File, len: u64) -> io::Result<()> {
    let end = file.seek(SeekFrom::End(0))?;
    io::copy(&mut io::repeat(0).take(len.saturating_sub(end)), &mut file).map(drop)
}

/// Has the system store the changed pages of a range of a file. With `waits`, returns when the device has them, else
/// when the system has begun. The system tells of a failed write only once, so the caller must not drop the error.
#[cfg(target_os = "linux")]
pub(crate) fn store(file: &File, offset: u64, len: u64, waits: bool) -> io::Result<()> {
    let waited = if waits { libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER } else { 0 };
    let (offset, len) = (offset as libc::off64_t, len as libc::off64_t);
    // SAFETY: a call on an open descriptor that touches no memory of ours.
    let stored = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, waited | libc::SYNC_FILE_RANGE_WRITE) };
    let cause = io::Error::last_os_error();
    match cause.raw_os_error() {
        _ if stored == 0 => Ok(()),
        // A system without the call, or an interrupted one. A sync follows and does the same work.
        Some(libc::ENOSYS | libc::EINVAL | libc::EINTR) => Ok(()),
        _ => Err(cause),
    }
}

#[cfg(target_os = "linux")]
fn fallocate(file: &File, mode: libc::c_int, offset: u64, len: u64) -> io::Result<bool> {
    loop {
        // SAFETY: a call on an open descriptor that touches no memory of ours.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, len as libc::off_t) } == 0 {
            return Ok(true);
        }
        let cause = io::Error::last_os_error();
        match cause.raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(cause),
        }
    }
}

/// Gives a range of a file back to the file system. Returns false if the system or the file system cannot.
#[cfg(not(target_os = "linux"))]
pub(crate) fn punch_hole(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// Does nothing: the system has no such call.
#[cfg(not(target_os = "linux"))]
pub(crate) fn store(_file: &File, _offset: u64, _len: u64, _waits: bool) -> io::Result<()> {
    Ok(())
}

/// Reads a range of a file by calls, to find the error that touching its mapping would have raised. A file that has
/// lost its name can be read only through its mapping, and no process can cut it by name, so it passes.
fn read_through(path: &Path, identity: (u64, u64), offset: u64, len: usize) -> Result<()> {
    let read = || -> io::Result<()> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // Another file has taken the name. Reading it would tell nothing about the mapped one.
        if (metadata.dev(), metadata.ino()) != identity {
            return Ok(());
        }
        let mut scratch = vec![0; len.min(1 << 16)];
        for start in (0..len).step_by(1 << 16) {
            let part = (len - start).min(1 << 16);
            file.read_exact_at(&mut scratch[..part], offset + start as u64)?;
        }
        Ok(())
    };
    match read() {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(file_error(path, &e).context(format_args!("read {len} bytes at {offset}")).at_offset(offset))
        }
        _ => Ok(()),
    }
}

/// The error for a file that is in use: a missing or too short file is damage, any other cause is the disk.
fn file_error(path: &Path, cause: &io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound => {
            Error::corrupt(format!("{}: the file was removed or replaced while it was in use", path.display()))
                .in_file(path.display())
        }
        io::ErrorKind::UnexpectedEof => {
            Error::corrupt(format!("{}: the file was cut while it was in use", path.display())).in_file(path.display())
        }
        _ => Error::io(path.display(), cause),
    }
}

fn reserve_error(what: fmt::Arguments<'_>, cause: &io::Error) -> Error {
    let error = Error::io(what, cause);
    match cause.raw_os_error() {
        Some(libc::ENOMEM) => Error::new(ErrorKind::MemoryLimit, error.message().to_owned()).caused_by(error).hint(
            "the process is out of address space or of mappings: look at `ulimit -v` and at the kernel's \
             vm.max_map_count",
        ),
        _ => error,
    }
}

fn stat_len(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

fn capacity_for(len: u64) -> usize {
    // No power of two above 2^63 fits. The kernel refuses such a length long before.
    len.max(CAPACITY_MIN).checked_next_power_of_two().unwrap_or(1 << 63) as usize
}

/// The bytes of a page of memory.
pub fn page_len() -> u64 {
    // SAFETY: a call without arguments in memory; the page length is known on every system that we build for.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(len).expect("the system has a page length")
}

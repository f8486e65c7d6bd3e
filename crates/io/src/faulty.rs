//! A disk that fails on demand, counts its calls and remembers what it was told to write.
//!
//! It stands in front of another disk. Its [`FaultPlan`] is shared by all handles and clones, so a test arms it while the
//! engine runs: "the third sync from now", "every write from the fifth on". A test of an algorithm counts the calls of a
//! run without faults and then repeats the run with each of them failing in turn.
//!
//! Reads through a mapping are no calls. Their `populate` is, and can fail; a flipped byte is seen by calls only.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Error, Result};

use crate::crash::{Record, is_dir, with_ancestors};
use crate::mapping::PopulateGuard;
use crate::{Disk, DiskFile, Mapping, OpenMode};

/// A kind of call. Those of a file and those of the disk count alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Call {
    Open,
    Len,
    List,
    CreateDir,
    Remove,
    RemoveDir,
    SyncDir,
    Map,
    Populate,
    Read,
    Write,
    Sync,
    SetLen,
    Punch,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Len => "stat",
            Call::List => "list",
            Call::CreateDir => "create folder",
            Call::Remove => "remove",
            Call::RemoveDir => "remove folder",
            Call::SyncDir => "sync folder",
            Call::Map => "map",
            Call::Populate => "populate",
            Call::Read => "read",
            Call::Write => "write",
            Call::Sync => "sync",
            Call::SetLen => "set the length of",
            Call::Punch => "punch a hole into",
        }
    }
}

/// How a call fails. It has no effect, except for a short write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// The first half of a write reaches the file, then ENOSPC. Other calls just fail with ENOSPC.
    ShortWrite,
    /// EINTR, as if from a system that does not restart calls.
    Interrupted,
}

impl Fault {
    fn cause(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Fault::Io => libc::EIO,
            Fault::NoSpace | Fault::ShortWrite => libc::ENOSPC,
            Fault::Interrupted => libc::EINTR,
        })
    }
}

/// What fails, what was counted and what was recorded. Clones are the same plan.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    armed: Vec<Armed>,
    counts: BTreeMap<Call, u64>,
    flips: Vec<Flip>,
    records: Option<Vec<Record>>,
}

#[derive(Debug)]
struct Armed {
    /// None: any call.
    call: Option<Call>,
    /// Calls that still succeed.
    left: u64,
    fault: Fault,
    lasting: bool,
}

#[derive(Debug)]
struct Flip {
    path: String,
    offset: u64,
    mask: u8,
}

impl FaultPlan {
    /// Fails the `nth` call from now (1 is the next), of one kind or (`None`) of any.
    pub fn fail(&self, call: impl Into<Option<Call>>, nth: u64, fault: Fault) {
        self.arm(call.into(), nth, fault, false);
    }

    /// Fails the `nth` call from now (1 is the next) and all after it, of one kind or (`None`) of any.
    pub fn fail_from(&self, call: impl Into<Option<Call>>, nth: u64, fault: Fault) {
        self.arm(call.into(), nth, fault, true);
    }

    fn arm(&self, call: Option<Call>, nth: u64, fault: Fault, lasting: bool) {
        let left = nth.checked_sub(1).expect("calls are counted from 1");
        self.0.lock().armed.push(Armed { call, left, fault, lasting });
    }

    /// Every call that reads the byte at `offset` of `path` sees it with the bits of `mask` flipped.
    pub fn flip_on_read(&self, path: &str, offset: u64, mask: u8) {
        self.0.lock().flips.push(Flip { path: path.to_owned(), offset, mask });
    }

    /// Nothing fails and no byte is flipped any more. Counts and records stay.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.armed.clear();
        state.flips.clear();
    }

    /// The calls of one kind so far, those that failed included.
    pub fn count(&self, call: Call) -> u64 {
        self.0.lock().counts.get(&call).copied().unwrap_or(0)
    }

    /// The calls of all kinds so far, those that failed included.
    pub fn count_all(&self) -> u64 {
        self.0.lock().counts.values().sum()
    }

    /// Records from now on what changes the disk, for [`crash_state`](crate::crash_state). What was recorded is dropped.
    pub fn record(&self) {
        self.0.lock().records = Some(Vec::new());
    }

    /// What was recorded so far, in order.
    pub fn records(&self) -> Vec<Record> {
        self.0.lock().records.clone().unwrap_or_default()
    }

    /// Counts a call. Some fault if it is to fail.
    fn meet(&self, call: Call) -> Option<Fault> {
        let mut state = self.0.lock();
        *state.counts.entry(call).or_default() += 1;
        let mut met = None;
        state.armed.retain_mut(|armed| {
            if armed.call.is_some_and(|of| of != call) {
                return true;
            }
            if armed.left > 0 {
                armed.left -= 1;
                return true;
            }
            met.get_or_insert(armed.fault);
            armed.lasting
        });
        met
    }

    fn remember(&self, record: impl FnOnce() -> Record) {
        if let Some(records) = &mut self.0.lock().records {
            records.push(record());
        }
    }

    fn flip(&self, path: &str, buf: &mut [u8], offset: u64) {
        for flip in self.0.lock().flips.iter().filter(|flip| flip.path == path) {
            let at = flip.offset.checked_sub(offset).and_then(|at| buf.get_mut(at as usize));
            if let Some(byte) = at {
                *byte ^= flip.mask;
            }
        }
    }
}

/// A disk in front of another one that fails by plan.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    plan: FaultPlan,
}

impl FaultyDisk {
    /// A disk in front of `inner` that does not fail yet.
    pub fn new(inner: Arc<dyn Disk>) -> FaultyDisk {
        FaultyDisk { inner, plan: FaultPlan::default() }
    }

    /// The plan that this disk and its files follow.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    fn meet(&self, call: Call, path: &str) -> Result<()> {
        match self.plan.meet(call) {
            None => Ok(()),
            Some(fault) => Err(Error::io(format_args!("{} {}", call.name(), self.describe(path)), &fault.cause())),
        }
    }

    /// Runs a call of the disk that changes it, and records it if it succeeds.
    fn change(
        &self,
        call: Call,
        path: &str,
        run: impl FnOnce() -> Result<()>,
        record: fn(String) -> Record,
    ) -> Result<()> {
        self.meet(call, path)?;
        run()?;
        self.plan.remember(|| record(path.to_owned()));
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>> {
        self.meet(Call::Open, path)?;
        let creates = mode == OpenMode::Create && self.inner.len(path)?.is_none();
        let inner = self.inner.open(path, mode)?;
        if creates {
            self.plan.remember(|| Record::CreateFile { path: path.to_owned() });
        }
        let (path, name) = (path.to_owned(), self.describe(path));
        Ok(Box::new(FaultyFile { inner, plan: self.plan.clone(), path, name }))
    }

    fn len(&self, path: &str) -> Result<Option<u64>> {
        self.meet(Call::Len, path)?;
        self.inner.len(path)
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        self.meet(Call::List, dir)?;
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        self.meet(Call::CreateDir, dir)?;
        let mut made = Vec::new();
        for dir in with_ancestors(dir) {
            if !is_dir(&*self.inner, dir)? {
                made.push(dir);
            }
        }
        self.inner.create_dir(dir)?;
        for dir in made.into_iter().rev() {
            self.plan.remember(|| Record::CreateDir { path: dir.to_owned() });
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.change(Call::Remove, path, || self.inner.remove(path), |path| Record::Remove { path })
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        self.change(Call::RemoveDir, dir, || self.inner.remove_dir(dir), |path| Record::RemoveDir { path })
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.change(Call::SyncDir, dir, || self.inner.sync_dir(dir), |path| Record::SyncDir { path })
    }

    fn map(&self, path: &str, len_min: u64) -> Result<Arc<Mapping>> {
        self.meet(Call::Map, path)?;
        let guard = Guard { plan: self.plan.clone(), name: self.describe(path) };
        Ok(Arc::new(self.inner.map(path, len_min)?.guarded(Arc::new(guard))))
    }

    fn is_memory(&self) -> bool {
        self.inner.is_memory()
    }

    fn describe(&self, path: &str) -> String {
        self.inner.describe(path)
    }
}

#[derive(Debug)]
struct Guard {
    plan: FaultPlan,
    name: String,
}

impl PopulateGuard for Guard {
    fn before_populate(&self, offset: u64, len: u64) -> Result<()> {
        match self.plan.meet(Call::Populate) {
            None => Ok(()),
            Some(fault) => {
                Err(Error::io(format_args!("read {len} bytes at {offset} of {}", self.name), &fault.cause()))
            }
        }
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn DiskFile>,
    plan: FaultPlan,
    path: String,
    name: String,
}

impl FaultyFile {
    fn meet(&self, call: Call) -> Result<()> {
        match self.plan.meet(call) {
            None => Ok(()),
            Some(fault) => Err(self.error(call, fault)),
        }
    }

    fn error(&self, call: Call, fault: Fault) -> Error {
        Error::io(format_args!("{} {}", call.name(), self.name), &fault.cause())
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.inner.write_all_at(buf, offset)?;
        self.plan.remember(|| Record::Write { path: self.path.clone(), offset, bytes: buf.to_vec() });
        Ok(())
    }
}

impl DiskFile for FaultyFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.meet(Call::Read)?;
        self.inner.read_exact_at(buf, offset)?;
        self.plan.flip(&self.path, buf, offset);
        Ok(())
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        match self.plan.meet(Call::Write) {
            None => self.write(buf, offset),
            Some(fault) => {
                if fault == Fault::ShortWrite {
                    self.write(&buf[..buf.len() / 2], offset)?;
                }
                Err(self.error(Call::Write, fault))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.meet(Call::Sync)?;
        self.inner.sync()?;
        self.plan.remember(|| Record::Sync { path: self.path.clone() });
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.meet(Call::Len)?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.meet(Call::SetLen)?;
        self.inner.set_len(len)?;
        self.plan.remember(|| Record::SetLen { path: self.path.clone(), len });
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.meet(Call::Punch)?;
        self.inner.punch(offset, len)?;
        self.plan.remember(|| Record::Punch { path: self.path.clone(), offset, len });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rowmill_base::ErrorKind;

    use super::*;
    use crate::MemoryDisk;

    fn disk() -> (FaultyDisk, FaultPlan) {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        (disk, plan)
    }

    #[test]
    fn the_nth_call_of_its_kind_fails_once() {
        let (disk, plan) = disk();
        let file = disk.open("f", OpenMode::Create).unwrap();
        plan.fail(Call::Sync, 2, Fault::Io);
        file.sync().unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
        file.sync().unwrap();
        assert_eq!((plan.count(Call::Sync), plan.count(Call::Write), plan.count_all()), (3, 1, 5));
    }

    #[test]
    fn a_lasting_fault_ends_with_clear() {
        let (disk, plan) = disk();
        plan.fail_from(None, 2, Fault::NoSpace);
        let file = disk.open("f", OpenMode::Create).unwrap();
        assert_eq!(file.write_all_at(b"abc", 0).unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(disk.open("g", OpenMode::Create).unwrap_err().kind(), ErrorKind::DiskFull);
        plan.clear();
        file.write_all_at(b"abc", 0).unwrap();
        assert_eq!(disk.len("g").unwrap(), None, "a call that failed had no effect");
    }

    #[test]
    fn a_short_write_leaves_its_first_half() {
        let (disk, plan) = disk();
        let file = disk.open("f", OpenMode::Create).unwrap();
        plan.fail(Call::Write, 1, Fault::ShortWrite);
        assert_eq!(file.write_all_at(b"abcdef", 0).unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(file.len().unwrap(), 3);
        plan.fail(Call::Write, 1, Fault::Interrupted);
        assert!(file.write_all_at(b"abcdef", 0).unwrap_err().message().contains("write memory:f"));
    }

    #[test]
    fn flipped_bytes_are_seen_by_every_read_that_covers_them() {
        let (disk, plan) = disk();
        let file = disk.open("f", OpenMode::Create).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        plan.flip_on_read("f", 3, 0x20);
        let mut buf = [0; 4];
        file.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"abcD");
        disk.open("f", OpenMode::Read).unwrap().read_exact_at(&mut buf[..2], 3).unwrap();
        assert_eq!(&buf[..2], b"De");
        plan.clear();
        file.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"abcd");
    }

    #[test]
    fn populate_fails_by_plan() {
        let (disk, plan) = disk();
        disk.open("f", OpenMode::Create).unwrap().write_all_at(b"abcdef", 0).unwrap();
        let mapping = disk.map("f", 0).unwrap();
        plan.fail(Call::Populate, 1, Fault::Io);
        let error = mapping.populate(2, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("read 4 bytes at 2 of memory:f"), "{error}");
        mapping.populate(2, 4).unwrap();
    }
}

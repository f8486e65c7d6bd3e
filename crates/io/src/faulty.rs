//! A disk for tests that fails on demand, counts its calls and records its writes.
//!
//! It wraps another disk. All handles and clones share its [`FaultPlan`], so a test can arm it while the engine runs:
//! "the third sync from now", "every write from the fifth on". A test of an algorithm should count the calls of a run
//! without faults, then repeat the run with each of these calls failing in turn.
//!
//! Reads through a mapping are no calls. `populate` is a call and can fail.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use parking_lot::Mutex;
use rowmill_base::{Error, Result};

use crate::crash::{DiskChange, is_dir, with_ancestors};
use crate::file_memory::FileMemoryGuard;
use crate::mapping::PopulateGuard;
use crate::{Disk, DiskFile, FileMemory, Mapping, OpenMode};

/// A kind of call. Calls of a file and calls of the disk share these kinds.
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

/// The way in which a call fails. A call that fails has no effect, except for a short write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// The first half of a write reaches the file, then the write fails with ENOSPC. Other calls only fail with
    /// ENOSPC.
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

/// The planned faults, the counts of calls and the recorded changes. All clones share one plan.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan(Arc<Mutex<FaultState>>);

#[derive(Debug, Default)]
struct FaultState {
    armed: Vec<Armed>,
    counts: BTreeMap<Call, u64>,
    pauses: BTreeMap<Call, Duration>,
    records: Option<Vec<DiskChange>>,
}

#[derive(Debug)]
struct Armed {
    /// The kind of call that fails, or `None` for any call.
    call: Option<Call>,
    /// The number of calls that still succeed.
    left: u64,
    fault: Fault,
    lasting: bool,
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

    /// Lets each call of one kind take at least the time `pause`, as on a busy disk.
    pub fn slow_down(&self, call: Call, pause: Duration) {
        self.0.lock().pauses.insert(call, pause);
    }

    /// Removes all faults and pauses. Counts and records stay.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.armed.clear();
        state.pauses.clear();
    }

    /// The number of calls of one kind so far, including calls that failed.
    pub fn count(&self, call: Call) -> u64 {
        self.0.lock().counts.get(&call).copied().unwrap_or(0)
    }

    /// The number of calls of all kinds so far, including calls that failed.
    pub fn count_all(&self) -> u64 {
        self.0.lock().counts.values().sum()
    }

    /// Starts to record every change of the disk, for [`crash_state`](crate::crash_state). Earlier records are
    /// dropped.
    pub fn record(&self) {
        self.0.lock().records = Some(Vec::new());
    }

    /// The changes recorded so far, in order.
    pub fn records(&self) -> Vec<DiskChange> {
        self.0.lock().records.clone().unwrap_or_default()
    }

    /// Counts a call. Returns the fault if the call must fail.
    fn meet(&self, call: Call) -> Option<Fault> {
        let mut state = self.0.lock();
        *state.counts.entry(call).or_default() += 1;
        let mut met = None;
        // Every armed fault counts this call, even if another one already fails it.
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
        let pause = state.pauses.get(&call).copied();
        drop(state);
        if let Some(pause) = pause {
            sleep(pause);
        }
        met
    }

    fn remember(&self, record: impl FnOnce() -> DiskChange) {
        if let Some(records) = &mut self.0.lock().records {
            records.push(record());
        }
    }
}

/// A disk that wraps another disk and fails as its plan says.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    plan: FaultPlan,
}

impl FaultyDisk {
    /// Wraps `inner`. The new disk has no faults yet.
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

    /// Runs a call that changes the disk, and records it if it succeeds.
    fn change(
        &self,
        call: Call,
        path: &str,
        run: impl FnOnce() -> Result<()>,
        record: fn(String) -> DiskChange,
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
        // We must look before the call whether the file exists, because only a new file is recorded.
        let creates = mode == OpenMode::Create && self.inner.len(path)?.is_none();
        let inner = self.inner.open(path, mode)?;
        if creates {
            self.plan.remember(|| DiskChange::CreateFile { path: path.to_owned() });
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
        // `create_dir` also makes missing parents. Each of them is a change that a crash may lose, so each is
        // recorded.
        let mut made = Vec::new();
        for dir in with_ancestors(dir) {
            if !is_dir(&*self.inner, dir)? {
                made.push(dir);
            }
        }
        self.inner.create_dir(dir)?;
        // Parents come first, as on the disk.
        for dir in made.into_iter().rev() {
            self.plan.remember(|| DiskChange::CreateDir { path: dir.to_owned() });
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.change(Call::Remove, path, || self.inner.remove(path), |path| DiskChange::Remove { path })
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        self.change(Call::RemoveDir, dir, || self.inner.remove_dir(dir), |path| DiskChange::RemoveDir { path })
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.change(Call::SyncDir, dir, || self.inner.sync_dir(dir), |path| DiskChange::SyncDir { path })
    }

    fn map(&self, path: &str, len_min: u64) -> Result<Arc<Mapping>> {
        self.meet(Call::Map, path)?;
        let guard = Guard { plan: self.plan.clone(), name: self.describe(path) };
        Ok(Arc::new(self.inner.map(path, len_min)?.guarded(Arc::new(guard))))
    }

    fn file_memory(&self, path: &str) -> Result<FileMemory> {
        self.meet(Call::Open, path)?;
        let guard = Guard { plan: self.plan.clone(), name: self.describe(path) };
        Ok(self.inner.file_memory(path)?.guarded(Arc::new(guard)))
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

impl Guard {
    fn meet(&self, call: Call) -> Result<()> {
        let error = |fault: Fault| Error::io(format_args!("{} {}", call.name(), self.name), &fault.cause());
        self.plan.meet(call).map_or(Ok(()), |fault| Err(error(fault)))
    }
}

impl FileMemoryGuard for Guard {
    /// Taking space for bytes counts as a write of them.
    fn before_grow(&self) -> Result<()> {
        self.meet(Call::Write)
    }

    fn before_sync(&self) -> Result<()> {
        self.meet(Call::Sync)
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
        self.plan.remember(|| DiskChange::Write { path: self.path.clone(), offset, bytes: buf.to_vec() });
        Ok(())
    }
}

impl DiskFile for FaultyFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.meet(Call::Read)?;
        self.inner.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        match self.plan.meet(Call::Write) {
            None => self.write(buf, offset),
            Some(fault) => {
                if fault == Fault::ShortWrite {
                    // The half that reached the file must also be in the record, or a crash state would lack it.
                    self.write(&buf[..buf.len() / 2], offset)?;
                }
                Err(self.error(Call::Write, fault))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.meet(Call::Sync)?;
        self.inner.sync()?;
        self.plan.remember(|| DiskChange::Sync { path: self.path.clone() });
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.meet(Call::Len)?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.meet(Call::SetLen)?;
        self.inner.set_len(len)?;
        self.plan.remember(|| DiskChange::SetLen { path: self.path.clone(), len });
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.meet(Call::Punch)?;
        self.inner.punch(offset, len)?;
        self.plan.remember(|| DiskChange::Punch { path: self.path.clone(), offset, len });
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

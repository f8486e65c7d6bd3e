//! Power cuts and failing disks: whatever reached the disk, it opens and holds exactly the commits that were
//! acknowledged.
//!
//! A disk that records every call and a base that notes when it was written run the workloads. The record of each is
//! then cut at every call, each change that was not synced by then is kept, lost or torn, and what remains is opened,
//! read, checked for waste and written to.

#![allow(clippy::print_stdout)]

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result};
use rowmill_io::{Disk, DiskChange, Fate, Fault, FaultPlan, FaultyDisk, MemoryDisk, OpenMode, crash_state};
use rowmill_storage::PAGE_BYTES;
use rowmill_txn::Engine;
use rowmill_txn::base::{BaseChecked, BaseRead, BatchParts, MemoryBase, OrderedBase, WriteBatch};

use crate::space::named_bytes;
use crate::support::{settings, times};
use crate::workload::{
    Acknowledged, Content, Named, Stage, WORKLOADS, Workload, a_bit_of_everything, content_of, create, insert,
};

const ROWS_PER_BLOCK: usize = 40;

/// A base that is on disk whenever it has been written, and knows how far the record of the disk was then.
#[derive(Debug)]
struct NotedBase {
    base: MemoryBase,
    plan: FaultPlan,
    writes: Mutex<Vec<Write>>,
}

#[derive(Clone, Debug)]
struct Write {
    records: usize,
    parts: Vec<WriteBatch>,
    commit: CommitId,
}

impl NotedBase {
    fn new(plan: &FaultPlan) -> Arc<NotedBase> {
        Arc::new(NotedBase { base: MemoryBase::new(), plan: plan.clone(), writes: Mutex::default() })
    }
}

impl OrderedBase for NotedBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read()
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, commit: CommitId) -> Result<()> {
        let records = self.plan.records().len();
        let parts: Vec<WriteBatch> = parts.map(Cow::into_owned).collect();
        self.base.write_parts(&mut parts.iter().map(Cow::Borrowed), commit)?;
        self.writes.lock().push(Write { records, parts, commit });
        Ok(())
    }

    fn commit_id(&self) -> Result<CommitId> {
        self.base.commit_id()
    }

    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        self.base.oldest_reader()
    }

    fn readers(&self) -> Result<Vec<rowmill_txn::base::Reader>> {
        self.base.readers()
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        self.base.check(cancel)
    }

    fn read_again(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read_again()
    }
}

/// Bytes of the pages of column files that hold anything.
fn data_bytes(disk: &dyn Disk) -> u64 {
    let mut pages = 0;
    for table in disk.list("tables").expect("listed") {
        for name in disk.list(&format!("tables/{table}")).expect("listed") {
            let file = disk.open(&format!("tables/{table}/{name}"), OpenMode::Read).expect("opened");
            let mut bytes = vec![0; file.len().expect("its length") as usize];
            file.read_exact_at(&mut bytes, 0).expect("read");
            let full = |page: &&[u8]| page.iter().any(|byte| *byte != 0);
            pages += bytes.chunks(PAGE_BYTES as usize).filter(full).count() as u64;
        }
    }
    pages * PAGE_BYTES
}

/// Opens the remaining files, compares them with `expected`, and perhaps continues to work with them.
fn check(disk: MemoryDisk, base: MemoryBase, expected: &[Content], work_on: bool, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let base: Arc<dyn OrderedBase> = Arc::new(base);
    let open = || {
        let opened = Engine::over(Arc::clone(&disk), Arc::clone(&base), settings(ROWS_PER_BLOCK));
        opened.unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let engine = open();
    let content = content_of(&engine);
    assert!(expected.contains(&content), "{what}: {content:?}, and not one of {expected:?}");
    assert_eq!(data_bytes(&*disk), named_bytes(&engine), "{what}: nothing is left over");
    if !work_on {
        return;
    }
    let mut next = Workload::new(engine, &FaultPlan::default());
    next.content = content;
    next.commit(|transaction, content| create(transaction, content, "Next"));
    let names: Vec<String> = next.content.keys().cloned().collect();
    for name in &names {
        next.commit(|transaction, content| insert(transaction, content, name, 7_000, 70));
    }
    assert_eq!((next.errors.len(), content_of(&next.engine)), (0, next.content.clone()), "{what}, and more rows");
    let after = next.content.clone();
    drop(next);
    assert_eq!(content_of(&open()), after, "{what}, more rows, opened again");
}

/// The base after the first `writes`.
fn base_after(writes: &[Write]) -> MemoryBase {
    let base = MemoryBase::new();
    for write in writes {
        base.write_parts(&mut write.parts.iter().map(Cow::Borrowed), write.commit).expect("written");
    }
    base
}

/// What may be there when all ends at call `cut`: what was acknowledged last, or the commit that was under way.
fn possible_at(cut: usize, acknowledged: &[Acknowledged]) -> Vec<Content> {
    let next = acknowledged.partition_point(|commit| commit.ended <= cut);
    let under_way = acknowledged.get(next).filter(|commit| commit.began < cut);
    acknowledged[next - 1..next].iter().chain(under_way).map(|commit| commit.content.clone()).collect()
}

/// Says what becomes of a change that was not synced.
type Judge = Box<dyn FnMut(&DiskChange) -> Fate>;

/// Nothing that was not synced is there, all of it is, or the lot decides, so many times.
fn fates(seed: u64, lots: usize) -> Vec<Judge> {
    let sure: [Judge; 2] = [Box::new(|_| Fate::Lost), Box::new(|_| Fate::Kept)];
    sure.into_iter().chain((0..lots).map(|lot| by_lot(seed.wrapping_mul(1_000_003) + lot as u64))).collect()
}

fn by_lot(seed: u64) -> Judge {
    let mut dice = seed.wrapping_mul(6_364_136_223_846_793_005) | 1;
    Box::new(move |_: &DiskChange| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let roll = (dice >> 33) as usize;
        match roll % 6 {
            0 | 1 => Fate::Kept,
            2 | 3 => Fate::Lost,
            // Whole sectors or pages, as disks have it, or any piece.
            _ => match roll / 6 % 3 {
                0 => Fate::Torn { start: roll % 8 * 512, end: roll % 16 * 512 },
                1 => Fate::Torn { start: roll % 3 * 4_096, end: roll % 5 * 4_096 },
                _ => Fate::Torn { start: roll % 4_096, end: roll % 7_919 },
            },
        }
    })
}

#[test]
fn a_power_cut_at_any_call_leaves_exactly_the_acknowledged_commits() {
    let lots = times("ROWMILL_LOTS", 1, 80);
    let states: usize = WORKLOADS.iter().map(|workload| cut_at_any_call(*workload, lots)).sum();
    println!("{states} states");
    assert!(states > WORKLOADS.len() * 100 * (lots + 2), "{states} states");
}

/// How many states were looked at.
fn cut_at_any_call((name, run): Named, lots: usize) -> usize {
    let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = disk.plan().clone();
    plan.record();
    let (disk, base): (Arc<dyn Disk>, _) = (Arc::new(disk), NotedBase::new(&plan));
    let open = || Engine::over(Arc::clone(&disk), Arc::clone(&base) as _, settings(ROWS_PER_BLOCK));
    let mut workload = Workload::new(open().expect("opened"), &plan);
    run(&mut workload, &Stage { open: &open, is_recorded: true });
    let Workload { engine, acknowledged, errors, .. } = workload;
    assert_eq!(errors, []);
    drop(engine);

    let (records, writes) = (plan.records(), base.writes.lock().clone());
    assert!(writes.len() > 1, "{name}: a checkpoint at least");
    let mut states = 0;
    for cut in 0..=records.len() {
        // A write of the base at the very cut has happened or not.
        let certain = writes.partition_point(|write| write.records < cut);
        let possible = writes.partition_point(|write| write.records <= cut);
        for (count, written) in (certain..=possible).enumerate() {
            for (index, fate) in fates((cut * 31 + count) as u64, lots).into_iter().enumerate() {
                let (base, expected) = (base_after(&writes[..written]), possible_at(cut, &acknowledged));
                let disk = crash_state(&records[..cut], fate).expect("the record is played back");
                states += 1;
                let work_on = (cut + index).is_multiple_of(4);
                check(
                    disk,
                    base,
                    &expected,
                    work_on,
                    &format!("{name}, cut at call {cut}, {written} writes, fate {index}"),
                );
            }
        }
    }
    states
}

#[test]
fn a_call_that_fails_refuses_its_statement_and_nothing_else() {
    let share = times("ROWMILL_CALLS", 3, 1);
    WORKLOADS.iter().for_each(|workload| fail_any_call(*workload, share));
}

/// Fails each call of a workload, or one in `share` of them, in each way, once and from then on.
fn fail_any_call((name, run): Named, share: usize) {
    let calls = {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let (disk, base): (Arc<dyn Disk>, _) = (Arc::new(disk), Arc::new(MemoryBase::new()));
        let open = || Engine::over(Arc::clone(&disk), Arc::clone(&base) as _, settings(ROWS_PER_BLOCK));
        run(&mut Workload::new(open().expect("opened"), &plan), &Stage { open: &open, is_recorded: false });
        plan.count_all()
    };
    let ways =
        [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::Interrupted].map(|fault| [(fault, false), (fault, true)]);
    let all = (1..=calls).flat_map(|nth| ways.iter().flatten().map(move |way| (nth, *way)));
    let (mut poisoned, mut failed) = (0, 0);
    // Another way for each call.
    for (nth, (fault, lasts)) in all.skip(share / 2).step_by(if share == 1 { 1 } else { share * 8 + 1 }) {
        let what = format!("{name}: call {nth} fails with {fault:?}, from then on: {lasts}");
        let memory = Arc::new(MemoryDisk::new());
        let disk = FaultyDisk::new(Arc::clone(&memory) as _);
        let plan = disk.plan().clone();
        let (disk, base): (Arc<dyn Disk>, Arc<dyn OrderedBase>) = (Arc::new(disk), Arc::new(MemoryBase::new()));
        let open = || Engine::over(Arc::clone(&disk), Arc::clone(&base), settings(ROWS_PER_BLOCK));
        match lasts {
            true => plan.fail_from(None, nth, fault),
            false => plan.fail(None, nth, fault),
        }
        let Ok(engine) = open() else { continue };
        let mut workload = Workload::new(engine, &plan);
        run(&mut workload, &Stage { open: &open, is_recorded: false });
        plan.clear();
        failed += 1;
        let is_poisoned = workload.engine.log_status().work.is_some_and(|work| work.failure.is_some());
        poisoned += u64::from(is_poisoned);
        if !is_poisoned {
            let refused = workload.errors.len();
            workload.commit(|transaction, content| create(transaction, content, "Last"));
            assert_eq!(workload.errors.len(), refused, "{what}: {:?}", workload.errors.last());
        }
        assert_eq!(content_of(&workload.engine), workload.content, "{what}");
        let expected: Vec<Content> = [workload.content.clone()].into_iter().chain(workload.unknown.take()).collect();
        drop(workload);
        let engine = Engine::over(Arc::clone(&memory) as _, Arc::clone(&base), settings(ROWS_PER_BLOCK));
        let engine = engine.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(expected.contains(&content_of(&engine)), "{what}, opened again");
        assert_eq!(data_bytes(&*memory), named_bytes(&engine), "{what}");
    }
    println!("{name}: {failed} failures of {calls} calls, {poisoned} made writing unsafe");
    assert!(failed > 0 && poisoned < failed, "{poisoned} of {failed} failures make writing unsafe");
}

/// A change of a file that no write of ours makes.
fn damage(disk: &dyn Disk, dice: &mut u64) -> String {
    let mut roll = |sides: u64| {
        *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*dice >> 33) % sides
    };
    let names = disk.list("log").expect("listed");
    let name = &names[roll(names.len() as u64) as usize];
    let path = format!("log/{name}");
    let file = disk.open(&path, OpenMode::Create).expect("opened");
    let len = file.len().expect("its length");
    if len == 0 {
        return format!("nothing: {path} was only being made");
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    // Most of a segment is never used. Its records are at its beginning.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last as u64 + 1);
    let kind = roll(6);
    match kind {
        0 | 1 => {
            let (at, bit) = (roll(used) as usize, roll(8));
            bytes[at] ^= 1 << bit;
        }
        2 => {
            let (at, count) = (roll(used) as usize, 1 + roll(64) as usize);
            bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte = 0);
        }
        3 => {
            let pages = len.div_ceil(512);
            let (one, other) = ((roll(pages) * 512) as usize, (roll(used.div_ceil(512)) * 512) as usize);
            for at in 0..512 {
                if one + at < bytes.len() && other + at < bytes.len() {
                    bytes.swap(one + at, other + at);
                }
            }
        }
        4 => bytes.truncate(roll(used) as usize),
        _ => {
            let (from, to) = ((roll(used.div_ceil(8)) * 8) as usize, (roll(used.div_ceil(8)) * 8) as usize);
            let piece = bytes[from..].iter().take(200).copied().collect::<Vec<_>>();
            bytes.splice(to.., piece.into_iter().chain(std::iter::repeat(0)).take(len as usize - to));
        }
    }
    file.set_len(0).expect("cut");
    file.write_all_at(&bytes, 0).expect("written");
    format!("damage {kind} of {path}")
}

#[test]
fn a_damaged_log_is_an_error_or_harmless() {
    let damages = times("ROWMILL_DAMAGES", 1_000, 10_000);
    let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = disk.plan().clone();
    plan.record();
    let base = NotedBase::new(&plan);
    let engine = Engine::over(Arc::new(disk), Arc::clone(&base) as _, settings(ROWS_PER_BLOCK)).expect("opened");
    let mut workload = Workload::new(engine, &plan);
    let open = || Err(Error::internal("it is not opened again"));
    a_bit_of_everything(&mut workload, &Stage { open: &open, is_recorded: false });
    let expected = workload.content.clone();
    // As it is when the process is killed, with commits that the base does not have.
    let (records, writes) = (plan.records(), base.writes.lock().clone());
    drop(workload);
    let (mut dice, mut found) = (0x5EED, 0);
    for number in 0..damages {
        let disk: Arc<dyn Disk> = Arc::new(crash_state(&records, |_| Fate::Kept).expect("the record is played back"));
        let what = damage(&*disk, &mut dice);
        match Engine::over(disk, Arc::new(base_after(&writes)), settings(ROWS_PER_BLOCK)) {
            Ok(engine) => assert_eq!(content_of(&engine), expected, "damage {number}: {what}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "damage {number}: {what}: {error}");
                found += 1;
            }
        }
    }
    assert!(found > damages / 10, "{found} of {damages} were found");
}

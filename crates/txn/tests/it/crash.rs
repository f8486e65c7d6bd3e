//! Power cuts and failing disks: whatever reached the disk, it opens and holds exactly the commits that were acknowledged.
//!
//! A disk that records every call and a base that notes when it was written run one workload. The record is then cut at
//! every call, each change that was not synced by then is kept, lost or torn, and what remains is opened, read, checked
//! for waste and written to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{Cancel, CommitId, Error, ErrorKind, Result, TableId};
use rowmill_io::{Disk, Fate, Fault, FaultPlan, FaultyDisk, MemoryDisk, OpenMode, Record, crash_state};
use rowmill_storage::PAGE_BYTES;
use rowmill_txn::base::{BaseChecked, BaseRead, MemoryBase, OrderedBase, WriteBatch};
use rowmill_txn::{Engine, Transaction};

use crate::space::named_bytes;
use crate::support::{TestRow, batch, read, settings, specs, times};

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
    batch: WriteBatch,
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

    fn write(&self, batch: &WriteBatch, commit: CommitId) -> Result<()> {
        let records = self.plan.records().len();
        self.base.write(batch, commit)?;
        self.writes.lock().push(Write { records, batch: batch.clone(), commit });
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

    fn read_by_calls(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read_by_calls()
    }
}

/// The rows of all tables, by name.
pub(crate) type Content = BTreeMap<String, Vec<TestRow>>;

pub(crate) fn content_of(engine: &Engine) -> Content {
    try_content_of(engine).expect("the tables are read")
}

pub(crate) fn try_content_of(engine: &Engine) -> Result<Content> {
    let snapshot = engine.snapshot()?;
    let tables = snapshot.catalog().all_tables();
    tables
        .map(|table| {
            let mut rows: Vec<TestRow> = read(&snapshot, table.id)?.into_iter().map(|(_, row)| row).collect();
            rows.sort();
            Ok((table.name.clone(), rows))
        })
        .collect()
}

fn rows(first: i64, count: i64) -> Vec<TestRow> {
    (first..first + count).map(|n| (n, (n % 5 > 0).then(|| format!("a text that is somewhat longer {n}")))).collect()
}

/// Transactions over an engine, and what has to be there after each.
pub(crate) struct Workload {
    pub(crate) engine: Arc<Engine>,
    plan: FaultPlan,
    pub(crate) content: Content,
    acknowledged: Vec<Acknowledged>,
    /// Of the commits that were refused.
    pub(crate) errors: Vec<Error>,
    /// What the first commit would have led to that failed for good: it may have reached the disk.
    pub(crate) unknown: Option<Content>,
}

/// A commit that was acknowledged.
#[derive(Clone)]
struct Acknowledged {
    /// Calls of the disk before it began and when it was acknowledged.
    began: usize,
    ended: usize,
    /// What is there after it.
    content: Content,
}

impl Workload {
    pub(crate) fn new(engine: Arc<Engine>, plan: &FaultPlan) -> Workload {
        let empty = Acknowledged { began: 0, ended: 0, content: Content::new() };
        let plan = plan.clone();
        let (content, errors) = (Content::new(), Vec::new());
        Workload { engine, plan, content, acknowledged: vec![empty], errors, unknown: None }
    }

    /// Runs `change`, which does to the content what it does to the transaction, and commits. A failure changes nothing.
    pub(crate) fn commit(&mut self, change: impl FnOnce(&mut Transaction, &mut Content) -> Result<()>) {
        let mut content = self.content.clone();
        let began = self.plan.records().len();
        let run = || {
            let mut transaction = self.engine.begin()?;
            change(&mut transaction, &mut content)?;
            transaction.commit()
        };
        match run() {
            Ok(_) => {
                let changes = content != self.content;
                assert!(!changes || self.unknown.is_none(), "a commit behind one that failed for good");
                self.content = content;
                let ended = self.plan.records().len();
                self.acknowledged.push(Acknowledged { began, ended, content: self.content.clone() });
            }
            Err(error) => {
                assert_eq!(content_of(&self.engine), self.content, "behind a commit that was refused: {error}");
                if error.message().contains("cannot be written any more") {
                    self.unknown.get_or_insert(content);
                }
                self.errors.push(error);
            }
        }
    }

    fn run(&mut self, mut between: impl FnMut(&Engine)) {
        self.commit(|transaction, content| create(transaction, content, "A"));
        self.commit(|transaction, content| create(transaction, content, "B"));
        self.commit(|transaction, content| insert(transaction, content, "A", 0, 100));
        self.commit(|transaction, content| insert(transaction, content, "B", 0, 3));
        self.commit(|transaction, content| {
            insert(transaction, content, "A", 1_000, 90)?;
            insert(transaction, content, "B", 1_000, 170)
        });
        self.commit(|transaction, content| delete(transaction, content, "B", |n| n % 2 == 0));
        between(&self.engine);
        self.roll_back();
        self.commit(|transaction, content| update(transaction, content, "A", |n| n % 3 == 0));
        let _ = self.engine.checkpoint();
        self.commit(|transaction, content| {
            create(transaction, content, "C")?;
            insert(transaction, content, "C", 0, 60)?;
            drop_table(transaction, content, "B")
        });
        self.commit(|transaction, content| truncate(transaction, content, "A"));
        self.commit(|transaction, content| insert(transaction, content, "A", 5_000, 130));
        (0..4).for_each(|part| {
            self.commit(|transaction, content| insert(transaction, content, "C", 100 + part * 20, 20))
        });
        between(&self.engine);
        self.commit(|transaction, content| delete(transaction, content, "C", |n| n < 130));
        self.commit(|transaction, content| {
            drop_table(transaction, content, "C")?;
            create(transaction, content, "C")?;
            insert(transaction, content, "C", 0, 45)
        });
        let _ = self.engine.checkpoint();
        self.commit(|transaction, content| insert(transaction, content, "C", 200, 50));
    }

    /// A transaction that has written blocks and gives up.
    fn roll_back(&self) {
        let Ok(mut transaction) = self.engine.begin() else { return };
        let table = id(&mut transaction, "A");
        if let Ok(table) = table {
            let _ = transaction.insert(table, &batch(&rows(2_000, 130)));
        }
        transaction.rollback();
    }
}

fn id(transaction: &mut Transaction, name: &str) -> Result<TableId> {
    let view = transaction.view()?;
    let missing = || Error::internal(format!("{name} was not made"));
    view.catalog().all_tables().find(|table| table.name == name).map(|table| table.id).ok_or_else(missing)
}

pub(crate) fn create(transaction: &mut Transaction, content: &mut Content, name: &str) -> Result<()> {
    let main = transaction.base().catalog().schema(rowmill_txn::MAIN_SCHEMA).expect("always there").id;
    transaction.create_table(main, name, specs())?;
    content.insert(name.to_owned(), Vec::new());
    Ok(())
}

pub(crate) fn drop_table(transaction: &mut Transaction, content: &mut Content, name: &str) -> Result<()> {
    let table = id(transaction, name)?;
    transaction.drop_table(table)?;
    content.remove(name);
    Ok(())
}

pub(crate) fn insert(
    transaction: &mut Transaction,
    content: &mut Content,
    name: &str,
    first: i64,
    count: i64,
) -> Result<()> {
    let table = id(transaction, name)?;
    transaction.insert(table, &batch(&rows(first, count)))?;
    let all = content.get_mut(name).expect("the table was found");
    all.extend(rows(first, count));
    all.sort();
    Ok(())
}

pub(crate) fn delete(
    transaction: &mut Transaction,
    content: &mut Content,
    name: &str,
    doomed: fn(i64) -> bool,
) -> Result<()> {
    let table = id(transaction, name)?;
    let found = read(&*transaction.view()?, table)?;
    let numbers: Vec<u64> = found.iter().filter(|(_, row)| doomed(row.0)).map(|(number, _)| *number).collect();
    transaction.delete(table, &numbers)?;
    content.get_mut(name).expect("the table was found").retain(|row| !doomed(row.0));
    Ok(())
}

pub(crate) fn update(
    transaction: &mut Transaction,
    content: &mut Content,
    name: &str,
    chosen: fn(i64) -> bool,
) -> Result<()> {
    let all = content.get(name).cloned().unwrap_or_default();
    delete(transaction, content, name, chosen)?;
    let new: Vec<TestRow> = all.into_iter().filter(|row| chosen(row.0)).map(|(n, text)| (n + 100_000, text)).collect();
    let table = id(transaction, name)?;
    transaction.insert(table, &batch(&new))?;
    let all = content.get_mut(name).expect("the table was found");
    all.extend(new);
    all.sort();
    Ok(())
}

pub(crate) fn truncate(transaction: &mut Transaction, content: &mut Content, name: &str) -> Result<()> {
    let table = id(transaction, name)?;
    transaction.truncate(table)?;
    content.insert(name.to_owned(), Vec::new());
    Ok(())
}

/// Waits for the background merge to come to rest.
pub(crate) fn wait_for_merge(engine: &Engine) {
    let commit = || engine.snapshot().expect("a snapshot").commit();
    let (mut last, mut since) = (commit(), Instant::now());
    while since.elapsed() < Duration::from_millis(400) {
        std::thread::sleep(Duration::from_millis(10));
        if commit() != last {
            (last, since) = (commit(), Instant::now());
        }
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

/// Opens what is left, compares it with `expected`, and perhaps works on with it.
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
        base.write(&write.batch, write.commit).expect("written");
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
type Judge = Box<dyn FnMut(&Record) -> Fate>;

/// Nothing that was not synced is there, all of it is, or the lot decides, so many times.
fn fates(seed: u64, lots: usize) -> Vec<Judge> {
    let sure: [Judge; 2] = [Box::new(|_| Fate::Lost), Box::new(|_| Fate::Kept)];
    sure.into_iter().chain((0..lots).map(|lot| by_lot(seed.wrapping_mul(1_000_003) + lot as u64))).collect()
}

fn by_lot(seed: u64) -> Judge {
    let mut dice = seed.wrapping_mul(6_364_136_223_846_793_005) | 1;
    Box::new(move |_: &Record| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let roll = (dice >> 33) as usize;
        match roll % 3 {
            0 => Fate::Kept,
            1 => Fate::Lost,
            // Whole sectors, as most disks have it, or any piece.
            _ if roll.is_multiple_of(2) => Fate::Torn { start: roll % 8 * 512, end: roll % 16 * 512 },
            _ => Fate::Torn { start: roll % 4_096, end: roll % 7_919 },
        }
    })
}

#[test]
fn a_power_cut_at_any_call_leaves_exactly_the_acknowledged_commits() {
    let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = disk.plan().clone();
    plan.record();
    let base = NotedBase::new(&plan);
    let engine = Engine::over(Arc::new(disk), Arc::clone(&base) as _, settings(ROWS_PER_BLOCK)).expect("opened");
    let mut workload = Workload::new(engine, &plan);
    workload.run(wait_for_merge);
    let Workload { engine, acknowledged, errors, .. } = workload;
    assert_eq!(errors, []);
    drop(engine);

    let (records, writes) = (plan.records(), base.writes.lock().clone());
    assert!((4..acknowledged.len()).contains(&writes.len()), "checkpoints, fewer than commits: {}", writes.len());
    let lots = times("ROWMILL_LOTS", 1, 200);
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
                check(disk, base, &expected, work_on, &format!("cut at call {cut}, {written} writes, fate {index}"));
            }
        }
    }
    assert!(states > records.len() * (lots + 2), "{states} states");
}

#[test]
fn a_call_that_fails_refuses_its_statement_and_nothing_else() {
    let calls = {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let base = Arc::new(MemoryBase::new());
        let engine = Engine::over(Arc::new(disk), base, settings(ROWS_PER_BLOCK)).expect("opened");
        Workload::new(engine, &plan).run(|_| {});
        plan.count_all()
    };
    let mut poisoned = 0;
    for (nth, fault) in (1..=calls).zip([Fault::Io, Fault::NoSpace, Fault::ShortWrite].into_iter().cycle()) {
        let memory = Arc::new(MemoryDisk::new());
        let disk = FaultyDisk::new(Arc::clone(&memory) as _);
        let plan = disk.plan().clone();
        let base: Arc<dyn OrderedBase> = Arc::new(MemoryBase::new());
        plan.fail(None, nth, fault);
        let engine = Engine::over(Arc::new(disk), Arc::clone(&base), settings(ROWS_PER_BLOCK));
        let Ok(engine) = engine else { continue };
        let mut workload = Workload::new(engine, &plan);
        workload.run(|_| {});
        plan.clear();
        let is_poisoned = workload.unknown.is_some();
        poisoned += u64::from(is_poisoned);
        let (refused, acknowledged) = (workload.errors.len(), workload.acknowledged.len());
        assert!(is_poisoned || refused < acknowledged, "call {nth}: {refused}");
        assert_eq!(content_of(&workload.engine), workload.content, "call {nth} fails with {fault:?}");
        let expected: Vec<Content> = [workload.content.clone()].into_iter().chain(workload.unknown.take()).collect();
        drop(workload);
        let engine = Engine::over(Arc::clone(&memory) as _, base, settings(ROWS_PER_BLOCK)).expect("opened again");
        assert!(expected.contains(&content_of(&engine)), "call {nth} failed with {fault:?}, opened again");
        assert_eq!(data_bytes(&*memory), named_bytes(&engine), "call {nth} failed with {fault:?}");
    }
    assert!((1..calls / 2).contains(&poisoned), "{poisoned} of {calls} calls make writing unsafe");
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
    // Most of a segment is never used; what is there is at its beginning.
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
    workload.run(|_| {});
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

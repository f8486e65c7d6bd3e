//! A check of the database that does not come to its end: what commits goes on, whatever else waits for it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use rowmill_base::{Cancel, CommitId, Result, Settings, TableId};
use rowmill_io::MemoryDisk;
use rowmill_txn::base::{BaseChecked, BaseRead, BatchParts, MemoryBase, OrderedBase, Reader};
use rowmill_txn::{Engine, TableSource};

use crate::support::{TestRow, create, insert, settings, values};

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A base whose check says that it has begun, and waits until it may end.
#[derive(Debug)]
struct LongChecked {
    base: MemoryBase,
    begun: Mutex<Sender<()>>,
    may_end: Mutex<Receiver<()>>,
}

impl OrderedBase for LongChecked {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read()
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, commit: CommitId) -> Result<()> {
        self.base.write_parts(parts, commit)
    }

    fn commit_id(&self) -> Result<CommitId> {
        self.base.commit_id()
    }

    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        self.base.oldest_reader()
    }

    fn readers(&self) -> Result<Vec<Reader>> {
        self.base.readers()
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        self.begun.lock().send(()).expect("the test waits for it");
        // An error says that the test is over.
        let _ = self.may_end.lock().recv();
        self.base.check(cancel)
    }

    fn read_again(&self) -> Result<Box<dyn BaseRead>> {
        self.base.read_again()
    }
}

fn add(engine: &Arc<Engine>, table: TableId, rows: &[TestRow]) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, rows);
    transaction.commit().expect("committed");
}

/// Has a check under way while `meanwhile` runs, which says that it has come to its end.
fn beside_a_check(settings: Settings, meanwhile: impl FnOnce(&Arc<Engine>, TableId, &Sender<()>) + Send) {
    let ((begun, has_begun), (end, may_end)) = (channel(), channel());
    let base = LongChecked { base: MemoryBase::new(), begun: Mutex::new(begun), may_end: Mutex::new(may_end) };
    let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::new(base), settings).expect("opened");
    let table = create(&engine, "T");
    std::thread::scope(|scope| {
        let check = scope.spawn(|| engine.check(&Cancel::new()).expect("checked"));
        has_begun.recv().expect("it begins");
        let (done, is_done) = channel();
        scope.spawn(|| meanwhile(&engine, table, &{ done }));
        let outcome = is_done.recv_timeout(PATIENCE);
        drop(end);
        outcome.expect("commits wait for the check");
        let checked = check.join().expect("it ends");
        assert!(checked.iter().all(|found| found.problem.is_none()), "{checked:?}");
    });
}

#[test]
fn commits_go_on_while_another_durability_waits_for_a_check() {
    beside_a_check(settings(100), |engine, table, done| {
        let is_set = std::thread::scope(|scope| {
            let setter = scope.spawn(|| engine.set("durability", "relaxed"));
            // So many that the other thread comes to where it waits.
            for row in 0..2_000 {
                add(engine, table, &[(row, None)]);
                std::thread::yield_now();
            }
            assert_eq!(values(&engine.snapshot().expect("a snapshot"), table).len(), 2_000);
            done.send(()).expect("it is waited for");
            setter.join().expect("it does not panic")
        });
        is_set.expect("it is set when the check is over");
        assert_eq!(engine.settings().show("durability").expect("a setting"), "relaxed");
    });
}

#[test]
fn commits_go_on_while_memory_is_short_beside_a_check() {
    let mut settings = settings(1 << 19);
    settings.set("memory_limit", "16MiB").expect("the least limit");
    beside_a_check(settings, |engine, table, done| {
        // Twice what has open rows become a block.
        for commit in 0..30 {
            let rows: Vec<TestRow> = (0..1_000).map(|n| (commit * 1_000 + n, Some(format!("{n:0500}")))).collect();
            add(engine, table, &rows);
        }
        let found = engine.snapshot().expect("a snapshot").table(table).expect("the table");
        assert!(found.row_count() == 30_000 && !found.blocks().is_empty(), "open rows became blocks");
        done.send(()).expect("it is waited for");
    });
}

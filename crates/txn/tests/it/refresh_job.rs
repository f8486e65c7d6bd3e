//! The background job of materialized views sees each commit, however slow the disk is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rowmill_base::{CommitId, Durability};
use rowmill_io::{Call, FaultyDisk, MemoryDisk};
use rowmill_txn::base::MemoryBase;
use rowmill_txn::{Engine, MaterializedView, RefreshRule};

use crate::support::{batch, create, settings};

#[test]
fn the_job_reads_a_commit_whose_sync_takes_longer_than_the_pause_before_the_job() {
    let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = disk.plan().clone();
    let engine = Engine::over(Arc::new(disk), Arc::new(MemoryBase::new()), settings(50)).expect("opened");
    let (base, rows) = (create(&engine, "base"), create(&engine, "view"));
    let mut transaction = engine.begin().expect("a transaction");
    let view = MaterializedView {
        table: rows,
        sql: "SELECT * FROM base".to_owned(),
        refresh: RefreshRule::Immediate,
        full_because: None,
        refreshed: None,
    };
    transaction.set_materialized(view).expect("a view");
    transaction.commit().expect("committed");

    let seen = Arc::new(AtomicU64::new(0));
    let job = {
        let (engine, seen) = (Arc::clone(&engine), Arc::clone(&seen));
        engine.clone().refresh_in_background(move |_| {
            let CommitId(commit) = engine.snapshot().expect("a snapshot").commit();
            seen.store(commit, Ordering::Relaxed);
            None
        })
    };
    let job = job.expect("started");
    for number in 0..3 {
        plan.slow_down(Call::Sync, Duration::from_millis(300));
        let mut transaction = engine.begin().expect("a transaction");
        transaction.set_durability(Durability::Full).expect("a level");
        transaction.insert(base, &batch(&[(number, None)])).expect("inserted");
        let committed = transaction.commit().expect("committed");
        plan.clear();
        let start = Instant::now();
        while seen.load(Ordering::Relaxed) < committed.0 {
            assert!(start.elapsed() < Duration::from_secs(20), "the job sleeps and has not seen {committed:?}");
            sleep(Duration::from_millis(5));
        }
    }
    drop(job);
}

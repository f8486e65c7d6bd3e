//! What commits, checkpoints and recovery take: measurements, to be run by themselves.
//!
//! `cargo test --release -p rowmill-txn --test it log_speed -- --ignored --nocapture --test-threads 1`

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill_base::TableId;
use rowmill_txn::Engine;

use crate::space::copy;
use crate::support::{create, insert, open, values};

fn commit_row(engine: &Arc<Engine>, table: TableId, row: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    insert(&mut transaction, table, &[(row, Some("a text of some length".to_owned()))]);
    transaction.commit().expect("committed");
}

/// What threads that commit one row each reach together.
#[test]
#[ignore = "a measurement"]
fn commits_share_syncs() {
    let folder = tempfile::tempdir_in("/tmp").expect("a temporary folder");
    let engine = open(folder.path(), 1 << 19);
    let table = create(&engine, "T");
    for threads in [1, 2, 4, 8, 16] {
        let before = engine.log_status().work.expect("a log");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let engine = &engine;
                scope.spawn(move || {
                    let mut row = thread;
                    while begun.elapsed() < Duration::from_secs(2) {
                        commit_row(engine, table, row);
                        row += threads;
                    }
                });
            }
        });
        let after = engine.log_status().work.expect("a log");
        let (records, syncs) = (after.records - before.records, after.syncs - before.syncs);
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{threads} threads: {:.0} commits/s, {:.0} syncs/s, {:.2} commits a sync",
            records as f64 / seconds,
            syncs as f64 / seconds,
            records as f64 / syncs as f64
        );
    }
}

/// How long a directory takes to open whose log has 256 MB that the base does not have.
#[test]
#[ignore = "a measurement"]
fn recovery_takes_no_longer_than_its_log() {
    for (what, rows_of_commit) in [("rows alone", 1), ("commits of 1,000 rows", 1_000)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let killed = folder.path().join("killed");
        let path = folder.path().join("open");
        let engine = open(&path, 1 << 19);
        engine.set("durability", "relaxed").expect("a word");
        engine.set("checkpoint_log_bytes", "1TB").expect("a size");
        let table = create(&engine, "T");
        let mut rows = 0;
        while engine.log_status().bytes_behind < 256 << 20 {
            let mut transaction = engine.begin().expect("a transaction");
            let new: Vec<_> = (rows..rows + rows_of_commit).map(|n| (n, Some(format!("a text of row {n}")))).collect();
            insert(&mut transaction, table, &new);
            transaction.commit().expect("committed");
            rows += rows_of_commit;
        }
        copy(&path, &killed);
        let begun = Instant::now();
        let recovered = open(&killed, 1 << 19);
        let took = begun.elapsed();
        assert_eq!(values(&recovered.snapshot().expect("a snapshot"), table).len() as i64, rows);
        println!("{what}: {rows} rows in 256 MiB of log, opened in {took:?}");
    }
}

/// Times of commits with and without checkpoints beside them.
#[test]
#[ignore = "a measurement"]
fn commits_go_on_beside_checkpoints() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), 1 << 19);
    engine.set("durability", "relaxed").expect("a word");
    engine.set("checkpoint_log_bytes", "1TB").expect("a size");
    let table = create(&engine, "T");
    for with_checkpoints in [false, true, false, true] {
        let begun = Instant::now();
        let mut times = Vec::new();
        std::thread::scope(|scope| {
            if with_checkpoints {
                scope.spawn(|| {
                    while begun.elapsed() < Duration::from_secs(3) {
                        std::thread::sleep(Duration::from_millis(300));
                        engine.checkpoint().expect("a checkpoint");
                    }
                });
            }
            let mut row = 0;
            while begun.elapsed() < Duration::from_secs(3) {
                let start = Instant::now();
                commit_row(&engine, table, row);
                times.push(start.elapsed());
                row += 1;
            }
        });
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 1_000];
        let checkpoints = engine.log_status().checkpoints;
        println!(
            "checkpoints {with_checkpoints}: {} commits, p50 {:?}, p99 {:?}, p99.9 {:?}, last {:?}; checkpoints {}, \
             longest {:?}",
            times.len(),
            at(500),
            at(990),
            at(999),
            times[times.len() - 1],
            checkpoints.count,
            checkpoints.longest
        );
    }
}

//! How many commits share a sync.

use std::time::{Duration, Instant};

use crate::support::{create, insert, open};

/// Prints what threads that commit one row each reach together. A measurement: `cargo test group_commit -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout)]
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
                        let mut transaction = engine.begin().expect("a transaction");
                        insert(&mut transaction, table, &[(row, Some("a text of some length".to_owned()))]);
                        transaction.commit().expect("committed");
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

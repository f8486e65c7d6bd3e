//! Processes that are killed at any moment, while they write, recover or make a checkpoint: what was acknowledged is
//! there, what was not is there whole or not at all, and a concurrent reader sees one state after the other.
//!
//! One process writes: transaction `n` does what `n` says, and notes `n` in a table of its own. So what has to be there
//! is known from the note alone.

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rowmill_base::{Cancel, Settings, TableId};
use rowmill_txn::{Engine, MAIN_SCHEMA, OpenOptions, Snapshot, Transaction};

use crate::check::problems;
use crate::support::{TestRow, insert, read, settings, specs, times, values};

/// Names directory and role to the processes that are killed.
const CHILD_DIR: &str = "ROWMILL_TEST_KILLED_DIR";
const CHILD_ROLE: &str = "ROWMILL_TEST_KILLED_ROLE";
/// Settings of the writer beside the usual ones: `name=value` and a comma between.
const CHILD_SETTINGS: &str = "ROWMILL_TEST_KILLED_SETTINGS";

const NOTES: TableId = TableId(0);
const ROWS: TableId = TableId(1);
/// Transactions after which the rows begin again, so that the model stays small.
const ROUND: i64 = 400;

pub(crate) fn options(read_only: bool) -> OpenOptions {
    let mut settings: Settings = settings(64);
    settings.set("checkpoint_log_bytes", "1MiB").expect("the least");
    OpenOptions { read_only, settings, ..OpenOptions::default() }
}

/// Makes the tables, in the state of transaction 0.
pub(crate) fn prepare(dir: &Path) {
    let engine = Engine::open(dir, options(false)).expect("a new directory");
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let made = ["Notes", "Rows"].map(|name| transaction.create_table(main, name, specs()).expect("a new table"));
    assert_eq!(made, [NOTES, ROWS]);
    insert(&mut transaction, NOTES, &[row(0)]);
    transaction.commit().expect("committed");
}

/// The numbers of the rows behind transaction `step`.
fn model(step: i64) -> BTreeSet<i64> {
    let mut rows = BTreeSet::new();
    for step in step - step.rem_euclid(ROUND)..=step {
        match step.rem_euclid(10) {
            _ if step.rem_euclid(ROUND) == 0 => rows.clear(),
            6 => rows.extend(step * 1_000..step * 1_000 + 200),
            7 => rows.retain(|row| row % 3 != step % 3),
            _ => rows.extend([step * 1_000]),
        }
    }
    rows
}

fn row(number: i64) -> TestRow {
    (number, Some(format!("a text of row {number}")))
}

/// Makes what `step` says of the state before it.
fn write(engine: &Arc<Engine>, step: i64) {
    let mut transaction = engine.begin().expect("a transaction");
    let delete = |transaction: &mut Transaction, table: TableId, doomed: &dyn Fn(i64) -> bool| {
        let found = read(&transaction.view().expect("a view"), table).expect("the table is read");
        let rows: Vec<u64> = found.iter().filter(|(_, row)| doomed(row.0)).map(|(number, _)| *number).collect();
        transaction.delete(table, &rows).expect("deleted");
    };
    delete(&mut transaction, NOTES, &|_| true);
    insert(&mut transaction, NOTES, &[row(step)]);
    match step.rem_euclid(10) {
        _ if step.rem_euclid(ROUND) == 0 => drop(transaction.truncate(ROWS).expect("truncated")),
        6 => insert(&mut transaction, ROWS, &(step * 1_000..step * 1_000 + 200).map(row).collect::<Vec<_>>()),
        7 => delete(&mut transaction, ROWS, &|row| row % 3 == step % 3),
        kind => {
            insert(&mut transaction, ROWS, &[row(step * 1_000)]);
            let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
            let other = transaction.base().catalog().table(main, "other").map(|table| table.id);
            match (kind, other) {
                (8, None) => drop(transaction.create_table(main, "other", specs()).expect("a new table")),
                (8, Some(other)) => transaction.drop_table(other).expect("dropped"),
                (1, Some(other)) => insert(&mut transaction, other, &(0..100).map(row).collect::<Vec<_>>()),
                _ => {}
            }
        }
    }
    transaction.commit().expect("committed");
    if step.rem_euclid(37) == 0 {
        engine.checkpoint().expect("a checkpoint");
    }
    if step.rem_euclid(29) == 0 {
        engine.vacuum(&Cancel::new()).expect("a vacuum");
    }
}

/// The transaction that a state notes; its rows have to be those of the model.
pub(crate) fn step_of(snapshot: &Snapshot) -> i64 {
    let notes = values(snapshot, NOTES);
    let [(step, _)] = notes.as_slice() else { panic!("{} notes in one state", notes.len()) };
    let mut rows = values(snapshot, ROWS);
    rows.sort();
    let expected: Vec<TestRow> = model(*step).into_iter().map(row).collect();
    assert!(rows == expected, "state {step} has {} rows, not {}", rows.len(), expected.len());
    *step
}

/// Starts the process of [`process_to_kill`].
pub(crate) fn child(dir: &Path, role: &str, settings: &str, complaints: Stdio) -> Child {
    let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
    Command::new(std::env::current_exe().expect("the test binary"))
        .args([&format!("{module}::process_to_kill"), "--exact", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_ROLE, role)
        .env(CHILD_SETTINGS, settings)
        .stdout(Stdio::piped())
        .stderr(complaints)
        .spawn()
        .expect("a process")
}

/// The other side of [`child`]. Does nothing when it is run as a test.
#[test]
fn process_to_kill() {
    let (Some(dir), Ok(role)) = (std::env::var_os(CHILD_DIR), std::env::var(CHILD_ROLE)) else { return };
    let dir = Path::new(&dir);
    let say = |step: i64| {
        println!("> {step}");
        std::io::stdout().flush().expect("the parent listens");
    };
    let mut options = options(role == "follow");
    let more = std::env::var(CHILD_SETTINGS).unwrap_or_default();
    for (name, value) in more.split(',').filter_map(|setting| setting.split_once('=')) {
        options.settings.set(name, value).expect("a setting");
    }
    let engine = Engine::open(dir, options).expect("the directory opens");
    if role == "write" {
        let first = step_of(&engine.snapshot().expect("a snapshot")) + 1;
        for step in first.. {
            write(&engine, step);
            say(step);
        }
    }
    let mut last = i64::MIN;
    loop {
        let step = step_of(&engine.snapshot().expect("a snapshot"));
        assert!(step >= last, "state {step} behind state {last}");
        if step > last {
            say(step);
        }
        last = step;
    }
}

/// Takes what a process says; it ends with the process.
pub(crate) fn listen(process: &mut Child, mut hear: impl FnMut(i64) + Send + 'static) -> JoinHandle<()> {
    let lines = BufReader::new(process.stdout.take().expect("piped"));
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if let Some(step) = line.split_once("> ").and_then(|(_, step)| step.trim().parse().ok()) {
                hear(step);
            }
        }
    })
}

/// Keeps the last line that it receives.
fn keep(last: &Arc<AtomicI64>) -> impl FnMut(i64) + Send + use<> {
    let last = Arc::clone(last);
    move |step| {
        last.fetch_max(step, Ordering::SeqCst);
    }
}

#[test]
fn a_process_may_be_killed_at_any_moment() {
    let cycles = times("ROWMILL_CYCLES", 25, 2_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    prepare(folder.path());
    let seen = Arc::new(AtomicI64::new(0));
    let mut followers: Vec<Child> = (0..2).map(|_| child(folder.path(), "follow", "", Stdio::inherit())).collect();
    let threads: Vec<_> = followers.iter_mut().map(|follower| listen(follower, keep(&seen))).collect();

    let mut dice: u64 = 0x5DEE_CE66;
    let mut last = 0;
    // Each kill may leave one transaction that is there and was not acknowledged.
    let mut kills = 0;
    for cycle in 0..cycles {
        let acknowledged = Arc::new(AtomicI64::new(last));
        let mut writer = child(folder.path(), "write", "", Stdio::inherit());
        let listener = listen(&mut writer, keep(&acknowledged));
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Some are killed while they open.
        let patience = Duration::from_micros((dice >> 33) % [30_000, 150_000, 400_000][cycle % 3]);
        let begun = Instant::now();
        while begun.elapsed() < patience {
            assert!(writer.try_wait().expect("its state").is_none(), "cycle {cycle}: the writer has ended by itself");
            std::thread::sleep(Duration::from_millis(1).min(patience));
        }
        writer.kill().expect("the process is there");
        writer.wait().expect("the process has ended");
        kills += 1;
        listener.join().expect("it only listens");
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        if cycle % 4 == 3 {
            // Every time in this process would leave nothing to recover while others are killed.
            let engine = Engine::open(folder.path(), options(false)).expect("the directory opens");
            let step = step_of(&engine.snapshot().expect("a snapshot"));
            assert!(
                (acknowledged..=acknowledged + kills).contains(&step),
                "cycle {cycle}: {step} behind {acknowledged}"
            );
            assert!(seen.load(Ordering::SeqCst) <= step, "cycle {cycle}: a reader has seen a state that is not there");
            let checked = engine.check(&Cancel::new()).expect("a check");
            assert_eq!(problems(&checked), Vec::<String>::new(), "cycle {cycle}");
            (last, kills) = (step, 0);
        } else {
            last = acknowledged;
        }
        for follower in &mut followers {
            let ended = follower.try_wait().expect("its state");
            assert!(ended.is_none(), "cycle {cycle}: a follower has ended by itself: {ended:?}");
        }
    }
    let behind = Instant::now();
    let engine = Engine::open(folder.path(), options(false)).expect("the directory opens");
    let step = step_of(&engine.snapshot().expect("a snapshot"));
    while seen.load(Ordering::SeqCst) < step {
        assert!(behind.elapsed() < Duration::from_secs(10), "followers are behind");
        std::thread::sleep(Duration::from_millis(5));
    }
    for mut follower in followers {
        follower.kill().expect("the process is there");
        follower.wait().expect("the process has ended");
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it only listens"));
    assert!(step > cycles as i64, "{step} transactions in {cycles} cycles");
}

//! Vacuum: space is given back, readers go on, and an interruption at any step leaves the old base or the new one.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill_base::{Cancel, ErrorKind, TableId};
use rowmill_txn::{Engine, OpenOptions};

use crate::check::{add, fill, problems};
use crate::ledger::{Writers, prepare, steps_of};
use crate::other_process::{Reader, digest};
use crate::power_cut::run;
use crate::space::copy;
use crate::support::{Dice, create, create_keyed, open, settings, times, values};
use crate::workload::content_of;

const ROWS_PER_BLOCK: usize = 100;

/// Names the directory to the process that is killed.
const CHILD_DIR: &str = "ROWMILL_TEST_VACUUM_DIR";

fn go_on() -> Cancel {
    Cancel::new()
}

fn keyed(engine: &Arc<Engine>, rows: i64) -> TableId {
    let mut transaction = engine.begin().expect("a transaction");
    let table = create_keyed(&mut transaction, "Large").expect("a keyed table");
    transaction.commit().expect("committed");
    add(engine, table, 0, rows);
    engine.checkpoint().expect("a checkpoint");
    table
}

fn truncate(engine: &Arc<Engine>, table: TableId) {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.truncate(table).expect("truncated");
    transaction.commit().expect("committed");
}

/// The names of the base's files.
fn read_only(path: &Path) -> Arc<Engine> {
    let options = OpenOptions { read_only: true, settings: settings(ROWS_PER_BLOCK), ..OpenOptions::default() };
    Engine::open(path, options).expect("it opens for reading")
}

fn base_files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8"));
    let mut names: Vec<String> = names.filter(|name| name.starts_with("base") && name.ends_with(".tree")).collect();
    names.sort();
    names
}

fn base_bytes(dir: &Path) -> u64 {
    base_files(dir).iter().map(|name| fs::metadata(dir.join(name)).expect("a file").len()).sum()
}

fn assert_whole(engine: &Engine) {
    assert_eq!(problems(&engine.check(&go_on()).expect("a check")), Vec::<String>::new());
}

fn now(engine: &Engine, table: TableId) -> String {
    digest(&values(&engine.snapshot().expect("a snapshot"), table))
}

#[test]
fn space_of_rows_that_are_gone_is_given_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    fill(&engine);
    let table = keyed(&engine, 20_000);
    let full = base_bytes(folder.path());
    truncate(&engine, table);
    add(&engine, table, 0, 100);
    engine.checkpoint().expect("a checkpoint");
    assert!(base_bytes(folder.path()) >= full, "the base keeps its free pages");
    let content = content_of(&engine);
    let vacuumed = engine.vacuum(&go_on()).expect("a vacuum");
    println!("{full} bytes of base before, {} after; {vacuumed:?}", base_bytes(folder.path()));
    assert!(base_bytes(folder.path()) < full / 4);
    assert!(vacuumed.bytes_after + full / 2 < vacuumed.bytes_before, "{vacuumed:?}");
    assert_eq!(vacuumed.bytes_held, 0);
    assert_eq!(base_files(folder.path()), ["base-1.tree"]);
    assert_eq!(content_of(&engine), content);
    assert_whole(&engine);
    // It is written and opened like any other.
    add(&engine, table, 5_000, 300);
    engine.checkpoint().expect("a checkpoint");
    assert_whole(&engine);
    let content = content_of(&engine);
    drop(engine);
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    assert_eq!(content_of(&engine), content);
    let again = engine.vacuum(&go_on()).expect("a vacuum");
    assert!(again.bytes_after <= again.bytes_before, "{again:?}");
    assert_eq!(base_files(folder.path()), ["base-2.tree"]);
    assert_whole(&engine);
}

#[test]
fn who_reads_an_older_state_goes_on_in_this_process_and_in_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let columnar = create(&engine, "Columnar");
    add(&engine, columnar, 0, 1_000);
    let table = keyed(&engine, 3_000);
    let (mut holds, mut idle, mut late) =
        (Reader::start(folder.path()), Reader::start(folder.path()), Reader::start(folder.path()));
    holds.hold("old");
    idle.now(table);
    let old = engine.snapshot().expect("a snapshot");
    let mut transaction = engine.begin().expect("a transaction");
    let before = [now(&engine, table), now(&engine, columnar)];

    for round in 0..4 {
        truncate(&engine, table);
        truncate(&engine, columnar);
        add(&engine, table, round * 10_000, 500);
        add(&engine, columnar, round * 10_000, 500);
        let vacuumed = engine.vacuum(&go_on()).expect("a vacuum");
        assert!(vacuumed.bytes_held > 0, "a process reads: {vacuumed:?}");
        assert_eq!(base_files(folder.path()).len() as i64, round + 2, "{:?}", base_files(folder.path()));
        assert_eq!([digest(&values(&old, table)), digest(&values(&old, columnar))], before);
        assert_eq!([holds.held("old", table), holds.held("old", columnar)], before);
        let view = transaction.view().expect("a view");
        assert_eq!(digest(&values(&view, table)), before[0]);
        assert_eq!([idle.now(table), idle.now(columnar)], [now(&engine, table), now(&engine, columnar)]);
        let held_back = engine.held_back().expect("a look");
        assert!(held_back.base.older_bytes > 0, "{held_back:?}");
        assert_eq!(held_back.snapshots.iter().filter(|info| info.age.is_none()).count(), 1, "{held_back:?}");
    }
    // One that has looked at nothing since the first of five files.
    assert_eq!([late.now(table), late.now(columnar)], [now(&engine, table), now(&engine, columnar)]);
    drop((old, transaction));
    holds.release("old");
    let vacuumed = engine.vacuum(&go_on()).expect("a vacuum");
    assert_eq!(vacuumed.bytes_held, 0);
    assert_eq!(base_files(folder.path()), ["base-5.tree"]);
    for reader in [&mut holds, &mut idle, &mut late] {
        assert_eq!([reader.now(table), reader.now(columnar)], [now(&engine, table), now(&engine, columnar)]);
        assert_eq!(reader.check(), "");
    }
    assert_whole(&engine);
}

#[test]
fn readers_of_a_file_that_was_replaced_are_seen_by_the_next_process_that_writes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    let table = create(&engine, "T");
    add(&engine, table, 0, 1_000);
    engine.checkpoint().expect("a checkpoint");
    let before = now(&engine, table);
    let mut reader = Reader::start(folder.path());
    reader.hold("old");
    engine.vacuum(&go_on()).expect("a vacuum");
    drop(engine);
    for round in 1..4 {
        let engine = open(folder.path(), ROWS_PER_BLOCK);
        truncate(&engine, table);
        add(&engine, table, round * 10_000, 1_000);
        engine.checkpoint().expect("a checkpoint");
        assert_eq!(reader.held("old", table), before, "round {round}");
        engine.vacuum(&go_on()).expect("a vacuum");
        assert_eq!(reader.held("old", table), before, "round {round}");
        // Those between go with the oldest.
        assert_eq!(base_files(folder.path()).len(), 2 + round as usize);
    }
    reader.kill();
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    assert_eq!(base_files(folder.path()), ["base-4.tree"]);
    assert_whole(&engine);
}

#[test]
fn repeated_vacuum_beside_writers_and_readers_changes_no_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    prepare(&engine);
    let large = keyed(&engine, times("ROWMILL_ROWS", 20_000, 1_000_000) as i64);
    let content = now(&engine, large);
    let writers = Writers::start(&engine);
    let mut reader = Reader::start(folder.path());
    writers.wait_for(100);
    let usual = writers.longest();
    let (mut longest, mut took) = (Duration::ZERO, Duration::ZERO);
    for round in 0..times("ROWMILL_VACUUMS", 15, 200) {
        writers.longest();
        let begun = Instant::now();
        engine.vacuum(&go_on()).expect("a vacuum");
        took = took.max(begun.elapsed());
        longest = longest.max(writers.longest());
        steps_of(&engine.snapshot().expect("a snapshot"));
        if round % 4 == 0 {
            assert_eq!(reader.now(large), content);
            let to = folder.path().parent().expect("a folder").join(format!("backup-{}", std::process::id()));
            engine.backup(&to, &go_on()).expect("a backup");
            let options = OpenOptions { read_only: true, settings: settings(ROWS_PER_BLOCK), ..OpenOptions::default() };
            steps_of(&Engine::open(&to, options).expect("a backup").snapshot().expect("a snapshot"));
            fs::remove_dir_all(&to).expect("removed");
        }
        writers.wait_for(20);
    }
    println!("a step took {usual:?} at most before, and {longest:?} beside a vacuum, which took {took:?}");
    let steps = writers.end();
    assert_eq!(steps_of(&engine.snapshot().expect("a snapshot")), steps);
    assert_whole(&engine);
    assert_eq!(reader.check(), "");
    drop(reader);
    drop(engine);
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    assert_eq!(steps_of(&engine.snapshot().expect("a snapshot")), steps);
    assert_eq!(base_files(folder.path()).len(), 1);
}

#[test]
fn whatever_a_crash_leaves_of_a_vacuum_is_opened_as_one_of_the_two() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (made, dir) = (folder.path().join("made"), folder.path().join("dir"));
    let before = folder.path().join("before");
    let engine = open(&made, ROWS_PER_BLOCK);
    fill(&engine);
    engine.checkpoint().expect("a checkpoint");
    copy(&made, &before);
    engine.vacuum(&go_on()).expect("a vacuum");
    let content = content_of(&engine);
    drop(engine);
    let new = fs::read(made.join("base-1.tree")).expect("read");
    type Crash<'a> = (&'a str, &'a dyn Fn(), &'a str);
    let crashes: [Crash<'_>; 5] = [
        (
            "half of the new file",
            &|| fs::write(dir.join("base-1.tree-new"), &new[..5_000]).expect("written"),
            "base.tree",
        ),
        (
            "the new file without its name",
            &|| fs::write(dir.join("base-1.tree-new"), &new).expect("written"),
            "base.tree",
        ),
        ("both files", &|| fs::write(dir.join("base-1.tree"), &new).expect("written"), "base-1.tree"),
        (
            "the file before is gone",
            &|| {
                fs::write(dir.join("base-1.tree"), &new).expect("written");
                fs::remove_file(dir.join("base.tree")).expect("removed");
            },
            "base-1.tree",
        ),
        ("nothing", &|| {}, "base.tree"),
    ];
    for (what, leave, expected) in crashes {
        for read_first in [false, true] {
            copy(&before, &dir);
            leave();
            if read_first {
                let options =
                    OpenOptions { read_only: true, settings: settings(ROWS_PER_BLOCK), ..OpenOptions::default() };
                assert_eq!(content_of(&Engine::open(&dir, options).expect("it opens for reading")), content, "{what}");
            }
            let engine = open(&dir, ROWS_PER_BLOCK);
            assert_eq!(content_of(&engine), content, "{what}");
            assert_eq!(base_files(&dir), [expected], "{what}");
            assert_whole(&engine);
            add(&engine, create(&engine, "More"), 0, 250);
            engine.vacuum(&go_on()).expect("a vacuum");
            assert_whole(&engine);
        }
    }
    // A base that is lost is not made again.
    copy(&made, &dir);
    fs::remove_file(dir.join("base-1.tree")).expect("removed");
    let error = Engine::open(&dir, OpenOptions::default()).expect_err("its base is lost");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// The other side of [`a_process_that_is_killed_while_it_vacuums_loses_nothing`]. Does nothing when it is run as a
/// test.
#[test]
fn process_that_vacuums() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let engine = open(Path::new(&dir), ROWS_PER_BLOCK);
    let writers = Writers::start(&engine);
    println!("> begun");
    loop {
        engine.vacuum(&go_on()).expect("a vacuum");
        let steps: Vec<String> = writers.steps().iter().map(i64::to_string).collect();
        println!("> {}", steps.join(" "));
    }
}

#[test]
fn a_process_that_is_killed_while_it_vacuums_loses_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    prepare(&engine);
    keyed(&engine, 2_000);
    drop(engine);
    let mut dice = Dice(9);
    let mut reader = Reader::start(folder.path());
    for round in 0..times("ROWMILL_KILLS", 25, 400) {
        let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
        let mut process = Command::new(std::env::current_exe().expect("the test binary"))
            .args([&format!("{module}::process_that_vacuums"), "--exact", "--nocapture"])
            .env(CHILD_DIR, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut answers = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("> begun") {
            line.clear();
            assert!(answers.read_line(&mut line).expect("the process answers") > 0, "the process has ended");
        }
        std::thread::sleep(Duration::from_millis(20 + dice.roll(150)));
        process.kill().expect("the process is there");
        process.wait().expect("the process has ended");
        let mut acknowledged = vec![0, 0];
        for line in answers.lines().map_while(Result::ok) {
            let Some((_, answer)) = line.split_once("> ") else { continue };
            let numbers: Vec<i64> = answer.split(' ').filter_map(|number| number.parse().ok()).collect();
            if numbers.len() == acknowledged.len() {
                acknowledged = numbers;
            }
        }
        // A process that only reads sees it before a writer mends it.
        if round % 3 == 0 {
            reader.reopen();
        }
        reader.hold("killed");
        let engine = open(folder.path(), ROWS_PER_BLOCK);
        let steps = steps_of(&engine.snapshot().expect("a snapshot"));
        assert!(steps.iter().zip(&acknowledged).all(|(now, then)| now >= then), "{steps:?}, {acknowledged:?}");
        reader.release("killed");
        assert_whole(&engine);
        engine.checkpoint().expect("a checkpoint");
        assert_eq!(base_files(folder.path()).len(), 1, "{:?}", base_files(folder.path()));
    }
}

#[test]
fn a_vacuum_that_is_refused_or_ended_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(folder.path(), ROWS_PER_BLOCK);
    fill(&engine);
    engine.checkpoint().expect("a checkpoint");
    let cancelled = Cancel::new();
    cancelled.cancel();
    assert_eq!(engine.vacuum(&cancelled).expect_err("cancelled").kind(), ErrorKind::Cancelled);
    assert_eq!(base_files(folder.path()), ["base.tree"]);
    // The process that writes can also follow itself, and goes on after the file was replaced.
    let again = read_only(folder.path());
    assert_eq!(content_of(&again), content_of(&engine));
    engine.vacuum(&go_on()).expect("a vacuum");
    assert_eq!(content_of(&again), content_of(&engine));
    drop((again, engine));
    let reader =
        Engine::open(folder.path(), OpenOptions { read_only: true, ..OpenOptions::default() }).expect("opened");
    assert_eq!(reader.vacuum(&go_on()).expect_err("it only reads").kind(), ErrorKind::ReadOnly);
    let memory = Engine::memory(settings(ROWS_PER_BLOCK)).expect("a database in memory");
    assert_eq!(memory.vacuum(&go_on()).expect("nothing to do").bytes_after, 0);
}

/// A file system that is small.
struct Small(PathBuf);

impl Small {
    fn make(at: PathBuf, mib: usize) -> Option<Small> {
        fs::create_dir(&at).expect("a folder");
        let path = at.to_string_lossy().into_owned();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs", &path]).then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run("umount", &[&self.0.to_string_lossy()]);
    }
}

#[test]
fn a_disk_without_room_for_a_copy_is_an_error_and_nothing_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = Small::make(folder.path().join("small"), 48) else {
        eprintln!("skipped: a small file system needs root");
        return;
    };
    let dir = disk.0.join("database");
    let engine = open(&dir, ROWS_PER_BLOCK);
    let table = keyed(&engine, 20_000);
    let content = content_of(&engine);
    let filler = disk.0.join("filler");
    let mut left = 64 << 20;
    // So that there is room for a part of it.
    while left > (1 << 20) && fs::write(&filler, vec![1; left]).is_err() {
        left -= 1 << 20;
    }
    let room = base_bytes(&dir) as usize / 8;
    fs::write(&filler, vec![1; left.saturating_sub(room)]).expect("there is room");
    for what in ["vacuum", "backup"] {
        let to = disk.0.join("backup");
        let error = match what {
            "vacuum" => engine.vacuum(&go_on()).map(drop),
            _ => engine.backup(&to, &go_on()).map(drop),
        };
        let error = error.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{what}: {error}");
        assert_eq!(base_files(&dir), ["base.tree"]);
        assert!(!to.exists());
        assert_eq!(content_of(&engine), content);
        assert_whole(&engine);
    }
    fs::remove_file(&filler).expect("removed");
    add(&engine, table, 90_000, 100);
    engine.vacuum(&go_on()).expect("a vacuum");
    assert_whole(&engine);
    let reader = Reader::start(&dir);
    reader.kill();
}

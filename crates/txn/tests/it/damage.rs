//! Damage to the files of a closed database: opening it, reading all of it or checking it must report the damage, or no
//! row is missing. No reader may get other rows, end by a signal or wait for ever.
//!
//! Another process does that, damage after damage, so that what ends it is seen from here.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rowmill_base::{Cancel, Error, ErrorKind, Result, TableId};
use rowmill_txn::{Engine, OpenOptions, Snapshot};

use crate::check::{add, fill, problems};
use crate::space::copy;
use crate::support::{Dice, TestRow, open, read, settings, times};

/// Names the folder with the database, and the damages to try, to the process that tries them.
const CHILD_DIR: &str = "ROWMILL_TEST_DAMAGE_DIR";
const CHILD_DAMAGES: &str = "ROWMILL_TEST_DAMAGES";

/// The database as it was made, and what becomes of a copy.
const MADE: &str = "made";
const DAMAGED: &str = "damaged";

const ROWS_PER_BLOCK: usize = 50;
const PAGE: usize = 4_096;

/// No damage takes longer to be found.
const DEADLINE: Duration = Duration::from_secs(30);

/// The files below `dir`, by name.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// Damages one file of the database in `dir`, and says how.
fn damage(dir: &Path, dice: &mut Dice) -> String {
    let choices = match dice.place(10) {
        0..3 => files(&dir.join("log")).into_iter().filter(|path| !path.ends_with("synced")).collect(),
        3 => vec![dir.join("log/synced")],
        4..7 => files(&dir.join("tables"))
            .into_iter()
            .filter(|path| fs::metadata(path).is_ok_and(|m| m.len() > 0))
            .collect(),
        _ => vec![dir.join("base.tree")],
    };
    let path = &choices[dice.place(choices.len())];
    let mut bytes = fs::read(path).expect("read");
    // Most of a segment of the log was never used.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let pages = bytes.len().div_ceil(PAGE);
    let kind = match dice.place(4) {
        0 => {
            let bits = 1 + dice.place(3);
            (0..bits).for_each(|_| bytes[dice.place(used)] ^= 1 << dice.place(8));
            format!("{bits} bits")
        }
        1 if pages > 1 => {
            let (one, other) = (dice.place(used.div_ceil(PAGE)), dice.place(pages));
            let len = PAGE.min(bytes.len() - one.max(other) * PAGE);
            (0..len).for_each(|at| bytes.swap(one * PAGE + at, other * PAGE + at));
            format!("pages {one} and {other}")
        }
        2 => {
            let start = dice.place(used);
            let len = [1 + dice.place(16), 1 + dice.place(600), 1 + dice.place(9_000)][dice.place(3)];
            let range = start..(start + len).min(bytes.len());
            let what = dice.place(3);
            bytes[range.clone()].iter_mut().for_each(|byte| *byte = [0, 0xFF, dice.place(256) as u8][what]);
            format!("bytes {range:?}")
        }
        _ => {
            let len = dice.place(used);
            bytes.truncate(if dice.place(2) == 0 { len } else { len / PAGE * PAGE });
            format!("cut to {}", bytes.len())
        }
    };
    fs::write(path, bytes).expect("written");
    format!("{} of {}", kind, path.strip_prefix(dir).expect("inside").display())
}

/// Definitions and rows of all tables.
type Content = BTreeMap<String, (Vec<String>, Vec<(u64, TestRow)>)>;

fn content(snapshot: &Snapshot) -> Result<Content> {
    let tables = snapshot.catalog().all_tables();
    tables
        .map(|def| {
            let columns = def.columns.iter().map(|column| format!("{column:?}")).collect();
            Ok((def.name.clone(), (columns, read(snapshot, def.id)?)))
        })
        .collect()
}

/// Where a damage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Opening,
    Reading,
    Checking,
    Nowhere,
}

/// What the world says of damage, and no bug.
fn is_told(error: &Error) -> std::result::Result<(), String> {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::NewerFormat | ErrorKind::Unsupported => Ok(()),
        kind => Err(format!("{kind:?}: {error}")),
    }
}

fn options(read_only: bool) -> OpenOptions {
    OpenOptions { read_only, settings: settings(ROWS_PER_BLOCK), ..OpenOptions::default() }
}

/// Opens, reads and checks the database in `dir`, and writes to it if it seems whole.
fn find(dir: &Path, read_only: bool, expected: &Content) -> std::result::Result<Found, String> {
    let told = |error: Error, found| is_told(&error).map(|()| found);
    let opened = Engine::open(dir, options(read_only));
    let engine = match opened {
        Ok(engine) => engine,
        Err(error) => return told(error, Found::Opening),
    };
    let mut found = Found::Nowhere;
    match engine.snapshot().and_then(|snapshot| content(&snapshot)) {
        Ok(content) if content == *expected => {}
        Ok(_) => return Err("other rows".to_owned()),
        Err(error) => found = told(error, Found::Reading)?,
    }
    let checked = engine.check(&Cancel::new()).map_err(|error| format!("the check: {error}"))?;
    match (found, problems(&checked).is_empty()) {
        (Found::Reading, true) => return Err("what reading finds the check does not".to_owned()),
        (Found::Nowhere, false) => found = Found::Checking,
        _ => {}
    }
    if found == Found::Nowhere && !read_only {
        go_on(engine, dir, expected)?;
    }
    Ok(found)
}

/// Nothing was found: it can be written to, and all is there when it is opened again.
fn go_on(engine: Arc<Engine>, dir: &Path, expected: &Content) -> std::result::Result<(), String> {
    let failed = |error: Error| format!("going on: {error}");
    add(&engine, TableId(0), 1_000_000, 120);
    engine.checkpoint().map_err(failed)?;
    add(&engine, TableId(1), 1_000_000, 7);
    drop(engine);
    let engine = Engine::open(dir, options(false)).map_err(failed)?;
    let mut now = content(&*engine.snapshot().map_err(failed)?).map_err(failed)?;
    now.values_mut().for_each(|(_, rows)| rows.retain(|(_, row)| row.0 < 1_000_000));
    match now == *expected {
        true => Ok(()),
        false => Err("other rows behind further commits".to_owned()),
    }
}

/// The other side of [`Finder`]. Does nothing when it is run as a test.
#[test]
fn process_that_finds() {
    let (Some(dir), Ok(damages)) = (std::env::var_os(CHILD_DIR), std::env::var(CHILD_DAMAGES)) else { return };
    let say = |text: &str| {
        println!("> {text}");
        std::io::stdout().flush().expect("the parent listens");
    };
    let (first, end) = damages.split_once("..").expect("a range");
    let damages: Range<u64> = first.parse().expect("a number")..end.parse().expect("a number");
    let (made, damaged) = (Path::new(&dir).join(MADE), Path::new(&dir).join(DAMAGED));
    let renew = || copy(&made, &damaged);
    renew();
    let engine = Engine::open(&damaged, options(true)).expect("nothing is wrong yet");
    let expected = content(&engine.snapshot().expect("a snapshot")).expect("read");
    drop(engine);
    assert!(expected.values().map(|(_, rows)| rows.len()).sum::<usize>() > 4_000);
    for number in damages {
        renew();
        let mut dice = Dice(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| {
            dice.place(2);
        });
        let what = damage(&damaged, &mut dice);
        let read_only = dice.place(3) == 0;
        say(&format!("begin {number} {what}{}", if read_only { ", only read" } else { "" }));
        let found = catch_unwind(AssertUnwindSafe(|| find(&damaged, read_only, &expected)));
        match found {
            Ok(Ok(found)) => say(&format!("found {found:?}")),
            Ok(Err(fault)) => say(&format!("fault {}", fault.replace('\n', " "))),
            Err(_) => say("fault it panicked"),
        }
    }
    // No process reads the output of the test harness.
    std::process::exit(0);
}

/// A process that tries damages.
struct Finder {
    process: Child,
    lines: Receiver<String>,
}

impl Finder {
    fn start(dir: &Path, damages: &Range<u64>) -> Finder {
        let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
        let mut process = Command::new(std::env::current_exe().expect("the test binary"))
            .args([&format!("{module}::process_that_finds"), "--exact", "--nocapture"])
            .env(CHILD_DIR, dir)
            .env(CHILD_DAMAGES, format!("{}..{}", damages.start, damages.end))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let said = said.lines().map_while(std::result::Result::ok);
            said.filter_map(|line| line.split_once("> ").map(|(_, text)| text.to_owned()))
                .take_while(|text| sender.send(text.clone()).is_ok())
                .for_each(drop);
        });
        Finder { process, lines }
    }

    /// The next line; an error if there is none any more, or none in time.
    fn hear(&mut self) -> std::result::Result<String, String> {
        self.lines.recv_timeout(DEADLINE).map_err(|_| {
            let hangs = self.process.try_wait().expect("its state").is_none();
            let _ = self.process.kill();
            let status = self.process.wait().expect("it has ended");
            if hangs { format!("nothing within {DEADLINE:?}") } else { format!("the process ended: {status}") }
        })
    }
}

/// Makes the database, as it is after a kill: the log has what the base does not have.
fn make(made: &Path) {
    let open_folder = tempfile::tempdir().expect("a temporary folder");
    let engine = open(open_folder.path(), ROWS_PER_BLOCK);
    fill(&engine);
    copy(open_folder.path(), made);
    fs::remove_file(made.join("base.tree-made")).expect("it is there");
}

#[test]
fn who_follows_is_told_that_the_end_of_the_log_is_damaged_and_who_writes_mends_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (made, damaged) = (folder.path().join(MADE), folder.path().join(DAMAGED));
    make(&made);
    let synced = fs::read(made.join("log/synced")).expect("read");
    for bytes in [None, Some(Vec::new()), Some(synced[..5].to_vec()), Some([&synced[..11], &[!synced[11]]].concat())] {
        copy(&made, &damaged);
        let path = damaged.join("log/synced");
        match &bytes {
            Some(bytes) => fs::write(path, bytes).expect("written"),
            None => fs::remove_file(path).expect("it is there"),
        }
        let opened = || Engine::open(&damaged, options(true)).and_then(|engine| content(&*engine.snapshot()?));
        assert_eq!(opened().expect_err("without it commits would be missing").kind(), ErrorKind::Corrupt);
        let writer = Engine::open(&damaged, options(false)).expect("the log is whole");
        let expected = content(&writer.snapshot().expect("a snapshot")).expect("read");
        drop(writer);
        assert_eq!(opened().expect("it was made again"), expected, "{bytes:?}");
    }
}

#[test]
fn damage_is_found_or_harms_nothing() {
    let damages = 0..times("ROWMILL_DAMAGES", 150, 10_000) as u64;
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(&folder.path().join(MADE));

    let (mut next, mut faults) = (damages.start, Vec::new());
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    while next < damages.end {
        let mut finder = Finder::start(folder.path(), &(next..damages.end));
        while next < damages.end {
            let begun = match finder.hear() {
                Ok(line) => line.strip_prefix("begin ").expect("a damage begins").to_owned(),
                Err(fault) => panic!("before damage {next}: {fault}"),
            };
            next += 1;
            let file = begun.split(" of ").last().expect("a file").trim_end_matches(", only read");
            let file = file.split('/').next().filter(|_| file != "log/synced").unwrap_or(file).to_owned();
            match finder.hear() {
                Ok(line) if line.starts_with("found ") => {
                    *found.entry((file, line["found ".len()..].to_owned())).or_default() += 1;
                }
                Ok(line) => faults.push(format!("{begun}: {line}")),
                Err(fault) => {
                    faults.push(format!("{begun}: {fault}"));
                    break;
                }
            }
        }
        let _ = finder.process.kill();
        finder.process.wait().expect("it has ended");
    }
    for ((file, place), count) in &found {
        println!("{file}: {count} found by {place}");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    let nowhere: usize = found.iter().filter(|((_, place), _)| place == "Nowhere").map(|(_, count)| count).sum();
    assert!(nowhere < damages.end as usize * 2 / 3, "{nowhere} were found nowhere");
}

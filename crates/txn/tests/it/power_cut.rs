//! A real file system that fails: ext4 on a loop device, which is shut down in the middle of everything, so that
//! nothing that was not synced reaches the device, and mounted again; or which is full.
//!
//! Needs root and loop devices, and says so where it skips.

#![allow(clippy::print_stderr)]
// The call that shuts a file system down is a raw one.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind};
use rowmill_txn::Engine;

use crate::killed::{child, listen, options, prepare, step_of};
use crate::support::{TestRow, batch, create, times, values};

/// `EXT4_IOC_SHUTDOWN` and its way that does not even write the journal.
const SHUTDOWN: libc::c_ulong = 0x8004_587D;
const WITHOUT_JOURNAL: u32 = 2;

/// A file system of its own. It goes with the folder.
struct Loop {
    image: PathBuf,
    at: PathBuf,
    folder: tempfile::TempDir,
}

impl Loop {
    /// `None` where this cannot be done.
    fn make(megabytes: u64) -> Option<Loop> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (image, at) = (folder.path().join("image"), folder.path().join("mounted"));
        std::fs::create_dir(&at).expect("a folder");
        File::create(&image).and_then(|file| file.set_len(megabytes << 20)).expect("a file");
        let made = Loop { image, at, folder };
        let is_there = run("mkfs.ext4", &["-q", "-F", &made.image.to_string_lossy()]) && made.mount();
        if !is_there {
            eprintln!("skipped: a file system of its own needs root, mkfs.ext4 and loop devices");
        }
        is_there.then_some(made)
    }

    fn mount(&self) -> bool {
        run("mount", &["-o", "loop", &self.image.to_string_lossy(), &self.at.to_string_lossy()])
    }

    fn unmount(&self) -> bool {
        run("umount", &[&self.at.to_string_lossy()])
    }

    fn directory(&self) -> PathBuf {
        self.at.join("database")
    }

    /// Nothing that is not on the device by now will be.
    fn cut(&self) {
        let root = File::open(&self.at).expect("the root");
        // SAFETY: the call reads one number through the pointer, which outlives it.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &WITHOUT_JOURNAL) };
        assert_eq!(done, 0, "the file system is shut down: {}", std::io::Error::last_os_error());
    }

    /// As after the power is back.
    fn come_back(&self) {
        let begun = Instant::now();
        while !self.unmount() {
            assert!(begun.elapsed() < Duration::from_secs(10), "a process holds {}", self.at.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(self.mount(), "{} in {} is mounted again", self.image.display(), self.folder.path().display());
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

pub(crate) fn run(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// Cuts the power `cuts` times while a process writes with `settings`. A transaction that was acknowledged longer than
/// `bound` before has to be there. Says how often one was missing that was acknowledged at all; `None` if nothing can
/// be cut here.
fn cut_power(cuts: usize, settings: &str, bound: Duration) -> Option<usize> {
    let disk = Loop::make(192)?;
    prepare(&disk.directory());
    let mut dice: u64 = 0xD1CE;
    let mut losses = 0;
    let mut last = 0;
    for cut in 0..cuts {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let mut writer = child(&disk.directory(), "write", settings, Stdio::null());
        let listener = {
            let heard = Arc::clone(&heard);
            listen(&mut writer, move |step| heard.lock().push((Instant::now(), step)))
        };
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((dice >> 33) % [60_000, 300_000][cut % 2]));
        disk.cut();
        let end = Instant::now();
        // Who writes may have died of it.
        let _ = writer.kill();
        writer.wait().expect("the process has ended");
        listener.join().expect("it only listens");
        disk.come_back();
        let step = read(&disk.directory());
        let heard = heard.lock();
        let before = |moment: Instant| heard.iter().rfind(|(at, _)| *at <= moment).map_or(last, |(_, step)| *step);
        let needed = end.checked_sub(bound).map_or(last, before);
        assert!(step >= needed, "cut {cut}: transaction {needed} is missing, {step} is the last that is there");
        losses += usize::from(step < before(end));
        last = step;
    }
    assert!(last > cuts as i64, "{last} transactions in {cuts} cuts");
    Some(losses)
}

/// The transaction that is there after the power came back.
fn read(directory: &Path) -> i64 {
    let engine = Engine::open(directory, options(false)).expect("the directory opens");
    let step = step_of(&engine.snapshot().expect("a snapshot"));
    engine.checkpoint().expect("it goes on");
    step
}

#[test]
fn nothing_acknowledged_is_missing_after_a_power_cut() {
    let losses = cut_power(times("ROWMILL_POWER_CUTS", 8, 250), "durability=full", Duration::ZERO);
    assert!(losses.is_none_or(|losses| losses == 0));
}

#[test]
fn relaxed_commits_are_missing_no_longer_than_the_bound() {
    cut_power(times("ROWMILL_POWER_CUTS", 6, 250), "durability=relaxed,relaxed_sync_ms=50", Duration::from_millis(60));
}

#[test]
fn without_syncs_the_power_cuts_find_losses() {
    let losses = cut_power(
        times("ROWMILL_POWER_CUTS", 6, 20),
        "durability=relaxed,relaxed_sync_ms=60000",
        Duration::from_secs(60),
    );
    assert!(losses.is_none_or(|losses| losses > 0), "what was never synced has outlived every power cut");
}

#[test]
fn a_full_disk_refuses_commits_and_heals() {
    let Some(disk) = Loop::make(64) else { return };
    let ballast = disk.at.join("ballast");
    prepare(&disk.directory());
    std::fs::write(&ballast, vec![1; 24 << 20]).expect("there is room for that");
    let open = || Engine::open(&disk.directory(), options(false)).expect("the directory opens");
    let engine = open();
    let table = create(&engine, "Filler");
    let rows_of = |commit: i64| -> Vec<TestRow> {
        let text = |n: i64| format!("{n} {}", (0..200).map(|part| (n * 7_919 + part).to_string()).collect::<String>());
        (commit * 500..commit * 500 + 500).map(|n| (n, Some(text(n)))).collect()
    };
    let commit = |number: i64| {
        let mut transaction = engine.begin()?;
        transaction.insert(table, &batch(&rows_of(number)))?;
        transaction.commit()
    };
    let rows = |engine: &Engine| values(&engine.snapshot().expect("a snapshot"), table).len() as i64;
    let (mut acknowledged, mut refused) = (0, 0);
    while refused < 20 {
        assert!(acknowledged < 10_000, "64 MB are not full");
        match commit(acknowledged) {
            Ok(_) => (acknowledged, refused) = (acknowledged + 1, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                assert_eq!(rows(&engine), acknowledged * 500, "reading goes on behind {error}");
                refused += 1;
            }
        }
        if acknowledged % 50 == 49 {
            let done = engine.checkpoint();
            assert!(done.is_ok() || done.is_err_and(|error| error.kind() == ErrorKind::DiskFull));
        }
    }
    std::fs::remove_file(&ballast).expect("it is there");
    commit(acknowledged).expect("there is room again");
    engine.checkpoint().expect("there is room again");
    let expected = (acknowledged + 1) * 500;
    assert_eq!(rows(&engine), expected);
    drop(engine);
    assert_eq!(rows(&open()), expected);
}

/// Takes all space that there is.
fn fill(path: &Path) {
    let mut file = File::options().create(true).append(true).open(path).expect("an empty file takes no space");
    for piece in [1 << 20, 1 << 12] {
        while file.write(&vec![1; piece]).is_ok_and(|written| written == piece) {}
    }
    let _ = file.sync_all();
}

#[test]
fn each_kind_of_write_is_refused_on_a_full_disk_and_heals() {
    let Some(disk) = Loop::make(64) else { return };
    let ballast = disk.at.join("ballast");
    prepare(&disk.directory());
    let open = |read_only| Engine::open(&disk.directory(), options(read_only));
    let engine = open(false).expect("the directory opens");
    let table = create(&engine, "Filler");
    let mut next = 0;
    // Rows that are too few for a block go to the log alone, and to the base with a checkpoint; others go to blocks at
    // once.
    let mut add = |engine: &Arc<Engine>, count: i64, bytes: usize| {
        let rows: Vec<TestRow> = (next..next + count).map(|n| (n, Some(format!("{n:0bytes$}")))).collect();
        let mut transaction = engine.begin()?;
        transaction.insert(table, &batch(&rows))?;
        transaction.commit()?;
        next += count;
        Ok::<i64, Error>(next)
    };
    let rows = |engine: &Engine| values(&engine.snapshot().expect("a snapshot"), table).len() as i64;
    let refused = |outcome: Result<(), Error>, what: &str| {
        let error = outcome.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{what}: {error:?}");
        assert!(error.message().contains(&*disk.at.to_string_lossy()), "{what} names a file: {error:?}");
    };
    let mut there = add(&engine, 200, 100).expect("there is room");
    for round in 0..2 {
        fill(&ballast);
        // What was made ahead of the log still takes some.
        let refusal = (0..200).find_map(|_| match add(&engine, 20, 10_000) {
            Ok(rows) => {
                there = rows;
                // A job may have given space back after the disk was filled.
                fill(&ballast);
                None
            }
            Err(error) => Some(error),
        });
        refused(refusal.map_or(Ok(()), Err), "an insert");
        assert_eq!(rows(&engine), there, "round {round}, behind an insert that was refused");
        refused(add(&engine, 5_000, 1_000).map(drop), "a load");
        assert_eq!(rows(&engine), there, "round {round}, behind a load that was refused");
        refused(engine.checkpoint(), "a checkpoint");
        assert_eq!(rows(&engine), there, "round {round}, behind a checkpoint that was refused");
        if round == 0 {
            std::fs::remove_file(&ballast).expect("it is there");
            add(&engine, 20, 10_000).expect("there is room again for an insert");
            there = add(&engine, 500, 100).expect("there is room again for a load");
            engine.checkpoint().expect("there is room again for a checkpoint");
            assert_eq!(rows(&engine), there, "round {round}, with room again");
        }
    }
    // The log has what the base has no room for.
    drop(engine);
    assert_eq!(rows(&open(true).expect("reading takes no space")), there);
    refused(open(false).map(drop), "an opening");
    std::fs::remove_file(&ballast).expect("it is there");
    assert_eq!(rows(&open(false).expect("there is room again")), there);
}

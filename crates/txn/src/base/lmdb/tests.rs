//! Tests of properties that only LMDB has: files on disk, damage to them, and other processes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::super::lmdb_file::with_suffix;
use super::*;

fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

fn open(dir: &Path) -> LmdbBase {
    LmdbBase::open(dir, false).unwrap()
}

fn small(map_bytes: usize) -> LmdbOptions {
    LmdbOptions { map_bytes, patience: Duration::from_millis(50), ..LmdbOptions::default() }
}

/// Fills a base with several hundred pages: deep enough for branches, with free pages and a big value.
fn fill(dir: &Path) {
    let base = open(dir);
    for commit in 1..=4 {
        let mut batch = WriteBatch::new();
        for n in 0..2_000_u32 {
            batch.put(format!("key{n:05}"), n.to_le_bytes().repeat(commit as usize * 3));
        }
        batch.put(b"big", vec![commit as u8; 20_000]);
        base.write(&batch, CommitId(commit)).unwrap();
    }
}

/// All entries of a base.
fn content(base: &LmdbBase) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut content = Vec::new();
    base.read()?.scan(b"", &mut |key, value| {
        content.push((key.to_vec(), value.to_vec()));
        Ok(true)
    })?;
    Ok(content)
}

#[test]
fn reopening_finds_all_entries() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!LmdbBase::exists(dir.path()).unwrap());
    fill(dir.path());
    assert!(LmdbBase::exists(dir.path()).unwrap());
    let base = LmdbBase::open(dir.path(), true).unwrap();
    assert_eq!(base.commit_id().unwrap(), CommitId(4));
    assert_eq!(content(&base).unwrap().len(), 2_001);
    base.verify().unwrap();
    let refused = base.write(&put(b"a", b""), CommitId(9)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_second_open_in_the_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    for read_only in [false, true] {
        let error = LmdbBase::open(dir.path(), read_only).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.message().contains("in this process already"), "{error}");
    }
    first.write(&put(b"a", b""), CommitId(1)).unwrap();
    drop(first);
    open(dir.path());
}

#[test]
fn growth_waits_for_readers_and_gives_up() {
    let dir = tempfile::tempdir().unwrap();
    let base = LmdbBase::open_with(dir.path(), false, small(1 << 20)).unwrap();
    base.write(&put(b"a", b"1"), CommitId(1)).unwrap();
    let read = base.read().unwrap();
    let error = base.write(&put(b"big", vec![1; 5_000_000]), CommitId(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(read.get(b"a").unwrap().unwrap(), b"1");
    base.write(&put(b"b", b"2"), CommitId(2)).unwrap();
    drop(read);
    base.write(&put(b"big", vec![1; 5_000_000]), CommitId(3)).unwrap();
    assert_eq!(base.read().unwrap().get(b"big").unwrap().unwrap().len(), 5_000_000);
    assert_eq!(base.read().unwrap().get(b"b").unwrap().unwrap(), b"2");
}

#[test]
fn the_history_of_commits_stays_short() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let open = base.now();
    let history = || open.map.prefix_iter(&open.env.read_txn().unwrap(), HISTORY_PREFIX).unwrap().count();
    (1..50).for_each(|commit| base.write(&put(b"a", b""), CommitId(commit)).unwrap());
    assert_eq!(history(), 2);
    let read = base.read().unwrap();
    (50..60).for_each(|commit| base.write(&put(b"a", b""), CommitId(commit)).unwrap());
    assert_eq!(history(), 11);
    drop(read);
    base.write(&put(b"a", b""), CommitId(60)).unwrap();
    assert_eq!(history(), 2);
}

#[test]
fn a_poisoned_base_reads_and_does_not_write() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    base.now().poisoned.store(true, Ordering::Release);
    assert_eq!(base.write(&put(b"a", b""), CommitId(1)).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(base.commit_id().unwrap(), CommitId(0));
}

/// Flips a bit in the last byte of the last place where the file contains `what`.
fn flip(file: &Path, what: &[u8]) {
    let bytes = fs::read(file).unwrap();
    let at = bytes.windows(what.len()).rposition(|window| window == what).unwrap() as u64;
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&[what[what.len() - 1] ^ 1], at + what.len() as u64 - 1).unwrap();
}

#[test]
fn a_damaged_value_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let value = b"a value that is easy to find in the file";
    open(dir.path()).write(&put(b"key", value), CommitId(1)).unwrap();
    flip(&dir.path().join(BASE_FILE), value);
    let error = LmdbBase::open(dir.path(), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("6b6579") && error.message().contains(BASE_FILE), "{error}");
}

#[test]
fn a_damaged_key_is_an_error_and_not_absent() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).write(&put(b"a key that is easy to find", b"value"), CommitId(1)).unwrap();
    flip(&dir.path().join(BASE_FILE), b"a key that is easy to find");
    assert_eq!(LmdbBase::open(dir.path(), false).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_long_base_is_checked_fully_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let file = dir.path().join(BASE_FILE);
    flip(&file, &[&b"key00007"[..], &7_u32.to_le_bytes().repeat(12)].concat());
    assert_eq!(LmdbBase::open(dir.path(), false).unwrap_err().kind(), ErrorKind::Corrupt);
    let options = LmdbOptions { looked_through_max: 8_192, ..LmdbOptions::default() };
    let base = LmdbBase::open_with(dir.path(), false, options).unwrap();
    assert_eq!(base.read().unwrap().get(b"key00007").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(base.check(&Cancel::new()).unwrap().entry_problems.len(), 1);
    drop(base);
    // A truncated file is checked completely, however long it is.
    let len = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(len / 2).unwrap();
    assert_eq!(LmdbBase::open_with(dir.path(), false, options).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn check_of_an_open_base_reports_each_damage_without_touching_the_mapping() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let base = open(dir.path());
    let file = dir.path().join(BASE_FILE);
    flip(&file, &[&b"key00007"[..], &7_u32.to_le_bytes().repeat(12)].concat());
    flip(&file, &[&b"key01999"[..], &1_999_u32.to_le_bytes().repeat(12)].concat());
    let checked = base.check(&Cancel::new()).unwrap();
    assert_eq!(checked.entry_problems.len(), 2, "{checked:?}");
    assert_eq!(checked.entries, 2_001 + 4, "with the reserved keys");
    // Truncate the file to its heads. A touch of the mapping past them would raise SIGBUS and end this process.
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(8_192).unwrap();
    let checked = base.check(&Cancel::new()).unwrap();
    assert!(!checked.page_problems.is_empty());
    assert_eq!(base.read_by_calls().unwrap().get(b"big").unwrap_err().kind(), ErrorKind::Corrupt);
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(base.check(&cancel).unwrap_err().kind(), ErrorKind::Cancelled);
    // Do not close it: closing might touch the mapping of the truncated file too.
    std::mem::forget(base);
}

/// Opens and verifies a base with the file content `bytes`, and returns its entries if it seems intact.
fn outcome(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(BASE_FILE), bytes).unwrap();
    let base = LmdbBase::open(dir.path(), false)?;
    base.verify()?;
    content(&base)
}

#[test]
fn damaged_pages_give_errors() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let bytes = fs::read(dir.path().join(BASE_FILE)).unwrap();
    let whole = outcome(&bytes).unwrap();
    let mut found = 0;
    // Strides that are coprime to the page length visit header, offsets and nodes in turn.
    let heads = (0..160).chain(4_096..4_096 + 160);
    let everywhere = (8_192..bytes.len()).step_by(2_503);
    let headers = (8_192..bytes.len()).step_by(4_096 + 1).map(|at| at / 4_096 * 4_096 + at % 40);
    for at in heads.chain(everywhere).chain(headers) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match outcome(&damaged) {
            Ok(read) => assert!(read == whole, "byte {at} of the file changed an answer"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NewerFormat), "byte {at}: {error:?}");
                found += 1;
            }
        }
    }
    assert!(found > 100, "only {found} damages were found");
}

#[test]
fn a_truncated_file_is_refused_when_opened() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let bytes = fs::read(dir.path().join(BASE_FILE)).unwrap();
    let whole = outcome(&bytes).unwrap();
    let mut refused = 0;
    for len in (0..bytes.len()).step_by(4_096).chain([1, 100, 5_000, bytes.len() - 1]) {
        // If the last pages are free, the cut loses nothing.
        match outcome(&bytes[..len]) {
            Ok(read) => assert_eq!(read, whole),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "only {refused} cuts were refused");
}

#[test]
fn a_file_that_is_no_base_is_refused() {
    for bytes in [&b""[..], b"hello", &[0; 100_000]] {
        assert_eq!(outcome(bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    let dir = tempfile::tempdir().unwrap();
    let error = LmdbBase::open(dir.path(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    assert!(!LmdbBase::exists(dir.path()).unwrap(), "opening it for reading should not create a base");
    open(dir.path());
    fs::remove_file(dir.path().join(BASE_FILE)).unwrap();
    let error = LmdbBase::open(dir.path(), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("it was there before"), "{error}");
}

#[test]
fn an_unfinished_base_is_replaced_by_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    for suffix in ["-new", "-new-lock"] {
        fs::write(dir.path().join(format!("{BASE_FILE}{suffix}")), b"half").unwrap();
    }
    open(dir.path()).verify().unwrap();
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, [BASE_FILE, "base.lmdb-lock"]);
}

#[test]
fn a_newer_layout_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let mut stored = Vec::new();
    seal(VERSION_KEY, &2_u32.to_le_bytes(), &mut stored);
    let open = base.now();
    let mut transaction = open.env.write_txn().unwrap();
    open.map.put(&mut transaction, VERSION_KEY, &stored).unwrap();
    transaction.commit().unwrap();
    drop((open, base));
    assert_eq!(LmdbBase::open(dir.path(), false).unwrap_err().kind(), ErrorKind::NewerFormat);
}

/// The offset in the lock file of the last transaction that readers were told of.
const LAST_TRANSACTION_AT: u64 = 8;

/// The environment variable that passes the directory to the process that `Other` starts.
const CHILD_DIR: &str = "ROWMILL_TEST_BASE_DIR";

/// Another process that has the base of a directory open and executes one order per line.
struct Other {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Other {
    fn start(dir: &Path, role: &str) -> Other {
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([&format!("{module}::another_process"), "--exact", "--nocapture"])
            .env(CHILD_DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut other = Other { process, orders, answers: BufReader::new(answers) };
        assert_eq!(other.order(role), "open");
        other
    }

    /// Gives an order and waits for its answer.
    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.answer().unwrap()
    }

    /// The next line from the process that is an answer, and not output of the test harness.
    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).unwrap() > 0 {
            if let Some((_, answer)) = line.split_once("> ") {
                return Some(answer.trim().to_owned());
            }
            line.clear();
        }
        None
    }

    fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::iter::from_fn(|| self.answer()).collect()
    }
}

/// The child process of `Other`. Does nothing when it runs as an ordinary test.
#[test]
fn another_process() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let mut orders = std::io::stdin().lines().map(|line| line.unwrap());
    let answer = |text: &str| {
        println!("> {text}");
        std::io::stdout().flush().unwrap();
    };
    let read_only = orders.next().unwrap() == "read";
    let base = LmdbBase::open_with(Path::new(&dir), read_only, small(1 << 20)).unwrap();
    let mut held = Vec::new();
    answer("open");
    for order in orders {
        match order.as_str() {
            "commit" => answer(&base.commit_id().unwrap().to_string()),
            "hold" => {
                held.push(base.read().unwrap());
                answer(&held.last().unwrap().commit_id().unwrap().to_string());
            }
            "held" => answer(&held[0].get(b"key").unwrap().unwrap().len().to_string()),
            "release" => {
                held.clear();
                answer("");
            }
            "verify" => answer(&base.verify().err().map_or(String::new(), |error| error.to_string())),
            "write" => {
                for commit in base.commit_id().unwrap().0 + 1.. {
                    base.write(&put(b"key", vec![commit as u8; 10_000]), CommitId(commit)).unwrap();
                    answer(&commit.to_string());
                }
            }
            "untold" => {
                // Act like a writer that is killed after it wrote the head of its commit and before it told the
                // readers.
                let last = base.commit_id().unwrap().0;
                base.write(&put(b"key", b"untold"), CommitId(last + 1)).unwrap();
                let open = base.now();
                std::mem::forget(open.env.write_txn().unwrap());
                let lock_file = with_suffix(&Path::new(&dir).join(BASE_FILE), "-lock");
                let lock_file = fs::OpenOptions::new().read(true).write(true).open(lock_file).unwrap();
                let mut told = [0; 8];
                lock_file.read_exact_at(&mut told, LAST_TRANSACTION_AT).unwrap();
                let before = (u64::from_ne_bytes(told) - 1).to_ne_bytes();
                lock_file.write_all_at(&before, LAST_TRANSACTION_AT).unwrap();
                std::mem::forget(lock_file);
                answer(&base.commit_id().unwrap().to_string());
            }
            other => panic!("unknown order {other}"),
        }
    }
    // Exit here, because the parent reads no output of the test harness.
    std::process::exit(0);
}

#[test]
fn another_process_follows_commits_and_growth() {
    let dir = tempfile::tempdir().unwrap();
    let base = LmdbBase::open_with(dir.path(), false, small(1 << 20)).unwrap();
    base.write(&put(b"key", b"1"), CommitId(1)).unwrap();
    let mut other = Other::start(dir.path(), "read");
    assert_eq!(other.order("commit"), "1");
    assert_eq!(other.order("hold"), "1");
    for commit in 2..20 {
        base.write(&put(format!("big{commit}"), vec![2; 1_000_000]), CommitId(commit)).unwrap();
    }
    base.write(&put(b"key", b"22"), CommitId(20)).unwrap();
    assert_eq!(other.order("held"), "1", "a read should keep its state");
    other.order("release");
    assert_eq!(other.order("commit"), "20", "the reader should follow the growth of the file");
    assert_eq!(other.order("hold"), "20");
    assert_eq!(other.order("held"), "2");
    assert_eq!(other.order("verify"), "");
}

#[test]
fn readers_of_other_processes_count_until_they_end_or_die() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let touch = |commit| base.write(&put(b"key", b"1"), CommitId(commit)).unwrap();
    let oldest = || base.oldest_reader().unwrap();
    touch(1);
    let mut first = Other::start(dir.path(), "read");
    let mut second = Other::start(dir.path(), "read");
    assert_eq!(oldest(), None);
    first.order("hold");
    (2..10).for_each(touch);
    second.order("hold");
    (10..20).for_each(touch);
    assert_eq!(oldest(), Some(CommitId(1)));
    first.kill();
    assert_eq!(oldest(), Some(CommitId(9)));
    second.order("release");
    assert_eq!(oldest(), None);
}

#[test]
fn a_reader_outlives_the_writer_and_is_known_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    (1..=5).for_each(|commit| base.write(&put(b"key", b"1"), CommitId(commit)).unwrap());
    let mut other = Other::start(dir.path(), "read");
    other.order("hold");
    (6..=9).for_each(|commit| base.write(&put(b"key", b"22"), CommitId(commit)).unwrap());
    drop(base);
    let base = open(dir.path());
    base.write(&put(b"key", b"333"), CommitId(10)).unwrap();
    assert_eq!(base.oldest_reader().unwrap(), Some(CommitId(5)));
    assert_eq!(other.order("held"), "1");
}

#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..8_u64 {
        let mut other = Other::start(dir.path(), "write");
        writeln!(other.orders, "write").unwrap();
        std::thread::sleep(Duration::from_millis(3 + round * 7));
        let acknowledged = other.kill().last().map_or(last, |answer| answer.parse().unwrap());
        let base = open(dir.path());
        base.verify().unwrap();
        let commit = base.commit_id().unwrap().0;
        assert!(commit == acknowledged || commit == acknowledged + 1, "{commit} after {acknowledged}");
        if commit > 0 {
            assert_eq!(base.read().unwrap().get(b"key").unwrap().unwrap(), vec![commit as u8; 10_000]);
        }
        last = commit;
    }
    assert!(last > 0);
}

#[test]
fn a_writer_begins_with_the_last_commit_even_if_readers_were_not_told_of_it() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).write(&put(b"key", b"told"), CommitId(1)).unwrap();
    let mut reader = Other::start(dir.path(), "read");
    let mut writer = Other::start(dir.path(), "write");
    assert_eq!(writer.order("untold"), "1");
    writer.kill();
    assert_eq!(reader.order("commit"), "1", "no process has told it");
    let base = open(dir.path());
    assert_eq!(base.commit_id().unwrap(), CommitId(2));
    assert_eq!(base.read().unwrap().get(b"key").unwrap().unwrap(), b"untold");
    assert_eq!(reader.order("commit"), "2");
}

#[cfg(target_os = "linux")]
#[test]
fn the_lock_file_has_its_blocks_allocated() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    base.write(&put(b"key", b"1"), CommitId(1)).unwrap();
    drop(base);
    let lock_file = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let lock_file = lock_file.into_iter().find(|path| path.to_string_lossy().ends_with("-lock")).unwrap();
    // In the second round the lock file is created for a base that exists, as after a copy of the base file alone.
    for again in [false, true] {
        if again {
            std::fs::remove_file(&lock_file).unwrap();
            drop(open(dir.path()));
        }
        let metadata = lock_file.metadata().unwrap();
        assert!(metadata.len() > 0 && metadata.blocks() * 512 >= metadata.len(), "{metadata:?}");
    }
}

/// Adds keys in order at ten places, in batches of random lengths, mixed with changed and deleted rows. Compares with a
/// map.
#[test]
fn runs_in_many_places_leave_full_pages_and_change_nothing_else() {
    use std::collections::BTreeMap;

    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let mut twin = BTreeMap::new();
    let mut random = 1_u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % bound
    };
    let mut next = [0_u64; 10];
    for commit in 1..=60 {
        let mut batch = WriteBatch::new();
        for (place, next) in next.iter_mut().enumerate() {
            // Sometimes change an existing row, which may split its page, or delete it.
            let mut changes: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
            for _ in 0..below(16) / 15 {
                let key = format!("p{place}/{:06}", below(*next + 1)).into_bytes();
                let row = vec![commit as u8; [60, 0, 5_000][below(3) as usize]];
                changes.insert(key, (below(3) > 0).then_some(row));
            }
            for _ in 0..below(200) {
                let row = vec![*next as u8; 40 + below(40) as usize];
                changes.insert(format!("p{place}/{next:06}").into_bytes(), Some(row));
                *next += 1;
            }
            for (key, row) in changes {
                batch.set_row(&key, row.as_deref());
                match row {
                    Some(row) => twin.insert(key, row),
                    None => twin.remove(&key),
                };
            }
        }
        base.write(&batch, CommitId(commit)).unwrap();
        assert!(content(&base).unwrap().into_iter().eq(twin.clone()), "commit {commit}");
    }
    base.verify().unwrap();
    let bytes: usize =
        twin.iter().filter(|(_, row)| row.len() < 2_000).map(|(key, row)| key.len() + row.len() + 14).sum();
    let used = pages_of_leaves(&base) * 4_096;
    println!("{} keys, {bytes} bytes in {used} of leaves", twin.len());
    // Without runs the leaves take nearly twice the bytes.
    assert!(used * 6 < bytes * 7, "{bytes} bytes take {used}");
}

fn pages_of_leaves(base: &LmdbBase) -> usize {
    let read = base.now().begin().unwrap();
    read.base.map.stat(&read.transaction).unwrap().leaf_pages
}

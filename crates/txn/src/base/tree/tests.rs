//! Tests of properties that only a tree in a file has: damage, power cuts, free space and other processes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::Error;
use rowmill_io::{Disk, DiskChange, Fate, Fault, FaultyDisk, MemoryDisk, crash_state};

use super::super::WriteBatch;
use super::commit::{store_head, write_next};
use super::file::TreeFile;
use super::free_pages::FreePages;
use super::head::TreeState;
use super::reader::TreeReader;
use super::*;

fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

fn open(dir: &Path) -> TreeBase {
    TreeBase::open(dir, false).unwrap()
}

/// Fills a base with several hundred pages: deep enough for branches, with free pages and a long value.
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

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
type EntryMap = BTreeMap<Vec<u8>, Vec<u8>>;

/// All entries of a base.
fn content(base: &TreeBase) -> Result<Entries> {
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
    assert!(!TreeBase::exists(dir.path()).unwrap());
    fill(dir.path());
    assert!(TreeBase::exists(dir.path()).unwrap());
    let base = TreeBase::open(dir.path(), true).unwrap();
    assert_eq!(base.commit_id().unwrap(), CommitId(4));
    assert_eq!(content(&base).unwrap().len(), 2_001);
    base.verify().unwrap();
    let refused = base.write(&put(b"a", b""), CommitId(9)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
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
fn a_damaged_page_is_named_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let base = open(dir.path());
    let file = dir.path().join(BASE_FILE);
    flip(&file, &[&[48, 0][..], &7_u32.to_le_bytes().repeat(12)].concat());
    flip(&file, &[&[48, 0][..], &1_999_u32.to_le_bytes().repeat(12)].concat());
    let error = base.read().unwrap().get(b"key00007").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("page ") && error.message().contains(BASE_FILE), "{error}");
    assert!(base.read().unwrap().get(b"key01000").unwrap().is_some());
    assert_eq!(base.check(&Cancel::new()).unwrap().page_problems.len(), 2);
    // A write that needs a damaged page is refused and changes nothing. Others are not.
    assert_eq!(base.write(&put(b"key00007", b"new"), CommitId(5)).unwrap_err().kind(), ErrorKind::Corrupt);
    base.write(&put(b"key01000", b"new"), CommitId(5)).unwrap();
    assert_eq!(base.check(&Cancel::new()).unwrap().page_problems.len(), 2);
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(base.check(&cancel).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_file_that_is_cut_while_it_is_open_raises_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let base = open(dir.path());
    let file = fs::OpenOptions::new().write(true).open(dir.path().join(BASE_FILE)).unwrap();
    file.set_len(4 * PAGE_BYTES as u64).unwrap();
    assert!(!base.check(&Cancel::new()).unwrap().is_whole());
    content(&base).unwrap_err();
}

/// A kind of damage to the pages of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// Two pages change places.
    Swap,
    /// A page in use has its bytes of an earlier generation, as if the last write of it was lost.
    Stale,
    /// Half of a page in use has its bytes of an earlier generation, as if the last write of it was torn.
    Torn,
    /// A write went to another page, which is in use.
    Misdirected,
    /// A bit of the header, of the slots or of the keys is flipped.
    Front,
    /// A bit anywhere in a page is flipped.
    Anywhere,
    /// A page is full of zeros.
    Zeros,
    /// A bit of a head is flipped.
    Head,
    /// The file ends early.
    Cut,
}

const DAMAGES: [Damage; 9] = [
    Damage::Swap,
    Damage::Stale,
    Damage::Torn,
    Damage::Misdirected,
    Damage::Front,
    Damage::Anywhere,
    Damage::Zeros,
    Damage::Head,
    Damage::Cut,
];

/// A whole file, and what damage to it needs to know.
struct WholeFile {
    bytes: Vec<u8>,
    /// The same file some generations before.
    earlier: Vec<u8>,
    /// The pages that the newest state uses, without the heads.
    used: Vec<usize>,
    /// Those of them that had other bytes before.
    rewritten: Vec<usize>,
}

impl WholeFile {
    /// The file of `base`, which is open, and which had the bytes `earlier` before.
    fn of(base: &TreeBase, file: &Path, earlier: Vec<u8>) -> WholeFile {
        let bytes = fs::read(file).unwrap();
        let free = base.begin().unwrap().reader.free_pages().unwrap();
        let is_free = |page: &usize| free.runs().any(|(first, count)| (first..first + count).contains(&(*page as u64)));
        let used: Vec<usize> = (4..bytes.len() / PAGE_BYTES).filter(|page| !is_free(page)).collect();
        let had_others =
            |page: &usize| earlier.get(range_of(*page)).is_some_and(|earlier| earlier != &bytes[range_of(*page)]);
        let rewritten: Vec<usize> = used.iter().copied().filter(had_others).collect();
        assert!(!rewritten.is_empty(), "the last write has used pages of earlier generations again");
        WholeFile { bytes, earlier, used, rewritten }
    }

    /// Whether a page in use has other bytes in `bytes`.
    fn is_hurt(&self, bytes: &[u8]) -> bool {
        self.used.iter().any(|page| bytes.get(range_of(*page)) != Some(&self.bytes[range_of(*page)]))
    }

    /// The bytes of the file after a damage.
    fn damaged(&self, damage: Damage, rng: &mut SmallRng) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let one = rng.random_range(4..bytes.len() / PAGE_BYTES) * PAGE_BYTES;
        let other = self.used[rng.random_range(0..self.used.len())] * PAGE_BYTES;
        let rewritten = range_of(self.rewritten[rng.random_range(0..self.rewritten.len())]);
        match damage {
            Damage::Swap => {
                let kept = bytes[one..one + PAGE_BYTES].to_vec();
                bytes.copy_within(other..other + PAGE_BYTES, one);
                bytes[other..other + PAGE_BYTES].copy_from_slice(&kept);
            }
            Damage::Stale => bytes[rewritten.clone()].copy_from_slice(&self.earlier[rewritten]),
            Damage::Torn => {
                let half = if rng.random() { rewritten.start } else { rewritten.start + PAGE_BYTES / 2 };
                let half = half..half + PAGE_BYTES / 2;
                bytes[half.clone()].copy_from_slice(&self.earlier[half]);
            }
            Damage::Misdirected => bytes.copy_within(one..one + PAGE_BYTES, other),
            Damage::Front => bytes[one + rng.random_range(0..300)] ^= 1 << rng.random_range(0..8),
            Damage::Anywhere => bytes[one + rng.random_range(0..PAGE_BYTES)] ^= 1 << rng.random_range(0..8),
            Damage::Zeros => bytes[one..one + PAGE_BYTES].fill(0),
            Damage::Head => {
                let page = rng.random_range(0..4) * PAGE_BYTES;
                bytes[page + rng.random_range(0..88)] ^= 1 << rng.random_range(0..8);
            }
            Damage::Cut => bytes.truncate(rng.random_range(0..bytes.len())),
        }
        bytes
    }
}

fn range_of(page: usize) -> std::ops::Range<usize> {
    page * PAGE_BYTES..(page + 1) * PAGE_BYTES
}

/// Each damage must be harmless, or an error of the read or the write that meets it. A check must find every damage of
/// a page in use, whether or not a read met it.
#[test]
fn no_damage_changes_an_answer() {
    let rounds = if std::env::var_os("ROWMILL_LONG").is_some() { 50_000 } else { 600 };
    let made = tempfile::tempdir().unwrap();
    fill(made.path());
    let file = made.path().join(BASE_FILE);
    let earlier = fs::read(&file).unwrap();
    let base = open(made.path());
    // Two writes, because a page that the first one frees is used again by the second.
    base.write(&put(b"key00003", vec![3; 40]), CommitId(5)).unwrap();
    base.write(&put(b"key00003", vec![4; 40]), CommitId(5)).unwrap();
    let expected = content(&base).unwrap();
    let whole = WholeFile::of(&base, &file, earlier);
    drop(base);
    let dir = tempfile::tempdir().unwrap();
    let mut rng = SmallRng::seed_from_u64(11);
    let (mut found, mut harmless, mut hurt) = (0, 0, 0);
    for round in 0..rounds {
        let kind = DAMAGES[round % DAMAGES.len()];
        let bytes = whole.damaged(kind, &mut rng);
        let is_hurt = whole.is_hurt(&bytes);
        hurt += u32::from(is_hurt);
        fs::write(dir.path().join(BASE_FILE), &bytes).unwrap();
        let is_corrupt = |error: &Error| {
            let names = error.message().contains(BASE_FILE);
            assert!(error.kind() == ErrorKind::Corrupt && names, "{kind:?} in round {round}: {error:?}");
        };
        let base = match TreeBase::open(dir.path(), round % 3 == 0) {
            Ok(base) => base,
            Err(error) => {
                is_corrupt(&error);
                found += 1;
                continue;
            }
        };
        let read = content(&base);
        let checked = base.check(&Cancel::new()).unwrap();
        assert!(!is_hurt || !checked.is_whole(), "{kind:?} in round {round}: the check missed a page in use");
        match &read {
            Ok(read) => assert_eq!(*read, expected, "{kind:?} in round {round}"),
            Err(error) => {
                is_corrupt(error);
                assert!(!checked.is_whole(), "{kind:?} in round {round}");
            }
        }
        checked.page_problems.iter().for_each(is_corrupt);
        if checked.is_whole() {
            harmless += 1
        } else {
            found += 1
        }
        if round % 3 > 0 {
            let mut batch = WriteBatch::new();
            (0..10).for_each(|_| batch.put(format!("key{:05}", rng.random_range(0..2_000)), b"new"));
            match base.write(&batch, CommitId(6)) {
                Ok(()) if read.is_ok() => assert_eq!(content(&base).unwrap().len(), expected.len()),
                Ok(()) => {}
                Err(error) => is_corrupt(&error),
            }
        }
    }
    println!("{found} damages found, {harmless} harmless, {hurt} of pages in use");
    assert!(found > rounds / 3 && harmless > rounds / 20 && hurt as usize > rounds / 3);
}

/// Damages pages of a file in place, and repairs them after each round. A check must find each damage of a page in use,
/// and look-ups must give the right values or an error.
#[test]
fn no_damage_changes_an_answer_of_a_large_base() {
    let is_long = std::env::var_os("ROWMILL_LONG").is_some();
    // 100,000 pages, or some 700.
    let (keys, rounds) = if is_long { (2_900_000_u32, 1_000) } else { (20_000, 150) };
    let key = |n: u32| format!("key{:09}", n * 3).into_bytes();
    let value = |n: u32| n.to_le_bytes().repeat(30);
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    for (commit, first) in (1..).zip((0..keys).step_by(200_000)) {
        let mut batch = WriteBatch::new();
        (first..keys.min(first + 200_000)).for_each(|n| batch.set_row(&key(n), Some(&value(n))));
        base.write(&batch, CommitId(commit)).unwrap();
    }
    drop(base);
    let file = fs::OpenOptions::new().read(true).write(true).open(dir.path().join(BASE_FILE)).unwrap();
    let pages = file.metadata().unwrap().len() / PAGE_BYTES as u64;
    let page = |number: u64| {
        let mut bytes = [0; PAGE_BYTES];
        file.read_exact_at(&mut bytes, number * PAGE_BYTES as u64).unwrap();
        bytes
    };
    let store = |number: u64, bytes: &[u8]| file.write_all_at(bytes, number * PAGE_BYTES as u64).unwrap();
    let mut rng = SmallRng::seed_from_u64(3);
    let mut found = 0;
    for round in 0..rounds {
        let (one, other) = (rng.random_range(0..pages), rng.random_range(4..pages));
        let kept = [page(one), page(other)];
        match round % 3 {
            0 => {
                store(one, &kept[1]);
                store(other, &kept[0]);
            }
            1 => store(other, &kept[0]),
            _ => {
                let mut bytes = kept[0];
                bytes[rng.random_range(0..PAGE_BYTES)] ^= 1 << rng.random_range(0..8);
                store(one, &bytes);
            }
        }
        match TreeBase::open(dir.path(), true) {
            Ok(base) => {
                let is_whole = base.check(&Cancel::new()).unwrap().is_whole();
                found += u32::from(!is_whole);
                let read = base.read().unwrap();
                for _ in 0..100 {
                    let n = rng.random_range(0..keys);
                    match read.get(&key(n)) {
                        Ok(read) => assert_eq!(read, Some(value(n)), "round {round}, pages {one} and {other}"),
                        Err(error) => assert!(error.kind() == ErrorKind::Corrupt && !is_whole, "{round}: {error:?}"),
                    }
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "round {round}: {error:?}"),
        }
        store(one, &kept[0]);
        store(other, &kept[1]);
    }
    println!("{found} of {rounds} damages of {pages} pages found");
    assert!(found * 2 > rounds);
    TreeBase::open(dir.path(), true).unwrap().verify().unwrap();
}

/// A tree over any disk, with one writer and no reads.
struct BareTree {
    file: TreeFile,
    state: TreeState,
    free: FreePages,
}

impl BareTree {
    fn open(disk: &Arc<dyn Disk>) -> Result<BareTree> {
        let (file, state) = TreeFile::open(disk, BASE_FILE, false)?;
        let mut tree = BareTree { file, state, free: FreePages::default() };
        tree.free = tree.reader()?.free_pages()?;
        Ok(tree)
    }

    #[allow(unsafe_code)]
    fn reader(&self) -> Result<TreeReader> {
        // SAFETY: the test has no other writer, and `write` keeps no older state.
        Ok(unsafe { TreeReader::new(self.file.mapped(&self.state)?, self.state) })
    }

    #[allow(unsafe_code)]
    fn write(&mut self, batch: &WriteBatch, at: CommitId) -> Result<()> {
        let mut free = self.free.clone();
        free.release(self.state.generation);
        let reader = self.reader()?;
        // SAFETY: the test has no other writer and holds no other read.
        let (state, free) =
            unsafe { write_next(&self.file, &reader, free, &mut iter::once(Cow::Borrowed(batch)), at)? };
        store_head(&self.file, &state)?;
        (self.state, self.free) = (state, free);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn shrink(&mut self) -> Result<bool> {
        let mut free = self.free.clone();
        free.release(self.state.generation);
        let reader = self.reader()?;
        // SAFETY: the test has no other writer and holds no other read.
        let Some((state, free)) = (unsafe { shrink::shrink(&self.file, &reader, free, 100)? }) else {
            return Ok(false);
        };
        store_head(&self.file, &state)?;
        if state.pages < self.state.pages {
            self.file.handle().set_len(state.pages * PAGE_BYTES as u64)?;
        }
        (self.state, self.free) = (state, free);
        Ok(true)
    }

    fn content(&self) -> Result<Entries> {
        let mut content = Vec::new();
        self.reader()?.visit(b"a", b"", false, &mut |key, value| {
            content.push((key.to_vec(), value.to_vec()));
            Ok(true)
        })?;
        Ok(content)
    }
}

/// Writes some commits that replace and remove entries, until a write fails. Adds the content after each one.
fn write_commits(tree: &mut BareTree, contents: &mut Vec<Entries>) -> Result<()> {
    let mut model: EntryMap = contents.last().cloned().unwrap_or_default().into_iter().collect();
    let first = contents.len() as u64;
    for commit in first..first + 5 {
        let mut batch = WriteBatch::new();
        for n in 0..120 {
            let key = format!("k{:04}", (n * 7 + commit * 31) % 400).into_bytes();
            let value = vec![commit as u8; if n % 50 == 0 { 9_000 } else { 120 }];
            batch.put(key.clone(), value.clone());
            model.insert(key, value);
        }
        let prefix = format!("k0{}", commit % 4).into_bytes();
        batch.delete_prefix(prefix.clone());
        model.retain(|key, _| !key.starts_with(&prefix));
        tree.write(&batch, CommitId(commit))?;
        contents.push(model.clone().into_iter().collect());
        if commit % 2 == 0 {
            // Leaves free pages, so that others move.
            while tree.shrink()? {}
        }
    }
    Ok(())
}

/// A power cut after any call leaves the last commit that was acknowledged, or the one that was being stored. The next
/// writer goes on from there.
#[test]
fn a_power_cut_leaves_a_whole_commit() {
    let faulty = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let plan = faulty.plan().clone();
    let disk: Arc<dyn Disk> = Arc::new(faulty);
    plan.record();
    drop(TreeFile::make(&disk, BASE_FILE).unwrap());
    disk.sync_dir("").unwrap();
    let made = plan.records().len();
    let mut tree = BareTree::open(&disk).unwrap();
    let mut contents = vec![Vec::new()];
    write_commits(&mut tree, &mut contents).unwrap();
    let records = plan.records();
    let mut rng = SmallRng::seed_from_u64(5);
    let mut states = std::collections::BTreeSet::new();
    for cut in made..=records.len() {
        for _ in 0..6 {
            let fate = |record: &DiskChange| match (rng.random_range(0..4), record) {
                (0, _) => Fate::Lost,
                (1, DiskChange::Write { bytes, .. }) => {
                    let (one, other) = (rng.random_range(0..=bytes.len()), rng.random_range(0..=bytes.len()));
                    Fate::Torn { start: one.min(other), end: one.max(other) }
                }
                _ => Fate::Kept,
            };
            let disk: Arc<dyn Disk> = Arc::new(crash_state(&records[..cut], fate).unwrap());
            let mut tree = BareTree::open(&disk).unwrap();
            let commit = tree.state.commit.0 as usize;
            assert_eq!(tree.content().unwrap(), contents[commit], "cut after call {cut}");
            states.insert(commit);
            let mut later = contents[..=commit].to_vec();
            write_commits(&mut tree, &mut later).unwrap();
            assert_eq!(&tree.content().unwrap(), later.last().unwrap());
        }
    }
    assert_eq!(states.len(), contents.len());
}

/// A call that fails leaves the last commit that was acknowledged, or the one whose write reported the failure.
#[test]
fn a_failed_call_loses_no_acknowledged_commit() {
    for fault in [Fault::NoSpace, Fault::ShortWrite, Fault::Io, Fault::Interrupted] {
        for nth in 1..=80 {
            let memory: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            drop(TreeFile::make(&memory, BASE_FILE).unwrap());
            let faulty = FaultyDisk::new(Arc::clone(&memory));
            let plan = faulty.plan().clone();
            let disk: Arc<dyn Disk> = Arc::new(faulty);
            let mut tree = BareTree::open(&disk).unwrap();
            plan.fail(None, nth, fault);
            let mut contents = vec![Vec::new()];
            let failed = write_commits(&mut tree, &mut contents).is_err();
            drop(tree);
            let tree = BareTree::open(&memory).unwrap();
            let commit = tree.state.commit.0 as usize;
            assert!(commit + 1 == contents.len() || failed && commit == contents.len(), "call {nth}: {commit}");
            if let Some(expected) = contents.get(commit) {
                assert_eq!(&tree.content().unwrap(), expected, "call {nth}");
            } else {
                tree.content().unwrap();
            }
        }
    }
}

#[test]
fn a_file_that_is_no_base_is_refused() {
    for bytes in [&b""[..], b"hello", &[0; 100_000]] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(BASE_FILE), bytes).unwrap();
        assert_eq!(TreeBase::open(dir.path(), false).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    let dir = tempfile::tempdir().unwrap();
    let error = TreeBase::open(dir.path(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    assert!(!TreeBase::exists(dir.path()).unwrap(), "opening it for reading should not create a base");
    open(dir.path());
    fs::remove_file(dir.path().join(BASE_FILE)).unwrap();
    let error = TreeBase::open(dir.path(), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("it was there before"), "{error}");
}

#[test]
fn an_unfinished_base_is_replaced_by_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(format!("{BASE_FILE}-new")), b"half").unwrap();
    open(dir.path()).verify().unwrap();
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, [BASE_FILE, "base.tree-made"]);
}

#[test]
fn a_missing_copy_of_a_head_is_found_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let file = dir.path().join(BASE_FILE);
    let generation = open(dir.path()).now().newest().unwrap().generation;
    let damaged = fs::OpenOptions::new().write(true).open(&file).unwrap();
    damaged.write_all_at(&[0; 8], head::head_offsets(generation)[0]).unwrap();
    assert_eq!(TreeBase::open(dir.path(), true).unwrap().check(&Cancel::new()).unwrap().page_problems.len(), 1);
    open(dir.path());
    TreeBase::open(dir.path(), true).unwrap().verify().unwrap();
}

/// Random batches of puts, deletions and removed prefixes, compared with a map after each of them. Reads of earlier
/// states are held.
#[test]
fn random_batches_change_what_they_say_and_lose_no_page() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let base = open(dir.path());
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut model = BTreeMap::new();
        let mut held: Vec<(Box<dyn BaseRead>, EntryMap)> = Vec::new();
        for commit in 1..=60 {
            let mut batch = WriteBatch::new();
            let key = |rng: &mut SmallRng| {
                let len = [0, 0, 0, 5, 400, 1_800][rng.random_range(0..6)];
                format!("{:05}{}", rng.random_range(0..4_000), "x".repeat(len)).into_bytes()
            };
            for _ in 0..rng.random_range(0..400) {
                let key = key(&mut rng);
                if rng.random_bool(0.7) {
                    let len = [0, 10, 100, 900, 2_100, 9_000][rng.random_range(0..6)];
                    let value = vec![commit as u8; len];
                    batch.put(key.clone(), value.clone());
                    model.insert(key, value);
                } else {
                    batch.delete(key.clone());
                    model.remove(&key);
                }
            }
            if rng.random_bool(0.3) {
                let prefix = rng.random_range(0..100).to_string().into_bytes();
                batch.delete_prefix(prefix.clone());
                model.retain(|key, _| !key.starts_with(&prefix));
            }
            base.write(&batch, CommitId(commit)).unwrap();
            base.verify().unwrap();
            assert!(content(&base).unwrap().into_iter().eq(model.clone()), "seed {seed}, commit {commit}");
            if rng.random_bool(0.3) {
                held.push((base.read().unwrap(), model.clone()));
            }
            if held.len() > 3 {
                let (read, model) = held.swap_remove(rng.random_range(0..held.len()));
                for (key, value) in &model {
                    assert_eq!(read.get(key).unwrap().as_ref(), Some(value), "seed {seed}, commit {commit}");
                }
            }
        }
        base.write(
            &{
                let mut batch = WriteBatch::new();
                batch.delete_prefix(b"");
                batch
            },
            CommitId(61),
        )
        .unwrap();
        drop(held);
        // Two more commits make all pages ready and cut the file.
        (62..70).for_each(|commit| base.write(&put(b"a", b""), CommitId(commit)).unwrap());
        base.verify().unwrap();
        assert!(base.space().unwrap().file_bytes < 2 << 20, "{:?}", base.space().unwrap());
    }
}

#[test]
fn space_is_used_again_unless_a_read_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let write = |commit: u64| {
        let mut batch = WriteBatch::new();
        (0..500_u32).for_each(|n| batch.put(n.to_be_bytes().map(|byte| byte | 1), vec![commit as u8; 500]));
        base.write(&batch, CommitId(commit)).unwrap();
        base.space().unwrap()
    };
    (1..10).for_each(|commit| assert!(write(commit).file_bytes > 0));
    let before = write(10);
    assert_eq!(before.held_bytes, 0);
    let after = (11..40).map(write).last().unwrap();
    assert!(after.file_bytes <= before.file_bytes, "{before:?} {after:?}");
    let read = base.read().unwrap();
    let after = (40..60).map(write).last().unwrap();
    assert!(after.held_bytes > 0 && after.file_bytes > before.file_bytes, "{after:?}");
    drop(read);
    base.write(&put(b"x", b""), CommitId(60)).unwrap();
    assert_eq!(base.space().unwrap().held_bytes, 0);
}

/// Fills a base with rows and removes most of them again, so that pages in use are spread over the whole file.
fn fill_with_gaps(base: &TreeBase) -> EntryMap {
    let mut batch = WriteBatch::new();
    let mut model = EntryMap::new();
    for n in 0..30_000_u32 {
        let key = format!("key{n:06}").into_bytes();
        batch.put(key.clone(), n.to_le_bytes().repeat(20));
        model.insert(key, n.to_le_bytes().repeat(20));
    }
    base.write(&batch, CommitId(1)).unwrap();
    let mut batch = WriteBatch::new();
    for n in (0..30_000_u32).filter(|n| n / 100 % 4 > 0) {
        let key = format!("key{n:06}").into_bytes();
        batch.delete(key.clone());
        model.remove(&key);
    }
    base.write(&batch, CommitId(2)).unwrap();
    model
}

#[test]
fn a_file_shrinks_to_the_pages_in_use_and_keeps_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let model = fill_with_gaps(&base);
    let held = base.read().unwrap();
    let before = base.space().unwrap();
    while base.shrink().unwrap() {
        assert!(content(&base).unwrap().into_iter().eq(model.clone()));
        base.verify().unwrap();
    }
    // The read keeps the pages that were replaced.
    assert_eq!(held.get(b"key000000").unwrap().unwrap(), 0_u32.to_le_bytes().repeat(20));
    drop(held);
    while base.shrink().unwrap() {}
    let after = base.space().unwrap();
    println!("{before:?} {after:?}");
    assert!(before.file_bytes > 2 * (before.file_bytes - before.free_bytes), "{before:?}");
    assert!(after.file_bytes * 10 < (after.file_bytes - after.free_bytes) * 11, "{after:?}");
    assert_eq!(base.commit_id().unwrap(), CommitId(2));
    drop(base);
    let base = open(dir.path());
    base.verify().unwrap();
    assert!(content(&base).unwrap().into_iter().eq(model));
    base.write(&put(b"key", b"later"), CommitId(3)).unwrap();
    base.verify().unwrap();
    assert!(!base.shrink().unwrap(), "nothing is left to give back");
}

#[test]
fn free_pages_that_no_read_needs_become_holes() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let model = fill_with_gaps(&base);
    let file = dir.path().join(BASE_FILE);
    let on_disk = || fs::metadata(&file).unwrap().blocks() * 512;
    let held = base.read().unwrap();
    let before = on_disk();
    for commit in 3..6 {
        base.write(&put(b"key", vec![commit as u8; 9_000]), CommitId(commit)).unwrap();
        base.release_free(&|| false).unwrap();
        base.release_free(&|| true).unwrap();
        base.verify().unwrap();
        assert!(held.get(b"key000000").unwrap().is_some());
    }
    drop(held);
    base.write(&put(b"key", b"6"), CommitId(6)).unwrap();
    base.release_free(&|| true).unwrap();
    let space = base.space().unwrap();
    let used = space.file_bytes - space.free_bytes;
    println!("{before} on disk before, {} after, {space:?}", on_disk());
    assert!(on_disk() < used + used / 10 && on_disk() < before, "{} on disk, {space:?}", on_disk());
    base.verify().unwrap();
    // The holes are used again.
    for commit in 7..12 {
        base.write(&put(format!("other{commit}"), vec![commit as u8; 100_000]), CommitId(commit)).unwrap();
        base.verify().unwrap();
    }
    let later = content(&base).unwrap();
    assert!(later.into_iter().filter(|(key, _)| key.starts_with(b"key0")).eq(model));
}

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
    let base = TreeBase::open(Path::new(&dir), read_only).unwrap();
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
            "follow" => {
                // Each state must be whole, however many commits come in between.
                let mut seen = std::collections::BTreeSet::new();
                while seen.len() < 40 {
                    let read = base.read().unwrap();
                    let commit = read.commit_id().unwrap().0 as u8;
                    seen.insert(commit);
                    read.scan(b"k", &mut |key, value| {
                        assert!(value.iter().all(|byte| *byte == commit), "{key:?} of commit {commit}");
                        Ok(true)
                    })
                    .unwrap();
                }
                answer("whole");
            }
            "write" => {
                for commit in base.commit_id().unwrap().0 + 1.. {
                    base.write(&put(b"key", vec![commit as u8; 10_000]), CommitId(commit)).unwrap();
                    answer(&commit.to_string());
                }
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
    let base = open(dir.path());
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
fn a_follower_sees_whole_states_while_a_writer_reuses_pages() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let write = |commit: u64| {
        let mut batch = WriteBatch::new();
        (0..200_u8).for_each(|n| batch.put([b'k', n], vec![commit as u8; 300]));
        base.write(&batch, CommitId(commit)).unwrap();
    };
    write(1);
    let mut other = Other::start(dir.path(), "read");
    writeln!(other.orders, "follow").unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| other.answer());
        let mut commit = 1;
        while !answer.is_finished() {
            commit += 1;
            write(commit);
        }
        assert_eq!(answer.join().unwrap().unwrap(), "whole");
    });
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
    assert_eq!(base.readers().unwrap().len(), 2);
    first.kill();
    assert_eq!(oldest(), Some(CommitId(9)));
    second.order("release");
    assert_eq!(oldest(), None);
    second.kill();
    base.readers().unwrap();
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!left.into_iter().any(|name| name.contains("-reader-")), "files of dead readers should be removed");
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

/// Adds keys in order at ten places, in batches of random lengths, mixed with changed and deleted rows. The leaves
/// should be nearly full.
#[test]
fn runs_in_many_places_leave_full_pages() {
    let dir = tempfile::tempdir().unwrap();
    let base = open(dir.path());
    let mut twin = BTreeMap::new();
    let mut rng = SmallRng::seed_from_u64(1);
    let mut next = [0_u64; 10];
    for commit in 1..=60 {
        let mut batch = WriteBatch::new();
        for (place, next) in next.iter_mut().enumerate() {
            // Sometimes change an existing row, which may split its page, or delete it.
            if rng.random_range(0..16) == 15 {
                let key = format!("p{place}/{:06}", rng.random_range(0..*next + 1)).into_bytes();
                let row = vec![commit as u8; 60];
                batch.set_row(&key, Some(&row));
                twin.insert(key, row);
            }
            for _ in 0..rng.random_range(0..200) {
                let row = vec![*next as u8; 40 + rng.random_range(0..40)];
                let key = format!("p{place}/{next:06}").into_bytes();
                batch.set_row(&key, Some(&row));
                twin.insert(key, row);
                *next += 1;
            }
        }
        base.write(&batch, CommitId(commit)).unwrap();
    }
    assert!(content(&base).unwrap().into_iter().eq(twin.clone()));
    let bytes: usize = twin.iter().map(|(key, row)| key.len() + row.len() + 10).sum();
    let space = base.space().unwrap();
    let used = (space.file_bytes - space.free_bytes) as usize;
    println!("{} keys, {bytes} bytes in {used}", twin.len());
    assert!(used * 7 < bytes * 8, "{bytes} bytes take {used}");
}

/// A base of the layout with whole keys is read as it is. A write brings the pages that it changes to the new layout.
#[test]
fn a_base_with_whole_keys_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut twin: EntryMap = (0..60_u32).map(|n| (format!("key{n:03}").into_bytes(), vec![n as u8; 40])).collect();
    let mut leaf = [0; PAGE_BYTES];
    let entries: Vec<_> = twin.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let root = page::tests::build_whole_leaf(4, &entries, &mut leaf);
    let state = TreeState { root, levels: 1, entries: 60, pages: 5, ..TreeState::empty() };
    let head = head::tests::of_whole_keys(&state);
    fs::write(dir.path().join(BASE_FILE), [head, [0; PAGE_BYTES], head, [0; PAGE_BYTES], leaf].concat()).unwrap();
    let base = open(dir.path());
    assert!(content(&base).unwrap().into_iter().eq(twin.clone()));
    let whole_bytes = base.check(&Cancel::new()).unwrap().entry_bytes;
    for commit in 1..=50 {
        let key = format!("key{:03}/{}", commit * 17 % 60, commit % 3);
        twin.insert(key.clone().into_bytes(), vec![commit as u8; 100]);
        base.write(&put(key, vec![commit as u8; 100]), CommitId(commit)).unwrap();
        assert!(content(&base).unwrap().into_iter().eq(twin.clone()), "after commit {commit}");
        base.verify().unwrap();
    }
    assert!(base.check(&Cancel::new()).unwrap().entry_bytes > whole_bytes);
}

/// A conversion keeps every entry and removes the old file, and is repeated after a crash.
#[test]
fn a_base_of_an_earlier_version_is_converted() {
    let dir = tempfile::tempdir().unwrap();
    let expected = super::super::lmdb::tests::write_base(dir.path(), 3_000);
    let read_only = TreeBase::open(dir.path(), true).unwrap_err();
    assert!(read_only.kind() == ErrorKind::Unsupported && read_only.hint_text().is_some(), "{read_only}");
    assert!(TreeBase::exists(dir.path()).unwrap());
    fs::write(dir.path().join(format!("{BASE_FILE}-new")), b"half").unwrap();
    let old = fs::read(dir.path().join("base.lmdb")).unwrap();
    let base = open(dir.path());
    assert_eq!(content(&base).unwrap(), expected);
    assert_eq!(base.commit_id().unwrap(), CommitId(7));
    base.verify().unwrap();
    assert!(!dir.path().join("base.lmdb").exists());
    base.write(&put(b"later", b"1"), CommitId(8)).unwrap();
    drop(base);
    // As after a crash between the rename and the removal.
    fs::write(dir.path().join("base.lmdb"), old).unwrap();
    assert_eq!(open(dir.path()).commit_id().unwrap(), CommitId(8));
    assert!(!dir.path().join("base.lmdb").exists());
}

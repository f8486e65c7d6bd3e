//! Compares the table with a simple model, checks its memory, and runs readers beside a writer and a checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use proptest::prelude::*;

use rowmill_base::IndexId;

use super::*;
use crate::keyed::index_writes::IndexWrites;
use crate::keyed::{VersionBatch, VersionCursor};

type Row = Option<Vec<u8>>;

/// A simple model: all versions ever written, by key and commit.
#[derive(Default)]
struct Twin {
    versions: BTreeMap<(Vec<u8>, u64), Row>,
    newest: u64,
    in_base: u64,
    oldest: u64,
}

impl Twin {
    fn latest(&self, key: &[u8]) -> Option<u64> {
        let of_key = (key.to_vec(), 0)..=(key.to_vec(), u64::MAX);
        self.versions.range(of_key).next_back().map(|((_, commit), _)| *commit).filter(|commit| *commit > self.in_base)
    }

    /// The version that a snapshot sees, unless the base has it.
    fn visible(&self, key: &[u8], at: u64) -> Option<&Row> {
        let of_key = (key.to_vec(), 0)..=(key.to_vec(), at);
        let ((_, commit), row) = self.versions.range(of_key).next_back()?;
        (*commit > self.in_base).then_some(row)
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = self.versions.keys().map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys
    }

    fn scan(&self, range: &KeyRange, at: u64) -> Vec<(Vec<u8>, Row)> {
        let keys = self.keys().into_iter().filter(|key| range.contains(key));
        keys.filter_map(|key| self.visible(&key, at).cloned().map(|row| (key, row))).collect()
    }
}

fn scan(versions: &Versions, range: &KeyRange, at: u64, backward: bool, keys_max: usize) -> Vec<(Vec<u8>, Row)> {
    let mut cursor = VersionCursor::new(range.clone(), CommitId(at), backward);
    let (mut batch, mut found) = (VersionBatch::default(), Vec::new());
    loop {
        cursor.next_batch(versions, keys_max, &mut batch);
        assert!(batch.len() <= keys_max);
        if batch.is_empty() {
            return found;
        }
        found.extend((0..batch.len()).map(|i| {
            let (key, row) = batch.get(i);
            (key.to_vec(), row.map(<[u8]>::to_vec))
        }));
    }
}

/// Applies the changes of a commit, as a run if requested and possible.
fn apply(versions: &Versions, commit: u64, changes: &BTreeMap<Vec<u8>, Row>, oldest: u64, as_run: bool) {
    let mut writes = IndexWrites::new(IndexId(1), &OverflowMemory::default());
    // Write every second key first, so that keys also come out of order.
    let (even, odd): (Vec<_>, Vec<_>) = changes.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    for (_, (key, row)) in even.into_iter().chain(odd) {
        writes.put(key, row.as_deref(), CommitId(commit - 1), &versions.secrets);
    }
    if as_run && writes.range().is_some_and(|range| versions.takes(&range, writes.end())) {
        versions.append(CommitId(commit), writes.take_run());
        return;
    }
    let changes = changes.iter().map(|(key, row)| (&key[..], row.as_deref()));
    versions.apply(CommitId(commit), changes, CommitId(oldest));
}

#[derive(Clone, Debug)]
enum VersionsStep {
    /// Applies changes. The number tells how far the oldest snapshot moves towards the newest, in 255ths. The flag
    /// tells whether the changes may be a run.
    Apply(BTreeMap<Vec<u8>, Row>, u8, bool),
    /// Forgets versions. The numbers tell how far the base and the oldest snapshot move.
    Forget(u8, u8),
    /// Scans: a range, a snapshot, the direction, and the size of a batch.
    Scan([Vec<u8>; 2], u8, bool, usize),
    Get(Vec<u8>, u8),
    /// Looks for changes: a range and a commit.
    Changed([Vec<u8>; 2], u8),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Short keys of few distinct bytes, which are often prefixes of each other, and longer keys that differ late.
    prop_oneof![
        proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 0..5),
        (0..40_u32).prop_map(|i| [b"a prefix of some length".as_slice(), &i.to_be_bytes()].concat()),
        (0..400_u32).prop_map(|i| (i * 7919).to_be_bytes().to_vec()),
    ]
}

fn step() -> impl Strategy<Value = VersionsStep> {
    let row = || proptest::option::weighted(0.8, proptest::collection::vec(any::<u8>(), 0..30));
    let changes = || proptest::collection::btree_map(key(), row(), 1..60);
    let sequential = (any::<u16>(), 1..200_u32, row()).prop_map(|(start, len, row)| {
        (0..len).map(|i| ((u32::from(start) * 1000 + i).to_be_bytes().to_vec(), row.clone())).collect()
    });
    prop_oneof![
        4 => (changes(), any::<u8>(), any::<bool>())
            .prop_map(|(changes, far, as_run)| VersionsStep::Apply(changes, far, as_run)),
        2 => (sequential, any::<u8>(), any::<bool>())
            .prop_map(|(changes, far, as_run)| VersionsStep::Apply(changes, far, as_run)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(base, far)| VersionsStep::Forget(base, far)),
        2 => ([key(), key()], any::<u8>(), any::<bool>(), 1..50_usize)
            .prop_map(|(range, at, backward, keys)| VersionsStep::Scan(range, at, backward, keys)),
        2 => (key(), any::<u8>()).prop_map(|(key, at)| VersionsStep::Get(key, at)),
        1 => ([key(), key()], any::<u8>()).prop_map(|(range, at)| VersionsStep::Changed(range, at)),
    ]
}

/// The commit at `far` 255ths of the way between two commits.
fn between(from: u64, to: u64, far: u8) -> u64 {
    from + (to - from) * u64::from(far) / 255
}

fn run(versions: &Versions, twin: &mut Twin, step: &VersionsStep) {
    match step {
        VersionsStep::Apply(changes, far, as_run) => {
            twin.oldest = between(twin.oldest, twin.newest, *far);
            twin.newest += 1;
            apply(versions, twin.newest, changes, twin.oldest, *as_run);
            let commit = twin.newest;
            twin.versions.extend(changes.iter().map(|(key, row)| ((key.clone(), commit), row.clone())));
        }
        VersionsStep::Forget(base, far) => {
            twin.oldest = between(twin.oldest, twin.newest, *far);
            twin.in_base = between(twin.in_base, twin.oldest, *base);
            versions.forget(CommitId(twin.in_base), CommitId(twin.oldest));
        }
        VersionsStep::Scan([start, end], at, backward, keys) => {
            let range = KeyRange { start: start.clone(), end: end.clone() };
            let at = between(twin.oldest, twin.newest, *at);
            let mut expected = twin.scan(&range, at);
            if *backward {
                expected.reverse();
            }
            assert_eq!(scan(versions, &range, at, *backward, *keys), expected);
        }
        VersionsStep::Get(key, at) => {
            let at = between(twin.oldest, twin.newest, *at);
            let mut row = b"of before".to_vec();
            let got = versions.get(key, CommitId(at), &mut row);
            let (found, expected) = match twin.visible(key, at) {
                None => (Visibility::Unknown, &[][..]),
                Some(None) => (Visibility::Deleted, &[][..]),
                Some(Some(row)) => (Visibility::Row, &row[..]),
            };
            assert_eq!((got.found, &row[..]), (found, expected));
            assert_eq!(got.latest, twin.latest(key).map(CommitId));
            assert_eq!(versions.latest_commit(key), got.latest);
        }
        VersionsStep::Changed([start, end], after) => {
            let range = KeyRange { start: start.clone(), end: end.clone() };
            let after = between(twin.oldest, twin.newest, *after);
            let expected = twin
                .keys()
                .into_iter()
                .find(|key| range.contains(key) && twin.latest(key).is_some_and(|latest| latest > after));
            assert_eq!(versions.changed_in(&range, CommitId(after)), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn versions_behave_like_a_simple_model(steps in proptest::collection::vec(step(), 1..60)) {
        let (versions, mut twin) = (Versions::new(), Twin::default());
        for step in &steps {
            run(&versions, &mut twin, step);
        }
        for far in [0, 255] {
            for backward in [false, true] {
                run(&versions, &mut twin, &VersionsStep::Scan([Vec::new(), Vec::new()], far, backward, 7));
            }
        }
        for key in twin.keys() {
            run(&versions, &mut twin, &VersionsStep::Get(key, 255));
        }
        // Once the base has everything, nothing should be left.
        versions.forget(CommitId(twin.newest), CommitId(twin.newest));
        prop_assert_eq!(versions.allocated_bytes(), Versions::new().allocated_bytes());
    }
}

/// Inserts keys in order, backward and shuffled, so that leaves split in every way. Then forgets most, so that they
/// merge.
#[test]
fn many_keys_in_any_order() {
    let count = 20_000_u32;
    let orders: [fn(u32) -> u32; 3] = [|i| i, |i| 19_999 - i, |i| i * 7919 % 20_000];
    for order in orders {
        let versions = Versions::new();
        let key = |i: u32| [&[0, 0, 0, 9], &(i / 100).to_be_bytes()[..], &(i % 100).to_be_bytes()].concat();
        for i in 0..count {
            versions.apply(CommitId(u64::from(i) + 1), [(&key(order(i))[..], Some(&[1_u8][..]))], CommitId(0));
        }
        let all = KeyRange::default();
        let keys: Vec<_> = (0..count).map(key).collect();
        let found = |backward| scan(&versions, &all, u64::MAX, backward, 1000).into_iter().map(|(key, _)| key);
        assert!(found(false).eq(keys.iter().cloned()));
        assert!(found(true).eq(keys.iter().rev().cloned()));
        let full = versions.allocated_bytes();
        // Forget all but the last 50 commits.
        versions.forget(CommitId(u64::from(count) - 50), CommitId(u64::from(count)));
        assert_eq!(found(false).count(), 50);
        let left = versions.allocated_bytes();
        assert!(left * 5 < full, "{left} of {full} bytes are left");
    }
}

/// Appends runs in order, backward and between each other, then changes and forgets their keys.
#[test]
fn many_runs_in_any_order() {
    let orders: [fn(u32) -> u32; 3] = [|i| i, |i| 99 - i, |i| i * 37 % 100];
    for order in orders {
        let versions = Versions::new();
        let key = |i: u32| [&[0, 0, 0, 9], &(i / 100).to_be_bytes()[..], &(i % 100).to_be_bytes()].concat();
        for i in 0..100 {
            let keys = order(i) * 500..order(i) * 500 + 500;
            let changes = keys.map(|i| (key(i), Some(i.to_be_bytes().to_vec()))).collect();
            apply(&versions, u64::from(i) + 1, &changes, 0, true);
        }
        let mut row = Vec::new();
        for i in 0..50_000 {
            assert_eq!(versions.get(&key(i), CommitId(200), &mut row).found, Visibility::Row);
            assert_eq!(row, i.to_be_bytes());
            assert_eq!(versions.get(&key(i), CommitId(0), &mut row).found, Visibility::Unknown);
        }
        assert!(versions.read().has_unhashed());
        let all = KeyRange::default();
        let found = |at| scan(&versions, &all, at, true, 1000).into_iter().rev().map(|(key, _)| key);
        assert!(found(100).eq((0..50_000).map(key)));
        assert_eq!(found(40).count(), 20_000);
        // Change a key in every leaf, so that all leaves get hashed.
        for i in (0..50_000).step_by(50) {
            versions.apply(CommitId(101), [(&key(i)[..], None)], CommitId(0));
        }
        assert!(!versions.read().has_unhashed());
        assert!(found(101).eq((0..50_000).map(key)));
        assert_eq!(versions.get(&key(50), CommitId(101), &mut row).found, Visibility::Deleted);
        assert_eq!(versions.get(&key(51), CommitId(101), &mut row).found, Visibility::Row);
        let full = versions.allocated_bytes();
        versions.forget(CommitId(98), CommitId(101));
        assert_eq!(found(101).count(), 1_000 + 2 * 490);
        assert!(versions.allocated_bytes() * 4 < full);
    }
}

/// A key that every commit changes should keep only the versions that a snapshot may read.
#[test]
fn commits_drop_versions_that_no_snapshot_reads() {
    let versions = Versions::new();
    let row = [7_u8; 500];
    for commit in 1..20_000 {
        versions.apply(CommitId(commit), [(&b"hot"[..], Some(&row[..]))], CommitId(commit.saturating_sub(10)));
    }
    assert!(versions.allocated_bytes() < Versions::new().allocated_bytes() + (1 << 20));
    // An old snapshot keeps all later versions until it ends.
    for commit in 20_000..30_000 {
        versions.apply(CommitId(commit), [(&b"hot"[..], Some(&row[..]))], CommitId(20_000));
    }
    assert!(versions.allocated_bytes() > 10_000 * row.len());
    let mut read = Vec::new();
    assert_eq!(versions.get(b"hot", CommitId(20_000), &mut read).found, Visibility::Row);
    versions.forget(CommitId(0), CommitId(29_999));
    assert!(versions.allocated_bytes() < Versions::new().allocated_bytes() + (1 << 20));
    assert_eq!(versions.get(b"hot", CommitId(29_999), &mut read).found, Visibility::Row);
}

/// Runs many checkpoints with old and new keys. Memory should depend only on the remaining keys.
#[test]
fn memory_depends_only_on_the_remaining_keys() {
    let versions = Versions::new();
    let mut after_first = 0;
    let mut commit = 0;
    for round in 0..20_u32 {
        for i in 0..2_000_u32 {
            commit += 1;
            let new = (round * 2_000 + i).to_be_bytes();
            let changes = [(&new[..], Some(&[1_u8; 200][..])), (&b"x hot"[..], Some(&[2_u8; 50][..]))];
            versions.apply(CommitId(commit), changes, CommitId(commit - 1));
        }
        // A tenth of the commits came after the checkpoint began.
        versions.forget(CommitId(commit - 200), CommitId(commit));
        after_first = if round == 0 { versions.allocated_bytes() } else { after_first };
    }
    let after = versions.allocated_bytes();
    assert!(after < after_first + after_first / 2 + (256 << 10), "{after_first} bytes at first, {after} at the end");
}

/// Keeps accounts whose sum is constant. A writer moves amounts, a checkpoint updates a base and forgets versions, and
/// readers should see a sum of zero in every snapshot, both with point reads and with range scans.
#[test]
fn readers_see_one_snapshot_beside_a_writer_and_a_checkpoint() {
    const ACCOUNTS: u64 = 600;
    struct ModelState {
        published: u64,
        base: Arc<(u64, Vec<i64>)>,
        /// Snapshots in use, each with the state of the base that it reads.
        active: Vec<(u64, u64)>,
    }
    let versions = Versions::new();
    let state =
        Mutex::new(ModelState { published: 0, base: Arc::new((0, vec![0; ACCOUNTS as usize])), active: Vec::new() });
    let begin = || {
        let mut state = state.lock();
        let snapshot = (state.published, Arc::clone(&state.base));
        let used = (snapshot.0, snapshot.1.0);
        state.active.push(used);
        snapshot
    };
    let end = |(commit, base): (u64, Arc<(u64, Vec<i64>)>)| {
        let mut state = state.lock();
        let at = state.active.iter().position(|used| *used == (commit, base.0)).expect("the snapshot is in use");
        state.active.swap_remove(at);
    };
    let key = |account: u64| [&[0, 0, 0, 1][..], &account.to_be_bytes()].concat();
    let amount = |row: &[u8]| i64::from_le_bytes(*row.first_chunk().expect("eight bytes"));
    let read_all = |at: u64, base: &[i64], backward: bool| {
        let mut amounts = base.to_vec();
        for (key, row) in scan(&versions, &KeyRange::of_prefix(&[0, 0, 0, 1]), at, backward, 37) {
            let account = u64::from_be_bytes(*key.last_chunk().expect("eight bytes"));
            amounts[account as usize] = amount(&row.expect("accounts are not deleted"));
        }
        amounts
    };
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut amounts = vec![0_i64; ACCOUNTS as usize];
            let mut random = 1_u64;
            for commit in 1..=30_000_u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (from, to) = ((random >> 33) % ACCOUNTS, (random >> 20) % 7);
                if from == to {
                    continue;
                }
                amounts[from as usize] -= 1;
                amounts[to as usize] += 1;
                let mut changes = [from, to].map(|account| (key(account), amounts[account as usize].to_le_bytes()));
                changes.sort();
                let oldest = {
                    let state = state.lock();
                    state.active.iter().map(|used| used.0).min().unwrap_or(state.published)
                };
                let changes = changes.iter().map(|(key, row)| (&key[..], Some(&row[..])));
                // Apply first, then publish: no snapshot of the commit may exist before all its versions are there.
                versions.apply(CommitId(commit), changes, CommitId(oldest));
                state.lock().published = commit;
            }
            stop.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let snapshot = begin();
                let amounts = read_all(snapshot.0, &snapshot.1.1, false);
                let commit = snapshot.0;
                end(snapshot);
                let (in_base, oldest) = {
                    let mut state = state.lock();
                    state.base = Arc::new((commit, amounts));
                    let in_base = state.active.iter().map(|used| used.1).min().unwrap_or(commit);
                    (in_base, state.active.iter().map(|used| used.0).min().unwrap_or(state.published))
                };
                versions.forget(CommitId(in_base), CommitId(oldest));
            }
        });
        for reader in 0..2 {
            let (begin, end, read_all, stop, reads, key) = (&begin, &end, &read_all, &stop, &reads, &key);
            let versions = &versions;
            scope.spawn(move || {
                // A busy machine may start this thread late. It must read once even then.
                let mut is_last = false;
                while !is_last {
                    is_last = stop.load(Ordering::Relaxed);
                    let snapshot = begin();
                    let amounts = read_all(snapshot.0, &snapshot.1.1, reader == 0);
                    assert_eq!(amounts.iter().sum::<i64>(), 0);
                    let mut row = Vec::new();
                    for account in 0..ACCOUNTS {
                        let got = versions.get(&key(account), CommitId(snapshot.0), &mut row);
                        let one = match got.found {
                            Visibility::Row => amount(&row),
                            _ => snapshot.1.1[account as usize],
                        };
                        assert_eq!(one, amounts[account as usize]);
                    }
                    end(snapshot);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(reads.into_inner() > 0);
}

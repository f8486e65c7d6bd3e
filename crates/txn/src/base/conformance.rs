//! One suite for every implementation of [`OrderedBase`], and a model test against a plain map.

#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use rowmill_base::{Cancel, CommitId, Error, ErrorKind};
use rowmill_storage::keyed::ByteRows;

use super::{BaseChecked, BaseRead, BatchParts, KEY_LEN_MAX, MemoryBase, OrderedBase, Reader, TreeBase, WriteBatch};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn batch(change: impl FnOnce(&mut WriteBatch)) -> WriteBatch {
    let mut batch = WriteBatch::new();
    change(&mut batch);
    batch
}

fn entries(read: &dyn BaseRead, prefix: &[u8]) -> Entries {
    let mut entries = Vec::new();
    read.scan(prefix, &mut |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        Ok(true)
    })
    .unwrap();
    entries
}

fn keys(base: &dyn OrderedBase, prefix: &[u8]) -> Vec<Vec<u8>> {
    entries(&*base.read().unwrap(), prefix).into_iter().map(|(key, _)| key).collect()
}

/// Runs every case on its own new base.
fn base_conformance(make: &dyn Fn() -> Box<dyn OrderedBase>) {
    for case in [
        a_new_base_is_empty,
        values_read_back,
        operations_apply_in_order,
        prefixes_are_deleted_and_scanned_whole,
        ranges_are_read_both_ways,
        scans_stop_when_told,
        a_read_sees_one_state,
        the_oldest_reader_is_known,
        bad_batches_change_nothing,
        readers_and_a_writer_at_once,
    ] {
        let base = make();
        case(&*base);
        base.verify().unwrap();
        a_second_look_reads_the_same(&*base);
    }
}

fn a_second_look_reads_the_same(base: &dyn OrderedBase) {
    let (read, again) = (base.read().unwrap(), base.read_again().unwrap());
    assert_eq!(again.commit_id().unwrap(), read.commit_id().unwrap());
    assert_eq!(again.get(b"a key that does not exist").unwrap(), None);
    let all = entries(&*read, b"");
    assert_eq!(entries(&*again, b""), all);
    for (key, value) in &all {
        assert_eq!(again.get(key).unwrap().as_ref(), Some(value));
        assert_eq!(entries(&*again, &key[..1]), entries(&*read, &key[..1]));
    }
    // Keys that do not exist are between those that do. Each is asked for twice, in a strange order.
    let mut keys = ByteRows::new();
    for (key, _) in &all {
        keys.push(key);
        if key.len() < KEY_LEN_MAX {
            keys.push(&[&key[..], &[0]].concat());
        }
    }
    let wanted: Vec<usize> = (0..2 * keys.len()).map(|at| at * 7 % keys.len()).collect();
    let found = |read: &dyn BaseRead| {
        let mut found = Vec::new();
        read.get_several(&keys, &wanted, &mut |at, value| found.push((at, value.to_vec()))).unwrap();
        found.sort();
        found
    };
    let expected = wanted.iter().filter_map(|at| Some((*at, read.get(keys.get(*at)).unwrap()?)));
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    assert_eq!(found(&*read), expected);
    assert_eq!(found(&*again), expected);
}

fn a_new_base_is_empty(base: &dyn OrderedBase) {
    assert_eq!(base.commit_id().unwrap(), CommitId(0));
    assert_eq!(base.oldest_reader().unwrap(), None);
    assert_eq!(base.read().unwrap().get(b"a").unwrap(), None);
    assert!(keys(base, b"").is_empty());
}

fn values_read_back(base: &dyn OrderedBase) {
    let long = vec![7; KEY_LEN_MAX];
    let big = vec![1; 3_000_000];
    let written = batch(|b| {
        b.put(b"empty", b"");
        b.put(long.clone(), b"long");
        b.put(b"big", big.clone());
        b.put([255; 9], [255; 9]);
    });
    base.write(&written, CommitId(7)).unwrap();
    let read = base.read().unwrap();
    assert_eq!(read.get(b"empty").unwrap().unwrap(), b"");
    assert_eq!(read.get(&long).unwrap().unwrap(), b"long");
    assert_eq!(read.get(b"big").unwrap().unwrap(), big);
    assert_eq!(read.get(&[255; 9]).unwrap().unwrap(), [255; 9]);
    assert_eq!(read.get(b"bi").unwrap(), None);
    assert_eq!(read.commit_id().unwrap(), CommitId(7));
    drop(read);
    assert_eq!(keys(base, b""), [long, b"big".to_vec(), b"empty".to_vec(), vec![255; 9]]);
    // A commit without changes should still be recorded.
    base.write(&WriteBatch::new(), CommitId(9)).unwrap();
    assert_eq!(base.commit_id().unwrap(), CommitId(9));
}

fn operations_apply_in_order(base: &dyn OrderedBase) {
    let written = batch(|b| {
        b.put(b"a", b"1");
        b.delete(b"a");
        b.put(b"b", b"1");
        b.put(b"b", b"2");
        b.put(b"c1", b"");
        b.delete_prefix(b"c");
        b.put(b"c2", b"");
        b.delete(b"absent");
    });
    base.write(&written, CommitId(1)).unwrap();
    assert_eq!(keys(base, b""), [b"b".to_vec(), b"c2".to_vec()]);
    assert_eq!(base.read().unwrap().get(b"b").unwrap().unwrap(), b"2");
}

fn prefixes_are_deleted_and_scanned_whole(base: &dyn OrderedBase) {
    let names: [&[u8]; 7] = [b"a", b"a\0", b"a\xFF", b"a\xFF\xFF", b"b", b"\xFF", b"\xFF\xFF\x01"];
    base.write(&batch(|b| names.iter().for_each(|name| b.put(*name, b"x"))), CommitId(1)).unwrap();
    assert_eq!(keys(base, b""), names);
    assert_eq!(keys(base, b"a"), names[..4]);
    assert_eq!(keys(base, b"a\xFF"), names[2..4]);
    assert_eq!(keys(base, b"\xFF"), names[5..]);
    assert!(keys(base, b"ab").is_empty());
    base.write(&batch(|b| b.delete_prefix(b"a\xFF")), CommitId(2)).unwrap();
    assert_eq!(keys(base, b"a"), names[..2]);
    base.write(&batch(|b| b.delete_prefix(b"\xFF")), CommitId(3)).unwrap();
    assert_eq!(keys(base, b""), [names[0], names[1], names[4]]);
    base.write(&batch(|b| b.delete_prefix(b"")), CommitId(4)).unwrap();
    assert!(keys(base, b"").is_empty());
    assert_eq!(base.commit_id().unwrap(), CommitId(4), "the reserved keys stay");
}

fn ranges_are_read_both_ways(base: &dyn OrderedBase) {
    base.write(&batch(|b| (0..200_u8).for_each(|i| b.put([b'k', i], [i]))), CommitId(1)).unwrap();
    base.write(&batch(|b| b.delete([b'k', 70])), CommitId(2)).unwrap();
    let read = base.read().unwrap();
    let found = |start: &[u8], end: &[u8], backward: bool, limit: usize| {
        let mut found = Vec::new();
        read.range(start, end, backward, &mut |key, value| {
            assert_eq!(key, [b'k', value[0]]);
            found.push(value[0]);
            Ok(found.len() < limit)
        })
        .unwrap();
        found
    };
    let in_runs = |start: &[u8], end: &[u8], backward: bool, limit: usize| {
        let (mut found, mut wanted) = (Vec::new(), 1);
        read.range_in_runs(start, end, backward, wanted, &mut |keys, values| {
            // Only the last run may be shorter than wanted.
            assert!(keys.len() == wanted || wanted > keys.len() && keys.len() + found.len() < limit);
            for (key, value) in keys.iter().zip(values) {
                assert_eq!(*key, [b'k', value[0]]);
                found.push(value[0]);
            }
            wanted = (wanted * 2).min(limit - found.len());
            Ok(wanted)
        })
        .unwrap();
        found
    };
    let passed = |start: &[u8], end: &[u8], backward: bool, keys_max: usize| {
        let mut last = Vec::new();
        let passed = read.pass(start, end, backward, keys_max, &mut last).unwrap();
        (passed, last.get(1).copied())
    };
    let ends: [&[u8]; 6] = [&[1], b"k", b"k\x05", b"k\x05\0", b"k\xc7", b"l"];
    for start in ends {
        for end in ends.into_iter().chain([&[][..]]) {
            let mut keys: Vec<u8> = (0..200).filter(|i| *i != 70).collect();
            keys.retain(|i| start <= &[b'k', *i][..] && (end.is_empty() || &[b'k', *i][..] < end));
            assert_eq!(found(start, end, false, 1_000), keys, "{start:?}..{end:?}");
            assert_eq!(in_runs(start, end, false, 1_000), keys, "{start:?}..{end:?}");
            check_passes(&keys, |keys_max| passed(start, end, false, keys_max));
            keys.reverse();
            assert_eq!(found(start, end, true, 1_000), keys, "{start:?}..{end:?}");
            assert_eq!(in_runs(start, end, true, 1_000), keys, "{start:?}..{end:?}");
            check_passes(&keys, |keys_max| passed(start, end, true, keys_max));
            keys.truncate(3);
            assert_eq!(found(start, end, true, 3), keys, "{start:?}..{end:?}");
            assert_eq!(in_runs(start, end, true, 3), keys, "{start:?}..{end:?}");
        }
    }
}

/// Checks how many of `keys` are skipped, and that the last one is returned only if all requested keys exist.
fn check_passes(keys: &[u8], passed: impl Fn(usize) -> (usize, Option<u8>)) {
    for keys_max in [0, 1, 2, 5, 100, keys.len(), keys.len() + 1] {
        let wanted = keys_max.min(keys.len());
        let last = (wanted > 0 && wanted == keys_max).then(|| keys[wanted - 1]);
        assert_eq!(passed(keys_max), (wanted, last), "{keys_max} of {keys:?}");
    }
}

/// Searches a tree of several levels in any order. It has long keys, long values, and values with their own pages.
fn a_large_tree_is_searched_in_any_order(base: &dyn OrderedBase) {
    let key = |i: u64| {
        let mut key = format!("{:012}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_007).into_bytes();
        key.extend(std::iter::repeat_n(b'x', (i % 7 * i % 90) as usize));
        key
    };
    let value = |i: u64| vec![i as u8; if i.is_multiple_of(501) { 9_000 } else { (i % 40) as usize }];
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (commit, part) in (1..).zip((0..20_000_u64).collect::<Vec<_>>().chunks(7_000)) {
        base.write(&batch(|b| part.iter().for_each(|i| b.put(key(*i), value(*i)))), CommitId(commit)).unwrap();
        model.extend(part.iter().map(|i| (key(*i), value(*i))));
    }
    let read = base.read().unwrap();
    for i in 0..6_000_u64 {
        // Search near one place for a while, then at another one.
        let around = i / 50 * 7_919;
        let (start, mut end) = (key(around + i % 5), key(around + i % 3 + 1));
        assert_eq!(read.get(&start).unwrap(), model.get(&start).cloned(), "{i}");
        let (backward, limit) = (i % 2 == 1, (i % 400) as usize);
        if i % 11 == 0 {
            end.clear();
        }
        if !end.is_empty() && start >= end {
            continue;
        }
        let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(&end) };
        let all = model.range::<Vec<u8>, _>((Bound::Included(&start), upper));
        let wanted: Vec<_> = if backward { all.rev().take(limit).collect() } else { all.take(limit).collect() };
        let mut found = 0;
        read.range(&start, &end, backward, &mut |key, value| {
            if found == limit {
                return Ok(false);
            }
            assert_eq!((&key.to_vec(), &value.to_vec()), wanted[found], "{i}");
            found += 1;
            Ok(true)
        })
        .unwrap();
        assert_eq!(found, wanted.len(), "{i}");
        let mut last = Vec::new();
        assert_eq!(read.pass(&start, &end, backward, limit, &mut last).unwrap(), wanted.len(), "{i}");
        if limit > 0 && wanted.len() == limit {
            assert_eq!(&last, wanted[limit - 1].0, "{i}");
        }
        let keys = read.split_keys(&start, &end, limit).unwrap();
        assert!(keys.len() < limit.max(1) && keys.is_sorted_by(|one, next| one < next), "{i}: {keys:?}");
        assert!(keys.iter().all(|key| *key > start && (end.is_empty() || *key < end)), "{i}: {keys:?}");
    }
}

fn scans_stop_when_told(base: &dyn OrderedBase) {
    base.write(&batch(|b| (0..200_u8).for_each(|i| b.put([b'k', i], [i]))), CommitId(1)).unwrap();
    let read = base.read().unwrap();
    let mut seen = 0;
    read.scan(b"k", &mut |_, _| {
        seen += 1;
        Ok(seen < 100)
    })
    .unwrap();
    assert_eq!(seen, 100);
    let error = read.scan(b"k", &mut |_, _| Err(Error::internal("enough"))).unwrap_err();
    assert_eq!(error.message(), "enough");
    // The visitor may write to the base. The scan should still see its own state.
    let mut seen = Vec::new();
    read.scan(b"k", &mut |key, _| {
        if seen.is_empty() {
            base.write(&batch(|b| b.delete_prefix(b"k")), CommitId(2))?;
        }
        seen.push(key[1]);
        Ok(true)
    })
    .unwrap();
    assert_eq!(seen, (0..200).collect::<Vec<u8>>());
}

fn a_read_sees_one_state(base: &dyn OrderedBase) {
    base.write(&batch(|b| b.put(b"a", b"1")), CommitId(1)).unwrap();
    let first = base.read().unwrap();
    base.write(&batch(|b| b.put(b"b", b"2")), CommitId(2)).unwrap();
    let second = base.read().unwrap();
    base.write(&batch(|b| b.delete_prefix(b"")), CommitId(3)).unwrap();
    assert_eq!(entries(&*first, b""), [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(first.get(b"b").unwrap(), None);
    assert_eq!(entries(&*second, b"").len(), 2);
    assert_eq!((first.commit_id().unwrap(), second.commit_id().unwrap()), (CommitId(1), CommitId(2)));
    assert!(keys(base, b"").is_empty());
    // Another read of an old state keeps the state when the first one has ended.
    if let Some(another) = first.another().unwrap() {
        drop((first, second));
        for n in 4..20 {
            base.write(&batch(|b| b.put(b"a", [n as u8; 100])), CommitId(n)).unwrap();
        }
        assert_eq!(base.oldest_reader().unwrap(), Some(CommitId(1)));
        assert_eq!(entries(&*another, b""), [(b"a".to_vec(), b"1".to_vec())]);
        assert_eq!(another.commit_id().unwrap(), CommitId(1));
        drop(another);
        base.write(&batch(|b| b.delete_prefix(b"")), CommitId(20)).unwrap();
    }
}

fn the_oldest_reader_is_known(base: &dyn OrderedBase) {
    let touch = |commit| base.write(&batch(|b| b.put(b"a", b"1")), CommitId(commit)).unwrap();
    let oldest = || base.oldest_reader().unwrap();
    touch(10);
    assert_eq!(oldest(), None);
    let first = base.read().unwrap();
    let twin = base.read().unwrap();
    assert_eq!(oldest(), Some(CommitId(10)));
    (20..25).for_each(touch);
    let second = base.read().unwrap();
    let readers: Vec<CommitId> = base.readers().unwrap().iter().map(|reader| reader.commit).collect();
    assert_eq!(
        (readers.len(), readers.iter().min(), readers.iter().max()),
        (3, Some(&CommitId(10)), Some(&CommitId(24)))
    );
    assert!(base.readers().unwrap().iter().all(|reader| reader.process == std::process::id()));
    (30..35).for_each(touch);
    assert_eq!(oldest(), Some(CommitId(10)));
    drop(first);
    assert_eq!(oldest(), Some(CommitId(10)));
    drop(twin);
    assert_eq!(oldest(), Some(CommitId(24)));
    touch(40);
    drop(second);
    assert_eq!(oldest(), None);
}

fn bad_batches_change_nothing(base: &dyn OrderedBase) {
    base.write(&batch(|b| b.put(b"a", b"1")), CommitId(5)).unwrap();
    let refused = [
        (batch(|b| b.put(b"", b"")), CommitId(6), ErrorKind::Internal),
        (batch(|b| b.delete(b"\0c")), CommitId(6), ErrorKind::Internal),
        (batch(|b| b.delete_prefix(b"\0")), CommitId(6), ErrorKind::Internal),
        (batch(|b| b.put([1; KEY_LEN_MAX + 1], b"")), CommitId(6), ErrorKind::InvalidParameter),
        (batch(|b| b.put(b"b", b"1")), CommitId(4), ErrorKind::Internal),
        (WriteBatch::behind(CommitId(4)), CommitId(6), ErrorKind::Internal),
    ];
    for (mut written, at, kind) in refused {
        written.put(b"c", b"1");
        assert_eq!(base.write(&written, at).unwrap_err().kind(), kind);
        // The parts before a refused one should change nothing either.
        let parts = [batch(|b| b.put(b"d", b"1")), written];
        let refused = base.write_parts(&mut parts.iter().map(Cow::Borrowed), at);
        assert_eq!(refused.unwrap_err().kind(), kind);
        assert_eq!(keys(base, b""), [b"a"]);
        assert_eq!(base.commit_id().unwrap(), CommitId(5));
    }
    let mut written = WriteBatch::behind(CommitId(5));
    written.put(b"b", b"1");
    base.write(&written, CommitId(5)).unwrap();
    assert_eq!(keys(base, b""), [b"a", b"b"]);
}

fn readers_and_a_writer_at_once(base: &dyn OrderedBase) {
    // In every state all keys should have the same value.
    let write = |n: u64| {
        let written = batch(|b| (0..20_u8).for_each(|key| b.put([b'k', key], n.to_le_bytes())));
        base.write(&written, CommitId(n)).unwrap();
    };
    write(1);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let read = base.read().unwrap();
                    let commit = read.commit_id().unwrap().0.to_le_bytes();
                    assert!(entries(&*read, b"k").iter().all(|(_, value)| *value == commit));
                    assert!(base.oldest_reader().unwrap().unwrap() <= read.commit_id().unwrap());
                }
            });
        }
        scope.spawn(|| (2..100).for_each(write));
    });
}

fn tree() -> Box<dyn OrderedBase> {
    // The directory is deleted when `InDirectory` is dropped, after the base that has files in it.
    let dir = tempfile::tempdir().unwrap();
    Box::new(InDirectory { base: TreeBase::open(dir.path(), false).unwrap(), _dir: dir })
}

/// A base together with its temporary directory.
#[derive(Debug)]
struct InDirectory<B> {
    base: B,
    _dir: tempfile::TempDir,
}

impl<B: OrderedBase> OrderedBase for InDirectory<B> {
    fn read(&self) -> rowmill_base::Result<Box<dyn BaseRead>> {
        self.base.read()
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, at: CommitId) -> rowmill_base::Result<()> {
        self.base.write_parts(parts, at)
    }

    fn commit_id(&self) -> rowmill_base::Result<CommitId> {
        self.base.commit_id()
    }

    fn oldest_reader(&self) -> rowmill_base::Result<Option<CommitId>> {
        self.base.oldest_reader()
    }

    fn readers(&self) -> rowmill_base::Result<Vec<Reader>> {
        self.base.readers()
    }

    fn check(&self, cancel: &Cancel) -> rowmill_base::Result<BaseChecked> {
        self.base.check(cancel)
    }

    fn read_again(&self) -> rowmill_base::Result<Box<dyn BaseRead>> {
        self.base.read_again()
    }
}

#[test]
fn a_large_tree_in_a_file_is_searched_in_any_order() {
    a_large_tree_is_searched_in_any_order(&*tree());
}

#[test]
fn tree_base_conforms() {
    base_conformance(&tree);
}

#[test]
fn memory_base_conforms() {
    base_conformance(&|| Box::new(MemoryBase::new()));
}

#[cfg(feature = "rocksdb")]
fn rocks() -> Box<dyn OrderedBase> {
    let dir = tempfile::tempdir().unwrap();
    Box::new(InDirectory { base: super::RocksBase::open(dir.path()).unwrap(), _dir: dir })
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_base_conforms() {
    base_conformance(&rocks);
}

#[derive(Clone, Debug)]
enum ConformanceChange {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeletePrefix(Vec<u8>),
}

#[derive(Clone, Debug)]
enum BaseStep {
    Write(Vec<ConformanceChange>),
    /// Begins a read and holds it.
    Hold,
    /// Checks and drops one of the held reads.
    Check(usize),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // We use few distinct bytes, so that keys collide, share prefixes and touch both ends of the order.
    prop::collection::vec(prop_oneof![Just(1_u8), Just(0x61), Just(0x62), Just(0xFF)], 1..5)
}

fn change() -> impl Strategy<Value = ConformanceChange> {
    prop_oneof![
        6 => (key(), prop::collection::vec(any::<u8>(), 0..9))
            .prop_map(|(key, value)| ConformanceChange::Put(key, value)),
        3 => key().prop_map(ConformanceChange::Delete),
        1 => key().prop_map(|mut key| {
            key.truncate(2);
            ConformanceChange::DeletePrefix(key)
        }),
    ]
}

fn step() -> impl Strategy<Value = BaseStep> {
    prop_oneof![
        5 => prop::collection::vec(change(), 0..12).prop_map(BaseStep::Write),
        2 => Just(BaseStep::Hold),
        2 => any::<usize>().prop_map(BaseStep::Check),
    ]
}

fn apply(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: &mut WriteBatch, change: &ConformanceChange) {
    match change {
        ConformanceChange::Put(key, value) => {
            batch.put(key.clone(), value.clone());
            model.insert(key.clone(), value.clone());
        }
        ConformanceChange::Delete(key) => {
            batch.delete(key.clone());
            model.remove(key);
        }
        ConformanceChange::DeletePrefix(prefix) => {
            batch.delete_prefix(prefix.clone());
            model.retain(|key, _| !key.starts_with(prefix));
        }
    }
}

fn check(read: &dyn BaseRead, commit: u64, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    assert_eq!(read.commit_id().unwrap(), CommitId(commit));
    let expected: Entries = model.clone().into_iter().collect();
    assert_eq!(entries(read, b""), expected);
    for prefix in [&b"a"[..], b"ab", b"\xFF", b"\xFF\xFF", b"b\x01"] {
        let below: Entries = expected.iter().filter(|(key, _)| key.starts_with(prefix)).cloned().collect();
        assert_eq!(entries(read, prefix), below);
        assert_eq!(read.get(prefix).unwrap().as_ref(), model.get(prefix));
    }
}

fn run(base: &dyn OrderedBase, steps: &[BaseStep]) {
    let mut model = BTreeMap::new();
    let (mut commit, mut held) = (0, Vec::new());
    for step in steps {
        match step {
            BaseStep::Write(changes) => {
                commit += 2;
                // A change in parts should have the result of one batch.
                let parts = changes.chunks(1 + commit as usize % 5).map(|changes| {
                    let mut batch = WriteBatch::new();
                    changes.iter().for_each(|change| apply(&mut model, &mut batch, change));
                    Cow::Owned(batch)
                });
                let parts: Vec<_> = parts.collect();
                base.write_parts(&mut parts.into_iter(), CommitId(commit)).unwrap();
            }
            BaseStep::Hold => held.push((base.read().unwrap(), commit, model.clone())),
            BaseStep::Check(which) if !held.is_empty() => {
                let (read, commit, model) = held.remove(which % held.len());
                // The read should see the model as it was when the read began.
                check(&*read, commit, &model);
                if let Some(another) = read.another().unwrap() {
                    drop(read);
                    check(&*another, commit, &model);
                }
            }
            BaseStep::Check(_) => check(&*base.read().unwrap(), commit, &model),
        }
        assert_eq!(base.oldest_reader().unwrap(), held.iter().map(|(_, commit, _)| CommitId(*commit)).min());
    }
    for (read, commit, model) in held {
        check(&*read, commit, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bases_behave_like_a_map(steps in prop::collection::vec(step(), 1..40)) {
        run(&MemoryBase::new(), &steps);
        run(&*tree(), &steps);
        #[cfg(feature = "rocksdb")]
        run(&*rocks(), &steps);
    }
}

//! Compares the write set with a map, and checks its undo.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowmill_storage::keyed::KeyRange;

use super::*;
use crate::keyed::index_writes::Content;
use crate::keyed::key_index::hash;

type Twin = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn set() -> WriteSet {
    WriteSet::new(RapidSecrets::random(), OverflowMemory::default())
}

/// A key in the index that its first letter selects.
fn key(text: &str) -> Vec<u8> {
    [&index_head(IndexId(text.as_bytes()[0].into())), text.as_bytes()].concat()
}

fn put(set: &mut WriteSet, text: &str, row: Option<&str>) {
    set.put(&key(text), row.map(str::as_bytes), CommitId(1), 0);
}

fn content(set: &WriteSet) -> Twin {
    set.iter().map(|(key, row)| (key.to_vec(), row.map(<[u8]>::to_vec))).collect()
}

fn len(set: &WriteSet) -> usize {
    set.indexes().map(|writes| writes.content().keys).sum()
}

/// Reads the keys of a range, `keys_max` at a time.
fn range(set: &WriteSet, mut range: KeyRange, backward: bool, keys_max: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut batch = VersionBatch::default();
    loop {
        batch.clear();
        set.fill(&range.start, &range.end, backward, keys_max, &mut batch);
        found.extend((0..batch.len()).map(|at| batch.get(at).0.to_vec()));
        match found.last() {
            Some(last) if batch.len() == keys_max && backward => range.end.clone_from(last),
            Some(last) if batch.len() == keys_max => range.start = [&last[..], &[0]].concat(),
            _ => return found,
        }
    }
}

#[test]
fn writes_since_a_mark_are_undone() {
    let mut set = set();
    put(&mut set, "a1", Some("x"));
    put(&mut set, "b", Some("y"));
    let (first, before) = (set.mark(), content(&set));
    put(&mut set, "a1", None);
    put(&mut set, "a2", Some("z"));
    let (second, between) = (set.mark(), content(&set));
    let bytes = set.bytes();
    set.clear(&key("a"));
    assert_eq!(content(&set).into_keys().collect::<Vec<_>>(), [key("b")]);
    set.undo_to(second);
    assert_eq!((content(&set), set.bytes()), (between, bytes));
    set.undo_to(first);
    assert_eq!(content(&set), before);
    set.undo_to(0);
    assert!(set.is_empty());
    set.reset();
    assert_eq!((set.mark(), set.bytes(), set.iter().count()), (0, 0, 0));
}

#[test]
fn a_key_remembers_the_first_snapshot_over_which_it_is_written() {
    let mut set = set();
    let first = |set: &WriteSet| {
        set.indexes().flat_map(IndexWrites::entries).map(|(_, _, snapshot)| snapshot.0).collect::<Vec<_>>()
    };
    set.put(&key("a"), Some(b""), CommitId(4), 0);
    let mark = set.mark();
    set.put(&key("a"), Some(b"later"), CommitId(7), 0);
    assert_eq!(first(&set), [4]);
    set.clear(&key("a"));
    set.put(&key("a"), None, CommitId(9), 0);
    assert_eq!(first(&set), [9]);
    set.undo_to(mark);
    assert_eq!(first(&set), [4]);
    set.undo_to(0);
    set.put(&key("a"), None, CommitId(8), 0);
    assert_eq!(first(&set), [8]);
}

#[test]
fn random_writes_agree_with_a_map() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut set, mut twin) = (set(), Twin::new());
        let mut marks: Vec<(usize, Twin)> = Vec::new();
        // Begin with a set that was used before.
        (0..300).for_each(|i| put(&mut set, &format!("{i}"), Some("row")));
        set.reset();
        for _ in 0..2_000 {
            let key = key(&format!("{}-{}", random.random_range(0..4), random.random_range(0..200)));
            match random.random_range(0..100) {
                0..60 => {
                    let row = vec![random.random::<u8>(); random.random_range(0..50)];
                    set.put(&key, Some(&row), CommitId(1), 0);
                    twin.insert(key, Some(row));
                }
                60..90 => {
                    set.put(&key, None, CommitId(1), 0);
                    twin.insert(key, None);
                }
                90..93 => marks.push((set.mark(), twin.clone())),
                93..95 => {
                    if let Some((mark, before)) = marks.pop() {
                        set.undo_to(mark);
                        twin = before;
                    }
                }
                95 => {
                    // Clear the whole index, or a part of it.
                    let prefix = &key[..HEAD_BYTES + random.random_range(0..4)];
                    set.clear(prefix);
                    twin.retain(|other, _| !other.starts_with(prefix));
                }
                96 => {
                    // Copy the set, as for a view of a transaction that then continues to write.
                    let view = set.clone();
                    set.put(&key, None, CommitId(1), 0);
                    assert_eq!(content(&view), twin);
                    twin.insert(key, None);
                }
                _ => {
                    let mut other =
                        [&key[..HEAD_BYTES + 2], format!("{}", random.random_range(0..200)).as_bytes()].concat();
                    if random.random() {
                        other = KeyRange::of_prefix(&key[..HEAD_BYTES]).end;
                    }
                    let (start, end) = (key.clone().min(other.clone()), key.max(other));
                    let (backward, keys_max) = (random.random(), random.random_range(1..40));
                    let mut wanted: Vec<_> =
                        twin.range(start.clone()..end.clone()).map(|(key, _)| key.clone()).collect();
                    if backward {
                        wanted.reverse();
                    }
                    assert_eq!(range(&set, KeyRange { start, end }, backward, keys_max), wanted);
                }
            }
            assert_eq!(set.is_empty(), twin.is_empty());
        }
        assert_eq!(content(&set), twin);
        for writes in set.indexes() {
            let mut counted = Content::default();
            writes.iter().for_each(|(key, row)| counted.add(key, row));
            assert_eq!(writes.content(), counted);
        }
        for (key, row) in &twin {
            assert_eq!(set.find(hash(key, &set.secrets), key), Some(row.as_deref()));
        }
        for none in ["none", "0-none", "9-none"] {
            assert_eq!(set.find(hash(&key(none), &set.secrets), &key(none)), None);
        }
    }
}

#[test]
fn ascending_keys_are_found_before_and_after_one_out_of_order() {
    let mut set = set();
    let key = |n: u32| key(&format!("key {n:05}"));
    let is_in_order = |set: &WriteSet| set.indexes().all(IndexWrites::is_in_order);
    let find = |set: &WriteSet, key: &[u8]| set.find(hash(key, &set.secrets), key).map(|row| row.map(<[u8]>::to_vec));
    for n in (2..2_000).step_by(2) {
        set.put(&key(n), Some(&key(n)), CommitId(1), 0);
        // Write the greatest key again, and look for one between the others.
        set.put(&key(n), Some(b"again"), CommitId(1), 0);
        assert_eq!(find(&set, &key(n)), Some(Some(b"again".to_vec())));
        assert_eq!(find(&set, &key(n / 4 * 2 + 1)), None);
    }
    assert!(is_in_order(&set));
    // Undo the greatest key and write it again, also in a copy.
    let mark = set.mark();
    set.put(&key(1_999), Some(b"greatest"), CommitId(1), 0);
    set.undo_to(mark);
    assert_eq!(find(&set, &key(1_999)), None);
    let mut copy = set.clone();
    copy.put(&key(1_999), None, CommitId(1), 0);
    copy.put(&key(2_000), None, CommitId(1), 0);
    assert!(is_in_order(&copy));
    assert_eq!((find(&copy, &key(1_999)), len(&copy), len(&set)), (Some(None), 1_001, 999));
    set.put(&key(100), None, CommitId(1), 0);
    assert!(is_in_order(&set));
    assert_eq!((find(&set, &key(100)), len(&set)), (Some(None), 999));
    let mark = set.mark();
    for n in (1..2_000).rev().step_by(2) {
        set.put(&key(n), Some(b"between"), CommitId(1), 0);
    }
    assert!(!is_in_order(&set));
    let found = |set: &WriteSet| (0..2_002).filter(|n| find(set, &key(*n)).is_some()).count();
    assert_eq!((found(&set), len(&set), set.iter().count()), (1_999, 1_999, 1_999));
    set.undo_to(mark);
    assert_eq!((found(&set), len(&set)), (999, 999));
    set.reset();
    assert!(is_in_order(&set));
    assert_eq!(find(&set, &key(2)), None);
}

#[test]
fn ascending_keys_are_undone_to_any_mark() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut set, mut twin, mut written) = (set(), Twin::new(), Vec::new());
        let mut marks = vec![(0, 0, Twin::new())];
        for n in 0..3_000 {
            // Mostly write ascending keys, in two indexes that sometimes take turns.
            let index = if n / 50 % 3 == 0 { random.random_range(0..2) } else { 0 };
            let number = if random.random_range(0..40) == 0 { random.random_range(0..n + 1) } else { n };
            let key = key(&format!("{index} {number:05}"));
            let row_bytes = if random.random_range(0..100) == 0 { 40_000 } else { random.random_range(0..80) };
            let row = (random.random_range(0..10) > 0).then(|| vec![n as u8; row_bytes]);
            set.put(&key, row.as_deref(), CommitId(1), 0);
            written.push(key.clone());
            twin.insert(key, row);
            match random.random_range(0..60) {
                0..12 => marks.push((set.mark(), written.len(), twin.clone())),
                12..16 => {
                    let at = marks.len() - random.random_range(1..=marks.len().min(4));
                    let (mark, written_before, before) = marks[at].clone();
                    marks.truncate(at + 1);
                    let mut since = Vec::new();
                    set.keys_since(mark, |key| since.push(key.to_vec()));
                    let mut undone = written.split_off(written_before);
                    since.sort();
                    undone.sort();
                    assert_eq!(since, undone);
                    set.undo_to(mark);
                    twin = before;
                    assert_eq!((content(&set), set.mark()), (twin.clone(), mark));
                }
                _ => (),
            }
        }
        assert_eq!(content(&set), twin);
        set.undo_to(0);
        assert!(set.is_empty());
        assert_eq!((set.content_bytes() + RECORD_BYTES * set.entry_count() as u64, set.undo.len()), (set.bytes(), 0));
    }
}

#[test]
fn undone_rows_take_no_memory_and_keep_the_set_in_order() {
    let mut set = set();
    let number = |n: u32| key(&format!("{n:08}"));
    for n in 0..2_000 {
        set.put(&number(n), Some(&[1; 100]), CommitId(1), 0);
    }
    let (before, bytes, mark) = (content(&set), set.bytes(), set.mark());
    let allocated = |set: &WriteSet| set.indexes().map(IndexWrites::allocated_bytes).sum::<usize>();
    let taken = allocated(&set);
    for n in 2_000..6_000 {
        // Write several rows before the undo, as one statement would.
        for more in 0..n % 40 {
            set.put(&number(n + more), Some(&[2; 10_000]), CommitId(1), 0);
        }
        set.undo_to(mark);
        assert_eq!(set.bytes(), bytes);
    }
    assert_eq!(content(&set), before);
    assert!(allocated(&set) <= taken + (256 << 10), "{} bytes over {taken}", allocated(&set) - taken);
    assert!(set.indexes().all(IndexWrites::is_run));
    // Memory that cannot be freed should be counted. Here keys between others keep their entries.
    for n in 0..1_000 {
        set.put(&[&number(n)[..], b"between"].concat(), Some(&[2; 10_000]), CommitId(1), 0);
    }
    set.undo_to(mark);
    assert_eq!(content(&set), before);
    assert!(set.bytes() as usize >= allocated(&set) / 2, "{} bytes are counted of {}", set.bytes(), allocated(&set));
}

#[test]
fn added_rows_are_counted_and_undone() {
    let mut set = set();
    let index = index_of(&key("a")).expect("a key names its index");
    set.put(&key("a1"), Some(b"new"), CommitId(1), 1);
    set.put(&key("a2"), Some(b"new"), CommitId(1), 1);
    let mark = set.mark();
    set.put(&key("a1"), Some(b"changed"), CommitId(1), 0);
    set.put(&key("a0"), None, CommitId(1), -1);
    set.put(&key("a3"), Some(b"new"), CommitId(1), 1);
    set.put(&key("b1"), Some(b""), CommitId(1), 0);
    assert_eq!(set.rows_added(index), Some(2));
    set.undo_to(mark);
    assert_eq!(set.rows_added(index), Some(2));
    set.undo_to(0);
    assert_eq!(set.rows_added(index), Some(0));
    set.put_uncounted(&key("a1"), Some(b"new"), CommitId(1));
    assert_eq!(set.rows_added(index), None);
    set.reset();
    assert_eq!(set.rows_added(index), Some(0));
}

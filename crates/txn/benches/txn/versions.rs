//! The multi-version table: point reads, ranges and commits over a million keys, alone and beside a writing thread.
//!
//! The keys are like those of TPC-C's order lines: the id of an index and four integers. The rows have 60 bytes.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{BatchSize, Criterion, Throughput};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;
use rowmill_txn::keyed::{VersionBatch, VersionCursor, Versions, Visibility};

use crate::size;

const ROW: [u8; 60] = [7; 60];
/// Approximately the number of keys that a TPC-C commit changes.
const CHANGES: usize = 25;

type Key = [u8; 20];

fn key(line: usize) -> Key {
    let mut key = [0; 20];
    // The integers are stored like in the key codec: big endian, with the sign bit flipped.
    let (line, order) = (line % 10, line / 10);
    for (at, part) in [7, 1, order % 10, order / 10, line].into_iter().enumerate() {
        key[at * 4..at * 4 + 4].copy_from_slice(&(part as u32 ^ if at > 0 { 1 << 31 } else { 0 }).to_be_bytes());
    }
    key
}

fn changes(keys: &[Key]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    keys.iter().map(|key| (&key[..], Some(&ROW[..])))
}

/// Makes a table of the keys, inserted in the order of `order`.
fn filled(order: &[Key]) -> Versions {
    let versions = Versions::new();
    for (commit, keys) in order.chunks(CHANGES).enumerate() {
        versions.apply(CommitId(commit as u64 + 1), changes(keys), CommitId(commit as u64));
    }
    versions
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let count = size(1_000_000, 5_000);
    let rng = &mut SmallRng::seed_from_u64(5);
    let keys: Vec<Key> = (0..count).map(key).collect();
    let mut shuffled = keys.clone();
    shuffled.shuffle(rng);
    let newest = CommitId(u64::MAX);
    let mut group = criterion.benchmark_group("versions");

    group.throughput(Throughput::Elements(count as u64));
    for (name, order) in [("in order", &keys), ("shuffled", &shuffled)] {
        group.bench_function(format!("insert, {name}"), |bencher| {
            bencher.iter_batched(|| (), |()| filled(order), BatchSize::PerIteration);
        });
    }

    for (name, order) in [("in order", &keys), ("shuffled", &shuffled)] {
        let versions = filled(order);
        let mut batch = VersionBatch::default();
        for backward in [false, true] {
            let direction = if backward { "down" } else { "up" };
            group.bench_function(format!("scan {direction}, inserted {name}"), |bencher| {
                bencher.iter(|| {
                    let mut cursor = VersionCursor::new(KeyRange::default(), newest, backward);
                    let mut found = 0;
                    loop {
                        cursor.next_batch(&versions, 512, &mut batch);
                        if batch.is_empty() {
                            break;
                        }
                        found += black_box(&batch).len();
                    }
                    assert_eq!(found, count);
                });
            });
        }
    }

    let versions = filled(&shuffled);
    let per_key = versions.allocated_bytes() as f64 / count as f64;
    assert!(count < 10_000 || per_key < 250.0, "{per_key} bytes per key");
    let points = size(100_000, 1_000);
    let mut row = Vec::new();
    group.throughput(Throughput::Elements(points as u64));
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            for _ in 0..points {
                let got = versions.get(&keys[rng.random_range(0..count)], newest, &mut row);
                assert_eq!((got.found, row.len()), (Visibility::Row, ROW.len()));
            }
        });
    });
    group.bench_function("get an absent key", |bencher| {
        bencher.iter(|| {
            for _ in 0..points {
                let got = versions.get(&key(count + rng.random_range(0..count)), newest, &mut row);
                assert_eq!(got.found, Visibility::Unknown);
            }
        });
    });
    group.bench_function("latest commit", |bencher| {
        bencher.iter(|| {
            (0..points).for_each(|_| {
                black_box(versions.latest_commit(&keys[rng.random_range(0..count)]));
            });
        });
    });
    let mut batch = VersionBatch::default();
    group.bench_function("ten neighbours", |bencher| {
        bencher.iter(|| {
            for _ in 0..points {
                let first = rng.random_range(0..count) / 10 * 10;
                let range = KeyRange::of_prefix(&keys[first][..16]);
                VersionCursor::new(range, newest, false).next_batch(&versions, 16, &mut batch);
                assert_eq!(batch.len(), 10);
            }
        });
    });

    let mut commit = count as u64;
    let mut update = |versions: &Versions, rng: &mut SmallRng| {
        commit += 1;
        let mut keys: [Key; CHANGES] = std::array::from_fn(|_| keys[rng.random_range(0..count)]);
        keys.sort_unstable();
        // Skip the rare commit that would change a key twice.
        if keys.windows(2).all(|pair| pair[0] < pair[1]) {
            versions.apply(CommitId(commit), changes(&keys), CommitId(commit - 1));
        }
    };
    group.throughput(Throughput::Elements(CHANGES as u64));
    group.bench_function("commit of updates", |bencher| bencher.iter(|| update(&versions, rng)));

    // Measure point reads while another thread commits as fast as it can.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let rng = &mut SmallRng::seed_from_u64(6);
            while !stop.load(Ordering::Relaxed) {
                update(&versions, rng);
            }
        });
        group.throughput(Throughput::Elements(points as u64));
        group.bench_function("get beside a writer", |bencher| {
            bencher.iter(|| {
                for _ in 0..points {
                    versions.get(&keys[rng.random_range(0..count)], newest, &mut row);
                }
            });
        });
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });

    group.throughput(Throughput::Elements(count as u64));
    group.bench_function("forget nine of ten", |bencher| {
        let setup = || filled(&shuffled);
        let commits = count.div_ceil(CHANGES) as u64;
        bencher.iter_batched(
            setup,
            |versions| {
                versions.forget(CommitId(commits * 9 / 10), CommitId(commits));
                versions
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

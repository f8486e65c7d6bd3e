//! The writing transactions of TPC-C and their single operations, over LMDB, at `relaxed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use rand::Rng;
use rowmill_base::Settings;
use rowmill_storage::keyed::ValueRef::{self, Decimal, Int, Text};
use rowmill_txn::keyed::RangeScan;
use rowmill_txn::{Engine, OpenOptions};

use crate::size;
use crate::tpcc_world::World;

/// Puts of a transaction, about as many as a New-Order has.
const PUTS: usize = 25;

pub(crate) fn benches(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = Settings::default();
    settings.set("durability", "relaxed").expect("a word");
    let engine = Engine::open(folder.path(), OpenOptions { settings, read_only: false }).expect("a database");
    let mut world = World::new(engine, size(100_000, 100) as i64, size(3_000, 30) as i64);
    let mut group = criterion.benchmark_group("tpcc");
    for place in ["memory", "base"] {
        if place == "base" {
            world.engine.checkpoint().expect("a checkpoint");
        }
        points(&mut group, &mut world, place);
    }
    group.bench_function("25 puts", |bencher| bencher.iter_custom(|rounds| puts(&world, rounds).0));
    group.bench_function("begin, commit of 25 puts", |bencher| bencher.iter_custom(|rounds| puts(&world, rounds).1));
    group.bench_function("begin, drop", |bencher| bencher.iter(|| black_box(world.engine.begin().expect("begun"))));
    group.bench_function("new order", |bencher| bencher.iter(|| world.new_order()));
    group.bench_function("payment", |bencher| bencher.iter(|| world.payment()));
    group.finish();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

/// Reads of stock, which lies in memory or in the base.
fn points(group: &mut Group<'_>, world: &mut World, place: &str) {
    let transaction = world.engine.begin().expect("a transaction");
    let (codec, items) = (&world.stock, world.items);
    let (mut key, mut row, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
    group.bench_function(format!("get, {place}"), |bencher| {
        bencher.iter(|| {
            let item = world.random.random_range(1..=items);
            codec.encode_key(None, &[Int(1), Int(item)], &mut key).expect("a key");
            assert!(transaction.reader().get(&key, &mut row).expect("read"));
            black_box(codec.column(&key, &row, 2, &mut scratch).expect("a value") == ValueRef::Null)
        });
    });
    let mut end = Vec::new();
    for (rows, what) in [(1, "first of a range"), (10, "ten of a range")] {
        let mut scan = RangeScan::default();
        group.bench_function(format!("{what}, {place}"), |bencher| {
            bencher.iter(|| {
                let item = world.random.random_range(1..=items - 20);
                codec.encode_key(None, &[Int(1), Int(item)], &mut key).expect("a key");
                codec.encode_key(None, &[Int(1), Int(item + 20)], &mut end).expect("a key");
                let reader = transaction.reader();
                scan.start(&key, &end, false, rows);
                for _ in 0..rows {
                    black_box(scan.next(&reader).expect("read").expect("a row"));
                }
            });
        });
    }
}

/// Time of the puts of transactions, and that of their beginnings and commits.
fn puts(world: &World, rounds: u64) -> (Duration, Duration) {
    static ORDER: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1_000_000);
    let (mut putting, mut committing) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        let order = ORDER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let begun = Instant::now();
        let mut transaction = world.engine.begin().expect("a transaction");
        let has_begun = Instant::now();
        for line in 0..PUTS as i64 {
            let key = [Int(1), Int(1), Int(order), Int(line)];
            let rest = [Int(line), Int(1), ValueRef::Null, Int(5), Decimal(100), Text("district of 24 characters")];
            let values: [ValueRef<'_>; 10] = std::array::from_fn(|at| if at < 4 { key[at] } else { rest[at - 4] });
            transaction.insert_values(&world.order_line, &values).expect("inserted");
        }
        let put = Instant::now();
        transaction.commit().expect("committed");
        putting += put - has_begun;
        committing += put.elapsed() + (has_begun - begun);
    }
    (putting, committing)
}

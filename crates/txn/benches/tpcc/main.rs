//! The writing transactions of TPC-C and their single operations, without SQL, over a tree with `relaxed` durability.
//! This is the lower bound for the time of compiled statements.
//!
//! `cargo bench -p rowmill-txn --bench tpcc` prints nanoseconds. We take the lowest tenth of many short rounds, because
//! other work of the machine only makes rounds longer, never shorter. `--small` uses tables that fit into a cache. An
//! argument that is no option selects the measurements whose names contain it, and runs them for longer, for example
//! for a profile. `cargo test` runs everything once on few rows.

// A bench prints its measurements.
#![allow(clippy::print_stdout)]

mod world;

use std::hint::black_box;
use std::time::{Duration, Instant};

use rand::Rng;
use rowmill_allocator::CountingAllocator;
use rowmill_base::Settings;
use rowmill_storage::keyed::ValueRef::{self, Decimal, Int, Text};
use rowmill_txn::keyed::RangeScan;
use rowmill_txn::{Engine, OpenOptions};

use crate::world::World;

/// The allocator that the binaries use.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The puts of one transaction, about the number in a New-Order transaction.
const PUTS: i64 = 25;

/// Which measurements to run, and for how long.
struct Bench {
    is_full: bool,
    is_small: bool,
    wanted: Option<String>,
}

impl Bench {
    fn new() -> Bench {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let wanted = arguments.iter().find(|argument| !argument.starts_with("--")).cloned();
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        Bench { is_full: has("--bench"), is_small: has("--small"), wanted }
    }

    fn rows(&self, full: i64) -> i64 {
        if self.is_full && !self.is_small { full } else { full / 100 }
    }

    fn rounds(&self) -> usize {
        match (self.is_full, &self.wanted) {
            (false, _) => 2,
            (true, None) => 2_000,
            (true, Some(_)) => 20_000,
        }
    }

    /// Runs rounds of `per_round` calls of `work`, which returns the time to count for one call.
    fn measure(&self, name: &str, per_round: u32, mut work: impl FnMut() -> Duration) {
        if self.wanted.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
            return;
        }
        let mut rounds: Vec<Duration> =
            (0..self.rounds()).map(|_| (0..per_round).map(|_| work()).sum::<Duration>() / per_round).collect();
        // The lowest tenth counts: see the header.
        rounds.sort_unstable();
        println!(
            "{name:32} {:>9.0} ns, median {:>9.0}",
            nanos(rounds[rounds.len() / 10]),
            nanos(rounds[rounds.len() / 2])
        );
    }

    /// Runs rounds of `per_round` calls of `work` and counts their whole time.
    fn measure_all(&self, name: &str, per_round: u32, mut work: impl FnMut()) {
        self.measure(name, 1, || {
            let begun = Instant::now();
            (0..per_round).for_each(|_| work());
            begun.elapsed() / per_round
        });
    }
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn main() {
    CountingAllocator::announce();
    let bench = Bench::new();
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = Settings::default();
    settings.set("durability", "relaxed").expect("`relaxed` is a valid durability");
    let engine = Engine::open(folder.path(), OpenOptions { settings, ..OpenOptions::default() }).expect("a database");
    let mut world = World::new(engine, bench.rows(100_000), bench.rows(3_000));
    points(&bench, &mut world, "memory");
    world.engine.checkpoint().expect("a checkpoint");
    points(&bench, &mut world, "base");
    bench.measure("25 puts", 20, || puts(&world).0);
    bench.measure("begin and commit of 25 puts", 20, || puts(&world).1);
    bench.measure_all("begin and drop", 200, || drop(black_box(world.engine.begin().expect("begun"))));
    bench.measure_all("new order", 5, || world.new_order());
    bench.measure_all("payment", 10, || world.payment());
}

/// Measures reads of stock rows, which are in memory or in the base.
fn points(bench: &Bench, world: &mut World, place: &str) {
    let transaction = world.engine.begin().expect("a transaction");
    let (codec, items) = (&world.stock, world.items);
    let (mut key, mut end, mut row, mut scratch) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    bench.measure_all(&format!("get, {place}"), 200, || {
        let item = world.random.random_range(1..=items);
        codec.encode_key(None, &[Int(1), Int(item)], &mut key).expect("a key");
        assert!(transaction.reader().get(&key, &mut row).expect("read"));
        assert_ne!(codec.column(&key, &row, 2, &mut scratch).expect("a value"), ValueRef::Null);
    });
    for (rows, what) in [(1, "first of a range"), (10, "ten of a range")] {
        let mut scan = RangeScan::default();
        bench.measure_all(&format!("{what}, {place}"), 100, || {
            let item = world.random.random_range(1..=items - 20);
            codec.encode_key(None, &[Int(1), Int(item)], &mut key).expect("a key");
            codec.encode_key(None, &[Int(1), Int(item + 20)], &mut end).expect("a key");
            let reader = transaction.reader();
            scan.start(&key, &end, false, rows);
            for _ in 0..rows {
                black_box(scan.next(&reader).expect("read").expect("a row"));
            }
        });
    }
}

/// Returns the time for the puts of one transaction, and the time for its beginning and its commit.
fn puts(world: &World) -> (Duration, Duration) {
    static ORDER: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1_000_000);
    let order = ORDER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let begun = Instant::now();
    let mut transaction = world.engine.begin().expect("a transaction");
    let has_begun = Instant::now();
    for line in 0..PUTS {
        let key = [Int(1), Int(1), Int(order), Int(line)];
        let rest = [Int(line), Int(1), ValueRef::Null, Int(5), Decimal(100), Text("district of 24 characters")];
        let values: [ValueRef<'_>; 10] = std::array::from_fn(|at| if at < 4 { key[at] } else { rest[at - 4] });
        transaction.insert_values(&world.order_line, &values).expect("inserted");
    }
    let put = Instant::now();
    transaction.commit().expect("committed");
    (put - has_begun, put.elapsed() + (has_begun - begun))
}

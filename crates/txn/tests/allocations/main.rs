//! How often a transaction on keyed tables asks the heap for memory: a handful of times for its commit, and not for
//! what it reads and writes.

#[path = "../../benches/tpcc/world.rs"]
mod world;

use rowmill_allocator::{CountingAllocator, allocations};
use rowmill_base::Settings;
use rowmill_storage::keyed::ValueRef::Int;
use rowmill_txn::keyed::RangeScan;
use rowmill_txn::{Engine, OpenOptions};

use crate::world::{LINES, World};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROUNDS: u64 = 200;

/// Allocations of a new order: of its snapshot's state and of the snapshot, a node of a map, chunks of the versions now
/// and then, and what the threads behind do meanwhile.
const NEW_ORDER_MAX: f64 = 15.0;

/// One test, since all threads are counted.
#[test]
fn transactions_on_keyed_tables_allocate_little_and_reads_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = Settings::default();
    settings.set("durability", "relaxed").expect("a word");
    let engine = Engine::open(folder.path(), OpenOptions { settings, ..OpenOptions::default() }).expect("a database");
    let mut world = World::new(engine, 1000, 30);
    for place in ["memory", "base"] {
        (0..ROUNDS).for_each(|_| world.new_order());
        let orders = count(|| (0..ROUNDS).for_each(|_| world.new_order()));
        let per_order = orders as f64 / ROUNDS as f64;
        println!("{place}: {per_order} allocations a new order");
        assert!(per_order <= NEW_ORDER_MAX, "{place}: {per_order} allocations a new order");

        let payments = count(|| (0..ROUNDS).for_each(|_| world.payment()));
        let per_payment = payments as f64 / ROUNDS as f64;
        assert!(per_payment <= NEW_ORDER_MAX, "{place}: {per_payment} allocations a payment");

        let lines = lines_of_orders(&world);
        assert_eq!(lines, 0, "{place}: allocations of scans and look-ups");
        world.engine.checkpoint().expect("a checkpoint");
    }
}

/// Allocations of scans in steady state, within one transaction.
fn lines_of_orders(world: &World) -> u64 {
    let transaction = world.engine.begin().expect("a transaction");
    let (mut start, mut end, mut row, mut scan) = (Vec::new(), Vec::new(), Vec::new(), RangeScan::default());
    let mut read = |order: i64| {
        world.order_line.encode_key(None, &[Int(1), Int(1), Int(order)], &mut start).expect("a key");
        world.order_line.encode_key(None, &[Int(1), Int(1), Int(order + 1)], &mut end).expect("a key");
        let reader = transaction.reader();
        scan.start(&start, &end, false, 1);
        assert!(scan.next(&reader).expect("read").is_some());
        world.stock.encode_key(None, &[Int(1), Int(1 + order)], &mut start).expect("a key");
        assert!(reader.get(&start, &mut row).expect("read"));
    };
    (1..5).for_each(&mut read);
    // The threads behind are counted too, and do something now and then: what reads ask for they ask for each time.
    let times = (0..5).map(|_| count(|| (1..10).cycle().take(LINES * 20).for_each(&mut read)));
    times.min().expect("several times")
}

fn count(work: impl FnOnce()) -> u64 {
    let before = allocations();
    work();
    allocations() - before
}

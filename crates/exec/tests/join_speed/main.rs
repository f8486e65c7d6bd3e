//! Measures how fast joins are: `cargo test --release -p rowmill-exec --test join_speed -- --ignored --nocapture`. If
//! `ROWMILL_JOIN` is set, only measurements whose name contains its value run.

// The results are printed.
#![allow(clippy::print_stdout)]

mod stored;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_exec::join::{HashJoin, JoinRequest};
use rowmill_plan::JoinKind;
use rowmill_storage::spill::TempSpace;

use self::stored::Stored;

const BATCH_ROWS: usize = 8_192;
const THREADS: usize = 2;

/// Batches of a key and a number, which can be read again any number of times.
#[derive(Debug)]
struct Memory {
    schema: SchemaRef,
    batches: Arc<Vec<RecordBatch>>,
    next: AtomicUsize,
}

impl Memory {
    fn new(keys: &[i64], texts: bool) -> Memory {
        let kind = if texts { DataType::Utf8View } else { DataType::Int64 };
        let schema =
            Arc::new(Schema::new(vec![Field::new("key", kind, true), Field::new("number", DataType::Int64, true)]));
        let batches = keys.chunks(BATCH_ROWS).map(|keys| {
            let column: ArrayRef = match texts {
                true => {
                    Arc::new(keys.iter().map(|key| Some(format!("customer#{key:09}"))).collect::<StringViewArray>())
                }
                false => Arc::new(Int64Array::from(keys.to_vec())),
            };
            let numbers: ArrayRef = Arc::new(keys.iter().map(|key| Some(key ^ 1)).collect::<Int64Array>());
            RecordBatch::try_new(Arc::clone(&schema), vec![column, numbers]).expect("two columns")
        });
        Memory { batches: Arc::new(batches.collect()), schema, next: AtomicUsize::new(0) }
    }

    fn again(&self, batches: usize) -> Arc<Memory> {
        let batches = Arc::new(self.batches[..batches.min(self.batches.len())].to_vec());
        Arc::new(Memory { batches, schema: Arc::clone(&self.schema), next: AtomicUsize::new(0) })
    }
}

impl BatchSource for Memory {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.batches.len()
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(std::iter::from_fn(move || {
            self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)).cloned().map(Ok)
        }))
    }
}

fn run(build: Arc<dyn BatchSource>, probe: Arc<dyn BatchSource>, kind: JoinKind) -> (Duration, usize, u64) {
    let fields: Vec<Field> = [DataType::Int64, DataType::Int64].map(|kind| Field::new("x", kind, true)).into();
    let output = match kind {
        JoinKind::ProbeSemi => vec![3],
        _ => vec![1, 3],
    };
    let request = JoinRequest {
        kind,
        on: vec![(0, 0)],
        nulls_equal: false,
        residual: None,
        bounds: Vec::new(),
        schema: Arc::new(Schema::new(fields[..output.len()].to_vec())),
        output,
        batch_rows: BATCH_ROWS,
        cancel: Cancel::new(),
        broker: Broker::new(8 << 30),
        temp: TempSpace::in_memory(),
        null_aware: false,
        ordered: None,
    };
    let broker = request.broker.clone();
    let join = HashJoin::new(build, probe, request).expect("a request that fits");
    let work = |share: Batches| {
        let rows = share.map(|batch| batch.expect("no error").num_rows()).sum::<usize>();
        (rows, cpu_time())
    };
    let ends: Vec<(usize, Duration)> = std::thread::scope(|scope| {
        let share = || Arc::clone(&join).worker();
        let workers: Vec<_> = (0..THREADS).map(|_| share()).map(|share| scope.spawn(|| work(share))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let rows = ends.iter().map(|(rows, _)| rows).sum();
    (ends.iter().map(|(_, time)| *time).sum(), rows, broker.peak_bytes())
}

/// The time that this thread ran on a processor. Other processes disturb it less than wall-clock time.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a thread of Linux");
    Duration::from_nanos(stat.split(' ').next().and_then(|time| time.parse().ok()).expect("nanoseconds"))
}

fn measure(name: &str, build: &[i64], probe: &[i64], texts: bool, kind: JoinKind) {
    if std::env::var("ROWMILL_JOIN").is_ok_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let (build_rows, probe_rows) = (build.len(), probe.len());
    let (build, probe) = (Memory::new(build, texts), Memory::new(probe, texts));
    let best = |batches: usize| {
        (0..runs()).map(|_| run(build.again(usize::MAX), probe.again(batches), kind)).min().expect("a run")
    };
    let (built, ..) = best(0);
    let (all, rows, bytes) = best(usize::MAX);
    let per_core = |rows: usize, time: Duration| rows as f64 / time.as_secs_f64() / 1e6;
    let probed = all.saturating_sub(built);
    println!(
        "{name:28} million rows a second and core: build {:6.1}, probe {:6.1}; {:4.1} ns; {rows:9} rows, {} MB",
        per_core(build_rows, built),
        per_core(probe_rows, probed),
        probed.as_secs_f64() * 1e9 / probe_rows as f64,
        bytes >> 20,
    );
}

#[test]
#[ignore = "measures"]
fn joins_are_fast() {
    const BUILD: usize = 1_500_000;
    const PROBE: usize = 6_000_000;
    let random = &mut SmallRng::seed_from_u64(1);
    let pick = |from: &[i64], random: &mut SmallRng| -> Vec<i64> {
        (0..PROBE).map(|_| from[random.random_range(0..from.len())]).collect()
    };

    let small: Vec<i64> = (0..100_000).collect();
    measure("small dense", &small, &pick(&small, random), false, JoinKind::Inner);
    measure("small dense, semi", &small, &pick(&small, random), false, JoinKind::ProbeSemi);
    // Keys as in TPC-H: eight of every thirty-two.
    let orders: Vec<i64> = (0..BUILD as i64).map(|row| row / 8 * 32 + row % 8).collect();
    let items: Vec<i64> = (0..PROBE).map(|row| orders[row / 4]).collect();
    measure("orders, in order", &orders, &items, false, JoinKind::Inner);
    measure("orders, random", &orders, &pick(&orders, random), false, JoinKind::Inner);
    let mut few = orders.clone();
    few.shuffle(random);
    few.truncate(150_000);
    few.sort_unstable();
    measure("one in ten orders, in order", &few, &items, false, JoinKind::Inner);
    measure("one in ten orders, random", &few, &pick(&orders, random), false, JoinKind::Inner);
    let sparse: Vec<i64> = (0..BUILD).map(|_| random.random()).collect();
    measure("sparse", &sparse, &pick(&sparse, random), false, JoinKind::Inner);
    measure("sparse, semi", &sparse, &pick(&sparse, random), false, JoinKind::ProbeSemi);
    let others: Vec<i64> = (0..PROBE).map(|_| random.random()).collect();
    measure("sparse, no match", &sparse, &others, false, JoinKind::Inner);
    let small_sparse: Vec<i64> = (0..100_000).map(|_| random.random()).collect();
    measure("small sparse", &small_sparse, &pick(&small_sparse, random), false, JoinKind::Inner);
    let repeated: Vec<i64> = (0..BUILD as i64).map(|row| row / 4).collect();
    measure("four rows a key, in order", &repeated, &items[..PROBE / 4], false, JoinKind::Inner);
    measure("four rows a key, random", &repeated, &pick(&repeated, random)[..PROBE / 4], false, JoinKind::Inner);
    let shuffled: Vec<i64> = pick(&sparse[..BUILD / 4], random)[..BUILD].to_vec();
    measure("sparse, four rows a key", &shuffled, &pick(&shuffled, random)[..PROBE / 4], false, JoinKind::Inner);
    measure("texts", &small, &pick(&small, random)[..PROBE / 4], true, JoinKind::Inner);
    measure("many texts", &orders, &pick(&orders, random)[..PROBE / 4], true, JoinKind::Inner);
}

/// Measures a join of a stored table by its keys, with and without filters for the table.
fn measure_stored(name: &str, build: &[i64], table: &Arc<Stored>, rows: usize) {
    if std::env::var("ROWMILL_JOIN").is_ok_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let build = Memory::new(build, false);
    let best = |filters: bool| {
        let runs = (0..runs()).map(|_| run(build.again(usize::MAX), table.scan(BATCH_ROWS, filters), JoinKind::Inner));
        let (time, found, _) = runs.min().expect("a run");
        (time.as_secs_f64() * 1e9 / rows as f64, found)
    };
    let ((with, found), (without, same)) = (best(true), best(false));
    assert_eq!(found, same);
    println!(
        "{name:28} of a stored table, all in all: {with:4.1} ns with filters, {without:4.1} ns without; {found:9} rows"
    );
}

#[test]
#[ignore = "measures"]
fn filters_are_worth_their_time() {
    const ORDERS: i64 = 1_000_000;
    let random = &mut SmallRng::seed_from_u64(1);
    let key = |order: i64| order / 8 * 32 + order % 8;
    let in_order: Vec<i64> = (0..4 * ORDERS).map(|row| key(row / 4)).collect();
    let numbers: Vec<i64> = in_order.iter().map(|_| random.random_range(0..1_000_000_000)).collect();
    let others: Vec<i64> = in_order.iter().map(|_| random.random_range(0..50)).collect();
    let mut anyhow = in_order.clone();
    anyhow.shuffle(random);
    let parts: Vec<i64> = in_order.iter().map(|_| random.random_range(0..20_000)).collect();
    for (name, keys, range) in [("clustered", in_order, ORDERS), ("random", anyhow, ORDERS), ("parts", parts, 20_000)] {
        let rows = keys.len();
        let table = Stored::new(&[keys, numbers.clone(), others.clone()]);
        let key = |value: i64| if range == ORDERS { key(value) } else { value };
        for one_of in [1, 2, 10, 100, 1_000] {
            let mut build: Vec<i64> = (0..range).map(key).collect();
            build.shuffle(random);
            build.truncate(range as usize / one_of);
            build.sort_unstable();
            measure_stored(&format!("{name}, one of {one_of}"), &build, &table, rows);
        }
    }
    let table = Stored::new(&[(0..4 * ORDERS).map(|row| key(row / 4)).collect(), numbers, others]);
    let near: Vec<i64> = (ORDERS / 2..ORDERS / 2 + ORDERS / 100).map(key).collect();
    measure_stored("near each other", &near, &table, 4 * ORDERS as usize);
}

/// The number of runs: `ROWMILL_RUNS`, or nine. Only the best run counts.
fn runs() -> usize {
    std::env::var("ROWMILL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(9)
}

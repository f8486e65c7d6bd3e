//! Measures how fast ordered joins are: `cargo test --release -p rowmill-exec --test ordered_join_speed -- --ignored
//! --nocapture`. If `ROWMILL_JOIN` is set, only measurements whose name contains its value run.

// The results are printed.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel};
use rowmill_exec::aggregate::named;
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_exec::ordered_join::{OrderRules, OrderedJoinRequest, ordered_join};
use rowmill_plan::{Aggregate, Expr, OrderBound, OrderedChoice, OrderedResult};
use rowmill_storage::spill::TempSpace;

const BATCH_ROWS: usize = 8_192;
const THREADS: usize = 2;
const LEFT_ROWS: usize = 5_000_000;
const RIGHT_ROWS: usize = 10_000_000;
const KEYS: usize = 1_000;
/// Both sides take a day, so that a key has a row of the right side every 8.6 seconds.
const DAY_MICROS: i64 = 86_400_000_000;
const REACH_MICROS: i64 = 10_000_000;

/// Batches that can be read again any number of times.
#[derive(Debug)]
struct Memory {
    schema: SchemaRef,
    batches: Arc<Vec<RecordBatch>>,
    next: AtomicUsize,
}

/// The keys of rows.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Texts,
    Numbers,
    None,
}

fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

impl Memory {
    /// Rows of a key, a time, the times some seconds before and after it, and a number, in the order of time.
    fn new(rows: usize, keys: Keys, seed: u64) -> Memory {
        let random = &mut SmallRng::seed_from_u64(seed);
        let step = DAY_MICROS / rows as i64;
        let kind = if matches!(keys, Keys::Texts) { DataType::Utf8View } else { DataType::Int64 };
        let kinds = [kind, time(), time(), time(), DataType::Int64];
        let schema = Arc::new(Schema::new(kinds.map(|kind| Field::new("x", kind, true)).to_vec()));
        let starts = (0..rows).step_by(BATCH_ROWS);
        let batch = |start: usize| {
            let rows = start..rows.min(start + BATCH_ROWS);
            let numbers: Vec<i64> = rows.clone().map(|_| random.random_range(0..KEYS as i64)).collect();
            let of_keys: ArrayRef = match keys {
                Keys::Texts => {
                    Arc::new(numbers.iter().map(|key| Some(format!("symbol#{key:09}"))).collect::<StringViewArray>())
                }
                Keys::Numbers | Keys::None => Arc::new(Int64Array::from(numbers.clone())),
            };
            let times = |offset: i64| -> ArrayRef {
                let times = rows.clone().map(|row| row as i64 * step + row as i64 * 7_919 % step + offset);
                Arc::new(TimestampMicrosecondArray::from_iter_values(times))
            };
            let values: ArrayRef = Arc::new(numbers.iter().map(|key| Some(key * 31 % 1_009)).collect::<Int64Array>());
            let columns = vec![of_keys, times(0), times(-REACH_MICROS), times(REACH_MICROS), values];
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of one length")
        };
        let batches = Arc::new(starts.map(batch).collect());
        Memory { schema, batches, next: AtomicUsize::new(0) }
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

/// The columns of each side.
const KEY: usize = 0;
const TIME: usize = 1;
const BEFORE: usize = 2;
const AFTER: usize = 3;
const VALUE: usize = 4;
const COLUMNS: usize = 5;

fn request(keys: Keys, choice: OrderedChoice) -> OrderedJoinRequest {
    let bound = |column| Some(OrderBound { column, inclusive: true, origin: None });
    let (lower, upper) = match choice {
        OrderedChoice::All | OrderedChoice::AllWithPrevailing => (bound(BEFORE), bound(AFTER)),
        _ => (None, bound(TIME)),
    };
    let (result, output, kinds) = match choice {
        OrderedChoice::All | OrderedChoice::AllWithPrevailing => {
            let average = Aggregate::new(named("avg"), Some((Expr::Column(VALUE), DataType::Int64)), DataType::Float64);
            let count = Aggregate::new(named("count"), None, DataType::Int64);
            let kinds = vec![time(), DataType::Float64, DataType::Int64];
            (OrderedResult::Aggregates(vec![average, count]), vec![TIME], kinds)
        }
        _ => (OrderedResult::Rows { inner: false }, vec![TIME, COLUMNS + VALUE], vec![time(), DataType::Int64]),
    };
    OrderedJoinRequest {
        on: if matches!(keys, Keys::None) { Vec::new() } else { vec![(KEY, KEY)] },
        nulls_equal: false,
        order: OrderRules { position: TIME, tie: None, lower, upper, choice },
        result,
        output,
        schema: Arc::new(Schema::new(kinds.into_iter().map(|kind| Field::new("x", kind, true)).collect::<Vec<_>>())),
        batch_rows: BATCH_ROWS,
        cancel: Cancel::new(),
        broker: Broker::new(16 << 30),
        temp: TempSpace::in_memory(),
    }
}

fn run(left: Arc<Memory>, right: Arc<Memory>, request: OrderedJoinRequest) -> (Duration, usize, u64) {
    let broker = request.broker.clone();
    let begun = Instant::now();
    let join = ordered_join(left, right, request).expect("a request that fits");
    let work = |share: Batches| share.map(|batch| batch.expect("no error").num_rows()).sum::<usize>();
    let rows: usize = std::thread::scope(|scope| {
        let share = || Arc::clone(&join).worker();
        let workers: Vec<_> = (0..THREADS).map(|_| share()).map(|share| scope.spawn(|| work(share))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    (begun.elapsed(), rows, broker.peak_bytes())
}

fn measure(name: &str, keys: Keys, sides: (&Memory, &Memory), choice: OrderedChoice) {
    if std::env::var("ROWMILL_JOIN").is_ok_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let best = |batches: usize| {
        let run = |_| run(sides.0.again(batches), sides.1.again(usize::MAX), request(keys, choice));
        (0..runs()).map(run).min().expect("a run")
    };
    let (built, ..) = best(0);
    let (all, rows, bytes) = best(usize::MAX);
    println!(
        "{name:32} {:.3} s, of which {:.3} s for the right side; {rows} rows, {} MB",
        all.as_secs_f64(),
        built.as_secs_f64(),
        bytes >> 20
    );
}

#[test]
#[ignore = "measures"]
fn ordered_joins_are_fast() {
    for keys in [Keys::Texts, Keys::Numbers, Keys::None] {
        let (left, right) = (Memory::new(LEFT_ROWS, keys, 1), Memory::new(RIGHT_ROWS, keys, 2));
        let sides = (&left, &right);
        measure(&format!("{keys:?}, last"), keys, sides, OrderedChoice::Last);
        measure(&format!("{keys:?}, nearest"), keys, sides, OrderedChoice::Nearest { to: TIME });
        measure(&format!("{keys:?}, avg and count"), keys, sides, OrderedChoice::All);
    }
}

/// The number of runs: `ROWMILL_RUNS`, or five. Only the best run counts.
fn runs() -> usize {
    std::env::var("ROWMILL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5)
}

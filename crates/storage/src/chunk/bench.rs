//! Measures speed and size: columns shaped like those of event tables are encoded and read back.
//!
//! Run it with `cargo test --release -p rowmill-storage chunk::bench -- --ignored --nocapture`. With `COLUMN=text` in
//! the environment, only columns with "text" in their name are measured.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::TimeUnit;

use super::*;
use crate::encoding::{ENCODINGS, EncodingRef};

const ROWS: usize = ROWS_MAX;
/// Rows of one read by a scan. Deliberately not a multiple of the vector size.
const BATCH: usize = 60_000;

/// Makes sessions: a few consecutive rows share a value, which is one of `distinct`.
fn sessions(rng: &mut SmallRng, rows: usize, distinct: u64) -> Vec<u64> {
    let mut left = 0;
    let mut value = 0;
    (0..rows)
        .map(|_| {
            if left == 0 {
                left = rng.random_range(1..12);
                value = rng.random_range(0..distinct).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
            left -= 1;
            value
        })
        .collect()
}

fn columns(rows: usize) -> Vec<(&'static str, SqlType, ArrayRef)> {
    let rng = &mut SmallRng::seed_from_u64(11);
    let mut out: Vec<(&'static str, SqlType, ArrayRef)> = Vec::new();
    let skewed = |rng: &mut SmallRng, most: f64| (most.powf(rng.random::<f64>()) - 1.0) as i64;

    let few: Int16Array = (0..rows).map(|_| Some(skewed(rng, 20.0) as i16)).collect();
    out.push(("i16, 20 values", SqlType::Int16, Arc::new(few)));
    let zeros: Int16Array =
        (0..rows).map(|_| Some(if rng.random_range(0..160) == 0 { rng.random_range(1..40) } else { 0 })).collect();
    out.push(("i16, 99.4 % zero", SqlType::Int16, Arc::new(zeros)));
    let zeros =
        sessions(rng, rows, 64).into_iter().map(|value| Some(if value >> 60 == 0 { (value >> 32) as i16 } else { 0 }));
    out.push(("i16, 94 % zero in runs", SqlType::Int16, Arc::new(zeros.collect::<Int16Array>())));
    let many: Int16Array = (0..rows).map(|_| Some(skewed(rng, 2000.0) as i16)).collect();
    out.push(("i16, 2000 values", SqlType::Int16, Arc::new(many)));
    let nulls: Int16Array = (0..rows).map(|_| (rng.random_range(0..10) > 0).then(|| rng.random_range(0..50))).collect();
    out.push(("i16, 10 % NULL", SqlType::Int16, Arc::new(nulls)));
    let runs: Int32Array = (0..rows).map(|row| Some((row / 700 * 37 % 5000) as i32)).collect();
    out.push(("i32, runs", SqlType::Int32, Arc::new(runs)));
    let regions: Int32Array = sessions(rng, rows, 5000).into_iter().map(|value| Some((value >> 40) as i32)).collect();
    out.push(("i32, 5000 values in sessions", SqlType::Int32, Arc::new(regions)));
    let addresses: Int32Array =
        sessions(rng, rows, 1 << 30).into_iter().map(|value| Some((value >> 32) as i32)).collect();
    out.push(("i32, one per session", SqlType::Int32, Arc::new(addresses)));
    let timings: Int32Array = (0..rows).map(|_| Some(skewed(rng, 60_000.0) as i32)).collect();
    out.push(("i32, 60000 skewed", SqlType::Int32, Arc::new(timings)));
    let users: Int64Array = sessions(rng, rows, 1 << 30).into_iter().map(|value| Some(value as i64)).collect();
    out.push(("i64, one per session", SqlType::Int64, Arc::new(users)));
    let unique: Int64Array = (0..rows).map(|_| Some(rng.random())).collect();
    out.push(("i64, unique", SqlType::Int64, Arc::new(unique)));
    let hashes: Int64Array =
        (0..rows).map(|_| Some(rng.random_range(0u64..250_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64)).collect();
    out.push(("i64, 40 % distinct", SqlType::Int64, Arc::new(hashes)));
    let ids: Int64Array = (0..rows as i64).map(|row| Some(row + 1_000_000)).collect();
    out.push(("i64, counting", SqlType::Int64, Arc::new(ids)));
    let outliers = [("i64, 1 % outliers", 100), ("i64, 4 % outliers", 25), ("i64, 0.1 % outliers", 1000)];
    for (name, one_in) in outliers {
        // Latencies in nanoseconds: up to 16 ms, and rarely up to a minute.
        let mut latency = |_| {
            let high = if rng.random_range(0..one_in) == 0 { 60_000_000_000 } else { 1 << 24 };
            Some(rng.random_range(1 << 20..high))
        };
        let latencies: Int64Array = (0..rows).map(&mut latency).collect();
        out.push((name, SqlType::Int64, Arc::new(latencies)));
    }
    let micros = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };
    // The end of a validity: most are known, others are in the year 9999.
    let ends = (0..rows as i64).map(|row| {
        let end = 1_372_636_800_000_000 + row * 5_000 + rng.random_range(0..86_400_000_000_i64);
        Some(if rng.random_range(0..40) == 0 { 253_402_300_799_000_000 } else { end })
    });
    out.push(("timestamp, 2.5 % outliers", micros.clone(), Arc::new(ends.collect::<TimestampMicrosecondArray>())));
    let seconds = (0..rows as i64).map(|row| {
        Some(1_372_636_800_000_000 + 1_000_000 * (row / 20_000 * 86_400 + row * 4 % 86_000 + rng.random_range(0..600)))
    });
    out.push(("timestamp of seconds", micros.clone(), Arc::new(seconds.collect::<TimestampMicrosecondArray>())));
    let events = (0..rows as i64).map(|row| Some(1_372_636_800_000_000 + row * 5_000 + rng.random_range(0..4_000)));
    out.push(("timestamp, sorted", micros, Arc::new(events.collect::<TimestampMicrosecondArray>())));
    let prices: Float64Array = (0..rows).map(|_| Some(f64::from(rng.random_range(1..1_000_000)) / 100.0)).collect();
    out.push(("f64, cents", SqlType::Float64, Arc::new(prices)));
    let noise: Float64Array = (0..rows).map(|_| Some(rng.random())).collect();
    out.push(("f64, noise", SqlType::Float64, Arc::new(noise)));
    let decimal = SqlType::Decimal { precision: 15, scale: 2 };
    let amounts: Decimal128Array = (0..rows).map(|_| Some(i128::from(rng.random_range(90_000..10_500_000)))).collect();
    out.push(("decimal(15,2)", decimal, Arc::new(amounts.with_precision_and_scale(15, 2).unwrap())));
    let flags: BooleanArray = (0..rows).map(|_| Some(rng.random_range(0..10) == 0)).collect();
    out.push(("boolean, 10 % true", SqlType::Boolean, Arc::new(flags)));
    let uuids = (0..rows).map(|_| rng.random::<u128>().to_be_bytes());
    out.push(("uuid", SqlType::Uuid, Arc::new(FixedSizeBinaryArray::try_from_iter(uuids).unwrap())));
    let empty: StringViewArray = (0..rows)
        .map(|_| {
            Some(if rng.random_range(0..20) == 0 {
                format!("phone {}", rng.random_range(0..166))
            } else {
                String::new()
            })
        })
        .collect();
    out.push(("text, 95 % empty", SqlType::TEXT, Arc::new(empty)));
    let urls: StringViewArray = sessions(rng, rows, 200_000)
        .into_iter()
        .map(|value| Some(format!("http://example.com/section/{}/page/{}.html?id={value}", value % 50, value % 7919)))
        .collect();
    out.push(("text, URLs in sessions", SqlType::TEXT, Arc::new(urls)));
    out
}

/// The seconds that this thread has run according to the kernel, or else the time since `clock` started. We prefer the
/// kernel's count, because the machine does other things too.
fn seconds(clock: Instant) -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = schedule.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| clock.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// The mean time of one call of `work`, repeated until `long` seconds have passed.
fn time_of<T>(long: f64, mut work: impl FnMut() -> T) -> (f64, T) {
    let clock = Instant::now();
    let mut result = work();
    if long == 0.0 {
        return (clock.elapsed().as_secs_f64(), result);
    }
    // The kernel's count moves in steps of some milliseconds, so we start to measure at the first step.
    let before = seconds(clock);
    let (mut start, mut now, mut times) = (before, before, 0);
    while now - start < long {
        result = work();
        now = seconds(clock);
        if start == before {
            (start, times) = (now, 0);
        } else {
            times += 1;
        }
    }
    ((now - start) / f64::from(times.max(1)), result)
}

fn measure(
    name: &str,
    kind: &SqlType,
    column: &ArrayRef,
    forced: Option<EncodingRef>,
    long: f64,
) -> Option<(f64, usize)> {
    let rows = column.len();
    let (encode_s, bytes) = time_of(long, || encode_as(column, kind, forced).unwrap());
    let bytes = bytes?;
    let stored = bytes.len();
    let chunk = Chunk::open(ChunkBytes::memory(bytes), kind).unwrap();
    let (verify_s, ()) = time_of(0.0, || chunk.verify().unwrap());
    let batches = || (0..rows).step_by(BATCH).map(|start| start..rows.min(start + BATCH));
    let (list_s, _) = time_of(0.0, || chunk.values().unwrap());
    let (read_s, ()) = time_of(long, || batches().for_each(|rows| drop(chunk.read(rows).unwrap())));
    let mut codes = Vec::new();
    let codes_s = chunk.has_values().then(|| {
        time_of(long, || {
            batches().for_each(|rows| {
                codes.clear();
                chunk.codes(rows, &mut codes).unwrap();
            });
        })
        .0
    });
    let wanted: Vec<u32> = (0..rows as u32).step_by(100).collect();
    let (take_s, _) = time_of(long, || chunk.take(&wanted).unwrap());
    println!(
        "{name:<30} {:<11} {:>6.2} {:>8.2} {:>7.2} {:>8.2} {:>8.0} {:>8} {:>8.1}",
        chunk.encoding_name(),
        8.0 * stored as f64 / rows as f64,
        encode_s * 1e3,
        verify_s * 1e3,
        list_s * 1e3,
        rows as f64 / read_s / 1e6,
        codes_s.map_or("-".to_owned(), |seconds| format!("{:.0}", rows as f64 / seconds / 1e6)),
        take_s * 1e9 / wanted.len() as f64,
    );
    Some((encode_s, stored))
}

/// The columns that `COLUMN` selects.
fn chosen() -> impl Iterator<Item = (&'static str, SqlType, ArrayRef)> {
    let wanted = std::env::var("COLUMN").unwrap_or_default();
    columns(ROWS).into_iter().filter(move |(name, ..)| name.contains(&wanted))
}

/// The columns of the first batch of the Arrow file that `ARROW_FILE` names, with the types that `COPY` would choose.
fn columns_of_file(path: &str) -> Vec<(String, SqlType, ArrayRef)> {
    let file = std::fs::File::open(path).unwrap();
    let batch = arrow::ipc::reader::FileReader::try_new(file, None).unwrap().next().unwrap().unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    columns
        .map(|(field, column)| {
            let kind = SqlType::from_arrow(field.data_type()).unwrap();
            (field.name().clone(), kind.clone(), arrow::compute::cast(column, &kind.arrow()).unwrap())
        })
        .collect()
}

fn head() {
    println!(
        "{:<30} {:<11} {:>6} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8}",
        "column", "encoding", "bits", "encode", "verify", "list", "read", "codes", "take"
    );
    println!(
        "{:<30} {:<11} {:>6} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8}",
        "", "", "/row", "ms", "ms", "ms", "M/s", "M/s", "ns/row"
    );
}

#[test]
#[ignore = "takes seconds"]
fn chosen_encodings() {
    head();
    for (name, kind, column) in chosen() {
        measure(name, &kind, &column, None, 0.05);
    }
}

#[test]
#[ignore = "takes seconds"]
fn every_encoding() {
    head();
    for (name, kind, column) in chosen() {
        for encoding in ENCODINGS {
            measure(name, &kind, &column, Some(encoding), 0.05);
        }
    }
}

#[test]
#[ignore = "needs a file"]
fn an_arrow_file() {
    head();
    let (mut stored, mut encode_s) = (0, 0.0);
    for (name, kind, column) in columns_of_file(&std::env::var("ARROW_FILE").unwrap()) {
        let (seconds, bytes) = measure(&name, &kind, &column, None, 0.03).unwrap();
        stored += bytes;
        encode_s += seconds;
    }
    println!("{stored} bytes, encoded in {encode_s:.3} s");
}

#[test]
fn the_benchmark_runs() {
    for (name, kind, column) in columns(2000) {
        measure(name, &kind, &column, None, 0.0);
    }
}

//! Measures each encoding: decoding all rows, picking some, and selecting the rows that pass a condition.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::Int32Type;
use criterion::{Criterion, Throughput};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::SqlType;
use rowmill_storage::RowMask;
use rowmill_storage::chunk::{Chunk, ChunkBytes, ValueSet, encode};

use crate::size;

/// For each encoding, a column that is stored in it.
fn columns(rows: usize) -> Vec<(&'static str, SqlType, ArrayRef)> {
    let rng = &mut SmallRng::seed_from_u64(5);
    let few: Int32Array = (0..rows).map(|_| Some(rng.random_range(0..20))).collect();
    let runs: Int32Array = (0..rows).map(|row| Some((row / 700 * 37 % 5_000) as i32)).collect();
    let zeros: Int32Array =
        (0..rows).map(|_| Some(if rng.random_range(0..200) == 0 { rng.random_range(1..40) } else { 0 })).collect();
    let near: Int64Array = (0..rows).map(|_| Some(rng.random_range(0..1 << 40))).collect();
    let mut time = 1_372_636_800_000_000_i64;
    let steps = (0..rows).map(|_| {
        time += rng.random_range(1..4_000);
        Some(time)
    });
    let steps: Int64Array = steps.collect();
    let far: Int64Array = (0..rows).map(|_| Some(rng.random())).collect();
    let cents: Float64Array = (0..rows).map(|_| Some(rng.random_range(1..1_i64 << 40) as f64 / 100.0)).collect();
    let texts = (0..rows).map(|row| Some(format!("{:x} is text {row}", rng.random::<u64>())));
    let texts: StringViewArray = texts.collect();
    let lists = (0..rows).map(|row| Some((0..row % 4).map(move |item| Some((row * item) as i32))));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    vec![
        ("constant", SqlType::Int32, Arc::new(Int32Array::from_value(7, rows))),
        ("list+codes", SqlType::Int32, Arc::new(few)),
        ("list+runs", SqlType::Int32, Arc::new(runs)),
        ("list+rows", SqlType::Int32, Arc::new(zeros)),
        ("frame", SqlType::Int64, Arc::new(near)),
        ("delta", SqlType::Int64, Arc::new(steps)),
        ("plain", SqlType::Int64, Arc::new(far)),
        ("decimal", SqlType::Float64, Arc::new(cents)),
        ("rows", SqlType::TEXT, Arc::new(texts)),
        ("nested", SqlType::List(Box::new(SqlType::Int32)), Arc::new(lists)),
    ]
}

/// The chunk of a column. Checks that it has the expected encoding.
fn chunk(encoding: &str, kind: &SqlType, column: &ArrayRef) -> Chunk {
    let column = arrow::compute::cast(column, &kind.arrow()).unwrap();
    let bytes = encode(&*column, kind).unwrap();
    let chunk = Chunk::open(ChunkBytes::memory(bytes), kind).unwrap();
    assert_eq!(chunk.encoding_name(), encoding, "{} rows of {kind}", column.len());
    chunk
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 18, 1 << 12);
    let tenth: Vec<u32> = (0..rows as u32).step_by(10).collect();
    let mut group = criterion.benchmark_group("encodings");
    group.throughput(Throughput::Elements(rows as u64));
    for (name, kind, column) in columns(rows) {
        let chunk = chunk(name, &kind, &column);
        group.bench_function(format!("{name}: read"), |bencher| {
            bencher.iter(|| black_box(chunk.read(0..rows).unwrap()))
        });
        group.bench_function(format!("{name}: take a tenth"), |bencher| {
            bencher.iter(|| black_box(chunk.take(&tenth).unwrap()));
        });
        // The condition: equal to the value of the middle row.
        let Some(set) = ValueSet::any_of(&kind, &column.slice(rows / 2, 1)) else { continue };
        group.bench_function(format!("{name}: select"), |bencher| {
            bencher.iter(|| {
                let mut mask = RowMask::all(0..rows);
                match chunk.codes_of(&set).unwrap() {
                    Some(codes) => chunk.retain_codes(&codes, &mut mask).unwrap(),
                    None => chunk.retain_values(&set, &mut mask).unwrap(),
                }
                assert!(mask.contains(rows / 2));
                mask
            });
        });
    }
    group.finish();
}

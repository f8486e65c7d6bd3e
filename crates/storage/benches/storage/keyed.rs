//! Measures keys and rows of keyed tables: one at a time, as transactions use them, and in batches, as scans do.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray};
use criterion::{Criterion, Throughput};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{SqlType, TimeUnit};
use rowmill_storage::keyed::{ByteRows, KeyCodec, KeyPart, RowLayout, RowView, ValueRef};

use crate::size;

const DECIMAL: SqlType = SqlType::Decimal { precision: 12, scale: 2 };
const TIMESTAMP: SqlType = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };

fn decimals(rows: usize, rng: &mut SmallRng) -> ArrayRef {
    let values = (0..rows).map(|_| Some(rng.random_range(0..1_000_000)));
    Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(12, 2).unwrap())
}

/// TPC-C's order lines: a key of three integers and a line number, and the other columns.
fn order_lines(rows: usize) -> (Vec<ArrayRef>, Vec<ArrayRef>) {
    let rng = &mut SmallRng::seed_from_u64(3);
    let ints = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
    let range = 0..rows as i32;
    let key = vec![
        ints(range.clone().map(|_| 1).collect()),
        ints(range.clone().map(|row| row / 10 % 10).collect()),
        ints(range.clone().map(|row| row / 100).collect()),
        ints(range.clone().map(|row| row % 10).collect()),
    ];
    let row: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(range.clone().map(|_| rng.random_range(1..100_000)))),
        Arc::new(Int64Array::from_iter_values(range.clone().map(|_| 1))),
        Arc::new(TimestampMicrosecondArray::from_iter(
            range.clone().map(|row| (row % 3 > 0).then_some(1_700_000_000_000_000 + i64::from(row))),
        )),
        ints(range.clone().map(|_| 5).collect()),
        decimals(rows, rng),
        Arc::new(StringViewArray::from_iter_values(range.map(|row| format!("{row:0>24}")))),
    ];
    (key, row)
}

fn row_kinds() -> [SqlType; 6] {
    [SqlType::Int32, SqlType::Int64, TIMESTAMP, SqlType::Int32, DECIMAL, SqlType::TEXT]
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(100_000, 2_000);
    let (key_columns, row_columns) = order_lines(rows);
    let mut group = criterion.benchmark_group("keyed");
    group.throughput(Throughput::Elements(rows as u64));

    let codec = KeyCodec::new(&[const { SqlType::Int32 }; 4].map(KeyPart::new)).unwrap();
    let mut bytes = Vec::new();
    group.bench_function("key: four integers, one at a time", |bencher| {
        bencher.iter(|| {
            for row in 0..rows as i64 {
                bytes.clear();
                let values = [1, row / 10 % 10, row / 100, row % 10].map(ValueRef::Int);
                codec.encode(&values, &mut bytes).unwrap();
                black_box(&bytes);
            }
        });
    });
    let mut keys = ByteRows::new();
    group.bench_function("key: four integers, from arrays", |bencher| {
        bencher.iter(|| {
            keys.clear();
            codec.encode_rows(&[0, 0, 0, 7], &key_columns, &mut keys).unwrap();
        });
    });
    let headless: Vec<&[u8]> = keys.iter().map(|key| &key[4..]).collect();
    let mut scratch = Vec::new();
    group.bench_function("key: four integers read, one at a time", |bencher| {
        bencher.iter(|| {
            for key in &headless {
                let mut reader = codec.reader(key);
                while let Some(value) = reader.next(&mut scratch).unwrap() {
                    black_box(value);
                }
            }
        });
    });
    group.bench_function("key: four integers, to arrays", |bencher| {
        bencher.iter(|| {
            for keys in headless.chunks(1024) {
                black_box(codec.decode_columns(keys, 0, &[true; 4]).unwrap());
            }
        });
    });
    let text = KeyPart { kind: SqlType::TEXT, nullable: true, descending: false };
    let by_text = KeyCodec::new(&[text, KeyPart::new(SqlType::Int64)]).unwrap();
    let text_columns = [Arc::clone(&row_columns[5]), Arc::clone(&row_columns[1])];
    let mut text_keys = ByteRows::new();
    group.bench_function("key: text and integer, from arrays", |bencher| {
        bencher.iter(|| {
            text_keys.clear();
            by_text.encode_rows(&[], &text_columns, &mut text_keys).unwrap();
        });
    });
    let text_keys: Vec<&[u8]> = text_keys.iter().collect();
    group.bench_function("key: text and integer, to arrays", |bencher| {
        bencher.iter(|| {
            for keys in text_keys.chunks(1024) {
                black_box(by_text.decode_columns(keys, 0, &[true; 2]).unwrap());
            }
        });
    });

    let layout = RowLayout::new(&row_kinds()).unwrap();
    group.bench_function("row: encoded one at a time", |bencher| {
        bencher.iter(|| {
            for row in 0..rows as i64 {
                bytes.clear();
                let values = [
                    ValueRef::Int(row),
                    ValueRef::Int(1),
                    ValueRef::Null,
                    ValueRef::Int(5),
                    ValueRef::Decimal(row.into()),
                    ValueRef::Text("twenty-four letters text"),
                ];
                layout.encode(&values, &mut bytes).unwrap();
                black_box(&bytes);
            }
        });
    });
    let mut encoded = ByteRows::new();
    group.bench_function("row: from arrays", |bencher| {
        bencher.iter(|| {
            encoded.clear();
            layout.encode_rows(rows, &row_columns, &mut encoded).unwrap();
        });
    });
    let encoded: Vec<&[u8]> = encoded.iter().collect();
    group.bench_function("row: one number read", |bencher| {
        bencher.iter(|| {
            let sum = |sum, row: &&[u8]| match RowView::new(&layout, row).unwrap().get(4).unwrap() {
                Some(ValueRef::Decimal(value)) => sum + value,
                _ => sum,
            };
            encoded.iter().fold(0, sum)
        });
    });
    group.bench_function("row: one text read", |bencher| {
        bencher.iter(|| {
            let sum = |sum, row: &&[u8]| match RowView::new(&layout, row).unwrap().get(5).unwrap() {
                Some(ValueRef::Text(value)) => sum + value.len(),
                _ => sum,
            };
            encoded.iter().fold(0, sum)
        });
    });
    let wanted = std::array::from_fn::<_, 6, _>(|column| (column, ValueRef::Null));
    for (name, wanted) in [("a number", &wanted[4..5]), ("a text", &wanted[5..]), ("all six", &wanted[..])] {
        group.bench_function(format!("row: {name} to arrays"), |bencher| {
            bencher.iter(|| {
                for rows in encoded.chunks(1024) {
                    black_box(layout.decode_columns(rows, wanted).unwrap());
                }
            });
        });
    }
    for (name, change) in [("number", (4, ValueRef::Decimal(77))), ("text", (5, ValueRef::Text("another text")))] {
        group.bench_function(format!("row: a {name} replaced"), |bencher| {
            bencher.iter(|| {
                for row in &encoded {
                    bytes.clear();
                    let row = RowView::new(&layout, row).unwrap();
                    layout.update(&row, std::iter::once(change), |_| ValueRef::Null, &mut bytes).unwrap();
                    black_box(&bytes);
                }
            });
        });
    }
    group.finish();
}

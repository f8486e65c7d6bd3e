//! Compares whole sorts with a model that sorts the rows' places by comparing values one by one.

use std::cmp::Ordering;
use std::sync::Arc;
use std::thread;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, RecordBatch, StringViewArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, make_comparator,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Field, Float32Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano, i256};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::ErrorKind;
use rowmill_storage::spill::TempSpace;

use super::*;
use crate::collect::collect;
use crate::test_input::{Failing, number_batch, number_schema, numbers, numbers_of};
use crate::values::ReadyBatches;

/// Makes columns of every type that can be a key, with few or many distinct values and NULLs. The first column numbers
/// the rows.
fn random_batch(rows: usize, random: &mut SmallRng) -> RecordBatch {
    let mut columns: Vec<(&str, ArrayRef)> = vec![("row", Arc::new(Int64Array::from_iter_values(0..rows as i64)))];
    macro_rules! primitive {
        ($($name:literal $array:ty: $value:expr;)*) => {
            $({
                let distinct = *[2, 50, u64::MAX].get(random.random_range(0..3)).expect("one of three");
                let mut value = || {
                    let number: u64 = random.random::<u64>() % distinct;
                    (random.random_range(0..10) > 0).then(|| $value(number))
                };
                columns.push(($name, Arc::new((0..rows).map(|_| value()).collect::<$array>())));
            })*
        };
    }
    primitive! {
        "bool" BooleanArray: |n| n % 2 == 0;
        "i8" Int8Array: |n| n as i8;
        "i16" Int16Array: |n| n as i16;
        "i32" Int32Array: |n| n as i32;
        "i64" Int64Array: |n| n as i64;
        "u8" UInt8Array: |n| n as u8;
        "u16" UInt16Array: |n| n as u16;
        "u32" UInt32Array: |n| n as u32;
        "u64" UInt64Array: |n| n;
        "f32" Float32Array: |n| float(n) as f32;
        "f64" Float64Array: float;
        "date" Date32Array: |n| n as i32;
        "time" Time64MicrosecondArray: |n| (n >> 20) as i64;
        "timestamp" TimestampMicrosecondArray: |n| n as i64;
        "interval" IntervalMonthDayNanoArray: |n| IntervalMonthDayNano::new(n as i32 % 5, n as i32 % 7, n as i64);
        "text" StringViewArray: text;
        "blob" BinaryViewArray: |n| text(n).into_bytes();
    }
    let decimals: Decimal128Array = (0..rows).map(|_| Some(random.random_range(-1_000_000..1_000_000))).collect();
    columns.push(("decimal", Arc::new(decimals.clone().with_precision_and_scale(12, 2).expect("twelve digits"))));
    columns.push(("wide", Arc::new(decimals.with_precision_and_scale(38, 2).expect("all digits"))));
    let longs = (0..rows)
        .map(|_| Some(i256::from_i128(random.random_range(-9..9)) << [0, 100, 200][random.random_range(0..3)]));
    columns.push(("long", Arc::new(longs.collect::<Decimal256Array>())));
    let uuids: Vec<[u8; 16]> = (0..=rows).map(|_| (random.random::<u128>() >> 123 << 70).to_be_bytes()).collect();
    let uuids = FixedSizeBinaryArray::try_from_iter(uuids.iter()).expect("sixteen bytes");
    columns.push(("uuid", Arc::new(uuids.slice(0, rows))));
    let lists = (0..rows).map(|_| Some(vec![Some(random.random_range(0..3)); random.random_range(0..3)]));
    columns.push(("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))));
    let text = Arc::clone(&columns[16].1);
    columns.push((
        "struct",
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("t", text.data_type().clone(), true)), text)])),
    ));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .expect("columns of one length")
}

fn float(number: u64) -> f64 {
    match number % 7 {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => -f64::NAN,
        4 => -(number as f64),
        _ => number as f64 / 3.0,
    }
}

/// Makes short and long texts. Many of them share a prefix, and some contain zero bytes in the middle or at the end.
fn text(number: u64) -> String {
    match number % 6 {
        0 => String::new(),
        1 => format!("{}", number % 1_000),
        2 => "a".repeat(number as usize % 30) + &"\0".repeat(number as usize % 3),
        3 => format!("https://example.org/a/path/that/all/have/in/common/{}/{}", number % 3, number % 1_000),
        4 => "twenty-four bytes, exact".to_owned() + &"x".repeat(number as usize % 50),
        _ => format!("ä{number}"),
    }
}

/// The columns to choose keys from: all except the row number and the nested columns at the end.
const KEY_COLUMNS: std::ops::Range<usize> = 1..21;

fn random_keys(random: &mut SmallRng) -> Vec<SortKey> {
    let count = *[1, 1, 1, 2, 2, 3, 6].get(random.random_range(0..7)).expect("one of seven");
    (0..count)
        .map(|_| SortKey {
            column: random.random_range(KEY_COLUMNS),
            descending: random.random(),
            nulls_first: random.random(),
        })
        .collect()
}

fn request(schema: &SchemaRef, keys: &[SortKey]) -> SortRequest {
    SortRequest {
        keys: keys.to_vec(),
        skip: 0,
        rows: None,
        schema: Arc::clone(schema),
        batch_rows: 100,
        cancel: Cancel::new(),
        broker: Broker::new(1 << 30),
        temp: TempSpace::in_memory(),
    }
}

/// Returns a function that compares two rows of a batch by `keys`.
fn comparator(batch: &RecordBatch, keys: &[SortKey]) -> impl Fn(usize, usize) -> Ordering + use<> {
    let compare: Vec<_> = keys
        .iter()
        .map(|key| {
            let column = one_zero(batch.column(key.column));
            make_comparator(&column, &column, options(key)).expect("a type that has an order")
        })
        .collect();
    move |left, right| {
        compare.iter().map(|compare| compare(left, right)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// Replaces -0.0 by 0.0 and every NaN by one NaN, because the sort treats them as equal.
fn one_zero(values: &ArrayRef) -> ArrayRef {
    if let Some(values) = values.as_primitive_opt::<Float64Type>() {
        return Arc::new(values.unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }));
    }
    if let Some(values) = values.as_primitive_opt::<Float32Type>() {
        return Arc::new(values.unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }));
    }
    Arc::clone(values)
}

/// Cuts rows into batches of different lengths. Some batches are empty.
fn cut(batch: &RecordBatch, random: &mut SmallRng) -> Arc<ReadyBatches> {
    let mut batches = Vec::new();
    let mut start = 0;
    while start < batch.num_rows() {
        let rows = random.random_range(0..200).min(batch.num_rows() - start);
        batches.push(batch.slice(start, rows));
        start += rows;
    }
    ReadyBatches::new(batch.schema(), batches)
}

/// Sorts `batch` in `threads` threads and compares the result with the model.
fn check(batch: &RecordBatch, request: SortRequest, threads: usize, random: &mut SmallRng) {
    let compare = comparator(batch, &request.keys);
    let mut expected: Vec<usize> = (0..batch.num_rows()).collect();
    expected.shuffle(random);
    expected.sort_by(|left, right| compare(*left, *right));
    let expected: Vec<usize> =
        expected.into_iter().skip(request.skip).take(request.rows.unwrap_or(usize::MAX)).collect();

    let (broker, temp, batch_rows) = (request.broker.clone(), request.temp.clone(), request.batch_rows);
    let is_spilled = random.random();
    broker.set_always_spills(is_spilled);
    // So little memory that runs on disk are merged in several steps.
    if is_spilled && random.random() {
        broker.set_limit_bytes(1 << 20);
    }
    let what = format!("{:?} {} {:?} {threads} {is_spilled}", request.keys, request.skip, request.rows);
    let sort: Arc<dyn BatchSource> = Sort::new(cut(batch, random), request).expect("keys with an order");
    let found = collect(&sort, threads).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found.iter().all(|found| (1..=batch_rows).contains(&found.num_rows())), "{what}");
    drop(sort);
    assert_eq!((broker.used_bytes(), temp.files().len(), temp.quota().used_bytes()), (0, 0, 0), "{what}");

    let found = concat_batches(&batch.schema(), &found).expect("batches of one schema");
    let rows: Vec<usize> =
        found.column(0).as_primitive::<Int64Type>().values().iter().map(|row| *row as usize).collect();
    assert_eq!(rows.len(), expected.len(), "{what}");
    for (position, (row, expected)) in rows.iter().zip(&expected).enumerate() {
        assert_eq!(compare(*row, *expected), Ordering::Equal, "{what} at {position}");
    }
    // Each row must be a complete row of the input, and no row may occur twice.
    let places = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
    assert_eq!(found, take_record_batch(batch, &places).expect("rows of the batch"), "{what}");
    let mut once = rows.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), rows.len(), "{what}");
}

#[test]
fn a_sort_returns_the_order_of_the_model() {
    let mut random = SmallRng::seed_from_u64(11);
    for round in 0..150 {
        let rows = *[0, 1, 30, 300, 3_000].get(round % 5).expect("one of five");
        let batch = random_batch(rows, &mut random);
        let keys = random_keys(&mut random);
        let mut request = request(&batch.schema(), &keys);
        request.batch_rows = if random.random() { 3 } else { 100 };
        check(&batch, request, random.random_range(1..=4), &mut random);
    }
}

#[test]
fn every_key_type_sorts_in_every_direction() {
    let mut random = SmallRng::seed_from_u64(12);
    let batch = random_batch(2_000, &mut random);
    for column in KEY_COLUMNS {
        for options in 0..4 {
            let keys = [SortKey { column, descending: options % 2 == 0, nulls_first: options < 2 }];
            check(&batch, request(&batch.schema(), &keys), 2, &mut random);
            let first = SortRequest { rows: Some(20), ..request(&batch.schema(), &keys) };
            check(&batch, first, 2, &mut random);
        }
    }
}

#[test]
fn skip_and_limit_return_the_rows_of_the_model() {
    let mut random = SmallRng::seed_from_u64(13);
    for round in 0..150 {
        let batch = random_batch(*[0, 10, 1_000, 5_000].get(round % 4).expect("one of four"), &mut random);
        let keys = random_keys(&mut random);
        let mut request = request(&batch.schema(), &keys);
        request.skip = *[0, 0, 7, 900, 6_000].get(random.random_range(0..5)).expect("one of five");
        request.rows = *[None, Some(0), Some(1), Some(10), Some(400), Some(TOP_ROWS_MAX), Some(usize::MAX)]
            .get(random.random_range(0..7))
            .expect("one of seven");
        check(&batch, request, random.random_range(1..=4), &mut random);
    }
}

#[test]
fn better_rows_replace_earlier_ones_in_a_top_sort() {
    let keys = [SortKey { column: 0, descending: true, nulls_first: false }];
    let request = SortRequest { rows: Some(50), skip: 3, ..request(&number_schema(), &keys) };
    let sort: Arc<dyn BatchSource> = Sort::new(numbers(0..20_000, 33), request).expect("a number has an order");
    let found = numbers_of(&collect(&sort, 2).expect("nothing fails"));
    assert_eq!(found, (19_947..19_997).rev().collect::<Vec<_>>());
}

#[test]
fn nested_values_can_be_keys() {
    let mut random = SmallRng::seed_from_u64(14);
    let batch = random_batch(1_000, &mut random);
    let keys = [SortKey { column: 21, descending: false, nulls_first: false }];
    check(&batch, request(&batch.schema(), &keys), 2, &mut random);
    check(&batch, SortRequest { rows: Some(9), ..request(&batch.schema(), &keys) }, 2, &mut random);
}

#[test]
fn one_worker_returns_the_whole_result() {
    let keys = [SortKey { column: 0, descending: true, nulls_first: false }];
    let sort = Sort::new(numbers(0..5_000, 10), request(&number_schema(), &keys)).expect("a number has an order");
    let shares: Vec<Vec<RecordBatch>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| (Arc::clone(&sort) as Arc<dyn BatchSource>).worker().map(|b| b.expect("fine")).collect())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let given: Vec<&Vec<RecordBatch>> = shares.iter().filter(|share| !share.is_empty()).collect();
    assert_eq!(given.len(), 1);
    assert_eq!(numbers_of(given[0]), (0..5_000).rev().collect::<Vec<_>>());
    assert!(sort.worker().next().is_none(), "a late worker finds nothing");
}

#[test]
fn an_error_of_the_input_reaches_every_worker() {
    for rows in [None, Some(10)] {
        let keys = [SortKey { column: 0, descending: false, nulls_first: false }];
        let request = SortRequest { rows, ..request(&number_schema(), &keys) };
        let broker = request.broker.clone();
        let sort = Sort::new(Arc::new(Failing(numbers(0..5_000, 10))), request).expect("a number has an order");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut share = (Arc::clone(&sort) as Arc<dyn BatchSource>).worker();
                    let error = share.next().expect("an error").expect_err("an error");
                    assert_eq!(error.kind(), ErrorKind::Io);
                    assert!(share.next().is_none());
                });
            }
        });
        assert_eq!(broker.used_bytes(), 0);
    }
}

/// A source that panics.
#[derive(Debug)]
struct Panicking(Arc<ReadyBatches>);

impl BatchSource for Panicking {
    fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn worker(self: Arc<Self>) -> Batches {
        panic!("a bug");
    }
}

#[test]
fn a_panic_ends_the_sort_for_all() {
    let keys = [SortKey { column: 0, descending: false, nulls_first: false }];
    let input = Arc::new(Panicking(numbers(0..10, 10)));
    let sort = Sort::new(input, request(&number_schema(), &keys)).expect("a number has an order");
    thread::scope(|scope| {
        let bug = scope.spawn(|| (Arc::clone(&sort) as Arc<dyn BatchSource>).worker().next());
        assert!(bug.join().is_err());
        let mut share = (Arc::clone(&sort) as Arc<dyn BatchSource>).worker();
        assert_eq!(share.next().expect("an error").unwrap_err().kind(), ErrorKind::Internal);
    });
}

#[test]
fn dropping_a_share_early_ends_the_helping_workers() {
    let keys = [SortKey { column: 0, descending: false, nulls_first: false }];
    let request = request(&number_schema(), &keys);
    let broker = request.broker.clone();
    let sort = Sort::new(numbers(0..100_000, 1_000), request).expect("a number has an order");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut share = (Arc::clone(&sort) as Arc<dyn BatchSource>).worker();
                let first = share.next().transpose().expect("nothing fails");
                assert!(first.is_none_or(|first| numbers_of(&[first])[0] == 0));
            });
        }
    });
    assert!((Arc::clone(&sort) as Arc<dyn BatchSource>).worker().next().is_none());
    assert_eq!(broker.used_bytes(), 0);
}

#[test]
fn rows_that_do_not_fit_memory_are_sorted_on_disk() {
    let keys = [SortKey { column: 0, descending: true, nulls_first: false }];
    for (skip, rows) in [(0, None), (300_000, None), (0, Some(250_000)), (499_000, Some(70_000))] {
        let limited = SortRequest { skip, rows, broker: Broker::new(4_000_000), ..request(&number_schema(), &keys) };
        let (broker, temp) = (limited.broker.clone(), limited.temp.clone());
        let sort: Arc<dyn BatchSource> = Sort::new(numbers(0..500_000, 1_000), limited).expect("an order");
        let found = numbers_of(&collect(&sort, 2).expect("the disk has room"));
        let expected = (0..500_000).rev().skip(skip).take(rows.unwrap_or(usize::MAX));
        assert!(found.into_iter().eq(expected), "{skip} {rows:?}");
        assert!(temp.quota().peak_bytes() > 0);
        drop(sort);
        assert_eq!((broker.used_bytes(), temp.files().len()), (0, 0));
    }
}

#[test]
fn the_disk_limit_and_cancelling_end_the_sort() {
    let keys = [SortKey { column: 0, descending: false, nulls_first: false }];
    let temp = TempSpace::on_disk(rowmill_io::MemoryDisk::new(), 1 << 20);
    let limited =
        SortRequest { broker: Broker::new(4_000_000), temp: temp.clone(), ..request(&number_schema(), &keys) };
    let broker = limited.broker.clone();
    let sort: Arc<dyn BatchSource> = Sort::new(numbers(0..1_000_000, 1_000), limited).expect("an order");
    let error = collect(&sort, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.message().contains("ORDER BY"), "{error}");
    drop(sort);
    assert_eq!((broker.used_bytes(), temp.files().len(), temp.quota().used_bytes()), (0, 0, 0));

    let few = SortRequest { rows: Some(10), broker: Broker::new(50_000), ..request(&number_schema(), &keys) };
    let sort: Arc<dyn BatchSource> = Sort::new(numbers(0..100_000, 1_000), few).expect("a number has an order");
    assert_eq!(numbers_of(&collect(&sort, 2).expect("ten rows fit")), (0..10).collect::<Vec<_>>());

    let cancelled = request(&number_schema(), &keys);
    cancelled.cancel.cancel();
    let sort: Arc<dyn BatchSource> = Sort::new(numbers(0..100, 10), cancelled).expect("a number has an order");
    assert_eq!(collect(&sort, 2).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_sort_of_no_rows_returns_no_batches() {
    let keys = [SortKey { column: 0, descending: false, nulls_first: false }];
    for rows in [None, Some(5)] {
        let request = SortRequest { rows, ..request(&number_schema(), &keys) };
        let empty = ReadyBatches::new(number_schema(), vec![number_batch([])]);
        let sort: Arc<dyn BatchSource> = Sort::new(empty, request).expect("a number has an order");
        assert!(collect(&sort, 3).expect("nothing fails").is_empty());
    }
    // The sort must read nothing if no rows are asked for. This source would panic.
    let request = SortRequest { rows: Some(0), ..request(&number_schema(), &keys) };
    let sort: Arc<dyn BatchSource> = Sort::new(Arc::new(Panicking(numbers(0..1, 1))), request).expect("an order");
    assert!(collect(&sort, 1).expect("nothing fails").is_empty());
}

#[test]
fn texts_that_use_little_of_their_buffers_are_copied() {
    let long: Vec<String> = (0..10_000).map(|row| format!("{row:05} and so on, longer than a view can hold")).collect();
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(&long));
    let batch = RecordBatch::try_from_iter([("s", texts)]).expect("one column");
    let keys = [SortKey { column: 0, descending: true, nulls_first: false }];
    let request = SortRequest { rows: Some(3), ..request(&batch.schema(), &keys) };
    let sort: Arc<dyn BatchSource> =
        Sort::new(ReadyBatches::new(batch.schema(), vec![batch]), request).expect("an order");
    let found = collect(&sort, 1).expect("nothing fails");
    let texts = found[0].column(0).as_string_view();
    assert_eq!(texts.value(2), long[9_997]);
    assert!(texts.get_buffer_memory_size() < 1_000);
}

#[test]
fn slices_of_large_buffers_do_not_keep_them_alive() {
    let large = number_batch((0..5_000_000).rev());
    let slices = (0..100).map(|slice| large.slice(slice * 50_000, 100)).collect();
    let keys = [SortKey { column: 0, descending: false, nulls_first: false }];
    let limited = SortRequest { broker: Broker::new(5_000_000), ..request(&number_schema(), &keys) };
    let sort: Arc<dyn BatchSource> = Sort::new(ReadyBatches::new(number_schema(), slices), limited).expect("an order");
    let found = numbers_of(&collect(&sort, 2).expect("ten thousand numbers fit"));
    assert!(found.is_sorted() && found.len() == 10_000);
}

//! Runs one test suite over every encoding: all types, shapes of values and NULL patterns, with each encoding forced in
//! turn.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::make_comparator;
use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, IntervalMonthDayNano, IntervalMonthDayNanoType, i256};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel, ColumnId, ErrorKind, LengthUnit, NUMBERED_TYPES, TimeUnit};
use rowmill_io::{Disk, MemoryDisk, OpenMode};

use super::head::{FIXED_BYTES, PIECE_BYTES};
use super::*;
use crate::RowMask;
use crate::block::StoredChunk;
use crate::column_file::ColumnFile;
use crate::encoding::{ENCODINGS, EncodingRef, newest_since};
use crate::extent::Extent;
use crate::sequence::Word;
use crate::strings::{ByteStrings, StringWindow};

/// The shape of the values of a column.
#[derive(Clone, Copy, Debug)]
enum ColumnShape {
    Constant,
    Few,
    Runs,
    Dominated,
    DominatedRuns,
    Sequence,
    Sorted,
    Falling,
    Seconds,
    Narrow,
    Medium,
    Wide,
    Outliers,
    Extremes,
}

const SHAPES: [ColumnShape; 14] = [
    ColumnShape::Constant,
    ColumnShape::Few,
    ColumnShape::Runs,
    ColumnShape::Dominated,
    ColumnShape::DominatedRuns,
    ColumnShape::Sequence,
    ColumnShape::Sorted,
    ColumnShape::Falling,
    ColumnShape::Seconds,
    ColumnShape::Narrow,
    ColumnShape::Medium,
    ColumnShape::Wide,
    ColumnShape::Outliers,
    ColumnShape::Extremes,
];

fn integers(shape: ColumnShape, rows: usize, rng: &mut SmallRng) -> Vec<i128> {
    let start: i64 = rng.random_range(-1000..1000);
    let mut last = i128::from(start);
    (0..rows)
        .map(|row| {
            let row = row as i128;
            last = match shape {
                ColumnShape::Constant => last,
                ColumnShape::Few => i128::from(start) + 3 * rng.random_range(0..7),
                ColumnShape::Runs if rng.random_range(0..40) > 0 => last,
                ColumnShape::Runs => rng.random_range(0..100),
                // About one row in 50 leaves the common value.
                ColumnShape::Dominated if rng.random_range(0..50) > 0 => 0,
                ColumnShape::Dominated => rng.random_range(-20..20),
                // Every 11th stretch of 60 rows is a run of another value, and the rest is the common value 0.
                ColumnShape::DominatedRuns if (row / 60) % 11 == 3 => 1 + (row / 600) % 3,
                ColumnShape::DominatedRuns => 0,
                ColumnShape::Sequence => last + 1,
                ColumnShape::Sorted => last + rng.random_range(0..4),
                ColumnShape::Falling => last - rng.random_range(0..300),
                ColumnShape::Seconds => 1_000_000 * (1_700_000_000 + i128::from(rng.random::<u16>())),
                ColumnShape::Narrow => 1_000_000 + i128::from(rng.random::<u8>()) * 5,
                ColumnShape::Medium => 9 - rng.random_range(0..4000),
                ColumnShape::Wide => rng.random(),
                ColumnShape::Outliers if rng.random_range(0..200) > 0 => rng.random_range(0..10),
                ColumnShape::Outliers => i128::from(rng.random::<i64>()),
                ColumnShape::Extremes => {
                    [0, 1, -1, i128::MIN, i128::MAX, 127, -128, i128::from(i64::MAX), i128::from(i64::MIN)]
                        [rng.random_range(0..9)]
                }
            };
            last
        })
        .collect()
}

fn is_null(pattern: u8, row: usize, rng: &mut SmallRng) -> bool {
    match pattern {
        0 => false,
        1 => rng.random_range(0..10) == 0,
        2 => (row / 300).is_multiple_of(2),
        3 => row % 700 != 5,
        _ => true,
    }
}

fn kinds() -> Vec<SqlType> {
    let timestamp = |unit, zoned| SqlType::Timestamp { unit, zoned };
    let mut kinds = vec![
        SqlType::Boolean,
        SqlType::Int8,
        SqlType::Int16,
        SqlType::Int32,
        SqlType::Int64,
        SqlType::UInt8,
        SqlType::UInt16,
        SqlType::UInt32,
        SqlType::UInt64,
        SqlType::Float32,
        SqlType::Float64,
        SqlType::Decimal { precision: 38, scale: 7 },
        SqlType::Decimal { precision: 76, scale: 40 },
        SqlType::Date,
        SqlType::Time,
        timestamp(TimeUnit::Second, false),
        timestamp(TimeUnit::Microsecond, true),
        timestamp(TimeUnit::Nanosecond, false),
        SqlType::Interval,
        SqlType::TEXT,
        SqlType::Blob,
        SqlType::Uuid,
        SqlType::Json,
        SqlType::List(Box::new(SqlType::Int32)),
        SqlType::Struct(vec![("a".to_owned(), SqlType::Int64), ("b".to_owned(), SqlType::TEXT)]),
    ];
    kinds.extend(NUMBERED_TYPES.iter().map(|kind| SqlType::Numbered(kind)));
    kinds
}

/// Makes a column of `kind` from integers.
fn column(kind: &SqlType, values: &[Option<i128>]) -> ArrayRef {
    macro_rules! primitive {
        ($native:ty) => {
            PrimitiveArray::from_iter(values.iter().map(|value| value.map(|value| value as $native)))
        };
    }
    // The fillers have 1 to 3 bytes per character. One is longer than 64 bytes, so zone bounds must be cut inside it.
    let text = |value: i128| {
        let filler = ["", "äöü ", "一个相当长的字符串，用来超过边界的长度，因此它必须被截断", "plain text"];
        format!("{}{value}", filler[(value.unsigned_abs() % 4) as usize])
    };
    match kind {
        SqlType::Boolean => {
            Arc::new(BooleanArray::from_iter(values.iter().map(|value| value.map(|value| value % 2 != 0))))
        }
        SqlType::Int8 => Arc::new(Int8Array::from_iter(values.iter().map(|value| value.map(|value| value as i8)))),
        SqlType::Int16 => Arc::new(Int16Array::from_iter(values.iter().map(|value| value.map(|value| value as i16)))),
        SqlType::Int32 => Arc::new(Int32Array::from_iter(values.iter().map(|value| value.map(|value| value as i32)))),
        SqlType::UInt8 => Arc::new(UInt8Array::from_iter(values.iter().map(|value| value.map(|value| value as u8)))),
        SqlType::UInt16 => Arc::new(UInt16Array::from_iter(values.iter().map(|value| value.map(|value| value as u16)))),
        SqlType::UInt32 => Arc::new(UInt32Array::from_iter(values.iter().map(|value| value.map(|value| value as u32)))),
        SqlType::UInt64 => Arc::new(UInt64Array::from_iter(values.iter().map(|value| value.map(|value| value as u64)))),
        SqlType::Date => Arc::new(Date32Array::from_iter(values.iter().map(|value| value.map(|value| value as i32)))),
        SqlType::Int64 | SqlType::Time | SqlType::Timestamp { .. } => {
            let data: Int64Array = primitive!(i64);
            make_array(data.into_data().into_builder().data_type(kind.arrow()).build().unwrap())
        }
        SqlType::Float32 => {
            Arc::new(Float32Array::from_iter(values.iter().map(|value| value.map(|value| float(value) as f32))))
        }
        SqlType::Float64 => Arc::new(Float64Array::from_iter(values.iter().map(|value| value.map(float)))),
        SqlType::Decimal { .. } | SqlType::Numbered(_) if Physical::of(kind) == Physical::Wide => {
            // Small values stay small, and large ones need more than 128 bits.
            let wide = |value: i128| match i64::try_from(value) {
                Ok(_) => i256::from_i128(value),
                Err(_) => i256::from_i128(value).wrapping_mul(i256::from_i128(10_i128.pow(30))),
            };
            let data: Decimal256Array = values.iter().map(|value| value.map(wide)).collect();
            Arc::new(data.with_data_type(kind.arrow()))
        }
        SqlType::Decimal { .. } | SqlType::Numbered(_) => {
            let data: Decimal128Array = values.iter().copied().collect();
            Arc::new(data.with_data_type(kind.arrow()))
        }
        SqlType::Interval => {
            Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from_iter(values.iter().map(|value| {
                value.map(|value| IntervalMonthDayNano::new(value as i32, (value >> 32) as i32, (value >> 64) as i64))
            })))
        }
        SqlType::Text { .. } => Arc::new(StringViewArray::from_iter(values.iter().map(|value| value.map(text)))),
        SqlType::Blob => Arc::new(BinaryViewArray::from_iter(
            values.iter().map(|value| value.map(|value| value.to_le_bytes()[..(value & 15) as usize].to_vec())),
        )),
        SqlType::Uuid => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                values.iter().map(|value| value.map(|value| value.to_be_bytes())),
                16,
            )
            .unwrap(),
        ),
        SqlType::List(_) => {
            let mut builder = ListBuilder::new(Int32Builder::new());
            for value in values {
                match value {
                    Some(value) => builder.append_value((0..value % 4).map(|item| Some(item as i32))),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        SqlType::Json => {
            let arrow::datatypes::DataType::Struct(fields) = kind.arrow() else { unreachable!("JSON is a struct") };
            let texts = values.iter().map(|value| value.map(|value| format!("{{\"a\": {value}}}")));
            let nulls = NullBuffer::from_iter(values.iter().map(Option::is_some));
            let texts = Arc::new(StringViewArray::from_iter(texts));
            Arc::new(StructArray::try_new(fields, vec![texts], Some(nulls)).unwrap())
        }
        SqlType::Struct(_) => {
            let arrow::datatypes::DataType::Struct(fields) = kind.arrow() else { unreachable!("a struct is a struct") };
            let columns = vec![column(&SqlType::Int64, values), column(&SqlType::TEXT, values)];
            let nulls = NullBuffer::from_iter(values.iter().map(Option::is_some));
            Arc::new(StructArray::try_new_with_length(fields, columns, Some(nulls), values.len()).unwrap())
        }
    }
}

/// Maps an integer to a float. Most become short decimals. NaN, infinity and 1/3 should be stored as exceptions.
fn float(value: i128) -> f64 {
    match value {
        0 => 0.0,
        -1 => f64::NAN,
        -128 => f64::INFINITY,
        7 => 1.0 / 3.0,
        _ => value as f64 / 100.0,
    }
}

fn open(bytes: Vec<u8>, kind: &SqlType) -> Result<Chunk> {
    Chunk::open(ChunkBytes::memory(bytes), kind)
}

/// Encodes the column in every encoding that suits it, and once more in the encoding that the writer chooses itself.
fn encodings(column: &ArrayRef, kind: &SqlType) -> Vec<(Option<EncodingRef>, Vec<u8>)> {
    let forced = ENCODINGS.into_iter().map(Some).chain([None]);
    forced.filter_map(|forced| Some((forced, encode_as(column, kind, forced).unwrap()?))).collect()
}

/// Compares the answers of every possible chunk of `column` with the array. Value sets are also made of the values in
/// `others`, because the column may lack them.
fn check_column(column: &ArrayRef, others: &ArrayRef, kind: &SqlType) {
    let chunks = encodings(column, kind);
    assert!(chunks.iter().any(|(forced, _)| forced.is_none()), "no encoding for {kind}");
    for (forced, mut bytes) in chunks {
        let stored = bytes.len();
        // On disk a chunk is padded with zeros to whole pages.
        bytes.resize(stored.next_multiple_of(4096), 0);
        let chunk = open(bytes.clone(), kind).unwrap();
        let name = format!("{kind} as {}", chunk.encoding_name());
        assert!(forced.is_none_or(|forced| forced == chunk.encoding()));
        assert_eq!(chunk.head.body.end, stored);
        // Single rows must come first: a chunk looks strings up one by one only until its value list is decoded.
        check_take(&chunk, column, &name);
        check_integers(&chunk, column, &name);
        check_rows(&chunk, column, &name);
        check_values(&chunk, &bytes, column, &name);
        check_zone(&chunk, column, &name);
        open(bytes.clone(), kind).unwrap().check(&Cancel::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        check_sets(&open(bytes, kind).unwrap(), column, others, &name);
    }
}

fn check_rows(chunk: &Chunk, column: &ArrayRef, name: &str) {
    let rows = column.len();
    assert_eq!((chunk.rows(), chunk.null_count()), (rows, column.null_count()), "{name}");
    for start in [0, 1, rows / 3, 1000, 1024, rows.saturating_sub(1)] {
        for end in [start, start + 1, start + 1024, rows / 2, rows] {
            if start <= end && end <= rows {
                let read = chunk.read(start..end).unwrap();
                assert_eq!(read.data_type(), column.data_type());
                assert_eq!(&read, &column.slice(start, end - start), "{name}: rows {start}..{end}");
            }
        }
    }
    assert_eq!(chunk.read(0..rows + 1).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(chunk.take(&[rows as u32]).unwrap_err().kind(), ErrorKind::Internal);
}

fn check_take(chunk: &Chunk, column: &ArrayRef, name: &str) {
    let rows = column.len();
    for step in [1030, 50, 3, 1] {
        let wanted: Vec<u32> = (0..rows as u32).step_by(step).collect();
        let expected = take(column, &UInt32Array::from(wanted.clone()), None).unwrap();
        assert_eq!(&chunk.take(&wanted).unwrap(), &expected, "{name}: every {step}th row");
    }
}

/// Reads the column as 64-bit integers. Skips columns whose type is neither an integer nor a decimal.
fn check_integers(chunk: &Chunk, column: &ArrayRef, name: &str) {
    let rows = column.len();
    let is_integer = column.data_type().is_integer() || matches!(column.data_type(), DataType::Decimal128(..));
    // The reader should append, so it should keep this first number.
    let mut found = vec![7];
    if !is_integer {
        return;
    }
    let wide = arrow::compute::cast(column, &DataType::Decimal128(38, 0)).unwrap();
    let column = match column.data_type() {
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>(),
        _ => wide.as_primitive::<Decimal128Type>(),
    };
    chunk.integers(0..rows, &mut found).unwrap();
    let is_right = |(row, found): (usize, &i64)| column.is_null(row) || *found == column.value(row) as i64;
    assert!(found[0] == 7 && found[1..].iter().enumerate().all(is_right), "{name}: integers");
    for step in [1030, 50, 3, 1] {
        let wanted: Vec<u32> = (0..rows as u32).step_by(step).collect();
        found.clear();
        chunk.take_integers(&wanted, &mut found).unwrap();
        assert_eq!(found.len(), wanted.len());
        assert!(wanted.iter().map(|row| *row as usize).zip(&found).all(is_right), "{name}: every {step}th integer");
    }
}

fn check_values(chunk: &Chunk, bytes: &[u8], column: &ArrayRef, name: &str) {
    let Some(values) = chunk.values().unwrap() else {
        assert_eq!(chunk.counts().unwrap(), None);
        assert!(chunk.codes(0..chunk.rows(), &mut Vec::new()).is_err());
        return;
    };
    let counts = chunk.counts().unwrap().unwrap();
    assert_eq!(chunk.distinct(), Some(values.len()), "{name}");
    assert_eq!(values.null_count(), 0);
    assert_eq!(counts.len(), values.len());
    assert_eq!(values.data_type(), column.data_type());
    // The list must ascend without repetitions, because readers search it.
    let order = make_comparator(&values, &values, Default::default()).unwrap();
    assert!((1..values.len()).all(|place| order(place - 1, place).is_lt()), "{name}: values ascend");

    let mut codes = Vec::new();
    chunk.codes(0..chunk.rows(), &mut codes).unwrap();
    let mut counted = vec![0; values.len() + 1];
    codes.iter().for_each(|code| counted[*code as usize] += 1);
    assert_eq!(counted.pop(), Some(column.null_count() as u32), "{name}");
    assert_eq!(counted, counts, "{name}");
    let places =
        UInt32Array::from_iter(codes.iter().map(|code| Some(*code).filter(|code| (*code as usize) < values.len())));
    assert_eq!(&take(&values, &places, None).unwrap(), column, "{name}: values by code");

    let (start, end) = (chunk.rows() / 3, chunk.rows() / 3 * 2);
    let mut part = vec![7];
    chunk.codes(start..end, &mut part).unwrap();
    assert_eq!(part[1..], codes[start..end], "{name}");
    for step in [9, 97] {
        let rows: Vec<u32> = (0..chunk.rows() as u32).step_by(step).collect();
        let mut taken = Vec::new();
        chunk.take_codes(&rows, &mut taken).unwrap();
        assert_eq!(taken.len(), rows.len(), "{name}");
        assert!(rows.iter().zip(&taken).all(|(row, code)| codes[*row as usize] == *code), "{name}");
    }
    check_lengths(chunk, &values, name);
    // The first chunk has decoded its list by now. This one should answer from the stored bytes.
    let fresh = open(bytes.to_vec(), chunk.kind()).unwrap();
    check_lengths(&fresh, &values, name);
    check_picks(&fresh, column, &values, &counts, name);
    check_picks(chunk, column, &values, &counts, name);

    let any_null = usize::from(column.null_count() > 0);
    let patterns: [fn(usize) -> bool; 5] =
        [|code| code.is_multiple_of(3), |code| !code.is_multiple_of(3), |code| code == 1, |code| code > 2, |_| true];
    for truth in patterns {
        let truth: Vec<bool> = (0..values.len() + any_null).map(truth).collect();
        let set = CodeSet::of_truth(truth.clone());
        assert_eq!(set.to_truth(), truth);
        let expected = |row: usize| truth[codes[row] as usize];
        check_masks(chunk.rows(), &expected, &mut |mask| chunk.retain_codes(&set, mask).unwrap(), name);
        assert_eq!(chunk.rows_of(&set).unwrap(), (0..codes.len()).filter(|row| expected(*row)).count(), "{name}");
    }
}

/// Compares the lengths of `values` with the answers of the chunk.
fn check_lengths(chunk: &Chunk, values: &ArrayRef, name: &str) {
    let bytes = chunk.lengths(LengthUnit::Bytes).unwrap();
    let characters = chunk.lengths(LengthUnit::Characters).unwrap();
    if let Some(texts) = values.as_string_view_opt() {
        assert!(bytes.unwrap().into_iter().eq(texts.iter().flatten().map(|text| text.len() as u32)), "{name}");
        let expected = texts.iter().flatten().map(|text| text.chars().count() as u32);
        assert!(characters.unwrap().into_iter().eq(expected), "{name}");
    } else {
        let blobs = values.as_binary_view_opt();
        assert_eq!(bytes, blobs.map(|blobs| blobs.iter().flatten().map(|blob| blob.len() as u32).collect()), "{name}");
        assert_eq!(characters, None, "{name}");
    }
}

/// Reads some of `values` by code and by row.
fn check_picks(chunk: &Chunk, column: &ArrayRef, values: &ArrayRef, counts: &[u32], name: &str) {
    let nulls = u32::from(column.null_count() > 0);
    for step in [50, 7, 1] {
        // The list always includes the last code, which is the code of NULL.
        let mut picked: Vec<u32> = (0..values.len() as u32 + nulls).rev().step_by(step).collect();
        picked.reverse();
        let places = UInt32Array::from_iter(
            picked.iter().map(|code| Some(*code).filter(|code| (*code as usize) < values.len())),
        );
        assert_eq!(&chunk.values_at(&picked).unwrap(), &take(values, &places, None).unwrap(), "{name}");
        let expected =
            picked.iter().map(|code| counts.get(*code as usize).copied().unwrap_or(column.null_count() as u32));
        assert!(chunk.take_counts(&picked).unwrap().into_iter().eq(expected), "{name}");
    }
    let codes = values.len() + nulls as usize;
    for slice in [0..codes, 0..0, codes / 3..codes, codes / 5..codes / 2, codes..codes] {
        let picked: Vec<u32> = (slice.start as u32..slice.end as u32).collect();
        let found = chunk.values_in(slice.clone()).unwrap();
        assert_eq!(&found, &chunk.values_at(&picked).unwrap(), "{name}: values {slice:?}");
        assert_eq!(chunk.counts_in(slice.clone()).unwrap(), chunk.take_counts(&picked).unwrap(), "{name}: {slice:?}");
    }
    assert!(chunk.values_in(0..codes + 1).is_err() && chunk.counts_in(codes..codes + 1).is_err(), "{name}");
    for step in [300, 5] {
        let rows: Vec<u32> = (0..chunk.rows() as u32).step_by(step).collect();
        let (values, codes) = chunk.take_listed(&rows).unwrap().unwrap();
        let expected = take(column, &UInt32Array::from(rows), None).unwrap();
        assert!((0..values.len() as u32).all(|code| codes.contains(&code)), "{name}: a value that no row has");
        assert_eq!(&take(&values, &UInt32Array::from(codes), None).unwrap(), &expected, "{name}");
    }
}

/// Calls `retain` with masks of several shapes. It should leave exactly the rows for which `is_in` is true.
fn check_masks(rows: usize, is_in: &dyn Fn(usize) -> bool, retain: &mut dyn FnMut(&mut RowMask), name: &str) {
    for (start, end, step) in [(0, rows, 1), (rows / 3, rows / 3 * 2, 1), (0, rows, 90), (rows / 2, rows, 3), (1, 1, 1)]
    {
        let range = start.min(rows)..end.min(rows);
        let mut mask = RowMask::none(range.clone());
        range.clone().step_by(step).for_each(|row| mask.insert(row));
        retain(&mut mask);
        let expected: Vec<u32> = range.step_by(step).filter(|row| is_in(*row)).map(|row| row as u32).collect();
        assert_eq!(mask.positions(), expected, "{name}: every {step}th row of {start}..{end}");
    }
}

/// Checks sets of values. The values come from the column and from `others`, which has the same type.
fn check_sets(chunk: &Chunk, column: &ArrayRef, others: &ArrayRef, name: &str) {
    let kind = chunk.kind();
    let probes = [(column, 0), (column, column.len() / 2), (others, 0), (others, others.len() / 2)];
    let probes: Vec<ArrayRef> = probes
        .iter()
        .filter(|(array, row)| *row < array.len() && array.is_valid(*row))
        .map(|(array, row)| array.slice(*row, 1))
        .collect();
    check_set(chunk, column, &ValueSet::all(kind), &|row| column.is_valid(row), name);
    check_set(chunk, column, &ValueSet::null(kind), &|row| column.is_null(row), name);
    let either = ValueSet::null(kind).or(&ValueSet::all(kind));
    check_set(chunk, column, &either, &|_| true, name);
    // Lists and structs have no keys, so no other set exists for them.
    if matches!(kind, SqlType::Json | SqlType::List(_) | SqlType::Struct(_)) {
        return;
    }
    let mut any: Option<(ValueSet, Vec<bool>)> = None;
    for probe in &probes {
        let order = make_comparator(column, probe, Default::default()).unwrap();
        let orders: Vec<Option<std::cmp::Ordering>> =
            (0..column.len()).map(|row| column.is_valid(row).then(|| order(row, 0))).collect();
        let equal = ValueSet::any_of(kind, probe).unwrap();
        let is_equal = |row: usize| orders[row].is_some_and(|order| order.is_eq());
        check_set(chunk, column, &equal, &is_equal, name);
        check_set(
            chunk,
            column,
            &equal.clone().other_values(),
            &|row| orders[row].is_some_and(|order| order.is_ne()),
            name,
        );
        let (any_set, any_truth) =
            any.take().unwrap_or_else(|| (ValueSet::null(kind).and(&equal), vec![false; column.len()]));
        let any_truth = any_truth.iter().enumerate().map(|(row, is_in)| *is_in || is_equal(row)).collect();
        any = Some((any_set.or(&equal), any_truth));
        if !kind.is_ordered() {
            assert_eq!(ValueSet::less_than(kind, probe, true), None);
            continue;
        }
        let below = ValueSet::less_than(kind, probe, false).unwrap();
        let at_most = ValueSet::less_than(kind, probe, true).unwrap();
        check_set(chunk, column, &below, &|row| orders[row].is_some_and(|order| order.is_lt()), name);
        check_set(
            chunk,
            column,
            &at_most.clone().other_values(),
            &|row| orders[row].is_some_and(|order| order.is_gt()),
            name,
        );
        check_set(chunk, column, &at_most.and(&below.other_values()), &is_equal, name);
    }
    let Some((any, truth)) = any else { return };
    check_set(chunk, column, &any, &|row| truth[row], name);
    let or_null = ValueSet::null(kind).or(&any);
    check_set(chunk, column, &or_null, &|row| truth[row] || column.is_null(row), name);
    check_set(chunk, column, &any.other_values(), &|row| !truth[row] && column.is_valid(row), name);
    if matches!(kind, SqlType::Text { .. } | SqlType::Blob) {
        check_tests(chunk, column, name);
    }
    if matches!(kind, SqlType::Text { .. }) {
        for prefix in ["", "1", "äöü ", "plain text1", "~"] {
            let texts = column.as_string_view();
            let is_in = |row: usize| texts.is_valid(row) && texts.value(row).starts_with(prefix);
            check_set(chunk, column, &ValueSet::starting_with(prefix.as_bytes()), &is_in, name);
        }
    }
}

/// Checks conditions on strings. Each condition implies that the string contains a needle.
fn check_tests(chunk: &Chunk, column: &ArrayRef, name: &str) {
    let strings = ByteStrings::new(column).unwrap();
    let middle = (0..column.len()).map(|row| strings.value(row)).nth(column.len() / 2).unwrap_or_default();
    let needles = [&b""[..], b"1", b"a1", b"xt12", b"nowhere", &middle[middle.len() / 2..]];
    for (needle, negated) in needles.into_iter().flat_map(|needle| [(needle, false), (needle, true)]) {
        let has = |string: &[u8]| needle.is_empty() || string.windows(needle.len()).any(|window| window == needle);
        // A string that passes must contain the needle, but a string that contains it need not pass.
        let passes = |string: &[u8]| has(string) && string.iter().fold(0_u8, |sum, byte| sum ^ byte) % 3 != 1;
        let is_in = |row: usize| column.is_valid(row) && passes(strings.value(row)) != negated;
        let mut test = |window: StringWindow<'_>, truth: &mut [bool]| {
            assert_eq!(window.len(), truth.len());
            truth.iter_mut().enumerate().for_each(|(index, truth)| *truth = passes(window.value(index)));
        };
        let retain = &mut |mask: &mut RowMask| chunk.retain_where(needle, negated, &mut test, mask).unwrap();
        check_masks(chunk.rows(), &is_in, retain, name);
        let codes = chunk.codes_where(needle, negated, &mut test).unwrap();
        assert_eq!(codes.is_some(), chunk.has_values());
        let Some(codes) = codes else { continue };
        check_masks(chunk.rows(), &is_in, &mut |mask| chunk.retain_codes(&codes, mask).unwrap(), name);
        if !needle.is_empty() {
            let codes = chunk.codes_containing(needle, negated).unwrap().unwrap();
            let is_in = |row: usize| column.is_valid(row) && has(strings.value(row)) != negated;
            check_masks(chunk.rows(), &is_in, &mut |mask| chunk.retain_codes(&codes, mask).unwrap(), name);
        }
    }
}

fn check_set(chunk: &Chunk, column: &ArrayRef, set: &ValueSet, is_in: &dyn Fn(usize) -> bool, name: &str) {
    check_masks(chunk.rows(), is_in, &mut |mask| chunk.retain_values(set, mask).unwrap(), name);
    let rows = (0..column.len()).filter(|row| is_in(*row)).count();
    match chunk.verdict(set) {
        Verdict::Nothing => assert_eq!(rows, 0, "{name}"),
        Verdict::Everything => assert_eq!(rows, column.len(), "{name}"),
        Verdict::Unknown => {}
    }
    let codes = chunk.codes_of(set).unwrap();
    assert_eq!(codes.is_some(), chunk.has_values(), "{name}");
    if let Some(codes) = codes {
        assert_eq!(chunk.rows_of(&codes).unwrap(), rows, "{name}");
        assert!(chunk.about_rows_of(&codes).unwrap() <= chunk.rows(), "{name}");
        check_masks(chunk.rows(), is_in, &mut |mask| chunk.retain_codes(&codes, mask).unwrap(), name);
    }
    for row in 0..column.len().min(5) {
        assert_eq!(set.contains(chunk.kind(), &column.slice(row, 1)), is_in(row), "{name}");
    }
}

fn check_zone(chunk: &Chunk, column: &ArrayRef, name: &str) {
    let valid = column.null_count() < column.len();
    assert_eq!(chunk.zone().is_some(), valid && chunk.kind().is_ordered(), "{name}");
    let Some(zone) = chunk.zone() else { return };
    let check = |bound: &ZoneBound, outside: fn(std::cmp::Ordering) -> bool| {
        let order = make_comparator(column, &bound.value, Default::default()).unwrap();
        let orders: Vec<_> = (0..column.len()).filter(|row| column.is_valid(*row)).map(|row| order(row, 0)).collect();
        assert!(!orders.iter().any(|order| outside(*order)), "{name}: a value outside of its zone");
        assert!(!bound.exact || orders.iter().any(|order| order.is_eq()), "{name}: an exact bound that is no value");
    };
    check(&zone.min, |order| order.is_lt());
    if let Some(max) = &zone.max {
        check(max, |order| order.is_gt());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn columns_come_back(
        shape in proptest::sample::select(&SHAPES[..]),
        rows in prop_oneof![0usize..5, 500usize..530, 1020usize..1030, 2040usize..5000],
        nulls in 0u8..5,
        seed in any::<u64>(),
    ) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let values: Vec<Option<i128>> = integers(shape, rows, &mut rng)
            .into_iter()
            .enumerate()
            .map(|(row, value)| (!is_null(nulls, row, &mut rng)).then_some(value))
            .collect();
        let others: Vec<Option<i128>> = integers(shape, 2, &mut rng).into_iter().map(Some).collect();
        for kind in kinds() {
            check_column(&column(&kind, &values), &column(&kind, &others), &kind);
        }
    }

    /// Changes random bytes and makes the checksums valid again. No writer has ever written such bytes.
    #[test]
    fn hostile_chunks_are_an_error_or_garbage(
        shape in proptest::sample::select(&SHAPES[..]),
        nulls in 0u8..5,
        seed in any::<u64>(),
    ) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let values: Vec<Option<i128>> = integers(shape, 1500, &mut rng)
            .into_iter()
            .enumerate()
            .map(|(row, value)| (!is_null(nulls, row, &mut rng)).then_some(value))
            .collect();
        for kind in kinds() {
            for (_, bytes) in encodings(&column(&kind, &values), &kind) {
                for _ in 0..20 {
                    let mut bytes = bytes.clone();
                    for _ in 0..rng.random_range(1..4) {
                        // We aim half of the changes at the head and the first bytes after it, because the lengths are
                        // stored there.
                        let near = if rng.random() { bytes.len().min(400) } else { bytes.len() };
                        let at = rng.random_range(0..near);
                        bytes[at] = if rng.random() { rng.random() } else { bytes[at] ^ (1 << rng.random_range(0..8)) };
                    }
                    reseal(&mut bytes);
                    touch_everything(bytes, &kind);
                }
            }
        }
    }
}

/// Recomputes all checksums, so that changed bytes pass them.
fn reseal(bytes: &mut [u8]) {
    let rest = u32::read(&bytes[56..]) as usize;
    if let Some((head, body)) = bytes.split_at_mut_checked(FIXED_BYTES + rest) {
        let pieces = body.len().div_ceil(PIECE_BYTES);
        let bounds = (usize::from(head[67]) + usize::from(head[68])).next_multiple_of(8);
        let checksums = FIXED_BYTES + bounds + 24 * usize::from(u16::read(&head[64..]));
        if let Some(checksums) = head.get_mut(checksums..checksums + 4 * pieces) {
            for (checksum, piece) in checksums.chunks_exact_mut(4).zip(body.chunks(PIECE_BYTES)) {
                crc32fast::hash(piece).write(checksum);
            }
        }
        crc32fast::hash(&head[FIXED_BYTES..]).write(&mut head[60..]);
    }
    let fixed = crc32fast::hash(&bytes[..FIXED_BYTES - 4]);
    fixed.write(&mut bytes[FIXED_BYTES - 4..]);
}

/// Calls every reading function. The results do not matter, but no call may panic.
fn touch_everything(bytes: Vec<u8>, kind: &SqlType) {
    let Ok(chunk) = open(bytes, kind) else { return };
    let rows = chunk.rows();
    let _ = chunk.zone();
    let _ = chunk.verify();
    let _ = chunk.take(&[0, rows as u32 / 2].map(|row| row.min(rows.saturating_sub(1) as u32))[..rows.min(2)]);
    let _ = chunk.read(0..rows);
    let _ = chunk.read(rows / 3..rows / 2);
    let _ = chunk.take(&(0..rows as u32).step_by(5).collect::<Vec<_>>());
    let _ = chunk.integers(0..rows, &mut Vec::new());
    let _ = chunk.lengths(LengthUnit::Bytes);
    let _ = chunk.lengths(LengthUnit::Characters);
    let _ = chunk.values();
    let _ = chunk.counts();
    let mut codes = Vec::new();
    if chunk.codes(0..rows, &mut codes).is_ok() {
        // Callers use codes as indexes into what they made of the values, so every code must be below the number of
        // values.
        let values = chunk.distinct().unwrap();
        assert!(codes.iter().all(|code| (*code as usize) < values + usize::from(chunk.null_count() > 0)));
    }
    let _ = chunk.take_codes(&(0..rows as u32).step_by(5).collect::<Vec<_>>(), &mut Vec::new());
    let _ = chunk.take_codes(&(0..rows as u32).step_by(50).collect::<Vec<_>>(), &mut Vec::new());
    let _ = chunk.take_listed(&(0..rows as u32).step_by(70).collect::<Vec<_>>());
    let mut test = |window: StringWindow<'_>, truth: &mut [bool]| {
        truth.iter_mut().enumerate().for_each(|(index, truth)| *truth = window.value(index).len().is_multiple_of(2));
    };
    let _ = chunk.codes_where(b"", false, &mut test);
    let _ = chunk.codes_where(b"text1", true, &mut test);
    let _ = chunk.codes_containing(b"text12", false);
    let _ = chunk.codes_containing(b"a1", true);
    let _ = chunk.retain_where(b"", false, &mut test, &mut RowMask::all(rows / 2..rows));
    let some_codes: Vec<u32> = (0..chunk.distinct().unwrap_or_default() as u32 + 1).step_by(40).collect();
    let _ = chunk.values_at(&some_codes);
    let _ = chunk.take_counts(&some_codes);
    let distinct = chunk.distinct().unwrap_or_default();
    let _ = chunk.value_bytes(distinct);
    let _ = chunk.values_in(distinct / 3..distinct);
    let _ = chunk.counts_in(distinct / 3..distinct);
    let mask = || RowMask::all(rows / 3..rows);
    for step in [2, 500] {
        let set =
            CodeSet::of_truth((0..chunk.distinct().unwrap_or_default() + 1).map(|code| code % step == 1).collect());
        let _ = chunk.retain_codes(&set, &mut mask());
        let _ = chunk.rows_of(&set);
        let _ = chunk.about_rows_of(&set);
    }
    for value in [0, 1_000_000, -3] {
        let Some(set) = ValueSet::any_of(kind, &column(kind, &[Some(value)])) else { continue };
        for set in [set.clone(), set.or(&ValueSet::null(kind)), set.other_values()] {
            let _ = chunk.verdict(&set);
            let _ = chunk.codes_of(&set);
            let _ = chunk.retain_values(&set, &mut mask());
        }
    }
}

#[test]
fn every_encoding_is_reached() {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut reached = Vec::new();
    for shape in SHAPES {
        let values: Vec<Option<i128>> = integers(shape, 3000, &mut rng).into_iter().map(Some).collect();
        for kind in [SqlType::Int64, SqlType::Float64, SqlType::TEXT, SqlType::List(Box::new(SqlType::Int32))] {
            reached.push(open(encode(&column(&kind, &values), &kind).unwrap(), &kind).unwrap().encoding());
        }
    }
    for (kind, column) in ENCODINGS.into_iter().filter_map(|encoding| encoding.example()) {
        reached.push(open(encode_sealed(Arc::clone(&column), &kind, 2).unwrap(), &kind).unwrap().encoding());
        check_column(&column, &column.slice(0, 5), &kind);
    }
    for encoding in ENCODINGS.into_iter().filter(|encoding| encoding.name() != "rows") {
        assert!(reached.contains(&encoding), "no column is stored as {}", encoding.name());
    }
}

#[test]
fn older_format_versions_are_read_and_newer_ones_are_refused() {
    let values: Vec<Option<i128>> = (0..2000).map(Some).collect();
    let column = column(&SqlType::TEXT, &values);
    let mut bytes = encode(&column, &SqlType::TEXT).unwrap();
    let newer = newest_since().max(2) + 1;
    for (version, kind) in [(1_u16, None), (2, None), (newer, Some(ErrorKind::NewerFormat))] {
        version.write(&mut bytes[4..]);
        reseal(&mut bytes);
        let read = open(bytes.clone(), &SqlType::TEXT).and_then(|chunk| chunk.read(0..2000));
        assert_eq!(read.as_ref().err().map(|error| error.kind()), kind, "version {version}");
        assert!(read.is_err() || read.is_ok_and(|read| *read == *column), "version {version}");
    }
}

#[test]
fn a_chunk_has_the_version_of_its_encoding_and_is_damaged_with_an_older_one() {
    for encoding in ENCODINGS.into_iter().filter(|encoding| encoding.since() > 2) {
        let (kind, column) = encoding.example().expect("a newer encoding has an example");
        let mut bytes = encode_sealed(column, &kind, 1).unwrap();
        assert_eq!(u16::read(&bytes[4..]), encoding.since());
        2_u16.write(&mut bytes[4..]);
        reseal(&mut bytes);
        let error = open(bytes, &kind).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[test]
fn any_flipped_byte_is_found() {
    let mut rng = SmallRng::seed_from_u64(2);
    for shape in [ColumnShape::Constant, ColumnShape::Few, ColumnShape::Dominated, ColumnShape::Sorted] {
        let values: Vec<Option<i128>> = integers(shape, 100, &mut rng)
            .into_iter()
            .enumerate()
            .map(|(row, value)| (row % 9 > 0).then_some(value))
            .collect();
        for kind in kinds() {
            for (_, mut bytes) in encodings(&column(&kind, &values), &kind) {
                bytes.resize(bytes.len() + 100, 0);
                for at in 0..bytes.len() {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= 1 << rng.random_range(0..8);
                    let error = open(bytes, &kind).and_then(|chunk| chunk.read(0..100)).expect_err("a flipped byte");
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at} of {kind}: {error}");
                    assert!(error.message().contains("byte "), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_flipped_byte_of_a_large_chunk_is_found() {
    let mut rng = SmallRng::seed_from_u64(3);
    let values: Vec<Option<i128>> = integers(ColumnShape::Wide, ROWS_MAX, &mut rng).into_iter().map(Some).collect();
    let bytes = encode(&column(&SqlType::Int64, &values), &SqlType::Int64).unwrap();
    for _ in 0..50 {
        let mut bytes = bytes.clone();
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= rng.random_range(1..=255);
        let error = open(bytes, &SqlType::Int64).and_then(|chunk| chunk.read(0..1)).expect_err("a flipped byte");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_cut_chunk_is_an_error() {
    let values: Vec<Option<i128>> = (0..300).map(|row| Some(row % 5)).collect();
    for kind in kinds() {
        for (_, bytes) in encodings(&column(&kind, &values), &kind) {
            for end in 0..bytes.len() {
                let cut = open(bytes[..end].to_vec(), &kind).and_then(|chunk| chunk.read(0..1));
                assert_eq!(cut.expect_err("a cut chunk").kind(), ErrorKind::Corrupt);
            }
        }
    }
}

#[test]
fn a_full_block_reads_back_unchanged() {
    let mut rng = SmallRng::seed_from_u64(4);
    for (shape, kind) in [
        (ColumnShape::Wide, SqlType::Int64),
        (ColumnShape::Dominated, SqlType::Int16),
        (ColumnShape::Runs, SqlType::Int32),
        (ColumnShape::Sorted, SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }),
        (ColumnShape::Seconds, SqlType::Float64),
        (ColumnShape::Few, SqlType::TEXT),
        (ColumnShape::Wide, SqlType::Uuid),
    ] {
        let values: Vec<Option<i128>> = integers(shape, ROWS_MAX, &mut rng).into_iter().map(Some).collect();
        let column = column(&kind, &values);
        let chunk = open(encode(&column, &kind).unwrap(), &kind).unwrap();
        assert_eq!(&chunk.read(0..ROWS_MAX).unwrap(), &column, "{kind} {shape:?}");
        assert_eq!(&chunk.read(70_001..140_003).unwrap(), &column.slice(70_001, 70_002), "{kind} {shape:?}");
    }
}

#[test]
fn every_nan_is_one_value_and_so_is_every_zero() {
    let values = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), 0.0, -0.0, 0.0];
    let column: ArrayRef = Arc::new(Float64Array::from(values.repeat(100)));
    for (_, bytes) in encodings(&column, &SqlType::Float64) {
        let chunk = open(bytes, &SqlType::Float64).unwrap();
        let read = chunk.read(0..6).unwrap();
        let bits: Vec<u64> =
            read.as_primitive::<arrow::datatypes::Float64Type>().values().iter().map(|value| value.to_bits()).collect();
        let nan = f64::NAN.to_bits();
        assert_eq!(bits, [nan, nan, nan, 0, 0, 0], "{}", chunk.encoding_name());
        assert!(chunk.distinct().is_none_or(|distinct| distinct == 2));
    }
}

#[test]
fn a_slice_of_an_array_is_stored_like_an_array_of_its_own() {
    let values: Vec<Option<i128>> = (0..2000).map(|row| (row % 13 > 0).then_some(row / 3)).collect();
    for kind in kinds() {
        let all = column(&kind, &values);
        let part = all.slice(77, 1300);
        check_column(&part, &all.slice(0, 5), &kind);
    }
}

#[test]
fn columns_of_another_type_or_too_many_rows_are_refused() {
    let column = column(&SqlType::Int32, &vec![Some(1); ROWS_MAX + 1]);
    assert!(encode(&column, &SqlType::Int32).is_err());
    assert!(encode(&column.slice(0, 5), &SqlType::Int64).is_err());
    let bytes = encode(&column.slice(0, 5), &SqlType::Int32).unwrap();
    assert_eq!(open(bytes, &SqlType::Int64).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_chunk_in_a_file_reads_the_same_until_the_file_is_cut() {
    let kind = SqlType::Int32;
    let values: Vec<Option<i128>> = (0..20_000).map(|row| Some(row % 777)).collect();
    let column = column(&kind, &values);
    let mut bytes = encode(&column, &kind).unwrap();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);

    let disk = Arc::new(MemoryDisk::new());
    let file = disk.open("column", OpenMode::Create).unwrap();
    file.write_all_at(&bytes, 8192).unwrap();
    let extent = Extent { offset: 8192, len: bytes.len() as u64 };
    let column_file = ColumnFile::new(disk, Broker::new(1 << 30), "column".to_owned(), vec![extent]).unwrap();
    let stored = Arc::new(StoredChunk::kept(ColumnId(1), Arc::new(column_file), extent, Arc::default()));
    let open = || Chunk::open(ChunkBytes::stored(&stored)?, &kind);
    assert_eq!(&open().unwrap().read(0..20_000).unwrap(), &column);

    // The mapping stays, so a chunk that was opened before the cut must report an error instead of faulting.
    let before = open().unwrap();
    file.set_len(8192 + bytes.len() as u64 - 1).unwrap();
    assert_eq!(before.read(0..1).unwrap_err().kind(), ErrorKind::Corrupt);
    file.set_len(8192 + 10).unwrap();
    assert_eq!(open().unwrap_err().kind(), ErrorKind::Corrupt);
}

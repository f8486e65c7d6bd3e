//! Tests random conditions on columns of every Parquet type: rows that a scan leaves out must not pass the condition.

use arrow::array::{
    BinaryArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array, StringViewArray, new_null_array,
};
use arrow::compute::{cast, filter};
use arrow::datatypes::{Float32Type, Float64Type, TimeUnit};
use parquet::basic::Compression;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rowmill_exec::predicate::evaluate;

use super::*;

const ROWS: usize = 2_000;

/// The types that files can have. SQL has fewer.
fn file_types() -> Vec<DataType> {
    let zone = || Some("Europe/Berlin".into());
    vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 3),
        DataType::Decimal128(7, 2),
        DataType::Decimal128(18, 0),
        DataType::Decimal128(38, 4),
        DataType::Decimal256(39, 0),
        DataType::Decimal256(76, 30),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, zone()),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::Binary,
        DataType::FixedSizeBinary(16),
        DataType::FixedSizeBinary(3),
    ]
}

/// Makes a column of a file type from numbers near 0.
fn column(kind: &DataType, numbers: &[Option<i64>]) -> ArrayRef {
    let integers = || Int64Array::from(numbers.to_vec());
    let bytes = |value: &i64| {
        let mut bytes = [0xFF; 16];
        bytes[1..9].copy_from_slice(&(value ^ i64::MIN).to_be_bytes());
        bytes
    };
    match kind {
        DataType::Boolean => Arc::new(arrow::array::BooleanArray::from_iter(numbers.iter().map(|n| n.map(|n| n > 0)))),
        DataType::Int8 => Arc::new(integers().unary::<_, arrow::datatypes::Int8Type>(|n| n.clamp(-128, 127) as i8)),
        DataType::UInt8 => {
            Arc::new(integers().unary::<_, arrow::datatypes::UInt8Type>(|n| (n + 128).clamp(0, 255) as u8))
        }
        // Half of the numbers have the highest bit set.
        DataType::UInt16 => Arc::new(integers().unary::<_, arrow::datatypes::UInt16Type>(|n| n as u16)),
        DataType::UInt32 => Arc::new(integers().unary::<_, UInt32Type>(|n| n as u32)),
        DataType::UInt64 => Arc::new(integers().unary::<_, arrow::datatypes::UInt64Type>(|n| n as u64)),
        DataType::Float16 => Arc::new(Float16Array::from_iter(
            cast(&float(numbers), kind).expect("floats").as_primitive::<arrow::datatypes::Float16Type>(),
        )),
        DataType::Float32 | DataType::Float64 => cast(&float(numbers), kind).expect("floats"),
        DataType::Date64 => Arc::new(integers().unary::<_, arrow::datatypes::Date64Type>(|n| n * 86_400_000)),
        DataType::Date32 => Arc::new(integers().unary::<_, arrow::datatypes::Date32Type>(|n| n as i32)),
        DataType::Time32(_) => {
            cast(&integers().unary::<_, arrow::datatypes::Int32Type>(|n| (n + 500) as i32), kind).expect("times")
        }
        DataType::Time64(_) => cast(&integers().unary::<_, Int64Type>(|n| (n + 500) * 1_001), kind).expect("times"),
        // The values have fractions of the units that are kept.
        DataType::Timestamp(..) => cast(&integers().unary::<_, Int64Type>(|n| n * 100_003), kind).expect("timestamps"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..) => {
            let texts = numbers
                .iter()
                .map(|n| n.map(|n| format!("{}{:04}", "é".repeat(3 + n.unsigned_abs() as usize % 3), n + 500)));
            cast(&StringArray::from_iter(texts), kind).expect("texts")
        }
        DataType::Binary => Arc::new(BinaryArray::from_iter(numbers.iter().map(|n| n.as_ref().map(bytes)))),
        DataType::FixedSizeBinary(16) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(numbers.iter().map(|n| n.as_ref().map(bytes)), 16)
                .expect("bytes"),
        ),
        DataType::FixedSizeBinary(_) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                numbers.iter().map(|n| n.map(|n| [0xFF, ((n + 512) >> 8) as u8, n as u8])),
                3,
            )
            .expect("bytes"),
        ),
        _ => cast(&integers(), kind).expect("numbers"),
    }
}

/// Converts numbers to floats. NaN of both signs and both zeros occur too.
fn float(numbers: &[Option<i64>]) -> Float64Array {
    Float64Array::from_iter(numbers.iter().enumerate().map(|(row, n)| {
        n.map(|n| match (n, row % 97) {
            (_, 3) => f64::NAN,
            (_, 4) => -f64::NAN,
            (0, _) if row % 2 == 0 => -0.0,
            (n, _) => n as f64 / 4.0,
        })
    }))
}

/// Makes numbers that are close together within a page. Some pages have only NULLs.
fn numbers(rng: &mut SmallRng) -> Vec<Option<i64>> {
    let nulls = [0.0, 0.1, 1.0];
    let mut numbers = Vec::with_capacity(ROWS);
    while numbers.len() < ROWS {
        let (middle, null_share) = (rng.random_range(-300..300), *nulls.choose(rng).expect("one"));
        let width = rng.random_range(1..20);
        for _ in 0..rng.random_range(1..120) {
            numbers.push((!rng.random_bool(null_share)).then(|| middle + rng.random_range(0..width)));
        }
    }
    numbers.truncate(ROWS);
    numbers
}

/// Replaces floats by those of the engine, which has one zero and one NaN.
fn canonical(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => Arc::new(
            column
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|x| if x.is_nan() { f32::NAN } else { x + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            column
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { x + 0.0 }),
        ),
        _ => Arc::clone(column),
    }
}

/// Makes a random condition on the columns `columns`. The first column is the row number and is not used.
fn condition(rng: &mut SmallRng, columns: &[ArrayRef], depth: usize) -> Predicate {
    if depth > 0 && rng.random_bool(0.5) {
        let parts = (0..rng.random_range(1..4)).map(|_| condition(rng, columns, depth - 1)).collect();
        return match rng.random_range(0..3) {
            0 => Predicate::And(parts),
            1 => Predicate::Or(parts),
            _ => Predicate::Not(Box::new(Predicate::And(parts))),
        };
    }
    let column = rng.random_range(1..columns.len());
    let values = &columns[column];
    let negated = rng.random_bool(0.3);
    let some = |rng: &mut SmallRng| {
        let rows: Vec<usize> = (0..20).map(|_| rng.random_range(0..ROWS)).collect();
        rows.into_iter().find(|row| values.is_valid(*row)).map(|row| values.slice(row, 1))
    };
    let (Some(value), Some(other)) = (some(rng), some(rng)) else { return Predicate::IsNull { column, negated } };
    match rng.random_range(0..10) {
        0 => Predicate::IsNull { column, negated },
        1 => {
            let values = arrow::compute::concat(&[&value, &other]).expect("values of one type");
            Predicate::In { column, values, negated }
        }
        2 if *values.data_type() == DataType::Utf8View => {
            let text = value.as_string_view().value(0);
            let end = text.char_indices().nth(rng.random_range(1..6)).map_or(text.len(), |(end, _)| end);
            Predicate::Like {
                column,
                pattern: format!("{}%", &text[..end]),
                negated,
                ignore_case: rng.random_bool(0.2),
            }
        }
        _ => {
            let ops = [
                CompareOp::Equal,
                CompareOp::NotEqual,
                CompareOp::Less,
                CompareOp::LessOrEqual,
                CompareOp::Greater,
                CompareOp::GreaterOrEqual,
            ];
            Predicate::Compare { column, op: *ops.choose(rng).expect("one"), value }
        }
    }
}

/// The row numbers, taken from the first column, of the rows in a batch that pass.
fn passing(batch: &RecordBatch, predicate: &Predicate) -> Vec<i64> {
    let mut column = |column: usize| Ok(canonical(batch.column(column)));
    let truth = evaluate(predicate, batch.num_rows(), &mut column).expect("a condition");
    let passing = filter(batch.column(0), &truth).expect("filtered");
    let mut numbers = passing.as_primitive::<Int64Type>().values().to_vec();
    numbers.sort_unstable();
    numbers
}

#[test]
fn conditions_lose_no_row_of_any_type() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let rng = &mut SmallRng::seed_from_u64(23);
    let (mut rows_of_points, mut points) = (0, 0);
    for (round, kind) in file_types().iter().cycle().take(3 * file_types().len()).enumerate() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let columns: Vec<ArrayRef> = (0..2).map(|_| column(kind, &numbers(rng))).collect();
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("id", ids, false),
            ("a", Arc::clone(&columns[0]), true),
            ("b", Arc::clone(&columns[1]), true),
        ]);
        let batch = batch.expect("a batch");
        let statistics = match round / file_types().len() {
            0 => EnabledStatistics::None,
            1 => EnabledStatistics::Chunk,
            _ => EnabledStatistics::Page,
        };
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(500))
            .set_data_page_row_count_limit(50)
            .set_write_batch_size(10)
            .set_compression(*[Compression::UNCOMPRESSED, Compression::LZ4_RAW].choose(rng).expect("one"))
            .set_statistics_enabled(statistics)
            .set_statistics_truncate_length(*[None, Some(2), Some(5)].choose(rng).expect("one"))
            .set_column_index_truncate_length(*[None, Some(2), Some(5)].choose(rng).expect("one"))
            .set_dictionary_enabled(rng.random())
            .set_bloom_filter_enabled(rng.random())
            .set_coerce_types(rng.random());
        write_parquet(&path, &batch, properties);
        let source = open(&path);
        let whole = read(&*source, &[0, 1, 2], &[], 1).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(whole.num_rows(), ROWS);
        for (column, written) in columns.iter().enumerate() {
            assert_eq!(whole.column(column + 1).null_count(), written.null_count(), "{kind}");
        }
        let values: Vec<ArrayRef> = whole.columns().iter().map(canonical).collect();
        for _ in 0..40 {
            let predicate = condition(rng, &values, 2);
            let left = read(&*source, &[0, 1, 2], std::slice::from_ref(&predicate), 1).expect("read");
            let name = |column: usize| ["id", "a", "b"][column].to_owned();
            assert_eq!(
                passing(&left, &predicate),
                passing(&whole, &predicate),
                "{kind}, {statistics:?}: {}",
                predicate.display(&name)
            );
            // With page statistics, equality should read only few rows, so we count them.
            if statistics == EnabledStatistics::Page
                && matches!(predicate, Predicate::Compare { op: CompareOp::Equal, .. })
            {
                rows_of_points += left.num_rows();
                points += 1;
            }
        }
    }
    assert!(points > 50 && rows_of_points < points * ROWS / 3, "{points} points read {rows_of_points} rows");
}

#[test]
fn nan_is_never_pruned_although_statistics_omit_it() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let floats: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..2_000).map(|i| if i == 1_234 { f64::NAN } else { f64::from(i) })));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2_000));
    let batch = RecordBatch::try_from_iter([("id", ids), ("x", floats)]).expect("a batch");
    write_parquet(&path, &batch, small_pages());
    let source = open(&path);
    let float = |op, value: f64| compare(1, op, Float64Array::from(vec![value]));
    let ids = |predicates: &[Predicate]| numbers_of(&read(&*source, &[0], predicates, 1).expect("read"));
    // Any page may have a NaN, which is greater than 5,000.
    assert_eq!(ids(&[float(CompareOp::Greater, 5_000.0)]).len(), 2_000);
    assert_eq!(ids(&[float(CompareOp::Equal, f64::NAN)]).len(), 2_000);
    // With an upper bound, NaN does not pass.
    assert_eq!(ids(&[float(CompareOp::Less, 50.0)]), (0..100).collect::<Vec<_>>());
    assert_eq!(
        ids(&[float(CompareOp::Greater, 1_910.0), float(CompareOp::Less, 5_000.0)]),
        (1_900..2_000).collect::<Vec<_>>()
    );
    assert_eq!(ids(&[float(CompareOp::Equal, 777.0)]), (700..800).collect::<Vec<_>>());
}

fn numbers_of(batch: &RecordBatch) -> Vec<i64> {
    super::numbers(batch, 0)
}

#[test]
fn int96_timestamps_are_never_pruned() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let schema = parse_message_type("message m { required int96 at; }").expect("a schema");
    let properties = WriterProperties::builder().set_data_page_row_count_limit(2).set_write_batch_size(2).build();
    let file = File::create(&path).expect("made");
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).expect("a writer");
    // Noon of 1969-12-31 to 1970-01-03. 1970-01-01 is the Julian day 2,440,588.
    let days: Vec<Int96> = (0..4)
        .map(|day| {
            let mut at = Int96::new();
            let nanos = 43_200_000_000_000_u64;
            at.set_data(nanos as u32, (nanos >> 32) as u32, 2_440_587 + day);
            at
        })
        .collect();
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("the only one");
    column.typed::<Int96Type>().write_batch(&days, None, None).expect("written");
    column.close().expect("closed");
    group.close().expect("closed");
    writer.close().expect("closed");
    let source = open(&path);
    let all = read(&*source, &[0], &[], 1).expect("read");
    let value = all.column(0).slice(0, 1);
    for op in [CompareOp::Less, CompareOp::Equal, CompareOp::Greater] {
        let predicate = Predicate::Compare { column: 0, op, value: Arc::clone(&value) };
        let left = read(&*source, &[0], &[predicate], 1).expect("read");
        assert_eq!(left.num_rows(), 4, "{op}");
    }
}

#[test]
fn values_of_another_type_exclude_no_rows() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    write_parquet(&path, &rows(0..1_000), small_pages().set_bloom_filter_enabled(true));
    let source = open(&path);
    for value in [
        Arc::new(Float32Array::from(vec![-1.0])) as ArrayRef,
        Arc::new(StringViewArray::from(vec!["x"])),
        new_null_array(&DataType::Int64, 1),
    ] {
        let predicate = Predicate::Compare { column: 0, op: CompareOp::Equal, value };
        assert_eq!(read(&*source, &[0], &[predicate], 1).expect("read").num_rows(), 1_000);
    }
}

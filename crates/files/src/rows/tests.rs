//! Reads files as rows of a query in every format. Checks which parts of Parquet files are skipped, and that no row is
//! lost.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt32Type};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::statistics::{Statistics, ValueStatistics};
use rowmill_base::ErrorKind;
use rowmill_plan::CompareOp;
use tempfile::TempDir;

use super::*;
use crate::{ReadOptions, WriteOptions, writer};

mod every_type;
mod unions;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn open(path: &str) -> Arc<FileRows> {
    FileRows::new(FileSet::open(path, &ReadOptions::default()).expect("opened")).expect("columns of SQL")
}

/// Reads all rows with `threads` workers, each on a thread of its own.
fn read(source: &dyn RowSource, columns: &[usize], predicates: &[Predicate], threads: usize) -> Result<RecordBatch> {
    const BATCH_ROWS: usize = 1_000;
    let rows = source.open(columns, predicates, BATCH_ROWS, threads, &Cancel::new())?;
    let batches = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let rows = Arc::clone(&rows);
                scope.spawn(move || rows.worker().collect::<Result<Vec<_>>>())
            })
            .collect();
        let shares = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        shares.collect::<Result<Vec<_>>>()
    })?;
    let batches = batches.concat();
    assert!(batches.iter().all(|batch| (1..=BATCH_ROWS).contains(&batch.num_rows())), "every batch should be bounded");
    Ok(concat_batches(rows.schema(), &batches).expect("batches of one schema"))
}

fn numbers(batch: &RecordBatch, column: usize) -> Vec<i64> {
    let mut numbers: Vec<i64> = batch.column(column).as_primitive::<Int64Type>().values().to_vec();
    numbers.sort_unstable();
    numbers
}

fn compare(column: usize, op: CompareOp, value: impl Array + 'static) -> Predicate {
    Predicate::Compare { column, op, value: Arc::new(value) }
}

fn number(column: usize, op: CompareOp, value: i64) -> Predicate {
    compare(column, op, Int64Array::from(vec![value]))
}

/// Makes rows with the columns `Id`, `Name` and `Flag`.
fn rows(ids: Range<i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter(ids.clone().map(|i| (i % 5 != 0).then(|| format!("name {i:06}")))));
    let flags: ArrayRef = Arc::new(UInt32Array::from_iter_values(ids.map(|i| u32::MAX - i as u32)));
    RecordBatch::try_from_iter_with_nullable([("Id", numbers, false), ("Name", names, true), ("Flag", flags, false)])
        .expect("a batch")
}

/// Properties for row groups of 1,000 rows in pages of 100.
fn small_pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(1_000))
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(100)
}

fn write_parquet(path: &str, batch: &RecordBatch, properties: WriterPropertiesBuilder) {
    let file = File::create(path).expect("made");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).expect("a writer");
    writer.write(batch).expect("written");
    writer.close().expect("closed");
}

#[test]
fn every_format_returns_the_requested_columns() {
    let folder = folder();
    for ending in ["parquet", "csv", "json", "arrow", "csv.gz"] {
        for part in 0..2 {
            let path = path(&folder, &format!("{part}.{ending}"));
            let batch = rows(part * 30_000..(part + 1) * 30_000);
            let mut writer = writer(&path, batch.schema_ref(), &WriteOptions::default()).expect("a writer");
            writer.write(&batch).expect("written");
            writer.finish().expect("finished");
        }
        let source = open(&path(&folder, &format!("*.{ending}")));
        let names: Vec<&str> = source.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["Id", "Name", "Flag"], "{ending}: names as spelled");
        assert_eq!(source.row_count(), (ending == "parquet").then_some(60_000));
        for threads in [1, 3] {
            let all = read(&*source, &[0, 1, 2], &[], threads).expect("read");
            assert_eq!(numbers(&all, 0), (0..60_000).collect::<Vec<_>>(), "{ending}");
            let some = read(&*source, &[1, 0], &[number(0, CompareOp::GreaterOrEqual, 59_990)], threads).expect("read");
            assert_eq!(some.schema().field(0).name(), "Name");
            let found =
                (0..some.num_rows()).filter(|row| some.column(1).as_primitive::<Int64Type>().value(*row) >= 59_990);
            let found: Vec<usize> = found.collect();
            assert_eq!(found.len(), 10, "{ending}");
            for row in found {
                let id = some.column(1).as_primitive::<Int64Type>().value(row);
                let expected = (id % 5 != 0).then(|| format!("name {id:06}"));
                let names = some.column(0).as_string_view();
                assert_eq!(names.is_valid(row).then(|| names.value(row).to_owned()), expected, "{ending}");
            }
            let none = read(&*source, &[], &[], threads).expect("read");
            assert_eq!((none.num_columns(), none.num_rows()), (0, 60_000), "{ending}");
        }
    }
}

#[test]
fn columns_with_equal_names_are_read_separately() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let schema = ["a", "a", "A"].map(|name| Field::new(name, DataType::Int64, false));
    let columns = [1, 2, 3].map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(schema.to_vec())), columns.to_vec()).expect("a batch");
    write_parquet(&path, &batch, small_pages());
    let source = open(&path);
    let names: Vec<&str> = source.schema().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a", "a_1", "A_2"]);
    let found = read(&*source, &[2, 0, 1], &[number(1, CompareOp::Equal, 2)], 1).expect("read");
    assert_eq!([0, 1, 2].map(|column| numbers(&found, column)), [[3], [1], [2]]);
    assert_eq!(read(&*source, &[0], &[number(1, CompareOp::Equal, 1)], 1).expect("read").num_rows(), 0);
}

#[test]
fn files_with_other_column_orders_are_pruned_by_the_right_column() {
    let folder = folder();
    let (first, second) = (rows(0..1_000), rows(1_000..2_000).project(&[2, 0, 1]).expect("a projection"));
    write_parquet(&path(&folder, "0.parquet"), &first, small_pages());
    write_parquet(&path(&folder, "1.parquet"), &second, small_pages());
    let source = open(&path(&folder, "*.parquet"));
    let found = read(&*source, &[0], &[number(0, CompareOp::GreaterOrEqual, 1_950)], 2).expect("read");
    assert_eq!(numbers(&found, 0), (1_900..2_000).collect::<Vec<_>>());
}

#[test]
fn row_groups_and_pages_excluded_by_conditions_are_not_read() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    write_parquet(&path, &rows(0..10_000), small_pages());
    let source = open(&path);
    let ids = |predicates: &[Predicate]| numbers(&read(&*source, &[0], predicates, 2).expect("read"), 0);
    let range = |range: Range<i64>| range.collect::<Vec<_>>();
    assert_eq!(ids(&[number(0, CompareOp::Equal, 4_242)]), range(4_200..4_300));
    assert_eq!(ids(&[number(0, CompareOp::Less, 1_150)]), range(0..1_200));
    let inside = Predicate::And(vec![number(0, CompareOp::Greater, 5_950), number(0, CompareOp::Less, 6_010)]);
    assert_eq!(ids(std::slice::from_ref(&inside)), range(5_900..6_100));
    let outside = Predicate::Not(Box::new(Predicate::And(vec![
        number(0, CompareOp::GreaterOrEqual, 100),
        number(0, CompareOp::LessOrEqual, 9_899),
    ])));
    assert_eq!(ids(&[outside]), [range(0..100), range(9_900..10_000)].concat());
    let either = Predicate::Or(vec![
        number(0, CompareOp::Equal, 7),
        compare(2, CompareOp::Equal, UInt32Array::from(vec![u32::MAX - 9_999])),
    ]);
    assert_eq!(ids(&[either]), [range(0..100), range(9_900..10_000)].concat());
    let values = Arc::new(Int64Array::from(vec![8_050, 50, 8_060]));
    assert_eq!(
        ids(&[Predicate::In { column: 0, values, negated: false }]),
        [range(0..100), range(8_000..8_100)].concat()
    );
    let like = |pattern: &str, ignore_case| Predicate::Like {
        column: 1,
        pattern: pattern.to_owned(),
        negated: false,
        ignore_case,
    };
    assert_eq!(ids(&[like("name 0031%", false)]), range(3_100..3_200));
    assert_eq!(ids(&[like("NAME 0031%", true)]).len(), 10_000, "bounds say nothing about other letter cases");
    // Conditions on two columns, and a condition that no row meets.
    let unsigned = compare(2, CompareOp::GreaterOrEqual, UInt32Array::from(vec![u32::MAX - 2_999]));
    assert_eq!(ids(&[number(0, CompareOp::GreaterOrEqual, 2_900), unsigned]), range(2_900..3_000));
    assert_eq!(ids(&[number(0, CompareOp::Less, 0)]), range(0..0));
    assert_eq!(ids(&[Predicate::IsNull { column: 0, negated: false }]), range(0..0));
    assert_eq!(ids(&[Predicate::IsNull { column: 1, negated: false }]).len(), 10_000);
    // If no columns are read, the number of rows should follow the same rules.
    let counted = read(&*source, &[], &[number(0, CompareOp::Equal, 4_242)], 1).expect("read");
    assert_eq!(counted.num_rows(), 100);
}

/// Overwrites the bodies of data pages of one column. `chunk` is its row group and column number, and `pages` chooses
/// the pages by number.
fn overwrite_pages(path: &str, chunk: (usize, usize), pages: impl Fn(usize) -> bool) {
    let metadata = metadata(path, true);
    let (group, column) = chunk;
    let locations = metadata.offset_index().expect("an index")[group][column].page_locations();
    let mut bytes = std::fs::read(path).expect("there");
    for (number, page) in locations.iter().enumerate().filter(|(number, _)| pages(*number)) {
        // The header must stay valid, because the reader goes from one page header to the next.
        let end = page.offset as usize + page.compressed_page_size as usize;
        assert!(page.compressed_page_size > 100, "page {number} should have a body");
        bytes[end - 50..end].fill(0xFF);
    }
    std::fs::write(path, bytes).expect("written");
}

fn metadata(path: &str, with_pages: bool) -> ParquetMetaData {
    let policy = match with_pages {
        true => parquet::file::metadata::PageIndexPolicy::Required,
        false => parquet::file::metadata::PageIndexPolicy::Skip,
    };
    let reader = ParquetMetaDataReader::new().with_page_index_policy(policy);
    reader.parse_and_finish(&File::open(path).expect("there")).expect("metadata")
}

#[test]
fn pages_and_columns_that_are_not_needed_are_not_decoded() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let properties = small_pages().set_dictionary_enabled(false).set_compression(parquet::basic::Compression::SNAPPY);
    write_parquet(&path, &rows(0..2_000), properties);
    // In the second row group, destroy the names in all pages but one.
    overwrite_pages(&path, (1, 1), |page| page != 4);
    let source = open(&path);
    assert!(read(&*source, &[1], &[], 1).is_err());
    let found = read(&*source, &[0, 1], &[number(0, CompareOp::Equal, 1_450)], 1).expect("only sound pages are read");
    assert_eq!(numbers(&found, 0), (1_400..1_500).collect::<Vec<_>>());
    assert_eq!(read(&*source, &[0], &[], 1).expect("a sound column").num_rows(), 2_000);
    assert_eq!(read(&*source, &[], &[], 1).expect("no column").num_rows(), 2_000);
}

#[test]
fn a_large_row_group_is_shared_by_workers() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..900_000).map(|i| i * 7_919 % 1_000_003)));
    let batch = RecordBatch::try_from_iter([("n", Arc::clone(&ids))]).expect("a batch");
    write_parquet(&path, &batch, WriterProperties::builder().set_dictionary_enabled(false));
    let source = open(&path);
    let rows = source.open(&[0], &[], 8_192, 2, &Cancel::new()).expect("opened");
    assert_eq!(rows.parallelism(), 2, "one row group, two workers");
    let mut expected = ids.as_primitive::<Int64Type>().values().to_vec();
    expected.sort_unstable();
    assert_eq!(numbers(&read(&*source, &[0], &[], 3).expect("read"), 0), expected);
    assert_eq!(read(&*source, &[], &[], 3).expect("read").num_rows(), 900_000);
}

/// Rewrites the file with other statistics of its row groups. Everything else stays.
fn with_statistics(path: &str, change: impl Fn(usize, &Statistics) -> Option<Statistics>) {
    let metadata = metadata(path, false);
    let mut bytes = std::fs::read(path).expect("there");
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().expect("4 bytes")) as usize;
    bytes.truncate(bytes.len() - 8 - footer);
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let mut group = group.into_builder();
        let columns = group.take_columns().into_iter().enumerate().map(|(number, column)| {
            let changed = column.statistics().and_then(|statistics| change(number, statistics));
            // The page index would contradict the changed statistics, so it is removed.
            let column = column.into_builder().set_column_index_offset(None).set_offset_index_offset(None);
            match changed {
                Some(statistics) => column.set_statistics(statistics),
                None => column.clear_statistics(),
            }
            .build()
            .expect("a column")
        });
        let columns = columns.collect();
        group.set_column_metadata(columns).build().expect("a row group")
    });
    let metadata = builder.set_row_groups(groups.collect()).build();
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().expect("written");
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn unusable_statistics_lose_no_rows() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let all: Vec<i64> = (0..3_000).collect();
    let check = |what: &str, predicate: Predicate, change: &dyn Fn(usize, &Statistics) -> Option<Statistics>| {
        write_parquet(&path, &rows(0..3_000), small_pages());
        with_statistics(&path, change);
        let found = read(&*open(&path), &[0], &[predicate], 2).expect("read");
        assert_eq!(numbers(&found, 0), all, "{what}");
    };
    let nothing_less = || number(0, CompareOp::Less, -5);
    let of_numbers = |least: i64, greatest: i64| {
        move |column: usize, statistics: &Statistics| match column {
            0 => Some(Statistics::int64(Some(least), Some(greatest), None, Some(0), false)),
            _ => Some(statistics.clone()),
        }
    };
    check("none", nothing_less(), &|_, _| None);
    check("least above greatest", nothing_less(), &of_numbers(7, 3));
    check("one bound", nothing_less(), &|_, _| Some(Statistics::int64(Some(0), None, None, None, false)));
    check("a missing number of NULLs", Predicate::IsNull { column: 1, negated: false }, &|column, statistics| {
        let Statistics::ByteArray(texts) = statistics else { return Some(statistics.clone()) };
        assert_eq!(column, 1);
        Some(Statistics::ByteArray(ValueStatistics::new(
            texts.min_opt().cloned(),
            texts.max_opt().cloned(),
            None,
            None,
            false,
        )))
    });
    check("more NULLs than rows", compare_text(CompareOp::Greater, ""), &|_, statistics| match statistics {
        Statistics::ByteArray(_) => Some(Statistics::byte_array(None, None, None, Some(5_000), false)),
        other => Some(other.clone()),
    });
    // The old fields have bounds found by comparing signed numbers or signed bytes.
    check(
        "unsigned numbers in old fields",
        compare(2, CompareOp::Less, UInt32Array::from(vec![5])),
        &|_, statistics| match statistics {
            Statistics::Int32(_) => Some(Statistics::int32(Some(i32::MAX), Some(i32::MAX), None, Some(0), true)),
            other => Some(other.clone()),
        },
    );
    check("texts in old fields", compare_text(CompareOp::Less, "a"), &|_, statistics| match statistics {
        Statistics::ByteArray(_) => {
            Some(Statistics::byte_array(Some("x".into()), Some("y".into()), None, Some(200), true))
        }
        other => Some(other.clone()),
    });
    // For signed numbers the old fields are right, so they should be used.
    write_parquet(&path, &rows(0..3_000), small_pages());
    with_statistics(&path, |column, statistics| {
        let Statistics::Int64(ids) = statistics else { return Some(statistics.clone()) };
        assert_eq!(column, 0);
        Some(Statistics::int64(ids.min_opt().copied(), ids.max_opt().copied(), None, None, true))
    });
    let found = read(&*open(&path), &[0], &[number(0, CompareOp::Equal, 1_500)], 1).expect("read");
    assert_eq!(numbers(&found, 0), (1_000..2_000).collect::<Vec<_>>());
}

fn compare_text(op: CompareOp, text: &str) -> Predicate {
    compare(1, op, arrow::array::StringViewArray::from(vec![text]))
}

#[test]
fn bloom_filters_exclude_row_groups() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let even: ArrayRef = Arc::new(Int64Array::from_iter_values((0..4_000).map(|i| i * 2 % 4_001)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..4_000).map(|i| format!("{}", i * 2))));
    let batch = RecordBatch::try_from_iter([("n", even), ("t", texts)]).expect("a batch");
    write_parquet(&path, &batch, small_pages().set_bloom_filter_enabled(true).set_bloom_filter_fpp(1e-6));
    let source = open(&path);
    let count = |predicate: Predicate| read(&*source, &[0], &[predicate], 1).expect("read").num_rows();
    assert_eq!(count(compare_text(CompareOp::Equal, "4242")), 100, "the index of the pages finds the page");
    assert_eq!(count(compare_text(CompareOp::Equal, "4243")), 0, "no filter contains it");
    let values = |texts: &[&str]| Arc::new(arrow::array::StringViewArray::from(texts.to_vec())) as ArrayRef;
    let any = |texts: &[&str]| Predicate::In { column: 1, values: values(texts), negated: false };
    assert_eq!(count(any(&["4243", "17", "33"])), 0);
    assert!(count(any(&["4243", "18"])) > 0);
    assert!(count(Predicate::Or(vec![any(&["17"]), number(0, CompareOp::Greater, 5)])) > 0);
    assert_eq!(count(Predicate::And(vec![any(&["17"]), number(0, CompareOp::Greater, 5)])), 0);
}

#[test]
fn damaged_indexes_and_filters_never_affect_other_row_groups() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    write_parquet(&path, &rows(0..3_000), small_pages().set_bloom_filter_enabled(true));
    let sound = std::fs::read(&path).expect("there");
    let found = metadata(&path, true);
    let chunk = found.row_group(1).column(0);
    let ranges = [
        (chunk.column_index_offset(), chunk.column_index_length()),
        (chunk.offset_index_offset(), chunk.offset_index_length()),
        (chunk.bloom_filter_offset(), Some(16)),
    ];
    let mut state = 99_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for (offset, length) in ranges {
        let (offset, length) = (offset.expect("there") as usize, length.expect("there") as usize);
        for round in 0..60 {
            let mut bytes = sound.clone();
            match round {
                0 => bytes[offset..offset + length].fill(0),
                1 => bytes[offset..offset + length].fill(0xFF),
                _ => bytes[offset + random() % length] ^= 1 << (random() % 8),
            }
            std::fs::write(&path, &bytes).expect("written");
            // Damaged values cannot be told from correct ones. Only returning matters here.
            let _ = read(&*open(&path), &[0, 1], &[number(0, CompareOp::Equal, 1_450)], 1);
            let others = read(&*open(&path), &[0], &[number(0, CompareOp::Equal, 2_450)], 1).expect("not affected");
            assert_eq!(others.num_rows(), 100);
            assert_eq!(read(&*open(&path), &[0], &[], 1).expect("no index is needed").num_rows(), 3_000);
        }
    }
    // An index outside of the file should be ignored.
    std::fs::write(&path, &sound).expect("written");
    let mut bytes = sound[..4].to_vec();
    let end = sound.len() - 8 - u32::from_le_bytes(sound[sound.len() - 8..][..4].try_into().expect("4 bytes")) as usize;
    bytes.extend_from_slice(&sound[4..end]);
    let mut builder = metadata(&path, false).into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let mut group = group.into_builder();
        let columns = group.take_columns().into_iter().map(|column| {
            let column =
                column.into_builder().set_column_index_offset(Some(1 << 40)).set_offset_index_offset(Some(1 << 41));
            column.set_bloom_filter_offset(Some(1 << 42)).build().expect("a column")
        });
        let columns = columns.collect();
        group.set_column_metadata(columns).build().expect("a row group")
    });
    let changed = builder.set_row_groups(groups.collect()).build();
    ParquetMetaDataWriter::new(&mut bytes, &changed).finish().expect("written");
    std::fs::write(&path, &bytes).expect("written");
    let found = read(&*open(&path), &[0], &[number(0, CompareOp::Equal, 1_450)], 1).expect("read");
    assert_eq!(numbers(&found, 0), (1_000..2_000).collect::<Vec<_>>(), "the row group is still found");
}

#[test]
fn a_cancelled_query_stops_reading() {
    let folder = folder();
    for ending in ["parquet", "csv"] {
        let path = path(&folder, &format!("a.{ending}"));
        let batch = rows(0..1_000);
        let mut writer = writer(&path, batch.schema_ref(), &WriteOptions::default()).expect("a writer");
        writer.write(&batch).expect("written");
        writer.finish().expect("finished");
        let cancel = Cancel::new();
        let rows = open(&path).open(&[0], &[], 10, 1, &cancel).expect("opened");
        let mut share = rows.worker();
        assert!(share.next().is_some_and(|batch| batch.is_ok()));
        cancel.cancel();
        assert_eq!(share.next().and_then(Result::err).map(|error| error.kind()), Some(ErrorKind::Cancelled));
    }
}

#[test]
fn an_error_names_the_line() {
    let folder = folder();
    let path = path(&folder, "a.csv");
    let lines: String = (0..300_000).map(|i| format!("{i}\n")).collect();
    std::fs::write(Path::new(&path), format!("a\n{lines}x\n")).expect("written");
    let mut options = ReadOptions::default();
    options.set("sample_rows", "100").expect("an option");
    let source = FileRows::new(FileSet::open(&path, &options).expect("opened")).expect("columns of SQL");
    let error = read(&*source, &[0], &[], 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidText);
    assert!(error.message().contains("line 300002, column a: 'x'"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("guessed from the first")), "{error}");
}

#[test]
fn an_error_in_parquet_names_the_row_of_the_file() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3_000));
    let texts = (0..3_000).map(|row| if row == 2_456 { b"\xFF".as_slice() } else { b"text" });
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("id", ids), ("t", bytes)]).expect("a batch");
    // The schema that the writer added calls the bytes a text.
    let text = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("t", DataType::Utf8, false)]);
    let hint = KeyValue::new("ARROW:schema".to_owned(), parquet::arrow::encode_arrow_schema(&text));
    let properties = small_pages().set_key_value_metadata(Some(vec![hint])).build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let file = File::create(&path).expect("made");
    let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    let source = open(&path);
    assert_eq!(*source.schema().field(1).data_type(), DataType::Utf8View);
    let error = read(&*source, &[1], &[number(0, CompareOp::Equal, 2_450)], 1).unwrap_err();
    assert!(error.message().contains("row 2457, column t"), "{error}");
    assert_eq!(read(&*source, &[1], &[number(0, CompareOp::Equal, 2_350)], 1).expect("another page").num_rows(), 100);
}

#[test]
fn unsigned_numbers_stay_unsigned() {
    let folder = folder();
    let path = path(&folder, "a.parquet");
    write_parquet(&path, &rows(0..10), small_pages());
    let found = read(&*open(&path), &[2], &[], 1).expect("read");
    assert_eq!(found.column(0).as_primitive::<UInt32Type>().value(0), u32::MAX);
}

//! Writes and reads whole files: every format with every type, wrong content, and damaged files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::compute::concat_batches;
use parking_lot::Mutex;
use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType, TimeUnit};
use tempfile::TempDir;

use super::*;
use rowmill_expr::text::column_builder::ColumnBuilder;
use rowmill_expr::text::writer::TextColumn;
use rowmill_query::catalog::RowSource;

use crate::rows::FileRows;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// Every type with some texts, each in the form in which the writer writes it.
fn samples() -> Vec<(SqlType, Vec<&'static str>)> {
    let point = SqlType::Struct(vec![("x".to_owned(), SqlType::Int32), ("Tag".to_owned(), SqlType::TEXT)]);
    vec![
        (SqlType::Boolean, vec!["true", "false"]),
        (SqlType::Int8, vec!["-128", "127"]),
        (SqlType::Int16, vec!["-32768", "0"]),
        (SqlType::Int32, vec!["2147483647"]),
        (SqlType::Int64, vec!["-9223372036854775808"]),
        (SqlType::UInt8, vec!["255"]),
        (SqlType::UInt16, vec!["65535"]),
        (SqlType::UInt32, vec!["4294967295"]),
        (SqlType::UInt64, vec!["18446744073709551615"]),
        (SqlType::Float32, vec!["0.1", "-0.5", "NaN", "1e30"]),
        (SqlType::Float64, vec!["0.1", "1e300", "-Infinity", "5e-324"]),
        (SqlType::Decimal { precision: 38, scale: 10 }, vec!["-12345678901234567890.0123456789", "0.0000000000"]),
        (SqlType::Decimal { precision: 39, scale: 0 }, vec!["-999999999999999999999999999999999999999", "7"]),
        (
            SqlType::Decimal { precision: 76, scale: 38 },
            vec!["99999999999999999999999999999999999999.99999999999999999999999999999999999999"],
        ),
        (SqlType::Date, vec!["2013-07-31", "-0001-12-31", "12345-01-01"]),
        (SqlType::Time, vec!["00:00:00", "23:59:59.999999"]),
        (SqlType::Timestamp { unit: TimeUnit::Second, zoned: false }, vec!["2013-07-31 12:30:45"]),
        (SqlType::Timestamp { unit: TimeUnit::Millisecond, zoned: false }, vec!["1969-12-31 23:59:59.999"]),
        (SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: true }, vec!["2013-07-31 12:30:45.123456+00"]),
        (SqlType::Timestamp { unit: TimeUnit::Nanosecond, zoned: true }, vec!["1677-09-21 00:12:43.145224192+00"]),
        (SqlType::Interval, vec!["00:00:00", "-1 years -2 mons 3 days -04:05:06.000000001"]),
        (SqlType::TEXT, vec!["", "grün", "a\nb\"c,d'"]),
        (SqlType::Text { chars_max: Some(3) }, vec!["", "äöü"]),
        (SqlType::Blob, vec!["\\x", "\\x00ff"]),
        (SqlType::Uuid, vec!["550e8400-e29b-41d4-a716-446655440000"]),
        (SqlType::Json, vec!["{\"a\": [1, null]}", "\"text\"", "1.50"]),
        (SqlType::List(Box::new(SqlType::Int64)), vec!["[]", "[1, null, -3]"]),
        (point.clone(), vec!["{\"x\": 1, \"Tag\": \"a\\\"b\"}", "{\"x\": null, \"Tag\": null}"]),
        (SqlType::List(Box::new(point)), vec!["[{\"x\": 1, \"Tag\": \"\"}, null]"]),
    ]
}

#[test]
fn every_type_reads_back_its_written_values() {
    for (kind, texts) in samples() {
        let mut with_null: Vec<Option<&str>> = texts.iter().copied().map(Some).collect();
        with_null.insert(1, None);
        let mut builder = ColumnBuilder::new(&kind, with_null.len());
        let mut found = |row, problem| panic!("{kind}: row {row}: {problem:?}");
        builder.append_all(&mut &StringViewArray::from(with_null.clone()), with_null.len(), &mut found);
        let array = builder.finish();
        assert_eq!(array.data_type(), &kind.arrow());
        let column = TextColumn::new(&array).expect("text");
        for (row, text) in with_null.iter().enumerate() {
            let mut written = String::new();
            let valid = column.write(row, &mut written);
            assert_eq!(valid.then_some(written.as_str()), *text, "{kind}");
        }
    }
}

/// Makes a batch with a nullable column of every type.
fn every_type() -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (number, (kind, texts)) in samples().into_iter().enumerate() {
        let mut builder = ColumnBuilder::new(&kind, 5);
        for row in 0..5 {
            match texts.get(row) {
                Some(text) => builder.append_text(text).expect("a sample"),
                None => builder.append_null(),
            }
        }
        columns.push((format!("C{number} {kind}"), builder.finish()));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

fn kinds(batch: &RecordBatch) -> Vec<TargetColumn> {
    let samples = samples();
    let fields = batch.schema_ref().fields().iter().zip(samples);
    fields.map(|(field, (kind, _))| TargetColumn::new(field.name(), kind)).collect()
}

fn write(path: &str, batch: &RecordBatch, options: &WriteOptions) -> Written {
    let mut writer = writer(path, batch.schema_ref(), options).expect("a writer");
    writer.write(batch).expect("written");
    writer.finish().expect("finished")
}

fn set(options: &[(&str, &str)]) -> ReadOptions {
    let mut read = ReadOptions::default();
    for (name, value) in options {
        read.set(name, value).expect("an option");
    }
    read
}

fn read(path: &str, target: &[TargetColumn], options: &ReadOptions) -> Result<RecordBatch> {
    let files = FileSet::open(path, options)?;
    let batches: Vec<RecordBatch> = files.batches(target, 0, None)?.collect::<Result<_>>()?;
    let schema = mapping::schema_of(target);
    concat_batches(&schema, &batches).map_err(|error| Error::internal(error.to_string()))
}

/// Reads a file with its own columns. Returns the header and the rows as text.
fn shown(path: &str, options: &ReadOptions) -> Result<Vec<String>> {
    let files = FileSet::open(path, options)?;
    let target = files.own_columns()?;
    let names: Vec<String> = target.iter().map(|column| format!("{} {}", column.name, column.kind)).collect();
    let wanted: Vec<usize> = (0..target.len()).collect();
    let source = FileRows::new(files)?.open(&wanted, &[], 1_000, 1, &Cancel::new())?;
    let mut rows = vec![names.join("|")];
    for batch in source.worker() {
        rows.extend(texts(&batch?));
    }
    Ok(rows)
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let columns: Vec<TextColumn<'_>> =
        batch.columns().iter().map(|column| TextColumn::new(column).expect("text")).collect();
    let row = |row: usize| {
        let values: Vec<String> = columns
            .iter()
            .map(|column| {
                let mut text = String::new();
                if column.write(row, &mut text) { text } else { "NULL".to_owned() }
            })
            .collect();
        values.join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

fn target(columns: &[(&str, SqlType)]) -> Vec<TargetColumn> {
    columns.iter().map(|(name, kind)| TargetColumn::new(*name, kind.clone())).collect()
}

fn put(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    fs::write(folder.path().join(name), text).expect("written");
    path(folder, name)
}

#[test]
fn every_format_gives_back_every_type() {
    let folder = folder();
    let batch = every_type();
    let target = kinds(&batch);
    for name in [
        "a.parquet",
        "a.csv",
        "a.tsv",
        "a.json",
        "a.ndjson",
        "a.arrow",
        "a.csv.gz",
        "a.csv.zst",
        "a.json.gz",
        "a.jsonl.zst",
    ] {
        let path = path(&folder, name);
        let written = write(&path, &batch, &WriteOptions::default());
        assert_eq!(written.rows, 5);
        assert_eq!(written.bytes, fs::metadata(&path).expect("there").len(), "{name}");
        let back = read(&path, &target, &ReadOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(texts(&back), texts(&batch), "{name}");
    }
    let leftovers: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert_eq!(leftovers.len(), 10, "no temporary file is left");
}

#[test]
fn every_compression_gives_back_every_type() {
    let folder = folder();
    let batch = every_type();
    for (name, compression) in [
        ("a.parquet", "none"),
        ("a.parquet", "gzip"),
        ("a.parquet", "snappy"),
        ("a.parquet", "lz4"),
        ("a.arrow", "zstd"),
        ("a.arrow", "lz4"),
    ] {
        let mut options = WriteOptions::default();
        options.set("compression", compression).expect("known");
        let path = path(&folder, name);
        write(&path, &batch, &options);
        let back = read(&path, &kinds(&batch), &ReadOptions::default()).expect("read");
        assert_eq!(texts(&back), texts(&batch), "{name} {compression}");
    }
    let mut options = WriteOptions::default();
    options.set("compression", "snappy").expect("known");
    let refused = writer(&path(&folder, "a.csv"), batch.schema_ref(), &options);
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::InvalidParameter));
}

#[test]
fn rows_keep_their_order_on_any_number_of_threads() {
    let folder = folder();
    let batch = |from: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 10_000));
        let names: ArrayRef = Arc::new(StringViewArray::from_iter(
            (from..from + 10_000).map(|i| (i % 7 != 0).then(|| format!("name \"{i}\",\n"))),
        ));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("s", names, true)]).expect("a batch")
    };
    let target = target(&[("n", SqlType::Int64), ("S", SqlType::TEXT)]);
    for name in ["a.parquet", "a.csv", "a.json", "a.arrow", "a.csv.gz"] {
        let path = path(&folder, name);
        let mut out = writer(&path, batch(0).schema_ref(), &WriteOptions::default()).expect("a writer");
        for from in (0..200_000).step_by(10_000) {
            out.write(&batch(from)).expect("written");
        }
        assert_eq!(out.finish().expect("finished").rows, 200_000);
        let files = FileSet::open(&path, &ReadOptions::default()).expect("opened");
        for threads in [0, 1, 3] {
            let batches = files.batches(&target, threads, None).expect("batches");
            let progress = batches.progress();
            let mut expected = 0;
            for batch in batches {
                let batch = batch.expect("read");
                let names = batch.column(1).as_string_view();
                for (n, name) in
                    batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().iter().zip(names)
                {
                    assert_eq!(*n, expected);
                    assert_eq!(name, (n % 7 != 0).then(|| format!("name \"{n}\",\n")).as_deref());
                    expected += 1;
                }
            }
            assert_eq!(expected, 200_000, "{name}, {threads} threads");
            // The counter may run ahead of the rows, but it should end at about the size of the file.
            assert!(progress.bytes_read() > files.bytes() / 2 && progress.bytes_read() <= files.bytes(), "{name}");
        }
    }
}

#[test]
fn types_of_text_files_are_guessed() {
    let folder = folder();
    let csv = put(
        &folder,
        "a.csv",
        "Id,Price,On,At,Name,Flag\n1,2.5,2013-07-31,2013-07-31 12:00:00,\"a,b\",true\n2,,,,\"\",false\n",
    );
    assert_eq!(
        shown(&csv, &ReadOptions::default()).expect("read"),
        [
            "Id BIGINT|Price DOUBLE|On DATE|At TIMESTAMP|Name TEXT|Flag BOOLEAN",
            "1|2.5|2013-07-31|2013-07-31 12:00:00|a,b|true",
            "2|NULL|NULL|NULL||false"
        ]
    );
    let json = put(
        &folder,
        "a.json",
        "{\"Id\": 1, \"tags\": [\"x\"], \"at\": \"2013-07-31T12:00:00Z\"}\n\n{\"Id\": 2.5, \"p\": {\"x\": 1}}\n\
         {\"Id\": null, \"tags\": null, \"n\": \"\\u00e9\"}\n",
    );
    assert_eq!(
        shown(&json, &ReadOptions::default()).expect("read"),
        [
            "Id DOUBLE|tags TEXT[]|at TIMESTAMP WITH TIME ZONE|p STRUCT(x BIGINT)|n TEXT",
            "1.0|[\"x\"]|2013-07-31 12:00:00+00|NULL|NULL",
            "2.5|NULL|NULL|{\"x\": 1}|NULL",
            "NULL|NULL|NULL|NULL|é"
        ]
    );
    let all_text = shown(&csv, &set(&[("all_text", "")])).expect("read");
    assert_eq!(all_text[0], "Id TEXT|Price TEXT|On TEXT|At TEXT|Name TEXT|Flag TEXT");
    assert_eq!(all_text[1], "1|2.5|2013-07-31|2013-07-31 12:00:00|a,b|true");
}

#[test]
fn json_arrays_and_multi_line_objects_are_read() {
    let folder = folder();
    let expected = ["a BIGINT|b BIGINT[]", "1|[1]", "2|NULL", "3|[]"];
    for text in [
        "[{\"a\": 1, \"b\": [1]}, {\"a\": 2}, {\"a\": 3, \"b\": []}]",
        "\n [\n  {\n    \"a\": 1,\n    \"b\": [1]\n  },\n  {\"a\": 2},\n  {\"a\": 3, \"b\": []}\n]\n",
        "{\n  \"a\": 1,\n  \"b\": [1]\n}\n{\n  \"a\": 2\n} {\"a\": 3, \"b\": []}",
        "\u{feff}{\"a\": 1, \"b\": [1]}\r\n{\"a\": 2}\r\n\r\n{\"a\": 3, \"b\": []}",
    ] {
        let path = put(&folder, "a.json", text);
        assert_eq!(shown(&path, &ReadOptions::default()).expect("read"), expected, "{text}");
    }
    let path = put(&folder, "a.json", "[\n{\"a\": 1},\n{\"a\": \"x\"}\n]");
    let error = read(&path, &target(&[("a", SqlType::Int64)]), &ReadOptions::default()).unwrap_err();
    assert!(error.message().contains("line 3, column a: 'x' is not a value of the type BIGINT"), "{error}");
    let path = put(&folder, "a.json", "[{\"a\": 1},\n{\"a\": 2 oops}]");
    let error = read(&path, &target(&[("a", SqlType::Int64)]), &set(&[("on_error", "skip")])).unwrap_err();
    assert!(error.message().contains("line 2: at character 9"), "{error}");
    let path = put(&folder, "a.json", "[{\"a\": 1},\n");
    let error = read(&path, &target(&[("a", SqlType::Int64)]), &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFileFormat);
}

/// The error of reading `text` as a file named `name` into a BIGINT column `a` and a DATE column `b`.
fn complaint(name: &str, text: impl AsRef<[u8]>) -> String {
    let folder = folder();
    let path = put(&folder, name, text);
    let mut target = target(&[("a", SqlType::Int64), ("b", SqlType::Date)]);
    target[0].nullable = false;
    let error = read(&path, &target, &ReadOptions::default()).unwrap_err();
    let place = error.message().strip_prefix(&path).unwrap_or(error.message());
    format!("{} {}", error.sqlstate(), place)
}

#[test]
fn the_error_for_a_bad_csv_line_names_line_column_and_value() {
    let at = |text: &str| complaint("x.csv", format!("a,b\n1,2013-07-31\n{text}"));
    assert_eq!(at("x,\n"), "22P02 , line 3, column a: 'x' is not a value of the type BIGINT");
    assert_eq!(at("1,31.7.2013\n"), "22007 , line 3, column b: '31.7.2013' is not a value of the type DATE");
    assert_eq!(at("1,2013-02-30\n"), "22007 , line 3, column b: '2013-02-30' is out of range for the type DATE");
    assert_eq!(
        at("9223372036854775808,\n"),
        "22003 , line 3, column a: '9223372036854775808' is out of range for the type BIGINT"
    );
    assert_eq!(at(",\n"), "23502 , line 3, column a: NULL in a NOT NULL column");
    assert_eq!(at("1\n"), "22P04 , line 3: the line has 1 field, and 2 are expected");
    assert_eq!(at("1,,\n"), "22P04 , line 3: the line has 3 fields, and 2 are expected");
    assert_eq!(at("1,\"x\n"), "22P04 , line 3: the quote that opens column b is not closed");
    assert_eq!(at("1,\"x\"y\n"), "22P04 , line 3: column b has text after its closing quote: 'y'");
    assert_eq!(at("\n\n2,\n,\n"), "23502 , line 6, column a: NULL in a NOT NULL column");
    // The first bad line is reported, whatever is wrong with it and with later lines.
    assert_eq!(at("2,x\nx,\n1\n"), "22007 , line 3, column b: 'x' is not a value of the type DATE");
    assert_eq!(
        complaint("x.csv", "a,b\n1,\n2,gr\u{fc}n\n".chars().map(|c| c as u8).collect::<Vec<u8>>()),
        "22P04 , line 3: column b holds the byte 0xFC, which is not UTF-8"
    );
    assert_eq!(
        complaint("x.csv", "a,b\n1,\"2013\n-07-31\"\n3,z\n"),
        "22007 , line 2, column b: '2013\\n-07-31' is not a value of the type DATE"
    );
    assert_eq!(complaint("x.csv", "a,b\n\"\n1\",\n\"2\",\n2,z\n").split(',').nth(1), Some(" line 2"));
    assert_eq!(complaint("x.csv", "a,b\n1,\"2013-07-31\"\n\n3,z\n").split(',').nth(1), Some(" line 4"));
}

#[test]
fn the_error_for_a_bad_json_line_names_line_and_character() {
    let at = |text: &str| complaint("x.json", format!("{{\"a\": 1, \"b\": null}}\n{text}"));
    assert_eq!(at("{\"a\": \"x\"}"), "22P02 , line 2, column a: 'x' is not a value of the type BIGINT");
    assert_eq!(at("{\"a\": 1.5}"), "22P02 , line 2, column a: '1.5' is not a value of the type BIGINT");
    assert_eq!(at("{\"a\": 1, \"b\": [1]}"), "22007 , line 2, column b: '[1]' is not a value of the type DATE");
    assert_eq!(at("{\"b\": null}"), "23502 , line 2, column a: NULL in a NOT NULL column");
    assert_eq!(at("{\"a\": 1, \"b\": nil}"), "22P04 , line 2: at character 15, null is expected and not 'nil}'");
    assert_eq!(at("{\"a\": 1"), "22P04 , line 2: at character 8, a comma or } is expected and not the end of the line");
    assert_eq!(
        at("{\"a\"\n{\"a\": 1}\n"),
        "22P04 , line 2: at character 5, a colon is expected and not the end of the line"
    );
    assert_eq!(at("{\"a\": 1} x"), "22P04 , line 2: at character 10, the end of the line is expected and not 'x'");
    assert_eq!(at("[1]"), "22P04 , line 2: at character 1, an object in { } is expected and not '[1]'");
    assert_eq!(
        at("{\"a\": 1, \"b\": \"\\x\"}"),
        "22P04 , line 2: at character 16, an escape such as \\n or \\u00e9 is expected and not '\\x\"}'"
    );
    assert_eq!(
        complaint("x.json", b"{\"a\": 1}\n{\"a\": \"\xff\"}\n"),
        "22P04 , line 2: the line holds the byte 0xFF, which is not UTF-8"
    );
}

#[test]
fn skipped_lines_are_reported_and_the_others_are_kept() {
    let folder = folder();
    let text = "a,b\n1,2013-01-01\nx,2013-01-02\n3\n4,\"2013-01-04\n5,2013-01-05\n\
                6,\"2013-01-06\"\n7,gr\u{fc}n\n8,2013-01-08\n9,\"y";
    let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let path = put(&folder, "a.csv", bytes);
    let target = target(&[("a", SqlType::Int64), ("b", SqlType::Date)]);
    let rejects: Arc<Mutex<Vec<Reject>>> = Arc::default();
    let sink: RejectSink = {
        let rejects = Arc::clone(&rejects);
        Arc::new(move |reject| {
            rejects.lock().push(reject);
            Ok(())
        })
    };
    let files = FileSet::open(&path, &set(&[("on_error", "skip")])).expect("opened");
    let batches: Vec<RecordBatch> =
        files.batches(&target, 0, Some(sink)).expect("batches").collect::<Result<_>>().expect("read");
    let rows: Vec<String> = batches.iter().flat_map(texts).collect();
    assert_eq!(rows, ["1|2013-01-01", "5|2013-01-05", "6|2013-01-06", "8|2013-01-08"]);
    let mut rejects = rejects.lock().clone();
    rejects.sort_by_key(|reject| reject.line);
    let short: Vec<(u64, Option<&str>, &str)> =
        rejects.iter().map(|reject| (reject.line, reject.column.as_deref(), reject.text.as_str())).collect();
    assert_eq!(
        short,
        [(3, Some("a"), "x"), (4, None, "3"), (5, None, "4,\"2013-01-04"), (8, None, "7,gr n"), (10, None, "9,\"y")]
    );
    assert_eq!(rejects[0].record, "x,2013-01-02");
    assert_eq!(rejects[0].message, "'x' is not a value of the type BIGINT");
    assert_eq!(rejects[0].file, path);

    let json = put(&folder, "a.json", "{\"a\": 1}\n{\"a\": true}\n{\"a\n{\"a\": 4, \"zz\": 1}\n{\"a\": 5}\n");
    let back = read(&json, &target[..1], &set(&[("on_error", "skip")])).expect("read");
    assert_eq!(texts(&back), ["1", "5"]);
}

#[test]
fn a_value_that_does_not_fit_the_guessed_type_gets_a_hint() {
    let folder = folder();
    let path = put(&folder, "a.csv", "a\n1\n2\nx\n");
    let error = shown(&path, &set(&[("sample_rows", "2")])).unwrap_err();
    assert!(error.message().ends_with("line 4, column a: 'x' is not a value of the type BIGINT"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("guessed from the first 2 rows")), "{error}");
    let path = put(&folder, "a.json", "{\"a\": 1}\n{\"b\": 1}\n");
    let error = shown(&path, &set(&[("sample_rows", "1")])).unwrap_err();
    assert!(error.message().contains("line 2, column b") && error.kind() == ErrorKind::UndefinedColumn, "{error}");
}

#[test]
fn columns_are_matched_by_name_or_position() {
    let folder = folder();
    let csv = put(&folder, "a.csv", "B,a\nx,1\n");
    let columns = target(&[("A", SqlType::Int64), ("b", SqlType::TEXT)]);
    assert_eq!(texts(&read(&csv, &columns, &ReadOptions::default()).expect("read")), ["1|x"]);
    let csv = put(&folder, "b.csv", "1,x\n2,y\n");
    assert_eq!(texts(&read(&csv, &columns, &ReadOptions::default()).expect("read")), ["1|x", "2|y"]);
    let csv = put(&folder, "c.csv", "Rome,IT\nOslo,NO\n");
    let places = target(&[("city", SqlType::TEXT), ("country", SqlType::TEXT)]);
    let rows = texts(&read(&csv, &places, &ReadOptions::default()).expect("read"));
    assert_eq!(rows, ["Rome|IT", "Oslo|NO"], "a first line that names no column is a row");
    let csv = put(&folder, "d.csv", "city,country\nOslo,NO\nOslo,NO\n");
    assert_eq!(texts(&read(&csv, &places, &ReadOptions::default()).expect("read")), ["Oslo|NO", "Oslo|NO"]);
    let csv = put(&folder, "e.csv", "id,nam\n1,x\n");
    let error = read(&csv, &target(&[("id", SqlType::Int64), ("name", SqlType::TEXT)]), &ReadOptions::default());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedColumn);
    assert!(error.hint_text().is_some_and(|hint| hint.starts_with("did you mean name?")), "{error}");

    let mut with_default = target(&[("a", SqlType::Int64), ("c", SqlType::Int32), ("d", SqlType::TEXT)]);
    with_default[1].missing = Some(Arc::new(Int32Array::from(vec![7])));
    let lenient = set(&[("ignore_unknown", "true")]);
    let csv = put(&folder, "f.csv", "B,a\nx,1\n");
    assert_eq!(texts(&read(&csv, &with_default, &lenient).expect("read")), ["1|7|NULL"]);
    let json = put(&folder, "f.json", "{\"B\": 0, \"A\": 1}\n{\"c\": null, \"d\": \"x\"}\n");
    assert_eq!(texts(&read(&json, &with_default, &lenient).expect("read")), ["1|7|NULL", "NULL|NULL|x"]);
    for name in ["f.parquet", "f.arrow"] {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let batch = RecordBatch::try_from_iter([("A", numbers.clone()), ("z", numbers)]).expect("a batch");
        let path = path(&folder, name);
        write(&path, &batch, &WriteOptions::default());
        assert_eq!(texts(&read(&path, &with_default, &lenient).expect("read")), ["1|7|NULL", "NULL|7|NULL"]);
        let error = read(&path, &with_default, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedColumn);
        with_default[0].nullable = false;
        let error = read(&path, &with_default, &lenient).unwrap_err();
        assert!(error.message().ends_with("row 2, column a: NULL in a NOT NULL column"), "{error}");
        with_default[0] = TargetColumn::new("a", SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false });
        let error = read(&path, &with_default, &lenient).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DatatypeMismatch);
        with_default[0] = TargetColumn::new("a", SqlType::Int64);
    }
}

#[test]
fn values_of_binary_files_are_checked() {
    let folder = folder();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 300, -1]));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("a batch");
    for name in ["a.parquet", "a.arrow"] {
        let path = path(&folder, name);
        write(&path, &batch, &WriteOptions::default());
        let error = read(&path, &target(&[("n", SqlType::Int8)]), &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
        assert!(error.message().ends_with("row 2, column n: '300' is out of range for the type TINYINT"), "{error}");
    }
}

#[test]
fn several_files_with_equal_columns_read_as_one() {
    let folder = folder();
    let pattern = |ending: &str| path(&folder, &format!("part-*.{ending}"));
    for number in 0..3_i64 {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![number]));
        let b: ArrayRef = Arc::new(StringArray::from(vec![format!("x{number}")]));
        let mut columns = vec![("a", a), ("B", b)];
        if number == 1 {
            columns.reverse();
        }
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        for ending in ["parquet", "arrow", "json"] {
            write(&path(&folder, &format!("part-{number}.{ending}")), &batch, &WriteOptions::default());
        }
        put(&folder, &format!("part-{number}.csv"), format!("a,B\n{number},x{number}\n"));
    }
    for ending in ["parquet", "arrow", "json", "csv"] {
        let rows = shown(&pattern(ending), &ReadOptions::default()).expect("read");
        assert_eq!(rows, ["a BIGINT|B TEXT", "0|x0", "1|x1", "2|x2"], "{ending}");
    }
    let error = FileSet::open(&path(&folder, "part-0.*"), &ReadOptions::default()).unwrap_err();
    assert!(error.message().contains("different formats"), "{error}");
    let other = RecordBatch::try_from_iter([
        ("a", Arc::new(StringArray::from(vec!["1"])) as ArrayRef),
        ("B", Arc::new(StringArray::from(vec!["1"])) as ArrayRef),
    ])
    .expect("a batch");
    for ending in ["parquet", "arrow"] {
        write(&path(&folder, &format!("part-3.{ending}")), &other, &WriteOptions::default());
        let error = FileSet::open(&pattern(ending), &ReadOptions::default()).unwrap_err();
        assert!(error.message().contains("column a is of the type BIGINT in"), "{error}");
        assert!(error.message().contains(&format!("part-3.{ending}")), "{error}");
    }
    put(&folder, "part-3.csv", "a,C\n1,2\n");
    let error = FileSet::open(&pattern("csv"), &ReadOptions::default()).unwrap_err();
    assert!(error.message().contains("part-3.csv has a column C where"), "{error}");
}

#[test]
fn names_that_differ_only_by_case_are_renamed() {
    let folder = folder();
    let json = put(&folder, "a.json", "{\"Id\": 1, \"ID\": 2}\n");
    let files = FileSet::open(&json, &ReadOptions::default()).expect("opened");
    assert_eq!(files.notices().len(), 1);
    assert_eq!(shown(&json, &ReadOptions::default()).expect("read"), ["Id BIGINT|ID_1 BIGINT", "1|2"]);
    let csv = put(&folder, "a.csv", "x,X,\n1,2,3\n");
    assert_eq!(
        shown(&csv, &set(&[("header", "true")])).expect("read"),
        ["x BIGINT|X_1 BIGINT|column3 BIGINT", "1|2|3"]
    );
}

#[test]
fn csv_options_are_obeyed_or_refused() {
    let folder = folder();
    let path = put(&folder, "a.txt", "'it\\'s';NULL;\n'NULL';'';x\n");
    let options = set(&[
        ("format", "csv"),
        ("delimiter", ";"),
        ("quote", "'"),
        ("escape", "\\"),
        ("null", "NULL"),
        ("header", "false"),
    ]);
    let columns = target(&[("a", SqlType::TEXT), ("b", SqlType::TEXT), ("c", SqlType::TEXT)]);
    assert_eq!(texts(&read(&path, &columns, &options).expect("read")), ["it's|NULL|", "NULL||x"]);
    let error = FileSet::open(&path, &ReadOptions::default()).unwrap_err();
    assert!(error.hint_text().is_some_and(|hint| hint.contains("WITH (format csv)")), "{error}");
    let raw = put(&folder, "b.csv", "a,b\n\"x,y\"\n");
    let columns = target(&[("a", SqlType::TEXT), ("b", SqlType::TEXT)]);
    assert_eq!(texts(&read(&raw, &columns, &set(&[("quote", "")])).expect("read")), ["\"x|y\""]);
    for (name, option) in [("b.parquet", "on_error"), ("b.json", "header")] {
        let path = put(&folder, name, "{\"a\": 1}");
        let value = if option == "on_error" { "skip" } else { "true" };
        let error = FileSet::open(&path, &set(&[(option, value)])).unwrap_err();
        assert!(error.message().contains(option), "{error}");
    }
    let written = every_type();
    let mut options = WriteOptions::default();
    options.set("null_string", "NULL").expect("known");
    options.set("delimiter", ";").expect("known");
    let path = self::path(&folder, "c.csv");
    write(&path, &written, &options);
    let back = read(&path, &kinds(&written), &set(&[("null_string", "NULL")])).expect("read");
    assert_eq!(texts(&back), texts(&written));
}

#[test]
fn a_blank_line_of_a_one_column_file_is_null() {
    let folder = folder();
    let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some(""), Some("b")]));
    let batch = RecordBatch::try_from_iter_with_nullable([("name", names, true)]).expect("a batch");
    let path = path(&folder, "a.csv");
    write(&path, &batch, &WriteOptions::default());
    assert_eq!(fs::read_to_string(&path).expect("there"), "name\na\n\n\"\"\nb\n");
    let columns = target(&[("name", SqlType::TEXT)]);
    assert_eq!(texts(&read(&path, &columns, &ReadOptions::default()).expect("read")), ["a", "NULL", "", "b"]);
}

#[test]
fn a_dropped_writer_leaves_the_old_file_unchanged() {
    let folder = folder();
    let batch = every_type();
    let path = put(&folder, "a.csv", "before");
    let mut unfinished = writer(&path, batch.schema_ref(), &WriteOptions::default()).expect("a writer");
    unfinished.write(&batch).expect("written");
    drop(unfinished);
    assert_eq!(fs::read_to_string(&path).expect("there"), "before");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let missing = writer(&self::path(&folder, "no/a.csv"), batch.schema_ref(), &WriteOptions::default());
    assert_eq!(missing.err().map(|error| error.kind()), Some(ErrorKind::UndefinedFile));
    let directory = writer(&folder.path().display().to_string(), batch.schema_ref(), &set_format("csv"));
    assert_eq!(directory.err().map(|error| error.kind()), Some(ErrorKind::WrongObject));
}

fn set_format(format: &str) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set("format", format).expect("known");
    options
}

/// Reads as much of a file as possible. Only returning matters, not the result.
fn try_reading(path: &str) -> Result<usize> {
    let files = FileSet::open(path, &ReadOptions::default())?;
    let target = files.own_columns()?;
    let mut rows = 0;
    for batch in files.batches(&target, 0, None)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

#[test]
fn damaged_files_are_errors() {
    let folder = folder();
    let batch = every_type();
    let mut state = 12_345_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for (name, compression) in [
        ("a.parquet", "zstd"),
        ("a.parquet", "none"),
        ("a.arrow", "none"),
        ("a.arrow", "lz4"),
        ("a.csv.gz", "gzip"),
        ("a.json.zst", "zstd"),
    ] {
        let mut options = WriteOptions::default();
        options.set("compression", compression).expect("known");
        let path = path(&folder, name);
        write(&path, &batch, &options);
        let sound = fs::read(&path).expect("there");
        assert_eq!(try_reading(&path).expect("sound"), 5);
        for cut in (0..sound.len()).step_by(sound.len() / 40 + 1) {
            fs::write(&path, &sound[..cut]).expect("written");
            assert!(try_reading(&path).is_err(), "{name} cut at {cut}");
        }
        // Changes of single bits may give errors or other values, but must never crash or hang.
        for _ in 0..200 {
            let mut bytes = sound.clone();
            for _ in 0..1 + random() % 3 {
                let at = random() as usize % bytes.len();
                bytes[at] ^= 1 << (random() % 8);
            }
            fs::write(&path, &bytes).expect("written");
            let _ = try_reading(&path);
        }
        // A file of noise should be refused, also if it ends like a valid file.
        let noise: Vec<u8> = (0..4_096).map(|_| random() as u8).collect();
        fs::write(&path, &noise).expect("written");
        assert!(try_reading(&path).is_err(), "{name} of noise");
        let mut tail = noise;
        tail.extend_from_slice(&sound[sound.len() - sound.len().min(12)..]);
        fs::write(&path, &tail).expect("written");
        assert!(try_reading(&path).is_err(), "{name} of noise with its tail");
    }
}

#[test]
fn arrow_streams_are_read_too() {
    let folder = folder();
    let batch = every_type();
    let path = path(&folder, "a.arrows");
    let file = fs::File::create(&path).expect("made");
    let mut stream = arrow::ipc::writer::StreamWriter::try_new(file, batch.schema_ref()).expect("a stream");
    stream.write(&batch).expect("written");
    stream.write(&batch).expect("written");
    stream.finish().expect("finished");
    let back = read(&path, &kinds(&batch), &ReadOptions::default()).expect("read");
    assert_eq!(texts(&back), [texts(&batch), texts(&batch)].concat());
    let sound = fs::read(&path).expect("there");
    fs::write(&path, &sound[..sound.len() / 2]).expect("written");
    assert!(try_reading(&path).is_err());
}

#[test]
fn parquet_blocks_run_over_files_and_row_groups() {
    let folder = folder();
    let mut first = 0_i64;
    for (number, rows) in [700, 0, 5, 1_000].into_iter().enumerate() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows));
        let names: ArrayRef =
            Arc::new(StringArray::from_iter_values((first..first + rows).map(|i| format!("name {i}"))));
        first += rows;
        let batch = RecordBatch::try_from_iter([("n", numbers), ("s", names)]).expect("a batch");
        let file = fs::File::create(folder.path().join(format!("{number}.parquet"))).expect("made");
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_max_row_group_row_count(Some(300))
            .set_data_page_row_count_limit(70)
            .set_write_batch_size(10)
            .build();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
    }
    let files = FileSet::open(&path(&folder, "*.parquet"), &ReadOptions::default()).expect("opened");
    assert_eq!(files.rows(), Some(1_705));
    let target = target(&[("s", SqlType::TEXT), ("n", SqlType::Int32), ("none", SqlType::TEXT)]);
    for rows_max in [1, 64, 300, 512, 5_000] {
        let mut blocks = files.parquet_blocks(&target).expect("opened").expect("Parquet");
        assert_eq!(blocks.rows(), 1_705);
        let mut expected = 0;
        while let Some(block) = blocks.next_block(rows_max) {
            assert!(block.rows() <= rows_max);
            let numbers = block.column(1).expect("decoded");
            let names = block.column(0).expect("decoded");
            assert_eq!(block.column(2).expect("filled").null_count(), block.rows());
            for (n, name) in
                numbers.as_primitive::<arrow::datatypes::Int32Type>().values().iter().zip(names.as_string_view())
            {
                assert_eq!(*n, expected);
                assert_eq!(name, Some(format!("name {n}").as_str()));
                expected += 1;
            }
        }
        assert_eq!((expected, blocks.rows_left()), (1_705, 0));
    }
    // Requests in any order should give the same rows.
    let mut blocks = files.parquet_blocks(&target).expect("opened").expect("Parquet");
    let all: Vec<ParquetBlock> = std::iter::from_fn(|| blocks.next_block(100)).collect();
    for block in all.iter().rev() {
        let batch = block.batch().expect("decoded");
        assert_eq!(batch.num_rows(), block.rows());
        assert_eq!(block.column(1).expect("again").as_ref(), batch.column(1).as_ref());
    }
    let last = all[17].batch().expect("decoded");
    assert_eq!(texts(&last)[0], "name 1700|1700|NULL");
}

#[test]
fn parquet_blocks_are_pulled_by_many_threads() {
    let folder = folder();
    let column = |c: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..20_000).map(|i| i * 10 + c))) };
    let names: Vec<String> = (0..10).map(|c| format!("c{c}")).collect();
    let batch = RecordBatch::try_from_iter(names.iter().zip(0..).map(|(name, c)| (name, column(c)))).expect("a batch");
    let path = path(&folder, "a.parquet");
    write(&path, &batch, &WriteOptions::default());
    let files = FileSet::open(&path, &ReadOptions::default()).expect("opened");
    let target = files.own_columns().expect("known types");
    let mut blocks = files.parquet_blocks(&target).expect("opened").expect("Parquet");
    let mut first = 0;
    while let Some(block) = blocks.next_block(3_000) {
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if index >= target.len() {
                            return;
                        }
                        let array = block.column(index).expect("decoded");
                        let values = array.as_primitive::<arrow::datatypes::Int64Type>().values();
                        assert_eq!(values.len(), block.rows());
                        assert_eq!(values[0], first * 10 + index as i64);
                    }
                });
            }
        });
        first += block.rows() as i64;
    }
    assert_eq!(first, 20_000);
}

#[test]
fn missing_empty_and_packed_files_are_errors() {
    let folder = folder();
    let error = FileSet::open(&path(&folder, "none.csv"), &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    let empty = put(&folder, "empty.csv", "");
    assert_eq!(try_reading(&empty).unwrap_err().kind(), ErrorKind::BadFileFormat);
    let packed = put(&folder, "a.parquet.gz", "x");
    assert_eq!(try_reading(&packed).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(Path::new(&packed).exists());
}

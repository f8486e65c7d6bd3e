//! The queries of `hits/queries.sql` at 100,000 rows and their answers, which DuckDB gave; loaded and run as
//! `rowmill-bench load` and `run` do.

use std::path::Path;

use rowmill::arrow::array::Array;
use rowmill::text::format_value;
use rowmill::{Connection, Database};
use rowmill_bench::hits::{CREATE, World};
use rowmill_bench::load::{Load, load};
use rowmill_bench::parquet_file;
use rowmill_bench::run::{Run, run, statements};
use serde_json::Value;

const QUERIES: &str = include_str!("../../hits/queries.sql");

#[test]
fn answers_are_those_of_duckdb() {
    let folder = tempfile::tempdir().unwrap();
    let (data, directory) = (folder.path().join("hits.parquet"), folder.path().join("database"));
    parquet_file::write(&World::new(100_000, 1), &data, 2, &|_| ()).unwrap();
    let job = Load { directory: &directory, data: &data, table: "hits", create: Some(CREATE), threads: 2 };
    let loaded = load(&job, None).unwrap();
    assert_eq!(loaded["rows"], 100_000);

    let mut connection = Database::open(&directory).unwrap().connect().unwrap();
    let mut wrong = Vec::new();
    for (at, statement) in statements(QUERIES).enumerate() {
        let seen = answer(&mut connection, statement);
        let expected = golden(at + 1);
        if !same(&seen, &expected) {
            wrong.push(format!("{}: {statement}\n  seen     {seen:?}\n  expected {expected:?}", at + 1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop(connection);
    reports_have_every_statement(&directory, loaded);
}

fn reports_have_every_statement(directory: &Path, loaded: Value) {
    let load = loaded.as_object().cloned();
    let report =
        run(&Run { directory, statements: "SELECT COUNT(*) FROM hits;\nSELECT", runs: 2, threads: 1, load }, || {});
    let report = report.unwrap();
    assert_eq!(report["times"][0].as_array().map(Vec::len), Some(2));
    assert!(report["times"][1]["error"].is_string());
    assert!(report["load_s"].is_number() && report["bytes"].as_u64() > Some(1_000_000));
}

type Table = Vec<Vec<String>>;

fn answer(connection: &mut Connection, statement: &str) -> Table {
    let mut rows = Vec::new();
    for batch in connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}")) {
        let batch = batch.unwrap_or_else(|error| panic!("{statement}: {error}"));
        let value = |column: &dyn Array, row| format_value(column, row).unwrap().unwrap_or_default();
        rows.extend((0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| value(column, row)).collect()));
    }
    rows
}

/// Values are alike as text or, for averages, within the last digits.
fn same(seen: &Table, expected: &Table) -> bool {
    let near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => false,
    };
    let rows = |(a, b): (&Vec<String>, &Vec<String>)| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || (a.contains('.') && near(a, b)))
    };
    seen.len() == expected.len() && seen.iter().zip(expected).all(rows)
}

fn golden(number: usize) -> Table {
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let path = format!("{package}/hits/answers/{number:02}.csv");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).lines().map(fields).collect()
}

/// The fields of a line of CSV. No value of the answers has a line break.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

//! Runs the benchmarks' statements over generated tables, and compares their answers with DuckDB's. We load and run as
//! `rowmill-bench load` and `run` do.

use std::path::{Path, PathBuf};

use rowmill::arrow::array::Array;
use rowmill::text::format_value;
use rowmill::{Connection, Database};
use rowmill_bench::hits::{CREATE, World};
use rowmill_bench::load::{Load, load};
use rowmill_bench::run::{Run, run, statements};
use rowmill_bench::{parquet_file, tpch};
use serde_json::Value;

type Row = Vec<String>;

/// The rows of `hits` for which we keep answers, at seed 1.
const HITS_ROWS: u64 = 100_000;

/// The scale of TPC-H for which we keep answers.
const TPCH_SCALE: f64 = 0.1;

const TPCH_TABLES: [&str; 8] = ["region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem"];

/// Reads a file that developers have beside the source tree, and that is not part of it.
fn workload(file: &str) -> Option<String> {
    let path = package().join("../../shared/workloads").join(file);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("skipped: {} does not exist", path.display());
    }
    text
}

fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests").into()
}

#[test]
fn our_own_queries_answer_as_duckdb() {
    let (hits, loaded) = load_hits(CREATE);
    check(&hits.path().join("database"), include_str!("../../hits/queries.sql"), &package().join("hits/answers"));
    reports_have_every_statement(&hits.path().join("database"), loaded);
}

#[test]
fn clickbench_answers_as_duckdb() {
    let folder = "clickbench/";
    let Some(queries) = workload(&format!("{folder}queries.sql")) else { return };
    let create = workload(&format!("{folder}create.sql")).expect("a workload has its tables");
    let (hits, _) = load_hits(&create);
    check(&hits.path().join("database"), &queries, &package().join("clickbench/answers"));
}

#[test]
fn tpc_h_answers_as_duckdb() {
    let Some(queries) = workload("tpch/queries.sql") else { return };
    check_tpch(TPCH_SCALE, &queries, &package().join("tpch/answers"));
}

/// `ROWMILL_TPCH_ANSWERS` names a folder with the answers at scale 1, which are too large for the source tree.
#[test]
fn tpc_h_at_scale_one() {
    let Some(answers) = std::env::var_os("ROWMILL_TPCH_ANSWERS") else {
        eprintln!("skipped: ROWMILL_TPCH_ANSWERS is not set");
        return;
    };
    let Some(queries) = workload("tpch/queries.sql") else { return };
    check_tpch(1.0, &queries, Path::new(&answers));
}

fn load_hits(create: &str) -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("hits.parquet");
    parquet_file::write(&World::new(HITS_ROWS, 1), &data, 2, &|_| ()).unwrap();
    let directory = folder.path().join("database");
    let job = Load { directory: &directory, data: &data, table: "hits", create: Some(create), threads: 2 };
    let loaded = load(&job, None).unwrap();
    assert_eq!(loaded["rows"], HITS_ROWS);
    (folder, loaded)
}

fn check_tpch(scale: f64, queries: &str, answers: &Path) {
    let folder = tempfile::tempdir().unwrap();
    tpch::write(scale, folder.path(), 2, &|_| ()).unwrap();
    let directory = folder.path().join("database");
    for table in TPCH_TABLES {
        let data = folder.path().join(format!("{table}.parquet"));
        load(&Load { directory: &directory, data: &data, table, create: None, threads: 2 }, None).unwrap();
    }
    check(&directory, queries, answers);
}

/// Runs each statement and compares its rows with its file of answers.
fn check(directory: &Path, queries: &str, answers: &Path) {
    let mut connection = Database::open(directory).unwrap().connect().unwrap();
    let mut wrong = Vec::new();
    for (at, statement) in statements(queries).enumerate() {
        let seen = answer(&mut connection, statement);
        let expected = golden(&answers.join(format!("{:02}.csv", at + 1)));
        // Only a difference that may come from ties needs the rows without the LIMIT, so we compute them lazily.
        let all = || answer(&mut connection, without_limit(statement));
        if !same_rows(&seen, &expected) && !differ_by_ties(statement, &seen, &expected, all) {
            wrong.push(format!("{}: {statement}\n  seen     {seen:?}\n  expected {expected:?}", at + 1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

fn answer(connection: &mut Connection, statement: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}")) {
        let batch = batch.unwrap_or_else(|error| panic!("{statement}: {error}"));
        let value = |column: &dyn Array, row| format_value(column, row).unwrap().unwrap_or_default();
        rows.extend((0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| value(column, row)).collect()));
    }
    rows
}

fn same_rows(seen: &[Row], expected: &[Row]) -> bool {
    seen.len() == expected.len() && seen.iter().zip(expected).all(|(a, b)| same_row(a, b))
}

/// Whether two rows are equal as texts, or, for averages and their sums, except for the last digits.
fn same_row(a: &Row, b: &Row) -> bool {
    let near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => false,
    };
    let number = |a: &str, b: &str| (a.contains('.') || b.contains('.')) && near(a, b);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || number(a, b))
}

/// Whether the rows differ only as an order with ties allows: in the order of equal rows, and in the choice of the rows
/// before a LIMIT. `all` must return the rows without the LIMIT.
fn differ_by_ties(statement: &str, seen: &[Row], expected: &[Row], all: impl FnOnce() -> Vec<Row>) -> bool {
    if seen.len() != expected.len() || seen.is_empty() {
        return false;
    }
    let not_in = |rows: &[Row], others: &[Row]| {
        let is_new = |row: &&Row| !others.iter().any(|other| same_row(row, other));
        rows.iter().filter(is_new).cloned().collect::<Vec<Row>>()
    };
    let (only_seen, only_expected) = (not_in(seen, expected), not_in(expected, seen));
    // The statements order by a column of the result. So this column must have the same values in the same places, and
    // the rows that were exchanged must have equal values in it.
    let orders = |column: usize| {
        let values = || only_seen.iter().chain(&only_expected).map(|row| &row[column]);
        let in_place = seen.iter().zip(expected).all(|(a, b)| a[column] == b[column]);
        in_place && values().all(|value| Some(value) == values().next())
    };
    let ordered = !statement.contains("ORDER BY") || (0..seen[0].len()).any(orders);
    let limited =
        only_seen.is_empty() || without_limit(statement) != statement && not_in(&only_seen, &all()).is_empty();
    ordered && limited
}

/// Returns a statement up to its last LIMIT.
fn without_limit(statement: &str) -> &str {
    statement.rfind(" LIMIT ").map_or(statement, |end| &statement[..end])
}

fn golden(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(fields).collect()
}

/// Returns the fields of a line of CSV. No value of the answers has a line break.
fn fields(line: &str) -> Row {
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

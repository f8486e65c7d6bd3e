//! Measures the time to plan queries without a cache, and the time to parse and plan them. Also plans statements that
//! are hard to plan.
//!
//! `EXPLAIN` plans a query each time and runs nothing. To leave out parsing, we prepare the query. To include it, we
//! add a comment to the text, so that each text is new.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use rowmill::{Connection, Database};
use rowmill_base::{Error, Result};
use serde_json::{Value, json};

use crate::queries::percentile;

/// The number of times that each query is planned.
const RUNS: usize = 20;
/// The tables of a generated join.
const TABLES: usize = 20;
/// The values of a generated list.
const VALUES: usize = 10_000;
/// The parentheses around an expression. This number must be refused.
const PARENTHESES: usize = 3_000;

/// The planning times of a query.
#[derive(Debug)]
pub struct Planned {
    /// The number of the query, or its description.
    pub name: String,
    /// The medians in milliseconds, or the error of a query that cannot be planned.
    pub ms: Result<Milliseconds>,
    /// The time that planning should take at most, if we have set one.
    pub wanted_ms: Option<f64>,
}

/// The medians of one query.
#[derive(Clone, Copy, Debug)]
pub struct Milliseconds {
    /// The time to bind and optimize the query, and to write its plan as text.
    pub planned: f64,
    /// The time to parse the query as well.
    pub parsed_and_planned: f64,
}

/// The times of all queries.
#[derive(Debug)]
pub struct Planning {
    /// The queries of the file.
    pub queries: Vec<Planned>,
    /// The generated queries.
    pub generated: Vec<Planned>,
    /// The error for too many parentheses; `None` if they are planned.
    pub refusal: Option<String>,
}

/// Plans the queries on the database in a directory, and the generated ones on tables in memory. Calls `done` after
/// each query.
pub fn run(directory: &Path, queries: &[String], done: impl Fn()) -> Result<Planning> {
    let database = Database::open(directory)?;
    let mut connection = database.connect()?;
    let queries = (1..).zip(queries).map(|(number, query)| {
        let ms = median_ms(&mut connection, query);
        done();
        Planned { name: format!("query {number}"), ms, wanted_ms: None }
    });
    let queries = queries.collect();
    let mut connection = generated_tables()?;
    let generated = hard_queries().into_iter().map(|(name, query, wanted_ms)| {
        let ms = median_ms(&mut connection, &query);
        done();
        Planned { name, ms, wanted_ms: Some(wanted_ms) }
    });
    let generated = generated.collect();
    let nested = format!("SELECT {}1{}", "(".repeat(PARENTHESES), ")".repeat(PARENTHESES));
    let refusal = connection.query(&nested).err().map(|error| format!("{}: {error}", error.sqlstate()));
    Ok(Planning { queries, generated, refusal })
}

/// Returns the median times to plan a query.
fn median_ms(connection: &mut Connection, query: &str) -> Result<Milliseconds> {
    let statement = connection.prepare(&format!("EXPLAIN {query}"))?;
    let planned = median_of(|_| statement.query(connection, ())?.batches().map(drop))?;
    let parsed_and_planned =
        median_of(|run| connection.query(&format!("EXPLAIN {query} -- {run}"))?.batches().map(drop))?;
    Ok(Milliseconds { planned, parsed_and_planned })
}

/// Returns the median of the milliseconds of several runs.
fn median_of(mut run: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(RUNS);
    for number in 0..RUNS {
        let begun = Instant::now();
        run(number)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 0.5))
}

/// Makes a connection to tables of a few rows each, with keys and without.
fn generated_tables() -> Result<Connection> {
    let mut connection = Database::memory()?.connect()?;
    for table in 0..TABLES {
        let rows = 10 + table * 10;
        connection.execute_batch(&format!("CREATE TABLE c{table} (id BIGINT, next BIGINT, v BIGINT)"))?;
        connection.execute_batch(&format!(
            "INSERT INTO c{table} SELECT i, i % 10, i FROM generate_series(1, {rows}) AS g(i)"
        ))?;
        connection.execute_batch(&format!("CREATE TABLE k{table} (id BIGINT PRIMARY KEY, next BIGINT, v BIGINT)"))?;
        connection.execute_batch(&format!("INSERT INTO k{table} SELECT id, next, v FROM c{table}"))?;
    }
    Ok(connection)
}

/// Returns generated queries with their names and the milliseconds that they should take at most.
fn hard_queries() -> Vec<(String, String, f64)> {
    let mut queries = Vec::new();
    for (kind, letter) in [("columnar", 'c'), ("keyed", 'k')] {
        let tables: Vec<String> = (0..TABLES).map(|table| format!("{letter}{table}")).collect();
        let chain: Vec<String> =
            (1..TABLES).map(|table| format!("{letter}{}.next = {letter}{table}.id", table - 1)).collect();
        let star: Vec<String> = (1..TABLES).map(|table| format!("{letter}0.next = {letter}{table}.id")).collect();
        let clique: Vec<String> = (0..TABLES)
            .flat_map(|left| (left + 1..TABLES).map(move |right| format!("{letter}{left}.v = {letter}{right}.v")))
            .collect();
        for (shape, conditions) in [("chain", chain), ("star", star), ("clique", clique)] {
            let query = format!("SELECT count(*) FROM {} WHERE {}", tables.join(", "), conditions.join(" AND "));
            queries.push((format!("join of {TABLES} {kind} tables, {shape}"), query, 50.0));
        }
        let values: Vec<String> = (0..VALUES).map(|value| (value * 7).to_string()).collect();
        let query = format!("SELECT count(*) FROM {letter}0 WHERE id IN ({})", values.join(", "));
        queries.push((format!("list of {VALUES} values, {kind}"), query, 20.0));
    }
    queries
}

impl Planning {
    /// Returns the median and the greatest time of the queries of the file.
    fn median_and_greatest(&self) -> (f64, f64) {
        let mut times: Vec<f64> =
            self.queries.iter().filter_map(|query| Some(query.ms.as_ref().ok()?.planned)).collect();
        times.sort_by(f64::total_cmp);
        (percentile(&times, 0.5), percentile(&times, 1.0))
    }

    /// The result as JSON.
    pub fn json(&self) -> Value {
        let planned = |planned: &Planned| {
            json!({
                "name": planned.name,
                "ms": planned.ms.as_ref().ok().map(|ms| rounded(ms.planned)),
                "with_parsing_ms": planned.ms.as_ref().ok().map(|ms| rounded(ms.parsed_and_planned)),
                "wanted_ms": planned.wanted_ms,
                "error": planned.ms.as_ref().err().map(|error| error.to_string()),
            })
        };
        let (median, greatest) = self.median_and_greatest();
        json!({
            "queries": self.queries.iter().map(planned).collect::<Vec<_>>(),
            "median_ms": rounded(median),
            "greatest_ms": rounded(greatest),
            "generated": self.generated.iter().map(planned).collect::<Vec<_>>(),
            "too_many_parentheses": self.refusal,
        })
    }

    /// The result as text.
    pub fn text(&self) -> Result<String> {
        let mut out = String::new();
        self.write(&mut out).map_err(|error| Error::internal(error.to_string()))?;
        Ok(out)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        for planned in self.queries.iter().chain(&self.generated) {
            match &planned.ms {
                Ok(Milliseconds { planned: ms, parsed_and_planned }) => {
                    write!(out, "{:<40}{ms:>10.3} ms, with parsing {parsed_and_planned:.3} ms", planned.name)?;
                }
                Err(error) => write!(out, "{:<40}FAILED: {error}", planned.name)?,
            }
            if let Some(wanted) = planned.wanted_ms {
                write!(out, ", wanted at most {wanted} ms")?;
            }
            writeln!(out)?;
        }
        let (median, greatest) = self.median_and_greatest();
        writeln!(out, "{} queries: median {median:.3} ms, greatest {greatest:.3} ms", self.queries.len())?;
        match &self.refusal {
            Some(refusal) => writeln!(out, "{PARENTHESES} parentheses: {refusal}"),
            None => writeln!(out, "{PARENTHESES} parentheses are not refused"),
        }
    }

    /// Returns an error if a query cannot be planned, or if too many parentheses are not refused.
    pub fn verdict(&self) -> Result<()> {
        let failed = self.queries.iter().chain(&self.generated).filter(|planned| planned.ms.is_err()).count();
        match (failed, &self.refusal) {
            (0, Some(_)) => Ok(()),
            (0, None) => Err(Error::internal(format!("{PARENTHESES} parentheses are not refused"))),
            _ => Err(Error::internal(format!("{failed} queries cannot be planned"))),
        }
    }
}

/// Rounds to microseconds.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

//! Runs the statements of a file on a Rowmill database, and reports times, memory and allocations.

use std::path::Path;
use std::time::Instant;

use rowmill::{Connection, Database};
use rowmill_allocator::allocations;
use rowmill_base::Result;
use serde_json::{Map, Value, json};

use crate::load::megabytes;
use crate::process::{disk_bytes, peak_rss_mb};

/// The parameters of a run.
pub struct Run<'a> {
    /// The directory of the database.
    pub directory: &'a Path,
    /// The statements, one per line.
    pub statements: &'a str,
    /// The number of times that each statement runs.
    pub runs: usize,
    /// The threads with which a statement works.
    pub threads: usize,
    /// The report of the load, whose entries we copy into this report.
    pub load: Option<Map<String, Value>>,
}

/// Runs every statement and makes the report. If a statement fails, we report its error and run the next one.
pub fn run(run: &Run<'_>, done: impl Fn()) -> Result<Value> {
    let opening = Instant::now();
    let database = Database::open(run.directory)?;
    let mut connection = database.connect()?;
    let open_s = microseconds(opening);
    connection.execute_batch(&format!("SET threads = {}", run.threads))?;
    let (mut times, mut counts, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    for statement in statements(run.statements) {
        // We plan before the first run, because a run would put the plan into the cache.
        plans.push(planning(&mut connection, statement).map_or(Value::Null, |seconds| json!(seconds)));
        let (seconds, count) = match measure(&mut connection, statement, run.runs) {
            Ok((seconds, count)) => (json!(seconds), json!(count)),
            Err(error) => (json!({ "error": error.to_string() }), Value::Null),
        };
        times.push(seconds);
        counts.push(count);
        done();
    }
    let mut report = run.load.clone().unwrap_or_default();
    let entries = json!({
        "engine": "rowmill",
        "version": env!("CARGO_PKG_VERSION"),
        "threads": run.threads,
        "bytes": disk_bytes(run.directory)?,
        "open_s": open_s,
        "times": times,
        "plan_s": plans,
        "allocs": counts,
        "peak_rss_mb": peak_rss_mb(),
        "peak_granted_mb": megabytes(database.memory_peak_bytes()),
    });
    report.extend(entries.as_object().cloned().unwrap_or_default());
    Ok(Value::Object(report))
}

/// Returns the statements of a text, one per line.
pub fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.trim().trim_end_matches(';')).filter(|line| !line.is_empty())
}

/// Returns the seconds to plan a statement that the connection has not seen before.
fn planning(connection: &mut Connection, statement: &str) -> Result<f64> {
    let started = Instant::now();
    connection.query(&format!("EXPLAIN {statement}"))?;
    Ok(microseconds(started))
}

/// Returns the seconds since `started`, rounded to microseconds.
fn microseconds(started: Instant) -> f64 {
    (started.elapsed().as_secs_f64() * 1e6).round() / 1e6
}

/// Returns the seconds of each run, and the allocations of the last one.
fn measure(connection: &mut Connection, statement: &str, runs: usize) -> Result<(Vec<f64>, u64)> {
    let mut seconds = Vec::with_capacity(runs);
    let mut count = 0;
    for _ in 0..runs {
        let before = allocations();
        let started = Instant::now();
        // We read all batches, because the work of a query is done while its batches are read.
        for batch in connection.query(statement)? {
            batch?;
        }
        seconds.push(microseconds(started));
        count = allocations() - before;
    }
    Ok((seconds, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_statement() {
        let all: Vec<&str> = statements("SELECT 1;\n\n  SELECT 2 ;\nSELECT 3\n").collect();
        assert_eq!(all, ["SELECT 1", "SELECT 2 ", "SELECT 3"]);
    }
}

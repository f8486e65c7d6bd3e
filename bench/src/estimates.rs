//! Measures the errors of the planner's estimates for joins and groupings.
//!
//! Each query runs under `EXPLAIN ANALYZE`, whose lines have both numbers: `18 of ~20 rows`. The q-error is the greater
//! number divided by the smaller one, where each counts as at least one row.
//!
//! Operators must give all of their rows, so we switch `early_filters` off. Otherwise a join would be measured by the
//! rows that other joins need from it.

use std::fmt::Write as _;
use std::path::Path;

use rowmill::Database;
use rowmill_base::{Error, Result};
use serde_json::{Value, json};

use crate::queries::percentile;

/// The number of operators that we list at the end.
const WORST_SHOWN: usize = 10;

/// A join or a grouping of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The number of the query, counted from 1.
    pub query: usize,
    /// The operator in EXPLAIN's words.
    pub text: String,
    /// The rows that the planner expects.
    pub estimated: f64,
    /// The rows that the operator gave.
    pub measured: f64,
}

impl Operator {
    /// The factor between expected and actual rows.
    pub fn q_error(&self) -> f64 {
        let (estimated, measured) = (self.estimated.max(1.0), self.measured.max(1.0));
        (estimated / measured).max(measured / estimated)
    }
}

/// The operators of all queries.
#[derive(Debug, Default)]
pub struct Estimates {
    /// The operators, in the order of the queries and of their plans.
    pub operators: Vec<Operator>,
    /// Joins and groupings whose line lacks one of the numbers.
    pub unknown: Vec<String>,
    /// Queries that failed, with their errors.
    pub failed: Vec<String>,
}

/// Runs the queries on the database in a directory. Calls `done` after each query.
pub fn run(directory: &Path, queries: &[String], done: impl Fn()) -> Result<Estimates> {
    let database = Database::open(directory)?;
    let mut connection = database.connect()?;
    connection.execute_batch("SET early_filters = false")?;
    let mut estimates = Estimates::default();
    for (number, query) in (1..).zip(queries) {
        let lines = connection.query(&format!("EXPLAIN ANALYZE {query}")).and_then(|rows| {
            let rows = rows.rows()?;
            rows.iter().map(|row| row.get::<String>(0)).collect::<Result<Vec<_>>>()
        });
        match lines {
            Ok(lines) => estimates.add(number, &lines),
            Err(error) => estimates.failed.push(format!("query {number}: {error}")),
        }
        done();
    }
    Ok(estimates)
}

impl Estimates {
    fn add(&mut self, query: usize, lines: &[String]) {
        for line in lines {
            let (text, facts) = parts(line);
            if !is_join_or_grouping(text) {
                continue;
            }
            match rows(facts) {
                Some((measured, estimated)) => {
                    self.operators.push(Operator { query, text: text.to_owned(), estimated, measured });
                }
                None => self.unknown.push(format!("query {query}: {text}")),
            }
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut errors: Vec<f64> = self.operators.iter().map(Operator::q_error).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    fn worst(&self) -> Vec<&Operator> {
        let mut all: Vec<&Operator> = self.operators.iter().collect();
        all.sort_by(|a, b| b.q_error().total_cmp(&a.q_error()));
        all.truncate(WORST_SHOWN);
        all
    }

    /// The result as JSON.
    pub fn json(&self) -> Value {
        let operator = |operator: &Operator| {
            json!({
                "query": operator.query,
                "operator": operator.text,
                "estimated": operator.estimated,
                "measured": operator.measured,
                "q_error": rounded(operator.q_error()),
            })
        };
        let sorted = self.sorted();
        json!({
            "operators": self.operators.iter().map(operator).collect::<Vec<_>>(),
            "median": rounded(percentile(&sorted, 0.5)),
            "percentile_95": rounded(percentile(&sorted, 0.95)),
            "unknown": self.unknown,
            "failed": self.failed,
        })
    }

    /// The result as text.
    pub fn text(&self) -> Result<String> {
        let mut out = String::new();
        self.write(&mut out).map_err(|error| Error::internal(error.to_string()))?;
        Ok(out)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        self.operators.iter().try_for_each(|operator| line(out, operator))?;
        self.unknown.iter().try_for_each(|unknown| writeln!(out, "a number is missing: {unknown}"))?;
        self.failed.iter().try_for_each(|failed| writeln!(out, "FAILED: {failed}"))?;
        writeln!(out, "worst")?;
        self.worst().into_iter().try_for_each(|operator| line(out, operator))?;
        let sorted = self.sorted();
        let (median, high) = (percentile(&sorted, 0.5), percentile(&sorted, 0.95));
        writeln!(out, "{} joins and groupings, q-error: median {median:.2}, 95 % at most {high:.2}", sorted.len())
    }
}

fn line(out: &mut String, operator: &Operator) -> std::fmt::Result {
    let Operator { query, text, estimated, measured } = operator;
    writeln!(out, "{query:>3}{:>12.2}{measured:>12.0} of ~{estimated:<12.0}  {text}", operator.q_error())
}

/// Splits a line into the operator, without the branches in front of it, and the text in parentheses after it.
fn parts(line: &str) -> (&str, &str) {
    let line = line.trim_start_matches(['│', '├', '└', '─', ' ']);
    line.rsplit_once("  (").unwrap_or((line, ""))
}

/// Whether the line shows a join, `Hash join: ...`, or a grouping, `Group: by ...`. A grouping without keys has one
/// group, which needs no estimate.
fn is_join_or_grouping(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    name.ends_with("join") || text.starts_with("Group: by ")
}

/// Reads the numbers of `18 of ~20 rows, ...`: measured and estimated.
fn rows(facts: &str) -> Option<(f64, f64)> {
    let (measured, rest) = facts.split_once(" of ~")?;
    let (estimated, _) = rest.split_once(" rows")?;
    Some((measured.parse().ok()?, estimated.parse().ok()?))
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_joins_and_groupings_are_read() {
        let lines = [
            "10 rows, planned in 1.0 ms, run in 5.0 ms; the times below add up over threads",
            "Top rows: by [c DESC], first 10  (10 of ~10 rows, 0.1 ms, 1 thread)",
            "└─ Group: by [a], count(*)  (50 of ~5 rows, 0.1 ms, 1 thread)",
            "   └─ Hash join: inner, on [a = b]  (0 of ~40 rows, 0.3 ms, 2 threads, 3 build rows, 9 probe rows)",
            "      ├─ Scan: t, columns [a], where f(x)  (3 of ~3 rows, 0.1 ms)",
            "      └─ Loop join: inner  (~8 rows, 1 thread)",
            "         └─ Group: count(*)  (1 of ~1 rows, 0.1 ms, 1 thread)",
        ];
        let mut estimates = Estimates::default();
        estimates.add(7, &lines.map(str::to_owned));
        let found: Vec<(&str, f64)> =
            estimates.operators.iter().map(|operator| (operator.text.as_str(), operator.q_error())).collect();
        assert_eq!(found, [("Group: by [a], count(*)", 10.0), ("Hash join: inner, on [a = b]", 40.0)]);
        assert_eq!(estimates.unknown, ["query 7: Loop join: inner"]);
    }
}

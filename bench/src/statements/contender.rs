//! The interface to an engine that we measure: it runs a statement many times, or once with its rows.

use std::time::Duration;

use rowmill_base::Result;

use super::draw::Drawn;
use super::statement::Statement;

/// The number of runs of a change that share a transaction.
pub(super) const RUNS_PER_TRANSACTION: usize = 16;

/// The outcome of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The rows as texts, with NULL as `None`.
    pub rows: Vec<Vec<Option<String>>>,
    /// The number of changed rows, if the engine reports it.
    pub changed: Option<u64>,
}

/// An engine with its tables loaded.
pub(super) trait Contender {
    /// Runs a statement once for each list of values, reads all of its rows, and returns the time.
    fn time(&mut self, statement: &Statement, runs: &[Vec<Drawn>]) -> Result<Duration>;

    /// Runs a statement once and returns its rows. Numbers are digits, a decimal is written without its point, and a
    /// moment in microseconds.
    fn outcome(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Outcome>;

    /// Returns the rows of a query without parameters.
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>>;

    /// Begins a transaction.
    fn begin(&mut self) -> Result<()>;

    /// Rolls back the open transaction.
    fn roll_back(&mut self) -> Result<()>;

    /// Returns the lines with which the engine explains how it runs a query with these values.
    fn explain(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Vec<String>>;
}

/// Returns a text as an SQL literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

//! What is measured: an engine that runs a statement many times, and once with its rows.

use std::time::Duration;

use rowmill_base::Result;

use super::draw::Drawn;
use super::statement::Statement;

/// Runs of a change that share a transaction.
pub(super) const RUNS_PER_TRANSACTION: usize = 16;

/// What a statement gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The rows as texts, NULL as `None`.
    pub rows: Vec<Vec<Option<String>>>,
    /// How many rows it changed, where the engine tells.
    pub changed: Option<u64>,
}

/// An engine with its tables.
pub(super) trait Contender {
    /// Runs a statement once for each list of values, and reads all of its rows; tells how long that took.
    fn time(&mut self, statement: &Statement, runs: &[Vec<Drawn>]) -> Result<Duration>;

    /// Runs a statement once and gives its rows. Numbers are digits, a decimal without its point, a moment in microseconds.
    fn outcome(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Outcome>;

    /// The rows of a query without parameters.
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>>;

    /// Begins a transaction.
    fn begin(&mut self) -> Result<()>;

    /// Rolls it back.
    fn roll_back(&mut self) -> Result<()>;

    /// The lines in which the engine explains how it runs a query with these values.
    fn explain(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Vec<String>>;
}

/// A text as a literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

//! Runs one statement on both engines: first we check that they agree, then we measure the times in turns.

use std::time::Duration;

use rowmill_base::{Error, Result};

use super::contender::{Contender, Outcome};
use super::draw::{Drawing, Drawn};
use super::statement::{Statement, Way};
use crate::tpcc::table::{Kind, Table};

/// The number of parameter lists with which we compare the rows.
const COMPARISONS: usize = 5;
/// The number of turns of each engine; the best one counts.
const TURNS: u32 = 3;
/// The number of runs by which we estimate the time of one run.
const FIRST_RUNS: usize = 3;

/// Limits on the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// The most runs in a turn.
    pub runs_max: usize,
    /// The most time that all turns of both engines may take together.
    pub budget: Duration,
}

/// The times of both engines, in microseconds per run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Rowmill's time.
    pub ours_us: f64,
    /// SQLite's time.
    pub theirs_us: f64,
    /// The number of runs in a turn.
    pub runs: usize,
}

impl Times {
    /// Rowmill's time divided by SQLite's.
    pub fn ratio(&self) -> f64 {
        self.ours_us / self.theirs_us
    }
}

/// Both engines, with the same tables.
pub(super) struct Pair<'a> {
    pub(super) ours: &'a mut dyn Contender,
    pub(super) theirs: &'a mut dyn Contender,
    pub(super) tables: &'a [&'static Table],
}

impl Pair<'_> {
    /// Compares the engines and then measures them.
    pub(super) fn measure(&mut self, statement: &Statement, drawing: &mut Drawing, effort: Effort) -> Result<Times> {
        for number in 0..COMPARISONS {
            let values = drawing.draw(statement.draws);
            let compared = self.compare(statement, &values, number == 0);
            self.roll_back()?;
            compared.map_err(|error| error.context(format_args!("with {values:?}")))?;
        }
        let times = self.time(statement, drawing, effort);
        self.roll_back()?;
        times
    }

    /// Ends an open transaction. A statement that failed may have left one too.
    fn roll_back(&mut self) -> Result<()> {
        self.ours.roll_back()?;
        self.theirs.roll_back()
    }

    fn time(&mut self, statement: &Statement, drawing: &mut Drawing, effort: Effort) -> Result<Times> {
        let mut lists = |count: usize| (0..count).map(|_| drawing.draw(statement.draws)).collect::<Vec<_>>();
        let first = lists(FIRST_RUNS);
        let both = self.ours.time(statement, &first)? + self.theirs.time(statement, &first)?;
        let of_run = both.as_secs_f64() / FIRST_RUNS as f64;
        let affordable = effort.budget.as_secs_f64() / (of_run * f64::from(TURNS)).max(1e-9);
        let runs = (affordable as usize).clamp(1, effort.runs_max.max(1));
        let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            let lists = lists(runs);
            ours = ours.min(self.ours.time(statement, &lists)?);
            theirs = theirs.min(self.theirs.time(statement, &lists)?);
        }
        let us = |time: Duration| time.as_secs_f64() * 1e6 / runs as f64;
        Ok(Times { ours_us: us(ours), theirs_us: us(theirs), runs })
    }

    /// Returns an error if the engines differ in their rows or in the number of changed rows. With `thoroughly`, also
    /// compares the whole changed table.
    fn compare(&mut self, statement: &Statement, values: &[Drawn], thoroughly: bool) -> Result<()> {
        let is_rolled_back = statement.way == Way::RolledBack;
        if is_rolled_back {
            self.ours.begin()?;
            self.theirs.begin()?;
        }
        let ours = self.ours.outcome(statement, values)?;
        let theirs = self.theirs.outcome(statement, values).map_err(|error| error.context("SQLite"))?;
        alike(ours, theirs, statement.is_ordered())?;
        if thoroughly && let Some(name) = statement.changed_table() {
            let table = self.tables.iter().find(|table| table.name == name);
            self.compare_table(table.ok_or_else(|| Error::internal(format!("there is no table {name}")))?)?;
        }
        Ok(())
    }

    /// Returns an error if the engines differ in a table.
    pub(super) fn compare_table(&mut self, table: &Table) -> Result<()> {
        let digest = digest(table);
        let (ours, theirs) = (self.ours.rows(&digest)?, self.theirs.rows(&digest)?);
        let outcome = |rows| Outcome { rows, changed: None };
        alike(outcome(ours), outcome(theirs), true).map_err(|error| error.context(format_args!("table {}", table.name)))
    }
}

/// Makes a query with counts and sums. If the rows of two tables differ, these almost certainly differ too.
fn digest(table: &Table) -> String {
    let mut values = vec!["count(*)".to_owned()];
    for column in table.columns {
        let name = column.name;
        match column.kind {
            Kind::Integer | Kind::Bigint | Kind::Decimal(..) | Kind::Double => {
                values.push(format!("sum({name})"));
                values.push(format!("count({name})"));
            }
            Kind::Text(_) => values.push(format!("sum(length({name}))")),
            Kind::Boolean => values.push(format!("count({name}), sum(CASE WHEN {name} THEN 1 ELSE 0 END)")),
            Kind::Json(_) => values.push(format!("sum(length(CAST({name} AS TEXT)))")),
            Kind::Timestamp | Kind::Date | Kind::Uuid => {
                values.push(format!("count({name}), min({name}), max({name})"))
            }
        }
    }
    format!("SELECT {} FROM {}", values.join(", "), table.name)
}

/// Returns an error if the outcomes differ. We sort rows that have no order before we compare them.
fn alike(mut ours: Outcome, mut theirs: Outcome, is_ordered: bool) -> Result<()> {
    if !is_ordered {
        ours.rows.sort();
        theirs.rows.sort();
    }
    if ours.rows.len() != theirs.rows.len() {
        return Err(Error::internal(format!("Rowmill gave {} rows, SQLite {}", ours.rows.len(), theirs.rows.len())));
    }
    for (ours, theirs) in ours.rows.iter().zip(&theirs.rows) {
        if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs)) {
            return Err(Error::internal(format!("Rowmill gave the row {ours:?}, SQLite {theirs:?}")));
        }
    }
    match (ours.changed, theirs.changed) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Err(Error::internal(format!("Rowmill changed {ours} rows, SQLite {theirs}")))
        }
        _ => Ok(()),
    }
}

/// Whether two values are equal: as texts, or as floating-point numbers except for their last digits.
fn same(ours: &Option<String>, theirs: &Option<String>) -> bool {
    let number = |value: &Option<String>| value.as_ref()?.parse::<f64>().ok();
    match (number(ours), number(theirs)) {
        (Some(a), Some(b)) => ours == theirs || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => ours == theirs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(rows: &[&[&str]]) -> Outcome {
        let rows = rows.iter().map(|row| row.iter().map(|value| Some((*value).to_owned())).collect()).collect();
        Outcome { rows, changed: None }
    }

    #[test]
    fn rows_are_compared_in_their_order_or_without_one() {
        let (a, b) = (outcome(&[&["1", "x"], &["2", "y"]]), outcome(&[&["2", "y"], &["1", "x"]]));
        assert!(alike(a.clone(), b.clone(), false).is_ok());
        assert!(alike(a.clone(), b, true).is_err());
        assert!(alike(a, outcome(&[&["1", "x"]]), false).is_err());
        assert!(alike(outcome(&[&["0.1"]]), outcome(&[&["0.10000000000000001"]]), true).is_ok());
        assert!(alike(outcome(&[&["10"]]), outcome(&[&["11"]]), true).is_err());
    }
}

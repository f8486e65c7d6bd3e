//! One statement on both engines: first whether they agree, then how long it takes, in turns.

use std::time::Duration;

use rowmill_base::{Error, Result};

use super::contender::{Contender, Outcome};
use super::draw::{Drawing, Drawn};
use super::statement::{Statement, Way};
use crate::tpcc::table::{Kind, Table};

/// Lists of values with which the rows are compared.
const COMPARISONS: usize = 5;
/// Turns of each engine, of which the best counts.
const TURNS: u32 = 3;
/// Runs that tell about how long one takes.
const FIRST_RUNS: usize = 3;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Runs of a turn at most.
    pub runs_max: usize,
    /// What all turns of both engines may take together.
    pub budget: Duration,
}

/// Microseconds of a run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Rowmill's.
    pub ours_us: f64,
    /// SQLite's.
    pub theirs_us: f64,
    /// Runs of a turn.
    pub runs: usize,
}

impl Times {
    /// How many times as long Rowmill takes.
    pub fn ratio(&self) -> f64 {
        self.ours_us / self.theirs_us
    }
}

/// Both engines with the same tables.
pub(super) struct Pair<'a> {
    pub(super) ours: &'a mut dyn Contender,
    pub(super) theirs: &'a mut dyn Contender,
    pub(super) tables: &'a [&'static Table],
}

impl Pair<'_> {
    /// Compares the engines and measures them.
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

    /// Ends a transaction, which a statement that failed may have left as well.
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

    /// An error if the engines differ in rows or in what they change; `thoroughly`: in the changed table as a whole.
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

    /// An error if the engines differ in a table.
    pub(super) fn compare_table(&mut self, table: &Table) -> Result<()> {
        let digest = digest(table);
        let (ours, theirs) = (self.ours.rows(&digest)?, self.theirs.rows(&digest)?);
        let outcome = |rows| Outcome { rows, changed: None };
        alike(outcome(ours), outcome(theirs), true).map_err(|error| error.context(format_args!("table {}", table.name)))
    }
}

/// Counts and sums that differ when the rows of a table do, but for rare luck.
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
            Kind::Timestamp | Kind::Date => values.push(format!("count({name}), min({name}), max({name})")),
        }
    }
    format!("SELECT {} FROM {}", values.join(", "), table.name)
}

/// An error if the outcomes differ. Rows without an order are compared in one.
fn alike(mut ours: Outcome, mut theirs: Outcome, is_ordered: bool) -> Result<()> {
    if !is_ordered {
        ours.rows.sort();
        theirs.rows.sort();
    }
    if ours.rows.len() != theirs.rows.len() {
        return Err(Error::internal(format!("{} rows, of SQLite {}", ours.rows.len(), theirs.rows.len())));
    }
    for (ours, theirs) in ours.rows.iter().zip(&theirs.rows) {
        if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs)) {
            return Err(Error::internal(format!("row {ours:?}, of SQLite {theirs:?}")));
        }
    }
    match (ours.changed, theirs.changed) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Err(Error::internal(format!("{ours} rows changed, by SQLite {theirs}")))
        }
        _ => Ok(()),
    }
}

/// Whether values are alike: as texts, or within the last digits of floating-point numbers.
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

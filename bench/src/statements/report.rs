//! The report: one line per statement, and the number of slow statements.

use std::fmt::Write as _;

use rowmill_base::{Error, Result};
use serde_json::{Value, json};

use super::measure::Times;
use super::statement::Way;

/// A statement is slow if it takes more than this number of times SQLite's time.
pub const SLOW_RATIO: f64 = 1.5;
/// The median of all ratios should be at most this.
const MEDIAN_WANTED: f64 = 0.6;
/// The number of slow statements that we list at the end.
const WORST_SHOWN: usize = 10;

/// The report on one statement.
#[derive(Debug)]
pub struct Line {
    /// The group.
    pub group: &'static str,
    /// The name.
    pub name: &'static str,
    /// The way in which it was run.
    pub way: Way,
    /// The text for Rowmill.
    pub text: String,
    /// The times, or the reason why there are none.
    pub times: Result<Times>,
    /// The explanations of both engines, if requested.
    pub explained: Vec<String>,
}

impl Line {
    /// Whether the statement is slower than it should be.
    pub fn is_slow(&self) -> bool {
        self.times.as_ref().is_ok_and(|times| times.ratio() > SLOW_RATIO)
    }
}

/// The report on all statements.
#[derive(Debug)]
pub struct Report {
    /// The statements, in their order.
    pub lines: Vec<Line>,
    /// The tables in which the engines differ in the end.
    pub differences: Vec<String>,
}

impl Report {
    fn measured(&self) -> impl Iterator<Item = (&Line, Times)> {
        self.lines.iter().filter_map(|line| Some((line, *line.times.as_ref().ok()?)))
    }

    fn failed(&self) -> impl Iterator<Item = (&Line, &Error)> {
        self.lines.iter().filter_map(|line| Some((line, line.times.as_ref().err()?)))
    }

    /// The median of the ratios, if anything was measured.
    pub fn median(&self) -> Option<f64> {
        let mut ratios: Vec<f64> = self.measured().map(|(_, times)| times.ratio()).collect();
        ratios.sort_by(f64::total_cmp);
        let half = ratios.len() / 2;
        match ratios.len() {
            0 => None,
            count if count % 2 == 1 => Some(ratios[half]),
            _ => Some(f64::midpoint(ratios[half - 1], ratios[half])),
        }
    }

    /// Returns the statements with the greatest ratios, the greatest first.
    fn worst(&self) -> Vec<(&Line, Times)> {
        let mut all: Vec<_> = self.measured().collect();
        all.sort_by(|(_, a), (_, b)| b.ratio().total_cmp(&a.ratio()));
        all.truncate(WORST_SHOWN);
        all
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "group": line.group,
                "name": line.name,
                "text": line.text,
                "rowmill_us": line.times.as_ref().ok().map(|times| rounded(times.ours_us)),
                "sqlite_us": line.times.as_ref().ok().map(|times| rounded(times.theirs_us)),
                "ratio": line.times.as_ref().ok().map(|times| rounded(times.ratio())),
                "runs": line.times.as_ref().ok().map(|times| times.runs),
                "error": line.times.as_ref().err().map(|error| error.to_string()),
                "explained": line.explained,
            })
        };
        json!({
            "statements": self.lines.iter().map(line).collect::<Vec<_>>(),
            "measured": self.measured().count(),
            "failed": self.failed().count(),
            "slower_than_1_5": self.lines.iter().filter(|line| line.is_slow()).count(),
            "median_ratio": self.median().map(rounded),
            "differences": self.differences,
        })
    }

    /// The report as text.
    pub fn text(&self) -> Result<String> {
        let mut out = String::new();
        self.write(&mut out).map_err(|error| Error::internal(error.to_string()))?;
        Ok(out)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let mut group = "";
        for line in &self.lines {
            if line.group != group {
                group = line.group;
                writeln!(out, "{group:<40}{:>12}{:>12}{:>10}{:>8}", "rowmill us", "sqlite us", "ratio", "runs")?;
            }
            match &line.times {
                Ok(times) => {
                    let mark = if line.is_slow() { "  slow" } else { "" };
                    let Times { ours_us, theirs_us, runs } = times;
                    let ratio = times.ratio();
                    writeln!(out, "  {:<38}{ours_us:>12.2}{theirs_us:>12.2}{ratio:>10.2}{runs:>8}{mark}", line.name)?;
                }
                Err(error) => writeln!(out, "  {:<38}FAILED: {error}", line.name)?,
            }
            line.explained.iter().try_for_each(|text| writeln!(out, "      {text}"))?;
        }
        writeln!(out, "worst")?;
        for (line, times) in self.worst() {
            writeln!(out, "  {:<38}{:>10.2}  {}", line.name, times.ratio(), line.text)?;
        }
        let slow = self.lines.iter().filter(|line| line.is_slow()).count();
        let (measured, failed) = (self.measured().count(), self.failed().count());
        writeln!(out, "{measured} statements, {slow} of them slower than {SLOW_RATIO} times SQLite, {failed} failed")?;
        if let Some(median) = self.median() {
            writeln!(out, "median of the ratios {median:.2}, wanted at most {MEDIAN_WANTED}")?;
        }
        self.differences.iter().try_for_each(|difference| writeln!(out, "DIFFERENT: {difference}"))
    }

    /// Returns an error if a statement failed, or if the engines differ.
    pub fn verdict(&self) -> Result<()> {
        let failed = self.failed().count();
        match failed + self.differences.len() {
            0 => Ok(()),
            _ => Err(Error::internal(format!(
                "{failed} statements failed or gave other rows than SQLite, {} tables differ in the end",
                self.differences.len()
            ))),
        }
    }
}

/// Rounds to hundredths.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

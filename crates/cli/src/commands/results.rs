//! Commands for how and where results are printed.

use std::path::Path;

use clap::ValueEnum;
use rowmill::{Error, ErrorKind, Result};

use super::Next;
use crate::output::Format;
use crate::plot::{ChartRequest, draw};
use crate::result_target::ResultTarget;
use crate::runner::Runner;
use crate::terminal::{say, screen_size};

pub(super) fn mode(format: &str, runner: &mut Runner) -> Result<Next> {
    runner.view.format = Format::from_str(format, true).map_err(|_| {
        let error = Error::new(ErrorKind::InvalidParameter, format!("there is no output mode \"{format}\""));
        error.hint("the modes are table, csv, json, ndjson, markdown and line")
    })?;
    Ok(Next::Continue)
}

/// Reads the argument of a switch: `on`, `off`, or nothing for the other state.
fn switched(state: bool, argument: &str) -> Result<bool> {
    match argument.to_lowercase().as_str() {
        "" => Ok(!state),
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Error::new(ErrorKind::InvalidParameter, format!("the switch takes on or off, not \"{argument}\""))),
    }
}

pub(super) fn expanded(argument: &str, runner: &mut Runner) -> Result<Next> {
    runner.view.expanded = switched(runner.view.expanded, argument)?;
    let what = if runner.view.expanded { "one value per line" } else { "a table" };
    runner.tell(&format!("Results are shown as {what}.\n"))?;
    Ok(Next::Continue)
}

pub(super) fn all(argument: &str, runner: &mut Runner) -> Result<Next> {
    runner.view.all = switched(runner.view.all, argument)?;
    let what = if runner.view.all { "all rows and columns" } else { "the rows and columns that fit the screen" };
    runner.tell(&format!("Tables show {what}.\n"))?;
    Ok(Next::Continue)
}

pub(super) fn timing(argument: &str, runner: &mut Runner) -> Result<Next> {
    runner.timing = switched(runner.timing, argument)?;
    runner.tell(&format!("Timing is {}.\n", if runner.timing { "on" } else { "off" }))?;
    Ok(Next::Continue)
}

pub(super) fn output(file: &str, runner: &mut Runner) -> Result<Next> {
    runner.target = if file.is_empty() { ResultTarget::Screen } else { ResultTarget::file(Path::new(file))? };
    Ok(Next::Continue)
}

/// The width of a chart if the output is no terminal, and the height of every chart.
const CHART_COLUMNS: usize = 100;
const CHART_LINES: usize = 20;

pub(super) fn plot(arguments: &str, runner: &mut Runner) -> Result<Next> {
    if !runner.buffer.is_empty() {
        runner.run_for_chart()?;
    }
    let sample = runner.last_result.as_ref().ok_or_else(|| {
        let error = Error::new(ErrorKind::UndefinedObject, "there is no result to draw");
        error.hint("run a query first, or write \\plot after it: SELECT ... \\plot")
    })?;
    let request = ChartRequest::read(arguments)?;
    let (columns, lines) = match screen_size() {
        Some(screen) => (screen.columns, CHART_LINES.min(screen.lines.saturating_sub(6)).max(5)),
        None => (CHART_COLUMNS, CHART_LINES),
    };
    say(&draw(sample, &request, columns, lines)?)?;
    Ok(Next::Continue)
}

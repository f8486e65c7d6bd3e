//! Charts of results in the terminal: `\plot`.
//!
//! - `sample`: keeps some values of a result of any length.
//! - `request`: which columns are drawn, and how.
//! - `axis`: round values for the marks of an axis.
//! - `line_chart`: points joined by lines, in braille patterns.
//! - `bar_chart`: a bar for each label.

mod axis;
mod bar_chart;
mod line_chart;
mod request;
mod sample;

use rowmill::Result;

pub(crate) use self::request::ChartRequest;
use self::request::{Chart, ChartKind};
pub(crate) use self::sample::PlotSample;

/// Returns the lines of a chart that is at most `columns` wide and has `lines` lines of points.
pub(crate) fn draw(sample: &PlotSample, request: &ChartRequest, columns: usize, lines: usize) -> Result<String> {
    let chart = Chart::of(sample, request)?;
    let mut text = match chart.kind {
        ChartKind::Line => line_chart::draw(&chart, columns, lines),
        ChartKind::Bar => bar_chart::draw(&chart, columns),
    };
    if sample.stride() > 1 {
        text.push_str(&format!("One row of each {} is drawn.\n", sample.stride()));
    }
    Ok(text)
}

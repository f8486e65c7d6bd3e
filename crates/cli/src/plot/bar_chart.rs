//! A bar for each row, with eighths of a block.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::axis::{full_time_text, value_text};
use super::request::Chart;
use super::sample::SampledValues;
use crate::style::Tone;

/// The most bars. More rows are counted only.
const BARS_MAX: usize = 50;

/// The widest label.
const LABEL_WIDTH_MAX: usize = 30;

/// Blocks that are filled from the left, by eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Draws a chart that is at most `columns` wide.
pub(super) fn draw(chart: &Chart<'_>, columns: usize) -> String {
    let rows = chart.rows.min(BARS_MAX);
    let labels: Vec<String> = (0..rows).map(|row| label(chart, row)).collect();
    let label_width = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let mut text = String::new();
    for series in &chart.series {
        let values = &series.values[..rows];
        let numbers: Vec<String> = values.iter().map(|value| value_text(*value)).collect();
        let number_width = numbers.iter().map(|number| number.width()).max().unwrap_or(0);
        let width = columns.saturating_sub(label_width + number_width + 4).max(8);
        let x = chart.x.map_or("row", |x| x.name.as_str());
        text.push_str(&format!("{} by {x}\n", series.name));
        let scale = Scale::of(values, width);
        for ((label, value), number) in labels.iter().zip(values).zip(&numbers) {
            let padding = " ".repeat(label_width - label.width());
            let bar = Tone::Hint.paint(&scale.bar(*value));
            text.push_str(format!("{padding}{label} │{bar} {number}").trim_end());
            text.push('\n');
        }
    }
    if chart.rows > rows {
        text.push_str(&format!("{} more rows are not drawn.\n", chart.rows - rows));
    }
    text
}

fn label(chart: &Chart<'_>, row: usize) -> String {
    let text = match chart.x.map(|x| &x.values) {
        Some(SampledValues::Labels(labels)) => labels[row].clone(),
        Some(SampledValues::Numbers(values)) => value_text(values[row]),
        Some(SampledValues::Times(values)) => full_time_text(values[row]),
        None => (row as u64 * chart.stride + 1).to_string(),
    };
    let mut used = 0;
    let cut: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < LABEL_WIDTH_MAX
        })
        .collect();
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}

/// From values to columns of the screen.
struct Scale {
    /// Columns in front of zero, for negative values.
    zero: usize,
    per_unit: f64,
}

impl Scale {
    fn of(values: &[f64], width: usize) -> Scale {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let low = finite().fold(0.0, f64::min);
        let high = finite().fold(0.0, f64::max);
        let range = if high > low { high - low } else { 1.0 };
        let per_unit = width as f64 / range;
        let per_unit = if per_unit.is_finite() { per_unit } else { 0.0 };
        Scale { zero: (-low * per_unit).ceil() as usize, per_unit }
    }

    fn bar(&self, value: f64) -> String {
        let length = if value.is_finite() { value.abs() * self.per_unit } else { 0.0 };
        if value < 0.0 {
            let full = (length.round() as usize).min(self.zero);
            return format!("{}{}", " ".repeat(self.zero - full), "█".repeat(full));
        }
        let eighths = (length * 8.0).round() as usize;
        let rest = EIGHTHS[eighths % 8];
        let bar = format!("{}{}{rest}", " ".repeat(self.zero), "█".repeat(eighths / 8));
        bar.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_the_lengths_of_their_values() {
        let scale = Scale::of(&[1.0, 4.0], 8);
        assert_eq!([scale.bar(1.0), scale.bar(4.0), scale.bar(0.0)], ["██", "████████", ""]);
        assert_eq!(scale.bar(1.25), "██▌");
        let scale = Scale::of(&[-2.0, 2.0], 8);
        assert_eq!([scale.bar(-1.0), scale.bar(2.0)], ["  ██", "    ████"]);
        assert_eq!(Scale::of(&[0.0], 8).bar(0.0), "");
        assert_eq!(Scale::of(&[f64::NAN], 8).bar(f64::NAN), "");
    }
}

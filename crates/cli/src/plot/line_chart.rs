//! A chart of lines in braille patterns: each character is two points wide and four points high.

use unicode_width::UnicodeWidthStr;

use super::axis::Axis;
use super::request::{Chart, ChartSeries};
use super::sample::SampledValues;
use crate::style::Tone;

const DOTS_WIDE: usize = 2;
const DOTS_HIGH: usize = 4;

/// The first braille pattern, and the bit of each dot: from the left to the right, from the top to the bottom.
const BRAILLE: u32 = 0x2800;
const DOT_BITS: [[u32; DOTS_HIGH]; DOTS_WIDE] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// The colours of the lines, in order. The last one has to serve for all others.
const TONES: [Tone; 6] = [Tone::Hint, Tone::Value, Tone::Match, Tone::Error, Tone::Keyword, Tone::Plain];

/// A field of characters, each with its dots and the line that drew them last.
struct Canvas {
    columns: usize,
    lines: usize,
    cells: Vec<(u32, usize)>,
}

impl Canvas {
    fn new(columns: usize, lines: usize) -> Canvas {
        Canvas { columns, lines, cells: vec![(0, 0); columns * lines] }
    }

    /// Sets a dot. Counts from the lower left corner.
    fn dot(&mut self, x: usize, y: usize, series: usize) {
        let (column, line) = (x / DOTS_WIDE, y / DOTS_HIGH);
        if column < self.columns && line < self.lines {
            let cell = &mut self.cells[(self.lines - 1 - line) * self.columns + column];
            *cell = (cell.0 | DOT_BITS[x % DOTS_WIDE][DOTS_HIGH - 1 - y % DOTS_HIGH], series);
        }
    }

    /// Draws a line between two dots.
    fn stroke(&mut self, from: (usize, usize), to: (usize, usize), series: usize) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let at = |one: usize, other: usize, step: usize| {
            let share = step as f64 / steps as f64;
            (one as f64 + (other as f64 - one as f64) * share).round() as usize
        };
        for step in 0..=steps {
            self.dot(at(from.0, to.0, step), at(from.1, to.1, step), series);
        }
    }

    fn line(&self, line: usize) -> String {
        let cells = &self.cells[line * self.columns..(line + 1) * self.columns];
        let mut text = String::new();
        for run in cells.chunk_by(|one, other| one.1 == other.1) {
            let glyphs: String = run.iter().map(|(bits, _)| glyph(*bits)).collect();
            text.push_str(&TONES[run[0].1.min(TONES.len() - 1)].paint(&glyphs));
        }
        text
    }
}

fn glyph(bits: u32) -> char {
    if bits == 0 { ' ' } else { char::from_u32(BRAILLE + bits).expect("256 patterns follow the first one") }
}

/// Draws a chart that is at most `columns` wide, with `lines` lines of points.
pub(super) fn draw(chart: &Chart<'_>, columns: usize, lines: usize) -> String {
    let xs = places(chart);
    let values = || chart.series.iter().flat_map(|series| series.values);
    let y_axis = Axis::of_numbers(least(values()), greatest(values()), (lines / 4).max(2));
    let label_width = y_axis.marks.iter().map(|(_, label)| label.width()).max().unwrap_or(0);
    let width = columns.saturating_sub(label_width + 3).max(10);
    let x_marks = (width / 16).max(2);
    let (low, high) = (least(&xs), greatest(&xs));
    let x_axis = match chart.x.map(|x| &x.values) {
        Some(SampledValues::Times(_)) => Axis::of_times(low, high, x_marks),
        _ => Axis::of_numbers(low, high, x_marks),
    };
    let mut canvas = Canvas::new(width, lines);
    for (number, series) in chart.series.iter().enumerate() {
        draw_series(&mut canvas, (&x_axis, &xs), (&y_axis, series), number);
    }
    let mut text = legend(chart);
    for line in 0..lines {
        // The mark whose place is in this line.
        let is_here = |value: f64| row_of(&y_axis, value, lines) == line;
        let mark = y_axis.marks.iter().find(|(value, _)| is_here(*value));
        let (label, border) = mark.map_or(("", '│'), |(_, label)| (label.as_str(), '┤'));
        text.push_str(&format!("{label:>label_width$} {border}{}\n", canvas.line(line).trim_end()));
    }
    text.push_str(&bottom(&x_axis, width, label_width));
    text
}

/// The line, from the top, in which a value of the vertical axis is.
fn row_of(axis: &Axis, value: f64, lines: usize) -> usize {
    let dots = lines * DOTS_HIGH - 1;
    lines - 1 - ((axis.place(value) * dots as f64).round() as usize).min(dots) / DOTS_HIGH
}

fn draw_series(
    canvas: &mut Canvas,
    (x_axis, xs): (&Axis, &[f64]),
    (y_axis, series): (&Axis, &ChartSeries<'_>),
    number: usize,
) {
    let (wide, high) = (canvas.columns * DOTS_WIDE - 1, canvas.lines * DOTS_HIGH - 1);
    let mut points: Vec<(f64, f64)> = xs.iter().copied().zip(series.values.iter().copied()).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut last = None;
    for (x, y) in points {
        // A NULL is a gap of the line.
        if !x.is_finite() || !y.is_finite() {
            last = None;
            continue;
        }
        let here = ((x_axis.place(x) * wide as f64).round() as usize, (y_axis.place(y) * high as f64).round() as usize);
        canvas.stroke(last.unwrap_or(here), here, number);
        last = Some(here);
    }
}

/// The places of the rows along the horizontal axis.
fn places(chart: &Chart<'_>) -> Vec<f64> {
    match chart.x.map(|x| &x.values) {
        Some(SampledValues::Numbers(values) | SampledValues::Times(values)) => values.clone(),
        Some(SampledValues::Labels(_)) | None => {
            (0..chart.rows).map(|row| (row as u64 * chart.stride) as f64 + 1.0).collect()
        }
    }
}

fn legend(chart: &Chart<'_>) -> String {
    let names = chart.series.iter().enumerate().map(|(number, series)| {
        let name: String = series.name.chars().filter(|c| !c.is_control()).collect();
        TONES[number.min(TONES.len() - 1)].paint(&name)
    });
    let x = chart.x.map_or("row", |x| x.name.as_str());
    format!("{} by {x}\n", names.collect::<Vec<_>>().join(", "))
}

/// The horizontal axis with its marks and their labels.
fn bottom(axis: &Axis, width: usize, label_width: usize) -> String {
    let mut border: Vec<char> = vec!['─'; width];
    let mut labels = String::new();
    for (value, label) in &axis.marks {
        let place = ((axis.place(*value) * (width - 1) as f64).round() as usize).min(width - 1);
        border[place] = '┬';
        // The label is below its mark, unless the one before it is too long.
        let start = place.saturating_sub(label.width() / 2).min((width + 2).saturating_sub(label.width()));
        let is_free = labels.is_empty() || labels.width() < start;
        if is_free {
            labels.push_str(&" ".repeat(start - labels.width()));
            labels.push_str(label);
        }
    }
    let indent = " ".repeat(label_width + 1);
    format!("{indent}└{}\n{indent} {labels}\n", border.into_iter().collect::<String>())
}

fn least<'v>(values: impl IntoIterator<Item = &'v f64>) -> f64 {
    let finite = values.into_iter().copied().filter(|value| value.is_finite());
    finite.reduce(f64::min).unwrap_or(0.0)
}

fn greatest<'v>(values: impl IntoIterator<Item = &'v f64>) -> f64 {
    let finite = values.into_iter().copied().filter(|value| value.is_finite());
    finite.reduce(f64::max).unwrap_or(0.0)
}

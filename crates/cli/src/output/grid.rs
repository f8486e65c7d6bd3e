//! A table with borders, whose columns have fixed widths and whose cells may have colours.

use unicode_width::UnicodeWidthStr;

use crate::style::Tone;

/// The width that a border and two blanks add to each column, and the width of the last border.
pub(super) const COLUMN_BORDER: usize = 3;
pub(super) const LAST_BORDER: usize = 1;

/// A text that fits the width of its column.
#[derive(Clone, Debug)]
pub(super) struct GridCell {
    pub(super) text: String,
    pub(super) is_right: bool,
    pub(super) tone: Tone,
}

impl GridCell {
    pub(super) fn new(text: impl Into<String>) -> GridCell {
        GridCell { text: text.into(), is_right: false, tone: Tone::Plain }
    }
}

/// The lines of a table.
pub(super) struct Grid {
    widths: Vec<usize>,
    lines: String,
}

impl Grid {
    /// Begins a table whose columns have the widths of `widths`.
    pub(super) fn new(widths: Vec<usize>) -> Grid {
        let mut grid = Grid { widths, lines: String::new() };
        grid.rule(['┌', '─', '┬', '┐']);
        grid
    }

    /// Adds the line between the header and the rows.
    pub(super) fn end_header(&mut self) {
        self.rule(['╞', '═', '╪', '╡']);
    }

    /// Adds a row, which has a cell for each column.
    pub(super) fn row(&mut self, cells: &[GridCell]) {
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            self.lines.push_str(if index == 0 { "│ " } else { " ┆ " });
            let padding = " ".repeat(width.saturating_sub(cell.text.width()));
            let text = cell.tone.paint(&cell.text);
            let (left, right) = if cell.is_right { (&padding, &text) } else { (&text, &padding) };
            self.lines.push_str(left);
            self.lines.push_str(right);
        }
        self.lines.push_str(" │\n");
    }

    /// Ends the table and returns its lines.
    pub(super) fn finish(mut self) -> String {
        self.rule(['└', '─', '┴', '┘']);
        self.lines
    }

    fn rule(&mut self, [left, fill, between, right]: [char; 4]) {
        for (index, width) in self.widths.iter().enumerate() {
            self.lines.push(if index == 0 { left } else { between });
            self.lines.extend(std::iter::repeat_n(fill, width + COLUMN_BORDER - 1));
        }
        self.lines.push(right);
        self.lines.push('\n');
    }
}

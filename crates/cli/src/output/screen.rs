//! Tables for a terminal: as many columns as fit the screen, and the first and last rows of a long result.
//!
//! Only the rows that are shown are kept, so a result of any length takes little memory. Long texts are cut, and
//! columns that do not fit are left out from the middle; `…` marks both.

use std::collections::VecDeque;
use std::io::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};
use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;
use rowmill::text::TextColumn;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Printer, names, put};

/// Of a longer result we show this many rows from its beginning and from its end.
const ROWS_AT_EACH_END: usize = 20;

/// If not all columns fit, texts are cut to this width before any column is left out.
const TEXT_WIDTH_MIN: usize = 16;

/// The width that a border and two blanks add to each column, and the width of the last border.
const COLUMN_BORDER: usize = 3;
const LAST_BORDER: usize = 1;

const CUT: &str = "…";

pub(super) struct ScreenPrinter {
    names: Vec<String>,
    /// For each column, whether it has numbers. They are never cut, because a part of a number is another number.
    numbers: Vec<bool>,
    screen_columns: usize,
    first: Vec<Vec<String>>,
    last: VecDeque<Vec<String>>,
    rows: u64,
}

impl ScreenPrinter {
    pub(super) fn new(schema: &Schema, screen_columns: usize) -> Self {
        let names = names(schema).iter().map(|name| cut(&on_one_line(name), screen_columns)).collect();
        let (first, last) = (Vec::new(), VecDeque::new());
        ScreenPrinter { names, numbers: Vec::new(), screen_columns, first, last, rows: 0 }
    }

    fn cells(&self, columns: &[TextColumn<'_>], row: usize) -> Vec<String> {
        let cell = |column: &TextColumn<'_>| {
            let mut text = String::new();
            match column.write(row, &mut text) {
                // No column is wider than the screen.
                true => cut(&on_one_line(&text), self.screen_columns),
                false => "NULL".to_owned(),
            }
        };
        columns.iter().map(cell).collect()
    }

    fn kept(&self) -> impl Iterator<Item = &Vec<String>> {
        self.first.iter().chain(&self.last)
    }

    /// The widths of the columns' contents.
    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.kept().map(|row| row[column].width());
            cells.chain([self.names[column].width()]).max().unwrap_or(0)
        };
        (0..self.names.len()).map(width).collect()
    }

    fn footer(&self, columns_shown: usize) -> String {
        let kept = self.kept().count() as u64;
        let mut text = format!("{} row{}", grouped(self.rows), if self.rows == 1 { "" } else { "s" });
        if kept == self.rows && columns_shown == self.names.len() {
            return format!("({text})\n");
        }
        if kept < self.rows {
            text.push_str(&format!(", {kept} shown"));
        }
        if columns_shown < self.names.len() {
            text.push_str(&format!("; {} columns, {columns_shown} shown", self.names.len()));
        }
        format!("{text} (\\all or --all shows all)\n")
    }
}

impl Printer for ScreenPrinter {
    fn batch(&mut self, batch: &RecordBatch, _: &mut dyn Write) -> Result<()> {
        let columns = batch.columns().iter().map(|values| TextColumn::new(values)).collect::<Result<Vec<_>>>()?;
        self.numbers = columns.iter().map(TextColumn::is_number).collect();
        let rows = batch.num_rows();
        self.rows += rows as u64;
        let first = rows.min(ROWS_AT_EACH_END - self.first.len());
        for row in 0..first {
            let cells = self.cells(&columns, row);
            self.first.push(cells);
        }
        // Only the last rows of the batch can be among the last rows of the result.
        for row in first.max(rows.saturating_sub(ROWS_AT_EACH_END))..rows {
            let cells = self.cells(&columns, row);
            self.last.push_back(cells);
        }
        self.last.drain(..self.last.len().saturating_sub(ROWS_AT_EACH_END));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        self.numbers.resize(self.names.len(), false);
        let fit = Fit::of(&self.widths(), &self.numbers, self.screen_columns);
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header(fit.row(&self.names, &self.numbers));
        for cells in &self.first {
            table.add_row(fit.row(cells, &self.numbers));
        }
        if self.rows > self.kept().count() as u64 {
            table.add_row(fit.row(&vec![CUT.to_owned(); self.names.len()], &self.numbers));
        }
        for cells in &self.last {
            table.add_row(fit.row(cells, &self.numbers));
        }
        put(out, &format!("{table}\n{}", self.footer(fit.shown.len())))
    }
}

/// The columns that are shown, and the width to which their texts are cut.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    /// The indexes of the columns, ascending.
    shown: Vec<usize>,
    /// A column of `…` comes before the shown column at this place.
    gap: Option<usize>,
    text_width: usize,
}

impl Fit {
    fn of(widths: &[usize], numbers: &[bool], screen_columns: usize) -> Fit {
        let cut_to = |text_width: usize| -> Vec<usize> {
            let cut = |(width, is_number): (&usize, &bool)| if *is_number { *width } else { (*width).min(text_width) };
            widths.iter().zip(numbers).map(cut).collect()
        };
        let total = |widths: &[usize]| widths.iter().map(|width| width + COLUMN_BORDER).sum::<usize>() + LAST_BORDER;
        // The greatest width of texts at which all columns fit.
        let fits = |text_width: &usize| total(&cut_to(*text_width)) <= screen_columns;
        let widest = widths.iter().copied().max().unwrap_or(0).max(TEXT_WIDTH_MIN);
        if let Some(text_width) = (TEXT_WIDTH_MIN..=widest).rev().find(fits) {
            return Fit { shown: (0..widths.len()).collect(), gap: None, text_width };
        }
        let widths = cut_to(TEXT_WIDTH_MIN);
        let mut left = screen_columns.saturating_sub(LAST_BORDER + CUT.width() + COLUMN_BORDER);
        let (mut front, mut back) = (0, 0);
        // From both ends in turns, because the first columns often are the key and the last ones the results.
        while front + back < widths.len() {
            let is_front = front <= back;
            let column = if is_front { front } else { widths.len() - 1 - back };
            let width = widths[column] + COLUMN_BORDER;
            // One column is shown even if it is too wide.
            if width > left && front > 0 {
                break;
            }
            left = left.saturating_sub(width);
            if is_front { front += 1 } else { back += 1 }
        }
        let shown = (0..front).chain(widths.len() - back..widths.len()).collect();
        Fit { shown, gap: Some(front), text_width: TEXT_WIDTH_MIN }
    }

    fn row(&self, cells: &[String], numbers: &[bool]) -> Vec<Cell> {
        let cell = |column: &usize| match numbers[*column] {
            true => Cell::new(&cells[*column]).set_alignment(CellAlignment::Right),
            false => Cell::new(cut(&cells[*column], self.text_width)),
        };
        let mut row: Vec<Cell> = self.shown.iter().map(cell).collect();
        if let Some(gap) = self.gap {
            row.insert(gap, Cell::new(CUT));
        }
        row
    }
}

/// Replaces line ends and other control characters, which would break the lines of the table.
fn on_one_line(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' => '↵',
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(visible).collect()
}

/// Cuts a text to `width` columns of the screen.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(CUT.width());
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= room
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.push_str(CUT);
    kept
}

/// Writes a number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_before_columns_are_left_out() {
        let all = |columns, text_width| Fit { shown: (0..columns).collect(), gap: None, text_width };
        // 4 columns of 20: 4 * 23 + 1.
        assert_eq!(Fit::of(&[20; 4], &[false; 4], 93), all(4, 20));
        assert_eq!(Fit::of(&[20; 4], &[false; 4], 92), all(4, 19));
        assert_eq!(Fit::of(&[20; 4], &[false; 4], 77), all(4, 16));
        let some = |shown: &[usize], gap| Fit { shown: shown.to_vec(), gap: Some(gap), text_width: TEXT_WIDTH_MIN };
        assert_eq!(Fit::of(&[20; 4], &[false; 4], 76), some(&[0, 1, 3], 2));
        // Numbers are not cut, and one column is always there.
        assert_eq!(Fit::of(&[30; 3], &[true; 3], 40), some(&[0], 1));
        assert_eq!(Fit::of(&[30; 3], &[true; 3], 10), some(&[0], 1));
        assert_eq!(Fit::of(&[], &[], 80), all(0, TEXT_WIDTH_MIN));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 7), "漢字漢…");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(on_one_line("a\nb\tc\u{1b}[1m"), "a↵b c\u{fffd}[1m");
    }

    #[test]
    fn large_numbers_have_commas() {
        let texts = [0, 999, 1_000, 1_000_000, u64::MAX].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,000,000", "18,446,744,073,709,551,615"]);
    }
}

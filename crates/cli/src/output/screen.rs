//! Tables for a terminal: as many columns as fit the screen, and the first and last rows of a long result.
//!
//! Only the rows that are shown are kept, so a result of any length takes little memory. Long texts are cut, and
//! columns that do not fit are left out from the middle; `…` marks both.

use std::collections::VecDeque;
use std::io::Write;

use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;
use rowmill::text::TextColumn;
use rowmill::{Result, SqlType};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::grid::{COLUMN_BORDER, Grid, GridCell, LAST_BORDER};
use super::{Printer, names, put};
use crate::style::Tone;

/// Of a longer result we show this many rows from its beginning and from its end.
const ROWS_AT_EACH_END: usize = 20;

/// If not all columns fit, texts are cut to this width before any column is left out.
const TEXT_WIDTH_MIN: usize = 16;

const CUT: &str = "…";

const NULL: &str = "NULL";

/// A row that is kept. `None` is NULL.
type KeptRow = Vec<Option<String>>;

pub(super) struct ScreenPrinter {
    names: Vec<String>,
    types: Vec<String>,
    /// For each column, whether it has numbers. They are never cut, because a part of a number is another number.
    numbers: Vec<bool>,
    screen_columns: usize,
    first: Vec<KeptRow>,
    last: VecDeque<KeptRow>,
    rows: u64,
}

impl ScreenPrinter {
    pub(super) fn new(schema: &Schema, screen_columns: usize) -> Self {
        let names: Vec<String> = names(schema).iter().map(|name| cut(&on_one_line(name), screen_columns)).collect();
        let fields = schema.fields().iter();
        let types = fields.map(|field| SqlType::of_field(field).map(|kind| kind.to_string()));
        let types = types.map(|kind| kind.unwrap_or_default().to_lowercase()).collect();
        let numbers = vec![false; names.len()];
        let (first, last) = (Vec::new(), VecDeque::new());
        ScreenPrinter { names, types, numbers, screen_columns, first, last, rows: 0 }
    }

    fn cells(&self, columns: &[TextColumn<'_>], row: usize) -> KeptRow {
        let cell = |column: &TextColumn<'_>| {
            let mut text = String::new();
            // No column is wider than the screen.
            column.write(row, &mut text).then(|| cut(&on_one_line(&text), self.screen_columns))
        };
        columns.iter().map(cell).collect()
    }

    fn kept(&self) -> impl Iterator<Item = &KeptRow> {
        self.first.iter().chain(&self.last)
    }

    /// The widths of the columns' contents.
    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.kept().map(|row| row[column].as_deref().unwrap_or(NULL).width());
            cells.chain([self.names[column].width()]).max().unwrap_or(0)
        };
        (0..self.names.len()).map(width).collect()
    }

    /// The widths of the columns with their types, if the table is narrow enough for them, otherwise without. A type
    /// should not push a column off the screen.
    fn fit(&self) -> Fit {
        let widths = self.widths();
        let with_types: Vec<usize> =
            widths.iter().zip(&self.types).map(|(width, kind)| (*width).max(kind.width())).collect();
        let fit = Fit::of(with_types, &self.numbers, self.screen_columns);
        if fit.gap.is_none() { fit } else { Fit::of(widths, &self.numbers, self.screen_columns) }
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
        let fit = self.fit();
        let texts = |texts: &[String], tone| texts.iter().map(|text| (text.clone(), tone)).collect::<Vec<_>>();
        let row = |row: &KeptRow| {
            let cell = |cell: &Option<String>| match cell {
                Some(text) => (text.clone(), Tone::Plain),
                None => (NULL.to_owned(), Tone::Faint),
            };
            row.iter().map(cell).collect::<Vec<_>>()
        };
        let mut grid = Grid::new(fit.shown_widths());
        grid.row(&fit.row(&texts(&self.names, Tone::Plain), &self.numbers));
        if self.types.iter().any(|kind| !kind.is_empty()) {
            grid.row(&fit.row(&texts(&self.types, Tone::Faint), &self.numbers));
        }
        grid.end_header();
        for kept in &self.first {
            grid.row(&fit.row(&row(kept), &self.numbers));
        }
        if self.rows > self.kept().count() as u64 {
            grid.row(&fit.row(&vec![(CUT.to_owned(), Tone::Faint); self.names.len()], &self.numbers));
        }
        for kept in &self.last {
            grid.row(&fit.row(&row(kept), &self.numbers));
        }
        put(out, &format!("{}{}", grid.finish(), self.footer(fit.shown.len())))
    }
}

/// The columns that are shown, and their widths.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    /// The indexes of the columns, ascending.
    shown: Vec<usize>,
    /// A column of `…` comes before the shown column at this place.
    gap: Option<usize>,
    /// The widths of all columns.
    widths: Vec<usize>,
}

impl Fit {
    /// Chooses the columns that fit. `widths` are the widths of the contents.
    fn of(widths: Vec<usize>, numbers: &[bool], screen_columns: usize) -> Fit {
        let cut_to = |text_width: usize| -> Vec<usize> {
            let cut = |(width, is_number): (&usize, &bool)| if *is_number { *width } else { (*width).min(text_width) };
            widths.iter().zip(numbers).map(cut).collect()
        };
        let total = |widths: &[usize]| widths.iter().map(|width| width + COLUMN_BORDER).sum::<usize>() + LAST_BORDER;
        // The greatest width of texts at which all columns fit.
        let fits = |text_width: &usize| total(&cut_to(*text_width)) <= screen_columns;
        let widest = widths.iter().copied().max().unwrap_or(0).max(TEXT_WIDTH_MIN);
        if let Some(text_width) = (TEXT_WIDTH_MIN..=widest).rev().find(fits) {
            return Fit { shown: (0..widths.len()).collect(), gap: None, widths: cut_to(text_width) };
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
        Fit { shown, gap: Some(front), widths }
    }

    /// The widths of the columns of the grid.
    fn shown_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.shown.iter().map(|column| self.widths[*column]).collect();
        if let Some(gap) = self.gap {
            widths.insert(gap, CUT.width());
        }
        widths
    }

    fn row(&self, cells: &[(String, Tone)], numbers: &[bool]) -> Vec<GridCell> {
        let cell = |column: &usize| {
            let (text, tone) = &cells[*column];
            GridCell { text: cut(text, self.widths[*column]), is_right: numbers[*column], tone: *tone }
        };
        let mut row: Vec<GridCell> = self.shown.iter().map(cell).collect();
        if let Some(gap) = self.gap {
            row.insert(gap, GridCell::new(CUT));
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
        let all = |widths: &[usize]| Fit { shown: (0..widths.len()).collect(), gap: None, widths: widths.to_vec() };
        // 4 columns of 20: 4 * 23 + 1.
        for (screen_columns, width) in [(93, 20), (92, 19), (77, 16)] {
            assert_eq!(Fit::of(vec![20; 4], &[false; 4], screen_columns), all(&[width; 4]));
        }
        let some = |shown: &[usize], gap, widths: &[usize]| Fit {
            shown: shown.to_vec(),
            gap: Some(gap),
            widths: widths.to_vec(),
        };
        assert_eq!(Fit::of(vec![20; 4], &[false; 4], 76), some(&[0, 1, 3], 2, &[16; 4]));
        // Numbers are not cut, and one column is always there.
        assert_eq!(Fit::of(vec![30; 3], &[true; 3], 40), some(&[0], 1, &[30; 3]));
        assert_eq!(Fit::of(vec![30; 3], &[true; 3], 10), some(&[0], 1, &[30; 3]));
        assert_eq!(Fit::of(vec![], &[], 80), all(&[]));
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

//! Tables for people, with borders or as Markdown. Numbers are aligned to the right.

use std::io::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};
use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;
use rowmill::text::TextColumn;

use super::{Printer, names, put};

/// A longer result is printed as several tables, so that we need not hold all rows in memory at once.
const ROWS_PER_TABLE: usize = 10_000;

pub(super) struct TablePrinter {
    names: Vec<String>,
    markdown: bool,
    table: Table,
    rows: usize,
    printed: bool,
}

impl TablePrinter {
    pub(super) fn new(schema: &Schema, markdown: bool) -> Self {
        let names = names(schema);
        TablePrinter { table: empty(&names, markdown), names, markdown, rows: 0, printed: false }
    }

    fn print(&mut self, out: &mut dyn Write) -> Result<()> {
        let table = std::mem::replace(&mut self.table, empty(&self.names, self.markdown));
        self.rows = 0;
        self.printed = true;
        put(out, &format!("{table}\n"))
    }
}

fn empty(names: &[String], markdown: bool) -> Table {
    let mut table = Table::new();
    table.load_preset(if markdown { presets::ASCII_MARKDOWN } else { presets::UTF8_FULL_CONDENSED });
    table.set_header(names);
    table
}

impl Printer for TablePrinter {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let columns = batch.columns().iter().map(|values| TextColumn::new(values)).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| {
                let mut text = String::new();
                let valid = column.write(row, &mut text);
                let text = if !valid {
                    "NULL".to_owned()
                } else if self.markdown {
                    text.replace('|', "\\|").replace('\n', "<br>")
                } else {
                    text
                };
                let alignment = if column.is_number() { CellAlignment::Right } else { CellAlignment::Left };
                Cell::new(text).set_alignment(alignment)
            });
            self.table.add_row(cells.collect::<Vec<_>>());
            self.rows += 1;
            if self.rows == ROWS_PER_TABLE {
                self.print(out)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.rows > 0 || !self.printed { self.print(out) } else { Ok(()) }
    }
}

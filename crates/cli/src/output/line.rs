//! One value per line, for rows that are wider than the screen.

use std::io::Write;

use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;
use rowmill::text::TextColumn;

use super::{Printer, names, put};

pub(super) struct LinePrinter {
    names: Vec<String>,
    width: usize,
    rows: u64,
}

impl LinePrinter {
    pub(super) fn new(schema: &Schema) -> Self {
        let names = names(schema);
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        LinePrinter { names, width, rows: 0 }
    }
}

impl Printer for LinePrinter {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let columns = batch.columns().iter().map(|values| TextColumn::new(values)).collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            if self.rows > 0 {
                text.push('\n');
            }
            self.rows += 1;
            for (name, column) in self.names.iter().zip(&columns) {
                let padding = self.width - name.chars().count();
                text.extend(std::iter::repeat_n(' ', padding));
                text.push_str(name);
                text.push_str(" = ");
                if !column.write(row, &mut text) {
                    text.push_str("NULL");
                }
                text.push('\n');
            }
        }
        put(out, &text)
    }

    fn finish(&mut self, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }
}

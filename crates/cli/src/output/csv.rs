//! CSV according to RFC 4180, with a header row. NULL is an empty field, an empty text is `""`.

use std::io::Write;

use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;
use rowmill::text::TextColumn;

use super::{Printer, names, put};

pub(super) struct CsvPrinter {
    names: Vec<String>,
    header_due: bool,
}

impl CsvPrinter {
    pub(super) fn new(schema: &Schema) -> Self {
        CsvPrinter { names: names(schema), header_due: true }
    }

    fn header(&mut self, text: &mut String) {
        if std::mem::take(&mut self.header_due) {
            for (index, name) in self.names.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                push_field(name, text);
            }
            text.push('\n');
        }
    }
}

impl Printer for CsvPrinter {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let columns = batch.columns().iter().map(|values| TextColumn::new(values)).collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        self.header(&mut text);
        let mut field = String::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                field.clear();
                if column.write(row, &mut field) {
                    push_field(&field, &mut text);
                }
            }
            text.push('\n');
        }
        put(out, &text)
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        let mut text = String::new();
        // A result without batches still needs its header.
        self.header(&mut text);
        put(out, &text)
    }
}

fn push_field(field: &str, out: &mut String) {
    // An empty text must be quoted, because an unquoted empty field means NULL.
    if !field.is_empty() && !field.contains([',', '"', '\n', '\r']) {
        out.push_str(field);
        return;
    }
    out.push('"');
    out.push_str(&field.replace('"', "\"\""));
    out.push('"');
}

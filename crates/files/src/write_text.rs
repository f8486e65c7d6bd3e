//! Writes CSV and JSON lines.

use std::io::{self, Write};
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result};

use crate::write::{Encoder, Packed, WriteOptions};
use rowmill_expr::text::writer::{TextColumn, write_json_string};
use rowmill_storage::each_piece;

/// The number of bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// Rows that a thread formats at once: enough that starting the thread does not count.
const PIECE_ROWS: usize = 1 << 11;

/// Formats rows as text, a line each.
pub(crate) trait TextLines: Send + Sync {
    /// Appends the rows `rows` of a batch, whose columns are `columns`, to `text`.
    fn format(&self, columns: &[TextColumn<'_>], rows: Range<usize>, text: &mut String);
}

/// Writes lines of text. Threads share the rows of a batch.
pub(crate) struct LineEncoder<L> {
    lines: L,
    out: Packed,
    threads: usize,
    text: String,
}

impl<L: TextLines> LineEncoder<L> {
    /// Writes `head` before the first row.
    pub(crate) fn new(lines: L, head: &str, out: Packed, threads: usize) -> LineEncoder<L> {
        let mut text = String::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        text.push_str(head);
        LineEncoder { lines, out, threads, text }
    }
}

impl<L: TextLines> Encoder for LineEncoder<L> {
    fn encode(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let rows = batch.num_rows();
        let piece = |number: usize| number * PIECE_ROWS..rows.min((number + 1) * PIECE_ROWS);
        let pieces = rows.div_ceil(PIECE_ROWS);
        if self.threads > 1 && pieces > 1 {
            let lines = &self.lines;
            let format = |number: usize| {
                let mut text = String::new();
                lines.format(&text_columns(batch)?, piece(number), &mut text);
                Ok(text)
            };
            for text in each_piece(pieces, self.threads, "formatting rows", format).map_err(io::Error::other)? {
                self.text.push_str(&text);
                write_full(&mut self.text, &mut self.out)?;
            }
            return Ok(());
        }
        let columns = text_columns(batch).map_err(io::Error::other)?;
        for row in 0..rows {
            self.lines.format(&columns, row..row + 1, &mut self.text);
            write_full(&mut self.text, &mut self.out)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.out.finish()
    }
}

/// Formats rows as CSV.
pub(crate) struct CsvLines {
    delimiter: u8,
    quote: u8,
    null_string: String,
    /// For each column, whether its values never need quotes.
    plain: Vec<bool>,
}

impl CsvLines {
    pub(crate) fn new(schema: &SchemaRef, options: &WriteOptions) -> Result<CsvLines> {
        let delimiter = options.delimiter.unwrap_or(b',');
        if delimiter == options.quote {
            return Err(Error::new(ErrorKind::InvalidParameter, "delimiter and quote are the same character"));
        }
        // If the delimiter or the quote may occur in numbers and times, or NULL is not empty, every value must be
        // checked.
        let unusual = |c: u8| c.is_ascii_alphanumeric() || b"+-.: ".contains(&c);
        let usual = !unusual(delimiter) && !unusual(options.quote) && options.null_string.is_empty();
        let plain = schema.fields().iter().map(|field| usual && is_plain(field.data_type())).collect();
        Ok(CsvLines { delimiter, quote: options.quote, null_string: options.null_string.clone(), plain })
    }

    /// The line of names.
    pub(crate) fn header(&self, schema: &SchemaRef) -> String {
        let mut text = String::new();
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                text.push(char::from(self.delimiter));
            }
            let start = text.len();
            text.push_str(field.name());
            self.quote_if_needed(start, &mut text);
        }
        text.push('\n');
        text
    }

    /// Puts quotes around the text after `start` if it could not be read back unchanged otherwise.
    fn quote_if_needed(&self, start: usize, text: &mut String) {
        let field = &text[start..];
        let special = |byte: u8| byte == self.delimiter || byte == self.quote || byte == b'\n' || byte == b'\r';
        // A text equal to the NULL text must be quoted, or it would be read back as NULL.
        if !field.bytes().any(special) && field != self.null_string {
            return;
        }
        let quote = char::from(self.quote);
        if !field.contains(quote) {
            text.insert(start, quote);
            text.push(quote);
            return;
        }
        let field = text.split_off(start);
        text.push(quote);
        for c in field.chars() {
            if c == quote {
                text.push(quote);
            }
            text.push(c);
        }
        text.push(quote);
    }
}

impl TextLines for CsvLines {
    fn format(&self, columns: &[TextColumn<'_>], rows: Range<usize>, text: &mut String) {
        for row in rows {
            for (i, column) in columns.iter().enumerate() {
                if i > 0 {
                    text.push(char::from(self.delimiter));
                }
                let start = text.len();
                if !column.write(row, text) {
                    text.push_str(&self.null_string);
                } else if !self.plain[i] {
                    self.quote_if_needed(start, text);
                }
            }
            text.push('\n');
        }
    }
}

/// Types whose texts consist only of digits, letters, signs, points, colons and blanks. The texts of numbered types may
/// have anything.
fn is_plain(kind: &DataType) -> bool {
    rowmill_expr::kinds::is_number(kind)
        || kind.is_temporal()
        || matches!(kind, DataType::Boolean | DataType::FixedSizeBinary(16) | DataType::Interval(_))
}

fn text_columns(batch: &RecordBatch) -> Result<Vec<TextColumn<'_>>> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    columns.map(|(field, column)| TextColumn::of_field(field, column)).collect()
}

/// Writes the buffer if it is full.
fn write_full(text: &mut String, out: &mut Packed) -> io::Result<()> {
    if text.len() >= BUFFER_BYTES {
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    Ok(())
}

/// Formats rows as JSON, an object on each line.
pub(crate) struct JsonLines {
    /// Each name as a JSON string, followed by a colon.
    keys: Vec<String>,
}

impl JsonLines {
    pub(crate) fn new(schema: &SchemaRef) -> JsonLines {
        let key = |name: &str| {
            let mut key = String::new();
            write_json_string(name, &mut key);
            key.push_str(": ");
            key
        };
        JsonLines { keys: schema.fields().iter().map(|field| key(field.name())).collect() }
    }
}

impl TextLines for JsonLines {
    fn format(&self, columns: &[TextColumn<'_>], rows: Range<usize>, text: &mut String) {
        for row in rows {
            text.push('{');
            for (i, (key, column)) in self.keys.iter().zip(columns).enumerate() {
                if i > 0 {
                    text.push_str(", ");
                }
                text.push_str(key);
                column.write_json(row, text);
            }
            text.push_str("}\n");
        }
    }
}

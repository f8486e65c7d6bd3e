//! Writes CSV and JSON lines.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result};

use crate::write::{Encoder, Packed, WriteOptions};
use rowmill_expr::text::writer::{TextColumn, write_json_string};

/// The number of bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes CSV.
pub(crate) struct CsvEncoder {
    out: Packed,
    delimiter: u8,
    quote: u8,
    null_string: String,
    /// For each column, whether its values never need quotes.
    plain: Vec<bool>,
    text: String,
    scratch: String,
}

impl CsvEncoder {
    pub(crate) fn new(out: Packed, schema: &SchemaRef, options: &WriteOptions) -> Result<CsvEncoder> {
        let delimiter = options.delimiter.unwrap_or(b',');
        if delimiter == options.quote {
            return Err(Error::new(ErrorKind::InvalidParameter, "delimiter and quote are the same character"));
        }
        // If the delimiter or the quote may occur in numbers and times, or NULL is not empty, every value must be
        // checked.
        let unusual = |c: u8| c.is_ascii_alphanumeric() || b"+-.: ".contains(&c);
        let usual = !unusual(delimiter) && !unusual(options.quote) && options.null_string.is_empty();
        let plain = schema.fields().iter().map(|field| usual && is_plain(field.data_type())).collect();
        let mut encoder = CsvEncoder {
            out,
            delimiter,
            quote: options.quote,
            null_string: options.null_string.clone(),
            plain,
            text: String::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4),
            scratch: String::new(),
        };
        if options.header {
            encoder.push_header(schema);
        }
        Ok(encoder)
    }

    fn push_header(&mut self, schema: &SchemaRef) {
        for (i, field) in schema.fields().iter().enumerate() {
            if i > 0 {
                self.text.push(char::from(self.delimiter));
            }
            let start = self.text.len();
            self.text.push_str(field.name());
            self.quote_if_needed(start);
        }
        self.text.push('\n');
    }

    /// Puts quotes around the text after `start` if it could not be read back unchanged otherwise.
    fn quote_if_needed(&mut self, start: usize) {
        let field = &self.text[start..];
        let special = |byte: u8| byte == self.delimiter || byte == self.quote || byte == b'\n' || byte == b'\r';
        // A text equal to the NULL text must be quoted, or it would be read back as NULL.
        if !field.bytes().any(special) && field != self.null_string {
            return;
        }
        self.scratch.clear();
        self.scratch.push_str(field);
        self.text.truncate(start);
        let quote = char::from(self.quote);
        self.text.push(quote);
        for c in self.scratch.chars() {
            if c == quote {
                self.text.push(quote);
            }
            self.text.push(c);
        }
        self.text.push(quote);
    }
}

impl Encoder for CsvEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = text_columns(batch)?;
        for row in 0..batch.num_rows() {
            for (i, column) in columns.iter().enumerate() {
                if i > 0 {
                    self.text.push(char::from(self.delimiter));
                }
                let start = self.text.len();
                if !column.write(row, &mut self.text) {
                    self.text.push_str(&self.null_string);
                } else if !self.plain[i] {
                    self.quote_if_needed(start);
                }
            }
            self.text.push('\n');
            write_full(&mut self.text, &mut self.out)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.out.finish()
    }
}

/// Types whose texts consist only of digits, letters, signs, points, colons and blanks. The texts of numbered types may
/// have anything.
fn is_plain(kind: &DataType) -> bool {
    rowmill_expr::kinds::is_number(kind)
        || kind.is_temporal()
        || matches!(kind, DataType::Boolean | DataType::FixedSizeBinary(16) | DataType::Interval(_))
}

fn text_columns(batch: &RecordBatch) -> io::Result<Vec<TextColumn<'_>>> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    columns.map(|(field, column)| TextColumn::of_field(field, column).map_err(io::Error::other)).collect()
}

/// Writes the buffer if it is full.
fn write_full(text: &mut String, out: &mut Packed) -> io::Result<()> {
    if text.len() >= BUFFER_BYTES {
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    Ok(())
}

/// Writes JSON lines.
pub(crate) struct JsonEncoder {
    out: Packed,
    /// Each name as a JSON string, followed by a colon.
    keys: Vec<String>,
    text: String,
}

impl JsonEncoder {
    pub(crate) fn new(out: Packed, schema: &SchemaRef) -> JsonEncoder {
        let key = |name: &str| {
            let mut key = String::new();
            write_json_string(name, &mut key);
            key.push_str(": ");
            key
        };
        let keys = schema.fields().iter().map(|field| key(field.name())).collect();
        JsonEncoder { out, keys, text: String::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4) }
    }
}

impl Encoder for JsonEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = text_columns(batch)?;
        for row in 0..batch.num_rows() {
            self.text.push('{');
            for (i, (key, column)) in self.keys.iter().zip(&columns).enumerate() {
                if i > 0 {
                    self.text.push_str(", ");
                }
                self.text.push_str(key);
                column.write_json(row, &mut self.text);
            }
            self.text.push_str("}\n");
            write_full(&mut self.text, &mut self.out)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.out.finish()
    }
}

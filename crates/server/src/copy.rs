//! `COPY ... FROM STDIN` and `COPY ... TO STDOUT`: rows in and out through the connection.
//!
//! Data that comes in goes to a temporary file, which the engine then loads as it loads any file: it looks at the
//! beginning of a file before it reads the whole, and may read it with several threads. The text format becomes CSV on
//! the way (`copy/text_reader.rs`). Data that goes out is written while the query runs.

mod binary_reader;
mod copy_options;
mod stream_copy;
mod text_reader;

use std::io::{self, Write};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use pgwire::messages::PgWireFrontendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyInResponse, CopyOutResponse};
use rowmill::arrow::datatypes::SchemaRef;
use rowmill::input::NamedTempFile;
use rowmill::output::{FileFormat, WriteOptions, stream_writer};
use rowmill::{Connection, Outcome};

pub use self::stream_copy::StreamCopy;
use crate::backend::OUTPUT_BYTES;
use crate::copy::binary_reader::BinaryCopyReader;
use crate::copy::copy_options::{CopyFormat, CopyOptions};
use crate::copy::text_reader::TextCopyReader;
use crate::encode::{CopyEscapes, EncodedBatch, WireFormat, wire_columns};
use crate::end_signal::terminated;
use crate::portal::OpenRows;
use crate::session::PgSession;
use crate::socket::{ClientStream, NoMessage};
use crate::sql_words::{placed_words, quoted_text, value_of, words};
use crate::wire_error::{PROTOCOL_VIOLATION, StatementFault, StepResult, WireError};
use rowmill::pg_types::PgType;

/// The rows of a batch that are asked for at a time.
const ROWS_AT_ONCE: usize = 1 << 16;

/// A COPY through the connection.
#[derive(Debug, PartialEq)]
pub(crate) struct ClientCopy {
    /// A table with its columns, or a query in parentheses, as written.
    source: String,
    is_in: bool,
    /// The text after STDIN or STDOUT.
    options: String,
}

impl ClientCopy {
    /// Reads `COPY source FROM STDIN` or `COPY source TO STDOUT`. `None` for every other statement.
    pub(crate) fn of(sql: &str) -> Option<ClientCopy> {
        let mut lexemes = placed_words(sql);
        let (at, copy) = lexemes.next().filter(|(_, word)| word.text.eq_ignore_ascii_case("copy"))?;
        let start = at + copy.text.len();
        let mut depth = 0_usize;
        while let Some((at, word)) = lexemes.next() {
            match word.text {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_in = word.text.eq_ignore_ascii_case("from");
            if depth > 0 || !(is_in || word.text.eq_ignore_ascii_case("to")) {
                continue;
            }
            let (end_at, end) = lexemes.next()?;
            let wanted = if is_in { "stdin" } else { "stdout" };
            if !end.text.eq_ignore_ascii_case(wanted) {
                return None;
            }
            let source = sql[start..at].trim().to_owned();
            let options = sql[end_at + end.text.len()..].trim().to_owned();
            return Some(ClientCopy { source, is_in, options });
        }
        None
    }

    /// The name of the table, with its schema if that is written, without quotes.
    fn table(&self) -> String {
        words(&self.source).take_while(|word| word.text != "(").map(|word| value_of(&word)).collect()
    }

    /// The names of the columns, without quotes. Empty for all columns.
    fn columns(&self) -> Vec<String> {
        let mut words = words(&self.source).skip_while(|word| word.text != "(").skip(1);
        let listed = words.by_ref().take_while(|word| word.text != ")");
        listed.filter(|word| word.text != ",").map(|word| value_of(&word)).collect()
    }

    /// The query that reads the source, or `None` for all columns of a table.
    fn query(&self) -> Option<String> {
        if self.source.starts_with('(') {
            return Some(self.source.clone());
        }
        // A name in quotes may contain a parenthesis, so the text is not searched byte by byte.
        let (open, _) = placed_words(&self.source).find(|(_, word)| word.text == "(")?;
        let columns = self.source[open + 1..].trim_end().trim_end_matches(')');
        Some(format!("SELECT {columns} FROM {}", &self.source[..open]))
    }
}

impl ClientCopy {
    /// The query of the rows that are written, or that are read back without a list of columns.
    fn rows_query(&self, connection: &mut Connection) -> rowmill::Result<String> {
        match self.query() {
            Some(query) => Ok(query),
            None => connection.copied_rows(&self.source),
        }
    }
}

impl PgSession {
    /// Runs a COPY through the connection.
    pub(crate) fn run_copy(&mut self, sql: &str, client: &mut ClientStream) -> StepResult<Outcome> {
        let copy = ClientCopy::of(sql).ok_or_else(|| WireError::new("42601", "COPY takes FROM STDIN or TO STDOUT"))?;
        let options = CopyOptions::read(&copy.options, copy.is_in)?;
        let rows = match copy.is_in {
            true => self.copy_in(&copy, &options, client)?,
            false => self.copy_out(&copy, &options, client)?,
        };
        Ok(Outcome::Changed { tag: "COPY", rows })
    }

    /// Checks a COPY through the connection when it is prepared: its options, its table and its columns.
    pub(crate) fn check_copy(&mut self, sql: &str) -> StepResult {
        let Some(copy) = ClientCopy::of(sql) else { return Ok(()) };
        CopyOptions::read(&copy.options, copy.is_in)?;
        if copy.is_in {
            self.filled_columns(&copy)?;
            return Ok(());
        }
        let query = copy.rows_query(&mut self.connection)?;
        let query = self.connection.parse(&query)?;
        self.connection.shape(&query, &[])?;
        Ok(())
    }

    /// The columns that a COPY FROM STDIN fills. Returns an error if there is no such table or column, or no right to
    /// add rows.
    fn filled_columns(&mut self, copy: &ClientCopy) -> Result<SchemaRef, WireError> {
        let names = copy.columns();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.connection.append_schema(&copy.table(), &names).map_err(|error| WireError::of(&error))
    }

    fn copy_out(&mut self, copy: &ClientCopy, options: &CopyOptions, client: &mut ClientStream) -> StepResult<u64> {
        let query = copy.rows_query(&mut self.connection)?;
        let Outcome::Rows(stream) = self.connection.run_one(&query, &[])? else {
            return Err(WireError::new("42601", "COPY TO STDOUT takes a table or a query").into());
        };
        let columns = wire_columns(&stream.schema());
        let format = if options.format == CopyFormat::Binary { WireFormat::Binary } else { WireFormat::Text };
        let formats = vec![format; columns.len()];
        let codes = vec![format.code(); columns.len()];
        client.put(&CopyOutResponse::new(format.code() as i8, columns.len() as i16, codes));
        let rows = match options.format {
            CopyFormat::Csv => copy_csv_out(OpenRows::new(stream), options, client)?,
            CopyFormat::Text => {
                if options.header {
                    put_header(&columns, options, client);
                }
                let text = options.text_format();
                let escapes = CopyEscapes::new(&text);
                send_each(OpenRows::new(stream), &formats, client, |batch, rows, out| {
                    batch.encode_copy_text(rows, &escapes, out, OUTPUT_BYTES)
                })?
            }
            CopyFormat::Binary => {
                // Clients expect the head in one message with what follows it.
                let mut head = binary_reader::HEADER;
                let rows = send_each(OpenRows::new(stream), &formats, client, |batch, rows, out| {
                    batch.encode_copy_binary(rows, &mut head, out, OUTPUT_BYTES)
                })?;
                client.put(&CopyData::new(Bytes::from([head, binary_reader::TRAILER].concat())));
                rows
            }
        };
        client.put(&CopyDone::new());
        Ok(rows)
    }

    fn copy_in(&mut self, copy: &ClientCopy, options: &CopyOptions, client: &mut ClientStream) -> StepResult<u64> {
        // The table, its columns and the right to add rows are checked before the client sends anything.
        let columns = self.filled_columns(copy)?;
        let kinds = wire_columns(&columns).iter().map(|column| column.kind).collect();
        let format = if options.format == CopyFormat::Binary { WireFormat::Binary } else { WireFormat::Text };
        let count = columns.fields().len();
        client.put(&CopyInResponse::new(format.code() as i8, count as i16, vec![format.code(); count]));
        client.send()?;
        let mut spool = self.connection.temporary_file("COPY FROM STDIN")?;
        self.receive(options, kinds, &mut spool, client)?;
        let path = spool.finish()?.display().to_string();
        let sql = format!("COPY {} FROM {} {}", copy.source, quoted_text(&path), options.engine_clause());
        let loaded = self.connection.run_one(&sql, &[]);
        let loaded = loaded.map_err(|error| {
            let mut error = WireError::of(&error);
            error.message = error.message.replace(&path, "STDIN");
            error
        })?;
        match loaded {
            Outcome::Changed { rows, .. } => Ok(rows),
            Outcome::Done { .. } | Outcome::Rows(_) => Ok(0),
        }
    }

    /// Takes the data of a COPY up to its end.
    fn receive(
        &mut self,
        options: &CopyOptions,
        kinds: Vec<PgType>,
        spool: &mut NamedTempFile,
        client: &mut ClientStream,
    ) -> StepResult {
        let mut reader = match options.format {
            CopyFormat::Csv => DataReader::Csv,
            CopyFormat::Text => DataReader::Text(TextCopyReader::new(options.text_format(), kinds, options.header)),
            CopyFormat::Binary => DataReader::Binary(BinaryCopyReader::new(kinds)),
        };
        let mut csv = Vec::new();
        loop {
            let message = client.wait_for_message(&self.shared.stop, &self.ending);
            // A client that sends without a pause must end, too.
            if self.ending.is_given() {
                return Err(terminated().into());
            }
            let message = message.map_err(|fault| match fault {
                NoMessage::Lost(error) => StatementFault::Lost(error),
                // The bytes after a broken message cannot be read, so the connection must end.
                NoMessage::Broken(broken) => StatementFault::Lost(io::Error::other(broken.0)),
            })?;
            match message {
                PgWireFrontendMessage::CopyData(CopyData { data, .. }) => match &mut reader {
                    DataReader::Csv => spool.write(&data)?,
                    DataReader::Text(text) => text.push(&data, &mut csv)?,
                    DataReader::Binary(binary) => binary.push(&data, &mut csv)?,
                },
                PgWireFrontendMessage::CopyDone(_) => break,
                PgWireFrontendMessage::CopyFail(fail) => {
                    let message = format!("COPY from stdin failed: {}", fail.message);
                    return Err(WireError::new("57014", message).into());
                }
                PgWireFrontendMessage::Flush(_) | PgWireFrontendMessage::Sync(_) => {}
                _ => {
                    let message = "a COPY takes CopyData, CopyDone and CopyFail until its end";
                    return Err(WireError::new(PROTOCOL_VIOLATION, message).into());
                }
            }
            spool.write(&csv)?;
            csv.clear();
        }
        match &mut reader {
            DataReader::Csv => {}
            DataReader::Text(text) => text.finish(&mut csv)?,
            DataReader::Binary(binary) => binary.finish()?,
        }
        Ok(spool.write(&csv)?)
    }
}

/// Reads data by its format.
enum DataReader {
    /// The engine reads it as it is.
    Csv,
    Text(TextCopyReader),
    Binary(BinaryCopyReader),
}

/// Sends the rows of a query, each batch as `encode` writes it.
fn send_each(
    mut rows: OpenRows,
    formats: &[WireFormat],
    client: &mut ClientStream,
    mut encode: impl FnMut(&mut EncodedBatch<'_>, std::ops::Range<usize>, &mut BytesMut) -> usize,
) -> StepResult<u64> {
    let mut sent = 0;
    while let Some(batch) = rows.take(ROWS_AT_ONCE)? {
        let mut encoded = EncodedBatch::new(&batch, rows.schema(), formats)?;
        let mut at = 0;
        while at < batch.num_rows() {
            at += encode(&mut encoded, at..batch.num_rows(), &mut client.output);
            client.send_full()?;
        }
        sent += batch.num_rows() as u64;
    }
    Ok(sent)
}

fn put_header(columns: &[crate::encode::WireColumn], options: &CopyOptions, client: &mut ClientStream) {
    client.put(&CopyData::new(header_line(columns, options).into()));
}

/// The names of the columns as a line of the text format.
fn header_line(columns: &[crate::encode::WireColumn], options: &CopyOptions) -> Vec<u8> {
    let format = options.text_format();
    let escapes = CopyEscapes::new(&format);
    let mut line = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            line.push(format.delimiter);
        }
        escapes.put(column.name.as_bytes(), &mut line);
    }
    line.push(b'\n');
    line
}

/// How the engine writes the CSV of a COPY.
fn csv_options(options: &CopyOptions) -> WriteOptions {
    WriteOptions {
        format: Some(FileFormat::Csv),
        header: options.header,
        delimiter: Some(options.delimiter.unwrap_or(b',')),
        quote: options.quote.unwrap_or(b'"'),
        null_string: options.null.clone().unwrap_or_default(),
        ..WriteOptions::default()
    }
}

/// A buffer that a writer fills and a COPY empties.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedBuffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Sends the bytes of the buffer.
    fn send(&self, client: &mut ClientStream) -> io::Result<()> {
        let bytes = self.take();
        for piece in bytes.chunks(OUTPUT_BYTES) {
            client.put(&CopyData::new(Bytes::copy_from_slice(piece)));
            client.send_full()?;
        }
        Ok(())
    }
}

fn copy_csv_out(mut rows: OpenRows, options: &CopyOptions, client: &mut ClientStream) -> StepResult<u64> {
    let buffer = SharedBuffer::default();
    let mut writer = stream_writer(Box::new(buffer.clone()), "STDOUT", rows.schema(), &csv_options(options))?;
    let mut sent = 0;
    while let Some(batch) = rows.take(ROWS_AT_ONCE)? {
        writer.write(&batch)?;
        sent += batch.num_rows() as u64;
        buffer.send(client)?;
    }
    writer.finish()?;
    buffer.send(client)?;
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_through_the_connection_are_found() {
        let copy = ClientCopy::of("COPY \"t x\" (a, b) FROM STDIN WITH (FORMAT csv)").expect("a copy");
        assert_eq!(
            (copy.source.as_str(), copy.is_in, copy.options.as_str()),
            ("\"t x\" (a, b)", true, "WITH (FORMAT csv)")
        );
        assert_eq!(copy.query().as_deref(), Some("SELECT a, b FROM \"t x\" "));
        assert_eq!(copy.table(), "t x");
        assert_eq!(copy.columns(), ["a", "b"]);
        assert_eq!(ClientCopy::of("COPY S . \"t\" FROM STDIN").map(|copy| copy.table()), Some("S.t".to_owned()));
        let copy = ClientCopy::of("COPY \"t(1)\"(a) TO STDOUT").expect("a copy");
        assert_eq!(copy.query().as_deref(), Some("SELECT a FROM \"t(1)\""));
        assert_eq!(ClientCopy::of("COPY t TO STDOUT").and_then(|copy| copy.query()), None);
        let copy = ClientCopy::of("copy (SELECT 1 FROM x) to stdout").expect("a copy");
        assert_eq!((copy.query().as_deref(), copy.is_in), (Some("(SELECT 1 FROM x)"), false));
        assert_eq!(ClientCopy::of("COPY t FROM 'file.csv'"), None);
        assert_eq!(ClientCopy::of("COPY t"), None);
        assert_eq!(ClientCopy::of("SELECT 1"), None);
    }
}

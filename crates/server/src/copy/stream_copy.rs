//! A COPY whose data goes through the streams of a program instead of a connection. For example, the shell runs
//! `COPY ... FROM STDIN` and `COPY ... TO STDOUT` in this way, with the options and formats of the server.

use std::io::Write;

use rowmill::output::stream_writer;
use rowmill::{Connection, Error, ErrorKind, Outcome, Result, RowStream};

use super::copy_options::{CopyFormat, CopyOptions};
use super::text_reader::TextCopyReader;
use super::{ClientCopy, SharedBuffer, csv_options, header_line};
use crate::encode::{CopyEscapes, EncodedBatch, WireFormat, wire_columns};
use crate::sql_words::{quoted_text, statements};
use crate::wire_error::WireError;

/// A COPY through the streams of a program.
#[derive(Debug)]
pub struct StreamCopy {
    copy: ClientCopy,
    options: CopyOptions,
}

/// The error of the engine that says the same.
fn engine_error(error: WireError) -> Error {
    let kind = match error.sqlstate {
        "0A000" => ErrorKind::Unsupported,
        "22P04" => ErrorKind::BadFileFormat,
        "22P02" | "22P03" => ErrorKind::InvalidText,
        "42601" => ErrorKind::Syntax,
        _ => ErrorKind::InvalidParameter,
    };
    let made = Error::new(kind, error.message);
    match error.hint {
        Some(hint) => made.hint(hint),
        None => made,
    }
}

impl StreamCopy {
    /// Whether one of the statements of a text is such a COPY.
    pub fn is_in(text: &str) -> bool {
        statements(text).iter().any(|part| ClientCopy::of(&part.sql).is_some())
    }

    /// Reads a statement. `None` if it is not such a COPY.
    pub fn of(sql: &str) -> Result<Option<StreamCopy>> {
        let Some(copy) = ClientCopy::of(sql.trim_end().trim_end_matches(';')) else { return Ok(None) };
        let options = CopyOptions::read(&copy.options, copy.is_in).map_err(engine_error)?;
        if options.format == CopyFormat::Binary {
            let error =
                Error::new(ErrorKind::Unsupported, "a COPY through this program takes the formats text and csv");
            return Err(error.hint("the server takes the format binary; files can be Parquet: COPY t TO 't.parquet'"));
        }
        Ok(Some(StreamCopy { copy, options }))
    }

    /// Whether the statement takes data, and does not give it.
    pub fn takes_data(&self) -> bool {
        self.copy.is_in
    }

    /// Loads the data that `next` returns piece by piece. Returns the number of rows.
    pub fn load(&self, connection: &mut Connection, next: &mut dyn FnMut() -> Result<Option<Vec<u8>>>) -> Result<u64> {
        // The table and its columns are checked before the program asks for data.
        let rows = self.copy.rows_query(connection)?;
        let query = connection.prepare(&rows)?;
        let shape = connection.shape(&query, &[])?;
        let columns = shape.columns.ok_or_else(|| Error::new(ErrorKind::Syntax, "COPY FROM STDIN takes a table"))?;
        let kinds = wire_columns(&columns).iter().map(|column| column.kind).collect();
        let mut text = match self.options.format {
            CopyFormat::Text => Some(TextCopyReader::new(self.options.text_format(), kinds, self.options.header)),
            CopyFormat::Csv | CopyFormat::Binary => None,
        };
        let mut spool = connection.temporary_file("COPY FROM STDIN")?;
        let mut csv = Vec::new();
        while let Some(piece) = next()? {
            match &mut text {
                Some(text) => text.push(&piece, &mut csv).map_err(engine_error)?,
                None => csv.extend_from_slice(&piece),
            }
            spool.write(&csv)?;
            csv.clear();
        }
        if let Some(text) = &mut text {
            text.finish(&mut csv).map_err(engine_error)?;
            spool.write(&csv)?;
        }
        let path = spool.finish()?.display().to_string();
        let sql = format!("COPY {} FROM {} {}", self.copy.source, quoted_text(&path), self.options.engine_clause());
        let loaded = connection.run_one(&sql, &[]).map_err(|error| {
            let named = Error::new(error.kind(), error.message().replace(&path, "STDIN"));
            error.hint_text().map_or_else(|| named.clone(), |hint| named.clone().hint(hint))
        })?;
        Ok(match loaded {
            Outcome::Changed { rows, .. } => rows,
            Outcome::Done { .. } | Outcome::Rows(_) => 0,
        })
    }

    /// Writes the rows to `out`. Returns their number.
    pub fn write(&self, connection: &mut Connection, out: &mut dyn Write) -> Result<u64> {
        let query = self.copy.rows_query(connection)?;
        let Outcome::Rows(rows) = connection.run_one(&query, &[])? else {
            return Err(Error::new(ErrorKind::Syntax, "COPY TO STDOUT takes a table or a query"));
        };
        match self.options.format {
            CopyFormat::Csv => self.write_csv(rows, out),
            CopyFormat::Text | CopyFormat::Binary => self.write_text(rows, out),
        }
    }

    fn write_csv(&self, rows: RowStream, out: &mut dyn Write) -> Result<u64> {
        let buffer = SharedBuffer::default();
        let mut writer =
            stream_writer(Box::new(buffer.clone()), "STDOUT", &rows.schema(), &csv_options(&self.options))?;
        let mut written = 0;
        for batch in rows {
            let batch = batch?;
            writer.write(&batch)?;
            written += batch.num_rows() as u64;
            put(out, &buffer.take())?;
        }
        writer.finish()?;
        put(out, &buffer.take())?;
        Ok(written)
    }

    fn write_text(&self, rows: RowStream, out: &mut dyn Write) -> Result<u64> {
        let columns = wire_columns(&rows.schema());
        let formats = vec![WireFormat::Text; columns.len()];
        let format = self.options.text_format();
        if self.options.header {
            put(out, &header_line(&columns, &self.options))?;
        }
        let escapes = CopyEscapes::new(&format);
        let mut line = Vec::new();
        let mut written = 0;
        for batch in rows {
            let batch = batch?;
            let mut encoded = EncodedBatch::new(&batch, &batch.schema(), &formats)?;
            for row in 0..batch.num_rows() {
                line.clear();
                encoded.copy_text_row(row, &escapes, &mut line);
                put(out, &line)?;
            }
            written += batch.num_rows() as u64;
        }
        Ok(written)
    }
}

fn put(out: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(|error| Error::io("writing the output", &error))
}

#[cfg(test)]
mod tests {
    use rowmill::Database;

    use super::*;

    fn loaded(connection: &mut Connection, sql: &str, pieces: &[&str]) -> Result<u64> {
        let copy = StreamCopy::of(sql)?.expect("a copy");
        let mut pieces = pieces.iter().map(|piece| piece.as_bytes().to_vec());
        copy.load(connection, &mut || Ok(pieces.next()))
    }

    fn written(connection: &mut Connection, sql: &str) -> String {
        let mut out = Vec::new();
        StreamCopy::of(sql).expect("read").expect("a copy").write(connection, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn rows_go_in_and_out_in_both_formats() {
        let mut connection = Database::memory().expect("a database").connect().expect("connected");
        connection.execute_batch("CREATE TABLE t (a INTEGER, b TEXT, c BOOLEAN)").expect("made");
        let rows = loaded(&mut connection, "COPY t FROM STDIN;", &["1\tone\tt\n2\t", "\\N\tf\n", "3\ta\\tb\t\\N\n"]);
        assert_eq!(rows, Ok(3));
        let rows = loaded(&mut connection, "COPY t (a, b) FROM STDIN CSV HEADER", &["a,b\n4,\"a,b\"\n"]);
        assert_eq!(rows, Ok(1));
        assert_eq!(
            written(&mut connection, "COPY (SELECT * FROM t ORDER BY a) TO STDOUT"),
            "1\tone\tt\n2\t\\N\tf\n3\ta\\tb\t\\N\n4\ta,b\t\\N\n"
        );
        assert_eq!(
            written(&mut connection, "COPY (SELECT a, b FROM t WHERE a = 4) TO STDOUT CSV HEADER"),
            "a,b\n4,\"a,b\"\n"
        );
    }

    #[test]
    fn damaged_data_is_an_error_and_adds_no_row() {
        let mut connection = Database::memory().expect("a database").connect().expect("connected");
        connection.execute_batch("CREATE TABLE t (a INTEGER, b TEXT)").expect("made");
        for (sql, pieces) in [
            ("COPY t FROM STDIN", &["1\tx\n2\n"][..]),
            ("COPY t FROM STDIN", &["x\ty\n"]),
            ("COPY t FROM STDIN CSV", &["1,\"never closed\n"]),
            ("COPY nowhere FROM STDIN", &["1\n"]),
        ] {
            assert!(loaded(&mut connection, sql, pieces).is_err(), "{sql} {pieces:?}");
        }
        assert!(StreamCopy::of("COPY t FROM STDIN (FORMAT binary)").is_err());
        assert_eq!(written(&mut connection, "COPY t TO STDOUT"), "");
    }
}

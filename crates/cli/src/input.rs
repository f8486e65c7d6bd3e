//! Sources of SQL: texts of the command line, files, and the standard input. Files and the standard input are read as
//! they come, and each statement is run as soon as it is complete. So a script can converse with the shell over pipes,
//! and a long file takes little memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rowmill::text::{SqlSplitter, TextStatement};
use rowmill::{Error, ErrorKind, Result};

use crate::data_lines::{DataLines, END_OF_DATA};

/// A source of SQL, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SqlInput {
    Text(String),
    File(PathBuf),
    Standard,
}

/// A source of SQL, open.
pub(crate) enum OpenInput {
    Text(String),
    Stream(SqlStream),
}

impl SqlInput {
    /// Opens the source. A file that cannot be read is an error here, before anything has run.
    pub(crate) fn open(self) -> Result<OpenInput> {
        Ok(match self {
            SqlInput::Text(sql) => OpenInput::Text(sql),
            SqlInput::File(path) if path.as_os_str() == "-" => OpenInput::Stream(SqlStream::standard()),
            SqlInput::File(path) => OpenInput::Stream(SqlStream::file(&path)?),
            SqlInput::Standard => OpenInput::Stream(SqlStream::standard()),
        })
    }
}

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// A file or the standard input, statement by statement.
pub(crate) struct SqlStream {
    name: String,
    source: Box<dyn Read>,
    splitter: SqlSplitter,
    /// Bytes of a character whose end was not read yet.
    partial: Vec<u8>,
    bytes_read: usize,
    is_over: bool,
    statements: usize,
    /// Whether the data of a COPY has ended.
    data_is_over: bool,
}

impl SqlStream {
    fn new(name: String, source: Box<dyn Read>) -> SqlStream {
        let (splitter, partial) = (SqlSplitter::default(), Vec::new());
        let (is_over, data_is_over) = (false, false);
        SqlStream { name, source, splitter, partial, bytes_read: 0, is_over, statements: 0, data_is_over }
    }

    pub(crate) fn standard() -> SqlStream {
        SqlStream::new("the standard input".to_owned(), Box::new(io::stdin()))
    }

    pub(crate) fn file(path: &Path) -> Result<SqlStream> {
        let name = path.display().to_string();
        let failed =
            |what: &str| Error::new(ErrorKind::UndefinedFile, format!("the file {name} cannot be read: {what}"));
        let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(failed("it is a directory"));
        }
        Ok(SqlStream::new(name, Box::new(file)))
    }

    /// Returns the next statement, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<TextStatement>> {
        loop {
            let found = match self.splitter.next_complete() {
                None if self.is_over => self.splitter.rest(),
                found => found,
            };
            if found.is_some() || self.is_over {
                self.statements += usize::from(found.is_some());
                return Ok(found);
            }
            self.read()?;
        }
    }

    /// Reads some bytes. Waits only if there are none yet.
    fn read(&mut self) -> Result<()> {
        let kept = self.partial.len();
        self.partial.resize(kept + READ_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.partial[kept..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| self.failed(&error.to_string()))?,
            }
        };
        self.partial.truncate(kept + read);
        self.is_over = read == 0;
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            // The last character may be cut by the end of what was read.
            Err(error) if error.error_len().is_none() && !self.is_over => error.valid_up_to(),
            Err(error) => {
                let offset = self.bytes_read + error.valid_up_to();
                return Err(self.failed(&format!("its text is not UTF-8 at byte {offset}")));
            }
        };
        let piece = std::str::from_utf8(&self.partial[..whole]).expect("it was checked above");
        // Some editors begin a file with a mark of its byte order.
        let is_first = self.bytes_read == 0;
        self.splitter.push(if is_first { piece.trim_start_matches('\u{feff}') } else { piece });
        self.bytes_read += whole;
        self.partial.drain(..whole);
        Ok(())
    }

    /// Returns the rest of the line, with its end. `None` at the end of the stream.
    fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            match self.splitter.next_line() {
                Some(line) => return Ok(Some(line)),
                None if self.is_over => return Ok(self.splitter.rest_of_text()),
                None => self.read()?,
            }
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(ErrorKind::UndefinedFile, format!("{} cannot be read: {what}", self.name))
    }

    /// Adds to an error of `statement`, the last one returned, where the statement is. Places inside of the statement
    /// become places in the stream. Places in an error of a command are those of another file.
    pub(crate) fn locate(&self, error: &Error, statement: &TextStatement) -> Error {
        let message = match statement.is_shell_command() {
            true => error.message().to_owned(),
            false => with_places_in_stream(error.message(), statement),
        };
        let mut located = Error::new(error.kind(), message);
        if let Some(position) = error.position() {
            located = located.at_position(position);
        }
        let located = located.context(format!("{}, line {}, statement {}", self.name, statement.line, self.statements));
        match error.hint_text() {
            Some(hint) => located.hint(hint),
            None => located,
        }
    }
}

impl DataLines for SqlStream {
    fn begin(&mut self) -> Result<()> {
        // The data begins on the line after the statement.
        self.data_is_over = false;
        self.next_line().map(drop)
    }

    fn next_lines(&mut self) -> Result<Option<Vec<u8>>> {
        if self.data_is_over {
            return Ok(None);
        }
        let line = self.next_line()?.filter(|line| line.trim_end_matches(['\r', '\n']) != END_OF_DATA);
        self.data_is_over = line.is_none();
        Ok(line.map(String::into_bytes))
    }
}

/// Messages give places in this form.
const LINE: &str = "line ";
const COLUMN: &str = ", column ";

/// Changes the places in a message about `statement`, which count from its beginning, to places that count from the
/// beginning of the stream.
fn with_places_in_stream(message: &str, statement: &TextStatement) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(LINE) {
        let (before, after) = rest.split_at(at + LINE.len());
        text.push_str(before);
        rest = after;
        let Some((line, after)) = split_number(after) else { continue };
        let Some((column, after)) = after.strip_prefix(COLUMN).and_then(split_number) else { continue };
        // Only the first line of the statement begins in the middle of a line.
        let column = if line == 1 { column + statement.column - 1 } else { column };
        text.push_str(&format!("{}{COLUMN}{column}", line + statement.line - 1));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Splits off the number at the beginning of `text`.
fn split_number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes one at a time.
    struct Drops(Vec<u8>);

    impl Read for Drops {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            match self.0.is_empty() {
                true => Ok(0),
                false => {
                    bytes[0] = self.0.remove(0);
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn characters_that_are_cut_by_a_read_are_put_together() {
        let mut stream = SqlStream::new("drops".to_owned(), Box::new(Drops("\u{feff}SELECT 'ä€😀';é".into())));
        let first = stream.next().expect("UTF-8").expect("a statement");
        assert_eq!((first.text.as_str(), first.line, first.column), ("SELECT 'ä€😀';", 1, 1));
        let second = stream.next().expect("UTF-8").expect("a statement");
        assert_eq!((second.text.as_str(), second.line, second.column), ("é", 1, 14));
        assert_eq!(stream.next().expect("the end"), None);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_an_error_with_their_offset() {
        for (bytes, offset) in [(&b"SELECT '\xff';"[..], 8), (b"SELECT 1;\xe2\x82", 9)] {
            let mut stream = SqlStream::new("bytes".to_owned(), Box::new(io::Cursor::new(bytes)));
            let error = std::iter::from_fn(|| Some(stream.next())).find_map(Result::err).expect("an error");
            assert!(error.message().ends_with(&format!("not UTF-8 at byte {offset}")), "{error}");
        }
    }

    #[test]
    fn places_in_messages_count_from_the_beginning_of_the_stream() {
        let statement = TextStatement { text: String::new(), line: 10, column: 4 };
        for (message, expected) in [
            ("syntax error at line 1, column 2, near \"x\"", "syntax error at line 10, column 5, near \"x\""),
            ("no \"line \" (line 3, column 2)", "no \"line \" (line 12, column 2)"),
            ("line 2 of the file, line", "line 2 of the file, line"),
            (
                "line 1, column x, line 99999999999999999999999, column 1",
                "line 1, column x, line 99999999999999999999999, column 1",
            ),
        ] {
            assert_eq!(with_places_in_stream(message, &statement), expected);
        }
    }
}

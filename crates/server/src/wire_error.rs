//! Errors in PostgreSQL's form: SQLSTATE, message, detail, hint and position.

use std::io;

use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use rowmill::{BrokenRule, Error, ErrorKind};

/// The SQLSTATE for bytes that do not follow the protocol.
pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
/// The SQLSTATE for a server that stops.
pub(crate) const ADMIN_SHUTDOWN: &str = "57P01";
/// The SQLSTATE for a statement in a transaction that has failed.
pub(crate) const FAILED_TRANSACTION: &str = "25P02";
/// The SQLSTATE for SQL that the server does not run.
pub(crate) const UNSUPPORTED: &str = "0A000";
/// The SQLSTATE for a name of a prepared statement that no statement has.
pub(crate) const NO_STATEMENT: &str = "26000";
/// The SQLSTATE for a name of a portal that no portal has.
pub(crate) const NO_PORTAL: &str = "34000";
/// The SQLSTATE for a value that is not one of its type's binary form.
pub(crate) const BAD_BINARY: &str = "22P03";

/// An error that a client can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireError {
    pub(crate) sqlstate: &'static str,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
    /// The place in the client's text, in characters, counted from 1.
    pub(crate) position: Option<usize>,
    /// The rule of a table that a row would break.
    broken: Option<Box<BrokenRule>>,
}

impl WireError {
    pub(crate) fn new(sqlstate: &'static str, message: impl Into<String>) -> WireError {
        WireError { sqlstate, message: message.into(), detail: None, hint: None, position: None, broken: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> WireError {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> WireError {
        self.detail = Some(detail.into());
        self
    }

    /// An error of the engine that has no place in a text.
    pub(crate) fn of(error: &Error) -> WireError {
        WireError {
            sqlstate: sqlstate(error.kind()),
            message: error.message().to_owned(),
            detail: error.damage().and_then(damage_text),
            hint: error.hint_text().map(str::to_owned),
            position: None,
            broken: error.broken_rule().cloned().map(Box::new),
        }
    }

    /// An error of the engine about a statement that begins at byte `start` of `text`, the text of the client.
    pub(crate) fn in_text(error: &Error, text: &str, start: usize) -> WireError {
        let statement = text.get(start..).unwrap_or_default();
        let place = error.position().and_then(|place| character_of(statement, place.line, place.column));
        let before = text.get(..start).unwrap_or_default().chars().count();
        WireError { position: place.map(|place| before + place), ..WireError::of(error) }
    }

    pub(crate) fn response(&self, severity: &str) -> ErrorResponse {
        ErrorResponse::new(self.fields(severity))
    }

    /// The fields of the message, each with the letter that names it.
    fn fields(&self, severity: &str) -> Vec<(u8, String)> {
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.sqlstate.to_owned()),
            (b'M', field_text(&self.message)),
        ];
        let texts = [(b'D', &self.detail), (b'H', &self.hint)];
        fields.extend(texts.into_iter().filter_map(|(letter, text)| Some((letter, field_text(text.as_deref()?)))));
        fields.extend(self.position.map(|position| (b'P', position.to_string())));
        if let Some(BrokenRule { table, constraint, column }) = self.broken.as_deref() {
            let names = [(b't', Some(table)), (b'n', constraint.as_ref()), (b'c', column.as_ref())];
            fields.extend(names.into_iter().filter_map(|(letter, name)| Some((letter, field_text(name?)))));
        }
        fields
    }
}

/// Returns a notice or a warning.
pub(crate) fn notice(severity: &str, sqlstate: &'static str, message: &str) -> NoticeResponse {
    NoticeResponse::new(WireError::new(sqlstate, message).fields(severity))
}

/// The most bytes of a text in an error. Some errors repeat a value, which may be large.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Returns a text as a field of an error: without zero bytes, which end the field, and not too long.
fn field_text(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "..." } else { "" };
    format!("{}{cut}", text[..end].replace('\0', " "))
}

/// Drivers tell a statement that was cancelled from one that ran into its deadline by the message; both have the
/// SQLSTATE `57014` in PostgreSQL.
fn sqlstate(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Deadline => ErrorKind::Cancelled.sqlstate(),
        kind => kind.sqlstate(),
    }
}

fn damage_text(place: &rowmill::DamagePlace) -> Option<String> {
    let file = place.file.as_ref()?;
    Some(match place.offset {
        Some(offset) => format!("file {file}, offset {offset}"),
        None => format!("file {file}"),
    })
}

/// Returns the number of the character at a line and column of a text. All of them count from 1.
fn character_of(text: &str, line: u64, column: u64) -> Option<usize> {
    let mut before = 0;
    let mut lines = text.split_inclusive('\n');
    for _ in 1..line {
        before += lines.next()?.chars().count();
    }
    Some(before + usize::try_from(column).ok()?)
}

/// Why a statement of a session ended early.
#[derive(Debug)]
pub(crate) enum StatementFault {
    /// The client is told an error, and the session goes on.
    Failed(WireError),
    /// The client cannot be told anything, because its connection is lost.
    Lost(io::Error),
}

impl From<WireError> for StatementFault {
    fn from(error: WireError) -> Self {
        StatementFault::Failed(error)
    }
}

impl From<Error> for StatementFault {
    fn from(error: Error) -> Self {
        StatementFault::Failed(WireError::of(&error))
    }
}

impl From<io::Error> for StatementFault {
    fn from(error: io::Error) -> Self {
        StatementFault::Lost(error)
    }
}

/// The result of a step of a statement.
pub(crate) type StepResult<T = ()> = Result<T, StatementFault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_of_the_whole_text() {
        let text = "é;\nSELECT\n  ü x";
        let start = text.find("SELECT").expect("it is there");
        let error = Error::new(ErrorKind::Syntax, "x").at_position(rowmill::TextPosition { line: 2, column: 5 });
        let position = WireError::in_text(&error, text, start).position.expect("a position");
        assert_eq!(text.chars().nth(position - 1), Some('x'));
        let beyond = error.at_position(rowmill::TextPosition { line: 9, column: 5 });
        assert_eq!(WireError::in_text(&beyond, text, start).position, None);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = format!("{}\0", "é".repeat(TEXT_BYTES_MAX));
        let field = field_text(&text);
        assert!(field.len() <= TEXT_BYTES_MAX + 3 && field.ends_with("..."));
        assert_eq!(field_text("a\0b"), "a b");
    }
}

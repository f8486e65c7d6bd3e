//! Reports values and lines that cannot be read: as an error, or as a row of a reject table.

use std::fmt;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType};

use crate::OnError;
use rowmill_expr::text::json::why_not;
use rowmill_expr::text::reader::Problem;

/// The maximum number of characters of a value or line in a message.
const QUOTED_CHARS_MAX: usize = 80;

/// A line that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The file name, as in the statement or the expanded pattern.
    pub file: String,
    /// The line number, counted from 1. For a record over several lines, the first one.
    pub line: u64,
    /// The column of the bad value. `None` if the whole line is bad.
    pub column: Option<String>,
    /// The bad value, or the line.
    pub text: String,
    /// A message about the problem.
    pub message: String,
    /// The whole record, as it is in the file.
    pub record: String,
}

/// Receives rejects. Reading threads call it in any order. An error ends the statement.
pub type RejectSink = Arc<dyn Fn(Reject) -> Result<()> + Send + Sync>;

/// The kind and the message of an error, before its location is added.
pub struct Complaint {
    pub(crate) kind: ErrorKind,
    pub(crate) column: Option<String>,
    pub(crate) text: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Complaint {
    /// A value that its column cannot hold.
    pub fn value(column: &str, kind: &SqlType, text: &str, problem: Problem) -> Complaint {
        let message = match problem {
            Problem::Malformed if *kind == SqlType::Json => {
                format!("{} is not JSON: {}", Quoted(text), why_not(text).unwrap_or_default())
            }
            Problem::Malformed => format!("{} is not a value of the type {kind}", Quoted(text)),
            Problem::OutOfRange => format!("{} is out of range for the type {kind}", Quoted(text)),
            Problem::TooLong => {
                format!("{} has {} characters, too many for {kind}", Quoted(text), text.chars().count())
            }
            Problem::Null => "NULL in a NOT NULL column".to_owned(),
        };
        Complaint {
            kind: kind_of(kind, problem),
            column: Some(column.to_owned()),
            text: text.to_owned(),
            message,
            // The form helps only if the text does not have it.
            hint: kind.hint().filter(|_| matches!(problem, Problem::Malformed)).map(str::to_owned),
        }
    }

    /// A line that violates its format.
    pub(crate) fn line(message: impl Into<String>) -> Complaint {
        Complaint {
            kind: ErrorKind::BadFileFormat,
            column: None,
            text: String::new(),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Complaint {
        self.hint = Some(hint.into());
        self
    }

    /// The error for a line of a text file.
    pub(crate) fn into_error(self, file: &str, line: u64) -> Error {
        self.placed(format!("{file}, line {line}"))
    }

    /// The error for a row of a binary file, counted from 1.
    pub(crate) fn into_row_error(self, file: &str, row: u64) -> Error {
        self.placed(format!("{file}, row {row}"))
    }

    /// The error for a value of a statement.
    pub fn into_value_error(self) -> Error {
        let place = self.column.as_ref().map(|column| format!("column \"{column}\""));
        self.at(place.unwrap_or_default())
    }

    fn placed(self, place: String) -> Error {
        let place = match &self.column {
            Some(column) => format!("{place}, column {column}"),
            None => place,
        };
        self.at(place)
    }

    fn at(self, place: String) -> Error {
        let error = Error::new(self.kind, format!("{place}: {}", self.message));
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    fn into_reject(self, file: &str, line: u64, record: &str) -> Reject {
        Reject {
            file: file.to_owned(),
            line,
            text: if self.column.is_some() { self.text } else { record.to_owned() },
            column: self.column,
            message: self.message,
            record: record.to_owned(),
        }
    }
}

/// Decides what to do with complaints about text files.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) on_error: OnError,
    pub(crate) rejects: Option<RejectSink>,
}

impl Reporter {
    /// Returns the complaint as an error, or reports it as a reject and continues.
    pub(crate) fn report(&self, complaint: Complaint, file: &str, line: u64, record: &str) -> Result<()> {
        // The statement ends with the first complaint.
        if self.on_error == OnError::Fail {
            return Err(complaint.into_error(file, line));
        }
        match &self.rejects {
            Some(sink) => sink(complaint.into_reject(file, line, record.trim_end_matches(['\r', '\n']))),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("on_error", &self.on_error).finish_non_exhaustive()
    }
}

fn kind_of(kind: &SqlType, problem: Problem) -> ErrorKind {
    let temporal = matches!(kind, SqlType::Date | SqlType::Time | SqlType::Timestamp { .. } | SqlType::Interval);
    match problem {
        // Dates and times have an SQLSTATE of their own for both problems.
        Problem::Malformed | Problem::OutOfRange if temporal => ErrorKind::InvalidDatetime,
        Problem::Malformed => ErrorKind::InvalidText,
        Problem::OutOfRange => ErrorKind::NumericOutOfRange,
        Problem::TooLong => ErrorKind::StringTooLong,
        Problem::Null => ErrorKind::NotNullViolation,
    }
}

/// A text in quotes, shortened, with control characters made visible.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        f.write_char('\'')?;
        for (i, c) in self.0.chars().enumerate() {
            if i == QUOTED_CHARS_MAX {
                return f.write_str("...'");
            }
            match c {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('\'')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_location_text_and_type() {
        let error = Complaint::value("Price", &SqlType::Int8, "1000", Problem::OutOfRange).into_error("a.csv", 17);
        assert_eq!(error.message(), "a.csv, line 17, column Price: '1000' is out of range for the type TINYINT");
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
        let error = Complaint::value("Day", &SqlType::Date, "soon", Problem::Malformed).into_error("a.csv", 2);
        assert_eq!(error.kind(), ErrorKind::InvalidDatetime);
        assert!(error.hint_text().is_some_and(|hint| hint.contains("2013-07-31")));
    }

    #[test]
    fn long_texts_are_clipped_and_control_characters_shown() {
        assert_eq!(Quoted("a\tb\u{7}").to_string(), "'a\\tb\\u{7}'");
        let long = Quoted(&"é".repeat(200)).to_string();
        assert_eq!(long.chars().count(), QUOTED_CHARS_MAX + 5);
        assert!(long.ends_with("...'"));
    }
}

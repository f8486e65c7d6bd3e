//! Errors of exhausted limits: they name the statement, because several statements share a limit.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};

use crate::outcome::{Outcome, RowStream};
use crate::parse::Statement;

/// The most characters of a statement that an error shows.
const SHOWN_CHARACTERS: usize = 80;

/// Adds the text of the statement to the error of an exhausted limit, and to other errors their place in the text, also
/// if the error comes with the rows of the outcome.
pub(crate) fn naming_statement(outcome: Result<Outcome>, statement: &Statement) -> Result<Outcome> {
    match outcome {
        Err(error) => Err(in_statement(error, statement.text())),
        Ok(Outcome::Rows(rows)) => {
            let (schema, text, place) = (rows.schema(), Arc::clone(statement.shared_text()), statement.placer());
            let rows = rows.map(move |batch| batch.map_err(|error| place(in_statement(error, &text))));
            Ok(Outcome::Rows(RowStream::new(schema, rows)))
        }
        done => done,
    }
}

/// Adds the text of the statement to the error of an exhausted limit.
pub(crate) fn in_statement(error: Error, text: &str) -> Error {
    match error.kind() {
        ErrorKind::MemoryLimit | ErrorKind::DiskFull => error.context(format_args!("in {}", shown(text))),
        _ => error,
    }
}

/// The first characters of a statement, on one line.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_limits_show_the_start_of_the_statement() {
        let long = format!("SELECT\n  '{}'", "ä".repeat(100));
        let error = in_statement(Error::new(ErrorKind::MemoryLimit, "no room"), &long);
        assert_eq!(error.message(), format!("in SELECT '{}…: no room", "ä".repeat(72)));
        let error = in_statement(Error::new(ErrorKind::DiskFull, "no room"), "SELECT 1");
        assert_eq!(error.message(), "in SELECT 1: no room");
        assert_eq!(in_statement(Error::new(ErrorKind::Io, "broken"), "SELECT 1").message(), "broken");
    }
}

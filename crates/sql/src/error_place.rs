//! The place of an error in the text of its statement, for errors whose code does not know it.
//!
//! The binder knows where each expression is written. Other code works with names and values that have lost their
//! places: it says `there is no table "twns"`. Such a message nearly always quotes a word of the statement, so we look
//! that word up in the text:
//!
//! 1. a name or value that the message quotes, but rather not the name of the table that holds it;
//! 2. otherwise the longest clause that the message names in capital letters, for example `ORDER BY`;
//! 3. otherwise, for a statement that we do not run, its beginning.
//!
//! A value that the statement contains more than once has no place, because we cannot tell which one is meant.

use rowmill_base::{Error, ErrorKind, TextPosition};

use crate::lexer::{Lexeme, LexemeKind, lexemes};

/// A lexeme and where it begins.
type PlacedLexeme<'t> = (usize, Lexeme<'t>);

/// Adds the place in `text` to an error that has none. `begin` is where the text begins in a longer text.
pub(crate) fn placed(error: Error, text: &str, begin: TextPosition) -> Error {
    if error.position().is_some() || !is_about_text(error.kind()) {
        return error;
    }
    match offset_of(&error, text) {
        Some(offset) => error.at_position(position(text, offset, begin)),
        None => error,
    }
}

/// Whether an error of this kind is about the text of the statement, and not about the rows or the system.
fn is_about_text(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Syntax
            | ErrorKind::UndefinedTable
            | ErrorKind::UndefinedColumn
            | ErrorKind::AmbiguousColumn
            | ErrorKind::Grouping
            | ErrorKind::UndefinedFunction
            | ErrorKind::UndefinedSchema
            | ErrorKind::UndefinedObject
            | ErrorKind::UndefinedFile
            | ErrorKind::DuplicateTable
            | ErrorKind::DuplicateColumn
            | ErrorKind::DuplicateObject
            | ErrorKind::DuplicateSchema
            | ErrorKind::DependentObjects
            | ErrorKind::WrongObject
            | ErrorKind::DatatypeMismatch
            | ErrorKind::InvalidDefinition
            | ErrorKind::CardinalityViolation
            | ErrorKind::InvalidText
            | ErrorKind::InvalidDatetime
            | ErrorKind::InvalidParameter
            | ErrorKind::NumericOutOfRange
            | ErrorKind::GeneratedAlways
            | ErrorKind::Unsupported
    )
}

fn offset_of(error: &Error, text: &str) -> Option<usize> {
    let code = code_of(text);
    let message = error.message();
    let is_duplicate = error.kind() == ErrorKind::DuplicateColumn;
    quoted_place(message, &code, is_duplicate).or_else(|| clause_place(message, &code)).or_else(|| {
        let is_of_statement = matches!(
            error.kind(),
            ErrorKind::Unsupported | ErrorKind::Syntax | ErrorKind::InvalidDefinition | ErrorKind::WrongObject
        );
        is_of_statement.then(|| code.first().map(|(at, _)| *at)).flatten()
    })
}

/// The lexemes of a text that are neither blanks nor comments.
fn code_of(text: &str) -> Vec<PlacedLexeme<'_>> {
    let mut at = 0;
    let placed = lexemes(text).map(|lexeme| {
        let start = at;
        at += lexeme.text.len();
        (start, lexeme)
    });
    placed.filter(|(_, lexeme)| lexeme.is_code()).collect()
}

/// A part of a message in quotes.
struct Quoted<'m> {
    text: &'m str,
    is_value: bool,
    /// Whether it is only the place of the error, for example the table that lacks a column.
    is_holder: bool,
}

/// Returns where the lexeme is that the message quotes.
fn quoted_place(message: &str, code: &[PlacedLexeme<'_>], is_duplicate: bool) -> Option<usize> {
    let mut quoted = quoted_in(message);
    // A stable sort keeps the order of the message.
    quoted.sort_by_key(|quoted| (quoted.is_holder, !quoted.is_value));
    quoted.iter().find_map(|quoted| {
        let mut places = code.iter().filter(|(_, lexeme)| is_called(lexeme, quoted.text)).map(|(at, _)| *at);
        let first = places.next()?;
        match places.next_back() {
            None => Some(first),
            Some(last) if is_duplicate => Some(last),
            // Which one of several equal values is wrong cannot be told. Of several equal names, all are.
            Some(_) => (!quoted.is_value).then_some(first),
        }
    })
}

/// Words in front of a name that holds the one which the error is about.
const HOLDERS: &[&str] = &["table", "view", "relation", "INTO", "sequence", "setting", "type"];

fn quoted_in(message: &str) -> Vec<Quoted<'_>> {
    let mut found = Vec::new();
    let mut rest = message;
    while let Some(open) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at(open);
        let quote = &quoted[..1];
        let Some(end) = quoted[1..].find(quote) else { break };
        let text = &quoted[1..=end];
        let is_nothing = before.trim_end().ends_with(" no")
            || ["no table", "no view"].iter().any(|no| before.trim_end().ends_with(no));
        let is_holder = !is_nothing && HOLDERS.iter().any(|word| before.trim_end().ends_with(word));
        if !text.is_empty() {
            found.push(Quoted { text, is_value: quote == "'", is_holder });
        }
        rest = &quoted[end + 2..];
    }
    found
}

/// Whether a lexeme is the name or the value `text`.
fn is_called(lexeme: &Lexeme<'_>, text: &str) -> bool {
    match lexeme.kind {
        LexemeKind::Word | LexemeKind::Number => lexeme.text.eq_ignore_ascii_case(text),
        LexemeKind::Parameter => lexeme.text == text,
        LexemeKind::QuotedName => lexeme.text.trim_matches('"').eq_ignore_ascii_case(text),
        LexemeKind::Text => lexeme.text.trim_matches('\'') == text,
        _ => false,
    }
}

/// Whether the statement begins with these words.
fn is_first(words: &str, code: &[PlacedLexeme<'_>]) -> bool {
    let mut words = words.split_whitespace().zip(code);
    words.all(|(word, (_, lexeme))| lexeme.text.eq_ignore_ascii_case(word))
}

/// Returns where the clause begins that the message names, or the option, type or number.
fn clause_place(message: &str, code: &[PlacedLexeme<'_>]) -> Option<usize> {
    // `CREATE TABLE: WITH is not supported` is about WITH.
    let message = match message.split_once(": ") {
        Some((statement, rest)) if !statement.contains(char::is_lowercase) && is_first(statement, code) => rest,
        _ => message,
    };
    let words: Vec<&str> =
        message.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let mut best: Option<(usize, usize)> = None;
    for start in 0..words.len() {
        let is_clause = words[start].chars().all(|c| c.is_ascii_uppercase());
        let follows = start > 0 && ["option", "setting", "type", "format", "range"].contains(&words[start - 1]);
        if !is_clause && !follows {
            continue;
        }
        // The first word of a statement is in the messages of all its clauses.
        for (place, (at, lexeme)) in code.iter().enumerate().skip(1) {
            let count = words[start..].iter().zip(&code[place..]);
            let count = count.take_while(|(word, (_, lexeme))| lexeme.text.eq_ignore_ascii_case(word)).count();
            let is_word = matches!(lexeme.kind, LexemeKind::Word | LexemeKind::Number);
            if is_word && count > best.map_or(0, |(count, _)| count) {
                best = Some((count, *at));
            }
        }
    }
    best.map(|(_, at)| at)
}

/// Returns the line and column of the byte `offset` of a text that begins at `begin`.
fn position(text: &str, offset: usize, begin: TextPosition) -> TextPosition {
    let before = &text[..offset];
    let lines = before.matches('\n').count() as u64;
    let in_line = before.rfind('\n').map_or(before, |end| &before[end + 1..]).chars().count() as u64;
    let column = if lines == 0 { begin.column } else { 1 };
    TextPosition { line: begin.line + lines, column: column + in_line }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text from the place of an error on.
    fn found<'t>(kind: ErrorKind, message: &str, text: &'t str) -> Option<&'t str> {
        offset_of(&Error::new(kind, message), text).map(|at| &text[at..])
    }

    #[test]
    fn the_quoted_word_is_the_place() {
        use ErrorKind::{DuplicateColumn, InvalidText, UndefinedColumn, UndefinedObject, UndefinedTable, Unsupported};
        for (kind, message, text, expected) in [
            (UndefinedTable, "there is no table \"twns\"", "DROP TABLE twns", Some("twns")),
            (UndefinedColumn, "there is no column \"nme\" in table \"t\"", "UPDATE t SET nme = 1", Some("nme = 1")),
            (
                UndefinedColumn,
                "the view \"v\" cannot be planned: there is no column \"c\"",
                "CREATE VIEW v AS SELECT c",
                Some("c"),
            ),
            (InvalidText, "column \"id\": 'x' is not a value", "INSERT INTO t (id) VALUES ('x')", Some("'x')")),
            (InvalidText, "'x' is not a value", "INSERT INTO t VALUES ('x', 'x')", None),
            (DuplicateColumn, "column \"a\" is named twice", "INSERT INTO t (a, a) VALUES", Some("a) VALUES")),
            (UndefinedObject, "there is no option delimitr", "COPY t FROM 'f' (delimitr ';')", Some("delimitr ';')")),
            (
                Unsupported,
                "CREATE TABLE: ORDER BY is not supported",
                "CREATE TABLE t (a INT) ORDER BY (a)",
                Some("ORDER BY (a)"),
            ),
            (
                Unsupported,
                "CREATE TABLE: WITH is not supported",
                "CREATE TABLE t (a INT) WITH (a = 1)",
                Some("WITH (a = 1)"),
            ),
            (Unsupported, "it is not supported", "CREATE TRIGGER t", Some("CREATE TRIGGER t")),
            (UndefinedTable, "there is no table \"other\"", "DROP TABLE t", None),
        ] {
            assert_eq!(found(kind, message, text), expected, "{message}");
        }
    }

    #[test]
    fn errors_of_rows_and_of_the_system_have_no_place() {
        let begin = TextPosition { line: 1, column: 1 };
        for kind in [ErrorKind::UniqueViolation, ErrorKind::Io, ErrorKind::NoActiveTransaction] {
            assert_eq!(placed(Error::new(kind, "\"t\""), "SELECT t", begin).position(), None);
        }
    }

    #[test]
    fn places_count_from_the_beginning_of_the_longer_text() {
        let begin = TextPosition { line: 3, column: 5 };
        let error = || Error::new(ErrorKind::UndefinedTable, "there is no table \"größe\"");
        let at = |text: &str| placed(error(), text, begin).position();
        assert_eq!(at("DROP TABLE größe"), Some(TextPosition { line: 3, column: 16 }));
        assert_eq!(at("DROP TABLE\n  größe"), Some(TextPosition { line: 4, column: 3 }));
    }
}

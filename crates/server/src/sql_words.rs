//! The words of a statement, as far as the server must know them to route it.

use rowmill::text::{Lexeme, LexemeKind, lexemes};

/// A statement of a longer text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextPart {
    /// The statement, without the semicolon.
    pub(crate) sql: String,
    /// The byte in the longer text where it begins.
    pub(crate) start: usize,
}

/// Cuts a text into its statements. Parts with nothing but blanks and comments are left out.
pub(crate) fn statements(text: &str) -> Vec<TextPart> {
    let mut parts = Vec::new();
    let (mut at, mut start, mut has_code) = (0, 0, false);
    let mut end_part = |start: usize, end: usize, has_code: bool| {
        if has_code {
            let sql = &text[start..end];
            let blank = sql.len() - sql.trim_start().len();
            parts.push(TextPart { sql: sql.trim().to_owned(), start: start + blank });
        }
    };
    for lexeme in lexemes(text) {
        if lexeme.text == ";" {
            end_part(start, at, has_code);
            (start, has_code) = (at + 1, false);
        } else {
            has_code |= lexeme.is_code();
        }
        at += lexeme.text.len();
    }
    end_part(start, text.len(), has_code);
    parts
}

/// The lexemes of a statement that are neither blanks nor comments.
pub(crate) fn words(sql: &str) -> impl Iterator<Item = Lexeme<'_>> {
    placed_words(sql).map(|(_, word)| word)
}

/// The lexemes of a statement that are neither blanks nor comments, each with the byte where it begins.
pub(crate) fn placed_words(sql: &str) -> impl Iterator<Item = (usize, Lexeme<'_>)> {
    let places = lexemes(sql).scan(0, |end, lexeme| {
        let start = *end;
        *end += lexeme.text.len();
        Some((start, lexeme))
    });
    places.filter(|(_, lexeme)| lexeme.is_code())
}

/// The first word of a statement, in upper case.
pub(crate) fn first_word(sql: &str) -> String {
    words(sql).next().map_or_else(String::new, |word| word.text.to_ascii_uppercase())
}

/// The tag of a statement that returns rows: the word that names its kind.
pub(crate) fn rows_tag(sql: &str) -> &'static str {
    const TAGS: [&str; 10] =
        ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "SHOW", "EXPLAIN", "DESCRIBE", "CHECK", "VACUUM"];
    let tag = |word: &str| TAGS.into_iter().find(|tag| tag.eq_ignore_ascii_case(word));
    let first = first_word(sql);
    if first != "WITH" {
        return tag(&first).unwrap_or("SELECT");
    }
    // The tag of WITH is that of its statement, which is the first one outside of parentheses.
    let mut depth = 0_usize;
    for word in words(sql) {
        match (word.text, word.kind) {
            ("(", _) => depth += 1,
            (")", _) => depth = depth.saturating_sub(1),
            (text, LexemeKind::Word) if depth == 0 => match tag(text) {
                Some(tag) => return tag,
                None => continue,
            },
            _ => {}
        }
    }
    "SELECT"
}

/// The name that a lexeme means: in lower case unless it is quoted.
pub(crate) fn name_of(lexeme: &Lexeme<'_>) -> String {
    match lexeme.kind {
        LexemeKind::QuotedName => unquoted(lexeme.text, '"'),
        _ => lexeme.text.to_lowercase(),
    }
}

/// The value that a lexeme means: a text without its quotes, anything else as it is written.
pub(crate) fn value_of(lexeme: &Lexeme<'_>) -> String {
    match lexeme.kind {
        LexemeKind::QuotedName => unquoted(lexeme.text, '"'),
        LexemeKind::Text => unquoted(lexeme.text, '\''),
        _ => lexeme.text.to_owned(),
    }
}

/// Returns a name in double quotes, for SQL.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as a literal of SQL.
pub(crate) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn unquoted(text: &str, quote: char) -> String {
    let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)).unwrap_or(text);
    inner.replace(&format!("{quote}{quote}"), &quote.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_cut_outside_of_quotes_and_comments() {
        let text = " SELECT ';' ; -- a;\n;/* ; */ SELECT 2";
        let parts = statements(text);
        let sql: Vec<&str> = parts.iter().map(|part| part.sql.as_str()).collect();
        assert_eq!(sql, ["SELECT ';'", "/* ; */ SELECT 2"]);
        assert!(parts.iter().all(|part| text[part.start..].starts_with(&part.sql)));
        assert!(statements(" ; -- nothing\n;").is_empty());
    }

    #[test]
    fn rows_have_the_tag_of_their_statement() {
        for (sql, expected) in [
            ("select 1", "SELECT"),
            ("(SELECT 1)", "SELECT"),
            ("VALUES (1)", "SELECT"),
            ("/* x */ insert into t values (1) returning a", "INSERT"),
            ("WITH a AS (INSERT INTO x VALUES (1)) SELECT 1", "SELECT"),
            ("WITH a AS (SELECT 1) UPDATE t SET x = 1 RETURNING x", "UPDATE"),
            ("SHOW threads", "SHOW"),
        ] {
            assert_eq!(rows_tag(sql), expected, "{sql}");
        }
    }

    #[test]
    fn names_are_lowered_unless_they_are_quoted() {
        let named: Vec<String> = words("Ab \"C\"\"d\"").map(|word| name_of(&word)).collect();
        assert_eq!(named, ["ab", "C\"d"]);
    }
}

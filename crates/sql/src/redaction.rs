//! Statements as logs and lists may show them: without passwords.

use std::borrow::Cow;

use crate::lexer::{LexemeKind, lexemes};

/// Replaces each text after the word PASSWORD by `'***'`. Everything else stays as it is.
pub fn without_passwords(sql: &str) -> Cow<'_, str> {
    // Nearly all statements have no such word, and need no second look.
    if !sql.as_bytes().windows(8).any(|bytes| bytes.eq_ignore_ascii_case(b"password")) {
        return Cow::Borrowed(sql);
    }
    let mut shown = String::with_capacity(sql.len());
    let mut is_next = false;
    for lexeme in lexemes(sql) {
        let is_text = matches!(lexeme.kind, LexemeKind::Text | LexemeKind::SpecialText);
        shown.push_str(if is_next && is_text { "'***'" } else { lexeme.text });
        if lexeme.is_code() {
            is_next = lexeme.kind == LexemeKind::Word && lexeme.text.eq_ignore_ascii_case("password");
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_and_nothing_else() {
        for (sql, shown) in [
            ("CREATE USER a PASSWORD 'x''y' LOGIN", "CREATE USER a PASSWORD '***' LOGIN"),
            ("alter role a password /* c */ $$x$$", "alter role a password /* c */ '***'"),
            ("ALTER ROLE a PASSWORD 'never closed", "ALTER ROLE a PASSWORD '***'"),
            ("SELECT password, 'x' FROM t", "SELECT password, 'x' FROM t"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(without_passwords(sql), shown);
        }
    }
}

//! Statements as logs and lists may show them: without passwords and keys.

use std::borrow::Cow;

use crate::lexer::{LexemeKind, lexemes};

/// The words before a text that is secret, in lower case.
const WORDS: [&str; 5] = ["password", "secret", "key_id", "session_token", "bearer_token"];

/// Replaces each text after the word PASSWORD, or after an option of a secret, by `'***'`. Other texts stay.
pub fn without_passwords(sql: &str) -> Cow<'_, str> {
    // Nearly all statements have no such word, and need no second look.
    let has_word =
        |word: &&str| sql.as_bytes().windows(word.len()).any(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()));
    if !WORDS.iter().any(has_word) {
        return Cow::Borrowed(sql);
    }
    let mut shown = String::with_capacity(sql.len());
    let mut is_next = false;
    for lexeme in lexemes(sql) {
        let is_text = matches!(lexeme.kind, LexemeKind::Text | LexemeKind::SpecialText);
        shown.push_str(if is_next && is_text { "'***'" } else { lexeme.text });
        if lexeme.is_code() {
            let is_word = |word: &&str| lexeme.text.eq_ignore_ascii_case(word);
            is_next = lexeme.kind == LexemeKind::Word && WORDS.iter().any(is_word);
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
            (
                "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b', SESSION_TOKEN 'c', REGION 'd')",
                "CREATE SECRET s (TYPE s3, KEY_ID '***', SECRET '***', SESSION_TOKEN '***', REGION 'd')",
            ),
            ("CREATE SECRET (TYPE http, bearer_token 'a')", "CREATE SECRET (TYPE http, bearer_token '***')"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(without_passwords(sql), shown);
        }
    }
}

//! The statement that is being typed: which part of it is open, and where a command of the shell ends it.

use rowmill::text::{Lexeme, LexemeKind, is_complete, lexemes};

/// The part of a text that is not closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenPart {
    /// Nothing was typed.
    Empty,
    /// A statement without its semicolon.
    Statement,
    /// A bracket.
    Bracket,
    Quote(QuoteKind),
    Comment,
}

/// The kinds of quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteKind {
    Text,
    Name,
    Dollar,
}

impl OpenPart {
    /// Returns the part that is open at the end of `text`.
    pub(crate) fn of(text: &str) -> OpenPart {
        let (mut depth, mut has_code) = (0_usize, false);
        for lexeme in lexemes(text) {
            if !lexeme.is_closed {
                return OpenPart::of_lexeme(&lexeme);
            }
            has_code |= lexeme.is_code();
            match lexeme.text {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                ";" => depth = 0,
                _ => {}
            }
        }
        match (depth, has_code) {
            (0, false) => OpenPart::Empty,
            (0, true) => OpenPart::Statement,
            _ => OpenPart::Bracket,
        }
    }

    fn of_lexeme(lexeme: &Lexeme<'_>) -> OpenPart {
        match lexeme.kind {
            LexemeKind::Comment => OpenPart::Comment,
            LexemeKind::QuotedName => OpenPart::Quote(QuoteKind::Name),
            _ if lexeme.text.starts_with('$') => OpenPart::Quote(QuoteKind::Dollar),
            _ => OpenPart::Quote(QuoteKind::Text),
        }
    }

    /// Whether a backslash in this part belongs to the text.
    pub(crate) fn hides_commands(self) -> bool {
        matches!(self, OpenPart::Quote(_) | OpenPart::Comment)
    }

    /// The sign by which the prompt shows the part.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            OpenPart::Empty => ">",
            OpenPart::Statement => "-",
            OpenPart::Bracket => "(>",
            OpenPart::Quote(QuoteKind::Text) => "'>",
            OpenPart::Quote(QuoteKind::Name) => "\">",
            OpenPart::Quote(QuoteKind::Dollar) => "$>",
            OpenPart::Comment => "/*>",
        }
    }
}

/// Splits a command of the shell off the end of a text: `SELECT 1 \gx`. Returns the text before the backslash, and the
/// command. Returns `None` if the text has no backslash outside of quotes and comments.
pub(crate) fn split_command(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for lexeme in lexemes(text) {
        if lexeme.kind == LexemeKind::Symbol && lexeme.text.starts_with('\\') {
            return Some(text.split_at(at));
        }
        at += lexeme.text.len();
    }
    None
}

/// Whether a text holds a statement with its semicolon, so that it can run.
pub(crate) fn can_run(text: &str) -> bool {
    is_complete(text)
}

/// Whether a text has nothing but blanks and comments.
pub(crate) fn is_blank(text: &str) -> bool {
    !lexemes(text).any(|lexeme| lexeme.is_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_shows_what_is_open() {
        for (text, sign) in [
            ("", ">"),
            ("-- only a comment\n", ">"),
            ("SELECT 1\n", "-"),
            ("SELECT (1 +\n", "(>"),
            ("SELECT a[1,\n", "(>"),
            ("SELECT 'it''s", "'>"),
            ("SELECT E'\\'", "'>"),
            ("SELECT \"name", "\">"),
            ("SELECT $tag$ text", "$>"),
            ("SELECT 1 /* more", "/*>"),
            ("SELECT (')')", "-"),
        ] {
            assert_eq!(OpenPart::of(text).sign(), sign, "{text}");
        }
    }

    #[test]
    fn a_command_ends_a_statement_outside_of_quotes() {
        assert_eq!(split_command("SELECT 1 \\gx file"), Some(("SELECT 1 ", "\\gx file")));
        assert_eq!(split_command("SELECT '\\g' -- \\g\n\\g"), Some(("SELECT '\\g' -- \\g\n", "\\g")));
        assert_eq!(split_command("SELECT E'a\\'b', $$\\g$$"), None);
    }
}

//! Splits a text into lexemes: words, values, symbols, comments and blanks. They come one by one and are not
//! stored.
//!
//! This is not the parser's tokenizer, whose list of owned tokens is ten times larger than the text. It must read
//! quotes, comments and dollar quotes exactly as the tokenizer does, because other code relies on it before a text is
//! parsed: the limits of a statement, the literals that are taken out of it, and the shell, which asks where a
//! statement ends.

/// The kind of a lexeme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexemeKind {
    /// White space.
    Blank,
    /// A comment, without the end of its line.
    Comment,
    /// A name or keyword without quotes.
    Word,
    /// A name in double quotes.
    QuotedName,
    /// A number.
    Number,
    /// A text in single quotes, without a prefix.
    Text,
    /// A text with a prefix (`E'...'`) or in dollar quotes.
    SpecialText,
    /// `$1`
    Parameter,
    /// An operator or punctuation. Signs that may come before a value (`+ - ~ !`) are lexemes of one byte each.
    Symbol,
}

/// A piece of a text, with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lexeme<'a> {
    /// The kind of the piece.
    pub kind: LexemeKind,
    /// The piece itself, with its quotes.
    pub text: &'a str,
    /// Whether the quote or comment is closed. An open one reaches to the end of the text.
    pub is_closed: bool,
}

impl Lexeme<'_> {
    /// Whether the lexeme is neither white space nor a comment.
    pub fn is_code(&self) -> bool {
        !matches!(self.kind, LexemeKind::Blank | LexemeKind::Comment)
    }
}

/// Returns the lexemes of `text`. Joined, they are exactly the text.
#[inline]
pub fn lexemes(text: &str) -> Lexer<'_> {
    Lexer { text, at: 0 }
}

/// Whether `text` ends with a semicolon outside of quotes and comments.
pub fn is_complete(text: &str) -> bool {
    let mut last = None;
    for lexeme in lexemes(text) {
        if !lexeme.is_closed {
            return false;
        }
        if lexeme.is_code() {
            last = Some(lexeme.text);
        }
    }
    last == Some(";")
}

/// An iterator over lexemes.
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Lexeme<'a>;

    #[inline]
    fn next(&mut self) -> Option<Lexeme<'a>> {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let first = *rest.first()?;
        let (kind, is_closed) = match first {
            _ if first.is_ascii_whitespace() => {
                self.pass(|byte| byte.is_ascii_whitespace());
                (LexemeKind::Blank, true)
            }
            b'-' if rest.starts_with(b"--") => {
                self.pass(|byte| byte != b'\n');
                (LexemeKind::Comment, true)
            }
            b'/' if rest.starts_with(b"/*") => (LexemeKind::Comment, self.pass_comment()),
            b'\'' => (LexemeKind::Text, self.pass_quoted(b'\'', false)),
            b'"' => (LexemeKind::QuotedName, self.pass_quoted(b'"', false)),
            b'$' => self.dollar(),
            b'0'..=b'9' => {
                self.pass(|byte| is_word(byte) || byte == b'.');
                (LexemeKind::Number, true)
            }
            _ if is_word(first) => self.word(),
            _ => {
                self.symbol(first);
                (LexemeKind::Symbol, true)
            }
        };
        Some(Lexeme { kind, text: &self.text[start..self.at], is_closed })
    }
}

#[inline]
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl Lexer<'_> {
    #[inline]
    fn pass(&mut self, is_part: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| is_part(**byte)).count();
    }

    #[inline]
    fn symbol(&mut self, first: u8) {
        self.at += 1;
        match first {
            // `->` is one symbol, but two signs in front of a value must stay apart.
            b'-' if self.text.as_bytes().get(self.at) == Some(&b'>') => self.at += 1,
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b';' | b'.' | b'+' | b'-' | b'~' | b'!' => {}
            _ => self.pass(|byte| matches!(byte, b'<' | b'>' | b'=' | b'|' | b'&' | b':' | b'*')),
        }
    }

    /// Skips a comment, which may contain other comments. Returns whether it is closed.
    #[inline]
    fn pass_comment(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        let mut open = 0_usize;
        while self.at < bytes.len() {
            match (bytes[self.at], bytes.get(self.at + 1)) {
                (b'/', Some(b'*')) => (open, self.at) = (open + 1, self.at + 2),
                (b'*', Some(b'/')) => (open, self.at) = (open - 1, self.at + 2),
                _ => self.at += 1,
            }
            if open == 0 {
                return true;
            }
        }
        false
    }

    /// Skips a quoted text. Returns whether it is closed. A doubled quote means one quote; with `escapes`, a backslash
    /// also takes the next byte.
    #[inline]
    fn pass_quoted(&mut self, quote: u8, escapes: bool) -> bool {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while self.at < bytes.len() {
            let byte = bytes[self.at];
            self.at += 1;
            if byte == b'\\' && escapes {
                self.at += 1;
            } else if byte == quote {
                // A second quote right after the first one is an escaped quote.
                if bytes.get(self.at) != Some(&quote) {
                    return true;
                }
                self.at += 1;
            }
        }
        // After an escape the position may be inside of a character, so we move to the end of the text.
        self.at = bytes.len();
        false
    }

    /// Reads `$1`, or a text between two `$tag$`.
    #[inline]
    fn dollar(&mut self) -> (LexemeKind, bool) {
        let rest = &self.text[self.at..];
        let name = rest[1..].bytes().take_while(|byte| is_word(*byte)).count();
        if rest.as_bytes().get(name + 1) != Some(&b'$') {
            self.at += name + 1;
            return (LexemeKind::Parameter, true);
        }
        // The text ends at the next occurrence of its whole tag.
        let tag = &rest[..name + 2];
        let end = rest[tag.len()..].find(tag);
        self.at += end.map_or(rest.len(), |end| tag.len() + end + tag.len());
        (LexemeKind::SpecialText, end.is_some())
    }

    #[inline]
    fn word(&mut self) -> (LexemeKind, bool) {
        let start = self.at;
        self.pass(|byte| is_word(byte) || byte == b'$');
        let word = &self.text[start..self.at];
        // E'..\'..' has escapes. N'..', X'..' and B'..' have none.
        match self.text.as_bytes().get(self.at) {
            Some(b'\'') if word.len() == 1 => {
                (LexemeKind::SpecialText, self.pass_quoted(b'\'', word.eq_ignore_ascii_case("e")))
            }
            _ => (LexemeKind::Word, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words and symbols of a text, with a question mark for each value.
    fn texts(sql: &str) -> Vec<&str> {
        let code = lexemes(sql).filter(Lexeme::is_code);
        code.map(|lexeme| match lexeme.kind {
            LexemeKind::Word | LexemeKind::Symbol => lexeme.text,
            _ => "?",
        })
        .collect()
    }

    #[test]
    fn quotes_and_comments_hide_their_contents() {
        assert_eq!(texts("a+'it''s ((' -- ((\n *\"q(\"\"\""), ["a", "+", "?", "*", "?"]);
        assert_eq!(texts("/* a /* b */ ( */ x E'\\'(' $t$ ( $ $t$ $1"), ["x", "?", "?", "?"]);
        assert_eq!(texts("- -1.5e3 <= ~b::int"), ["-", "-", "?", "<=", "~", "b", "::", "int"]);
        assert_eq!(texts("'never closed ("), ["?"]);
        assert_eq!(texts("/* never closed ("), Vec::<&str>::new());
    }

    #[test]
    fn lexemes_joined_are_the_text() {
        for sql in ["a -- b\n/* ä */ 'x' $q$ y", "E'\\", "E'\\ä", "1.5e3x\t\"n\"", "$", "", "-", "--", "/*/"] {
            assert_eq!(lexemes(sql).map(|lexeme| lexeme.text).collect::<String>(), sql);
        }
    }

    #[test]
    fn only_a_semicolon_of_sql_ends_a_statement() {
        for whole in
            ["SELECT 1;", "SELECT ';';", "SELECT 1; -- done", "SELECT 'it''s'; /* ; */ ", "-- first\nSELECT 1;"]
        {
            assert!(is_complete(whole), "{whole}");
        }
        for open in [
            "",
            "SELECT 1",
            "SELECT ';",
            "SELECT 1 -- ;",
            "SELECT \"a;",
            "SELECT 1; /* open",
            "SELECT 1; /* open /* */ ",
            "SELECT $$;",
            "SELECT E'\\';",
            "SELECT 1; SELECT 2",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }
}

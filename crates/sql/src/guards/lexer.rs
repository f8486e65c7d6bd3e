//! The words, values and symbols of a statement, one after the other and without keeping any.
//!
//! This is not the parser's tokenizer, which makes a list of owned tokens an order of magnitude larger than the text.
//! It knows just enough (quotes, comments, dollar quotes) to count what the parser will see before it sees it.

/// A piece of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lexeme<'a> {
    /// A name or keyword, unquoted.
    Word(&'a str),
    /// A number, a text, a quoted name, a parameter.
    Value,
    /// An operator or punctuation. Signs that may stand in front of a value (`+ - ~ !`) come one by one.
    Symbol(&'a str),
}

/// The lexemes of `text`. An unclosed quote or comment reaches to the end.
pub(super) fn lexemes(text: &str) -> Lexer<'_> {
    Lexer { text, at: 0 }
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Lexeme<'a>;

    fn next(&mut self) -> Option<Lexeme<'a>> {
        self.skip_blanks();
        let bytes = self.text.as_bytes();
        let first = *bytes.get(self.at)?;
        let start = self.at;
        Some(match first {
            b'\'' => self.quoted(b'\'', false),
            b'"' => self.quoted(b'"', false),
            b'$' => self.dollar(),
            b'0'..=b'9' => self.number(),
            _ if is_word(first) => self.word(),
            b'-' if bytes[start..].starts_with(b"->") => {
                self.at += 2;
                Lexeme::Symbol("->")
            }
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b';' | b'.' | b'+' | b'-' | b'~' | b'!' => {
                self.at += 1;
                Lexeme::Symbol(&self.text[start..self.at])
            }
            _ => {
                self.at += 1;
                while self.at < bytes.len() && matches!(bytes[self.at], b'<' | b'>' | b'=' | b'|' | b'&' | b':' | b'*')
                {
                    self.at += 1;
                }
                Lexeme::Symbol(&self.text[start..self.at])
            }
        })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            match (bytes.get(self.at), bytes.get(self.at + 1)) {
                (Some(byte), _) if byte.is_ascii_whitespace() => self.at += 1,
                (Some(b'-'), Some(b'-')) => {
                    self.at = self.text[self.at..].find('\n').map_or(bytes.len(), |end| self.at + end);
                }
                (Some(b'/'), Some(b'*')) => self.skip_comment(),
                _ => return,
            }
        }
    }

    /// Comments nest.
    fn skip_comment(&mut self) {
        let bytes = self.text.as_bytes();
        let mut open = 0_usize;
        while self.at < bytes.len() {
            match (bytes[self.at], bytes.get(self.at + 1)) {
                (b'/', Some(b'*')) => (open, self.at) = (open + 1, self.at + 2),
                (b'*', Some(b'/')) => (open, self.at) = (open - 1, self.at + 2),
                _ => self.at += 1,
            }
            if open == 0 {
                return;
            }
        }
    }

    /// A doubled quote stands for itself; `escapes` gives a backslash the next byte.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Lexeme<'a> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while self.at < bytes.len() {
            let byte = bytes[self.at];
            self.at += 1;
            if byte == b'\\' && escapes {
                self.at += 1;
            } else if byte == quote {
                if bytes.get(self.at) != Some(&quote) {
                    break;
                }
                self.at += 1;
            }
        }
        self.at = self.at.min(bytes.len());
        Lexeme::Value
    }

    /// `$1`, or a text between two `$tag$`.
    fn dollar(&mut self) -> Lexeme<'a> {
        let rest = &self.text[self.at..];
        let name = rest[1..].bytes().take_while(|byte| is_word(*byte)).count();
        if rest.as_bytes().get(name + 1) != Some(&b'$') {
            self.at += name + 1;
            return Lexeme::Value;
        }
        let tag = &rest[..name + 2];
        self.at += match rest[tag.len()..].find(tag) {
            Some(end) => tag.len() + end + tag.len(),
            None => rest.len(),
        };
        Lexeme::Value
    }

    fn number(&mut self) -> Lexeme<'a> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && (is_word(bytes[self.at]) || bytes[self.at] == b'.') {
            self.at += 1;
        }
        Lexeme::Value
    }

    fn word(&mut self) -> Lexeme<'a> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && (is_word(bytes[self.at]) || bytes[self.at] == b'$') {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        // E'..\'..', and N'..', X'..', B'..', U&'..', which have no escapes of their own.
        match bytes.get(self.at) {
            Some(b'\'') if word.eq_ignore_ascii_case("e") => self.quoted(b'\'', true),
            Some(b'\'') if word.len() == 1 => self.quoted(b'\'', false),
            _ => Lexeme::Word(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        lexemes(sql)
            .map(|lexeme| match lexeme {
                Lexeme::Word(word) => word.to_string(),
                Lexeme::Symbol(symbol) => symbol.to_string(),
                Lexeme::Value => "?".into(),
            })
            .collect()
    }

    #[test]
    fn quotes_and_comments_hide_what_is_in_them() {
        assert_eq!(texts("a+'it''s ((' -- ((\n *\"q(\"\"\""), ["a", "+", "?", "*", "?"]);
        assert_eq!(texts("/* a /* b */ ( */ x E'\\'(' $t$ ( $ $t$ $1"), ["x", "?", "?", "?"]);
        assert_eq!(texts("- -1.5e3 <= ~b::int"), ["-", "-", "?", "<=", "~", "b", "::", "int"]);
        assert_eq!(texts("'never closed ("), ["?"]);
        assert_eq!(texts("/* never closed ("), Vec::<String>::new());
    }
}

//! Variables of the shell: `\set name value` sets one, and statements read it as `:name`, `:'name'` or `:"name"`.
//!
//! A colon that is not followed by the name of a variable stays as it is, because SQL has colons too: `a[1:2]`.

use std::collections::BTreeMap;

use rowmill::text::{LexemeKind, lexemes};

/// The variables, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Removes a variable. Returns whether it was set.
    pub(crate) fn unset(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Puts the values of variables in place of their names.
    pub(crate) fn expand(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut lexemes = lexemes(text).peekable();
        while let Some(lexeme) = lexemes.next() {
            let colon = lexeme.kind == LexemeKind::Symbol && is_single_colon(lexeme.text);
            let value = lexemes.peek().filter(|_| colon).and_then(|next| self.value(next.kind, next.text));
            match value {
                Some(value) => {
                    out.push_str(&lexeme.text[..lexeme.text.len() - 1]);
                    out.push_str(&value);
                    lexemes.next();
                }
                None => out.push_str(lexeme.text),
            }
        }
        out
    }

    /// Returns the text that a name after a colon stands for.
    fn value(&self, kind: LexemeKind, text: &str) -> Option<String> {
        match kind {
            LexemeKind::Word => self.0.get(text).cloned(),
            LexemeKind::Text | LexemeKind::QuotedName => {
                let quote = &text[..1];
                let value = self.0.get(text.trim_matches(['\'', '"']))?;
                Some(format!("{quote}{}{quote}", value.replace(quote, &quote.repeat(2))))
            }
            _ => None,
        }
    }
}

/// Whether an operator ends with a colon that is not the end of a cast.
fn is_single_colon(symbol: &str) -> bool {
    symbol.ends_with(':') && !symbol.ends_with("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_after_a_colon_become_values() {
        let mut variables = Variables::default();
        variables.set("n", "7");
        variables.set("who", "O'Hara");
        for (text, expanded) in [
            ("SELECT :n + 1", "SELECT 7 + 1"),
            ("WHERE a=:n", "WHERE a=7"),
            ("SELECT :'who', :\"who\"", "SELECT 'O''Hara', \"O'Hara\""),
            ("SELECT a::n, ':n', :missing -- :n", "SELECT a::n, ':n', :missing -- :n"),
            // A slice reads a variable too, as in psql.
            ("SELECT list[1:n]", "SELECT list[17]"),
        ] {
            assert_eq!(variables.expand(text), expanded);
        }
        assert!(variables.unset("n") && !variables.unset("n"));
        assert_eq!(variables.expand(":n"), ":n");
    }
}

//! The options of a COPY through the connection, in PostgreSQL's two forms.
//!
//! ```text
//! WITH (FORMAT csv, HEADER, NULL '-')       WITH CSV HEADER NULL AS '-'
//! ```

use rowmill::text::{Lexeme, LexemeKind};

use super::text_reader::NULL;
use crate::encode::CopyTextFormat;
use crate::sql_words::{quoted_text, value_of, words};
use crate::wire_error::WireError;

/// The format of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// The options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CopyOptions {
    pub(super) format: CopyFormat,
    pub(super) header: bool,
    pub(super) delimiter: Option<u8>,
    pub(super) null: Option<String>,
    pub(super) quote: Option<u8>,
    escape: Option<u8>,
    /// Options of the engine for lines that cannot be read, by name.
    engine: Vec<(String, String)>,
}

fn wrong(message: impl Into<String>) -> WireError {
    WireError::new("22023", message)
}

impl CopyOptions {
    /// Reads the text after STDIN or STDOUT.
    pub(super) fn read(text: &str, is_in: bool) -> Result<CopyOptions, WireError> {
        let all: Vec<Lexeme<'_>> = words(text).collect();
        let mut rest = all.as_slice();
        if rest.first().is_some_and(|word| word.text.eq_ignore_ascii_case("with")) {
            rest = &rest[1..];
        }
        let mut options = CopyOptions::default();
        match rest {
            [open, inner @ .., close] if open.text == "(" && close.text == ")" => {
                for option in inner.split(|lexeme| lexeme.text == ",") {
                    let Some((name, value)) = option.split_first() else {
                        return Err(wrong("an option of COPY is empty"));
                    };
                    let value = value.iter().filter(|lexeme| lexeme.text != "=").map(text_value).collect::<String>();
                    options.set(&name.text.to_lowercase(), &value, is_in)?;
                }
            }
            _ => options.read_bare(rest, is_in)?,
        }
        options.check()?;
        Ok(options)
    }

    /// Reads the older form, without parentheses.
    fn read_bare(&mut self, lexemes: &[Lexeme<'_>], is_in: bool) -> Result<(), WireError> {
        let mut rest = lexemes;
        while let Some((name, after)) = rest.split_first() {
            rest = after;
            let name = name.text.to_lowercase();
            match name.as_str() {
                "csv" | "binary" | "text" => self.set("format", &name, is_in)?,
                "header" | "freeze" => self.set(&name, "", is_in)?,
                _ => {
                    if rest.first().is_some_and(|word| word.text.eq_ignore_ascii_case("as")) {
                        rest = &rest[1..];
                    }
                    let (value, after) =
                        rest.split_first().ok_or_else(|| wrong(format!("the option {name} needs a value")))?;
                    rest = after;
                    self.set(&name, &text_value(value), is_in)?;
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str, is_in: bool) -> Result<(), WireError> {
        match name {
            "format" => {
                self.format = match value.to_lowercase().as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    _ => {
                        return Err(wrong(format!(
                            "COPY format \"{value}\" not recognized: the formats are text, csv and binary"
                        )));
                    }
                };
            }
            "header" => self.header = value.eq_ignore_ascii_case("match") || truth(name, value)?,
            "delimiter" => self.delimiter = Some(one_byte(name, value)?),
            "quote" => self.quote = Some(one_byte(name, value)?),
            "escape" => self.escape = Some(one_byte(name, value)?),
            "null" => {
                if value.contains(['\n', '\r']) {
                    return Err(wrong("the text of NULL cannot have ends of lines"));
                }
                self.null = Some(value.to_owned());
            }
            "encoding" => {
                if !["utf8", "utf-8", "unicode"].contains(&value.to_lowercase().as_str()) {
                    return Err(wrong(format!("the encoding \"{value}\" is not supported: it must be UTF8")));
                }
            }
            "on_error" | "reject_table" | "ignore_unknown" if is_in => {
                self.engine.push((name.to_owned(), value.to_owned()));
            }
            // Rows that a COPY adds need no work later that FREEZE could save.
            "freeze" if is_in => drop(truth(name, value)?),
            _ => {
                let names = "format, header, delimiter, null, quote, escape, encoding, on_error, reject_table";
                return Err(WireError::new("0A000", format!("COPY has no option {name}"))
                    .hint(format!("its options are {names}")));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), WireError> {
        let is_csv = self.format == CopyFormat::Csv;
        if !is_csv && (self.quote.is_some() || self.escape.is_some()) {
            return Err(wrong("quote and escape need the format csv"));
        }
        let has_text_option = self.delimiter.is_some() || self.null.is_some() || self.header;
        if self.format == CopyFormat::Binary && has_text_option {
            return Err(wrong("the format binary takes neither delimiter nor null nor header"));
        }
        let delimiter = self.delimiter.unwrap_or(b',');
        if !is_csv && (delimiter.is_ascii_lowercase() || delimiter.is_ascii_digit() || b"\\.".contains(&delimiter)) {
            return Err(wrong("the delimiter of the format text is no lower-case letter, digit, point or backslash"));
        }
        Ok(())
    }

    /// How lines of the text format are written.
    pub(super) fn text_format(&self) -> CopyTextFormat {
        CopyTextFormat {
            delimiter: self.delimiter.unwrap_or(b'\t'),
            null: self.null.clone().unwrap_or_else(|| NULL.to_owned()),
        }
    }

    /// The options with which the engine loads the temporary file.
    pub(super) fn engine_clause(&self) -> String {
        let mut options = vec![("format".to_owned(), "csv".to_owned())];
        let mut add = |name: &str, value: String| options.push((name.to_owned(), value));
        match self.format {
            CopyFormat::Csv => {
                add("header", self.header.to_string());
                add("delimiter", char::from(self.delimiter.unwrap_or(b',')).to_string());
                add("null_string", self.null.clone().unwrap_or_default());
                add("quote", char::from(self.quote.unwrap_or(b'"')).to_string());
                if let Some(escape) = self.escape {
                    add("escape", char::from(escape).to_string());
                }
            }
            CopyFormat::Text | CopyFormat::Binary => {
                add("header", "false".to_owned());
                add("delimiter", ",".to_owned());
                add("null_string", NULL.to_owned());
            }
        }
        options.extend(self.engine.iter().cloned());
        let options: Vec<String> =
            options.iter().map(|(name, value)| format!("{name} {}", quoted_text(value))).collect();
        format!("WITH ({})", options.join(", "))
    }
}

/// The value of an option. Escapes of `E'...'` are read as far as a delimiter needs them.
fn text_value(lexeme: &Lexeme<'_>) -> String {
    let text = lexeme.text;
    if lexeme.kind == LexemeKind::SpecialText && text.starts_with(['e', 'E']) {
        let inner = text[1..].trim_matches('\'');
        return inner.replace("\\t", "\t").replace("\\\\", "\\").replace("\\'", "'");
    }
    value_of(lexeme)
}

/// The value of an option that is on or off; on without a value.
fn truth(name: &str, value: &str) -> Result<bool, WireError> {
    match value.to_lowercase().as_str() {
        "" | "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(wrong(format!("the option {name} takes true or false, not {value}"))),
    }
}

fn one_byte(name: &str, value: &str) -> Result<u8, WireError> {
    match value.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => Err(wrong(format!("COPY {name} must be a single one-byte character"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_options_are_read() {
        let read = |text: &str| CopyOptions::read(text, true);
        let options = read("WITH (FORMAT csv, HEADER, DELIMITER ';', NULL '-')").expect("options");
        assert_eq!(Ok(&options), read("CSV HEADER DELIMITER AS ';' NULL '-'").as_ref());
        assert_eq!((options.format, options.header, options.delimiter), (CopyFormat::Csv, true, Some(b';')));
        assert_eq!(read("").expect("options").text_format(), CopyTextFormat { delimiter: b'\t', null: "\\N".into() });
        assert_eq!(read("(DELIMITER E'\\t')").expect("options").delimiter, Some(b'\t'));
        for wrong in [
            "(FORMAT xml)",
            "(QUOTE '''')",
            "BINARY NULL ''",
            "(DELIMITER 'ab')",
            "(ENCODING 'LATIN1')",
            "(NONSENSE 1)",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

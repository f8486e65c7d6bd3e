//! Array literals, `{1,NULL,"a, b"}`, as the JSON lists that the engine reads.

use rowmill::text::write_json_string;

use super::invalid;
use crate::wire_error::WireError;
use rowmill::pg_types::PgScalar;

/// The most levels of an array. PostgreSQL has the same limit.
const LEVELS_MAX: usize = 6;

/// Returns an array literal as a JSON list.
pub(super) fn to_json(item: PgScalar, text: &str) -> Result<String, WireError> {
    let mut reader = ArrayLiteral { item, text, rest: text.trim(), json: String::with_capacity(text.len() + 8) };
    // `[1:3]={...}` gives the first and last index, which the engine's lists do not have.
    if reader.rest.starts_with('[') {
        let (_, items) = reader.rest.split_once('=').ok_or_else(|| reader.wrong())?;
        reader.rest = items.trim_start();
    }
    reader.list(1)?;
    match reader.rest.is_empty() {
        true => Ok(reader.json),
        false => Err(reader.wrong()),
    }
}

/// Appends an item as JSON: numbers and truth values as such, everything else as a string.
pub(super) fn push_item(item: PgScalar, text: &str, json: &mut String) {
    let is_number = || text.parse::<f64>().is_ok_and(f64::is_finite) && !text.starts_with(['+', '.']);
    match item {
        PgScalar::Int2 | PgScalar::Int4 | PgScalar::Int8 | PgScalar::Float4 | PgScalar::Float8 | PgScalar::Numeric
            if is_number() && !text.ends_with('.') =>
        {
            json.push_str(text);
        }
        PgScalar::Bool => json.push_str(match text.to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "yes" | "on" => "true",
            "f" | "false" | "0" | "no" | "off" => "false",
            _ => return write_json_string(text, json),
        }),
        _ => write_json_string(text, json),
    }
}

struct ArrayLiteral<'t> {
    item: PgScalar,
    text: &'t str,
    rest: &'t str,
    json: String,
}

impl ArrayLiteral<'_> {
    fn wrong(&self) -> WireError {
        let message = invalid("array", self.text);
        message.detail("an array is written {1,2,NULL}, with \"quotes\" around items that have commas or braces")
    }

    /// Reads a list with its braces.
    fn list(&mut self, level: usize) -> Result<(), WireError> {
        if level > LEVELS_MAX {
            return Err(self.wrong());
        }
        self.rest = self.rest.strip_prefix('{').ok_or_else(|| self.wrong())?.trim_start();
        self.json.push('[');
        if let Some(rest) = self.rest.strip_prefix('}') {
            self.rest = rest.trim_start();
            self.json.push(']');
            return Ok(());
        }
        loop {
            match self.rest.chars().next() {
                Some('{') => self.list(level + 1)?,
                Some('"') => self.quoted()?,
                Some(_) => self.plain()?,
                None => return Err(self.wrong()),
            }
            self.rest = self.rest.trim_start();
            let mut chars = self.rest.chars();
            match chars.next() {
                Some(',') => self.json.push(','),
                Some('}') => {
                    self.rest = chars.as_str().trim_start();
                    self.json.push(']');
                    return Ok(());
                }
                _ => return Err(self.wrong()),
            }
            self.rest = chars.as_str().trim_start();
        }
    }

    fn quoted(&mut self) -> Result<(), WireError> {
        let mut item = String::new();
        let mut chars = self.rest[1..].chars();
        loop {
            match chars.next() {
                Some('"') => break,
                Some('\\') => item.push(chars.next().ok_or_else(|| self.wrong())?),
                Some(other) => item.push(other),
                None => return Err(self.wrong()),
            }
        }
        self.rest = chars.as_str();
        push_item(self.item, &item, &mut self.json);
        Ok(())
    }

    fn plain(&mut self) -> Result<(), WireError> {
        let end = self.rest.find([',', '}', '{', '"']).ok_or_else(|| self.wrong())?;
        let (item, rest) = self.rest.split_at(end);
        let item = item.trim_end();
        if item.is_empty() {
            return Err(self.wrong());
        }
        self.rest = rest;
        if item.eq_ignore_ascii_case("null") {
            self.json.push_str("null");
        } else {
            push_item(self.item, &item.replace('\\', ""), &mut self.json);
        }
        Ok(())
    }
}

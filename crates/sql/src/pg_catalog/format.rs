//! `format(pattern, value, ...)` of PostgreSQL: `%s` is a value, `%I` a name, `%L` a literal, `%%` a percent sign.
//!
//! A conversion may name the position of its value and a width: `%2$-10s`. A width `*` is the next value, `*3$` the
//! third one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{DynamicFunction, Volatility};

use super::call_list::quoted_text;
use super::keywords::pg_name;

/// The greatest width. A longer text is surely a mistake.
const WIDTH_MAX: usize = 10_000;

/// The function.
#[derive(Debug)]
pub(super) struct Format;

impl DynamicFunction for Format {
    fn name(&self) -> &str {
        "format"
    }

    fn volatility(&self) -> Volatility {
        Volatility::Immutable
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let texts = arguments.iter().map(|values| cast(values, &DataType::Utf8)).collect::<Result<Vec<_>, _>>();
        let texts = texts.map_err(|error| Error::new(ErrorKind::UndefinedFunction, format!("format: {error}")))?;
        let row = |row: usize| -> Vec<Option<&str>> {
            texts.iter().map(|texts| texts.is_valid(row).then(|| texts.as_string::<i32>().value(row))).collect()
        };
        let made = (0..rows).map(|at| formatted(&row(at))).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StringViewArray::from_iter(made)))
    }
}

/// Fills the pattern, which is the first argument, with the other arguments. NULL if the pattern is NULL.
fn formatted(arguments: &[Option<&str>]) -> Result<Option<String>> {
    let Some(pattern) = arguments[0] else { return Ok(None) };
    let mut values = FormatValues { values: &arguments[1..], next: 0 };
    let mut text = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((plain, conversion)) = rest.split_once('%') {
        text.push_str(plain);
        match conversion.strip_prefix('%') {
            Some(after) => {
                text.push('%');
                rest = after;
            }
            None => rest = values.convert(conversion, &mut text)?,
        }
    }
    text.push_str(rest);
    Ok(Some(text))
}

/// The values of a call.
struct FormatValues<'a> {
    values: &'a [Option<&'a str>],
    /// The place of the value that a conversion without a position takes.
    next: usize,
}

impl<'a> FormatValues<'a> {
    /// Writes the value of a conversion. Returns the pattern after it.
    fn convert<'p>(&mut self, conversion: &'p str, text: &mut String) -> Result<&'p str> {
        let (position, mut rest) = position_of(conversion)?;
        let mut is_left = false;
        while let Some(after) = rest.strip_prefix('-') {
            (is_left, rest) = (true, after);
        }
        let mut width = 0;
        if let Some(after) = rest.strip_prefix('*') {
            let (place, after) = position_of(after)?;
            rest = after;
            let given = self.take(place)?.unwrap_or("0");
            let number: i64 = given.parse().map_err(|_| wrong(format!("'{given}' is not a width")))?;
            is_left |= number < 0;
            width = checked_width(number.unsigned_abs())?;
        } else if let Some((number, after)) = number_of(rest) {
            (width, rest) = (checked_width(number)?, after);
        }
        let mut letters = rest.chars();
        let written = match letters.next() {
            Some('s') => self.take(position)?.unwrap_or_default().to_owned(),
            Some('I') => match self.take(position)? {
                Some(name) => pg_name(name),
                None => return Err(wrong("NULL cannot be written as a name".to_owned())),
            },
            Some('L') => self.take(position)?.map_or_else(|| "NULL".to_owned(), quoted_text),
            Some(other) => {
                return Err(wrong(format!("'%{other}' is not a conversion")).hint("conversions are %s, %I, %L and %%"));
            }
            None => return Err(wrong("the pattern ends after a percent sign".to_owned()).hint("%% is a percent sign")),
        };
        let missing = " ".repeat(width.saturating_sub(written.chars().count()));
        match is_left {
            true => text.extend([written, missing]),
            false => text.extend([missing, written]),
        }
        Ok(letters.as_str())
    }

    /// Returns the value at a position, counted from 1, or the next one.
    fn take(&mut self, position: Option<u64>) -> Result<Option<&'a str>> {
        let place = match position {
            Some(0) => return Err(wrong("positions of values count from 1".to_owned())),
            Some(position) => usize::try_from(position - 1).unwrap_or(usize::MAX),
            None => self.next,
        };
        self.next = place.saturating_add(1);
        let value = self.values.get(place).copied();
        value.ok_or_else(|| wrong(format!("the pattern asks for more than {} values", self.values.len())))
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("format: {what}"))
}

fn checked_width(width: u64) -> Result<usize> {
    let checked = usize::try_from(width).ok().filter(|width| *width <= WIDTH_MAX);
    checked.ok_or_else(|| wrong(format!("a width is at most {WIDTH_MAX}, not {width}")))
}

/// Reads a position such as `2$`. Without one, returns the text as it is.
fn position_of(text: &str) -> Result<(Option<u64>, &str)> {
    match number_of(text) {
        Some((number, after)) => match after.strip_prefix('$') {
            Some(after) => Ok((Some(number), after)),
            None => Ok((None, text)),
        },
        None => Ok((None, text)),
    }
}

/// Reads the digits at the beginning of a text.
fn number_of(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().map(|number| (number, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arguments: &[Option<&str>]) -> String {
        formatted(arguments).map_or_else(|error| error.to_string(), |text| text.unwrap_or_else(|| "NULL".into()))
    }

    #[test]
    fn patterns_are_filled() {
        let filled = text(&[Some("%I.%I = %L, %s%%"), Some("main"), Some("Order"), None, Some("5")]);
        assert_eq!(filled, "main.\"Order\" = NULL, 5%");
        assert_eq!(text(&[Some("|%10s|%-4s|"), Some("foo"), Some("a")]), "|       foo|a   |");
        assert_eq!(text(&[Some("%2$s %1$s %s"), Some("a"), Some("b")]), "b a b");
        assert_eq!(text(&[Some("|%*s|%-*s|"), Some("4"), Some("a"), Some("3"), Some("b")]), "|   a|b  |");
        assert_eq!(text(&[None, Some("a")]), "NULL");
        assert_eq!(text(&[Some("%s"), None]), "");
    }

    #[test]
    fn wrong_patterns_are_errors() {
        assert!(text(&[Some("%s")]).contains("more than 0 values"));
        assert!(text(&[Some("%d"), Some("1")]).contains("'%d' is not a conversion"));
        assert!(text(&[Some("%I"), None]).contains("NULL cannot be written as a name"));
        assert!(text(&[Some("50%")]).contains("ends after a percent sign"));
        assert!(text(&[Some("%0$s"), Some("1")]).contains("count from 1"));
    }
}

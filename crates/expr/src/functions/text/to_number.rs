//! `to_number`: a number that is written by a pattern, and `parse_ident`: the names of a dotted name.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListBuilder, StringViewBuilder, new_null_array};
use arrow::datatypes::{DataType, Decimal128Type, Field};
use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result, decimal_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::list::maker::list_of;
use crate::functions::rowwise::{TextArgument, numbers, too_long, valid_rows};
use crate::functions::signatures::{BOOLEAN, TEXT, optional, ordinary};
use crate::kinds::{out_of_range, power_of_ten};

/// The functions of this file.
pub(in crate::functions) static READERS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "to_number",
        can_fail: true,
        signature: |arguments| {
            let [text, pattern] = arguments else { return None };
            let is_text = |argument: &ArgumentKind<'_>| matches!(argument.kind, DataType::Utf8View | DataType::Null);
            // The pattern decides the digits after the point, so it must be known when the call is bound.
            let scale = pattern.constant.and_then(|pattern| pattern.as_text()).map_or(0, digits_after_point);
            let result = decimal_arrow(NARROW_DIGITS_MAX, scale);
            let is_known = pattern.constant.is_some() || *pattern.kind == DataType::Null;
            (is_text(text) && is_known).then(|| CallKinds { arguments: vec![TEXT, TEXT], result })
        },
        kernel: to_number,
        doc: "The number of a text by a pattern of PostgreSQL, such as '99G999D99S': 9 and 0 are digits, D or a point \
              is the point, G or a comma separates groups, S, MI, PL and PR are signs. The pattern is a literal.",
        example: ("to_number('12,454.8-', '99G999D9S')", "-12454.8"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "parse_ident",
        can_fail: true,
        signature: |arguments| optional(arguments, 1, &[TEXT, BOOLEAN], list_of(TEXT)),
        kernel: parse_ident,
        doc: "The names of a name with points. Names without quotes become lower case. With false as the second \
              argument, text after the names is ignored.",
        example: ("parse_ident('Main.\"Orders\"')", "[\"main\", \"Orders\"]"),
        ..ordinary("text")
    },
];

/// Returns the number of digits of a pattern after its point.
fn digits_after_point(pattern: &str) -> i8 {
    let pattern = pattern.to_ascii_uppercase();
    let after = pattern.split_once(['D', '.']).map_or("", |(_, after)| after);
    let digits = after.chars().filter(|digit| matches!(digit, '9' | '0')).count();
    digits.min(usize::from(NARROW_DIGITS_MAX)) as i8
}

fn to_number(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (values, patterns) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let scale = if let DataType::Decimal128(_, scale) = kind { *scale as usize } else { 0 };
    numbers::<Decimal128Type>(arguments, kind, rows, |row| {
        let (text, pattern) = (values.at(row), patterns.at(row).to_ascii_uppercase());
        let known = pattern.chars().all(|part| "90DGSMIPLRF.,$ ".contains(part));
        if !known {
            let message = format!("to_number: '{pattern}' has a part that is not supported");
            return Err(Error::new(ErrorKind::Unsupported, message)
                .hint("patterns have 9, 0, D, G, a point, a comma, S, MI, PL, PR, L and FM"));
        }
        read(text, scale, &pattern)
            .ok_or_else(|| {
                let text: String = text.chars().take(60).collect();
                Error::new(ErrorKind::InvalidText, format!("to_number: '{text}' is not a number by '{pattern}'"))
            })?
            .map_err(|()| out_of_range(format!("'{text}'"), kind))
    })
}

/// Reads the digits and the sign of a text. Returns `None` if it has no digit, and an error if it has too many.
fn read(text: &str, scale: usize, pattern: &str) -> Option<std::result::Result<i128, ()>> {
    let is_negative = text.contains('-') || pattern.contains("PR") && text.trim_start().starts_with('<');
    let has_point = pattern.contains(['D', '.']);
    let (whole, fraction) = match text.split_once('.').filter(|_| has_point) {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    let (whole, mut fraction) = (digits(whole), digits(fraction));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Digits that the pattern has no place for are cut.
    fraction.truncate(scale);
    let mut places = whole.chars().chain(fraction.chars()).filter_map(|digit| digit.to_digit(10));
    let number = places.try_fold(0_i128, |number, digit| number.checked_mul(10)?.checked_add(digit.into()));
    let number = number.and_then(|number| number.checked_mul(power_of_ten((scale - fraction.len()) as u32)));
    let fits = |number: &i128| *number < power_of_ten(NARROW_DIGITS_MAX.into());
    Some(number.filter(fits).map(|number| if is_negative { -number } else { number }).ok_or(()))
}

fn parse_ident(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let values = TextArgument::new(&arguments[0]);
    let mut made =
        ListBuilder::with_capacity(StringViewBuilder::new(), rows).with_field(Field::new("item", TEXT, true));
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            made.append_null();
            continue;
        }
        let is_strict = arguments.get(1).is_none_or(|flags| flags.values.as_boolean().value(flags.at(row)));
        for name in names_of(values.at(row), is_strict)? {
            made.values().try_append_value(name).map_err(too_long)?;
        }
        made.append(true);
    }
    Ok(Arc::new(made.finish()))
}

/// Splits a dotted name into its names.
fn names_of(text: &str, is_strict: bool) -> Result<Vec<String>> {
    let wrong = || {
        let text: String = text.chars().take(60).collect();
        Error::new(ErrorKind::InvalidParameter, format!("'{text}' is not a name, or several with points between them"))
    };
    let mut names = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let (name, after) = next_name(rest).ok_or_else(wrong)?;
        names.push(name);
        rest = after.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() || !is_strict => return Ok(names),
            None => return Err(wrong()),
        }
    }
}

/// Reads one name. Returns the text after it.
fn next_name(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut rest = quoted;
        loop {
            let (part, after) = rest.split_once('"')?;
            name.push_str(part);
            // Two quotes stand for one.
            match after.strip_prefix('"') {
                Some(after) => {
                    name.push('"');
                    rest = after;
                }
                None => return (!name.is_empty()).then_some((name, after)),
            }
        }
    }
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '$');
    let end = text.find(|char| !is_part(char)).unwrap_or(text.len());
    let is_name = text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
    is_name.then(|| (text[..end].to_lowercase(), &text[end..]))
}

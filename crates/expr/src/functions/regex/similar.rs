//! `text SIMILAR TO pattern`: matches the whole text with a LIKE pattern that may also have alternatives, groups,
//! repetitions and classes.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use super::pattern::{PatternCache, prepared, regex};
use crate::functions::rowwise::{TextArgument, valid_rows};
use crate::regexp::Matcher;

thread_local! {
    static SIMILAR: PatternCache<Matcher> = const { RefCell::new(Vec::new()) };
}

pub(super) fn similar_to(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let (texts, patterns) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let escapes = arguments.get(2).map(TextArgument::new);
    if !arguments[0].is_constant
        && let Some(pattern) = patterns.constant()
        && let Some(escape) = escapes.map_or(Some("\\"), |escapes| escapes.constant())
    {
        let matcher =
            prepared(&SIMILAR, &[pattern, escape], || Matcher::new(&regular_expression(pattern, escape)?, None))?;
        return Ok(Arc::new(matcher.is_match(arguments[0].values.as_string_view())));
    }
    let mut found = vec![false; rows];
    for (row, found) in found.iter_mut().enumerate() {
        if valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
            let pattern = regular_expression(patterns.at(row), escapes.map_or("\\", |escapes| escapes.at(row)))?;
            *found = regex(&pattern, "")?.is_match(texts.at(row));
        }
    }
    Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(found), valid)))
}

/// Translates a pattern to a regular expression. `escape` is the character that makes the next one a literal, or empty.
fn regular_expression(pattern: &str, escape: &str) -> Result<String> {
    let mut escapes = escape.chars();
    let (escape, None) = (escapes.next(), escapes.next()) else {
        let message = format!("the escape of SIMILAR TO must be one character or empty, not '{escape}'");
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    };
    // SIMILAR TO matches the whole text, and its wildcards match ends of lines too.
    let mut made = String::from("^(?s:");
    let mut is_in_class = false;
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            next if Some(next) == escape => match chars.next() {
                Some(literal) => push_literal(literal, &mut made),
                None => {
                    let message = format!("the pattern '{pattern}' ends with its escape");
                    return Err(Error::new(ErrorKind::InvalidParameter, message));
                }
            },
            ']' if is_in_class => {
                is_in_class = false;
                made.push(']');
            }
            // The name of a class, for example [:alpha:], ends with the bracket after its second colon.
            '[' if is_in_class && chars.peek() == Some(&':') => {
                made.push('[');
                for inside in chars.by_ref() {
                    made.push(inside);
                    if inside == ']' {
                        break;
                    }
                }
            }
            // The library gives these characters a meaning between classes that SQL does not have, so they must be
            // escaped.
            '[' | '&' | '~' | '\\' if is_in_class => made.extend(['\\', next]),
            next if is_in_class => made.push(next),
            '[' => {
                is_in_class = true;
                made.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    made.push('^');
                }
                // A bracket at the beginning of a class is a literal.
                if chars.next_if_eq(&']').is_some() {
                    made.push_str("\\]");
                }
            }
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '.' | '^' | '$' | '\\' => made.extend(['\\', next]),
            next => made.push(next),
        }
    }
    made.push_str(")$");
    Ok(made)
}

/// Writes a literal character.
fn push_literal(char: char, made: &mut String) {
    if char.is_ascii_punctuation() {
        made.push('\\');
    }
    made.push(char);
}

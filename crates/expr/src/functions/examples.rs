//! Runs the examples that the documentation shows.
//!
//! There is no parser of SQL below the binder, so this reads what most examples are: calls of functions of literals. An
//! example with operators or other syntax is left to the tests of the front end.

use std::sync::Arc;

use arrow::array::{BinaryViewArray, Decimal128Array};
use rowmill_plan::{Constant, ScalarExpr};

use super::{all, find};
use crate::evaluator::Evaluator;
use crate::{text, typing};

#[test]
fn every_function_is_documented() {
    for function in all() {
        let (call, result) = function.example;
        assert!(function.doc.ends_with('.') && !function.doc.contains('\n'), "the documentation of {}", function.name);
        assert!(!call.is_empty() && !result.is_empty(), "the example of {}", function.name);
        for name in std::iter::once(&function.name).chain(function.aliases) {
            assert_eq!(find(name), Some(function));
            assert_eq!(name.to_lowercase(), **name);
        }
    }
}

#[test]
fn every_example_gives_its_result() {
    let mut ran = 0;
    let mut wrong = Vec::new();
    for function in all() {
        let (call, result) = function.example;
        let Some((expr, "")) = expression(call) else { continue };
        let made = Evaluator::new(&expr).and_then(|evaluator| evaluator.evaluate(&[], 1));
        let found = made.map(|made| text::format(&made, 0).unwrap_or_else(|| "NULL".to_owned()));
        if found.as_deref() != Ok(result) {
            wrong.push(format!("{call}: {found:?} instead of {result}"));
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ran > 80, "only {ran} examples could be read");
}

/// The literal or call that `sql` begins with, and what follows it.
fn expression(sql: &str) -> Option<(ScalarExpr, &str)> {
    let sql = sql.trim_start();
    if let Some(rest) = sql.strip_prefix("NULL") {
        return Some((ScalarExpr::null(arrow::datatypes::DataType::Null), rest));
    }
    if let Some(rest) = sql.strip_prefix("X'") {
        let (digits, rest) = rest.split_once('\'')?;
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let value = Constant::new(Arc::new(BinaryViewArray::from(vec![bytes?.as_slice()])));
        return Some((ScalarExpr::literal(value), rest));
    }
    if let Some(rest) = sql.strip_prefix('\'') {
        let (value, rest) = rest.split_once('\'')?;
        return Some((ScalarExpr::literal(value), rest));
    }
    let end = sql.find(|char: char| !(char.is_alphanumeric() || "_.-".contains(char))).unwrap_or(sql.len());
    let (word, rest) = sql.split_at(end);
    if let Some((whole, fraction)) = word.split_once('.') {
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let precision = word.bytes().filter(u8::is_ascii_digit).count();
        let value = Decimal128Array::from(vec![digits]).with_precision_and_scale(precision as u8, fraction.len() as i8);
        return Some((ScalarExpr::literal(Constant::new(Arc::new(value.ok()?))), rest));
    }
    if let Ok(value) = word.parse::<i64>() {
        return Some((ScalarExpr::literal(value), rest));
    }
    let mut rest = rest.strip_prefix('(')?.trim_start();
    let mut arguments = Vec::new();
    while !rest.starts_with(')') {
        let (argument, behind) = expression(rest)?;
        arguments.push(argument);
        rest = behind.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        if rest.is_empty() {
            return None;
        }
    }
    let call = typing::call(find(word)?, arguments).unwrap_or_else(|error| panic!("{sql}: {error}"));
    Some((call, &rest[1..]))
}

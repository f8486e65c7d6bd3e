//! Measures of how similar two texts are.

use std::collections::HashSet;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::result_limit::ResultLimit;
use crate::functions::rowwise::{TextArgument, numbers};
use crate::functions::signatures::{BIGINT, DOUBLE, TEXT, exactly, ordinary};

/// The functions of this file.
pub(in crate::functions) static SIMILARITY: &[FunctionSpec] = &[
    FunctionSpec {
        name: "damerau_levenshtein",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BIGINT),
        kernel: damerau_levenshtein,
        doc: "The least number of characters to insert, delete, replace or swap to make one text of the other.",
        example: ("damerau_levenshtein('abcd', 'acbd')", "1"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "hamming",
        aliases: &["mismatches"],
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BIGINT),
        kernel: hamming,
        doc: "The number of positions at which two texts of one length differ.",
        example: ("hamming('duck', 'luck')", "1"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "jaccard",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], DOUBLE),
        kernel: jaccard,
        doc: "The share of the characters of both texts that are in each of them. Texts must not be empty.",
        example: ("jaccard('duck', 'luck')", "0.6"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "jaro_similarity",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], DOUBLE),
        kernel: jaro,
        doc: "The similarity of Jaro of two texts, from 0 to 1.",
        example: ("round(jaro_similarity('duck', 'duckdb'), 4)", "0.8889"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "jaro_winkler_similarity",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], DOUBLE),
        kernel: jaro_winkler,
        doc: "The similarity of Jaro and Winkler of two texts, from 0 to 1. Equal first characters make it larger.",
        example: ("round(jaro_winkler_similarity('duck', 'duckdb'), 4)", "0.9333"),
        ..ordinary("text")
    },
];

/// The steps of a computation over all pairs of characters that a byte of the limit on results pays for.
const STEPS_PER_BYTE: u128 = 16;

/// Computes a number of the characters of two texts, whose number of pairs is limited.
fn of_characters<T: arrow::datatypes::ArrowPrimitiveType>(
    function: &'static str,
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    of: impl Fn(&[char], &[char]) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let (lefts, rights) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let limit = ResultLimit::of(function);
    let mut steps = 0;
    let (mut left_chars, mut right_chars) = (Vec::new(), Vec::new());
    numbers::<T>(arguments, kind, rows, |row| {
        let (left, right) = (lefts.at(row), rights.at(row));
        steps += left.len() as u128 * right.len() as u128;
        limit.check(steps / STEPS_PER_BYTE)?;
        left_chars.clear();
        left_chars.extend(left.chars());
        right_chars.clear();
        right_chars.extend(right.chars());
        of(&left_chars, &right_chars)
    })
}

pub(super) fn damerau_levenshtein(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_characters::<Int64Type>("damerau_levenshtein", arguments, kind, rows, |left, right| {
        Ok(with_transpositions(left, right))
    })
}

/// Returns the distance in which two characters may also change places, with any edits between them. This is the
/// algorithm of Lowrance and Wagner (1975): `last_rows` knows where each character of `left` was last.
fn with_transpositions(left: &[char], right: &[char]) -> i64 {
    let (height, width) = (left.len() + 2, right.len() + 2);
    let far = (left.len() + right.len()) as i64;
    let mut table = vec![0_i64; height * width];
    let at = |row: usize, column: usize| row * width + column;
    table[at(0, 0)] = far;
    for row in 0..=left.len() {
        table[at(row + 1, 0)] = far;
        table[at(row + 1, 1)] = row as i64;
    }
    for column in 0..=right.len() {
        table[at(0, column + 1)] = far;
        table[at(1, column + 1)] = column as i64;
    }
    let mut last_rows = std::collections::HashMap::new();
    for row in 1..=left.len() {
        let mut last_column = 0;
        for column in 1..=right.len() {
            let matching_row: usize = last_rows.get(&right[column - 1]).copied().unwrap_or(0);
            let matching_column = last_column;
            let is_equal = left[row - 1] == right[column - 1];
            if is_equal {
                last_column = column;
            }
            let swapped = table[at(matching_row, matching_column)]
                + (row - matching_row - 1) as i64
                + 1
                + (column - matching_column - 1) as i64;
            table[at(row + 1, column + 1)] = (table[at(row, column)] + i64::from(!is_equal))
                .min(table[at(row + 1, column)] + 1)
                .min(table[at(row, column + 1)] + 1)
                .min(swapped);
        }
        last_rows.insert(left[row - 1], row);
    }
    table[at(left.len() + 1, right.len() + 1)]
}

pub(super) fn hamming(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lefts, rights) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let (left, right) = (lefts.at(row), rights.at(row));
        let (of_left, of_right) = (left.chars().count(), right.chars().count());
        if of_left != of_right {
            let message =
                format!("hamming takes texts of one length, but one has {of_left} characters and the other {of_right}");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        Ok(left.chars().zip(right.chars()).filter(|(left, right)| left != right).count() as i64)
    })
}

pub(super) fn jaccard(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lefts, rights) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    numbers::<Float64Type>(arguments, kind, rows, |row| {
        let left: HashSet<char> = lefts.at(row).chars().collect();
        let right: HashSet<char> = rights.at(row).chars().collect();
        if left.is_empty() || right.is_empty() {
            return Err(Error::new(ErrorKind::InvalidParameter, "jaccard takes texts that are not empty"));
        }
        let shared = left.intersection(&right).count();
        let all = left.len() + right.len() - shared;
        Ok(shared as f64 / all as f64)
    })
}

pub(super) fn jaro(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_characters::<Float64Type>("jaro_similarity", arguments, kind, rows, |left, right| Ok(jaro_of(left, right)))
}

/// What each equal first character adds to the similarity of Winkler.
const PREFIX_SHARE: f64 = 0.1;
/// The number of first characters that count.
const PREFIX_MAX: usize = 4;
/// The similarity from which on first characters count.
const PREFIX_FROM: f64 = 0.7;

pub(super) fn jaro_winkler(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_characters::<Float64Type>("jaro_winkler_similarity", arguments, kind, rows, |left, right| {
        let similarity = jaro_of(left, right);
        let prefix = left.iter().zip(right).take(PREFIX_MAX).take_while(|(left, right)| left == right).count();
        Ok(if similarity > PREFIX_FROM {
            similarity + PREFIX_SHARE * prefix as f64 * (1.0 - similarity)
        } else {
            similarity
        })
    })
}

/// The similarity of Jaro, from 0 to 1: characters match if they are equal and not far from each other.
fn jaro_of(left: &[char], right: &[char]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 0.0;
    }
    let window = (left.len().max(right.len()) / 2).saturating_sub(1);
    let mut is_taken = vec![false; right.len()];
    let mut of_left = Vec::new();
    for (place, char) in left.iter().enumerate() {
        let end = (place + window + 1).min(right.len());
        let found = (place.saturating_sub(window)..end).find(|at| !is_taken[*at] && right[*at] == *char);
        if let Some(found) = found {
            is_taken[found] = true;
            of_left.push(*char);
        }
    }
    if of_left.is_empty() {
        return 0.0;
    }
    let of_right = right.iter().zip(&is_taken).filter(|(_, is_taken)| **is_taken).map(|(char, _)| char);
    // Matching characters in another order are halves of transpositions.
    let moved = of_left.iter().zip(of_right).filter(|(left, right)| left != right).count() / 2;
    let matching = of_left.len() as f64;
    (matching / left.len() as f64 + matching / right.len() as f64 + (matching - moved as f64) / matching) / 3.0
}

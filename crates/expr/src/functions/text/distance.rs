//! The edit distance of two texts.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::result_limit::ResultLimit;
use crate::functions::rowwise::{TextArgument, numbers};

/// The steps of the computation that a byte of the limit on results pays for. The number of steps is the product of
/// both lengths, and nothing else would bound the time.
const STEPS_PER_BYTE: u128 = 16;

pub(super) fn levenshtein(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lefts, rights) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let limit = ResultLimit::of("levenshtein");
    let mut steps = 0;
    let mut line = Vec::new();
    let (mut left_chars, mut right_chars) = (Vec::new(), Vec::new());
    numbers::<Int32Type>(arguments, kind, rows, |row| {
        let (left, right) = (lefts.at(row), rights.at(row));
        steps += left.len() as u128 * right.len() as u128;
        // The bytes of a text are at least its characters, so this bounds the steps without decoding.
        limit.check(steps / STEPS_PER_BYTE)?;
        if left.is_ascii() && right.is_ascii() {
            return Ok(distance(left.as_bytes(), right.as_bytes(), &mut line));
        }
        left_chars.clear();
        left_chars.extend(left.chars());
        right_chars.clear();
        right_chars.extend(right.chars());
        Ok(distance(&left_chars, &right_chars, &mut line))
    })
}

/// Returns the distance. We compute the table of distances between prefixes line by line: `line[n]` is the distance
/// between the current prefix of `left` and the first `n` characters of `right`.
fn distance<C: PartialEq + Copy>(left: &[C], right: &[C], line: &mut Vec<i32>) -> i32 {
    line.clear();
    line.extend(0..=right.len() as i32);
    for (index, &from) in left.iter().enumerate() {
        let mut diagonal = line[0];
        line[0] = index as i32 + 1;
        for (place, &to) in right.iter().enumerate() {
            // The three candidates are a replacement, a deletion and an insertion.
            let replaced = diagonal + i32::from(from != to);
            diagonal = line[place + 1];
            line[place + 1] = replaced.min(diagonal + 1).min(line[place] + 1);
        }
    }
    line[right.len()]
}

//! Regular expressions.
//!
//! Patterns have the syntax of the `regex` library. Flags are letters. `i` ignores case, `c` does not. `g` takes all
//! matches (only in `regexp_replace`). `m` or `n` lets `^` and `$` match at lines, `s` lets `.` match the end of a
//! line, and `x` ignores spaces in the pattern. Positions count characters from 1.

mod matching;
mod parts;
mod pattern;
mod position;
mod replacing;
mod similar;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use rowmill_plan::FunctionSpec;

use super::signatures::{BIGINT, BOOLEAN, TEXT, optional, ordinary};

pub(super) use parts::REGEX_PARTS;

/// Makes the spec of a function that fails only because of its pattern, which may come from a column.
const fn of_pattern(name: &'static str) -> FunctionSpec {
    FunctionSpec { name, can_fail: true, ..ordinary("regex") }
}

/// The functions of the family.
pub(super) static REGEX: &[FunctionSpec] = &[
    FunctionSpec {
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, TEXT], BOOLEAN),
        kernel: matching::regexp_like,
        doc: "Whether the pattern matches somewhere in the text. The third argument gives flags.",
        example: ("regexp_like('Rowmill', '^row', 'i')", "true"),
        ..of_pattern("regexp_like")
    },
    FunctionSpec {
        signature: |arguments| {
            let list = DataType::List(Arc::new(Field::new("item", TEXT, true)));
            optional(arguments, 2, &[TEXT, TEXT, TEXT], list)
        },
        kernel: matching::regexp_match,
        doc: "The groups of the first match, or the match itself if the pattern has no group; NULL without a match.",
        example: ("regexp_match('2013-07-31', '(\\d+)-(\\d+)')", "[\"2013\", \"07\"]"),
        ..of_pattern("regexp_match")
    },
    FunctionSpec {
        signature: |arguments| optional(arguments, 3, &[TEXT, TEXT, TEXT, TEXT], TEXT),
        kernel: replacing::regexp_replace,
        doc: "The text with the first match, or with the flag g all matches, replaced: \\1 to \\9 stand for groups, \
            \\& for \
              the match.",
        example: ("regexp_replace('2013-07-31', '(\\d+)-(\\d+)-(\\d+)', '\\3.\\2.\\1')", "31.07.2013"),
        ..of_pattern("regexp_replace")
    },
    FunctionSpec {
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, BIGINT, TEXT], BIGINT),
        kernel: position::regexp_count,
        doc: "The number of matches, from the position of the third argument on.",
        example: ("regexp_count('abcAbAbc', 'abc', 2, 'i')", "1"),
        ..of_pattern("regexp_count")
    },
    FunctionSpec {
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, BIGINT, BIGINT, TEXT, BIGINT], BIGINT),
        kernel: position::regexp_instr,
        doc: "The position of a match, 0 if there is none. Further arguments: where to begin, which match, flags, and \
              which group is asked for.",
        example: ("regexp_instr('ABCDEF', 'C(.)(..)')", "3"),
        ..of_pattern("regexp_instr")
    },
    FunctionSpec {
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, BIGINT, BIGINT, TEXT, BIGINT], TEXT),
        kernel: position::regexp_substr,
        doc: "The text of a match, NULL if there is none. Further arguments: where to begin, which match, flags, and \
            which \
              group is asked for.",
        example: ("regexp_substr('ABCDEF', 'C(.)(..)', 1, 1, '', 2)", "EF"),
        ..of_pattern("regexp_substr")
    },
    FunctionSpec {
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, TEXT], BOOLEAN),
        kernel: similar::similar_to,
        doc: "Whether the whole text matches the pattern of SIMILAR TO. The third argument is the escape, a backslash \
              if it is not given.",
        example: ("similar_to('rowmill', '(row|wind)%')", "true"),
        ..of_pattern("similar_to")
    },
];

//! Functions of texts, and the lengths of texts and BLOBs.
//!
//! Positions and lengths count characters from 1. Functions that only cut a text copy no more than the piece that
//! stays. Functions whose result can be much larger than their arguments must respect the limit of `result_limit`. A
//! function that exceeds the limit only if its arguments are close to it, for example `concat`, counts as one that
//! cannot fail.

mod case;
mod character;
mod concat;
mod distance;
mod glob;
mod grapheme;
mod length;
mod pad;
mod part;
mod path;
mod printf;
mod replace;
mod search;
mod similarity;
mod size;
mod substring;
mod to_number;
mod trim;
mod unicode;

#[cfg(test)]
mod tests;

use rowmill_base::LengthUnit;
use rowmill_plan::FunctionSpec;

use super::signatures::{
    BIGINT, BLOB, BOOLEAN, INTEGER, TEXT, any_as_text, bytes, exactly, optional, ordinary, stands_for, variadic,
};

pub(super) use grapheme::GRAPHEMES;
pub(super) use path::PATHS;
pub(super) use printf::PRINTF;
pub(super) use similarity::SIMILARITY;
pub(super) use size::SIZES;
pub use substring::part_of_text;
pub(super) use to_number::READERS;
pub(super) use unicode::UNICODE;

/// The functions of the family.
pub(super) static TEXT_FUNCTIONS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "length",
        aliases: &["char_length", "character_length", "len"],
        signature: |arguments| bytes(arguments, &[], INTEGER),
        length_unit: Some(LengthUnit::Characters),
        kernel: length::length,
        doc: "The number of characters of a text, of bytes of a BLOB, or of items of a list.",
        example: ("length('мир')", "3"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "octet_length",
        aliases: &["strlen"],
        signature: |arguments| bytes(arguments, &[], INTEGER),
        length_unit: Some(LengthUnit::Bytes),
        kernel: length::octet_length,
        doc: "The number of bytes of a text or a BLOB.",
        example: ("octet_length('мир')", "6"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "bit_length",
        signature: |arguments| bytes(arguments, &[], BIGINT),
        kernel: length::bit_length,
        doc: "The number of bits of a text or a BLOB.",
        example: ("bit_length('mill')", "32"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "upper",
        aliases: &["ucase"],
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: case::upper,
        doc: "The text in upper case.",
        example: ("upper('mill')", "MILL"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "lower",
        aliases: &["lcase"],
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: case::lower,
        doc: "The text in lower case.",
        example: ("lower('MILL')", "mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "initcap",
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: case::initcap,
        doc: "The text with the first letter of each word in upper case and the others in lower case.",
        example: ("initcap('the old MILL')", "The Old Mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "reverse",
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: case::reverse,
        doc: "The characters of the text in reverse order.",
        example: ("reverse('mill')", "llim"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "text_concat",
        associative: true,
        signature: |arguments| any_as_text(arguments, 1),
        kernel: concat::text_concat,
        doc: "The texts one after another, as the operator || gives them: NULL if one is NULL.",
        example: ("text_concat('row', 'mill')", "rowmill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "blob_concat",
        associative: true,
        signature: |arguments| variadic(arguments, 1, &BLOB, BLOB),
        kernel: concat::blob_concat,
        doc: "The BLOBs one after another, as the operator || gives them: NULL if one is NULL.",
        example: ("blob_concat(X'00', X'ff')", "\\x00ff"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "concat",
        associative: true,
        strict: false,
        signature: |arguments| any_as_text(arguments, 1),
        kernel: concat::concat,
        doc: "The values joined as text, without those that are NULL.",
        example: ("concat('row', NULL, 'mill', 1)", "rowmill1"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "concat_ws",
        strict: false,
        signature: |arguments| any_as_text(arguments, 2),
        kernel: concat::concat_ws,
        doc: "The values after the first one as text, without those that are NULL, with the first one in between.",
        example: ("concat_ws('-', 'a', NULL, 'b')", "a-b"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "substring",
        aliases: &["substr"],
        signature: |arguments| optional(arguments, 2, &[TEXT, BIGINT, BIGINT], TEXT),
        kernel: substring::substring,
        can_fail: true,
        doc: "The part of a text from a position on, of at most the length of the third argument.",
        example: ("substring('rowmill', 4, 2)", "mi"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "left",
        signature: |arguments| exactly(arguments, &[TEXT, BIGINT], TEXT),
        kernel: substring::left,
        doc: "The first characters of a text; with a negative number -n, all but the last n.",
        example: ("left('rowmill', 3)", "row"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "right",
        signature: |arguments| exactly(arguments, &[TEXT, BIGINT], TEXT),
        kernel: substring::right,
        doc: "The last characters of a text; with a negative number -n, all but the first n.",
        example: ("right('rowmill', 4)", "mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "overlay",
        signature: |arguments| optional(arguments, 3, &[TEXT, TEXT, BIGINT, BIGINT], TEXT),
        kernel: substring::overlay,
        can_fail: true,
        doc: "The first text with the second one in place of the characters from a position on: as many as the fourth \
              argument says, or as the second text has.",
        example: ("overlay('Txxxxas', 'hom', 2, 4)", "Thomas"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "repeat",
        signature: |arguments| exactly(arguments, &[TEXT, BIGINT], TEXT),
        kernel: pad::repeat,
        can_fail: true,
        doc: "The text a number of times.",
        example: ("repeat('ab', 3)", "ababab"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "lpad",
        signature: |arguments| optional(arguments, 2, &[TEXT, BIGINT, TEXT], TEXT),
        kernel: pad::lpad,
        can_fail: true,
        doc: "The text brought to a length: filled on its left with spaces or the third argument, or cut on its right.",
        example: ("lpad('7', 3, '0')", "007"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "rpad",
        signature: |arguments| optional(arguments, 2, &[TEXT, BIGINT, TEXT], TEXT),
        kernel: pad::rpad,
        can_fail: true,
        doc: "The text brought to a length: filled on its right with spaces or the third argument, or cut there.",
        example: ("rpad('7', 3, '.')", "7.."),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "btrim",
        aliases: &["trim"],
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], TEXT),
        kernel: trim::btrim,
        doc: "The text without spaces, or without the characters of the second argument, at both ends.",
        example: ("btrim('--mill-', '-')", "mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "ltrim",
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], TEXT),
        kernel: trim::ltrim,
        doc: "The text without spaces, or without the characters of the second argument, at its beginning.",
        example: ("ltrim('--mill-', '-')", "mill-"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "rtrim",
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], TEXT),
        kernel: trim::rtrim,
        doc: "The text without spaces, or without the characters of the second argument, at its end.",
        example: ("rtrim('--mill-', '-')", "--mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "replace",
        signature: |arguments| exactly(arguments, &[TEXT, TEXT, TEXT], TEXT),
        kernel: replace::replace,
        can_fail: true,
        doc: "The text with every occurrence of the second argument replaced by the third one.",
        example: ("replace('windmill', 'wind', 'row')", "rowmill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "translate",
        signature: |arguments| exactly(arguments, &[TEXT, TEXT, TEXT], TEXT),
        kernel: replace::translate,
        doc: "The text with each character of the second argument replaced by the one at the same position of the \
            third; \
              those that have none are left out.",
        example: ("translate('12345', '143', 'ax')", "a2x5"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "split_part",
        signature: |arguments| exactly(arguments, &[TEXT, TEXT, BIGINT], TEXT),
        kernel: part::split_part,
        can_fail: true,
        doc: "The part of a text between separators with this number, from 1, or from the end if it is negative; \
            empty if \
              there is none.",
        example: ("split_part('a.b.c', '.', 2)", "b"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "substr_index",
        aliases: &["substring_index"],
        signature: |arguments| exactly(arguments, &[TEXT, TEXT, BIGINT], TEXT),
        kernel: part::substr_index,
        doc: "The text before the n-th separator; if n is negative, the text after the n-th separator from the end.",
        example: ("substr_index('www.rowmill.org', '.', 2)", "www.rowmill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "find_in_set",
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], INTEGER),
        kernel: part::find_in_set,
        doc: "The position of a text in a list separated by commas, 0 if it is not there.",
        example: ("find_in_set('b', 'a,b,c')", "2"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "strpos",
        aliases: &["instr", "position"],
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], INTEGER),
        kernel: search::strpos,
        doc: "The position of the first occurrence of the second text in the first one, 0 if it does not occur.",
        example: ("strpos('rowmill', 'mill')", "4"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "contains",
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BOOLEAN),
        kernel: search::contains,
        doc: "Whether the second text occurs in the first one.",
        example: ("contains('rowmill', 'wm')", "true"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "glob",
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BOOLEAN),
        kernel: glob::glob,
        doc: "Whether a text matches a pattern of the shell, as `text GLOB pattern` says: `*` stands for any \
              characters, `?` for one, `[a-z]` and `[^a-z]` for one of a set.",
        example: ("glob('*.c[px]*', 'main.cpp')", "true"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "starts_with",
        aliases: &["prefix"],
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BOOLEAN),
        kernel: search::starts_with,
        doc: "Whether the first text begins with the second one.",
        example: ("starts_with('rowmill', 'row')", "true"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "ends_with",
        aliases: &["suffix"],
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BOOLEAN),
        kernel: search::ends_with,
        doc: "Whether the first text ends with the second one.",
        example: ("ends_with('rowmill', 'mill')", "true"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "ascii",
        signature: |arguments| exactly(arguments, &[TEXT], INTEGER),
        kernel: character::ascii,
        doc: "The number in Unicode of the first character of a text, 0 for the empty text.",
        example: ("ascii('A')", "65"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "chr",
        signature: |arguments| exactly(arguments, &[BIGINT], TEXT),
        kernel: character::chr,
        can_fail: true,
        doc: "The character with this number in Unicode.",
        example: ("chr(1084)", "м"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "to_hex",
        signature: |arguments| match arguments {
            [argument] if *argument.kind == arrow::datatypes::DataType::UInt64 => {
                exactly(arguments, &[arrow::datatypes::DataType::UInt64], TEXT)
            }
            [argument] if stands_for(argument, &BIGINT) => exactly(arguments, &[BIGINT], TEXT),
            _ => None,
        },
        kernel: character::to_hex,
        doc: "The integer in hexadecimal digits; a negative one as its 64 bits.",
        example: ("to_hex(255)", "ff"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "levenshtein",
        aliases: &["editdist3"],
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], INTEGER),
        kernel: distance::levenshtein,
        can_fail: true,
        doc: "The least number of characters to insert, delete or replace to make one text of the other.",
        example: ("levenshtein('kitten', 'sitting')", "3"),
        ..ordinary("text")
    },
];

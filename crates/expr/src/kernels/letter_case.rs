//! The upper and lower case of characters.
//!
//! The standard library searches its tables for every character that is not ASCII. The letters of most alphabets with
//! two cases are among the first characters of Unicode, so we keep their other case in a table of our own.

use std::char::{ToLowercase, ToUppercase};
use std::iter;
use std::sync::LazyLock;

/// The characters in the tables: Latin, Greek, Cyrillic, Armenian and Hebrew.
const TABLE_CHARS: usize = 0x600;

/// The other case of each character. 0 marks a character whose other case is not one character below `u16::MAX`.
type CaseTable = [u16; TABLE_CHARS];

static UPPER: LazyLock<CaseTable> = LazyLock::new(|| table(|char| single(char.to_uppercase())));
static LOWER: LazyLock<CaseTable> = LazyLock::new(|| table(|char| single(char.to_lowercase())));

fn table(other: impl Fn(char) -> Option<char>) -> CaseTable {
    let mut table = [0; TABLE_CHARS];
    for (number, entry) in (0..).zip(&mut table) {
        let other = char::from_u32(number).and_then(&other);
        *entry = other.and_then(|other| u16::try_from(u32::from(other)).ok()).unwrap_or(0);
    }
    table
}

fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

fn looked_up(table: &CaseTable, char: char) -> Option<char> {
    let other = *table.get(char as usize)?;
    (other != 0).then(|| char::from_u32(other.into()).expect("the table has characters"))
}

/// The characters of the other case of a character: the entry of a table, or those of the standard library.
pub(crate) enum CaseChars<C> {
    One(iter::Once<char>),
    Some(C),
}

/// The characters of the upper case of a character.
pub(crate) fn uppercase(char: char) -> CaseChars<ToUppercase> {
    match looked_up(&UPPER, char) {
        Some(one) => CaseChars::One(iter::once(one)),
        None => CaseChars::Some(char.to_uppercase()),
    }
}

/// The characters of the lower case of a character, wherever it is in a word.
pub(crate) fn lowercase(char: char) -> CaseChars<ToLowercase> {
    match looked_up(&LOWER, char) {
        Some(one) => CaseChars::One(iter::once(one)),
        None => CaseChars::Some(char.to_lowercase()),
    }
}

impl<C: Iterator<Item = char>> Iterator for CaseChars<C> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            CaseChars::One(one) => one.next(),
            CaseChars::Some(chars) => chars.next(),
        }
    }
}

/// Returns the lower case of a character if it is a single character, otherwise the character itself.
pub(crate) fn folded(char: char) -> char {
    looked_up(&LOWER, char).or_else(|| single(char.to_lowercase())).unwrap_or(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_the_case_of_the_standard_library() {
        for char in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            assert!(uppercase(char).eq(char.to_uppercase()), "{char:?}");
            assert!(lowercase(char).eq(char.to_lowercase()), "{char:?}");
            assert_eq!(folded(char), single(char.to_lowercase()).unwrap_or(char), "{char:?}");
        }
    }
}

//! Functions that replace parts or characters of texts.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use memchr::memmem::Finder;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::rowwise::{RowText, TextArgument, texts};

pub(super) fn replace(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let [sources, olds, news] = [0, 1, 2].map(|index| TextArgument::new(&arguments[index]));
    if let Some(old) = olds.constant() {
        let finder = Finder::new(old);
        return texts("replace", arguments, rows, |row, made| {
            replace_all(sources.at(row), &finder, news.at(row), made)
        });
    }
    texts("replace", arguments, rows, |row, made| {
        replace_all(sources.at(row), &Finder::new(olds.at(row)), news.at(row), made)
    })
}

fn replace_all(source: &str, old: &Finder<'_>, new: &str, made: &mut RowText) -> Result<()> {
    let old_bytes = old.needle().len();
    // The empty text would match everywhere, so nothing is replaced.
    if old_bytes == 0 {
        return made.push(source);
    }
    let mut behind = 0;
    for at in old.find_iter(source.as_bytes()) {
        made.push(&source[behind..at])?;
        made.push(new)?;
        behind = at + old_bytes;
    }
    made.push(&source[behind..])
}

pub(super) fn translate(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let [sources, olds, news] = [0, 1, 2].map(|index| TextArgument::new(&arguments[index]));
    if let Some((old, new)) = olds.constant().zip(news.constant()) {
        let table = Translation::new(old, new);
        return texts("translate", arguments, rows, |row, made| table.write(sources.at(row), made));
    }
    texts("translate", arguments, rows, |row, made| {
        Translation::new(olds.at(row), news.at(row)).write(sources.at(row), made)
    })
}

/// The replacement of each character that does not stay: another character, or nothing.
struct Translation {
    of_char: HashMap<char, Option<char>>,
    /// The replacements of ASCII characters. A character with `None` stays.
    of_ascii: [Option<Option<char>>; 128],
}

impl Translation {
    /// Maps the characters of `old` to those at the same positions of `new`. If a character occurs twice, the first one
    /// counts.
    fn new(old: &str, new: &str) -> Translation {
        let mut of_char = HashMap::new();
        let mut of_ascii = [None; 128];
        let mut news = new.chars();
        for char in old.chars() {
            let new = news.next();
            of_char.entry(char).or_insert(new);
            if let Some(slot) = of_ascii.get_mut(char as usize) {
                slot.get_or_insert(new);
            }
        }
        Translation { of_char, of_ascii }
    }

    fn write(&self, source: &str, made: &mut RowText) -> Result<()> {
        for char in source.chars() {
            let new = match self.of_ascii.get(char as usize) {
                Some(new) => *new,
                None => self.of_char.get(&char).copied(),
            };
            if let Some(char) = new.unwrap_or(Some(char)) {
                made.push_char(char)?;
            }
        }
        Ok(())
    }
}

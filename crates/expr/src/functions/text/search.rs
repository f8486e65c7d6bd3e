//! Functions that search one text in another.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use memchr::memmem::Finder;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, booleans, numbers};

pub(super) fn strpos(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, wanted) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let position = |text: &str, at: Option<usize>| at.map_or(0, |at| text[..at].chars().count() as i32 + 1);
    if let Some(wanted) = wanted.constant() {
        let finder = Finder::new(wanted);
        return numbers::<Int32Type>(arguments, kind, rows, |row| {
            let text = texts.at(row);
            Ok(position(text, finder.find(text.as_bytes())))
        });
    }
    numbers::<Int32Type>(arguments, kind, rows, |row| {
        let text = texts.at(row);
        Ok(position(text, text.find(wanted.at(row))))
    })
}

pub(super) fn contains(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, wanted) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    if let Some(wanted) = wanted.constant() {
        let finder = Finder::new(wanted);
        return booleans(arguments, rows, |row| finder.find(texts.at(row).as_bytes()).is_some());
    }
    booleans(arguments, rows, |row| texts.at(row).contains(wanted.at(row)))
}

pub(super) fn starts_with(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, wanted) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    booleans(arguments, rows, |row| texts.at(row).starts_with(wanted.at(row)))
}

pub(super) fn ends_with(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, wanted) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    booleans(arguments, rows, |row| texts.at(row).ends_with(wanted.at(row)))
}

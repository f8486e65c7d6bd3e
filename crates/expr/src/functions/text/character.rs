//! Functions of characters and their numbers, and of hexadecimal digits.

use std::fmt::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type, UInt64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::functions::rowwise::{NumberArgument, TextArgument, bigints, numbers, texts};

pub(super) fn ascii(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let texts = TextArgument::new(&arguments[0]);
    numbers::<Int32Type>(arguments, kind, rows, |row| Ok(texts.at(row).chars().next().map_or(0, |char| char as i32)))
}

pub(super) fn chr(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let numbers = bigints(&arguments[0]);
    texts("chr", arguments, rows, |row, made| {
        let number = numbers.at(row);
        match u32::try_from(number).ok().and_then(char::from_u32) {
            Some(char) => made.push_char(char),
            None => {
                let message = format!("chr: Unicode has no character with the number {number}");
                Err(Error::new(ErrorKind::InvalidParameter, message))
            }
        }
    })
}

pub(super) fn to_hex(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if *arguments[0].values.data_type() == DataType::UInt64 {
        let numbers = NumberArgument::new::<UInt64Type>(&arguments[0]);
        return hexadecimal(arguments, rows, |row| numbers.at(row));
    }
    let numbers = bigints(&arguments[0]);
    hexadecimal(arguments, rows, |row| numbers.at(row) as u64)
}

fn hexadecimal(arguments: &[Operand], rows: usize, number: impl Fn(usize) -> u64) -> Result<ArrayRef> {
    texts("to_hex", arguments, rows, |row, made| {
        write!(made.text(), "{:x}", number(row)).expect("writing to a String does not fail");
        Ok(())
    })
}

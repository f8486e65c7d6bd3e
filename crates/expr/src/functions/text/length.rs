//! Functions that return lengths of texts and BLOBs.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array};
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, numbers};
use crate::functions::signatures::BLOB;

pub(super) fn length(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if *arguments[0].values.data_type() == BLOB {
        return octet_length(arguments, kind, rows);
    }
    let texts = TextArgument::new(&arguments[0]);
    numbers::<arrow::datatypes::Int32Type>(arguments, kind, rows, |row| Ok(texts.at(row).chars().count() as i32))
}

pub(super) fn octet_length(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    // No text has two gigabytes, so its length fits an INTEGER.
    let lengths = byte_lengths(&arguments[0], rows).map(|length| length.map(|length| length as i32));
    Ok(Arc::new(lengths.collect::<Int32Array>()))
}

pub(super) fn bit_length(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lengths = byte_lengths(&arguments[0], rows).map(|length| length.map(|length| i64::from(length) * 8));
    Ok(Arc::new(lengths.collect::<Int64Array>()))
}

/// Returns the bytes of each value without reading it, because a view begins with its length.
fn byte_lengths(operand: &Operand, rows: usize) -> impl Iterator<Item = Option<u32>> {
    let views = match operand.values.data_type() {
        DataType::Utf8View => operand.values.as_string_view().views(),
        _ => operand.values.as_binary_view().views(),
    };
    (0..rows).map(|row| operand.at(row)).map(|row| operand.values.is_valid(row).then_some(views[row] as u32))
}

//! Functions that concatenate texts and BLOBs.

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::result_limit::ResultLimit;
use crate::functions::rowwise::{BytesArgument, TextArgument, blobs, texts, texts_where};

pub(super) fn text_concat(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let parts: Vec<TextArgument<'_>> = arguments.iter().map(TextArgument::new).collect();
    texts("||", arguments, rows, |row, made| parts.iter().try_for_each(|part| made.push(part.at(row))))
}

pub(super) fn blob_concat(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let parts: Vec<BytesArgument<'_>> = arguments.iter().map(BytesArgument::new).collect();
    let limit = ResultLimit::of("||");
    let mut bytes = 0;
    blobs(arguments, rows, |row, made| {
        bytes += parts.iter().map(|part| part.at(row).len()).sum::<usize>();
        // The limit must be checked before the row is written.
        limit.check(bytes as u128)?;
        parts.iter().for_each(|part| made.extend_from_slice(part.at(row)));
        Ok(())
    })
}

pub(super) fn concat(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let parts: Vec<TextArgument<'_>> = arguments.iter().map(TextArgument::new).collect();
    texts_where("concat", &None, rows, |row, made| {
        parts.iter().filter_map(|part| part.get(row)).try_for_each(|part| made.push(part))
    })
}

pub(super) fn concat_ws(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (separators, arguments) = (&arguments[0], &arguments[1..]);
    if separators.is_constant && separators.values.is_null(0) {
        return Ok(new_null_array(kind, rows));
    }
    let valid: Option<NullBuffer> =
        if separators.is_constant { None } else { separators.values.as_string_view().nulls().cloned() };
    let separators = TextArgument::new(separators);
    let parts: Vec<TextArgument<'_>> = arguments.iter().map(TextArgument::new).collect();
    texts_where("concat_ws", &valid, rows, |row, made| {
        let separator = separators.at(row);
        let mut is_first = true;
        for part in parts.iter().filter_map(|part| part.get(row)) {
            if !is_first {
                made.push(separator)?;
            }
            is_first = false;
            made.push(part)?;
        }
        Ok(())
    })
}

//! Casts between all types.
//!
//! A value that does not fit fails the cast, or becomes NULL under TRY_CAST. Values under a NULL are never converted.
//! [`crate::typing::can_cast`] lists the supported casts.

mod json;
mod nested;
mod numbered;
mod numbers;
mod times;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewBuilder, BooleanBufferBuilder, FixedSizeBinaryBuilder,
    PrimitiveArray, StringViewBuilder, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, NumberedType, Result, is_json};

use crate::json::texts_of;
use crate::kinds::{arrow_failed, is_number, type_name};
use crate::text::{TextColumn, Unreadable, read_column};

pub(crate) use nested::struct_places;

/// Casts the values of `array` to `kind`. With `or_null`, a value that cannot be cast becomes NULL.
pub fn cast(array: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    use DataType::{
        BinaryView, Boolean, Date32, FixedSizeBinary, List, Map, Null, Struct, Time64, Timestamp, Utf8View,
    };
    let from = array.data_type();
    if from == kind {
        return Ok(Arc::clone(array));
    }
    match (from, kind) {
        (Null, _) => Ok(new_null_array(kind, array.len())),
        (Utf8View, _) => {
            let unreadable = if or_null { Unreadable::IsNull } else { Unreadable::Fails };
            read_column(array.as_string_view(), kind, unreadable)
        }
        (from, Utf8View) if is_json(from) => Ok(Arc::new(texts_of(array))),
        (_, Utf8View) => write_texts(array),
        (from, to) if is_json(from) => json::read_documents(array, to, or_null),
        (_, to) if is_json(to) => json::write_documents(array),
        (Boolean, to) if is_number(to) => {
            let digits = arrow::compute::cast(array, &DataType::Int8).map_err(arrow_failed)?;
            numbers::cast_number(&digits, kind, or_null)
        }
        (from, Boolean) if is_number(from) => numbers::to_boolean(array),
        (from, to) if is_number(from) && is_number(to) => numbers::cast_number(array, kind, or_null),
        (Date32, Timestamp(..)) => times::date_to_timestamp(array, kind, or_null),
        (Timestamp(..), Date32) => times::timestamp_to_date(array),
        (Timestamp(..), Time64(_)) => times::timestamp_to_time(array),
        (Timestamp(..), Timestamp(..)) => times::timestamp_to_timestamp(array, kind, or_null),
        (BinaryView, FixedSizeBinary(16)) => blob_to_uuid(array, or_null),
        (FixedSizeBinary(16), BinaryView) => uuid_to_blob(array),
        (BinaryView, to) if let Some(to) = NumberedType::of_arrow_with_bytes(to) => {
            numbered::of_blobs(array, to, or_null)
        }
        (from, BinaryView) if let Some(from) = NumberedType::of_arrow_with_bytes(from) => {
            numbered::to_blobs(array, from)
        }
        (List(_), List(item)) => nested::cast_list(array, item, or_null),
        (List(_), Map(entries, _)) => nested::to_arrow_map(array, entries),
        (Struct(_), Struct(fields)) => nested::cast_struct(array, fields, or_null),
        _ => {
            let message = format!("{} cannot be cast to {}", type_name(from), type_name(kind));
            Err(Error::new(ErrorKind::DatatypeMismatch, message))
        }
    }
}

/// Applies `convert` to every value of `values` that is not NULL. `failure` makes the error for a row without a result.
fn convert_values<A, T>(
    values: &[A],
    nulls: Option<&NullBuffer>,
    or_null: bool,
    convert: impl Fn(A) -> Option<T::Native>,
    failure: impl Fn(usize) -> Error,
) -> Result<PrimitiveArray<T>>
where
    A: Copy,
    T: ArrowPrimitiveType,
{
    // The loop only notes that a value failed, because a branch per row would cost more.
    let mut failed = false;
    let converted: Vec<T::Native> = values
        .iter()
        .map(|value| {
            let value = convert(*value);
            failed |= value.is_none();
            value.unwrap_or_default()
        })
        .collect();
    if !failed {
        return Ok(PrimitiveArray::new(converted.into(), nulls.cloned()));
    }
    // A value failed, but it may be under a NULL, where it does not count.
    let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let fails = |row: usize| convert(values[row]).is_none();
    if !or_null {
        return match (0..values.len()).find(|row| is_valid(*row) && fails(*row)) {
            Some(row) => Err(failure(row)),
            None => Ok(PrimitiveArray::new(converted.into(), nulls.cloned())),
        };
    }
    let mut valid = BooleanBufferBuilder::new(values.len());
    (0..values.len()).for_each(|row| valid.append(is_valid(row) && !fails(row)));
    Ok(PrimitiveArray::new(converted.into(), Some(NullBuffer::new(valid.finish()))))
}

/// Returns the text of one value, for an error.
fn shown(array: &ArrayRef, row: usize) -> String {
    crate::text::format(array, row).unwrap_or_default()
}

fn write_texts(array: &ArrayRef) -> Result<ArrayRef> {
    let column = TextColumn::new(array)?;
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for row in 0..array.len() {
        text.clear();
        match column.write(row, &mut text) {
            true => texts.try_append_value(&text).map_err(arrow_failed)?,
            false => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

fn blob_to_uuid(array: &ArrayRef, or_null: bool) -> Result<ArrayRef> {
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(array.len(), 16);
    for (row, blob) in array.as_binary_view().iter().enumerate() {
        match blob {
            Some(blob) if blob.len() == 16 => uuids.append_value(blob).map_err(arrow_failed)?,
            Some(_) if !or_null => {
                let message = format!("'{}' is not a value of type UUID", shown(array, row));
                return Err(Error::new(ErrorKind::InvalidText, message).hint("a UUID must have 16 bytes"));
            }
            _ => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
}

fn uuid_to_blob(array: &ArrayRef) -> Result<ArrayRef> {
    let mut blobs = BinaryViewBuilder::with_capacity(array.len());
    for uuid in array.as_fixed_size_binary() {
        blobs.append_option(uuid);
    }
    Ok(Arc::new(blobs.finish()))
}

#[cfg(test)]
mod tests;

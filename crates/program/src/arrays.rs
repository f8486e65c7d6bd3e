//! Converts values to Arrow arrays: for results that leave the program, and for rows of columnar tables.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryBuilder,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    StringViewArray, StringViewBuilder, UInt8Array, UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::concat;
use rowmill_base::{Error, Physical, Result, SqlType};
use rowmill_storage::keyed::{ValueRef, decode_nested, json_of_texts};
use rowmill_storage::of_ordered_bytes;

/// Makes an array of one value of a type.
pub fn array_of_value(kind: &SqlType, value: ValueRef<'_>) -> Result<ArrayRef> {
    array_of(kind, std::iter::once(value))
}

/// Collects values of one type in an array of [its Arrow type](SqlType::arrow).
pub(crate) fn array_of<'a>(kind: &SqlType, values: impl Iterator<Item = ValueRef<'a>> + Clone) -> Result<ArrayRef> {
    let int = |value| match value {
        ValueRef::Int(value) => Some(value),
        _ => None,
    };
    let uint = |value| match value {
        ValueRef::UInt(value) => Some(value),
        _ => None,
    };
    let float = |value| match value {
        ValueRef::Float(value) => Some(value),
        _ => None,
    };
    Ok(match Physical::of(kind) {
        Physical::Boolean => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            ValueRef::Bool(value) => Some(value),
            _ => None,
        }))),
        Physical::Int8 => Arc::new(Int8Array::from_iter(values.map(|value| int(value).map(|value| value as i8)))),
        Physical::Int16 => Arc::new(Int16Array::from_iter(values.map(|value| int(value).map(|value| value as i16)))),
        Physical::Int32 => {
            let values = Int32Array::from_iter(values.map(|value| int(value).map(|value| value as i32)));
            of_kind(Arc::new(values), kind)?
        }
        Physical::Int64 => of_kind(Arc::new(Int64Array::from_iter(values.map(int))), kind)?,
        Physical::UInt8 => Arc::new(UInt8Array::from_iter(values.map(|value| uint(value).map(|value| value as u8)))),
        Physical::UInt16 => Arc::new(UInt16Array::from_iter(values.map(|value| uint(value).map(|value| value as u16)))),
        Physical::UInt32 => Arc::new(UInt32Array::from_iter(values.map(|value| uint(value).map(|value| value as u32)))),
        Physical::UInt64 => Arc::new(UInt64Array::from_iter(values.map(uint))),
        Physical::Float32 => {
            Arc::new(Float32Array::from_iter(values.map(|value| float(value).map(|value| value as f32))))
        }
        Physical::Float64 => Arc::new(Float64Array::from_iter(values.map(float))),
        Physical::Decimal => {
            let values = Decimal128Array::from_iter(values.map(|value| match value {
                ValueRef::Decimal(value) => Some(value),
                _ => None,
            }));
            Arc::new(values.with_data_type(kind.arrow()))
        }
        Physical::Wide => {
            let values = Decimal256Array::from_iter(values.map(|value| match value {
                ValueRef::Bytes(bytes) => bytes.try_into().ok().map(of_ordered_bytes),
                _ => None,
            }));
            Arc::new(values.with_data_type(kind.arrow()))
        }
        Physical::Interval => Arc::new(IntervalMonthDayNanoArray::from_iter(values.map(|value| match value {
            ValueRef::Interval(value) => Some(value),
            _ => None,
        }))),
        Physical::Text => Arc::new(texts(values)),
        Physical::Blob => {
            let mut blobs = BinaryViewBuilder::new().with_fixed_block_size(block_bytes(values.clone()));
            values.for_each(|value| match value {
                ValueRef::Bytes(bytes) => blobs.append_value(bytes),
                _ => blobs.append_null(),
            });
            Arc::new(blobs.finish())
        }
        Physical::Uuid => {
            let mut uuids = FixedSizeBinaryBuilder::new(16);
            for value in values {
                match value {
                    ValueRef::Bytes(bytes) => uuids.append_value(bytes).map_err(failed)?,
                    _ => uuids.append_null(),
                }
            }
            Arc::new(uuids.finish())
        }
        Physical::Nested if *kind == SqlType::Json => return json_of_texts(texts(values)),
        Physical::Nested => return nested(kind, values),
    })
}

fn texts<'a>(values: impl Iterator<Item = ValueRef<'a>> + Clone) -> StringViewArray {
    let mut texts = StringViewBuilder::new().with_fixed_block_size(block_bytes(values.clone()));
    values.for_each(|value| match value {
        ValueRef::Text(text) => texts.append_value(text),
        _ => texts.append_null(),
    });
    texts.finish()
}

/// Bytes that a view holds itself.
const INLINE_BYTES: usize = 12;
/// Bytes of one block of a long array.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// The size of the blocks for the texts or bytes of an array: one block for all, unless they are many. Most results are
/// a few short texts, and the builder's own first block would be a hundred times as large.
fn block_bytes<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> u32 {
    let bytes = values.map(|value| match value {
        ValueRef::Text(text) => text.len(),
        ValueRef::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    let stored: usize = bytes.filter(|bytes| *bytes > INLINE_BYTES).sum();
    stored.clamp(1, BLOCK_BYTES_MAX) as u32
}

/// Changes the type of an array of integers. Arrow stores dates, times and timestamps as integers.
fn of_kind(numbers: ArrayRef, kind: &SqlType) -> Result<ArrayRef> {
    let wanted = kind.arrow();
    if *numbers.data_type() == wanted {
        return Ok(numbers);
    }
    let data = numbers.to_data().into_builder().data_type(wanted).build().map_err(failed)?;
    Ok(arrow::array::make_array(data))
}

fn nested<'a>(kind: &SqlType, values: impl Iterator<Item = ValueRef<'a>>) -> Result<ArrayRef> {
    let arrays = values.map(|value| match value {
        ValueRef::Bytes(bytes) => decode_nested(bytes, kind),
        _ => Ok(new_null_array(&kind.arrow(), 1)),
    });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    if arrays.is_empty() {
        return Ok(new_null_array(&kind.arrow(), 0));
    }
    let arrays: Vec<_> = arrays.iter().map(|array| &**array).collect();
    concat(&arrays).map_err(failed)
}

#[cold]
fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(error.to_string())
}

//! The values of an Arrow array, one at a time. Keys and rows of batches are made from them.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, StringViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, IntervalMonthDayNano};
use rowmill_base::{Error, Result, SqlType};

use super::ValueRef;
use super::form::ValueForm;
use super::nested::encode_nested;
use crate::wide::{WIDE_BYTES, ordered_bytes};

/// An array whose values are read as [`ValueRef`]s. The type is examined only once, when this is made.
#[derive(Debug)]
pub struct ColumnValues {
    nulls: Option<NullBuffer>,
    values: NativeValues,
}

#[derive(Debug)]
enum NativeValues {
    Bool(BooleanArray),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>),
    Interval(ScalarBuffer<IntervalMonthDayNano>),
    Uuid(FixedSizeBinaryArray),
    /// Ordered bytes, which the array does not have.
    Wide(Vec<[u8; WIDE_BYTES]>),
    Text(StringViewArray),
    Blob(BinaryViewArray),
    /// Stored bytes, which are encoded here because the array does not have them.
    Nested(Vec<Vec<u8>>),
}

impl ColumnValues {
    /// Makes a reader of the values of `array`, which must have the [Arrow type](SqlType::arrow) of `kind`.
    pub fn new(array: &ArrayRef, kind: &SqlType) -> Result<Self> {
        if *array.data_type() != kind.arrow() {
            return Err(Error::internal(format!("an array of {} where a {kind} is needed", array.data_type())));
        }
        let values = match ValueForm::of(kind) {
            ValueForm::Bool => NativeValues::Bool(array.as_boolean().clone()),
            ValueForm::Int { width: 1 } => NativeValues::Int8(natives(array)),
            ValueForm::Int { width: 2 } => NativeValues::Int16(natives(array)),
            ValueForm::Int { width: 4 } => NativeValues::Int32(natives(array)),
            ValueForm::Int { .. } => NativeValues::Int64(natives(array)),
            ValueForm::UInt { width: 1 } => NativeValues::UInt8(natives(array)),
            ValueForm::UInt { width: 2 } => NativeValues::UInt16(natives(array)),
            ValueForm::UInt { width: 4 } => NativeValues::UInt32(natives(array)),
            ValueForm::UInt { .. } => NativeValues::UInt64(natives(array)),
            ValueForm::Float32 => NativeValues::Float32(natives(array)),
            ValueForm::Float64 => NativeValues::Float64(natives(array)),
            ValueForm::Decimal { .. } => NativeValues::Decimal(natives(array)),
            ValueForm::Interval => NativeValues::Interval(natives(array)),
            ValueForm::Uuid => NativeValues::Uuid(array.as_fixed_size_binary().clone()),
            ValueForm::Wide { .. } => {
                NativeValues::Wide(natives(array).iter().map(|value| ordered_bytes(*value)).collect())
            }
            ValueForm::Text if *kind == SqlType::Json => {
                NativeValues::Text(array.as_struct().column(0).as_string_view().clone())
            }
            ValueForm::Text => NativeValues::Text(array.as_string_view().clone()),
            ValueForm::Blob => NativeValues::Blob(array.as_binary_view().clone()),
            ValueForm::Nested => {
                // Each nested value becomes a chunk of its own, like in a row.
                let rows = (0..array.len()).map(|row| match array.is_null(row) {
                    true => Ok(Vec::new()),
                    false => encode_nested(&array.slice(row, 1)),
                });
                NativeValues::Nested(rows.collect::<Result<_>>()?)
            }
        };
        Ok(ColumnValues { nulls: array.nulls().cloned(), values })
    }

    /// The value at position `row`.
    #[inline]
    pub fn get(&self, row: usize) -> ValueRef<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return ValueRef::Null;
        }
        match &self.values {
            NativeValues::Bool(values) => ValueRef::Bool(values.value(row)),
            NativeValues::Int8(values) => ValueRef::Int(values[row].into()),
            NativeValues::Int16(values) => ValueRef::Int(values[row].into()),
            NativeValues::Int32(values) => ValueRef::Int(values[row].into()),
            NativeValues::Int64(values) => ValueRef::Int(values[row]),
            NativeValues::UInt8(values) => ValueRef::UInt(values[row].into()),
            NativeValues::UInt16(values) => ValueRef::UInt(values[row].into()),
            NativeValues::UInt32(values) => ValueRef::UInt(values[row].into()),
            NativeValues::UInt64(values) => ValueRef::UInt(values[row]),
            NativeValues::Float32(values) => ValueRef::Float(values[row].into()),
            NativeValues::Float64(values) => ValueRef::Float(values[row]),
            NativeValues::Decimal(values) => ValueRef::Decimal(values[row]),
            NativeValues::Interval(values) => ValueRef::Interval(values[row]),
            NativeValues::Uuid(values) => ValueRef::Bytes(values.value(row)),
            NativeValues::Wide(values) => ValueRef::Bytes(&values[row]),
            NativeValues::Text(values) => ValueRef::Text(values.value(row)),
            NativeValues::Blob(values) => ValueRef::Bytes(values.value(row)),
            NativeValues::Nested(values) => ValueRef::Bytes(&values[row]),
        }
    }
}

fn natives<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

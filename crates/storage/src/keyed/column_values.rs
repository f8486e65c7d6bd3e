//! The values of an Arrow array, one at a time. Keys and rows of batches are made from them.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, StringViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, IntervalMonthDayNano};
use rowmill_base::{Error, Result, SqlType};

use super::ValueRef;
use super::form::Form;
use super::nested::encode_nested;

/// An array whose values are read as [`ValueRef`]s. The type is examined only once, when this is made.
#[derive(Debug)]
pub struct ColumnValues {
    nulls: Option<NullBuffer>,
    values: Values,
}

#[derive(Debug)]
enum Values {
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
        let values = match Form::of(kind) {
            Form::Bool => Values::Bool(array.as_boolean().clone()),
            Form::Int { width: 1 } => Values::Int8(natives(array)),
            Form::Int { width: 2 } => Values::Int16(natives(array)),
            Form::Int { width: 4 } => Values::Int32(natives(array)),
            Form::Int { .. } => Values::Int64(natives(array)),
            Form::UInt { width: 1 } => Values::UInt8(natives(array)),
            Form::UInt { width: 2 } => Values::UInt16(natives(array)),
            Form::UInt { width: 4 } => Values::UInt32(natives(array)),
            Form::UInt { .. } => Values::UInt64(natives(array)),
            Form::Float32 => Values::Float32(natives(array)),
            Form::Float64 => Values::Float64(natives(array)),
            Form::Decimal { .. } => Values::Decimal(natives(array)),
            Form::Interval => Values::Interval(natives(array)),
            Form::Uuid => Values::Uuid(array.as_fixed_size_binary().clone()),
            Form::Text => Values::Text(array.as_string_view().clone()),
            Form::Blob => Values::Blob(array.as_binary_view().clone()),
            Form::Nested => {
                // Each nested value becomes a chunk of its own, like in a row.
                let rows = (0..array.len()).map(|row| match array.is_null(row) {
                    true => Ok(Vec::new()),
                    false => encode_nested(&array.slice(row, 1)),
                });
                Values::Nested(rows.collect::<Result<_>>()?)
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
            Values::Bool(values) => ValueRef::Bool(values.value(row)),
            Values::Int8(values) => ValueRef::Int(values[row].into()),
            Values::Int16(values) => ValueRef::Int(values[row].into()),
            Values::Int32(values) => ValueRef::Int(values[row].into()),
            Values::Int64(values) => ValueRef::Int(values[row]),
            Values::UInt8(values) => ValueRef::UInt(values[row].into()),
            Values::UInt16(values) => ValueRef::UInt(values[row].into()),
            Values::UInt32(values) => ValueRef::UInt(values[row].into()),
            Values::UInt64(values) => ValueRef::UInt(values[row]),
            Values::Float32(values) => ValueRef::Float(values[row].into()),
            Values::Float64(values) => ValueRef::Float(values[row]),
            Values::Decimal(values) => ValueRef::Decimal(values[row]),
            Values::Interval(values) => ValueRef::Interval(values[row]),
            Values::Uuid(values) => ValueRef::Bytes(values.value(row)),
            Values::Text(values) => ValueRef::Text(values.value(row)),
            Values::Blob(values) => ValueRef::Bytes(values.value(row)),
            Values::Nested(values) => ValueRef::Bytes(&values[row]),
        }
    }
}

fn natives<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

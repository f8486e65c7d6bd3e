//! Borrowed values of parameters.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryBuilder, Float64Array,
    Int64Array, NullArray, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use rowmill_plan::Constant;
use rowmill_storage::keyed::ValueRef;

use crate::lifted::Literal;
use crate::program::ParameterKind;

/// The borrowed value of a parameter. A column of another type accepts it if it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// NULL
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
    /// A decimal number: all its digits, and how many of them come after the point.
    Decimal(i128, u8),
    /// A text. Values of all other types can be given as texts, too.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
    /// A point in time without a zone: microseconds since 1970.
    Timestamp(i64),
    /// A point in time as an instant: microseconds since 1970 in UTC.
    Instant(i64),
    /// A date: days since 1970.
    Date(i32),
    /// A time of day: microseconds since midnight.
    Time(i64),
    /// A UUID.
    Uuid(&'a [u8; 16]),
    /// A value of any other type, for example a list: an array of one row. Such a statement runs without a program.
    Array(&'a ArrayRef),
}

impl Param<'_> {
    /// Returns the kind of the value, on which the choice of a program depends.
    #[inline]
    pub(crate) fn kind(&self) -> ParameterKind {
        match self {
            Param::Null => ParameterKind::Null,
            Param::Boolean(_) => ParameterKind::Boolean,
            Param::Integer(_) => ParameterKind::Integer,
            Param::Double(_) => ParameterKind::Double,
            Param::Decimal(_, scale) => ParameterKind::Decimal(*scale),
            Param::Text(_) => ParameterKind::Text,
            Param::Blob(_) => ParameterKind::Blob,
            Param::Timestamp(_) => ParameterKind::Timestamp,
            Param::Instant(_) => ParameterKind::Instant,
            Param::Date(_) => ParameterKind::Date,
            Param::Time(_) => ParameterKind::Time,
            Param::Uuid(_) => ParameterKind::Uuid,
            Param::Array(_) => ParameterKind::Array,
        }
    }

    /// Converts the value to the form that the engine takes.
    pub fn to_constant(self) -> Constant {
        let array: ArrayRef = match self {
            Param::Null => Arc::new(NullArray::new(1)),
            Param::Boolean(value) => Arc::new(BooleanArray::from(vec![value])),
            Param::Integer(value) => Arc::new(Int64Array::from(vec![value])),
            Param::Double(value) => Arc::new(Float64Array::from(vec![value])),
            Param::Decimal(value, scale) => Arc::new(
                Decimal128Array::from(vec![value])
                    .with_data_type(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale as i8)),
            ),
            Param::Text(value) => Arc::new(StringViewArray::from(vec![value])),
            Param::Blob(value) => Arc::new(BinaryViewArray::from(vec![value])),
            Param::Timestamp(value) => Arc::new(TimestampMicrosecondArray::from(vec![value])),
            Param::Instant(value) => Arc::new(TimestampMicrosecondArray::from(vec![value]).with_timezone("UTC")),
            Param::Date(value) => Arc::new(Date32Array::from(vec![value])),
            Param::Time(value) => Arc::new(Time64MicrosecondArray::from(vec![value])),
            Param::Uuid(value) => {
                let mut uuid = FixedSizeBinaryBuilder::with_capacity(1, 16);
                uuid.append_value(value).expect("a UUID has 16 bytes");
                Arc::new(uuid.finish())
            }
            Param::Array(value) => Arc::clone(value),
        };
        Constant::new(array)
    }
}

impl<'a> Param<'a> {
    /// Converts the value to the form that programs take.
    #[inline]
    pub(crate) fn to_ref(self) -> ValueRef<'a> {
        match self {
            Param::Null => ValueRef::Null,
            Param::Boolean(value) => ValueRef::Bool(value),
            Param::Integer(value) | Param::Timestamp(value) | Param::Instant(value) | Param::Time(value) => {
                ValueRef::Int(value)
            }
            Param::Date(value) => ValueRef::Int(value.into()),
            Param::Double(value) => ValueRef::Float(value),
            Param::Decimal(value, _) => ValueRef::Decimal(value),
            Param::Text(value) => ValueRef::Text(value),
            Param::Blob(value) => ValueRef::Bytes(value),
            Param::Uuid(value) => ValueRef::Bytes(value),
            Param::Array(_) => unreachable!("a statement with such a parameter has no program"),
        }
    }
}

impl<'a> From<&'a Literal> for Param<'a> {
    fn from(literal: &'a Literal) -> Self {
        match literal {
            Literal::Integer(value) => Param::Integer(*value),
            Literal::Decimal(digits, scale) => Param::Decimal(*digits, *scale),
            Literal::Text(text) => Param::Text(text),
        }
    }
}

//! Borrowed values of parameters.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, NullArray, StringViewArray,
    TimestampMicrosecondArray,
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
    /// A text. Dates and UUIDs are also given as texts.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
    /// A point in time without a zone: microseconds since 1970.
    Timestamp(i64),
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
            Param::Integer(value) | Param::Timestamp(value) => ValueRef::Int(value),
            Param::Double(value) => ValueRef::Float(value),
            Param::Decimal(value, _) => ValueRef::Decimal(value),
            Param::Text(value) => ValueRef::Text(value),
            Param::Blob(value) => ValueRef::Bytes(value),
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

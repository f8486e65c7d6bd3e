//! Casts between numbered types and BLOB.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder, Decimal128Array, Decimal128Builder};
use arrow::datatypes::Decimal128Type;
use rowmill_base::{Error, ErrorKind, NumberedType, Result};

use super::shown;
use crate::kinds::arrow_failed;

pub(super) fn of_blobs(array: &ArrayRef, kind: &NumberedType, or_null: bool) -> Result<ArrayRef> {
    let mut numbers = Decimal128Builder::with_capacity(array.len());
    for (row, blob) in array.as_binary_view().iter().enumerate() {
        let number = blob.and_then(|blob| kind.native_of_bytes(blob));
        if number.is_none() && blob.is_some() && !or_null {
            let message = format!("'{}' is not a value of type {}", shown(array, row), kind.name);
            let hint = format!("a value of type {} has {} bytes", kind.name, kind.bytes);
            return Err(Error::new(ErrorKind::InvalidText, message).hint(hint));
        }
        numbers.append_option(number);
    }
    let numbers: Decimal128Array = numbers.finish().with_data_type(kind.arrow());
    Ok(Arc::new(numbers))
}

pub(super) fn to_blobs(array: &ArrayRef, kind: &NumberedType) -> Result<ArrayRef> {
    let mut blobs = BinaryViewBuilder::with_capacity(array.len());
    for number in array.as_primitive::<Decimal128Type>() {
        match number {
            Some(number) => kind.with_bytes(number, |bytes| blobs.try_append_value(bytes)).map_err(arrow_failed)?,
            None => blobs.append_null(),
        }
    }
    Ok(Arc::new(blobs.finish()))
}

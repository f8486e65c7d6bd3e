//! Casts between numbered types and BLOB.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewBuilder, PrimitiveBuilder};
use arrow::datatypes::{Decimal128Type, Decimal256Type};
use rowmill_base::{Error, ErrorKind, NumberedNative, NumberedType, Result};

use super::shown;
use crate::kinds::arrow_failed;

pub(super) fn of_blobs(array: &ArrayRef, kind: &NumberedType, or_null: bool) -> Result<ArrayRef> {
    match kind.is_wide() {
        true => of_blobs_as::<Decimal256Type>(array, kind, or_null),
        false => of_blobs_as::<Decimal128Type>(array, kind, or_null),
    }
}

fn of_blobs_as<T: ArrowPrimitiveType>(array: &ArrayRef, kind: &NumberedType, or_null: bool) -> Result<ArrayRef>
where
    T::Native: NumberedNative,
{
    let mut numbers = PrimitiveBuilder::<T>::with_capacity(array.len());
    for (row, blob) in array.as_binary_view().iter().enumerate() {
        let number = blob.and_then(|blob| kind.of_bytes(blob));
        if number.is_none() && blob.is_some() && !or_null {
            let message = format!("'{}' is not a value of type {}", shown(array, row), kind.name);
            let hint = format!("a value of type {} has {} bytes", kind.name, kind.bytes);
            return Err(Error::new(ErrorKind::InvalidText, message).hint(hint));
        }
        numbers.append_option(number.map(T::Native::of_number));
    }
    Ok(Arc::new(numbers.finish().with_data_type(kind.arrow())))
}

pub(super) fn to_blobs(array: &ArrayRef, kind: &NumberedType) -> Result<ArrayRef> {
    match kind.is_wide() {
        true => to_blobs_of::<Decimal256Type>(array, kind),
        false => to_blobs_of::<Decimal128Type>(array, kind),
    }
}

fn to_blobs_of<T: ArrowPrimitiveType>(array: &ArrayRef, kind: &NumberedType) -> Result<ArrayRef>
where
    T::Native: NumberedNative,
{
    let mut blobs = BinaryViewBuilder::with_capacity(array.len());
    for number in array.as_primitive::<T>() {
        match number {
            Some(number) => {
                let number = number.to_number();
                kind.with_bytes(number, |bytes| blobs.try_append_value(bytes)).map_err(arrow_failed)?;
            }
            None => blobs.append_null(),
        }
    }
    Ok(Arc::new(blobs.finish()))
}

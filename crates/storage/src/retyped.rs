//! The same values under another Arrow type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::{DataType, Decimal128Type};
use rowmill_base::{Error, Result};

/// Gives an array the type `kind`, which must differ from its own only by versions of ENUM types. No value changes.
pub fn retyped(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    if array.data_type() == kind {
        return Ok(Arc::clone(array));
    }
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    Ok(match (array.data_type(), kind) {
        (DataType::Decimal128(..), DataType::Decimal128(..)) => {
            Arc::new(array.as_primitive::<Decimal128Type>().clone().with_data_type(kind.clone()))
        }
        (DataType::List(_), DataType::List(item)) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = retyped(&values, item.data_type())?;
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls).map_err(failed)?)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().zip(fields).map(|(column, field)| retyped(column, field.data_type()));
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, nulls).map_err(failed)?)
        }
        (from, to) => return Err(Error::internal(format!("values of {from} are not values of {to}"))),
    })
}

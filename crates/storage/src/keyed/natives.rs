//! Makes Arrow arrays of values with a fixed width.

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use rowmill_base::{Error, Result};

/// Makes an array of the type `kind` from `values`, which must be of its native type.
pub(super) fn native_array<T: ArrowNativeType>(
    kind: DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let rows = values.len();
    let data = ArrayData::builder(kind).len(rows).add_buffer(Buffer::from_vec(values)).nulls(nulls).build();
    Ok(make_array(data.map_err(|error| Error::internal(error.to_string()))?))
}

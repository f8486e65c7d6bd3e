//! Arrow arrays of values of fixed width.

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use rowmill_base::{Error, Result};

/// The array of `values`, which are what arrays of `kind` hold.
pub(super) fn native_array<T: ArrowNativeType>(
    kind: DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let rows = values.len();
    let data = ArrayData::builder(kind).len(rows).add_buffer(Buffer::from_vec(values)).nulls(nulls).build();
    Ok(make_array(data.map_err(|error| Error::internal(error.to_string()))?))
}

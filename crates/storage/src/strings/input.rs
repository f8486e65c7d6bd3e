//! Converts Arrow's string and binary arrays to byte strings.

use arrow::array::{Array, AsArray, BinaryViewArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

/// The byte strings of one column of one block. Every Arrow string type is accepted. Views are shared and not copied.
#[derive(Clone, Debug)]
pub struct ByteStrings {
    views: BinaryViewArray,
}

impl ByteStrings {
    /// Takes the strings of `array`: any Arrow string or binary array except fixed-size ones, with at most
    /// [`super::VALUES_MAX`] rows.
    pub fn new(array: &dyn Array) -> Result<ByteStrings> {
        if array.len() > super::VALUES_MAX {
            return Err(Error::internal(format!("{} rows are too many for one chunk", array.len())));
        }
        let views = match array.data_type() {
            // From here on text is bytes. Its type is known from the column.
            DataType::Utf8View => array.as_string_view().clone().to_binary_view(),
            DataType::BinaryView => array.as_binary_view().clone(),
            DataType::Utf8 => StringViewArray::from(array.as_string::<i32>()).to_binary_view(),
            DataType::LargeUtf8 => StringViewArray::from(array.as_string::<i64>()).to_binary_view(),
            DataType::Binary => BinaryViewArray::from(array.as_binary::<i32>()),
            DataType::LargeBinary => BinaryViewArray::from(array.as_binary::<i64>()),
            other => return Err(Error::internal(format!("{other} is not a string type"))),
        };
        Ok(ByteStrings { views })
    }

    /// The number of rows, including NULL ones.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// The strings as Arrow's views.
    pub(super) fn views(&self) -> &BinaryViewArray {
        &self.views
    }

    /// Which rows are not NULL. `None` if no row is NULL.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.views.nulls().filter(|nulls| nulls.null_count() > 0)
    }

    /// The bytes of each row. A NULL row has none.
    pub(super) fn rows(&self) -> Vec<&[u8]> {
        let nulls = self.nulls();
        let row = |row| if nulls.is_some_and(|nulls| nulls.is_null(row)) { &[] } else { self.value(row) };
        (0..self.len()).map(row).collect()
    }

    /// The bytes of a row. Arbitrary for a NULL row.
    pub fn value(&self, row: usize) -> &[u8] {
        self.views.value(row)
    }
}

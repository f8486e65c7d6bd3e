//! The border where Arrow's string and binary arrays become byte strings.

use arrow::array::{Array, AsArray, BinaryViewArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

/// The byte strings of one column of one block. All of Arrow's string types come in; views are shared, not copied.
#[derive(Clone, Debug)]
pub struct ByteStrings {
    views: BinaryViewArray,
}

impl ByteStrings {
    /// The strings of `array`: any Arrow string or binary array but fixed-size ones. At most [`super::VALUES_MAX`] rows.
    pub fn new(array: &dyn Array) -> Result<ByteStrings> {
        if array.len() > super::VALUES_MAX {
            return Err(Error::internal(format!("{} rows in one chunk", array.len())));
        }
        let views = match array.data_type() {
            DataType::Utf8View => array.as_string_view().clone().to_binary_view(),
            DataType::BinaryView => array.as_binary_view().clone(),
            DataType::Utf8 => StringViewArray::from(array.as_string::<i32>()).to_binary_view(),
            DataType::LargeUtf8 => StringViewArray::from(array.as_string::<i64>()).to_binary_view(),
            DataType::Binary => BinaryViewArray::from(array.as_binary::<i32>()),
            DataType::LargeBinary => BinaryViewArray::from(array.as_binary::<i64>()),
            other => return Err(Error::internal(format!("{other} is no string type"))),
        };
        Ok(ByteStrings { views })
    }

    /// Rows, NULL ones included.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// True without any row.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// The strings as Arrow's views.
    pub(super) fn views(&self) -> &BinaryViewArray {
        &self.views
    }

    /// The rows that are not NULL; `None` if all are.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.views.nulls().filter(|nulls| nulls.null_count() > 0)
    }

    /// The bytes of each row, none of a NULL one.
    pub(super) fn rows(&self) -> Vec<&[u8]> {
        let nulls = self.nulls();
        let row = |row| if nulls.is_some_and(|nulls| nulls.is_null(row)) { &[] } else { self.value(row) };
        (0..self.len()).map(row).collect()
    }

    /// The bytes of a row; of a NULL row, whatever lies there.
    pub fn value(&self, row: usize) -> &[u8] {
        self.views.value(row)
    }
}

//! Rows as bytes that are equal exactly if the values are equal, and that sort like the values.
//!
//! NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0, at any depth of nesting. NULL sorts after all values.

use arrow::array::{Array, ArrayRef, make_array};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use rowmill_base::{Error, Result};
use rowmill_storage::canonical_floats;

/// Converts rows of certain types to bytes and back.
#[derive(Debug)]
pub(crate) struct RowKeys {
    /// `None` for rows without columns, which are all equal.
    converter: Option<RowConverter>,
}

/// Rows in the form of bytes.
#[derive(Debug)]
pub(crate) struct KeyRows(Option<Rows>);

impl RowKeys {
    /// Prepares to convert rows with columns of these types.
    pub(crate) fn new(kinds: impl IntoIterator<Item = DataType>) -> Result<RowKeys> {
        let options = SortOptions { descending: false, nulls_first: false };
        let fields: Vec<SortField> = kinds.into_iter().map(|kind| SortField::new_with_options(kind, options)).collect();
        let converter = (!fields.is_empty()).then(|| RowConverter::new(fields)).transpose().map_err(failed)?;
        Ok(RowKeys { converter })
    }

    /// Converts the rows of `columns` to bytes.
    pub(crate) fn encode(&self, columns: &[ArrayRef]) -> Result<KeyRows> {
        let Some(converter) = &self.converter else { return Ok(KeyRows(None)) };
        // Arrow compares the bits of floats, so equal floats must have equal bits.
        let columns = columns.iter().map(with_canonical_floats).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        converter.convert_columns(&columns).map(|rows| KeyRows(Some(rows))).map_err(failed)
    }

    /// Converts bytes back to the columns of their rows.
    pub(crate) fn decode<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let Some(converter) = &self.converter else { return Ok(Vec::new()) };
        let parser = converter.parser();
        converter.convert_rows(rows.map(|row| parser.parse(row))).map_err(failed)
    }
}

impl KeyRows {
    /// The bytes of a row.
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        match &self.0 {
            Some(rows) => rows.row(row).data(),
            None => &[],
        }
    }
}

/// Replaces NaNs by one NaN and zeros by one zero, at any depth of nesting.
pub(crate) fn with_canonical_floats(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !values.data_type().is_nested() {
        return Ok(canonical_floats(values));
    }
    let data = values.to_data();
    let children =
        data.child_data().iter().map(|child| Ok(with_canonical_floats(&make_array(child.clone()))?.to_data()));
    let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
    data.into_builder().child_data(children).build().map(make_array)
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot convert rows to or from bytes: {error}"))
}

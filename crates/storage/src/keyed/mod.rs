//! The bytes of keyed tables: keys that sort like SQL sorts their values, and compact rows whose fields are read in
//! place.
//!
//! A row of a keyed table consists of two byte strings: its key, which [`KeyCodec`] makes from the columns of the
//! primary key, and the other columns, which [`RowLayout`] describes. An entry of an index is a key alone, or a key
//! with a row of covered columns. Single values are passed as [`ValueRef`]s, and batches as Arrow arrays.

mod byte_rows;
mod column_values;
mod form;
mod key;
mod key_columns;
mod key_range;
mod natives;
mod nested;
mod row;
mod row_columns;
#[cfg(test)]
mod samples;
mod short_key;
mod unchecked_texts;
mod value;

pub use byte_rows::ByteRows;
pub use column_values::ColumnValues;
pub use key::{KeyCodec, KeyPart, KeyReader};
pub use key_range::KeyRange;
pub use nested::{decode_nested, json_of_texts};
pub use row::{RowLayout, RowView};
pub use short_key::{KeptParts, RangeFit, SHORT_BYTES, SHORT_PREFIX_BYTES};
pub use value::ValueRef;

//! The bytes of keyed tables: keys whose order is that of SQL.
//!
//! A row of a keyed table lies under its key, which [`KeyCodec`] makes of the columns of the primary key. Single values go in
//! and out as [`ValueRef`]s, batches as Arrow arrays.

mod byte_rows;
mod column_values;
mod form;
mod key;
mod key_columns;
mod key_range;
mod natives;
mod nested;
#[cfg(test)]
mod samples;
mod value;

pub use byte_rows::ByteRows;
pub use column_values::ColumnValues;
pub use key::{KeyCodec, KeyPart, KeyReader};
pub use key_range::{KeyRange, key_behind_prefix};
pub use nested::{decode_nested, encode_nested};
pub use value::ValueRef;

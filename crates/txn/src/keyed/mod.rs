//! Keyed tables: rows under keys, in the ordered base and, what was written since, in memory.
//!
//! A [`TableCodec`] makes keys and rows of values, a [`WriteSet`](write_set::WriteSet) has what a transaction has written,
//! [`VersionsByIndex`](versions_by_index::VersionsByIndex) what commits have, a [`Generation`](generation::Generation) what the base has; a [`Reader`] and a [`RangeScan`]
//! read all three as one, an [`IndexScan`] also the rows of entries that do not say enough.

mod alike;
mod arena;
mod cursor;
mod dead_ranges;
mod entry;
mod gap;
pub(crate) mod generation;
mod index_codec;
mod index_scan;
pub(crate) mod index_writes;
mod key_index;
mod key_path;
mod leaf_map;
mod order;
mod range_scan;
pub(crate) mod read_set;
mod reader;
mod row_counts;
mod row_reader;
mod run;
pub(crate) mod seat;
mod source;
pub(crate) mod store;
mod table_codec;
mod version_chains;
mod version_cursor;
mod version_table;
mod versions;
mod versions_by_index;
mod write_buffers;
pub(crate) mod write_set;

pub(crate) use cursor::CursorPlace;
pub use cursor::{KeyedCursor, KeyedRow, RowBatch};
pub(crate) use index_codec::IndexCodec;
pub use index_scan::{IndexEntry, IndexOrder, IndexScan};
pub(crate) use key_path::REFERENCE_COLUMNS_MAX;
pub use range_scan::RangeScan;
pub use reader::{KeyedView, Reader};
pub use row_reader::RowReader;
pub(crate) use source::KeyedTable;
pub use table_codec::TableCodec;
pub(crate) use table_codec::{HEAD_BYTES, column_values, index_head, index_of, not_keyed, say_value};
pub use version_cursor::{VersionBatch, VersionCursor};
pub use versions::{Found, Got, Versions};
pub(crate) use write_buffers::WriteBuffers;

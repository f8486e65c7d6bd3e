//! Keyed tables: rows stored under keys, in the ordered base and, for recent writes, in memory.
//!
//! A [`TableCodec`] converts values to keys and rows and back. Rows come from three places:
//!
//! * A [`WriteSet`](write_set::WriteSet) holds the writes of one transaction.
//! * [`VersionsByIndex`](versions_by_index::VersionsByIndex) holds the writes of commits that the base does not have
//!   yet.
//! * A [`Generation`](generation::Generation) is one state of the ordered base.
//!
//! A [`Reader`] and a [`RangeScan`] merge all three. An [`IndexScan`] also reads the rows of index entries that do not
//! contain everything it needs.
mod alike;
mod arena;
pub(crate) mod changed_counts;
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
mod recent_keys;
mod row_counts;
mod row_lookups;
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
pub use range_scan::{RangeScan, RowTest};
pub use reader::{KeyedReader, KeyedView};
pub use row_lookups::RowLookups;
pub use row_reader::RowReader;
pub(crate) use source::KeyedTable;
pub use table_codec::TableCodec;
pub(crate) use table_codec::{HEAD_BYTES, column_values, index_head, index_of, not_keyed, say_value};
pub use version_cursor::{VersionBatch, VersionCursor};
pub use versions::{Got, Versions, Visibility};
pub(crate) use write_buffers::WriteBuffers;

//! Storage: the columns of a table as files, and its rows as sealed blocks and open runs.
//!
//! From the outside in: a scan reads a [`TableSource`], which consists of [`Block`]s and [`OpenRun`]s. A block has one
//! [`chunk::Chunk`] per column, in an [`Extent`] of the column's [`ColumnFile`]. All I/O must go through
//! [`rowmill_io::Disk`].
//!
//! The modules, in the order in which a scan meets them:
//!
//! - `schema`, `time_table`, `calendar`: definitions of tables, and the units of time tables. `source`: the interface
//!   through which the engine scans them.
//! - `block`, `block_owner`, `row_mask`: sealed rows, the owner that their chunks name, and masks of rows.
//! - `chunk`: one column of one block. `encoding`: the ways in which chunks store their rows, a file or folder each.
//! - `documents`: JSON documents cut into the scalars at frequent paths and the rest. `column_part`: columns of a
//!   statement that are such a part.
//! - `sequence`, `strings`, `floats`, `wide`: the bytes of integers, strings, floats, and numbers of 256 bits.
//! - `column_file`, `extent`: the file of a column, and the allocator of its space.
//! - `open_run`, `run_codec`: recent rows, in memory and as bytes. `retyped`: values under a changed type.
//! - `block_writer`, `time_order`: makes a block of rows, those of a time table in the order of time.
//! - `keyed`: the bytes of keys and rows of keyed tables. `statistics`: the results of ANALYZE.
//! - `unique_integers`: proves that a column is unique. `shared_work`: pieces of work that threads share.
//! - `spill`: temporary files of operators that are short of memory.

mod block;
mod block_owner;
mod block_writer;
mod calendar;
pub mod chunk;
mod column_file;
mod column_part;
mod documents;
mod encoding;
mod extent;
mod floats;
pub mod keyed;
mod open_run;
mod retyped;
mod row_mask;
pub mod run_codec;
mod schema;
mod sequence;
mod shared_work;
mod source;
pub mod spill;
mod statistics;
pub mod strings;
mod time_order;
mod time_table;
mod unique_integers;
mod wide;

pub use block::{Block, FreedExtents, ROW_NUMBERS, ROW_NUMBERS_NAME, RowNumbers, StoredChunk};
pub use block_owner::BlockOwner;
pub use block_writer::{BlockSource, ColumnTarget, ROWS_PER_BLOCK_MAX, write_block};
pub use calendar::{date_of_moment, moment_of_date};
pub use column_file::ColumnFile;
pub use column_part::{ColumnPart, FoundPart, PartForm, PartReader, PlannedParts, WantedPart, stored_part};
pub use documents::PartType;
pub use extent::{Extent, PAGE_BYTES};
pub use floats::canonical_floats;
pub use open_run::{OpenRun, RunsInBytes, concat_values, repeat_missing, value_bytes};
pub use retyped::retyped;
pub use row_mask::RowMask;
pub use schema::{
    CheckDef, ColumnDef, ColumnSpec, ForeignKeyDef, GeneratedDef, IdentityDef, IndexDef, KeyColumn, KeyedDef,
    ReferentialAction, Referrer, RowRules, SequenceDef, TableDef,
};
pub use shared_work::each_piece;
pub use source::{KeyBounds, KeyOrder, KeyRanges, KeyedRows, KeyedSource, RowRunTaker, TableSource};
pub use statistics::{
    BUCKETS_MAX, ColumnStatistics, EQUAL_SHARE, FREQUENT_MAX, LOOKED_UP_ROWS, RANGE_SHARE, SAMPLE_ROWS,
    StatisticsCollector, TableStatistics, VALUE_KEY_BYTES_MAX, ValueKeys, cardinality, place_between,
};
pub use time_order::{TimeOrdered, time_order, times_of};
pub use time_table::{CalendarUnit, TimeTableDef, TimeToLive};
pub use unique_integers::has_unique_integers;
pub use wide::{WIDE_BYTES, of_ordered_bytes};

//! Files that statements read and write: Parquet, CSV, JSON lines and Arrow IPC.
//!
//! A statement names one file or a pattern. [`FileSet::open`] finds the files, learns their columns and promises that
//! they agree; from there on a set reads as one. There are three ways to read it:
//!
//! - [`FileSet::batches`]: record batches of given columns, for `COPY ... FROM`. Columns are found by name (by position
//!   in CSV without a header), values are converted to the columns' types, and a value that does not fit is an error
//!   that names file, line, column, text and type, or a [`Reject`].
//! - [`FileSet::parquet_blocks`]: the same for large loads of Parquet. A block's columns are decoded one by one, by the
//!   threads that encode them, so that no thread waits and no whole block is ever in memory.
//! - [`rows::FileRows`]: rows of a query, for `SELECT ... FROM 'file'`.
//!
//! ```text
//! pattern ─► SourceFile ─┬─ parquet_file ─► column streams ─► block, column by column
//!            (sorted)    ├─ ipc_file ─────► record batches ─► convert ─┐
//!                        ├─ text_source ─► chunks ─► csv_reader  ──────┼─► RecordBatch of the target
//!                        └─ text_source ─► chunks ─► json_reader ──────┘
//! ```
//!
//! Text is cut into chunks of whole records under a short lock; a chunk is parsed by whoever took it, column by column.
//! Nothing read from a file is trusted: a damaged file is an error, and a decoder that panics on one is caught.
//!
//! Writing goes through [`writer`], which writes beside its destination and renames at the end, so that a failed
//! `COPY ... TO` leaves nothing behind.

mod bad_rows;
mod bloom_filter;
mod column_builder;
pub mod convert;
mod csv_dialect;
mod csv_reader;
mod csv_scan;
mod file_set;
mod guard;
mod ipc_file;
mod jobs;
mod json_reader;
mod json_scan;
mod kept_rows;
mod mapping;
mod options;
mod parquet_blocks;
mod parquet_file;
mod parquet_scan;
mod parquet_zones;
mod pattern;
mod piece_rows;
pub mod report;
pub mod rows;
mod source_file;
mod text_source;
mod type_guess;
mod write;
mod write_binary;
mod write_text;

pub use file_set::{FileColumn, FileSet};
pub use jobs::{Batches, Progress};
pub use mapping::TargetColumn;
pub use options::{Compression, FileFormat, OnError, ReadOptions, unknown_option};
pub use parquet_blocks::{ParquetBlock, ParquetBlocks};
pub use report::{Reject, RejectSink};
pub use write::{BatchWriter, WriteCompression, WriteOptions, Written, writer, writer_to};

#[cfg(test)]
mod tests;

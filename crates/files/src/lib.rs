//! Reads and writes files for statements: Parquet, CSV, JSON lines and Arrow IPC.
//!
//! A statement names one file or a pattern. [`FileSet::open`] finds the files, learns their columns and checks that
//! they agree. After that, the set reads like one file. There are three ways to read it:
//!
//! - [`FileSet::batches`]: record batches of given columns, for `COPY ... FROM`. Columns are found by name (by position
//!   in CSV without a header), and values are converted to the types of the columns. If a value does not fit, we return
//!   an error that names file, line, column, text and type, or report a [`Reject`].
//! - [`FileSet::parquet_blocks`]: blocks of given columns, for large loads of Parquet. The threads that encode a column
//!   also decode it, so that no thread waits and no whole block is ever in memory.
//! - [`rows::FileRows`]: rows of a query, for `SELECT ... FROM 'file'`. Workers share the row groups of Parquet files.
//!   Row groups and pages that statistics, Bloom filters or page indexes exclude are not read. Other formats are read
//!   piece by piece.
//!
//! ```text
//! pattern ─► SourceFile ─┬─ parquet_file ─┬► column streams ─► block, column by column
//!            (sorted)    │                └► parquet_scan ───────────────► RecordBatch of a query
//!                        ├─ ipc_file ─────► record batches ─► convert ─┐
//!                        ├─ text_source ─► chunks ─► csv_reader  ──────┼─► RecordBatch of the target
//!                        └─ text_source ─► chunks ─► json_reader ──────┘
//! ```
//!
//! Text is cut into chunks of whole records under a short lock, and the thread that took a chunk parses it column by
//! column. We trust nothing that comes from a file: a damaged file must give an error, and if a decoder panics, the
//! panic is caught.
//!
//! [`writer`] writes to a temporary file next to the destination and renames it at the end, so that a failed `COPY ...
//! TO` leaves no file. [`stream_writer`] writes these formats to a stream, for the answers of a server.
//!
//! The modules, in the order in which data flows:
//!
//! - `options`, `folders`, `secret`: the options of a statement, and what it may read. `url_name`, `pattern`,
//!   `location`, `source_file`: the files that it names. `input_file`, `ahead`: their bytes.
//! - `remote`, under the feature of its name: files over HTTP and of S3.
//! - `file_set`, `mapping`: several files as one, and the mapping from their columns to the target's.
//!   `file_union`, `union_predicates`: files with different columns as rows of a query, and columns that paths tell.
//! - `parquet_file`, `parquet_blocks`: Parquet column by column. `parquet_scan`, `parquet_zones`, `bloom_filter`:
//!   Parquet by row groups, and the parts that need not be read.
//! - `ipc_file`: Arrow.
//! - `text_source`, `csv_dialect`, `csv_scan`, `csv_reader`, `json_reader`: text in chunks, then fields, then columns.
//!   `type_guess` finds the types.
//! - `jobs`, `piece_rows`, `rows`: the threads that decode the pieces, in a load or in a query.
//! - `convert`: from the types of files to SQL types. `guard`: limits the effects of damaged files.
//! - `sqlite`, under the feature of its name: tables of SQLite databases as rows of a query.
//! - `report`, `bad_rows`, `kept_rows`: errors and rejects for lines that cannot be read, and the remaining rows.
//! - `write`, `write_text`, `write_binary`: writing files.

mod ahead;
mod bad_rows;
mod bloom_filter;
pub mod convert;
mod csv_dialect;
mod csv_reader;
mod csv_scan;
mod file_set;
mod file_union;
mod folders;
mod guard;
mod input_file;
mod ipc_file;
mod jobs;
mod json_reader;
mod kept_rows;
mod location;
mod mapping;
mod options;
mod parquet_blocks;
mod parquet_file;
mod parquet_scan;
mod parquet_zones;
mod pattern;
mod piece_rows;
#[cfg(feature = "remote")]
mod remote;
#[cfg(not(feature = "remote"))]
#[path = "no_remote.rs"]
mod remote;
pub mod report;
pub mod rows;
mod secret;
mod source_file;
#[cfg(feature = "sqlite")]
mod sqlite;
mod text_source;
mod type_guess;
mod union_predicates;
mod url_name;
mod write;
mod write_binary;
mod write_text;

pub use file_set::{FileColumn, FileSet};
pub use file_union::{FileUnion, UnionOptions};
pub use folders::FileFolders;
pub use jobs::{Batches, ReadProgress};
pub use mapping::TargetColumn;
pub use options::{Compression, FileFormat, OnError, ReadOptions, switch, unknown_option};
pub use parquet_blocks::{ParquetBlock, ParquetBlocks};
pub use report::{Reject, RejectSink};
pub use secret::{Secret, SecretKind, Secrets};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteFile, SqliteTable};
pub use url_name::is_url;
pub use write::{BatchWriter, WriteCompression, WriteOptions, Written, stream_writer, writer};

#[cfg(test)]
mod tests;

//! Spilled state: bytes that an operator writes to temporary files because memory is short, and reads back later.
//!
//! ```text
//!   writer ── frames ──► spill file: in memory while it is small, then on disk
//!                           ▲
//!   section ── reader ──────┘   a part of the file that is read from its start to its end
//! ```
//!
//! - `space`: the folder of a database's temporary files, their quota, and the list of them.
//! - `file`: one spill file. It never changes once it can be read.
//! - `frame`: a piece of a file with its checksum, compressed if that makes it smaller.
//! - `writer`, `section`: write and read.
//! - `batches`: frames with batches of rows.
//! - `named_file`: a temporary file with a path, for readers that take one.
//! - `column_files`: temporary column files, for blocks.
//! - `overflow`: memory that goes on in a temporary file.
//!
//! A flush of few bytes is not worth a file, because a file costs some system calls. The writer therefore gathers
//! flushes in memory until they have `spill_file_bytes_min` bytes. A large flush is written while it is made, so a
//! writer never holds more than that setting and one write.
//!
//! Files are not synced: they are of no use after a crash. The folder of a process has a lock, so that another process
//! can tell the folders of dead processes, and removes them.

mod batches;
mod column_files;
mod file;
mod folder;
mod frame;
mod named_file;
mod overflow;
mod section;
mod space;
#[cfg(test)]
mod tests;
mod writer;

pub use batches::BatchCodec;
pub use column_files::TempColumnFiles;
pub use named_file::NamedTempFile;
pub use section::{SectionReader, SpillSection};
pub use space::{SpillFileInfo, SpillMeter, TempSpace};
pub use writer::SpillWriter;

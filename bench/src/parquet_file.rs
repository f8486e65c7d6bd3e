//! Writes a table as Parquet on all cores. The bytes must not depend on the number of cores.
//!
//! The table comes as row groups that can be made one by one. Each worker takes the next group, makes it batch by batch
//! and encodes every batch at once, so that only encoded bytes have to be kept. The groups are appended to the file in
//! order. A worker stops if it is ahead of the file by more groups than there are workers, which bounds the memory to
//! about two encoded groups per worker.
//!
//! The file gets its name only when it is complete, so that a failed write leaves no broken file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use rowmill_base::{Error, ErrorKind, Result};

/// A table that can be made in parts.
pub trait RowGroups: Sync {
    /// The columns.
    fn schema(&self) -> SchemaRef;
    /// The number of row groups.
    fn count(&self) -> usize;
    /// The number of rows, exact or approximate.
    fn rows(&self) -> u64;
    /// Makes one row group, and passes its columns to `sink`, batch by batch.
    fn generate(&self, group: usize, sink: &mut dyn FnMut(Vec<ArrayRef>) -> Result<()>) -> Result<()>;
}

/// A function that gets the number of rows of each encoded batch.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Writes `table` to `path` with `threads` workers.
pub fn write(table: &dyn RowGroups, path: &Path, threads: usize, progress: Progress<'_>) -> Result<()> {
    // We write under another name and rename at the end, so that a file with the right name is always complete.
    let unfinished = PathBuf::from(format!("{}.unfinished", path.display()));
    let result = write_file(table, &unfinished, threads, progress)
        .and_then(|()| fs::rename(&unfinished, path).map_err(|error| Error::io(path.display(), &error)));
    if result.is_err() {
        // We report the first error. A failure to remove the remains would add nothing to it.
        _ = fs::remove_file(&unfinished);
    }
    result
}

fn write_file(table: &dyn RowGroups, path: &Path, threads: usize, progress: Progress<'_>) -> Result<()> {
    let failed = |error: ParquetError| write_error(path, &error);
    let file = File::create(path).map_err(|error| Error::io(path.display(), &error))?;
    let schema = table.schema();
    let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties(&schema))).map_err(failed)?;
    let (mut file, encoders) = writer.into_serialized_writer().map_err(failed)?;
    // One group more than there are workers may be ahead, so that a worker need not stop as soon as it has finished
    // one.
    let line = Line::new(table.count(), threads.max(1) + 1);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let _stop = StopOnPanic(&line);
                while let Some(group) = line.take() {
                    line.put(group, encode(table, group, &encoders, path, progress));
                }
            });
        }
        let appended = append_all(&mut file, &line, path);
        // Workers may be waiting for room. Without this, an error in the writer would leave them waiting forever.
        line.stop();
        appended
    })?;
    // The file must be on disk before the caller renames it; otherwise a crash could leave an incomplete file under the
    // name.
    let file = file.into_inner().map_err(failed)?;
    file.sync_all().map_err(|error| Error::io(path.display(), &error))
}

/// Returns the properties of the file: Snappy pages, and dictionaries for all columns except those whose values hardly
/// repeat.
fn properties(schema: &SchemaRef) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None)
        .set_created_by(format!("rowmill-bench {}", env!("CARGO_PKG_VERSION")));
    // Nearly every value of these columns is different, so a dictionary would only cost space.
    for name in ["WatchID", "HID", "URLHash", "RefererHash"] {
        if schema.field_with_name(name).is_ok_and(|field| field.data_type() != &DataType::Utf8) {
            properties = properties.set_column_dictionary_enabled(name.into(), false);
        }
    }
    properties.build()
}

type Encoded = Vec<ArrowColumnChunk>;

fn encode(
    table: &dyn RowGroups,
    group: usize,
    encoders: &ArrowRowGroupWriterFactory,
    path: &Path,
    progress: Progress<'_>,
) -> Result<Encoded> {
    let failed = |error: ParquetError| write_error(path, &error);
    let schema = table.schema();
    let mut columns = encoders.create_column_writers(group).map_err(failed)?;
    table.generate(group, &mut |arrays| {
        // We encode each batch at once, so that at most one batch of a group is in memory unencoded.
        let rows = arrays.first().map_or(0, |array| array.len());
        for ((array, field), column) in arrays.iter().zip(schema.fields()).zip(&mut columns) {
            for leaf in compute_leaves(field, array).map_err(failed)? {
                column.write(&leaf).map_err(failed)?;
            }
        }
        progress(rows as u64);
        Ok(())
    })?;
    columns.into_iter().map(|column| column.close().map_err(failed)).collect()
}

fn append_all(file: &mut SerializedFileWriter<File>, line: &Line, path: &Path) -> Result<()> {
    let failed = |error: ParquetError| write_error(path, &error);
    for group in 0..line.count {
        let columns = line.wait_for(group)?;
        let mut row_group = file.next_row_group().map_err(failed)?;
        for column in columns {
            column.append_to_row_group(&mut row_group).map_err(failed)?;
        }
        row_group.close().map_err(failed)?;
    }
    Ok(())
}

fn write_error(path: &Path, error: &ParquetError) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {error}", path.display()))
        .hint("Is there space left on the disk, and may the file be written?")
}

/// The encoded groups on their way from the workers to the thread that appends them.
struct Line {
    count: usize,
    ahead_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next group to encode.
    next: usize,
    /// The next group to append.
    wanted: usize,
    encoded: BTreeMap<usize, Result<Encoded>>,
    stopped: bool,
}

impl Line {
    fn new(count: usize, ahead_max: usize) -> Line {
        Line { count, ahead_max, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock, so the state is consistent even if the lock is poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.lock(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a group to encode, once it is not too far ahead of the file. Returns `None` if no groups are left.
    fn take(&self) -> Option<usize> {
        let mut state = self.wait_while(|state| !state.stopped && state.next >= state.wanted + self.ahead_max);
        // We test `stopped` after the wait, because `stop` also ends the wait.
        let group = state.next;
        if state.stopped || group >= self.count {
            return None;
        }
        state.next += 1;
        Some(group)
    }

    fn put(&self, group: usize, encoded: Result<Encoded>) {
        self.lock().encoded.insert(group, encoded);
        self.changed.notify_all();
    }

    /// Returns the encoded group number `group`, which must be the next one to append.
    fn wait_for(&self, group: usize) -> Result<Encoded> {
        let mut state = self.wait_while(|state| !state.stopped && !state.encoded.contains_key(&group));
        // The writer has taken this group, so workers may run ahead by one more.
        state.wanted = group + 1;
        self.changed.notify_all();
        state.encoded.remove(&group).unwrap_or_else(|| Err(Error::internal("a worker panicked while it made rows")))
    }

    /// Lets the workers end.
    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

/// Wakes the other threads if its thread panics, so that no thread waits for a group that never comes.
struct StopOnPanic<'a>(&'a Line);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

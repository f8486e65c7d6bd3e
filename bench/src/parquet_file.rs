//! Writes a table as Parquet on all cores, with bytes that do not depend on their number.
//!
//! The table comes as row groups that can be produced one by one. Each worker takes the next group, produces it batch by
//! batch and encodes every batch at once, so that only encoded bytes wait; the groups are appended to the file in order.
//! Workers stop where they are further ahead of the file than their number, which bounds the memory to about two
//! encoded groups per worker.
//!
//! The file appears under its name when it is complete.

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

/// A table that can be produced in parts.
pub trait RowGroups: Sync {
    /// Its columns.
    fn schema(&self) -> SchemaRef;
    /// How many row groups it has.
    fn count(&self) -> usize;
    /// How many rows it has, or about how many.
    fn rows(&self) -> u64;
    /// Hands the columns of one row group to `sink`, batch by batch.
    fn generate(&self, group: usize, sink: &mut dyn FnMut(Vec<ArrayRef>) -> Result<()>) -> Result<()>;
}

/// Called with the number of rows of each batch that was encoded.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Writes `table` to `path` with `threads` workers.
pub fn write(table: &dyn RowGroups, path: &Path, threads: usize, progress: Progress<'_>) -> Result<()> {
    let unfinished = PathBuf::from(format!("{}.unfinished", path.display()));
    let result = write_file(table, &unfinished, threads, progress)
        .and_then(|()| fs::rename(&unfinished, path).map_err(|error| Error::io(path.display(), &error)));
    if result.is_err() {
        // The first error says what went wrong; that the remains cannot be removed adds nothing.
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
        line.stop();
        appended
    })?;
    let file = file.into_inner().map_err(failed)?;
    file.sync_all().map_err(|error| Error::io(path.display(), &error))
}

/// Snappy pages; a dictionary for all columns but those in which values hardly repeat.
fn properties(schema: &SchemaRef) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None)
        .set_created_by(format!("rowmill-bench {}", env!("CARGO_PKG_VERSION")));
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

/// The groups between the workers that encode them and the thread that appends them.
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
        // No code that panics runs under the lock, so the state behind it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.lock(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// A group to encode, once it is not too far ahead of the file. None when there are no more.
    fn take(&self) -> Option<usize> {
        let mut state = self.wait_while(|state| !state.stopped && state.next >= state.wanted + self.ahead_max);
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

    /// The encoded group number `group`, which must be the next one to append.
    fn wait_for(&self, group: usize) -> Result<Encoded> {
        let mut state = self.wait_while(|state| !state.stopped && !state.encoded.contains_key(&group));
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

/// Wakes the others when its thread panics, so that nobody waits for a group that will not come.
struct StopOnPanic<'a>(&'a Line);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

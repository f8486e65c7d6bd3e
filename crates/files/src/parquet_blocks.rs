//! Reads Parquet as blocks whose columns are decoded one by one.
//!
//! A load encodes a block column by column on several threads. Each thread decodes the column that it is about to
//! encode. So the same threads share the decoding, and a block needs the memory of the few columns in work and not of
//! all. Every column is a stream with its own reader and its own position in the files:
//!
//! ```text
//!            file 1                    file 2
//! column 0  ═══════════════════╪═══════════════════════►
//! column 1  ═════════════►     ╪
//! column 2  ══════════════════►╪        each stream stays at the row where the last read ended
//!           │ block 0    │ block 1    │ block 2    │
//! ```
//!
//! Blocks have the rows of the files in order and may span files and row groups. If a stream is asked for other rows
//! than its next ones, it is opened again in front of them. So requests in any order are correct, and requests in the
//! expected order are fast.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Error, Result};

use crate::convert::{Misfit, NotConverted, convert};
use crate::guard::damaged;
use crate::jobs::{Job, Jobs, ReadProgress};
use crate::mapping::{TargetColumn, batch_of, schema_of};
use crate::parquet_file::{ColumnReader, ParquetFile};
use crate::report::Complaint;
use rowmill_expr::text::reader::Problem;

/// The number of rows of a batch, for callers that do not ask for blocks.
const ROWS_PER_BATCH: usize = 1 << 16;

/// The rows of Parquet files, block by block.
#[derive(Debug)]
pub struct ParquetBlocks {
    shared: Arc<SharedParquet>,
    next_row: u64,
}

/// A range of rows. Its columns are decoded when they are requested.
#[derive(Clone, Debug)]
pub struct ParquetBlock {
    shared: Arc<SharedParquet>,
    rows: Range<u64>,
}

struct SharedParquet {
    files: Vec<Arc<ParquetFile>>,
    /// The number of the first row of each file, and at the end the number of all rows.
    first_rows: Vec<u64>,
    schema: SchemaRef,
    streams: Vec<Stream>,
    progress: ReadProgress,
}

/// One column of the target across all files.
struct Stream {
    target: TargetColumn,
    /// The column in each file. `None` if a file does not have it.
    columns: Vec<Option<usize>>,
    state: Mutex<StreamState>,
}

/// The position of a stream.
#[derive(Default)]
struct StreamState {
    open: Option<OpenReader>,
}

struct OpenReader {
    reader: ColumnReader,
    file: usize,
    /// The next row of the file.
    next_row: u64,
    rows_per_read: usize,
}

impl ParquetBlocks {
    /// Makes the blocks. For each target column, `columns` has its column in each file.
    pub(crate) fn new(
        files: Vec<Arc<ParquetFile>>,
        target: &[TargetColumn],
        columns: Vec<Vec<Option<usize>>>,
        progress: ReadProgress,
    ) -> ParquetBlocks {
        let mut first_rows = vec![0];
        let mut rows = 0;
        for file in &files {
            rows += file.rows;
            first_rows.push(rows);
        }
        let streams = target.iter().zip(columns).map(|(target, columns)| Stream {
            target: target.clone(),
            columns,
            state: Mutex::default(),
        });
        let streams = streams.collect();
        let shared = SharedParquet { files, first_rows, schema: schema_of(target), streams, progress };
        ParquetBlocks { shared: Arc::new(shared), next_row: 0 }
    }

    /// The number of rows of all files.
    pub fn rows(&self) -> u64 {
        self.shared.rows()
    }

    /// The number of rows that are not handed out yet.
    pub(crate) fn rows_left(&self) -> u64 {
        self.shared.rows() - self.next_row
    }

    /// The progress of reading.
    pub fn progress(&self) -> ReadProgress {
        self.shared.progress.clone()
    }

    /// The next rows, at most `rows_max`. `None` after the last row. For fast decoding, callers should always pass the
    /// same `rows_max` and request every column of every block once.
    pub fn next_block(&mut self, rows_max: usize) -> Option<ParquetBlock> {
        let rows = self.rows_left().min(rows_max as u64);
        if rows == 0 {
            return None;
        }
        let first = self.next_row;
        self.next_row += rows;
        Some(ParquetBlock { shared: Arc::clone(&self.shared), rows: first..self.next_row })
    }
}

impl ParquetBlock {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }

    /// Decodes a column of the target in its Arrow type. Any thread may call this.
    pub fn column(&self, index: usize) -> Result<ArrayRef> {
        self.shared.read(index, self.rows.clone())
    }

    /// Decodes all columns.
    pub fn batch(&self) -> Result<RecordBatch> {
        let columns = (0..self.shared.streams.len()).map(|index| self.column(index));
        batch_of(&self.shared.schema, columns.collect::<Result<_>>()?, self.rows())
    }
}

impl SharedParquet {
    fn rows(&self) -> u64 {
        self.first_rows.last().copied().unwrap_or_default()
    }

    fn read(&self, index: usize, rows: Range<u64>) -> Result<ArrayRef> {
        let stream = &self.streams[index];
        let mut state = stream.state.lock();
        let mut parts = Vec::with_capacity(1);
        let mut at = rows.start;
        while at < rows.end {
            // The last file that starts at or before the row. Files without rows start at the same row as the next one.
            let file = self.first_rows.partition_point(|first| *first <= at) - 1;
            let end = rows.end.min(self.first_rows[file + 1]);
            let inside = at - self.first_rows[file]..end - self.first_rows[file];
            parts.push(self.read_part(stream, &mut state, file, inside)?);
            at = end;
        }
        match parts.len() {
            0 => stream.target.filled(0),
            1 => Ok(parts.swap_remove(0)),
            _ => {
                let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
                concat(&parts).map_err(|error| Error::internal(error.to_string()))
            }
        }
    }

    /// Reads rows of one file.
    fn read_part(&self, stream: &Stream, state: &mut StreamState, number: usize, rows: Range<u64>) -> Result<ArrayRef> {
        let file = &self.files[number];
        let count = (rows.end - rows.start) as usize;
        let Some(column) = stream.columns[number] else { return stream.target.filled(count) };
        // The open reader is right only if it is at this row and returns exactly these rows next.
        let is_next = state.open.as_ref().is_some_and(|open| {
            // The reader returns a fixed number of rows per call, and fewer only at the end of the file.
            let ends = rows.end == file.rows;
            let right_length = open.rows_per_read == count || ends && open.rows_per_read > count;
            open.file == number && open.next_row == rows.start && right_length
        });
        if !is_next {
            let reader = file.read_column(column, rows.start, count)?;
            state.open = Some(OpenReader { reader, file: number, next_row: rows.start, rows_per_read: count });
        }
        // The reader is put back only after it succeeds, so that a failed one is never used again.
        let mut open = state.open.take().expect("the reader is open or was opened above");
        let array = open.reader.next_rows()?.filter(|array| array.len() == count);
        let array = array.ok_or_else(|| damaged(&file.source.name, "a column ends before its last row"))?;
        open.next_row = rows.end;
        if rows.end < file.rows {
            state.open = Some(open);
        }
        self.progress.add(file.column_bytes(column) * count as u64 / file.rows);
        convert_column(&array, &stream.target, &file.source.name, |row| rows.start + row as u64)
    }
}

/// Converts some rows of a column of a binary file. Errors name the file and the row, counted from 1. `number` returns
/// the file's row number of a row of `array`, counted from 0.
pub(crate) fn convert_column(
    array: &ArrayRef,
    target: &TargetColumn,
    file: &str,
    number: impl Fn(usize) -> u64,
) -> Result<ArrayRef> {
    let converted = convert(array, &target.kind).map_err(|error| match error {
        NotConverted::Value(misfit) => misfit_error(&misfit, target, file, number(misfit.row)),
        NotConverted::Types => Error::internal(format!(
            "column {} of {file} cannot be converted from {} to {}",
            target.name,
            array.data_type(),
            target.kind
        )),
    })?;
    if !target.nullable && converted.null_count() > 0 {
        let row = (0..converted.len()).find(|row| converted.is_null(*row)).unwrap_or_default();
        let misfit = Misfit { row, text: String::new(), problem: Problem::Null };
        return Err(misfit_error(&misfit, target, file, number(misfit.row)));
    }
    Ok(converted)
}

fn misfit_error(misfit: &Misfit, target: &TargetColumn, file: &str, row: u64) -> Error {
    let complaint = Complaint::value(&target.name, &target.kind, &misfit.text, misfit.problem);
    complaint.into_row_error(file, row + 1)
}

impl std::fmt::Debug for SharedParquet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("files", &self.files.len()).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// Reads Parquet as batches of all columns.
pub(crate) struct ParquetJobs {
    blocks: Mutex<ParquetBlocks>,
}

impl ParquetJobs {
    pub(crate) fn new(blocks: ParquetBlocks) -> ParquetJobs {
        ParquetJobs { blocks: Mutex::new(blocks) }
    }
}

impl Jobs for ParquetJobs {
    fn next_job(&self) -> Result<Option<Job>> {
        let block = self.blocks.lock().next_block(ROWS_PER_BATCH);
        Ok(block.map(|block| Box::new(move || block.batch()) as Job))
    }
}

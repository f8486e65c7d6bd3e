//! One Parquet file: its columns, and readers that start at any row of a column.
//!
//! The metadata is parsed once and shared. The file is read at given offsets, so that many column readers can use one
//! handle at the same time.
//!
//! The types of the file decide the Arrow type of a column, helped by the Arrow schema that some writers add. Texts
//! become string views, which point into the decoded pages instead of copying them, and bytes become binary views. We
//! never trust the added schema for more than that: if it calls bytes a text, they are read as bytes and checked.

use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelectionPolicy,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use rowmill_base::{Result, SqlType};

use crate::ahead::{AheadBytes, AheadReader};
use crate::guard::{damaged, guarded};
use crate::input_file::{FileReader, InputFile};
use crate::source_file::SourceFile;

/// One file with its metadata.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    pub(crate) source: Arc<SourceFile>,
    file: SharedFile,
    metadata: ArrowReaderMetadata,
    pub(crate) columns: Vec<ParquetColumn>,
    pub(crate) rows: u64,
}

/// A column of a file.
#[derive(Clone, Debug)]
pub(crate) struct ParquetColumn {
    pub(crate) name: String,
    /// The Arrow type that the column is read as.
    pub(crate) arrow: DataType,
    /// The SQL type. `None` for types that SQL does not have.
    pub(crate) kind: Option<SqlType>,
    pub(crate) nullable: bool,
    /// The index among the leaves of the file's schema. `None` for a list or struct.
    pub(crate) leaf: Option<usize>,
}

impl ParquetFile {
    pub(crate) fn open(source: &Arc<SourceFile>) -> Result<ParquetFile> {
        let file = SharedFile { file: source.open()?, bytes: source.bytes, ahead: None };
        let name = &source.name;
        // First without the added schema, because it may be wrong.
        let metadata = guarded(name, || load(&file))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        check_row_groups(name, metadata.metadata())?;
        let hinted = guarded(name, || {
            let hinted = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), ArrowReaderOptions::new());
            // An added schema that does not fit the columns is ignored.
            Ok::<_, ParquetError>(
                hinted.map_or_else(|_| Arc::clone(metadata.schema()), |hinted| hinted.schema().clone()),
            )
        })?;
        let read = read_schema(metadata.schema(), &hinted);
        let mut leaves = vec![None; read.fields().len()];
        let schema = metadata.parquet_schema();
        for leaf in 0..schema.num_columns() {
            // Only plain columns have statistics that describe whole values.
            if schema.get_column_root(leaf).is_primitive() && schema.column(leaf).max_rep_level() == 0 {
                leaves[schema.get_column_root_idx(leaf)] = Some(leaf);
            }
        }
        let columns =
            hinted.fields().iter().zip(read.fields()).zip(leaves).map(|((hinted, read), leaf)| ParquetColumn {
                name: read.name().clone(),
                arrow: read.data_type().clone(),
                kind: SqlType::from_arrow(hinted.data_type()),
                nullable: read.is_nullable(),
                leaf,
            });
        let columns = columns.collect();
        let metadata = guarded(name, || {
            let options = ArrowReaderOptions::new().with_schema(read);
            ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
        })?;
        Ok(ParquetFile { source: Arc::clone(source), file, metadata, columns, rows: rows.unsigned_abs() })
    }

    /// The parsed metadata.
    pub(crate) fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    /// The schema of the file, with the types that columns are read as.
    pub(crate) fn read_schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The file as a source of bytes.
    pub(crate) fn bytes(&self) -> &SharedFile {
        &self.file
    }

    /// The compressed size of one column in bytes.
    pub(crate) fn column_bytes(&self, column: usize) -> u64 {
        (0..self.metadata().num_row_groups()).map(|group| self.column_bytes_of_group(group, column)).sum()
    }

    /// The compressed size of one column in a row group, in bytes.
    pub(crate) fn column_bytes_of_group(&self, group: usize, column: usize) -> u64 {
        let schema = self.metadata.parquet_schema();
        let group = self.metadata().row_group(group);
        let leaves = (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == column);
        leaves.map(|leaf| group.column(leaf).compressed_size().unsigned_abs()).sum()
    }

    /// Makes a reader of one column that starts at `first_row` and reads `rows_per_read` rows at a time.
    pub(crate) fn read_column(&self, column: usize, first_row: u64, rows_per_read: usize) -> Result<ColumnReader> {
        // Row groups that end before the first row are not opened.
        let mut skipped = 0;
        let mut groups = Vec::new();
        for (number, group) in self.metadata().row_groups().iter().enumerate() {
            let rows = group.num_rows().unsigned_abs();
            if groups.is_empty() && skipped + rows <= first_row {
                skipped += rows;
            } else {
                groups.push(number);
            }
        }
        let file = self.read_ahead(&groups, &[column], false)?;
        let reader = guarded(&self.source.name, || {
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(ProjectionMask::roots(self.metadata.parquet_schema(), [column]))
                .with_row_groups(groups)
                .with_row_selection_policy(RowSelectionPolicy::Selectors)
                .with_batch_size(rows_per_read);
            if first_row > skipped {
                builder = builder.with_offset((first_row - skipped) as usize);
            }
            builder.build()
        })?;
        Ok(ColumnReader { reader, file: self.source.name.clone() })
    }

    /// Makes a reader of some columns of a row group. It reads the rows selected by `rows`, `rows_per_read` at a time.
    pub(crate) fn read_row_group(
        &self,
        group: usize,
        columns: &[usize],
        rows: RowSelection,
        rows_per_read: usize,
    ) -> Result<RowGroupReader> {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let file = self.read_ahead(&[group], &columns, true)?;
        let reader = guarded(&self.source.name, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied()))
                .with_row_groups(vec![group])
                .with_row_selection(rows)
                // This policy skips pages without a selected row. Other policies would decode them and filter
                // afterwards.
                .with_row_selection_policy(RowSelectionPolicy::Selectors)
                .with_batch_size(rows_per_read)
                .build()
        })?;
        Ok(RowGroupReader { reader, columns, file: self.source.name.clone() })
    }

    /// Whether the file is read over the network.
    pub(crate) fn is_remote(&self) -> bool {
        self.file.file.is_remote()
    }

    /// The file for a reader of some columns of row groups. Over the network, their bytes are read ahead.
    fn read_ahead(&self, groups: &[usize], columns: &[usize], at_once: bool) -> Result<SharedFile> {
        let mut file = self.file.clone();
        if self.is_remote() {
            let mut ranges: Vec<Range<u64>> =
                groups.iter().flat_map(|group| self.chunk_ranges(*group, columns)).collect();
            ranges.sort_unstable_by_key(|range| range.start);
            // A damaged file may have chunks that overlap. They are read when the decoder asks for them.
            if ranges.windows(2).all(|pair| pair[0].end <= pair[1].start) {
                file.ahead = file.file.read_ahead(ranges, at_once)?;
            }
        }
        Ok(file)
    }

    /// Where the chunks of some columns of a row group are in the file.
    fn chunk_ranges(&self, group: usize, columns: &[usize]) -> Vec<Range<u64>> {
        let schema = self.metadata.parquet_schema();
        let group = self.metadata().row_group(group);
        let leaves = (0..schema.num_columns()).filter(|leaf| columns.contains(&schema.get_column_root_idx(*leaf)));
        let range = |leaf: usize| {
            let chunk = group.column(leaf);
            let start = u64::try_from(chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset())).ok()?;
            let end = start.checked_add(u64::try_from(chunk.compressed_size()).ok()?)?;
            (start < end && end <= self.source.bytes).then_some(start..end)
        };
        leaves.filter_map(range).collect()
    }
}

fn load(file: &SharedFile) -> Result<ArrowReaderMetadata, ParquetError> {
    ArrowReaderMetadata::load(file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))
}

/// Checks the row counts, because later arithmetic relies on them.
fn check_row_groups(name: &str, metadata: &ParquetMetaData) -> Result<()> {
    let mut rows = 0_i64;
    for group in metadata.row_groups() {
        let sum = rows.checked_add(group.num_rows()).filter(|_| group.num_rows() >= 0);
        rows = sum.ok_or_else(|| damaged(name, "its row groups have an impossible number of rows"))?;
    }
    if rows != metadata.file_metadata().num_rows() {
        let stated = metadata.file_metadata().num_rows();
        return Err(damaged(name, format!("its row groups have {rows} rows, but its footer says {stated}")));
    }
    Ok(())
}

/// Reads one column.
pub(crate) struct ColumnReader {
    reader: ParquetRecordBatchReader,
    file: String,
}

impl ColumnReader {
    /// Reads the next rows. Fewer than the configured number are returned only at the end of the file.
    pub(crate) fn next_rows(&mut self) -> Result<Option<ArrayRef>> {
        let batch = guarded(&self.file, || self.reader.next().transpose())?;
        Ok(batch.as_ref().map(RecordBatch::columns).and_then(|columns| columns.first().cloned()))
    }
}

/// Reads some columns of a row group.
pub(crate) struct RowGroupReader {
    reader: ParquetRecordBatchReader,
    /// The columns, in the order of the reader's batches.
    columns: Vec<usize>,
    file: String,
}

impl RowGroupReader {
    /// Reads the next rows.
    pub(crate) fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        guarded(&self.file, || self.reader.next().transpose())
    }

    /// A column of the file, in a batch of this reader.
    pub(crate) fn column<'b>(&self, batch: &'b RecordBatch, column: usize) -> &'b ArrayRef {
        batch.column(self.columns.binary_search(&column).expect("the column should be one that is read"))
    }
}

/// The schema that columns are read with: the file's own types, refined where the added schema concerns only the form
/// and not the meaning.
fn read_schema(own: &SchemaRef, hinted: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> =
        own.fields().iter().zip(hinted.fields()).map(|(own, hinted)| read_field(own, hinted.data_type())).collect();
    Arc::new(Schema::new(fields))
}

fn read_field(own: &Field, hinted: &DataType) -> Field {
    own.clone().with_data_type(read_type(own.data_type(), hinted)).with_metadata(own.metadata().clone())
}

fn read_type(own: &DataType, hinted: &DataType) -> DataType {
    match (own, hinted) {
        (DataType::Utf8, _) => DataType::Utf8View,
        (DataType::Binary, _) => DataType::BinaryView,
        (_, DataType::Dictionary(..)) => own.clone(),
        (DataType::List(own), hinted) => match hinted {
            DataType::List(hinted) | DataType::LargeList(hinted) | DataType::FixedSizeList(hinted, _) => {
                DataType::List(Arc::new(read_field(own, hinted.data_type())))
            }
            _ => DataType::List(Arc::new(read_field(own, own.data_type()))),
        },
        (DataType::Struct(own), DataType::Struct(hinted)) if own.len() == hinted.len() => {
            let fields = own.iter().zip(hinted).map(|(own, hinted)| read_field(own, hinted.data_type()));
            DataType::Struct(fields.collect::<Fields>())
        }
        (DataType::Map(..), _) => own.clone(),
        _ => hinted.clone(),
    }
}

/// A file shared by Parquet readers, each with a position of its own.
#[derive(Clone, Debug)]
pub(crate) struct SharedFile {
    file: Arc<InputFile>,
    bytes: u64,
    /// The bytes that the reader of this clone will need.
    ahead: Option<Arc<dyn AheadBytes>>,
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

/// The bytes for a header of a page are few, and what follows them is read in another way.
const HEADER_BYTES: usize = 256;

/// A reader of a Parquet file from a position on.
pub(crate) enum PositionedReader {
    File(BufReader<FileReader>),
    Ahead(BufReader<AheadReader>),
}

impl Read for PositionedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            PositionedReader::File(reader) => reader.read(buffer),
            PositionedReader::Ahead(reader) => reader.read(buffer),
        }
    }
}

impl ChunkReader for SharedFile {
    type T = PositionedReader;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match &self.ahead {
            None => PositionedReader::File(BufReader::new(FileReader::new(Arc::clone(&self.file), start))),
            Some(ahead) => {
                let reader = AheadReader::new(Arc::clone(ahead), start);
                PositionedReader::Ahead(BufReader::with_capacity(HEADER_BYTES, reader))
            }
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // The length comes from the file, so we check it before we allocate.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end of the file")));
        }
        if let Some(ahead) = &self.ahead {
            return Ok(ahead.bytes(start, length)?);
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

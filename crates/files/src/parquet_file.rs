//! One Parquet file: its columns, and readers of one column from any row on.
//!
//! The metadata is parsed once and shared; the file is read at given positions, so that any number of column readers
//! work side by side over one handle.
//!
//! What a column is read as follows from the types of the file, helped by the Arrow schema that some writers add:
//! texts as string views, which point into the decoded pages instead of copying them, and bytes as binary views. The
//! added schema is never trusted for more than that: where it calls bytes text, they are read as bytes and checked.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
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

use crate::guard::{damaged, guarded};
use crate::source_file::{FileReader, SourceFile};

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
    /// What it is read as.
    pub(crate) arrow: DataType,
    /// What it means; `None` for types that SQL does not have.
    pub(crate) kind: Option<SqlType>,
    pub(crate) nullable: bool,
    /// Its place among the leaves of the file's schema, if it is no list or struct.
    pub(crate) leaf: Option<usize>,
}

impl ParquetFile {
    pub(crate) fn open(source: &Arc<SourceFile>) -> Result<ParquetFile> {
        let file = SharedFile { file: source.open()?, bytes: source.bytes };
        let name = &source.name;
        let metadata = guarded(name, || load(&file))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        check_row_groups(name, metadata.metadata())?;
        let hinted = guarded(name, || {
            let hinted = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), ArrowReaderOptions::new());
            // A schema that does not go with the columns is none.
            Ok::<_, ParquetError>(
                hinted.map_or_else(|_| Arc::clone(metadata.schema()), |hinted| hinted.schema().clone()),
            )
        })?;
        let read = read_schema(metadata.schema(), &hinted);
        let mut leaves = vec![None; read.fields().len()];
        let schema = metadata.parquet_schema();
        for leaf in 0..schema.num_columns() {
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

    /// The names of the file with the types that columns are read as.
    pub(crate) fn read_schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> &SharedFile {
        &self.file
    }

    /// Bytes in the file of one column, compressed.
    pub(crate) fn column_bytes(&self, column: usize) -> u64 {
        (0..self.metadata().num_row_groups()).map(|group| self.column_bytes_of_group(group, column)).sum()
    }

    /// Bytes of one column in a row group, compressed.
    pub(crate) fn column_bytes_of_group(&self, group: usize, column: usize) -> u64 {
        let schema = self.metadata.parquet_schema();
        let group = self.metadata().row_group(group);
        let leaves = (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == column);
        leaves.map(|leaf| group.column(leaf).compressed_size().unsigned_abs()).sum()
    }

    /// A reader of one column from `first_row` on, `rows_per_read` rows at a time.
    pub(crate) fn read_column(&self, column: usize, first_row: u64, rows_per_read: usize) -> Result<ColumnReader> {
        // Whole row groups in front of the first row are not opened.
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
        let reader = guarded(&self.source.name, || {
            let mut builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
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

    /// A reader of some columns of a row group: of the rows that `rows` selects, `rows_per_read` at a time.
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
        let reader = guarded(&self.source.name, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                .with_projection(ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied()))
                .with_row_groups(vec![group])
                .with_row_selection(rows)
                // Pages without a row are passed over, rather than decoded to be filtered.
                .with_row_selection_policy(RowSelectionPolicy::Selectors)
                .with_batch_size(rows_per_read)
                .build()
        })?;
        Ok(RowGroupReader { reader, columns, file: self.source.name.clone() })
    }
}

fn load(file: &SharedFile) -> Result<ArrowReaderMetadata, ParquetError> {
    ArrowReaderMetadata::load(file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))
}

/// The counts of rows that later arithmetic relies on.
fn check_row_groups(name: &str, metadata: &ParquetMetaData) -> Result<()> {
    let mut rows = 0_i64;
    for group in metadata.row_groups() {
        let sum = rows.checked_add(group.num_rows()).filter(|_| group.num_rows() >= 0);
        rows = sum.ok_or_else(|| damaged(name, "its row groups have no sensible number of rows"))?;
    }
    if rows != metadata.file_metadata().num_rows() {
        let stated = metadata.file_metadata().num_rows();
        return Err(damaged(name, format!("its row groups have {rows} rows, its footer says {stated}")));
    }
    Ok(())
}

/// Reads one column.
pub(crate) struct ColumnReader {
    reader: ParquetRecordBatchReader,
    file: String,
}

impl ColumnReader {
    /// The next rows; fewer than the number it was made for only at the end of the file.
    pub(crate) fn next_rows(&mut self) -> Result<Option<ArrayRef>> {
        let batch = guarded(&self.file, || self.reader.next().transpose())?;
        Ok(batch.as_ref().map(RecordBatch::columns).and_then(|columns| columns.first().cloned()))
    }
}

/// Reads some columns of a row group.
pub(crate) struct RowGroupReader {
    reader: ParquetRecordBatchReader,
    /// Its columns, in the order of its batches.
    columns: Vec<usize>,
    file: String,
}

impl RowGroupReader {
    /// The next rows.
    pub(crate) fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        guarded(&self.file, || self.reader.next().transpose())
    }

    /// A column of the file in a batch of this reader.
    pub(crate) fn column<'b>(&self, batch: &'b RecordBatch, column: usize) -> &'b ArrayRef {
        batch.column(self.columns.binary_search(&column).expect("a column that is read"))
    }
}

/// What columns are read as: the file's own types, refined where the hints are about form rather than meaning.
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

/// A file that Parquet's readers share, each reading at positions of its own.
#[derive(Clone, Debug)]
pub(crate) struct SharedFile {
    file: Arc<File>,
    bytes: u64,
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<FileReader>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(FileReader::new(Arc::clone(&self.file), start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // The length comes from the file; memory is taken only for bytes that are there.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are behind the end of the file")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

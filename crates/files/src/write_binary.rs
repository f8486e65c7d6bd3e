//! Writes Parquet and Arrow IPC.

use std::io::{self, BufWriter};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use rowmill_base::{
    Broker, EXTENSION_NAME_KEY, Error, JSON_EXTENSION, Reservation, Result, SqlType, TimeUnit, is_json, with_arrow_maps,
};
use rowmill_expr::kernels::cast::cast;
use rowmill_storage::each_piece;

use crate::convert::convert;
use crate::options::FileFormat;
use crate::write::{CountedStream, Encoder, WriteCompression, WriteOptions, no_compression};

/// The number of rows of a row group.
const ROWS_PER_GROUP: usize = 1 << 19;

/// A row group may take one part in this many of the memory limit, and then ends before it has all its rows. The scan
/// that gives the rows and its batches need memory too.
const GROUP_SHARE: u64 = 8;

/// Less memory than this would make row groups that are slow to read.
const GROUP_BYTES_MIN: u64 = 8 << 20;

/// A batch with fewer values is encoded by one thread, because starting another one takes as long.
const VALUES_FOR_THREADS_MIN: usize = 1 << 12;

/// Writes Parquet. Threads share the columns of a batch.
pub(crate) struct ParquetEncoder {
    writer: SerializedFileWriter<BufWriter<CountedStream>>,
    groups: ArrowRowGroupWriterFactory,
    /// The row group that is being made.
    group: Option<RowGroup>,
    /// Grants the memory of the row group, which is the second part.
    memory: Option<(Broker, Reservation)>,
    schema: SchemaRef,
    /// The type to which each column is converted first. `None` if Parquet has its type.
    converted: Vec<Option<SqlType>>,
    threads: usize,
}

/// A row group that is being made.
struct RowGroup {
    /// The writers of each column: one, or one for each leaf of nested values.
    columns: Vec<Mutex<Vec<ArrowColumnWriter>>>,
    rows: usize,
}

impl ParquetEncoder {
    pub(crate) fn new(out: CountedStream, schema: &SchemaRef, options: &WriteOptions) -> Result<ParquetEncoder> {
        let compression = match options.compression.unwrap_or(WriteCompression::Zstd) {
            WriteCompression::None => Compression::UNCOMPRESSED,
            WriteCompression::Gzip => Compression::GZIP(Default::default()),
            WriteCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
            WriteCompression::Snappy => Compression::SNAPPY,
            WriteCompression::Lz4 => Compression::LZ4_RAW,
        };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
            .set_created_by(concat!("rowmill ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let (schema, converted) = written_schema(schema, parquet_type);
        let out = BufWriter::with_capacity(1 << 18, out);
        let (writer, groups) = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(not_parquet)?;
        let memory = options.memory.clone().map(|broker| {
            let group = broker.reservation("a row group of Parquet");
            (broker, group)
        });
        let threads = options.threads;
        Ok(ParquetEncoder { writer, groups, group: None, memory, schema, converted, threads })
    }

    fn new_group(&self) -> Result<RowGroup> {
        let writers = self.groups.create_column_writers(self.writer.flushed_row_groups().len());
        let mut writers = writers.map_err(not_parquet)?.into_iter();
        let of_column = |field: &FieldRef| {
            let leaves = compute_leaves(field, &new_empty_array(field.data_type())).map_err(not_parquet)?;
            Ok(Mutex::new(writers.by_ref().take(leaves.len()).collect()))
        };
        Ok(RowGroup { columns: self.schema.fields().iter().map(of_column).collect::<Result<_>>()?, rows: 0 })
    }

    /// Adds the rows of a batch to the group.
    fn add_to(&self, group: &RowGroup, batch: &RecordBatch) -> Result<()> {
        let columns = group.columns.len();
        let threads = if batch.num_rows() * columns < VALUES_FOR_THREADS_MIN { 1 } else { self.threads };
        let (schema, converted) = (&self.schema, &self.converted);
        let write = |column: usize| {
            let field = schema.field(column);
            let values = written_column(batch.column(column), field, converted[column].as_ref())?;
            let mut writers = group.columns[column].lock();
            let leaves = compute_leaves(field, &values).map_err(not_parquet)?;
            leaves.iter().zip(&mut *writers).try_for_each(|(leaf, writer)| writer.write(leaf)).map_err(not_parquet)
        };
        each_piece(columns, threads, "encoding columns of Parquet", write).map(drop)
    }

    /// Ends the group if it has all its rows, or if it takes much memory.
    fn end_full(&mut self) -> io::Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        let mut is_full = group.rows == ROWS_PER_GROUP;
        if let Some((broker, memory)) = &mut self.memory {
            let bytes = |writers: &Mutex<Vec<ArrowColumnWriter>>| -> usize {
                writers.lock().iter().map(ArrowColumnWriter::memory_size).sum()
            };
            memory.recount(group.columns.iter().map(bytes).sum::<usize>() as u64);
            is_full |= memory.bytes() > (broker.limit_bytes() / GROUP_SHARE).max(GROUP_BYTES_MIN);
        }
        if is_full { self.end_group() } else { Ok(()) }
    }

    /// Writes the group to the file.
    fn end_group(&mut self) -> io::Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let close = |column: usize| {
            let writers = std::mem::take(&mut *group.columns[column].lock());
            writers.into_iter().map(ArrowColumnWriter::close).collect::<Result<Vec<_>, _>>().map_err(not_parquet)
        };
        let chunks = each_piece(group.columns.len(), self.threads, "closing columns of Parquet", close);
        let mut writer = self.writer.next_row_group().map_err(parquet_error)?;
        for chunk in chunks.map_err(io::Error::other)?.into_iter().flatten() {
            chunk.append_to_row_group(&mut writer).map_err(parquet_error)?;
        }
        writer.close().map_err(parquet_error)?;
        if let Some((_, memory)) = &mut self.memory {
            memory.recount(0);
        }
        Ok(())
    }
}

/// Returns the schema of a file and the type to which each column is converted first, as `kind_of` says.
fn written_schema(
    schema: &SchemaRef,
    kind_of: impl Fn(&DataType) -> Option<SqlType>,
) -> (SchemaRef, Vec<Option<SqlType>>) {
    let converted: Vec<Option<SqlType>> = schema.fields().iter().map(|field| kind_of(field.data_type())).collect();
    let fields = schema.fields().iter().zip(&converted).map(|(field, converted)| match converted {
        Some(kind) => {
            let written = Field::new(field.name(), with_arrow_maps(&kind.arrow()), field.is_nullable());
            match is_json(field.data_type()) {
                true => written.with_metadata([(EXTENSION_NAME_KEY.into(), JSON_EXTENSION.into())].into()),
                false => written,
            }
        }
        None => field.as_ref().clone(),
    });
    (Arc::new(Schema::new(fields.collect::<Vec<_>>())), converted)
}

/// Converts a column for a file.
fn written_column(values: &ArrayRef, field: &Field, converted: Option<&SqlType>) -> Result<ArrayRef> {
    match converted {
        Some(kind) => {
            let values = convert(values, kind).map_err(|error| Error::internal(format!("no value: {error:?}")))?;
            cast(&values, field.data_type(), false)
        }
        None => Ok(Arc::clone(values)),
    }
}

/// The type to which values are converted if Arrow does not have theirs.
fn arrow_type(kind: &DataType) -> Option<SqlType> {
    let own = SqlType::from_arrow(kind)?;
    Some(own.outside()).filter(|outside| *outside != own || with_arrow_maps(kind) != *kind)
}

/// The type to which values are converted if Parquet does not have theirs.
fn parquet_type(kind: &DataType) -> Option<SqlType> {
    let own = SqlType::from_arrow(kind)?;
    // A column of the type NULL needs a type too.
    let storable = storable(&own);
    (*kind == DataType::Null || storable != own || with_arrow_maps(kind) != *kind).then_some(storable)
}

fn storable(kind: &SqlType) -> SqlType {
    match kind {
        SqlType::Interval | SqlType::Json | SqlType::Numbered(_) => SqlType::TEXT,
        SqlType::Timestamp { unit: TimeUnit::Second, zoned } => {
            SqlType::Timestamp { unit: TimeUnit::Millisecond, zoned: *zoned }
        }
        SqlType::List(item) => SqlType::List(Box::new(storable(item))),
        SqlType::Struct(fields) => {
            SqlType::Struct(fields.iter().map(|(name, kind)| (name.clone(), storable(kind))).collect())
        }
        other => other.clone(),
    }
}

impl Encoder for ParquetEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let mut first = 0;
        while first < batch.num_rows() {
            let mut group = match self.group.take() {
                Some(group) => group,
                None => self.new_group().map_err(io::Error::other)?,
            };
            let rows = (batch.num_rows() - first).min(ROWS_PER_GROUP - group.rows);
            self.add_to(&group, &batch.slice(first, rows)).map_err(io::Error::other)?;
            group.rows += rows;
            first += rows;
            self.group = Some(group);
            self.end_full()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.end_group()?;
        // The buffer writes the last bytes of the file. We flush it here, because dropping it would ignore an error.
        let mut out = self.writer.into_inner().map_err(parquet_error)?;
        io::Write::flush(&mut out)
    }
}

/// Writes the Arrow IPC file format.
pub(crate) struct ArrowEncoder {
    writer: FileWriter<BufWriter<CountedStream>>,
    schema: SchemaRef,
    /// The type to which each column is converted first. `None` if Arrow has its type.
    converted: Vec<Option<SqlType>>,
}

impl ArrowEncoder {
    pub(crate) fn new(
        out: CountedStream,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<io::Result<ArrowEncoder>> {
        let compression = match options.compression.unwrap_or(WriteCompression::None) {
            WriteCompression::None => None,
            WriteCompression::Zstd => Some(CompressionType::ZSTD),
            WriteCompression::Lz4 => Some(CompressionType::LZ4_FRAME),
            _ => return Err(no_compression(FileFormat::Arrow, "none, zstd and lz4")),
        };
        let properties = IpcWriteOptions::default()
            .try_with_compression(compression)
            .map_err(|error| Error::internal(error.to_string()))?;
        let out = BufWriter::with_capacity(1 << 18, out);
        let (schema, converted) = written_schema(schema, arrow_type);
        let writer = FileWriter::try_new_with_options(out, &schema, properties).map_err(arrow_error);
        Ok(writer.map(|writer| ArrowEncoder { writer, schema, converted }))
    }
}

impl Encoder for ArrowEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = batch.columns().iter().zip(self.schema.fields()).zip(&self.converted);
        let columns = columns.map(|((values, field), kind)| written_column(values, field, kind.as_ref()));
        let columns = columns.collect::<Result<_>>().map_err(io::Error::other)?;
        self.writer.write(&with_columns(&self.schema, columns, batch.num_rows())?).map_err(arrow_error)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let mut out = self.writer.into_inner().map_err(arrow_error)?;
        io::Write::flush(&mut out)
    }
}

fn with_columns(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> io::Result<RecordBatch> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(arrow_error)
}

/// Returns the underlying error of the stream if there is one, so that, for example, a full disk is reported as such.
fn arrow_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn not_parquet(error: ParquetError) -> Error {
    Error::internal(format!("the result cannot be written as Parquet: {error}"))
}

fn parquet_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

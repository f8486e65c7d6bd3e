//! Writes Parquet and Arrow IPC.

use std::io::{self, BufWriter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use rowmill_base::{
    Broker, EXTENSION_NAME_KEY, Error, JSON_EXTENSION, Reservation, Result, SqlType, TimeUnit, is_json, with_arrow_maps,
};
use rowmill_expr::kernels::cast::cast;

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

/// Writes Parquet.
pub(crate) struct ParquetEncoder {
    writer: ArrowWriter<BufWriter<CountedStream>>,
    /// Grants the memory of the row group, which is the second part.
    memory: Option<(Broker, Reservation)>,
    schema: SchemaRef,
    /// The type to which each column is converted first. `None` if Parquet has its type.
    converted: Vec<Option<SqlType>>,
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
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))
            .map_err(|error| Error::internal(format!("the result cannot be written as Parquet: {error}")))?;
        let memory = options.memory.clone().map(|broker| {
            let group = broker.reservation("a row group of Parquet");
            (broker, group)
        });
        Ok(ParquetEncoder { writer, memory, schema, converted })
    }

    /// Counts the memory of the row group, and ends the group if that is much.
    fn count_group(&mut self) -> io::Result<()> {
        let Some((broker, group)) = &mut self.memory else { return Ok(()) };
        group.recount(self.writer.memory_size() as u64);
        if group.bytes() > (broker.limit_bytes() / GROUP_SHARE).max(GROUP_BYTES_MIN) {
            self.writer.flush().map_err(parquet_error)?;
            group.recount(0);
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

/// Converts the columns of a batch for a file.
fn written_batch(batch: &RecordBatch, schema: &SchemaRef, converted: &[Option<SqlType>]) -> io::Result<RecordBatch> {
    let fields = schema.fields();
    let columns =
        batch.columns().iter().zip(converted).zip(fields).map(|((column, converted), field)| match converted {
            Some(kind) => {
                let values = convert(column, kind).map_err(|error| io::Error::other(format!("no value: {error:?}")))?;
                cast(&values, field.data_type(), false).map_err(io::Error::other)
            }
            None => Ok(Arc::clone(column)),
        });
    with_columns(schema, columns.collect::<io::Result<_>>()?, batch.num_rows())
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
        let batch = written_batch(batch, &self.schema, &self.converted)?;
        self.writer.write(&batch).map_err(parquet_error)?;
        self.count_group()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
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
        let batch = written_batch(batch, &self.schema, &self.converted)?;
        self.writer.write(&batch).map_err(arrow_error)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let mut out = self.writer.into_inner().map_err(arrow_error)?;
        io::Write::flush(&mut out)
    }
}

fn with_columns(schema: &SchemaRef, columns: Vec<arrow::array::ArrayRef>, rows: usize) -> io::Result<RecordBatch> {
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

fn parquet_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

//! Writes query results to files.
//!
//! A file is written under a temporary name in its own folder, synced, and then renamed. So if a statement fails or a
//! process dies, the old file stays, or no file appears. An existing file is replaced. A target that is not an ordinary
//! file, such as a pipe, is written to directly. An object of S3 appears only when it is complete, too.
//!
//! | format | how values are written |
//! | --- | --- |
//! | CSV | their text form, quoted as in RFC 4180 where needed; NULL is an empty field, and the empty text is `""` |
//! | JSON | one object per line; numbers and booleans as such, nested values as JSON, everything else as strings |
//! | Parquet | its own types; TIMESTAMP(0) in milliseconds, and INTERVAL as text, because Parquet lacks these types |
//! | Arrow | as in memory |

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result};

use crate::folders::FileFolders;
use crate::mapping::unique_names;
use crate::options::{Compression, FileFormat, character, invalid, switch, unknown_option};
use crate::remote;
use crate::secret::Secrets;
use crate::url_name::{is_url, without_query};
use crate::write_binary::{ArrowEncoder, ParquetEncoder};
use crate::write_text::{CsvLines, JsonLines, LineEncoder};

/// The options for writing files.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The format. If `None`, it follows from the path's ending.
    pub format: Option<FileFormat>,
    /// The compression. If `None`, it follows from the path's ending for CSV and JSON, and is zstd for Parquet and none
    /// for Arrow.
    pub compression: Option<WriteCompression>,
    /// CSV: whether the first record has the names.
    pub header: bool,
    /// CSV: the ASCII character between fields. If `None`, a comma, or a tab in files whose name ends in `.tsv`,
    /// perhaps compressed.
    pub delimiter: Option<u8>,
    /// CSV: the ASCII character around fields that contain delimiters or line ends.
    pub quote: u8,
    /// CSV: the text of NULL.
    pub null_string: String,
    /// The number of threads that encode rows.
    pub threads: usize,
    /// Grants the memory of a row group that is being made. If `None`, row groups have a number of rows only.
    pub memory: Option<Broker>,
    /// Stops waiting for the network.
    pub cancel: Cancel,
    /// The folders in which the file must lie.
    pub folders: FileFolders,
    /// What the connection shows to stores of files.
    pub secrets: Secrets,
}

/// The compression of written files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCompression {
    /// No compression.
    None,
    /// gzip: CSV, JSON, Parquet.
    Gzip,
    /// Zstandard: every format.
    Zstd,
    /// Snappy: Parquet.
    Snappy,
    /// LZ4: Parquet, Arrow.
    Lz4,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            format: None,
            compression: None,
            header: true,
            delimiter: None,
            quote: b'"',
            null_string: String::new(),
            threads: 1,
            memory: None,
            cancel: Cancel::new(),
            folders: FileFolders::default(),
            secrets: Secrets::default(),
        }
    }
}

impl WriteOptions {
    /// The option names that [`WriteOptions::set`] accepts.
    pub const NAMES: &'static [&'static str] =
        &["format", "compression", "header", "delimiter", "quote", "null_string"];

    /// Sets one option of `WITH (name value, ...)`. An empty value means that a switch is on.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "format" => self.format = Some(FileFormat::from_name(value)?),
            "compression" => {
                self.compression = Some(match value.to_ascii_lowercase().as_str() {
                    "none" | "uncompressed" => WriteCompression::None,
                    "gzip" | "gz" => WriteCompression::Gzip,
                    "zstd" | "zst" => WriteCompression::Zstd,
                    "snappy" => WriteCompression::Snappy,
                    "lz4" => WriteCompression::Lz4,
                    _ => return Err(invalid(&lower, value, "none, gzip, zstd, snappy or lz4")),
                });
            }
            "header" => self.header = switch(&lower, value)?,
            "delimiter" | "delim" | "sep" => self.delimiter = Some(character(&lower, value)?),
            "quote" => self.quote = character(&lower, value)?,
            "null_string" | "null" | "nullstr" => self.null_string = value.to_owned(),
            _ => return Err(unknown_option(name, WriteOptions::NAMES)),
        }
        Ok(())
    }
}

/// The result of writing a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of rows.
    pub rows: u64,
    /// The number of bytes, after compression.
    pub bytes: u64,
}

/// Writes batches of one schema.
pub trait BatchWriter: Send {
    /// Writes the rows of `batch`.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes the rest and makes the file visible. If this is not called, no file remains.
    fn finish(self: Box<Self>) -> Result<Written>;
}

/// Makes a writer for the file at `path`, which may be a URL.
pub fn writer(path: &str, schema: &SchemaRef, options: &WriteOptions) -> Result<Box<dyn BatchWriter>> {
    options.folders.check_pattern(path)?;
    let url = is_url(path).then_some(path);
    let path = Path::new(url.map(without_query).unwrap_or(path.strip_prefix("file://").unwrap_or(path)));
    let (named, compression) = FileFormat::of_path(path);
    let Some(format) = options.format.or(named) else {
        let error = format!("the name of '{}' does not tell its format", path.display());
        return Err(Error::new(ErrorKind::InvalidParameter, error)
            .hint("name it: COPY ... WITH (format csv); the formats are parquet, csv, json and arrow"));
    };
    let mut options = options.clone();
    if options.compression.is_none() {
        options.compression = match compression {
            Compression::None => None,
            Compression::Gzip => Some(WriteCompression::Gzip),
            Compression::Zstd => Some(WriteCompression::Zstd),
        };
    }
    if options.delimiter.is_none() && FileFormat::is_tsv(path) {
        options.delimiter = Some(b'\t');
    }
    // If anything fails from here on, dropping `target` removes the temporary file.
    let target = match url {
        Some(url) => remote_target(url, &options)?,
        None => WriteTarget::File(TargetFile::open(path)?),
    };
    let encoder = encoder(format, target.stream()?, schema, &options)?;
    Ok(Box::new(FormatWriter { encoder, target: Some(target), rows: 0, name: path.display().to_string() }))
}

/// Makes a writer for a stream, for example the answer to a client. `options` must name the format. `name` names the
/// stream in errors. The writer buffers, so all of the stream has been written only after it is finished.
pub fn stream_writer(
    out: Box<dyn Write + Send>,
    name: &str,
    schema: &SchemaRef,
    options: &WriteOptions,
) -> Result<Box<dyn BatchWriter>> {
    let format = options.format.ok_or_else(|| Error::internal("the writer of a stream is told its format"))?;
    let out = CountedStream { out, bytes: Arc::default() };
    let encoder = encoder(format, out, schema, options)?;
    Ok(Box::new(FormatWriter { encoder, target: None, rows: 0, name: name.to_owned() }))
}

/// Encodes batches in one format.
pub(crate) trait Encoder: Send {
    fn encode(&mut self, batch: &RecordBatch) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

fn encoder(
    format: FileFormat,
    out: CountedStream,
    schema: &SchemaRef,
    options: &WriteOptions,
) -> Result<Box<dyn Encoder>> {
    let schema = with_unique_names(schema);
    let failed = |error: io::Error| Error::io("writing the head of the file", &error);
    Ok(match format {
        FileFormat::Csv => {
            let lines = CsvLines::new(&schema, options)?;
            let head = if options.header { lines.header(&schema) } else { String::new() };
            Box::new(LineEncoder::new(lines, &head, Packed::new(out, options, format)?, options.threads))
        }
        FileFormat::Json => {
            let lines = JsonLines::new(&schema);
            Box::new(LineEncoder::new(lines, "", Packed::new(out, options, format)?, options.threads))
        }
        FileFormat::Parquet => Box::new(ParquetEncoder::new(out, &schema, options)?),
        FileFormat::Arrow => Box::new(ArrowEncoder::new(out, &schema, options)?.map_err(failed)?),
    })
}

/// Renames columns so that names are unique even if case is ignored, because readers of files find columns by name.
fn with_unique_names(schema: &SchemaRef) -> SchemaRef {
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let (names, _) = unique_names(names);
    let fields = schema.fields().iter().zip(names);
    let fields = fields.map(|(field, name)| Field::new(name, field.data_type().clone(), field.is_nullable()));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The error for a compression that the format does not support.
pub(crate) fn no_compression(format: FileFormat, known: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("a {} file cannot have this compression", format.name()))
        .hint(format!("the compressions of {} are {known}", format.name()))
}

struct FormatWriter {
    encoder: Box<dyn Encoder>,
    target: Option<WriteTarget>,
    rows: u64,
    name: String,
}

impl BatchWriter for FormatWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.encoder.encode(batch).map_err(|error| failed(&self.name, error))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written> {
        self.encoder.finish().map_err(|error| failed(&self.name, error))?;
        // The target is published only after the encoder has written everything. Any error before that drops the
        // target, which removes the temporary file.
        let bytes = match self.target.take() {
            Some(target) => target.publish()?,
            None => 0,
        };
        Ok(Written { rows: self.rows, bytes })
    }
}

fn failed(name: &str, error: io::Error) -> Error {
    // Our own errors are wrapped in errors of the stream. Unwrap them, so that the user sees the original.
    match error.downcast::<Error>() {
        Ok(own) => own.context(format!("writing '{name}'")),
        Err(error) => Error::io(format!("writing '{name}'"), &error),
    }
}

/// Where the bytes of a file go.
enum WriteTarget {
    File(TargetFile),
    #[cfg(feature = "remote")]
    Upload(Arc<parking_lot::Mutex<remote::Upload>>),
}

#[cfg(feature = "remote")]
fn remote_target(url: &str, options: &WriteOptions) -> Result<WriteTarget> {
    let WriteOptions { folders, secrets, cancel, memory, .. } = options;
    let upload = remote::Upload::start(url, folders, secrets, cancel, memory.as_ref())?;
    Ok(WriteTarget::Upload(Arc::new(parking_lot::Mutex::new(upload))))
}

#[cfg(not(feature = "remote"))]
fn remote_target(url: &str, _options: &WriteOptions) -> Result<WriteTarget> {
    Err(remote::missing(url))
}

impl WriteTarget {
    fn stream(&self) -> Result<CountedStream> {
        Ok(match self {
            WriteTarget::File(file) => CountedStream { out: Box::new(file.file()?), bytes: Arc::clone(&file.bytes) },
            #[cfg(feature = "remote")]
            WriteTarget::Upload(upload) => {
                CountedStream { out: Box::new(remote::UploadStream(Arc::clone(upload))), bytes: Arc::default() }
            }
        })
    }

    /// Makes the file visible under its name. Returns its size in bytes.
    fn publish(self) -> Result<u64> {
        match self {
            WriteTarget::File(file) => file.publish(),
            #[cfg(feature = "remote")]
            WriteTarget::Upload(upload) => upload.lock().publish(),
        }
    }
}

/// The destination of a file on disk.
struct TargetFile {
    path: PathBuf,
    /// The temporary name. `None` if the target is written to directly.
    temporary: Option<PathBuf>,
    bytes: Arc<AtomicU64>,
}

impl TargetFile {
    fn open(path: &Path) -> Result<TargetFile> {
        // Follow a link, so that the file behind it is replaced and not the link itself.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let bytes = Arc::default();
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                let error = Error::new(ErrorKind::WrongObject, format!("'{}' is a folder", path.display()));
                Err(error.hint("name a file in it"))
            }
            // A pipe or device cannot be replaced by a rename.
            Ok(found) if !found.is_file() => Ok(TargetFile { path, temporary: None, bytes }),
            _ => {
                let temporary = Some(temporary_name(&path)?);
                Ok(TargetFile { path, temporary, bytes })
            }
        }
    }

    fn file(&self) -> Result<File> {
        let (path, created) = match &self.temporary {
            Some(temporary) => (temporary, File::options().write(true).create_new(true).open(temporary)),
            None => (&self.path, File::options().write(true).open(&self.path)),
        };
        created.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let folder = self.path.parent().unwrap_or(Path::new("."));
                Error::new(ErrorKind::UndefinedFile, format!("there is no folder '{}'", folder.display()))
                    .hint("make it first")
            }
            _ => Error::io(format!("making '{}'", path.display()), &error),
        })
    }

    /// Makes the file visible under its name. Returns its size in bytes.
    fn publish(mut self) -> Result<u64> {
        if let Some(temporary) = &self.temporary {
            let failed = |error: io::Error| Error::io(format!("finishing '{}'", self.path.display()), &error);
            // Sync before the rename: after a power cut the name must show either the old file or the whole new one.
            File::open(temporary).and_then(|file| file.sync_all()).map_err(failed)?;
            fs::rename(temporary, &self.path).map_err(failed)?;
            self.temporary = None;
            // The rename survives a power cut only after a sync of the folder.
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))
                .and_then(|folder| folder.sync_all())
                .map_err(|error| Error::io(format!("finishing '{}'", self.path.display()), &error))?;
        }
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Remove the file of a failed statement. If that fails too, no caller can receive the error.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn temporary_name(path: &Path) -> Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameter, format!("'{}' is not the name of a file", path.display()))
    })?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // The dot hides the file from patterns. The numbers keep it unique among processes and statements.
    let name = format!(".{}.{}-{number}.part", name.to_string_lossy(), std::process::id());
    Ok(path.with_file_name(name))
}

/// A stream that counts the bytes written to it.
pub(crate) struct CountedStream {
    out: Box<dyn Write + Send>,
    bytes: Arc<AtomicU64>,
}

impl Write for CountedStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buffer)?;
        self.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A stream that may be compressed as a whole.
pub(crate) enum Packed {
    Plain(BufWriter<CountedStream>),
    Gzip(flate2::write::GzEncoder<BufWriter<CountedStream>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<CountedStream>>),
}

impl Packed {
    fn new(out: CountedStream, options: &WriteOptions, format: FileFormat) -> Result<Packed> {
        let out = BufWriter::with_capacity(1 << 16, out);
        Ok(match options.compression {
            None | Some(WriteCompression::None) => Packed::Plain(out),
            Some(WriteCompression::Gzip) => {
                Packed::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default()))
            }
            Some(WriteCompression::Zstd) => Packed::Zstd(
                zstd::stream::write::Encoder::new(out, 0).map_err(|error| Error::io("starting zstd", &error))?,
            ),
            Some(_) => return Err(no_compression(format, "none, gzip and zstd")),
        })
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => out,
            Packed::Gzip(out) => out.finish()?,
            Packed::Zstd(out) => out.finish()?,
        }
        .flush()
    }
}

impl Write for Packed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(out) => out.write(buffer),
            Packed::Gzip(out) => out.write(buffer),
            Packed::Zstd(out) => out.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => out.flush(),
            Packed::Gzip(out) => out.flush(),
            Packed::Zstd(out) => out.flush(),
        }
    }
}

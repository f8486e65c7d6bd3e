//! One file of Arrow IPC: the file format with its footer, or a stream that was written to a file.
//!
//! Either is first turned into a list of messages with their places, every one checked to lie within the file and to
//! unpack to a bounded size; only then are bytes read and handed to Arrow's decoder. Lengths in a damaged file can
//! therefore not ask for more memory than the file has bytes, or [`UNPACKED_BYTES_MAX`] for a compressed buffer.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use parking_lot::Mutex;
use rowmill_base::{Result, SqlType};

use crate::guard::guarded;
use crate::jobs::{Job, Jobs, Progress};
use crate::mapping::{TargetColumn, batch_of, schema_of};
use crate::parquet_blocks::convert_column;
use crate::source_file::SourceFile;

/// What a file of the file format begins and ends with.
const MAGIC: &[u8; 6] = b"ARROW1";
/// What a message begins with, in front of the length of its metadata.
const CONTINUATION: [u8; 4] = [0xFF; 4];
/// The most bytes that one compressed buffer may unpack to.
const UNPACKED_BYTES_MAX: i64 = 4 << 30;

type Decoded<T> = Result<T, ArrowError>;

/// One file with the places of its messages.
#[derive(Debug)]
pub(crate) struct IpcFile {
    pub(crate) source: Arc<SourceFile>,
    pub(crate) schema: SchemaRef,
    version: MetadataVersion,
    messages: Vec<Message>,
}

/// A dictionary or a record batch, in the order in which they have to be read.
#[derive(Clone, Copy, Debug)]
struct Message {
    block: Block,
    is_dictionary: bool,
}

impl IpcFile {
    pub(crate) fn open(source: &Arc<SourceFile>) -> Result<IpcFile> {
        let file = Bytes { file: source.open()?, length: source.bytes };
        let (schema, version, messages) = guarded(&source.name, || {
            let mut start = [0; MAGIC.len()];
            let is_file = file.length >= 16 && file.read_exact(&mut start, 0).is_ok() && start == *MAGIC;
            if is_file { read_footer(&file) } else { read_stream(&file) }
        })?;
        Ok(IpcFile { source: Arc::clone(source), schema, version, messages })
    }

    /// The SQL type of each column.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Option<SqlType>> {
        self.schema.fields().iter().map(|field| SqlType::from_arrow(field.data_type()))
    }

    pub(crate) fn data_type(&self, column: usize) -> &DataType {
        self.schema.field(column).data_type()
    }
}

type Parsed = (SchemaRef, MetadataVersion, Vec<Message>);

fn malformed(what: impl Into<String>) -> ArrowError {
    ArrowError::ParseError(what.into())
}

/// The messages that the footer names: all dictionaries first.
fn read_footer(file: &Bytes) -> Decoded<Parsed> {
    let mut tail = [0; 10];
    file.read_exact(&mut tail, file.length - 10)?;
    let length = read_footer_length(tail)? as u64;
    let start =
        (file.length - 10).checked_sub(length).ok_or_else(|| malformed("the footer is longer than the file"))?;
    let footer = file.read(start, length)?;
    let footer = root_as_footer(&footer).map_err(|error| malformed(format!("the footer is damaged: {error}")))?;
    let schema = footer.schema().ok_or_else(|| malformed("the footer has no schema"))?;
    let batches = footer.recordBatches().ok_or_else(|| malformed("the footer names no record batches"))?;
    let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (block, true));
    let all = dictionaries.chain(batches.iter().map(|block| (block, false)));
    let messages = all.map(|(block, is_dictionary)| {
        file.check(block)?;
        Ok(Message { block: *block, is_dictionary })
    });
    Ok((Arc::new(fb_to_schema(schema)), footer.version(), messages.collect::<Decoded<_>>()?))
}

/// The messages of a stream, found by going from one to the next.
fn read_stream(file: &Bytes) -> Decoded<Parsed> {
    let mut found: Option<(SchemaRef, MetadataVersion)> = None;
    let mut messages = Vec::new();
    let mut at = 0;
    while let Some((prefix, length)) = file.message_length(at)? {
        let metadata = file.read(at + prefix, length)?;
        let message = root_as_message(&metadata).map_err(|error| malformed(format!("no Arrow message: {error}")))?;
        let metadata_length = i32::try_from(prefix + length).map_err(|_| malformed("a message is too long"))?;
        let block = Block::new(at as i64, metadata_length, message.bodyLength());
        file.check(&block)?;
        at += block_bytes(&block);
        let is_dictionary = match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(|| malformed("a schema without content"))?;
                found = Some((Arc::new(fb_to_schema(schema)), message.version()));
                continue;
            }
            MessageHeader::DictionaryBatch => true,
            MessageHeader::RecordBatch => false,
            other => return Err(malformed(format!("a message of the kind {other:?}"))),
        };
        if found.is_none() {
            return Err(malformed("the stream does not begin with a schema"));
        }
        messages.push(Message { block, is_dictionary });
    }
    let (schema, version) = found.ok_or_else(|| malformed("neither an Arrow file nor an Arrow stream"))?;
    Ok((schema, version, messages))
}

fn block_bytes(block: &Block) -> u64 {
    block.metaDataLength() as u64 + block.bodyLength() as u64
}

/// A file that is read at given places.
struct Bytes {
    file: Arc<File>,
    length: u64,
}

impl Bytes {
    fn read_exact(&self, buffer: &mut [u8], at: u64) -> Decoded<()> {
        Ok(self.file.read_exact_at(buffer, at)?)
    }

    /// `length` bytes, which have to be there.
    fn read(&self, at: u64, length: u64) -> Decoded<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(malformed("the file ends within a message"));
        }
        let mut bytes = vec![0; length as usize];
        self.read_exact(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Checks that a block lies within the file.
    fn check(&self, block: &Block) -> Decoded<()> {
        let (offset, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let end = offset.checked_add(i64::from(metadata)).and_then(|end| end.checked_add(body));
        let sound = offset >= 0 && metadata >= 8 && body >= 0 && end.is_some_and(|end| end as u64 <= self.length);
        if sound { Ok(()) } else { Err(malformed("a message does not lie within the file")) }
    }

    /// The bytes in front of the metadata of the message at `at` and those of the metadata; `None` at the end.
    fn message_length(&self, at: u64) -> Decoded<Option<(u64, u64)>> {
        if at == self.length {
            return Ok(None);
        }
        let word = |at: u64| -> Decoded<[u8; 4]> {
            let bytes = self.read(at, 4)?;
            bytes.try_into().map_err(|_| malformed("the file ends within a message"))
        };
        let first = word(at)?;
        let (prefix, length) = if first == CONTINUATION { (8, word(at + 4)?) } else { (4, first) };
        match i32::from_le_bytes(length) {
            0 => Ok(None),
            length if length > 0 => Ok(Some((prefix, length as u64))),
            _ => Err(malformed("neither an Arrow file nor an Arrow stream")),
        }
    }

    /// The bytes of a message, checked to be decodable in bounded memory.
    fn read_message(&self, message: &Message) -> Decoded<Buffer> {
        let block = &message.block;
        let bytes = self.read(block.offset() as u64, block_bytes(block))?;
        check_unpacked_sizes(&bytes, block)?;
        Ok(Buffer::from_vec(bytes))
    }
}

/// Checks the sizes that compressed buffers claim to unpack to.
fn check_unpacked_sizes(bytes: &[u8], block: &Block) -> Decoded<()> {
    let prefix = if bytes.starts_with(&CONTINUATION) { 8 } else { 4 };
    let metadata_length = block.metaDataLength() as usize;
    let (metadata, body) = bytes.split_at(metadata_length);
    let message =
        root_as_message(&metadata[prefix..]).map_err(|error| malformed(format!("no Arrow message: {error}")))?;
    let batch = match message.header_type() {
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => message.header_as_record_batch(),
    };
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    for buffer in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(buffer.offset()).ok();
        let claimed = start.and_then(|start| body.get(start..)?.first_chunk::<8>());
        let claimed = match claimed {
            Some(claimed) if buffer.length() >= 8 => i64::from_le_bytes(*claimed),
            _ => 0,
        };
        if claimed > UNPACKED_BYTES_MAX {
            return Err(malformed(format!("a buffer claims to unpack to {claimed} bytes")));
        }
    }
    Ok(())
}

/// Reads files message by message.
pub(crate) struct IpcJobs {
    files: Vec<Arc<IpcFile>>,
    target: Arc<Vec<TargetColumn>>,
    columns: Arc<FileColumns>,
    schema: SchemaRef,
    progress: Progress,
    state: Mutex<Place>,
}

/// Where the target's columns are in the files.
struct FileColumns {
    /// For each target column its column in each file.
    of_target: Vec<Vec<Option<usize>>>,
    /// For each file the columns that are read, in order. Columns that nobody asks for are not even looked at.
    read: Vec<Vec<usize>>,
}

impl FileColumns {
    fn new(of_target: Vec<Vec<Option<usize>>>, files: usize) -> FileColumns {
        let read = |file: usize| {
            let mut read: Vec<usize> = of_target.iter().filter_map(|columns| columns[file]).collect();
            read.sort_unstable();
            read.dedup();
            read
        };
        FileColumns { read: (0..files).map(read).collect(), of_target }
    }

    /// The place of a target column among those that are read of a file.
    fn place(&self, target: usize, file: usize) -> Option<usize> {
        self.of_target[target][file].and_then(|column| self.read[file].binary_search(&column).ok())
    }
}

/// Where reading stands.
#[derive(Default)]
struct Place {
    file: usize,
    open: Option<OpenFile>,
}

struct OpenFile {
    bytes: Bytes,
    decoder: FileDecoder,
    next: usize,
    rows: u64,
}

impl IpcJobs {
    pub(crate) fn new(
        files: Vec<Arc<IpcFile>>,
        target: &[TargetColumn],
        columns: Vec<Vec<Option<usize>>>,
        progress: Progress,
    ) -> IpcJobs {
        IpcJobs {
            columns: Arc::new(FileColumns::new(columns, files.len())),
            files,
            target: Arc::new(target.to_vec()),
            schema: schema_of(target),
            progress,
            state: Mutex::default(),
        }
    }

    /// The next record batch with its file's number and the number of its first row.
    fn next_batch(&self) -> Result<Option<(usize, u64, RecordBatch)>> {
        let mut place = self.state.lock();
        let place = &mut *place;
        while let Some(file) = self.files.get(place.file) {
            if place.open.is_none() {
                let bytes = Bytes { file: file.source.open()?, length: file.source.bytes };
                let read = self.columns.read[place.file].clone();
                let decoder = FileDecoder::new(Arc::clone(&file.schema), file.version).with_projection(read);
                place.open = Some(OpenFile { bytes, decoder, next: 0, rows: 0 });
            }
            let open = place.open.as_mut().expect("opened above");
            let Some(message) = file.messages.get(open.next) else {
                place.open = None;
                place.file += 1;
                continue;
            };
            open.next += 1;
            let batch = guarded(&file.source.name, || {
                let bytes = open.bytes.read_message(message)?;
                if message.is_dictionary {
                    open.decoder.read_dictionary(&message.block, &bytes).map(|()| None)
                } else {
                    open.decoder.read_record_batch(&message.block, &bytes)
                }
            })?;
            self.progress.add(block_bytes(&message.block));
            if let Some(batch) = batch {
                let first_row = open.rows;
                open.rows += batch.num_rows() as u64;
                return Ok(Some((place.file, first_row, batch)));
            }
        }
        Ok(None)
    }
}

impl Jobs for IpcJobs {
    fn next_job(&self) -> Result<Option<Job>> {
        let Some((number, first_row, batch)) = self.next_batch()? else { return Ok(None) };
        let file = Arc::clone(&self.files[number]);
        let (target, columns, schema) = (Arc::clone(&self.target), Arc::clone(&self.columns), Arc::clone(&self.schema));
        Ok(Some(Box::new(move || {
            let rows = batch.num_rows();
            let columns = target.iter().enumerate().map(|(i, target)| match columns.place(i, number) {
                None => target.filled(rows),
                Some(place) => {
                    let (name, array) = (&file.source.name, batch.column(place));
                    guarded(name, || {
                        Ok::<_, String>(convert_column(array, target, name, |row| first_row + row as u64))
                    })?
                }
            });
            batch_of(&schema, columns.collect::<Result<_>>()?, rows)
        })))
    }
}

//! Reads one file of Arrow IPC: the file format with its footer, or a stream that was written to a file.
//!
//! Both are first turned into a list of messages with their locations. Every message is checked to be within the file
//! and to decompress to a bounded size. Only then do we read bytes and pass them to Arrow's decoder. So the lengths in
//! a damaged file cannot ask for more memory than the file has bytes, or [`UNPACKED_BYTES_MAX`] for a compressed
//! buffer.

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
use crate::input_file::InputFile;
use crate::jobs::{Job, Jobs, ReadProgress};
use crate::mapping::{TargetColumn, batch_of, schema_of};
use crate::parquet_blocks::convert_column;
use crate::source_file::SourceFile;

/// The first and the last bytes of the file format.
const MAGIC: &[u8; 6] = b"ARROW1";
/// The first bytes of a message, before the length of its metadata.
const CONTINUATION: [u8; 4] = [0xFF; 4];
/// The maximum size of one decompressed buffer in bytes.
const UNPACKED_BYTES_MAX: i64 = 4 << 30;

type Decoded<T> = Result<T, ArrowError>;

/// One file with the locations of its messages.
#[derive(Debug)]
pub(crate) struct IpcFile {
    pub(crate) source: Arc<SourceFile>,
    pub(crate) schema: SchemaRef,
    version: MetadataVersion,
    messages: Vec<Message>,
}

/// A dictionary or a record batch. Messages must be read in their order.
#[derive(Clone, Copy, Debug)]
struct Message {
    block: Block,
    is_dictionary: bool,
}

impl IpcFile {
    pub(crate) fn open(source: &Arc<SourceFile>) -> Result<IpcFile> {
        let file = IpcBytes { file: source.open()?, length: source.bytes };
        let (schema, version, messages) = guarded(&source.name, || {
            let mut start = [0; MAGIC.len()];
            // Anything without the magic bytes is tried as a stream.
            let is_file = file.length >= 16 && file.read_exact(&mut start, 0).is_ok() && start == *MAGIC;
            if is_file { read_footer(&file) } else { read_stream(&file) }
        })?;
        Ok(IpcFile { source: Arc::clone(source), schema, version, messages })
    }

    /// The SQL type of each column. `None` for types that SQL does not have.
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

/// The messages listed in the footer, all dictionaries first.
fn read_footer(file: &IpcBytes) -> Decoded<Parsed> {
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

/// The messages of a stream, found by following them from one to the next.
fn read_stream(file: &IpcBytes) -> Decoded<Parsed> {
    let mut found: Option<(SchemaRef, MetadataVersion)> = None;
    let mut messages = Vec::new();
    let mut at = 0;
    while let Some((prefix, length)) = file.message_length(at)? {
        let metadata = file.read(at + prefix, length)?;
        let message = root_as_message(&metadata).map_err(|error| malformed(format!("no Arrow message: {error}")))?;
        // A stream has no directory, so we build the entry that a footer would have.
        let metadata_length = i32::try_from(prefix + length).map_err(|_| malformed("a message is too long"))?;
        let block = Block::new(at as i64, metadata_length, message.bodyLength());
        file.check(&block)?;
        at += block_bytes(&block);
        let is_dictionary = match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(|| malformed("a schema message has no content"))?;
                found = Some((Arc::new(fb_to_schema(schema)), message.version()));
                continue;
            }
            MessageHeader::DictionaryBatch => true,
            MessageHeader::RecordBatch => false,
            other => return Err(malformed(format!("a message has the unexpected kind {other:?}"))),
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

/// A file that is read at given offsets.
struct IpcBytes {
    file: Arc<InputFile>,
    length: u64,
}

impl IpcBytes {
    fn read_exact(&self, buffer: &mut [u8], at: u64) -> Decoded<()> {
        Ok(self.file.read_exact_at(buffer, at)?)
    }

    /// Reads `length` bytes. Returns an error if the file is shorter.
    fn read(&self, at: u64, length: u64) -> Decoded<Vec<u8>> {
        // Check before allocating: the length comes from the file.
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(malformed("the file ends within a message"));
        }
        let mut bytes = vec![0; length as usize];
        self.read_exact(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Checks that a block is within the file.
    fn check(&self, block: &Block) -> Decoded<()> {
        let (offset, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let end = offset.checked_add(i64::from(metadata)).and_then(|end| end.checked_add(body));
        let sound = offset >= 0 && metadata >= 8 && body >= 0 && end.is_some_and(|end| end as u64 <= self.length);
        if sound { Ok(()) } else { Err(malformed("a message is not within the file")) }
    }

    /// The sizes of the prefix and of the metadata of the message at `at`. `None` at the end.
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

    /// Reads the bytes of a message and checks that decoding them needs bounded memory.
    fn read_message(&self, message: &Message) -> Decoded<Buffer> {
        let block = &message.block;
        let bytes = self.read(block.offset() as u64, block_bytes(block))?;
        check_unpacked_sizes(&bytes, block)?;
        Ok(Buffer::from_vec(bytes))
    }
}

/// Checks the sizes to which compressed buffers claim to decompress.
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
        // A compressed buffer begins with the size that it decompresses to.
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
    progress: ReadProgress,
    state: Mutex<IpcPosition>,
}

/// The locations of the target's columns in the files.
struct FileColumns {
    /// For each target column, its column in each file.
    of_target: Vec<Vec<Option<usize>>>,
    /// For each file, the columns that are read, in ascending order. Other columns are not decoded.
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

    /// The index of a target column among the columns that are read from a file.
    fn place(&self, target: usize, file: usize) -> Option<usize> {
        self.of_target[target][file].and_then(|column| self.read[file].binary_search(&column).ok())
    }
}

/// The current position of reading.
#[derive(Default)]
struct IpcPosition {
    file: usize,
    open: Option<OpenFile>,
}

struct OpenFile {
    bytes: IpcBytes,
    decoder: FileDecoder,
    next: usize,
    rows: u64,
}

impl IpcJobs {
    pub(crate) fn new(
        files: Vec<Arc<IpcFile>>,
        target: &[TargetColumn],
        columns: Vec<Vec<Option<usize>>>,
        progress: ReadProgress,
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

    /// The next record batch, with the number of its file and of its first row.
    fn next_batch(&self) -> Result<Option<(usize, u64, RecordBatch)>> {
        let mut place = self.state.lock();
        let place = &mut *place;
        while let Some(file) = self.files.get(place.file) {
            if place.open.is_none() {
                let bytes = IpcBytes { file: file.source.open()?, length: file.source.bytes };
                let read = self.columns.read[place.file].clone();
                let decoder = FileDecoder::new(Arc::clone(&file.schema), file.version).with_projection(read);
                place.open = Some(OpenFile { bytes, decoder, next: 0, rows: 0 });
            }
            let open = place.open.as_mut().expect("the file was opened above");
            // The file is read to its end. Continue with the next one.
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

//! Batches of rows as frames, in the format of Arrow's IPC messages.
//!
//! Buffers of an IPC message are aligned, so a batch that is read shares the memory of its frame.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message};
use arrow::ipc::{Block, MetadataVersion};
use rowmill_base::{Error, Result};

use super::section::SectionReader;
use super::writer::SpillWriter;

/// The bytes before a message. The first eight of them are the length of its head. Arrow aligns the buffers of a
/// message to this number of bytes.
const LEAD_BYTES: usize = 64;

/// Writes and reads batches of one schema.
#[derive(Debug)]
pub struct BatchCodec {
    schema: SchemaRef,
    decoder: FileDecoder,
    options: IpcWriteOptions,
}

impl BatchCodec {
    /// A codec for batches of `schema`.
    pub fn new(schema: SchemaRef) -> BatchCodec {
        let decoder = FileDecoder::new(Arc::clone(&schema), MetadataVersion::V5);
        BatchCodec { schema, decoder, options: IpcWriteOptions::default() }
    }

    /// Adds a frame with `batch` to the current section of `writer`. Its columns must have the types of the schema.
    pub fn put(&self, batch: &RecordBatch, writer: &mut SpillWriter) -> Result<()> {
        // A view array may refer to a small part of large buffers. Without the copy, we would write them as a whole.
        let columns = batch.columns().iter().map(with_own_bytes).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows).map_err(failed)?;
        let (mut dictionaries, mut context) = (DictionaryTracker::new(false), IpcWriteContext::default());
        let (_, data) = IpcDataGenerator::default()
            .encode(&batch, &mut dictionaries, &self.options, &mut context)
            .map_err(failed)?;
        let mut bytes = Vec::with_capacity(2 * LEAD_BYTES + data.ipc_message.len() + data.arrow_data.len());
        bytes.extend([0; LEAD_BYTES]);
        let (head, _) = write_message(&mut bytes, data, &self.options).map_err(failed)?;
        bytes[..8].copy_from_slice(&(head as u64).to_le_bytes());
        writer.put(&bytes)
    }

    /// Reads the next batch; `None` at the end of the section.
    pub fn next(&self, reader: &mut SectionReader) -> Result<Option<RecordBatch>> {
        match reader.next_frame()? {
            Some(frame) => self.decode(&frame).map(Some),
            None => Ok(None),
        }
    }

    fn decode(&self, frame: &Buffer) -> Result<RecordBatch> {
        let damaged = || Error::corrupt("a frame of a temporary file is no batch of rows");
        let (lead, _) = frame.split_first_chunk::<LEAD_BYTES>().ok_or_else(damaged)?;
        let (head, _) = lead.split_first_chunk().ok_or_else(damaged)?;
        let (head, body) = (u64::from_le_bytes(*head), (frame.len() - LEAD_BYTES) as u64);
        if head > body {
            return Err(damaged());
        }
        let block = Block::new(0, head as i32, (body - head) as i64);
        let batch = self.decoder.read_record_batch(&block, &frame.slice(LEAD_BYTES)).map_err(|_| damaged())?;
        batch.ok_or_else(damaged)
    }
}

/// Returns an array whose texts have buffers of their own.
fn with_own_bytes(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot write a batch to a temporary file: {error}"))
}

//! The memory that batches hold.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

/// The buffers of batches. Each buffer is counted once, even if many slices point into it.
#[derive(Default)]
pub(crate) struct HeldBuffers {
    /// The bytes of each buffer by its address.
    seen: HashMap<usize, usize>,
    bytes: usize,
}

impl HeldBuffers {
    /// Counts the buffers of a batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        batch.columns().iter().for_each(|column| self.add_array(column));
    }

    /// Counts the buffers of an array.
    pub(crate) fn add_array(&mut self, values: &ArrayRef) {
        self.add_data(&values.to_data());
    }

    /// The bytes that adding a batch would add.
    pub(super) fn more_with(&self, batch: &RecordBatch) -> usize {
        let mut alone = HeldBuffers::default();
        alone.add(batch);
        let known = alone.seen.iter().filter_map(|(place, bytes)| self.seen.contains_key(place).then_some(bytes));
        alone.bytes - known.sum::<usize>()
    }

    /// The bytes of all buffers and of the arrays around them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn add_data(&mut self, data: &ArrayData) {
        self.bytes += size_of::<ArrayData>();
        data.buffers().iter().for_each(|buffer| self.add_buffer(buffer));
        if let Some(nulls) = data.nulls() {
            self.add_buffer(nulls.buffer());
        }
        data.child_data().iter().for_each(|child| self.add_data(child));
    }

    /// Counts one buffer.
    pub(super) fn add_buffer(&mut self, buffer: &Buffer) {
        let bytes = buffer.capacity();
        if self.seen.insert(buffer.data_ptr().as_ptr() as usize, bytes).is_none() {
            self.bytes += bytes;
        }
    }
}

/// Copies values into buffers of their own.
pub(crate) fn copied(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => {
            let all = UInt32Array::from_iter_values(0..values.len() as u32);
            take(values, &all, None).map_err(|error| Error::internal(format!("cannot copy values: {error}")))?
        }
    })
}

/// The bytes that the rows of a batch take when they are copied, without the text bytes that are outside of the views.
pub(super) fn bytes_of_rows(batch: &RecordBatch) -> usize {
    let bytes = batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()));
    bytes.sum()
}

/// The bytes of texts and blobs of a batch that are outside of the views.
pub(super) fn bytes_of_texts(batch: &RecordBatch) -> usize {
    let bytes = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringViewArray};

    use super::*;

    #[test]
    fn slices_of_one_buffer_are_counted_once() {
        let texts = (0..1_000).map(|row| format!("a text too long for its view {row}"));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("s", texts)]).expect("one column");
        let mut whole = HeldBuffers::default();
        whole.add(&batch);
        let mut slices = HeldBuffers::default();
        (0..10).for_each(|slice| slices.add(&batch.slice(slice * 100, 100)));
        assert_eq!(whole.more_with(&batch), size_of::<ArrayData>());
        assert_eq!(HeldBuffers::default().more_with(&batch), whole.bytes());
        assert!(whole.bytes() > 1_000 * (16 + 29));
        assert_eq!(slices.bytes() - whole.bytes(), 9 * size_of::<ArrayData>());
        assert_eq!(bytes_of_rows(&batch.slice(0, 100)), 1_600);
        assert_eq!(bytes_of_texts(&batch.slice(0, 10)), 10 * 30);
    }
}

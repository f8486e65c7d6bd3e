//! The columns of the build side: gathered in parts, joined when all parts are there, and always accounted for.
//!
//! Numbers are copied once, when the parts are joined, so that every later access reads one array. Texts stay in their
//! buffers, which many batches may share; each buffer is counted once. Texts that keep far more memory alive than they
//! need, for example a few values of a long list, are copied.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use rowmill_base::{Broker, Error, ErrorKind, Reservation, Result};

use super::OWNER;
use crate::sort::copied;

/// Texts that keep more than this many times their bytes alive are copied when the parts are joined. The factor bounds
/// the memory that a build side holds in vain. With 1, 2, 4 and 16, a join that keeps 200,000 URLs takes 430, 434, 443
/// and 467 ms.
const HELD_FACTOR: usize = 2;
/// The factor when texts are added. It is larger, because later slices of the same batch share its buffers.
const HELD_FACTOR_GATHERED: usize = 2 * HELD_FACTOR;
/// Most buffers of a column of texts. Each batch that is taken from the column refers to all of them. With 8 to 512,
/// joins of ClickBench's URLs and titles take equally long.
const BUFFERS_MAX: usize = 128;

/// A column in parts, with the memory that they take.
#[derive(Debug)]
pub(super) struct ColumnInParts {
    parts: Vec<ArrayRef>,
    /// The buffers of texts that are already counted.
    held: Held,
    memory: Reservation,
}

/// A column in one part, with the memory that it takes.
#[derive(Debug)]
pub(super) struct PartColumn {
    pub(super) values: ArrayRef,
    memory: Reservation,
}

impl ColumnInParts {
    pub(super) fn new(broker: &Broker) -> ColumnInParts {
        ColumnInParts { parts: Vec::new(), held: Held::default(), memory: broker.reservation(OWNER) }
    }

    /// Adds values. Their memory must be granted before they are kept.
    pub(super) fn push(&mut self, values: &ArrayRef) -> Result<()> {
        let fixed = fixed_bytes(values);
        let Some(texts) = JoinTexts::of(values) else {
            self.memory.grow(fixed as u64)?;
            self.parts.push(Arc::clone(values));
            return Ok(());
        };
        // A buffer that an earlier batch brought costs nothing more.
        let new = self.held.missing(texts.buffers);
        if new > HELD_FACTOR_GATHERED * texts.used {
            self.memory.grow((fixed + texts.used) as u64)?;
            self.parts.push(compact(values));
        } else {
            self.memory.grow((fixed + new) as u64)?;
            self.held.add(texts.buffers);
            self.parts.push(Arc::clone(values));
        }
        Ok(())
    }

    /// The added values, as they are kept.
    pub(super) fn parts(&self) -> &[ArrayRef] {
        &self.parts
    }

    /// The bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// The added values, and the memory that they take.
    pub(super) fn into_parts(self) -> (Vec<ArrayRef>, Reservation) {
        (self.parts, self.memory)
    }
}

impl PartColumn {
    /// Joins all `parts`, which must be of type `kind`, into one column. `order` is the order of the arrays in them, if
    /// it is another one.
    pub(super) fn join(
        parts: &[ColumnInParts],
        order: Option<&[usize]>,
        kind: &DataType,
        broker: &Broker,
    ) -> Result<PartColumn> {
        let mut memory = broker.reservation(OWNER);
        let mut parts: Vec<ArrayRef> = parts.iter().flat_map(ColumnInParts::parts).cloned().collect();
        if let Some(order) = order {
            parts = order.iter().map(|part| Arc::clone(&parts[*part])).collect();
        }
        let values = join_arrays(kind, &parts, &mut memory)?;
        Ok(PartColumn { values, memory })
    }

    /// Counts the memory again, after the parts that shared texts with the column are gone.
    pub(super) fn recount(&mut self) {
        self.memory.recount(bytes_of(&self.values) as u64);
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

/// Joins all `parts`, which must be of type `kind`, into one array. Grows `memory` by the copied bytes.
pub(super) fn join_arrays(kind: &DataType, parts: &[ArrayRef], memory: &mut Reservation) -> Result<ArrayRef> {
    let joined = match parts {
        [] => return Ok(new_empty_array(kind)),
        [only] => Arc::clone(only),
        parts => {
            memory.grow(parts.iter().map(|part| fixed_bytes(part) as u64).sum())?;
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(|error| {
                let message = format!("a join cannot keep all values of {kind} of one side in one array: {error}");
                Error::new(ErrorKind::ResultTooLarge, message)
            })?
        }
    };
    let Some(texts) = JoinTexts::of(&joined) else { return Ok(joined) };
    let held = Held::default().missing(texts.buffers);
    // Keep shared buffers unless they are too many or mostly unused.
    if texts.buffers.len() <= BUFFERS_MAX && held <= HELD_FACTOR * texts.used {
        return Ok(joined);
    }
    memory.grow((texts.used + fixed_bytes(&joined)) as u64)?;
    Ok(compact(&joined))
}

/// An array of texts.
struct JoinTexts<'a> {
    buffers: &'a [Buffer],
    /// Bytes of the texts that are in buffers.
    used: usize,
}

impl JoinTexts<'_> {
    fn of(values: &ArrayRef) -> Option<JoinTexts<'_>> {
        if let Some(texts) = values.as_string_view_opt() {
            return Some(JoinTexts { buffers: texts.data_buffers(), used: texts.total_buffer_bytes_used() });
        }
        let texts = values.as_binary_view_opt()?;
        Some(JoinTexts { buffers: texts.data_buffers(), used: texts.total_buffer_bytes_used() })
    }
}

/// Copies texts into buffers of their own.
pub(super) fn compact(values: &ArrayRef) -> ArrayRef {
    match values.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()),
        None => Arc::new(values.as_binary_view().gc()),
    }
}

/// Buffers by their address, so that each counts once, however many arrays share it.
#[derive(Debug, Default)]
struct Held(HashMap<usize, usize>);

impl Held {
    /// Bytes of the `buffers` that are not known yet.
    fn missing(&self, buffers: &[Buffer]) -> usize {
        let mut missing = Held::default();
        missing.add(buffers);
        missing.0.iter().filter(|(place, _)| !self.0.contains_key(place)).map(|(_, bytes)| bytes).sum()
    }

    fn add(&mut self, buffers: &[Buffer]) {
        self.0.extend(buffers.iter().map(|buffer| (buffer.data_ptr().as_ptr() as usize, buffer.capacity())));
    }
}

/// Bytes of an array. If it is a slice, the rest of the larger array does not count.
fn bytes_of(values: &ArrayRef) -> usize {
    let held = JoinTexts::of(values).map_or(0, |texts| Held::default().missing(texts.buffers));
    fixed_bytes(values) + held
}

/// Bytes of an array if its texts had buffers of their own.
pub(crate) fn own_bytes(values: &ArrayRef) -> usize {
    fixed_bytes(values) + JoinTexts::of(values).map_or(0, |texts| texts.used)
}

/// Copies texts that keep far more memory alive than they need.
pub(crate) fn without_unused_texts(values: &ArrayRef) -> ArrayRef {
    match JoinTexts::of(values) {
        Some(texts) if Held::default().missing(texts.buffers) > HELD_FACTOR * texts.used => compact(values),
        _ => Arc::clone(values),
    }
}

/// Copies all `columns`, which share the buffer that they were read into. Texts that are kept would otherwise keep the
/// numbers of their batch alive, and numbers the texts.
pub(crate) fn with_own_buffers(columns: &mut [ArrayRef]) -> Result<()> {
    // Without texts, all columns are kept and dropped together.
    if columns.iter().all(|column| JoinTexts::of(column).is_none()) {
        return Ok(());
    }
    for column in columns {
        *column = copied(column)?;
    }
    Ok(())
}

/// Bytes of an array without the buffers of texts.
fn fixed_bytes(values: &ArrayRef) -> usize {
    let nulls = values.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    let rows = values.len();
    match values.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8) + nulls,
        DataType::Utf8View | DataType::BinaryView => rows * size_of::<u128>() + nulls,
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            // Only the items of this slice count.
            let (first, last) = (list.value_offsets()[0] as usize, list.value_offsets()[rows] as usize);
            bytes_of(&list.values().slice(first, last - first)) + (rows + 1) * size_of::<i32>() + nulls
        }
        DataType::Struct(_) => values.as_struct().columns().iter().map(bytes_of).sum::<usize>() + nulls,
        kind => match kind.primitive_width() {
            Some(width) => rows * width + nulls,
            None => values.to_data().get_slice_memory_size().unwrap_or_else(|_| values.get_array_memory_size()),
        },
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray, UInt32Array};
    use arrow::compute::take;

    use super::*;

    fn texts(count: usize) -> ArrayRef {
        let texts = (0..count).map(|row| Some(format!("a text that is long enough for a buffer, number {row}")));
        Arc::new(texts.collect::<StringViewArray>().gc())
    }

    fn joined(parts: &[ArrayRef], broker: &Broker) -> (u64, PartColumn) {
        let mut column = ColumnInParts::new(broker);
        parts.iter().for_each(|part| column.push(part).expect("memory for it"));
        let gathered = column.memory.bytes();
        let parts_of_all = [column, ColumnInParts::new(broker)];
        let mut column = PartColumn::join(&parts_of_all, None, parts[0].data_type(), broker).expect("memory for it");
        drop(parts_of_all);
        column.recount();
        assert_eq!(*column.values, *concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).expect("one type"));
        assert_eq!(broker.used_bytes(), column.bytes());
        (gathered, column)
    }

    #[test]
    fn slices_are_counted_without_the_rest_of_their_array() {
        let broker = Broker::new(1 << 30);
        let whole: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let slices: Vec<ArrayRef> = (0..100).map(|number| whole.slice(number * 100, 100)).collect();
        let (gathered, column) = joined(&slices, &broker);
        assert_eq!((gathered, column.bytes()), (80_000, 80_000));
        drop(column);
        assert_eq!(broker.used_bytes(), 0);
    }

    #[test]
    fn shared_texts_are_counted_once() {
        let broker = Broker::new(1 << 30);
        let whole = texts(10_000);
        let real = bytes_of(&whole) as u64;
        let slices: Vec<ArrayRef> = (0..2).map(|number| whole.slice(number * 5_000, 5_000)).collect();
        let (gathered, column) = joined(&slices, &broker);
        assert_eq!((gathered, column.bytes()), (real, real));
    }

    #[test]
    fn a_few_of_many_texts_are_copied() {
        let broker = Broker::new(1 << 30);
        let whole = texts(10_000);
        let few = take(&whole, &UInt32Array::from_iter_values((0..10).map(|row| row * 1_000)), None).expect("rows");
        let (gathered, column) = joined(&[few], &broker);
        assert!(gathered < 2_000, "{gathered} bytes of ten texts");
        assert!(column.bytes() < 2_000);
        assert_eq!(column.values.as_string_view().data_buffers().len(), 1);
    }

    #[test]
    fn too_many_buffers_are_joined_into_one() {
        let broker = Broker::new(1 << 30);
        let parts: Vec<ArrayRef> = (0..BUFFERS_MAX + 1).map(|_| texts(3)).collect();
        let (_, column) = joined(&parts, &broker);
        assert_eq!(column.values.as_string_view().data_buffers().len(), 1);
    }

    #[test]
    fn values_above_the_memory_limit_are_refused_and_not_kept() {
        let broker = Broker::new(1_000);
        let mut column = ColumnInParts::new(&broker);
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        column.push(&values).expect("800 bytes");
        let error = column.push(&values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert!(error.message().starts_with("JOIN with 800 bytes asked for 800 more"), "{error}");
        assert_eq!((column.parts().len(), column.memory.bytes()), (1, 800));
    }
}

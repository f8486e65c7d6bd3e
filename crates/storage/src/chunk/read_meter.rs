//! What is read of chunks, for whoever explains a query.
//!
//! A section counts with all its stored bytes when anything in it is asked for first: pages are read around a value, and
//! where in a section readers look they know best themselves. Values are counted when the chunk is let go of, because
//! any number of questions may decode the same ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rowmill_base::Meter;

use super::head::{Section, SectionKind};

/// What was read of any number of chunks.
#[derive(Debug, Default)]
pub struct ReadMeter {
    bytes: AtomicU64,
    values_skipped: AtomicU64,
    memory: Arc<Meter>,
}

impl ReadMeter {
    /// Stored bytes of the sections that were asked for, each counted once per opened chunk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Values of the lists of these chunks that were not decoded; of chunks that are still open, none.
    pub fn values_skipped(&self) -> u64 {
        self.values_skipped.load(Ordering::Relaxed)
    }

    /// The memory of what is decoded and kept while a chunk is open.
    pub fn memory(&self) -> &Arc<Meter> {
        &self.memory
    }
}

/// What was read of one chunk.
#[derive(Debug)]
pub(super) struct ChunkReads {
    meter: Arc<ReadMeter>,
    /// A bit for each kind of section that was asked for.
    sections: AtomicU32,
    /// Values of the list, and how many of them were decoded, some perhaps more than once.
    values: usize,
    values_decoded: AtomicUsize,
}

impl ChunkReads {
    /// Nothing yet of a chunk that lists `values` values.
    pub(super) fn new(meter: Arc<ReadMeter>, values: usize) -> ChunkReads {
        ChunkReads { meter, sections: AtomicU32::new(0), values, values_decoded: AtomicUsize::new(0) }
    }

    pub(super) fn meter(&self) -> &Arc<ReadMeter> {
        &self.meter
    }

    /// `section` is asked for. Of sections of one kind the first counts.
    pub(super) fn section(&self, section: &Section) {
        let bit = 1 << section.kind as u32;
        // Asked for over and over: looked at first, so that workers do not take the line from each other.
        if self.sections.load(Ordering::Relaxed) & bit == 0 && self.sections.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.meter.bytes.fetch_add(section.len as u64, Ordering::Relaxed);
        }
    }

    /// So many values of the list are decoded.
    pub(super) fn decoded(&self, values: usize) {
        self.values_decoded.fetch_add(values, Ordering::Relaxed);
    }
}

const _: () = assert!((SectionKind::Grams as u32) < u32::BITS);

impl Drop for ChunkReads {
    fn drop(&mut self) {
        let skipped = self.values.saturating_sub(*self.values_decoded.get_mut());
        self.meter.values_skipped.fetch_add(skipped as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use rowmill_base::{Broker, SqlType};

    use super::super::{Chunk, ChunkBytes, Encoding, encode_as};
    use super::*;

    /// The chunk of a column of a hundred values, in turns, and what is read of it.
    fn listed(column: ArrayRef, kind: &SqlType) -> (Chunk, Arc<ReadMeter>) {
        let meter = Arc::new(ReadMeter::default());
        let bytes = encode_as(&*column, kind, Some(Encoding::ListCodes)).expect("it can be stored").expect("as a list");
        let chunk = Chunk::open(ChunkBytes::memory(bytes), kind).expect("what was just stored");
        (chunk.with_memory(Broker::new(1 << 20).scratch("test")).metered(&meter), meter)
    }

    fn numbers() -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..10_000).map(|row| row % 100 * 1_000)))
    }

    #[test]
    fn a_section_counts_once_and_only_if_asked_for() {
        let (chunk, meter) = listed(numbers(), &SqlType::Int64);
        assert_eq!(meter.bytes(), 0);
        let bytes = |kind| chunk.head.section(kind).expect("a list with codes").len as u64;
        let mut codes = Vec::new();
        chunk.codes(0..100, &mut codes).expect("codes");
        chunk.codes(100..200, &mut codes).expect("codes");
        assert_eq!(meter.bytes(), bytes(SectionKind::Codes));
        chunk.values().expect("values");
        assert_eq!(meter.bytes(), bytes(SectionKind::Codes) + bytes(SectionKind::Values));
        assert!(meter.memory().peak_bytes() >= 100 * size_of::<i64>() as u64);
    }

    #[test]
    fn values_that_nobody_decodes_are_skipped() {
        let (chunk, meter) = listed(numbers(), &SqlType::Int64);
        chunk.values_at(&[3, 7]).expect("two values");
        assert_eq!(meter.values_skipped(), 0);
        drop(chunk);
        assert_eq!(meter.values_skipped(), 98);
        let (chunk, meter) = listed(numbers(), &SqlType::Int64);
        chunk.read(0..10_000).expect("all rows");
        chunk.values_at(&[3]).expect("a value");
        drop(chunk);
        assert_eq!(meter.values_skipped(), 0);
    }

    #[test]
    fn strings_are_counted_by_windows_and_picks() {
        let texts =
            || Arc::new(StringViewArray::from_iter_values((0..10_000).map(|row| format!("text {}", row % 100))));
        let (chunk, meter) = listed(texts(), &SqlType::Text { chars_max: None });
        chunk.codes_where(b"", false, &mut |_, _| {}).expect("a look at all");
        drop(chunk);
        assert_eq!(meter.values_skipped(), 0);
        let (chunk, meter) = listed(texts(), &SqlType::Text { chars_max: None });
        chunk.take(&[5]).expect("a row");
        drop(chunk);
        assert_eq!(meter.values_skipped(), 99);
    }
}

//! Counts what queries read from chunks, for EXPLAIN.
//!
//! The first request for anything in a section counts all of its stored bytes, because pages are read around a value
//! and only the readers know where in a section they look. Skipped values are counted when the chunk is dropped,
//! because any number of requests may decode the same values.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rowmill_base::Meter;

use super::head::{Section, SectionKind};

/// The totals of all reads of any number of chunks.
#[derive(Debug, Default)]
pub struct ReadMeter {
    bytes: AtomicU64,
    values_skipped: AtomicU64,
    memory: Arc<Meter>,
}

impl ReadMeter {
    /// The stored bytes of the requested sections. Each section counts once per opened chunk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of list values that were never decoded. Chunks that are still open do not count yet.
    pub fn values_skipped(&self) -> u64 {
        self.values_skipped.load(Ordering::Relaxed)
    }

    /// The memory of the decoded data that open chunks keep.
    pub fn memory(&self) -> &Arc<Meter> {
        &self.memory
    }
}

/// The reads of one chunk.
#[derive(Debug)]
pub(super) struct ChunkReads {
    meter: Arc<ReadMeter>,
    /// A bit for each kind of section that was requested.
    sections: AtomicU32,
    /// The number of values of the list, and the number of decoded ones. A value that was decoded twice counts twice.
    values: usize,
    values_decoded: AtomicUsize,
}

impl ChunkReads {
    /// A chunk with `values` listed values, from which nothing was read yet.
    pub(super) fn new(meter: Arc<ReadMeter>, values: usize) -> ChunkReads {
        ChunkReads { meter, sections: AtomicU32::new(0), values, values_decoded: AtomicUsize::new(0) }
    }

    pub(super) fn meter(&self) -> &Arc<ReadMeter> {
        &self.meter
    }

    /// Counts a request for `section`. Only the first section of each kind counts.
    pub(super) fn section(&self, section: &Section) {
        let bit = 1 << section.kind as u32;
        // Sections are requested over and over. We look before we write, so that workers do not take the cache line
        // from each other.
        if self.sections.load(Ordering::Relaxed) & bit == 0 && self.sections.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.meter.bytes.fetch_add(section.len as u64, Ordering::Relaxed);
        }
    }

    /// Counts `values` decoded values of the list.
    pub(super) fn decoded(&self, values: usize) {
        self.values_decoded.fetch_add(values, Ordering::Relaxed);
    }
}

const _: () = assert!((SectionKind::Grams as u32) < u32::BITS);

impl Drop for ChunkReads {
    fn drop(&mut self) {
        // Values that were decoded twice may make the difference negative.
        let skipped = self.values.saturating_sub(*self.values_decoded.get_mut());
        self.meter.values_skipped.fetch_add(skipped as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use rowmill_base::{Broker, SqlType};

    use super::super::{Chunk, ChunkBytes, encode_as};
    use super::*;
    use crate::encoding::encoding_named;

    /// A chunk of a column whose rows repeat a hundred values, and the meter of its reads.
    fn listed(column: ArrayRef, kind: &SqlType) -> (Chunk, Arc<ReadMeter>) {
        let meter = Arc::new(ReadMeter::default());
        let bytes = encode_as(&*column, kind, Some(encoding_named("list+codes")))
            .expect("it can be stored")
            .expect("as a list");
        let chunk = Chunk::open(ChunkBytes::memory(bytes), kind).expect("the chunk was just encoded");
        (chunk.with_memory(Broker::new(1 << 20).scratch("test")).metered(&meter), meter)
    }

    fn numbers() -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..10_000).map(|row| row % 100 * 1_000)))
    }

    #[test]
    fn a_section_counts_once_and_only_if_it_is_requested() {
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
    fn values_that_are_never_decoded_count_as_skipped() {
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

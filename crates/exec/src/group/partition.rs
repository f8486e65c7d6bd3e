//! The groups that one worker gathered, in partitions by the hash of their keys.
//!
//! The partitions of one number, of all workers, are later put together in one hash table, small enough for the caches.
//! Rows are written page by page, so that growing copies nothing.

use std::mem::size_of;

use rowmill_base::{Reservation, Result};

use super::layout::{KeyShape, Layout, with_shape};

/// Rows that are put into partitions at once: so many that each partition gets several in a row, because writing to
/// hundreds of places in turn misses the caches and their page tables, and so few that they are in a cache themselves.
pub(super) const ROWS_PER_CHUNK: usize = 1 << 12;

/// Rows of the first and of the largest page of a partition.
const PAGE_ROWS: std::ops::Range<usize> = 1 << 5..1 << 10;

/// Groups that were gathered, some of them more than once.
#[derive(Debug, Default)]
pub(super) struct Partition {
    pages: Vec<Vec<u64>>,
    rows: usize,
}

impl Partition {
    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// The rows, in pages.
    pub(super) fn pages(&self) -> &[Vec<u64>] {
        &self.pages
    }

    /// The rows, in pages.
    pub(super) fn pages_mut(&mut self) -> &mut [Vec<u64>] {
        &mut self.pages
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| (page.capacity() * size_of::<u64>()) as u64).sum()
    }

    /// Rows for which there is no room yet, of so many.
    fn lacks(&self, rows: usize, stride: usize) -> usize {
        let room = self.pages.last().map_or(0, |page| (page.capacity() - page.len()) / stride);
        rows.saturating_sub(room)
    }

    /// Rows of the next page, which has to take `rows` at least.
    fn page_rows(&self, rows: usize) -> usize {
        self.rows.next_power_of_two().clamp(PAGE_ROWS.start, PAGE_ROWS.end).max(rows)
    }

    /// Appends those of `rows` at `places`.
    fn extend(&mut self, rows: &[u64], places: &[u32], stride: usize) {
        let lacks = self.lacks(places.len(), stride);
        let (first, rest) = places.split_at(places.len() - lacks);
        let page_rows = self.page_rows(lacks);
        for (places, is_new) in [(first, false), (rest, true)] {
            if is_new && !places.is_empty() {
                self.pages.push(Vec::with_capacity(page_rows * stride));
            }
            let Some(page) = self.pages.last_mut() else { continue };
            for place in places {
                page.extend_from_slice(&rows[*place as usize * stride..][..stride]);
            }
        }
        self.rows += places.len();
    }
}

/// The partitions of one worker.
#[derive(Debug)]
pub(super) struct Partitions {
    partitions: Vec<Partition>,
    order: Order,
    hashes: Vec<u64>,
    memory: Reservation,
}

impl Partitions {
    /// So many empty partitions, a power of two, that take their memory from `memory`.
    pub(super) fn new(partitions: usize, memory: Reservation) -> Partitions {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Partitions { partitions, order: Order::default(), hashes: Vec::new(), memory }
    }

    /// Puts rows into partitions by the highest bits of the hashes of their keys.
    pub(super) fn scatter(&mut self, layout: &Layout, rows: &[u64]) -> Result<()> {
        let stride = layout.stride;
        for rows in rows.chunks(ROWS_PER_CHUNK * stride) {
            self.hashes.clear();
            with_shape!(layout.shape, shape => {
                self.hashes.extend(rows.chunks_exact(stride).map(|row| shape.hash(row)));
            });
            self.order.sort(&self.hashes, self.partitions.len());
            let mut bytes = 0;
            for (partition, places) in self.partitions.iter().zip(self.order.runs()) {
                let lacks = partition.lacks(places.len(), stride);
                if lacks > 0 {
                    bytes += (partition.page_rows(lacks) * stride * size_of::<u64>()) as u64;
                }
            }
            self.memory.grow(bytes)?;
            for (partition, places) in self.partitions.iter_mut().zip(self.order.runs()) {
                partition.extend(rows, places, stride);
            }
        }
        Ok(())
    }

    /// The partitions, and the memory that they hold.
    pub(super) fn finish(self) -> (Vec<Partition>, Reservation) {
        (self.partitions, self.memory)
    }
}

/// Rows in the order of their partitions.
#[derive(Debug, Default)]
struct Order {
    rows: Vec<u32>,
    /// Where each partition's rows end.
    ends: Vec<u32>,
}

impl Order {
    /// Sorts rows by the highest bits of their hashes.
    fn sort(&mut self, hashes: &[u64], partitions: usize) {
        // A shift by all 64 bits is none for the processor.
        let shift = 63 - partitions.ilog2();
        let of = |hash: &u64| (*hash >> shift >> 1) as usize;
        self.ends.clear();
        self.ends.resize(partitions, 0);
        hashes.iter().for_each(|hash| self.ends[of(hash)] += 1);
        let mut start = 0;
        for end in &mut self.ends {
            // For now the place of the partition's next row.
            start += std::mem::replace(end, start);
        }
        self.rows.resize(hashes.len(), 0);
        for (row, hash) in hashes.iter().enumerate() {
            let place = &mut self.ends[of(hash)];
            self.rows[*place as usize] = row as u32;
            *place += 1;
        }
    }

    /// Each partition's rows.
    fn runs(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let rows = &self.rows[start as usize..*end as usize];
            start = *end;
            rows
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use rowmill_base::{Broker, ErrorKind};
    use rowmill_plan::{Expr, Key};

    #[test]
    fn every_row_is_in_one_partition_and_every_byte_is_granted() {
        let key = Key { expr: Expr::Column(0), kind: DataType::Int64, nullable: false };
        let layout = Layout::new(&[key], |_| &[], 1).expect("a layout");
        let rows: Vec<u64> = (0..20_000).flat_map(|row| [row * 7, row]).collect();
        for count in [1, 4, 256] {
            let broker = Broker::new(1 << 22);
            let mut partitions = Partitions::new(count, broker.reservation("test"));
            for rows in rows.chunks(1_234 * 2) {
                partitions.scatter(&layout, rows).expect("room");
            }
            let (partitions, memory) = partitions.finish();
            assert_eq!(partitions.iter().map(Partition::bytes).sum::<u64>(), memory.bytes());
            let mut found: Vec<[u64; 2]> =
                partitions.iter().flat_map(|of| of.pages.iter().flat_map(|page| page.as_chunks().0)).copied().collect();
            found.sort_unstable();
            assert!(found.iter().flatten().eq(&rows), "{count} partitions");
        }
        let mut few = Partitions::new(4, Broker::new(1 << 16).reservation("test"));
        assert_eq!(few.scatter(&layout, &rows).expect_err("too many").kind(), ErrorKind::MemoryLimit);
    }
}

//! The groups that one worker gathered, in partitions by the hash of their keys.
//!
//! The partitions with the same number of all workers are later merged in one hash table, which is small enough for the
//! caches. Rows are written page by page, so that growing copies nothing.

use std::mem::size_of;

use rowmill_base::{Reservation, Result};

use super::layout::{GroupLayout, KeyShape, with_shape};
use super::state::{group_of, set_group};
use crate::cache::ROWS_PARTITIONED_AT_ONCE;
use crate::partition_order::PartitionOrder;

/// Rows of the first and of the largest page of a partition.
const PAGE_ROWS: std::ops::Range<usize> = 1 << 5..1 << 10;

/// Rows that grow at their end, in pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub(super) pages: Vec<Vec<u64>>,
    rows: usize,
}

/// Gathered groups, some of them more than once, and the rows of their logs.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) groups: Pages,
    /// A log's rows name their group by its index in `groups`.
    pub(super) logs: Vec<Pages>,
}

impl Partition {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.groups.bytes() + self.log_bytes()
    }

    /// Bytes of memory of the logs.
    pub(super) fn log_bytes(&self) -> u64 {
        self.logs.iter().map(Pages::bytes).sum()
    }
}

impl Pages {
    /// Appends a page of rows.
    pub(super) fn push(&mut self, page: Vec<u64>, stride: usize) {
        self.rows += page.len() / stride;
        self.pages.push(page);
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Bytes of memory.
    fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| (page.capacity() * size_of::<u64>()) as u64).sum()
    }

    /// How many of `rows` more rows do not fit the last page.
    fn lacks(&self, rows: usize, stride: usize) -> usize {
        let room = self.pages.last().map_or(0, |page| (page.capacity() - page.len()) / stride);
        rows.saturating_sub(room)
    }

    /// Rows of the next page, which must take at least `rows`.
    fn page_rows(&self, rows: usize) -> usize {
        self.rows.next_power_of_two().clamp(PAGE_ROWS.start, PAGE_ROWS.end).max(rows)
    }

    /// Appends the rows at `places` of `rows`.
    fn extend(&mut self, rows: &[u64], places: &[u32], stride: usize) {
        let lacks = self.lacks(places.len(), stride);
        // Fill the last page first and put the rest into a new page.
        let (first, rest) = places.split_at(places.len() - lacks);
        let page_rows = self.page_rows(lacks);
        for (places, is_new) in [(first, false), (rest, true)] {
            if is_new && !places.is_empty() {
                self.pages.push(Vec::with_capacity(page_rows * stride));
            }
            let Some(page) = self.pages.last_mut() else { continue };
            copy(rows, places, stride, page);
        }
        self.rows += places.len();
    }
}

/// Appends the rows at `places` to a page. Copies of a constant length take only a few instructions.
fn copy(rows: &[u64], places: &[u32], stride: usize, page: &mut Vec<u64>) {
    fn of<const STRIDE: usize>(rows: &[u64], places: &[u32], page: &mut Vec<u64>) {
        let rows = rows.as_chunks::<STRIDE>().0;
        places.iter().for_each(|place| page.extend_from_slice(&rows[*place as usize]));
    }
    match stride {
        1 => of::<1>(rows, places, page),
        2 => of::<2>(rows, places, page),
        3 => of::<3>(rows, places, page),
        4 => of::<4>(rows, places, page),
        5 => of::<5>(rows, places, page),
        6 => of::<6>(rows, places, page),
        7 => of::<7>(rows, places, page),
        8 => of::<8>(rows, places, page),
        _ => places.iter().for_each(|place| page.extend_from_slice(&rows[*place as usize * stride..][..stride])),
    }
}

/// The partitions of one worker.
#[derive(Debug)]
pub(super) struct Partitions {
    partitions: Vec<Partition>,
    order: PartitionOrder,
    numbers: Vec<u32>,
    memory: Reservation,
}

/// The homes of groups: for each its partition and its index there.
pub(super) type Homes = Vec<(u32, u32)>;

impl Partitions {
    /// Makes `partitions` empty partitions, which must be a power of two, for groups with `logs` logs. Takes its memory
    /// from `memory`.
    pub(super) fn new(partitions: usize, logs: usize, memory: Reservation) -> Partitions {
        let empty = || Partition { groups: Pages::default(), logs: (0..logs).map(|_| Pages::default()).collect() };
        let partitions = (0..partitions).map(|_| empty()).collect();
        Partitions { partitions, order: PartitionOrder::default(), numbers: Vec::new(), memory }
    }

    /// Puts groups into partitions by the highest bits of their keys' hashes. If `homes` is given, appends where each
    /// group went.
    pub(super) fn scatter(&mut self, layout: &GroupLayout, rows: &[u64], mut homes: Option<&mut Homes>) -> Result<()> {
        let stride = layout.stride;
        // We shift twice because one shift by all 64 bits, with a single partition, is not allowed.
        let shift = 63 - self.partitions.len().ilog2();
        for rows in rows.chunks(ROWS_PARTITIONED_AT_ONCE * stride) {
            self.numbers.clear();
            with_shape!(layout.shape, shape => {
                self.numbers.extend(rows.chunks_exact(stride).map(|row| (shape.hash(row) >> shift >> 1) as u32));
            });
            if let Some(homes) = &mut homes {
                let before = homes.len();
                homes.extend(self.numbers.iter().map(|partition| (*partition, 0)));
                self.order.sort(&self.numbers, self.partitions.len());
                for (partition, places) in self.partitions.iter().zip(self.order.runs()) {
                    let first = partition.groups.len();
                    places.iter().zip(first..).for_each(|(place, at)| homes[before + *place as usize].1 = at as u32);
                }
            }
            self.extend(rows, stride, |partition| &mut partition.groups)?;
        }
        Ok(())
    }

    /// Puts the rows of a log into the partitions of their groups. `homes` is indexed by the number of the group.
    pub(super) fn scatter_log(&mut self, log: usize, rows: &[u64], stride: usize, homes: &Homes) -> Result<()> {
        let mut chunk = Vec::with_capacity(ROWS_PARTITIONED_AT_ONCE.min(rows.len()) * stride);
        for rows in rows.chunks(ROWS_PARTITIONED_AT_ONCE * stride) {
            self.numbers.clear();
            chunk.clear();
            chunk.extend_from_slice(rows);
            for row in chunk.chunks_exact_mut(stride) {
                // The number of the group becomes its index in the partition, which stays valid when the table is
                // cleared.
                let (partition, place) = homes[group_of(row)];
                self.numbers.push(partition);
                set_group(row, place);
            }
            self.extend(&chunk, stride, |partition| &mut partition.logs[log])?;
        }
        Ok(())
    }

    /// Appends rows to the partitions that `numbers` gives.
    fn extend(&mut self, rows: &[u64], stride: usize, pages: impl Fn(&mut Partition) -> &mut Pages) -> Result<()> {
        self.order.sort(&self.numbers, self.partitions.len());
        let mut bytes = 0;
        for (partition, places) in self.partitions.iter_mut().zip(self.order.runs()) {
            let pages = pages(partition);
            let lacks = pages.lacks(places.len(), stride);
            if lacks > 0 {
                bytes += (pages.page_rows(lacks) * stride * size_of::<u64>()) as u64;
            }
        }
        // Account for all new pages before writing any row, so that a lack of memory leaves the partitions as they
        // were.
        self.memory.grow(bytes)?;
        for (partition, places) in self.partitions.iter_mut().zip(self.order.runs()) {
            pages(partition).extend(rows, places, stride);
        }
        Ok(())
    }

    /// The partitions.
    pub(super) fn all(&self) -> &[Partition] {
        &self.partitions
    }

    /// Removes all rows and gives their memory back.
    pub(super) fn clear(&mut self) {
        for Partition { groups, logs } in &mut self.partitions {
            *groups = Pages::default();
            logs.iter_mut().for_each(|log| *log = Pages::default());
        }
        self.memory.recount(0);
    }

    /// The partitions, and the memory that they hold.
    pub(super) fn finish(self) -> (Vec<Partition>, Reservation) {
        (self.partitions, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use rowmill_base::{Broker, ErrorKind};
    use rowmill_plan::{Expr, GroupKey};

    #[test]
    fn every_row_is_in_one_partition_and_every_byte_is_accounted_for() {
        let key = GroupKey { expr: Expr::Column(0), kind: DataType::Int64, nullable: false };
        let layout = GroupLayout::new(&[key], |_| &[], 1).expect("a layout");
        let rows: Vec<u64> = (0..20_000).flat_map(|row| [row * 7, row]).collect();
        for count in [1, 4, 256] {
            let broker = Broker::new(1 << 22);
            let mut partitions = Partitions::new(count, 0, broker.reservation("test"));
            for rows in rows.chunks(1_234 * 2) {
                partitions.scatter(&layout, rows, None).expect("room");
            }
            let (partitions, memory) = partitions.finish();
            assert_eq!(partitions.iter().map(Partition::bytes).sum::<u64>(), memory.bytes());
            let mut found: Vec<[u64; 2]> = partitions
                .iter()
                .flat_map(|of| of.groups.pages.iter().flat_map(|page| page.as_chunks().0))
                .copied()
                .collect();
            found.sort_unstable();
            assert!(found.iter().flatten().eq(&rows), "{count} partitions");
        }
        let mut few = Partitions::new(4, 0, Broker::new(1 << 16).reservation("test"));
        assert_eq!(few.scatter(&layout, &rows, None).expect_err("too many").kind(), ErrorKind::MemoryLimit);
    }
}

//! How well the blocks of a time table follow each other in time, for users.

use rowmill_base::Result;
use rowmill_storage::times_of;

use crate::snapshot::TableSnapshot;
use crate::time_merge::{TimeRange, greatest_depth};

/// The order of a time table's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOrder {
    /// The number of blocks.
    pub blocks: u64,
    /// Blocks whose time range overlaps that of another block. Ranges that only touch do not overlap.
    pub overlapping_blocks: u64,
    /// The most blocks that cover one moment.
    pub depth: u64,
    /// The rows of all blocks, without deleted ones.
    pub rows: u64,
    /// Rows of a block at times that another block covers too, with deleted ones.
    pub overlapping_rows: u64,
    /// Recent rows, which are in no block yet.
    pub open_rows: u64,
}

impl TableSnapshot {
    /// How well the blocks follow each other in time. `None` if this is no time table.
    pub fn time_order(&self) -> Result<Option<TableOrder>> {
        let Some(column) = self.def.time_column() else { return Ok(None) };
        let ranges = self.blocks.iter().map(|block| TimeRange::of(&self.def, column, block));
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        let mut order = TableOrder {
            blocks: self.blocks.len() as u64,
            depth: greatest_depth(&ranges) as u64,
            rows: self.blocks.iter().map(|block| block.live_rows() as u64).sum(),
            open_rows: self.runs.iter().map(|run| run.live_rows() as u64).sum(),
            ..TableOrder::default()
        };
        for (at, block) in self.blocks.iter().enumerate() {
            let others = ranges.iter().enumerate().filter(|(other, _)| *other != at);
            let covered: Vec<TimeRange> = others.filter_map(|(_, range)| range.common(ranges[at])).collect();
            if covered.is_empty() {
                continue;
            }
            order.overlapping_blocks += 1;
            if let Some(chunk) = block.chunk(&self.def, column)? {
                let times = times_of(&chunk.read(0..block.rows())?)?;
                order.overlapping_rows += count_within(&times, covered);
            }
        }
        Ok(Some(order))
    }
}

/// How many of `times`, which ascend, are within at least one of the ranges.
fn count_within(times: &[i64], mut ranges: Vec<TimeRange>) -> u64 {
    ranges.sort_by_key(|range| range.first);
    let (mut count, mut counted) = (0, 0);
    for range in ranges {
        let start = times.partition_point(|time| *time < range.first).max(counted);
        let end = times.partition_point(|time| *time <= range.last).max(start);
        count += end - start;
        counted = end;
    }
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_several_ranges_count_once() {
        let range = |first, last| TimeRange { first, last };
        let times = [1, 2, 2, 3, 5, 8];
        assert_eq!(count_within(&times, vec![range(2, 3), range(0, 2), range(7, 9)]), 5);
        assert_eq!(count_within(&times, vec![range(4, 4), range(9, 20)]), 0);
    }
}

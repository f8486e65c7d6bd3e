//! Statistics of a table from the zone maps of its blocks.
//!
//! The planner answers `COUNT(*)`, `COUNT(x)`, `MIN` and `MAX` from statistics that are marked exact, so exact means:
//! no row of a block is deleted, there are no rows outside of blocks, the bounds are whole values, and the type has one
//! order (floats are left out: where NaN stands is the engine's business). Everything else is marked as an estimate,
//! which only guides the order of joins.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use rowmill_base::SqlType;
use rowmill_storage::chunk::Zone;
use rowmill_storage::{Block, OpenRun, TableSource};

/// Rows of an open run that are looked at.
const SAMPLE_ROWS: usize = 1 << 10;

/// Statistics of the columns at `columns` of the whole table.
pub(super) fn statistics(source: &dyn TableSource, columns: &[usize]) -> Statistics {
    let rows = source.row_count() as usize;
    Statistics {
        num_rows: if source.keyed().is_none() { Precision::Exact(rows) } else { Precision::Inexact(rows) },
        total_byte_size: Precision::Absent,
        column_statistics: columns.iter().map(|column| column_statistics(source, *column)).collect(),
    }
}

/// Statistics of a column of which nothing is known.
pub(super) fn unknown_column() -> ColumnStatistics {
    ColumnStatistics::new_unknown()
}

/// What remains known when a filter lets through a `share` of the rows.
pub(super) fn filtered(statistics: Statistics, share: f64) -> Statistics {
    let mut statistics = statistics.to_inexact();
    if let Some(rows) = statistics.num_rows.get_value() {
        let rows = ((*rows as f64 * share).ceil() as usize).min(*rows);
        statistics.num_rows = Precision::Inexact(rows);
    }
    statistics
}

/// What remains known when at most `limit` rows are read.
pub(super) fn limited(statistics: Statistics, limit: usize) -> Statistics {
    let rows = match statistics.num_rows {
        Precision::Exact(rows) => Precision::Exact(rows.min(limit)),
        other => other.min(&Precision::Inexact(limit)),
    };
    let mut statistics = statistics.to_inexact();
    statistics.num_rows = rows;
    statistics
}

/// Statistics of one column, gathered block by block.
struct Gathered {
    min: Option<ScalarValue>,
    max: Option<ScalarValue>,
    bounds_known: bool,
    bounds_exact: bool,
    nulls: usize,
    counts_exact: bool,
    distinct_sum: usize,
    distinct_max: usize,
    distinct_known: bool,
    /// Whether some block repeats hardly any value, so that other blocks probably hold others.
    near_unique: bool,
}

/// The statistics of the column at `column`.
pub(crate) fn column_statistics(source: &dyn TableSource, column: usize) -> ColumnStatistics {
    if source.keyed().is_some() {
        return unknown_column();
    }
    let kind = &source.table().columns[column].kind;
    let all_in_blocks = source.runs().is_empty();
    let is_float = matches!(kind, SqlType::Float32 | SqlType::Float64);
    let mut gathered = Gathered {
        min: None,
        max: None,
        bounds_known: true,
        bounds_exact: all_in_blocks && !is_float,
        nulls: 0,
        counts_exact: all_in_blocks,
        distinct_sum: 0,
        distinct_max: 0,
        distinct_known: true,
        near_unique: false,
    };
    for block in source.blocks() {
        if gathered.add(source, block, column).is_none() {
            return unknown_column();
        }
    }
    for run in source.runs() {
        if gathered.add_run(source, run, column).is_none() {
            return unknown_column();
        }
    }
    gathered.finish(source.row_count() as usize)
}

/// How many distinct values so many rows have, going by some of them: those that the sample has several times, and the
/// others as many more times as the root of the share says (Charikar et al., "Towards Estimation Error Guarantees for
/// Distinct Values", 2000).
fn distinct_of_sample(sample: &ArrayRef, rows: usize) -> Option<usize> {
    let mut hashes = vec![0; sample.len()];
    create_hashes([sample], &RandomState::with_seed(0), &mut hashes).ok()?;
    hashes.sort_unstable();
    let (distinct, single) = hashes
        .chunk_by(|one, other| one == other)
        .fold((0, 0), |(distinct, single), same| (distinct + 1, single + usize::from(same.len() == 1)));
    // Where hardly any value is repeated, it is unlikely that the rest repeats them.
    if single * 10 >= sample.len() * 9 {
        return Some(rows * distinct / sample.len().max(1));
    }
    let more = (rows as f64 / sample.len().max(1) as f64).sqrt();
    Some((distinct - single + (single as f64 * more) as usize).min(rows))
}

impl Gathered {
    /// Adds a block; `None` if it cannot be read, which the scan will report better.
    fn add(&mut self, source: &dyn TableSource, block: &Block, column: usize) -> Option<()> {
        if block.deleted().is_some() {
            self.bounds_exact = false;
            self.counts_exact = false;
        }
        let Some(chunk) = block.chunk_head(source.table(), column).ok()? else {
            return self.add_missing(source, block, column);
        };
        self.nulls += chunk.null_count();
        if chunk.null_count() < chunk.rows() {
            match chunk.zone() {
                Some(Zone { min, max: Some(max) }) => {
                    self.bounds_exact &= min.exact && max.exact;
                    self.widen(
                        ScalarValue::try_from_array(&min.value, 0).ok()?,
                        ScalarValue::try_from_array(&max.value, 0).ok()?,
                    );
                }
                _ => self.bounds_known = false,
            }
        }
        match chunk.distinct() {
            Some(distinct) => {
                self.distinct_sum += distinct;
                self.distinct_max = self.distinct_max.max(distinct);
                self.near_unique |= distinct * 10 >= chunk.rows() * 9;
            }
            None => self.distinct_known = false,
        }
        Some(())
    }

    /// Adds rows that are in no block, of which some are looked at. They say nothing of bounds.
    fn add_run(&mut self, source: &dyn TableSource, run: &OpenRun, column: usize) -> Option<()> {
        let rows = run.rows();
        let sample = UInt32Array::from_iter_values((0..rows as u32).step_by(rows.div_ceil(SAMPLE_ROWS).max(1)));
        let values = take(&run.values(source.table(), column).ok()?, &sample, None).ok()?;
        let distinct = distinct_of_sample(&values, rows)?;
        self.distinct_sum += distinct;
        self.distinct_max = self.distinct_max.max(distinct);
        self.near_unique |= rows > 1 && distinct * 10 >= rows * 9;
        Some(())
    }

    /// Adds a block that is older than the column.
    fn add_missing(&mut self, source: &dyn TableSource, block: &Block, column: usize) -> Option<()> {
        match &source.table().columns[column].missing {
            Some(value) if value.null_count() == 0 => {
                let value = ScalarValue::try_from_array(value, 0).ok()?;
                self.distinct_max = self.distinct_max.max(1);
                self.widen(value.clone(), value);
            }
            _ => self.nulls += block.rows(),
        }
        Some(())
    }

    fn widen(&mut self, min: ScalarValue, max: ScalarValue) {
        let below = |a: &ScalarValue, b: &ScalarValue| a.partial_cmp(b) == Some(Ordering::Less);
        if self.min.as_ref().is_none_or(|known| below(&min, known)) {
            self.min = Some(min);
        }
        if self.max.as_ref().is_none_or(|known| below(known, &max)) {
            self.max = Some(max);
        }
    }

    fn finish(self, rows: usize) -> ColumnStatistics {
        let precise = |exact, value: Option<ScalarValue>| match value {
            Some(value) if exact => Precision::Exact(value),
            Some(value) => Precision::Inexact(value),
            None => Precision::Absent,
        };
        let (min, max) = if self.bounds_known { (self.min, self.max) } else { (None, None) };
        let distinct = if self.near_unique { self.distinct_sum } else { self.distinct_max }.min(rows);
        ColumnStatistics {
            null_count: if self.counts_exact {
                Precision::Exact(self.nulls)
            } else {
                Precision::Inexact(self.nulls.min(rows))
            },
            min_value: precise(self.bounds_exact, min),
            max_value: precise(self.bounds_exact, max),
            distinct_count: if self.distinct_known && distinct > 0 {
                Precision::Inexact(distinct)
            } else {
                Precision::Absent
            },
            ..unknown_column()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Int64Array;

    use super::*;

    #[test]
    fn distinct_values_are_guessed_from_a_sample() {
        let guess =
            |values: Vec<i64>, rows| distinct_of_sample(&(Arc::new(Int64Array::from(values)) as ArrayRef), rows);
        assert_eq!(guess((0..25).collect(), 25), Some(25), "all of them");
        assert_eq!(guess((0..1000).collect(), 10_000), Some(10_000), "a key");
        assert_eq!(guess((0..1000).map(|row| row % 25).collect(), 10_000), Some(25), "few values");
        let some = guess((0..1000).map(|row| if row < 500 { row } else { row % 10 + 9_000 }).collect(), 4_000);
        assert_eq!(some, Some(10 + 1_000), "some only once");
        assert_eq!(guess(Vec::new(), 0), Some(0));
    }
}

//! Statistics of a table from the zone maps of its blocks.
//!
//! The planner answers `COUNT(*)`, `COUNT(x)`, `MIN` and `MAX` from statistics that are marked exact, so exact means:
//! no row of a block is deleted, there are no rows outside of blocks, the bounds are whole values, and the type has one
//! order (floats are left out: where NaN stands is the engine's business). Everything else is marked as an estimate,
//! which only guides the order of joins.

use std::cmp::Ordering;

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use rowmill_base::SqlType;
use rowmill_storage::chunk::Zone;
use rowmill_storage::{Block, TableSource};

/// Statistics of the columns at `columns` of the whole table.
pub(super) fn statistics(source: &dyn TableSource, columns: &[usize]) -> Statistics {
    Statistics {
        num_rows: Precision::Exact(source.row_count() as usize),
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
    gathered.finish(source.row_count() as usize)
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

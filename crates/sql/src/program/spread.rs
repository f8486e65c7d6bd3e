//! How large a part of a table one value of a column leaves over, where the value is not known when a program is made.

use rowmill_storage::{EQUAL_SHARE, TableSource};

/// Of a table of fewer rows any key will do: what a program saves is more than what the better key does.
const ROWS_MIN: u64 = 10_000;

/// What ANALYZE has found out about the columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub(super) rows: f64,
    /// Of each column, the share of rows with one of its values, on the average.
    by_column: Vec<Option<f64>>,
}

impl Spread {
    /// `None` of a table that is small, or of which nothing is known.
    pub(super) fn of(source: &dyn TableSource) -> Option<Spread> {
        let statistics = source.statistics().filter(|statistics| statistics.rows >= ROWS_MIN)?;
        let by_column = source.table().columns.iter().map(|column| {
            let known = statistics.column(column.id)?;
            Some((1.0 - known.null_share) / known.distinct.max(1) as f64)
        });
        Some(Spread { rows: statistics.rows as f64, by_column: by_column.collect() })
    }

    /// The share of rows in which the column at `place` has one value.
    pub(super) fn of_value(&self, place: usize) -> f64 {
        self.by_column.get(place).copied().flatten().unwrap_or(EQUAL_SHARE)
    }
}

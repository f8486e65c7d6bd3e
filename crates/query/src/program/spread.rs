//! How many rows of a table conditions leave whose values are not known when a program is made.

use rowmill_storage::{EQUAL_SHARE, TableSource};

/// Of a table of fewer rows any key will do: what a program saves is more than what the better key does.
const ROWS_MIN: u64 = 10_000;

/// The share of rows that have one value of a column, as we assume it of a table that ANALYZE has not seen: somebody has
/// made the key that is asked for because it finds few.
const UNSEEN_SHARE: f64 = 0.001;

/// The facts about a table that costs are made of.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub(super) rows: f64,
    /// Of each column, the share of rows with one of its values, on the average.
    by_column: Vec<Option<f64>>,
    was_analyzed: bool,
}

impl Spread {
    pub(super) fn of(source: &dyn TableSource) -> Spread {
        let Some(statistics) = source.statistics().filter(|statistics| statistics.rows >= ROWS_MIN) else {
            return Spread { rows: ROWS_MIN as f64, by_column: Vec::new(), was_analyzed: false };
        };
        let by_column = source.table().columns.iter().map(|column| {
            let known = statistics.column(column.id)?;
            Some((1.0 - known.null_share) / known.distinct.max(1) as f64)
        });
        Spread { rows: statistics.rows as f64, by_column: by_column.collect(), was_analyzed: true }
    }

    /// The share of rows in which a column, by its position, has one value.
    pub(super) fn of_value(&self, column: usize) -> f64 {
        let unknown = if self.was_analyzed { EQUAL_SHARE } else { UNSEEN_SHARE };
        self.by_column.get(column).copied().flatten().unwrap_or(unknown)
    }
}

//! Estimates the share of a table's rows that have one value of a column, when the value itself is not known yet.

use rowmill_storage::{EQUAL_SHARE, TableSource};

/// With fewer rows than this any key will do, because a program saves more than a better key would.
const ROWS_MIN: u64 = 10_000;

/// The share of rows with one value of a column that we assume for a table without statistics. We assume that few rows
/// have the value, because a key on the column would not have been created otherwise.
const UNSEEN_SHARE: f64 = 0.001;

/// The facts about a table that costs are based on.
#[derive(Clone, Debug)]
pub(super) struct TableFacts {
    pub(super) rows: f64,
    /// For each column, the average share of rows that have one of its values.
    by_column: Vec<Option<f64>>,
    pub(super) was_analyzed: bool,
}

impl TableFacts {
    pub(super) fn of(source: &dyn TableSource) -> TableFacts {
        let Some(statistics) = source.statistics().filter(|statistics| statistics.rows >= ROWS_MIN) else {
            return TableFacts { rows: ROWS_MIN as f64, by_column: Vec::new(), was_analyzed: false };
        };
        let by_column = source.table().columns.iter().map(|column| {
            let known = statistics.column(column.id)?;
            Some((1.0 - known.null_share) / known.distinct.max(1) as f64)
        });
        TableFacts { rows: statistics.rows as f64, by_column: by_column.collect(), was_analyzed: true }
    }

    /// The share of rows in which the column at this position has one particular value.
    pub(super) fn of_value(&self, column: usize) -> f64 {
        let unknown = if self.was_analyzed { EQUAL_SHARE } else { UNSEEN_SHARE };
        self.by_column.get(column).copied().flatten().unwrap_or(unknown)
    }
}

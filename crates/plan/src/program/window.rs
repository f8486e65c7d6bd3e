//! Window values of programs: values computed over other rows of the same partition.

use rowmill_base::SqlType;

use super::{ReadPlan, RowAggregate};
use crate::logical::{FrameExclude, FrameRow, RankFunction};

/// The rows of a read, each with values computed over the rows of its partition. The result has the first columns of
/// the read and then one column for each value.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowRows {
    /// The rows.
    pub read: ReadPlan,
    /// How many columns of the read the result has. The columns after them are only inputs of the values.
    pub columns: usize,
    /// The columns of the read whose values define the partitions. NULL equals NULL.
    pub partition: Vec<usize>,
    /// The order of the rows of a partition. Rows that are equal in it are peers.
    pub order: Vec<ColumnOrder>,
    /// The values.
    pub values: Vec<WindowValue>,
}

/// A column that rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnOrder {
    /// The column of the read.
    pub column: usize,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// A value of a row that depends on other rows of its partition.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowValue {
    /// The position of a row: a BIGINT, or a DOUBLE for a share.
    Rank(RankFunction),
    /// `ntile` with this number of parts, at least one: a BIGINT.
    Ntile(i64),
    /// `lag` and `lead`: the value of another row.
    Shift {
        /// The column of the read.
        value: usize,
        /// How many rows further; a negative number means rows before.
        rows: i64,
        /// The column with the value for rows without such a row; NULL if absent.
        default: Option<usize>,
    },
    /// An aggregate over a frame. Its scalars refer to the columns of the read as row 0.
    Aggregate(Box<RowAggregate>, RowFrame),
    /// `first_value`, `last_value` and `nth_value`: the value of a row of the frame; NULL if there is no such row.
    Nth {
        /// The column of the read.
        value: usize,
        /// Which row of the frame; a number is at least one.
        nth: FrameRow<i64>,
        /// The frame.
        frame: RowFrame,
    },
}

/// The rows around a row that a value reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFrame {
    /// The first row.
    pub start: FrameEnd,
    /// The last row.
    pub end: FrameEnd,
    /// Which of these rows are left out.
    pub exclude: FrameExclude,
}

/// An end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// The start or the end of the partition.
    Partition,
    /// The first or the last peer of the row.
    Peers,
    /// The row at this distance after the current row; a negative number means rows before.
    Row(i64),
    /// The first or the last row of the group of peers at this distance after the row's own; a negative number means
    /// groups before.
    Group(i64),
    /// The first or the last row whose value of the only order column is at most this far after the value of the row,
    /// in the direction of the order; a negative number means before. The values are integers, timestamps or decimals,
    /// and the distance is in their units. The frame of a row with NULL ends at its peers.
    Distance(i128),
}

impl WindowRows {
    /// The types of the columns; `None` if an aggregate does not take its argument.
    pub fn output(&self) -> Option<Vec<SqlType>> {
        let of_read = self.read.output();
        let mut kinds = of_read.get(..self.columns)?.to_vec();
        for value in &self.values {
            let kind = match value {
                WindowValue::Rank(RankFunction::PercentRank | RankFunction::CumulativeShare) => SqlType::Float64,
                WindowValue::Rank(_) | WindowValue::Ntile(_) => SqlType::Int64,
                WindowValue::Shift { value, .. } | WindowValue::Nth { value, .. } => of_read.get(*value)?.clone(),
                WindowValue::Aggregate(aggregate, _) => aggregate.kind()?,
            };
            kinds.push(kind);
        }
        Some(kinds)
    }
}

//! Values computed over other rows of the same partition.

use rowmill_base::SqlType;

use super::{Read, RowAggregate};
use crate::logical::RankFunction;

/// The rows of a read, each with values computed over the rows of its partition: columns of the read, then a column for each
/// value.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowRows {
    /// The rows.
    pub read: Read,
    /// How many columns of the read are given, the first ones. The others are for the values.
    pub columns: usize,
    /// The columns of the read that are equal within a partition; NULL equals NULL.
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

/// A value of a row that other rows of the partition decide.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowValue {
    /// `row_number`, `rank` or `dense_rank`: a BIGINT.
    Rank(RankFunction),
    /// `lag` and `lead`: the value of another row.
    Shift {
        /// The column of the read.
        value: usize,
        /// How many rows further; before the row where it is negative.
        rows: i64,
        /// The column of the value where there is no such row; NULL without.
        default: Option<usize>,
    },
    /// An aggregate over a frame. Its scalars are over the columns of the read, which is row 0.
    Aggregate(RowAggregate, RowFrame),
}

/// The rows around a row that an aggregate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFrame {
    /// The first.
    pub start: FrameEnd,
    /// The last.
    pub end: FrameEnd,
}

/// An end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// That of the partition.
    Partition,
    /// That of the peers of the row.
    Peers,
    /// The row at this distance after the row, or before it where the number is negative.
    Row(i64),
}

impl WindowRows {
    /// The types of the columns; `None` if an aggregate does not take its argument.
    pub fn output(&self) -> Option<Vec<SqlType>> {
        let of_read = self.read.output();
        let mut kinds = of_read.get(..self.columns)?.to_vec();
        for value in &self.values {
            let kind = match value {
                WindowValue::Rank(_) => SqlType::Int64,
                WindowValue::Shift { value, .. } => of_read.get(*value)?.clone(),
                WindowValue::Aggregate(aggregate, _) => aggregate.kind()?,
            };
            kinds.push(kind);
        }
        Some(kinds)
    }
}

//! Rows for buckets of time in which there are none: the FILL of SAMPLE BY, and `time_bucket_gapfill`.

use std::sync::Arc;

use arrow::datatypes::{IntervalMonthDayNano, SchemaRef};

use crate::{ColumnId, Constant, Logical, Node, ScalarExpr};

/// The rule that places the buckets of a [`LogicalFill`] or [`Fill`]. `rowmill_expr::time_buckets` computes them.
#[derive(Clone, Debug, PartialEq)]
pub struct FilledBuckets {
    /// The length of a bucket: either months, or days and time.
    pub stride: IntervalMonthDayNano,
    /// The zone whose calendar the buckets follow.
    pub zone: Option<String>,
    /// A point in time at which a bucket begins, in ticks of the buckets' type. In a zone it is a time of the local
    /// clock.
    pub origin: i64,
    /// How much later than that all buckets begin.
    pub offset: IntervalMonthDayNano,
}

/// The value that a column has in a row that was added. `E` is a constant, `C` names a column.
#[derive(Clone, Debug, PartialEq)]
pub enum FillMode<E, C> {
    /// NULL.
    Null,
    /// The value of a column in the last row before that the input has for the same keys, or NULL without such a row.
    Previous(C),
    /// The value on the straight line between the rows before and after, or NULL without both of them.
    Linear,
    /// A value.
    Value(E),
}

/// The rows of the input, and for each combination of keys a row for each bucket without one, from the first bucket of
/// the keys to the last one. The columns of the input stay.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalFill {
    /// The rows, at most one for each combination of keys and each bucket.
    pub input: Box<Logical>,
    /// The keys.
    pub keys: Vec<ColumnId>,
    /// The beginning of the bucket: a timestamp. A row with NULL stays and has no neighbours.
    pub bucket: ColumnId,
    /// The buckets.
    pub buckets: FilledBuckets,
    /// A column with the origin of the buckets, in place of the one of the rule. All rows have the same value in it.
    pub origin: Option<ColumnId>,
    /// Where the buckets of all keys begin: a constant of the type of `bucket`.
    pub from: Option<ScalarExpr>,
    /// Where the buckets of all keys end, which is not in the last one: a constant of the type of `bucket`.
    pub to: Option<ScalarExpr>,
    /// The values of columns in rows that are added. Columns that are not here are NULL.
    pub values: Vec<(ColumnId, FillMode<ScalarExpr, ColumnId>)>,
}

impl LogicalFill {
    /// The columns of the input that the operator reads.
    pub fn read_columns(&self) -> Vec<ColumnId> {
        let mut read: Vec<ColumnId> = self.keys.iter().copied().chain([self.bucket]).chain(self.origin).collect();
        for (_, mode) in &self.values {
            if let FillMode::Previous(of) = mode {
                read.push(*of);
            }
        }
        read
    }

    /// The places of all columns of the input that the operator names, as mutable references.
    pub fn read_columns_mut(&mut self) -> Vec<&mut ColumnId> {
        let mut read: Vec<&mut ColumnId> = self.keys.iter_mut().collect();
        read.push(&mut self.bucket);
        read.extend(&mut self.origin);
        for (id, mode) in &mut self.values {
            read.push(id);
            if let FillMode::Previous(of) = mode {
                read.push(of);
            }
        }
        read
    }
}

/// The rows of the input, and for each combination of keys a row for each bucket without one.
///
/// The input must be ordered by the keys and then by the bucket. The result has the same order.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The rows.
    pub input: Arc<Node>,
    /// The columns of the keys.
    pub keys: Vec<usize>,
    /// The column of the bucket.
    pub bucket: usize,
    /// The buckets.
    pub buckets: FilledBuckets,
    /// A column with the origin of the buckets, in place of the one of the rule.
    pub origin: Option<usize>,
    /// The first point in time of the buckets of all keys, in ticks.
    pub from: Option<i64>,
    /// The first point in time after the buckets of all keys, in ticks.
    pub to: Option<i64>,
    /// The values of the columns that are neither keys nor the bucket, one for each column of the input.
    pub values: Vec<FillMode<Constant, usize>>,
    /// The columns of the input that the result has.
    pub keep: Vec<usize>,
    /// The result.
    pub schema: SchemaRef,
}

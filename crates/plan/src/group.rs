//! GROUP BY over the rows of one table.

use arrow::datatypes::{DataType, IntervalUnit};

use crate::Predicate;

/// A value for each row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A column, by its position in the table's definition.
    Column(usize),
    /// What a function of the statement makes of columns, by its position among them.
    Function(usize),
}

/// What rows are grouped by.
#[derive(Clone, Debug)]
pub struct Key {
    /// The value.
    pub expr: Expr,
    /// Its type.
    pub kind: DataType,
    /// Whether it can be NULL.
    pub nullable: bool,
}

/// What is computed of the rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Rows, or values that are not NULL.
    Count,
    /// The total: exact, but for floats, of which the last digits may depend on the order of rows.
    Sum,
    /// The double nearest to total over count; for floats, that of their total.
    Average,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl AggregateFunction {
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Average => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
        }
    }
}

/// One aggregate.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// What is computed.
    pub function: AggregateFunction,
    /// Of which values, and their type; of rows without.
    pub argument: Option<(Expr, DataType)>,
    /// The type of the result.
    pub kind: DataType,
    /// What the error says of a total that leaves its type.
    pub total_error: String,
}

/// Groups of the rows of a table that pass all predicates; one group of them all without keys.
///
/// The result has the keys and then the aggregates as columns, in no order of rows.
#[derive(Clone, Debug)]
pub struct Group {
    /// Conditions on rows.
    pub predicates: Vec<Predicate>,
    /// What rows are grouped by.
    pub keys: Vec<Key>,
    /// What is computed of each group.
    pub aggregates: Vec<Aggregate>,
}

/// Whether the engine groups by values of `kind`.
pub fn is_key_kind(kind: &DataType) -> bool {
    is_fixed(kind) || is_text(kind)
}

/// Whether the engine computes `function` of values of `kind`.
pub fn is_aggregated(function: AggregateFunction, kind: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64};
    match function {
        AggregateFunction::Count => true,
        AggregateFunction::Sum | AggregateFunction::Average => {
            kind.is_integer() || matches!(kind, Decimal128(..) | Float32 | Float64)
        }
        AggregateFunction::Min | AggregateFunction::Max => is_fixed(kind) || is_text(kind),
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8View | DataType::BinaryView)
}

/// Types of a fixed size whose values are equal, and in order, by their bits.
fn is_fixed(kind: &DataType) -> bool {
    use DataType::{Boolean, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Interval, Time64, Timestamp};
    kind.is_integer()
        || matches!(kind, Boolean | Date32 | Time64(_) | Timestamp(..) | Decimal128(..) | Float32 | Float64)
        || matches!(kind, FixedSizeBinary(16) | Interval(IntervalUnit::MonthDayNano))
}

//! GROUP BY over the rows of an operator or of one table.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalUnit};

use crate::{AggregateFunction, AggregateNulls, Predicate};

/// A value for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A column, by its position in the table's definition or in the operator's input.
    Column(usize),
    /// The result of a function of the statement, by the function's position in the plan's list.
    Function(usize),
}

/// A grouping key.
#[derive(Clone, Debug)]
pub struct GroupKey {
    /// The value.
    pub expr: Expr,
    /// Its type.
    pub kind: DataType,
    /// Whether it can be NULL.
    pub nullable: bool,
}

/// One of the expressions that order the values of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateOrder {
    /// The value.
    pub expr: Expr,
    /// Its type.
    pub kind: DataType,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// One aggregate.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The function to compute.
    pub function: AggregateFunction,
    /// The argument and its type; absent for a count of rows.
    pub argument: Option<(Expr, DataType)>,
    /// Further arguments and their types, such as the x of `corr(y, x)` or the weight of a value.
    pub more: Vec<(Expr, DataType)>,
    /// A constant that the function needs in addition, as an array of one row.
    pub parameter: Option<ArrayRef>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// The order of the values, if it matters to the function; empty for any order. With `distinct` it must be one of
    /// the values themselves.
    pub order: Vec<AggregateOrder>,
    /// Whether NULLs are skipped even if the function takes them: `IGNORE NULLS`.
    pub skips_nulls: bool,
    /// Only rows for which this is true count; absent for all rows.
    pub filter: Option<Expr>,
    /// Set if the argument is a partial result, computed for a part of the rows by the same aggregate, or by `sum` for
    /// an average. It is then the number of values in each part. A count has no argument in this case.
    pub of_parts: Option<Expr>,
    /// The type of the result.
    pub kind: DataType,
    /// The name of the total in the error message for an overflow.
    pub total_error: String,
}

impl Aggregate {
    /// An aggregate of all rows, without DISTINCT, order and filter.
    pub fn new(function: AggregateFunction, argument: Option<(Expr, DataType)>, kind: DataType) -> Aggregate {
        // The planner should replace this by a message with the types.
        let total_error = format!("the total of {}", function.name);
        Aggregate {
            function,
            argument,
            more: Vec::new(),
            parameter: None,
            distinct: false,
            order: Vec::new(),
            skips_nulls: false,
            filter: None,
            of_parts: None,
            kind,
            total_error,
        }
    }

    /// Whether the aggregate sees NULLs.
    pub fn takes_nulls(&self) -> bool {
        self.function.takes_nulls() && !self.skips_nulls
    }

    /// The clause about NULLs after the call, with a space before it; empty if the aggregate does what it does by
    /// default.
    pub(crate) fn nulls_text(&self) -> &'static str {
        match (self.function.nulls, self.skips_nulls) {
            (AggregateNulls::TakenOnDemand, true) => "",
            (AggregateNulls::TakenOnDemand, false) => " RESPECT NULLS",
            (_, true) => " IGNORE NULLS",
            (_, false) => "",
        }
    }

    /// Every expression that the aggregate reads, as mutable references.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let argument = self.argument.iter_mut().chain(&mut self.more).map(|(expr, _)| expr);
        let order = self.order.iter_mut().map(|order| &mut order.expr);
        argument.chain(order).chain(&mut self.filter).chain(&mut self.of_parts)
    }
}

/// Groups of the rows that meet all predicates. Without keys, all rows are one group.
///
/// The columns of the result are the keys and then the aggregates. Its rows have no order.
#[derive(Clone, Debug)]
pub struct Group {
    /// Conditions on the rows.
    pub predicates: Vec<Predicate>,
    /// The grouping keys.
    pub keys: Vec<GroupKey>,
    /// The aggregates of each group.
    pub aggregates: Vec<Aggregate>,
    /// Keys of groups that the result must have even if they have no rows, one array per key; empty if there are no
    /// such groups.
    pub always: Vec<ArrayRef>,
}

/// Whether the engine can group by values of `kind`.
pub fn is_key_kind(kind: &DataType) -> bool {
    is_fixed(kind) || is_text(kind)
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8View | DataType::BinaryView)
}

/// Whether values of this type have a fixed size and can be compared by their bits.
fn is_fixed(kind: &DataType) -> bool {
    use DataType::{Boolean, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Interval, Time64, Timestamp};
    kind.is_integer()
        || matches!(kind, Boolean | Date32 | Time64(_) | Timestamp(..) | Decimal128(..) | Float32 | Float64)
        || matches!(kind, FixedSizeBinary(16) | Interval(IntervalUnit::MonthDayNano))
}

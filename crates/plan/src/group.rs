//! GROUP BY over the rows of an operator or of one table.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalUnit};

use crate::Predicate;

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

/// The function of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Number of rows, or of values that are not NULL.
    Count,
    /// The sum. It is exact, except for floats, whose last digits may depend on the order of rows.
    Sum,
    /// The double nearest to sum / count. For floats, the sum may depend on the order of rows.
    Average,
    /// The least value; of booleans, whether all are true.
    Min,
    /// The greatest value; of booleans, whether any is true.
    Max,
    /// The bits that all values have.
    BitAnd,
    /// The bits that some value has.
    BitOr,
    /// The bits that an odd number of values have.
    BitXor,
    /// The mean of the squared distances of doubles from their mean.
    VariancePopulation,
    /// The sum of the squared distances of doubles from their mean, divided by the number of values minus one; NULL for
    /// a single value.
    VarianceSample,
    /// The square root of [`AggregateFunction::VariancePopulation`].
    DeviationPopulation,
    /// The square root of [`AggregateFunction::VarianceSample`].
    DeviationSample,
    /// The middle value. Of an even number of values, the mean of the two middle ones, in the type of the values.
    Median,
    /// The value below which the share [`Aggregate::parameter`] of the values is, a double from 0 to 1. Interpolates
    /// linearly between neighbours.
    Quantile,
    /// All values, including NULLs, as a list in [`Aggregate::order`]; NULL without rows.
    Array,
    /// All texts, concatenated in [`Aggregate::order`] with the separator [`Aggregate::parameter`].
    Text,
    /// The first value in [`Aggregate::order`], which may be NULL.
    First,
    /// The last value in [`Aggregate::order`], which may be NULL.
    Last,
    /// The value at place [`Aggregate::parameter`] of [`Aggregate::order`], which may be NULL. The place is an integer:
    /// 1 is the first value, -1 the last one. NULL if there are fewer values.
    Nth,
    /// An estimate of the number of distinct values, with a standard error below 1 %. Equal sets of values must give
    /// equal estimates.
    ApproximateCount,
    /// The first value, by size, up to which at least the share [`Aggregate::parameter`] of the values is, a double
    /// from 0 to
    /// 1. [`Aggregate::order`] says which end is the first.
    DiscreteQuantile,
    /// The value below which a share of the values is, interpolated as in [`AggregateFunction::Quantile`]. The second
    /// argument, a double, is the weight of each value.
    WeightedQuantile,
    /// The most frequent value. If several are equally frequent, the least of them.
    Mode,
    /// Pearson's correlation coefficient of the pairs of doubles (y, x); NULL if either has no spread.
    Correlation,
    /// The mean product of the distances of pairs of doubles from their means.
    CovariancePopulation,
    /// The sum of the products of the distances of pairs of doubles from their means, divided by the number of pairs
    /// minus one; NULL for a single pair.
    CovarianceSample,
    /// The slope of the least-squares line through the pairs (y, x).
    RegressionSlope,
    /// The y at which the least-squares line through the pairs (y, x) crosses the y axis.
    RegressionIntercept,
    /// Number of pairs in which neither value is NULL.
    RegressionCount,
    /// The square of the correlation coefficient; 1 if y has no spread.
    RegressionR2,
    /// The mean of x over the pairs (y, x).
    RegressionAverageX,
    /// The mean of y over the pairs (y, x).
    RegressionAverageY,
    /// The sum of the squared distances of x from its mean.
    RegressionSumXX,
    /// The sum of the squared distances of y from its mean.
    RegressionSumYY,
    /// The sum of the products of the distances of x and y from their means.
    RegressionSumXY,
}

impl AggregateFunction {
    /// The name of the function in SQL.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Average => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::BitAnd => "bit_and",
            AggregateFunction::BitOr => "bit_or",
            AggregateFunction::BitXor => "bit_xor",
            AggregateFunction::VariancePopulation => "var_pop",
            AggregateFunction::VarianceSample => "var_samp",
            AggregateFunction::DeviationPopulation => "stddev_pop",
            AggregateFunction::DeviationSample => "stddev_samp",
            AggregateFunction::Median => "median",
            AggregateFunction::Quantile => "percentile_cont",
            AggregateFunction::Array => "array_agg",
            AggregateFunction::Text => "string_agg",
            AggregateFunction::First => "first_value",
            AggregateFunction::Last => "last_value",
            AggregateFunction::Nth => "nth_value",
            AggregateFunction::ApproximateCount => "approx_distinct",
            AggregateFunction::DiscreteQuantile => "percentile_disc",
            AggregateFunction::WeightedQuantile => "approx_percentile_cont_with_weight",
            AggregateFunction::Mode => "mode",
            AggregateFunction::Correlation => "corr",
            AggregateFunction::CovariancePopulation => "covar_pop",
            AggregateFunction::CovarianceSample => "covar_samp",
            AggregateFunction::RegressionSlope => "regr_slope",
            AggregateFunction::RegressionIntercept => "regr_intercept",
            AggregateFunction::RegressionCount => "regr_count",
            AggregateFunction::RegressionR2 => "regr_r2",
            AggregateFunction::RegressionAverageX => "regr_avgx",
            AggregateFunction::RegressionAverageY => "regr_avgy",
            AggregateFunction::RegressionSumXX => "regr_sxx",
            AggregateFunction::RegressionSumYY => "regr_syy",
            AggregateFunction::RegressionSumXY => "regr_sxy",
        }
    }

    /// Whether it takes two doubles per row, y and x, and skips rows in which either is NULL.
    pub fn is_of_pairs(self) -> bool {
        use AggregateFunction as Function;
        matches!(
            self,
            Function::Correlation
                | Function::CovariancePopulation
                | Function::CovarianceSample
                | Function::RegressionSlope
                | Function::RegressionIntercept
                | Function::RegressionCount
                | Function::RegressionR2
                | Function::RegressionAverageX
                | Function::RegressionAverageY
                | Function::RegressionSumXX
                | Function::RegressionSumYY
                | Function::RegressionSumXY
        )
    }

    /// Whether it treats NULL like any other value, unless the call skips NULLs.
    pub fn takes_nulls(self) -> bool {
        use AggregateFunction::{Array, First, Last, Nth};
        matches!(self, Array | First | Last | Nth)
    }
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
    /// Set if the argument is a partial result, computed for a part of the rows by the same aggregate, or by
    /// [`AggregateFunction::Sum`] for an average. It is then the number of values in each part. A count has no argument
    /// in this case.
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
        let total_error = format!("the total of {}", function.name());
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

/// Whether the engine can compute `function` of values of `kind`.
pub fn is_aggregated(function: AggregateFunction, kind: &DataType) -> bool {
    use AggregateFunction as Function;
    use DataType::{Decimal128, Float32, Float64};
    let is_number = kind.is_integer() || matches!(kind, Decimal128(..) | Float32 | Float64);
    match function {
        Function::Count => true,
        Function::Sum | Function::Average | Function::Median | Function::Quantile => is_number,
        Function::Min
        | Function::Max
        | Function::Array
        | Function::First
        | Function::Last
        | Function::Nth
        | Function::ApproximateCount => is_key_kind(kind),
        Function::BitAnd | Function::BitOr | Function::BitXor => kind.is_integer(),
        Function::VariancePopulation
        | Function::VarianceSample
        | Function::DeviationPopulation
        | Function::DeviationSample => *kind == Float64,
        Function::Text => *kind == DataType::Utf8View,
        Function::DiscreteQuantile | Function::Mode => is_key_kind(kind),
        Function::WeightedQuantile => matches!(kind, Float32 | Float64),
        _ => *kind == Float64,
    }
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

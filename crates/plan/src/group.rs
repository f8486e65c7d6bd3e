//! GROUP BY over the rows of one table.

use arrow::array::ArrayRef;
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
    /// The mean square of the distances of doubles from their mean.
    VariancePopulation,
    /// As [`AggregateFunction::VariancePopulation`], over one less than the number of values; NULL for one value.
    VarianceSample,
    /// The root of [`AggregateFunction::VariancePopulation`].
    DeviationPopulation,
    /// The root of [`AggregateFunction::VarianceSample`].
    DeviationSample,
    /// The value in the middle; of two, their mean in the type of the values.
    Median,
    /// The value below which the share of values in [`Aggregate::parameter`], a double from 0 to 1, lies, between
    /// neighbours in proportion.
    Quantile,
    /// All values, NULLs among them, as a list in [`Aggregate::order`]; NULL for no rows.
    Array,
    /// All texts one behind the other in [`Aggregate::order`], with the text in [`Aggregate::parameter`] between them.
    Text,
    /// The value, NULL or not, that comes first in [`Aggregate::order`].
    First,
    /// The value, NULL or not, that comes last in [`Aggregate::order`].
    Last,
    /// The value, NULL or not, whose place in [`Aggregate::order`] is [`Aggregate::parameter`], an integer: 1 is the
    /// first one, -1 the last one. NULL if there are fewer values.
    Nth,
    /// About how many distinct values there are: with a standard error of less than 1 %, and the same for the same
    /// values.
    ApproximateCount,
    /// The first value, by size, up to which at least the share of values in [`Aggregate::parameter`], a double from 0 to 1,
    /// lies. [`Aggregate::order`] says which end is the first.
    DiscreteQuantile,
    /// As [`AggregateFunction::Quantile`], where each value counts as often as the second argument, a double, says.
    WeightedQuantile,
    /// The value that occurs most often; of several the least.
    Mode,
    /// Pearson's coefficient of the pairs of doubles (y, x); NULL where either has no spread.
    Correlation,
    /// The mean product of the distances of pairs of doubles from their means.
    CovariancePopulation,
    /// As [`AggregateFunction::CovariancePopulation`], over one less than the number of pairs; NULL for one pair.
    CovarianceSample,
    /// The slope of the least-squares line through the pairs (y, x).
    RegressionSlope,
    /// Where the least-squares line through the pairs (y, x) meets the y axis.
    RegressionIntercept,
    /// How many pairs there are of which no value is NULL.
    RegressionCount,
    /// The square of the coefficient of correlation; 1 where y has no spread.
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
    /// Its name in SQL.
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

    /// Whether it takes two doubles of each row, y and x, and skips rows in which either is NULL.
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

    /// Whether NULL is a value for it like any other, unless it is told to skip NULLs.
    pub fn takes_nulls(self) -> bool {
        use AggregateFunction::{Array, First, Last, Nth};
        matches!(self, Array | First | Last | Nth)
    }
}

/// One of the values by which those of an aggregate are ordered.
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
    /// What is computed.
    pub function: AggregateFunction,
    /// Of which values, and their type; of rows without.
    pub argument: Option<(Expr, DataType)>,
    /// Further arguments, and their types: the x of `corr(y, x)`, the weight of a value.
    pub more: Vec<(Expr, DataType)>,
    /// What the function needs to know besides: one row.
    pub parameter: Option<ArrayRef>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// In which order the values come, where that matters to the function; in any without. With `distinct` it is one of
    /// the values themselves.
    pub order: Vec<AggregateOrder>,
    /// Whether NULLs are left out even if the function takes them: `IGNORE NULLS`.
    pub skips_nulls: bool,
    /// The rows that count, where it is true; all without.
    pub filter: Option<Expr>,
    /// Where the argument is what the same aggregate, or [`AggregateFunction::Sum`] for an average, gave of parts of the
    /// rows: of how many values each part was. A count has no argument then.
    pub of_parts: Option<Expr>,
    /// The type of the result.
    pub kind: DataType,
    /// What the error says of a total that leaves its type.
    pub total_error: String,
}

impl Aggregate {
    /// `function` of the values of all rows, with a result of type `kind`.
    pub fn new(function: AggregateFunction, argument: Option<(Expr, DataType)>, kind: DataType) -> Aggregate {
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

    /// Whether NULLs are among the values.
    pub fn takes_nulls(&self) -> bool {
        self.function.takes_nulls() && !self.skips_nulls
    }

    /// What it reads of a row.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let argument = self.argument.iter_mut().chain(&mut self.more).map(|(expr, _)| expr);
        let order = self.order.iter_mut().map(|order| &mut order.expr);
        argument.chain(order).chain(&mut self.filter).chain(&mut self.of_parts)
    }
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
    /// The keys of groups that are there even if no row is in them, as a column for each key; no columns for no such
    /// groups.
    pub always: Vec<ArrayRef>,
}

/// Whether the engine groups by values of `kind`.
pub fn is_key_kind(kind: &DataType) -> bool {
    is_fixed(kind) || is_text(kind)
}

/// Whether the engine computes `function` of values of `kind`.
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

/// Types of a fixed size whose values are equal, and in order, by their bits.
fn is_fixed(kind: &DataType) -> bool {
    use DataType::{Boolean, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Interval, Time64, Timestamp};
    kind.is_integer()
        || matches!(kind, Boolean | Date32 | Time64(_) | Timestamp(..) | Decimal128(..) | Float32 | Float64)
        || matches!(kind, FixedSizeBinary(16) | Interval(IntervalUnit::MonthDayNano))
}

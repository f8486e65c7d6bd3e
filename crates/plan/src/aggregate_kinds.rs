//! The aggregates of SQL: their names, the types to which their arguments are cast, and the types of their results.
//!
//! | aggregate | argument | result |
//! | --- | --- | --- |
//! | `count` | any | BIGINT |
//! | `sum` | integers up to 32 bits; BIGINT; DECIMAL(p,s); floats | BIGINT; DECIMAL(38,0); DECIMAL(38,s); DOUBLE |
//! | `avg` | numbers | DOUBLE |
//! | `min`, `max`, `first_value`, `last_value`, `nth_value`, `any_value`, `mode` | any | the argument |
//! | `bool_and`, `bool_or` | BOOLEAN | BOOLEAN |
//! | `bit_and`, `bit_or`, `bit_xor` | integers | the argument |
//! | `median` | numbers | the argument |
//! | `percentile_cont`, `approx_percentile_cont`, `approx_median` | numbers | REAL of REAL, otherwise DOUBLE |
//! | `percentile_disc` | any | the argument |
//! | variances, deviations, `corr`, `covar_*`, `regr_*` | numbers, as DOUBLE | DOUBLE; `regr_count` BIGINT |
//! | `array_agg` | any | a list of the argument |
//! | `string_agg` | TEXT | TEXT |
//! | `approx_distinct` | any | BIGINT UNSIGNED |
//!
//! The approximate quantiles are computed exactly.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::AggregateFunction;

/// The meaning of an SQL aggregate name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregateName {
    /// The aggregate to compute.
    pub function: AggregateFunction,
    /// Number of values that it takes per row, without the parameter. For `count` this is 1, although `count(*)` takes
    /// none.
    pub arguments: usize,
    /// The constant that the function needs in addition.
    pub parameter: AggregateParameter,
    /// Whether the arguments are conditions: `bool_and`.
    pub of_booleans: bool,
    /// Whether the arguments are cast to a float: `approx_median`.
    pub of_floats: bool,
    /// Whether NULLs are skipped even without `IGNORE NULLS`: `any_value`.
    pub skips_nulls: bool,
}

/// A parameter of an aggregate besides its arguments. It must be a constant of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateParameter {
    /// No parameter.
    Nothing,
    /// A text that is the last argument: the separator of `string_agg`. NULL is the empty text.
    Separator,
    /// A BIGINT other than 0 that is the last argument: the place of `nth_value`.
    Nth,
    /// A DOUBLE from 0 to 1: the share of a quantile. The one argument in `percentile_cont(share) WITHIN GROUP (ORDER
    /// BY value)`, the last one in `percentile_cont(value, share)`. With `DESC` it counts from the greatest value: a
    /// continuous quantile then has 1 - share, a discrete one keeps its order.
    Share,
}

impl AggregateParameter {
    /// The type that the parameter is cast to.
    pub fn kind(self) -> Option<DataType> {
        match self {
            AggregateParameter::Nothing => None,
            AggregateParameter::Separator => Some(DataType::Utf8View),
            AggregateParameter::Nth => Some(DataType::Int64),
            AggregateParameter::Share => Some(DataType::Float64),
        }
    }
}

/// All names, in lower case.
const NAMES: &[(&str, AggregateName)] = {
    use AggregateFunction as Function;
    &[
        ("any_value", AggregateName { skips_nulls: true, ..plain(Function::First) }),
        ("approx_count_distinct", plain(Function::ApproximateCount)),
        ("approx_distinct", plain(Function::ApproximateCount)),
        ("approx_median", AggregateName { of_floats: true, ..plain(Function::Median) }),
        ("approx_percentile_cont", with(Function::Quantile, AggregateParameter::Share)),
        ("approx_percentile_cont_with_weight", {
            AggregateName { arguments: 2, ..with(Function::WeightedQuantile, AggregateParameter::Share) }
        }),
        ("array_agg", plain(Function::Array)),
        ("avg", plain(Function::Average)),
        ("bit_and", plain(Function::BitAnd)),
        ("bit_or", plain(Function::BitOr)),
        ("bit_xor", plain(Function::BitXor)),
        ("bool_and", AggregateName { of_booleans: true, ..plain(Function::Min) }),
        ("bool_or", AggregateName { of_booleans: true, ..plain(Function::Max) }),
        ("corr", pair(Function::Correlation)),
        ("count", plain(Function::Count)),
        ("covar", pair(Function::CovarianceSample)),
        ("covar_pop", pair(Function::CovariancePopulation)),
        ("covar_samp", pair(Function::CovarianceSample)),
        ("every", AggregateName { of_booleans: true, ..plain(Function::Min) }),
        ("first_value", plain(Function::First)),
        ("last_value", plain(Function::Last)),
        ("max", plain(Function::Max)),
        ("mean", plain(Function::Average)),
        ("median", plain(Function::Median)),
        ("min", plain(Function::Min)),
        ("mode", plain(Function::Mode)),
        ("nth_value", with(Function::Nth, AggregateParameter::Nth)),
        ("percentile_cont", with(Function::Quantile, AggregateParameter::Share)),
        ("percentile_disc", with(Function::DiscreteQuantile, AggregateParameter::Share)),
        ("quantile_cont", with(Function::Quantile, AggregateParameter::Share)),
        ("quantile_disc", with(Function::DiscreteQuantile, AggregateParameter::Share)),
        ("regr_avgx", pair(Function::RegressionAverageX)),
        ("regr_avgy", pair(Function::RegressionAverageY)),
        ("regr_count", pair(Function::RegressionCount)),
        ("regr_intercept", pair(Function::RegressionIntercept)),
        ("regr_r2", pair(Function::RegressionR2)),
        ("regr_slope", pair(Function::RegressionSlope)),
        ("regr_sxx", pair(Function::RegressionSumXX)),
        ("regr_sxy", pair(Function::RegressionSumXY)),
        ("regr_syy", pair(Function::RegressionSumYY)),
        ("stddev", plain(Function::DeviationSample)),
        ("stddev_pop", plain(Function::DeviationPopulation)),
        ("stddev_samp", plain(Function::DeviationSample)),
        ("string_agg", with(Function::Text, AggregateParameter::Separator)),
        ("sum", plain(Function::Sum)),
        ("var", plain(Function::VarianceSample)),
        ("var_pop", plain(Function::VariancePopulation)),
        ("var_population", plain(Function::VariancePopulation)),
        ("var_samp", plain(Function::VarianceSample)),
        ("var_sample", plain(Function::VarianceSample)),
        ("variance", plain(Function::VarianceSample)),
    ]
};

const fn plain(function: AggregateFunction) -> AggregateName {
    let parameter = AggregateParameter::Nothing;
    AggregateName { function, arguments: 1, parameter, of_booleans: false, of_floats: false, skips_nulls: false }
}

const fn pair(function: AggregateFunction) -> AggregateName {
    AggregateName { arguments: 2, ..plain(function) }
}

const fn with(function: AggregateFunction, parameter: AggregateParameter) -> AggregateName {
    AggregateName { parameter, ..plain(function) }
}

/// Finds an aggregate by its name in upper or lower case.
pub fn find(name: &str) -> Option<AggregateName> {
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, aggregate)| *aggregate)
}

/// The names of all aggregates in ascending order.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

impl AggregateName {
    /// The types to which the arguments, without the parameter, are cast, and the type of the result. Returns `None` if
    /// the aggregate does not take such arguments.
    pub fn kinds(&self, arguments: &[DataType]) -> Option<(Vec<DataType>, DataType)> {
        match (self.of_booleans, self.of_floats, arguments) {
            (true, _, [DataType::Boolean | DataType::Null]) => Some((vec![DataType::Boolean], DataType::Boolean)),
            (true, ..) => None,
            (_, true, [kind]) => kinds(self.function, &[float_of(kind)?]),
            _ => kinds(self.function, arguments),
        }
    }
}

/// The types to which the arguments of `function`, without its parameter, are cast, and the type of the result. Returns
/// `None` if it does not take such arguments. An argument of type `Null` is the literal `NULL`.
pub fn kinds(function: AggregateFunction, arguments: &[DataType]) -> Option<(Vec<DataType>, DataType)> {
    use AggregateFunction as Function;
    if function == Function::Count && arguments.is_empty() {
        return Some((Vec::new(), DataType::Int64));
    }
    // Functions of pairs compute in doubles whatever the types are.
    if function.is_of_pairs() {
        let [first, second] = arguments else { return None };
        double_of(first)?;
        double_of(second)?;
        let result = if function == Function::RegressionCount { DataType::Int64 } else { DataType::Float64 };
        return Some((vec![DataType::Float64; 2], result));
    }
    // The result has the type of the value; the weight is always a double.
    if function == Function::WeightedQuantile {
        let [value, weight] = arguments else { return None };
        let value = float_of(value)?;
        return Some((vec![value.clone(), double_of(weight)?], value));
    }
    let [kind] = arguments else { return None };
    Some(match function {
        Function::Count => (vec![known(kind, DataType::Boolean)], DataType::Int64),
        Function::Sum => {
            let kind = known(kind, DataType::Int32);
            let total = total_kind(&kind)?;
            (vec![kind], total)
        }
        Function::Average => {
            let kind = known(kind, DataType::Int32);
            total_kind(&kind)?;
            (vec![kind], DataType::Float64)
        }
        // The mean of two integers may have a fraction.
        Function::Median if kind.is_integer() => same(DataType::Float64),
        Function::Median => {
            let kind = known(kind, DataType::Float64);
            total_kind(&kind)?;
            same(kind)
        }
        Function::BitAnd | Function::BitOr | Function::BitXor => {
            let kind = known(kind, DataType::Int64);
            if !kind.is_integer() {
                return None;
            }
            same(kind)
        }
        Function::VariancePopulation
        | Function::VarianceSample
        | Function::DeviationPopulation
        | Function::DeviationSample => same(double_of(kind)?),
        Function::Quantile => same(float_of(kind)?),
        Function::Min
        | Function::Max
        | Function::First
        | Function::Last
        | Function::Nth
        | Function::Mode
        | Function::DiscreteQuantile => same(known(kind, DataType::Utf8View)),
        Function::Array => {
            let kind = known(kind, DataType::Utf8View);
            let list = DataType::List(Arc::new(Field::new("item", kind.clone(), true)));
            (vec![kind], list)
        }
        Function::Text if kind.is_nested() => return None,
        Function::Text => same(DataType::Utf8View),
        Function::ApproximateCount => (vec![known(kind, DataType::Boolean)], DataType::UInt64),
        _ => return None,
    })
}

/// The type of the exact sum of values of `kind`, or `None` if such values cannot be added.
pub fn total_kind(kind: &DataType) -> Option<DataType> {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    Some(match kind {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Int64,
        Int64 | UInt64 => Decimal128(38, 0),
        Decimal128(_, scale) => Decimal128(38, *scale),
        Float32 | Float64 => Float64,
        _ => return None,
    })
}

/// `kind`, or `instead` for the literal `NULL`.
fn known(kind: &DataType, instead: DataType) -> DataType {
    if *kind == DataType::Null { instead } else { kind.clone() }
}

fn same(kind: DataType) -> (Vec<DataType>, DataType) {
    (vec![kind.clone()], kind)
}

/// DOUBLE if `kind` is numeric.
fn double_of(kind: &DataType) -> Option<DataType> {
    (*kind == DataType::Null || total_kind(kind).is_some()).then_some(DataType::Float64)
}

/// REAL for a REAL, DOUBLE for any other number.
fn float_of(kind: &DataType) -> Option<DataType> {
    if *kind == DataType::Float32 { Some(DataType::Float32) } else { double_of(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_aggregated;

    #[test]
    fn names_are_sorted_and_distinct() {
        let names: Vec<_> = names().collect();
        assert!(names.is_sorted_by(|left, right| left < right));
        assert!(names.iter().all(|name| *name == name.to_lowercase()));
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find("Stddev_Samp").map(|found| found.function), Some(AggregateFunction::DeviationSample));
        assert_eq!(
            find("bool_AND").map(|found| (found.function, found.of_booleans)),
            Some((AggregateFunction::Min, true))
        );
        assert_eq!(find("upper"), None);
    }

    #[test]
    fn sums_have_the_type_of_exact_totals() {
        let sum = |kind| kinds(AggregateFunction::Sum, &[kind]).map(|(_, result)| result);
        assert_eq!(sum(DataType::UInt8), Some(DataType::Int64));
        assert_eq!(sum(DataType::Int64), Some(DataType::Decimal128(38, 0)));
        assert_eq!(sum(DataType::Decimal128(10, 2)), Some(DataType::Decimal128(38, 2)));
        assert_eq!(sum(DataType::Float32), Some(DataType::Float64));
        assert_eq!(sum(DataType::Null), Some(DataType::Int64));
        assert_eq!(sum(DataType::Utf8View), None);
        assert_eq!(sum(DataType::Boolean), None);
    }

    #[test]
    fn quantiles_and_medians_of_integers_are_floats() {
        let by_name = |name, kind| find(name).expect("an aggregate").kinds(&[kind]);
        assert_eq!(by_name("median", DataType::Int32), Some(same(DataType::Float64)));
        assert_eq!(by_name("median", DataType::Decimal128(9, 2)), Some(same(DataType::Decimal128(9, 2))));
        assert_eq!(by_name("approx_median", DataType::Int32), Some(same(DataType::Float64)));
        assert_eq!(by_name("percentile_cont", DataType::Decimal128(9, 2)), Some(same(DataType::Float64)));
        assert_eq!(by_name("percentile_cont", DataType::Float32), Some(same(DataType::Float32)));
        assert_eq!(by_name("percentile_disc", DataType::Date32), Some(same(DataType::Date32)));
        assert_eq!(by_name("bool_or", DataType::Int32), None);
    }

    #[test]
    fn a_wrong_number_of_arguments_is_refused() {
        assert_eq!(kinds(AggregateFunction::Correlation, &[DataType::Int64]), None);
        assert_eq!(kinds(AggregateFunction::Sum, &[]), None);
        assert_eq!(kinds(AggregateFunction::Sum, &[DataType::Int64, DataType::Int64]), None);
        assert_eq!(kinds(AggregateFunction::Count, &[]), Some((vec![], DataType::Int64)));
    }

    #[test]
    fn the_engine_computes_every_aggregate_for_the_types_of_its_casts() {
        let types = [DataType::Null, DataType::Boolean, DataType::Int16, DataType::Float32, DataType::Utf8View];
        for (name, aggregate) in NAMES {
            let mut taken = 0;
            for kind in &types {
                let Some((casts, _)) = aggregate.kinds(&vec![kind.clone(); aggregate.arguments]) else { continue };
                taken += 1;
                assert!(is_aggregated(aggregate.function, &casts[0]), "{name} of {kind}");
            }
            assert!(taken > 0, "{name} takes nothing");
        }
    }
}

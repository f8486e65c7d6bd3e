//! How many rows a predicate lets through, guessed from zone maps and from what ANALYZE has found out, for the order of joins.

use datafusion::common::{ColumnStatistics, ScalarValue};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::{EQUAL_SHARE, RANGE_SHARE, TableSource};

use super::known_values::{self, Ranges};
use super::zones::column_statistics;

/// Of a pattern.
const LIKE: f64 = 0.15;
/// No guess goes below this: joins suffer more from a guess that is too low.
const LEAST: f64 = 1e-6;

/// The share of rows that pass all of `predicates`.
pub(crate) fn selectivity(source: &dyn TableSource, predicates: &[Predicate]) -> f64 {
    share_of_all(source, predicates).clamp(LEAST, 1.0)
}

/// The share of rows that pass all of `predicates`, as if those were independent that are no bounds of one column.
fn share_of_all(source: &dyn TableSource, predicates: &[Predicate]) -> f64 {
    let (mut ranges, mut others) = (Ranges::default(), 1.0);
    gather(source, predicates, &mut ranges, &mut others);
    others * ranges.share(source).unwrap_or(RANGE_SHARE)
}

fn gather<'p>(source: &dyn TableSource, predicates: &'p [Predicate], ranges: &mut Ranges<'p>, others: &mut f64) {
    for predicate in predicates {
        match predicate {
            Predicate::And(parts) => gather(source, parts, ranges, others),
            bound if ranges.take(source, bound) => {}
            other => *others *= share(source, other),
        }
    }
}

fn share(source: &dyn TableSource, predicate: &Predicate) -> f64 {
    if let Some(share) = known_values::share(source, predicate) {
        return share;
    }
    match predicate {
        Predicate::Compare { column, op, value } => {
            let statistics = column_statistics(source, *column);
            match ScalarValue::try_from_array(value, 0) {
                Ok(value) => comparison(&statistics, *op, &value),
                Err(_) => RANGE_SHARE,
            }
        }
        Predicate::In { column, values, negated } => {
            let each = equality(&column_statistics(source, *column));
            negate_if(*negated, (each * values.len() as f64).min(1.0))
        }
        Predicate::IsNull { column, negated } => {
            let nulls = column_statistics(source, *column).null_count.get_value().copied().unwrap_or(0);
            negate_if(*negated, nulls as f64 / (source.row_count() as f64).max(1.0))
        }
        Predicate::Like { negated, .. } => negate_if(*negated, LIKE),
        Predicate::And(parts) => share_of_all(source, parts),
        Predicate::Or(parts) => 1.0 - parts.iter().map(|part| 1.0 - share(source, part)).product::<f64>(),
        Predicate::Not(inner) => 1.0 - share(source, inner),
    }
}

fn negate_if(negated: bool, share: f64) -> f64 {
    if negated { 1.0 - share } else { share }
}

fn equality(statistics: &ColumnStatistics) -> f64 {
    match statistics.distinct_count.get_value() {
        Some(distinct) if *distinct > 0 => 1.0 / *distinct as f64,
        _ => EQUAL_SHARE,
    }
}

fn comparison(statistics: &ColumnStatistics, op: CompareOp, value: &ScalarValue) -> f64 {
    match op {
        CompareOp::Equal => equality(statistics),
        CompareOp::NotEqual => 1.0 - equality(statistics),
        CompareOp::Less | CompareOp::LessOrEqual => below(statistics, value).unwrap_or(RANGE_SHARE),
        CompareOp::Greater | CompareOp::GreaterOrEqual => {
            below(statistics, value).map_or(RANGE_SHARE, |below| 1.0 - below)
        }
    }
}

/// The share of values below `value`, if they were spread evenly between minimum and maximum.
fn below(statistics: &ColumnStatistics, value: &ScalarValue) -> Option<f64> {
    let min = number(statistics.min_value.get_value()?)?;
    let max = number(statistics.max_value.get_value()?)?;
    let value = number(value)?;
    if max <= min {
        return None;
    }
    Some(((value - min) / (max - min)).clamp(0.0, 1.0))
}

fn number(value: &ScalarValue) -> Option<f64> {
    Some(match value {
        ScalarValue::Int8(Some(value)) => f64::from(*value),
        ScalarValue::Int16(Some(value)) => f64::from(*value),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => f64::from(*value),
        ScalarValue::Int64(Some(value))
        | ScalarValue::Time64Microsecond(Some(value))
        | ScalarValue::TimestampSecond(Some(value), _)
        | ScalarValue::TimestampMillisecond(Some(value), _)
        | ScalarValue::TimestampMicrosecond(Some(value), _)
        | ScalarValue::TimestampNanosecond(Some(value), _) => *value as f64,
        ScalarValue::UInt8(Some(value)) => f64::from(*value),
        ScalarValue::UInt16(Some(value)) => f64::from(*value),
        ScalarValue::UInt32(Some(value)) => f64::from(*value),
        ScalarValue::UInt64(Some(value)) => *value as f64,
        ScalarValue::Float32(Some(value)) => f64::from(*value),
        ScalarValue::Float64(Some(value)) => *value,
        ScalarValue::Decimal128(Some(value), _, _) => *value as f64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::common::stats::Precision;

    use super::*;

    #[test]
    fn ranges_are_placed_between_the_bounds() {
        let statistics = ColumnStatistics {
            min_value: Precision::Exact(ScalarValue::Int32(Some(0))),
            max_value: Precision::Exact(ScalarValue::Int32(Some(100))),
            distinct_count: Precision::Inexact(50),
            ..ColumnStatistics::new_unknown()
        };
        let at = |op, value| comparison(&statistics, op, &ScalarValue::Int32(Some(value)));
        assert_eq!(at(CompareOp::Less, 25), 0.25);
        assert_eq!(at(CompareOp::Greater, 25), 0.75);
        assert_eq!(at(CompareOp::Greater, 1_000), 0.0);
        assert_eq!(at(CompareOp::Equal, 1), 0.02);
        assert_eq!(
            comparison(&ColumnStatistics::new_unknown(), CompareOp::Less, &ScalarValue::Int32(None)),
            RANGE_SHARE
        );
    }
}

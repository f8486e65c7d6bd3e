//! Aggregates over the values of groups in their own order: discrete quantiles, the most frequent value, and weighted
//! quantiles.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt32Array};
use arrow::compute::{cast, partition, take};
use arrow::datatypes::{DataType, Decimal128Type};
use rowmill_base::{Error, Result};

use super::pairs::pair_of;

/// The first value of each group such that at least a `share` of the group's values are not greater. The values must be
/// in order.
pub(super) fn discrete_quantile(column: &ArrayRef, starts: &[usize], share: f64) -> Result<ArrayRef> {
    let of = |ends: &[usize]| {
        let count = ends[1] - ends[0];
        let place = ((share.clamp(0.0, 1.0) * count as f64).ceil() as usize).max(1);
        (count > 0).then(|| (ends[0] + place.min(count) - 1) as u32)
    };
    let places = UInt32Array::from_iter(starts.windows(2).map(of));
    take(column, &places, None).map_err(|error| Error::internal(error.to_string()))
}

/// The most frequent value of each group. Of equally frequent values the first wins. The values must be in order.
pub(super) fn mode(column: &ArrayRef, starts: &[usize]) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let runs = partition(std::slice::from_ref(column)).map_err(failed)?.ranges();
    let mut runs = runs.into_iter().peekable();
    let mut places: Vec<Option<u32>> = Vec::with_capacity(starts.len() - 1);
    for ends in starts.windows(2) {
        let (mut place, mut longest) = (None, 0);
        // A run of equal values may continue in the next group, so it is used up only when it ends in this one.
        while let Some(run) = runs.peek().filter(|run| run.start < ends[1]) {
            let (start, end) = (run.start.max(ends[0]), run.end.min(ends[1]));
            if start < end && end - start > longest {
                (place, longest) = (Some(start as u32), end - start);
            }
            if run.end > ends[1] {
                break;
            }
            runs.next();
        }
        places.push(place);
    }
    take(column, &UInt32Array::from(places), None).map_err(failed)
}

/// The value at a share of the way from each group's least value to its greatest, interpolated between two values. Each
/// value counts with its weight. Values whose weight is not above zero do not count.
pub(super) fn weighted_quantile(column: &ArrayRef, starts: &[usize], share: f64, kind: &DataType) -> Result<ArrayRef> {
    let Some(pairs) = column.as_primitive_opt::<Decimal128Type>() else {
        return Err(Error::internal(format!("a weighted quantile got values of {}, not pairs", column.data_type())));
    };
    let of = |ends: &[usize]| {
        let pairs = pairs.values()[ends[0]..ends[1]].iter().map(|pair| pair_of(*pair));
        let mut weighted: Vec<(f64, f64)> = pairs.filter(|(_, weight)| *weight > 0.0).collect();
        weighted.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let place = share.clamp(0.0, 1.0) * (total - 1.0).max(0.0);
        let (low, high) = (value_at(&weighted, place.floor())?, value_at(&weighted, place.ceil())?);
        Some(if low == high { low } else { low + (high - low) * place.fract() })
    };
    let values = Float64Array::from_iter(starts.windows(2).map(of));
    cast(&values, kind).map_err(|error| Error::internal(error.to_string()))
}

/// The value at a place, counted from zero, if each value is repeated as its weight says.
fn value_at(weighted: &[(f64, f64)], place: f64) -> Option<f64> {
    let mut before = 0.0;
    let at = weighted.iter().find(|(_, weight)| {
        before += weight;
        before > place
    });
    at.or(weighted.last()).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int64Array};
    use arrow::datatypes::{Float64Type, Int64Type};

    use super::*;

    fn numbers(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn found(values: Result<ArrayRef>) -> Vec<Option<i64>> {
        values.expect("numbers").as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn a_discrete_quantile_is_one_of_the_values() {
        let (column, starts) = (numbers(&[1, 2, 3, 4, 9]), [0, 4, 4, 5]);
        let of = |share| found(discrete_quantile(&column, &starts, share));
        assert_eq!(of(0.0), [Some(1), None, Some(9)]);
        assert_eq!(of(0.25), [Some(1), None, Some(9)]);
        assert_eq!(of(0.26), [Some(2), None, Some(9)]);
        assert_eq!(of(0.5), [Some(2), None, Some(9)]);
        assert_eq!(of(1.0), [Some(4), None, Some(9)]);
    }

    #[test]
    fn the_most_frequent_value_is_found_in_each_group() {
        let column = numbers(&[1, 2, 2, 3, 3, 3, 3, 4, 5, 5]);
        assert_eq!(found(mode(&column, &[0, 5, 5, 6, 8, 10])), [Some(2), None, Some(3), Some(3), Some(5)]);
        assert_eq!(found(mode(&numbers(&[]), &[0, 0])), [None]);
    }

    #[test]
    fn weights_say_how_often_a_value_counts() {
        let pair = |value: f64, weight: f64| (u128::from(value.to_bits()) | u128::from(weight.to_bits()) << 64) as i128;
        let pairs = [pair(4.0, 1.0), pair(1.0, 3.0), pair(9.0, 0.0), pair(7.0, -1.0), pair(5.0, 0.5), pair(2.0, 0.0)];
        let column: ArrayRef = Arc::new(Decimal128Array::from(pairs.to_vec()));
        let of = |share| {
            let values = weighted_quantile(&column, &[0, 4, 5, 6], share, &DataType::Float64).expect("pairs");
            values.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
        };
        // 1, 1, 1, 4
        assert_eq!(of(0.5), [Some(1.0), Some(5.0), None]);
        assert_eq!(of(1.0), [Some(4.0), Some(5.0), None]);
        assert_eq!(of(0.75), [Some(1.75), Some(5.0), None]);
    }
}

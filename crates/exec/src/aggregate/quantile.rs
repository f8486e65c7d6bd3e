//! Medians and quantiles. They are exact, also under the names of approximate ones.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use arrow::error::ArrowError;
use rowmill_base::{Error, Result};
use rowmill_plan::aggregate::total_kind;
use rowmill_plan::{AggregateOrdering, AggregateParameter, AggregateSpec};

use super::pairs::pair_of;
use super::signature::{Kinds, any, double, double_of, float, float_of, known, same};
use super::{AggregateState, Aggregation, GroupValues, KeptValues, ValuesState, count_of};
use crate::group::{array_of, integers};

pub(super) static QUANTILES: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            doc: "The middle value. Of an even number of values, the mean of the two middle ones.",
            example: ("median(x) FROM (VALUES (1), (2), (9)) AS t(x)", "2.0"),
            ..AggregateSpec::new("median", numbers)
        },
        state: state(KeptValues::Counted, median),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The middle value as a float. It is exact.",
            example: ("approx_median(x) FROM (VALUES (1), (2), (9)) AS t(x)", "2.0"),
            ..AggregateSpec::new("approx_median", float)
        },
        state: state(KeptValues::Counted, median),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The median of the distances of the values from their median.",
            example: ("mad(x) FROM (VALUES (1), (2), (9)) AS t(x)", "1.0"),
            ..AggregateSpec::new("mad", double)
        },
        state: state(KeptValues::All, median_distance),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["quantile_cont", "approx_percentile_cont", "approx_quantile"],
            parameter: AggregateParameter::Share,
            ordering: AggregateOrdering::TurnsShare,
            within_group: true,
            doc: "The value below which a share of the values is, interpolated between neighbours.",
            example: ("percentile_cont(x, 0.25) FROM (VALUES (1), (2), (3), (4)) AS t(x)", "1.75"),
            ..AggregateSpec::new("percentile_cont", float)
        },
        state: state(KeptValues::Counted, quantile),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["quantile_disc", "quantile", "reservoir_quantile"],
            parameter: AggregateParameter::Share,
            ordering: AggregateOrdering::OfValues,
            within_group: true,
            doc: "The first value, by size, up to which at least a share of the values is.",
            example: ("percentile_disc(x, 0.5) FROM (VALUES (1), (2), (3), (4)) AS t(x)", "2"),
            ..AggregateSpec::new("percentile_disc", any)
        },
        state: state(KeptValues::Counted, |values| {
            discrete_quantile(values.column, values.counts, values.starts, share_of(&values)?)
        }),
    },
    Aggregation {
        spec: AggregateSpec {
            arguments: 2,
            parameter: AggregateParameter::Share,
            ordering: AggregateOrdering::TurnsShare,
            within_group: true,
            doc: "The value below which a share of the values is, where each value counts as often as its weight says.",
            example: ("approx_percentile_cont_with_weight(x, w, 0.5) FROM (VALUES (1, 3), (4, 1)) AS t(x, w)", "1.0"),
            ..AggregateSpec::new("approx_percentile_cont_with_weight", weighted)
        },
        state: state(KeptValues::All, |values| {
            let share = share_of(&values)?;
            weighted_quantile(values.column, values.starts, share, values.kind)
        }),
    },
];

const fn state(kept: KeptValues, finish: fn(GroupValues<'_>) -> Result<ArrayRef>) -> AggregateState {
    AggregateState::Values(ValuesState { kept, finish })
}

/// A number. The mean of two integers may have a fraction, so integers become doubles, and so do decimals of more than
/// 38 digits, for which there is no exact mean here.
fn numbers(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    let kind = known(kind, DataType::Float64);
    total_kind(&kind)?;
    let is_double = kind.is_integer() || matches!(kind, DataType::Decimal256(..));
    same(if is_double { DataType::Float64 } else { kind })
}

/// A number and its weight. The result has the type of the number.
fn weighted(arguments: &[DataType]) -> Kinds {
    let [value, weight] = arguments else { return None };
    let value = float_of(value)?;
    Some((vec![value.clone(), double_of(weight)?], value))
}

/// The share of a quantile.
fn share_of(values: &GroupValues<'_>) -> Result<f64> {
    let share = values.parameter()?.as_primitive_opt::<Float64Type>();
    Ok(share.ok_or_else(|| Error::internal("the share of a quantile is no double"))?.value(0))
}

/// Two neighbouring values of a group in the order of its values, and the distance from the first to the result, as a
/// share of the way to the second.
#[derive(Clone, Copy)]
struct Neighbours {
    /// The place of the first value.
    low: u64,
    /// The place of the second value: the same one, or the next.
    high: u64,
    part: f64,
}

impl Neighbours {
    /// Both values in the middle of `count` values. With an odd number of values they are the same one.
    fn in_middle(count: u64) -> Neighbours {
        Neighbours { low: (count - 1) / 2, high: count / 2, part: 0.5 }
    }

    /// The values before and after a share of the way through `count` values. The distance is in millionths.
    fn around(share: f64, count: u64) -> Neighbours {
        const PARTS: f64 = 1e6;
        let place = share.clamp(0.0, 1.0) * (count - 1) as f64;
        let part = ((place - place.floor()) * PARTS).floor() / PARTS;
        let low = place.floor() as u64;
        Neighbours { low, high: (low + 1).min(count - 1), part }
    }

    /// Finds the two values among values in any order.
    fn find<T: Copy>(self, values: &mut [T], compare: impl Fn(&T, &T) -> Ordering) -> (T, T, f64) {
        // Selecting is enough; the other values need no order.
        let (_, low, above) = values.select_nth_unstable_by(self.low as usize, &compare);
        let next = above.iter().copied().min_by(&compare).filter(|_| self.high > self.low);
        (*low, next.unwrap_or(*low), self.part)
    }

    /// Finds the two values among values in any order, each with its count.
    fn find_counted<T: Copy>(self, values: &mut [(T, u64)], compare: impl Fn(&T, &T) -> Ordering) -> (T, T, f64) {
        values.sort_unstable_by(|left, right| compare(&left.0, &right.0));
        let value_at = |place| values[counted_at(values.iter().map(|(_, count)| *count), place)].0;
        (value_at(self.low), value_at(self.high), self.part)
    }
}

/// Where the value at `place` is, counted from zero, if each value is repeated as often as it counts.
fn counted_at(mut counts: impl ExactSizeIterator<Item = u64>, place: u64) -> usize {
    let (mut before, last) = (0, counts.len().saturating_sub(1));
    let at = counts.position(|count| {
        before += count;
        before > place
    });
    at.unwrap_or(last)
}

/// A function that finds two neighbouring values of a group among the values of all groups.
struct GroupNeighbours<'a, N> {
    counts: Option<&'a [u64]>,
    /// The places of the two values among this number of values.
    places: N,
}

impl<N: Fn(u64) -> Neighbours> GroupNeighbours<'_, N> {
    /// Finds the values in `slice` of `values`, which must not be empty.
    fn find<T: Copy>(
        &self,
        values: &mut [T],
        slice: Range<usize>,
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> (T, T, f64) {
        let Some(counts) = self.counts else {
            return (self.places)(slice.len() as u64).find(&mut values[slice], compare);
        };
        let counts = &counts[slice.clone()];
        let mut counted: Vec<(T, u64)> = values[slice].iter().copied().zip(counts.iter().copied()).collect();
        (self.places)(counts.iter().sum()).find_counted(&mut counted, compare)
    }
}

/// The median of each group: the value in the middle, or the mean of both if their number is even.
fn median(values: GroupValues<'_>) -> Result<ArrayRef> {
    of_groups(
        (values.column, values.starts, values.kind),
        &GroupNeighbours { counts: values.counts, places: Neighbours::in_middle },
        // If the sum overflows, both have the same sign, so halving each before adding is exact.
        |low, high, _| {
            low.checked_add(high).map_or_else(|| low / 2 + high / 2 + (low % 2 + high % 2) / 2, |sum| sum / 2)
        },
        |low, high, _| mean(low, high),
    )
}

fn mean(low: f64, high: f64) -> f64 {
    if low == high { low } else { (low + high) / 2.0 }
}

/// The median of the distances of each group's values from their median.
fn median_distance(values: GroupValues<'_>) -> Result<ArrayRef> {
    let mean_of_middle = |values: &mut [f64]| {
        let (low, high, _) = Neighbours::in_middle(values.len() as u64).find(values, f64::total_cmp);
        mean(low, high)
    };
    let floats = values.column.as_primitive_opt::<Float64Type>();
    let mut floats =
        floats.ok_or_else(|| Error::internal("the distances of values that are no doubles"))?.values().to_vec();
    let distances = values.starts.windows(2).map(|ends| {
        let values = &mut floats[ends[0]..ends[1]];
        (!values.is_empty()).then(|| {
            let median = mean_of_middle(values);
            values.iter_mut().for_each(|value| *value = (*value - median).abs());
            mean_of_middle(values)
        })
    });
    Ok(Arc::new(Float64Array::from_iter(distances)))
}

/// The value at a share of the way from each group's least value to its greatest, interpolated between two values.
fn quantile(values: GroupValues<'_>) -> Result<ArrayRef> {
    let share = share_of(&values)?;
    of_groups(
        (values.column, values.starts, values.kind),
        &GroupNeighbours { counts: values.counts, places: |count| Neighbours::around(share, count) },
        // Return a value itself as it is, because its double may not be exact.
        |low, high, part| if part == 0.0 { low } else { between(low as f64, high as f64, part) as i128 },
        |low, high, part| if part == 0.0 { low } else { between(low, high, part) },
    )
}

fn between(low: f64, high: f64, part: f64) -> f64 {
    low + (high - low) * part
}

/// One value of type `kind` for each group that has values, made of two neighbours among these as integers or as
/// floats.
fn of_groups(
    (column, starts, kind): (&ArrayRef, &[usize], &DataType),
    neighbours: &GroupNeighbours<'_, impl Fn(u64) -> Neighbours>,
    of_integers: impl Fn(i128, i128, f64) -> i128,
    of_floats: impl Fn(f64, f64, f64) -> f64,
) -> Result<ArrayRef> {
    let failed = |error: ArrowError| Error::internal(error.to_string());
    let nulls = NullBuffer::from_iter(starts.windows(2).map(|ends| ends[0] < ends[1]));
    let slices = starts.windows(2).map(|ends| ends[0]..ends[1]);
    let integer = |(low, high, part)| of_integers(low, high, part) as u128;
    let integers: Vec<u128> = match column.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let floats = cast(column, &DataType::Float64).map_err(failed)?;
            let mut floats = floats.as_primitive::<Float64Type>().values().to_vec();
            let float = |(low, high, part)| of_floats(low, high, part);
            let of = |slice: Range<usize>| match slice.is_empty() {
                true => 0.0,
                false => float(neighbours.find(&mut floats, slice, f64::total_cmp)),
            };
            let values = Float64Array::new(slices.map(of).collect::<Vec<_>>().into(), Some(nulls));
            return cast(&values, kind).map_err(failed);
        }
        // Half the words are selected in less than half of the time.
        of if of.is_integer() && *of != DataType::UInt64 => {
            let words = cast(column, &DataType::Int64).map_err(failed)?;
            let mut words = words.as_primitive::<Int64Type>().values().to_vec();
            let wide = |(low, high, part): (i64, i64, f64)| integer((low.into(), high.into(), part));
            let of = |slice: Range<usize>| match slice.is_empty() {
                true => 0,
                false => wide(neighbours.find(&mut words, slice, i64::cmp)),
            };
            slices.map(of).collect()
        }
        of => {
            let Some(mut integers) = integers(column)? else {
                return Err(Error::internal(format!("a median or quantile of {of} is not supported")));
            };
            let of = |slice: Range<usize>| match slice.is_empty() {
                true => 0,
                false => integer(neighbours.find(&mut integers, slice, i128::cmp)),
            };
            slices.map(of).collect()
        }
    };
    array_of(kind, integers.into_iter(), Some(nulls))
}

/// The first value of each group such that at least a `share` of the group's values are not greater. The values must be
/// in order.
fn discrete_quantile(column: &ArrayRef, counts: Option<&[u64]>, starts: &[usize], share: f64) -> Result<ArrayRef> {
    let of = |ends: &[usize]| {
        let slice = ends[0]..ends[1];
        let count = count_of(counts, slice.clone());
        let place = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1)) - 1;
        let at = match counts {
            None => place as usize,
            Some(counts) => counted_at(counts[slice.clone()].iter().copied(), place),
        };
        (count > 0).then(|| (slice.start + at) as u32)
    };
    let places = UInt32Array::from_iter(starts.windows(2).map(of));
    take(column, &places, None).map_err(|error| Error::internal(error.to_string()))
}

/// The value at a share of the way from each group's least value to its greatest, interpolated between two values. Each
/// value counts with its weight. Values whose weight is not above zero do not count.
fn weighted_quantile(column: &ArrayRef, starts: &[usize], share: f64, kind: &DataType) -> Result<ArrayRef> {
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
        let of = |share| found(discrete_quantile(&column, None, &starts, share));
        assert_eq!(of(0.0), [Some(1), None, Some(9)]);
        assert_eq!(of(0.25), [Some(1), None, Some(9)]);
        assert_eq!(of(0.26), [Some(2), None, Some(9)]);
        assert_eq!(of(0.5), [Some(2), None, Some(9)]);
        assert_eq!(of(1.0), [Some(4), None, Some(9)]);
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

//! Medians and quantiles of the values of groups.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, Result};

use super::numbers::integers;
use crate::group::bits::array_of;

/// The median of each group: the value in the middle, or the mean of both if their number is even.
pub(super) fn median(column: &ArrayRef, starts: &[usize], kind: &DataType) -> Result<ArrayRef> {
    of_groups(
        column,
        starts,
        kind,
        |values: &mut [i128]| {
            let (low, high) = middle(values, i128::cmp);
            // If the sum overflows, both have the same sign, so halving each before adding is exact.
            low.checked_add(high).map_or_else(|| low / 2 + high / 2 + (low % 2 + high % 2) / 2, |sum| sum / 2)
        },
        |values: &mut [f64]| {
            let (low, high) = middle(values, f64::total_cmp);
            if low == high { low } else { (low + high) / 2.0 }
        },
    )
}

/// The value at a share of the way from each group's least value to its greatest, interpolated between two values.
pub(super) fn quantile(column: &ArrayRef, starts: &[usize], share: f64, kind: &DataType) -> Result<ArrayRef> {
    of_groups(
        column,
        starts,
        kind,
        |values: &mut [i128]| {
            let (low, high, part) = around(values, share, i128::cmp);
            // Return a value itself as it is, because its double may not be exact.
            if part == 0.0 { low } else { between(low as f64, high as f64, part) as i128 }
        },
        |values: &mut [f64]| {
            let (low, high, part) = around(values, share, f64::total_cmp);
            if part == 0.0 { low } else { between(low, high, part) }
        },
    )
}

fn between(low: f64, high: f64, part: f64) -> f64 {
    low + (high - low) * part
}

/// Both values in the middle. With an odd number of values they are the same one.
fn middle<T: Copy>(values: &mut [T], compare: impl Fn(&T, &T) -> std::cmp::Ordering) -> (T, T) {
    let place = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    // Selecting is enough; the other values need no order.
    let (below, high, _) = values.select_nth_unstable_by(place, &compare);
    let low = below.iter().copied().max_by(&compare).filter(|_| !is_odd);
    (low.unwrap_or(*high), *high)
}

/// The values before and after a share of the way, and the distance from one to the other, in millionths.
fn around<T: Copy>(values: &mut [T], share: f64, compare: impl Fn(&T, &T) -> std::cmp::Ordering) -> (T, T, f64) {
    const PARTS: f64 = 1e6;
    let place = share.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let part = ((place - place.floor()) * PARTS).floor() / PARTS;
    let (_, low, above) = values.select_nth_unstable_by(place.floor() as usize, &compare);
    let high = above.iter().copied().min_by(&compare);
    (*low, high.unwrap_or(*low), part)
}

/// One value for each group that has values, computed from these as integers or as floats.
fn of_groups(
    column: &ArrayRef,
    starts: &[usize],
    kind: &DataType,
    of_integers: impl Fn(&mut [i128]) -> i128,
    of_floats: impl Fn(&mut [f64]) -> f64,
) -> Result<ArrayRef> {
    let nulls = NullBuffer::from_iter(starts.windows(2).map(|ends| ends[0] < ends[1]));
    let slices = starts.windows(2).map(|ends| ends[0]..ends[1]);
    match column.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let floats = cast(column, &DataType::Float64).map_err(|error| Error::internal(error.to_string()))?;
            let mut floats = floats.as_primitive::<Float64Type>().values().to_vec();
            let values = slices.map(|slice| if slice.is_empty() { 0.0 } else { of_floats(&mut floats[slice]) });
            let values = Float64Array::new(values.collect::<Vec<_>>().into(), Some(nulls));
            cast(&values, kind).map_err(|error| Error::internal(error.to_string()))
        }
        of => {
            let Some(mut integers) = integers(column)? else {
                return Err(Error::internal(format!("a median or quantile of {of} is not supported")));
            };
            let values =
                slices.map(|slice| if slice.is_empty() { 0 } else { of_integers(&mut integers[slice]) as u128 });
            let values: Vec<u128> = values.collect();
            array_of(kind, values.into_iter(), Some(nulls))
        }
    }
}

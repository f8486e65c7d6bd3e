//! Distances between positions.

use arrow::datatypes::DataType;

use super::positions::Positions;

/// How distances are computed from numbers that sort like the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distances {
    /// The numbers have the distances of the values.
    Exact,
    /// The numbers are the bits of floats of 32 bits.
    Float32,
    /// The numbers are the bits of floats of 64 bits.
    Float64,
}

impl Distances {
    /// The distances of values of `kind`. `None` if such values have none.
    pub(super) fn of(kind: &DataType) -> Option<Distances> {
        use DataType::{Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32, Float64};
        use DataType::{Time32, Time64, Timestamp};
        Some(match kind {
            Float32 => Distances::Float32,
            Float64 => Distances::Float64,
            Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Distances::Exact,
            // A negative scale belongs to a numbered type, whose values are no quantities.
            Decimal32(_, 0..) | Decimal64(_, 0..) | Decimal128(_, 0..) => Distances::Exact,
            kind if kind.is_integer() => Distances::Exact,
            _ => return None,
        })
    }
}

/// Calls `each` with every row and whether the position at its place is closer to its value than the position before
/// that place. `rows` are rows and their places. The position before a place must not be after the value, and the
/// position at the place must not be before it.
pub(super) fn each_closer(
    distances: Distances,
    positions: &Positions,
    values: &Positions,
    rows: impl Iterator<Item = (usize, usize)>,
    mut each: impl FnMut(usize, bool),
) {
    match (distances, positions, values) {
        (Distances::Exact, Positions::Narrow(positions), Positions::Narrow(values)) => rows.for_each(|(row, place)| {
            let value = values[row];
            each(row, positions[place] - value < value - positions[place - 1]);
        }),
        (Distances::Exact, Positions::Wide(positions), Positions::Wide(values)) => rows.for_each(|(row, place)| {
            let value = values[row];
            each(row, positions[place] - value < value - positions[place - 1]);
        }),
        (_, Positions::Narrow(positions), Positions::Narrow(values)) => {
            let float = if distances == Distances::Float32 { float_32 } else { float_64 };
            rows.for_each(|(row, place)| {
                let distance = |place: usize| distance(float(positions[place]), float(values[row]));
                each(row, distance(place) < distance(place - 1));
            });
        }
        _ => unreachable!("values with distances are numbers"),
    }
}

/// The distance of two floats. NaN is at no distance from itself, and infinitely far from numbers.
fn distance(left: f64, right: f64) -> f64 {
    match left == right || left.is_nan() && right.is_nan() {
        true => 0.0,
        false if left.is_nan() || right.is_nan() => f64::INFINITY,
        false => (left - right).abs(),
    }
}

/// The float whose number is this.
fn float_64(number: u64) -> f64 {
    f64::from_bits(if number >> 63 == 1 { number ^ 1 << 63 } else { !number })
}

fn float_32(number: u64) -> f64 {
    let number = number as u32;
    f32::from_bits(if number >> 31 == 1 { number ^ 1 << 31 } else { !number }).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float32Array, Float64Array};

    use super::*;

    #[test]
    fn floats_come_back_from_their_numbers() {
        let floats = [f64::NEG_INFINITY, -2.5, -1e-30, 0.0, 1.5, f64::INFINITY];
        let wide: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        let narrow: ArrayRef = Arc::new(Float32Array::from_iter_values(floats.map(|float| float as f32)));
        for (values, float) in [(wide, float_64 as fn(u64) -> f64), (narrow, float_32)] {
            let Positions::Narrow(numbers) = Positions::of(&values).expect("numbers") else { panic!("64 bits") };
            let back = numbers.into_iter().map(float);
            assert!(floats.iter().zip(back).all(|(float, back)| *float as f32 == back as f32));
        }
    }

    #[test]
    fn distances_of_nan_and_infinity_are_defined() {
        assert_eq!(distance(f64::INFINITY, f64::INFINITY), 0.0);
        assert_eq!(distance(f64::NAN, f64::NAN), 0.0);
        assert_eq!(distance(f64::NAN, 1.0), f64::INFINITY);
        assert_eq!(distance(-1.5, 1.0), 2.5);
    }
}

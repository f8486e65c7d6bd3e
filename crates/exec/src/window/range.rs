//! RANGE frames with offsets: bounds at a distance from the ORDER BY value.
//!
//! We turn values into 128-bit numbers that sort like the values, reversed if the order is descending. A bound is then
//! found by comparing numbers. NULL has no distance from anything, so the frame of a NULL contains exactly the NULLs
//! of its partition.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{FrameOffset, SortKey};

use super::evaluate::Evaluation;
use super::failed;
use super::frame::FrameSide;
use super::offset::{Offsets, negative_offset, null_offset, offset_values};
use super::sorted::SortedRows;

const DAY_MICROS: i128 = 86_400_000_000;

/// The ORDER BY values of all rows.
pub(super) struct RangeKeys<'a> {
    rows: &'a SortedRows,
    values: ArrayRef,
    descending: bool,
}

impl<'a> RangeKeys<'a> {
    pub(super) fn new(key: &SortKey, evaluation: &Evaluation<'a>) -> Result<RangeKeys<'a>> {
        Ok(RangeKeys { rows: evaluation.rows, values: evaluation.column(key.column)?, descending: key.descending })
    }
}

/// A distance, in the unit of the values.
enum Distance {
    /// For integers, decimals, dates in days, and times in microseconds.
    Number(i128),
    Float(f64),
    Interval {
        months: i128,
        days: i128,
        micros: i128,
    },
}

/// Moves values by distances.
struct Mover {
    adds: bool,
    /// Whether an infinite distance from infinity reaches the greatest value, or else the least.
    reaches_up: bool,
    kind: DataType,
}

/// Finds the bound of each row at a distance from its value. `follows` says whether the bound is FOLLOWING, or else
/// PRECEDING.
pub(super) fn bounds_by_distance(
    keys: Option<&RangeKeys<'_>>,
    offset: &FrameOffset,
    follows: bool,
    side: FrameSide,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<u32>> {
    let Some(keys) = keys else { return Err(Error::internal("RANGE with an offset has keys")) };
    let (values, is_constant) = offset_values(offset, evaluation)?;
    // SQL does not allow a NULL offset.
    if values.null_count() > 0 || *values.data_type() == DataType::Null {
        return Err(null_offset());
    }
    let kind = keys.values.data_type();
    let is_by_interval = matches!(values.data_type(), DataType::Interval(_));
    let distances = distances(kind, &values)?;
    let distances = match (is_constant, distances.into_iter()) {
        (true, mut distances) => Offsets::Constant(distances.next().ok_or_else(null_offset)?),
        (false, distances) => Offsets::PerRow(distances.collect()),
    };
    let numbers = numbers_of_keys(&keys.values, is_by_interval)?;
    let turned = |number: i128| if keys.descending { !number } else { number };
    let ordered: Vec<i128> = numbers.iter().map(|number| turned(*number)).collect();
    // In descending order the next rows have smaller values.
    let reaches_up = (side == FrameSide::End) != keys.descending;
    // Following rows have larger values only if the order ascends.
    let mover = Mover { adds: follows != keys.descending, reaches_up, kind: kind.clone() };
    let target = |position: usize| {
        let distance = match &distances {
            Offsets::Constant(distance) => distance,
            Offsets::PerRow(distances) => &distances[position],
        };
        mover.moved(numbers[position], distance).map(turned)
    };
    let mut bounds = Vec::with_capacity(ordered.len());
    for partition in keys.rows.each_partition() {
        let values = with_values(&keys.values, &partition);
        let mut last = values.start;
        for position in partition {
            // A NULL gets a non-empty range as a mark. Its real bound follows below.
            if !values.contains(&position) {
                let nulls = if position < values.start { 0..values.start } else { values.end..usize::MAX };
                bounds.push((nulls, position));
                continue;
            }
            let target = target(position)?;
            let is_before = |number: &i128| match side {
                FrameSide::Start => *number < target,
                FrameSide::End => *number <= target,
            };
            last = bound_near(&ordered, &values, last, is_before);
            bounds.push((last..last, position));
        }
    }
    // NULLs are peers, so their bounds are the bounds of their group of peers. Positions ascend, so one walk over the
    // groups is enough.
    let mut groups = keys.rows.peers.windows(2).peekable();
    let bounds = bounds.into_iter().map(|(bound, position)| {
        if !bound.is_empty() {
            while groups.peek().is_some_and(|ends| ends[1] <= position) {
                groups.next();
            }
            let ends = groups.peek().map_or([position, position + 1], |ends| [ends[0], ends[1]]);
            return if side == FrameSide::Start { ends[0] as u32 } else { ends[1] as u32 };
        }
        bound.start as u32
    });
    Ok(bounds.collect())
}

/// The rows of a partition that have a value. NULLs are together at one end of the partition.
fn with_values(values: &ArrayRef, partition: &Range<usize>) -> Range<usize> {
    let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else { return partition.clone() };
    let mut range = partition.clone();
    while range.start < range.end && nulls.is_null(range.start) {
        range.start += 1;
    }
    while range.start < range.end && nulls.is_null(range.end - 1) {
        range.end -= 1;
    }
    range
}

/// The first position of `range` that is not before a bound. The search starts at the bound of the previous row,
/// because the next bound is usually near.
fn bound_near(ordered: &[i128], range: &Range<usize>, last: usize, is_before: impl Fn(&i128) -> bool) -> usize {
    // A search by halves takes 10 to 14 ns. Bounds that are up to 4 apart take 1 to 2 ns with up to 8 steps of one, and
    // farther ones a seventh more than by halves. With 4 steps, bounds that are 4 apart are found by halves; 16 steps
    // cost farther ones a third more.
    const NEAR: usize = 8;
    let last = last.clamp(range.start, range.end);
    // Look at the next few positions one by one. Only then search the rest by bisection.
    if last == range.start || is_before(&ordered[last - 1]) {
        let rest = range.end.min(last + NEAR);
        if let Some(near) = ordered[last..rest].iter().position(|number| !is_before(number)) {
            return last + near;
        }
        return rest + ordered[rest..range.end].partition_point(is_before);
    }
    range.start + ordered[range.start..last].partition_point(is_before)
}

/// Turns values into numbers in the same order. Dates become microseconds if they are moved by intervals.
fn numbers_of_keys(values: &ArrayRef, by_interval: bool) -> Result<Vec<i128>> {
    let kind = values.data_type();
    Ok(match kind {
        DataType::Date32 => {
            let unit = if by_interval { DAY_MICROS } else { 1 };
            values.as_primitive::<Date32Type>().values().iter().map(|day| i128::from(*day) * unit).collect()
        }
        DataType::Float32 | DataType::Float64 => {
            let floats = cast(values, &DataType::Float64).map_err(failed)?;
            floats.as_primitive::<Float64Type>().values().iter().map(|value| number_of_float(*value)).collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Time64(TimeUnit::Microsecond) => {
            let micros = cast(values, &DataType::Int64).map_err(failed)?;
            micros.as_primitive::<Int64Type>().values().iter().map(|micros| (*micros).into()).collect()
        }
        kind => integers(values).ok_or_else(|| no_distance(kind, None))?,
    })
}

/// Integers as they are, and decimals without their point. `None` for other types.
fn integers(values: &ArrayRef) -> Option<Vec<i128>> {
    let values = match values.data_type() {
        DataType::Decimal128(..) => ArrayRef::clone(values),
        kind if kind.is_integer() => cast(values, &DataType::Decimal128(38, 0)).ok()?,
        _ => return None,
    };
    Some(values.as_primitive::<Decimal128Type>().values().to_vec())
}

fn no_distance(kind: &DataType, offset: Option<&DataType>) -> Error {
    let offset = offset.map_or(String::new(), |offset| format!(" by {offset}"));
    Error::new(ErrorKind::Unsupported, format!("RANGE with an offset is not supported over values of {kind}{offset}"))
        .hint("order by a number, a date or a time")
}

/// Maps a float to an integer that sorts like the float. NaN sorts above all others.
fn number_of_float(value: f64) -> i128 {
    let bits = if value.is_nan() { f64::NAN } else { value + 0.0 }.to_bits() as i64;
    // The bits of negative floats sort in reverse, so we flip all of them except the sign.
    (bits ^ ((bits >> 63) as u64 >> 1) as i64).into()
}

fn float_of_number(number: i128) -> f64 {
    let bits = number as i64;
    f64::from_bits((bits ^ ((bits >> 63) as u64 >> 1) as i64) as u64)
}

/// Turns offsets into distances between values of `kind`. A negative offset is an error.
fn distances(kind: &DataType, offsets: &ArrayRef) -> Result<Vec<Distance>> {
    let of = offsets.data_type();
    let shown = |row: usize| arrow::util::display::array_value_to_string(offsets, row).unwrap_or_default();
    if let DataType::Interval(unit) = of {
        if !matches!(kind, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_)) {
            return Err(no_distance(kind, Some(of)));
        }
        if *unit != IntervalUnit::MonthDayNano {
            return Err(Error::internal(format!("RANGE got an interval of type {of}")));
        }
        let intervals = offsets.as_primitive::<IntervalMonthDayNanoType>().values();
        let distance = |(row, interval): (usize, &arrow::datatypes::IntervalMonthDayNano)| {
            if interval.months < 0 || interval.days < 0 || interval.nanoseconds < 0 {
                return Err(negative_offset(&shown(row)));
            }
            Ok(Distance::Interval {
                months: interval.months.into(),
                days: interval.days.into(),
                micros: (interval.nanoseconds / 1_000).into(),
            })
        };
        return intervals.iter().enumerate().map(distance).collect();
    }
    let is_number = of.is_numeric();
    match kind {
        DataType::Float32 | DataType::Float64 if is_number => {
            let floats = cast(offsets, &DataType::Float64).map_err(failed)?;
            let distance = |(row, value): (usize, &f64)| match *value >= 0.0 {
                true => Ok(Distance::Float(*value)),
                false => Err(negative_offset(&shown(row))),
            };
            floats.as_primitive::<Float64Type>().values().iter().enumerate().map(distance).collect()
        }
        _ => {
            let scale = match kind {
                DataType::Decimal128(_, scale) => *scale,
                DataType::Date32 => 0,
                kind if kind.is_integer() => 0,
                _ => return Err(no_distance(kind, Some(of))),
            };
            let offsets = match is_number {
                true => cast(offsets, &DataType::Decimal128(38, scale)).map_err(failed)?,
                false => return Err(no_distance(kind, Some(of))),
            };
            let distance = |(row, value): (usize, &i128)| match *value >= 0 {
                true => Ok(Distance::Number(*value)),
                false => Err(negative_offset(&shown(row))),
            };
            offsets.as_primitive::<Decimal128Type>().values().iter().enumerate().map(distance).collect()
        }
    }
}

impl Mover {
    /// Moves the number of a value by a distance.
    fn moved(&self, number: i128, distance: &Distance) -> Result<i128> {
        let sign = if self.adds { 1 } else { -1 };
        Ok(match distance {
            Distance::Number(distance) => number.saturating_add(sign * distance),
            Distance::Float(distance) => {
                let value = float_of_number(number);
                let moved = value + sign as f64 * distance;
                if moved.is_nan() && !value.is_nan() {
                    // The distance from infinity is infinite, so every value is within it, as in PostgreSQL.
                    return Ok(number_of_float(if self.reaches_up { f64::INFINITY } else { f64::NEG_INFINITY }));
                }
                number_of_float(moved)
            }
            // A time of day has no days, so only the microseconds count.
            Distance::Interval { micros, .. } if matches!(self.kind, DataType::Time64(_)) => number + sign * micros,
            Distance::Interval { months, days, micros } => {
                add_months(number, sign * months) + sign * (days * DAY_MICROS + micros)
            }
        })
    }
}

/// Adds months to a point in time. The day of the month stays, or becomes the last day if the new month is shorter.
fn add_months(micros: i128, months: i128) -> i128 {
    if months == 0 {
        return micros;
    }
    let (day, time) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
    let (year, month, day) = civil_of_days(day);
    let month = year * 12 + (month - 1) + months;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let next = if month == 12 { days_of_civil(year + 1, 1, 1) } else { days_of_civil(year, month + 1, 1) };
    let first = days_of_civil(year, month, 1);
    (first + (day - 1).min(next - first - 1)) * DAY_MICROS + time
}

/// Counts the days from 1970 to a date of the Gregorian calendar (Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn days_of_civil(year: i128, month: i128, day: i128) -> i128 {
    // A year starts in March here, so that a leap day is the last day of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Converts days since 1970 to year, month and day.
fn civil_of_days(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i128::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_keep_the_day_or_end_with_the_month() {
        let at = |year, month, day| days_of_civil(year, month, day) * DAY_MICROS + 5;
        assert_eq!(days_of_civil(1970, 1, 1), 0);
        assert_eq!(days_of_civil(2000, 3, 1), 11_017);
        for days in [-1_000_000, -719_469, -1, 0, 59, 60, 11_016, 11_017, 2_932_896] {
            let (year, month, day) = civil_of_days(days);
            assert_eq!(days_of_civil(year, month, day), days);
        }
        assert_eq!(add_months(at(2024, 1, 31), 1), at(2024, 2, 29));
        assert_eq!(add_months(at(2024, 3, 31), -13), at(2023, 2, 28));
        assert_eq!(add_months(at(2023, 12, 5), 1), at(2024, 1, 5));
        assert_eq!(add_months(at(2023, 1, 5), -1), at(2022, 12, 5));
    }

    #[test]
    fn floats_come_back_and_are_in_order() {
        let floats = [f64::NEG_INFINITY, -2.5, -0.0, 1e-300, 7.0, f64::INFINITY];
        let numbers: Vec<i128> = floats.iter().map(|value| number_of_float(*value)).collect();
        assert!(numbers.is_sorted_by(|left, right| left < right));
        floats.iter().zip(numbers).for_each(|(value, number)| assert_eq!(float_of_number(number), *value));
        assert!(number_of_float(f64::NAN) > number_of_float(f64::INFINITY));
    }
}

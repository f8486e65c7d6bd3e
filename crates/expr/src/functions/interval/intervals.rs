//! Arithmetic of intervals with each other and with numbers.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::signatures::{BIGINT, exactly, ordinary};
use crate::functions::time::calendar::NANOS_PER_DAY;
use crate::functions::time::columns::{
    INTERVAL_KIND, each_row, is_interval, out_of_range, primitive, slots, strict_nulls,
};
use crate::kinds::is_number;

/// The number of days that replace one month when a part of a month is left.
const DAYS_PER_MONTH: i64 = 30;

/// The function of `interval + interval`.
pub(super) const INTERVAL_PLUS_INTERVAL: FunctionSpec = FunctionSpec {
    name: "interval_plus_interval",
    can_fail: true,
    only_overflows: true,
    signature: two_intervals,
    kernel: |arguments, _, rows| combine(arguments, rows, add),
    doc: "The sum of two intervals: months, days and time are added separately.",
    example: ("interval_plus_interval(INTERVAL '1 day', INTERVAL '2 hours')", "1 day 02:00:00"),
    ..ordinary("interval")
};

/// The function of `interval - interval`.
pub(super) const INTERVAL_MINUS_INTERVAL: FunctionSpec = FunctionSpec {
    name: "interval_minus_interval",
    can_fail: true,
    only_overflows: true,
    signature: two_intervals,
    kernel: |arguments, _, rows| combine(arguments, rows, subtract),
    doc: "The difference of two intervals: months, days and time are subtracted separately.",
    example: ("interval_minus_interval(INTERVAL '3 days', INTERVAL '1 day')", "2 days"),
    ..ordinary("interval")
};

/// The function of `interval * number`.
pub(super) const INTERVAL_TIMES_NUMBER: FunctionSpec = FunctionSpec {
    name: "interval_times_number",
    can_fail: true,
    only_overflows: true,
    signature: |arguments| interval_and_number(arguments, true),
    kernel: multiply_all,
    doc: "An interval times a number. A part of a month becomes days, 30 to a month; a part of a day becomes time.",
    example: ("interval_times_number(INTERVAL '1 day', 2)", "2 days"),
    ..ordinary("interval")
};

/// The function of `interval / number`.
pub(super) const INTERVAL_DIVIDED_BY_NUMBER: FunctionSpec = FunctionSpec {
    name: "interval_divided_by_number",
    can_fail: true,
    signature: |arguments| interval_and_number(arguments, false),
    kernel: divide_all,
    doc: "An interval divided by a number. A part of a month becomes days, 30 to a month; a part of a day becomes \
        time.",
    example: ("interval_divided_by_number(INTERVAL '1 day', 2)", "12:00:00"),
    ..ordinary("interval")
};

/// The function of `-interval`.
pub(super) const NEGATE_INTERVAL: FunctionSpec = FunctionSpec {
    name: "negate_interval",
    can_fail: true,
    only_overflows: true,
    signature: |arguments| match arguments {
        [a] if is_interval(a) => Some(CallKinds { arguments: vec![INTERVAL_KIND], result: INTERVAL_KIND }),
        _ => None,
    },
    kernel: negate_all,
    doc: "The interval with the opposite sign.",
    example: ("negate_interval(INTERVAL '1 day')", "-1 days"),
    ..ordinary("interval")
};

/// The number of months, days or nanoseconds of an interval, from which [`INTERVAL_OF_PARTS`] makes a sum of intervals.
pub(super) const INTERVAL_PART: FunctionSpec = FunctionSpec {
    name: "interval_part",
    signature: |arguments| match arguments {
        [a, part] if is_interval(a) && part.kind.is_integer() => {
            Some(CallKinds { arguments: vec![INTERVAL_KIND, BIGINT], result: BIGINT })
        }
        _ => None,
    },
    kernel: |arguments, kind, rows| {
        let nulls = strict_nulls(arguments, rows);
        let (intervals, parts) = (slots::<IntervalMonthDayNanoType>(&arguments[0]), slots::<Int64Type>(&arguments[1]));
        let values = each_row(rows, nulls.as_ref(), |row| {
            let interval = intervals.at(row);
            Ok(match parts.at(row) {
                0 => i64::from(interval.months),
                1 => i64::from(interval.days),
                _ => interval.nanoseconds,
            })
        })?;
        primitive(kind, values, nulls)
    },
    doc: "A part of an interval: 0 for its months, 1 for its days, 2 for its nanoseconds.",
    example: ("interval_part(INTERVAL '2 months 3 days', 1)", "3"),
    ..ordinary("interval")
};

/// The interval of sums of parts.
pub(super) const INTERVAL_OF_PARTS: FunctionSpec = FunctionSpec {
    name: "interval_of_parts",
    can_fail: true,
    signature: |arguments| exactly(arguments, &[BIGINT, BIGINT, BIGINT], INTERVAL_KIND),
    kernel: |arguments, kind, rows| {
        let nulls = strict_nulls(arguments, rows);
        let [months, days, nanos] = [0, 1, 2].map(|part| slots::<Int64Type>(&arguments[part]));
        let values = each_row(rows, nulls.as_ref(), |row| {
            let (months, days) = (i32::try_from(months.at(row)), i32::try_from(days.at(row)));
            match (months, days) {
                (Ok(months), Ok(days)) => Ok(IntervalMonthDayNano::new(months, days, nanos.at(row))),
                _ => Err(outside()),
            }
        })?;
        primitive(kind, values, nulls)
    },
    doc: "The interval of a number of months, of days and of nanoseconds.",
    example: ("interval_of_parts(2, 3, 0)", "2 mons 3 days"),
    ..ordinary("interval")
};

fn two_intervals(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [left, right] = arguments else { return None };
    let fits = is_interval(left) && is_interval(right);
    fits.then(|| CallKinds { arguments: vec![INTERVAL_KIND, INTERVAL_KIND], result: INTERVAL_KIND })
}

/// Accepts an interval and a number. Integers multiply exactly; any other number is converted to DOUBLE.
fn interval_and_number(arguments: &[ArgumentKind<'_>], keeps_integers: bool) -> Option<CallKinds> {
    let [interval, number] = arguments else { return None };
    let number = match number.kind {
        kind if kind.is_integer() && keeps_integers => DataType::Int64,
        kind if is_number(kind) || *kind == DataType::Null => DataType::Float64,
        _ => return None,
    };
    is_interval(interval).then(|| CallKinds { arguments: vec![INTERVAL_KIND, number], result: INTERVAL_KIND })
}

fn add(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(
        a.months.checked_add(b.months)?,
        a.days.checked_add(b.days)?,
        a.nanoseconds.checked_add(b.nanoseconds)?,
    ))
}

fn subtract(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(
        a.months.checked_sub(b.months)?,
        a.days.checked_sub(b.days)?,
        a.nanoseconds.checked_sub(b.nanoseconds)?,
    ))
}

fn times(interval: IntervalMonthDayNano, factor: i64) -> Option<IntervalMonthDayNano> {
    let months = i64::from(interval.months).checked_mul(factor)?;
    let days = i64::from(interval.days).checked_mul(factor)?;
    let nanos = interval.nanoseconds.checked_mul(factor)?;
    Some(IntervalMonthDayNano::new(i32::try_from(months).ok()?, i32::try_from(days).ok()?, nanos))
}

/// Divides the interval by a whole number and rounds to the nearest nanosecond.
fn divided(interval: IntervalMonthDayNano, divisor: i64) -> Option<IntervalMonthDayNano> {
    let divisor = i128::from(divisor);
    let months = i128::from(interval.months);
    // The remainder of the months becomes days, and the remainder of the days becomes time.
    let days = i128::from(interval.days) + months % divisor * i128::from(DAYS_PER_MONTH);
    let nanos = i128::from(interval.nanoseconds) + days % divisor * i128::from(NANOS_PER_DAY);
    let rest = nanos % divisor;
    // Division rounds toward zero, so we add one unit if the remainder is at least half of the divisor.
    let carried = if rest.abs() * 2 >= divisor.abs() { rest.signum() * divisor.signum() } else { 0 };
    Some(IntervalMonthDayNano::new(
        i32::try_from(months / divisor).ok()?,
        i32::try_from(days / divisor).ok()?,
        i64::try_from(nanos / divisor + carried).ok()?,
    ))
}

/// Scales every part of the interval with `scale`, a multiplication or division. Fractions of months become days, and
/// fractions of days become time.
fn scaled(interval: IntervalMonthDayNano, scale: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    let months = scale(f64::from(interval.months));
    let days = scale(f64::from(interval.days)) + months.fract() * DAYS_PER_MONTH as f64;
    let nanos = (scale(interval.nanoseconds as f64) + days.fract() * NANOS_PER_DAY as f64).round();
    let fits = |value: f64, bound: f64| value.is_finite() && value.abs() < bound;
    if !fits(months, 2_147_483_648.0) || !fits(days, 2_147_483_648.0) || !fits(nanos, 9.2e18) {
        return None;
    }
    Some(IntervalMonthDayNano::new(months.trunc() as i32, days.trunc() as i32, nanos as i64))
}

/// Returns the number as an integer if it is one and a double holds it exactly.
fn whole(number: f64) -> Option<i64> {
    // Above 2^53 a double no longer holds every integer.
    const EXACT_BOUND: f64 = 9_007_199_254_740_992.0;
    (number.trunc() == number && number.abs() <= EXACT_BOUND).then_some(number as i64)
}

fn outside() -> Error {
    out_of_range("the interval")
}

fn combine(
    arguments: &[Operand],
    rows: usize,
    of: impl Fn(IntervalMonthDayNano, IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let left = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let right = slots::<IntervalMonthDayNanoType>(&arguments[1]);
    let values = each_row(rows, nulls.as_ref(), |row| of(left.at(row), right.at(row)).ok_or_else(outside))?;
    primitive(&INTERVAL_KIND, values, nulls)
}

fn multiply_all(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let intervals = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let values = if *arguments[1].values.data_type() == DataType::Int64 {
        let factors = slots::<Int64Type>(&arguments[1]);
        each_row(rows, nulls.as_ref(), |row| times(intervals.at(row), factors.at(row)).ok_or_else(outside))?
    } else {
        let factors = slots::<Float64Type>(&arguments[1]);
        each_row(rows, nulls.as_ref(), |row| {
            let (interval, factor) = (intervals.at(row), factors.at(row));
            match whole(factor) {
                Some(factor) => times(interval, factor),
                None => scaled(interval, |part| part * factor),
            }
            .ok_or_else(outside)
        })?
    };
    primitive(&INTERVAL_KIND, values, nulls)
}

fn divide_all(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let intervals = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let divisors = slots::<Float64Type>(&arguments[1]);
    let values = each_row(rows, nulls.as_ref(), |row| {
        let (interval, divisor) = (intervals.at(row), divisors.at(row));
        if divisor == 0.0 {
            return Err(Error::new(ErrorKind::DivisionByZero, "division by zero"));
        }
        match whole(divisor) {
            Some(divisor) => divided(interval, divisor),
            None => scaled(interval, |part| part / divisor),
        }
        .ok_or_else(outside)
    })?;
    primitive(&INTERVAL_KIND, values, nulls)
}

fn negate_all(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let intervals = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let zero = IntervalMonthDayNano::ZERO;
    let values = each_row(rows, nulls.as_ref(), |row| subtract(zero, intervals.at(row)).ok_or_else(outside))?;
    primitive(&INTERVAL_KIND, values, nulls)
}

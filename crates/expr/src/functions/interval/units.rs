//! Intervals from numbers of units, intervals in another form, and intervals from their parts.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::signatures::{BIGINT, DOUBLE, exactly, optional, ordinary};
use crate::functions::time::calendar::NANOS_PER_DAY;
use crate::functions::time::columns::{
    INTERVAL_KIND, each_row, is_interval, out_of_range, primitive, slots, strict_nulls,
};

/// The days that replace a month.
const DAYS_PER_MONTH: i64 = 30;

/// Makes the spec of an interval of whole units. `$part` is the part of an interval that the units count in.
macro_rules! of_units {
    ($name:literal, $part:ident, $per_unit:expr, $doc:literal, $call:literal gives $result:literal) => {
        FunctionSpec {
            name: $name,
            can_fail: true,
            signature: |arguments| exactly(arguments, &[BIGINT], INTERVAL_KIND),
            kernel: |arguments, _, rows| of_units(arguments, rows, |number| $part(number.checked_mul($per_unit)?)),
            doc: $doc,
            example: ($call, $result),
            ..ordinary("interval")
        }
    };
}

/// Makes the spec of an interval of units that may have a fraction.
macro_rules! of_fractions {
    ($name:literal, $per_unit:literal, $doc:literal, $call:literal gives $result:literal) => {
        FunctionSpec {
            name: $name,
            can_fail: true,
            signature: |arguments| exactly(arguments, &[DOUBLE], INTERVAL_KIND),
            kernel: |arguments, _, rows| {
                let nulls = strict_nulls(arguments, rows);
                let numbers = slots::<Float64Type>(&arguments[0]);
                let made = each_row(rows, nulls.as_ref(), |row| fraction(numbers.at(row), $per_unit))?;
                primitive(&INTERVAL_KIND, made, nulls)
            },
            doc: $doc,
            example: ($call, $result),
            ..ordinary("interval")
        }
    };
}

/// The functions of this file.
pub(in crate::functions) static UNITS: &[FunctionSpec] = &[
    of_units!("to_millennia", months, 12_000, "An interval of this many thousands of years.",
        "to_millennia(1)" gives "1000 years"),
    of_units!("to_centuries", months, 1_200, "An interval of this many hundreds of years.",
        "to_centuries(2)" gives "200 years"),
    of_units!("to_decades", months, 120, "An interval of this many tens of years.", "to_decades(2)" gives "20 years"),
    of_units!("to_years", months, 12, "An interval of this many years.", "to_years(2)" gives "2 years"),
    of_units!("to_quarters", months, 3, "An interval of this many quarters.", "to_quarters(3)" gives "9 mons"),
    of_units!("to_months", months, 1, "An interval of this many months.", "to_months(2)" gives "2 mons"),
    of_units!("to_weeks", days, 7, "An interval of this many weeks.", "to_weeks(2)" gives "14 days"),
    of_units!("to_days", days, 1, "An interval of this many days.", "to_days(2)" gives "2 days"),
    of_units!("to_hours", nanos, 3_600_000_000_000, "An interval of this many hours.", "to_hours(2)" gives "02:00:00"),
    of_units!("to_minutes", nanos, 60_000_000_000, "An interval of this many minutes.",
        "to_minutes(90)" gives "01:30:00"),
    of_fractions!("to_seconds", 1e9, "An interval of this many seconds, which may have a fraction.",
        "to_seconds(1.5)" gives "00:00:01.5"),
    of_fractions!("to_milliseconds", 1e6, "An interval of this many milliseconds.",
        "to_milliseconds(1500)" gives "00:00:01.5"),
    of_units!("to_microseconds", nanos, 1_000, "An interval of this many microseconds.",
        "to_microseconds(1500000)" gives "00:00:01.5"),
    FunctionSpec {
        name: "make_interval",
        can_fail: true,
        signature: |arguments| {
            let parts = [BIGINT, BIGINT, BIGINT, BIGINT, BIGINT, BIGINT, DOUBLE];
            optional(arguments, 0, &parts, INTERVAL_KIND)
        },
        kernel: make,
        doc: "The interval of years, months, weeks, days, hours, minutes and seconds. The parts may be named: days => \
              10.",
        example: ("make_interval(1, 2, 0, 3, 4, 5, 6.5)", "1 year 2 mons 3 days 04:05:06.5"),
        ..ordinary("interval")
    },
    FunctionSpec {
        name: "justify_hours",
        can_fail: true,
        signature: one_interval,
        kernel: |arguments, _, rows| justified(arguments, rows, justify_hours),
        doc: "The interval with each 24 hours as a day.",
        example: ("justify_hours(INTERVAL '27 hours')", "1 day 03:00:00"),
        ..ordinary("interval")
    },
    FunctionSpec {
        name: "justify_days",
        can_fail: true,
        signature: one_interval,
        kernel: |arguments, _, rows| justified(arguments, rows, justify_days),
        doc: "The interval with each 30 days as a month.",
        example: ("justify_days(INTERVAL '35 days')", "1 mon 5 days"),
        ..ordinary("interval")
    },
    FunctionSpec {
        name: "justify_interval",
        aliases: &["normalized_interval"],
        can_fail: true,
        signature: one_interval,
        kernel: |arguments, _, rows| justified(arguments, rows, justify_interval),
        doc: "The interval with each 24 hours as a day and each 30 days as a month, and one sign for all parts.",
        example: ("justify_interval(INTERVAL '1 month -1 hour')", "29 days 23:00:00"),
        ..ordinary("interval")
    },
];

fn one_interval(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [interval] = arguments else { return None };
    is_interval(interval).then(|| CallKinds { arguments: vec![INTERVAL_KIND], result: INTERVAL_KIND })
}

fn months(count: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(i32::try_from(count).ok()?, 0, 0))
}

fn days(count: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(0, i32::try_from(count).ok()?, 0))
}

fn nanos(count: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(0, 0, count))
}

/// Returns an interval of a number of units of `nanos_per_unit`, rounded to whole microseconds.
fn fraction(number: f64, nanos_per_unit: f64) -> Result<IntervalMonthDayNano> {
    let micros = (number * (nanos_per_unit / 1e3)).round();
    let fits = micros.is_finite() && micros.abs() < 9.2e15;
    match fits {
        true => Ok(IntervalMonthDayNano::new(0, 0, micros as i64 * 1_000)),
        false => Err(out_of_range("the interval")),
    }
}

fn of_units(arguments: &[Operand], rows: usize, of: impl Fn(i64) -> Option<IntervalMonthDayNano>) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let numbers = slots::<Int64Type>(&arguments[0]);
    let made = each_row(rows, nulls.as_ref(), |row| of(numbers.at(row)).ok_or_else(|| out_of_range("the interval")))?;
    primitive(&INTERVAL_KIND, made, nulls)
}

fn make(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let whole: Vec<_> = arguments.iter().take(6).map(slots::<Int64Type>).collect();
    let seconds = arguments.get(6).map(slots::<Float64Type>);
    let outside = || out_of_range("the interval");
    let made = each_row(rows, nulls.as_ref(), |row| {
        let part = |place: usize| whole.get(place).map_or(0, |values| i128::from(values.at(row)));
        let months = part(0) * 12 + part(1);
        let days = part(2) * 7 + part(3);
        let second = seconds.map_or(0.0, |seconds| seconds.at(row));
        let second = fraction(second, 1e9)?.nanoseconds;
        let nanos = (part(4) * 3_600 + part(5) * 60) * 1_000_000_000 + i128::from(second);
        Ok(IntervalMonthDayNano::new(
            i32::try_from(months).map_err(|_| outside())?,
            i32::try_from(days).map_err(|_| outside())?,
            i64::try_from(nanos).map_err(|_| outside())?,
        ))
    })?;
    primitive(&INTERVAL_KIND, made, nulls)
}

fn justified(arguments: &[Operand], rows: usize, of: impl Fn(IntervalParts) -> IntervalParts) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let intervals = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let made = each_row(rows, nulls.as_ref(), |row| {
        of(IntervalParts::of(intervals.at(row))).interval().ok_or_else(|| out_of_range("the interval"))
    })?;
    primitive(&INTERVAL_KIND, made, nulls)
}

/// The parts of an interval, wide enough to carry between them.
#[derive(Clone, Copy)]
struct IntervalParts {
    months: i64,
    days: i64,
    nanos: i64,
}

impl IntervalParts {
    fn of(interval: IntervalMonthDayNano) -> IntervalParts {
        let (months, days) = (i64::from(interval.months), i64::from(interval.days));
        IntervalParts { months, days, nanos: interval.nanoseconds }
    }

    fn interval(self) -> Option<IntervalMonthDayNano> {
        let (months, days) = (i32::try_from(self.months).ok()?, i32::try_from(self.days).ok()?);
        Some(IntervalMonthDayNano::new(months, days, self.nanos))
    }
}

/// Moves whole units of `low` to `high` and gives both one sign.
fn carry(high: &mut i64, low: &mut i64, per_high: i64) {
    *high += *low / per_high;
    *low %= per_high;
    align(high, low, per_high);
}

/// Gives `low` the sign of `high` by borrowing one unit.
fn align(high: &mut i64, low: &mut i64, per_high: i64) {
    if *high > 0 && *low < 0 {
        *low += per_high;
        *high -= 1;
    } else if *high < 0 && *low > 0 {
        *low -= per_high;
        *high += 1;
    }
}

fn justify_hours(mut parts: IntervalParts) -> IntervalParts {
    carry(&mut parts.days, &mut parts.nanos, NANOS_PER_DAY);
    parts
}

fn justify_days(mut parts: IntervalParts) -> IntervalParts {
    carry(&mut parts.months, &mut parts.days, DAYS_PER_MONTH);
    parts
}

fn justify_interval(mut parts: IntervalParts) -> IntervalParts {
    parts.days += parts.nanos / NANOS_PER_DAY;
    parts.nanos %= NANOS_PER_DAY;
    parts.months += parts.days / DAYS_PER_MONTH;
    parts.days %= DAYS_PER_MONTH;
    // Months come first, because a borrowed month gives days that a later step may need.
    if parts.months > 0 && (parts.days < 0 || parts.days == 0 && parts.nanos < 0) {
        parts.days += DAYS_PER_MONTH;
        parts.months -= 1;
    } else if parts.months < 0 && (parts.days > 0 || parts.days == 0 && parts.nanos > 0) {
        parts.days -= DAYS_PER_MONTH;
        parts.months += 1;
    }
    align(&mut parts.days, &mut parts.nanos, NANOS_PER_DAY);
    parts
}

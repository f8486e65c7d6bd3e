//! Timestamps and times plus and minus intervals.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds, RowValue};
use rowmill_plan::{ExprOp, FunctionSpec, Operand, ScalarExpr};

use crate::functions::signatures::ordinary;
use crate::functions::time::calendar::{FIRST_DAY, LAST_DAY, MICROS_PER_DAY, add_months, units_per_day};
use crate::functions::time::columns::{
    INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, each_row, instant_kind, is_interval, is_literal_text, out_of_range,
    primitive, slots, strict_nulls, tick_slots, unit_of,
};

/// The function of `timestamp + interval`.
pub(super) const TIMESTAMP_PLUS_INTERVAL: FunctionSpec = FunctionSpec {
    name: "timestamp_plus_interval",
    aliases: &["date_add"],
    can_fail: true,
    only_overflows: true,
    signature: timestamp_and_interval,
    kernel: |arguments, kind, rows| shift_timestamps(arguments, kind, rows, 1),
    row: Some(|arguments, _, kind| shift_timestamp(arguments, kind, 1)),
    doc: "The point in time an interval after another, as `+` computes it. Months end at their last day.",
    example: ("timestamp_plus_interval(TIMESTAMP '2013-01-31 12:00:00', INTERVAL '1 month')", "2013-02-28 12:00:00"),
    ..ordinary("interval")
};

/// The function of `timestamp - interval`.
pub(super) const TIMESTAMP_MINUS_INTERVAL: FunctionSpec = FunctionSpec {
    name: "timestamp_minus_interval",
    can_fail: true,
    only_overflows: true,
    signature: timestamp_and_interval,
    kernel: shift_back,
    row: Some(|arguments, _, kind| shift_timestamp(arguments, kind, -1)),
    doc: "The point in time an interval before another, as `-` computes it. Months end at their last day.",
    example: ("timestamp_minus_interval(TIMESTAMP '2012-02-29 00:00:00', INTERVAL '1 year')", "2011-02-28 00:00:00"),
    ..ordinary("interval")
};

/// The function of `timestamp - timestamp`.
pub(super) const TIMESTAMP_MINUS_TIMESTAMP: FunctionSpec = FunctionSpec {
    name: "timestamp_minus_timestamp",
    can_fail: true,
    only_overflows: true,
    signature: two_timestamps,
    kernel: subtract_timestamps,
    doc: "The time between two timestamps, in days and the rest of a day.",
    example: (
        "timestamp_minus_timestamp(TIMESTAMP '2013-07-31 12:00:00', TIMESTAMP '2013-07-01 00:00:00')",
        "30 days 12:00:00",
    ),
    ..ordinary("interval")
};

/// The function of `time + interval`.
pub(super) const TIME_PLUS_INTERVAL: FunctionSpec = FunctionSpec {
    name: "time_plus_interval",
    signature: time_and_interval,
    kernel: |arguments, _, rows| shift_times(arguments, rows, 1),
    doc: "The time of day an interval later, wrapping around midnight; days and months of the interval are ignored.",
    example: ("time_plus_interval(TIME '23:30:00', INTERVAL '1 hour')", "00:30:00"),
    ..ordinary("interval")
};

/// The function of `time - interval`.
pub(super) const TIME_MINUS_INTERVAL: FunctionSpec = FunctionSpec {
    name: "time_minus_interval",
    signature: time_and_interval,
    kernel: |arguments, _, rows| shift_times(arguments, rows, -1),
    doc: "The time of day an interval earlier, wrapping around midnight; days and months of the interval are ignored.",
    example: ("time_minus_interval(TIME '00:30:00', INTERVAL '1 hour')", "23:30:00"),
    ..ordinary("interval")
};

/// The function of `time - time`.
pub(super) const TIME_MINUS_TIME: FunctionSpec = FunctionSpec {
    name: "time_minus_time",
    signature: |arguments| match arguments {
        [a, b] if is_time(a) && is_time(b) => {
            Some(CallKinds { arguments: vec![TIME_KIND, TIME_KIND], result: INTERVAL_KIND })
        }
        _ => None,
    },
    kernel: subtract_times,
    doc: "The time between two times of day.",
    example: ("time_minus_time(TIME '12:00:00', TIME '10:30:00')", "01:30:00"),
    ..ordinary("interval")
};

fn is_time(argument: &ArgumentKind<'_>) -> bool {
    matches!(argument.kind, DataType::Time64(_) | DataType::Null) || is_literal_text(argument)
}

/// Returns the timestamp type that an argument is converted to beside `other`.
fn timestamp_of(argument: &ArgumentKind<'_>, other: &DataType) -> Option<DataType> {
    match argument.kind {
        DataType::Timestamp(..) => Some(argument.kind.clone()),
        DataType::Date32 | DataType::Null => Some(beside(other)),
        _ if is_literal_text(argument) => Some(beside(other)),
        _ => None,
    }
}

fn beside(other: &DataType) -> DataType {
    if matches!(other, DataType::Timestamp(..)) { other.clone() } else { TIMESTAMP_KIND }
}

/// Accepts a timestamp and an interval.
pub(in crate::functions) fn timestamp_and_interval(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [timestamp, interval] = arguments else { return None };
    let kind = timestamp_of(timestamp, &DataType::Null)?;
    is_interval(interval).then(|| CallKinds { arguments: vec![kind.clone(), INTERVAL_KIND], result: kind })
}

fn time_and_interval(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [time, interval] = arguments else { return None };
    let fits = is_time(time) && is_interval(interval);
    fits.then(|| CallKinds { arguments: vec![TIME_KIND, INTERVAL_KIND], result: TIME_KIND })
}

/// Accepts two timestamps. They are subtracted in the finer of their units, and as instants if one is an instant.
fn two_timestamps(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [left, right] = arguments else { return None };
    let (from, to) = (timestamp_of(left, right.kind)?, timestamp_of(right, left.kind)?);
    let (DataType::Timestamp(first, first_zone), DataType::Timestamp(second, second_zone)) = (from, to) else {
        return None;
    };
    let unit: TimeUnit = first.max(second);
    let is_instant = first_zone.is_some() || second_zone.is_some();
    let kind = if is_instant { instant_kind(unit) } else { DataType::Timestamp(unit, None) };
    Some(CallKinds { arguments: vec![kind.clone(), kind], result: INTERVAL_KIND })
}

/// The properties of a unit that a shift needs.
#[derive(Clone, Copy)]
struct TickScale {
    per_day: i64,
    nanos_per_tick: i64,
    first: i64,
    last: i64,
}

impl TickScale {
    fn of(unit: TimeUnit) -> TickScale {
        let per_day = units_per_day(unit);
        let last = i128::from(LAST_DAY + 1) * i128::from(per_day) - 1;
        let first = i128::from(FIRST_DAY) * i128::from(per_day);
        TickScale {
            per_day,
            nanos_per_tick: 86_400_000_000_000 / per_day,
            first: i64::try_from(first).unwrap_or(i64::MIN),
            last: i64::try_from(last).unwrap_or(i64::MAX),
        }
    }

    /// Returns the days and time of an interval in units. Rounds down to whole units.
    fn ticks(self, interval: IntervalMonthDayNano, sign: i64) -> i128 {
        let days = i128::from(interval.days) * i128::from(sign);
        let nanos = i128::from(interval.nanoseconds) * i128::from(sign);
        days * i128::from(self.per_day) + nanos.div_euclid(i128::from(self.nanos_per_tick))
    }

    fn shift(self, ticks: i64, interval: IntervalMonthDayNano, sign: i64) -> Option<i64> {
        let mut from = i128::from(ticks);
        if interval.months != 0 {
            // Months change only the day, so the time of day is kept aside.
            let (day, rest) = (ticks.div_euclid(self.per_day), ticks.rem_euclid(self.per_day));
            let day = add_months(day, i64::from(interval.months) * sign);
            from = i128::from(day) * i128::from(self.per_day) + i128::from(rest);
        }
        let to = i64::try_from(from + self.ticks(interval, sign)).ok()?;
        (self.first..=self.last).contains(&to).then_some(to)
    }
}

/// Returns the column that a timestamp has the same distance from in each row, and the distance in units of the type:
/// `ts + INTERVAL '10 seconds'` is 10,000,000 microseconds from `ts`. `None` for other expressions.
pub fn fixed_distance(expr: &ScalarExpr) -> Option<(usize, i64)> {
    let DataType::Timestamp(unit, _) = expr.kind else { return None };
    match &expr.op {
        ExprOp::Column(column) => Some((*column, 0)),
        ExprOp::Call(function, arguments) => {
            let sign = match function.name {
                name if name == TIMESTAMP_PLUS_INTERVAL.name => 1,
                name if name == TIMESTAMP_MINUS_INTERVAL.name => -1,
                _ => return None,
            };
            let [ScalarExpr { kind, op: ExprOp::Column(column) }, interval] = arguments.as_slice() else { return None };
            let interval = interval.as_constant().filter(|interval| *kind == expr.kind && !interval.is_null())?;
            let interval = interval.array().as_primitive_opt::<IntervalMonthDayNanoType>()?.value(0);
            let ticks = i64::try_from(TickScale::of(unit).ticks(interval, sign)).ok()?;
            (interval.months == 0).then_some((*column, ticks))
        }
        _ => None,
    }
}

/// Adds a distance to a timestamp of type `kind`, both in its units. Fails as `timestamp + interval` does if the result
/// is out of range.
pub fn moved_timestamp(kind: &DataType, ticks: i64, distance: i64) -> Result<i64> {
    let scale = TickScale::of(unit_of(kind));
    let moved = ticks.checked_add(distance).filter(|moved| (scale.first..=scale.last).contains(moved));
    moved.ok_or_else(|| out_of_range("the timestamp"))
}

/// Computes the timestamps an interval before others.
pub(in crate::functions) fn shift_back(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    shift_timestamps(arguments, kind, rows, -1)
}

fn shift_timestamps(arguments: &[Operand], kind: &DataType, rows: usize, sign: i64) -> Result<ArrayRef> {
    let scale = TickScale::of(unit_of(kind));
    let nulls = strict_nulls(arguments, rows);
    let ticks = tick_slots(&arguments[0]);
    let intervals = slots::<IntervalMonthDayNanoType>(&arguments[1]);
    let distance = intervals.constant().filter(|interval| interval.months == 0);
    let distance = distance.and_then(|interval| i64::try_from(scale.ticks(interval, sign)).ok());
    // The frequent case: one distance for all rows. The loop has no branch, so it vectorises.
    if let (Some(distance), None) = (distance, ticks.constant()) {
        let mut is_outside = false;
        let moved: Vec<i64> = ticks
            .values
            .iter()
            .map(|ticks| {
                let (to, overflows) = ticks.overflowing_add(distance);
                is_outside |= overflows | (to < scale.first) | (to > scale.last);
                to
            })
            .collect();
        if !is_outside {
            return primitive(kind, moved, nulls);
        }
        // A NULL row may have overflowed, or a row that really is an error. So we check the rows one by one.
    }
    let moved = each_row(rows, nulls.as_ref(), |row| {
        scale.shift(ticks.at(row), intervals.at(row), sign).ok_or_else(|| out_of_range("the timestamp"))
    })?;
    primitive(kind, moved, nulls)
}

/// Shifts the timestamp of a row. `None` if the result is out of range.
fn shift_timestamp<'a>(arguments: &[RowValue<'_>], kind: &DataType, sign: i64) -> Option<RowValue<'a>> {
    let [RowValue::Int(ticks), RowValue::Interval(interval)] = arguments else { return None };
    TickScale::of(unit_of(kind)).shift(*ticks, *interval, sign).map(RowValue::Int)
}

fn subtract_timestamps(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let scale = TickScale::of(unit_of(arguments[0].values.data_type()));
    let nulls = strict_nulls(arguments, rows);
    let (left, right) = (tick_slots(&arguments[0]), tick_slots(&arguments[1]));
    let between = each_row(rows, nulls.as_ref(), |row| {
        let ticks = left.at(row).checked_sub(right.at(row)).ok_or_else(|| out_of_range("the interval"))?;
        let days = i32::try_from(ticks / scale.per_day).map_err(|_| out_of_range("the interval"))?;
        Ok(IntervalMonthDayNano::new(0, days, ticks % scale.per_day * scale.nanos_per_tick))
    })?;
    primitive(&INTERVAL_KIND, between, nulls)
}

fn shift_times(arguments: &[Operand], rows: usize, sign: i64) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let times = tick_slots(&arguments[0]);
    let intervals = slots::<IntervalMonthDayNanoType>(&arguments[1]);
    let moved = each_row(rows, nulls.as_ref(), |row| {
        // Modulo one day the sum cannot overflow, and neither can the change of sign.
        let nanos = intervals.at(row).nanoseconds % (MICROS_PER_DAY * 1_000) * sign;
        Ok((times.at(row) + nanos.div_euclid(1_000)).rem_euclid(MICROS_PER_DAY))
    })?;
    primitive(&TIME_KIND, moved, nulls)
}

fn subtract_times(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (left, right) = (tick_slots(&arguments[0]), tick_slots(&arguments[1]));
    let between = each_row(rows, nulls.as_ref(), |row| {
        Ok(IntervalMonthDayNano::new(0, 0, (left.at(row) - right.at(row)) * 1_000))
    })?;
    primitive(&INTERVAL_KIND, between, nulls)
}

//! Differences of two times in a unit: `date_diff` counts the boundaries of the unit between them, `date_sub` the whole
//! units. `age` gives the difference in years, months, days and time.

use arrow::array::{ArrayRef, AsArray, new_empty_array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{
    CivilDate, SECONDS_PER_DAY, add_months, date_of_days, days_in_month, iso_week, units_per_day, units_per_second,
};
use super::columns::{
    INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, each_row, failed, instant_kind, is_literal_text, out_of_range, primitive,
    strict_nulls, tick_slots, unit_of,
};
use super::field::TimeField;
use crate::functions::interval::{shift_back, timestamp_and_interval};
use crate::functions::signatures::ordinary;

/// The functions of this file.
pub(in crate::functions) static DIFFERENCES: &[FunctionSpec] = &[
    FunctionSpec {
        name: "date_diff",
        aliases: &["datediff"],
        can_fail: true,
        signature: field_and_times,
        kernel: |arguments, kind, rows| differences(arguments, kind, rows, TimeSpan::boundaries),
        doc: "The number of boundaries of a unit, such as 'month' or 'hour', between two dates or times.",
        example: ("date_diff('month', DATE '2013-01-31', DATE '2013-02-01')", "1"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "date_sub",
        aliases: &["datesub", "date_subtract"],
        can_fail: true,
        signature: |arguments| match arguments {
            [_, _] => timestamp_and_interval(arguments),
            _ => field_and_times(arguments),
        },
        kernel: |arguments, kind, rows| match arguments {
            [_, _] => shift_back(arguments, kind, rows),
            _ => differences(arguments, kind, rows, TimeSpan::whole_units),
        },
        doc: "The number of whole units, such as 'month' or 'hour', between two dates or times. With a time and an \
              interval, the point in time an interval before it.",
        example: ("date_sub('month', DATE '2013-01-31', DATE '2013-03-01')", "1"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "age",
        can_fail: true,
        signature: |arguments| {
            let [left, right] = arguments else { return None };
            let kind = common_time(left, right).filter(|kind| *kind != TIME_KIND)?;
            Some(CallKinds { arguments: vec![kind.clone(), kind], result: INTERVAL_KIND })
        },
        kernel: ages,
        doc: "The time from the second timestamp to the first in years, months, days and time. With one argument, the \
              time from it to the midnight of today.",
        example: (
            "age(TIMESTAMP '2013-07-31 12:00:00', TIMESTAMP '2012-05-01 00:00:00')",
            "1 year 2 mons 30 days 12:00:00",
        ),
        ..ordinary("time")
    },
];

/// Returns the type in which two times are compared. The finer unit wins, and an instant over a local time.
fn common_time(left: &ArgumentKind<'_>, right: &ArgumentKind<'_>) -> Option<DataType> {
    let of = |argument: &ArgumentKind<'_>| match argument.kind {
        DataType::Timestamp(unit, zone) => Some(Some((*unit, zone.is_some()))),
        DataType::Date32 | DataType::Null => Some(None),
        _ if is_literal_text(argument) => Some(None),
        _ => None,
    };
    if [left, right].iter().any(|argument| matches!(argument.kind, DataType::Time64(_))) {
        let fits = [left, right]
            .iter()
            .all(|argument| matches!(argument.kind, DataType::Time64(_) | DataType::Null) || is_literal_text(argument));
        return fits.then_some(TIME_KIND);
    }
    Some(match (of(left)?, of(right)?) {
        (None, None) => TIMESTAMP_KIND,
        (Some((unit, is_instant)), None) | (None, Some((unit, is_instant))) => timestamp_kind(unit, is_instant),
        (Some((left, one)), Some((right, other))) => timestamp_kind(left.max(right), one || other),
    })
}

fn timestamp_kind(unit: TimeUnit, is_instant: bool) -> DataType {
    if is_instant { instant_kind(unit) } else { DataType::Timestamp(unit, None) }
}

fn field_and_times(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [field, from, to] = arguments else { return None };
    let field = TimeField::of(field)?;
    let kind = common_time(from, to)?;
    let is_taken = if kind == TIME_KIND { field.is_of_times() } else { field.is_of_intervals() || is_of_weeks(field) };
    is_taken.then(|| CallKinds { arguments: vec![DataType::Utf8View, kind.clone(), kind], result: DataType::Int64 })
}

/// Whether differences can be counted in a field that intervals do not have.
fn is_of_weeks(field: TimeField) -> bool {
    use TimeField::{DayOfWeek, DayOfYear, IsoDayOfWeek, IsoYear, Julian, YearWeek};
    matches!(field, DayOfWeek | DayOfYear | IsoDayOfWeek | IsoYear | Julian | YearWeek)
}

/// Two times in ticks, and the ticks of a second.
#[derive(Clone, Copy)]
struct TimeSpan {
    from: i64,
    to: i64,
    per_second: i64,
}

impl TimeSpan {
    fn per_day(self) -> i64 {
        self.per_second * SECONDS_PER_DAY
    }

    /// The number of boundaries of the unit between both times.
    fn boundaries(self, field: TimeField) -> Option<i64> {
        let difference = |of: &dyn Fn(i64) -> i64| {
            let [from, to] = [self.from, self.to].map(|ticks| of(floor_units(ticks, self.per_day())));
            Some(to - from)
        };
        let of_dates = |of: &dyn Fn(CivilDate) -> i64| difference(&|day| of(date_of_days(day)));
        match field {
            TimeField::Millennium => of_dates(&|date| date.year.div_euclid(1_000)),
            TimeField::Century => of_dates(&|date| date.year.div_euclid(100)),
            TimeField::Decade => of_dates(&|date| date.year.div_euclid(10)),
            TimeField::Year => of_dates(&|date| date.year),
            TimeField::IsoYear => difference(&|day| iso_week(day).0),
            TimeField::Quarter => of_dates(&|date| month_of(date).div_euclid(3)),
            TimeField::Month => of_dates(&month_of),
            // Weeks have no boundary of their own here: as in DuckDB, seven days are a week.
            TimeField::Week | TimeField::YearWeek => difference(&|day| day).map(|days| days / 7),
            _ => {
                let [from, to] = [self.from, self.to].map(|ticks| in_unit(field, ticks, self.per_second));
                to?.checked_sub(from?)
            }
        }
    }

    /// The number of whole units between both times.
    fn whole_units(self, field: TimeField) -> Option<i64> {
        let months = match field {
            TimeField::Millennium => 12_000,
            TimeField::Century => 1_200,
            TimeField::Decade => 120,
            TimeField::Year | TimeField::IsoYear => 12,
            TimeField::Quarter => 3,
            TimeField::Month => 1,
            TimeField::Week | TimeField::YearWeek => {
                return Some(self.to.checked_sub(self.from)? / (7 * self.per_day()));
            }
            _ => {
                let difference = self.to.checked_sub(self.from)?;
                return match ticks_in(field, self.per_second) {
                    TicksIn::Unit(ticks) => Some(difference / ticks),
                    TicksIn::Tick(units) => difference.checked_mul(units),
                };
            }
        };
        Some(self.whole_months() / months)
    }

    fn whole_months(self) -> i64 {
        if self.from > self.to {
            return -TimeSpan { from: self.to, to: self.from, ..self }.whole_months();
        }
        let [first, last] = [self.from, self.to].map(|ticks| ticks.div_euclid(self.per_day()));
        let months = month_of(date_of_days(last)) - month_of(date_of_days(first));
        // The last month is not whole if the same day and time of it comes after the end.
        let reached = (add_months(first, months), self.from.rem_euclid(self.per_day()));
        months - i64::from(reached > (last, self.to.rem_euclid(self.per_day())))
    }
}

/// The months since the year 0.
fn month_of(date: CivilDate) -> i64 {
    date.year * 12 + i64::from(date.month) - 1
}

/// How ticks relate to a unit of at most a day.
enum TicksIn {
    /// The ticks of one unit.
    Unit(i64),
    /// The units of one tick.
    Tick(i64),
}

fn ticks_in(field: TimeField, per_second: i64) -> TicksIn {
    let per = |units: i64| match per_second >= units {
        true => TicksIn::Unit(per_second / units),
        false => TicksIn::Tick(units / per_second),
    };
    match field {
        TimeField::Nanosecond => per(1_000_000_000),
        TimeField::Microsecond => per(1_000_000),
        TimeField::Millisecond => per(1_000),
        TimeField::Second => per(1),
        TimeField::Minute => TicksIn::Unit(60 * per_second),
        TimeField::Hour => TicksIn::Unit(3_600 * per_second),
        _ => TicksIn::Unit(SECONDS_PER_DAY * per_second),
    }
}

fn in_unit(field: TimeField, ticks: i64, per_second: i64) -> Option<i64> {
    match ticks_in(field, per_second) {
        TicksIn::Unit(per_unit) => Some(floor_units(ticks, per_unit)),
        TicksIn::Tick(units) => ticks.checked_mul(units),
    }
}

/// The whole units of some ticks, rounded down. For the units of microseconds, the compiler knows the divisor, so that
/// the division becomes a multiplication.
#[inline]
fn floor_units(ticks: i64, per_unit: i64) -> i64 {
    const SECOND: i64 = 1_000_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = SECONDS_PER_DAY * SECOND;
    match per_unit {
        DAY => ticks.div_euclid(DAY),
        HOUR => ticks.div_euclid(HOUR),
        MINUTE => ticks.div_euclid(MINUTE),
        SECOND => ticks.div_euclid(SECOND),
        _ => ticks.div_euclid(per_unit),
    }
}

fn differences(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    of: impl Fn(TimeSpan, TimeField) -> Option<i64>,
) -> Result<ArrayRef> {
    if rows == 0 {
        return Ok(new_empty_array(kind));
    }
    let field = arguments[0].values.as_string_view().value(0);
    let field = TimeField::named(field).ok_or_else(|| failed(format!("a field called {field}")))?;
    let per_second = units_per_second(unit_of(arguments[1].values.data_type()));
    let nulls = strict_nulls(arguments, rows);
    let (from, to) = (tick_slots(&arguments[1]), tick_slots(&arguments[2]));
    let counts = each_row(rows, nulls.as_ref(), |row| {
        let span = TimeSpan { from: from.at(row), to: to.at(row), per_second };
        of(span, field).ok_or_else(|| out_of_range("the difference"))
    })?;
    primitive(kind, counts, nulls)
}

fn ages(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let unit = unit_of(arguments[0].values.data_type());
    let (per_day, nanos_per_tick) = (units_per_day(unit), 1_000_000_000 / units_per_second(unit));
    let nulls = strict_nulls(arguments, rows);
    let (left, right) = (tick_slots(&arguments[0]), tick_slots(&arguments[1]));
    let ages = each_row(rows, nulls.as_ref(), |row| {
        let (left, right) = (left.at(row), right.at(row));
        let (months, days, ticks) = age_between(left.min(right), left.max(right), per_day);
        let sign = if left < right { -1 } else { 1 };
        let months = i32::try_from(months * sign).map_err(|_| out_of_range("the interval"))?;
        Ok(IntervalMonthDayNano::new(months, (days * sign) as i32, ticks * nanos_per_tick * sign))
    })?;
    primitive(&INTERVAL_KIND, ages, nulls)
}

/// Returns the months, days and ticks from a time to a later one. A day that is missing is borrowed from the month of
/// the earlier time.
fn age_between(earlier: i64, later: i64, per_day: i64) -> (i64, i64, i64) {
    let [first, last] = [earlier, later].map(|ticks| date_of_days(ticks.div_euclid(per_day)));
    let mut months = month_of(last) - month_of(first);
    let mut days = i64::from(last.day) - i64::from(first.day);
    let mut ticks = later.rem_euclid(per_day) - earlier.rem_euclid(per_day);
    if ticks < 0 {
        ticks += per_day;
        days -= 1;
    }
    if days < 0 {
        days += i64::from(days_in_month(first.year, first.month));
        months -= 1;
    }
    (months, days, ticks)
}

//! `extract`, implemented by the function `date_part`.

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds, RowValue};
use rowmill_plan::{FunctionSpec, Operand, ScalarExpr};

use super::calendar::{
    CivilDate, NEAR_DAYS, date_of_days, date_of_near_days, monday_of, units_per_second, week_of, weekday,
};
use super::columns::{INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, failed, primitive, ticks_of, unary};
use super::field::{TimeField, age_of_year};
use crate::functions::signatures::ordinary;

/// `extract(field FROM value)`
pub(super) const DATE_PART: FunctionSpec = FunctionSpec {
    name: "date_part",
    aliases: &["datepart", "extract"],
    ascending_argument,
    signature,
    kernel,
    row: Some(|arguments, kinds, _| match arguments {
        [RowValue::Text(field), value] => field_of_row(TimeField::named(field)?, *value, &kinds[1]),
        _ => None,
    }),
    doc: "A field of a date, time, timestamp or interval, such as year, quarter, week, dow, second or epoch. \
          Milliseconds and microseconds include the seconds; epoch is in seconds.",
    example: ("date_part('year', DATE '2013-07-31')", "2013"),
    ..ordinary("time")
};

/// The Julian day of 1970-01-01.
const JULIAN_EPOCH: i64 = 2_440_588;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_HOUR: i64 = 3_600 * NANOS_PER_SECOND;

fn signature(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [field, value] = arguments else { return None };
    let (kind, result) = kinds_of(TimeField::of(field)?, value)?;
    Some(CallKinds { arguments: vec![DataType::Utf8View, kind], result })
}

/// The place of the value, if the field never falls while time goes on.
fn ascending_argument(arguments: &[ScalarExpr]) -> Option<usize> {
    let field = TimeField::named(arguments.first()?.as_constant()?.as_text()?)?;
    let is_time = matches!(arguments.get(1)?.kind, DataType::Date32 | DataType::Timestamp(..));
    let is_ascending = matches!(
        field,
        TimeField::Year
            | TimeField::Decade
            | TimeField::Century
            | TimeField::Millennium
            | TimeField::IsoYear
            | TimeField::Julian
            | TimeField::Epoch
    );
    (is_time && is_ascending).then_some(1)
}

/// Returns the type that a value is converted to for a field, and the type of the field.
pub(super) fn kinds_of(field: TimeField, value: &ArgumentKind<'_>) -> Option<(DataType, DataType)> {
    let kind = match value.kind {
        kind @ (DataType::Date32 | DataType::Timestamp(..)) => kind.clone(),
        DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        DataType::Time64(_) if field.is_of_times() || field == TimeField::Epoch => TIME_KIND,
        DataType::Interval(_) if field.is_of_intervals() || field == TimeField::Epoch => INTERVAL_KIND,
        _ => return None,
    };
    let is_instant = matches!(kind, DataType::Timestamp(_, Some(_)));
    if matches!(field, TimeField::Zone | TimeField::ZoneHour | TimeField::ZoneMinute) && !is_instant {
        return None;
    }
    let result = match field {
        TimeField::Epoch | TimeField::Julian => DataType::Float64,
        TimeField::Nanosecond => DataType::Int64,
        _ => DataType::Int32,
    };
    Some((kind, result))
}

fn kernel(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if rows == 0 {
        return Ok(new_empty_array(kind));
    }
    let field = arguments[0].values.as_string_view().value(0);
    // The signature has checked the field, so an unknown one is a bug.
    let field = TimeField::named(field).ok_or_else(|| failed(format!("a field called {field}")))?;
    values_of(field, &arguments[1], rows)
}

/// Returns a field of the values of an operand.
pub(super) fn values_of(field: TimeField, operand: &Operand, rows: usize) -> Result<ArrayRef> {
    unary(operand, rows, |values| {
        let to = FieldColumn(values.logical_nulls());
        match values.data_type() {
            DataType::Date32 => of_dates(field, values.as_primitive::<Date32Type>().values(), to),
            DataType::Interval(_) => {
                of_intervals(field, values.as_primitive::<IntervalMonthDayNanoType>().values(), to)
            }
            kind => of_ticks_of(kind, field, ticks_of(values), to),
        }
    })
}

/// Returns a field of the value of a row. `None` for an interval.
pub(super) fn field_of_row<'a>(field: TimeField, value: RowValue<'_>, kind: &DataType) -> Option<RowValue<'a>> {
    let RowValue::Int(value) = value else { return None };
    Some(match kind {
        DataType::Date32 => of_dates(field, &[i32::try_from(value).ok()?], FieldOfRow),
        kind => of_ticks_of(kind, field, &[value], FieldOfRow),
    })
}

/// The way in which the values of a field are returned.
trait FieldTarget {
    type Values;

    /// Returns `of` of all values as INTEGERs. Only years far outside of the supported calendar do not fit; they are
    /// clamped.
    fn integers<N: Copy>(self, values: &[N], of: impl Fn(N) -> i64) -> Self::Values;

    /// Returns `of` of all values as BIGINTs.
    fn bigints<N: Copy>(self, values: &[N], of: impl Fn(N) -> i64) -> Self::Values;

    /// Returns `of` of all values as DOUBLEs.
    fn doubles<N: Copy>(self, values: &[N], of: impl Fn(N) -> f64) -> Self::Values;
}

/// Returns a column with these NULLs.
struct FieldColumn(Option<NullBuffer>);

impl FieldTarget for FieldColumn {
    type Values = Result<ArrayRef>;

    fn integers<N: Copy>(self, values: &[N], of: impl Fn(N) -> i64) -> Result<ArrayRef> {
        primitive(&DataType::Int32, values.iter().map(|value| narrow(of(*value))).collect(), self.0)
    }

    fn bigints<N: Copy>(self, values: &[N], of: impl Fn(N) -> i64) -> Result<ArrayRef> {
        primitive(&DataType::Int64, values.iter().map(|value| of(*value)).collect(), self.0)
    }

    fn doubles<N: Copy>(self, values: &[N], of: impl Fn(N) -> f64) -> Result<ArrayRef> {
        primitive(&DataType::Float64, values.iter().map(|value| of(*value)).collect(), self.0)
    }
}

/// Returns the field of the only value.
struct FieldOfRow;

impl FieldTarget for FieldOfRow {
    type Values = RowValue<'static>;

    fn integers<N: Copy>(self, values: &[N], of: impl Fn(N) -> i64) -> RowValue<'static> {
        RowValue::Int(narrow(of(values[0])).into())
    }

    fn bigints<N: Copy>(self, values: &[N], of: impl Fn(N) -> i64) -> RowValue<'static> {
        RowValue::Int(of(values[0]))
    }

    fn doubles<N: Copy>(self, values: &[N], of: impl Fn(N) -> f64) -> RowValue<'static> {
        RowValue::Float(of(values[0]))
    }
}

/// Returns a number as an INTEGER. Only years far outside of the supported calendar do not fit; they are clamped.
#[inline(always)]
fn narrow(number: i64) -> i32 {
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// Computes a field that depends only on the day.
fn of_days<N: Copy, T: FieldTarget>(field: TimeField, values: &[N], to: T, day: impl Fn(N) -> i64 + Copy) -> T::Values {
    // Near days allow 32-bit arithmetic, which vectorises. One pass decides that for the whole column.
    let are_near = values.iter().fold(true, |are_near, value| are_near & NEAR_DAYS.contains(&day(*value)));
    if are_near {
        of_days_by(field, values, to, day, date_of_near_days)
    } else {
        of_days_by(field, values, to, day, date_of_days)
    }
}

/// Computes a field of days with the dates that `date` returns.
fn of_days_by<N: Copy, T: FieldTarget>(
    field: TimeField,
    values: &[N],
    to: T,
    day: impl Fn(N) -> i64,
    date: impl Fn(i64) -> CivilDate,
) -> T::Values {
    match field {
        TimeField::Year => to.integers(values, |value| date(day(value)).year),
        TimeField::Month => to.integers(values, |value| i64::from(date(day(value)).month)),
        TimeField::Day => to.integers(values, |value| i64::from(date(day(value)).day)),
        TimeField::Quarter => to.integers(values, |value| i64::from(date(day(value)).month.div_ceil(3))),
        TimeField::Decade => to.integers(values, |value| date(day(value)).year.div_euclid(10)),
        TimeField::Century => to.integers(values, |value| age_of_year(date(day(value)).year, 100)),
        TimeField::Millennium => to.integers(values, |value| age_of_year(date(day(value)).year, 1_000)),
        TimeField::Week => to.integers(values, |value| week_of(date(monday_of(day(value)) + 3))),
        TimeField::IsoYear => to.integers(values, |value| date(monday_of(day(value)) + 3).year),
        TimeField::DayOfWeek => to.integers(values, |value| weekday(day(value))),
        TimeField::IsoDayOfWeek => to.integers(values, |value| (day(value) + 3).rem_euclid(7) + 1),
        TimeField::DayOfYear => to.integers(values, |value| i64::from(date(day(value)).day_of_year)),
        TimeField::Era => to.integers(values, |value| i64::from(date(day(value)).year > 0)),
        TimeField::YearWeek => to.integers(values, |value| {
            let thursday = date(monday_of(day(value)) + 3);
            // The number of a week is added with the sign of its year, so that weeks before year 0 stay in order.
            thursday.year * 100 + if thursday.year < 0 { -week_of(thursday) } else { week_of(thursday) }
        }),
        _ => to.integers(values, |_| 0),
    }
}

fn of_dates<T: FieldTarget>(field: TimeField, dates: &[i32], to: T) -> T::Values {
    match field {
        TimeField::Epoch => to.doubles(dates, |date| f64::from(date) * 86_400.0),
        TimeField::Julian => to.doubles(dates, |date| (i64::from(date) + JULIAN_EPOCH) as f64),
        TimeField::Nanosecond => to.bigints(dates, |_| 0),
        _ => of_days(field, dates, to, i64::from),
    }
}

/// Computes fields of timestamps and times of type `kind`.
fn of_ticks_of<T: FieldTarget>(kind: &DataType, field: TimeField, ticks: &[i64], to: T) -> T::Values {
    match kind {
        DataType::Timestamp(TimeUnit::Second, _) => of_ticks::<1, T>(field, ticks, to),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of_ticks::<1_000, T>(field, ticks, to),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of_ticks::<NANOS_PER_SECOND, T>(field, ticks, to),
        _ => of_ticks::<1_000_000, T>(field, ticks, to),
    }
}

/// Computes fields of timestamps and times. The day of a time is 0.
fn of_ticks<const PER_SECOND: i64, T: FieldTarget>(field: TimeField, ticks: &[i64], to: T) -> T::Values {
    let per_day = 86_400 * PER_SECOND;
    let in_day = |ticks: i64| ticks.rem_euclid(per_day);
    let in_minute = |ticks: i64| ticks.rem_euclid(60 * PER_SECOND);
    match field {
        TimeField::Hour => to.integers(ticks, |ticks| in_day(ticks) / (3_600 * PER_SECOND)),
        TimeField::Minute => to.integers(ticks, |ticks| ticks.rem_euclid(3_600 * PER_SECOND) / (60 * PER_SECOND)),
        TimeField::Second => to.integers(ticks, |ticks| in_minute(ticks) / PER_SECOND),
        TimeField::Millisecond => to.integers(ticks, |ticks| scaled::<PER_SECOND>(in_minute(ticks), 1_000)),
        TimeField::Microsecond => to.integers(ticks, |ticks| scaled::<PER_SECOND>(in_minute(ticks), 1_000_000)),
        TimeField::Nanosecond => to.bigints(ticks, |ticks| scaled::<PER_SECOND>(in_minute(ticks), NANOS_PER_SECOND)),
        TimeField::Epoch => to.doubles(ticks, |ticks| ticks as f64 / PER_SECOND as f64),
        TimeField::Julian => to.doubles(ticks, |ticks| {
            (ticks.div_euclid(per_day) + JULIAN_EPOCH) as f64 + in_day(ticks) as f64 / per_day as f64
        }),
        _ => of_days(field, ticks, to, |ticks| ticks.div_euclid(per_day)),
    }
}

/// Converts ticks of less than a minute from `PER_SECOND` to `per_second` ticks per second.
#[inline(always)]
fn scaled<const PER_SECOND: i64>(ticks: i64, per_second: i64) -> i64 {
    if per_second >= PER_SECOND { ticks * (per_second / PER_SECOND) } else { ticks / (PER_SECOND / per_second) }
}

fn of_intervals<T: FieldTarget>(field: TimeField, intervals: &[IntervalMonthDayNano], to: T) -> T::Values {
    let years = |interval: IntervalMonthDayNano| i64::from(interval.months / 12);
    let per_minute = 60 * units_per_second(TimeUnit::Nanosecond);
    match field {
        TimeField::Millennium => to.integers(intervals, |interval| years(interval) / 1_000),
        TimeField::Century => to.integers(intervals, |interval| years(interval) / 100),
        TimeField::Decade => to.integers(intervals, |interval| years(interval) / 10),
        TimeField::Year => to.integers(intervals, years),
        TimeField::Quarter => to.integers(intervals, |interval| i64::from(interval.months % 12 / 3) + 1),
        TimeField::Month => to.integers(intervals, |interval| i64::from(interval.months % 12)),
        TimeField::Week => to.integers(intervals, |interval| i64::from(interval.days / 7)),
        TimeField::Day => to.integers(intervals, |interval| i64::from(interval.days)),
        TimeField::Hour => to.integers(intervals, |interval| interval.nanoseconds / NANOS_PER_HOUR),
        TimeField::Minute => to.integers(intervals, |interval| interval.nanoseconds / per_minute % 60),
        TimeField::Second => to.integers(intervals, |interval| interval.nanoseconds / NANOS_PER_SECOND % 60),
        TimeField::Millisecond => to.integers(intervals, |interval| interval.nanoseconds % per_minute / 1_000_000),
        TimeField::Microsecond => to.integers(intervals, |interval| interval.nanoseconds % per_minute / 1_000),
        TimeField::Nanosecond => to.bigints(intervals, |interval| interval.nanoseconds % per_minute),
        _ => to.doubles(intervals, seconds_of_interval),
    }
}

/// Returns the seconds of an interval. A year counts as 365.25 days, and a remaining month as 30 days.
pub(super) fn seconds_of_interval(interval: IntervalMonthDayNano) -> f64 {
    let years = i64::from(interval.months / 12);
    let days = i64::from(interval.months % 12) * 30 + i64::from(interval.days);
    let seconds = years * 31_557_600 + days * 86_400;
    seconds as f64 + interval.nanoseconds as f64 / NANOS_PER_SECOND as f64
}

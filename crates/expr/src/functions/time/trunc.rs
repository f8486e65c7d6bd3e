//! The function `date_trunc`.

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds, RowValue};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{
    CivilDate, NEAR_DAYS, date_of_days, date_of_near_days, days_of_date, first_of_year, monday_of, quarter_of,
};
use super::columns::{INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, failed, primitive, ticks_of, unary};
use super::field::{TimeField, age_of_year, first_year_of_age};
use crate::functions::signatures::ordinary;

/// `date_trunc(field, value)`
pub(super) const DATE_TRUNC: FunctionSpec = FunctionSpec {
    name: "date_trunc",
    aliases: &["datetrunc"],
    ascending_argument: |_| Some(1),
    signature,
    kernel,
    row: Some(|arguments, _, kind| match arguments {
        [RowValue::Text(field), RowValue::Int(ticks)] => {
            Some(RowValue::Int(of_ticks_of(kind, TimeField::named(field)?, &[*ticks])[0]))
        }
        _ => None,
    }),
    doc: "The first point in time of the year, quarter, month, week, day, hour, minute or another field that a \
        timestamp \
          falls in; a date gives a timestamp. Weeks begin on Monday. A result before the first timestamp of the type \
          becomes that first timestamp.",
    example: ("date_trunc('month', TIMESTAMP '2013-07-31 12:30:45')", "2013-07-01 00:00:00"),
    ..ordinary("time")
};

fn signature(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [field, value] = arguments else { return None };
    let field = TimeField::of(field)?;
    if !field.is_of_intervals() {
        return None;
    }
    let kind = match value.kind {
        kind @ DataType::Timestamp(..) => kind.clone(),
        DataType::Date32 | DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        DataType::Time64(_) if field.is_of_times() => TIME_KIND,
        DataType::Interval(_) if field != TimeField::Week => INTERVAL_KIND,
        _ => return None,
    };
    Some(CallKinds { arguments: vec![DataType::Utf8View, kind.clone()], result: kind })
}

fn kernel(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if rows == 0 {
        return Ok(new_empty_array(kind));
    }
    let field = arguments[0].values.as_string_view().value(0);
    let field = TimeField::named(field).ok_or_else(|| failed(format!("a field called {field}")))?;
    unary(&arguments[1], rows, |values| {
        let nulls = values.logical_nulls();
        if matches!(kind, DataType::Interval(_)) {
            let intervals = values.as_primitive::<IntervalMonthDayNanoType>().values();
            return primitive(kind, intervals.iter().map(|interval| of_interval(field, *interval)).collect(), nulls);
        }
        primitive(kind, of_ticks_of(kind, field, ticks_of(values)), nulls)
    })
}

/// Truncates timestamps or times of type `kind`.
fn of_ticks_of(kind: &DataType, field: TimeField, ticks: &[i64]) -> Vec<i64> {
    match kind {
        DataType::Timestamp(TimeUnit::Second, _) => of_ticks::<1>(field, ticks),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of_ticks::<1_000>(field, ticks),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of_ticks::<1_000_000_000>(field, ticks),
        _ => of_ticks::<1_000_000>(field, ticks),
    }
}

fn of_ticks<const PER_SECOND: i64>(field: TimeField, ticks: &[i64]) -> Vec<i64> {
    let per_day = 86_400 * PER_SECOND;
    let first = per_day.saturating_mul(*NEAR_DAYS.start());
    let last = per_day.saturating_mul(*NEAR_DAYS.end());
    let are_near = ticks.iter().fold(true, |are_near, ticks| are_near & (*ticks >= first) & (*ticks <= last));
    if are_near {
        of_ticks_by::<PER_SECOND>(field, ticks, date_of_near_days)
    } else {
        of_ticks_by::<PER_SECOND>(field, ticks, date_of_days)
    }
}

/// Truncates ticks with the dates that `date` returns.
fn of_ticks_by<const PER_SECOND: i64>(field: TimeField, ticks: &[i64], date: impl Fn(i64) -> CivilDate) -> Vec<i64> {
    let per_day = 86_400 * PER_SECOND;
    // A result below the first tick of the type is clamped to it.
    let day = |days: i64| days.saturating_mul(per_day);
    match field {
        TimeField::Nanosecond => ticks.to_vec(),
        TimeField::Microsecond => floor(ticks, (PER_SECOND / 1_000_000).max(1)),
        TimeField::Millisecond => floor(ticks, (PER_SECOND / 1_000).max(1)),
        TimeField::Second => floor(ticks, PER_SECOND),
        TimeField::Minute => floor(ticks, 60 * PER_SECOND),
        TimeField::Hour => floor(ticks, 3_600 * PER_SECOND),
        TimeField::Day => floor(ticks, per_day),
        TimeField::Week => each(ticks, |ticks| day(monday_of(ticks.div_euclid(per_day)))),
        TimeField::Month => each(ticks, |ticks| {
            let days = ticks.div_euclid(per_day);
            day(days - i64::from(date(days).day) + 1)
        }),
        TimeField::Year => each(ticks, |ticks| {
            let days = ticks.div_euclid(per_day);
            day(first_of_year(days, date(days)))
        }),
        TimeField::Quarter => each(ticks, |ticks| {
            let days = ticks.div_euclid(per_day);
            day(quarter_of(days, date(days)))
        }),
        _ => each(ticks, |ticks| {
            let date = date(ticks.div_euclid(per_day));
            let year = match field {
                TimeField::Century => first_year_of_age(age_of_year(date.year, 100), 100),
                TimeField::Millennium => first_year_of_age(age_of_year(date.year, 1_000), 1_000),
                _ => date.year.div_euclid(10) * 10,
            };
            day(days_of_date(year, 1, 1))
        }),
    }
}

#[inline(always)]
fn each(ticks: &[i64], of: impl Fn(i64) -> i64) -> Vec<i64> {
    ticks.iter().map(|ticks| of(*ticks)).collect()
}

/// Rounds down to a multiple of a unit. The unit should be a constant at compile time, so that the division becomes a
/// multiplication.
#[inline(always)]
fn floor(ticks: &[i64], unit: i64) -> Vec<i64> {
    each(ticks, |ticks| ticks.saturating_sub(ticks.rem_euclid(unit)))
}

fn of_interval(field: TimeField, interval: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let of_months = |unit: i32| IntervalMonthDayNano::new(months / unit * unit, 0, 0);
    let of_time = |unit: i64| IntervalMonthDayNano::new(months, days, nanoseconds / unit * unit);
    match field {
        TimeField::Microsecond => of_time(1_000),
        TimeField::Millisecond => of_time(1_000_000),
        TimeField::Second => of_time(1_000_000_000),
        TimeField::Minute => of_time(60_000_000_000),
        TimeField::Hour => of_time(3_600_000_000_000),
        TimeField::Day => IntervalMonthDayNano::new(months, days, 0),
        TimeField::Month => of_months(1),
        TimeField::Quarter => of_months(3),
        TimeField::Year => of_months(12),
        TimeField::Decade => of_months(120),
        TimeField::Century => of_months(1_200),
        TimeField::Millennium => of_months(12_000),
        _ => interval,
    }
}

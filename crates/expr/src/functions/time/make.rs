//! Functions that make dates and times from their parts.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{FIRST_DAY, LAST_DAY, MICROS_PER_DAY, days_in_month, days_of_date};
use super::columns::{
    SlotValues, TIME_KIND, TIMESTAMP_KIND, each_row, instant_kind, primitive, slots, strict_nulls, ticks_of,
};
use super::zone::shift;
use crate::functions::signatures::ordinary;
use crate::kinds::is_number;

/// `make_date(year, month, day)`
pub(super) const MAKE_DATE: FunctionSpec = FunctionSpec {
    name: "make_date",
    can_fail: true,
    signature: |arguments| {
        of_numbers(arguments, &[DataType::Int32, DataType::Int32, DataType::Int32], DataType::Date32)
    },
    kernel: make_dates,
    doc: "The date of a year, month and day.",
    example: ("make_date(2013, 7, 31)", "2013-07-31"),
    ..ordinary("time")
};

/// `make_time(hour, minute, second)`
pub(super) const MAKE_TIME: FunctionSpec = FunctionSpec {
    name: "make_time",
    can_fail: true,
    signature: |arguments| of_numbers(arguments, &[DataType::Int32, DataType::Int32, DataType::Float64], TIME_KIND),
    kernel: make_times,
    doc: "The time of an hour, minute and second; the second may have a fraction.",
    example: ("make_time(12, 30, 45.5)", "12:30:45.5"),
    ..ordinary("time")
};

/// `make_timestamp(year, month, day, hour, minute, second)`
pub(super) const MAKE_TIMESTAMP: FunctionSpec = FunctionSpec {
    name: "make_timestamp",
    can_fail: true,
    signature: |arguments| {
        if let [micros] = arguments {
            let fits = micros.kind.is_integer() || *micros.kind == DataType::Null;
            return fits.then(|| CallKinds { arguments: vec![DataType::Int64], result: TIMESTAMP_KIND });
        }
        let int = DataType::Int32;
        of_numbers(
            arguments,
            &[int.clone(), int.clone(), int.clone(), int.clone(), int, DataType::Float64],
            TIMESTAMP_KIND,
        )
    },
    kernel: make_timestamps,
    doc: "The timestamp of a year, month, day, hour, minute and second, or of microseconds since 1970-01-01.",
    example: ("make_timestamp(2013, 7, 31, 12, 30, 45.5)", "2013-07-31 12:30:45.5"),
    ..ordinary("time")
};

/// `make_timestamptz(year, month, day, hour, minute, second [, zone])`
pub(super) const MAKE_TIMESTAMPTZ: FunctionSpec = FunctionSpec {
    name: "make_timestamptz",
    can_fail: true,
    signature: |arguments| {
        let (parts, zone) = arguments.split_at_checked(6)?;
        let int = DataType::Int32;
        let kinds = [int.clone(), int.clone(), int.clone(), int.clone(), int, DataType::Float64];
        let mut kinds = of_numbers(parts, &kinds, instant_kind(TimeUnit::Microsecond))?;
        let is_taken =
            zone.len() <= 1 && zone.iter().all(|zone| matches!(zone.kind, DataType::Utf8View | DataType::Null));
        kinds.arguments.extend(zone.iter().map(|_| DataType::Utf8View));
        is_taken.then_some(kinds)
    },
    kernel: |arguments, kind, rows| {
        let local = make_timestamps(&arguments[..6], &TIMESTAMP_KIND, rows)?;
        match arguments.get(6) {
            Some(zones) => shift(&Operand::rows(local), zones, kind, rows),
            None => {
                let nulls = strict_nulls(&arguments[..6], rows);
                primitive(kind, ticks_of(&local).to_vec(), nulls)
            }
        }
    },
    doc: "The instant of a year, month, day, hour, minute and second in a time zone, which is UTC if none is given.",
    example: ("make_timestamptz(2013, 7, 31, 12, 30, 45.5, 'Europe/Berlin')", "2013-07-31 10:30:45.5+00"),
    ..ordinary("time")
};

/// Accepts numbers, or texts that are read as numbers.
fn of_numbers(arguments: &[ArgumentKind<'_>], kinds: &[DataType], result: DataType) -> Option<CallKinds> {
    let fits = |argument: &ArgumentKind<'_>, kind: &DataType| match argument.kind {
        DataType::Utf8View | DataType::Null => true,
        given => given.is_integer() || (is_number(given) && *kind == DataType::Float64),
    };
    let fit =
        arguments.len() == kinds.len() && arguments.iter().zip(kinds).all(|(argument, kind)| fits(argument, kind));
    fit.then(|| CallKinds { arguments: kinds.to_vec(), result })
}

fn no_date(year: i32, month: i32, day: i32) -> Error {
    Error::new(
        ErrorKind::NumericOutOfRange,
        format!("date out of range: there is no day {year:04}-{month:02}-{day:02}"),
    )
}

pub(super) fn day_of(year: i32, month: i32, day: i32) -> Option<i64> {
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
    let day = u32::try_from(day).ok().filter(|day| (1..=days_in_month(i64::from(year), month)).contains(day))?;
    let days = days_of_date(i64::from(year), month, day);
    (FIRST_DAY..=LAST_DAY).contains(&days).then_some(days)
}

/// Returns microseconds since midnight. `24:00:00` is not a time.
fn micros_of(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..60.0).contains(&second);
    let micros = (second * 1e6).round() as i64;
    // Rounding may have reached the next minute.
    if !is_time || micros >= 60_000_000 {
        let message = format!("time out of range: there is no time {hour:02}:{minute:02}:{second}");
        return Err(Error::new(ErrorKind::NumericOutOfRange, message));
    }
    Ok((i64::from(hour) * 60 + i64::from(minute)) * 60_000_000 + micros)
}

fn integers(arguments: &[Operand], index: usize) -> SlotValues<'_, i32> {
    slots::<Int32Type>(&arguments[index])
}

fn make_dates(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (years, months, days) = (integers(arguments, 0), integers(arguments, 1), integers(arguments, 2));
    let dates = each_row(rows, nulls.as_ref(), |row| {
        let (year, month, day) = (years.at(row), months.at(row), days.at(row));
        day_of(year, month, day).map(|days| days as i32).ok_or_else(|| no_date(year, month, day))
    })?;
    primitive(kind, dates, nulls)
}

fn make_times(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (hours, minutes) = (integers(arguments, 0), integers(arguments, 1));
    let seconds = slots::<Float64Type>(&arguments[2]);
    let times = each_row(rows, nulls.as_ref(), |row| micros_of(hours.at(row), minutes.at(row), seconds.at(row)))?;
    primitive(kind, times, nulls)
}

fn make_timestamps(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    if let [micros] = arguments {
        let micros = slots::<Int64Type>(micros);
        return primitive(kind, (0..rows).map(|row| micros.at(row)).collect(), nulls);
    }
    let (years, months, days) = (integers(arguments, 0), integers(arguments, 1), integers(arguments, 2));
    let (hours, minutes) = (integers(arguments, 3), integers(arguments, 4));
    let seconds = slots::<Float64Type>(&arguments[5]);
    let stamps = each_row(rows, nulls.as_ref(), |row| {
        let (year, month, day) = (years.at(row), months.at(row), days.at(row));
        let date = day_of(year, month, day).ok_or_else(|| no_date(year, month, day))?;
        Ok(date * MICROS_PER_DAY + micros_of(hours.at(row), minutes.at(row), seconds.at(row))?)
    })?;
    primitive(kind, stamps, nulls)
}

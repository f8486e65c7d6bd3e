//! Functions of time zones, which `AT TIME ZONE` calls.

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::units_per_second;
use super::columns::{
    TIMESTAMP_KIND, each_row, instant_kind, out_of_range, primitive, strict_nulls, tick_slots, unit_of,
};
use crate::functions::signatures::ordinary;

/// `time AT TIME ZONE zone`
pub(super) const AT_TIME_ZONE: FunctionSpec = FunctionSpec {
    name: "at_time_zone",
    aliases: &["timestamp_at_zone", "instant_at_zone"],
    can_fail: true,
    signature: |arguments| match arguments {
        [time, zone] if is_text(zone) => {
            let (given, result) = moved_kinds(time)?;
            Some(CallKinds { arguments: vec![given, DataType::Utf8View], result })
        }
        _ => None,
    },
    kernel: |arguments, kind, rows| shift(&arguments[0], &arguments[1], kind, rows),
    doc: "The clock time in a time zone at an instant; for a timestamp without zone, the instant at which a clock \
        there \
          shows it, the earlier one of two.",
    example: ("at_time_zone(TIMESTAMP '2013-07-31 12:00:00', 'Europe/Berlin')", "2013-07-31 10:00:00+00"),
    ..ordinary("time")
};

/// `timezone(zone, time)`
pub(super) const TIMEZONE: FunctionSpec = FunctionSpec {
    name: "timezone",
    can_fail: true,
    signature: |arguments| match arguments {
        [zone, time] if is_text(zone) => {
            let (given, result) = moved_kinds(time)?;
            Some(CallKinds { arguments: vec![DataType::Utf8View, given], result })
        }
        _ => None,
    },
    kernel: |arguments, kind, rows| shift(&arguments[1], &arguments[0], kind, rows),
    doc: "The function form of `time AT TIME ZONE zone`.",
    example: ("timezone('+02:00', TIMESTAMPTZ '2013-07-31 12:00:00Z')", "2013-07-31 14:00:00"),
    ..ordinary("time")
};

/// `to_local_time(instant)`
pub(super) const TO_LOCAL_TIME: FunctionSpec = FunctionSpec {
    name: "to_local_time",
    signature: |arguments| match arguments {
        [time] => {
            let kind = DataType::Timestamp(local_unit(time).or_else(|| instant_unit(time))?, None);
            Some(CallKinds { arguments: vec![kind.clone()], result: kind })
        }
        _ => None,
    },
    kernel: |arguments, _, rows| super::columns::unary(&arguments[0], rows, |values| Ok(values.clone())),
    doc: "The instant in UTC as a timestamp without time zone.",
    example: ("to_local_time(TIMESTAMPTZ '2013-07-31 12:00:00Z')", "2013-07-31 12:00:00"),
    ..ordinary("time")
};

fn is_text(argument: &ArgumentKind<'_>) -> bool {
    matches!(argument.kind, DataType::Utf8View | DataType::Null)
}

/// Returns the type that a time is converted to first, and its type in a zone.
fn moved_kinds(time: &ArgumentKind<'_>) -> Option<(DataType, DataType)> {
    match time.kind {
        DataType::Timestamp(unit, Some(_)) => Some((instant_kind(*unit), DataType::Timestamp(*unit, None))),
        _ => local_unit(time).map(|unit| (DataType::Timestamp(unit, None), instant_kind(unit))),
    }
}

fn local_unit(argument: &ArgumentKind<'_>) -> Option<TimeUnit> {
    match argument.kind {
        DataType::Timestamp(unit, None) => Some(*unit),
        DataType::Date32 | DataType::Utf8View | DataType::Null => Some(unit_of(&TIMESTAMP_KIND)),
        _ => None,
    }
}

fn instant_unit(argument: &ArgumentKind<'_>) -> Option<TimeUnit> {
    match argument.kind {
        DataType::Timestamp(unit, Some(_)) => Some(*unit),
        DataType::Utf8View | DataType::Null => Some(unit_of(&TIMESTAMP_KIND)),
        _ => None,
    }
}

/// Returns the zone with a name or an offset.
pub(crate) fn zone_called(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        Error::new(ErrorKind::InvalidParameter, format!("there is no time zone '{name}'"))
            .hint("a zone is a name such as 'Europe/Berlin' or an offset such as '+02:00'")
    })
}

/// Converts times between UTC and zones. If `kind` has no zone, the direction is from UTC to the zone.
pub(crate) fn shift(times: &Operand, zones: &Operand, kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let per_second = units_per_second(unit_of(kind));
    let is_local = matches!(kind, DataType::Timestamp(_, None));
    let nulls = strict_nulls(&[times.clone(), zones.clone()], rows);
    let ticks = tick_slots(times);
    let names = zones.values.as_string_view();
    let mut last: Option<(usize, Tz)> = None;
    let moved = each_row(rows, nulls.as_ref(), |row| {
        let at = zones.at(row);
        // Consecutive rows usually name the same zone, and parsing a name is slow.
        let zone = match last {
            Some((known, zone)) if known == at || names.value(known) == names.value(at) => zone,
            _ => last.insert((at, zone_called(names.value(at))?)).1,
        };
        let count = ticks.at(row);
        let moved = if is_local { shown_at(count, per_second, zone) } else { instant_of(count, per_second, zone) };
        moved.ok_or_else(|| out_of_range("the timestamp"))
    })?;
    primitive(kind, moved, nulls)
}

/// Returns the clock time in `zone` at an instant.
pub(crate) fn shown_at(count: i64, per_second: i64, zone: Tz) -> Option<i64> {
    let utc = DateTime::from_timestamp(count.div_euclid(per_second), 0)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    count.checked_add(i64::from(offset) * per_second)
}

/// Returns the instant at which the clock in `zone` shows a time. If the clock was set back and shows the time twice,
/// returns the earlier instant. If the clock was set forward and skips the time, returns the instant that it would have
/// been without the change.
pub(crate) fn instant_of(count: i64, per_second: i64, zone: Tz) -> Option<i64> {
    let local: NaiveDateTime = DateTime::from_timestamp(count.div_euclid(per_second), 0)?.naive_utc();
    let offset = match zone.offset_from_local_datetime(&local).earliest() {
        Some(offset) => offset,
        // No clock change skips more than a day (Samoa skipped one), so this is the offset before the change.
        None => zone.offset_from_local_datetime(&(local - TimeDelta::hours(25))).earliest()?,
    };
    count.checked_sub(i64::from(offset.fix().local_minus_utc()) * per_second)
}

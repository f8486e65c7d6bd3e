//! Functions that convert numbers and texts to dates, times and timestamps: `to_timestamp` and similar.
//!
//! A text without a format is cast. The names of these functions promise points in time, so a text with an offset gives
//! the time in UTC.

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{FIRST_DAY, LAST_DAY, SECONDS_PER_DAY, units_per_day, units_per_second};
use super::columns::{
    TIME_KIND, each_row, instant_kind, out_of_range, primitive, slots, strict_nulls, tick_slots, unary, unit_of,
};
use super::read::{ReadFormat, ReadMoment};
use super::zone::{shown_at, zone_called};
use crate::functions::signatures::ordinary;
use crate::kinds::is_number;

/// Makes a spec of this file: all are strict, immutable and can fail.
const fn converting(
    name: &'static str,
    signature: fn(&[ArgumentKind<'_>]) -> Option<CallKinds>,
    kernel: rowmill_plan::function::Kernel,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> FunctionSpec {
    FunctionSpec { name, can_fail: true, signature, kernel, doc, example, ..ordinary("time") }
}

/// `to_timestamp(value [, format ...])`
pub(super) const TO_TIMESTAMP: FunctionSpec = converting(
    "to_timestamp",
    |arguments| timestamp_signature(arguments, TimeUnit::Microsecond),
    |arguments, kind, rows| to_ticks(arguments, kind, rows, units_per_second(TimeUnit::Microsecond)),
    "A timestamp from a text, by one of several formats if they are given, or from seconds since 1970-01-01.",
    ("to_timestamp('31.07.2013 12:30', 'DD.MM.YYYY HH24:MI')", "2013-07-31 12:30:00"),
);

/// `to_timestamp_seconds(value [, format ...])`
pub(super) const TO_TIMESTAMP_SECONDS: FunctionSpec = converting(
    "to_timestamp_seconds",
    |arguments| timestamp_signature(arguments, TimeUnit::Second),
    |arguments, kind, rows| to_ticks(arguments, kind, rows, 1),
    "A timestamp of whole seconds from a text or from seconds since 1970-01-01.",
    ("to_timestamp_seconds(1375273845)", "2013-07-31 12:30:45"),
);

/// `to_timestamp_millis(value [, format ...])`
pub(super) const TO_TIMESTAMP_MILLIS: FunctionSpec = converting(
    "to_timestamp_millis",
    |arguments| timestamp_signature(arguments, TimeUnit::Millisecond),
    |arguments, kind, rows| to_ticks(arguments, kind, rows, 1),
    "A timestamp of milliseconds from a text or from milliseconds since 1970-01-01.",
    ("to_timestamp_millis(1375273845500)", "2013-07-31 12:30:45.5"),
);

/// `to_timestamp_micros(value [, format ...])`
pub(super) const TO_TIMESTAMP_MICROS: FunctionSpec = converting(
    "to_timestamp_micros",
    |arguments| timestamp_signature(arguments, TimeUnit::Microsecond),
    |arguments, kind, rows| to_ticks(arguments, kind, rows, 1),
    "A timestamp of microseconds from a text or from microseconds since 1970-01-01.",
    ("to_timestamp_micros(1375273845500000)", "2013-07-31 12:30:45.5"),
);

/// `to_timestamp_nanos(value [, format ...])`
pub(super) const TO_TIMESTAMP_NANOS: FunctionSpec = converting(
    "to_timestamp_nanos",
    |arguments| timestamp_signature(arguments, TimeUnit::Nanosecond),
    |arguments, kind, rows| to_ticks(arguments, kind, rows, 1),
    "A timestamp of nanoseconds from a text or from nanoseconds since 1970-01-01.",
    ("to_timestamp_nanos(1375273845500000000)", "2013-07-31 12:30:45.5"),
);

/// `to_date(value [, format ...])`
pub(super) const TO_DATE: FunctionSpec = converting(
    "to_date",
    |arguments| {
        let given = match arguments {
            [value, formats @ ..] if has_formats(value, formats) => return with_formats(arguments, DataType::Date32),
            [value] => match value.kind {
                DataType::Date32 | DataType::Timestamp(..) | DataType::Null => DataType::Date32,
                DataType::Utf8View => instant_kind(TimeUnit::Microsecond),
                kind if kind.is_integer() => DataType::Int64,
                _ => return None,
            },
            _ => return None,
        };
        Some(CallKinds { arguments: vec![given], result: DataType::Date32 })
    },
    to_dates,
    "A date from a text, by one of several formats if they are given, or from days since 1970-01-01.",
    ("to_date('31.07.2013', 'DD.MM.YYYY')", "2013-07-31"),
);

/// `to_time(value [, format ...])`
pub(super) const TO_TIME: FunctionSpec = converting(
    "to_time",
    |arguments| match arguments {
        [value, formats @ ..] if has_formats(value, formats) => with_formats(arguments, TIME_KIND),
        [value] => {
            let fits = matches!(
                value.kind,
                DataType::Time64(_) | DataType::Timestamp(..) | DataType::Utf8View | DataType::Null
            );
            fits.then(|| CallKinds { arguments: vec![TIME_KIND], result: TIME_KIND })
        }
        _ => None,
    },
    |arguments, _, rows| match arguments {
        [value] => unary(value, rows, |values| Ok(values.clone())),
        _ => read_texts(arguments, &TIME_KIND, rows, |moment| Some(moment.nanos / 1_000)),
    },
    "A time of day from a text, by one of several formats if they are given, or from a timestamp.",
    ("to_time('12h30', 'HH24\"h\"MI')", "12:30:00"),
);

/// `to_unixtime(value [, format ...])`
pub(super) const TO_UNIXTIME: FunctionSpec = converting(
    "to_unixtime",
    |arguments| {
        let given = match arguments {
            [value, formats @ ..] if has_formats(value, formats) => return with_formats(arguments, DataType::Int64),
            [value] => match value.kind {
                kind @ (DataType::Timestamp(..) | DataType::Date32) => kind.clone(),
                DataType::Utf8View => instant_kind(TimeUnit::Second),
                DataType::Null => DataType::Int64,
                kind if kind.is_integer() => DataType::Int64,
                kind if is_number(kind) => DataType::Float64,
                _ => return None,
            },
            _ => return None,
        };
        Some(CallKinds { arguments: vec![given], result: DataType::Int64 })
    },
    to_seconds,
    "The whole seconds from 1970-01-01 to a date, timestamp or text, which is read by one of several formats if they \
     are \
     given. A number counts seconds.",
    ("to_unixtime(TIMESTAMP '2013-07-31 12:30:45')", "1375273845"),
);

/// `from_unixtime(seconds [, zone])`
pub(super) const FROM_UNIXTIME: FunctionSpec = converting(
    "from_unixtime",
    |arguments| {
        let fits = match arguments {
            [seconds] => is_count(seconds),
            [seconds, zone] => is_count(seconds) && matches!(zone.kind, DataType::Utf8View | DataType::Null),
            _ => false,
        };
        let kinds = [DataType::Int64, DataType::Utf8View];
        let result = DataType::Timestamp(TimeUnit::Second, None);
        fits.then(|| CallKinds { arguments: kinds[..arguments.len()].to_vec(), result })
    },
    from_seconds,
    "The timestamp a number of seconds after 1970-01-01: in UTC, or as a clock in a time zone shows it.",
    ("from_unixtime(1375273845)", "2013-07-31 12:30:45"),
);

fn is_count(argument: &ArgumentKind<'_>) -> bool {
    argument.kind.is_integer() || *argument.kind == DataType::Null
}

fn has_formats(value: &ArgumentKind<'_>, formats: &[ArgumentKind<'_>]) -> bool {
    let is_text = |argument: &ArgumentKind<'_>| matches!(argument.kind, DataType::Utf8View | DataType::Null);
    is_text(value) && !formats.is_empty() && formats.iter().all(is_text)
}

fn with_formats(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    Some(CallKinds { arguments: vec![DataType::Utf8View; arguments.len()], result })
}

fn timestamp_signature(arguments: &[ArgumentKind<'_>], unit: TimeUnit) -> Option<CallKinds> {
    let result = DataType::Timestamp(unit, None);
    let given = match arguments {
        [value, formats @ ..] if has_formats(value, formats) => return with_formats(arguments, result),
        [value] => match value.kind {
            DataType::Timestamp(..) | DataType::Date32 | DataType::Null => result.clone(),
            DataType::Utf8View => instant_kind(unit),
            kind if kind.is_integer() => DataType::Int64,
            kind if is_number(kind) => DataType::Float64,
            _ => return None,
        },
        _ => return None,
    };
    Some(CallKinds { arguments: vec![given], result })
}

/// Converts the arguments that `timestamp_signature` accepts to timestamps. A number counts units of `per_number`
/// ticks.
fn to_ticks(arguments: &[Operand], kind: &DataType, rows: usize, per_number: i64) -> Result<ArrayRef> {
    let per_day = units_per_day(unit_of(kind));
    let nulls = strict_nulls(arguments, rows);
    let in_calendar = |ticks: i64| {
        let is_inside = (FIRST_DAY..=LAST_DAY).contains(&ticks.div_euclid(per_day));
        is_inside.then_some(ticks)
    };
    let outside = || out_of_range("the timestamp");
    let ticks = match arguments[0].values.data_type() {
        DataType::Utf8View => return read_texts(arguments, kind, rows, |moment| ticks_of_moment(moment, per_day)),
        DataType::Int64 => {
            let numbers = slots::<Int64Type>(&arguments[0]);
            each_row(rows, nulls.as_ref(), |row| {
                numbers.at(row).checked_mul(per_number).and_then(in_calendar).ok_or_else(outside)
            })?
        }
        DataType::Float64 => {
            let numbers = slots::<Float64Type>(&arguments[0]);
            each_row(rows, nulls.as_ref(), |row| {
                let number = numbers.at(row);
                // A fraction of a unit is cut off; a fraction of a second becomes ticks.
                let ticks = if per_number == 1 { number.trunc() } else { (number * per_number as f64).round() };
                let fits = ticks.is_finite() && ticks.abs() < 9.2e18;
                fits.then_some(ticks as i64).and_then(in_calendar).ok_or_else(outside)
            })?
        }
        _ => {
            let ticks = tick_slots(&arguments[0]);
            (0..rows).map(|row| ticks.at(row)).collect()
        }
    };
    primitive(kind, ticks, nulls)
}

pub(super) fn ticks_of_moment(moment: ReadMoment, per_day: i64) -> Option<i64> {
    let in_day = moment.nanos / (86_400_000_000_000 / per_day);
    moment.day?.checked_mul(per_day)?.checked_add(in_day)
}

fn to_dates(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let outside = || out_of_range("the date");
    let day = |day: i64| (FIRST_DAY..=LAST_DAY).contains(&day).then_some(day as i32);
    let dates = match arguments[0].values.data_type() {
        DataType::Utf8View => return read_texts(arguments, kind, rows, |moment| moment.day.and_then(day)),
        DataType::Date32 => return unary(&arguments[0], rows, |values| Ok(values.clone())),
        DataType::Int64 => {
            let numbers = slots::<Int64Type>(&arguments[0]);
            each_row(rows, nulls.as_ref(), |row| day(numbers.at(row)).ok_or_else(outside))?
        }
        given => {
            let (ticks, per_day) = (tick_slots(&arguments[0]), units_per_day(unit_of(given)));
            each_row(rows, nulls.as_ref(), |row| day(ticks.at(row).div_euclid(per_day)).ok_or_else(outside))?
        }
    };
    primitive(kind, dates, nulls)
}

fn to_seconds(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let seconds = match arguments[0].values.data_type() {
        DataType::Utf8View => {
            return read_texts(arguments, kind, rows, |moment| ticks_of_moment(moment, SECONDS_PER_DAY));
        }
        DataType::Int64 => return unary(&arguments[0], rows, |values| Ok(values.clone())),
        DataType::Float64 => {
            let numbers = slots::<Float64Type>(&arguments[0]);
            each_row(rows, nulls.as_ref(), |row| {
                let seconds = numbers.at(row).trunc();
                let fits = seconds.is_finite() && seconds.abs() < 9.2e18;
                fits.then_some(seconds as i64).ok_or_else(|| out_of_range("the number of seconds"))
            })?
        }
        DataType::Date32 => {
            let dates = slots::<Date32Type>(&arguments[0]);
            (0..rows).map(|row| i64::from(dates.at(row)) * SECONDS_PER_DAY).collect()
        }
        given => {
            let (ticks, per_second) = (tick_slots(&arguments[0]), units_per_second(unit_of(given)));
            (0..rows).map(|row| ticks.at(row).div_euclid(per_second)).collect()
        }
    };
    primitive(kind, seconds, nulls)
}

fn from_seconds(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let seconds = slots::<Int64Type>(&arguments[0]);
    let outside = || out_of_range("the timestamp");
    let inside = |seconds: i64| (FIRST_DAY..=LAST_DAY).contains(&seconds.div_euclid(SECONDS_PER_DAY));
    let zones = arguments.get(1).map(|zones| (zones, zones.values.as_string_view()));
    let stamps = each_row(rows, nulls.as_ref(), |row| {
        let seconds = Some(seconds.at(row)).filter(|seconds| inside(*seconds)).ok_or_else(outside)?;
        match zones {
            Some((zones, names)) => shown_at(seconds, 1, zone_called(names.value(zones.at(row)))?).ok_or_else(outside),
            None => Ok(seconds),
        }
    })?;
    primitive(kind, stamps, nulls)
}

/// The formats of a call. Consecutive rows with the same format share one prepared format.
struct CallFormats<'a> {
    operand: &'a Operand,
    texts: &'a StringViewArray,
    last: Option<(usize, ReadFormat)>,
}

impl CallFormats<'_> {
    fn at(&mut self, row: usize) -> &ReadFormat {
        let at = self.operand.at(row);
        let is_known = self
            .last
            .as_ref()
            .is_some_and(|(known, _)| *known == at || self.texts.value(*known) == self.texts.value(at));
        if !is_known {
            self.last = Some((at, ReadFormat::new(self.texts.value(at))));
        }
        &self.last.as_ref().expect("the format of this row is known").1
    }
}

/// Reads texts with the first format that matches.
fn read_texts<N: Default + arrow::datatypes::ArrowNativeType>(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    value: impl Fn(ReadMoment) -> Option<N>,
) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let texts = arguments[0].values.as_string_view();
    let mut formats: Vec<CallFormats<'_>> = arguments[1..]
        .iter()
        .map(|operand| CallFormats { operand, texts: operand.values.as_string_view(), last: None })
        .collect();
    let values = each_row(rows, nulls.as_ref(), |row| {
        let text = texts.value(arguments[0].at(row));
        // Formats are tried in order; a format that reads an impossible date does not match.
        let mut moments = formats.iter_mut().filter_map(|format| format.at(row).read(text));
        moments.find_map(&value).ok_or_else(|| {
            let formats: Vec<String> = arguments[1..]
                .iter()
                .map(|format| format!("'{}'", format.values.as_string_view().value(format.at(row))))
                .collect();
            let message = format!("'{text}' cannot be read by the format {}", formats.join(" or "));
            Error::new(ErrorKind::InvalidDatetime, message)
        })
    })?;
    primitive(kind, values, nulls)
}

//! Functions that are named after the field of a date or time that they give: `year(t)` is `extract(year FROM t)`.

use rowmill_plan::FunctionSpec;
use rowmill_plan::function::{ArgumentKind, CallKinds};

use super::field::TimeField;
use super::part::{field_of_row, kinds_of, values_of};
use crate::functions::signatures::ordinary;

/// Makes the spec of the function of one field.
macro_rules! of_field {
    ($name:literal $aliases:expr, $field:ident, $doc:literal, $call:literal gives $result:literal) => {
        FunctionSpec {
            name: $name,
            aliases: &$aliases,
            signature: |arguments| of_value(arguments, TimeField::$field),
            kernel: |arguments, _, rows| values_of(TimeField::$field, &arguments[0], rows),
            row: Some(|arguments, kinds, _| field_of_row(TimeField::$field, arguments[0], &kinds[0])),
            doc: $doc,
            example: ($call, $result),
            ..ordinary("time")
        }
    };
}

fn of_value(arguments: &[ArgumentKind<'_>], field: TimeField) -> Option<CallKinds> {
    let [value] = arguments else { return None };
    let (kind, result) = kinds_of(field, value)?;
    Some(CallKinds { arguments: vec![kind], result })
}

/// The functions of fields.
pub(crate) static FIELDS: &[FunctionSpec] = &[
    of_field!("millennium" [], Millennium, "The millennium; the third one began with the year 2001.",
        "millennium(DATE '2013-07-31')" gives "3"),
    of_field!("century" [], Century, "The century; the 21st one began with the year 2001.",
        "century(DATE '2013-07-31')" gives "21"),
    of_field!("decade" [], Decade, "The year divided by 10.", "decade(DATE '2013-07-31')" gives "201"),
    of_field!("year" [], Year, "The year.", "year(DATE '2013-07-31')" gives "2013"),
    of_field!("isoyear" [], IsoYear, "The year that the ISO week of a date belongs to.",
        "isoyear(DATE '2012-01-01')" gives "2011"),
    of_field!("era" [], Era, "1 for a date since the year 1, 0 for one before it.", "era(DATE '2013-07-31')" gives "1"),
    of_field!("quarter" [], Quarter, "The quarter, from 1 to 4.", "quarter(DATE '2013-07-31')" gives "3"),
    of_field!("month" [], Month, "The month, from 1 to 12.", "month(DATE '2013-07-31')" gives "7"),
    of_field!("week" ["weekofyear"], Week, "The number of the ISO week.", "week(DATE '2013-07-31')" gives "31"),
    of_field!("yearweek" [], YearWeek, "The year and the number of the ISO week in one number.",
        "yearweek(DATE '2012-01-01')" gives "201152"),
    of_field!("day" ["dayofmonth"], Day, "The day of the month, or the days of an interval.",
        "day(DATE '2013-07-31')" gives "31"),
    of_field!("dayofweek" ["weekday"], DayOfWeek, "The day of the week, from 0 for Sunday to 6.",
        "dayofweek(DATE '2013-07-31')" gives "3"),
    of_field!("isodow" [], IsoDayOfWeek, "The day of the week, from 1 for Monday to 7.",
        "isodow(DATE '2013-08-04')" gives "7"),
    of_field!("dayofyear" [], DayOfYear, "The day of the year, from 1 to 366.",
        "dayofyear(DATE '2013-07-31')" gives "212"),
    of_field!("julian" [], Julian, "The Julian day, with the time of day as its fraction.",
        "julian(DATE '2013-07-31')" gives "2456505.0"),
    of_field!("hour" [], Hour, "The hour of the day, from 0 to 23, or the hours of an interval.",
        "hour(TIMESTAMP '2013-07-31 12:30:45')" gives "12"),
    of_field!("minute" [], Minute, "The minute, from 0 to 59.", "minute(TIME '12:30:45')" gives "30"),
    of_field!("second" [], Second, "The whole seconds, from 0 to 59.", "second(TIME '12:30:45.5')" gives "45"),
    of_field!("millisecond" [], Millisecond, "The milliseconds, with those of the seconds.",
        "millisecond(TIME '12:30:45.5')" gives "45500"),
    of_field!("microsecond" [], Microsecond, "The microseconds, with those of the seconds.",
        "microsecond(TIME '12:30:45.5')" gives "45500000"),
    of_field!("nanosecond" [], Nanosecond, "The nanoseconds, with those of the seconds.",
        "nanosecond(TIME '12:30:45.5')" gives "45500000000"),
    of_field!("epoch" [], Epoch, "The seconds since 1970-01-01, or those of a time or an interval.",
        "epoch(TIMESTAMP '2013-07-31 12:30:45')" gives "1375273845.0"),
    of_field!("timezone_hour" [], ZoneHour, "The hours of the offset in which an instant is shown, which is UTC.",
        "timezone_hour(TIMESTAMPTZ '2013-07-31 12:30:45Z')" gives "0"),
    of_field!("timezone_minute" [], ZoneMinute, "The minutes of the offset in which an instant is shown.",
        "timezone_minute(TIMESTAMPTZ '2013-07-31 12:30:45Z')" gives "0"),
];

//! Tests of the kernels for dates, times and timestamps.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampSecondType,
};
use rowmill_base::{ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{Constant, Operand};

use super::calendar::{MICROS_PER_DAY, days_of_date};
use crate::functions::find;

fn kinds_of(name: &str, arguments: &[Operand]) -> Option<CallKinds> {
    let constants: Vec<Option<Constant>> =
        arguments.iter().map(|operand| operand.is_constant.then(|| Constant::new(operand.values.clone()))).collect();
    let kinds: Vec<ArgumentKind<'_>> = arguments
        .iter()
        .zip(&constants)
        .map(|(operand, constant)| ArgumentKind { kind: operand.values.data_type(), constant: constant.as_ref() })
        .collect();
    (find(name).unwrap_or_else(|| panic!("no function {name}")).signature)(&kinds)
}

/// Calls a function with arguments that need no cast.
fn call(name: &str, arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
    let kinds = kinds_of(name, arguments).unwrap_or_else(|| panic!("{name} does not take {arguments:?}"));
    for (given, asked) in arguments.iter().zip(&kinds.arguments) {
        assert_eq!(given.values.data_type(), asked, "{name}");
    }
    let made = (find(name).unwrap().kernel)(arguments, &kinds.result, rows)?;
    assert_eq!(made.data_type(), &kinds.result, "{name}");
    assert_eq!(made.len(), rows, "{name}");
    Ok(made)
}

fn text(value: &str) -> Operand {
    Operand::constant(Arc::new(StringViewArray::from(vec![value])))
}

fn texts(values: Vec<Option<&str>>) -> Operand {
    Operand::rows(Arc::new(StringViewArray::from(values)))
}

fn micros(year: i64, month: u32, day: u32, rest: i64) -> i64 {
    days_of_date(year, month, day) * MICROS_PER_DAY + rest
}

fn stamps(values: &[i64]) -> Operand {
    Operand::rows(Arc::new(TimestampMicrosecondArray::from(values.to_vec())))
}

fn dates(values: &[(i64, u32, u32)]) -> Operand {
    let days = values.iter().map(|(year, month, day)| days_of_date(*year, *month, *day) as i32);
    Operand::rows(Arc::new(Date32Array::from_iter_values(days)))
}

fn part(field: &str, of: &Operand) -> Vec<Option<i32>> {
    let made = call("date_part", &[text(field), of.clone()], of.values.len()).unwrap();
    made.as_primitive::<Int32Type>().iter().collect()
}

fn stamped(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<TimestampMicrosecondType>().iter().collect()
}

fn read(array: &ArrayRef) -> Vec<Option<&str>> {
    array.as_string_view().iter().collect()
}

/// 23:59:59.987654 in microseconds.
const LATE: i64 = ((23 * 60 + 59) * 60 + 59) * 1_000_000 + 987_654;

#[test]
fn fields_of_timestamps_on_both_sides_of_1970() {
    let both = stamps(&[micros(2013, 7, 31, LATE), micros(1969, 12, 31, LATE)]);
    for (field, after, before) in [
        ("year", 2013, 1969),
        ("MONTH", 7, 12),
        ("day", 31, 31),
        ("hour", 23, 23),
        ("minute", 59, 59),
        ("second", 59, 59),
        ("milliseconds", 59_987, 59_987),
        ("microsecond", 59_987_654, 59_987_654),
        ("dow", 3, 3),
        ("isodow", 3, 3),
        ("doy", 212, 365),
        ("week", 31, 1),
        ("isoyear", 2013, 1970),
        ("quarter", 3, 4),
        ("decade", 201, 196),
        ("century", 21, 20),
        ("millennium", 3, 2),
    ] {
        assert_eq!(part(field, &both), [Some(after), Some(before)], "{field}");
    }
    let epoch = call("date_part", &[text("epoch"), both.clone()], 2).unwrap();
    assert_eq!(epoch.as_primitive::<Float64Type>().value(1), -0.012346);
    let nanos = call("date_part", &[text("nanosecond"), both], 2).unwrap();
    assert_eq!(nanos.as_primitive::<Int64Type>().value(0), 59_987_654_000);
}

#[test]
fn fields_of_dates_and_nulls() {
    let some = dates(&[(2012, 2, 29), (2000, 12, 31), (1900, 1, 1), (1, 1, 1), (0, 12, 31), (-99, 6, 1)]);
    assert_eq!(part("year", &some), [2012, 2000, 1900, 1, 0, -99].map(Some));
    assert_eq!(part("doy", &some), [60, 366, 1, 1, 366, 152].map(Some));
    assert_eq!(part("century", &some), [21, 20, 19, 1, -1, -1].map(Some));
    assert_eq!(part("hour", &some), [0; 6].map(Some));
    let nulls = Operand::rows(Arc::new(Date32Array::from(vec![None, Some(0)])));
    assert_eq!(part("isodow", &nulls), [None, Some(4)]);
    assert_eq!(part("year", &Operand::rows(Arc::new(Date32Array::from(Vec::<i32>::new())))), []);
    let one = Operand::constant(Arc::new(Date32Array::from(vec![0])));
    let made = call("date_part", &[text("year"), one], 3).unwrap();
    assert_eq!(made.as_primitive::<Int32Type>().values(), &[1970, 1970, 1970]);
}

#[test]
fn fields_of_intervals_and_times() {
    let interval = IntervalMonthDayNano::new(27, 10, 3_600_000_000_000 * 30 + 61_500_000_000);
    let years = IntervalMonthDayNano::new(24, 0, 0);
    let some = Operand::rows(Arc::new(IntervalMonthDayNanoArray::from(vec![Some(interval), Some(years), None])));
    for (field, value) in [("year", 2), ("month", 3), ("day", 10), ("hour", 30), ("minute", 1), ("second", 1)] {
        assert_eq!(part(field, &some)[0], Some(value), "{field}");
    }
    let epoch = call("date_part", &[text("epoch"), some.clone()], 3).unwrap();
    assert_eq!(epoch.as_primitive::<Float64Type>().value(1), 63_115_200.0);
    assert!(epoch.is_null(2));
    let time = Operand::rows(Arc::new(Time64MicrosecondArray::from(vec![LATE])));
    assert_eq!(part("ms", &time), [Some(59_987)]);
    assert!(kinds_of("date_part", &[text("year"), time]).is_none());
    assert!(kinds_of("date_part", &[text("dow"), some]).is_none());
    assert!(kinds_of("date_part", &[text("fortnight"), stamps(&[])]).is_none());
    assert!(kinds_of("date_part", &[texts(vec![Some("year")]), stamps(&[0])]).is_none());
}

#[test]
fn truncation_rounds_down() {
    let both = stamps(&[micros(2013, 8, 31, LATE), micros(1969, 12, 31, LATE)]);
    let hours = 23 * 3_600_000_000;
    for (field, after, before) in [
        ("millisecond", micros(2013, 8, 31, LATE - 654), micros(1969, 12, 31, LATE - 654)),
        ("second", micros(2013, 8, 31, LATE - 987_654), micros(1969, 12, 31, LATE - 987_654)),
        ("hour", micros(2013, 8, 31, hours), micros(1969, 12, 31, hours)),
        ("day", micros(2013, 8, 31, 0), micros(1969, 12, 31, 0)),
        ("week", micros(2013, 8, 26, 0), micros(1969, 12, 29, 0)),
        ("month", micros(2013, 8, 1, 0), micros(1969, 12, 1, 0)),
        ("quarter", micros(2013, 7, 1, 0), micros(1969, 10, 1, 0)),
        ("year", micros(2013, 1, 1, 0), micros(1969, 1, 1, 0)),
        ("decade", micros(2010, 1, 1, 0), micros(1960, 1, 1, 0)),
        ("century", micros(2001, 1, 1, 0), micros(1901, 1, 1, 0)),
        ("millennium", micros(2001, 1, 1, 0), micros(1001, 1, 1, 0)),
    ] {
        let made = call("date_trunc", &[text(field), both.clone()], 2).unwrap();
        assert_eq!(stamped(&made), [Some(after), Some(before)], "{field}");
    }
    let seconds = Operand::rows(Arc::new(TimestampSecondArray::from(vec![Some(-1), None])) as ArrayRef);
    let made = call("date_trunc", &[text("minute"), seconds], 2).unwrap();
    assert_eq!(made.as_primitive::<TimestampSecondType>().iter().collect::<Vec<_>>(), [Some(-60), None]);
    let least =
        Operand::rows(Arc::new(TimestampNanosecondArray::from(vec![i64::MIN]).with_timezone("UTC")) as ArrayRef);
    assert!(call("date_trunc", &[text("year"), least], 1).is_ok());
    let interval = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(27, 10, 1)]);
    let made = call("date_trunc", &[text("year"), Operand::rows(Arc::new(interval))], 1).unwrap();
    assert_eq!(made.as_primitive::<IntervalMonthDayNanoType>().value(0), IntervalMonthDayNano::new(24, 0, 0));
    let day = Operand::rows(Arc::new(Date32Array::from(vec![0])));
    assert_eq!(kinds_of("date_trunc", &[text("day"), day]).unwrap().result, super::columns::TIMESTAMP_KIND);
}

#[test]
fn strides_begin_at_the_origin() {
    let stride = |months: i32, days: i32, nanos: i64| {
        Operand::constant(Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(
            months, days, nanos,
        )])) as ArrayRef)
    };
    let minute = 60_000_000;
    let both = stamps(&[micros(2013, 7, 31, 760 * minute), micros(1969, 12, 31, 5 * minute)]);
    let quarter = stride(0, 0, 15 * 60_000_000_000);
    let made = call("date_bin", &[quarter.clone(), both.clone()], 2).unwrap();
    assert_eq!(stamped(&made), [Some(micros(2013, 7, 31, 750 * minute)), Some(micros(1969, 12, 31, 0))]);
    let origin = Operand::constant(Arc::new(TimestampMicrosecondArray::from(vec![minute])) as ArrayRef);
    let made = call("date_bin", &[quarter.clone(), both.clone(), origin], 2).unwrap();
    assert_eq!(stamped(&made), [Some(micros(2013, 7, 31, 751 * minute)), Some(micros(1969, 12, 31, minute))]);
    let middle = Operand::constant(Arc::new(TimestampMicrosecondArray::from(vec![micros(2000, 1, 15, 0)])) as ArrayRef);
    let some = stamps(&[micros(2013, 3, 14, 0), micros(2013, 3, 15, 0), micros(1999, 12, 31, 0)]);
    let made = call("date_bin", &[stride(1, 0, 0), some, middle], 3).unwrap();
    assert_eq!(stamped(&made), [micros(2013, 2, 15, 0), micros(2013, 3, 15, 0), micros(1999, 12, 15, 0)].map(Some));
    let seconds = Operand::rows(Arc::new(TimestampSecondArray::from(vec![-1, 4])) as ArrayRef);
    let made = call("date_bin", &[stride(0, 0, 1_500_000_000), seconds], 2).unwrap();
    assert_eq!(made.as_primitive::<TimestampSecondType>().values(), &[-2, 3]);
    let time = Operand::rows(Arc::new(Time64MicrosecondArray::from(vec![LATE])));
    let made = call("date_bin", &[quarter, time], 1).unwrap();
    assert_eq!(made.as_primitive::<Time64MicrosecondType>().value(0), (23 * 60 + 45) * minute);
    for wrong in [stride(0, 0, 0), stride(0, -1, 0), stride(1, 1, 0)] {
        let error = call("date_bin", &[wrong, both.clone()], 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    }
}

#[test]
fn dates_and_times_are_made_from_their_parts() {
    let numbers = |values: Vec<Option<i32>>| Operand::rows(Arc::new(Int32Array::from(values)) as ArrayRef);
    let number = |value: i32| Operand::constant(Arc::new(Int32Array::from(vec![value])) as ArrayRef);
    let second = |value: f64| Operand::constant(Arc::new(Float64Array::from(vec![value])) as ArrayRef);
    let made = call("make_date", &[numbers(vec![Some(2012), None]), number(2), number(29)], 2).unwrap();
    let expected = [Some(days_of_date(2012, 2, 29) as i32), None];
    assert_eq!(made.as_primitive::<Date32Type>().iter().collect::<Vec<_>>(), expected);
    for (year, month, day) in [(2013, 2, 29), (2013, 13, 1), (2013, 0, 1), (2013, 1, -1), (i32::MAX, 1, 1)] {
        let error = call("make_date", &[number(year), number(month), number(day)], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    }
    let made = call("make_time", &[number(23), number(59), second(59.987654)], 1).unwrap();
    assert_eq!(made.as_primitive::<Time64MicrosecondType>().value(0), LATE);
    for (hour, minute, seconds) in [(24, 0, 0.0), (0, 60, 0.0), (0, 0, 60.0), (0, 0, f64::NAN), (0, 0, 59.9999999)] {
        assert!(call("make_time", &[number(hour), number(minute), second(seconds)], 1).is_err());
    }
}

#[test]
fn to_char_writes_patterns_of_postgresql() {
    let evening = micros(2013, 7, 3, LATE - 10 * 3_600_000_000);
    let written = |pattern: &str| {
        let made = call("to_char", &[stamps(&[evening]), text(pattern)], 1).unwrap();
        made.as_string_view().value(0).to_owned()
    };
    for (pattern, expected) in [
        ("YYYY-MM-DD", "2013-07-03"),
        ("YYYY-MM-DD HH24:MI:SS.US", "2013-07-03 13:59:59.987654"),
        ("yyyy/mm/dd hh:mi am", "2013/07/03 01:59 pm"),
        ("FMMonth FMDDth, YYYY", "July 3rd, 2013"),
        ("[Month] [MON] [dy] [DAY]", "[July     ] [JUL] [wed] [WEDNESDAY]"),
        ("\"Day\" DDD \\\"Q WW IW IYYY", "Day 184 \"3 27 27 2013"),
        ("YY Y,YYY CC J RM SSSS D ID W", "13 2,013 21 2456477 VII  50399 4 3 1"),
        ("MS FF3 FF1 HH12 P.M. BC", "987 987 9 01 P.M. AD"),
        ("TZ", ""),
        ("", ""),
        ("größer", "größer"),
    ] {
        assert_eq!(written(pattern), expected, "{pattern}");
    }
    let instant = Operand::rows(Arc::new(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC")) as ArrayRef);
    assert_eq!(read(&call("to_char", &[instant.clone(), text("HH24 TZ OF")], 1).unwrap()), [Some("00 UTC +00")]);
    assert_eq!(read(&call("to_char", &[instant, text("%H %z")], 1).unwrap()), [Some("00 +0000")]);
    let ancient = dates(&[(0, 12, 31), (-43, 3, 15)]);
    let made = call("to_char", &[ancient, text("YYYY BC")], 2).unwrap();
    assert_eq!(read(&made), [Some("0001 BC"), Some("0044 BC")]);
}

#[test]
fn to_char_writes_strftime_formats_and_formats_of_each_row() {
    let made = call("to_char", &[dates(&[(2020, 9, 1), (2020, 9, 2)]), text("%Y::%m::%d %S::%M::%H %f")], 2).unwrap();
    assert_eq!(read(&made), [Some("2020::09::01 00::00::00 000000000"), Some("2020::09::02 00::00::00 000000000")]);
    let formats = texts(vec![Some("%Y"), None, Some("MM"), Some("MM")]);
    let made = call("to_char", &[dates(&[(2020, 9, 1); 4]), formats], 4).unwrap();
    assert_eq!(read(&made), [Some("2020"), None, Some("09"), Some("09")]);
    for wrong in ["%Q1", "%z"] {
        let error = call("to_char", &[stamps(&[0]), text(wrong)], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParameter, "{wrong}");
    }
    let time = Operand::rows(Arc::new(Time64MicrosecondArray::from(vec![LATE])));
    assert_eq!(read(&call("to_char", &[time.clone(), text("HH24-MI")], 1).unwrap()), [Some("23-59")]);
    assert_eq!(read(&call("to_char", &[time.clone(), text("%H-%M")], 1).unwrap()), [Some("23-59")]);
    assert!(call("to_char", &[time, text("%Y")], 1).is_err());
}

#[test]
fn strftime_writes_what_its_library_writes() {
    let format = "<%Y-%m-%d %H:%M:%S %j> %T %F";
    let days = [(0, 12, 31), (1, 1, 1), (99, 2, 28), (1969, 12, 31), (2020, 2, 29), (9999, 12, 31), (10_000, 1, 1)];
    let of_day = |second: i64| (second * 1_000_000).min(MICROS_PER_DAY - 1);
    let moments = days.iter().flat_map(|(year, month, day)| {
        let start = days_of_date(*year, *month, *day) * MICROS_PER_DAY;
        [0, 1, 59, 3_599, 3_600, 43_199, 86_399, 86_400].map(|second| start + of_day(second))
    });
    let moments: Vec<i64> = moments.collect();
    let made = call("strftime", &[stamps(&moments), text(format)], moments.len()).unwrap();
    for (moment, written) in moments.iter().zip(read(&made)) {
        let expected = chrono::DateTime::from_timestamp_micros(*moment).unwrap().naive_utc().format(format).to_string();
        assert_eq!(written, Some(expected.as_str()), "{moment}");
    }
}

#[test]
fn texts_are_read_by_formats() {
    for (given, format, expected) in [
        ("31.07.2013", "DD.MM.YYYY", Some((2013, 7, 31))),
        ("20130731", "YYYYMMDD", Some((2013, 7, 31))),
        ("5 Feb 69", "DD Mon YY", Some((2069, 2, 5))),
        ("February 29, 2012", "Month DD, YYYY", Some((2012, 2, 29))),
        ("2012 366", "YYYY DDD", Some((2012, 12, 31))),
        ("2004-53-6", "IYYY-IW-ID", Some((2005, 1, 1))),
        ("2456477", "J", Some((2013, 7, 3))),
        ("44 BC 3 15", "YYYY BC MM DD", Some((-43, 3, 15))),
        ("2013-07-31", "%Y-%m-%d", Some((2013, 7, 31))),
        ("2013-07-31 23:30 -0200", "%Y-%m-%d %H:%M %z", Some((2013, 8, 1))),
        ("2013-02-29", "YYYY-MM-DD", None),
        ("2013-13-01", "YYYY-MM-DD", None),
        ("soon", "YYYY-MM-DD", None),
        ("2013-02-29", "%Y-%m-%d", None),
        ("12:30", "HH24:MI", None),
        ("x", "%Q", None),
    ] {
        let made = call("to_date", &[texts(vec![Some(given)]), text(format)], 1);
        match expected {
            Some((year, month, day)) => {
                let made = made.unwrap_or_else(|error| panic!("{given}: {error}"));
                assert_eq!(
                    made.as_primitive::<Date32Type>().value(0),
                    days_of_date(year, month, day) as i32,
                    "{given}"
                );
            }
            None => assert_eq!(made.unwrap_err().kind(), ErrorKind::InvalidDatetime, "{given}"),
        }
    }
    let several = [
        texts(vec![Some("01-14-2023 01:01:30+05:30"), None]),
        text("%q"),
        text("%d-%m-%Y"),
        text("%m-%d-%Y %H:%M:%S%#z"),
    ];
    let made = call("to_unixtime", &several, 2).unwrap();
    assert_eq!(made.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1_673_638_290), None]);
    let made =
        call("to_timestamp", &[texts(vec![Some("2013-07-31 01:02:03.5 PM")]), text("YYYY-MM-DD HH12:MI:SS.MS AM")], 1);
    assert_eq!(stamped(&made.unwrap()), [Some(micros(2013, 7, 31, 46_923_500_000))]);
    let made = call("to_time", &[text("12h30"), text("HH24\"h\"MI")], 2).unwrap();
    assert_eq!(made.as_primitive::<Time64MicrosecondType>().values(), &[45_000_000_000; 2]);
}

#[test]
fn numbers_are_read_as_points_in_time() {
    let integers = |values: Vec<i64>| Operand::rows(Arc::new(Int64Array::from(values)) as ArrayRef);
    let floats = |values: Vec<f64>| Operand::rows(Arc::new(Float64Array::from(values)) as ArrayRef);
    assert_eq!(
        stamped(&call("to_timestamp", &[integers(vec![1, -1])], 2).unwrap()),
        [Some(1_000_000), Some(-1_000_000)]
    );
    assert_eq!(
        stamped(&call("to_timestamp", &[floats(vec![1.5, -0.25])], 2).unwrap()),
        [Some(1_500_000), Some(-250_000)]
    );
    assert_eq!(stamped(&call("to_timestamp_micros", &[integers(vec![7])], 1).unwrap()), [Some(7)]);
    let made = call("to_timestamp_seconds", &[floats(vec![7.9])], 1).unwrap();
    assert_eq!(made.as_primitive::<TimestampSecondType>().value(0), 7);
    for wrong in [integers(vec![i64::MAX]), floats(vec![f64::NAN]), floats(vec![1e300])] {
        let error = call("to_timestamp", &[wrong], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    }
    assert_eq!(call("to_date", &[integers(vec![-1])], 1).unwrap().as_primitive::<Date32Type>().value(0), -1);
    let made = call("to_unixtime", &[stamps(&[-1, 1_999_999])], 2).unwrap();
    assert_eq!(made.as_primitive::<Int64Type>().values(), &[-1, 1]);
    let made = call("from_unixtime", &[integers(vec![1_375_273_845]), text("+02:00")], 1).unwrap();
    assert_eq!(made.as_primitive::<TimestampSecondType>().value(0), 1_375_273_845 + 7_200);
    // A text without a format is cast as an instant, and the result is a timestamp.
    let kinds = kinds_of("to_timestamp", &[texts(vec![])]).unwrap();
    assert_eq!(kinds.arguments, [super::columns::instant_kind(TimeUnit::Microsecond)]);
    assert_eq!(kinds.result, DataType::Timestamp(TimeUnit::Microsecond, None));
}

#[test]
fn instants_convert_to_clock_times_in_zones_and_back() {
    let noon = MICROS_PER_DAY / 2;
    let hour = 3_600_000_000;
    let local = stamps(&[micros(2013, 7, 31, noon), micros(2013, 1, 31, noon)]);
    let made = call("timestamp_at_zone", &[local.clone(), text("Europe/Berlin")], 2).unwrap();
    assert_eq!(stamped(&made), [micros(2013, 7, 31, noon - 2 * hour), micros(2013, 1, 31, noon - hour)].map(Some));
    let instants = Operand::rows(made);
    let back = call("instant_at_zone", &[instants.clone(), text("Europe/Berlin")], 2).unwrap();
    assert_eq!(stamped(&back), [micros(2013, 7, 31, noon), micros(2013, 1, 31, noon)].map(Some));
    let zones = texts(vec![Some("-03:30"), None]);
    let made = call("timezone", &[zones, instants], 2).unwrap();
    assert_eq!(stamped(&made), [Some(micros(2013, 7, 31, noon - 2 * hour - 7 * hour / 2)), None]);
    // The clock is set forward at 02:00, and back at 03:00.
    let edges = stamps(&[micros(2013, 3, 31, 5 * hour / 2), micros(2013, 10, 27, 5 * hour / 2)]);
    let made = call("timestamp_at_zone", &[edges, text("Europe/Berlin")], 2).unwrap();
    assert_eq!(stamped(&made), [micros(2013, 3, 31, 3 * hour / 2), micros(2013, 10, 27, hour / 2)].map(Some));
    let error = call("timestamp_at_zone", &[local, text("Mars/Olympus")], 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
}

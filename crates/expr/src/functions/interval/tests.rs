//! Tests of the kernels for dates, times and intervals.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use rowmill_base::ErrorKind;
use rowmill_plan::Operand;
use rowmill_plan::function::ArgumentKind;

use crate::functions::find;
use crate::functions::time::calendar::{MICROS_PER_DAY, days_of_date};
use crate::functions::time::columns::{INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND};

fn call(name: &str, kind: &DataType, arguments: &[Operand], rows: usize) -> rowmill_base::Result<ArrayRef> {
    let function = find(name).unwrap_or_else(|| panic!("no function {name}"));
    (function.kernel)(arguments, kind, rows)
}

fn interval(months: i32, days: i32, nanos: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(months, days, nanos)
}

fn intervals(values: Vec<Option<IntervalMonthDayNano>>) -> ArrayRef {
    Arc::new(IntervalMonthDayNanoArray::from(values))
}

fn one(value: IntervalMonthDayNano) -> Operand {
    Operand::constant(intervals(vec![Some(value)]))
}

fn micros(year: i64, month: u32, day: u32, rest: i64) -> i64 {
    days_of_date(year, month, day) * MICROS_PER_DAY + rest
}

fn stamps(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values))
}

const NOON: i64 = MICROS_PER_DAY / 2;
const HOUR: i64 = 3_600_000_000_000;

#[test]
fn months_are_added_before_days_and_end_at_the_last_day() {
    let from = stamps(vec![Some(micros(2013, 1, 31, NOON)), None, Some(micros(1968, 1, 31, NOON))]);
    let plus = one(interval(1, 1, 1_000_000_000));
    let moved = call("timestamp_plus_interval", &TIMESTAMP_KIND, &[Operand::rows(from), plus], 3).unwrap();
    let moved: Vec<_> = moved.as_primitive::<TimestampMicrosecondType>().iter().collect();
    let second = 1_000_000;
    assert_eq!(moved, [Some(micros(2013, 3, 1, NOON + second)), None, Some(micros(1968, 3, 1, NOON + second))]);

    let from = Operand::constant(stamps(vec![Some(micros(2012, 2, 29, 0))]));
    let years = intervals(vec![Some(interval(12, 0, 0)), None, Some(interval(-48, 0, 0))]);
    let moved = call("timestamp_minus_interval", &TIMESTAMP_KIND, &[from, Operand::rows(years)], 3).unwrap();
    let moved: Vec<_> = moved.as_primitive::<TimestampMicrosecondType>().iter().collect();
    assert_eq!(moved, [Some(micros(2011, 2, 28, 0)), None, Some(micros(2016, 2, 29, 0))]);
}

#[test]
fn every_unit_shifts_and_rounds_down_to_its_ticks() {
    let kind = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, None);
    let from = Operand::rows(Arc::new(TimestampSecondArray::from(vec![0, -1])) as ArrayRef);
    let half = one(interval(0, 0, 500_000_000));
    let moved = call("timestamp_plus_interval", &kind, &[from.clone(), half.clone()], 2).unwrap();
    assert_eq!(moved.as_primitive::<TimestampSecondType>().values(), &[0, -1]);
    let moved = call("timestamp_minus_interval", &kind, &[from, half], 2).unwrap();
    assert_eq!(moved.as_primitive::<TimestampSecondType>().values(), &[-1, -2]);

    let kind = DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some("UTC".into()));
    let from = TimestampNanosecondArray::from(vec![5]).with_timezone("UTC");
    let moved = call("timestamp_plus_interval", &kind, &[Operand::rows(Arc::new(from)), one(interval(0, 1, 1))], 1);
    let moved = moved.unwrap();
    assert_eq!(moved.data_type(), &kind);
    assert_eq!(moved.as_primitive::<TimestampNanosecondType>().values(), &[86_400_000_000_006]);
}

#[test]
fn results_beyond_the_calendar_are_errors() {
    let last = micros(9999, 12, 31, 0);
    for plus in [interval(300_000 * 12, 0, 0), interval(0, i32::MAX, 0)] {
        for from in [Operand::rows(stamps(vec![Some(last)])), Operand::constant(stamps(vec![Some(last)]))] {
            let error = call("timestamp_plus_interval", &TIMESTAMP_KIND, &[from, one(plus)], 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
        }
    }
    // A NULL must not cause an error, whatever its slot contains.
    let far = TimestampMicrosecondArray::new(vec![i64::MAX, 0].into(), Some(vec![false, true].into()));
    let moved =
        call("timestamp_plus_interval", &TIMESTAMP_KIND, &[Operand::rows(Arc::new(far)), one(interval(0, 1, 0))], 2);
    let moved: Vec<_> = moved.unwrap().as_primitive::<TimestampMicrosecondType>().iter().collect();
    assert_eq!(moved, [None, Some(MICROS_PER_DAY)]);
    let date = Operand::rows(Arc::new(Date32Array::from(vec![days_of_date(9999, 12, 31) as i32])));
    for days in [2_000_000_000, i64::MAX] {
        let days = Operand::constant(Arc::new(Int64Array::from(vec![days])));
        let error = call("date_plus_days", &DataType::Date32, &[date.clone(), days], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    }
}

#[test]
fn dates_move_by_days_and_differ_in_days() {
    let dates = Operand::rows(Arc::new(Date32Array::from(vec![Some(0), None, Some(-1)])));
    let days = Operand::constant(Arc::new(Int64Array::from(vec![31])));
    let moved = call("date_minus_days", &DataType::Date32, &[dates.clone(), days], 3).unwrap();
    assert_eq!(moved.as_primitive::<Date32Type>().iter().collect::<Vec<_>>(), [Some(-31), None, Some(-32)]);
    let other = Operand::constant(Arc::new(Date32Array::from(vec![i32::MIN])));
    let between = call("date_minus_date", &DataType::Int64, &[dates, other], 3).unwrap();
    let between: Vec<_> = between.as_primitive::<Int64Type>().iter().collect();
    assert_eq!(between, [Some(1 << 31), None, Some((1 << 31) - 1)]);
}

#[test]
fn the_difference_of_timestamps_is_days_and_time() {
    let left = Operand::rows(stamps(vec![Some(micros(2013, 7, 31, NOON)), Some(micros(2013, 7, 1, 0)), None]));
    let right = Operand::constant(stamps(vec![Some(micros(2013, 7, 1, 0))]));
    let between = call("timestamp_minus_timestamp", &INTERVAL_KIND, &[left.clone(), right.clone()], 3).unwrap();
    let between: Vec<_> = between.as_primitive::<IntervalMonthDayNanoType>().iter().collect();
    assert_eq!(between, [Some(interval(0, 30, 12 * HOUR)), Some(interval(0, 0, 0)), None]);
    let back = call("timestamp_minus_timestamp", &INTERVAL_KIND, &[right, left], 3).unwrap();
    assert_eq!(back.as_primitive::<IntervalMonthDayNanoType>().value(0), interval(0, -30, -12 * HOUR));
    let nothing = Operand::rows(stamps(vec![]));
    let none = call("timestamp_minus_timestamp", &INTERVAL_KIND, &[nothing.clone(), nothing], 0).unwrap();
    assert_eq!(none.len(), 0);
}

#[test]
fn times_wrap_around_midnight() {
    let times = Operand::rows(Arc::new(Time64MicrosecondArray::from(vec![Some(NOON), None, Some(0)])));
    let half_a_day = one(interval(1, 1, 12 * HOUR + 1));
    let later = call("time_plus_interval", &TIME_KIND, &[times.clone(), half_a_day.clone()], 3).unwrap();
    assert_eq!(
        later.as_primitive::<arrow::datatypes::Time64MicrosecondType>().iter().collect::<Vec<_>>(),
        [Some(0), None, Some(NOON)]
    );
    let earlier = call("time_minus_interval", &TIME_KIND, &[times.clone(), one(interval(0, 0, i64::MIN))], 3).unwrap();
    assert!(earlier.is_valid(0));
    let midnight = Operand::constant(Arc::new(Time64MicrosecondArray::from(vec![0])));
    let between = call("time_minus_time", &INTERVAL_KIND, &[midnight, times], 3).unwrap();
    assert_eq!(between.as_primitive::<IntervalMonthDayNanoType>().value(0), interval(0, 0, -12 * HOUR));
}

#[test]
fn intervals_multiply_and_divide_by_numbers() {
    let values = |array: ArrayRef| array.as_primitive::<IntervalMonthDayNanoType>().iter().collect::<Vec<_>>();
    let some = Operand::rows(intervals(vec![Some(interval(3, 1, HOUR)), None]));
    let by_integer = |number: i64| Operand::constant(Arc::new(Int64Array::from(vec![number])) as ArrayRef);
    let by_float = |number: f64| Operand::constant(Arc::new(Float64Array::from(vec![number])) as ArrayRef);

    let twice = call("interval_times_number", &INTERVAL_KIND, &[some.clone(), by_integer(2)], 2).unwrap();
    assert_eq!(values(twice), [Some(interval(6, 2, 2 * HOUR)), None]);
    let half = call("interval_times_number", &INTERVAL_KIND, &[some.clone(), by_float(0.5)], 2).unwrap();
    assert_eq!(values(half), [Some(interval(1, 15, 12 * HOUR + HOUR / 2)), None]);
    let half = call("interval_divided_by_number", &INTERVAL_KIND, &[some.clone(), by_float(2.0)], 2).unwrap();
    assert_eq!(values(half), [Some(interval(1, 15, 12 * HOUR + HOUR / 2)), None]);
    let third = one(interval(0, 1, 0));
    let third = call("interval_divided_by_number", &INTERVAL_KIND, &[third, by_float(3.0)], 1).unwrap();
    assert_eq!(values(third), [Some(interval(0, 0, 8 * HOUR))]);
    let back = call("negate_interval", &INTERVAL_KIND, std::slice::from_ref(&some), 2).unwrap();
    assert_eq!(values(back), [Some(interval(-3, -1, -HOUR)), None]);

    for number in [0.0, -0.0] {
        let error = call("interval_divided_by_number", &INTERVAL_KIND, &[some.clone(), by_float(number)], 2);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::DivisionByZero);
    }
    for number in [f64::NAN, f64::INFINITY, 1e18] {
        let error = call("interval_times_number", &INTERVAL_KIND, &[some.clone(), by_float(number)], 2);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NumericOutOfRange);
    }
    let least = one(interval(i32::MIN, 0, 0));
    assert!(call("negate_interval", &INTERVAL_KIND, &[least], 1).is_err());
}

#[test]
fn operands_convert_to_the_finer_unit_and_the_zone() {
    let seconds = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, Some("UTC".into()));
    let arguments = [&seconds, &TIMESTAMP_KIND].map(|kind| ArgumentKind { kind, constant: None });
    let kinds = (find("timestamp_minus_timestamp").unwrap().signature)(&arguments).unwrap();
    let instant = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(kinds.arguments, [instant.clone(), instant]);
    let dates = [&DataType::Date32, &INTERVAL_KIND].map(|kind| ArgumentKind { kind, constant: None });
    let kinds = (find("timestamp_plus_interval").unwrap().signature)(&dates).unwrap();
    assert_eq!(kinds.result, TIMESTAMP_KIND);
}

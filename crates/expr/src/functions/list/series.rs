//! `range` and `generate_series` as lists.

use arrow::array::ArrayRef;
use arrow::array::NullBufferBuilder;
use arrow::datatypes::{DataType, Date32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::access::is_integer;
use super::maker::{check_size, list_of, lists_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::calendar::{NANOS_PER_DAY, add_months, units_per_day};
use crate::functions::time::columns::{
    INTERVAL_KIND, is_interval, is_literal_text, primitive, slots, strict_nulls, tick_slots, unit_of,
};

/// `range([start,] stop [, step])`
pub(super) const RANGE: FunctionSpec = FunctionSpec {
    name: "range",
    can_fail: true,
    signature,
    kernel: |arguments, kind, rows| series("range", arguments, kind, rows, false),
    doc: "A list of integers from 0 or a start up to but without a stop, by a step; or of dates or timestamps by \
          an interval.",
    example: ("range(2, 10, 3)", "[2, 5, 8]"),
    ..ordinary("list")
};

/// `generate_series([start,] stop [, step])`
pub(super) const GENERATE_SERIES: FunctionSpec = FunctionSpec {
    name: "generate_series",
    can_fail: true,
    signature,
    kernel: |arguments, kind, rows| series("generate_series", arguments, kind, rows, true),
    doc: "A list of integers from 0 or a start up to and including a stop, by a step; or of dates or timestamps \
          by an interval.",
    example: ("generate_series(1, 3)", "[1, 2, 3]"),
    ..ordinary("list")
};

fn signature(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    if (1..=3).contains(&arguments.len()) && arguments.iter().all(is_integer) {
        let result = list_of(DataType::Int64);
        return Some(CallKinds { arguments: vec![DataType::Int64; arguments.len()], result });
    }
    let [start, stop, step] = arguments else { return None };
    let is_literal = |argument: &ArgumentKind<'_>| *argument.kind == DataType::Null || is_literal_text(argument);
    if !is_interval(step) {
        return None;
    }
    let point = match (start.kind, stop.kind) {
        (kind @ DataType::Timestamp(..), DataType::Date32) | (DataType::Date32, kind @ DataType::Timestamp(..)) => kind,
        (kind @ (DataType::Timestamp(..) | DataType::Date32), other) if kind == other || is_literal(stop) => kind,
        (_, kind @ (DataType::Timestamp(..) | DataType::Date32)) if is_literal(start) => kind,
        // The finer unit holds the values of both.
        (DataType::Timestamp(a, first), kind @ DataType::Timestamp(b, second)) if first == second && a <= b => kind,
        (kind @ DataType::Timestamp(a, first), DataType::Timestamp(b, second)) if first == second && a > b => kind,
        _ => return None,
    };
    let arguments = vec![point.clone(), point.clone(), INTERVAL_KIND];
    Some(CallKinds { arguments, result: list_of(point.clone()) })
}

fn no_step(function: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("the step of {function} must not be zero"))
}

fn series(
    function: &'static str,
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    with_stop: bool,
) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let mut points: Vec<i64> = Vec::new();
    let mut offsets = vec![0];
    let mut validity = NullBufferBuilder::new(rows);
    let item = match kind {
        DataType::List(item) => item.data_type().clone(),
        _ => DataType::Int64,
    };
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            validity.append_null();
        } else {
            validity.append_non_null();
            match item {
                DataType::Int64 => integers(function, arguments, row, with_stop, &mut points)?,
                _ => times(function, arguments, row, with_stop, &mut points)?,
            }
        }
        offsets.push(points.len() as i32);
    }
    let items = match item {
        DataType::Date32 => primitive(&item, points.into_iter().map(|day| day as i32).collect(), None)?,
        _ => primitive(&item, points, None)?,
    };
    lists_of(kind, offsets, items, validity.finish())
}

fn integers(
    function: &'static str,
    arguments: &[Operand],
    row: usize,
    with_stop: bool,
    points: &mut Vec<i64>,
) -> Result<()> {
    let number = |index: usize| slots::<Int64Type>(&arguments[index]).at(row);
    let (start, stop, step) = match arguments.len() {
        1 => (0, number(0), 1),
        2 => (number(0), number(1), 1),
        _ => (number(0), number(1), number(2)),
    };
    if step == 0 {
        return Err(no_step(function));
    }
    // The span of two BIGINTs needs 65 bits.
    let (span, step) = (i128::from(stop) - i128::from(start), i128::from(step));
    // The start, plus one point for each whole step. Without the stop, a step that ends exactly there does not count.
    let count = if (span < 0) != (step < 0) && span != 0 {
        0
    } else {
        let whole = (span / step).abs();
        let is_exact = span % step == 0;
        if is_exact && !with_stop { whole } else { whole + 1 }
    };
    check_size(function, points.len() as u64 + u64::try_from(count).unwrap_or(u64::MAX / 16), 8)?;
    points.extend((0..count).map(|index| (i128::from(start) + index * step) as i64));
    Ok(())
}

fn times(
    function: &'static str,
    arguments: &[Operand],
    row: usize,
    with_stop: bool,
    points: &mut Vec<i64>,
) -> Result<()> {
    let is_date = *arguments[0].values.data_type() == DataType::Date32;
    let step = slots::<IntervalMonthDayNanoType>(&arguments[2]).at(row);
    let (start, stop, per_day) = if is_date {
        let day = |index: usize| i64::from(slots::<Date32Type>(&arguments[index]).at(row));
        (day(0), day(1), 1)
    } else {
        let unit = unit_of(arguments[0].values.data_type());
        (tick_slots(&arguments[0]).at(row), tick_slots(&arguments[1]).at(row), units_per_day(unit))
    };
    // A step must be a whole number of the items' ticks.
    let nanos_per_tick = i128::from(NANOS_PER_DAY / per_day);
    let nanos = i128::from(step.nanoseconds);
    if nanos % nanos_per_tick != 0 {
        let what = if is_date { "dates" } else { "these timestamps" };
        let message = format!("the step of {function} is finer than {what} are");
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    // A step may mix signs, for example one month minus 30 days. Its sum decides the direction.
    let days = i128::from(step.months) * 30 + i128::from(step.days);
    let direction = (days * i128::from(NANOS_PER_DAY) + nanos).signum();
    if direction == 0 {
        return Err(no_step(function));
    }
    let mut point = start;
    loop {
        let is_inside = if direction > 0 { point < stop } else { point > stop };
        if !(is_inside || (with_stop && point == stop)) {
            return Ok(());
        }
        // The limit is checked at every point, because the number of points is not known before.
        check_size(function, points.len() as u64 + 1, 8)?;
        points.push(point);
        match next(point, step, per_day, nanos / nanos_per_tick) {
            Some(to) if to != point => point = to,
            // No stop exists beyond the values of the type.
            _ => return Ok(()),
        }
    }
}

fn next(point: i64, step: IntervalMonthDayNano, per_day: i64, ticks: i128) -> Option<i64> {
    let (day, rest) = (point.div_euclid(per_day), point.rem_euclid(per_day));
    let day = if step.months == 0 { day } else { add_months(day, i64::from(step.months)) };
    let to = (i128::from(day) + i128::from(step.days)) * i128::from(per_day) + i128::from(rest) + ticks;
    i64::try_from(to).ok().filter(|to| per_day > 1 || i32::try_from(*to).is_ok())
}

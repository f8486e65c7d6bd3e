//! The names of days and months, and the last day of a month.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::{DataType, Date32Type};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{date_of_days, days_in_month, units_per_day, weekday};
use super::columns::{TIMESTAMP_KIND, primitive, ticks_of, unary, unit_of};
use super::pattern::{MONTHS, WEEKDAYS};
use crate::functions::signatures::ordinary;

/// The functions of this file.
pub(crate) static NAMES: &[FunctionSpec] = &[
    FunctionSpec {
        name: "dayname",
        signature: |arguments| of_day(arguments, DataType::Utf8View),
        kernel: |arguments, _, rows| names(&arguments[0], rows, |day| WEEKDAYS[weekday(day) as usize]),
        doc: "The English name of the day of the week.",
        example: ("dayname(DATE '2013-07-31')", "Wednesday"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "monthname",
        signature: |arguments| of_day(arguments, DataType::Utf8View),
        kernel: |arguments, _, rows| names(&arguments[0], rows, |day| MONTHS[date_of_days(day).month as usize - 1]),
        doc: "The English name of the month.",
        example: ("monthname(DATE '2013-07-31')", "July"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "last_day",
        signature: |arguments| of_day(arguments, DataType::Date32),
        kernel: |arguments, kind, rows| integers(&arguments[0], kind, rows, last_day_of),
        doc: "The last day of the month of a date.",
        example: ("last_day(DATE '2012-02-05')", "2012-02-29"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "days_in_month",
        signature: |arguments| of_day(arguments, DataType::Int32),
        kernel: |arguments, kind, rows| {
            integers(&arguments[0], kind, rows, |day| {
                let date = date_of_days(day);
                i64::from(days_in_month(date.year, date.month))
            })
        },
        doc: "The number of days of the month of a date.",
        example: ("days_in_month(DATE '2012-02-05')", "29"),
        ..ordinary("time")
    },
];

/// Accepts a date or a timestamp.
fn of_day(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let [value] = arguments else { return None };
    let kind = match value.kind {
        kind @ (DataType::Date32 | DataType::Timestamp(..)) => kind.clone(),
        DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        _ => return None,
    };
    Some(CallKinds { arguments: vec![kind], result })
}

/// Returns the day of each value, counted from 1970-01-01.
fn days_of(values: &ArrayRef) -> Vec<i64> {
    match values.data_type() {
        DataType::Date32 => {
            let dates = arrow::array::AsArray::as_primitive::<Date32Type>(values);
            dates.values().iter().map(|date| i64::from(*date)).collect()
        }
        kind => {
            let per_day = units_per_day(unit_of(kind));
            ticks_of(values).iter().map(|ticks| ticks.div_euclid(per_day)).collect()
        }
    }
}

fn last_day_of(day: i64) -> i64 {
    let date = date_of_days(day);
    day - i64::from(date.day) + i64::from(days_in_month(date.year, date.month))
}

fn names(operand: &Operand, rows: usize, name: impl Fn(i64) -> &'static str) -> Result<ArrayRef> {
    unary(operand, rows, |values| {
        let named = days_of(values).into_iter().enumerate();
        let named = named.map(|(row, day)| values.is_valid(row).then(|| name(day)));
        Ok(Arc::new(named.collect::<StringViewArray>()))
    })
}

/// Computes numbers that fit 32 bits for every day that a date can be.
fn integers(operand: &Operand, kind: &DataType, rows: usize, of: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    unary(operand, rows, |values| {
        let numbers = days_of(values).into_iter().map(|day| of(day) as i32).collect();
        primitive(kind, numbers, values.logical_nulls())
    })
}

//! Intervals from two timestamps, and intervals times a number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, DurationNanosecondType, DurationSecondType, IntervalUnit, TimeUnit};
use arrow::datatypes::{DurationMicrosecondType, DurationMillisecondType, Float64Type, Int64Type};
use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::logical_expr::Expr;
use rowmill_base::{Error, Result};

use super::Function;
use crate::semantics::arithmetic::{division_by_zero, out_of_range};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const DAYS_PER_MONTH: f64 = 30.0;

/// The difference `expr` of two timestamps as an interval of days and what is left of a day.
pub(in crate::semantics) fn interval_of(expr: Expr) -> Expr {
    Function::new("interval_of", |_| Some(INTERVAL), run_interval_of).call(vec![expr])
}

/// `interval * number`, or `interval / number`.
pub(in crate::semantics) fn interval_scaled(interval: Expr, number: Expr, is_division: bool) -> Expr {
    let kind: fn(&[DataType]) -> Option<DataType> = |_| Some(INTERVAL);
    let function = if is_division {
        Function::new("interval_divided", kind, |columns, _| run_scaled(columns, true))
    } else {
        Function::new("interval_times", kind, |columns, _| run_scaled(columns, false))
    };
    function.call(vec![interval, number])
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

fn run_interval_of(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    if *columns[0].data_type() == INTERVAL {
        return whole_days(columns[0].as_primitive());
    }
    let (units_per_day, values) = match columns[0].data_type() {
        DataType::Duration(TimeUnit::Second) => {
            (86_400, columns[0].as_primitive::<DurationSecondType>().reinterpret_cast::<Int64Type>())
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            (86_400_000, columns[0].as_primitive::<DurationMillisecondType>().reinterpret_cast::<Int64Type>())
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            (86_400_000_000, columns[0].as_primitive::<DurationMicrosecondType>().reinterpret_cast::<Int64Type>())
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            (NANOS_PER_DAY, columns[0].as_primitive::<DurationNanosecondType>().reinterpret_cast::<Int64Type>())
        }
        other => return Err(failed(format!("a difference of type {other}"))),
    };
    let intervals: IntervalMonthDayNanoArray = values
        .iter()
        .map(|value| {
            value
                .map(|value| {
                    let days = i32::try_from(value / units_per_day).map_err(|_| out_of_range(value, &INTERVAL))?;
                    Ok(IntervalMonthDayNano::new(0, days, value % units_per_day * (NANOS_PER_DAY / units_per_day)))
                })
                .transpose()
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(intervals))
}

/// Intervals of nanoseconds as days and what is left of a day.
fn whole_days(intervals: &IntervalMonthDayNanoArray) -> Result<ArrayRef> {
    let whole = |value: IntervalMonthDayNano| {
        let days = i32::try_from(value.nanoseconds / NANOS_PER_DAY).ok().and_then(|days| value.days.checked_add(days));
        let days = days.ok_or_else(|| out_of_range("an interval", &INTERVAL))?;
        Ok(IntervalMonthDayNano::new(value.months, days, value.nanoseconds % NANOS_PER_DAY))
    };
    let intervals: IntervalMonthDayNanoArray =
        intervals.iter().map(|value| value.map(whole).transpose()).collect::<Result<_>>()?;
    Ok(Arc::new(intervals))
}

fn run_scaled(columns: &[ArrayRef], is_division: bool) -> Result<ArrayRef> {
    let intervals = cast(&columns[0], &INTERVAL).map_err(failed)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().clone();
    let is_whole = columns[1].data_type().is_integer() && !is_division;
    let kind = if is_whole { DataType::Int64 } else { DataType::Float64 };
    let numbers = cast(&columns[1], &kind).map_err(|_| out_of_range("the factor of an interval", &kind))?;
    let scaled: IntervalMonthDayNanoArray = (0..intervals.len())
        .map(|row| {
            if intervals.is_null(row) || numbers.is_null(row) {
                return Ok(None);
            }
            let interval = intervals.value(row);
            if is_whole {
                let factor = numbers.as_primitive::<Int64Type>().value(row);
                return times(interval, factor).map(Some).ok_or_else(|| out_of_range("an interval", &INTERVAL));
            }
            let number = numbers.as_primitive::<Float64Type>().value(row);
            if is_division && number == 0.0 {
                return Err(division_by_zero());
            }
            let factor = if is_division { 1.0 / number } else { number };
            scale(interval, factor).map(Some).ok_or_else(|| out_of_range("an interval", &INTERVAL))
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(scaled))
}

fn times(interval: IntervalMonthDayNano, factor: i64) -> Option<IntervalMonthDayNano> {
    let months = i64::from(interval.months).checked_mul(factor)?;
    let days = i64::from(interval.days).checked_mul(factor)?;
    Some(IntervalMonthDayNano::new(
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        interval.nanoseconds.checked_mul(factor)?,
    ))
}

/// What is left of a month becomes days (30 in a month), what is left of a day becomes time.
fn scale(interval: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let months = f64::from(interval.months) * factor;
    let days = f64::from(interval.days) * factor + months.fract() * DAYS_PER_MONTH;
    let nanos = (interval.nanoseconds as f64 * factor + days.fract() * NANOS_PER_DAY as f64).round();
    let fits = |value: f64, bound: f64| value.is_finite() && value.abs() < bound;
    if !fits(months, 2_147_483_648.0) || !fits(days, 2_147_483_648.0) || !fits(nanos, 9.2e18) {
        return None;
    }
    Some(IntervalMonthDayNano::new(months.trunc() as i32, days.trunc() as i32, nanos as i64))
}

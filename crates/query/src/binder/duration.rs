//! Lengths of time that a clause gives as a number with a unit, such as `15m`.

use arrow::array::IntervalMonthDayNanoArray;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold;
use rowmill_plan::{Constant, ScalarExpr};
use sqlparser::ast::{Expr, Value};
use std::sync::Arc;

use super::Binder;
use super::place::{start_of, type_name};

/// The type INTERVAL.
pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Duration {
    pub(super) interval: IntervalMonthDayNano,
    /// Whether it counts weeks, which begin on Mondays.
    pub(super) in_weeks: bool,
}

impl Binder<'_> {
    /// Binds a constant length of time of `clause`: a text such as `15m`, or an interval.
    pub(super) fn duration(&mut self, expr: &Expr, clause: &str) -> Result<Duration> {
        if let Some(text) = text_of(expr) {
            return read_duration(text, clause).map_err(|error| self.at(error, start_of(expr)));
        }
        let mut value = self.expr(expr)?;
        if value.kind != INTERVAL {
            let message = format!("{clause} takes a length of time, not {}", type_name(&value.kind));
            let error = Error::new(ErrorKind::DatatypeMismatch, message);
            return Err(self
                .at(error.hint("write a number with a unit, such as 15m, or INTERVAL '15 minutes'"), start_of(expr)));
        }
        fold::fold(&mut value);
        let interval = value.as_constant().and_then(interval_of);
        match interval {
            Some(interval) => Ok(Duration { interval, in_weeks: false }),
            None => {
                let error =
                    Error::new(ErrorKind::InvalidParameter, format!("{clause} takes a constant length of time"));
                Err(self.at(error, start_of(expr)))
            }
        }
    }
}

/// An interval as an expression.
pub(super) fn interval_literal(interval: IntervalMonthDayNano) -> ScalarExpr {
    ScalarExpr::literal(Constant::new(Arc::new(IntervalMonthDayNanoArray::from(vec![interval]))))
}

/// Returns the value of an interval constant that is not NULL.
pub(crate) fn interval_of(constant: &Constant) -> Option<IntervalMonthDayNano> {
    use arrow::array::{Array, AsArray};
    let array = constant.array().as_primitive_opt::<IntervalMonthDayNanoType>()?;
    (!array.is_null(0)).then(|| array.value(0))
}

/// Returns the text of a literal.
pub(super) fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a number with a unit, such as `15m`.
fn read_duration(text: &str, clause: &str) -> Result<Duration> {
    let wrong = |what: &str| {
        let units = "a length of time is a whole number with one of the units n, U, T, s, m, h, d, w, M and y";
        Error::new(ErrorKind::InvalidParameter, format!("{clause}: '{text}' {what}")).hint(units)
    };
    let at = text.find(|sign: char| sign.is_alphabetic()).ok_or_else(|| wrong("has no unit"))?;
    let (digits, unit) = text.split_at(at);
    let count: i64 = digits.trim().replace('_', "").parse().map_err(|_| wrong("does not begin with a whole number"))?;
    let duration = duration_of(count, unit).ok_or_else(|| wrong("has an unknown unit or is out of range"))?;
    Ok(duration)
}

/// Returns `count` units of time. Single letters distinguish cases: `m` is a minute, `M` a month.
pub(super) fn duration_of(count: i64, unit: &str) -> Option<Duration> {
    let lower = unit.to_ascii_lowercase();
    let name =
        if unit.len() == 1 { unit } else { lower.strip_suffix('s').filter(|name| name.len() > 1).unwrap_or(&lower) };
    let nanos = |nanos: i64| Some(IntervalMonthDayNano::new(0, 0, count.checked_mul(nanos)?));
    let days = |days: i64| Some(IntervalMonthDayNano::new(0, i32::try_from(count.checked_mul(days)?).ok()?, 0));
    let months = |months: i64| Some(IntervalMonthDayNano::new(i32::try_from(count.checked_mul(months)?).ok()?, 0, 0));
    let interval = match name {
        "n" | "ns" | "nanosecond" => nanos(1),
        "U" | "u" | "us" | "microsecond" => nanos(1_000),
        "T" | "ms" | "millisecond" => nanos(1_000_000),
        "s" | "second" => nanos(1_000_000_000),
        "m" | "minute" => nanos(60_000_000_000),
        "h" | "hour" => nanos(3_600_000_000_000),
        "d" | "day" => days(1),
        "w" | "week" => days(7),
        "M" | "month" => months(1),
        "y" | "year" => months(12),
        _ => None,
    }?;
    Some(Duration { interval, in_weeks: matches!(name, "w" | "week") })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lengths_of_time_have_units() {
        let read = |text| read_duration(text, "SAMPLE BY").map(|duration| duration.interval);
        assert_eq!(read("15m").unwrap(), IntervalMonthDayNano::new(0, 0, 900_000_000_000));
        assert_eq!(read("1M").unwrap(), IntervalMonthDayNano::new(1, 0, 0));
        assert_eq!(read("2y").unwrap(), IntervalMonthDayNano::new(24, 0, 0));
        assert_eq!(read("-3T").unwrap(), IntervalMonthDayNano::new(0, 0, -3_000_000));
        assert_eq!(read("1_000U").unwrap(), IntervalMonthDayNano::new(0, 0, 1_000_000));
        assert_eq!(read("10 SECONDS").unwrap(), IntervalMonthDayNano::new(0, 0, 10_000_000_000));
        assert!(read_duration("1w", "SAMPLE BY").unwrap().in_weeks);
        for wrong in ["", "m", "15", "1.5h", "1x", "1S", "9223372036854775807h", "1 fortnight"] {
            assert_eq!(read(wrong).unwrap_err().kind(), ErrorKind::InvalidParameter, "{wrong}");
        }
    }
}

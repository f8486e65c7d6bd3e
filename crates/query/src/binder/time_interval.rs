//! Intervals of time as texts: `ts IN '2026-11'`, `ts IN '2026-11-20T10;2h'`.
//!
//! ```text
//! '2026'                    the year          '2026-11-20T10'        the hour
//! '2026-11'                 the month         '2026-11-20T10:30'     the minute
//! '2026-11-20'              the day           '2026-11-20T10:30:15'  the second
//! '...;2h'                  the two hours from the beginning on
//! '...;2h;1d;3'             three times, each one day after the one before
//! ```
//!
//! An interval includes its beginning and excludes its end. A `Z` at the end of a time means nothing. The condition is
//! a comparison of the column with constants, so that blocks outside of the interval are skipped.

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::{fold, typing};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};
use sqlparser::ast::Expr;

use super::Binder;
use super::duration::{duration_of, interval_literal, text_of};
use super::place::{start_of, type_name};

/// The most repetitions of an interval.
const REPETITIONS_MAX: i64 = 10_000;

/// The type in which the ends of intervals are computed.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Returns the text in `IN 'text'`, which the parser hands over as `IN ("time interval"('text'))`.
pub(super) fn interval_text(list: &[Expr]) -> Option<&Expr> {
    let [Expr::Function(call)] = list else { return None };
    if call.name.to_string() != "\"time interval\"" {
        return None;
    }
    super::call::arguments_of(call).ok()?.first().copied()
}

/// An interval that was read.
#[derive(Debug, PartialEq)]
struct TimeInterval {
    /// The beginning as a text of a timestamp.
    start: String,
    /// The length: the one that the text gives, or that of the period that it names.
    length: IntervalMonthDayNano,
    /// The distance and number of repetitions.
    repeated: Option<(IntervalMonthDayNano, i64)>,
}

impl Binder<'_> {
    /// Binds `value IN 'interval'`.
    pub(super) fn in_time_interval(&mut self, value: &Expr, text: &Expr, negated: bool) -> Result<ScalarExpr> {
        let span = start_of(text);
        let value = self.expr(value)?;
        if !matches!(value.kind, DataType::Timestamp(..) | DataType::Date32) {
            let message = format!("IN with a text takes a timestamp or date before it, not {}", type_name(&value.kind));
            let error = Error::new(ErrorKind::DatatypeMismatch, message);
            return Err(self.at(error.hint("a list of values has parentheses: IN ('a', 'b')"), span));
        }
        let interval = read_interval(text_of(text).unwrap_or_default()).map_err(|error| self.at(error, span))?;
        self.placed(span, |_| condition(&value, &interval, negated))
    }
}

fn condition(value: &ScalarExpr, interval: &TimeInterval, negated: bool) -> Result<ScalarExpr> {
    let moved =
        |time: ScalarExpr, by: IntervalMonthDayNano| typing::arithmetic(ArithmeticOp::Plus, time, interval_literal(by));
    let first = typing::coerce(ScalarExpr::literal(interval.start.as_str()), &TIMESTAMP)?;
    let last = moved(first.clone(), interval.length)?;
    let (distance, count) = interval.repeated.unwrap_or((IntervalMonthDayNano::new(0, 0, 0), 1));
    let mut parts = Vec::new();
    let (mut start, mut end) = (first, last);
    for _ in 0..count {
        let bound = |op, time: &ScalarExpr| -> Result<ScalarExpr> {
            let mut bound = match &value.kind {
                DataType::Date32 => time.clone(),
                kind => typing::cast(time.clone(), kind, false)?,
            };
            fold::fold(&mut bound);
            typing::compare(op, value.clone(), bound)
        };
        parts.push(ScalarExpr::and(vec![bound(CompareOp::GreaterOrEqual, &start)?, bound(CompareOp::Less, &end)?]));
        start = moved(start, distance)?;
        end = moved(end, distance)?;
        fold::fold(&mut start);
        fold::fold(&mut end);
    }
    let any = match parts.len() {
        1 => parts.remove(0),
        _ => ScalarExpr::new(DataType::Boolean, ExprOp::Or(parts)),
    };
    Ok(if negated { ScalarExpr::new(DataType::Boolean, ExprOp::Not(Box::new(any))) } else { any })
}

fn read_interval(text: &str) -> Result<TimeInterval> {
    let wrong = || {
        let message = format!("'{text}' is no interval of time");
        Error::new(ErrorKind::InvalidParameter, message)
            .hint("an interval is '2026', '2026-11', '2026-11-20', '2026-11-20T10' or with a length '2026-11-20T10;2h'")
    };
    let mut parts = text.split(';').map(str::trim);
    let (start, period) = parts.next().and_then(read_period).ok_or_else(wrong)?;
    let length = parts.next().map(|part| read_length(part).ok_or_else(wrong)).transpose()?.unwrap_or(period);
    let repeated = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => None,
        (Some(distance), Some(count), None) => {
            let distance = read_length(distance).ok_or_else(wrong)?;
            let count: i64 = count.parse().map_err(|_| wrong())?;
            if !(1..=REPETITIONS_MAX).contains(&count) {
                let message = format!("'{text}': an interval is repeated 1 to {REPETITIONS_MAX} times");
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
            Some((distance, count))
        }
        _ => return Err(wrong()),
    };
    Ok(TimeInterval { start, length, repeated })
}

/// Reads a length with its unit, such as `2h`.
fn read_length(text: &str) -> Option<IntervalMonthDayNano> {
    let at = text.find(|sign: char| sign.is_alphabetic())?;
    let (digits, unit) = text.split_at(at);
    let count: u32 = digits.trim().parse().ok()?;
    Some(duration_of(i64::from(count), unit)?.interval)
}

/// Reads the beginning of a period. Returns it as the text of a timestamp, and the length of the period.
fn read_period(text: &str) -> Option<(String, IntervalMonthDayNano)> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let is_number =
        |part: &str, digits: usize| part.len() == digits && part.bytes().all(|digit| digit.is_ascii_digit());
    let dates: Vec<&str> = date.split('-').collect();
    let dates_fit = is_number(dates[0], 4) && dates[1..].iter().all(|part| is_number(part, 2));
    if !dates_fit || dates.len() > 3 || (time.is_some() && dates.len() < 3) {
        return None;
    }
    let month = dates.get(1).unwrap_or(&"01");
    let day = dates.get(2).unwrap_or(&"01");
    let date = format!("{}-{month}-{day}", dates[0]);
    let Some(time) = time else {
        let period = match dates.len() {
            1 => IntervalMonthDayNano::new(12, 0, 0),
            2 => IntervalMonthDayNano::new(1, 0, 0),
            _ => IntervalMonthDayNano::new(0, 1, 0),
        };
        return Some((format!("{date} 00:00:00"), period));
    };
    let nanos = |nanos| IntervalMonthDayNano::new(0, 0, nanos);
    let (whole, fraction) = match time.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (time, None),
    };
    let times: Vec<&str> = whole.split(':').collect();
    if times.len() > 3 || !times.iter().all(|part| is_number(part, 2)) || (fraction.is_some() && times.len() < 3) {
        return None;
    }
    let minute = times.get(1).unwrap_or(&"00");
    let second = times.get(2).unwrap_or(&"00");
    let mut start = format!("{date} {}:{minute}:{second}", times[0]);
    let mut period = match times.len() {
        1 => nanos(3_600_000_000_000),
        2 => nanos(60_000_000_000),
        _ => nanos(1_000_000_000),
    };
    if let Some(fraction) = fraction {
        if fraction.is_empty() || fraction.len() > 6 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        start = format!("{start}.{fraction}");
        period = nanos(1_000_000_000 / 10_i64.pow(fraction.len() as u32));
    }
    Some((start, period))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn periods_are_read() {
        let period = |text| read_interval(text).map(|interval| (interval.start, interval.length)).unwrap();
        let nanos = |nanos| IntervalMonthDayNano::new(0, 0, nanos);
        assert_eq!(period("2026"), ("2026-01-01 00:00:00".into(), IntervalMonthDayNano::new(12, 0, 0)));
        assert_eq!(period("2026-11"), ("2026-11-01 00:00:00".into(), IntervalMonthDayNano::new(1, 0, 0)));
        assert_eq!(period("2026-11-20"), ("2026-11-20 00:00:00".into(), IntervalMonthDayNano::new(0, 1, 0)));
        assert_eq!(period("2026-11-20T10"), ("2026-11-20 10:00:00".into(), nanos(3_600_000_000_000)));
        assert_eq!(period("2026-11-20 10:30Z"), ("2026-11-20 10:30:00".into(), nanos(60_000_000_000)));
        assert_eq!(period("2026-11-20T10:30:15.25"), ("2026-11-20 10:30:15.25".into(), nanos(10_000_000)));
    }

    #[test]
    fn wrong_intervals_are_refused() {
        for wrong in [
            "",
            "26",
            "2026-1",
            "2026-11T10",
            "2026-11-20T1",
            "2026-11-20T10.5",
            "2026-11-20T10:30:15.",
            "2026;",
            "2026;2",
            "2026;1d;1d",
            "2026;1d;1d;0",
            "2026;1d;1d;3;4",
            "2026;1d;1d;100000",
            "x",
            "2026;-1d",
            "2026-11-20T10:30:15.1234567",
        ] {
            assert_eq!(read_interval(wrong).unwrap_err().kind(), ErrorKind::InvalidParameter, "{wrong}");
        }
        let read = read_interval("2026-11-20T10;2h;1d;3").unwrap();
        assert_eq!(read.length, IntervalMonthDayNano::new(0, 0, 7_200_000_000_000));
        assert_eq!(read.repeated, Some((IntervalMonthDayNano::new(0, 1, 0), 3)));
    }
}

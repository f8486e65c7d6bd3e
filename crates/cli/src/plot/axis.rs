//! Round values for the marks of an axis.

use std::sync::Arc;

use rowmill::arrow::array::{ArrayRef, TimestampMicrosecondArray};
use rowmill::text::format_value;

/// The marks of an axis, from the least to the greatest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) marks: Vec<(f64, String)>,
}

const SECOND: f64 = 1e6;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// The distances of marks of time, in microseconds.
const TIME_STEPS: &[f64] = &[
    SECOND,
    2.0 * SECOND,
    5.0 * SECOND,
    10.0 * SECOND,
    30.0 * SECOND,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
    14.0 * DAY,
    30.0 * DAY,
    91.0 * DAY,
    182.0 * DAY,
    365.0 * DAY,
];

impl Axis {
    /// An axis of numbers with about `count` marks.
    pub(super) fn of_numbers(low: f64, high: f64, count: usize) -> Axis {
        let (low, high) = widened(low, high);
        let step = round_step((high - low) / count.max(1) as f64);
        let marks = marks(low, high, step).map(|value| (value, number_text(value, step))).collect();
        Axis { low, high, marks }
    }

    /// An axis of times in microseconds since 1970 with about `count` marks.
    pub(super) fn of_times(low: f64, high: f64, count: usize) -> Axis {
        let (low, high) = widened(low, high);
        let least = (high - low) / count.max(1) as f64;
        let step = match TIME_STEPS.iter().find(|step| **step >= least) {
            Some(step) if least >= SECOND => *step,
            Some(_) => round_step(least),
            None => round_step(least / DAY) * DAY,
        };
        let marks = marks(low, high, step).map(|value| (value, time_text(value, step))).collect();
        Axis { low, high, marks }
    }

    /// The place of a value between the ends of the axis, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        // The halves cannot overflow where the difference of two large values does.
        (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0)
    }
}

/// Makes room around a single value.
fn widened(low: f64, high: f64) -> (f64, f64) {
    if low < high {
        return (low, high);
    }
    let room = (low.abs() * 0.5).max(0.5);
    (low - room, high + room)
}

/// Returns the least number of the form 1, 2 or 5 times a power of ten that is not less than `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let step = factors.into_iter().map(|factor| factor * power).find(|step| *step >= least);
    step.unwrap_or(10.0 * power)
}

/// The most marks of an axis, whatever the step.
const MARKS_MAX: usize = 100;

fn marks(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (low / step).ceil();
    let value = move |place: usize| (first + place as f64) * step;
    // A value that rounding moves off zero is zero.
    let value = move |place| if f64::abs(value(place)) < step / 1e6 { 0.0 } else { value(place) };
    (0..MARKS_MAX).map(value).take_while(move |value| *value <= high + step / 1e6)
}

/// Writes a mark with as many digits as the step needs, in thousands or more if the step allows it.
fn number_text(value: f64, step: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let (unit, sign) = units.into_iter().find(|(unit, _)| step >= unit / 2.0).unwrap_or((1.0, ""));
    let (value, digits) = (value / unit, digits_of(step / unit));
    let sign = if value == 0.0 { "" } else { sign };
    let is_long = digits > 6 || value.abs() >= 1e12;
    if is_long { format!("{value:.2e}{sign}") } else { format!("{value:.digits$}{sign}") }
}

/// Writes a value with about six digits.
pub(super) fn value_text(value: f64) -> String {
    let size = value.abs();
    match value {
        _ if value.is_nan() => "NULL".to_owned(),
        _ if value.fract() == 0.0 && size < 1e15 => format!("{value:.0}"),
        _ if !(1e-4..1e12).contains(&size) => format!("{value:.3e}"),
        _ => {
            let digits = digits_of(size / 1e5);
            let text = format!("{value:.digits$}");
            if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
        }
    }
}

/// The digits after the point that tell multiples of `step` apart.
fn digits_of(step: f64) -> usize {
    if step <= 0.0 || !step.is_finite() {
        return 0;
    }
    (-step.log10().floor()).clamp(0.0, 12.0) as usize
}

/// Writes a time in microseconds since 1970.
pub(super) fn full_time_text(micros: f64) -> String {
    if micros.is_nan() {
        return "NULL".to_owned();
    }
    let values: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![micros as i64]));
    format_value(&values, 0).ok().flatten().unwrap_or_default()
}

/// Writes a time as exactly as the step needs.
fn time_text(micros: f64, step: f64) -> String {
    let text = full_time_text(micros);
    let (date, time) = text.split_once(' ').unwrap_or((&text, "00:00:00"));
    match step {
        step if step >= DAY => date.to_owned(),
        // At midnight the day is more than the hour.
        _ if time.starts_with("00:00:00") && step >= MINUTE => date.to_owned(),
        step if step >= MINUTE => time.get(..5).unwrap_or(time).to_owned(),
        step if step >= SECOND => time.get(..8).unwrap_or(time).to_owned(),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn marks_of_numbers_are_round() {
        assert_eq!(labels(&Axis::of_numbers(0.0, 100.0, 5)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::of_numbers(-0.3, 0.45, 4)), ["-0.2", "0.0", "0.2", "0.4"]);
        assert_eq!(labels(&Axis::of_numbers(0.0, 3_000_000.0, 3)), ["0", "1M", "2M", "3M"]);
        assert_eq!(labels(&Axis::of_numbers(12_345.0, 12_345.0, 3)), ["10k", "15k"]);
        assert_eq!(labels(&Axis::of_numbers(1_000.0, 1_500.0, 5)), ["1000", "1100", "1200", "1300", "1400", "1500"]);
    }

    #[test]
    fn marks_of_times_follow_the_clock() {
        let day = 1_767_225_600_000_000.0; // 2026-01-01
        assert_eq!(labels(&Axis::of_times(day, day + DAY, 4)), ["2026-01-01", "06:00", "12:00", "18:00", "2026-01-02"]);
        assert_eq!(labels(&Axis::of_times(day, day + 3.0 * DAY, 3)).len(), 4);
        let minute = Axis::of_times(day + HOUR, day + HOUR + MINUTE, 2);
        assert_eq!(labels(&minute), ["01:00:00", "01:00:30", "01:01:00"]);
    }

    #[test]
    fn values_have_about_six_digits() {
        for (value, text) in [
            (1234.5, "1234.5"),
            (7.0, "7"),
            (0.1 + 0.2, "0.3"),
            (2.0 / 3.0, "0.666667"),
            (1e20 + 0.5, "1.000e20"),
            (f64::NAN, "NULL"),
            (123_456.789, "123457"),
        ] {
            assert_eq!(value_text(value), text);
        }
    }

    #[test]
    fn extreme_values_have_an_axis() {
        for (low, high) in [(f64::MIN, f64::MAX), (0.0, f64::MIN_POSITIVE), (1e300, 1e300), (-1e-300, 1e-300)] {
            let axis = Axis::of_numbers(low, high, 5);
            assert!(axis.marks.len() <= MARKS_MAX, "{low} {high}");
            assert!((0.0..=1.0).contains(&axis.place(high)), "{low} {high}: {}", axis.place(high));
        }
    }
}

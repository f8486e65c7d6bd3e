//! The texts that name partitions of time tables, and the calendar ranges that they stand for.
//!
//! ```text
//! 2026   2026-11   2026-11-20   2026-11-20T15   2026-W47
//! year   month     day          hour            week, by ISO 8601
//! ```
//!
//! A text can name a partition of the table, or a longer range whose partitions are meant. Weeks are no parts of months
//! or years, so they have only their own form.

use std::ops::Range;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::{CalendarUnit, date_of_moment, moment_of_date};

/// Microseconds of an hour and of a day.
const HOUR_US: i128 = 3_600_000_000;
const DAY_US: i128 = 24 * HOUR_US;

/// Returns the range of moments that `text` names in a table with partitions of length `unit`, in microseconds since
/// 1970-01-01.
pub(super) fn partition_range(text: &str, unit: CalendarUnit) -> Result<Range<i128>> {
    let named = first_moment(text).filter(|(_, of_text)| is_allowed(unit, *of_text));
    let Some((start, of_text)) = named else {
        let forms = match unit {
            CalendarUnit::Hour => "'2026-11-20T15', '2026-11-20', '2026-11' or '2026'",
            CalendarUnit::Day => "'2026-11-20', '2026-11' or '2026'",
            CalendarUnit::Week => "'2026-W47'",
            CalendarUnit::Month => "'2026-11' or '2026'",
            CalendarUnit::Year => "'2026'",
        };
        let what = format!("'{text}' names no partition of a table with PARTITION BY {}", unit.word());
        return Err(Error::new(ErrorKind::InvalidParameter, what).hint(format!("write {forms}")));
    };
    Ok(start..of_text.add(start, 1))
}

fn is_allowed(of_table: CalendarUnit, of_text: CalendarUnit) -> bool {
    let place = |unit| CalendarUnit::ALL.iter().position(|other| *other == unit);
    let has_weeks = of_table == CalendarUnit::Week || of_text == CalendarUnit::Week;
    if has_weeks { of_table == of_text } else { place(of_text) >= place(of_table) }
}

/// Returns the first moment of the range that a text names, and its unit. `None` for any other text.
fn first_moment(text: &str) -> Option<(i128, CalendarUnit)> {
    let (date, hour) = match text.split_once('T') {
        Some((date, hour)) => (date, Some(number(hour, 2)?).filter(|hour| *hour < 24).map(Some)?),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let year = number(parts.first()?, 4)?;
    let month = |text: &str| number(text, 2).filter(|month| (1..=12).contains(month));
    let (start, unit) = match parts[1..] {
        [] => (moment_of_date(year.into(), 1, 1), CalendarUnit::Year),
        [week] if week.starts_with('W') => (first_of_week(year, number(&week[1..], 2)?)?, CalendarUnit::Week),
        [of_year] => (moment_of_date(year.into(), month(of_year)?, 1), CalendarUnit::Month),
        [of_year, day] => {
            let (month, day) = (month(of_year)?, number(day, 2)?);
            let start = moment_of_date(year.into(), month, day);
            // A day that the month does not have is a day of another month.
            let exists = date_of_moment(start) == (year.into(), month.into(), day.into());
            (Some(start).filter(|_| exists)?, CalendarUnit::Day)
        }
        _ => return None,
    };
    match (hour, unit) {
        (None, unit) => Some((start, unit)),
        (Some(hour), CalendarUnit::Day) => Some((start + i128::from(hour) * HOUR_US, CalendarUnit::Hour)),
        (Some(_), _) => None,
    }
}

/// Returns the number that exactly `digits` digits are.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Returns the Monday of a week by ISO 8601. The first week of a year is the one with 4 January.
fn first_of_week(year: u32, week: u32) -> Option<i128> {
    let fourth = moment_of_date(year.into(), 1, 4).div_euclid(DAY_US);
    // 1970-01-01 was a Thursday.
    let first_monday = fourth - (fourth + 3).rem_euclid(7);
    let monday = (first_monday + 7 * (i128::from(week) - 1)) * DAY_US;
    // A week belongs to the year that its Thursday is in.
    let (of_year, ..) = date_of_moment(monday + 3 * DAY_US);
    (week > 0 && of_year == i128::from(year)).then_some(monday)
}

/// Returns a moment as a text that can be converted to the type of any time column.
pub(super) fn moment_text(moment_us: i128) -> String {
    let (year, month, day) = date_of_moment(moment_us);
    let hour = moment_us.rem_euclid(DAY_US) / HOUR_US;
    match hour {
        0 => format!("{year:04}-{month:02}-{day:02}"),
        hour => format!("{year:04}-{month:02}-{day:02} {hour:02}:00:00"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn texts(text: &str, unit: CalendarUnit) -> (String, String) {
        let range = partition_range(text, unit).unwrap();
        (moment_text(range.start), moment_text(range.end))
    }

    fn pair(start: &str, end: &str) -> (String, String) {
        (start.to_owned(), end.to_owned())
    }

    #[test]
    fn texts_name_partitions_and_longer_ranges() {
        let hour = texts("2026-12-31T23", CalendarUnit::Hour);
        assert_eq!(hour, pair("2026-12-31 23:00:00", "2027-01-01"));
        assert_eq!(texts("2024-02-28", CalendarUnit::Hour), pair("2024-02-28", "2024-02-29"));
        assert_eq!(texts("2024-02", CalendarUnit::Day), pair("2024-02-01", "2024-03-01"));
        assert_eq!(texts("2024", CalendarUnit::Month), pair("2024-01-01", "2025-01-01"));
        assert_eq!(texts("2026-W01", CalendarUnit::Week), pair("2025-12-29", "2026-01-05"));
        assert_eq!(texts("2026-W53", CalendarUnit::Week), pair("2026-12-28", "2027-01-04"));
    }

    #[test]
    fn other_texts_are_refused_with_the_forms_that_the_table_takes() {
        let refused = [
            ("2026-11-20T15", CalendarUnit::Day),
            ("2026-11-20", CalendarUnit::Month),
            ("2026-W47", CalendarUnit::Day),
            ("2026-11", CalendarUnit::Week),
            ("2025-W53", CalendarUnit::Week),
            ("2026-W00", CalendarUnit::Week),
            ("2026-02-29", CalendarUnit::Day),
            ("2026-13", CalendarUnit::Day),
            ("2026-00-01", CalendarUnit::Day),
            ("2026-11-20T24", CalendarUnit::Hour),
            ("2026-11T10", CalendarUnit::Hour),
            ("26-11", CalendarUnit::Day),
            ("+026", CalendarUnit::Year),
            ("2026-11-20-1", CalendarUnit::Day),
            ("", CalendarUnit::Year),
            ("2026-W\u{e9}", CalendarUnit::Week),
        ];
        for (text, unit) in refused {
            let error = partition_range(text, unit).unwrap_err();
            assert!(error.message().contains(unit.word()), "{error}");
        }
    }
}

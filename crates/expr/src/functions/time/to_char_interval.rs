//! Intervals by a pattern of PostgreSQL, for `to_char`.
//!
//! An interval has months, days and a time. They are not carried into each other: for example,
//! `to_char(INTERVAL '26 hours', 'HH24:MI')` is `26:00`. Parts of a calendar, such as names of months and weekdays,
//! have no meaning for it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use super::columns::strict_nulls;
use super::pattern::{LetterCase, PatternPart, PatternPiece, ROMAN_MONTHS, pieces_of};
use super::to_char::{number, ordinal_suffix, word, year};

/// Writes intervals by patterns.
pub(super) fn write_intervals(value: &Operand, pattern: &Operand, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(&[value.clone(), pattern.clone()], rows);
    let values = value.values.as_primitive::<IntervalMonthDayNanoType>();
    let patterns = pattern.values.as_string_view();
    let mut last: Option<(usize, Vec<PatternPiece>)> = None;
    let mut written = String::new();
    let mut texts = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            texts.append_null();
            continue;
        }
        let at = pattern.at(row);
        let pieces = match last.take() {
            Some((known, pieces)) if known == at || patterns.value(known) == patterns.value(at) => pieces,
            _ => prepared(patterns.value(at))?,
        };
        written.clear();
        WrittenInterval::new(values.value(value.at(row))).write(&pieces, &mut written);
        texts.append_value(&written);
        last = Some((at, pieces));
    }
    Ok(Arc::new(texts.finish()))
}

/// Splits a pattern, and refuses parts that an interval does not have.
fn prepared(pattern: &str) -> Result<Vec<PatternPiece>> {
    let pieces = pieces_of(pattern);
    let is_missing = |piece: &PatternPiece| match piece {
        PatternPiece::Literal(_) => false,
        PatternPiece::Part { part, .. } => matches!(
            part,
            PatternPart::Era(_)
                | PatternPart::IsoYear(_)
                | PatternPart::MonthName
                | PatternPart::MonthShort
                | PatternPart::DayName
                | PatternPart::DayShort
                | PatternPart::IsoDayOfYear
                | PatternPart::Weekday
                | PatternPart::IsoWeekday
                | PatternPart::IsoWeek
                | PatternPart::Julian
                | PatternPart::ZoneName
                | PatternPart::ZoneHours
                | PatternPart::ZoneMinutes
                | PatternPart::ZoneOffset
        ),
    };
    if pattern.contains('%') || pieces.iter().any(is_missing) {
        let message = format!("the pattern '{pattern}' asks for a part that an interval does not have");
        return Err(Error::new(ErrorKind::InvalidParameter, message)
            .hint("an interval has years, months, days, hours, minutes and seconds, such as 'DD HH24:MI:SS'"));
    }
    Ok(pieces)
}

/// An interval and its parts. Each part has the sign of the field that it comes from.
struct WrittenInterval {
    years: i64,
    months: i64,
    days: i64,
    seconds: i64,
    nanos: i64,
}

impl WrittenInterval {
    fn new(value: IntervalMonthDayNano) -> WrittenInterval {
        let months = i64::from(value.months);
        WrittenInterval {
            years: months / 12,
            months: months % 12,
            days: value.days.into(),
            seconds: value.nanoseconds / 1_000_000_000,
            nanos: value.nanoseconds % 1_000_000_000,
        }
    }

    fn write(&self, pieces: &[PatternPiece], written: &mut String) {
        for piece in pieces {
            match piece {
                PatternPiece::Literal(text) => written.push_str(text),
                PatternPiece::Part { part, letters, is_short, ordinal } => {
                    let start = written.len();
                    let count = |value: i64, digits: usize, written: &mut String| {
                        number(value, digits, *is_short, written);
                    };
                    let hours = self.seconds / 3_600;
                    // A month counts 30 days here, as in PostgreSQL.
                    let all_days = (self.years * 12 + self.months) * 30 + self.days;
                    match part {
                        PatternPart::Hour24 => count(hours, 2, written),
                        PatternPart::Hour12 => count(if hours % 12 == 0 { 12 } else { hours % 12 }, 2, written),
                        PatternPart::Minute => count(self.seconds / 60 % 60, 2, written),
                        PatternPart::Second => count(self.seconds % 60, 2, written),
                        PatternPart::Fraction(digits) => {
                            number(self.nanos / 10_i64.pow(9 - digits), *digits as usize, false, written);
                        }
                        PatternPart::SecondOfDay => count(self.seconds, 1, written),
                        PatternPart::Meridiem(has_points) => {
                            let text = match (hours % 24 < 12, has_points) {
                                (true, true) => "a.m.",
                                (false, true) => "p.m.",
                                (true, false) => "am",
                                (false, false) => "pm",
                            };
                            word(text, *letters, 0, written);
                        }
                        PatternPart::YearWithComma => {
                            count(self.years / 1_000, 1, written);
                            written.push(',');
                            number(self.years % 1_000, 3, false, written);
                        }
                        PatternPart::Year(digits) => year(self.years, *digits, *is_short, written),
                        PatternPart::Month => count(self.months, 2, written),
                        PatternPart::MonthRoman if self.months != 0 || self.years != 0 => {
                            // As in PostgreSQL, negative months count from the end of the year.
                            let month = match (self.months, self.years < 0) {
                                (1.., _) => self.months - 1,
                                (0, true) => 0,
                                (0, false) => 11,
                                _ => self.months + 12,
                            };
                            let width = if *is_short { 0 } else { 4 };
                            word(ROMAN_MONTHS[month as usize], *letters, width, written);
                        }
                        PatternPart::DayOfYear => count(all_days, 3, written),
                        PatternPart::Day => count(self.days, 2, written),
                        PatternPart::WeekOfMonth => count((self.days - 1) / 7 + 1, 1, written),
                        PatternPart::WeekOfYear => count((all_days - 1) / 7 + 1, 2, written),
                        PatternPart::Century => count(self.years / 100, 2, written),
                        PatternPart::Quarter if self.months != 0 => count((self.months - 1) / 3 + 1, 1, written),
                        // No months are in no quarter, and the other parts were refused.
                        _ => {}
                    }
                    let is_number = written[start..].bytes().next_back().is_some_and(|last| last.is_ascii_digit());
                    if let Some(letters) = ordinal
                        && is_number
                    {
                        let letters = if *letters == LetterCase::Upper { *letters } else { LetterCase::Lower };
                        word(ordinal_suffix(&written[start..]), letters, 0, written);
                    }
                }
            }
        }
    }
}

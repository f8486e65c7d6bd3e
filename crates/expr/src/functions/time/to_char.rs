//! The function `to_char`.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder, new_null_array};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type};
use chrono::format::{Item, Numeric, Pad, StrftimeItems};
use chrono::{DateTime, NaiveTime};
use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result, decimal_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{CivilDate, date_of_days, iso_week, monday_of, units_per_second, weekday};
use super::columns::{TIME_KIND, TIMESTAMP_KIND, out_of_range, slots, strict_nulls, tick_slots, unit_of};
use super::field::age_of_year;
use super::pattern::{LetterCase, MONTHS, PatternPart, PatternPiece, ROMAN_MONTHS, WEEKDAYS, pieces_of};
use super::to_char_interval::write_intervals;
use super::to_char_number::{NumberPattern, fraction_digits};
use crate::functions::signatures::ordinary;

/// The seconds since 1970 from the beginning of the year 1 to the end of the year 9999.
const YEARS_OF_FOUR_DIGITS: Range<i64> = -62_135_596_800..253_402_300_800;

/// `to_char(value, pattern)`
pub(super) const TO_CHAR: FunctionSpec = FunctionSpec {
    name: "to_char",
    aliases: &["date_format"],
    can_fail: true,
    signature,
    kernel,
    doc: "A date, time, timestamp, interval or number as text by a pattern: of PostgreSQL, such as \
          'YYYY-MM-DD HH24:MI:SS', or of strftime if there is a % in it, such as '%Y-%m-%d %H:%M:%S'.",
    example: ("to_char(TIMESTAMP '2013-07-31 12:30:45', 'DD.MM.YYYY HH24:MI')", "31.07.2013 12:30"),
    ..ordinary("time")
};

fn signature(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [value, pattern] = arguments else { return None };
    if value.kind.is_numeric() {
        // The pattern decides the digits after the point, so it must be known when the call is bound.
        let scale = fraction_digits(pattern.constant?.as_text()?);
        let kind = decimal_arrow(NARROW_DIGITS_MAX, scale);
        return Some(CallKinds { arguments: vec![kind, DataType::Utf8View], result: DataType::Utf8View });
    }
    let kind = match value.kind {
        kind @ (DataType::Timestamp(..) | DataType::Date32) => kind.clone(),
        DataType::Time64(_) => TIME_KIND,
        kind @ DataType::Interval(_) => kind.clone(),
        DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        _ => return None,
    };
    let fits = matches!(pattern.kind, DataType::Utf8View | DataType::Null);
    fits.then(|| CallKinds { arguments: vec![kind, DataType::Utf8View], result: DataType::Utf8View })
}

/// A prepared format.
enum CharFormat {
    /// A format of strftime.
    Strftime {
        items: Vec<Item<'static>>,
        /// Our own pieces of the format, which we use for the years from 1 to 9999 because they are faster.
        pieces: Option<Vec<PatternPiece>>,
    },
    /// A format of PostgreSQL.
    Pattern(Vec<PatternPiece>),
}

impl CharFormat {
    fn new(pattern: &str) -> Result<CharFormat> {
        match pattern.contains('%') {
            true => CharFormat::strftime(pattern),
            false => Ok(CharFormat::Pattern(pieces_of(pattern))),
        }
    }

    fn strftime(pattern: &str) -> Result<CharFormat> {
        let items = StrftimeItems::new(pattern).parse_to_owned();
        let items = items.map_err(|_| {
            Error::new(ErrorKind::InvalidParameter, format!("'{pattern}' is not a valid format of strftime"))
                .hint("a percent sign is written as '%%'")
        })?;
        let pieces = items.iter().map(own_piece).collect();
        Ok(CharFormat::Strftime { items, pieces })
    }
}

/// Our own piece for an item of strftime. For the years from 1 to 9999 both write equal texts.
fn own_piece(item: &Item<'static>) -> Option<PatternPiece> {
    let part = match item {
        Item::Literal(text) | Item::Space(text) => return Some(PatternPiece::Literal((*text).to_owned())),
        Item::OwnedLiteral(text) | Item::OwnedSpace(text) => return Some(PatternPiece::Literal(text.to_string())),
        Item::Numeric(Numeric::Year, Pad::Zero) => PatternPart::Year(4),
        Item::Numeric(Numeric::Month, Pad::Zero) => PatternPart::Month,
        Item::Numeric(Numeric::Day, Pad::Zero) => PatternPart::Day,
        Item::Numeric(Numeric::Ordinal, Pad::Zero) => PatternPart::DayOfYear,
        Item::Numeric(Numeric::Hour, Pad::Zero) => PatternPart::Hour24,
        Item::Numeric(Numeric::Minute, Pad::Zero) => PatternPart::Minute,
        Item::Numeric(Numeric::Second, Pad::Zero) => PatternPart::Second,
        _ => return None,
    };
    Some(PatternPiece::Part { part, letters: LetterCase::Upper, is_short: false, ordinal: None })
}

/// The kind of a value, which decides which parts a format may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenKind {
    Date,
    Time,
    Timestamp,
    Instant,
}

fn kernel(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let [value, pattern] = arguments else { return Err(super::columns::failed("to_char of other arguments")) };
    match value.values.data_type() {
        DataType::Decimal128(..) => write_numbers(value, pattern, rows),
        DataType::Interval(_) => write_intervals(value, pattern, rows),
        _ => write_all(value, pattern, rows, CharFormat::new),
    }
}

/// Writes numbers by the pattern of the call.
fn write_numbers(value: &Operand, pattern: &Operand, rows: usize) -> Result<ArrayRef> {
    let patterns = pattern.values.as_string_view();
    if rows == 0 || pattern.values.is_null(pattern.at(0)) {
        return Ok(new_null_array(&DataType::Utf8View, rows));
    }
    let pattern = NumberPattern::read(patterns.value(pattern.at(0)))?;
    let numbers = value.values.as_primitive::<Decimal128Type>();
    let texts = (0..rows).map(|row| {
        let row = value.at(row);
        numbers.is_valid(row).then(|| pattern.write(numbers.value(row)))
    });
    Ok(Arc::new(texts.collect::<StringViewArray>()))
}

/// Writes times by a format of strftime. `%f` has six digits, `%g` three and `%n` nine.
pub(super) fn write_strftime_of(value: &Operand, pattern: &Operand, rows: usize) -> Result<ArrayRef> {
    write_all(value, pattern, rows, |pattern| CharFormat::strftime(&with_digits(pattern)))
}

/// Replaces the letters of fractions by those of the library, which give the number of digits.
fn with_digits(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(character) = chars.next() {
        if character != '%' {
            written.push(character);
            continue;
        }
        match chars.next() {
            Some('f') => written.push_str("%6f"),
            Some('g') => written.push_str("%3f"),
            Some('n') => written.push_str("%9f"),
            Some(letter) => written.extend(['%', letter]),
            None => written.push('%'),
        }
    }
    written
}

fn write_all(
    value: &Operand,
    pattern: &Operand,
    rows: usize,
    prepare: impl Fn(&str) -> Result<CharFormat>,
) -> Result<ArrayRef> {
    let nulls = strict_nulls(&[value.clone(), pattern.clone()], rows);
    let kind = match value.values.data_type() {
        DataType::Date32 => WrittenKind::Date,
        DataType::Time64(_) => WrittenKind::Time,
        DataType::Timestamp(_, None) => WrittenKind::Timestamp,
        _ => WrittenKind::Instant,
    };
    let per_second = units_per_second(unit_of(value.values.data_type()));
    let (dates, ticks) = match kind {
        WrittenKind::Date => (Some(slots::<Date32Type>(value)), None),
        _ => (None, Some(tick_slots(value))),
    };
    let patterns = pattern.values.as_string_view();
    let mut last: Option<(usize, CharFormat)> = None;
    let mut written = String::new();
    let mut texts = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            texts.append_null();
            continue;
        }
        let at = pattern.at(row);
        let is_known =
            last.as_ref().is_some_and(|(known, _)| *known == at || patterns.value(*known) == patterns.value(at));
        if !is_known {
            last = Some((at, prepare(patterns.value(at))?));
        }
        let (_, format) = last.as_ref().expect("the format of this row is known");
        let (seconds, nanos) = match (&dates, &ticks) {
            (Some(dates), _) => (i64::from(dates.at(row)) * 86_400, 0),
            (_, Some(ticks)) => {
                let ticks = ticks.at(row);
                (ticks.div_euclid(per_second), ticks.rem_euclid(per_second) * (1_000_000_000 / per_second))
            }
            _ => (0, 0),
        };
        written.clear();
        match format {
            CharFormat::Pattern(pieces) => {
                WrittenMoment::new(seconds, nanos, kind).write(pieces, &mut written);
            }
            CharFormat::Strftime { pieces: Some(pieces), .. }
                if kind != WrittenKind::Time && YEARS_OF_FOUR_DIGITS.contains(&seconds) =>
            {
                WrittenMoment::new(seconds, nanos, kind).write(pieces, &mut written);
            }
            CharFormat::Strftime { items, .. } => {
                write_strftime(items, seconds, nanos, kind, &mut written)?.map_err(|_| {
                    let pattern = patterns.value(at);
                    let message = format!("the format '{pattern}' asks for a part that its value does not have");
                    Error::new(ErrorKind::InvalidParameter, message)
                })?;
            }
        }
        texts.append_value(&written);
    }
    Ok(std::sync::Arc::new(texts.finish()))
}

fn write_strftime(
    items: &[Item<'static>],
    seconds: i64,
    nanos: i64,
    kind: WrittenKind,
    written: &mut String,
) -> Result<std::fmt::Result> {
    if kind == WrittenKind::Time {
        let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds as u32, nanos as u32);
        let time = time.ok_or_else(|| out_of_range("the time"))?;
        return Ok(write!(written, "{}", time.format_with_items(items.iter())));
    }
    let moment = DateTime::from_timestamp(seconds, nanos as u32).ok_or_else(|| out_of_range("the timestamp"))?;
    Ok(match kind {
        WrittenKind::Instant => write!(written, "{}", moment.format_with_items(items.iter())),
        _ => write!(written, "{}", moment.naive_utc().format_with_items(items.iter())),
    })
}

/// A point in time and its parts.
struct WrittenMoment {
    days: i64,
    date: CivilDate,
    second_of_day: i64,
    nanos: i64,
    is_instant: bool,
}

impl WrittenMoment {
    fn new(seconds: i64, nanos: i64, kind: WrittenKind) -> WrittenMoment {
        let days = seconds.div_euclid(86_400);
        WrittenMoment {
            days,
            date: date_of_days(days),
            second_of_day: seconds.rem_euclid(86_400),
            nanos,
            is_instant: kind == WrittenKind::Instant,
        }
    }

    fn write(&self, pieces: &[PatternPiece], written: &mut String) {
        for piece in pieces {
            match piece {
                PatternPiece::Literal(text) => written.push_str(text),
                PatternPiece::Part { part, letters, is_short, ordinal } => {
                    let start = written.len();
                    self.write_part(*part, *letters, *is_short, written);
                    // An ordinal suffix makes sense only after a number.
                    let is_number = written[start..].bytes().next_back().is_some_and(|last| last.is_ascii_digit());
                    if let Some(letters) = ordinal
                        && is_number
                    {
                        let suffix = ordinal_suffix(&written[start..]);
                        match letters {
                            LetterCase::Upper => written.extend(suffix.chars().map(|c| c.to_ascii_uppercase())),
                            _ => written.push_str(suffix),
                        }
                    }
                }
            }
        }
    }

    /// Converts an astronomical year to the count of people, in which the year before 1 is 1 BC.
    fn counted_year(year: i64) -> i64 {
        if year > 0 { year } else { 1 - year }
    }

    fn write_part(&self, part: PatternPart, letters: LetterCase, is_short: bool, written: &mut String) {
        let date = self.date;
        let second = self.second_of_day;
        let hour = second / 3_600;
        let day_of_year = || i64::from(date.day_of_year);
        let name = weekday(self.days) as usize;
        let month = date.month as usize - 1;
        match part {
            PatternPart::Hour24 => number(hour, 2, is_short, written),
            PatternPart::Hour12 => number((hour + 11) % 12 + 1, 2, is_short, written),
            PatternPart::Minute => number(second / 60 % 60, 2, is_short, written),
            PatternPart::Second => number(second % 60, 2, is_short, written),
            PatternPart::Fraction(digits) => {
                number(self.nanos / 10_i64.pow(9 - digits), digits as usize, false, written);
            }
            PatternPart::SecondOfDay => number(second, 1, is_short, written),
            PatternPart::Meridiem(has_points) => {
                let text = match (hour < 12, has_points) {
                    (true, true) => "a.m.",
                    (false, true) => "p.m.",
                    (true, false) => "am",
                    (false, false) => "pm",
                };
                word(text, letters, 0, written);
            }
            PatternPart::YearWithComma => {
                let year = Self::counted_year(date.year);
                number(year / 1_000, 1, is_short, written);
                written.push(',');
                number(year % 1_000, 3, false, written);
            }
            PatternPart::Year(digits) => year(Self::counted_year(date.year), digits, is_short, written),
            PatternPart::IsoYear(digits) => {
                year(Self::counted_year(iso_week(self.days).0), digits, is_short, written);
            }
            PatternPart::Era(has_points) => {
                let text = match (date.year > 0, has_points) {
                    (true, true) => "a.d.",
                    (false, true) => "b.c.",
                    (true, false) => "ad",
                    (false, false) => "bc",
                };
                word(text, letters, 0, written);
            }
            PatternPart::MonthName => word(MONTHS[month], letters, if is_short { 0 } else { 9 }, written),
            PatternPart::MonthShort => word(&MONTHS[month][..3], letters, 0, written),
            PatternPart::Month => number(i64::from(date.month), 2, is_short, written),
            PatternPart::MonthRoman => word(ROMAN_MONTHS[month], letters, if is_short { 0 } else { 4 }, written),
            PatternPart::DayName => word(WEEKDAYS[name], letters, if is_short { 0 } else { 9 }, written),
            PatternPart::DayShort => word(&WEEKDAYS[name][..3], letters, 0, written),
            PatternPart::DayOfYear => number(day_of_year(), 3, is_short, written),
            PatternPart::IsoDayOfYear => {
                let (_, week) = iso_week(self.days);
                number((week - 1) * 7 + self.days - monday_of(self.days) + 1, 3, is_short, written);
            }
            PatternPart::Day => number(i64::from(date.day), 2, is_short, written),
            PatternPart::Weekday => number(name as i64 + 1, 1, is_short, written),
            PatternPart::IsoWeekday => number(self.days - monday_of(self.days) + 1, 1, is_short, written),
            PatternPart::WeekOfMonth => number((i64::from(date.day) - 1) / 7 + 1, 1, is_short, written),
            PatternPart::WeekOfYear => number((day_of_year() - 1) / 7 + 1, 2, is_short, written),
            PatternPart::IsoWeek => number(iso_week(self.days).1, 2, is_short, written),
            PatternPart::Century => number(age_of_year(date.year, 100), 2, is_short, written),
            PatternPart::Julian => number(self.days + 2_440_588, 1, is_short, written),
            PatternPart::Quarter => number(i64::from(date.month.div_ceil(3)), 1, is_short, written),
            PatternPart::ZoneName if self.is_instant => word("utc", letters, 0, written),
            PatternPart::ZoneName => {}
            PatternPart::ZoneHours | PatternPart::ZoneOffset => written.push_str("+00"),
            PatternPart::ZoneMinutes => written.push_str("00"),
        }
    }
}

pub(super) fn number(number: i64, digits: usize, is_short: bool, written: &mut String) {
    if !is_short && (0..100).contains(&number) && digits == 2 {
        // Most parts have two digits, and a formatter would take most of the time.
        written.push(char::from(b'0' + (number / 10) as u8));
        written.push(char::from(b'0' + (number % 10) as u8));
        return;
    }
    if !is_short && (0..10_000).contains(&number) && digits == 4 {
        self::number(number / 100, 2, false, written);
        self::number(number % 100, 2, false, written);
        return;
    }
    let digits = if is_short { 1 } else { digits + usize::from(number < 0) };
    // Writing to a String cannot fail.
    let _ = write!(written, "{number:0digits$}");
}

/// Writes the last digits of a year, or all of them for four digits.
pub(super) fn year(year: i64, digits: u32, is_short: bool, written: &mut String) {
    let year = if digits < 4 { year % 10_i64.pow(digits) } else { year };
    number(year, digits as usize, is_short, written);
}

pub(super) fn word(text: &str, letters: LetterCase, width: usize, written: &mut String) {
    let start = written.len();
    match letters {
        LetterCase::Upper => written.extend(text.chars().map(|c| c.to_ascii_uppercase())),
        LetterCase::Lower => written.extend(text.chars().map(|c| c.to_ascii_lowercase())),
        LetterCase::Title => {
            written.extend(text.chars().take(1).map(|c| c.to_ascii_uppercase()));
            written.extend(text.chars().skip(1).map(|c| c.to_ascii_lowercase()));
        }
    }
    for _ in written.len() - start..width {
        written.push(' ');
    }
}

pub(super) fn ordinal_suffix(digits: &str) -> &'static str {
    let bytes = digits.as_bytes();
    let is_teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match bytes.last() {
        Some(b'1') if !is_teen => "st",
        Some(b'2') if !is_teen => "nd",
        Some(b'3') if !is_teen => "rd",
        _ => "th",
    }
}

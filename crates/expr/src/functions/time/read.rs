//! Reads texts as dates and times with a format that the statement gives.

use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{Datelike, NaiveDateTime, NaiveTime, Timelike};

use super::calendar::{FIRST_DAY, LAST_DAY, days_in_month, days_of_date, is_leap_year, monday_of};
use super::pattern::{MONTHS, PatternPart, PatternPiece, ROMAN_MONTHS, WEEKDAYS, pieces_of};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A prepared format.
#[derive(Debug)]
pub(super) enum ReadFormat {
    /// A format of strftime.
    Strftime(Vec<Item<'static>>),
    /// A format of PostgreSQL.
    Pattern(Vec<PatternPiece>),
    /// An invalid format, which no text matches.
    Malformed,
}

/// The date or time that a text names. It is in UTC if the text names an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadMoment {
    /// Days since 1970-01-01, if the text names a date.
    pub day: Option<i64>,
    /// Nanoseconds since midnight.
    pub nanos: i64,
}

impl ReadFormat {
    /// Prepares a format. A percent sign makes it one of strftime.
    pub(super) fn new(format: &str) -> ReadFormat {
        if !format.contains('%') {
            return ReadFormat::Pattern(pieces_of(format));
        }
        StrftimeItems::new(format).parse_to_owned().map_or(ReadFormat::Malformed, ReadFormat::Strftime)
    }

    /// Prepares a format of strftime, in which `%f`, `%g` and `%n` are fractions of a second.
    pub(super) fn strftime(format: &str) -> ReadFormat {
        // After a point, the library reads a fraction of any length.
        let format = ["%f", "%g", "%n"].iter().fold(format.to_owned(), |format, letter| {
            let digits = match *letter {
                "%f" => "%6f",
                "%g" => "%3f",
                _ => "%9f",
            };
            format.replace(&format!(".{letter}"), "%.f").replace(letter, digits)
        });
        StrftimeItems::new(&format).parse_to_owned().map_or(ReadFormat::Malformed, ReadFormat::Strftime)
    }

    /// Reads the date or time of a text. Returns `None` if the text does not match the format or names a date or time
    /// that does not exist.
    pub(super) fn read(&self, text: &str) -> Option<ReadMoment> {
        match self {
            ReadFormat::Strftime(items) => read_strftime(items, text),
            ReadFormat::Pattern(pieces) => PatternReader::default().read(pieces, text),
            ReadFormat::Malformed => None,
        }
    }
}

fn read_strftime(items: &[Item<'static>], text: &str) -> Option<ReadMoment> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    let nanos_of = |time: NaiveTime| {
        i64::from(time.num_seconds_from_midnight()) * NANOS_PER_SECOND + i64::from(time.nanosecond() % 1_000_000_000)
    };
    let offset = parsed.offset().unwrap_or(0);
    let moment = parsed.to_naive_datetime_with_offset(offset);
    let date_alone = || {
        let has_time = parsed.hour_div_12().is_some() || parsed.hour_mod_12().is_some() || parsed.minute().is_some();
        if has_time { None } else { parsed.to_naive_date().ok() }
    };
    if let Some(moment) = moment.ok().or_else(|| date_alone().map(|date| date.and_time(NaiveTime::MIN))) {
        let utc: NaiveDateTime = moment.checked_sub_signed(chrono::TimeDelta::seconds(i64::from(offset)))?;
        let date = utc.date();
        let day = days_of_date(i64::from(date.year()), date.month(), date.day());
        return Some(ReadMoment { day: Some(day), nanos: nanos_of(utc.time()) });
    }
    let time = parsed.to_naive_time().ok()?;
    Some(ReadMoment { day: None, nanos: nanos_of(time) })
}

/// The parts that were read so far.
#[derive(Default)]
struct PatternReader {
    year: Option<i64>,
    century: Option<i64>,
    is_before_christ: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    iso_day_of_year: Option<i64>,
    julian: Option<i64>,
    hour24: Option<i64>,
    hour12: Option<i64>,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    second_of_day: Option<i64>,
    nanos: i64,
    offset_sign: i64,
    offset_hours: i64,
    offset_minutes: i64,
    has_offset: bool,
    has_time: bool,
}

impl PatternReader {
    fn read(mut self, pieces: &[PatternPiece], text: &str) -> Option<ReadMoment> {
        let mut rest = text.trim_start();
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                PatternPiece::Literal(literal) => rest = skip_literal(literal, rest),
                PatternPiece::Part { part, is_short, ordinal, .. } => {
                    // If the next part is digits too, no separator ends this one. Then it must take exactly its number
                    // of digits.
                    let next = pieces.get(at + 1);
                    let is_tight = matches!(next, Some(PatternPiece::Part { part, .. }) if is_digits(*part));
                    rest = self.read_part(*part, is_tight && !is_short, rest.trim_start())?;
                    if ordinal.is_some() && rest.len() >= 2 && rest.is_char_boundary(2) {
                        rest = &rest[2..];
                    }
                }
            }
        }
        self.finish()
    }

    fn read_part<'t>(&mut self, part: PatternPart, is_tight: bool, text: &'t str) -> Option<&'t str> {
        let digits = |loose: usize, tight: usize| digits_of(text, if is_tight { tight } else { loose });
        let rest = match part {
            PatternPart::Hour24 => set(&mut self.hour24, digits(2, 2)?),
            PatternPart::Hour12 => set(&mut self.hour12, digits(2, 2)?),
            PatternPart::Minute => {
                let (minute, rest) = digits(2, 2)?;
                self.minute = minute;
                rest
            }
            PatternPart::Second => {
                let (second, rest) = digits(2, 2)?;
                self.second = second;
                rest
            }
            PatternPart::Fraction(places) => {
                let (fraction, rest) = digits(places as usize, places as usize)?;
                self.nanos = fraction * 10_i64.pow(9 - (text.len() - rest.len()) as u32);
                rest
            }
            PatternPart::SecondOfDay => set(&mut self.second_of_day, digits(5, 5)?),
            PatternPart::Meridiem(_) => {
                let (which, rest) = one_of(text, &["a.m.", "p.m.", "am", "pm"])?;
                self.is_afternoon = Some(which % 2 == 1);
                rest
            }
            PatternPart::YearWithComma => {
                let (thousands, rest) = digits(7, 7)?;
                let (year, rest) = digits_of(rest.strip_prefix(',')?, 3)?;
                self.year = Some(thousands * 1_000 + year);
                rest
            }
            PatternPart::Year(places) => {
                let (year, rest) = signed_digits(text, if is_tight { places as usize } else { 9 })?;
                self.year = Some(completed(year, places, text.len() - rest.len()));
                rest
            }
            PatternPart::IsoYear(places) => {
                let (year, rest) = signed_digits(text, if is_tight { places as usize } else { 9 })?;
                self.iso_year = Some(completed(year, places, text.len() - rest.len()));
                rest
            }
            PatternPart::Era(_) => {
                let (which, rest) = one_of(text, &["a.d.", "b.c.", "ad", "bc"])?;
                self.is_before_christ = which % 2 == 1;
                rest
            }
            PatternPart::MonthName | PatternPart::MonthShort => {
                let (month, rest) = name_of(text, &MONTHS)?;
                self.month = Some(month + 1);
                rest
            }
            PatternPart::Month => set(&mut self.month, digits(2, 2)?),
            PatternPart::MonthRoman => {
                // We take the longest numeral that fits, because shorter ones are prefixes of it.
                let found = ROMAN_MONTHS.iter().enumerate().filter(|(_, roman)| starts_with(text, roman));
                let (month, roman) = found.max_by_key(|(_, roman)| roman.len())?;
                self.month = Some(month as i64 + 1);
                &text[roman.len()..]
            }
            PatternPart::DayName | PatternPart::DayShort => name_of(text, &WEEKDAYS)?.1,
            PatternPart::DayOfYear => set(&mut self.day_of_year, digits(3, 3)?),
            PatternPart::IsoDayOfYear => set(&mut self.iso_day_of_year, digits(3, 3)?),
            PatternPart::Day => set(&mut self.day, digits(2, 2)?),
            PatternPart::IsoWeekday => set(&mut self.iso_weekday, digits(1, 1)?),
            PatternPart::IsoWeek => set(&mut self.iso_week, digits(2, 2)?),
            PatternPart::Weekday | PatternPart::WeekOfMonth | PatternPart::Quarter => digits(1, 1)?.1,
            PatternPart::WeekOfYear => {
                let (week, rest) = digits(2, 2)?;
                self.day_of_year = Some((week - 1) * 7 + 1);
                rest
            }
            PatternPart::Century => set(&mut self.century, digits(2, 2)?),
            PatternPart::Julian => set(&mut self.julian, digits(9, 9)?),
            PatternPart::ZoneHours => {
                let (sign, rest) = sign_of(text);
                let (hours, rest) = digits_of(rest, 2)?;
                (self.offset_sign, self.offset_hours, self.has_offset) = (sign, hours, true);
                rest
            }
            PatternPart::ZoneMinutes => {
                let (minutes, rest) = digits(2, 2)?;
                self.offset_minutes = minutes;
                rest
            }
            PatternPart::ZoneOffset => {
                let (sign, rest) = sign_of(text);
                let (hours, rest) = digits_of(rest, 2)?;
                (self.offset_sign, self.offset_hours, self.has_offset) = (sign, hours, true);
                let minutes = rest.strip_prefix(':').unwrap_or(rest);
                match digits_of(minutes, 2) {
                    Some((found, rest)) => {
                        self.offset_minutes = found;
                        rest
                    }
                    None => rest,
                }
            }
            PatternPart::ZoneName => {
                let (_, rest) = one_of(text, &["utc", "gmt", "z"])?;
                rest
            }
        };
        self.has_time |= matches!(
            part,
            PatternPart::Hour12
                | PatternPart::Hour24
                | PatternPart::Minute
                | PatternPart::Second
                | PatternPart::SecondOfDay
        );
        Some(rest)
    }

    fn day(&self) -> Option<i64> {
        if let Some(julian) = self.julian {
            return Some(julian - 2_440_588);
        }
        if let (Some(year), true) = (self.iso_year, self.iso_week.is_some() || self.iso_day_of_year.is_some()) {
            let first = monday_of(days_of_date(year, 1, 4));
            let in_year = match (self.iso_day_of_year, self.iso_week) {
                (Some(day), _) => day - 1,
                (None, Some(week @ 1..=53)) => (week - 1) * 7 + self.iso_weekday.unwrap_or(1) - 1,
                _ => return None,
            };
            return (0..371).contains(&in_year).then_some(first + in_year);
        }
        let year = match (self.year.or(self.iso_year), self.century) {
            (Some(year), _) if self.is_before_christ => 1 - year,
            (Some(year), _) => year,
            (None, Some(century)) => (century - 1) * 100 + 1,
            (None, None) => return None,
        };
        if let Some(day) = self.day_of_year {
            let days = if is_leap_year(year) { 366 } else { 365 };
            return (1..=days).contains(&day).then(|| days_of_date(year, 1, 1) + day - 1);
        }
        let month = u32::try_from(self.month.unwrap_or(1)).ok().filter(|month| (1..=12).contains(month))?;
        let day = u32::try_from(self.day.unwrap_or(1)).ok()?;
        let exists = (1..=days_in_month(year, month)).contains(&day);
        exists.then(|| days_of_date(year, month, day))
    }

    fn finish(self) -> Option<ReadMoment> {
        // A month or day alone is no date.
        let names_date = self.julian.or(self.year).or(self.iso_year).or(self.century).is_some();
        let day = if names_date { Some(self.day()?) } else { None };
        let hour = match (self.hour24, self.hour12) {
            (Some(hour), _) => hour,
            (None, Some(hour @ 1..=12)) if self.is_afternoon.is_some() => {
                hour % 12 + if self.is_afternoon == Some(true) { 12 } else { 0 }
            }
            (None, Some(hour)) => hour,
            (None, None) => 0,
        };
        if hour > 23 || self.minute > 59 || self.second > 59 || self.offset_minutes > 59 {
            return None;
        }
        let second = self.second_of_day.unwrap_or(hour * 3_600 + self.minute * 60 + self.second);
        if second >= 86_400 || !(names_date || self.has_time) {
            return None;
        }
        let offset =
            if self.has_offset { self.offset_sign * (self.offset_hours * 3_600 + self.offset_minutes * 60) } else { 0 };
        // The offset may move the moment into the previous or the next day.
        let second = second - offset;
        let day = day.map(|day| day + second.div_euclid(86_400));
        if day.is_some_and(|day| !(FIRST_DAY..=LAST_DAY).contains(&day)) {
            return None;
        }
        Some(ReadMoment { day, nanos: second.rem_euclid(86_400) * NANOS_PER_SECOND + self.nanos })
    }
}

/// Completes a year of fewer than four digits to the year nearest to 2020 that ends with them.
fn completed(year: i64, places: u32, given: usize) -> i64 {
    match (places, given) {
        (4, _) => year,
        (_, 1 | 2) if year < 70 => 2_000 + year,
        (_, 1 | 2) => 1_900 + year,
        (_, 3) if year < 520 => 2_000 + year,
        (_, 3) => 1_000 + year,
        _ => year,
    }
}

fn is_digits(part: PatternPart) -> bool {
    use PatternPart::{DayName, DayShort, Era, Meridiem, MonthName, MonthRoman, MonthShort, ZoneName};
    !matches!(part, DayName | DayShort | Era(_) | Meridiem(_) | MonthName | MonthRoman | MonthShort | ZoneName)
        && !matches!(part, PatternPart::ZoneHours | PatternPart::ZoneOffset)
}

fn set<'t>(place: &mut Option<i64>, (number, rest): (i64, &'t str)) -> &'t str {
    *place = Some(number);
    rest
}

/// Reads at least one digit and at most `most`.
fn digits_of(text: &str, most: usize) -> Option<(i64, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(count);
    Some((number.parse().ok()?, rest))
}

fn signed_digits(text: &str, most: usize) -> Option<(i64, &str)> {
    match text.strip_prefix('-') {
        Some(text) => digits_of(text, most).map(|(number, rest)| (-number, rest)),
        None => digits_of(text, most),
    }
}

fn sign_of(text: &str) -> (i64, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    }
}

fn starts_with(text: &str, word: &str) -> bool {
    text.as_bytes().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns the index of the first of `words` that the text begins with, in any case, and the rest of the text.
fn one_of<'t>(text: &'t str, words: &[&str]) -> Option<(usize, &'t str)> {
    let found = words.iter().position(|word| starts_with(text, word))?;
    Some((found, &text[words[found].len()..]))
}

/// Returns the index of the name that the text begins with, in full or by its first three letters, and the rest of the
/// text.
fn name_of<'t>(text: &'t str, names: &[&str]) -> Option<(i64, &'t str)> {
    let full = one_of(text, names);
    let found = full.or_else(|| {
        let short = names.iter().position(|name| starts_with(text, &name[..3]))?;
        Some((short, &text[3..]))
    })?;
    Some((found.0 as i64, found.1))
}

/// Skips a literal of the pattern. A sign of the pattern matches any sign or none; a letter matches any one character.
fn skip_literal<'t>(literal: &str, text: &'t str) -> &'t str {
    let mut rest = text;
    for expected in literal.chars() {
        let mut chars = rest.chars();
        match chars.next() {
            None => return rest,
            Some(_) if expected.is_alphanumeric() => rest = chars.as_str(),
            Some(found) if expected.is_whitespace() && !found.is_whitespace() => {}
            Some(found) if found == expected || !(found.is_alphanumeric() || found == '+') => rest = chars.as_str(),
            Some(_) => {}
        }
    }
    rest
}

//! The smallest unit of time that a format writes.

use chrono::format::{Fixed, Item, Numeric, StrftimeItems};

use super::pattern::{PatternPart, PatternPiece, pieces_of};

/// Units of time, from the smallest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WrittenUnit {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Year,
}

impl WrittenUnit {
    /// The name of the unit for `date_trunc`.
    fn name(self) -> &'static str {
        match self {
            WrittenUnit::Second => "second",
            WrittenUnit::Minute => "minute",
            WrittenUnit::Hour => "hour",
            WrittenUnit::Day => "day",
            WrittenUnit::Month => "month",
            WrittenUnit::Year => "year",
        }
    }
}

/// The smallest unit that `strftime` or, with `is_char`, `to_char` writes of a timestamp by this pattern. All times of
/// such a unit have the same text. For example, '%Y-%m-%d %H:00' writes hours. `None` if the pattern has a part that we
/// know nothing about, or a fraction of a second.
pub fn written_unit(pattern: &str, is_char: bool) -> Option<&'static str> {
    let units: Option<Vec<WrittenUnit>> = match is_char && !pattern.contains('%') {
        true => pieces_of(pattern).iter().map(unit_of_piece).collect(),
        false => StrftimeItems::new(pattern).map(|item| unit_of_item(&item)).collect(),
    };
    Some(units?.into_iter().min()?.name())
}

fn unit_of_item(item: &Item<'_>) -> Option<WrittenUnit> {
    Some(match item {
        Item::Literal(_) | Item::OwnedLiteral(_) | Item::Space(_) | Item::OwnedSpace(_) => WrittenUnit::Year,
        Item::Numeric(Numeric::Year, _) => WrittenUnit::Year,
        Item::Numeric(Numeric::Month, _) | Item::Fixed(Fixed::ShortMonthName | Fixed::LongMonthName) => {
            WrittenUnit::Month
        }
        Item::Numeric(Numeric::Day | Numeric::Ordinal | Numeric::IsoWeek | Numeric::IsoYear, _)
        | Item::Fixed(Fixed::ShortWeekdayName | Fixed::LongWeekdayName) => WrittenUnit::Day,
        Item::Numeric(Numeric::Hour | Numeric::Hour12, _) | Item::Fixed(Fixed::LowerAmPm | Fixed::UpperAmPm) => {
            WrittenUnit::Hour
        }
        Item::Numeric(Numeric::Minute, _) => WrittenUnit::Minute,
        Item::Numeric(Numeric::Second, _) => WrittenUnit::Second,
        _ => return None,
    })
}

fn unit_of_piece(piece: &PatternPiece) -> Option<WrittenUnit> {
    let PatternPiece::Part { part, .. } = piece else { return Some(WrittenUnit::Year) };
    Some(match part {
        PatternPart::Year(_) | PatternPart::YearWithComma | PatternPart::Era(_) | PatternPart::Century => {
            WrittenUnit::Year
        }
        PatternPart::Month
        | PatternPart::MonthName
        | PatternPart::MonthShort
        | PatternPart::MonthRoman
        | PatternPart::Quarter => WrittenUnit::Month,
        PatternPart::IsoYear(_)
        | PatternPart::DayName
        | PatternPart::DayShort
        | PatternPart::DayOfYear
        | PatternPart::IsoDayOfYear
        | PatternPart::Day
        | PatternPart::Weekday
        | PatternPart::IsoWeekday
        | PatternPart::WeekOfMonth
        | PatternPart::WeekOfYear
        | PatternPart::IsoWeek
        | PatternPart::Julian => WrittenUnit::Day,
        PatternPart::Hour12 | PatternPart::Hour24 | PatternPart::Meridiem(_) => WrittenUnit::Hour,
        PatternPart::Minute => WrittenUnit::Minute,
        PatternPart::Second | PatternPart::SecondOfDay => WrittenUnit::Second,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_part_of_a_format_is_its_unit() {
        for (pattern, expected) in [
            ("%Y", Some("year")),
            ("%Y-%m", Some("month")),
            ("%B %Y", Some("month")),
            ("%F", Some("day")),
            ("%G-W%V", Some("day")),
            ("%Y-%m-%d %H:00", Some("hour")),
            ("%d.%m. %I %p", Some("hour")),
            ("%H:%M", Some("minute")),
            ("%T", Some("second")),
            ("%T%.3f", None),
            ("%s", None),
            ("%Q", None),
            ("no part", Some("year")),
            ("", None),
        ] {
            assert_eq!(written_unit(pattern, false), expected, "{pattern}");
        }
        for (pattern, expected) in [
            ("YYYY", Some("year")),
            ("YYYY-MM", Some("month")),
            ("YYYY Q", Some("month")),
            ("IYYY-IW", Some("day")),
            ("YYYY-MM-DD HH24:00", Some("hour")),
            ("HH12 AM", Some("hour")),
            ("HH24:MI", Some("minute")),
            ("HH24:MI:SS", Some("second")),
            ("HH24:MI:SS.MS", None),
            ("%Y-%m", Some("month")),
        ] {
            assert_eq!(written_unit(pattern, true), expected, "{pattern}");
        }
    }
}

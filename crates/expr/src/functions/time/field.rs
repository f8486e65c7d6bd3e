//! The fields of `extract` and `date_trunc`.

use rowmill_plan::function::ArgumentKind;

/// A part of a date, time or interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeField {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
    Era,
    YearWeek,
}

impl TimeField {
    /// Returns the field with this name in any case. Several fields also have a plural and short names.
    pub(super) fn named(name: &str) -> Option<TimeField> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "nanosecond" | "nanoseconds" | "ns" | "nsec" | "nsecs" | "nsecond" | "nseconds" => TimeField::Nanosecond,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" => TimeField::Microsecond,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => TimeField::Millisecond,
            "second" | "seconds" | "s" | "sec" | "secs" => TimeField::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => TimeField::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => TimeField::Hour,
            "day" | "days" | "d" => TimeField::Day,
            "week" | "weeks" | "w" => TimeField::Week,
            "month" | "months" | "mon" | "mons" => TimeField::Month,
            "quarter" | "quarters" | "qtr" => TimeField::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => TimeField::Year,
            "decade" | "decades" | "dec" | "decs" => TimeField::Decade,
            "century" | "centuries" | "c" | "cent" => TimeField::Century,
            "millennium" | "millenniums" | "millennia" | "mil" | "mils" => TimeField::Millennium,
            "dow" | "dayofweek" | "weekday" => TimeField::DayOfWeek,
            "isodow" => TimeField::IsoDayOfWeek,
            "doy" | "dayofyear" => TimeField::DayOfYear,
            "isoyear" => TimeField::IsoYear,
            "julian" => TimeField::Julian,
            "epoch" => TimeField::Epoch,
            "timezone" => TimeField::Zone,
            "timezone_hour" => TimeField::ZoneHour,
            "timezone_minute" => TimeField::ZoneMinute,
            "era" => TimeField::Era,
            "yearweek" => TimeField::YearWeek,
            _ => return None,
        })
    }

    /// Returns the field that an argument names. The argument must be a literal.
    pub(super) fn of(argument: &ArgumentKind<'_>) -> Option<TimeField> {
        argument.constant?.as_text().and_then(TimeField::named)
    }

    /// Whether a time of day has the field.
    pub(super) fn is_of_times(self) -> bool {
        use TimeField::{Hour, Microsecond, Millisecond, Minute, Nanosecond, Second};
        matches!(self, Nanosecond | Microsecond | Millisecond | Second | Minute | Hour)
    }

    /// Whether an interval has the field.
    pub(super) fn is_of_intervals(self) -> bool {
        use TimeField::{Century, Day, Decade, Millennium, Month, Quarter, Week, Year};
        self.is_of_times() || matches!(self, Day | Week | Month | Quarter | Year | Decade | Century | Millennium)
    }
}

/// Returns the number of a year's century (`years` is 100) or millennium (1,000). The first one begins with year 1, and
/// the one before it is -1.
#[inline]
pub(super) fn age_of_year(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// Returns the first year of a century or millennium.
#[inline]
pub(super) fn first_year_of_age(age: i64, years: i64) -> i64 {
    if age > 0 { (age - 1) * years + 1 } else { age * years + 1 }
}

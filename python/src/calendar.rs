//! Days and microseconds as the parts of Python's dates and times, and back.
//!
//! Python's calendar is the Gregorian one, extended to the year 1. The conversion counts years from March, so that the
//! leap day is the last day of a year (Howard Hinnant, <https://howardhinnant.github.io/date_algorithms.html>).

/// The microseconds of a second.
pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
/// The microseconds of a day.
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// The days from 0000-03-01 to 1970-01-01.
const DAYS_FROM_MARCH_0000: i64 = 719_468;
/// The days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;

/// A date of Python: the years 1 to 9999.
pub(crate) struct CivilDate {
    pub(crate) year: i32,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

impl CivilDate {
    /// The date that is `days` after 1970-01-01, or `None` if Python has no such date.
    pub(crate) fn of_days(days: i64) -> Option<CivilDate> {
        let days = days.checked_add(DAYS_FROM_MARCH_0000)?;
        let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (1..=9999).contains(&year).then_some(CivilDate { year: year as i32, month: month as u8, day: day as u8 })
    }

    /// The days from 1970-01-01 to this date.
    pub(crate) fn to_days(&self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_PER_ERA + day_of_era - DAYS_FROM_MARCH_0000
    }
}

/// The parts of a time of day.
pub(crate) struct TimeOfDay {
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) micros: u32,
}

impl TimeOfDay {
    /// The time that is `micros` after midnight. 24:00:00, which Python does not have, is midnight.
    pub(crate) fn of_micros(micros: i64) -> TimeOfDay {
        let (seconds, micros) = (micros / MICROS_PER_SECOND % 86_400, micros % MICROS_PER_SECOND);
        TimeOfDay {
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            micros: micros as u32,
        }
    }

    /// The microseconds since midnight.
    pub(crate) fn to_micros(&self) -> i64 {
        let seconds = (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second);
        seconds * MICROS_PER_SECOND + i64::from(self.micros)
    }
}

//! Arithmetic with units of the calendar, for the partitions and the life of rows of time tables.
//!
//! Moments are microseconds since 1970-01-01 00:00 UTC in 128 bits, so that no sum of valid moments overflows. Days are
//! counted in years that begin on 1 March: then the leap day is the last day of its year.

use crate::time_table::CalendarUnit;

/// Microseconds of an hour and of a day.
const HOUR_US: i128 = 3_600_000_000;
const DAY_US: i128 = 24 * HOUR_US;
/// Days of 400 years, and days from 0000-03-01 to 1970-01-01.
const ERA_DAYS: i128 = 146_097;
const DAYS_TO_EPOCH: i128 = 719_468;

impl CalendarUnit {
    /// The moment `count` units after `moment_us`, or before it for a negative count. A day of the month that the other
    /// month does not have becomes its last day.
    pub fn add(self, moment_us: i128, count: i64) -> i128 {
        let count = i128::from(count);
        match self {
            CalendarUnit::Hour => moment_us + count * HOUR_US,
            CalendarUnit::Day => moment_us + count * DAY_US,
            CalendarUnit::Week => moment_us + count * 7 * DAY_US,
            CalendarUnit::Month => add_months(moment_us, count),
            CalendarUnit::Year => add_months(moment_us, 12 * count),
        }
    }
}

fn add_months(moment_us: i128, count: i128) -> i128 {
    let (year, month, day) = date_of(moment_us.div_euclid(DAY_US));
    let months = year * 12 + (month - 1) + count;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let last = days_of(next_year, next_month, 1) - days_of(year, month, 1);
    days_of(year, month, day.min(last)) * DAY_US + moment_us.rem_euclid(DAY_US)
}

/// The first moment of a date. The month must be 1 to 12, and the day in that month.
pub fn moment_of_date(year: i64, month: u32, day: u32) -> i128 {
    days_of(year.into(), month.into(), day.into()) * DAY_US
}

/// The year, the month and the day of a moment.
pub fn date_of_moment(moment_us: i128) -> (i128, i128, i128) {
    date_of(moment_us.div_euclid(DAY_US))
}

/// The days from 1970-01-01 to a date.
fn days_of(year: i128, month: i128, day: i128) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_TO_EPOCH
}

/// The year, the month and the day of the month of a day, which is counted from 1970-01-01.
fn date_of(days: i128) -> (i128, i128, i128) {
    let days = days + DAYS_TO_EPOCH;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i128::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree_over_eras() {
        let mut expected = (-401, 12, 31);
        for days in days_of(-401, 12, 31)..days_of(2_401, 1, 1) {
            let date = date_of(days);
            assert_eq!(date, expected);
            assert_eq!(days_of(date.0, date.1, date.2), days);
            let leap = date.0 % 4 == 0 && (date.0 % 100 != 0 || date.0 % 400 == 0);
            let last = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][date.1 as usize - 1];
            expected = match (date.2 == last, date.1 == 12) {
                (false, _) => (date.0, date.1, date.2 + 1),
                (true, false) => (date.0, date.1 + 1, 1),
                (true, true) => (date.0 + 1, 1, 1),
            };
        }
    }

    #[test]
    fn units_are_added_by_the_calendar() {
        let noon = |year, month, day| moment_of_date(year, month, day) + DAY_US / 2;
        assert_eq!(CalendarUnit::Month.add(noon(2024, 3, 31), -1), noon(2024, 2, 29));
        assert_eq!(CalendarUnit::Month.add(noon(2024, 1, 31), 25), noon(2026, 2, 28));
        assert_eq!(CalendarUnit::Year.add(noon(2024, 2, 29), -1), noon(2023, 2, 28));
        assert_eq!(CalendarUnit::Week.add(noon(2024, 3, 1), -1), noon(2024, 2, 23));
        assert_eq!(CalendarUnit::Day.add(noon(2024, 3, 1), -1), noon(2024, 2, 29));
        assert_eq!(CalendarUnit::Hour.add(noon(2024, 1, 1), 36), moment_of_date(2024, 1, 3));
        assert_eq!(moment_of_date(1970, 1, 1), 0);
    }
}

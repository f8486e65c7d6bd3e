//! The proleptic Gregorian calendar over days since 1970-01-01.
//!
//! Both directions count from 1 March, so that the leap day is the last day of its year and needs no special case. The
//! calendar repeats after an era of 400 years, which has 146,097 days. Method: Howard Hinnant, "chrono-Compatible
//! Low-Level Date Algorithms". Years are astronomical: year 0 is the one before year 1.

use rowmill_base::TimeUnit;

/// The days in 400 years.
const DAYS_PER_ERA: i64 = 146_097;
/// The days from 0000-03-01, where era 0 starts, to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;

/// Returns the days from 1970-01-01 to a date. The date must exist; see [`days_in_month`].
pub fn days_of_date(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH
}

/// Returns the year, month and day of a number of days since 1970-01-01.
pub fn date_of_days(days: i64) -> (i64, u32, u32) {
    let days = days + DAYS_TO_EPOCH;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / (DAYS_PER_ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the units per second of a timestamp or duration.
pub fn units_per_second(unit: impl Into<TimeUnit>) -> i64 {
    10_i64.pow(unit.into().digits())
}

/// Returns the number of days of a month, 1 to 12.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_have_known_days() {
        assert_eq!(days_of_date(1970, 1, 1), 0);
        assert_eq!(days_of_date(2013, 7, 31), 15_917);
        assert_eq!(days_of_date(1969, 12, 31), -1);
        assert_eq!(days_of_date(2000, 2, 29), 11_016);
        assert_eq!(date_of_days(-719_528), (0, 1, 1));
    }

    #[test]
    fn both_ways_agree_over_several_eras() {
        let mut expected = days_of_date(-801, 1, 1);
        for year in -801..=2401 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    assert_eq!(days_of_date(year, month, day), expected);
                    assert_eq!(date_of_days(expected), (year, month, day));
                    expected += 1;
                }
            }
        }
    }

    #[test]
    fn the_ends_of_date32_are_dates() {
        for days in [i64::from(i32::MIN), i64::from(i32::MAX)] {
            let (year, month, day) = date_of_days(days);
            assert_eq!(days_of_date(year, month, day), days);
        }
    }
}

//! The proleptic Gregorian calendar over days since 1970-01-01.
//!
//! Both directions count years from 1 March, so that the leap day is the last day of its year and needs no special
//! case. The calendar repeats after 400 years of 146,097 days. The conversion from days to a date is that of Neri and
//! Schneider ("Euclidean affine functions and their application to calendar algorithms", 2022), in which one wide
//! multiplication replaces the divisions. Years are astronomical: year 0 is the one before year 1.

use rowmill_base::TimeUnit;

/// The days in 400 years.
pub(crate) const DAYS_PER_ERA: i64 = 146_097;
/// The days from 0000-03-01 to 1970-01-01.
pub(crate) const DAYS_TO_EPOCH: i64 = 719_468;
/// The eras that are added so that every day has a positive number. They cover every count of seconds in 64 bits.
const ERAS_ADDED: i64 = 1_000_000_000;

/// A date and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CivilDate {
    /// The astronomical year.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 1 to 366.
    pub day_of_year: u32,
}

/// Returns the days from 1970-01-01 to a date. The date must exist; see [`days_in_month`].
#[inline]
pub(crate) const fn days_of_date(year: i64, month: u32, day: u32) -> i64 {
    // January and February belong to the year that began in March before.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = ((month + 9) % 12) as i64;
    let day_of_year = (153 * month_from_march + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH
}

/// Returns the date of a number of days since 1970-01-01.
#[inline(always)]
pub(crate) fn date_of_days(days: i64) -> CivilDate {
    let number = (days + DAYS_TO_EPOCH + ERAS_ADDED * DAYS_PER_ERA) as u64;
    let quarters = 4 * number + 3;
    let century = quarters / DAYS_PER_ERA as u64;
    let day_of_century = (quarters % DAYS_PER_ERA as u64) / 4;
    let product = 2_939_745 * (4 * day_of_century + 3);
    let year_of_century = product >> 32;
    let day_of_year = ((product & 0xffff_ffff) / 2_939_745 / 4) as u32;
    let month_and_day = 2141 * day_of_year + 197_913;
    let after_december = day_of_year >= 306;
    let month = (month_and_day >> 16) - if after_december { 12 } else { 0 };
    let day = (month_and_day & 0xffff) / 2141 + 1;
    let year = (100 * century + year_of_century) as i64 - 400 * ERAS_ADDED + i64::from(after_december);
    let is_leap = (if year_of_century != 0 { year_of_century } else { century }).is_multiple_of(4);
    CivilDate { year, month, day, day_of_year: from_january(day_of_year, is_leap) }
}

/// Converts the number of a day, counted from 1 March, to its number from 1 January. `is_leap` belongs to the year that
/// contains this March.
#[inline(always)]
pub(crate) fn from_january(from_march: u32, is_leap: bool) -> u32 {
    if from_march >= 306 { from_march - 305 } else { from_march + 60 + u32::from(is_leap) }
}

/// Whether a year has 366 days.
pub(crate) const fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the number of days of a month, 1 to 12.
#[inline]
pub(crate) const fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the units per second of a timestamp or duration.
pub fn units_per_second(unit: impl Into<TimeUnit>) -> i64 {
    10_i64.pow(unit.into().digits())
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
        assert_eq!(date_of_days(-719_528), CivilDate { year: 0, month: 1, day: 1, day_of_year: 1 });
    }
}

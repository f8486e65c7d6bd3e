//! Parts of dates, and arithmetic of days and months, over the calendar of [`crate::text::calendar`].

use arrow::datatypes::TimeUnit;

pub(crate) use crate::text::calendar::{
    CivilDate, date_of_days, days_in_month, days_of_date, is_leap_year, units_per_second,
};
use crate::text::calendar::{DAYS_PER_ERA, DAYS_TO_EPOCH, from_january};

/// The first day that arithmetic may produce, -262143-01-01.
pub(crate) const FIRST_DAY: i64 = days_of_date(-262_143, 1, 1);
/// The last day that arithmetic may produce, 262142-12-31.
pub(crate) const LAST_DAY: i64 = days_of_date(262_142, 12, 31);

/// The nanoseconds of a day.
pub(crate) const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// The microseconds of a day.
pub(crate) const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The seconds of a day.
pub(crate) const SECONDS_PER_DAY: i64 = 86_400;

/// The days that [`date_of_near_days`] accepts, about a million years around 1970.
pub(crate) const NEAR_DAYS: std::ops::RangeInclusive<i64> = -390_000_000..=390_000_000;

/// The eras that make the number of each near day positive.
const NEAR_ERAS: u32 = 3_600;

/// Returns the date of one of [`NEAR_DAYS`]. It computes as [`date_of_days`] does but with 32-bit numbers, because a
/// processor handles several of those at once.
#[inline(always)]
pub(crate) fn date_of_near_days(days: i64) -> CivilDate {
    let number = (days as i32 as u32).wrapping_add(DAYS_TO_EPOCH as u32 + NEAR_ERAS * DAYS_PER_ERA as u32);
    let quarters = 4 * number + 3;
    let century = quarters / DAYS_PER_ERA as u32;
    let day_of_century = (quarters % DAYS_PER_ERA as u32) / 4;
    let product = 2_939_745 * u64::from(4 * day_of_century + 3);
    let year_of_century = (product >> 32) as u32;
    let day_of_year = (product as u32) / 2_939_745 / 4;
    let month_and_day = 2141 * day_of_year + 197_913;
    let after_december = day_of_year >= 306;
    let month = (month_and_day >> 16) - if after_december { 12 } else { 0 };
    let day = (month_and_day & 0xffff) / 2141 + 1;
    let year = (100 * century + year_of_century) as i32 - 400 * NEAR_ERAS as i32 + i32::from(after_december);
    let is_leap = (if year_of_century != 0 { year_of_century } else { century }).is_multiple_of(4);
    CivilDate { year: i64::from(year), month, day, day_of_year: from_january(day_of_year, is_leap) }
}

/// Returns the day `months` months after `days`. If that month has no such day, returns its last day.
#[inline]
pub(crate) fn add_months(days: i64, months: i64) -> i64 {
    let date = date_of_days(days);
    let month = date.year * 12 + i64::from(date.month) - 1 + months;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) as u32 + 1);
    days_of_date(year, month, date.day.min(days_in_month(year, month)))
}

/// Returns the day of the week. 0 is Sunday.
#[inline(always)]
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// Returns the Monday of a day's week.
#[inline(always)]
pub(crate) fn monday_of(days: i64) -> i64 {
    days - (days + 3).rem_euclid(7)
}

/// Returns the year and number of a day's ISO week. A week belongs to the year of its Thursday.
#[inline]
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = date_of_days(monday_of(days) + 3);
    (thursday.year, week_of(thursday))
}

/// Returns the number of the week that has this date as its Thursday.
#[inline(always)]
pub(crate) fn week_of(thursday: CivilDate) -> i64 {
    i64::from((thursday.day_of_year - 1) / 7 + 1)
}

/// Returns the first day of a day's quarter.
#[inline(always)]
pub(crate) fn quarter_of(days: i64, date: CivilDate) -> i64 {
    /// The days from the begin of a quarter to the begin of a month, from April on.
    const DAYS_BEFORE: [i64; 13] = [0, 0, 0, 0, 0, 30, 61, 0, 31, 62, 0, 31, 61];
    if date.month <= 3 {
        first_of_year(days, date)
    } else {
        days - i64::from(date.day) + 1 - DAYS_BEFORE[date.month as usize]
    }
}

/// Returns the first day of a day's year.
#[inline(always)]
pub(crate) fn first_of_year(days: i64, date: CivilDate) -> i64 {
    days - i64::from(date.day_of_year) + 1
}

/// Returns the units per day of a timestamp.
#[inline]
pub(crate) fn units_per_day(unit: TimeUnit) -> i64 {
    SECONDS_PER_DAY * units_per_second(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_known_weekdays() {
        assert_eq!(weekday(0), 4);
        assert_eq!(weekday(-4), 0);
        assert_eq!(monday_of(0), -3);
    }

    #[test]
    fn both_ways_agree_over_several_eras() {
        let mut expected = days_of_date(-801, 1, 1);
        for year in -801..=2401 {
            let mut day_of_year = 1;
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    assert_eq!(days_of_date(year, month, day), expected);
                    let date = CivilDate { year, month, day, day_of_year };
                    assert_eq!(date_of_days(expected), date);
                    assert_eq!(date_of_near_days(expected), date);
                    assert_eq!(first_of_year(expected, date), days_of_date(year, 1, 1));
                    assert_eq!(quarter_of(expected, date), days_of_date(year, (month - 1) / 3 * 3 + 1, 1));
                    expected += 1;
                    day_of_year += 1;
                }
            }
        }
    }

    #[test]
    fn near_days_are_the_same_dates() {
        let ends = [*NEAR_DAYS.start(), *NEAR_DAYS.end(), FIRST_DAY, LAST_DAY, -1, 0];
        for days in NEAR_DAYS.step_by(9_973).chain(ends) {
            assert_eq!(date_of_near_days(days), date_of_days(days));
        }
    }

    #[test]
    fn the_first_and_last_day_are_dates() {
        let seconds = i64::MAX / SECONDS_PER_DAY;
        for days in [i64::from(i32::MIN), i64::from(i32::MAX), FIRST_DAY, LAST_DAY, seconds, -seconds] {
            let CivilDate { year, month, day, .. } = date_of_days(days);
            assert_eq!(days_of_date(year, month, day), days);
        }
    }

    #[test]
    fn months_end_at_their_last_day() {
        let day = |year, month, day| days_of_date(year, month, day);
        assert_eq!(add_months(day(2013, 1, 31), 1), day(2013, 2, 28));
        assert_eq!(add_months(day(2012, 1, 31), 1), day(2012, 2, 29));
        assert_eq!(add_months(day(2012, 2, 29), -12), day(2011, 2, 28));
        assert_eq!(add_months(day(1970, 1, 15), -1), day(1969, 12, 15));
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        assert_eq!(iso_week(days_of_date(2005, 1, 1)), (2004, 53));
        assert_eq!(iso_week(days_of_date(2006, 1, 1)), (2005, 52));
        assert_eq!(iso_week(days_of_date(2012, 12, 31)), (2013, 1));
        assert_eq!(iso_week(days_of_date(2013, 7, 31)), (2013, 31));
    }
}

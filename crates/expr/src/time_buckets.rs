//! Buckets of time: the stretches into which `time_bucket` and SAMPLE BY divide a time line.
//!
//! Buckets follow each other without gaps: each begins at a point in time and ends where the next one begins. There are
//! two ways to place their beginnings:
//!
//! - Without a time zone all days have 24 hours. A stride of time or days is counted from the origin, and a stride of
//!   months is counted in calendar months from the origin.
//! - In a time zone, strides of days and months follow the local calendar, so that a day at a clock change has 23 or 25
//!   hours. A stride of time is counted from local midnight in hours that really pass, so that no bucket is lost or
//!   doubled at a change. A stride of whole days that is written in hours counts as days.
//!
//! A local calendar time, such as midnight, can occur twice or not at all. It begins at the first instant at which the
//! local clock shows it or a later time. If several local times begin at the same instant, because a change skips them,
//! they are one bucket.

use arrow::array::timezone::Tz;
use arrow::datatypes::{IntervalMonthDayNano, TimeUnit};
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use rowmill_base::{Error, ErrorKind, Result};

use crate::functions::time::calendar::{NANOS_PER_DAY, SECONDS_PER_DAY, add_months, date_of_days, units_per_second};
use crate::functions::time::zone::zone_called;

/// The greatest distance between the clocks of two zones is less than this, in seconds.
const CLOCKS_DIFFER_MAX: i64 = 27 * 3_600;

/// The buckets of one stride. Points in time are ticks of a unit since 1970-01-01.
#[derive(Clone, Debug)]
pub struct TimeBuckets {
    stride: BucketStride,
    /// A boundary, in ticks of the local clock if there is a zone. It already includes the offset.
    origin: i64,
    ticks_per_second: i64,
    zone: Option<Tz>,
}

/// The length of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BucketStride {
    /// A number of ticks.
    Ticks(i64),
    /// A number of nanoseconds that is not a whole number of ticks.
    Nanos(i128),
    /// A number of months.
    Months(i64),
}

/// The rule that places buckets.
#[derive(Clone, Copy, Debug)]
pub struct BucketRule<'a> {
    /// The length of a bucket: either months, or days and time.
    pub stride: IntervalMonthDayNano,
    /// The zone whose calendar the buckets follow.
    pub zone: Option<&'a str>,
    /// A point in time at which a bucket begins, in ticks. In a zone it is a time of the local clock.
    pub origin: i64,
    /// How much later than that all buckets begin.
    pub offset: IntervalMonthDayNano,
}

impl TimeBuckets {
    /// Makes the buckets of a rule, for points in time of this unit.
    pub fn new(rule: &BucketRule<'_>, unit: TimeUnit) -> Result<TimeBuckets> {
        let ticks_per_second = units_per_second(unit);
        let ticks_per_day = ticks_per_second * SECONDS_PER_DAY;
        let stride = BucketStride::of(rule.stride, NANOS_PER_DAY / ticks_per_day)?;
        let zone = rule.zone.map(zone_called).transpose()?;
        let offset = rule.offset;
        let ticks = i128::from(offset.days) * i128::from(ticks_per_day)
            + i128::from(offset.nanoseconds) / i128::from(NANOS_PER_DAY / ticks_per_day);
        let origin = i128::from(moved_by_months(rule.origin, i64::from(offset.months), ticks_per_day)) + ticks;
        let origin = i64::try_from(origin).map_err(|_| {
            Error::new(ErrorKind::NumericOutOfRange, "the origin of the buckets with its offset is out of range")
        })?;
        Ok(TimeBuckets { stride, origin, ticks_per_second, zone })
    }

    /// Whether the stride is a whole number of ticks, so that each bucket begins at a tick.
    pub fn begin_at_ticks(&self) -> bool {
        !matches!(self.stride, BucketStride::Nanos(_))
    }

    /// Returns the beginning of the bucket that a point in time falls in, or `None` if the type cannot hold it.
    pub fn start(&self, ticks: i64) -> Option<i64> {
        match (self.zone, self.follows_calendar()) {
            (None, _) => self.boundary_before(ticks, self.stride, self.origin),
            (Some(zone), true) => self.calendar_bucket(zone, self.stride, ticks).map(|(start, _)| start),
            (Some(zone), false) => {
                let (midnight, _) = self.calendar_bucket(zone, BucketStride::Ticks(self.ticks_per_day()), ticks)?;
                self.boundary_before(ticks, self.stride, midnight)
            }
        }
    }

    /// The ticks between the beginnings of two buckets, if all buckets are equally long.
    pub fn even_stride(&self) -> Option<i64> {
        match (self.stride, self.zone) {
            (BucketStride::Ticks(ticks), None) => Some(ticks),
            _ => None,
        }
    }

    /// Returns the beginning of the bucket after the one that begins at `start`. Returns `None` if the type cannot
    /// hold it, or if buckets do not begin at whole ticks.
    pub fn next(&self, start: i64) -> Option<i64> {
        match (self.zone, self.follows_calendar()) {
            (None, _) => self.boundary_after(start),
            (Some(zone), true) => self.calendar_bucket(zone, self.stride, start)?.1,
            (Some(zone), false) => {
                let day = BucketStride::Ticks(self.ticks_per_day());
                let (midnight, next_midnight) = self.calendar_bucket(zone, day, start)?;
                let number = self.number_before(start, self.stride, midnight)?;
                let next = self.boundary_number(midnight, self.stride, number + 1)?;
                Some(next_midnight.map_or(next, |midnight| midnight.min(next)))
            }
        }
    }

    fn ticks_per_day(&self) -> i64 {
        self.ticks_per_second * SECONDS_PER_DAY
    }

    /// Whether the buckets are days, months or years of the local calendar if there is a zone.
    fn follows_calendar(&self) -> bool {
        match self.stride {
            BucketStride::Months(_) => true,
            BucketStride::Ticks(ticks) => ticks % self.ticks_per_day() == 0,
            BucketStride::Nanos(_) => false,
        }
    }

    fn nanos_per_tick(&self) -> i64 {
        1_000_000_000 / self.ticks_per_second
    }

    /// Returns the boundary with a number, counted from `origin`.
    fn boundary_number(&self, origin: i64, stride: BucketStride, number: i64) -> Option<i64> {
        let boundary = match stride {
            BucketStride::Ticks(stride) => i128::from(origin) + i128::from(stride) * i128::from(number),
            BucketStride::Nanos(_) => return None,
            BucketStride::Months(stride) => {
                let months = stride.checked_mul(number)?;
                return add_months_to_ticks(origin, months, self.ticks_per_day());
            }
        };
        i64::try_from(boundary).ok()
    }

    /// Returns the last boundary at or before `ticks` on a time line without clock changes.
    #[inline]
    fn boundary_before(&self, ticks: i64, stride: BucketStride, origin: i64) -> Option<i64> {
        match stride {
            BucketStride::Ticks(stride) => match ticks.checked_sub(origin) {
                Some(distance) => ticks.checked_sub(distance.rem_euclid(stride)),
                None => {
                    let distance = (i128::from(ticks) - i128::from(origin)).rem_euclid(i128::from(stride));
                    ticks.checked_sub(distance as i64)
                }
            },
            BucketStride::Nanos(stride) => {
                let nanos_per_tick = i128::from(self.nanos_per_tick());
                let distance = (i128::from(ticks) - i128::from(origin)) * nanos_per_tick;
                let boundary = distance - distance.rem_euclid(stride);
                i64::try_from(i128::from(origin) + boundary.div_euclid(nanos_per_tick)).ok()
            }
            BucketStride::Months(_) => self.boundary_number(origin, stride, self.number_before(ticks, stride, origin)?),
        }
    }

    /// Returns the number of the last boundary at or before `ticks`, for strides of whole ticks and of months.
    fn number_before(&self, ticks: i64, stride: BucketStride, origin: i64) -> Option<i64> {
        match stride {
            BucketStride::Ticks(stride) => {
                i64::try_from((i128::from(ticks) - i128::from(origin)).div_euclid(i128::from(stride))).ok()
            }
            BucketStride::Nanos(_) => None,
            BucketStride::Months(stride) => {
                let per_day = self.ticks_per_day();
                let (date, from) = (date_of_days(ticks.div_euclid(per_day)), date_of_days(origin.div_euclid(per_day)));
                let months = (date.year - from.year) * 12 + i64::from(date.month) - i64::from(from.month);
                let number = months.div_euclid(stride);
                // The bucket of this month may begin later in the month than `ticks`.
                let boundary = add_months_to_ticks(origin, number.checked_mul(stride)?, per_day);
                Some(if boundary.is_some_and(|boundary| boundary <= ticks) { number } else { number - 1 })
            }
        }
    }

    /// Returns the first boundary after the boundary `start` on a time line without clock changes.
    fn boundary_after(&self, start: i64) -> Option<i64> {
        match self.stride {
            BucketStride::Ticks(stride) => start.checked_add(stride),
            BucketStride::Nanos(_) => None,
            BucketStride::Months(_) => {
                let number = self.number_before(start, self.stride, self.origin)?;
                self.boundary_number(self.origin, self.stride, number + 1)
            }
        }
    }

    /// Returns the beginnings of the calendar bucket that an instant falls in and of the next one.
    fn calendar_bucket(&self, zone: Tz, stride: BucketStride, ticks: i64) -> Option<(i64, Option<i64>)> {
        let ahead = clock_offset(zone, ticks.div_euclid(self.ticks_per_second))? * self.ticks_per_second;
        let mut number = self.number_before(ticks.checked_add(ahead)?, stride, self.origin)?;
        let start_of = |number| {
            let boundary = self.boundary_number(self.origin, stride, number)?;
            self.first_instant(zone, boundary)
        };
        // The clock may have been set back across the boundary, so the local time alone does not decide.
        let mut start = start_of(number)?;
        while start > ticks {
            number -= 1;
            start = start_of(number)?;
        }
        loop {
            number += 1;
            match start_of(number) {
                // A boundary that a clock change skips begins no bucket of its own.
                Some(next) if next <= ticks => start = next,
                Some(next) if next == start => {}
                next => return Some((start, next)),
            }
        }
    }

    /// Returns the first instant at which the clock of a zone shows `local` or a later time.
    fn first_instant(&self, zone: Tz, local: i64) -> Option<i64> {
        let seconds = local.div_euclid(self.ticks_per_second);
        let instant = first_instant_of(zone, seconds)?;
        // If the change skips the time, the instant is that of the change and has no fraction.
        let shows = instant + clock_offset(zone, instant)?;
        let fraction = if shows == seconds { local.rem_euclid(self.ticks_per_second) } else { 0 };
        instant.checked_mul(self.ticks_per_second)?.checked_add(fraction)
    }
}

/// Finds buckets of points in time that mostly come in order: it remembers the last bucket.
#[derive(Clone, Debug)]
pub struct BucketFinder {
    buckets: TimeBuckets,
    start: i64,
    /// The first tick after the bucket that begins at `start`. No tick is in the bucket at first.
    end: i64,
}

impl BucketFinder {
    /// Makes a finder that remembers no bucket yet.
    pub fn new(buckets: TimeBuckets) -> BucketFinder {
        BucketFinder { buckets, start: 0, end: 0 }
    }

    /// Returns the beginning of the bucket of a point in time, or `None` if the type cannot hold it.
    #[inline]
    pub fn start(&mut self, ticks: i64) -> Option<i64> {
        if (self.start..self.end).contains(&ticks) {
            return Some(self.start);
        }
        let start = self.buckets.start(ticks)?;
        // Without a known end, no time is taken to be in the same bucket.
        (self.start, self.end) = (start, self.buckets.next(start).unwrap_or(start));
        Some(start)
    }
}

impl BucketStride {
    fn of(stride: IntervalMonthDayNano, nanos_per_tick: i64) -> Result<BucketStride> {
        let nanos = i128::from(stride.days) * i128::from(NANOS_PER_DAY) + i128::from(stride.nanoseconds);
        if stride.months != 0 && nanos != 0 {
            let message = "a stride must have either months, or days and time, not both";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        if stride.months < 0 || nanos < 0 || (stride.months == 0 && nanos == 0) {
            return Err(Error::new(ErrorKind::InvalidParameter, "a stride must be greater than zero"));
        }
        Ok(match i64::try_from(nanos / i128::from(nanos_per_tick)) {
            _ if stride.months > 0 => BucketStride::Months(i64::from(stride.months)),
            Ok(ticks) if nanos % i128::from(nanos_per_tick) == 0 => BucketStride::Ticks(ticks),
            _ => BucketStride::Nanos(nanos),
        })
    }
}

/// Returns a point in time moved by months, or the point itself if there are none.
fn moved_by_months(ticks: i64, months: i64, ticks_per_day: i64) -> i64 {
    if months == 0 { ticks } else { add_months_to_ticks(ticks, months, ticks_per_day).unwrap_or(ticks) }
}

fn add_months_to_ticks(ticks: i64, months: i64, ticks_per_day: i64) -> Option<i64> {
    let (day, rest) = (ticks.div_euclid(ticks_per_day), ticks.rem_euclid(ticks_per_day));
    add_months(day, months).checked_mul(ticks_per_day)?.checked_add(rest)
}

/// Returns how many seconds the clock of a zone is ahead of UTC at an instant, which is in seconds.
fn clock_offset(zone: Tz, instant: i64) -> Option<i64> {
    let utc = DateTime::from_timestamp(instant, 0)?.naive_utc();
    Some(i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()))
}

/// Returns the first instant at which the clock of a zone shows `local` or a later time, all in seconds.
fn first_instant_of(zone: Tz, local: i64) -> Option<i64> {
    let time: NaiveDateTime = DateTime::from_timestamp(local, 0)?.naive_utc();
    let before = |offset: i64| local - offset;
    match zone.offset_from_local_datetime(&time) {
        MappedLocalTime::Single(offset) => Some(before(i64::from(offset.fix().local_minus_utc()))),
        MappedLocalTime::Ambiguous(one, other) => {
            Some(before(i64::from(one.fix().local_minus_utc().max(other.fix().local_minus_utc()))))
        }
        MappedLocalTime::None => {
            // The clock jumps over the time. We search the jump between two instants around it.
            let (mut low, mut high) = (local - CLOCKS_DIFFER_MAX, local + CLOCKS_DIFFER_MAX);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if middle + clock_offset(zone, middle)? >= local { high = middle } else { low = middle }
            }
            Some(high)
        }
    }
}

#[cfg(test)]
mod tests;

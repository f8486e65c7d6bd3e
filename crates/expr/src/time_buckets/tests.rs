#![allow(clippy::unwrap_used)]

use super::*;

/// Reads `2026-10-25 00:30:00` in UTC as seconds.
fn at(text: &str) -> i64 {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap().and_utc().timestamp()
}

fn buckets(months: i32, days: i32, seconds: i64, zone: Option<&str>, offset_seconds: i64) -> TimeBuckets {
    let rule = BucketRule {
        stride: IntervalMonthDayNano::new(months, days, seconds * 1_000_000_000),
        zone,
        origin: 0,
        offset: IntervalMonthDayNano::new(0, 0, offset_seconds * 1_000_000_000),
    };
    TimeBuckets::new(&rule, TimeUnit::Second).unwrap()
}

/// The beginnings of the buckets from the one of `from` on.
fn starts(buckets: &TimeBuckets, from: &str, count: usize) -> Vec<String> {
    let first = buckets.start(at(from)).unwrap();
    std::iter::successors(Some(first), |start| buckets.next(*start))
        .take(count)
        .map(|start| DateTime::from_timestamp(start, 0).unwrap().format("%m-%d %H:%M").to_string())
        .collect()
}

/// Every instant must be in the bucket that begins last before it, and buckets must ascend.
fn check(buckets: &TimeBuckets, from: &str, to: &str, step: i64) {
    let (from, to) = (at(from), at(to));
    let mut start = buckets.start(from).unwrap();
    let mut next = buckets.next(start).unwrap();
    for instant in (from..to).step_by(step as usize) {
        while instant >= next {
            assert!(next > start, "buckets ascend");
            start = next;
            next = buckets.next(start).unwrap();
        }
        assert_eq!(buckets.start(instant), Some(start), "the bucket of {instant}");
    }
}

const ZONES: [&str; 7] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "America/Havana",
    "America/Sao_Paulo",
];

#[test]
fn buckets_have_no_gaps_and_do_not_overlap_in_any_zone() {
    for zone in ZONES.into_iter().map(Some).chain([None]) {
        for (months, days, seconds) in
            [(1, 0, 0), (3, 0, 0), (0, 1, 0), (0, 7, 0), (0, 0, 3_600), (0, 0, 5 * 3_600), (0, 0, 1_800), (0, 0, 90)]
        {
            for offset in [0, 7_200, -1_800] {
                let buckets = buckets(months, days, seconds, zone, offset);
                for (from, to) in [
                    ("2011-12-28 00:00:00", "2012-01-02 00:00:00"),
                    ("2018-11-02 00:00:00", "2018-11-06 00:00:00"),
                    ("2026-03-28 00:00:00", "2026-03-30 12:00:00"),
                    ("2026-10-24 00:00:00", "2026-10-26 12:00:00"),
                ] {
                    check(&buckets, from, to, 600);
                }
            }
        }
    }
}

#[test]
fn days_follow_the_calendar_of_berlin() {
    let days = buckets(0, 1, 0, Some("Europe/Berlin"), 0);
    // The day of 23 hours in March and the day of 25 hours in October.
    assert_eq!(starts(&days, "2026-03-28 12:00:00", 3), ["03-27 23:00", "03-28 23:00", "03-29 22:00"]);
    assert_eq!(starts(&days, "2026-10-24 12:00:00", 3), ["10-23 22:00", "10-24 22:00", "10-25 23:00"]);
    let shifted = buckets(0, 1, 0, Some("Europe/Berlin"), 2 * 3_600);
    assert_eq!(starts(&shifted, "2026-03-28 12:00:00", 3), ["03-28 01:00", "03-29 01:00", "03-30 00:00"]);
    let months = buckets(1, 0, 0, Some("Europe/Berlin"), 0);
    assert_eq!(starts(&months, "2026-03-15 00:00:00", 3), ["02-28 23:00", "03-31 22:00", "04-30 22:00"]);
}

#[test]
fn hours_count_from_local_midnight_in_real_time() {
    let hours = buckets(0, 0, 6 * 3_600, Some("Europe/Berlin"), 0);
    // The day of 25 hours has a last bucket of one hour.
    assert_eq!(
        starts(&hours, "2026-10-24 22:30:00", 6),
        ["10-24 22:00", "10-25 04:00", "10-25 10:00", "10-25 16:00", "10-25 22:00", "10-25 23:00"]
    );
    // The day of 23 hours ends one hour early.
    assert_eq!(
        starts(&hours, "2026-03-28 23:30:00", 5),
        ["03-28 23:00", "03-29 05:00", "03-29 11:00", "03-29 17:00", "03-29 22:00"]
    );
    let one = buckets(0, 0, 3_600, Some("Europe/Berlin"), 0);
    assert_eq!(starts(&one, "2026-10-25 00:10:00", 3), ["10-25 00:00", "10-25 01:00", "10-25 02:00"]);
}

#[test]
fn half_hours_of_lord_howe_and_quarters_of_kathmandu() {
    // Lord Howe moves its clock by half an hour: +11:00 in summer, +10:30 in winter.
    let days = buckets(0, 1, 0, Some("Australia/Lord_Howe"), 0);
    assert_eq!(starts(&days, "2026-04-04 00:00:00", 3), ["04-03 13:00", "04-04 13:00", "04-05 13:30"]);
    assert_eq!(starts(&days, "2026-10-03 00:00:00", 3), ["10-02 13:30", "10-03 13:30", "10-04 13:00"]);
    let hours = buckets(0, 0, 3_600, Some("Australia/Lord_Howe"), 0);
    assert_eq!(starts(&hours, "2026-04-05 12:10:00", 3), ["04-05 12:00", "04-05 13:00", "04-05 13:30"]);
    let days = buckets(0, 1, 0, Some("Asia/Kathmandu"), 0);
    assert_eq!(starts(&days, "2026-01-01 00:00:00", 2), ["12-31 18:15", "01-01 18:15"]);
    let hours = buckets(0, 0, 3_600, Some("Asia/Kathmandu"), 0);
    assert_eq!(starts(&hours, "2026-01-01 00:00:00", 2), ["12-31 23:15", "01-01 00:15"]);
}

#[test]
fn the_day_that_apia_skipped_is_no_bucket() {
    // Samoa went from 2011-12-29 24:00 (-10:00) to 2011-12-31 00:00 (+14:00).
    let days = buckets(0, 1, 0, Some("Pacific/Apia"), 0);
    assert_eq!(starts(&days, "2011-12-29 12:00:00", 3), ["12-29 10:00", "12-30 10:00", "12-31 10:00"]);
    let hours = buckets(0, 0, 12 * 3_600, Some("Pacific/Apia"), 0);
    assert_eq!(starts(&hours, "2011-12-29 12:00:00", 3), ["12-29 10:00", "12-29 22:00", "12-30 10:00"]);
}

#[test]
fn midnight_that_is_skipped_begins_at_the_change() {
    // São Paulo's clock went from 2018-11-03 24:00 directly to 01:00.
    let days = buckets(0, 1, 0, Some("America/Sao_Paulo"), 0);
    assert_eq!(starts(&days, "2018-11-03 12:00:00", 3), ["11-03 03:00", "11-04 03:00", "11-05 02:00"]);
}

#[test]
fn months_are_counted_from_the_day_of_the_origin() {
    let rule = BucketRule {
        stride: IntervalMonthDayNano::new(1, 0, 0),
        zone: None,
        origin: at("2026-01-31 00:00:00"),
        offset: IntervalMonthDayNano::new(0, 0, 0),
    };
    let months = TimeBuckets::new(&rule, TimeUnit::Second).unwrap();
    assert_eq!(starts(&months, "2026-02-10 00:00:00", 4), ["01-31 00:00", "02-28 00:00", "03-31 00:00", "04-30 00:00"]);
}

#[test]
fn boundaries_between_ticks_are_rounded_down() {
    let rule = BucketRule {
        stride: IntervalMonthDayNano::new(0, 0, 1_500_000_000),
        zone: None,
        origin: 0,
        offset: IntervalMonthDayNano::new(0, 0, 0),
    };
    let buckets = TimeBuckets::new(&rule, TimeUnit::Second).unwrap();
    assert_eq!((-3..4).map(|ticks| buckets.start(ticks).unwrap()).collect::<Vec<_>>(), [-3, -3, -2, 0, 0, 1, 3]);
    let mut finder = BucketFinder::new(buckets.clone());
    assert_eq!((-3..4).map(|ticks| finder.start(ticks).unwrap()).collect::<Vec<_>>(), [-3, -3, -2, 0, 0, 1, 3]);
    assert!(!buckets.begin_at_ticks());
    assert_eq!(buckets.next(0), None);
}

#[test]
fn wrong_rules_are_refused() {
    let rule = |months, days, nanos, zone| {
        let stride = IntervalMonthDayNano::new(months, days, nanos);
        let rule = BucketRule { stride, zone, origin: 0, offset: IntervalMonthDayNano::new(0, 0, 0) };
        TimeBuckets::new(&rule, TimeUnit::Second).unwrap_err().kind()
    };
    for (months, days, nanos) in [(0, 0, 0), (-1, 0, 0), (0, -1, 0), (1, 1, 0), (0, 0, -5)] {
        assert_eq!(rule(months, days, nanos, None), ErrorKind::InvalidParameter);
    }
    assert_eq!(rule(0, 1, 0, Some("Europe/Nowhere")), ErrorKind::InvalidParameter);
    let far = buckets(0, 1, 0, None, 0);
    assert_eq!(far.start(i64::MIN + 1), None);
    assert_eq!(far.next(i64::MAX - 1), None);
}

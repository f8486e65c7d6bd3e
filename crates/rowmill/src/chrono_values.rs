//! Dates and times of the crate `chrono`.
//!
//! | Rust | SQL |
//! | --- | --- |
//! | `NaiveDate` | DATE |
//! | `NaiveTime` | TIME |
//! | `NaiveDateTime` | TIMESTAMP |
//! | `DateTime<Utc>`, `DateTime<FixedOffset>` | TIMESTAMP WITH TIME ZONE |
//!
//! As parameters, times are cut off at microseconds, the unit of TIMESTAMP.

use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike, Utc};
use rowmill_base::{Result, SqlType, TimeUnit};

use crate::cell::CellRef;
use crate::functions::{SqlValue, sql_values};
use crate::to_param::{ParamValue, ToParam};
use crate::{FromValue, Param};

fn epoch() -> NaiveDate {
    DateTime::UNIX_EPOCH.date_naive()
}

fn moment(nanos: i128) -> Option<DateTime<Utc>> {
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    DateTime::from_timestamp(seconds, nanos.rem_euclid(1_000_000_000) as u32)
}

impl FromValue<'_> for NaiveDate {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let days = cell.time_units().filter(|_| !cell.is_null() && cell.kind() == SqlType::Date);
        let date = days.and_then(|days| epoch().checked_add_signed(TimeDelta::try_days(days)?));
        date.ok_or_else(|| cell.refused("NaiveDate"))
    }
}

impl FromValue<'_> for NaiveTime {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let micros = cell.time_units().filter(|_| !cell.is_null() && cell.kind() == SqlType::Time);
        let time = micros.and_then(|micros| {
            let (seconds, micros) = (u32::try_from(micros / 1_000_000).ok()?, (micros % 1_000_000) as u32);
            NaiveTime::from_num_seconds_from_midnight_opt(seconds, micros * 1_000)
        });
        time.ok_or_else(|| cell.refused("NaiveTime"))
    }
}

impl FromValue<'_> for NaiveDateTime {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let nanos = cell.timestamp_nanos(false).filter(|_| !cell.is_null());
        nanos.and_then(moment).map(|moment| moment.naive_utc()).ok_or_else(|| cell.refused("NaiveDateTime"))
    }
}

impl FromValue<'_> for DateTime<Utc> {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let nanos = cell.timestamp_nanos(true).filter(|_| !cell.is_null());
        nanos.and_then(moment).ok_or_else(|| cell.refused("DateTime<Utc>"))
    }
}

impl FromValue<'_> for DateTime<FixedOffset> {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        DateTime::<Utc>::from_value(cell).map(|moment| moment.fixed_offset())
    }
}

impl ToParam for NaiveDate {
    fn to_param(&self) -> ParamValue<'_> {
        let days = self.signed_duration_since(epoch()).num_days();
        Param::Date(i32::try_from(days).expect("the dates of chrono have fewer days")).into()
    }
}

impl ToParam for NaiveTime {
    fn to_param(&self) -> ParamValue<'_> {
        let seconds = i64::from(self.num_seconds_from_midnight());
        Param::Time(seconds * 1_000_000 + i64::from(self.nanosecond() / 1_000)).into()
    }
}

impl ToParam for NaiveDateTime {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Timestamp(self.and_utc().timestamp_micros()).into()
    }
}

impl<Z: TimeZone> ToParam for DateTime<Z> {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Instant(self.timestamp_micros()).into()
    }
}

sql_values! {
    NaiveDate => SqlType::Date;
    NaiveTime => SqlType::Time;
    NaiveDateTime => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };
    DateTime<Utc> => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: true };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Connection;

    #[test]
    fn dates_and_times_go_in_and_out() {
        let mut connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE t (id INT PRIMARY KEY, d DATE, t TIME, ts TIMESTAMP, tz TIMESTAMP WITH TIME ZONE)";
        connection.execute(table, ()).unwrap();
        let date = NaiveDate::from_ymd_opt(1969, 12, 31).unwrap();
        let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).unwrap();
        let (moment, instant) = (date.and_time(time), date.and_time(time).and_utc());
        let insert = connection.prepare("INSERT INTO t VALUES (?, ?, ?, ?, ?)").unwrap();
        for id in 0..3 {
            insert.execute(&mut connection, (id, date, time, moment, instant)).unwrap();
        }
        let sql = "SELECT d, t, ts, tz, CAST(d AS TEXT) FROM t WHERE id = 2 AND d = ? AND tz = ? AND ts <= ?";
        let found: (NaiveDate, NaiveTime, NaiveDateTime, DateTime<Utc>, String) =
            connection.query_one(sql, (date, instant, moment)).unwrap().read().unwrap();
        assert_eq!(found, (date, time, moment, instant, "1969-12-31".to_owned()));
        let row = connection.query_one("SELECT ts, d, tz FROM t LIMIT 1", ()).unwrap();
        assert!(row.get::<DateTime<Utc>>("ts").is_err() && row.get::<NaiveDateTime>("tz").is_err());
        assert!(row.get::<NaiveDate>("ts").is_err() && row.get::<NaiveTime>("d").is_err());
    }

    #[test]
    fn functions_take_dates() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.register_function("next_day", |date: NaiveDate| date.succ_opt()).unwrap();
        let day: NaiveDate = connection.query_row("SELECT next_day('2024-02-28')", (), |row| row.get(0)).unwrap();
        assert_eq!(day.to_string(), "2024-02-29");
    }
}

//! `timezone(zone, t)`, which `t AT TIME ZONE zone` is written as.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::logical_expr::ScalarUDF;
use rowmill_base::{Error, ErrorKind, Result};

use super::Function;
use crate::calendar::units_per_second;
use crate::semantics::arithmetic::out_of_range;

/// What a clock in a zone shows at an instant, and the instant at which it shows something.
pub(super) fn timezone() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Function::new("timezone", kind, run)))
}

/// The zone that instants are kept in.
const KEPT_IN: &str = "UTC";

fn kind(types: &[DataType]) -> Option<DataType> {
    match types {
        [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Timestamp(unit, zone)] => {
            let zone = if zone.is_some() { None } else { Some(KEPT_IN.into()) };
            Some(DataType::Timestamp(*unit, zone))
        }
        _ => None,
    }
}

fn run(columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let DataType::Timestamp(unit, given) = columns[1].data_type() else {
        return Err(Error::internal(format!("a timestamp of {}", columns[1].data_type())));
    };
    let to = kind(&[DataType::Utf8View, columns[1].data_type().clone()]).expect("it is a timestamp");
    let zones = cast(&columns[0], &DataType::Utf8View).map_err(failed)?;
    let counts = cast(&columns[1], &DataType::Int64).map_err(failed)?;
    let (zones, counts) = (zones.as_string_view(), counts.as_primitive::<Int64Type>());
    let mut last: Option<(&str, Tz)> = None;
    let mut moved = Vec::with_capacity(rows);
    for row in 0..counts.len() {
        if zones.is_null(row) || counts.is_null(row) {
            moved.push(None);
            continue;
        }
        let name = zones.value(row);
        let zone = match last {
            Some((known, zone)) if known == name => zone,
            _ => last.insert((name, zone_called(name)?)).1,
        };
        let count = counts.value(row);
        let shifted = match given {
            Some(_) => shown_at(count, units_per_second(*unit), zone),
            None => instant_of(count, units_per_second(*unit), zone),
        };
        moved.push(Some(shifted.ok_or_else(|| out_of_range(format!("the time in {name}"), &to))?));
    }
    cast(&PrimitiveArray::<Int64Type>::from(moved), &to).map_err(failed)
}

fn zone_called(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        Error::new(ErrorKind::InvalidParameter, format!("there is no time zone '{name}'"))
            .hint("a zone is a name such as 'Europe/Berlin' or an offset such as '+02:00'")
    })
}

/// The clock's time in `zone` at an instant.
fn shown_at(count: i64, per_second: i64, zone: Tz) -> Option<i64> {
    let utc = DateTime::from_timestamp(count.div_euclid(per_second), 0)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    count.checked_add(i64::from(offset) * per_second)
}

/// The instant at which the clock in `zone` shows a time. Of two such instants, when the clock was set back, the earlier
/// one; of none, when it was set forward, the one that it would have been without.
fn instant_of(count: i64, per_second: i64, zone: Tz) -> Option<i64> {
    let local: NaiveDateTime = DateTime::from_timestamp(count.div_euclid(per_second), 0)?.naive_utc();
    let offset = match zone.offset_from_local_datetime(&local).earliest() {
        Some(offset) => offset,
        None => zone.offset_from_local_datetime(&(local - TimeDelta::hours(3))).earliest()?,
    };
    count.checked_sub(i64::from(offset.fix().local_minus_utc()) * per_second)
}

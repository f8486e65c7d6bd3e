//! Casts between dates, times and timestamps. A value that is finer than the unit rounds down to the unit, before 1970
//! too.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use rowmill_base::{Error, ErrorKind, Result};

use super::{convert_values, shown};
use crate::kinds::type_name;
use crate::text::calendar::units_per_second;

const SECONDS_PER_DAY: i64 = 86_400;

pub(super) fn date_to_timestamp(array: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let per_day = SECONDS_PER_DAY * per_second(kind)?;
    let dates = array.as_primitive::<Date32Type>();
    let midnight = |days: i32| i64::from(days).checked_mul(per_day);
    let failure = |row| out_of_time(array, row, kind);
    timestamps(convert_values(dates.values(), dates.nulls(), or_null, midnight, failure)?, kind)
}

pub(super) fn timestamp_to_date(array: &ArrayRef) -> Result<ArrayRef> {
    let per_day = SECONDS_PER_DAY * per_second(array.data_type())?;
    // A timestamp of seconds can be after the last date.
    let day = |count: i64| i32::try_from(count.div_euclid(per_day)).ok();
    let failure = |row| out_of_time(array, row, &DataType::Date32);
    let dates: PrimitiveArray<Date32Type> = convert_values(&counts(array)?, array.nulls(), false, day, failure)?;
    Ok(Arc::new(dates))
}

pub(super) fn timestamp_to_time(array: &ArrayRef) -> Result<ArrayRef> {
    let per_second = per_second(array.data_type())?;
    let per_day = SECONDS_PER_DAY * per_second;
    let micros = |count: i64| {
        let of_day = i128::from(count.rem_euclid(per_day));
        (of_day * 1_000_000 / i128::from(per_second)) as i64
    };
    let times: Vec<i64> = counts(array)?.iter().map(|count| micros(*count)).collect();
    Ok(Arc::new(PrimitiveArray::<Time64MicrosecondType>::new(times.into(), array.nulls().cloned())))
}

pub(super) fn timestamp_to_timestamp(array: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let (from, to) = (per_second(array.data_type())?, per_second(kind)?);
    let counts = counts(array)?;
    if from == to {
        return timestamps(PrimitiveArray::<Int64Type>::new(counts, array.nulls().cloned()), kind);
    }
    let convert = |count: i64| match to > from {
        true => count.checked_mul(to / from),
        false => Some(count.div_euclid(from / to)),
    };
    let failure = |row| out_of_time(array, row, kind);
    timestamps(convert_values(&counts, array.nulls(), or_null, convert, failure)?, kind)
}

fn out_of_time(array: &ArrayRef, row: usize, kind: &DataType) -> Error {
    let message = format!("out of range: {} does not fit {}", shown(array, row), type_name(kind));
    Error::new(ErrorKind::InvalidDatetime, message)
}

fn per_second(kind: &DataType) -> Result<i64> {
    match kind {
        DataType::Timestamp(unit, _) => Ok(units_per_second(*unit)),
        other => Err(Error::internal(format!("{other} is not a timestamp"))),
    }
}

/// Returns the ticks of timestamps of any unit.
fn counts(array: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    fn of<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> ScalarBuffer<i64> {
        array.as_primitive::<T>().values().clone()
    }
    Ok(match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array),
        other => return Err(Error::internal(format!("{other} is not a timestamp"))),
    })
}

/// Makes timestamps of type `kind` from ticks.
fn timestamps(counts: PrimitiveArray<Int64Type>, kind: &DataType) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, zone) = kind else {
        return Err(Error::internal(format!("{kind} is not a timestamp")));
    };
    let zone = zone.clone();
    Ok(match unit {
        TimeUnit::Second => Arc::new(counts.reinterpret_cast::<TimestampSecondType>().with_timezone_opt(zone)),
        TimeUnit::Millisecond => {
            Arc::new(counts.reinterpret_cast::<TimestampMillisecondType>().with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(counts.reinterpret_cast::<TimestampMicrosecondType>().with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => Arc::new(counts.reinterpret_cast::<TimestampNanosecondType>().with_timezone_opt(zone)),
    })
}

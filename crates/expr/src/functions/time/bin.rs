//! The function `date_bin`.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{NANOS_PER_DAY, add_months, date_of_days, units_per_day};
use super::columns::{
    INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, each_row, out_of_range, primitive, slots, strict_nulls, tick_slots,
    unit_of,
};
use crate::functions::signatures::ordinary;

/// `date_bin(stride, source [, origin])`
pub(super) const DATE_BIN: FunctionSpec = FunctionSpec {
    name: "date_bin",
    can_fail: true,
    signature,
    kernel,
    doc: "The beginning of the stride of time that a timestamp or time falls in, counted from an origin, which is \
          1970-01-01 (or midnight) if absent.",
    example: ("date_bin(INTERVAL '15 minutes', TIMESTAMP '2013-07-31 12:40:45')", "2013-07-31 12:30:00"),
    ..ordinary("time")
};

fn signature(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let (stride, source, origin) = match arguments {
        [stride, source] => (stride, source, None),
        [stride, source, origin] => (stride, source, Some(origin)),
        _ => return None,
    };
    let kind = match source.kind {
        kind @ DataType::Timestamp(..) => kind.clone(),
        DataType::Date32 | DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        DataType::Time64(_) => TIME_KIND,
        _ => return None,
    };
    if !matches!(stride.kind, DataType::Interval(_) | DataType::Utf8View | DataType::Null) {
        return None;
    }
    let is_time = kind == TIME_KIND;
    let fits = origin.is_none_or(|origin| match origin.kind {
        DataType::Utf8View | DataType::Null => true,
        DataType::Timestamp(..) | DataType::Date32 => !is_time,
        DataType::Time64(_) => is_time,
        _ => false,
    });
    let mut kinds = vec![INTERVAL_KIND];
    kinds.resize(arguments.len(), kind.clone());
    fits.then_some(CallKinds { arguments: kinds, result: kind })
}

/// The length of a stride.
#[derive(Clone, Copy)]
enum BinStride {
    /// A number of nanoseconds.
    Nanos(i128),
    /// A number of ticks.
    Ticks(i64),
    /// A number of months.
    Months(i64),
}

impl BinStride {
    fn of(stride: IntervalMonthDayNano, nanos_per_tick: i64, is_time: bool) -> Result<BinStride> {
        let nanos = i128::from(stride.days) * i128::from(NANOS_PER_DAY) + i128::from(stride.nanoseconds);
        if stride.months != 0 && (nanos != 0 || is_time) {
            let message = match is_time {
                true => "the stride of a TIME must not have months",
                false => "a stride must have either months, or days and time, not both",
            };
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        if stride.months < 0 || nanos < 0 || (stride.months == 0 && nanos == 0) {
            return Err(Error::new(ErrorKind::InvalidParameter, "a stride must be greater than zero"));
        }
        Ok(match i64::try_from(nanos / i128::from(nanos_per_tick)) {
            _ if stride.months > 0 => BinStride::Months(i64::from(stride.months)),
            Ok(ticks) if nanos % i128::from(nanos_per_tick) == 0 => BinStride::Ticks(ticks),
            _ => BinStride::Nanos(nanos),
        })
    }

    fn bin(self, ticks: i64, origin: i64, per_day: i64) -> Option<i64> {
        match self {
            BinStride::Ticks(stride) => match ticks.checked_sub(origin) {
                Some(distance) => ticks.checked_sub(distance.rem_euclid(stride)),
                None => {
                    let distance = (i128::from(ticks) - i128::from(origin)).rem_euclid(i128::from(stride));
                    ticks.checked_sub(distance as i64)
                }
            },
            BinStride::Nanos(stride) => {
                let nanos_per_tick = i128::from(NANOS_PER_DAY / per_day);
                let distance = (i128::from(ticks) - i128::from(origin)) * nanos_per_tick;
                let bin = distance - distance.rem_euclid(stride);
                i64::try_from(i128::from(origin) + bin.div_euclid(nanos_per_tick)).ok()
            }
            BinStride::Months(stride) => {
                let (day, first) = (ticks.div_euclid(per_day), origin.div_euclid(per_day));
                let (date, from) = (date_of_days(day), date_of_days(first));
                let months = (date.year - from.year) * 12 + i64::from(date.month) - i64::from(from.month);
                let begin = |months: i64| {
                    add_months(first, months).checked_mul(per_day)?.checked_add(origin.rem_euclid(per_day))
                };
                // The first month of the bin, counted from the origin.
                let months = months - months.rem_euclid(stride);
                let found = begin(months);
                // The bin of this month may begin later in the month than the timestamp.
                if found.is_some_and(|found| found <= ticks) { found } else { begin(months - stride) }
            }
        }
    }
}

fn kernel(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let per_day = units_per_day(unit_of(kind));
    let is_time = *kind == TIME_KIND;
    let nulls = strict_nulls(arguments, rows);
    let strides = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let ticks = tick_slots(&arguments[1]);
    let origins = arguments.get(2).map(tick_slots);
    let has_rows = nulls.as_ref().map_or(rows, |nulls| rows - nulls.null_count()) > 0;
    // A constant stride is checked only once, and only if a row needs it.
    let known = match strides.constant() {
        Some(stride) if has_rows => Some(BinStride::of(stride, NANOS_PER_DAY / per_day, is_time)?),
        _ => None,
    };
    let bins = each_row(rows, nulls.as_ref(), |row| {
        let stride = match known {
            Some(stride) => stride,
            None => BinStride::of(strides.at(row), NANOS_PER_DAY / per_day, is_time)?,
        };
        let origin = origins.as_ref().map_or(0, |origins| origins.at(row));
        let bin = stride.bin(ticks.at(row), origin, per_day).ok_or_else(|| out_of_range("the timestamp"))?;
        Ok(if is_time { bin.rem_euclid(per_day) } else { bin })
    })?;
    primitive(kind, bins, nulls)
}

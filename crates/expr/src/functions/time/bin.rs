//! The function `date_bin`.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::units_per_day;
use super::columns::{
    INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, each_row, out_of_range, primitive, slots, strict_nulls, tick_slots,
    unit_of,
};
use crate::functions::signatures::ordinary;
use crate::time_buckets::{BucketRule, TimeBuckets};

/// `date_bin(stride, source [, origin])`
pub(super) const DATE_BIN: FunctionSpec = FunctionSpec {
    name: "date_bin",
    can_fail: true,
    ascending_argument: |_| Some(1),
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

/// Makes the buckets of a stride of nanoseconds, days or months.
fn buckets(stride: IntervalMonthDayNano, origin: i64, kind: &DataType) -> Result<TimeBuckets> {
    if stride.months != 0 && *kind == TIME_KIND {
        return Err(Error::new(ErrorKind::InvalidParameter, "the stride of a TIME must not have months"));
    }
    let offset = IntervalMonthDayNano::new(0, 0, 0);
    TimeBuckets::new(&BucketRule { stride, zone: None, origin, offset }, unit_of(kind))
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
    let is_constant = origins.as_ref().is_none_or(|origins| origins.constant().is_some());
    let origin_of = |row| origins.as_ref().map_or(0, |origins| origins.at(row));
    let known = match strides.constant() {
        Some(stride) if has_rows && is_constant => Some(buckets(stride, origin_of(0), kind)?),
        _ => None,
    };
    let bins = each_row(rows, nulls.as_ref(), |row| {
        let start = match &known {
            Some(known) => known.start(ticks.at(row)),
            None => buckets(strides.at(row), origin_of(row), kind)?.start(ticks.at(row)),
        };
        let bin = start.ok_or_else(|| out_of_range("the timestamp"))?;
        Ok(if is_time { bin.rem_euclid(per_day) } else { bin })
    })?;
    primitive(kind, bins, nulls)
}

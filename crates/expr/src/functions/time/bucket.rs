//! The function `time_bucket`, which SAMPLE BY calls too.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::{days_of_date, units_per_day, units_per_second};
use super::columns::{
    INTERVAL_KIND, SlotValues, TIMESTAMP_KIND, each_row, out_of_range, primitive, slots, strict_nulls, tick_slots,
    unit_of,
};
use super::zone::{shown_at, zone_called};
use crate::functions::signatures::ordinary;
use crate::time_buckets::{BucketFinder, BucketRule, TimeBuckets};

/// `time_bucket(stride, time [, zone] [, origin] [, offset])`
pub(super) const TIME_BUCKET: FunctionSpec = FunctionSpec {
    name: "time_bucket",
    can_fail: true,
    ascending_argument: |_| Some(1),
    signature,
    kernel,
    doc: "The beginning of the bucket that a date or timestamp falls in. After the time may follow a time zone, an \
          origin (2000-01-03, for months 2000-01-01) and an offset, each by its type; in a zone, buckets of days and \
          months follow the local calendar.",
    example: ("time_bucket(INTERVAL '7 days', TIMESTAMP '2013-07-31 12:40:45')", "2013-07-29 00:00:00"),
    ..ordinary("time")
};

/// The Monday from which `time_bucket` counts strides of days and time, in days since 1970-01-01.
pub const ORIGIN_DAY: i64 = days_of_date(2000, 1, 3);
/// The day from which `time_bucket` counts strides of months, in days since 1970-01-01.
pub const MONTHS_ORIGIN_DAY: i64 = days_of_date(2000, 1, 1);

fn signature(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [stride, time, more @ ..] = arguments else { return None };
    if !matches!(stride.kind, DataType::Interval(_) | DataType::Utf8View | DataType::Null) {
        return None;
    }
    let kind = match time.kind {
        kind @ DataType::Timestamp(..) => kind.clone(),
        DataType::Date32 | DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        _ => return None,
    };
    let mut kinds = vec![INTERVAL_KIND, kind.clone()];
    let mut last = 0;
    for argument in more {
        let (place, kind) = match argument.kind {
            DataType::Utf8View => (1, DataType::Utf8View),
            // An origin without zone is a time of the local clock; one with zone is an instant.
            DataType::Timestamp(_, zone) => (2, DataType::Timestamp(unit_of(&kind), zone.clone())),
            DataType::Date32 => (2, DataType::Timestamp(unit_of(&kind), None)),
            DataType::Interval(_) => (3, INTERVAL_KIND),
            DataType::Null if last < 3 => (last + 1, [DataType::Utf8View, kind.clone(), INTERVAL_KIND][last].clone()),
            _ => return None,
        };
        if place <= last {
            return None;
        }
        last = place;
        kinds.push(kind);
    }
    let result = if *time.kind == DataType::Date32 && last != 1 { DataType::Date32 } else { kind };
    Some(CallKinds { arguments: kinds, result })
}

/// The arguments after the time.
struct RuleArguments<'a> {
    zone: Option<&'a Operand>,
    origin: Option<(SlotValues<'a, i64>, bool)>,
    offset: Option<SlotValues<'a, IntervalMonthDayNano>>,
}

impl<'a> RuleArguments<'a> {
    fn of(arguments: &'a [Operand]) -> RuleArguments<'a> {
        let mut found = RuleArguments { zone: None, origin: None, offset: None };
        for argument in arguments {
            match argument.values.data_type() {
                DataType::Utf8View => found.zone = Some(argument),
                DataType::Interval(_) => found.offset = Some(slots::<IntervalMonthDayNanoType>(argument)),
                DataType::Timestamp(_, zone) => found.origin = Some((tick_slots(argument), zone.is_some())),
                _ => {}
            }
        }
        found
    }

    /// The buckets that the arguments of a row describe.
    fn buckets(&self, stride: IntervalMonthDayNano, row: usize, kind: &DataType) -> Result<TimeBuckets> {
        let zone = self.zone.map(|zone| zone.values.as_string_view().value(zone.at(row)));
        let unit = unit_of(kind);
        let origin = match (&self.origin, zone) {
            (None, _) if stride.months != 0 => MONTHS_ORIGIN_DAY * units_per_day(unit),
            (None, _) => ORIGIN_DAY * units_per_day(unit),
            (Some((origins, true)), Some(zone)) => {
                let shown = shown_at(origins.at(row), units_per_second(unit), zone_called(zone)?);
                shown.ok_or_else(|| out_of_range("the origin"))?
            }
            (Some((origins, _)), _) => origins.at(row),
        };
        let offset = self.offset.map_or(IntervalMonthDayNano::new(0, 0, 0), |offsets| offsets.at(row));
        TimeBuckets::new(&BucketRule { stride, zone, origin, offset }, unit)
    }
}

fn kernel(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let time_kind = arguments[1].values.data_type().clone();
    let nulls = strict_nulls(arguments, rows);
    let strides = slots::<IntervalMonthDayNanoType>(&arguments[0]);
    let ticks = tick_slots(&arguments[1]);
    let rule = RuleArguments::of(&arguments[2..]);
    let has_rows = nulls.as_ref().map_or(rows, |nulls| rows - nulls.null_count()) > 0;
    let is_constant = |operand: &Operand| operand.is_constant;
    let are_constant = is_constant(&arguments[0]) && arguments[2..].iter().all(is_constant);
    let fail = || out_of_range("the timestamp");
    let starts = if has_rows && are_constant {
        // Times usually come in order, and a comparison with the last bucket takes less than a division.
        let mut finder = BucketFinder::new(rule.buckets(strides.at(0), 0, &time_kind)?);
        each_row(rows, nulls.as_ref(), |row| finder.start(ticks.at(row)).ok_or_else(fail))?
    } else {
        each_row(rows, nulls.as_ref(), |row| {
            rule.buckets(strides.at(row), row, &time_kind)?.start(ticks.at(row)).ok_or_else(fail)
        })?
    };
    if *kind != DataType::Date32 {
        return primitive(kind, starts, nulls);
    }
    let per_day = units_per_day(unit_of(&time_kind));
    let days: Vec<i32> = starts
        .iter()
        .map(|ticks| i32::try_from(ticks.div_euclid(per_day)))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Error::new(ErrorKind::NumericOutOfRange, "the date is out of range"))?;
    primitive(kind, days, nulls)
}

//! Numbers of units since 1970-01-01, and times from such numbers.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::units_per_second;
use super::columns::{
    INTERVAL_KIND, TIME_KIND, TIMESTAMP_KIND, each_row, out_of_range, primitive, slots, strict_nulls, tick_slots,
    unit_of,
};
use crate::functions::signatures::{BIGINT, exactly, ordinary};

/// Makes the spec of a function that gives a point in time for a number of units.
macro_rules! from_units {
    ($name:literal, $unit:ident, $doc:literal, $call:literal gives $result:literal) => {
        FunctionSpec {
            name: $name,
            signature: |arguments| exactly(arguments, &[BIGINT], DataType::Timestamp(TimeUnit::$unit, None)),
            kernel: |arguments, kind, rows| {
                let nulls = strict_nulls(arguments, rows);
                let numbers = slots::<Int64Type>(&arguments[0]);
                primitive(kind, (0..rows).map(|row| numbers.at(row)).collect(), nulls)
            },
            doc: $doc,
            example: ($call, $result),
            ..ordinary("time")
        }
    };
}

/// Makes the spec of a function that counts units.
macro_rules! to_units {
    ($name:literal, $per_second:literal, $doc:literal, $call:literal gives $result:literal) => {
        FunctionSpec {
            name: $name,
            can_fail: true,
            signature: of_time,
            kernel: |arguments, kind, rows| count(arguments, kind, rows, $per_second),
            doc: $doc,
            example: ($call, $result),
            ..ordinary("time")
        }
    };
}

/// The functions of this file.
pub(in crate::functions) static EPOCHS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "epoch_ms",
        can_fail: true,
        signature: |arguments| match arguments {
            [number] if number.kind.is_integer() => {
                Some(CallKinds { arguments: vec![BIGINT], result: DataType::Timestamp(TimeUnit::Millisecond, None) })
            }
            _ => of_time(arguments),
        },
        kernel: |arguments, kind, rows| match arguments[0].values.data_type() {
            DataType::Int64 => {
                let nulls = strict_nulls(arguments, rows);
                let numbers = slots::<Int64Type>(&arguments[0]);
                primitive(kind, (0..rows).map(|row| numbers.at(row)).collect(), nulls)
            }
            _ => count(arguments, kind, rows, 1_000),
        },
        doc: "The milliseconds since 1970-01-01, or those of a time of day; for a number of milliseconds, the \
              timestamp.",
        example: ("epoch_ms(TIMESTAMP '2013-07-31 12:30:45.5')", "1375273845500"),
        ..ordinary("time")
    },
    to_units!("epoch_us", 1_000_000, "The microseconds since 1970-01-01, or those of a time of day.",
        "epoch_us(TIMESTAMP '2013-07-31 12:30:45.5')" gives "1375273845500000"),
    to_units!("epoch_ns", 1_000_000_000, "The nanoseconds since 1970-01-01, or those of a time of day.",
        "epoch_ns(TIMESTAMP '2013-07-31 12:30:45.5')" gives "1375273845500000000"),
    from_units!("make_timestamp_ms", Millisecond, "The timestamp a number of milliseconds after 1970-01-01.",
        "make_timestamp_ms(1375273845500)" gives "2013-07-31 12:30:45.5"),
    from_units!("make_timestamp_ns", Nanosecond, "The timestamp a number of nanoseconds after 1970-01-01.",
        "make_timestamp_ns(1375273845500000000)" gives "2013-07-31 12:30:45.5"),
];

fn of_time(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [value] = arguments else { return None };
    let kind = match value.kind {
        kind @ DataType::Timestamp(..) => kind.clone(),
        DataType::Date32 | DataType::Utf8View | DataType::Null => TIMESTAMP_KIND,
        DataType::Time64(_) => TIME_KIND,
        DataType::Interval(_) => INTERVAL_KIND,
        _ => return None,
    };
    Some(CallKinds { arguments: vec![kind], result: BIGINT })
}

fn count(arguments: &[Operand], kind: &DataType, rows: usize, wanted: i64) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let outside = || out_of_range("the number of units");
    if *arguments[0].values.data_type() == INTERVAL_KIND {
        let intervals = slots::<arrow::datatypes::IntervalMonthDayNanoType>(&arguments[0]);
        let counts = each_row(rows, nulls.as_ref(), |row| {
            let interval = intervals.at(row);
            let years = i128::from(interval.months / 12) * 31_557_600;
            let days = i128::from(interval.months % 12) * 30 + i128::from(interval.days);
            let nanos = (years + days * 86_400) * 1_000_000_000 + i128::from(interval.nanoseconds);
            i64::try_from(nanos / i128::from(1_000_000_000 / wanted)).map_err(|_| outside())
        })?;
        return primitive(kind, counts, nulls);
    }
    let per_second = units_per_second(unit_of(arguments[0].values.data_type()));
    let ticks = tick_slots(&arguments[0]);
    let counts = each_row(rows, nulls.as_ref(), |row| match wanted >= per_second {
        true => ticks.at(row).checked_mul(wanted / per_second).ok_or_else(outside),
        false => Ok(ticks.at(row).div_euclid(per_second / wanted)),
    })?;
    primitive(kind, counts, nulls)
}

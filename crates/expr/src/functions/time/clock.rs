//! Functions of the clock itself, which goes on while a statement runs. `now()` is the time of the transaction.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::{DataType, TimeUnit};
use chrono::DateTime;
use rowmill_base::Result;
use rowmill_plan::function::Volatility;
use rowmill_plan::{FunctionSpec, Operand};

use super::columns::{instant_kind, out_of_range, primitive};
use crate::functions::signatures::{TEXT, exactly, ordinary};

/// The functions of this file.
pub(in crate::functions) static CLOCK: &[FunctionSpec] = &[
    FunctionSpec {
        name: "clock_timestamp",
        volatility: Volatility::Volatile,
        can_fail: true,
        signature: |arguments| exactly(arguments, &[], instant_kind(TimeUnit::Microsecond)),
        kernel: |_: &[Operand], kind: &DataType, rows: usize| primitive(kind, vec![micros_now()?; rows], None),
        doc: "The time of the clock when the function is computed.",
        example: ("clock_timestamp() > TIMESTAMPTZ '2013-07-31 00:00:00Z'", "true"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "timeofday",
        volatility: Volatility::Volatile,
        can_fail: true,
        signature: |arguments| exactly(arguments, &[], TEXT),
        kernel: time_of_day,
        doc: "The time of the clock as text, such as Wed Jul 31 12:30:45.500000 2013 UTC.",
        example: ("length(timeofday())", "35"),
        ..ordinary("time")
    },
];

/// The microseconds since 1970-01-01.
fn micros_now() -> Result<i64> {
    let outside = || out_of_range("the time of the clock");
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| outside())?;
    i64::try_from(elapsed.as_micros()).map_err(|_| outside())
}

fn time_of_day(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let now = DateTime::from_timestamp_micros(micros_now()?).ok_or_else(|| out_of_range("the time of the clock"))?;
    let text = now.format("%a %b %d %H:%M:%S%.6f %Y UTC").to_string();
    Ok(Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, rows))))
}

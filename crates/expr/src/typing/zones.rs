//! Casts and calls that depend on the time zone of the session. In another zone than UTC they become calls that name
//! the zone, so that everything that evaluates an expression can keep to UTC:
//!
//! ```text
//! CAST(instant AS DATE)              ->  CAST(at_time_zone(instant, zone) AS DATE)
//! CAST(timestamp AS TIMESTAMPTZ)     ->  at_time_zone(timestamp, zone)
//! CAST(instant AS TEXT)              ->  instant_text(instant, zone)
//! CAST(text AS TIMESTAMPTZ)          ->  text_instant(text, zone, false)
//! date_part('hour', instant)         ->  date_part('hour', at_time_zone(instant, zone))
//! date_trunc('day', instant)         ->  at_time_zone(date_trunc('day', at_time_zone(instant, zone)), zone)
//! instant + INTERVAL '1 day'         ->  at_time_zone(at_time_zone(instant, zone) + INTERVAL '1 day', zone)
//! ```

use arrow::array::AsArray;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use rowmill_base::{Error, Result};
use rowmill_plan::{Constant, FunctionSpec, ScalarExpr};

use super::{call, cast};
use crate::functions::{self, time};
use crate::session_zone::{SessionZone, session_zone};

/// Makes a cast in the zone of the session. Returns `None` if the zone makes no difference.
pub(super) fn cast_in_zone(expr: &ScalarExpr, kind: &DataType, or_null: bool) -> Result<Option<ScalarExpr>> {
    use DataType::{Date32, Time64, Timestamp, Utf8View};
    let Some(zone) = session_zone() else { return Ok(None) };
    let made = match (&expr.kind, kind) {
        (Timestamp(_, Some(_)), Timestamp(_, None) | Date32 | Time64(_)) => {
            cast(moved(expr.clone(), zone)?, kind, or_null)?
        }
        (Timestamp(_, None), Timestamp(_, Some(_))) => cast(moved(expr.clone(), zone)?, kind, or_null)?,
        (Date32, Timestamp(unit, Some(_))) => moved(cast(expr.clone(), &Timestamp(*unit, None), or_null)?, zone)?,
        (Timestamp(_, Some(_)), Utf8View) => named("instant_text", vec![expr.clone(), name_of(zone)])?,
        // A constant is read at once, on this thread, which knows the zone.
        (Utf8View, Timestamp(_, Some(_))) if expr.as_constant().is_none() => {
            let read = named("text_instant", vec![expr.clone(), name_of(zone), ScalarExpr::literal(or_null)])?;
            cast(read, kind, or_null)?
        }
        _ => return Ok(None),
    };
    Ok(Some(made))
}

/// Makes a call in the zone of the session. Returns `None` if the zone makes no difference.
pub(super) fn call_in_zone(function: &'static FunctionSpec, arguments: &[ScalarExpr]) -> Result<Option<ScalarExpr>> {
    let Some(zone) = session_zone() else { return Ok(None) };
    let is_zoned = |argument: &ScalarExpr| matches!(argument.kind, DataType::Timestamp(_, Some(_)));
    if !arguments.iter().any(is_zoned) {
        return read_in_zone(function, arguments, zone);
    }
    let is_of_field = time::FIELDS.iter().chain(time::NAMES).any(|field| field.name == function.name);
    let field = match (function.name, arguments) {
        ("date_part", [field, _]) => field.as_constant().and_then(Constant::as_text).map(str::to_lowercase),
        _ if is_of_field => Some(function.name.to_owned()),
        _ => None,
    };
    match (function.name, field.as_deref()) {
        // These are facts about the instant itself.
        (_, Some("epoch")) => Ok(None),
        (_, Some(field @ ("timezone" | "timezone_hour" | "timezone_minute"))) => {
            offset(field, function, arguments, zone).map(Some)
        }
        ("date_trunc", _) => {
            let local = call(function, local_arguments(arguments, zone)?)?;
            moved(local, zone).map(Some)
        }
        ("timestamp_plus_interval" | "timestamp_minus_interval", _) => shifted(function, arguments, zone),
        ("date_part" | "to_char" | "strftime" | "age" | "date_diff" | "date_sub", _) => {
            call(function, local_arguments(arguments, zone)?).map(Some)
        }
        _ if is_of_field => call(function, local_arguments(arguments, zone)?).map(Some),
        _ => Ok(None),
    }
}

/// Makes a call of a function that makes an instant of parts of a local time.
fn read_in_zone(
    function: &'static FunctionSpec,
    arguments: &[ScalarExpr],
    zone: SessionZone,
) -> Result<Option<ScalarExpr>> {
    let is_text = |argument: Option<&ScalarExpr>| argument.is_some_and(|argument| argument.kind == DataType::Utf8View);
    let is_local = match function.name {
        "make_timestamptz" => arguments.len() > 1 && !is_text(arguments.last()),
        "to_timestamp" => arguments.len() == 2 && is_text(arguments.first()),
        _ => false,
    };
    if !is_local {
        return Ok(None);
    }
    let in_utc = with_utc(|| call(function, arguments.to_vec()))?;
    let local = named("to_local_time", vec![in_utc])?;
    moved(local, zone).map(Some)
}

/// Makes the sum of an instant and an interval: months and days count in the zone, smaller units do not. An interval
/// that is no constant counts in UTC.
fn shifted(function: &'static FunctionSpec, arguments: &[ScalarExpr], zone: SessionZone) -> Result<Option<ScalarExpr>> {
    let [instant, interval] = arguments else { return Ok(None) };
    let Some(value) = interval.as_constant().filter(|value| !value.is_null()) else { return Ok(None) };
    let Some(interval) = value.array().as_primitive_opt::<IntervalMonthDayNanoType>().map(|of| of.value(0)) else {
        return Ok(None);
    };
    if interval.months == 0 && interval.days == 0 {
        return Ok(None);
    }
    let part = |interval| {
        let array = arrow::array::PrimitiveArray::<IntervalMonthDayNanoType>::from(vec![interval]);
        ScalarExpr::literal(Constant::new(std::sync::Arc::new(array)))
    };
    let dates = IntervalMonthDayNano { nanoseconds: 0, ..interval };
    let local = call(function, vec![moved(instant.clone(), zone)?, part(dates)])?;
    let shifted = moved(local, zone)?;
    let rest = IntervalMonthDayNano { months: 0, days: 0, ..interval };
    match interval.nanoseconds {
        0 => Ok(Some(shifted)),
        _ => with_utc(|| call(function, vec![shifted, part(rest)])).map(Some),
    }
}

/// Makes the field of an instant that tells its offset from UTC.
fn offset(
    field: &str,
    function: &'static FunctionSpec,
    arguments: &[ScalarExpr],
    zone: SessionZone,
) -> Result<ScalarExpr> {
    let instant = arguments.last().cloned().ok_or_else(|| Error::internal("a field is one of a value"))?;
    // The type is that of the call in UTC.
    let kind = with_utc(|| call(function, arguments.to_vec()))?.kind;
    let seconds = named("zone_offset", vec![instant, name_of(zone), ScalarExpr::literal(field)])?;
    cast(seconds, &kind, false)
}

/// Returns the arguments with local times in the place of instants.
fn local_arguments(arguments: &[ScalarExpr], zone: SessionZone) -> Result<Vec<ScalarExpr>> {
    let local = arguments.iter().map(|argument| match argument.kind {
        DataType::Timestamp(_, Some(_)) => moved(argument.clone(), zone),
        _ => Ok(argument.clone()),
    });
    local.collect()
}

fn with_utc<T>(make: impl FnOnce() -> T) -> T {
    crate::session_zone::with_session_zone(None, make)
}

/// Makes `time AT TIME ZONE zone`.
fn moved(time: ScalarExpr, zone: SessionZone) -> Result<ScalarExpr> {
    named("at_time_zone", vec![time, name_of(zone)])
}

fn name_of(zone: SessionZone) -> ScalarExpr {
    ScalarExpr::literal(zone.name)
}

fn named(name: &str, arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
    let function = functions::find(name).ok_or_else(|| Error::internal(format!("the function {name} is missing")))?;
    call(function, arguments)
}

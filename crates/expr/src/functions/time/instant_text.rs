//! Texts of instants in a time zone, and the offset of a zone.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, TimeUnit};
use rowmill_plan::FunctionSpec;
use rowmill_plan::function::CallKinds;

use super::calendar::units_per_second;
use super::columns::{each_row, failed, instant_kind, out_of_range, primitive, strict_nulls, tick_slots, unit_of};
use super::zone::{shown_at, zone_called};
use crate::functions::signatures::{BIGINT, BOOLEAN, TEXT, ordinary};
use crate::session_zone::{SessionZone, with_session_zone};
use crate::text::writer::write_instant;
use crate::text::{Unreadable, read_column};

/// `instant_text(instant, zone)`
pub(super) const INSTANT_TEXT: FunctionSpec = FunctionSpec {
    name: "instant_text",
    can_fail: true,
    signature: |arguments| match arguments {
        [instant, zone] if *zone.kind == TEXT => match instant.kind {
            DataType::Timestamp(unit, Some(_)) => {
                Some(CallKinds { arguments: vec![instant_kind(*unit), TEXT], result: TEXT })
            }
            _ => None,
        },
        _ => None,
    },
    kernel: |arguments, _, rows| {
        let nulls = strict_nulls(arguments, rows);
        let per_second = units_per_second(unit_of(arguments[0].values.data_type()));
        let (ticks, names) = (tick_slots(&arguments[0]), arguments[1].values.as_string_view());
        let (mut texts, mut text) = (StringViewBuilder::with_capacity(rows), String::new());
        for row in 0..rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                texts.append_null();
                continue;
            }
            text.clear();
            write_instant(ticks.at(row), per_second, zone_called(names.value(arguments[1].at(row)))?, &mut text);
            texts.try_append_value(&text).map_err(failed)?;
        }
        Ok(Arc::new(texts.finish()))
    },
    doc: "The text of an instant as a clock in a time zone shows it, with its offset.",
    example: ("instant_text(TIMESTAMPTZ '2013-07-31 12:00:00Z', 'Europe/Berlin')", "2013-07-31 14:00:00+02"),
    ..ordinary("time")
};

/// `text_instant(text, zone, or_null)`
pub(super) const TEXT_INSTANT: FunctionSpec = FunctionSpec {
    name: "text_instant",
    can_fail: true,
    signature: |arguments| match arguments {
        [text, zone, or_null] if [text.kind, zone.kind] == [&TEXT, &TEXT] && *or_null.kind == BOOLEAN => {
            let result = instant_kind(TimeUnit::Microsecond);
            Some(CallKinds { arguments: vec![TEXT, TEXT, BOOLEAN], result })
        }
        _ => None,
    },
    kernel: |arguments, kind, rows| {
        let [texts, zones, or_null] = arguments else { return Err(failed("three arguments")) };
        let texts = match texts.is_constant {
            true => super::columns::repeated(&texts.values, rows)?,
            false => texts.values.clone(),
        };
        // The zone is a constant, because casts make the calls.
        let (zones, or_null) = (zones.values.as_string_view(), or_null.values.as_boolean());
        if rows == 0 || zones.is_null(0) {
            return Ok(arrow::array::new_null_array(kind, rows));
        }
        let unreadable = if or_null.value(0) { Unreadable::IsNull } else { Unreadable::Fails };
        let zone = SessionZone::of(zones.value(0))?;
        with_session_zone(Some(zone), || read_column(texts.as_string_view(), kind, unreadable))
    },
    doc: "The instant of a text, which is read in a time zone if it has no offset; with true, NULL for other texts.",
    example: ("text_instant('2013-07-31 14:00', 'Europe/Berlin', false)", "2013-07-31 12:00:00+00"),
    ..ordinary("time")
};

/// `zone_offset(instant, zone, field)`
pub(super) const ZONE_OFFSET: FunctionSpec = FunctionSpec {
    name: "zone_offset",
    can_fail: true,
    signature: |arguments| match arguments {
        [instant, zone, field] if [zone.kind, field.kind] == [&TEXT, &TEXT] => match instant.kind {
            DataType::Timestamp(unit, Some(_)) => {
                Some(CallKinds { arguments: vec![instant_kind(*unit), TEXT, TEXT], result: BIGINT })
            }
            _ => None,
        },
        _ => None,
    },
    kernel: |arguments, _, rows| {
        let nulls = strict_nulls(arguments, rows);
        let per_second = units_per_second(unit_of(arguments[0].values.data_type()));
        let ticks = tick_slots(&arguments[0]);
        let (names, fields) = (arguments[1].values.as_string_view(), arguments[2].values.as_string_view());
        let offsets = each_row(rows, nulls.as_ref(), |row| {
            let zone = zone_called(names.value(arguments[1].at(row)))?;
            let tick = ticks.at(row);
            let shown = shown_at(tick, per_second, zone).ok_or_else(|| out_of_range("the timestamp"))?;
            let seconds = (shown - tick) / per_second;
            Ok(match fields.value(arguments[2].at(row)) {
                "timezone_hour" => seconds / 3_600,
                "timezone_minute" => seconds % 3_600 / 60,
                _ => seconds,
            })
        })?;
        primitive(&BIGINT, offsets, nulls)
    },
    doc: "The offset from UTC of a time zone at an instant: in seconds for 'timezone', or its part 'timezone_hour' or \
        'timezone_minute'.",
    example: ("zone_offset(TIMESTAMPTZ '2013-07-31 12:00:00Z', 'Europe/Berlin', 'timezone')", "7200"),
    ..ordinary("time")
};

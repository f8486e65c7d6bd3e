//! Dates, times and timestamps.

mod bin;
mod bucket;
pub(crate) mod calendar;
mod clock;
pub(super) mod columns;
mod convert;
mod difference;
mod epoch;
mod field;
mod fields;
mod format;
mod instant_text;
mod make;
mod names;
mod part;
mod pattern;
mod read;
mod to_char;
mod to_char_interval;
mod to_char_number;
mod trunc;
mod written_unit;
pub(crate) mod zone;

use rowmill_plan::FunctionSpec;

pub use bucket::{MONTHS_ORIGIN_DAY, ORIGIN_DAY};
pub(super) use clock::CLOCK;
pub(crate) use columns::instant_kind;
pub(super) use difference::DIFFERENCES;
pub(super) use epoch::EPOCHS;
pub(crate) use fields::FIELDS;
pub(super) use format::FORMATS;
pub(crate) use names::NAMES;
pub use written_unit::written_unit;

/// Returns an error if there is no time zone with a name or offset.
pub fn time_zone(name: &str) -> rowmill_base::Result<()> {
    zone::zone_called(name).map(drop)
}

/// The functions of the family.
pub(super) static TIME: &[FunctionSpec] = &[
    part::DATE_PART,
    trunc::DATE_TRUNC,
    bin::DATE_BIN,
    bucket::TIME_BUCKET,
    make::MAKE_DATE,
    make::MAKE_TIME,
    make::MAKE_TIMESTAMP,
    make::MAKE_TIMESTAMPTZ,
    to_char::TO_CHAR,
    convert::TO_DATE,
    convert::TO_TIME,
    convert::TO_TIMESTAMP,
    convert::TO_TIMESTAMP_SECONDS,
    convert::TO_TIMESTAMP_MILLIS,
    convert::TO_TIMESTAMP_MICROS,
    convert::TO_TIMESTAMP_NANOS,
    convert::TO_UNIXTIME,
    convert::FROM_UNIXTIME,
    zone::AT_TIME_ZONE,
    zone::TIMEZONE,
    zone::TO_LOCAL_TIME,
    instant_text::INSTANT_TEXT,
    instant_text::TEXT_INSTANT,
    instant_text::ZONE_OFFSET,
];

#[cfg(test)]
mod tests;

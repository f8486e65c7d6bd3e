//! Intervals, and arithmetic with dates and times.
//!
//! The operators `+`, `-`, `*` and `/` of dates, times and intervals are calls of these functions. The binder chooses
//! one by the types of the operands. An interval is added in this order: months, which end at the last day of their
//! month, then days, then time.

mod dates;
mod intervals;
mod timestamps;
mod units;

use rowmill_plan::FunctionSpec;

pub use self::timestamps::{fixed_distance, moved_timestamp};
pub(super) use self::timestamps::{shift_back, timestamp_and_interval};
pub(super) use self::units::UNITS;

/// The functions of the family.
pub(super) static INTERVAL: &[FunctionSpec] = &[
    timestamps::TIMESTAMP_PLUS_INTERVAL,
    timestamps::TIMESTAMP_MINUS_INTERVAL,
    timestamps::TIMESTAMP_MINUS_TIMESTAMP,
    timestamps::TIME_PLUS_INTERVAL,
    timestamps::TIME_MINUS_INTERVAL,
    timestamps::TIME_MINUS_TIME,
    dates::DATE_PLUS_DAYS,
    dates::DATE_MINUS_DAYS,
    dates::DATE_MINUS_DATE,
    intervals::INTERVAL_PLUS_INTERVAL,
    intervals::INTERVAL_MINUS_INTERVAL,
    intervals::INTERVAL_TIMES_NUMBER,
    intervals::INTERVAL_DIVIDED_BY_NUMBER,
    intervals::NEGATE_INTERVAL,
    intervals::INTERVAL_PART,
    intervals::INTERVAL_OF_PARTS,
];

#[cfg(test)]
mod tests;

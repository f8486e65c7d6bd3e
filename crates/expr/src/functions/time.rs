//! Dates, times and timestamps.

pub(super) mod calendar;
pub(super) mod columns;

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static TIME: &[FunctionSpec] = &[];

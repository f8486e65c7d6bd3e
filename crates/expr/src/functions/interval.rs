//! Intervals, and arithmetic of dates and times.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static INTERVAL: &[FunctionSpec] = &[];

//! Dates, times and timestamps.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static TIME: &[FunctionSpec] = &[];

//! Numbers.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static MATH: &[FunctionSpec] = &[];

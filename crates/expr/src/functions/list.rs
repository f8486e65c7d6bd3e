//! Lists.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static LIST: &[FunctionSpec] = &[];

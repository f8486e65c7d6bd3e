//! Structs.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static STRUCTURE: &[FunctionSpec] = &[];

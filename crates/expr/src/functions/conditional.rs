//! Conditional functions.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static CONDITIONAL: &[FunctionSpec] = &[];

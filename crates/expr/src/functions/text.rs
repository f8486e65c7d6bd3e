//! Texts.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static TEXT: &[FunctionSpec] = &[];

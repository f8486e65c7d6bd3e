//! Regular expressions.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static REGEX: &[FunctionSpec] = &[];

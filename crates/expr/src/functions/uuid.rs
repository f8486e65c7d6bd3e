//! UUIDs.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static UUID: &[FunctionSpec] = &[];

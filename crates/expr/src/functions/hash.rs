//! Hashes and encodings.

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static HASH: &[FunctionSpec] = &[];

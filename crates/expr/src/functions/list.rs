//! Lists.
//!
//! Positions count from 1; negative ones from the end, -1 being the last item. Items are compared as `IS NOT DISTINCT FROM`
//! does, so that a NULL finds a NULL, and NaN finds NaN.

mod concat;
mod maker;

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static LIST: &[FunctionSpec] = &[concat::ARRAY_CONCAT, concat::ARRAY_APPEND, concat::ARRAY_PREPEND];

#[cfg(test)]
mod tests;

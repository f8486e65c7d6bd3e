//! Lists.
//!
//! Positions count from 1; negative ones from the end, -1 being the last item. Items are compared as `IS NOT DISTINCT FROM`
//! does, so that a NULL finds a NULL, and NaN finds NaN.

mod access;
mod concat;
mod keys;
mod maker;
mod measure;
mod search;
mod sets;

use rowmill_plan::FunctionSpec;

/// The family.
pub(super) static LIST: &[FunctionSpec] = &[
    concat::MAKE_ARRAY,
    concat::ARRAY_CONCAT,
    concat::ARRAY_APPEND,
    concat::ARRAY_PREPEND,
    access::ARRAY_ELEMENT,
    access::ARRAY_ANY_VALUE,
    access::ARRAY_SLICE,
    access::ARRAY_POP_FRONT,
    access::ARRAY_POP_BACK,
    access::ARRAY_REVERSE,
    access::ARRAY_COMPACT,
    access::ARRAY_RESIZE,
    access::ARRAY_REPEAT,
    access::FLATTEN,
    measure::ARRAY_LENGTH,
    measure::ARRAY_DIMS,
    measure::ARRAY_NDIMS,
    measure::CARDINALITY,
    measure::EMPTY,
    search::ARRAY_HAS,
    search::ARRAY_HAS_ALL,
    search::ARRAY_HAS_ANY,
    search::ARRAY_POSITION,
    search::ARRAY_POSITIONS,
    search::ARRAY_REMOVE,
    search::ARRAY_REMOVE_N,
    search::ARRAY_REPLACE,
    search::ARRAY_REPLACE_N,
    sets::ARRAY_DISTINCT,
    sets::ARRAY_UNION,
    sets::ARRAY_INTERSECT,
    sets::ARRAY_EXCEPT,
    sets::ARRAY_MIN,
    sets::ARRAY_MAX,
    sets::ARRAY_SORT,
];

#[cfg(test)]
mod tests;

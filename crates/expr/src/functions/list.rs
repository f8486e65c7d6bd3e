//! Lists.
//!
//! Positions count from 1. Negative positions count from the end, so -1 is the last item. Items are compared as by `IS
//! NOT DISTINCT FROM`: a NULL finds a NULL, and NaN finds NaN.

mod access;
mod concat;
pub(super) mod keys;
pub(super) mod maker;
mod measure;
mod picks;
mod search;
mod series;
mod sets;
mod strings;
mod vectors;
mod zip;

use rowmill_plan::FunctionSpec;

pub(super) use picks::PICKS;

/// The functions of the family.
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
    sets::ARRAY_REVERSE_SORT,
    sets::ARRAY_GRADE_UP,
    sets::ARRAY_UNIQUE,
    strings::ARRAY_TO_STRING,
    strings::STRING_TO_ARRAY,
    series::RANGE,
    series::GENERATE_SERIES,
    zip::ARRAYS_ZIP,
    vectors::ARRAY_SUM,
    vectors::ARRAY_AVG,
    vectors::ARRAY_PRODUCT,
    vectors::ARRAY_ADD,
    vectors::ARRAY_SUBTRACT,
    vectors::ARRAY_SCALE,
    vectors::ARRAY_NORMALIZE,
    vectors::INNER_PRODUCT,
    vectors::ARRAY_DISTANCE,
    vectors::COSINE_DISTANCE,
    vectors::COSINE_SIMILARITY,
    vectors::NEGATIVE_INNER_PRODUCT,
    vectors::CROSS_PRODUCT,
];

#[cfg(test)]
mod tests;

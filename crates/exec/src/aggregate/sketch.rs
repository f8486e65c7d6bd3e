//! Aggregates that make and merge sketches in the formats of Apache DataSketches.
//!
//! Names and defaults are those of Spark where Spark has them. `rowmill_expr::functions` has the functions that read
//! the sketches.

use arrow::datatypes::DataType;
use rowmill_expr::sketch::{
    FREQUENT_ITEMS, FREQUENT_ITEMS_MERGE, HLL_SKETCH, HLL_UNION, KLL_MERGE, KLL_SKETCH, LG_K_OF_THETA,
    LG_K_OF_THETA_DEFAULT, SketchFunction, THETA_INTERSECTION, THETA_SKETCH, THETA_UNION,
};
use rowmill_plan::{AggregateParameter, AggregateSpec, SizeBounds};

use super::signature::{Kinds, double_of};
use super::{AggregateState, Aggregation};

const LG_K_OF_HLL: AggregateParameter = size("lg_k", 4, 21, 12);
const LG_K: AggregateParameter = size("lg_k", *LG_K_OF_THETA.start(), *LG_K_OF_THETA.end(), LG_K_OF_THETA_DEFAULT);
const K: AggregateParameter = size("k", 8, u16::MAX as i64, 200);
const LG_MAX_MAP_SIZE: AggregateParameter = size("lg_max_map_size", 3, 26, 10);

const fn size(name: &'static str, least: i64, most: i64, default: i64) -> AggregateParameter {
    AggregateParameter::Size(SizeBounds { name, least, most, default })
}

/// The spec of an aggregate that makes a sketch with `function`.
const fn spec(function: &SketchFunction, signature: fn(&[DataType]) -> Kinds) -> AggregateSpec {
    AggregateSpec { ignores_duplicates: function.ignores_duplicates, ..AggregateSpec::new(function.name, signature) }
}

pub(super) static SKETCHES: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            parameter: LG_K_OF_HLL,
            doc: "An HLL sketch of the distinct values with 2^12 registers, or 2^lg_k with a second argument.",
            example: ("hll_sketch_estimate(hll_sketch_agg(x)) FROM (VALUES (3), (1), (3)) AS t(x)", "2"),
            ..spec(&HLL_SKETCH, hashed)
        },
        state: AggregateState::Sketch(&HLL_SKETCH),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "An HLL sketch of the values of all sketches, with the least lg_k of them.",
            example: (
                "hll_sketch_estimate(hll_union_agg(s)) FROM (SELECT hll_sketch_agg(x) AS s FROM (VALUES (3), (1), (3)) \
                 AS t(x) GROUP BY x)",
                "2",
            ),
            ..spec(&HLL_UNION, sketches)
        },
        state: AggregateState::Sketch(&HLL_UNION),
    },
    Aggregation {
        spec: AggregateSpec {
            parameter: LG_K,
            doc: "A theta sketch of the distinct values with 2^12 hashes, or 2^lg_k with a second argument.",
            example: ("theta_sketch_estimate(theta_sketch_agg(x)) FROM (VALUES (3), (1), (3)) AS t(x)", "2"),
            ..spec(&THETA_SKETCH, hashed)
        },
        state: AggregateState::Sketch(&THETA_SKETCH),
    },
    Aggregation {
        spec: AggregateSpec {
            parameter: LG_K,
            doc: "A theta sketch of the values of all sketches, with 2^12 hashes, or 2^lg_k with a second argument.",
            example: (
                "theta_sketch_estimate(theta_union_agg(s)) FROM (SELECT theta_sketch_agg(x) AS s FROM (VALUES (3), \
                 (1), (3)) AS t(x) GROUP BY x)",
                "2",
            ),
            ..spec(&THETA_UNION, sketches)
        },
        state: AggregateState::Sketch(&THETA_UNION),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "A theta sketch of the values that all sketches have.",
            example: (
                "theta_sketch_estimate(theta_intersection_agg(s)) FROM (SELECT theta_sketch_agg(x) AS s FROM (VALUES \
                 ('a', 1), ('a', 2), ('b', 2), ('b', 3)) AS t(k, x) GROUP BY k)",
                "1",
            ),
            ..spec(&THETA_INTERSECTION, sketches)
        },
        state: AggregateState::Sketch(&THETA_INTERSECTION),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["kll_sketch_agg_double"],
            parameter: K,
            doc: "A KLL sketch of the numbers, for quantiles and ranks, with k 200 or as a second argument says.",
            example: ("kll_sketch_quantile(kll_sketch_agg(x), 0.5) FROM (VALUES (1), (2), (9)) AS t(x)", "2.0"),
            ..spec(&KLL_SKETCH, numbers)
        },
        state: AggregateState::Sketch(&KLL_SKETCH),
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["kll_merge_agg_double"],
            doc: "A KLL sketch of the values of all sketches, with the least k of them.",
            example: (
                "kll_sketch_count(kll_merge_agg(s)) FROM (SELECT kll_sketch_agg(x) AS s FROM (VALUES (3), (1), (3)) AS \
                 t(x) GROUP BY x)",
                "3",
            ),
            ..spec(&KLL_MERGE, sketches)
        },
        state: AggregateState::Sketch(&KLL_MERGE),
    },
    Aggregation {
        spec: AggregateSpec {
            parameter: LG_MAX_MAP_SIZE,
            doc: "A sketch of the frequent items among texts, in a table of up to 2^10 of them, or 2^lg_max_map_size \
                  with a second argument.",
            example: (
                "frequent_items(frequent_items_agg(x), 1) FROM (VALUES ('rye'), ('oat'), ('rye')) AS t(x)",
                "[{\"item\": \"rye\", \"estimate\": 2, \"lower_bound\": 2, \"upper_bound\": 2}]",
            ),
            ..spec(&FREQUENT_ITEMS, texts)
        },
        state: AggregateState::Sketch(&FREQUENT_ITEMS),
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "A sketch of the frequent items of all sketches, with the largest table of them.",
            example: (
                "frequent_items(frequent_items_merge_agg(s), 1) FROM (SELECT frequent_items_agg(x) AS s FROM (VALUES \
                 ('a'), ('b'), ('a')) AS t(x) GROUP BY x)",
                "[{\"item\": \"a\", \"estimate\": 2, \"lower_bound\": 2, \"upper_bound\": 2}]",
            ),
            ..spec(&FREQUENT_ITEMS_MERGE, sketches)
        },
        state: AggregateState::Sketch(&FREQUENT_ITEMS_MERGE),
    },
];

/// Values of any type that is not nested.
fn hashed(arguments: &[DataType]) -> Kinds {
    match arguments {
        [DataType::Null] => Some((vec![DataType::Utf8View], DataType::BinaryView)),
        // The engine groups numbers of 256 bits as bytes, so a sketch takes their texts.
        [DataType::Decimal256(..)] => Some((vec![DataType::Utf8View], DataType::BinaryView)),
        [kind] if !kind.is_nested() => Some((vec![kind.clone()], DataType::BinaryView)),
        _ => None,
    }
}

/// Sketches.
fn sketches(arguments: &[DataType]) -> Kinds {
    match arguments {
        [DataType::BinaryView | DataType::Null] => Some((vec![DataType::BinaryView], DataType::BinaryView)),
        _ => None,
    }
}

/// Numbers, cast to DOUBLE.
fn numbers(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    Some((vec![double_of(kind)?], DataType::BinaryView))
}

/// Texts, or values that are cast to text.
fn texts(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    if kind.is_nested() { None } else { Some((vec![DataType::Utf8View], DataType::BinaryView)) }
}

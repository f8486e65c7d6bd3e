//! `min` and `max`, of booleans also `bool_and` and `bool_or`.

use arrow::datatypes::DataType;
use rowmill_plan::{AggregateRole, AggregateSpec};

use super::cell::{CellResult, FoldCell};
use super::fold::{Greatest, Least};
use super::signature::{any, boolean};
use super::{AggregateState, Aggregation, FoldState};

pub(super) static EXTREMES: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            doc: "The least value.",
            example: ("min(x) FROM (VALUES ('rye'), ('oat')) AS t(x)", "oat"),
            ..extreme(AggregateRole::Min, AggregateSpec::new("min", any))
        },
        state: AggregateState::Extreme { is_greatest: false },
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "The greatest value.",
            example: ("max(x) FROM (VALUES ('rye'), ('oat')) AS t(x)", "rye"),
            ..extreme(AggregateRole::Max, AggregateSpec::new("max", any))
        },
        state: AggregateState::Extreme { is_greatest: true },
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["every"],
            doc: "Whether all values are true.",
            example: ("bool_and(x > 1) FROM (VALUES (1), (2)) AS t(x)", "false"),
            ..extreme(AggregateRole::Min, AggregateSpec::new("bool_and", boolean))
        },
        state: AggregateState::Extreme { is_greatest: false },
    },
    Aggregation {
        spec: AggregateSpec {
            doc: "Whether a value is true.",
            example: ("bool_or(x > 1) FROM (VALUES (1), (2)) AS t(x)", "true"),
            ..extreme(AggregateRole::Max, AggregateSpec::new("bool_or", boolean))
        },
        state: AggregateState::Extreme { is_greatest: true },
    },
];

const fn extreme(role: AggregateRole, spec: AggregateSpec) -> AggregateSpec {
    AggregateSpec { role, ignores_duplicates: true, joins_parts: true, ..spec }
}

/// The fold for the least or greatest of values of a fixed size.
pub(crate) fn extreme_fold(is_greatest: bool, kind: &DataType) -> FoldState {
    use DataType::{Decimal128, FixedSizeBinary, Interval};
    let is_wide = matches!(kind, Decimal128(..) | FixedSizeBinary(16) | Interval(_));
    let result = if is_wide { CellResult::OrderedWide } else { CellResult::Ordered };
    let fold = match (is_greatest, is_wide) {
        (false, false) => &FoldCell::<Least<i64>>::NEW as &dyn super::CellFold,
        (true, false) => &FoldCell::<Greatest<i64>>::NEW,
        (false, true) => &FoldCell::<Least<i128>>::NEW,
        (true, true) => &FoldCell::<Greatest<i128>>::NEW,
    };
    FoldState { fold, result, needs_count: true }
}

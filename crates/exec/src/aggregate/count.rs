//! `count`.

use arrow::datatypes::DataType;
use rowmill_plan::{AggregateRole, AggregateSpec};

use super::signature::{Kinds, counted};
use super::{AggregateState, Aggregation};

pub(super) static COUNTS: &[Aggregation] = &[Aggregation {
    spec: AggregateSpec {
        role: AggregateRole::Count,
        is_zero_of_nothing: true,
        joins_parts: true,
        doc: "The number of rows, or of values that are not NULL.",
        example: ("count(x) FROM (VALUES (4), (NULL), (6)) AS t(x)", "2"),
        ..AggregateSpec::new("count", kinds)
    },
    state: AggregateState::Count,
}];

fn kinds(arguments: &[DataType]) -> Kinds {
    if arguments.is_empty() { Some((Vec::new(), DataType::Int64)) } else { counted(arguments, DataType::Int64) }
}

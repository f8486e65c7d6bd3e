//! `approx_distinct`.

use arrow::datatypes::DataType;
use rowmill_base::Error;
use rowmill_plan::AggregateSpec;

use super::signature::counted;
use super::{AggregateState, Aggregation, KeptValues, ValuesState};

pub(super) static ESTIMATES: &[Aggregation] = &[Aggregation {
    spec: AggregateSpec {
        aliases: &["approx_count_distinct"],
        is_zero_of_nothing: true,
        ignores_duplicates: true,
        doc: "An estimate of the number of distinct values, with a standard error below 1 %.",
        example: ("approx_distinct(x) FROM (VALUES (3), (1), (3)) AS t(x)", "2"),
        ..AggregateSpec::new("approx_distinct", |arguments| counted(arguments, DataType::UInt64))
    },
    state: AggregateState::Values(ValuesState {
        kept: KeptValues::Registers,
        // The log computes the estimates from its registers.
        finish: |_| Err(Error::internal("an estimate keeps no values")),
    }),
}];

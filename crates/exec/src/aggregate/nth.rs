//! `first_value`, `last_value`, `nth_value` and `any_value`.

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::Int64Type;
use rowmill_base::{Error, Result};
use rowmill_plan::{AggregateNulls, AggregateOrdering, AggregateParameter, AggregateSpec};

use super::signature::any;
use super::{AggregateState, Aggregation, KeptValues, ValuesState};

pub(super) static NTHS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            nulls: AggregateNulls::Taken,
            ordering: AggregateOrdering::OfRows,
            aliases: &["first", "arbitrary"],
            doc: "The first value in the order of the rows, which may be NULL. With the name first and without \
                  ORDER BY, the order is that of the time column.",
            example: ("first_value(x ORDER BY x) FROM (VALUES (3), (1)) AS t(x)", "1"),
            ..AggregateSpec::new("first_value", any)
        },
        state: state(KeptValues::First),
    },
    Aggregation {
        spec: AggregateSpec {
            nulls: AggregateNulls::Taken,
            ordering: AggregateOrdering::OfRows,
            aliases: &["last"],
            doc: "The last value in the order of the rows, which may be NULL. With the name last and without \
                  ORDER BY, the order is that of the time column.",
            example: ("last_value(x ORDER BY x) FROM (VALUES (3), (1)) AS t(x)", "3"),
            ..AggregateSpec::new("last_value", any)
        },
        state: state(KeptValues::Last),
    },
    Aggregation {
        spec: AggregateSpec {
            nulls: AggregateNulls::TakenOnDemand,
            ordering: AggregateOrdering::OfRows,
            doc: "A value that is not NULL.",
            example: ("any_value(x) FROM (VALUES (NULL), (7)) AS t(x)", "7"),
            ..AggregateSpec::new("any_value", any)
        },
        state: state(KeptValues::First),
    },
    Aggregation {
        spec: AggregateSpec {
            parameter: AggregateParameter::Nth,
            nulls: AggregateNulls::Taken,
            ordering: AggregateOrdering::OfRows,
            doc: "The value at a place in the order of the rows: 1 is the first value, -1 the last one.",
            example: ("nth_value(x, 2 ORDER BY x) FROM (VALUES (3), (1), (2)) AS t(x)", "2"),
            ..AggregateSpec::new("nth_value", any)
        },
        state: AggregateState::Values(ValuesState {
            kept: KeptValues::All,
            finish: |values| {
                let place = values.parameter()?.as_primitive_opt::<Int64Type>();
                let place = place.ok_or_else(|| Error::internal("the place of a value is no BIGINT"))?;
                at(values.column, values.starts, place.value(0))
            },
        }),
    },
];

/// The state of an aggregate that keeps one value for each group.
const fn state(kept: KeptValues) -> AggregateState {
    AggregateState::Values(ValuesState { kept, finish: |values| at(values.column, values.starts, 1) })
}

/// The value at one place of each group's order.
fn at(column: &ArrayRef, starts: &[usize], place: i64) -> Result<ArrayRef> {
    let of = |ends: &[usize]| {
        let (start, end) = (ends[0] as i64, ends[1] as i64);
        let at = if place > 0 { start.checked_add(place - 1) } else { end.checked_add(place) };
        at.filter(|at| (start..end).contains(at)).map(|at| at as u32)
    };
    let places = UInt32Array::from_iter(starts.windows(2).map(of));
    arrow::compute::take(column, &places, None).map_err(|error| Error::internal(error.to_string()))
}

//! `array_agg`.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{AggregateNulls, AggregateOrdering, AggregateRole, AggregateSpec};

use super::signature::{Kinds, known};
use super::{AggregateState, Aggregation, KeptValues, ValuesState};

pub(super) static LISTS: &[Aggregation] = &[Aggregation {
    spec: AggregateSpec {
        aliases: &["list"],
        role: AggregateRole::List,
        nulls: AggregateNulls::Taken,
        ordering: AggregateOrdering::OfRows,
        doc: "All values as a list, including NULLs; NULL without rows.",
        example: ("array_agg(x ORDER BY x) FROM (VALUES (3), (1)) AS t(x)", "[1, 3]"),
        ..AggregateSpec::new("array_agg", kinds)
    },
    state: AggregateState::Values(ValuesState {
        kept: KeptValues::All,
        finish: |values| list(values.column, values.starts, values.kind),
    }),
}];

fn kinds(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    let kind = known(kind, DataType::Utf8View);
    let list = DataType::List(Arc::new(Field::new("item", kind.clone(), true)));
    Some((vec![kind], list))
}

/// The values of each group as a list.
fn list(column: &ArrayRef, starts: &[usize], kind: &DataType) -> Result<ArrayRef> {
    let DataType::List(field) = kind else { return Err(Error::internal(format!("values collected as {kind}"))) };
    let too_many =
        |_| Error::new(ErrorKind::ResultTooLarge, "lists of a result have more values than their type holds");
    let offsets = starts.iter().map(|start| i32::try_from(*start).map_err(too_many)).collect::<Result<Vec<_>>>()?;
    let nulls = NullBuffer::from_iter(starts.windows(2).map(|ends| ends[0] < ends[1]));
    let list =
        ListArray::try_new(Arc::clone(field), OffsetBuffer::new(offsets.into()), Arc::clone(column), Some(nulls));
    Ok(Arc::new(list.map_err(|error| Error::internal(error.to_string()))?))
}

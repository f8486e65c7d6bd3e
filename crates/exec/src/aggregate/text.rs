//! `string_agg`.

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Reservation, Result};
use rowmill_plan::{AggregateOrdering, AggregateParameter, AggregateSpec};

use super::signature::{Kinds, same};
use super::{AggregateState, Aggregation, KeptValues, ValuesState};
use crate::group::len_of;

/// Bytes of a joined text at most: Arrow counts them with 31 bits.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

pub(super) static TEXTS: &[Aggregation] = &[Aggregation {
    spec: AggregateSpec {
        aliases: &["group_concat", "listagg"],
        parameter: AggregateParameter::Separator,
        ordering: AggregateOrdering::OfRows,
        within_group: true,
        doc: "All texts, joined with a separator, which is a comma if none is given.",
        example: ("string_agg(x, ', ' ORDER BY x) FROM (VALUES ('rye'), ('oat')) AS t(x)", "oat, rye"),
        ..AggregateSpec::new("string_agg", kinds)
    },
    state: AggregateState::Values(ValuesState {
        kept: KeptValues::All,
        finish: |values| {
            let between = values.parameter()?.as_string_view_opt();
            let between = between.ok_or_else(|| Error::internal("a separator is no text"))?.value(0);
            joined(values.column, values.starts, between, values.kind, values.memory)
        },
    }),
}];

fn kinds(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    if kind.is_nested() { None } else { same(DataType::Utf8View) }
}

/// The texts of each group, joined with `between`.
fn joined(
    column: &ArrayRef,
    starts: &[usize],
    between: &str,
    kind: &DataType,
    memory: &mut Reservation,
) -> Result<ArrayRef> {
    let Some(texts) = column.as_string_view_opt() else {
        return Err(Error::internal(format!("texts of {}", column.data_type())));
    };
    let (mut all, mut longest) = (0, 0);
    for ends in starts.windows(2) {
        let bytes: usize = (ends[0]..ends[1]).map(|place| len_of(texts.views()[place]) + between.len()).sum();
        (all, longest) = (all + bytes, longest.max(bytes));
    }
    // Check the size before any text is built: one that is too long for Arrow's offsets must fail, not wrap around.
    if longest > TEXT_BYTES_MAX {
        return Err(Error::new(ErrorKind::ResultTooLarge, format!("string_agg: a text would have {longest} bytes")));
    }
    memory.grow((all + longest) as u64)?;
    let mut joined = StringViewBuilder::with_capacity(starts.len() - 1);
    let mut text = String::with_capacity(longest);
    for ends in starts.windows(2) {
        if ends[0] == ends[1] {
            joined.append_null();
            continue;
        }
        text.clear();
        for place in ends[0]..ends[1] {
            if place > ends[0] {
                text += between;
            }
            text += texts.value(place);
        }
        joined.append_value(&text);
    }
    arrow::compute::cast(&joined.finish(), kind).map_err(|error| Error::internal(error.to_string()))
}

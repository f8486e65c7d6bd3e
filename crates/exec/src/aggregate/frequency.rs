//! Aggregates of how often each value occurs: `histogram`, `entropy`, `approx_top_k`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, ListArray, StructArray, UInt32Array, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{partition, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use rowmill_base::{Error, ErrorKind, Result, map_arrow};
use rowmill_plan::{AggregateOrdering, AggregateParameter, AggregateSpec};

use super::signature::{Kinds, known};
use super::{AggregateState, Aggregation, GroupValues, KeptValues, ValuesState, count_of, shown};

pub(super) static FREQUENCIES: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            ordering: AggregateOrdering::OfValues,
            doc: "A map of the distinct values to how often each occurs.",
            example: ("histogram(x) FROM (VALUES (3), (1), (3)) AS t(x)", "{1=1, 3=2}"),
            ..AggregateSpec::new("histogram", counts_of)
        },
        state: state(histogram),
    },
    Aggregation {
        spec: AggregateSpec {
            ordering: AggregateOrdering::OfValues,
            doc: "The entropy of the values in bits: 0 if all are equal.",
            example: ("entropy(x) FROM (VALUES (1), (1), (2), (2)) AS t(x)", "1.0"),
            ..AggregateSpec::new("entropy", |arguments| one(arguments, |_| DataType::Float64))
        },
        state: state(entropy),
    },
    Aggregation {
        spec: AggregateSpec {
            parameter: AggregateParameter::Nth,
            ordering: AggregateOrdering::OfValues,
            doc: "The n most frequent values, the most frequent one first. They are exact.",
            example: ("approx_top_k(x, 1) FROM (VALUES (3), (1), (3)) AS t(x)", "[3]"),
            ..AggregateSpec::new("approx_top_k", |arguments| one(arguments, |kind| list_of(kind.clone())))
        },
        state: state(most_frequent),
    },
];

const fn state(finish: fn(GroupValues<'_>) -> Result<ArrayRef>) -> AggregateState {
    AggregateState::Values(ValuesState { kept: KeptValues::Counted, finish })
}

fn one(arguments: &[DataType], result: impl Fn(&DataType) -> DataType) -> Kinds {
    let [kind] = arguments else { return None };
    let kind = known(kind, DataType::Utf8View);
    Some((vec![kind.clone()], result(&kind)))
}

fn counts_of(arguments: &[DataType]) -> Kinds {
    one(arguments, |kind| map_arrow(kind.clone(), DataType::UInt64))
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(error.to_string())
}

/// A value of a group.
#[derive(Clone, Copy, Debug)]
struct ValueCount {
    /// The first place of the value in the column.
    place: u32,
    /// How often the group has the value.
    count: u64,
}

/// Calls `each` with the distinct values of each group. The values must be in order.
fn values_of_groups(values: &GroupValues<'_>, mut each: impl FnMut(&[ValueCount])) -> Result<()> {
    let starts = values.starts;
    let runs = partition(std::slice::from_ref(values.column)).map_err(failed)?.ranges();
    let mut next = 0;
    let mut of_group = Vec::new();
    for ends in starts.windows(2) {
        of_group.clear();
        // A run of equal values may continue in the next group, so it is used up only when it ends in this one.
        while let Some(run) = runs.get(next).filter(|run| run.start < ends[1]) {
            let (start, end) = (run.start.max(ends[0]), run.end.min(ends[1]));
            let value = || ValueCount { place: start as u32, count: count_of(values.counts, start..end) };
            of_group.extend((start < end).then(value));
            if run.end > ends[1] {
                break;
            }
            next += 1;
        }
        each(&of_group);
    }
    Ok(())
}

/// Makes lists of items, one for each group that has any.
fn lists(kind: &DataType, offsets: Vec<i32>, items: ArrayRef) -> Result<ArrayRef> {
    let DataType::List(field) = kind else { return Err(Error::internal(format!("a list of type {kind}"))) };
    let nulls = NullBuffer::from_iter(offsets.windows(2).map(|ends| ends[0] < ends[1]));
    let lists = ListArray::try_new(Arc::clone(field), OffsetBuffer::new(offsets.into()), items, Some(nulls));
    Ok(Arc::new(lists.map_err(failed)?))
}

fn offset_of(count: usize) -> Result<i32> {
    let too_many =
        |_| Error::new(ErrorKind::ResultTooLarge, "lists of a result have more values than their type holds");
    i32::try_from(count).map_err(too_many)
}

fn histogram(values: GroupValues<'_>) -> Result<ArrayRef> {
    let (mut picks, mut counts, mut ends) = (Vec::new(), Vec::new(), vec![0]);
    values_of_groups(&values, |of_group| {
        picks.extend(of_group.iter().map(|value| value.place));
        counts.extend(of_group.iter().map(|value| value.count));
        ends.push(picks.len());
    })?;
    let offsets = ends.into_iter().map(offset_of).collect::<Result<Vec<_>>>()?;
    let DataType::List(item) = values.kind else { return Err(Error::internal("a histogram is a list")) };
    let DataType::Struct(fields) = item.data_type() else { return Err(Error::internal("a histogram has entries")) };
    let keys = take(values.column, &UInt32Array::from(picks), None).map_err(failed)?;
    let entries = StructArray::try_new(fields.clone(), vec![keys, Arc::new(UInt64Array::from(counts))], None);
    lists(values.kind, offsets, Arc::new(entries.map_err(failed)?))
}

fn entropy(values: GroupValues<'_>) -> Result<ArrayRef> {
    let mut entropies = Vec::with_capacity(values.starts.len());
    values_of_groups(&values, |of_group| {
        let all = of_group.iter().map(|value| value.count).sum::<u64>() as f64;
        let bits = |value: &ValueCount| {
            let share = value.count as f64 / all;
            -share * share.log2()
        };
        // Of no values there is no entropy.
        entropies.push((!of_group.is_empty()).then(|| shown(of_group.iter().map(bits).sum())));
    })?;
    Ok(Arc::new(Float64Array::from(entropies)))
}

fn most_frequent(values: GroupValues<'_>) -> Result<ArrayRef> {
    let wanted = values.parameter()?.as_primitive_opt::<Int64Type>().map(|wanted| wanted.value(0));
    let Some(wanted) = wanted.and_then(|wanted| usize::try_from(wanted).ok()) else {
        return Err(Error::new(ErrorKind::InvalidParameter, "approx_top_k: the number of values must be positive"));
    };
    let (mut picks, mut ends) = (Vec::new(), vec![0]);
    values_of_groups(&values, |of_group| {
        let mut of_group = of_group.to_vec();
        // The sort is stable, so of equally frequent values the first in their order wins.
        of_group.sort_by_key(|value| std::cmp::Reverse(value.count));
        picks.extend(of_group.iter().take(wanted).map(|value| value.place));
        ends.push(picks.len());
    })?;
    let offsets = ends.into_iter().map(offset_of).collect::<Result<Vec<_>>>()?;
    lists(values.kind, offsets, take(values.column, &UInt32Array::from(picks), None).map_err(failed)?)
}

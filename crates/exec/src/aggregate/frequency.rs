//! Aggregates of how often each value occurs: `histogram`, `entropy`, `approx_top_k`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, ListArray, StructArray, UInt32Array, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{partition, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use rowmill_base::{Error, ErrorKind, Result, map_arrow};
use rowmill_plan::{AggregateOrdering, AggregateParameter, AggregateSpec};

use super::signature::{Kinds, known};
use super::{AggregateState, Aggregation, GroupValues, KeptValues, ValuesState, shown};

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
    AggregateState::Values(ValuesState { kept: KeptValues::All, finish })
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

/// Calls `each` with the runs of equal values of each group. The values must be in order.
fn runs_of_groups(column: &ArrayRef, starts: &[usize], mut each: impl FnMut(&[Range<usize>])) -> Result<()> {
    let runs = partition(std::slice::from_ref(column)).map_err(failed)?.ranges();
    let mut next = 0;
    let mut of_group = Vec::new();
    for ends in starts.windows(2) {
        of_group.clear();
        // A run of equal values may continue in the next group, so it is used up only when it ends in this one.
        while let Some(run) = runs.get(next).filter(|run| run.start < ends[1]) {
            let (start, end) = (run.start.max(ends[0]), run.end.min(ends[1]));
            of_group.extend((start < end).then_some(start..end));
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
    runs_of_groups(values.column, values.starts, |runs| {
        picks.extend(runs.iter().map(|run| run.start as u32));
        counts.extend(runs.iter().map(|run| run.len() as u64));
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
    runs_of_groups(values.column, values.starts, |runs| {
        let all = runs.iter().map(Range::len).sum::<usize>() as f64;
        let bits = |run: &Range<usize>| {
            let share = run.len() as f64 / all;
            -share * share.log2()
        };
        // Of no values there is no entropy.
        entropies.push((!runs.is_empty()).then(|| shown(runs.iter().map(bits).sum())));
    })?;
    Ok(Arc::new(Float64Array::from(entropies)))
}

fn most_frequent(values: GroupValues<'_>) -> Result<ArrayRef> {
    let wanted = values.parameter()?.as_primitive_opt::<Int64Type>().map(|wanted| wanted.value(0));
    let Some(wanted) = wanted.and_then(|wanted| usize::try_from(wanted).ok()) else {
        return Err(Error::new(ErrorKind::InvalidParameter, "approx_top_k: the number of values must be positive"));
    };
    let (mut picks, mut ends) = (Vec::new(), vec![0]);
    runs_of_groups(values.column, values.starts, |runs| {
        let mut runs = runs.to_vec();
        // The sort is stable, so of equally frequent values the first in their order wins.
        runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
        picks.extend(runs.iter().take(wanted).map(|run| run.start as u32));
        ends.push(picks.len());
    })?;
    let offsets = ends.into_iter().map(offset_of).collect::<Result<Vec<_>>>()?;
    lists(values.kind, offsets, take(values.column, &UInt32Array::from(picks), None).map_err(failed)?)
}

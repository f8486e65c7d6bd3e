//! `mode`.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{partition, take};
use rowmill_base::{Error, Result};
use rowmill_plan::{AggregateOrdering, AggregateSpec};

use super::signature::any;
use super::{AggregateState, Aggregation, KeptValues, ValuesState, count_of};

pub(super) static MODES: &[Aggregation] = &[Aggregation {
    spec: AggregateSpec {
        // The order decides which of several equally frequent values wins.
        ordering: AggregateOrdering::OfValues,
        within_group: true,
        doc: "The most frequent value. Of several, the first in the order of the values.",
        example: ("mode(x) FROM (VALUES (3), (1), (3)) AS t(x)", "3"),
        ..AggregateSpec::new("mode", any)
    },
    state: AggregateState::Values(ValuesState {
        kept: KeptValues::Counted,
        finish: |values| mode(values.column, values.counts, values.starts),
    }),
}];

/// The most frequent value of each group. Of equally frequent values the first wins. The values must be in order.
fn mode(column: &ArrayRef, counts: Option<&[u64]>, starts: &[usize]) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let runs = partition(std::slice::from_ref(column)).map_err(failed)?.ranges();
    let mut runs = runs.into_iter().peekable();
    let mut places: Vec<Option<u32>> = Vec::with_capacity(starts.len() - 1);
    for ends in starts.windows(2) {
        let (mut place, mut most) = (None, 0);
        // A run of equal values may continue in the next group, so it is used up only when it ends in this one.
        while let Some(run) = runs.peek().filter(|run| run.start < ends[1]) {
            let (start, end) = (run.start.max(ends[0]), run.end.min(ends[1]));
            let count = count_of(counts, start.min(end)..end);
            if count > most {
                (place, most) = (Some(start as u32), count);
            }
            if run.end > ends[1] {
                break;
            }
            runs.next();
        }
        places.push(place);
    }
    take(column, &UInt32Array::from(places), None).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn numbers(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn found(values: Result<ArrayRef>) -> Vec<Option<i64>> {
        values.expect("numbers").as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn the_most_frequent_value_is_found_in_each_group() {
        let column = numbers(&[1, 2, 2, 3, 3, 3, 3, 4, 5, 5]);
        assert_eq!(found(mode(&column, None, &[0, 5, 5, 6, 8, 10])), [Some(2), None, Some(3), Some(3), Some(5)]);
        assert_eq!(found(mode(&numbers(&[]), None, &[0, 0])), [None]);
        let counts = [9, 1, 1, 1, 1, 1, 1, 8, 1, 6];
        assert_eq!(
            found(mode(&column, Some(&counts), &[0, 5, 5, 6, 8, 10])),
            [Some(1), None, Some(3), Some(4), Some(5)]
        );
    }
}

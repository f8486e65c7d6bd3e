//! `sum` and `avg`.
//!
//! Sums of integers and decimals are exact: the engine chooses among the exact folds by the type of the values and by
//! what it knows about them. The sum of floats has a fold of its own.

use arrow::datatypes::DataType;
use rowmill_plan::aggregate::total_kind;
use rowmill_plan::{AggregateRole, AggregateSpec};

use super::cell::{CellResult, FoldCell};
use super::fold::{Fold, SumFloat};
use super::signature::{Kinds, known};
use super::{AggregateState, Aggregation, FoldState, shown};

/// The sum of floats.
pub(crate) static SUM_FLOAT: FoldState = FoldState {
    fold: &FoldCell::<SumFloat>::NEW,
    result: CellResult::Float(|words| Some(shown(SumFloat::load(words).total()))),
    needs_count: true,
};

pub(super) static TOTALS: &[Aggregation] = &[
    Aggregation {
        spec: AggregateSpec {
            role: AggregateRole::Sum,
            joins_parts: true,
            doc: "The sum of the values, also of intervals. It is exact, except for floats.",
            example: ("sum(x) FROM (VALUES (1.5), (2.25)) AS t(x)", "3.75"),
            ..AggregateSpec::new("sum", sum)
        },
        state: AggregateState::Total,
    },
    Aggregation {
        spec: AggregateSpec {
            aliases: &["mean"],
            role: AggregateRole::Average,
            joins_parts: true,
            doc: "The double nearest to the sum of the values divided by their number; of intervals, an interval.",
            example: ("avg(x) FROM (VALUES (1), (2)) AS t(x)", "1.5"),
            ..AggregateSpec::new("avg", average)
        },
        state: AggregateState::Total,
    },
];

/// The result of intervals is an interval. The binder computes it from sums of their parts.
fn sum(arguments: &[DataType]) -> Kinds {
    let [kind] = arguments else { return None };
    if let DataType::Interval(_) = kind {
        return Some((vec![kind.clone()], kind.clone()));
    }
    let kind = known(kind, DataType::Int32);
    let total = total_kind(&kind)?;
    Some((vec![kind], total))
}

fn average(arguments: &[DataType]) -> Kinds {
    let (casts, total) = sum(arguments)?;
    let kind = if let DataType::Interval(_) = total { total } else { DataType::Float64 };
    Some((casts, kind))
}

//! Tells windows about filters that keep only the first rows of each partition.
//!
//! The filter stays. The window may leave out rows beyond the bound, so it need not keep all rows of a partition. Other
//! conditions of the filter move to a filter above it, so that the bound and its window are next to each other.

use rowmill_plan::logical::{LogicalWindow, LogicalWindowFunction, RankFunction, WindowTop};
use rowmill_plan::{CompareOp, ExprOp, Logical, ScalarExpr};

use super::walk::{inputs_mut, take};

/// Records in the windows of a plan which rows the filters directly above them keep.
pub(crate) fn note_top_rows(plan: &mut Logical) {
    if let Logical::Filter { input, conditions } = plan {
        let mut below = &mut **input;
        while let Logical::Map { input, .. } | Logical::Filter { input, .. } = below {
            below = input;
        }
        if let Logical::Window(window) = below {
            window.top = conditions.iter().filter_map(|condition| bound(condition, window)).min_by_key(|top| top.most);
        }
        if let Logical::Window(window) = &**input {
            let is_bound = |condition: &ScalarExpr| bound(condition, window).is_some();
            let (bounds, others): (Vec<_>, Vec<_>) = std::mem::take(conditions).into_iter().partition(is_bound);
            *conditions = bounds;
            if conditions.is_empty() {
                *conditions = others;
            } else if !others.is_empty() {
                let bounded = Box::new(take(plan));
                *plan = Logical::Filter { input: bounded, conditions: others };
            }
        }
    }
    inputs_mut(plan).into_iter().for_each(note_top_rows);
}

/// The bound that a condition puts on a rank. The other calls of the window must not read rows beyond it.
fn bound(condition: &ScalarExpr, window: &LogicalWindow) -> Option<WindowTop> {
    let ExprOp::Compare(op, pair) = &condition.op else { return None };
    let column = pair[0].as_column()?;
    let value = pair[1].as_constant()?.as_bigint()?;
    let most = match op {
        CompareOp::LessOrEqual => value,
        CompareOp::Less => value.checked_sub(1)?,
        CompareOp::Equal => value,
        _ => return None,
    };
    let looks_back = |function: &LogicalWindowFunction| {
        use RankFunction::{DenseRank, Rank, RowNumber};
        matches!(function, LogicalWindowFunction::Rank(RowNumber | Rank | DenseRank))
    };
    if !window.calls.iter().all(|(_, call)| looks_back(&call.function)) {
        return None;
    }
    let (call, _) = window.calls.iter().find(|(id, _)| id.0 == column)?;
    Some(WindowTop { call: *call, most: u64::try_from(most.max(0)).ok()? })
}

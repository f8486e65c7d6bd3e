//! LIMIT without ORDER BY above a grouping: the groups of few values of one key.
//!
//! All rows of a group have the same keys. So the groups that have one of some values of a key come from the rows that have
//! one of those, and are complete without a look at any other row. Which groups are given is nobody's business, so values
//! of few rows are chosen: neighbours in the list of one block, as many as groups are asked for. Without conditions that
//! is enough; where conditions leave fewer groups than asked for, everything is grouped after all.

use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use rowmill_base::{Cancel, Result};
use rowmill_plan::{CompareOp, Expr, Predicate};
use rowmill_storage::TableSource;
use rowmill_storage::chunk::Chunk;

use super::layout::Layout;
use super::{GroupBy, GroupRequest};
use crate::phase::Phase;

/// The values have at most one row of so many; with more, grouping everything is not much slower.
const SHARE_MAX: usize = 16;

/// A grouping of the rows with few values of one key.
pub(super) struct Few {
    group_by: Arc<GroupBy>,
    grouping: Arc<Phase<Vec<RecordBatch>, Found>>,
}

/// The groups that it gave.
pub(super) struct Found {
    /// Whether nobody needs more of them.
    pub(super) is_enough: bool,
    /// For the worker that comes first.
    pub(super) batches: Mutex<Vec<RecordBatch>>,
}

impl Few {
    /// Takes the groups from `group_by`.
    pub(super) fn new(group_by: Arc<GroupBy>) -> Few {
        Few { group_by, grouping: Arc::default() }
    }

    /// The groups, found by all workers together, of which `enough` are enough. `None` if one of them failed, which says why itself.
    pub(super) fn groups(&self, enough: usize, cancel: &Cancel) -> Result<Option<Arc<Found>>> {
        let group = || self.group_by.worker().collect::<Result<Vec<_>>>();
        self.grouping.run(cancel, group, |batches| {
            let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
            let is_enough = batches.iter().map(RecordBatch::num_rows).sum::<usize>() >= enough;
            Ok(Found { is_enough, batches: Mutex::new(batches) })
        })
    }
}

/// The request for the groups of few values of a key, if `request` asks for few groups and a key has values to choose from.
pub(super) fn request_of_few(
    source: &dyn TableSource,
    request: &GroupRequest,
    layout: &Layout,
) -> Result<Option<GroupRequest>> {
    let Some(enough) = request.limit.filter(|limit| *limit > 0 && request.group.always.is_empty()) else {
        return Ok(None);
    };
    let table = source.table();
    let Some(block) = source.blocks().iter().find(|block| block.live_rows() > 0) else { return Ok(None) };
    let mut most: Option<(usize, Chunk)> = None;
    for key in &layout.columns {
        let Expr::Column(column) = key.expr else { continue };
        if !table.columns[column].kind.is_ordered() {
            continue;
        }
        let Some(chunk) = block.chunk(table, column)?.filter(Chunk::has_values) else { continue };
        if most.as_ref().is_none_or(|(_, most)| most.distinct() < chunk.distinct()) {
            most = Some((column, chunk));
        }
    }
    let Some((column, chunk)) = most else { return Ok(None) };
    let counts = chunk.counts()?.unwrap_or_default();
    let Some((first, rows)) = fewest(&counts, enough) else { return Ok(None) };
    if rows as usize * SHARE_MAX > block.rows() {
        return Ok(None);
    }
    let mut request = request.clone();
    for (code, op) in [(first, CompareOp::GreaterOrEqual), (first + enough - 1, CompareOp::LessOrEqual)] {
        let value = chunk.values_at(&[code as u32])?;
        request.group.predicates.push(Predicate::Compare { column, op, value });
    }
    Ok(Some(request))
}

/// Where `len` neighbours start that have the least sum, and that sum; `None` if there are fewer.
fn fewest(counts: &[u32], len: usize) -> Option<(usize, u64)> {
    let mut sum: u64 = counts.get(..len)?.iter().map(|count| u64::from(*count)).sum();
    let mut least = (0, sum);
    for (start, (left, entered)) in (1..).zip(counts.iter().zip(&counts[len..])) {
        sum = sum + u64::from(*entered) - u64::from(*left);
        if sum < least.1 {
            least = (start, sum);
        }
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_are_found_wherever_they_are() {
        assert_eq!(fewest(&[5, 1, 4, 1, 2, 9], 2), Some((3, 3)));
        assert_eq!(fewest(&[5, 1, 4], 3), Some((0, 10)));
        assert_eq!(fewest(&[1, 7, 7], 1), Some((0, 1)));
        assert_eq!(fewest(&[7, 7, 1], 1), Some((2, 1)));
        assert_eq!(fewest(&[5, 1], 3), None);
    }
}

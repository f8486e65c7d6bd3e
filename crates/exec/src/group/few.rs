//! LIMIT without ORDER BY above a grouping: finds the groups of a few values of one key.
//!
//! All rows of a group have the same keys. So the groups with certain values of a key come from the rows with those
//! values alone, and are complete without reading any other row. The query does not say which groups it wants, so we
//! choose values with few rows: neighbours in the list of one block, one for each group asked for. Without conditions
//! that is enough. If conditions leave fewer groups than asked for, all rows are grouped after all.

use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use rowmill_base::{Cancel, Result};
use rowmill_plan::{CompareOp, Expr, Predicate};
use rowmill_storage::TableSource;
use rowmill_storage::chunk::Chunk;

use super::layout::GroupLayout;
use super::{GroupBy, GroupRequest};
use crate::phase::Phase;

/// The chosen values may have at most one row in this many. With more rows, grouping everything is not much slower.
const SHARE_MAX: usize = 16;

/// A grouping of the rows that have one of a few values of a key.
pub(super) struct Few {
    group_by: Arc<GroupBy>,
    grouping: Arc<Phase<Vec<RecordBatch>, FewGroups>>,
}

/// The groups that were found.
pub(super) struct FewGroups {
    /// Whether these groups are enough.
    pub(super) is_enough: bool,
    /// Taken by the first worker that asks.
    pub(super) batches: Mutex<Vec<RecordBatch>>,
}

impl Few {
    /// Takes the groups from `group_by`.
    pub(super) fn new(group_by: Arc<GroupBy>) -> Few {
        Few { group_by, grouping: Arc::default() }
    }

    /// The groups, found by all workers together; `enough` of them are enough. `None` if another worker failed, which
    /// reports the error itself.
    pub(super) fn groups(&self, enough: usize, cancel: &Cancel) -> Result<Option<Arc<FewGroups>>> {
        let group = || self.group_by.worker().collect::<Result<Vec<_>>>();
        self.grouping.run(cancel, group, |batches| {
            let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
            let is_enough = batches.iter().map(RecordBatch::num_rows).sum::<usize>() >= enough;
            Ok(FewGroups { is_enough, batches: Mutex::new(batches) })
        })
    }
}

/// The request for the groups of a few values of a key. `None` unless `request` wants few groups and some key has
/// enough values to choose from.
pub(super) fn request_of_few(
    source: &dyn TableSource,
    request: &GroupRequest,
    layout: &GroupLayout,
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
    // Neighbours in the list make one range of values, so zone maps can skip blocks.
    let Some((first, rows)) = fewest(&counts, enough) else { return Ok(None) };
    // We judge the table by this block, because the counts of the others are not read.
    if rows as usize * SHARE_MAX > block.rows() {
        return Ok(None);
    }
    let mut request = request.clone();
    // The chosen neighbours become a range condition on the key.
    for (code, op) in [(first, CompareOp::GreaterOrEqual), (first + enough - 1, CompareOp::LessOrEqual)] {
        let value = chunk.values_at(&[code as u32])?;
        request.group.predicates.push(Predicate::Compare { column, op, value });
    }
    Ok(Some(request))
}

/// The start of the `len` neighbours with the least sum, and that sum. `None` if there are fewer numbers.
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
    fn fewest_finds_the_neighbours_with_the_least_sum() {
        assert_eq!(fewest(&[5, 1, 4, 1, 2, 9], 2), Some((3, 3)));
        assert_eq!(fewest(&[5, 1, 4], 3), Some((0, 10)));
        assert_eq!(fewest(&[1, 7, 7], 1), Some((0, 1)));
        assert_eq!(fewest(&[7, 7, 1], 1), Some((2, 1)));
        assert_eq!(fewest(&[5, 1], 3), None);
    }
}

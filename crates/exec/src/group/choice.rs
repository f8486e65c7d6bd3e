//! Chooses the way in which rows are grouped.

use std::sync::Arc;

use rowmill_base::Result;
use rowmill_plan::{Aggregate, Expr, Group};
use rowmill_storage::TableSource;

use super::distinct::has_many_groups;
use super::frequent::{Frequent, Limits};
use super::limited::LimitedGroups;
use super::steps::in_two_steps;
use super::{DistinctCounts, GroupBy, GroupRequest};
use crate::batch::BatchSource;
use crate::forced::{DistinctWay, forced};

/// Groups the rows of a table, which the grouping reads itself.
pub(crate) fn group_table(table: &Arc<dyn TableSource>, request: GroupRequest) -> Result<Arc<dyn BatchSource>> {
    if let Some(limited) = LimitedGroups::new(table, &request)? {
        return Ok(limited);
    }
    match Frequent::new(table, &request, group_all, Limits::default())? {
        Some(frequent) => Ok(frequent),
        None => group_all(table, request),
    }
}

/// Groups the rows of a table without looking at the most frequent values first.
pub(super) fn group_all(table: &Arc<dyn TableSource>, request: GroupRequest) -> Result<Arc<dyn BatchSource>> {
    // If there are many groups, each has few values, which should be kept with the group.
    let usual = if has_many_groups(&**table, &request)? { DistinctWay::Group } else { DistinctWay::Ranges };
    match forced().distinct.unwrap_or(usual) {
        DistinctWay::Ranges => match DistinctCounts::new(table, &request, group_in_steps)? {
            Some(counts) => Ok(counts),
            None => group_in_steps(table, request),
        },
        DistinctWay::Steps => group_in_steps(table, request),
        DistinctWay::Group => Ok(GroupBy::new(Arc::clone(table), request)?),
    }
}

/// Groups the rows of a table, in two steps if it has only aggregates of distinct values.
fn group_in_steps(table: &Arc<dyn TableSource>, request: GroupRequest) -> Result<Arc<dyn BatchSource>> {
    let of_rows = |request: GroupRequest| GroupBy::new(Arc::clone(table), request);
    match in_two_steps(&request, |column| table.table().columns[column].nullable) {
        Some((first, second)) => Ok(GroupBy::new(of_rows(first)? as Arc<dyn BatchSource>, second)?),
        None => Ok(of_rows(request)?),
    }
}

/// Groups batches of `input`. Its argument says whether only the NULLs of texts matter. `is_nullable` says which
/// columns may be NULL.
pub(crate) fn group_batches(
    input: impl FnOnce(bool) -> Result<Arc<dyn BatchSource>>,
    request: GroupRequest,
    is_nullable: impl Fn(usize) -> bool,
) -> Result<Arc<dyn BatchSource>> {
    match in_two_steps(&request, is_nullable) {
        Some((first, second)) => Ok(GroupBy::new(GroupBy::new(input(false)?, first)? as Arc<dyn BatchSource>, second)?),
        None => Ok(GroupBy::new(input(only_counts(&request.group))?, request)?),
    }
}

/// Whether of grouped values nothing matters except whether they are NULL.
pub(super) fn only_counts(group: &Group) -> bool {
    let counts = |aggregate: &Aggregate| {
        let is_of_column = matches!(aggregate.argument, None | Some((Expr::Column(_), _)));
        aggregate.function.is_count() && is_of_column && !aggregate.distinct && aggregate.filter.is_none()
    };
    group.keys.is_empty() && group.aggregates.iter().all(counts)
}

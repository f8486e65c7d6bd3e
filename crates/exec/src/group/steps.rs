//! Aggregates of the distinct values of one argument, as two groupings: first by the keys and the value, then by the
//! keys.
//!
//! Both this and a log must keep sets of values; here they are kept in the tables of groupings. A log (state/log.rs)
//! writes all values first and looks for equal ones later, which pays only if other aggregates read the same rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use rowmill_plan::{Aggregate, Expr, Group, GroupKey, is_key_kind};

use super::GroupRequest;
use super::choice::only_counts;

/// The two groupings that together answer `request`; the second reads the rows of the first. `None` unless all
/// aggregates are over the distinct values of one argument. `is_nullable` says which columns may be NULL.
pub(super) fn in_two_steps(
    request: &GroupRequest,
    is_nullable: impl Fn(usize) -> bool,
) -> Option<(GroupRequest, GroupRequest)> {
    let group = &request.group;
    let (value, kind) = only_distinct(&group.aggregates)?;
    let nullable = match value {
        Expr::Column(column) => is_nullable(column),
        Expr::Function(_) => true,
    };
    let value = GroupKey { expr: value, kind: kind.clone(), nullable };
    let place_of_value = Expr::Column(group.keys.len());
    let keys = group.keys.iter().enumerate().map(|(place, key)| GroupKey { expr: Expr::Column(place), ..key.clone() });
    // The first grouping has made the values distinct, so the second must not do it again.
    let aggregates = group.aggregates.iter().map(|aggregate| Aggregate {
        argument: Some((place_of_value, kind.clone())),
        distinct: false,
        ..aggregate.clone()
    });
    let (keys_of_second, always) = (keys.collect(), group.always.clone());
    let second = Group { predicates: Vec::new(), keys: keys_of_second, aggregates: aggregates.collect(), always };
    let keys: Vec<GroupKey> = group.keys.iter().cloned().chain([value]).collect();
    let fields = keys.iter().map(|key| Field::new("", key.kind.clone(), key.nullable));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let first = Group { predicates: group.predicates.clone(), keys, aggregates: Vec::new(), always: Vec::new() };
    let only_presence = only_counts(&second);
    let of_first = GroupRequest { group: first, schema, top: None, limit: None, only_presence, ..request.clone() };
    Some((of_first, GroupRequest { group: second, functions: Vec::new(), ..request.clone() }))
}

/// The argument, if all aggregates are over its distinct values.
fn only_distinct(aggregates: &[Aggregate]) -> Option<(Expr, DataType)> {
    let argument = aggregates.first()?.argument.clone()?;
    let is_of_it = |aggregate: &Aggregate| {
        aggregate.distinct
            && aggregate.filter.is_none()
            && aggregate.order.is_empty()
            && aggregate.argument.as_ref() == Some(&argument)
    };
    (aggregates.iter().all(is_of_it) && is_key_kind(&argument.1)).then_some(argument)
}

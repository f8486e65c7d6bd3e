//! GROUPING SETS, ROLLUP and CUBE.
//!
//! The rows are read once. If all aggregates can be combined from partial results, we first group the rows by all keys.
//! The groups, which are fewer than the rows, are then repeated once per set ([`plan::Expand`]) and grouped again, by
//! the keys of the set and its number. For other aggregates we must repeat the rows themselves once per set. If the
//! rows are joined groups (`eager_group.rs`), the groups by all keys are combined from these.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array, new_null_array};
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_exec::aggregate::named;
use rowmill_plan::logical::{AggregateCall, LogicalGroup};
use rowmill_plan::{self as plan, AggregateRole, ColumnId, KeySet, Node, ScalarExpr, aggregate};

use super::Lowerer;
use super::eager_group::EagerRows;
use super::group::call_exprs;
use super::relation::LoweredRelation;

impl Lowerer<'_> {
    /// The groups of all sets of `group` over `input`.
    pub(super) fn grouping_sets(
        &mut self,
        group: &LogicalGroup,
        sets: &[Vec<usize>],
        input: LoweredRelation,
    ) -> Result<LoweredRelation> {
        let sets = key_sets(group, sets);
        let key_exprs: Vec<ScalarExpr> = group.keys.iter().map(|(_, key)| key.clone()).collect();
        let calls: Vec<&AggregateCall> = group.aggregates.iter().map(|(_, call)| call).collect();
        let mut aggregates = Vec::with_capacity(calls.len());
        let rows = if calls.iter().all(|call| is_of_parts(call)) {
            let exprs: Vec<ScalarExpr> =
                key_exprs.iter().cloned().chain(calls.iter().flat_map(|call| call_exprs(call)).cloned()).collect();
            let constants: Vec<ScalarExpr> =
                exprs.into_iter().filter(|expr| !input.reads(&input.resolve(expr))).collect();
            let (input, made) = self.with_columns(input, &constants)?;
            let as_column = |expr: &ScalarExpr| match constants.iter().position(|constant| constant == expr) {
                Some(place) => ScalarExpr::id(made[place], expr.kind.clone()),
                None => expr.clone(),
            };
            let mut keys = Vec::with_capacity(key_exprs.len());
            for key in &key_exprs {
                keys.push(self.key(&as_column(key), &input)?);
            }
            let mut parts = Vec::new();
            for call in &calls {
                let mut call = AggregateCall::clone(call);
                call.arguments.iter_mut().chain(&mut call.filter).for_each(|expr| *expr = as_column(expr));
                let whole = self.aggregate(&call, &input)?;
                aggregates.push(of_parts(whole, keys.len(), &mut parts));
            }
            let groups = self.groups_of_parts(keys, parts, &input);
            self.expanded(groups, &sets)
        } else {
            let (rows, read) = self.with_keys_first(&key_exprs, &calls, input)?;
            let rows = self.expanded(rows, &sets);
            for call in &calls {
                let mut call = AggregateCall::clone(call);
                let order = call.order.iter_mut().map(|key| &mut key.expr);
                for expr in call.arguments.iter_mut().chain(order).chain(&mut call.filter) {
                    let (_, id) = read.iter().find(|(known, _)| known == expr).expect("a read value is a column");
                    *expr = ScalarExpr::id(*id, expr.kind.clone());
                }
                aggregates.push(self.aggregate(&call, &rows)?);
            }
            rows
        };
        Ok(self.groups_of_sets(group, &sets, aggregates, &rows))
    }

    /// The groups of all sets of `group` over joined groups.
    pub(super) fn sets_of_groups(
        &mut self,
        group: &LogicalGroup,
        sets: &[Vec<usize>],
        eager: EagerRows,
    ) -> Result<LoweredRelation> {
        let EagerRows { joined, aggregates: totals } = eager;
        let mut keys = Vec::with_capacity(group.keys.len());
        for (_, key) in &group.keys {
            keys.push(self.key(key, &joined)?);
        }
        let (mut parts, mut aggregates) = (Vec::new(), Vec::new());
        for total in totals {
            let first = keys.len() + parts.len();
            parts.extend(total.parts_over(&joined));
            aggregates.push(total.over_columns(first));
        }
        let groups = self.groups_of_parts(keys, parts, &joined);
        let sets = key_sets(group, sets);
        let rows = self.expanded(groups, &sets);
        Ok(self.groups_of_sets(group, &sets, aggregates, &rows))
    }

    /// The groups of `input` by all keys, with the parts of the aggregates.
    fn groups_of_parts(
        &mut self,
        keys: Vec<plan::GroupKey>,
        parts: Vec<plan::Aggregate>,
        input: &LoweredRelation,
    ) -> LoweredRelation {
        let kinds = keys.iter().map(|key| &key.kind).chain(parts.iter().map(|part| &part.kind));
        let ids = kinds.map(|kind| self.columns.add("", kind.clone())).collect::<Vec<_>>();
        self.group_node(keys, parts, Vec::new(), ids, input)
    }

    /// The groups of all sets. The first columns of `rows` are the keys, the last one is the number of the set.
    fn groups_of_sets(
        &mut self,
        group: &LogicalGroup,
        sets: &[KeySet],
        aggregates: Vec<plan::Aggregate>,
        rows: &LoweredRelation,
    ) -> LoweredRelation {
        let set_id = group.set.unwrap_or_else(|| self.columns.add("set", DataType::UInt64));
        let key = |(position, (_, key)): (usize, &(ColumnId, ScalarExpr))| plan::GroupKey {
            expr: plan::Expr::Column(position),
            kind: key.kind.clone(),
            nullable: true,
        };
        let mut keys: Vec<plan::GroupKey> = group.keys.iter().enumerate().map(key).collect();
        keys.push(plan::GroupKey {
            expr: plan::Expr::Column(rows.ids.len() - 1),
            kind: DataType::UInt64,
            nullable: false,
        });
        // A set without keys must have its group even if there are no rows.
        let key_exprs: Vec<ScalarExpr> = group.keys.iter().map(|(_, key)| key.clone()).collect();
        let always = always(sets, &key_exprs);
        let ids = group
            .keys
            .iter()
            .map(|(id, _)| *id)
            .chain([set_id])
            .chain(group.aggregates.iter().map(|(id, _)| *id))
            .collect();
        self.group_node(keys, aggregates, always, ids, rows)
    }

    /// Repeats `rows`, whose first columns must be the keys, once per set.
    fn expanded(&mut self, rows: LoweredRelation, sets: &[KeySet]) -> LoweredRelation {
        let number = self.columns.add("set", DataType::UInt64);
        let mut ids = rows.ids.clone();
        ids.push(number);
        let schema = self.schema(&ids);
        let (input, sets) = (Arc::clone(rows.node()), sets.to_vec());
        LoweredRelation::new(Node::Expand(plan::Expand { input, sets, schema }), ids)
    }

    /// Rows whose first columns are the keys, followed by the columns that `calls` read, and the ids of those columns.
    fn with_keys_first(
        &mut self,
        keys: &[ScalarExpr],
        calls: &[&AggregateCall],
        input: LoweredRelation,
    ) -> Result<(LoweredRelation, Vec<(ScalarExpr, ColumnId)>)> {
        let mut read: Vec<(ScalarExpr, ColumnId)> = Vec::new();
        for expr in calls.iter().flat_map(|call| call_exprs(call)) {
            if !read.iter().any(|(known, _)| known == expr) {
                let id = self.columns.add("", expr.kind.clone());
                read.push((expr.clone(), id));
            }
        }
        let mut exprs = Vec::with_capacity(keys.len() + read.len());
        for expr in keys.iter().chain(read.iter().map(|(expr, _)| expr)) {
            exprs.push(self.expr(expr, &input)?);
        }
        let of_keys: Vec<ColumnId> = keys.iter().map(|key| self.columns.add("", key.kind.clone())).collect();
        let ids: Vec<ColumnId> = of_keys.into_iter().chain(read.iter().map(|(_, id)| *id)).collect();
        let schema = self.schema(&ids);
        let node = Node::Project { input: Arc::clone(input.node()), exprs, schema };
        Ok((LoweredRelation::new(node, ids), read))
    }
}

/// The sets of `group`, numbered in their order.
fn key_sets(group: &LogicalGroup, sets: &[Vec<usize>]) -> Vec<KeySet> {
    let set = |(number, set): (usize, &Vec<usize>)| KeySet {
        columns: (0..group.keys.len()).map(|key| set.contains(&key)).collect(),
        number: number as u64,
    };
    sets.iter().enumerate().map(set).collect()
}

/// Whether the aggregate of a group can be combined from the aggregates of its parts.
pub(super) fn is_of_parts(call: &AggregateCall) -> bool {
    !call.distinct && call.function.joins_parts
}

/// Adds the partial aggregates for `whole` to `parts` and returns the aggregate that combines them. Their results are
/// the columns after `keys` keys.
pub(super) fn of_parts(whole: plan::Aggregate, keys: usize, parts: &mut Vec<plan::Aggregate>) -> plan::Aggregate {
    let mut add = |part: plan::Aggregate| {
        parts.push(part);
        plan::Expr::Column(keys + parts.len() - 1)
    };
    let (argument, of_parts) = match (whole.function.role, &whole.argument) {
        (AggregateRole::Count, _) => (None, Some(add(whole.clone()))),
        (AggregateRole::Average, Some((_, of))) => {
            let kind = total_kind(of);
            let total = add(plan::Aggregate { function: named("sum"), kind: kind.clone(), ..whole.clone() });
            let count = add(plan::Aggregate { function: named("count"), kind: DataType::Int64, ..whole.clone() });
            (Some((total, kind)), Some(count))
        }
        _ => (Some((add(whole.clone()), whole.kind.clone())), None),
    };
    plan::Aggregate { argument, of_parts, filter: None, ..whole }
}

/// The type of the exact total of values of a numeric type.
pub(super) fn total_kind(kind: &DataType) -> DataType {
    aggregate::total_kind(kind).expect("the type must be numeric")
}

/// The groups that exist even without rows: those of sets without keys. One array for each key, and one for the set
/// number.
fn always(sets: &[KeySet], keys: &[ScalarExpr]) -> Vec<ArrayRef> {
    let empty = sets.iter().filter(|set| !set.columns.contains(&true));
    let numbers = UInt64Array::from_iter_values(empty.map(|set| set.number));
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut always: Vec<ArrayRef> = keys.iter().map(|key| new_null_array(&key.kind, numbers.len())).collect();
    always.push(Arc::new(numbers));
    always
}

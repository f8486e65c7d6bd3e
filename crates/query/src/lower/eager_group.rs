//! Eager grouping: a grouping above joins that begins below them.
//!
//! If all aggregates read one of the joined relations, we can group that relation first, by those of its columns that
//! joins, conditions and the grouping keys read. All rows of such a group match the same rows of the other relations.
//! The aggregates of the query can therefore be combined from those of the joined groups (Yan and Larson, "Eager
//! Aggregation and Lazy Aggregation", 1995). We do this if the groups are far fewer than the rows and the joins and
//! groupings together should cost less.

use rowmill_base::Result;
use rowmill_expr::fold::can_fail;
use rowmill_plan::join_order::{join_order, tree_cost};
use rowmill_plan::logical::{AggregateCall, LogicalGroup};
use rowmill_plan::{self as plan, ColumnId, ScalarExpr, Volatility};

use super::Lowerer;
use super::group::call_exprs;
use super::grouping_sets::{is_of_parts, of_parts};
use super::join_graph::JoinGraph;
use super::relation::{LoweredRelation, RelationSource};
use crate::column_set::{ColumnSet, columns_of};

/// The cost of grouping a row. The unit is a row that is looked up in a hash table.
const GROUP_COST: f64 = 2.0;
/// Groups per row, up to which a relation may be grouped first.
const GROUPS_MAX: f64 = 0.5;
/// The cost of the new plan, as a share of the old one, up to which we choose it. It is less than 1 because estimates
/// of groups are uncertain.
const COST_MAX: f64 = 0.8;

/// A relation that may be grouped first.
struct EagerGroup {
    /// Its position in the graph.
    relation: usize,
    /// Its columns that are read above the grouping.
    keys: Vec<ColumnId>,
}

/// An aggregate that combines the aggregates of groups.
pub(super) struct TotalAggregate {
    /// The aggregate. Its columns are positions in `parts`.
    aggregate: plan::Aggregate,
    /// The columns that hold the partial aggregates.
    parts: Vec<ColumnId>,
}

impl TotalAggregate {
    /// The aggregate over the columns of `rows`.
    fn over(self, rows: &LoweredRelation) -> plan::Aggregate {
        let mut aggregate = self.aggregate;
        each_column(&mut aggregate, |part| {
            rows.position(self.parts[part]).expect("the rows have all parts of an aggregate")
        });
        aggregate
    }
}

/// Renumbers the columns that a combining aggregate reads.
fn each_column(aggregate: &mut plan::Aggregate, to: impl Fn(usize) -> usize) {
    let argument = aggregate.argument.as_mut().map(|(expr, _)| expr);
    for expr in [argument, aggregate.of_parts.as_mut()].into_iter().flatten() {
        if let plan::Expr::Column(column) = expr {
            *column = to(*column);
        }
    }
}

impl Lowerer<'_> {
    /// Groups one of the joined relations of `input` before the joins, if that is cheaper. Otherwise returns `input`
    /// unchanged.
    pub(super) fn eager_group(
        &mut self,
        group: &LogicalGroup,
        input: LoweredRelation,
    ) -> Result<std::result::Result<LoweredRelation, LoweredRelation>> {
        let LoweredRelation { source, ids, derived } = input;
        let RelationSource::Joins(mut graph) = source else { return Ok(Err(LoweredRelation { source, ids, derived })) };
        self.apply_single(&mut graph)?;
        let input = LoweredRelation { source: RelationSource::Joins(graph), ids, derived };
        let Some((graph, eager)) = self.cheapest_eager(group, &input) else { return Ok(Err(input)) };
        let own = graph.relations()[eager.relation].clone();
        let (grouped, aggregates) = self.first_group(group, &input, &own, &eager.keys)?;
        let mut graph = graph.clone();
        graph.replace(eager.relation, grouped);
        let mut needed: ColumnSet = aggregates.iter().flat_map(|total| total.parts.iter().copied()).collect();
        group.keys.iter().for_each(|(_, key)| needed.add_columns_of(key));
        let ids = graph.ids();
        let joined = LoweredRelation { source: RelationSource::Joins(Box::new(graph)), ids, derived: input.derived };
        let joined = self.settled(joined, &needed)?;
        self.last_group(group, &joined, aggregates).map(Ok)
    }

    /// Chooses the relation whose early grouping makes the query cheapest, if any does.
    fn cheapest_eager<'g>(
        &mut self,
        group: &LogicalGroup,
        input: &'g LoweredRelation,
    ) -> Option<(&'g JoinGraph, EagerGroup)> {
        let RelationSource::Joins(graph) = &input.source else { return None };
        let calls = || group.aggregates.iter().map(|(_, call)| call);
        // Only aggregates that combine from parts can be split in two.
        let is_plain = calls().all(|call| is_of_parts(call) && call.order.is_empty());
        let exprs: Vec<ScalarExpr> = calls().flat_map(call_exprs).map(|expr| input.resolve(expr)).collect();
        let keys: Vec<ScalarExpr> = group.keys.iter().map(|(_, key)| input.resolve(key)).collect();
        let may_move = |expr: &ScalarExpr| expr.volatility() < Volatility::Volatile && !can_fail(expr);
        let has_columns = |expr: &ScalarExpr| expr.any(&|part| part.as_column().is_some());
        if !is_plain || graph.relations().len() < 2 || !exprs.iter().all(may_move) || !keys.iter().all(has_columns) {
            return None;
        }
        // The columns that are read by anything other than the aggregates.
        let mut read = graph.read();
        read.add_all(&columns_of(&keys));
        let mut without = None;
        let mut cheapest: Option<(f64, EagerGroup)> = None;
        for relation in graph.inner_relations() {
            let rows = &graph.relations()[relation];
            if !exprs.iter().all(|expr| rows.has_all(expr)) {
                continue;
            }
            let keys: Vec<ColumnId> = rows.ids.iter().copied().filter(|id| read.contains(*id)).collect();
            let columns: Vec<ScalarExpr> = keys.iter().map(|id| self.columns.expr(*id)).collect();
            let before = self.rows_of(rows);
            let groups = self.estimator.group_count(rows.node(), &columns, &|id| rows.position(ColumnId(id)));
            if keys.is_empty() || groups > before * GROUPS_MAX {
                continue;
            }
            let mut shape = self.shape_of(graph);
            // The cost of the plan without eager grouping is the same for all candidates.
            let without = *without.get_or_insert_with(|| {
                join_order(&shape).map_or(f64::INFINITY, |tree| tree_cost(&shape, &tree) + GROUP_COST * tree.rows())
            });
            shape.relations[relation].rows = groups;
            shape.relations[relation].rows_unfiltered = shape.relations[relation].rows_unfiltered.min(groups);
            let Some(tree) = join_order(&shape) else { continue };
            let cost = tree_cost(&shape, &tree) + GROUP_COST * (tree.rows() + before);
            if cost < without * COST_MAX && cheapest.as_ref().is_none_or(|(least, _)| cost < *least) {
                cheapest = Some((cost, EagerGroup { relation, keys }));
            }
        }
        Some((graph, cheapest?.1))
    }

    /// Groups the relation `own` by the columns `key_ids`. Returns the groups, and the aggregates of the query
    /// over them.
    pub(super) fn first_group(
        &mut self,
        group: &LogicalGroup,
        input: &LoweredRelation,
        own: &LoweredRelation,
        key_ids: &[ColumnId],
    ) -> Result<(LoweredRelation, Vec<TotalAggregate>)> {
        let mut keys = Vec::with_capacity(key_ids.len());
        let columns: Vec<ScalarExpr> = key_ids.iter().map(|id| self.columns.expr(*id)).collect();
        for column in &columns {
            keys.push(self.key(column, own)?);
        }
        let (mut parts, mut aggregates, mut ids) = (Vec::new(), Vec::new(), key_ids.to_vec());
        for (_, call) in &group.aggregates {
            let mut call = AggregateCall::clone(call);
            call.arguments.iter_mut().chain(&mut call.filter).for_each(|expr| *expr = input.resolve(expr));
            let first = parts.len();
            let mut aggregate = of_parts(self.aggregate(&call, own)?, 0, &mut parts);
            each_column(&mut aggregate, |part| part - first);
            let made: Vec<ColumnId> =
                parts[first..].iter().map(|part| self.columns.add("", part.kind.clone())).collect();
            ids.extend(&made);
            aggregates.push(TotalAggregate { aggregate, parts: made });
        }
        let resolved: Vec<ScalarExpr> = columns.iter().map(|column| own.resolve(column)).collect();
        let groups = self.estimator.group_count(own.node(), &resolved, &|id| own.position(ColumnId(id)));
        let mut grouped = self.group_node(keys, parts, Vec::new(), ids, own);
        grouped.set_groups(groups);
        Ok((grouped, aggregates))
    }

    /// Computes the groups of the query from the joined groups.
    pub(super) fn last_group(
        &mut self,
        group: &LogicalGroup,
        joined: &LoweredRelation,
        aggregates: Vec<TotalAggregate>,
    ) -> Result<LoweredRelation> {
        let mut keys = Vec::with_capacity(group.keys.len());
        for (_, key) in &group.keys {
            keys.push(self.key(key, joined)?);
        }
        let wholes = aggregates.into_iter().map(|total| total.over(joined)).collect();
        let ids = group.keys.iter().map(|(id, _)| *id).chain(group.aggregates.iter().map(|(id, _)| *id)).collect();
        let resolved: Vec<ScalarExpr> = group.keys.iter().map(|(_, key)| joined.resolve(key)).collect();
        let groups = self.estimator.group_count(joined.node(), &resolved, &|id| joined.position(ColumnId(id)));
        let mut grouped = self.group_node(keys, wholes, Vec::new(), ids, joined);
        grouped.set_groups(groups);
        Ok(grouped)
    }
}

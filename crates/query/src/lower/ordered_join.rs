//! Joins along an order.

use std::sync::Arc;

use rowmill_base::{Error, Result};
use rowmill_expr::functions::fixed_distance;
use rowmill_plan::logical::{LogicalOrderBound, LogicalOrderedChoice, LogicalOrderedJoin};
use rowmill_plan::{BoundOrigin, ColumnId, Node, OrderBound, OrderedChoice, OrderedJoin, OrderedResult, ScalarExpr};

use super::Lowerer;
use super::relation::LoweredRelation;
use crate::column_set::{ColumnSet, columns_of};
use crate::optimizer::walk::output;

impl Lowerer<'_> {
    pub(super) fn ordered_join(&mut self, join: &LogicalOrderedJoin, needed: &ColumnSet) -> Result<LoweredRelation> {
        let (of_left, of_right) = (output(&join.left), output(&join.right));
        let mut left_exprs: Vec<ScalarExpr> = join.on.iter().map(|(left, _)| left.clone()).collect();
        for bound in join.lower.iter().chain(&join.upper) {
            left_exprs.push(bound.expr.clone());
            // A join by slices of time needs the timestamp that the bound is computed from.
            left_exprs.extend(fixed_distance(&bound.expr).map(|(column, _)| self.columns.expr(ColumnId(column))));
        }
        if let LogicalOrderedChoice::Nearest(to) = &join.choice {
            left_exprs.push(to.clone());
        }
        let mut right_exprs: Vec<ScalarExpr> = join.on.iter().map(|(_, right)| right.clone()).collect();
        right_exprs.push(join.position.clone());
        right_exprs.extend(join.tie.map(|tie| self.columns.expr(tie)));
        let calls: Vec<_> = join.aggregates.iter().flatten().filter(|(id, _)| needed.contains(*id)).collect();
        for (_, call) in &calls {
            right_exprs.extend(super::group::call_exprs(call).cloned());
        }
        let has_rows = join.aggregates.is_none();
        // A column that is given must be computed below the join, because a right one is NULL in rows without a match.
        let given = |side: &ColumnSet| needed.iter().filter(|id| side.contains(*id)).collect::<Vec<ColumnId>>();
        let left_given = given(&of_left);
        let right_given = if has_rows { given(&of_right) } else { Vec::new() };
        left_exprs.extend(left_given.iter().map(|id| self.columns.expr(*id)));
        right_exprs.extend(right_given.iter().map(|id| self.columns.expr(*id)));
        let (left, left_ids) = self.side(&join.left, &left_exprs)?;
        let (right, right_ids) = self.side(&join.right, &right_exprs)?;
        let of = |side: &LoweredRelation, exprs: &[ScalarExpr], ids: &[ColumnId], expr: &ScalarExpr| {
            let known = exprs.iter().position(|known| known == expr);
            let place = known.and_then(|known| side.position(ids[known]));
            place.ok_or_else(|| Error::internal("an ordered join reads a value that was not collected"))
        };
        let left_place = |expr: &ScalarExpr| of(&left, &left_exprs, &left_ids, expr);
        let right_place = |expr: &ScalarExpr| of(&right, &right_exprs, &right_ids, expr);
        let bound = |bound: &Option<LogicalOrderBound>| match bound {
            None => Ok(None),
            Some(LogicalOrderBound { expr, inclusive }) => {
                let origin = |(column, ticks)| {
                    let column = left_place(&self.columns.expr(ColumnId(column)))?;
                    Ok(BoundOrigin { column, ticks })
                };
                let origin = fixed_distance(expr).map(origin).transpose()?;
                Ok(Some(OrderBound { column: left_place(expr)?, inclusive: *inclusive, origin }))
            }
        };
        let on = join.on.iter().map(|(one, other)| Ok((left_place(one)?, right_place(other)?)));
        let choice = match &join.choice {
            LogicalOrderedChoice::Last => OrderedChoice::Last,
            LogicalOrderedChoice::First => OrderedChoice::First,
            LogicalOrderedChoice::Nearest(to) => OrderedChoice::Nearest { to: left_place(to)? },
            LogicalOrderedChoice::All => OrderedChoice::All,
            LogicalOrderedChoice::AllWithPrevailing => OrderedChoice::AllWithPrevailing,
        };
        let columns_of_left = left.ids.len();
        let mut output_columns = Vec::with_capacity(left_given.len() + right_given.len());
        for id in &left_given {
            output_columns.push(left_place(&self.columns.expr(*id))?);
        }
        for id in &right_given {
            output_columns.push(columns_of_left + right_place(&self.columns.expr(*id))?);
        }
        let mut ids: Vec<ColumnId> = left_given.into_iter().chain(right_given).collect();
        let (on, lower, upper) = (on.collect::<Result<Vec<_>>>()?, bound(&join.lower)?, bound(&join.upper)?);
        let position = right_place(&join.position)?;
        let tie = join.tie.map(|tie| right_place(&self.columns.expr(tie))).transpose()?;
        let result = if has_rows {
            OrderedResult::Rows { inner: join.inner }
        } else {
            let mut aggregates = Vec::with_capacity(calls.len());
            for (id, call) in &calls {
                let mut call = call.clone();
                let order = call.order.iter_mut().map(|key| &mut key.expr);
                for expr in call.arguments.iter_mut().chain(order).chain(&mut call.filter) {
                    let known = right_exprs.iter().position(|known| known == expr);
                    let known =
                        known.ok_or_else(|| Error::internal("an aggregate reads a value that was not collected"))?;
                    *expr = ScalarExpr::id(right_ids[known], expr.kind.clone());
                }
                aggregates.push(self.aggregate(&call, &right)?);
                ids.push(*id);
            }
            OrderedResult::Aggregates(aggregates)
        };
        let node = OrderedJoin {
            left: Arc::clone(left.node()),
            right: Arc::clone(right.node()),
            on,
            nulls_equal: false,
            position,
            tie,
            lower,
            upper,
            choice,
            result,
            output: output_columns,
            schema: self.schema(&ids),
        };
        Ok(LoweredRelation::new(Node::OrderedJoin(node), ids))
    }

    /// One side of a join along an order, with a column for each of `exprs`.
    fn side(&mut self, plan: &rowmill_plan::Logical, exprs: &[ScalarExpr]) -> Result<(LoweredRelation, Vec<ColumnId>)> {
        let read = columns_of(exprs);
        let relation = self.lower(plan, &read)?;
        let relation = self.settled(relation, &read)?;
        let (mut relation, ids) = self.with_columns(relation, exprs)?;
        relation.derived.clear();
        Ok((relation, ids))
    }
}

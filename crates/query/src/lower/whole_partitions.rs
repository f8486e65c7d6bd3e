//! Windows over whole partitions: aggregates that have one value for all rows of a partition.
//!
//! ```text
//! v / sum(v) OVER (PARTITION BY k)     ->     v / g.s of t JOIN (SELECT k, sum(v) AS s FROM t GROUP BY k) AS g
//! ```
//!
//! A window keeps all its rows; a grouping keeps one state for each partition, and reads values once where their blocks
//! list them. The rows are read twice, so this is only of use for rows of a stored table, and for partitions of several
//! rows.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::logical::{
    AggregateCall, FrameBound, FrameExclude, LogicalGroup, LogicalJoinKind, LogicalWindow, LogicalWindowCall,
    LogicalWindowFunction,
};
use rowmill_plan::{AggregateOrdering, ColumnId, CompareOp, ExprOp, Logical, ScalarExpr, Volatility, is_key_kind};

use super::Lowerer;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;
use crate::optimizer::walk::{add_named, exprs, renumber, substitute};

/// With fewer rows than this a window takes about as long as planning another way.
const ROWS_MIN: f64 = 50_000.0;

/// The least average number of rows of a partition. For 10 million rows in partitions of 100,000, of 100, of 20 and of
/// 7 rows, a window takes 639, 344, 301 and 229 ms, and the grouping and the join take 70, 134, 291 and 203 ms. A
/// window can spill its rows part by part, so it should keep those of small partitions.
const PARTITION_ROWS_MIN: f64 = 16.0;

impl Lowerer<'_> {
    /// Lowers a window as a join with groups, if its calls `needed` are aggregates over whole partitions of a table.
    pub(super) fn whole_partitions(
        &mut self,
        window: &LogicalWindow,
        needed: &ColumnSet,
    ) -> Result<Option<LoweredRelation>> {
        let calls = window.calls.iter().filter(|(id, _)| needed.contains(*id));
        let Some(aggregates) = calls.map(|(id, call)| Some((*id, whole(call)?.clone()))).collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        if aggregates.is_empty() || !window.partition.iter().all(|key| is_key_kind(&key.kind)) {
            return Ok(None);
        }
        let mut read = ColumnSet::default();
        window.partition.iter().for_each(|key| add_named(key, &mut read));
        let of_calls = aggregates.iter().flat_map(|(_, call)| call.arguments.iter().chain(&call.filter));
        of_calls.for_each(|expr| add_named(expr, &mut read));
        let Some(mut rows) = rows_of_table(&window.input, &read) else { return Ok(None) };
        let Some(may_be_null) = self.large_partitions(&rows, &window.partition, &read)? else { return Ok(None) };
        let numbers = renumber(&mut rows, &mut self.columns);
        let by: HashMap<ColumnId, ScalarExpr> =
            numbers.iter().map(|(old, new)| (*old, self.columns.expr(*new))).collect();
        let of_copy = |expr: &ScalarExpr| {
            let mut expr = expr.clone();
            substitute(&mut expr, &by);
            expr
        };
        let mut keys = Vec::with_capacity(window.partition.len());
        let mut conditions = Vec::with_capacity(window.partition.len());
        for (key, may_be_null) in window.partition.iter().zip(may_be_null) {
            let id = self.columns.add("", key.kind.clone());
            let operands = Box::new([key.clone(), self.columns.expr(id)]);
            conditions.push(match may_be_null {
                true => ScalarExpr::new(DataType::Boolean, ExprOp::IsDistinct { operands, negated: true }),
                false => {
                    let [left, right] = *operands;
                    ScalarExpr::compare(left, CompareOp::Equal, right)
                }
            });
            keys.push((id, of_copy(key)));
        }
        let aggregates = aggregates.into_iter().map(|(id, mut call)| {
            call.arguments.iter_mut().chain(&mut call.filter).for_each(|expr| substitute(expr, &by));
            (id, call)
        });
        let aggregates = aggregates.collect();
        let groups = Logical::Group(LogicalGroup { input: Box::new(rows), keys, sets: None, set: None, aggregates });
        let join = Logical::join(LogicalJoinKind::Inner, (*window.input).clone(), groups, conditions);
        Ok(Some(self.lower(&join, needed)?))
    }

    /// For each expression of a partition, whether it may be NULL. Returns `None` if there are few rows, or if
    /// partitions have few of them.
    fn large_partitions(
        &mut self,
        rows: &Logical,
        partition: &[ScalarExpr],
        read: &ColumnSet,
    ) -> Result<Option<Vec<bool>>> {
        let mark = self.mark();
        let lowered = self.lower(rows, read)?;
        let lowered = self.settled(lowered, read)?;
        let count = self.rows_of(&lowered);
        let keys: Vec<ScalarExpr> = partition.iter().map(|key| lowered.resolve(key)).collect();
        let groups = match keys.is_empty() {
            true => 1.0,
            false => self.estimator.group_count(lowered.node(), &keys, &|id| lowered.position(ColumnId(id))),
        };
        let may_be_null = |key: &ScalarExpr| key.as_column().is_none_or(|id| self.is_nullable(ColumnId(id), &lowered));
        let may_be_null = partition.iter().map(may_be_null).collect();
        self.undo(mark);
        Ok((count >= ROWS_MIN && groups * PARTITION_ROWS_MIN <= count).then_some(may_be_null))
    }
}

/// The aggregate of a call that has one value for all rows of a partition, in whatever order they come.
fn whole(call: &LogicalWindowCall) -> Option<&AggregateCall> {
    let LogicalWindowFunction::Aggregate(aggregate) = &call.function else { return None };
    let frame = &call.frame;
    let is_whole = frame.start == FrameBound::Unbounded
        && frame.end == FrameBound::Unbounded
        && frame.exclude == FrameExclude::NoOthers;
    let is_unordered = aggregate.function.ordering == AggregateOrdering::Irrelevant && aggregate.order.is_empty();
    (is_whole && is_unordered).then_some(aggregate)
}

/// The rows of a window's input as a plan that may be evaluated a second time: a scan of a table, with its filters and
/// the computed columns among `read`. Other windows only add columns, so they are left out if no column of theirs is
/// read.
fn rows_of_table(plan: &Logical, read: &ColumnSet) -> Option<Logical> {
    let is_repeatable = exprs(plan).into_iter().all(|expr| expr.volatility() < Volatility::Volatile);
    if !is_repeatable && !matches!(plan, Logical::Window(_)) {
        return None;
    }
    match plan {
        Logical::Scan(_) => Some(plan.clone()),
        Logical::Filter { input, conditions } => {
            let mut below = read.clone();
            conditions.iter().for_each(|condition| add_named(condition, &mut below));
            Some(Logical::filter(rows_of_table(input, &below)?, conditions.clone()))
        }
        Logical::Map { input, exprs } => {
            let made: Vec<_> = exprs.iter().filter(|(id, _)| read.contains(*id)).cloned().collect();
            let mut below = read.clone();
            made.iter().for_each(|(_, expr)| add_named(expr, &mut below));
            Some(Logical::map(rows_of_table(input, &below)?, made))
        }
        Logical::Window(window) => {
            let mut made = window.calls.iter().map(|(id, _)| *id);
            let is_left_out = window.top.is_none() && made.all(|id| !read.contains(id));
            is_left_out.then(|| rows_of_table(&window.input, read)).flatten()
        }
        _ => None,
    }
}

//! Window functions.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::logical::{
    FrameBound, FrameRow, FrameUnit, LogicalSortKey, LogicalWindow, LogicalWindowCall, LogicalWindowFunction,
    RankFunction, WindowFrame,
};
use rowmill_plan::window::{FrameOffset, Window, WindowCall, WindowFunction};
use rowmill_plan::{ColumnId, Node, ScalarExpr, SortKey};

use super::Lowerer;
use super::group::call_exprs;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;

impl Lowerer<'_> {
    pub(super) fn window(&mut self, window: &LogicalWindow, needed: &ColumnSet) -> Result<LoweredRelation> {
        if let Some(joined) = self.whole_partitions(window, needed)? {
            return Ok(joined);
        }
        let mut calls: Vec<&(ColumnId, LogicalWindowCall)> =
            window.calls.iter().filter(|(id, _)| needed.contains(*id)).collect();
        // The limit of a window is one of its first call.
        let top = window.top.filter(|top| needed.contains(top.call));
        calls.sort_by_key(|(id, _)| top.is_none_or(|top| top.call != *id));
        let limit = top.map(|top| usize::try_from(top.most).unwrap_or(usize::MAX));
        let mut exprs: Vec<ScalarExpr> = window.partition.clone();
        exprs.extend(window.order.iter().map(|key| key.expr.clone()));
        calls.iter().for_each(|(_, call)| call_columns(call, &mut exprs));
        let mut read = needed.clone();
        exprs.iter().for_each(|expr| read.add_columns_of(expr));
        let input = self.lower(&window.input, &read)?;
        let input = self.settled(input, &read)?;
        // Every value that the window reads becomes a column of its input. Some of these were derived columns that no
        // operator above reads, so we drop those afterwards.
        let (mut input, made) = self.with_columns(input, &exprs)?;
        input.keep_derived(needed);
        let position = |expr: &ScalarExpr| {
            let place = exprs.iter().position(|known| known == expr).expect("every value was collected");
            input.position(made[place]).expect("the column exists")
        };
        let partition = distinct_positions(window.partition.iter().map(position));
        // A partition column does not order rows within the partition, but a RANGE with an offset counts its distances
        // in it.
        let has_distances = calls.iter().any(|(_, call)| {
            let is_distance =
                |bound: &FrameBound<_>| matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_));
            call.frame.unit == FrameUnit::Range && (is_distance(&call.frame.start) || is_distance(&call.frame.end))
        });
        let constant: &[usize] = if has_distances { &[] } else { &partition };
        // Columns that are constant within a partition should not be sorted by.
        let order = order_of(&window.order, &position, constant);
        if let ([(number, call)], Some(1)) = (calls.as_slice(), limit)
            && call.function == LogicalWindowFunction::Rank(RankFunction::RowNumber)
            && let Some(latest) = self.latest_rows(input.node(), &partition, &order)
        {
            // Only the first row of each partition is given, so its number is known.
            let mut derived = input.derived;
            derived.push((*number, ScalarExpr::literal(1_i64)));
            return Ok(LoweredRelation { derived, ..LoweredRelation::new(Node::Latest(latest), input.ids) });
        }
        let mut lowered = Vec::with_capacity(calls.len());
        for (_, call) in &calls {
            lowered.push(self.window_call(call, &position, &exprs, &made, &input)?);
        }
        let mut ids = input.ids.clone();
        ids.extend(calls.iter().map(|(id, _)| *id));
        let schema = self.schema(&ids);
        let node = Window { input: Arc::clone(input.node()), partition, order, calls: lowered, limit, schema };
        Ok(LoweredRelation { derived: input.derived, ..LoweredRelation::new(Node::Window(node), ids) })
    }

    fn window_call(
        &mut self,
        call: &LogicalWindowCall,
        position: &dyn Fn(&ScalarExpr) -> usize,
        exprs: &[ScalarExpr],
        made: &[ColumnId],
        input: &LoweredRelation,
    ) -> Result<WindowCall> {
        let offset = |expr: &ScalarExpr| match expr.as_constant() {
            Some(value) => FrameOffset::Constant(value.clone()),
            None => FrameOffset::Column(position(expr)),
        };
        let (function, kind) = match &call.function {
            LogicalWindowFunction::Aggregate(aggregate) => {
                let mut aggregate = aggregate.clone();
                let order = aggregate.order.iter_mut().map(|key| &mut key.expr);
                for expr in aggregate.arguments.iter_mut().chain(order).chain(&mut aggregate.filter) {
                    let place = exprs.iter().position(|known| known == expr);
                    let place =
                        place.ok_or_else(|| Error::internal("a window reads a value that was not collected"))?;
                    *expr = ScalarExpr::id(made[place], expr.kind.clone());
                }
                let kind = aggregate.kind.clone();
                (WindowFunction::Aggregate(Box::new(self.aggregate(&aggregate, input)?)), kind)
            }
            LogicalWindowFunction::Rank(function) => {
                let kind = match function {
                    RankFunction::PercentRank | RankFunction::CumulativeShare => DataType::Float64,
                    _ => DataType::Int64,
                };
                (WindowFunction::Rank(*function), kind)
            }
            LogicalWindowFunction::Ntile(parts) => (WindowFunction::Ntile(offset(parts)), DataType::Int64),
            LogicalWindowFunction::Shift { value, offset: distance, default, forward, skips_nulls } => (
                WindowFunction::Shift {
                    value: position(value),
                    offset: distance.as_ref().map(offset),
                    default: default.as_ref().map(position),
                    forward: *forward,
                    skips_nulls: *skips_nulls,
                },
                value.kind.clone(),
            ),
            LogicalWindowFunction::Nth { value, nth, skips_nulls } => {
                let nth = match nth {
                    FrameRow::First => FrameRow::First,
                    FrameRow::Last => FrameRow::Last,
                    FrameRow::Nth(place) => FrameRow::Nth(offset(place)),
                };
                let function = WindowFunction::Nth { value: position(value), nth, skips_nulls: *skips_nulls };
                (function, value.kind.clone())
            }
        };
        let bound = |bound: &FrameBound<ScalarExpr>| match bound {
            FrameBound::Unbounded => FrameBound::Unbounded,
            FrameBound::CurrentRow => FrameBound::CurrentRow,
            FrameBound::Preceding(distance) => FrameBound::Preceding(offset(distance)),
            FrameBound::Following(distance) => FrameBound::Following(offset(distance)),
        };
        let frame = &call.frame;
        let frame = WindowFrame {
            unit: frame.unit,
            start: bound(&frame.start),
            end: bound(&frame.end),
            exclude: frame.exclude,
        };
        Ok(WindowCall { function, frame, kind })
    }
}

/// Adds every value that a call reads, other than constants, to the columns of the window's input.
fn call_columns(call: &LogicalWindowCall, exprs: &mut Vec<ScalarExpr>) {
    let offset = |expr: &ScalarExpr, exprs: &mut Vec<ScalarExpr>| {
        if expr.as_constant().is_none() {
            exprs.push(expr.clone());
        }
    };
    for bound in [&call.frame.start, &call.frame.end] {
        if let FrameBound::Preceding(distance) | FrameBound::Following(distance) = bound {
            offset(distance, exprs);
        }
    }
    match &call.function {
        LogicalWindowFunction::Aggregate(aggregate) => exprs.extend(call_exprs(aggregate).cloned()),
        LogicalWindowFunction::Rank(_) => {}
        LogicalWindowFunction::Ntile(parts) => offset(parts, exprs),
        LogicalWindowFunction::Shift { value, offset: distance, default, .. } => {
            exprs.push(value.clone());
            if let Some(distance) = distance {
                offset(distance, exprs);
            }
            exprs.extend(default.clone());
        }
        LogicalWindowFunction::Nth { value, nth, .. } => {
            exprs.push(value.clone());
            if let FrameRow::Nth(place) = nth {
                offset(place, exprs);
            }
        }
    }
}

fn distinct_positions(positions: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut distinct = Vec::new();
    for position in positions {
        if !distinct.contains(&position) {
            distinct.push(position);
        }
    }
    distinct
}

/// The keys of an order. Each column appears once, and those in `constant` are left out.
fn order_of(keys: &[LogicalSortKey], position: &dyn Fn(&ScalarExpr) -> usize, constant: &[usize]) -> Vec<SortKey> {
    let mut order: Vec<SortKey> = Vec::with_capacity(keys.len());
    for key in keys {
        let column = position(&key.expr);
        if !constant.contains(&column) && !order.iter().any(|known| known.column == column) {
            order.push(SortKey { column, descending: key.descending, nulls_first: key.nulls_first });
        }
    }
    order
}

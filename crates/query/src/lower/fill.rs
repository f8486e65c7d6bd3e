//! FILL: rows for buckets of time without rows.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::evaluator::Evaluator;
use rowmill_plan::logical::LogicalSortKey;
use rowmill_plan::{ColumnId, Constant, Fill, FillMode, LogicalFill, Node, ScalarExpr};

use super::Lowerer;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;

impl Lowerer<'_> {
    pub(super) fn fill(&mut self, fill: &LogicalFill, needed: &ColumnSet) -> Result<LoweredRelation> {
        let mut read: ColumnSet = fill.read_columns().into_iter().collect();
        read.add_all(needed);
        let input = self.lower(&fill.input, &read)?;
        let input = self.settled(input, &read)?;
        // A value must be computed before rows are added, because an expression over NULL may have a value.
        let exprs: Vec<ScalarExpr> =
            input.all_ids().filter(|id| read.contains(*id)).map(|id| self.columns.expr(id)).collect();
        let (mut input, _) = self.with_columns(input, &exprs)?;
        input.derived.clear();
        let order =
            |id: &ColumnId| LogicalSortKey { expr: self.columns.expr(*id), descending: false, nulls_first: false };
        let keys: Vec<LogicalSortKey> = fill.keys.iter().chain([&fill.bucket]).map(order).collect();
        let sorted = self.sorted(input, &keys, (0, None))?;
        let position = |id: ColumnId| {
            sorted.position(id).ok_or_else(|| Error::internal("a FILL reads a column that its input does not have"))
        };
        let mut values = Vec::with_capacity(sorted.ids.len());
        for id in &sorted.ids {
            let mode = fill.values.iter().find(|(filled, _)| filled == id).map(|(_, mode)| mode);
            values.push(match mode {
                None | Some(FillMode::Null) => FillMode::Null,
                Some(FillMode::Previous(of)) => FillMode::Previous(position(*of)?),
                Some(FillMode::Linear) => FillMode::Linear,
                Some(FillMode::Value(value)) => FillMode::Value(constant(value)?),
            });
        }
        let keep: Vec<usize> = (0..sorted.ids.len()).filter(|at| needed.contains(sorted.ids[*at])).collect();
        let ids: Vec<ColumnId> = keep.iter().map(|at| sorted.ids[*at]).collect();
        let node = Fill {
            input: Arc::clone(sorted.node()),
            keys: fill.keys.iter().map(|key| position(*key)).collect::<Result<_>>()?,
            bucket: position(fill.bucket)?,
            buckets: fill.buckets.clone(),
            origin: fill.origin.map(position).transpose()?,
            from: ticks(fill.from.as_ref(), "FROM")?,
            to: ticks(fill.to.as_ref(), "TO")?,
            values,
            keep,
            schema: self.schema(&ids),
        };
        Ok(LoweredRelation::new(Node::Fill(node), ids))
    }
}

/// The value of an expression without columns.
fn constant(expr: &ScalarExpr) -> Result<Constant> {
    match expr.as_constant() {
        Some(value) => Ok(value.clone()),
        None => Ok(Constant::new(Evaluator::new(expr)?.evaluate(&[], 1)?)),
    }
}

/// The ticks of a bound of the range.
fn ticks(bound: Option<&ScalarExpr>, clause: &str) -> Result<Option<i64>> {
    let Some(bound) = bound else { return Ok(None) };
    let value = constant(bound)?;
    let ticks = cast(value.array(), &DataType::Int64);
    let ticks = ticks.map_err(|error| Error::internal(format!("a bound that is no timestamp: {error}")))?;
    let ticks = ticks.as_primitive::<Int64Type>();
    if ticks.is_null(0) {
        let message = format!("{clause} of the buckets is NULL");
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    Ok(Some(ticks.value(0)))
}

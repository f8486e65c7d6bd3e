//! Operators that repeat rows or check for repetition: items of lists, recursive queries, single rows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::logical::{LogicalSortKey, LogicalWindow, LogicalWindowCall, WindowTop};
use rowmill_plan::{self as plan, ColumnId, CompareOp, ExprOp, Logical, Node, ScalarExpr};

use super::Lowerer;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;

impl Lowerer<'_> {
    /// Keeps the first row of each combination of `by`.
    pub(super) fn first_rows(
        &mut self,
        input: &Logical,
        by: &[ColumnId],
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        if let Logical::Sort { input, keys } = input {
            return self.first_sorted_rows(input, keys, by, needed);
        }
        let (input, by) = self.with_ids(input, by, needed)?;
        let below = Arc::clone(input.node());
        Ok(input.over(Node::FirstRows { input: below, by }))
    }

    /// Keeps the first row of each combination of `by` in the order of `keys`. A window finds these rows without
    /// sorting all others, and only they are put in order.
    fn first_sorted_rows(
        &mut self,
        input: &Logical,
        keys: &[LogicalSortKey],
        by: &[ColumnId],
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let number = self.columns.add("row_number", DataType::Int64);
        let window = LogicalWindow {
            input: Box::new(input.clone()),
            partition: by.iter().map(|id| self.columns.expr(*id)).collect(),
            order: keys.to_vec(),
            calls: vec![(number, LogicalWindowCall::row_number())],
            top: Some(WindowTop { call: number, most: 1 }),
        };
        let is_first = ScalarExpr::compare(self.columns.expr(number), CompareOp::Equal, ScalarExpr::literal(1_i64));
        let first = Logical::filter(Logical::Window(window), vec![is_first]);
        self.sort(&first, keys, None, needed)
    }

    /// Allows at most one row for each combination of `by`.
    pub(super) fn single_row(
        &mut self,
        input: &Logical,
        by: &[ColumnId],
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let (input, by) = self.with_ids(input, by, needed)?;
        let below = Arc::clone(input.node());
        Ok(input.over(Node::SingleRow { input: below, by }))
    }

    /// The rows of `input` with a stored column for each of `ids`, and the positions of those columns.
    fn with_ids(
        &mut self,
        input: &Logical,
        ids: &[ColumnId],
        needed: &ColumnSet,
    ) -> Result<(LoweredRelation, Vec<usize>)> {
        let mut read = needed.clone();
        read.extend(ids.iter().copied());
        let rows = self.lower(input, &read)?;
        let rows = self.settled(rows, &read)?;
        let exprs: Vec<ScalarExpr> = ids.iter().map(|id| self.columns.expr(*id)).collect();
        let (rows, made) = self.with_columns(rows, &exprs)?;
        let positions = made.iter().map(|id| rows.position(*id).expect("the column exists")).collect();
        Ok((rows, positions))
    }

    pub(super) fn unnest(
        &mut self,
        input: &Logical,
        lists: &[(ColumnId, ScalarExpr)],
        ordinality: Option<ColumnId>,
        outer: bool,
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        // A series of integers should not be materialised as a list.
        if let ([(id, list)], None, false) = (lists, ordinality, outer)
            && let Some(bounds) = integer_series(list)
        {
            return self.series(input, *id, bounds, needed);
        }
        let mut read = needed.clone();
        lists.iter().for_each(|(_, list)| read.add_columns_of(list));
        let rows = self.lower(input, &read)?;
        let rows = self.settled(rows, &read)?;
        let exprs: Vec<ScalarExpr> = lists.iter().map(|(_, list)| list.clone()).collect();
        let (mut rows, made) = self.with_columns(rows, &exprs)?;
        rows.keep_derived(needed);
        let mut kept = needed.clone();
        rows.derived.iter().for_each(|(_, expr)| kept.add_columns_of(expr));
        let keep: Vec<usize> = (0..rows.ids.len()).filter(|place| kept.contains(rows.ids[*place])).collect();
        let mut ids: Vec<ColumnId> = keep.iter().map(|place| rows.ids[*place]).collect();
        ids.extend(lists.iter().map(|(id, _)| *id));
        ids.extend(ordinality);
        let node = plan::Unnest {
            input: Arc::clone(rows.node()),
            keep,
            lists: made.iter().map(|id| rows.position(*id).expect("the column exists")).collect(),
            ordinality: ordinality.is_some(),
            outer,
            schema: self.schema(&ids),
        };
        Ok(LoweredRelation { derived: rows.derived, ..LoweredRelation::new(Node::Unnest(node), ids) })
    }

    /// Computes the numbers of a series on demand, without a list of all of them.
    fn series(
        &mut self,
        input: &Logical,
        id: ColumnId,
        bounds: SeriesBounds,
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let exprs: Vec<ScalarExpr> = [bounds.start, bounds.stop].into_iter().chain(bounds.step).collect();
        let mut read = needed.clone();
        exprs.iter().for_each(|expr| read.add_columns_of(expr));
        let rows = self.lower(input, &read)?;
        let rows = self.settled(rows, &read)?;
        let (mut rows, made) = self.with_columns(rows, &exprs)?;
        rows.keep_derived(needed);
        let places: Vec<usize> = made.iter().map(|id| rows.position(*id).expect("the column exists")).collect();
        let mut kept = needed.clone();
        rows.derived.iter().for_each(|(_, expr)| kept.add_columns_of(expr));
        let keep: Vec<usize> = (0..rows.ids.len()).filter(|place| kept.contains(rows.ids[*place])).collect();
        let ids: Vec<ColumnId> = keep.iter().map(|place| rows.ids[*place]).chain([id]).collect();
        let node = plan::Series {
            input: Arc::clone(rows.node()),
            keep,
            start: places[0],
            stop: places[1],
            step: places.get(2).copied(),
            inclusive: bounds.inclusive,
            schema: self.schema(&ids),
        };
        Ok(LoweredRelation { derived: rows.derived, ..LoweredRelation::new(Node::Series(node), ids) })
    }

    /// Lowers a use of a shared plan. All uses read the same operators, which give every column that any of them reads.
    pub(super) fn shared(
        &mut self,
        number: usize,
        input: &Logical,
        input_columns: &[ColumnId],
        columns: &[ColumnId],
    ) -> Result<LoweredRelation> {
        let all = self.shared_columns.get(&number).cloned().unwrap_or_else(|| input_columns.to_vec());
        let input = match self.shared_nodes.get(&number) {
            Some(node) => Arc::clone(node),
            None => {
                let rows = self.lower(input, &all.iter().copied().collect())?;
                let node = self.exactly(rows, &all)?;
                self.shared_nodes.insert(number, Arc::clone(&node));
                node
            }
        };
        let node = Node::Shared { number, input };
        if all == input_columns {
            return Ok(LoweredRelation::new(node, columns.to_vec()));
        }
        let place = |id: &ColumnId| all.iter().position(|known| known == id).expect("the shared plan has the column");
        let exprs = input_columns.iter().map(|id| plan::Expr::Column(place(id))).collect();
        let node = Node::Project { input: Arc::new(node), exprs, schema: self.schema(columns) };
        Ok(LoweredRelation::new(node, columns.to_vec()))
    }

    pub(super) fn recursive(&mut self, query: &Logical) -> Result<LoweredRelation> {
        let Logical::Recursive { number, base, base_columns, step, step_columns, distinct, columns } = query else {
            return Err(Error::internal("only a recursive query may be lowered here"));
        };
        let base = self.lower(base, &base_columns.iter().copied().collect())?;
        let base = self.exactly(base, base_columns)?;
        let step = self.lower(step, &step_columns.iter().copied().collect())?;
        let step = self.exactly(step, step_columns)?;
        debug_assert!(
            columns.iter().all(|id| *self.kind(*id) != DataType::Null),
            "a recursive column must have a type"
        );
        let schema = self.schema(columns);
        let node = plan::Recursive { number: *number, base, step, distinct: *distinct, schema };
        Ok(LoweredRelation::new(Node::Recursive(node), columns.clone()))
    }
}

/// The integers of a call of `generate_series` or `range`.
struct SeriesBounds {
    start: ScalarExpr,
    stop: ScalarExpr,
    step: Option<ScalarExpr>,
    inclusive: bool,
}

/// The bounds of `list`, if it is a series of integers.
fn integer_series(list: &ScalarExpr) -> Option<SeriesBounds> {
    let ExprOp::Call(function, arguments) = &list.op else { return None };
    let inclusive = match function.name {
        "generate_series" => true,
        "range" => false,
        _ => return None,
    };
    if arguments.iter().any(|argument| argument.kind != DataType::Int64) {
        return None;
    }
    let (start, stop, step) = match &arguments[..] {
        [stop] => (ScalarExpr::literal(0_i64), stop.clone(), None),
        [start, stop] => (start.clone(), stop.clone(), None),
        [start, stop, step] => (start.clone(), stop.clone(), Some(step.clone())),
        _ => return None,
    };
    Some(SeriesBounds { start, stop, step, inclusive })
}

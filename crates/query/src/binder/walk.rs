//! Walks over logical plans and their expressions, including the plans of subqueries.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rowmill_plan::logical::{AggregateCall, FrameBound, FrameRow, LogicalWindowCall, LogicalWindowFunction};
use rowmill_plan::{ExprOp, Logical, ScalarExpr, Volatility};

use crate::optimizer::walk::{fill_exprs, fill_exprs_mut};

/// Calls `each` with every top-level expression of one operator, but not of its inputs.
pub(crate) fn own_exprs<'p>(plan: &'p Logical, each: &mut dyn FnMut(&'p ScalarExpr)) {
    match plan {
        Logical::Scan(scan) => scan.conditions.iter().for_each(each),
        Logical::Source(source) => source.conditions.iter().for_each(each),
        Logical::Values { rows, .. } => rows.iter().flatten().for_each(each),
        Logical::Filter { conditions, .. } => conditions.iter().for_each(each),
        Logical::Map { exprs, .. } => exprs.iter().for_each(|(_, expr)| each(expr)),
        Logical::Join(join) => join.conditions.iter().for_each(each),
        Logical::OrderedJoin(join) => join.exprs().into_iter().for_each(each),
        Logical::Group(group) => {
            group.keys.iter().for_each(|(_, key)| each(key));
            group.aggregates.iter().for_each(|(_, call)| call_exprs(call, each));
        }
        Logical::Window(window) => {
            window.partition.iter().for_each(&mut *each);
            window.order.iter().for_each(|key| each(&key.expr));
            window.calls.iter().for_each(|(_, call)| window_exprs(call, each));
        }
        Logical::Sort { keys, .. } => keys.iter().for_each(|key| each(&key.expr)),
        Logical::Limit { skip, rows, .. } => skip.iter().chain(rows).for_each(each),
        Logical::Unnest { lists, .. } => lists.iter().for_each(|(_, list)| each(list)),
        Logical::Fill(fill) => fill_exprs(fill).for_each(each),
        Logical::Distinct { .. }
        | Logical::SetOperation(_)
        | Logical::Recursive { .. }
        | Logical::RecursiveRows { .. }
        | Logical::OuterRow { .. }
        | Logical::Shared { .. }
        | Logical::SingleRow { .. } => {}
    }
}

/// Calls `each` with a mutable reference to every top-level expression of one operator.
pub(crate) fn own_exprs_mut(plan: &mut Logical, each: &mut dyn FnMut(&mut ScalarExpr)) {
    match plan {
        Logical::Scan(scan) => scan.conditions.iter_mut().for_each(each),
        Logical::Source(source) => source.conditions.iter_mut().for_each(each),
        Logical::Values { rows, .. } => rows.iter_mut().flatten().for_each(each),
        Logical::Filter { conditions, .. } => conditions.iter_mut().for_each(each),
        Logical::Map { exprs, .. } => exprs.iter_mut().for_each(|(_, expr)| each(expr)),
        Logical::Join(join) => join.conditions.iter_mut().for_each(each),
        Logical::OrderedJoin(join) => join.exprs_mut().into_iter().for_each(each),
        Logical::Group(group) => {
            group.keys.iter_mut().for_each(|(_, key)| each(key));
            group.aggregates.iter_mut().for_each(|(_, call)| call_exprs_mut(call, each));
        }
        Logical::Window(window) => {
            window.partition.iter_mut().for_each(&mut *each);
            window.order.iter_mut().for_each(|key| each(&mut key.expr));
            window.calls.iter_mut().for_each(|(_, call)| window_exprs_mut(call, each));
        }
        Logical::Sort { keys, .. } => keys.iter_mut().for_each(|key| each(&mut key.expr)),
        Logical::Limit { skip, rows, .. } => skip.iter_mut().chain(rows).for_each(each),
        Logical::Unnest { lists, .. } => lists.iter_mut().for_each(|(_, list)| each(list)),
        Logical::Fill(fill) => fill_exprs_mut(fill).for_each(each),
        Logical::Distinct { .. }
        | Logical::SetOperation(_)
        | Logical::Recursive { .. }
        | Logical::RecursiveRows { .. }
        | Logical::OuterRow { .. }
        | Logical::Shared { .. }
        | Logical::SingleRow { .. } => {}
    }
}

/// The inputs of an operator.
pub(crate) fn inputs(plan: &Logical) -> Vec<&Logical> {
    match plan {
        Logical::Scan(_) | Logical::Source(_) | Logical::Values { .. } => Vec::new(),
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } => Vec::new(),
        Logical::Filter { input, .. }
        | Logical::Map { input, .. }
        | Logical::Sort { input, .. }
        | Logical::Limit { input, .. }
        | Logical::Distinct { input, .. }
        | Logical::Unnest { input, .. }
        | Logical::SingleRow { input, .. } => vec![input],
        Logical::Group(group) => vec![&group.input],
        Logical::Window(window) => vec![&window.input],
        Logical::Fill(fill) => vec![&fill.input],
        Logical::Join(join) => vec![&join.left, &join.right],
        Logical::OrderedJoin(join) => vec![&join.left, &join.right],
        Logical::SetOperation(operation) => operation.inputs.iter().map(|(input, _)| input).collect(),
        Logical::Recursive { base, step, .. } => vec![base, step],
        Logical::Shared { input, .. } => vec![input],
    }
}

/// The inputs of an operator, as mutable references. A shared plan is copied if it has other readers.
pub(crate) fn inputs_mut(plan: &mut Logical) -> Vec<&mut Logical> {
    match plan {
        Logical::Scan(_) | Logical::Source(_) | Logical::Values { .. } => Vec::new(),
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } => Vec::new(),
        Logical::Filter { input, .. }
        | Logical::Map { input, .. }
        | Logical::Sort { input, .. }
        | Logical::Limit { input, .. }
        | Logical::Distinct { input, .. }
        | Logical::Unnest { input, .. }
        | Logical::SingleRow { input, .. } => vec![input],
        Logical::Group(group) => vec![&mut group.input],
        Logical::Window(window) => vec![&mut window.input],
        Logical::Fill(fill) => vec![&mut fill.input],
        Logical::Join(join) => vec![&mut join.left, &mut join.right],
        Logical::OrderedJoin(join) => vec![&mut join.left, &mut join.right],
        Logical::SetOperation(operation) => operation.inputs.iter_mut().map(|(input, _)| input).collect(),
        Logical::Recursive { base, step, .. } => vec![base, step],
        Logical::Shared { input, .. } => vec![Arc::make_mut(input)],
    }
}

/// Calls `each` with every expression of an aggregate.
pub(crate) fn call_exprs<'p>(call: &'p AggregateCall, each: &mut dyn FnMut(&'p ScalarExpr)) {
    call.arguments.iter().for_each(&mut *each);
    call.order.iter().for_each(|key| each(&key.expr));
    call.filter.iter().for_each(each);
}

/// Calls `each` with a mutable reference to every expression of an aggregate.
pub(crate) fn call_exprs_mut(call: &mut AggregateCall, each: &mut dyn FnMut(&mut ScalarExpr)) {
    call.arguments.iter_mut().for_each(&mut *each);
    call.order.iter_mut().for_each(|key| each(&mut key.expr));
    call.filter.iter_mut().for_each(each);
}

/// Calls `each` with every expression of a window call.
pub(crate) fn window_exprs<'p>(call: &'p LogicalWindowCall, each: &mut dyn FnMut(&'p ScalarExpr)) {
    match &call.function {
        LogicalWindowFunction::Aggregate(aggregate) => call_exprs(aggregate, each),
        LogicalWindowFunction::Rank(_) => {}
        LogicalWindowFunction::Ntile(parts) => each(parts),
        LogicalWindowFunction::Shift { value, offset, default, .. } => {
            each(value);
            offset.iter().chain(default).for_each(&mut *each);
        }
        LogicalWindowFunction::Nth { value, nth, .. } => {
            each(value);
            if let FrameRow::Nth(nth) = nth {
                each(nth);
            }
        }
    }
    for bound in [&call.frame.start, &call.frame.end] {
        if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
            each(offset);
        }
    }
}

/// Calls `each` with a mutable reference to every expression of a window call.
pub(crate) fn window_exprs_mut(call: &mut LogicalWindowCall, each: &mut dyn FnMut(&mut ScalarExpr)) {
    match &mut call.function {
        LogicalWindowFunction::Aggregate(aggregate) => call_exprs_mut(aggregate, each),
        LogicalWindowFunction::Rank(_) => {}
        LogicalWindowFunction::Ntile(parts) => each(parts),
        LogicalWindowFunction::Shift { value, offset, default, .. } => {
            each(value);
            offset.iter_mut().chain(default).for_each(&mut *each);
        }
        LogicalWindowFunction::Nth { value, nth, .. } => {
            each(value);
            if let FrameRow::Nth(nth) = nth {
                each(nth);
            }
        }
    }
    for bound in [&mut call.frame.start, &mut call.frame.end] {
        if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
            each(offset);
        }
    }
}

/// Calls `each` with every top-level expression of `plan` and of everything below it. A shared plan is changed once,
/// and all its readers within `plan` get the changed plan.
pub(crate) fn plan_exprs_mut(plan: &mut Logical, each: &mut dyn FnMut(&mut ScalarExpr)) {
    exprs_below_mut(plan, &mut HashMap::new(), each);
}

fn exprs_below_mut(
    plan: &mut Logical,
    shared: &mut HashMap<usize, Arc<Logical>>,
    each: &mut dyn FnMut(&mut ScalarExpr),
) {
    if let Logical::Shared { number, input, .. } = plan {
        match shared.get(number) {
            Some(done) => *input = Arc::clone(done),
            None => {
                exprs_below_mut(Arc::make_mut(input), shared, each);
                shared.insert(*number, Arc::clone(input));
            }
        }
        return;
    }
    own_exprs_mut(plan, each);
    for input in inputs_mut(plan) {
        exprs_below_mut(input, shared, each);
    }
}

/// Rewrites every expression of `plan` bottom-up, including the plans of subqueries.
pub(crate) fn rewrite_plan(plan: &mut Logical, each: &mut dyn FnMut(&mut ScalarExpr)) {
    plan_exprs_mut(plan, &mut |expr| rewrite_deep(expr, each));
}

/// Rewrites an expression bottom-up, including the plans of its subqueries.
pub(crate) fn rewrite_deep(expr: &mut ScalarExpr, each: &mut dyn FnMut(&mut ScalarExpr)) {
    expr.operands_mut().into_iter().for_each(|operand| rewrite_deep(operand, each));
    if let ExprOp::Subquery(subquery) = &mut expr.op {
        rewrite_plan(&mut subquery.plan, each);
    }
    each(expr);
}

/// Whether `plan` or an operator below calls a volatile function. All readers of a shared plan see the same rows.
pub(crate) fn is_volatile(plan: &Logical) -> bool {
    if let Logical::Shared { .. } = plan {
        return false;
    }
    let mut found = false;
    own_exprs(plan, &mut |expr| found |= is_volatile_expr(expr));
    found || inputs(plan).into_iter().any(is_volatile)
}

/// Whether `expr` or one of its subqueries calls a volatile function.
pub(crate) fn is_volatile_expr(expr: &ScalarExpr) -> bool {
    expr.any(&|part| match &part.op {
        ExprOp::Call(function, _) => function.volatility == Volatility::Volatile,
        ExprOp::Dynamic(function, _) => function.volatility() == Volatility::Volatile,
        ExprOp::Subquery(subquery) => is_volatile(&subquery.plan),
        _ => false,
    })
}

/// The columns that a tree names and makes.
#[derive(Default)]
struct Usage {
    named: HashSet<usize>,
    made: HashSet<usize>,
}

impl Usage {
    fn expr(&mut self, expr: &ScalarExpr) {
        expr.each(&mut |part| match &part.op {
            ExprOp::Column(column) => {
                self.named.insert(*column);
            }
            ExprOp::Subquery(subquery) => self.plan(&subquery.plan),
            _ => {}
        });
    }

    fn plan(&mut self, plan: &Logical) {
        own_exprs(plan, &mut |expr| self.expr(expr));
        self.made.extend(made(plan));
        // A shared plan is never correlated.
        if let Logical::Shared { .. } = plan {
            return;
        }
        for input in inputs(plan) {
            self.plan(input);
        }
    }

    fn free(self) -> HashSet<usize> {
        &self.named - &self.made
    }
}

/// The columns that an operator makes itself.
fn made(plan: &Logical) -> Vec<usize> {
    match plan {
        Logical::Scan(scan) => scan.columns.iter().map(|(id, _)| id.0).chain(scan.row_number.map(|id| id.0)).collect(),
        Logical::Source(source) => source.columns.iter().map(|(id, _)| id.0).collect(),
        Logical::Values { columns, .. }
        | Logical::RecursiveRows { columns, .. }
        | Logical::OuterRow { columns }
        | Logical::Recursive { columns, .. }
        | Logical::Shared { columns, .. } => columns.iter().map(|id| id.0).collect(),
        Logical::Map { exprs, .. } => exprs.iter().map(|(id, _)| id.0).collect(),
        Logical::Join(join) => match join.kind {
            rowmill_plan::logical::LogicalJoinKind::Mark(id) => vec![id.0],
            _ => Vec::new(),
        },
        Logical::Group(group) => {
            let keys = group.keys.iter().map(|(id, _)| id.0);
            keys.chain(group.set.map(|id| id.0)).chain(group.aggregates.iter().map(|(id, _)| id.0)).collect()
        }
        Logical::Window(window) => window.calls.iter().map(|(id, _)| id.0).collect(),
        Logical::OrderedJoin(join) => join.aggregates.iter().flatten().map(|(id, _)| id.0).collect(),
        Logical::SetOperation(operation) => operation.columns.iter().map(|id| id.0).collect(),
        Logical::Unnest { lists, ordinality, .. } => {
            lists.iter().map(|(id, _)| id.0).chain(ordinality.map(|id| id.0)).collect()
        }
        Logical::Filter { .. }
        | Logical::Sort { .. }
        | Logical::Limit { .. }
        | Logical::Distinct { .. }
        | Logical::Fill(_)
        | Logical::SingleRow { .. } => Vec::new(),
    }
}

/// The columns that `expr` names and that none of its subqueries makes.
pub(crate) fn free_columns(expr: &ScalarExpr) -> HashSet<usize> {
    let mut usage = Usage::default();
    usage.expr(expr);
    usage.free()
}

/// The columns that `plan` names but does not make. They belong to enclosing queries.
pub(crate) fn free_columns_of_plan(plan: &Logical) -> HashSet<usize> {
    let mut usage = Usage::default();
    usage.plan(plan);
    usage.free()
}

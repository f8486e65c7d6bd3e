//! The parts of a plan that every rewrite needs: inputs, expressions, and the columns that it makes and names.
//!
//! Column ids are unique within a statement. A column that a tree names but does not make is free, and the tree is then
//! correlated with the operator that makes it. The plans of subqueries in expressions are part of the tree.

use std::collections::HashMap;

use rowmill_plan::logical::{AggregateCall, FrameBound, FrameRow, LogicalWindowCall, LogicalWindowFunction};
use rowmill_plan::{ColumnId, ColumnNames, ExprOp, FillMode, Logical, LogicalFill, ScalarExpr};

use crate::column_set::ColumnSet;

/// Moves a plan out of its place and leaves an empty plan there.
pub(crate) fn take(plan: &mut Logical) -> Logical {
    std::mem::replace(plan, Logical::no_rows(Vec::new()))
}

/// The inputs of an operator. The plan of a `Shared` is not an input, because it belongs to the statement.
pub(crate) fn inputs(plan: &Logical) -> Vec<&Logical> {
    match plan {
        Logical::Scan(_) | Logical::Source(_) | Logical::Values { .. } => Vec::new(),
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } | Logical::Shared { .. } => Vec::new(),
        Logical::Filter { input, .. } | Logical::Map { input, .. } | Logical::Sort { input, .. } => vec![input],
        Logical::Limit { input, .. } | Logical::Distinct { input, .. } => vec![input],
        Logical::Unnest { input, .. } | Logical::SingleRow { input, .. } => vec![input],
        Logical::Join(join) => vec![&join.left, &join.right],
        Logical::OrderedJoin(join) => vec![&join.left, &join.right],
        Logical::Group(group) => vec![&group.input],
        Logical::Window(window) => vec![&window.input],
        Logical::Fill(fill) => vec![&fill.input],
        Logical::SetOperation(operation) => operation.inputs.iter().map(|(input, _)| input).collect(),
        Logical::Recursive { base, step, .. } => vec![base, step],
    }
}

/// The inputs of an operator, as mutable references.
pub(crate) fn inputs_mut(plan: &mut Logical) -> Vec<&mut Logical> {
    match plan {
        Logical::Scan(_) | Logical::Source(_) | Logical::Values { .. } => Vec::new(),
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } | Logical::Shared { .. } => Vec::new(),
        Logical::Filter { input, .. } | Logical::Map { input, .. } | Logical::Sort { input, .. } => vec![input],
        Logical::Limit { input, .. } | Logical::Distinct { input, .. } => vec![input],
        Logical::Unnest { input, .. } | Logical::SingleRow { input, .. } => vec![input],
        Logical::Join(join) => vec![&mut join.left, &mut join.right],
        Logical::OrderedJoin(join) => vec![&mut join.left, &mut join.right],
        Logical::Group(group) => vec![&mut group.input],
        Logical::Window(window) => vec![&mut window.input],
        Logical::Fill(fill) => vec![&mut fill.input],
        Logical::SetOperation(operation) => operation.inputs.iter_mut().map(|(input, _)| input).collect(),
        Logical::Recursive { base, step, .. } => vec![base, step],
    }
}

/// The expressions of an aggregate.
pub(crate) fn aggregate_exprs(call: &AggregateCall) -> impl Iterator<Item = &ScalarExpr> {
    call.arguments.iter().chain(call.order.iter().map(|key| &key.expr)).chain(&call.filter)
}

fn aggregate_exprs_mut(call: &mut AggregateCall) -> impl Iterator<Item = &mut ScalarExpr> {
    call.arguments.iter_mut().chain(call.order.iter_mut().map(|key| &mut key.expr)).chain(&mut call.filter)
}

fn window_call_exprs(call: &LogicalWindowCall) -> Vec<&ScalarExpr> {
    let mut exprs: Vec<&ScalarExpr> = match &call.function {
        LogicalWindowFunction::Aggregate(call) => aggregate_exprs(call).collect(),
        LogicalWindowFunction::Rank(_) => Vec::new(),
        LogicalWindowFunction::Ntile(parts) => vec![parts],
        LogicalWindowFunction::Shift { value, offset, default, .. } => {
            std::iter::once(value).chain(offset).chain(default).collect()
        }
        LogicalWindowFunction::Nth { value, nth, .. } => match nth {
            FrameRow::Nth(nth) => vec![value, nth],
            _ => vec![value],
        },
    };
    for bound in [&call.frame.start, &call.frame.end] {
        if let FrameBound::Preceding(expr) | FrameBound::Following(expr) = bound {
            exprs.push(expr);
        }
    }
    exprs
}

fn window_call_exprs_mut(call: &mut LogicalWindowCall) -> Vec<&mut ScalarExpr> {
    let mut exprs: Vec<&mut ScalarExpr> = match &mut call.function {
        LogicalWindowFunction::Aggregate(call) => aggregate_exprs_mut(call).collect(),
        LogicalWindowFunction::Rank(_) => Vec::new(),
        LogicalWindowFunction::Ntile(parts) => vec![parts],
        LogicalWindowFunction::Shift { value, offset, default, .. } => {
            std::iter::once(value).chain(offset).chain(default).collect()
        }
        LogicalWindowFunction::Nth { value, nth, .. } => match nth {
            FrameRow::Nth(nth) => vec![value, nth],
            _ => vec![value],
        },
    };
    for bound in [&mut call.frame.start, &mut call.frame.end] {
        if let FrameBound::Preceding(expr) | FrameBound::Following(expr) = bound {
            exprs.push(expr);
        }
    }
    exprs
}

/// The constants of a FILL.
pub(crate) fn fill_exprs(fill: &LogicalFill) -> impl Iterator<Item = &ScalarExpr> {
    let values = fill.values.iter().filter_map(|(_, mode)| match mode {
        FillMode::Value(value) => Some(value),
        _ => None,
    });
    fill.from.iter().chain(&fill.to).chain(values)
}

/// The constants of a FILL, as mutable references.
pub(crate) fn fill_exprs_mut(fill: &mut LogicalFill) -> impl Iterator<Item = &mut ScalarExpr> {
    let values = fill.values.iter_mut().filter_map(|(_, mode)| match mode {
        FillMode::Value(value) => Some(value),
        _ => None,
    });
    fill.from.iter_mut().chain(&mut fill.to).chain(values)
}

/// The expressions of an operator, without those of its inputs.
pub(crate) fn exprs(plan: &Logical) -> Vec<&ScalarExpr> {
    match plan {
        Logical::Scan(scan) => scan.conditions.iter().collect(),
        Logical::Source(source) => source.conditions.iter().collect(),
        Logical::Values { rows, .. } => rows.iter().flatten().collect(),
        Logical::Filter { conditions, .. } => conditions.iter().collect(),
        Logical::Map { exprs, .. } => exprs.iter().map(|(_, expr)| expr).collect(),
        Logical::Join(join) => join.conditions.iter().chain(&join.compared).collect(),
        Logical::OrderedJoin(join) => join.exprs(),
        Logical::Group(group) => {
            let keys = group.keys.iter().map(|(_, key)| key);
            keys.chain(group.aggregates.iter().flat_map(|(_, call)| aggregate_exprs(call))).collect()
        }
        Logical::Window(window) => {
            let order = window.order.iter().map(|key| &key.expr);
            let calls = window.calls.iter().flat_map(|(_, call)| window_call_exprs(call));
            window.partition.iter().chain(order).chain(calls).collect()
        }
        Logical::Sort { keys, .. } => keys.iter().map(|key| &key.expr).collect(),
        Logical::Limit { skip, rows, .. } => skip.iter().chain(rows).collect(),
        Logical::Unnest { lists, .. } => lists.iter().map(|(_, list)| list).collect(),
        Logical::Fill(fill) => fill_exprs(fill).collect(),
        Logical::Distinct { .. } | Logical::SetOperation(_) | Logical::Recursive { .. } => Vec::new(),
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } => Vec::new(),
        Logical::Shared { .. } | Logical::SingleRow { .. } => Vec::new(),
    }
}

/// The expressions of an operator, without those of its inputs, as mutable references.
pub(crate) fn exprs_mut(plan: &mut Logical) -> Vec<&mut ScalarExpr> {
    match plan {
        Logical::Scan(scan) => scan.conditions.iter_mut().collect(),
        Logical::Source(source) => source.conditions.iter_mut().collect(),
        Logical::Values { rows, .. } => rows.iter_mut().flatten().collect(),
        Logical::Filter { conditions, .. } => conditions.iter_mut().collect(),
        Logical::Map { exprs, .. } => exprs.iter_mut().map(|(_, expr)| expr).collect(),
        Logical::Join(join) => join.conditions.iter_mut().chain(&mut join.compared).collect(),
        Logical::OrderedJoin(join) => join.exprs_mut(),
        Logical::Group(group) => {
            let keys = group.keys.iter_mut().map(|(_, key)| key);
            keys.chain(group.aggregates.iter_mut().flat_map(|(_, call)| aggregate_exprs_mut(call))).collect()
        }
        Logical::Window(window) => {
            let order = window.order.iter_mut().map(|key| &mut key.expr);
            let calls = window.calls.iter_mut().flat_map(|(_, call)| window_call_exprs_mut(call));
            window.partition.iter_mut().chain(order).chain(calls).collect()
        }
        Logical::Sort { keys, .. } => keys.iter_mut().map(|key| &mut key.expr).collect(),
        Logical::Limit { skip, rows, .. } => skip.iter_mut().chain(rows).collect(),
        Logical::Unnest { lists, .. } => lists.iter_mut().map(|(_, list)| list).collect(),
        Logical::Fill(fill) => fill_exprs_mut(fill).collect(),
        Logical::Distinct { .. } | Logical::SetOperation(_) | Logical::Recursive { .. } => Vec::new(),
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } => Vec::new(),
        Logical::Shared { .. } | Logical::SingleRow { .. } => Vec::new(),
    }
}

/// How an operator uses a column that it names outside of expressions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnRole {
    /// The operator makes the column.
    Made,
    /// The column comes from an input.
    Read,
}

/// Calls `each` with a mutable reference to every column that an operator names outside of its expressions.
fn each_id_mut(plan: &mut Logical, each: &mut dyn FnMut(&mut ColumnId, ColumnRole)) {
    use ColumnRole::{Made, Read};
    match plan {
        Logical::Scan(scan) => {
            scan.columns.iter_mut().for_each(|(id, _)| each(id, Made));
            scan.row_number.iter_mut().for_each(|id| each(id, Made));
        }
        Logical::Source(source) => source.columns.iter_mut().for_each(|(id, _)| each(id, Made)),
        Logical::Values { columns, .. } => columns.iter_mut().for_each(|id| each(id, Made)),
        Logical::Map { exprs, .. } => exprs.iter_mut().for_each(|(id, _)| each(id, Made)),
        Logical::OrderedJoin(join) => {
            join.aggregates.iter_mut().flatten().for_each(|(id, _)| each(id, Made));
            join.tie.iter_mut().for_each(|id| each(id, Read));
        }
        Logical::Join(join) => {
            if let rowmill_plan::logical::LogicalJoinKind::Mark(id) = &mut join.kind {
                each(id, Made);
            }
        }
        Logical::Group(group) => {
            group.keys.iter_mut().for_each(|(id, _)| each(id, Made));
            group.aggregates.iter_mut().for_each(|(id, _)| each(id, Made));
            group.set.iter_mut().for_each(|id| each(id, Made));
        }
        Logical::Window(window) => {
            window.calls.iter_mut().for_each(|(id, _)| each(id, Made));
            window.top.iter_mut().for_each(|top| each(&mut top.call, Read));
        }
        Logical::Unnest { lists, ordinality, .. } => {
            lists.iter_mut().for_each(|(id, _)| each(id, Made));
            ordinality.iter_mut().for_each(|id| each(id, Made));
        }
        Logical::Distinct { columns, .. } => columns.iter_mut().for_each(|id| each(id, Read)),
        Logical::SetOperation(operation) => {
            operation.inputs.iter_mut().flat_map(|(_, columns)| columns).for_each(|id| each(id, Read));
            operation.columns.iter_mut().for_each(|id| each(id, Made));
        }
        Logical::Recursive { base_columns, step_columns, columns, .. } => {
            base_columns.iter_mut().chain(step_columns).for_each(|id| each(id, Read));
            columns.iter_mut().for_each(|id| each(id, Made));
        }
        Logical::RecursiveRows { columns, .. } | Logical::OuterRow { columns } | Logical::Shared { columns, .. } => {
            columns.iter_mut().for_each(|id| each(id, Made));
        }
        Logical::SingleRow { by, .. } => by.iter_mut().for_each(|id| each(id, Read)),
        Logical::Fill(fill) => fill.read_columns_mut().into_iter().for_each(|id| each(id, Read)),
        Logical::Filter { .. } | Logical::Sort { .. } | Logical::Limit { .. } => {}
    }
}

/// Calls `each` with every column that an operator names outside of its expressions.
fn each_id(plan: &Logical, each: &mut dyn FnMut(ColumnId, ColumnRole)) {
    use ColumnRole::{Made, Read};
    match plan {
        Logical::Scan(scan) => {
            scan.columns.iter().for_each(|(id, _)| each(*id, Made));
            scan.row_number.iter().for_each(|id| each(*id, Made));
        }
        Logical::Source(source) => source.columns.iter().for_each(|(id, _)| each(*id, Made)),
        Logical::Values { columns, .. } => columns.iter().for_each(|id| each(*id, Made)),
        Logical::Map { exprs, .. } => exprs.iter().for_each(|(id, _)| each(*id, Made)),
        Logical::OrderedJoin(join) => {
            join.aggregates.iter().flatten().for_each(|(id, _)| each(*id, Made));
            join.tie.iter().for_each(|id| each(*id, Read));
        }
        Logical::Join(join) => {
            if let rowmill_plan::logical::LogicalJoinKind::Mark(id) = join.kind {
                each(id, Made);
            }
        }
        Logical::Group(group) => {
            group.keys.iter().for_each(|(id, _)| each(*id, Made));
            group.aggregates.iter().for_each(|(id, _)| each(*id, Made));
            group.set.iter().for_each(|id| each(*id, Made));
        }
        Logical::Window(window) => window.calls.iter().for_each(|(id, _)| each(*id, Made)),
        Logical::Unnest { lists, ordinality, .. } => {
            lists.iter().for_each(|(id, _)| each(*id, Made));
            ordinality.iter().for_each(|id| each(*id, Made));
        }
        Logical::Distinct { columns, .. } => columns.iter().for_each(|id| each(*id, Read)),
        Logical::SetOperation(operation) => {
            operation.inputs.iter().flat_map(|(_, columns)| columns).for_each(|id| each(*id, Read));
            operation.columns.iter().for_each(|id| each(*id, Made));
        }
        Logical::Recursive { base_columns, step_columns, columns, .. } => {
            base_columns.iter().chain(step_columns).for_each(|id| each(*id, Read));
            columns.iter().for_each(|id| each(*id, Made));
        }
        Logical::RecursiveRows { columns, .. } | Logical::OuterRow { columns } | Logical::Shared { columns, .. } => {
            columns.iter().for_each(|id| each(*id, Made));
        }
        Logical::SingleRow { by, .. } => by.iter().for_each(|id| each(*id, Read)),
        Logical::Fill(fill) => fill.read_columns().into_iter().for_each(|id| each(id, Read)),
        Logical::Filter { .. } | Logical::Sort { .. } | Logical::Limit { .. } => {}
    }
}

/// The columns that an operator makes itself, in a fixed order.
pub(crate) fn own_columns(plan: &Logical) -> Vec<ColumnId> {
    let mut own = Vec::new();
    each_id(plan, &mut |id, role| {
        if role == ColumnRole::Made {
            own.push(id);
        }
    });
    own
}

/// The columns of the rows that an operator gives.
pub(crate) fn output(plan: &Logical) -> ColumnSet {
    let mut set = ColumnSet::default();
    add_output(plan, &mut set);
    set
}

fn add_output(plan: &Logical, set: &mut ColumnSet) {
    use rowmill_plan::logical::LogicalJoinKind as Kind;
    match plan {
        Logical::Distinct { columns, on: false, .. } => columns.iter().for_each(|id| {
            set.insert(*id);
        }),
        // These give only columns that they make themselves.
        Logical::Group(_) | Logical::SetOperation(_) | Logical::Recursive { .. } => {}
        Logical::Join(join) => {
            add_output(&join.left, set);
            if matches!(join.kind, Kind::Inner | Kind::Left | Kind::Full | Kind::Single) {
                add_output(&join.right, set);
            }
        }
        Logical::OrderedJoin(join) if join.aggregates.is_some() => add_output(&join.left, set),
        _ => inputs(plan).into_iter().for_each(|input| add_output(input, set)),
    }
    each_id(plan, &mut |id, role| {
        if role == ColumnRole::Made {
            set.insert(id);
        }
    });
}

/// Adds the columns that an expression names, including the free columns of its subqueries.
pub(crate) fn add_named(expr: &ScalarExpr, set: &mut ColumnSet) {
    match &expr.op {
        ExprOp::Column(id) => {
            set.insert(ColumnId(*id));
        }
        ExprOp::Subquery(subquery) => {
            add_free(&subquery.plan, set);
            // A subquery may give a column of an enclosing query unchanged.
            let made = made(&subquery.plan);
            subquery.columns.iter().filter(|id| !made.contains(**id)).for_each(|id| {
                set.insert(*id);
            });
        }
        _ => {}
    }
    expr.operands().into_iter().for_each(|operand| add_named(operand, set));
}

/// The columns that an expression names, including the free columns of its subqueries.
pub(crate) fn named(expr: &ScalarExpr) -> ColumnSet {
    let mut set = ColumnSet::default();
    add_named(expr, &mut set);
    set
}

/// Adds the columns that an operator itself reads, in its expressions and outside of them.
pub(crate) fn add_read(plan: &Logical, set: &mut ColumnSet) {
    exprs(plan).into_iter().for_each(|expr| add_named(expr, set));
    each_id(plan, &mut |id, role| {
        if role == ColumnRole::Read {
            set.insert(id);
        }
    });
}

/// The columns that the operators of a plan make.
pub(crate) fn made(plan: &Logical) -> ColumnSet {
    let mut set = ColumnSet::default();
    add_made(plan, &mut set);
    set
}

fn add_made(plan: &Logical, set: &mut ColumnSet) {
    each_id(plan, &mut |id, role| {
        if role == ColumnRole::Made {
            set.insert(id);
        }
    });
    inputs(plan).into_iter().for_each(|input| add_made(input, set));
}

fn add_free(plan: &Logical, set: &mut ColumnSet) {
    let mut named = ColumnSet::default();
    each_operator(plan, &mut |operator| add_read(operator, &mut named));
    named.remove_all(&made(plan));
    set.add_all(&named);
}

/// The columns that a plan names but does not make.
pub(crate) fn free(plan: &Logical) -> ColumnSet {
    let mut set = ColumnSet::default();
    add_free(plan, &mut set);
    set
}

/// Calls `each` with every operator of a plan, an operator before its inputs.
pub(crate) fn each_operator<'a>(plan: &'a Logical, each: &mut dyn FnMut(&'a Logical)) {
    each(plan);
    inputs(plan).into_iter().for_each(|input| each_operator(input, each));
}

/// Replaces the columns in an expression, and in the plans of its subqueries, by expressions.
pub(crate) fn substitute(expr: &mut ScalarExpr, by: &HashMap<ColumnId, ScalarExpr>) {
    if by.is_empty() {
        return;
    }
    expr.rewrite(&mut |expr| match &mut expr.op {
        ExprOp::Column(id) => {
            if let Some(new) = by.get(&ColumnId(*id)) {
                *expr = new.clone();
            }
        }
        ExprOp::Subquery(subquery) => {
            substitute_plan(&mut subquery.plan, by);
            rename_ids(&mut subquery.columns, by);
        }
        _ => {}
    });
}

fn rename_ids(ids: &mut [ColumnId], by: &HashMap<ColumnId, ScalarExpr>) {
    for id in ids {
        if let Some(column) = by.get(id).and_then(ScalarExpr::as_column) {
            *id = ColumnId(column);
        }
    }
}

/// Replaces the columns that the operators of a plan read by expressions. Outside of expressions only a column can
/// replace a column.
pub(crate) fn substitute_plan(plan: &mut Logical, by: &HashMap<ColumnId, ScalarExpr>) {
    if by.is_empty() {
        return;
    }
    substitute_operator(plan, by);
    inputs_mut(plan).into_iter().for_each(|input| substitute_plan(input, by));
}

/// Replaces the columns that an operator itself reads, but not those of its inputs.
pub(crate) fn substitute_operator(plan: &mut Logical, by: &HashMap<ColumnId, ScalarExpr>) {
    if by.is_empty() {
        return;
    }
    exprs_mut(plan).into_iter().for_each(|expr| substitute(expr, by));
    each_id_mut(plan, &mut |id, role| {
        if role == ColumnRole::Read {
            rename_ids(std::slice::from_mut(id), by);
        }
    });
}

/// Gives every column that the plan makes a new number, and returns the new number of each. Two uses of one plan must
/// not share numbers.
pub(crate) fn renumber(plan: &mut Logical, columns: &mut ColumnNames) -> HashMap<ColumnId, ColumnId> {
    let mut numbers = HashMap::new();
    renumber_made(plan, columns, &mut numbers);
    // First rename where columns are made, then everywhere they are read.
    let by = numbers.iter().map(|(old, new)| (*old, columns.expr(*new))).collect();
    substitute_plan(plan, &by);
    numbers
}

/// Renames columns that a plan makes or reads. The plan must not contain subqueries.
pub(crate) fn rename(plan: &mut Logical, columns: &ColumnNames, by: &HashMap<ColumnId, ColumnId>) {
    let exprs = by.iter().map(|(old, new)| (*old, columns.expr(*new))).collect();
    substitute_plan(plan, &exprs);
    rename_made(plan, by);
}

fn rename_made(plan: &mut Logical, by: &HashMap<ColumnId, ColumnId>) {
    each_id_mut(plan, &mut |id, role| {
        if role == ColumnRole::Made {
            *id = by.get(id).copied().unwrap_or(*id);
        }
    });
    inputs_mut(plan).into_iter().for_each(|input| rename_made(input, by));
}

fn renumber_made(plan: &mut Logical, columns: &mut ColumnNames, numbers: &mut HashMap<ColumnId, ColumnId>) {
    each_id_mut(plan, &mut |id, role| {
        if role == ColumnRole::Made {
            let new = copy_column(columns, *id);
            numbers.insert(*id, new);
            *id = new;
        }
    });
    // Plans of subqueries make columns too.
    for expr in exprs_mut(plan) {
        expr.rewrite(&mut |expr| {
            if let ExprOp::Subquery(subquery) = &mut expr.op {
                renumber_made(&mut subquery.plan, columns, numbers);
            }
        });
    }
    inputs_mut(plan).into_iter().for_each(|input| renumber_made(input, columns, numbers));
}

/// Adds a new column with the name and type of another one.
pub(crate) fn copy_column(columns: &mut ColumnNames, of: ColumnId) -> ColumnId {
    let info = columns.get(of).clone();
    columns.add(info.name, info.kind)
}

/// Whether an expression contains a subquery.
pub(crate) fn has_subquery(expr: &ScalarExpr) -> bool {
    expr.any(&|expr| matches!(expr.op, ExprOp::Subquery(_)))
}

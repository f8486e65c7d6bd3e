//! Simplifies comparisons whose operands are never NULL.
//!
//! One pass from the bottom knows which columns are never NULL. For such columns, `a IS NOT DISTINCT FROM b` becomes `a
//! = b`, and a three-valued comparison of a mark or anti join becomes a plain condition.

use rowmill_base::Result;
use rowmill_plan::logical::{LogicalGroup, LogicalJoinKind, LogicalWindowFunction};
use rowmill_plan::{AggregateRole, ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::facts::{add_required, is_volatile};
use super::walk::{each_operator, output};
use crate::column_set::ColumnSet;

/// Simplifies the comparisons of a plan whose columns are never NULL.
pub(crate) fn simplify_comparisons(plan: &mut Logical, context: &RewriteContext<'_>) -> Result<()> {
    let mut is_wanted = false;
    each_operator(plan, &mut |operator| {
        is_wanted |= match operator {
            Logical::Join(join) => !join.compared.is_empty() || join.conditions.iter().any(is_null_safe),
            Logical::Filter { conditions, .. } => conditions.iter().any(is_null_safe),
            _ => false,
        }
    });
    if is_wanted {
        columns_with_values(plan, context);
    }
    Ok(())
}

fn is_null_safe(condition: &ScalarExpr) -> bool {
    matches!(condition.op, ExprOp::IsDistinct { negated: true, .. })
}

fn is_nullable(expr: &ScalarExpr, full: &ColumnSet) -> bool {
    rowmill_expr::fold::is_nullable(expr, &|id| !full.contains(ColumnId(id)))
}

fn simplify(conditions: &mut [ScalarExpr], full: &ColumnSet) {
    for condition in conditions {
        if let ExprOp::IsDistinct { operands, negated: true } = &condition.op
            && (!is_nullable(&operands[0], full) || !is_nullable(&operands[1], full))
        {
            let [left, right] = (**operands).clone();
            *condition = ScalarExpr::compare(left, CompareOp::Equal, right);
        }
    }
}

/// The columns of a plan that are never NULL. Simplifies comparisons on the way.
pub(crate) fn columns_with_values(plan: &mut Logical, context: &RewriteContext<'_>) -> ColumnSet {
    match plan {
        Logical::Scan(scan) => {
            let mut full = ColumnSet::default();
            if let Some(table) = context.tables.get(scan.table) {
                let columns = &table.table().columns;
                let is_full = |at: usize| columns.get(at).is_some_and(|column| !column.nullable);
                full = scan.columns.iter().filter(|(_, at)| is_full(*at)).map(|(id, _)| *id).collect();
            }
            add_required(&scan.conditions, &mut full);
            full
        }
        Logical::Source(source) => {
            let mut full = ColumnSet::default();
            add_required(&source.conditions, &mut full);
            full
        }
        Logical::Values { columns, rows } => {
            let none = ColumnSet::default();
            let is_full = |at: &usize| rows.iter().all(|row| !is_nullable(&row[*at], &none));
            (0..columns.len()).filter(is_full).map(|at| columns[at]).collect()
        }
        Logical::Filter { input, conditions } => {
            let mut full = columns_with_values(input, context);
            simplify(conditions, &full);
            add_required(conditions, &mut full);
            full
        }
        Logical::Map { input, exprs } => {
            let mut full = columns_with_values(input, context);
            let new: Vec<_> = exprs.iter().filter(|(_, expr)| !is_nullable(expr, &full)).map(|(id, _)| *id).collect();
            new.into_iter().for_each(|id| {
                full.insert(id);
            });
            full
        }
        Logical::Join(join) => {
            let left = columns_with_values(&mut join.left, context);
            let right = columns_with_values(&mut join.right, context);
            let mut full = left.clone();
            full.add_all(&right);
            simplify(&mut join.conditions, &full);
            let compared = std::mem::take(&mut join.compared);
            // All parts form one comparison, so a NULL part with a false part is false. We may split it only if no part
            // can be NULL.
            match compared.iter().any(|part| is_nullable(part, &full) || is_volatile(part)) {
                true => join.compared = compared,
                false => join.conditions.extend(compared),
            }
            match join.kind {
                LogicalJoinKind::Inner => add_required(&join.conditions, &mut full),
                LogicalJoinKind::Left | LogicalJoinKind::Single | LogicalJoinKind::Anti => return left,
                LogicalJoinKind::Full => return ColumnSet::default(),
                LogicalJoinKind::Semi => {
                    add_required(&join.conditions, &mut full);
                    full.remove_all(&output(&join.right));
                }
                LogicalJoinKind::Mark(mark) => {
                    full = left;
                    if join.compared.is_empty() {
                        full.insert(mark);
                    }
                }
            }
            full
        }
        Logical::Group(group) => {
            let input = columns_with_values(&mut group.input, context);
            group_columns(group, &input)
        }
        Logical::Window(window) => {
            let mut full = columns_with_values(&mut window.input, context);
            for (id, call) in &window.calls {
                if matches!(call.function, LogicalWindowFunction::Rank(_)) {
                    full.insert(*id);
                }
            }
            full
        }
        Logical::Distinct { input, columns, on } => {
            let full = columns_with_values(input, context);
            match on {
                true => full,
                false => columns.iter().copied().filter(|id| full.contains(*id)).collect(),
            }
        }
        Logical::SetOperation(operation) => {
            let inputs: Vec<_> =
                operation.inputs.iter_mut().map(|(input, own)| (columns_with_values(input, context), own)).collect();
            let is_full = |at: &usize| inputs.iter().all(|(full, own)| full.contains(own[*at]));
            (0..operation.columns.len()).filter(is_full).map(|at| operation.columns[at]).collect()
        }
        Logical::Recursive { base, step, .. } => {
            columns_with_values(base, context);
            columns_with_values(step, context);
            ColumnSet::default()
        }
        Logical::OrderedJoin(join) => {
            let left = columns_with_values(&mut join.left, context);
            columns_with_values(&mut join.right, context);
            left
        }
        Logical::Fill(fill) => {
            let full = columns_with_values(&mut fill.input, context);
            fill.keys.iter().copied().chain([fill.bucket]).filter(|id| full.contains(*id)).collect()
        }
        Logical::RecursiveRows { .. } | Logical::OuterRow { .. } | Logical::Shared { .. } => ColumnSet::default(),
        Logical::Unnest { input, ordinality, outer, .. } => {
            let mut full = columns_with_values(input, context);
            if let (Some(id), false) = (ordinality, outer) {
                full.insert(*id);
            }
            full
        }
        Logical::Sort { input, .. } | Logical::Limit { input, .. } | Logical::SingleRow { input, .. } => {
            columns_with_values(input, context)
        }
    }
}

fn group_columns(group: &LogicalGroup, input: &ColumnSet) -> ColumnSet {
    let mut full = ColumnSet::default();
    if group.sets.is_none() {
        for (id, key) in &group.keys {
            if !is_nullable(key, input) {
                full.insert(*id);
            }
        }
    }
    for (id, call) in &group.aggregates {
        use AggregateRole::{Average, Max, Min, Sum};
        let keeps_values = matches!(call.function.role, Sum | Average | Min | Max)
            && !group.keys.is_empty()
            && group.sets.is_none()
            && call.filter.is_none()
            && call.arguments.iter().all(|argument| !is_nullable(argument, input));
        if call.function.is_zero_of_nothing || keeps_values {
            full.insert(*id);
        }
    }
    full
}

//! Formats plans as short texts.

use std::fmt::Write;

use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};

use crate::optimizer::walk::inputs;

/// Formats a plan with one operator per line.
pub(super) fn text(plan: &Logical) -> String {
    let mut out = String::new();
    write_plan(plan, 0, &mut out);
    out
}

fn ids(ids: &[ColumnId]) -> String {
    ids.iter().map(|id| format!("#{}", id.0)).collect::<Vec<_>>().join(", ")
}

fn exprs<'a>(all: impl IntoIterator<Item = &'a ScalarExpr>) -> String {
    all.into_iter().map(expr).collect::<Vec<_>>().join(", ")
}

fn made<'a>(all: impl IntoIterator<Item = &'a (ColumnId, ScalarExpr)>) -> String {
    all.into_iter().map(|(id, of)| format!("#{}={}", id.0, expr(of))).collect::<Vec<_>>().join(", ")
}

fn expr(of: &ScalarExpr) -> String {
    let list = |all: &[ScalarExpr], by: &str| format!("({})", all.iter().map(expr).collect::<Vec<_>>().join(by));
    match &of.op {
        ExprOp::Column(id) => format!("#{id}"),
        ExprOp::Literal(value) => match (value.as_bool(), value.as_bigint()) {
            (Some(value), _) => value.to_string(),
            (_, Some(value)) => value.to_string(),
            _ if value.is_null() => "NULL".to_string(),
            _ => format!("{:?}", value.array()),
        },
        ExprOp::Compare(op, pair) => format!("{} {op} {}", expr(&pair[0]), expr(&pair[1])),
        ExprOp::IsDistinct { operands, negated } => {
            let not = if *negated { "NOT " } else { "" };
            format!("{} IS {not}DISTINCT FROM {}", expr(&operands[0]), expr(&operands[1]))
        }
        ExprOp::Arithmetic(op, pair) => format!("{op:?}({}, {})", expr(&pair[0]), expr(&pair[1])),
        ExprOp::And(all) => list(all, " AND "),
        ExprOp::Or(all) => list(all, " OR "),
        ExprOp::Not(of) => format!("NOT ({})", expr(of)),
        ExprOp::Coalesce(all) => format!("coalesce{}", list(all, ", ")),
        ExprOp::IsNull { value, negated } => format!("{} IS {}NULL", expr(value), if *negated { "NOT " } else { "" }),
        ExprOp::Case { whens, otherwise } => {
            let whens: Vec<_> = whens.iter().map(|(a, b)| format!("WHEN {} THEN {}", expr(a), expr(b))).collect();
            format!("CASE {} ELSE {} END", whens.join(" "), exprs(otherwise.as_deref()))
        }
        ExprOp::InList { value, list: items, negated } => {
            format!("{} {}IN {}", expr(value), if *negated { "NOT " } else { "" }, list(items, ", "))
        }
        ExprOp::Subquery(subquery) => {
            let plan = text(&subquery.plan).replace('\n', "\n      ");
            format!("{:?} {} of {}\n      [{plan}]", subquery.kind, exprs(&subquery.left), ids(&subquery.columns))
        }
        other => format!("{other:?}"),
    }
}

fn write_plan(plan: &Logical, depth: usize, out: &mut String) {
    let line = match plan {
        Logical::Scan(scan) => {
            let columns: Vec<_> = scan.columns.iter().map(|(id, at)| format!("#{}={at}", id.0)).collect();
            format!("Scan {} [{}] {}", scan.table, columns.join(", "), exprs(&scan.conditions))
        }
        Logical::Source(source) => format!("Source {}", source.source),
        Logical::Values { columns, rows } => {
            format!(
                "Values [{}] {}",
                ids(columns),
                rows.iter().map(|row| format!("({})", exprs(row))).collect::<String>()
            )
        }
        Logical::Filter { conditions, .. } => format!("Filter {}", exprs(conditions)),
        Logical::Map { exprs, .. } => format!("Map {}", made(exprs)),
        Logical::Join(join) => {
            format!("Join {:?} on [{}] compared [{}]", join.kind, exprs(&join.conditions), exprs(&join.compared))
        }
        Logical::Group(group) => {
            let calls: Vec<_> = group
                .aggregates
                .iter()
                .map(|(id, call)| format!("#{}={}({})", id.0, call.function.name, exprs(&call.arguments)))
                .collect();
            format!("Group by [{}] sets {:?} [{}]", made(&group.keys), group.sets, calls.join(", "))
        }
        Logical::Window(window) => {
            let calls: Vec<_> = window.calls.iter().map(|(id, _)| *id).collect();
            let order = exprs(window.order.iter().map(|key| &key.expr));
            format!("Window [{}] by [{}] order [{order}] top {:?}", ids(&calls), exprs(&window.partition), window.top)
        }
        Logical::Sort { keys, .. } => format!("Sort {}", exprs(keys.iter().map(|key| &key.expr))),
        Logical::Limit { skip, rows, .. } => format!("Limit skip {} rows {}", exprs(skip), exprs(rows)),
        Logical::Distinct { columns, on, .. } => format!("Distinct on {on} [{}]", ids(columns)),
        Logical::SetOperation(operation) => {
            let inputs: Vec<_> = operation.inputs.iter().map(|(_, own)| ids(own)).collect();
            format!("{:?} all {} [{}] of {inputs:?}", operation.kind, operation.all, ids(&operation.columns))
        }
        Logical::Recursive { number, base_columns, step_columns, columns, distinct, .. } => {
            let (base, step) = (ids(base_columns), ids(step_columns));
            format!("Recursive {number} [{}] of [{base}] [{step}] distinct {distinct}", ids(columns))
        }
        Logical::RecursiveRows { number, columns } => format!("RecursiveRows {number} [{}]", ids(columns)),
        Logical::OuterRow { columns } => format!("OuterRow [{}]", ids(columns)),
        Logical::Shared { number, input_columns, columns, .. } => {
            format!("Shared {number} [{}] of [{}]", ids(columns), ids(input_columns))
        }
        Logical::Unnest { lists, ordinality, outer, .. } => {
            format!("Unnest {} ordinality {ordinality:?} outer {outer}", made(lists))
        }
        Logical::SingleRow { by, .. } => format!("SingleRow by [{}]", ids(by)),
        Logical::OrderedJoin(join) => format!("OrderedJoin inner {}", join.inner),
        Logical::Fill(fill) => format!("Fill by [{}]", ids(&fill.keys)),
    };
    let _ = writeln!(out, "{:1$}{line}", "", depth * 2);
    match plan {
        Logical::Shared { input, .. } => write_plan(input, depth + 1, out),
        _ => inputs(plan).into_iter().for_each(|input| write_plan(input, depth + 1, out)),
    }
}

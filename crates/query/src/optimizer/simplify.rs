//! Rewrites expressions to simpler forms that give the same result, including NULL.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_expr::fold::fold;
use rowmill_plan::{CompareOp, ExprOp, Logical, ScalarExpr};

use super::facts::{is_movable, is_volatile, opposite};
use super::narrow::narrow;
use super::thresholds::compare_column;
use super::walk::{exprs_mut, inputs_mut};

/// Simplifies all expressions of a plan and of its subqueries.
pub(crate) fn simplify_plan(plan: &mut Logical) -> Result<()> {
    for expr in exprs_mut(plan) {
        simplify(expr)?;
    }
    for input in inputs_mut(plan) {
        simplify_plan(input)?;
    }
    Ok(())
}

/// Simplifies an expression.
pub(crate) fn simplify(expr: &mut ScalarExpr) -> Result<()> {
    if expr.operands().is_empty() && !matches!(expr.op, ExprOp::Subquery(_)) {
        return Ok(());
    }
    let mut result = Ok(());
    fold(expr);
    push_not(expr);
    expr.rewrite(&mut |expr| {
        if let ExprOp::Subquery(subquery) = &mut expr.op
            && let Err(error) = simplify_plan(&mut subquery.plan)
        {
            result = Err(error);
        }
        simplify_one(expr);
        narrow(expr);
        compare_column(expr);
    });
    result
}

/// Pushes NOT down to operators that can absorb it.
fn push_not(expr: &mut ScalarExpr) {
    if let ExprOp::Not(inner) = &mut expr.op {
        let inner = std::mem::replace(&mut **inner, ScalarExpr::literal(true));
        *expr = negation(inner);
    }
    expr.operands_mut().into_iter().for_each(push_not);
}

/// `NOT expr`. We compare by a total order of all values, so every comparison has an opposite.
fn negation(expr: ScalarExpr) -> ScalarExpr {
    let kind = DataType::Boolean;
    match expr.op {
        ExprOp::Not(inner) => *inner,
        ExprOp::And(all) => ScalarExpr::new(kind, ExprOp::Or(all.into_iter().map(negation).collect())),
        ExprOp::Or(all) => ScalarExpr::new(kind, ExprOp::And(all.into_iter().map(negation).collect())),
        ExprOp::Compare(op, pair) => ScalarExpr::new(kind, ExprOp::Compare(opposite(op), pair)),
        ExprOp::IsDistinct { operands, negated } => {
            ScalarExpr::new(kind, ExprOp::IsDistinct { operands, negated: !negated })
        }
        ExprOp::IsNull { value, negated } => ScalarExpr::new(kind, ExprOp::IsNull { value, negated: !negated }),
        ExprOp::InList { value, list, negated } => {
            ScalarExpr::new(kind, ExprOp::InList { value, list, negated: !negated })
        }
        ExprOp::Like { value, pattern, escape, negated, ignore_case } => {
            ScalarExpr::new(kind, ExprOp::Like { value, pattern, escape, negated: !negated, ignore_case })
        }
        op => ScalarExpr { kind: expr.kind, op }.negated(),
    }
}

fn simplify_one(expr: &mut ScalarExpr) {
    let simpler = match &mut expr.op {
        ExprOp::Compare(op, pair) => {
            let is_null = |side: &ScalarExpr| side.as_constant().is_some_and(|value| value.is_null());
            if (is_null(&pair[0]) && is_movable(&pair[1])) || (is_null(&pair[1]) && is_movable(&pair[0])) {
                Some(ScalarExpr::null(DataType::Boolean))
            } else if is_fixed(&pair[0]) && !is_fixed(&pair[1]) {
                pair.swap(0, 1);
                *op = op.flipped();
                None
            } else {
                None
            }
        }
        ExprOp::InList { value, list, negated } if list.len() == 1 => {
            let op = if *negated { CompareOp::NotEqual } else { CompareOp::Equal };
            Some(ScalarExpr::compare((**value).clone(), op, list.remove(0)))
        }
        ExprOp::Or(all) => {
            flatten(all, |op| match op {
                ExprOp::Or(inner) => Ok(inner),
                other => Err(other),
            });
            lists_of_equalities(all);
            match all.len() {
                1 => Some(all.remove(0)),
                _ => common_conjuncts(all),
            }
        }
        ExprOp::And(all) => {
            flatten(all, |op| match op {
                ExprOp::And(inner) => Ok(inner),
                other => Err(other),
            });
            let mut at = 0;
            while at < all.len() {
                let is_repeated = is_movable(&all[at]) && all[..at].contains(&all[at]);
                if is_repeated {
                    all.remove(at);
                } else {
                    at += 1;
                }
            }
            (all.len() == 1).then(|| all.remove(0))
        }
        _ => None,
    };
    if let Some(simpler) = simpler {
        *expr = simpler;
    }
}

fn is_fixed(expr: &ScalarExpr) -> bool {
    matches!(expr.op, ExprOp::Literal(_) | ExprOp::Parameter(_))
}

/// Merges the operands of a nested AND or OR into the outer one.
fn flatten(all: &mut Vec<ScalarExpr>, inner: fn(ExprOp) -> Result<Vec<ScalarExpr>, ExprOp>) {
    let mut flat = Vec::with_capacity(all.len());
    for part in std::mem::take(all) {
        match inner(part.op) {
            Ok(mut parts) => flat.append(&mut parts),
            Err(op) => flat.push(ScalarExpr { kind: part.kind, op }),
        }
    }
    *all = flat;
}

/// Values of a list up to which we remove duplicates by comparing every pair: 2,016 pairs at most.
const COMPARED_VALUES_MAX: usize = 64;

/// Rewrites `x = 1 OR x = 2` to `x IN (1, 2)`.
fn lists_of_equalities(all: &mut Vec<ScalarExpr>) {
    let mut at = 0;
    while at + 1 < all.len() {
        let Some((value, _)) = fixed_values(&all[at]) else {
            at += 1;
            continue;
        };
        let value = value.clone();
        let mut values: Vec<ScalarExpr> = Vec::new();
        let mut parts = 0;
        for part in &all[at..] {
            if let Some((other, more)) = fixed_values(part)
                && *other == value
            {
                parts += 1;
                for item in more {
                    // The evaluation of a long list hashes its values anyway, so we leave its duplicates in.
                    if values.len() > COMPARED_VALUES_MAX || !values.contains(item) {
                        values.push(item.clone());
                    }
                }
            }
        }
        if parts > 1 {
            let mut position = 0;
            all.retain(|part| {
                position += 1;
                position <= at + 1 || fixed_values(part).is_none_or(|(other, _)| *other != value)
            });
            all[at] = match values.len() {
                1 => ScalarExpr::compare(value, CompareOp::Equal, values.remove(0)),
                _ => {
                    let in_list = ExprOp::InList { value: Box::new(value), list: values, negated: false };
                    ScalarExpr::new(DataType::Boolean, in_list)
                }
            };
        }
        at += 1;
    }
}

/// The value that a condition compares with literals or parameters, and those.
fn fixed_values(condition: &ScalarExpr) -> Option<(&ScalarExpr, &[ScalarExpr])> {
    let (value, list) = match &condition.op {
        ExprOp::Compare(CompareOp::Equal, pair) => (&pair[0], &pair[1..]),
        ExprOp::InList { value, list, negated: false } => (&**value, list.as_slice()),
        _ => return None,
    };
    (is_movable(value) && !is_fixed(value) && list.iter().all(is_fixed)).then_some((value, list))
}

/// Rewrites `(a AND b) OR (a AND c)` to `a AND (b OR c)`.
fn common_conjuncts(all: &[ScalarExpr]) -> Option<ScalarExpr> {
    let parts = |expr: &ScalarExpr| match &expr.op {
        ExprOp::And(parts) => parts.clone(),
        _ => vec![expr.clone()],
    };
    if !all.iter().any(|branch| matches!(branch.op, ExprOp::And(_))) || all.iter().any(is_volatile) {
        return None;
    }
    let common: Vec<_> = parts(&all[0])
        .into_iter()
        .filter(|part| is_movable(part) && all[1..].iter().all(|other| contains_conjunct(other, part)))
        .collect();
    if common.is_empty() {
        return None;
    }
    let mut branches = Vec::new();
    for branch in all.iter() {
        let rest: Vec<_> = parts(branch).into_iter().filter(|part| !common.contains(part)).collect();
        if rest.is_empty() {
            // This branch is true if the common part is true.
            return Some(ScalarExpr::and(common));
        }
        branches.push(ScalarExpr::and(rest));
    }
    let mut whole = common;
    whole.push(ScalarExpr::or(branches));
    Some(ScalarExpr::and(whole))
}

fn contains_conjunct(expr: &ScalarExpr, part: &ScalarExpr) -> bool {
    match &expr.op {
        ExprOp::And(parts) => parts.contains(part),
        _ => expr == part,
    }
}

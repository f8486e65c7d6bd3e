//! Moves conditions down, towards the scans.
//!
//! One pass from the top carries the conditions of filters along and leaves each condition where it cannot go further.
//! A condition that can fail or is volatile must stay where it was written, after the conditions that cannot fail. On
//! the way, outer joins become inner joins if a condition drops the rows that they add. Mark joins become semi or anti
//! joins if a condition is their mark. Conditions on one column of an equality are copied to the other column.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::logical::{LogicalGroup, LogicalJoin, LogicalJoinKind, SetOperationKind};
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::facts::{add_required, equality, is_movable, is_never_true, is_volatile, rejects_nulls, size, split_and};
use super::simplify::simplify;
use super::walk::{inputs_mut, named, output, substitute, take};
use crate::column_set::ColumnSet;

/// Pushes all conditions of a plan down.
pub(crate) fn push_conditions(plan: &mut Logical, _context: &mut RewriteContext<'_>) -> Result<()> {
    let whole = take(plan);
    *plan = push(whole, Vec::new(), &ColumnSet::default());
    Ok(())
}

/// Keeps the rows of `plan` for which `conditions` are true; all of them must be movable. An operator above drops every
/// row that has NULL in a column of `required`.
fn push(mut plan: Logical, conditions: Vec<ScalarExpr>, required: &ColumnSet) -> Logical {
    if conditions.iter().any(is_never_true) {
        // No row passes these conditions, so we drop the operators below.
        return Logical::no_rows(output(&plan).iter().collect());
    }
    match plan {
        Logical::Filter { input, conditions: own } => {
            let (movable, rest) = split_movable(split_and(own));
            // The conditions of this filter come before those from above.
            let mut all = movable;
            for condition in conditions {
                if !all.contains(&condition) {
                    all.push(condition);
                }
            }
            let mut required = required.clone();
            add_required(&rest, &mut required);
            Logical::filter(push(*input, all, &required), rest)
        }
        Logical::Map { input, exprs } => push_map(*input, exprs, conditions, required),
        Logical::Join(join) => push_join(join, conditions, required),
        Logical::Group(group) => push_group(group, conditions),
        Logical::Window(mut window) => {
            let keys = window.partition.iter().filter_map(ScalarExpr::as_column).map(ColumnId).collect();
            let (below, above) = split_by(conditions, &keys);
            let input = take(&mut window.input);
            *window.input = push(input, below, &ColumnSet::default());
            Logical::filter(Logical::Window(window), above)
        }
        Logical::Sort { input, keys } => Logical::Sort { input: Box::new(push(*input, conditions, required)), keys },
        Logical::Distinct { input, columns, on } => {
            let keys = columns.iter().copied().collect();
            let (below, above) = split_by(conditions, &keys);
            let input = Box::new(push(*input, below, &ColumnSet::default()));
            Logical::filter(Logical::Distinct { input, columns, on }, above)
        }
        Logical::SetOperation(mut operation) => {
            let columns = &operation.columns;
            for (at, (input, own)) in operation.inputs.iter_mut().enumerate() {
                // A row of the right side of EXCEPT only removes rows, so we need not filter it.
                let is_needed = operation.kind != SetOperationKind::Except || at == 0;
                let by: HashMap<_, _> = columns.iter().copied().zip(own.iter().copied()).collect();
                let renamed = conditions.iter().filter(|_| is_needed).map(|condition| renamed(condition, &by));
                *input = push(take(input), renamed.collect(), &ColumnSet::default());
            }
            Logical::SetOperation(operation)
        }
        Logical::Unnest { input, lists, ordinality, mut outer } => {
            let made: ColumnSet = lists.iter().map(|(id, _)| *id).chain(ordinality).collect();
            // The rows that OUTER adds have NULL in the new columns. Drop OUTER if those rows are dropped anyway.
            outer &= !made.intersects(required) && !conditions.iter().any(|condition| rejects_nulls(condition, &made));
            let (above, below) = conditions.into_iter().partition(|condition| named(condition).intersects(&made));
            let input = Box::new(push(*input, below, required));
            Logical::filter(Logical::Unnest { input, lists, ordinality, outer }, above)
        }
        Logical::SingleRow { input, by } => {
            let keys = by.iter().copied().collect();
            let (below, above) = split_by(conditions, &keys);
            Logical::filter(
                Logical::SingleRow { input: Box::new(push(*input, below, &ColumnSet::default())), by },
                above,
            )
        }
        Logical::OrderedJoin(mut join) => {
            // A condition on the right side would change which rows are met, except on a key: the left row has the
            // same.
            let (below, above) = split_by(conditions, &output(&join.left));
            let mut keys: HashMap<ColumnId, ColumnId> = HashMap::new();
            for (left, right) in &join.on {
                if let (Some(left), Some(right)) = (left.as_column(), right.as_column()) {
                    keys.insert(ColumnId(left), ColumnId(right));
                }
            }
            let is_of_keys = |condition: &&ScalarExpr| named(condition).iter().all(|id| keys.contains_key(&id));
            let of_right = below.iter().filter(is_of_keys).map(|condition| renamed(condition, &keys)).collect();
            let (left, right) = (take(&mut join.left), take(&mut join.right));
            *join.left = push(left, below, &ColumnSet::default());
            *join.right = push(right, of_right, &ColumnSet::default());
            Logical::filter(Logical::OrderedJoin(join), above)
        }
        Logical::Fill(mut fill) => {
            // A row that is added has keys of rows of the input, but no other values of theirs.
            let keys = fill.keys.iter().copied().collect();
            let (below, above) = split_by(conditions, &keys);
            let input = take(&mut fill.input);
            *fill.input = push(input, below, &ColumnSet::default());
            Logical::filter(Logical::Fill(fill), above)
        }
        Logical::Scan(mut scan) => {
            add_new(&mut scan.conditions, conditions);
            if !drop_implied(&mut scan.conditions) {
                return Logical::no_rows(output(&Logical::Scan(scan)).iter().collect());
            }
            Logical::Scan(scan)
        }
        Logical::Source(mut source) => {
            add_new(&mut source.conditions, conditions);
            Logical::Source(source)
        }
        Logical::Limit { .. } | Logical::Recursive { .. } => {
            inputs_mut(&mut plan)
                .into_iter()
                .for_each(|input| *input = push(take(input), Vec::new(), &ColumnSet::default()));
            Logical::filter(plan, conditions)
        }
        Logical::Values { .. } | Logical::RecursiveRows { .. } | Logical::OuterRow { .. } | Logical::Shared { .. } => {
            Logical::filter(plan, conditions)
        }
    }
}

/// Adds the conditions that are not there yet.
fn add_new(conditions: &mut Vec<ScalarExpr>, more: Vec<ScalarExpr>) {
    for condition in more {
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
}

/// Drops conditions on a column alone that follow from an equality of it with a literal. For example, `x = 3` implies
/// `x IN (3, 4)`. Together they would be taken for independent conditions. Returns false if no row can meet all of
/// them.
fn drop_implied(conditions: &mut Vec<ScalarExpr>) -> bool {
    let fixed: Vec<(usize, ColumnId, ScalarExpr)> = conditions
        .iter()
        .enumerate()
        .filter_map(|(place, condition)| match &condition.op {
            ExprOp::Compare(CompareOp::Equal, pair) => {
                // Equal floats may differ in their bits.
                let is_fixed = pair[1].as_constant().is_some() && !pair[0].kind.is_floating();
                Some((place, ColumnId(pair[0].as_column().filter(|_| is_fixed)?), pair[1].clone()))
            }
            _ => None,
        })
        .collect();
    let (mut is_implied, mut may_have_rows) = (vec![false; conditions.len()], true);
    for (place, column, value) in fixed.into_iter().filter(|_| conditions.len() > 1) {
        let by = HashMap::from([(column, value)]);
        for (other, condition) in conditions.iter().enumerate() {
            let is_on_column = named(condition).iter().eq([column]) && is_movable(condition);
            if other == place || is_implied[place] || !is_on_column {
                continue;
            }
            match substituted(condition.clone(), &by) {
                None => is_implied[other] = true,
                Some(left) => may_have_rows &= !is_never_true(&left),
            }
        }
    }
    let mut place = 0;
    conditions.retain(|_| {
        place += 1;
        !is_implied[place - 1]
    });
    may_have_rows
}

/// Splits conditions into those that name at least one of `columns` and no other column, and the rest.
fn split_by(conditions: Vec<ScalarExpr>, columns: &ColumnSet) -> (Vec<ScalarExpr>, Vec<ScalarExpr>) {
    conditions.into_iter().partition(|condition| {
        let named = named(condition);
        !named.is_empty() && named.is_subset(columns)
    })
}

fn renamed(condition: &ScalarExpr, by: &HashMap<ColumnId, ColumnId>) -> ScalarExpr {
    let mut condition = condition.clone();
    condition.rewrite(&mut |expr| {
        if let ExprOp::Column(id) = &mut expr.op {
            *id = by.get(&ColumnId(*id)).map_or(*id, |new| new.0);
        }
    });
    condition
}

fn push_map(
    input: Logical,
    exprs: Vec<(ColumnId, ScalarExpr)>,
    conditions: Vec<ScalarExpr>,
    required: &ColumnSet,
) -> Logical {
    if conditions.is_empty() && required.is_empty() {
        return merged_maps(push(input, conditions, required), exprs);
    }
    let made: ColumnSet = exprs.iter().map(|(id, _)| *id).collect();
    // Directly above a scan, pushing the condition would only compute its expression twice.
    let is_leaf = is_leaf(&input);
    let mut by = HashMap::new();
    for (id, expr) in &exprs {
        if is_movable(expr) && (!is_leaf || size(expr) == 1) {
            by.insert(*id, expr.clone());
        }
    }
    let (mut below, mut above) = (Vec::new(), Vec::new());
    for condition in conditions {
        let mut named = named(&condition);
        if !named.intersects(&made) {
            below.push(condition);
            continue;
        }
        // If only replaceable columns of the map remain, the condition can move below it.
        by.keys().for_each(|id| named.remove(*id));
        match named.intersects(&made) {
            true => above.push(condition),
            false => below.extend(substituted(condition, &by)),
        }
    }
    let mut required = required.clone();
    add_required(&above, &mut required);
    for (id, expr) in &exprs {
        if required.contains(*id) {
            let value = Box::new(expr.clone());
            let has_value = ExprOp::IsNull { value, negated: true };
            add_required(&[ScalarExpr::new(DataType::Boolean, has_value)], &mut required);
        }
    }
    Logical::filter(merged_maps(push(input, below, &required), exprs), above)
}

/// `condition` with columns replaced by their expressions; `None` if it is always true then. For example, a branch of a
/// UNION ALL that gives the constant 'web' has no rows where its column must be 'store'.
fn substituted(mut condition: ScalarExpr, by: &HashMap<ColumnId, ScalarExpr>) -> Option<ScalarExpr> {
    substitute(&mut condition, by);
    // A condition that cannot be simplified stays as it is.
    let mut simpler = condition.clone();
    if simplify(&mut simpler).is_ok() {
        condition = simpler;
    }
    let is_true = condition.as_constant().is_some_and(|value| value.as_bool() == Some(true));
    (!is_true).then_some(condition)
}

/// A map over a plan. Merges it with the map below if it does not read the columns of that map.
fn merged_maps(mut input: Logical, mut exprs: Vec<(ColumnId, ScalarExpr)>) -> Logical {
    if let Logical::Map { exprs: own, .. } = &mut input {
        let made: ColumnSet = own.iter().map(|(id, _)| *id).collect();
        if !exprs.iter().any(|(_, expr)| named(expr).intersects(&made)) {
            // The maps are independent, so one operator can compute both.
            own.append(&mut exprs);
        }
    }
    Logical::map(input, exprs)
}

fn is_leaf(plan: &Logical) -> bool {
    match plan {
        Logical::Filter { input, .. } | Logical::Map { input, .. } => is_leaf(input),
        Logical::Scan(_) | Logical::Source(_) | Logical::Values { .. } | Logical::Shared { .. } => true,
        _ => false,
    }
}

fn push_group(mut group: LogicalGroup, conditions: Vec<ScalarExpr>) -> Logical {
    // Without keys there is always one group, and a key is NULL in the sets without it. Conditions cannot move below.
    let by: HashMap<_, _> = match group.sets {
        None => group.keys.iter().filter(|(_, key)| is_movable(key)).cloned().collect(),
        Some(_) => HashMap::new(),
    };
    let keys = by.keys().copied().collect();
    let (below, above) = split_by(conditions, &keys);
    let below = below.into_iter().filter_map(|condition| substituted(condition, &by)).collect();
    let input = take(&mut group.input);
    *group.input = push(input, below, &ColumnSet::default());
    Logical::filter(Logical::Group(group), above)
}

fn push_join(mut join: LogicalJoin, conditions: Vec<ScalarExpr>, required: &ColumnSet) -> Logical {
    let (mut left, mut right) = (output(&join.left), output(&join.right));
    let mut constant_marks = Vec::new();
    // First make the join stricter: an inner join lets more conditions through.
    if strengthen(&mut join, &conditions, required, &left, &right) {
        std::mem::swap(&mut left, &mut right);
    }
    let mut conditions = mark_to_semi(&mut join, conditions, &mut constant_marks);
    let mut own = split_and(std::mem::take(&mut join.conditions));
    if join.kind == LogicalJoinKind::Inner {
        // An equality further down may give us conditions on other inputs from a condition further up.
        gather(&mut join.left, &mut own);
        gather(&mut join.right, &mut own);
    }
    let (mut to_left, mut to_right, mut above, mut on) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    if join.kind == LogicalJoinKind::Inner {
        // The conditions of an inner join and of a filter above it are interchangeable.
        let (movable, rest) = split_movable(own);
        let (volatile, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_volatile);
        above.extend(volatile);
        let mut all = movable;
        all.append(&mut conditions);
        infer(&mut all);
        for condition in all {
            let named = named(&condition);
            if named.is_subset(&left) {
                to_left.push(condition);
            } else if named.is_subset(&right) {
                to_right.push(condition);
            } else if !on.contains(&condition) {
                to_left.extend(implied(&condition, &left));
                to_right.extend(implied(&condition, &right));
                on.push(condition);
            }
        }
        on.extend(rest);
    } else {
        // A condition on all rows of the left side also holds for the rows on the right that match them.
        let is_of_left = |condition: &&ScalarExpr| named(condition).is_subset(&left);
        let mut known: Vec<_> = conditions.iter().chain(&own).filter(is_of_left).cloned().collect();
        if own.iter().any(|condition| equality(condition).is_some()) {
            add_known(&join.left, &mut known);
        }
        if join.kind != LogicalJoinKind::Full {
            to_right.extend(inferred(&own, &known, Some(&right)));
        }
        if join.kind == LogicalJoinKind::Semi {
            to_left.extend(inferred(&own, &own, Some(&left)));
        }
        for condition in conditions {
            let is_left = join.kind != LogicalJoinKind::Full && named(&condition).is_subset(&left);
            if is_left { to_left.push(condition) } else { above.push(condition) }
        }
        for condition in own {
            let named = named(&condition);
            let is_movable = is_movable(&condition) && join.kind != LogicalJoinKind::Full;
            if is_movable && named.is_subset(&right) && !named.is_empty() {
                to_right.push(condition);
            } else if is_movable && join.kind == LogicalJoinKind::Semi && named.is_subset(&left) {
                to_left.push(condition);
            } else {
                on.push(condition);
            }
        }
    }
    join.conditions = on;
    let (left, right) = (take(&mut join.left), take(&mut join.right));
    // The columns of each side in which NULL makes a row useless.
    let (mut left_required, mut right_required) = (required.clone(), ColumnSet::default());
    if matches!(join.kind, LogicalJoinKind::Inner | LogicalJoinKind::Semi) {
        add_required(&join.conditions, &mut left_required);
    }
    match join.kind {
        LogicalJoinKind::Inner => right_required = left_required.clone(),
        LogicalJoinKind::Full => left_required = ColumnSet::default(),
        LogicalJoinKind::Left | LogicalJoinKind::Semi => add_required(&join.conditions, &mut right_required),
        _ => {}
    }
    if join.kind != LogicalJoinKind::Full {
        add_required(&above, &mut left_required);
    }
    *join.left = push(left, to_left, &left_required);
    *join.right = push(right, to_right, &right_required);
    Logical::filter(Logical::map(Logical::Join(join), constant_marks), above)
}

/// Splits conditions into those that may move and the rest. A condition that fails for all rows or for none, such as
/// `day >= ? - 20`, may move too, so it can become a range of a key. But it must stay if another condition without
/// columns, such as `? > 0`, may prevent the failure.
fn split_movable(conditions: Vec<ScalarExpr>) -> (Vec<ScalarExpr>, Vec<ScalarExpr>) {
    let may_be_guarded = conditions.iter().any(|condition| named(condition).is_empty());
    conditions.into_iter().partition(|condition| is_movable(condition) || !may_be_guarded && fails_for_all(condition))
}

/// Whether a condition compares a value of each row, which cannot fail, with a value that we compute once for all rows.
/// For example, `day >= ? - 20`.
fn fails_for_all(condition: &ScalarExpr) -> bool {
    let ExprOp::Compare(_, pair) = &condition.op else { return false };
    let is_fixed = |expr: &ScalarExpr| named(expr).is_empty() && !is_volatile(expr);
    matches!(&pair[..], [of_row, value] | [value, of_row] if is_movable(of_row) && is_fixed(value))
}

/// Takes the movable conditions out of a tree of inner joins and the filters between them.
fn gather(plan: &mut Logical, conditions: &mut Vec<ScalarExpr>) {
    let own = match plan {
        Logical::Filter { input, conditions: own } => {
            if !matches!(
                **input,
                Logical::Join(LogicalJoin { kind: LogicalJoinKind::Inner, .. }) | Logical::Filter { .. }
            ) {
                return;
            }
            gather(input, conditions);
            own
        }
        Logical::Join(join) if join.kind == LogicalJoinKind::Inner => {
            gather(&mut join.left, conditions);
            gather(&mut join.right, conditions);
            &mut join.conditions
        }
        _ => return,
    };
    let (movable, rest) = split_movable(split_and(std::mem::take(own)));
    conditions.extend(movable);
    *own = rest;
}

/// The condition on the columns of one side that follows from a disjunction. For example, `(l.a = 1 AND r.a = 2) OR
/// (l.a = 3 AND r.a = 4)` can be true only if `l.a IN (1, 3)`.
fn implied(condition: &ScalarExpr, side: &ColumnSet) -> Option<ScalarExpr> {
    let ExprOp::Or(branches) = &condition.op else { return None };
    let mut parts = Vec::with_capacity(branches.len());
    for branch in branches {
        let all = match &branch.op {
            ExprOp::And(all) => all.as_slice(),
            _ => std::slice::from_ref(branch),
        };
        let is_of_side = |part: &&ScalarExpr| {
            let named = named(part);
            !named.is_empty() && named.is_subset(side) && is_movable(part)
        };
        let own: Vec<_> = all.iter().filter(is_of_side).cloned().collect();
        if own.is_empty() {
            return None;
        }
        parts.push(ScalarExpr::and(own));
    }
    let mut implied = ScalarExpr::or(parts);
    simplify(&mut implied).ok()?;
    Some(implied)
}

/// Collects comparisons with constants that are true for all rows of a plan.
fn add_known(plan: &Logical, known: &mut Vec<ScalarExpr>) {
    let mut add = |conditions: &[ScalarExpr]| {
        known.extend(conditions.iter().filter(|condition| compared_column(condition).is_some()).cloned());
    };
    match plan {
        Logical::Scan(scan) => add(&scan.conditions),
        Logical::Filter { input, conditions } => {
            add(conditions);
            add_known(input, known);
        }
        Logical::Map { input, .. } | Logical::Sort { input, .. } => add_known(input, known),
        Logical::Join(join) => match join.kind {
            LogicalJoinKind::Full => {}
            LogicalJoinKind::Inner => {
                add(&join.conditions);
                add_known(&join.left, known);
                add_known(&join.right, known);
            }
            _ => add_known(&join.left, known),
        },
        _ => {}
    }
}

/// Makes an outer join stricter if the conditions above drop the rows that it adds. Returns whether it swapped sides.
fn strengthen(
    join: &mut LogicalJoin,
    conditions: &[ScalarExpr],
    required: &ColumnSet,
    left: &ColumnSet,
    right: &ColumnSet,
) -> bool {
    let rejects = |columns: &ColumnSet| {
        required.intersects(columns) || conditions.iter().any(|condition| rejects_nulls(condition, columns))
    };
    match join.kind {
        LogicalJoinKind::Left if rejects(right) => join.kind = LogicalJoinKind::Inner,
        // The row of a scalar subquery that reads no outer column becomes a relation to join, so that its conditions
        // decide the order of the joins and filter the scans.
        LogicalJoinKind::Single if join.conditions.is_empty() && rejects(right) => {
            let input = Box::new(take(&mut join.right));
            *join.right = Logical::SingleRow { input, by: Vec::new() };
            join.kind = LogicalJoinKind::Inner;
        }
        LogicalJoinKind::Full => match (rejects(left), rejects(right)) {
            (true, true) => join.kind = LogicalJoinKind::Inner,
            (true, false) => join.kind = LogicalJoinKind::Left,
            (false, true) => {
                std::mem::swap(&mut join.left, &mut join.right);
                join.kind = LogicalJoinKind::Left;
                return true;
            }
            (false, false) => {}
        },
        _ => {}
    }
    false
}

/// Turns a mark join into a semi or anti join if its mark is one of the conditions. The mark is then a constant.
fn mark_to_semi(
    join: &mut LogicalJoin,
    mut conditions: Vec<ScalarExpr>,
    constants: &mut Vec<(ColumnId, ScalarExpr)>,
) -> Vec<ScalarExpr> {
    let LogicalJoinKind::Mark(mark) = join.kind else { return conditions };
    let is_mark = |expr: &ScalarExpr| expr.as_column() == Some(mark.0);
    let found = conditions.iter().find_map(|condition| match &condition.op {
        _ if is_mark(condition) => Some(true),
        ExprOp::Not(inner) if is_mark(inner) => Some(false),
        _ => None,
    });
    let Some(value) = found else { return conditions };
    match value {
        true => {
            join.kind = LogicalJoinKind::Semi;
            let mut compared = std::mem::take(&mut join.compared);
            join.conditions.append(&mut compared);
        }
        false => join.kind = LogicalJoinKind::Anti,
    }
    constants.push((mark, ScalarExpr::literal(value)));
    conditions.retain(|condition| match &condition.op {
        ExprOp::Not(inner) => !is_mark(inner) || value,
        _ => !is_mark(condition) || !value,
    });
    let by = constants.iter().cloned().collect();
    conditions.iter_mut().for_each(|condition| substitute(condition, &by));
    conditions
}

/// Adds conditions that follow from comparisons with constants through equalities of columns.
fn infer(conditions: &mut Vec<ScalarExpr>) {
    let mut seen = 0;
    // Each round sees the conditions that the previous round added, so we follow chains of equalities.
    while seen < conditions.len() {
        let known = conditions[seen..].to_vec();
        seen = conditions.len();
        for added in inferred(conditions, &known, None) {
            if !conditions.contains(&added) {
                conditions.push(added);
            }
        }
    }
}

/// The conditions that follow from `known` through the equalities in `conditions`, for columns of `wanted` or for all.
pub(crate) fn inferred(conditions: &[ScalarExpr], known: &[ScalarExpr], wanted: Option<&ColumnSet>) -> Vec<ScalarExpr> {
    let mut found = Vec::new();
    let compared: Vec<_> =
        known.iter().filter_map(|condition| Some((compared_column(condition)?, condition))).collect();
    if compared.is_empty() {
        return found;
    }
    for condition in conditions {
        let Some((left, right, false)) = equality(condition) else { continue };
        let (Some(left), Some(right)) = (left.as_column(), right.as_column()) else { continue };
        for (from, to) in [(left, right), (right, left)] {
            if wanted.is_some_and(|wanted| !wanted.contains(ColumnId(to))) {
                continue;
            }
            for (column, condition) in compared.iter().filter(|(column, _)| *column == from) {
                let by = HashMap::from([(ColumnId(*column), ColumnId(to))]);
                found.push(renamed(condition, &by));
            }
        }
    }
    found
}

/// The column of a condition that compares one column with constants. Equal values of the column must give equal
/// results.
fn compared_column(condition: &ScalarExpr) -> Option<usize> {
    let is_fixed = |expr: &ScalarExpr| matches!(expr.op, ExprOp::Literal(_) | ExprOp::Parameter(_));
    match &condition.op {
        ExprOp::Compare(_, pair) => match (&pair[0], &pair[1]) {
            (column, value) | (value, column) if is_fixed(value) && column.as_column().is_some() => column.as_column(),
            _ => None,
        },
        ExprOp::InList { value, list, negated: false } if list.iter().all(is_fixed) => value.as_column(),
        _ => None,
    }
}

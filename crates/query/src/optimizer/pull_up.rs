//! Pulls correlated conditions and expressions out of the right side of a join, if the right side is simple enough.
//!
//! ```text
//! Semi(l, Filter(r, r.k = l.k))                     ->  Semi(l, r) on r.k = l.k
//! Left(l, Group(Filter(r, r.k = l.k), count(*)))    ->  Map(coalesce(count, 0), Left(l, Group(r by r.k)) on r.k = l.k)
//! Inner(l, Limit(Sort(Filter(r, r.k = l.k))))       ->  Inner(l, Filter(row_number by r.k, number <= n)) on r.k = l.k
//! ```
//!
//! An equality between an expression of the right side and one of the left passes through grouping, windows, DISTINCT
//! and LIMIT: we make the right expression a key of these. Other conditions pass only through filters, maps and joins.
//! If anything correlated remains, we leave the right side as it was, and the domain (see `domain.rs`) removes the
//! correlation.
//!
//! An aggregate without GROUP BY gives one row even if no row matches. Expressions above it in the right side must
//! therefore be computed above the join, with the values that the aggregates have for empty input.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::logical::{LogicalGroup, LogicalJoin, LogicalJoinKind};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::facts::{can_fail, equality, is_true_of, is_volatile, reads_order, split_and, value_if};
use super::subquery::{numbered_limit, without_order};
use super::walk::{
    add_read, exprs, free, inputs_mut, made, named, output, renumber, substitute, substitute_plan, take,
};
use crate::column_set::ColumnSet;

/// Pulls correlation out of the right sides of all joins of a plan, the innermost first.
pub(crate) fn pull_up(plan: &mut Logical, context: &mut RewriteContext<'_>) -> Result<()> {
    for input in inputs_mut(plan) {
        pull_up(input, context)?;
    }
    let Logical::Join(join) = plan else { return Ok(()) };
    // A single row of literals needs no join.
    if !is_literal_row(&join.right) && !free(&join.right).intersects(&output(&join.left)) {
        return Ok(());
    }
    let Logical::Join(join) = take(plan) else { unreachable!("the plan is a join") };
    *plan = PullUp { context }.join(join);
    Ok(())
}

struct PullUp<'a, 'b> {
    context: &'a mut RewriteContext<'b>,
}

/// The conditions and expressions that have left the right side of a join.
#[derive(Default)]
struct PulledParts {
    /// Conditions that refer to columns of the right side and to outer columns.
    conditions: Vec<ScalarExpr>,
    /// Columns whose expressions are correlated.
    maps: Vec<ColumnId>,
    /// Their expressions.
    exprs: HashMap<ColumnId, ScalarExpr>,
    /// Whether a remaining part could now fail, because it would be evaluated for rows that the pulled conditions
    /// exclude.
    is_blocked: bool,
}

/// The moves that the operators above permit.
#[derive(Clone, Copy)]
struct PullMode {
    /// Only the existence of a row matters, and the columns that the conditions name.
    exists: bool,
    /// Any row will do, because no condition reads its columns.
    any_row: bool,
    /// Expressions may be pulled up.
    maps: bool,
    /// The order of the rows matters and must be kept.
    ordered: bool,
}

/// An operator above a right side that gives exactly one row.
enum OneRowStep {
    Filter(Vec<ScalarExpr>),
    Map(Vec<(ColumnId, ScalarExpr)>),
}

impl PullUp<'_, '_> {
    fn join(&mut self, mut join: LogicalJoin) -> Logical {
        if join.kind == LogicalJoinKind::Full {
            return Logical::Join(join);
        }
        // A right side of exactly one row needs no join at all.
        if is_one_row_chain(&join.right) {
            return self.one_row(join);
        }
        if let Some(plan) = unnest_of_left(&mut join) {
            return plan;
        }
        let right = take(&mut join.right);
        let right_made = made(&right);
        let exists = matches!(join.kind, LogicalJoinKind::Semi | LogicalJoinKind::Anti | LogicalJoinKind::Mark(_));
        let mut pulled = PulledParts::default();
        let any_row = exists && join.conditions.is_empty() && join.compared.is_empty();
        let mode = PullMode { exists, any_row, maps: true, ordered: false };
        // We work on a copy and keep the original, because stripping may turn out to be impossible halfway.
        let before = right.clone();
        let right = self.strip(right, &right_made, mode, &mut pulled);
        if pulled.is_blocked || !free(&right).is_empty() {
            *join.right = before;
            return Logical::Join(join);
        }
        let PulledParts { mut conditions, maps, exprs, .. } = pulled;
        // The join's own conditions may name columns whose expressions have just been pulled out.
        for condition in join.conditions.iter_mut().chain(&mut join.compared) {
            substitute(condition, &exprs);
        }
        conditions.append(&mut join.conditions);
        join.conditions = conditions;
        *join.right = right;
        match join.kind {
            LogicalJoinKind::Inner => {
                let exprs = maps.iter().map(|id| (*id, exprs[id].clone())).collect();
                Logical::map(Logical::Join(join), exprs)
            }
            LogicalJoinKind::Left | LogicalJoinKind::Single if !maps.is_empty() => {
                let matched = self.context.columns.add("matched", DataType::Boolean);
                let right = take(&mut join.right);
                *join.right = Logical::map(right, vec![(matched, ScalarExpr::literal(true))]);
                let matched = self.context.expr(matched);
                let exprs = maps.iter().map(|id| (*id, value_if(matched.clone(), exprs[id].clone()))).collect();
                Logical::map(Logical::Join(join), exprs)
            }
            _ => Logical::Join(join),
        }
    }

    /// Takes correlated conditions and expressions out of a plan. `made` are the columns that the whole right side
    /// makes.
    fn strip(&mut self, plan: Logical, made: &ColumnSet, mode: PullMode, pulled: &mut PulledParts) -> Logical {
        match plan {
            Logical::Filter { input, conditions } => {
                let input = self.strip(*input, made, PullMode { any_row: false, ..mode }, pulled);
                Logical::filter(input, pulled.take_conditions(split_and(conditions), made))
            }
            Logical::Map { input, exprs } => {
                let input = self.strip(*input, made, mode, pulled);
                let mut kept = Vec::new();
                for (id, mut expr) in exprs {
                    substitute(&mut expr, &pulled.exprs);
                    // Once conditions are pulled, this expression would run for rows that they used to exclude.
                    let fails_early = !pulled.conditions.is_empty() && can_fail(&expr);
                    let is_correlated = !named(&expr).is_subset(made);
                    if mode.maps && (is_correlated || fails_early) && !is_volatile(&expr) {
                        pulled.maps.push(id);
                        pulled.exprs.insert(id, expr);
                    } else {
                        pulled.is_blocked |= fails_early || (is_volatile(&expr) && !pulled.conditions.is_empty());
                        kept.push((id, expr));
                    }
                }
                Logical::map(input, kept)
            }
            Logical::Join(mut join) => {
                let left = take(&mut join.left);
                if join.kind == LogicalJoinKind::Full {
                    *join.left = left;
                    return Logical::Join(join);
                }
                let inner = PullMode { ordered: false, any_row: false, ..mode };
                *join.left = self.strip(left, made, inner, pulled);
                if join.kind == LogicalJoinKind::Inner {
                    let right = take(&mut join.right);
                    *join.right = self.strip(right, made, inner, pulled);
                    join.conditions = pulled.take_conditions(split_and(join.conditions), made);
                }
                let mut plan = Logical::Join(join);
                pulled.check_exprs(&plan);
                // The right side may be lateral, so we substitute there as well.
                substitute_plan(&mut plan, &pulled.exprs);
                plan
            }
            Logical::Sort { input, .. } if !mode.ordered => self.strip(*input, made, mode, pulled),
            Logical::Sort { input, keys } => {
                let input = self.strip(*input, made, PullMode { maps: false, ..mode }, pulled);
                let plan = Logical::Sort { input: Box::new(input), keys };
                pulled.check_exprs(&plan);
                plan
            }
            // Duplicates do not matter if only the existence of a row does.
            Logical::Distinct { input, on: false, .. } if mode.exists => self.strip(*input, made, mode, pulled),
            Logical::Limit { input, skip: None, rows: Some(rows) }
                if mode.any_row
                    && rows.as_constant().and_then(|rows| rows.as_bigint()).is_some_and(|rows| rows > 0) =>
            {
                self.strip(*input, made, mode, pulled)
            }
            Logical::Unnest { input, lists, ordinality, outer } => {
                let inner = PullMode { maps: false, any_row: false, ..mode };
                let input = self.strip(*input, made, inner, pulled);
                let plan = Logical::Unnest { input: Box::new(input), lists, ordinality, outer };
                pulled.check_exprs(&plan);
                plan
            }
            Logical::Group(ref group) if !group.keys.is_empty() && group.sets.is_none() => self.keyed(plan, pulled),
            Logical::Distinct { .. } | Logical::Window(_) | Logical::Limit { .. } => self.keyed(plan, pulled),
            _ => plan,
        }
    }

    /// Takes equalities out of the input of an operator with keys, and adds their right expressions to its keys.
    fn keyed(&mut self, mut plan: Logical, pulled: &mut PulledParts) -> Logical {
        let ordered = is_order_read(&plan);
        let input = take(inputs_mut(&mut plan).remove(0));
        let (input, equalities) = self.equalities(input, ordered, &plan);
        let Some(equalities) = equalities else {
            *inputs_mut(&mut plan).remove(0) = input;
            return plan;
        };
        let mut input = input;
        match &mut plan {
            Logical::Group(group) => {
                for (inner, outer) in equalities {
                    let id = self.group_key(group, inner.expr);
                    pulled.conditions.push(outer.with(self.context.expr(id)));
                }
            }
            Logical::Distinct { columns, .. } => {
                for (inner, outer) in equalities {
                    let id = match inner.expr.as_column() {
                        Some(id) => ColumnId(id),
                        None => {
                            let id = self.context.add_column("key", &inner.expr);
                            input = Logical::map(input, vec![(id, inner.expr)]);
                            id
                        }
                    };
                    if !columns.contains(&id) {
                        columns.push(id);
                    }
                    pulled.conditions.push(outer.with(self.context.expr(id)));
                }
            }
            Logical::Window(window) => {
                for (inner, outer) in equalities {
                    // Rows of other outer values must not be in the same partition.
                    if !window.partition.contains(&inner.expr) {
                        window.partition.push(inner.expr.clone());
                    }
                    pulled.conditions.push(outer.with(inner.expr));
                }
            }
            Logical::Limit { skip, rows, .. } => {
                let mut partition = Vec::new();
                for (inner, outer) in equalities {
                    partition.push(inner.expr.clone());
                    pulled.conditions.push(outer.with(inner.expr));
                }
                let (skip, rows) = (skip.take(), rows.take());
                let (input, order) = without_order(input);
                let order = order.unwrap_or_default();
                let (numbered, conditions) = numbered_limit(self.context, input, order, partition, skip, rows);
                return Logical::filter(numbered, conditions);
            }
            _ => unreachable!("only operators with keys get here"),
        }
        *inputs_mut(&mut plan).remove(0) = input;
        plan
    }

    /// Strips the input of `operator`, but only if everything that it pulls is an equality and no correlation remains.
    /// Otherwise returns the input unchanged.
    fn equalities(
        &mut self,
        input: Logical,
        ordered: bool,
        operator: &Logical,
    ) -> (Logical, Option<Vec<(InnerSide, OuterSide)>>) {
        let input_made = made(&input);
        let mut pulled = PulledParts::default();
        let mode = PullMode { exists: false, any_row: false, maps: false, ordered };
        let before = input.clone();
        let input = self.strip(input, &input_made, mode, &mut pulled);
        if pulled.conditions.is_empty() {
            return (input, None);
        }
        let mut read = ColumnSet::default();
        add_read(operator, &mut read);
        let is_possible = !pulled.is_blocked
            && read.is_subset(&input_made)
            && !exprs(operator).into_iter().any(|expr| can_fail(expr) || is_volatile(expr))
            && free(&input).is_empty();
        let sides = pulled.conditions.iter().map(|condition| sides(condition, &input_made));
        match sides.collect::<Option<Vec<_>>>() {
            Some(sides) if is_possible => (input, Some(sides)),
            _ => (before, None),
        }
    }

    /// The column of a grouping key. Adds the key if the group has none for this expression.
    fn group_key(&mut self, group: &mut LogicalGroup, expr: ScalarExpr) -> ColumnId {
        if let Some((id, _)) = group.keys.iter().find(|(_, key)| *key == expr) {
            return *id;
        }
        let id = self.context.add_column("key", &expr);
        group.keys.push((id, expr));
        id
    }

    /// Pulls up a join whose right side gives one row, possibly below filters and maps.
    fn one_row(&mut self, join: LogicalJoin) -> Logical {
        let LogicalJoin { kind, left, mut right, mut conditions, mut compared } = join;
        // The columns of the right side that the rest of the plan may name, each with its new name inside the right
        // side.
        let mut outside: Vec<(ColumnId, ColumnId)> = Vec::new();
        let has_conditions = !conditions.is_empty() || has_filter(&right);
        if has_conditions && matches!(kind, LogicalJoinKind::Left | LogicalJoinKind::Single) {
            let visible = output(&right);
            let numbers = renumber(&mut right, self.context.columns);
            let by = numbers.iter().map(|(old, new)| (*old, self.context.expr(*new))).collect();
            conditions.iter_mut().chain(&mut compared).for_each(|condition| substitute(condition, &by));
            outside = visible.iter().filter_map(|old| Some((old, *numbers.get(&old)?))).collect();
        }
        let mut steps = Vec::new();
        let base = peel(*right, &mut steps);
        let mut plan = self.one_row_base(*left, base);
        // Other joins keep the left row if a condition fails, so conditions become guards of the values.
        let is_guarded = !matches!(kind, LogicalJoinKind::Inner | LogicalJoinKind::Semi);
        let mut all: Vec<ScalarExpr> = Vec::new();
        for step in steps.into_iter().rev() {
            match step {
                OneRowStep::Filter(own) if is_guarded => all.extend(own),
                OneRowStep::Filter(own) => plan = Logical::filter(plan, own),
                OneRowStep::Map(exprs) if all.is_empty() => plan = Logical::map(plan, exprs),
                OneRowStep::Map(exprs) => {
                    let is_met = ScalarExpr::and(all.clone());
                    let guarded = |(id, expr)| (id, value_if(is_met.clone(), expr));
                    plan = Logical::map(plan, exprs.into_iter().map(guarded).collect());
                }
            }
        }
        all.append(&mut conditions);
        match kind {
            LogicalJoinKind::Inner | LogicalJoinKind::Semi => Logical::filter(plan, all),
            LogicalJoinKind::Left | LogicalJoinKind::Single => {
                let is_met = ScalarExpr::and(all);
                let value = |new| value_if(is_met.clone(), self.context.expr(new));
                let exprs = outside.into_iter().map(|(old, new)| (old, value(new))).collect();
                Logical::map(plan, exprs)
            }
            LogicalJoinKind::Anti => {
                // An anti join keeps the row if a condition is not true, or if the comparison is false.
                let mut reasons = Vec::new();
                if !all.is_empty() {
                    reasons.push(is_true_of(ScalarExpr::and(all)).negated());
                }
                if !compared.is_empty() {
                    reasons.push(ScalarExpr::and(compared).negated());
                }
                Logical::filter(plan, vec![ScalarExpr::or(reasons)])
            }
            LogicalJoinKind::Mark(mark) => {
                let value = ScalarExpr::and(compared);
                let value = match all.is_empty() {
                    true => value,
                    false => ScalarExpr::new(
                        DataType::Boolean,
                        ExprOp::Case {
                            whens: vec![(ScalarExpr::and(all), value)],
                            otherwise: Some(Box::new(ScalarExpr::literal(false))),
                        },
                    ),
                };
                Logical::map(plan, vec![(mark, value)])
            }
            LogicalJoinKind::Full => unreachable!("a full join is not pulled up"),
        }
    }

    /// Joins each row of `left` with the single row of `base`.
    fn one_row_base(&mut self, left: Logical, base: Logical) -> Logical {
        let mut group = match base {
            Logical::Values { columns, mut rows } => {
                let row = rows.pop().expect("a plan of one row has a row");
                return Logical::map(left, columns.into_iter().zip(row).collect());
            }
            Logical::Group(group) => group,
            _ => unreachable!("a plan of one row is VALUES or an aggregate"),
        };
        let input = take(&mut group.input);
        let ordered = group.aggregates.iter().any(|(_, call)| reads_order(call));
        let operator = Logical::Group(group);
        let (input, equalities) = self.equalities(input, ordered, &operator);
        let Logical::Group(mut group) = operator else { unreachable!("the operator is an aggregate") };
        *group.input = input;
        let Some(equalities) = equalities else {
            return Logical::join(LogicalJoinKind::Inner, left, Logical::Group(group), Vec::new());
        };
        let mut conditions = Vec::new();
        for (inner, outer) in equalities {
            let id = self.group_key(&mut group, inner.expr);
            conditions.push(outer.with(self.context.expr(id)));
        }
        // An outer row without a match has no group, but the aggregate must still have its value.
        let defaults = empty_group_values(&mut group, self.context);
        let join = Logical::join(LogicalJoinKind::Left, left, Logical::Group(group), conditions);
        Logical::map(join, defaults)
    }
}

/// Renames the aggregates that are not NULL for empty input. Returns expressions that compute them above an outer join.
pub(crate) fn empty_group_values(
    group: &mut LogicalGroup,
    context: &mut RewriteContext<'_>,
) -> Vec<(ColumnId, ScalarExpr)> {
    let mut exprs = Vec::new();
    for (id, call) in &mut group.aggregates {
        if call.function.is_zero_of_nothing {
            let counted = super::walk::copy_column(context.columns, *id);
            let zero = super::facts::zero(&call.kind);
            let value = ScalarExpr::new(call.kind.clone(), ExprOp::Coalesce(vec![context.expr(counted), zero]));
            exprs.push((*id, value));
            *id = counted;
        }
    }
    exprs
}

impl PulledParts {
    /// Takes the conditions that are correlated, and those that could fail for rows that the taken ones exclude.
    /// Returns the rest.
    fn take_conditions(&mut self, conditions: Vec<ScalarExpr>, made: &ColumnSet) -> Vec<ScalarExpr> {
        let mut kept = Vec::new();
        for mut condition in conditions {
            substitute(&mut condition, &self.exprs);
            let is_correlated = !named(&condition).is_subset(made);
            let fails_early = !self.conditions.is_empty() && can_fail(&condition);
            match (is_correlated || fails_early) && !is_volatile(&condition) {
                true => self.conditions.push(condition),
                false => kept.push(condition),
            }
        }
        kept
    }

    /// Blocks the pull-up if an operator above the pulled conditions can fail.
    fn check_exprs(&mut self, plan: &Logical) {
        self.is_blocked |=
            !self.conditions.is_empty() && exprs(plan).into_iter().any(|expr| can_fail(expr) || is_volatile(expr));
    }
}

/// The side of an equality that refers to the right side of the join.
struct InnerSide {
    expr: ScalarExpr,
}

/// The side of an equality that refers to outer columns.
struct OuterSide {
    expr: ScalarExpr,
    is_null_safe: bool,
}

impl OuterSide {
    fn with(self, inner: ScalarExpr) -> ScalarExpr {
        let operands = Box::new([inner, self.expr]);
        let op = match self.is_null_safe {
            true => ExprOp::IsDistinct { operands, negated: true },
            false => ExprOp::Compare(rowmill_plan::CompareOp::Equal, operands),
        };
        ScalarExpr::new(DataType::Boolean, op)
    }
}

/// Splits a condition that equates an expression over `made` with an outer expression.
fn sides(condition: &ScalarExpr, made: &ColumnSet) -> Option<(InnerSide, OuterSide)> {
    let (left, right, is_null_safe) = equality(condition)?;
    if can_fail(condition) {
        return None;
    }
    let (left_named, right_named) = (named(left), named(right));
    let (inner, outer) = if left_named.is_subset(made) && !right_named.intersects(made) {
        (left, right)
    } else if right_named.is_subset(made) && !left_named.intersects(made) {
        (right, left)
    } else {
        return None;
    };
    Some((InnerSide { expr: inner.clone() }, OuterSide { expr: outer.clone(), is_null_safe }))
}

/// Whether an operator depends on the order of its input.
fn is_order_read(plan: &Logical) -> bool {
    match plan {
        Logical::Group(group) => group.aggregates.iter().any(|(_, call)| reads_order(call)),
        Logical::Distinct { on, .. } => *on,
        Logical::Limit { .. } | Logical::Window(_) => true,
        _ => false,
    }
}

fn is_one_row_chain(plan: &Logical) -> bool {
    match plan {
        Logical::Filter { input, .. } | Logical::Map { input, .. } | Logical::Sort { input, .. } => {
            is_one_row_chain(input)
        }
        Logical::SingleRow { input, .. } => is_one_row_chain(input),
        Logical::Values { rows, .. } => rows.len() == 1,
        Logical::Group(group) => group.keys.is_empty() && group.sets.is_none(),
        _ => false,
    }
}

fn is_literal_row(plan: &Logical) -> bool {
    match plan {
        Logical::Filter { input, .. } | Logical::Map { input, .. } => is_literal_row(input),
        Logical::Values { rows, .. } => rows.len() == 1,
        _ => false,
    }
}

fn has_filter(plan: &Logical) -> bool {
    match plan {
        Logical::Filter { .. } => true,
        Logical::Map { input, .. } | Logical::Sort { input, .. } => has_filter(input),
        Logical::SingleRow { input, .. } => has_filter(input),
        _ => false,
    }
}

fn peel(plan: Logical, steps: &mut Vec<OneRowStep>) -> Logical {
    match plan {
        Logical::Filter { input, conditions } => {
            steps.push(OneRowStep::Filter(conditions));
            peel(*input, steps)
        }
        Logical::Map { input, exprs } => {
            steps.push(OneRowStep::Map(exprs));
            peel(*input, steps)
        }
        Logical::Sort { input, .. } | Logical::SingleRow { input, .. } => peel(*input, steps),
        base => base,
    }
}

/// Unnests the lists of each row of the left side, for `l, UNNEST(l.list)` and `l LEFT JOIN UNNEST(l.list) ON true`.
fn unnest_of_left(join: &mut LogicalJoin) -> Option<Logical> {
    let outer = match join.kind {
        LogicalJoinKind::Inner => false,
        LogicalJoinKind::Left if join.conditions.is_empty() => true,
        _ => return None,
    };
    let mut base = &mut *join.right;
    if !outer {
        while let Logical::Filter { input, .. } | Logical::Map { input, .. } = base {
            base = input;
        }
    }
    let Logical::Unnest { input, outer: own, .. } = base else { return None };
    let Logical::Values { columns, rows } = &mut **input else { return None };
    if rows.len() != 1 || (outer && !columns.is_empty()) {
        return None;
    }
    let row = rows.pop().expect("there is one row");
    let exprs = std::mem::take(columns).into_iter().zip(row).collect();
    **input = Logical::map(take(&mut join.left), exprs);
    *own |= outer;
    let conditions = std::mem::take(&mut join.conditions);
    Some(Logical::filter(take(&mut join.right), conditions))
}

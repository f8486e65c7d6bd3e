//! Turns subqueries in expressions into joins, whose right side may name columns of the left side.
//!
//! A conjunct of a filter that is `EXISTS`, `IN`, ANY or ALL becomes a semi or anti join. Anywhere else such a subquery
//! becomes a mark join, and a scalar subquery becomes a single join, below the operator whose expression contained it.
//! If ANY or ALL compares by an order, the least or the greatest value of the subquery is joined instead.
//! Conjuncts of a filter without subqueries are evaluated below these joins, so a subquery sees only the rows that
//! they leave. A conjunct that can fail and comes after a subquery must stay above.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold::operator_can_fail;
use rowmill_plan::logical::{
    AggregateCall, LogicalGroup, LogicalJoin, LogicalJoinKind, LogicalSetOperation, LogicalSortKey, LogicalWindow,
    LogicalWindowCall, SetOperationKind, Subquery, SubqueryKind,
};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{ColumnId, CompareOp, Constant, ExprOp, Logical, ScalarExpr};

use super::Executor;
use super::context::RewriteContext;
use super::facts::{can_fail, is_movable, is_true_of, is_volatile, opposite, plain_call, split_and, value_if};
use super::unique::gives_at_most_one_row;
use super::walk::{copy_column, each_operator, exprs, has_subquery, inputs_mut, made, named, output, renumber, take};

/// Removes all subqueries from the expressions of a plan.
pub(crate) fn remove_subqueries(plan: &mut Logical, context: &mut RewriteContext<'_>) -> Result<()> {
    for input in inputs_mut(plan) {
        remove_subqueries(input, context)?;
    }
    if !exprs(plan).into_iter().any(has_subquery) {
        return Ok(());
    }
    let mut remover = SubqueryRemover { context };
    *plan = remover.operator(take(plan))?;
    Ok(())
}

struct SubqueryRemover<'a, 'b> {
    context: &'a mut RewriteContext<'b>,
}

impl SubqueryRemover<'_, '_> {
    fn operator(&mut self, mut plan: Logical) -> Result<Logical> {
        match plan {
            Logical::Filter { input, conditions } => {
                let order = order_of(&input);
                Ok(sorted(self.filter(*input, conditions)?, order))
            }
            Logical::Map { mut input, mut exprs } => {
                let order = order_of(&input);
                for (_, expr) in &mut exprs {
                    self.expression(expr, &mut input)?;
                }
                Ok(sorted(Logical::Map { input, exprs }, order))
            }
            Logical::Join(join) => self.join(join),
            Logical::Values { columns, rows } => self.values(columns, rows),
            Logical::Limit { input, skip, rows } => self.limit(*input, skip, rows),
            Logical::Scan(_) | Logical::Source(_) => {
                Err(Error::internal("a scan has conditions with subqueries before pushdown"))
            }
            _ => {
                // All other operators have one input, and the joins go below the operator.
                let mut input = take(inputs_mut(&mut plan).remove(0));
                for expr in super::walk::exprs_mut(&mut plan) {
                    self.expression(expr, &mut input)?;
                }
                *inputs_mut(&mut plan).remove(0) = input;
                Ok(plan)
            }
        }
    }

    fn filter(&mut self, input: Logical, conditions: Vec<ScalarExpr>) -> Result<Logical> {
        let (mut below, mut asking, mut above) = (Vec::new(), Vec::new(), Vec::new());
        for condition in split_and(conditions) {
            if has_subquery(&condition) {
                asking.push(condition);
            } else if !asking.is_empty() && !is_movable(&condition) {
                above.push(condition);
            } else {
                below.push(condition);
            }
        }
        let mut plan = Logical::filter(input, below);
        let mut waiting = Vec::new();
        for condition in asking {
            if !waiting.is_empty() && condition_can_fail(&condition) {
                // The condition must not see rows that earlier conditions exclude, so we test those first.
                plan = self.plain_filter(plan, std::mem::take(&mut waiting))?;
            }
            waiting.extend(self.conjunct(condition, &mut plan)?);
        }
        plan = self.plain_filter(plan, waiting)?;
        Ok(Logical::filter(plan, above))
    }

    fn plain_filter(&mut self, mut plan: Logical, mut conditions: Vec<ScalarExpr>) -> Result<Logical> {
        for condition in &mut conditions {
            self.expression(condition, &mut plan)?;
        }
        Ok(Logical::filter(plan, conditions))
    }

    /// Turns a conjunct that is a subquery into a semi or anti join over `plan`. Returns the conjunct if it is anything
    /// else.
    fn conjunct(&mut self, condition: ScalarExpr, plan: &mut Logical) -> Result<Option<ScalarExpr>> {
        let (negated, subquery) = match condition.op {
            ExprOp::Subquery(subquery) => (false, subquery),
            ExprOp::Not(inner) if matches!(inner.op, ExprOp::Subquery(_)) => match inner.op {
                ExprOp::Subquery(subquery) => (true, subquery),
                _ => unreachable!("the operand of NOT is a subquery"),
            },
            op => return Ok(Some(ScalarExpr { kind: condition.kind, op })),
        };
        let mut subquery = *subquery;
        remove_subqueries(&mut subquery.plan, self.context)?;
        for value in &mut subquery.left {
            self.expression(value, plan)?;
        }
        if let SubqueryKind::Quantified { op, all } = subquery.kind
            && self.has_extreme(&subquery, op)
        {
            let (op, all) = if negated { (opposite(op), !all) } else { (op, all) };
            if all {
                subquery.kind = SubqueryKind::Quantified { op, all };
                return self.attach(subquery, plan).map(Some);
            }
            // A row for which the comparison is NULL is left out, as one for which it is false.
            let left = take(plan);
            return Ok(Some(self.extreme(subquery, op, all, left, plan).compared));
        }
        let (kind, conditions, compared) = match subquery.kind {
            SubqueryKind::Exists if negated => (LogicalJoinKind::Anti, Vec::new(), Vec::new()),
            SubqueryKind::Exists => (LogicalJoinKind::Semi, Vec::new(), Vec::new()),
            SubqueryKind::Quantified { op, all } => match (all, negated) {
                // ANY: some row must match.
                (false, false) => (LogicalJoinKind::Semi, self.pairs(&subquery, op), Vec::new()),
                (true, true) => (LogicalJoinKind::Semi, self.pairs(&subquery, opposite(op)), Vec::new()),
                // ALL: no row may fail the comparison, and NULL counts as a possible failure.
                (true, false) => (LogicalJoinKind::Anti, Vec::new(), self.pairs(&subquery, opposite(op))),
                (false, true) => (LogicalJoinKind::Anti, Vec::new(), self.pairs(&subquery, op)),
            },
            SubqueryKind::Scalar | SubqueryKind::Array => {
                let value = self.attach(subquery, plan)?;
                return Ok(Some(if negated { value.negated() } else { value }));
            }
        };
        let left = Box::new(take(plan));
        let right = Box::new(subquery.plan);
        *plan = Logical::Join(LogicalJoin { kind, left, right, conditions, compared });
        Ok(None)
    }

    /// Replaces the subqueries in an expression over `input` by columns of joins, which become the new `input`.
    fn expression(&mut self, expr: &mut ScalarExpr, input: &mut Logical) -> Result<()> {
        self.guarded(expr, input, &mut Vec::new())
    }

    /// Replaces the subqueries in an expression that is evaluated only if all of `guards` are true.
    fn guarded(&mut self, expr: &mut ScalarExpr, input: &mut Logical, guards: &mut Vec<ScalarExpr>) -> Result<()> {
        if !has_subquery(expr) {
            return Ok(());
        }
        let outside = guards.len();
        match &mut expr.op {
            ExprOp::And(all) => self.in_order(all, input, guards, |earlier| {
                let or_true = ExprOp::Coalesce(vec![earlier, ScalarExpr::literal(true)]);
                ScalarExpr::new(DataType::Boolean, or_true)
            })?,
            ExprOp::Or(all) => self.in_order(all, input, guards, |earlier| is_true_of(earlier).negated())?,
            ExprOp::Coalesce(all) => self.in_order(all, input, guards, |earlier| {
                let is_null = ExprOp::IsNull { value: Box::new(earlier), negated: false };
                ScalarExpr::new(DataType::Boolean, is_null)
            })?,
            ExprOp::Case { whens, otherwise } => {
                for (when, then) in whens {
                    self.guarded(when, input, guards)?;
                    // THEN is evaluated only if this WHEN is true, and later branches only if it is not.
                    guards.push(when.clone());
                    self.guarded(then, input, guards)?;
                    guards.pop();
                    guards.push(is_true_of(when.clone()).negated());
                }
                if let Some(otherwise) = otherwise {
                    self.guarded(otherwise, input, guards)?;
                }
            }
            _ => {
                for operand in expr.operands_mut() {
                    self.guarded(operand, input, guards)?;
                }
            }
        }
        // The guards hold only inside of this expression.
        guards.truncate(outside);
        if !matches!(expr.op, ExprOp::Subquery(_)) {
            return Ok(());
        }
        let nothing = ScalarExpr::null(DataType::Null);
        let ExprOp::Subquery(subquery) = std::mem::replace(expr, nothing).op else {
            unreachable!("the expression is a subquery")
        };
        let mut subquery = *subquery;
        remove_subqueries(&mut subquery.plan, self.context)?;
        // A volatile guard cannot be evaluated twice, so such a subquery runs for all rows.
        let is_guarded = subquery_can_fail(&subquery) && !guards.iter().any(is_volatile);
        *expr = self.attach(subquery, input)?;
        if let (Logical::Join(join), true) = (input, is_guarded) {
            join.conditions.extend(guards.iter().cloned());
        }
        Ok(())
    }

    /// Rewrites operands in order. An operand is evaluated only if `needs_next` is true for all operands before it.
    fn in_order(
        &mut self,
        all: &mut [ScalarExpr],
        input: &mut Logical,
        guards: &mut Vec<ScalarExpr>,
        needs_next: fn(ScalarExpr) -> ScalarExpr,
    ) -> Result<()> {
        for operand in all {
            self.guarded(operand, input, guards)?;
            guards.push(needs_next(operand.clone()));
        }
        Ok(())
    }

    /// Joins a subquery to `input` and returns its value as an expression over the join. The subquery's plan and the
    /// values that it is compared with must not contain subqueries.
    fn attach(&mut self, mut subquery: Subquery, input: &mut Logical) -> Result<ScalarExpr> {
        let left = take(input);
        match subquery.kind {
            SubqueryKind::Scalar => {
                let mut value = subquery.columns[0];
                if !made(&subquery.plan).contains(value) {
                    // The subquery gives a column of the enclosing query. Above the join it must be NULL if the
                    // subquery has no row.
                    let outer = self.context.expr(value);
                    value = self.context.add_column("value", &outer);
                    subquery.plan = Logical::map(subquery.plan, vec![(value, outer)]);
                }
                // If the plan gives at most one row, the check for a second row is not needed.
                let kind = match gives_at_most_one_row(&subquery.plan) {
                    true => LogicalJoinKind::Left,
                    false => LogicalJoinKind::Single,
                };
                *input = Logical::join(kind, left, subquery.plan, Vec::new());
                Ok(self.context.expr(value))
            }
            SubqueryKind::Exists => Ok(self.mark(left, subquery.plan, Vec::new(), input)),
            SubqueryKind::Quantified { op, all } if self.has_extreme(&subquery, op) => {
                let ExtremeComparison { compared, undecided, rows } = self.extreme(subquery, op, all, left, input);
                let has_rows = ScalarExpr::compare(rows, CompareOp::NotEqual, ScalarExpr::literal(0_i64));
                Ok(match all {
                    false => ScalarExpr::and(vec![has_rows, ScalarExpr::or(vec![compared, undecided])]),
                    true => ScalarExpr::or(vec![has_rows.negated(), ScalarExpr::and(vec![compared, undecided])]),
                })
            }
            SubqueryKind::Quantified { op, all } => {
                let compared = self.pairs(&subquery, if all { opposite(op) } else { op });
                let mark = self.mark(left, subquery.plan, compared, input);
                Ok(if all { mark.negated() } else { mark })
            }
            SubqueryKind::Array => {
                let order = order_of(&subquery.plan).unwrap_or_default();
                let value = self.context.expr(subquery.columns[0]);
                let kind = DataType::new_list(value.kind.clone(), true);
                let list = self.context.columns.add("array", kind.clone());
                let call = AggregateCall { order, ..plain_call("array_agg", vec![value], kind.clone()) };
                let group = one_group(subquery.plan, vec![(list, call)]);
                *input = Logical::join(LogicalJoinKind::Left, left, group, Vec::new());
                // array_agg is NULL without rows, but ARRAY(...) must be an empty list.
                let empty = Constant::new(empty_list(&kind)?);
                let operands = vec![self.context.expr(list), ScalarExpr::literal(empty)];
                Ok(ScalarExpr::new(kind, ExprOp::Coalesce(operands)))
            }
        }
    }

    /// Whether the least or the greatest value of a subquery decides whether a value compares so with any or all values
    /// of it. A program stops at the first value that decides, so it needs no extreme.
    fn has_extreme(&self, subquery: &Subquery, op: CompareOp) -> bool {
        let has_order = !matches!(op, CompareOp::Equal | CompareOp::NotEqual);
        let is_of_one = matches!(&subquery.left[..], [left] if !left.kind.is_nested() && left.kind != DataType::Null);
        has_order && is_of_one && self.context.executor == Executor::Engine
    }

    /// Joins the extreme value of a quantified subquery to `left`.
    ///
    /// ```text
    /// x > ANY (SELECT y ...)   x > min(y)
    /// x > ALL (SELECT y ...)   x > max(y), if no y is NULL
    /// ```
    fn extreme(
        &mut self,
        mut subquery: Subquery,
        op: CompareOp,
        all: bool,
        left: Logical,
        input: &mut Logical,
    ) -> ExtremeComparison {
        let value = self.context.expr(subquery.columns[0]);
        let is_greatest = matches!(op, CompareOp::Less | CompareOp::LessOrEqual) != all;
        let (name, kind) = (if is_greatest { "max" } else { "min" }, value.kind.clone());
        let [extreme, values, rows] =
            [kind.clone(), DataType::Int64, DataType::Int64].map(|kind| self.context.columns.add(name, kind));
        let calls = vec![
            (extreme, plain_call(name, vec![value.clone()], kind)),
            (values, plain_call("count", vec![value], DataType::Int64)),
            (rows, plain_call("count", Vec::new(), DataType::Int64)),
        ];
        *input = Logical::join(LogicalJoinKind::Left, left, one_group(subquery.plan, calls), Vec::new());
        let [extreme, values, rows] = [extreme, values, rows].map(|id| self.context.expr(id));
        let has_no_null = ScalarExpr::compare(values, CompareOp::Equal, rows.clone());
        ExtremeComparison {
            compared: ScalarExpr::compare(subquery.left.remove(0), op, extreme),
            undecided: value_if(has_no_null, ScalarExpr::literal(all)),
            rows,
        }
    }

    fn mark(&mut self, left: Logical, right: Logical, compared: Vec<ScalarExpr>, input: &mut Logical) -> ScalarExpr {
        let mark = self.context.columns.add("mark", DataType::Boolean);
        let (left, right) = (Box::new(left), Box::new(right));
        let kind = LogicalJoinKind::Mark(mark);
        *input = Logical::Join(LogicalJoin { kind, left, right, conditions: Vec::new(), compared });
        self.context.expr(mark)
    }

    /// The conditions of a quantified subquery. All of them are true for a row if `op` holds between the left values
    /// and the columns of that row.
    fn pairs(&self, subquery: &Subquery, op: CompareOp) -> Vec<ScalarExpr> {
        let right = || subquery.columns.iter().map(|id| self.context.expr(*id));
        let pairs = || subquery.left.iter().cloned().zip(right());
        match op {
            _ if subquery.left.len() == 1 => pairs().map(|(l, r)| ScalarExpr::compare(l, op, r)).collect(),
            CompareOp::Equal => pairs().map(|(l, r)| ScalarExpr::compare(l, op, r)).collect(),
            CompareOp::NotEqual => {
                vec![ScalarExpr::or(pairs().map(|(l, r)| ScalarExpr::compare(l, op, r)).collect())]
            }
            _ => {
                let rows = ExprOp::CompareRows(op, subquery.left.clone(), right().collect());
                vec![ScalarExpr::new(DataType::Boolean, rows)]
            }
        }
    }

    fn join(&mut self, mut join: LogicalJoin) -> Result<Logical> {
        let conditions = split_and(std::mem::take(&mut join.conditions));
        let (asking, plain): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_subquery);
        join.conditions = plain;
        if join.kind == LogicalJoinKind::Inner {
            return self.filter(Logical::Join(join), asking);
        }
        let (left, right) = (output(&join.left), output(&join.right));
        let is_of_pairs = |condition: &ScalarExpr| {
            let named = named(condition);
            named.intersects(&left) && named.intersects(&right)
        };
        if join.kind == LogicalJoinKind::Full && asking.iter().any(is_of_pairs) {
            join.conditions.extend(asking);
            return self.full_as_union(join);
        }
        for mut condition in asking {
            let named = named(&condition);
            let is_full = join.kind == LogicalJoinKind::Full;
            if is_full && !named.intersects(&left) {
                self.expression(&mut condition, &mut join.right)?;
                join.conditions.push(condition);
            } else if !named.intersects(&right) && (is_full || !condition_can_fail(&condition)) {
                self.expression(&mut condition, &mut join.left)?;
                join.conditions.push(condition);
            } else {
                // If the condition names columns of the left side, the right side now depends on it like a LATERAL
                // subquery.
                let input = take(&mut join.right);
                *join.right = self.filter(input, vec![condition])?;
            }
        }
        Ok(Logical::Join(join))
    }

    /// Rewrites a FULL JOIN whose ON clause has a subquery over both sides: the rows of a LEFT JOIN, and the rows of
    /// the right side without a match. No join of the engine evaluates a subquery for pairs of rows, and in a FULL JOIN
    /// neither side may depend on the other, because the rows of both are kept.
    fn full_as_union(&mut self, join: LogicalJoin) -> Result<Logical> {
        let mut volatile = join.conditions.iter().any(is_volatile);
        for side in [&join.left, &join.right] {
            each_operator(side, &mut |operator| volatile |= exprs(operator).into_iter().any(is_volatile));
        }
        if volatile {
            let message = "a FULL JOIN of volatile values has a subquery over both sides in its ON clause";
            let hint = "compute the values in a WITH ... AS MATERIALIZED query";
            return Err(Error::new(ErrorKind::Unsupported, message).hint(hint));
        }
        let (left, right): (Vec<ColumnId>, Vec<ColumnId>) =
            (output(&join.left).iter().collect(), output(&join.right).iter().collect());
        let LogicalJoin { left: of_left, right: of_right, conditions, .. } = join.clone();
        let without = LogicalJoin {
            kind: LogicalJoinKind::Anti,
            left: of_right,
            right: of_left,
            conditions,
            compared: Vec::new(),
        };
        // Pairs and unmatched left rows come from a left join, unmatched right rows from an anti join.
        let mut matched = self.join(LogicalJoin { kind: LogicalJoinKind::Left, ..join })?;
        let mut unmatched = self.join(without)?;
        // The union must give the columns under the ids that the query knows.
        let names = renumber(&mut matched, self.context.columns);
        let of_matched = left.iter().chain(&right).map(|id| names[id]).collect();
        let names = renumber(&mut unmatched, self.context.columns);
        let mut of_unmatched = Vec::with_capacity(left.len() + right.len());
        let mut nulls = Vec::with_capacity(left.len());
        for id in &left {
            let null = copy_column(self.context.columns, *id);
            nulls.push((null, ScalarExpr::null(self.context.columns.get(*id).kind.clone())));
            of_unmatched.push(null);
        }
        of_unmatched.extend(right.iter().map(|id| names[id]));
        let unmatched = Logical::map(unmatched, nulls);
        let columns = left.into_iter().chain(right).collect();
        let inputs = vec![(matched, of_matched), (unmatched, of_unmatched)];
        let kind = SetOperationKind::Union;
        Ok(Logical::SetOperation(LogicalSetOperation { kind, all: true, inputs, columns }))
    }

    /// Turns rows with subqueries into maps over one row each.
    fn values(&mut self, columns: Vec<ColumnId>, mut rows: Vec<Vec<ScalarExpr>>) -> Result<Logical> {
        if rows.len() == 1 {
            let mut input = Logical::one_row();
            let mut exprs = rows.remove(0);
            for expr in &mut exprs {
                self.expression(expr, &mut input)?;
            }
            return Ok(Logical::map(input, columns.into_iter().zip(exprs).collect()));
        }
        let mut inputs = Vec::with_capacity(rows.len());
        for row in rows {
            let own: Vec<_> = columns.iter().map(|id| copy_column(self.context.columns, *id)).collect();
            inputs.push((self.values(own.clone(), vec![row])?, own));
        }
        let kind = SetOperationKind::Union;
        Ok(Logical::SetOperation(LogicalSetOperation { kind, all: true, inputs, columns }))
    }

    /// Turns a LIMIT with a subquery into a condition on row numbers.
    fn limit(&mut self, input: Logical, mut skip: Option<ScalarExpr>, mut rows: Option<ScalarExpr>) -> Result<Logical> {
        let (mut input, order) = without_order(input);
        for expr in skip.iter_mut().chain(&mut rows) {
            self.expression(expr, &mut input)?;
        }
        let keys = order.clone().unwrap_or_default();
        let (plan, conditions) = numbered_limit(self.context, input, keys, Vec::new(), skip, rows);
        Ok(sorted(Logical::filter(plan, conditions), order))
    }
}

/// Whether a condition with subqueries can fail.
fn condition_can_fail(condition: &ScalarExpr) -> bool {
    condition.any(&|expr| match &expr.op {
        ExprOp::Subquery(subquery) => subquery_can_fail(subquery) || subquery.left.iter().any(can_fail),
        _ => operator_can_fail(expr),
    })
}

/// Whether a subquery can fail. If so, it must be evaluated only for the rows that need it.
fn subquery_can_fail(subquery: &Subquery) -> bool {
    let mut found = subquery.kind == SubqueryKind::Scalar && !gives_at_most_one_row(&subquery.plan);
    each_operator(&subquery.plan, &mut |plan| {
        found |= match plan {
            Logical::SingleRow { .. } => true,
            Logical::Join(join) if join.kind == LogicalJoinKind::Single => true,
            _ => exprs(plan).into_iter().any(can_fail),
        };
    });
    found
}

/// Rewrites `LIMIT` within partitions: returns the input with a row number per partition, and the conditions that keep
/// the rows that the limit keeps. `order` is the order of the input.
pub(crate) fn numbered_limit(
    context: &mut RewriteContext<'_>,
    input: Logical,
    order: Vec<LogicalSortKey>,
    partition: Vec<ScalarExpr>,
    skip: Option<ScalarExpr>,
    rows: Option<ScalarExpr>,
) -> (Logical, Vec<ScalarExpr>) {
    let number = context.columns.add("row_number", DataType::Int64);
    let calls = vec![(number, LogicalWindowCall::row_number())];
    let plan = Logical::Window(LogicalWindow { input: Box::new(input), partition, order, calls, top: None });
    let number = context.expr(number);
    let zero = || ScalarExpr::literal(0i64);
    let or_zero = |expr: ScalarExpr| match expr.as_constant() {
        Some(value) if !value.is_null() => expr,
        _ => ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(vec![expr, zero()])),
    };
    let mut conditions = Vec::new();
    // The number after the skipped rows. We subtract because skip + rows could overflow.
    let mut beyond = number.clone();
    if let Some(skip) = skip {
        let skip = or_zero(skip);
        conditions.push(ScalarExpr::compare(number.clone(), CompareOp::Greater, skip.clone()));
        let operands = Box::new([number, skip]);
        beyond = ScalarExpr::new(DataType::Int64, ExprOp::Arithmetic(ArithmeticOp::Minus, operands));
    }
    if let Some(rows) = rows {
        let is_constant = rows.as_constant().is_some_and(|value| !value.is_null());
        let value = Box::new(rows.clone());
        let is_null = ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated: false });
        let within = ScalarExpr::compare(beyond, CompareOp::LessOrEqual, rows);
        conditions.push(if is_constant { within } else { ScalarExpr::or(vec![is_null, within]) });
    }
    (plan, conditions)
}

/// The order in which a plan gives its rows, if it sorts them.
pub(crate) fn order_of(plan: &Logical) -> Option<Vec<LogicalSortKey>> {
    match plan {
        Logical::Sort { keys, .. } => Some(keys.clone()),
        Logical::Map { input, .. } | Logical::Filter { input, .. } | Logical::Limit { input, .. } => order_of(input),
        _ => None,
    }
}

/// Takes the sort out of a plan, because an operator above will order its rows, and returns its keys.
pub(crate) fn without_order(mut plan: Logical) -> (Logical, Option<Vec<LogicalSortKey>>) {
    let order = order_of(&plan);
    if order.is_some() {
        remove_order(&mut plan);
    }
    (plan, order)
}

/// Removes the sort that [`order_of`] finds, unless a limit needs it.
fn remove_order(plan: &mut Logical) {
    match plan {
        Logical::Sort { input, .. } => *plan = take(input),
        Logical::Map { input, .. } | Logical::Filter { input, .. } => remove_order(input),
        _ => {}
    }
}

fn sorted(plan: Logical, order: Option<Vec<LogicalSortKey>>) -> Logical {
    match order {
        Some(keys) => Logical::Sort { input: Box::new(plan), keys },
        None => plan,
    }
}

fn empty_list(kind: &DataType) -> Result<arrow::array::ArrayRef> {
    let DataType::List(item) = kind else { return Err(Error::internal("an ARRAY subquery must have a list type")) };
    let items = arrow::array::new_empty_array(item.data_type());
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([0]);
    Ok(std::sync::Arc::new(arrow::array::ListArray::new(item.clone(), offsets, items, None)))
}

/// The comparison of a value with the extreme of a subquery.
struct ExtremeComparison {
    compared: ScalarExpr,
    /// The result for a value that the comparison does not decide: NULL if a value of the subquery is NULL.
    undecided: ScalarExpr,
    /// The number of rows of the subquery.
    rows: ScalarExpr,
}

/// Groups all rows of a plan into one.
fn one_group(input: Logical, aggregates: Vec<(ColumnId, AggregateCall)>) -> Logical {
    Logical::Group(LogicalGroup { input: Box::new(input), keys: Vec::new(), sets: None, set: None, aggregates })
}

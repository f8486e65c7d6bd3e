//! Rules of DataFusion's optimizer, kept from parts of plans of which they make something else.
//!
//! - Its simplifier makes AND and OR of a CASE of conditions, which then computes what CASE leaves out: `CASE WHEN i = 0
//!   THEN false ELSE 6 / i > 2 END`. Such a CASE is written with an operand while the rule runs.
//! - It takes `i IN (1) AND i IN (2)` for false, which is NULL where `i` is.
//! - A condition without columns is pushed below an aggregate without keys, which has a row whatever is below it.
//! - Of rows that are grouped by `(a, b)`, where `a` was unique in one of the tables below, it says that `a` is unique
//!   still. So a DISTINCT of `a` would be left out, and `b` as a further key.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, FunctionalDependencies, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Case, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// `rule`, kept from what it does not answer rightly.
pub(super) fn wary(rule: Rule) -> Rule {
    match rule.name() {
        "simplify_expressions" => Arc::new(Wary { rule, rewrite: simplified }),
        "push_down_filter" => Arc::new(Wary { rule, rewrite: pushed_down }),
        "replace_distinct_aggregate" => Arc::new(Wary { rule, rewrite: grouped }),
        "eliminate_join" | "optimize_projections" => Arc::new(Wary { rule, rewrite: without_dependencies }),
        _ => rule,
    }
}

type Rewrite = fn(&Rule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>;

#[derive(Debug)]
struct Wary {
    rule: Rule,
    rewrite: Rewrite,
}

impl OptimizerRule for Wary {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(&self.rule, plan, config)
    }
}

fn pushed_down(rule: &Rule, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let gives_a_row_of_nothing = |exprs: &[Expr]| exprs.iter().all(|expr| matches!(expr, Expr::GroupingSet(_)));
    if let LogicalPlan::Filter(filter) = &plan
        && let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref()
        && gives_a_row_of_nothing(&aggregate.group_expr)
    {
        return Ok(Transformed::no(plan));
    }
    rule.rewrite(plan, config)
}

/// Every DISTINCT as a grouping, even where the rule takes the rows for distinct.
fn grouped(rule: &Rule, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::All(input)) if !input.schema().fields().is_empty() => {
            let keys = input.schema().columns().into_iter().map(Expr::Column).collect();
            Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, keys, Vec::new())?)))
        }
        other => rule.rewrite(other, config),
    }
}

/// For rules that take a whole plan and look for unique columns in it.
fn without_dependencies(
    rule: &Rule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let mut is_any_wrong = false;
    plan.apply_with_subqueries(|node| {
        is_any_wrong |= is_wrong(node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_any_wrong {
        return rule.rewrite(plan, config);
    }
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = node.recompute_schema()?;
        match node {
            LogicalPlan::Aggregate(mut aggregate) if is_wrong_of(&aggregate) => {
                // Whoever makes the node anew finds them again.
                let schema = aggregate.schema.as_ref().clone();
                aggregate.schema = Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?);
                Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
            }
            other => Ok(Transformed::yes(other)),
        }
    });
    rule.rewrite(plan.data()?, config)
}

fn is_wrong(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Aggregate(aggregate) if is_wrong_of(aggregate))
}

/// Whether only some of the keys are said to be unique together.
fn is_wrong_of(aggregate: &Aggregate) -> bool {
    let keys = aggregate.group_expr.len();
    aggregate.schema.functional_dependencies().iter().any(|dependency| dependency.source_indices.len() < keys)
}

fn simplified(rule: &Rule, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let (mut has_case, mut has_lists) = (false, false);
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            has_case |= matches!(part, Expr::Case(case) if case.expr.is_none() && may_fail(case));
            has_lists |= intersected(part).is_some();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !has_case && !has_lists {
        return rule.rewrite(plan, config);
    }
    let own = merge_schema(&plan.inputs());
    let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_));
    let plan = named(plan, |expr| if has_lists { without_lists(expr, is_condition) } else { Ok(expr) })?;
    if !has_case {
        return rule.rewrite(plan, config);
    }
    let plan = named(plan, |expr| expr.transform_up(|part| hidden(part, &own)).data())?;
    let plan = rule.rewrite(plan, config)?;
    plan.map_data(|plan| named(plan, |expr| expr.transform_up(shown).data()))
}

/// `plan` with every expression changed, under the name that it had.
fn named(plan: LogicalPlan, mut change: impl FnMut(Expr) -> Result<Expr>) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(change(expr)?)))
    })
    .data()
}

/// Whether a condition behind the first or a result may fail.
fn may_fail(case: &Case) -> bool {
    let conditions = case.when_then_expr.iter().skip(1).map(|(when, _)| when);
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let is_harmless = |part: &Expr| match part {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => op.is_logic_operator(),
        Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::InList(_)
        | Expr::Between(_)
        | Expr::Like(_)
        | Expr::Case(_) => true,
        _ => false,
    };
    conditions.chain(results).any(|expr| expr.exists(|part| Ok(!is_harmless(part))).expect("nothing here fails"))
}

/// `CASE WHEN c THEN r END` as `CASE true WHEN c THEN r END`.
fn hidden(expr: Expr, own: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Case(mut case)
            if case.expr.is_none()
                && may_fail(&case)
                && case.when_then_expr[0].1.get_type(own).map_or(true, |kind| kind == DataType::Boolean) =>
        {
            case.expr = Some(Box::new(lit(true)));
            Ok(Transformed::yes(Expr::Case(case)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The way back.
fn shown(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Case(mut case) if case.expr.as_deref() == Some(&lit(true)) => {
            case.expr = None;
            Ok(Transformed::yes(Expr::Case(case)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// `expr` with the lists that have to hold together as one. A condition is false where it is NULL, so that its terms may
/// be left to the rule.
fn without_lists(expr: Expr, is_condition: bool) -> Result<Expr> {
    let replaced =
        |expr: Expr| expr.transform_up(|part| Ok(intersected(&part).map_or(Transformed::no(part), Transformed::yes)));
    if !is_condition {
        return replaced(expr).data();
    }
    let terms = split_conjunction_owned(expr).into_iter().map(|term| replaced(term).data());
    Ok(conjunction(terms.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true)))
}

/// Two lists that have to hold together as one, and as what is NULL for NULL if no value is left.
fn intersected(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (Expr::InList(left), Expr::InList(right)) = (left.as_ref(), right.as_ref()) else { return None };
    let is_constant =
        |list: &InList| list.list.iter().all(|item| item.as_literal().is_some_and(|item| !item.is_null()));
    if left.expr != right.expr || left.expr.is_volatile() || !is_constant(left) || !is_constant(right) {
        return None;
    }
    // Items of one list that the other list has, or does not have, and whether the result is negated.
    let (from, other, in_other, negated) = match (op, left.negated, right.negated) {
        (Operator::And, false, false) => (left, right, true, false),
        (Operator::And, false, true) => (left, right, false, false),
        (Operator::And, true, false) => (right, left, false, false),
        (Operator::Or, true, true) => (left, right, true, true),
        _ => return None,
    };
    let list: Vec<Expr> = from.list.iter().filter(|item| other.list.contains(item) == in_other).cloned().collect();
    let item = left.expr.as_ref().clone();
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    Some(match (list.is_empty(), negated) {
        (true, false) => item.is_null().and(null),
        (true, true) => item.is_not_null().or(null),
        (false, negated) => Expr::InList(InList::new(Box::new(item), list, negated)),
    })
}

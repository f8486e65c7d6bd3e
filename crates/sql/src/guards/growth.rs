//! What a plan can grow to while it is optimised.
//!
//! Some rewrites of the optimiser put an operand twice where it stood once (`a BETWEEN b AND c` becomes `a >= b AND
//! a <= c`), a filter that moves below a projection takes the projection's expressions in the place of its columns,
//! checks of nested subqueries visit each level twice as often as the one around it, and a CUBE is all sets of its
//! columns. All of these double level by level: sixty levels are a short text and a plan of a quintillion nodes, and
//! nothing stops the optimiser once it has begun. So what a plan can grow to is computed before, from the leaves up, and
//! a plan that can grow too far is refused.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{BinaryExpr, Case, GroupingSet};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use rowmill_base::{Error, ErrorKind, Result};

use super::statement::StatementLimits;
use crate::logical::subquery_of;

/// What an operand counts that a rewrite may put twice: it is copied, and what was copied is looked at again.
const COPIED: u64 = 3;
/// What a term counts that a filter may take over from a projection: it goes through all passes again.
const TAKEN_OVER: u64 = 16;
/// What a node of a plan counts.
const NODE: u64 = 16;
/// How often a subquery is visited for one visit to the expression around it.
const SUBQUERY_VISITS: u64 = 2;

/// Rewrites put an operand of these twice, all but the last one.
const CHOOSING_FUNCTIONS: &[&str] = &["coalesce", "nvl", "ifnull"];
/// A CASE of so many branches at most is rewritten as a condition.
const CASE_BRANCHES_MAX: usize = 2;

/// Refuses `plan` if it can grow to more terms than the limit.
pub fn check_growth(plan: &LogicalPlan, limits: &StatementLimits) -> Result<()> {
    let terms = Gauge::default().node(plan).terms;
    if terms <= limits.terms {
        return Ok(());
    }
    let message = format!(
        "the statement can grow to {terms} terms while it is optimised, the limit is {} (expression_terms_max)",
        limits.terms
    );
    Err(Error::new(ErrorKind::StatementTooComplex, message).hint(
        "nest conditions and subqueries less, or keep an intermediate result with CREATE TABLE name AS SELECT ...",
    ))
}

/// What a node and everything below it can grow to.
#[derive(Clone, Debug)]
struct Size {
    terms: u64,
    /// Terms of each column's expression, down to the columns of tables.
    columns: Arc<[u64]>,
}

/// Sizes by node. Names of a WITH clause share their nodes, so a plan may be far smaller than the tree it stands for.
#[derive(Default)]
struct Gauge {
    known: HashMap<*const LogicalPlan, Size>,
}

impl Gauge {
    fn node(&mut self, plan: &LogicalPlan) -> Size {
        let key = std::ptr::from_ref(plan);
        if let Some(size) = self.known.get(&key) {
            return size.clone();
        }
        let inputs: Vec<Size> = plan.inputs().into_iter().map(|input| self.node(input)).collect();
        let columns: Vec<u64> = inputs.iter().flat_map(|input| input.columns.iter().copied()).collect();
        let computed = columns.iter().any(|terms| *terms > 1);
        let own = computed.then(|| InputColumns { schema: merge_schema(&plan.inputs()), terms: &columns });
        let moves_down = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        let mut terms = inputs.iter().fold(NODE, |terms, input| terms.saturating_add(input.terms));
        let mut outputs = Vec::new();
        plan.apply_expressions(|expr| {
            let written = self.expr(expr, None);
            let whole = own.as_ref().map_or(written, |own| self.expr(expr, Some(own)));
            let taken_over = if moves_down { whole.saturating_sub(written).saturating_mul(TAKEN_OVER) } else { 0 };
            terms = terms.saturating_add(written).saturating_add(taken_over);
            outputs.push(whole);
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("nothing here fails");
        let size = Size { terms, columns: output_columns(plan, columns, outputs).into() };
        self.known.insert(key, size.clone());
        size
    }

    /// Terms of `expr`, with the columns of `own` as large as their expressions.
    fn expr(&mut self, expr: &Expr, own: Option<&InputColumns<'_>>) -> u64 {
        let copied = |size: u64| size.saturating_mul(COPIED);
        match expr {
            Expr::Column(column) => own.map_or(1, |own| own.terms_of(column)),
            Expr::Between(between) => {
                let bounds = self.expr(&between.low, own).saturating_add(self.expr(&between.high, own));
                copied(self.expr(&between.expr, own)).saturating_add(bounds)
            }
            Expr::InList(list) => {
                let values = self.all(&list.list, own);
                copied(self.expr(&list.expr, own)).saturating_add(values)
            }
            Expr::Case(Case { expr: None, when_then_expr, else_expr }) if when_then_expr.len() <= CASE_BRANCHES_MAX => {
                let branches = when_then_expr.iter().fold(1_u64, |terms, (when, then)| {
                    let when = copied(self.expr(when, own));
                    terms.saturating_add(when).saturating_add(self.expr(then, own))
                });
                branches.saturating_add(else_expr.as_ref().map_or(0, |otherwise| self.expr(otherwise, own)))
            }
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::IsDistinctFrom | Operator::IsNotDistinctFrom,
                right,
            }) => copied(self.expr(left, own).saturating_add(self.expr(right, own))),
            Expr::ScalarFunction(call) if CHOOSING_FUNCTIONS.contains(&call.func.name()) => {
                copied(self.all(&call.args, own)).saturating_add(1)
            }
            Expr::GroupingSet(GroupingSet::Cube(columns)) => {
                let sets = 1_u64.checked_shl(columns.len() as u32).unwrap_or(u64::MAX);
                self.all(columns, own).saturating_mul(sets)
            }
            Expr::GroupingSet(GroupingSet::Rollup(columns)) => {
                self.all(columns, own).saturating_mul(columns.len() as u64)
            }
            other => self.parts(other, own),
        }
    }

    fn all(&mut self, exprs: &[Expr], own: Option<&InputColumns<'_>>) -> u64 {
        exprs.iter().fold(0_u64, |terms, expr| terms.saturating_add(self.expr(expr, own)))
    }

    fn parts(&mut self, expr: &Expr, own: Option<&InputColumns<'_>>) -> u64 {
        let mut terms = match subquery_of(expr) {
            Some(subquery) => self.node(&subquery.subquery).terms.saturating_mul(SUBQUERY_VISITS),
            None => 1,
        };
        expr.apply_children(|part| {
            terms = terms.saturating_add(self.expr(part, own));
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("nothing here fails");
        terms
    }
}

/// The columns that a node reads, with the terms of their expressions.
struct InputColumns<'a> {
    schema: DFSchema,
    terms: &'a [u64],
}

impl InputColumns<'_> {
    fn terms_of(&self, column: &Column) -> u64 {
        let position = self.schema.maybe_index_of_column(column);
        position.and_then(|position| self.terms.get(position)).copied().unwrap_or(1)
    }
}

/// Terms of the columns that `plan` gives, for those of its `inputs` and those that its own expressions make.
fn output_columns(plan: &LogicalPlan, inputs: Vec<u64>, expressions: Vec<u64>) -> Vec<u64> {
    let count = plan.schema().fields().len();
    let found = match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => expressions,
        LogicalPlan::Window(_) => [inputs, expressions].concat(),
        _ => inputs,
    };
    if found.len() == count {
        return found;
    }
    vec![found.into_iter().max().unwrap_or(1); count]
}

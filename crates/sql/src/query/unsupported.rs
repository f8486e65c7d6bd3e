//! Clauses that the parser reads and the planner would pass over in silence: refused by name. Here are those that need to
//! know the functions there are, or that only planning could run into; most are refused as soon as a statement is read
//! ([`crate::semantics::prepare`]).

use std::ops::ControlFlow;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Join, JoinConstraint, JoinOperator,
    OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Visitor,
};
use rowmill_base::{Error, ErrorKind, Result};

use crate::errors::to_datafusion;
use crate::walk::walk;

/// An error for the first clause of `statement` that would not be executed.
pub(super) fn refuse(statement: &Statement, state: &SessionState) -> Result<()> {
    match walk(statement, &mut Search { state }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Search<'a> {
    state: &'a SessionState,
}

fn unsupported(clause: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{clause} is not supported"))
}

/// The first of `clauses` that is there.
fn first(clauses: &[(bool, &'static str)]) -> ControlFlow<Error> {
    match clauses.iter().find(|(present, _)| *present) {
        Some((_, clause)) => ControlFlow::Break(unsupported(clause)),
        None => ControlFlow::Continue(()),
    }
}

impl Visitor for Search<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        if let Some(name) = ambiguous_key(query) {
            let error = Error::new(ErrorKind::AmbiguousColumn, format!("ORDER BY \"{name}\" may mean several columns"));
            return ControlFlow::Break(error.hint("give the columns of the result different names with AS"));
        }
        first(&[
            (query.order_by.as_ref().is_some_and(fills_gaps), "WITH FILL or INTERPOLATE behind ORDER BY"),
            (query.with.iter().flat_map(|with| &with.cte_tables).any(|table| table.from.is_some()), "FROM behind WITH"),
        ])
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        if !modifiers.is_empty() {
            let error = unsupported("WITH ROLLUP, CUBE or TOTALS behind GROUP BY");
            return ControlFlow::Break(error.hint("write GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)"));
        }
        let mut joins = select.from.iter().flat_map(|from| &from.joins);
        let is_bare = |join: &Join| {
            matches!(
                join.join_operator,
                JoinOperator::Join(JoinConstraint::None) | JoinOperator::Inner(JoinConstraint::None)
            )
        };
        if joins.clone().any(is_bare) {
            let error = unsupported("JOIN without a join condition");
            return ControlFlow::Break(error.hint("write ON or USING behind it, or CROSS JOIN"));
        }
        first(&[(joins.any(|join| join.global), "GLOBAL in front of JOIN")])
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { args: Some(args), .. } = factor else { return ControlFlow::Continue(()) };
        first(&[(args.settings.is_some(), "SETTINGS of a table function")])
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let name = call.name.to_string();
        if self.state.scalar_functions().contains_key(&name)
            && let Some(clause) = clause_of_others(call)
        {
            return ControlFlow::Break(unsupported(&format!("{name} is a function of single rows: {clause} with it")));
        }
        first(&[
            (!matches!(call.parameters, FunctionArguments::None), "a second list of arguments behind a function"),
            (call.uses_odbc_syntax, "{fn ...}"),
        ])
    }
}

/// An error for what was planned in a place where nothing runs it.
pub(super) fn refuse_plan(plan: &LogicalPlan) -> PlanResult<()> {
    plan.apply_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if has_window(&filter.predicate)? => Err(to_datafusion(
            Error::new(ErrorKind::Grouping, "window functions are not allowed in WHERE and HAVING")
                .hint("a condition on one stands in QUALIFY, or around a subquery that computes it"),
        )),
        _ => Ok(TreeNodeRecursion::Continue),
    })
    .map(|_| ())
}

/// A clause of `call` that only aggregates and window functions have.
fn clause_of_others(call: &Function) -> Option<&'static str> {
    let (distinct, ordered) = match &call.args {
        FunctionArguments::List(list) => (
            list.duplicate_treatment.is_some(),
            list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_))),
        ),
        _ => (false, false),
    };
    let clauses = [
        (call.over.is_some(), "OVER"),
        (call.filter.is_some(), "FILTER"),
        (distinct, "DISTINCT"),
        (ordered, "ORDER BY"),
        (!call.within_group.is_empty(), "WITHIN GROUP"),
    ];
    clauses.iter().find(|(is_there, _)| *is_there).map(|(_, clause)| *clause)
}

/// A name behind ORDER BY that several columns of the result have.
fn ambiguous_key(query: &Query) -> Option<&str> {
    let (SetExpr::Select(select), Some(OrderBy { kind: OrderByKind::Expressions(keys), .. })) =
        (query.body.as_ref(), &query.order_by)
    else {
        return None;
    };
    let is_called = |expr: &Expr, name: &str| match expr {
        Expr::Identifier(ident) => ident.value == name,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|part| part.value == name),
        _ => false,
    };
    let is_ambiguous = |name: &str| {
        let mut meant = None;
        let mut differs = false;
        for item in &select.projection {
            // A column under its own name is one, with its table or without.
            let column = match item {
                SelectItem::ExprWithAlias { expr, alias } if alias.value == name && !is_called(expr, name) => {
                    expr.to_string()
                }
                SelectItem::ExprWithAlias { alias, .. } if alias.value == name => name.to_string(),
                SelectItem::UnnamedExpr(expr) if is_called(expr, name) => name.to_string(),
                _ => continue,
            };
            differs |= meant.as_ref().is_some_and(|meant| *meant != column);
            meant = Some(column);
        }
        differs
    };
    keys.iter().find_map(|key| match &key.expr {
        Expr::Identifier(ident) if is_ambiguous(&ident.value) => Some(ident.value.as_str()),
        _ => None,
    })
}

fn has_window(expr: &PlanExpr) -> PlanResult<bool> {
    expr.exists(|part| Ok(matches!(part, PlanExpr::WindowFunction(_))))
}

fn fills_gaps(order_by: &OrderBy) -> bool {
    let with_fill = match &order_by.kind {
        OrderByKind::Expressions(exprs) => exprs.iter().any(|expr| expr.with_fill.is_some()),
        OrderByKind::All(_) => false,
    };
    with_fill || order_by.interpolate.is_some()
}

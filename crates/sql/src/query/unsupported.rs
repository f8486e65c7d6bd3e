//! Clauses that the parser reads and the planner would pass over in silence: refused by name.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, LimitClause, OrderBy, OrderByKind, Query,
    Select, Statement, TableFactor, Visit, Visitor,
};
use rowmill_base::{Error, ErrorKind, Result};

use crate::errors::to_datafusion;

/// An error for the first clause of `statement` that would not be executed.
pub(super) fn refuse(statement: &Statement, state: &SessionState) -> Result<()> {
    match statement.visit(&mut Search { state }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(Found { clause, hint }) => {
            let error = Error::new(ErrorKind::Unsupported, format!("{clause} is not supported"));
            Err(match hint {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
    }
}

struct Found {
    clause: Cow<'static, str>,
    hint: Option<&'static str>,
}

struct Search<'a> {
    state: &'a SessionState,
}

/// The first of `clauses` that is there.
fn first(clauses: &[(bool, &'static str)]) -> ControlFlow<Found> {
    match clauses.iter().find(|(present, _)| *present) {
        Some((_, clause)) => ControlFlow::Break(Found { clause: (*clause).into(), hint: None }),
        None => ControlFlow::Continue(()),
    }
}

impl Visitor for Search<'_> {
    type Break = Found;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Found> {
        if !query.locks.is_empty() {
            let hint = Some("leave it out: a transaction that changed what another one has changed fails at COMMIT");
            return ControlFlow::Break(Found { clause: "FOR UPDATE or FOR SHARE".into(), hint });
        }
        let limit_by = match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit_by, .. }) => !limit_by.is_empty(),
            _ => false,
        };
        first(&[
            (query.for_clause.is_some(), "a FOR clause"),
            (query.settings.is_some(), "SETTINGS behind a query"),
            (query.format_clause.is_some(), "FORMAT behind a query"),
            (limit_by, "LIMIT ... BY"),
            (query.order_by.as_ref().is_some_and(fills_gaps), "WITH FILL or INTERPOLATE behind ORDER BY"),
            (query.with.iter().flat_map(|with| &with.cte_tables).any(|table| table.from.is_some()), "FROM behind WITH"),
        ])
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Found> {
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        if !modifiers.is_empty() {
            let hint = Some("write GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)");
            return ControlFlow::Break(Found { clause: "WITH ROLLUP, CUBE or TOTALS behind GROUP BY".into(), hint });
        }
        first(&[
            (!select.optimizer_hints.is_empty(), "an optimizer hint"),
            (select.select_modifiers.is_some(), "a modifier behind SELECT"),
            (select.into.is_some(), "SELECT ... INTO"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (select.value_table_mode.is_some(), "SELECT AS VALUE or AS STRUCT"),
            (select.from.iter().flat_map(|from| &from.joins).any(|join| join.global), "GLOBAL in front of JOIN"),
        ])
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Found> {
        match factor {
            TableFactor::Table {
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
                ..
            } => first(&[
                (args.as_ref().is_some_and(|args| args.settings.is_some()), "SETTINGS of a table function"),
                (!with_hints.is_empty(), "WITH (...) behind a table"),
                (version.is_some(), "a version of a table"),
                (*with_ordinality, "WITH ORDINALITY"),
                (!partitions.is_empty(), "PARTITION behind a table"),
                (json_path.is_some(), "a path behind a table"),
                (sample.is_some(), "TABLESAMPLE"),
                (!index_hints.is_empty(), "an index hint"),
            ]),
            TableFactor::Derived { sample, .. } => first(&[(sample.is_some(), "TABLESAMPLE")]),
            TableFactor::Function { with_ordinality, .. } => first(&[(*with_ordinality, "WITH ORDINALITY")]),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Found> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let name = call.name.to_string();
        if self.state.scalar_functions().contains_key(&name)
            && let Some(clause) = clause_of_others(call)
        {
            let clause = format!("{name} is a function of single rows: {clause} with it").into();
            return ControlFlow::Break(Found { clause, hint: None });
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

//! Reduces a statement that shows a difference to a smaller one that still shows it.
//!
//! Every edit changes the syntax tree: we drop a clause, replace a set operation by one of its sides, or replace an
//! expression by one of its operands or by a constant. We keep an order if a LIMIT, a DISTINCT ON or a window depends
//! on it, because a statement with several right answers proves nothing.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sqlparser::ast::{
    CaseWhen, Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, JoinConstraint,
    JoinOperator, Query, Select, SetExpr, Statement, Value, VisitMut, VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// The most checks of one reduction, and the most time that it may take.
const CHECKS_MAX: usize = 1_500;
const REDUCTION_MAX: Duration = Duration::from_secs(25);

/// Returns the smallest statement that we find for which `still` returns true.
pub fn reduce(sql: &str, mut still: impl FnMut(&str) -> bool) -> String {
    let Some(mut best) = parse(sql) else { return sql.to_owned() };
    // The parser and the printer may lose something. If the printed statement does not show the difference, we cannot
    // edit it.
    if !still(&best.to_string()) {
        return sql.to_owned();
    }
    let begun = Instant::now();
    let mut checks = 0;
    let mut target = 0;
    let mut changed = false;
    loop {
        let mut edited = best.clone();
        let mut editor = Editor { target, seen: 0, windows: 0 };
        let _ = edited.visit(&mut editor);
        if editor.seen <= target {
            // A round has ended. We begin another one only if this one changed something.
            if !changed {
                return best.to_string();
            }
            (target, changed) = (0, false);
            continue;
        }
        checks += 1;
        if checks > CHECKS_MAX || begun.elapsed() > REDUCTION_MAX {
            return best.to_string();
        }
        let text = edited.to_string();
        // Only a shorter text is progress. Without this test two edits could undo each other forever.
        match text.len() < best.to_string().len() && still(&text) {
            true => {
                // The replacement may be reduced further, so we try the same place again.
                best = edited;
                changed = true;
            }
            false => target += 1,
        }
    }
}

fn parse(sql: &str) -> Option<Statement> {
    Parser::parse_sql(&GenericDialect {}, sql).ok()?.pop()
}

/// Makes edit number `target`, and counts all possible edits.
struct Editor {
    target: usize,
    seen: usize,
    /// The number of window calls around the current expression.
    windows: usize,
}

impl Editor {
    /// Counts an edit. Returns true if it is the one that we must make.
    fn take(&mut self) -> bool {
        self.seen += 1;
        self.seen - 1 == self.target
    }

    fn edit_select(&mut self, select: &mut Select) {
        if select.selection.is_some() && self.take() {
            select.selection = None;
        }
        if select.having.is_some() && self.take() {
            select.having = None;
        }
        if select.qualify.is_some() && self.take() {
            select.qualify = None;
        }
        if !select.named_window.is_empty() && self.take() {
            select.named_window.clear();
        }
        if matches!(select.distinct, Some(Distinct::Distinct)) && self.take() {
            select.distinct = None;
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            // We return after a removal, because the places of the remaining parts have changed.
            for place in 0..keys.len() {
                if self.take() {
                    keys.remove(place);
                    return;
                }
            }
        }
        for place in 0..select.projection.len() {
            if select.projection.len() > 1 && self.take() {
                select.projection.remove(place);
                return;
            }
        }
        for place in 0..select.from.len() {
            if select.from.len() > 1 && self.take() {
                select.from.remove(place);
                return;
            }
            for join in 0..select.from[place].joins.len() {
                if self.take() {
                    select.from[place].joins.remove(join);
                    return;
                }
                // The other edit drops the first relation and keeps the joined one in its place.
                if join == 0 && self.take() {
                    let first = select.from[place].joins.remove(0);
                    select.from[place].relation = first.relation;
                    return;
                }
                let operator = &mut select.from[place].joins[join].join_operator;
                let constraint: Option<JoinConstraint> = match operator {
                    JoinOperator::Left(on) | JoinOperator::Right(on) | JoinOperator::FullOuter(on) => Some(on.clone()),
                    _ => None,
                };
                // An outer join may be needed or not, so we try the inner join.
                if let Some(on) = constraint
                    && self.take()
                {
                    *operator = JoinOperator::Join(on);
                    return;
                }
            }
        }
    }

    fn edit_body(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.edit_select(select),
            SetExpr::SetOperation { left, right, .. } => {
                if self.take() {
                    *body = (**left).clone();
                } else if self.take() {
                    *body = (**right).clone();
                } else {
                    self.edit_body(left);
                    self.edit_body(right);
                }
            }
            _ => {}
        }
    }

    /// Returns the operands of an expression, which can replace it.
    fn operands(expr: &Expr) -> Vec<Expr> {
        match expr {
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => {
                vec![(**left).clone(), (**right).clone()]
            }
            Expr::UnaryOp { expr, .. }
            | Expr::Nested(expr)
            | Expr::Cast { expr, .. }
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr)
            | Expr::Floor { expr, .. }
            | Expr::Trim { expr, .. }
            | Expr::Substring { expr, .. } => vec![(**expr).clone()],
            Expr::Between { expr, low, high, .. } => vec![(**expr).clone(), (**low).clone(), (**high).clone()],
            Expr::Case { conditions, else_result, .. } => {
                let results = conditions.iter().map(|CaseWhen { result, .. }| result.clone());
                results.chain(else_result.iter().map(|result| (**result).clone())).collect()
            }
            Expr::Function(call) => match &call.args {
                FunctionArguments::List(list) => {
                    let arguments = list.args.iter().filter_map(|argument| match argument {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                        _ => None,
                    });
                    arguments.collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

impl VisitorMut for Editor {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if query.with.is_some() && self.take() {
            query.with = None;
        }
        if let Some(with) = &mut query.with {
            for place in 0..with.cte_tables.len() {
                if with.cte_tables.len() > 1 && self.take() {
                    with.cte_tables.remove(place);
                    break;
                }
            }
        }
        let needs_order = query.limit_clause.is_some() || query.body.to_string().contains("DISTINCT ON");
        if query.order_by.is_some() && !needs_order && self.take() {
            query.order_by = None;
        }
        if query.limit_clause.is_some() && self.take() {
            query.limit_clause = None;
        }
        self.edit_body(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_window = matches!(expr, Expr::Function(call) if call.over.is_some());
        if self.windows == 0 && !matches!(expr, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            for operand in Self::operands(expr) {
                if self.take() {
                    *expr = operand;
                    return ControlFlow::Continue(());
                }
            }
            for constant in [Value::Boolean(true), Value::Boolean(false), Value::Null] {
                if self.take() {
                    *expr = Expr::Value(constant.into());
                    return ControlFlow::Continue(());
                }
            }
            if let Expr::InList { list, .. } = expr {
                for place in 0..list.len() {
                    if list.len() > 1 && self.take() {
                        list.remove(place);
                        break;
                    }
                }
            }
            if let Expr::Case { conditions, else_result, .. } = expr {
                if else_result.is_some() && self.take() {
                    *else_result = None;
                }
                for place in 0..conditions.len() {
                    if conditions.len() > 1 && self.take() {
                        conditions.remove(place);
                        break;
                    }
                }
            }
            if let Expr::Function(call) = expr
                && call.filter.is_some()
                && self.take()
            {
                call.filter = None;
            }
        }
        if is_window {
            self.windows += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Function(call) if call.over.is_some()) {
            self.windows = self.windows.saturating_sub(1);
        }
        ControlFlow::Continue(())
    }
}

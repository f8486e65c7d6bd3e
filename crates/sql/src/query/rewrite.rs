//! Forms that mean what another form means, which the planner knows: put into that form before planning.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, FunctionArg, FunctionArgExpr, GroupByExpr, Ident, ObjectName, OrderBy, OrderByKind,
    Query, Select, SelectFlavor, SelectItem, SetExpr, Statement, TableFactor, Value, ValueWithSpan, VisitorMut,
};

use crate::walk::walk_mut;

/// Rewrites
///
/// - `FROM unnest(list)`, where it was read as a table function, as what it is,
/// - `FROM t` without `SELECT` as `SELECT * FROM t`,
/// - `ORDER BY 1` behind `SELECT n + 1 ... GROUP BY n` as `ORDER BY n + 1`: the planner finds no column of that name,
/// - `DISTINCT ON (1)` as the column of the result that the number stands for,
/// - calls of a function by its second name, deep inside of others like it, as calls by its first.
pub(super) fn rewrite(statement: &mut Statement, state: &SessionState) {
    let _ = walk_mut(statement, &mut Forms { state, second_names: 0 });
}

/// Calls by a second name that may lie around another one. The planner keeps the second name beside each of them, and
/// whoever asks for the type of such a call asks for that of its arguments twice: nested, the questions double.
const SECOND_NAMES_MAX: usize = 1;

struct Forms<'a> {
    state: &'a SessionState,
    /// Calls by a second name around the place that is being read.
    second_names: usize,
}

impl Forms<'_> {
    /// The first name of the function that `call` calls by a second one.
    fn first_name(&self, call: &Function) -> Option<String> {
        let [part] = call.name.0.as_slice() else { return None };
        let name = part.as_ident()?.value.as_str();
        let scalar = self.state.scalar_functions().get(name).map(|function| function.name());
        let first = scalar.or_else(|| self.state.higher_order_functions().get(name).map(|function| function.name()))?;
        (first != name).then(|| first.to_string())
    }
}

impl VisitorMut for Forms<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        spell_out_positions(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(Default::default())];
        }
        spell_out_distinct_on(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && let Some(name) = self.first_name(call)
        {
            if self.second_names < SECOND_NAMES_MAX {
                self.second_names += 1;
            } else {
                call.name = ObjectName::from(vec![Ident::new(name)]);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && self.first_name(call).is_some()
        {
            self.second_names -= 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(unnest) = as_unnest(factor) {
            *factor = unnest;
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the numbers behind `ORDER BY` that stand for computed columns of a grouped `SELECT`.
fn spell_out_positions(query: &mut Query) {
    let (SetExpr::Select(select), Some(OrderBy { kind: OrderByKind::Expressions(keys), .. })) =
        (&*query.body, &mut query.order_by)
    else {
        return;
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if !is_grouped
        || select
            .projection
            .iter()
            .any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }))
    {
        return;
    }
    for key in keys {
        let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &key.expr else { continue };
        let position = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match position.and_then(|position| select.projection.get(position)) {
            Some(SelectItem::UnnamedExpr(Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => {}
            Some(SelectItem::UnnamedExpr(expr)) => key.expr = expr.clone(),
            _ => {}
        }
    }
}

/// Replaces the numbers in `DISTINCT ON (...)`.
fn spell_out_distinct_on(select: &mut Select) {
    let Some(Distinct::On(keys)) = &mut select.distinct else { return };
    for key in keys {
        let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = key else { continue };
        let position = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            position.and_then(|position| select.projection.get(position))
        {
            *key = expr.clone();
        }
    }
}

fn as_unnest(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return None };
    if name.to_string() != "unnest" {
        return None;
    }
    let exprs = args.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    Some(TableFactor::UNNEST {
        alias: alias.clone(),
        array_exprs: exprs.collect::<Option<Vec<_>>>()?,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    })
}

//! Forms that mean what another form means, which the planner knows: put into that form before planning.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, FunctionArg, FunctionArgExpr, GroupByExpr, LimitClause, OrderBy, OrderByKind, Query, Select,
    SelectFlavor, SelectItem, SetExpr, Statement, TableFactor, Value, ValueWithSpan, VisitMut, VisitorMut,
};

/// Rewrites
///
/// - `FETCH FIRST n ROWS ONLY` as `LIMIT n`,
/// - `FROM unnest(list)`, where it was read as a table function, as what it is,
/// - `FROM t` without `SELECT` as `SELECT * FROM t`,
/// - `ORDER BY 1` behind `SELECT n + 1 ... GROUP BY n` as `ORDER BY n + 1`: the planner finds no column of that name.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut Forms);
}

struct Forms;

impl VisitorMut for Forms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(Fetch { with_ties: false, percent: false, quantity }) = &query.fetch {
            // Without a number it is one row.
            let rows = quantity.clone().unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
            if let Some(limit) = with_limit(query.limit_clause.take(), rows) {
                query.limit_clause = Some(limit);
                query.fetch = None;
            }
        }
        spell_out_positions(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(Default::default())];
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

/// `clause`, which has no limit of its own, with the limit `rows`.
fn with_limit(clause: Option<LimitClause>, rows: Expr) -> Option<LimitClause> {
    match clause {
        None => Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() }),
        Some(LimitClause::LimitOffset { limit: None, offset, limit_by }) => {
            Some(LimitClause::LimitOffset { limit: Some(rows), offset, limit_by })
        }
        Some(_) => None,
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

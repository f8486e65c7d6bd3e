//! Aliases that are columns' names too, in a grouped `SELECT` with ORDER BY.
//!
//! The planner looks for the names in ORDER BY among the aliases and the columns at once, and calls a cast by what is
//! cast. So `SELECT s, sum(i) AS i ... ORDER BY sum(i)` finds no column `i`, and `SELECT CAST(x AS TEXT) AS x ... GROUP BY
//! CAST(x AS TEXT) ORDER BY x` orders by `x`. Such an alias gets a name of its own before planning, and where it is a key
//! of ORDER BY by itself the key gets that too.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, OrderByKind, SelectItem, SetExpr, Statement, Visit,
};

use super::select_list::marked;
use crate::walk::any_expr;

/// Renames such aliases of the statement's own list, whose names nothing around it asks for.
pub(super) fn tell_apart(statement: &mut Statement) {
    let Statement::Query(query) = statement else { return };
    let (SetExpr::Select(select), Some(order_by)) = (query.body.as_mut(), query.order_by.as_mut()) else { return };
    let (OrderByKind::Expressions(keys), GroupByExpr::Expressions(groups, _)) = (&mut order_by.kind, &select.group_by)
    else {
        return;
    };
    if groups.is_empty() {
        return;
    }
    for (position, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        let name = alias.value.as_str();
        let is_cast = groups.iter().any(|group| {
            any_expr(group, |part| matches!(part, Expr::Cast { expr, .. } if has_name(expr.as_ref(), name)))
        });
        let is_argument = keys.iter().any(|key| {
            any_expr(&key.expr, |part| matches!(part, Expr::Function(Function { args, .. }) if has_name(args, name)))
        });
        let conditions = [&select.having, &select.qualify];
        let is_asked_for = groups.iter().any(|group| is_name(group, name))
            || conditions.into_iter().flatten().any(|condition| has_name(condition, name));
        if !(is_cast || is_argument) || is_asked_for {
            continue;
        }
        let own = marked(name, position);
        for key in keys.iter_mut() {
            if let Expr::Identifier(ident) = &mut key.expr
                && ident.value == name
            {
                ident.value.clone_from(&own);
                ident.quote_style = Some('"');
            }
        }
        alias.value = own;
        alias.quote_style = Some('"');
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.value == name)
}

fn has_name(tree: &impl Visit, name: &str) -> bool {
    any_expr(tree, |part| is_name(part, name))
}

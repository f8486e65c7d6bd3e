//! Forms that mean what another form means, which the planner knows: put into that form before planning.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, FunctionArg, FunctionArgExpr, LimitClause, Query, Statement, TableFactor, Value, VisitMut, VisitorMut,
};

/// Rewrites
///
/// - `FETCH FIRST n ROWS ONLY` as `LIMIT n`,
/// - `FROM unnest(list)`, where it was read as a table function, as what it is.
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

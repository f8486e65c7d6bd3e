//! Rewrites a statement with `EXISTS` in place of `IN`, `ANY` and `ALL` of subqueries.
//!
//! ```text
//! x IN (q)      CASE WHEN EXISTS (SELECT 1 FROM (q) AS zz(zc) WHERE x = zc) THEN TRUE
//!                    WHEN EXISTS (SELECT 1 FROM (q) AS zz(zc) WHERE (x = zc) IS NULL) THEN NULL ELSE FALSE END
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, VisitMut, VisitorMut};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// Returns the statement of `sql` without quantified subqueries, or `None` if it has none.
pub fn with_exists(sql: &str) -> Option<String> {
    let mut statement = Parser::parse_sql(&GenericDialect {}, sql).ok()?.pop()?;
    let mut rewriter = Rewriter { changed: false };
    let _ = statement.visit(&mut rewriter);
    rewriter.changed.then(|| statement.to_string())
}

struct Rewriter {
    changed: bool,
}

impl VisitorMut for Rewriter {
    type Break = ();

    // We rewrite an expression after its parts, so that all levels are rewritten.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let query_of = |right: &Expr| match right {
            Expr::Subquery(query) => Some(query.to_string()),
            _ => None,
        };
        let text = match expr {
            Expr::InSubquery { expr, subquery, negated } => {
                let any = quantified(&expr.to_string(), "=", &subquery.to_string(), false);
                Some(if *negated { format!("(NOT {any})") } else { any })
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                query_of(right).map(|query| quantified(&left.to_string(), &compare_op.to_string(), &query, false))
            }
            Expr::AllOp { left, compare_op, right } => {
                query_of(right).map(|query| quantified(&left.to_string(), &compare_op.to_string(), &query, true))
            }
            _ => None,
        };
        let parsed = text.and_then(|text| {
            let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&text).ok()?;
            parser.parse_expr().ok()
        });
        if let Some(parsed) = parsed {
            *expr = parsed;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Makes the replacement of `value operator ANY (query)`, or of ALL.
fn quantified(value: &str, operator: &str, query: &str, all: bool) -> String {
    let pair = format!("({value} {operator} zz.zc)");
    let (decisive, result, otherwise) =
        if all { (format!("NOT {pair}"), "FALSE", "TRUE") } else { (pair.clone(), "TRUE", "FALSE") };
    let exists = |condition: &str| format!("EXISTS (SELECT 1 FROM ({query}) AS zz (zc) WHERE {condition})");
    format!(
        "(CASE WHEN {} THEN {result} WHEN {} THEN NULL ELSE {otherwise} END)",
        exists(&decisive),
        exists(&format!("{pair} IS NULL"))
    )
}

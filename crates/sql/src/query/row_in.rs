//! `(a, b) IN (SELECT x, y ...)`, which the planner does not know, as EXISTS.
//!
//! ```text
//! WHERE (a, b) IN (S)      WHERE EXISTS (SELECT 1 FROM (S) AS r (x, y) WHERE a = x AND b = y)
//! WHERE (a, b) NOT IN (S)  WHERE NOT EXISTS (SELECT 1 FROM (S) AS r (x, y) WHERE (a = x AND b = y) IS NOT FALSE)
//! elsewhere                CASE WHEN EXISTS (... WHERE a = x AND b = y) THEN true
//!                               WHEN EXISTS (... WHERE (a = x AND b = y) IS NULL) THEN NULL ELSE false END
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, Select, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::select_list::MARK;
use crate::dialect::RowmillDialect;
use crate::walk::walk_mut;

/// Rewrites every such IN of `statement`.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Rows);
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(condition) = &mut select.selection {
            rewrite_condition(condition);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(search) = Search::of(expr) {
            *expr = search.value();
        }
        ControlFlow::Continue(())
    }
}

/// The terms of a WHERE, of which only those that are true count.
fn rewrite_condition(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rewrite_condition(left);
            rewrite_condition(right);
        }
        Expr::Nested(inner) => rewrite_condition(inner),
        other => {
            if let Some(search) = Search::of(other) {
                *other = search.condition();
            }
        }
    }
}

/// A row that is looked for among the rows of a query.
struct Search {
    items: Vec<Expr>,
    query: Box<Query>,
    negated: bool,
}

impl Search {
    fn of(expr: &Expr) -> Option<Search> {
        let Expr::InSubquery { expr, subquery, negated } = expr else { return None };
        let Expr::Tuple(items) = &**expr else { return None };
        Some(Search { items: items.clone(), query: subquery.clone(), negated: *negated })
    }

    fn condition(self) -> Expr {
        let equal = self.equal();
        let wanted = if self.negated { Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(equal)))) } else { equal };
        self.exists(wanted, self.negated)
    }

    fn value(self) -> Expr {
        let unknown = Expr::IsNull(Box::new(Expr::Nested(Box::new(self.equal()))));
        let when = |condition, value| CaseWhen { condition, result: Expr::value(value) };
        Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![
                when(self.exists(self.equal(), false), Value::Boolean(!self.negated)),
                when(self.exists(unknown, false), Value::Null),
            ],
            else_result: Some(Box::new(Expr::value(Value::Boolean(self.negated)))),
        }
    }

    fn column(place: usize) -> Ident {
        Ident::with_quote('"', format!("{MARK}column{place}"))
    }

    fn table() -> Ident {
        Ident::with_quote('"', format!("{MARK}row"))
    }

    /// The items equal the columns of the query.
    fn equal(&self) -> Expr {
        let equal = |(place, item): (usize, &Expr)| Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(item.clone()))),
            op: BinaryOperator::Eq,
            right: Box::new(Expr::CompoundIdentifier(vec![Self::table(), Self::column(place)])),
        };
        self.items
            .iter()
            .enumerate()
            .map(equal)
            .reduce(|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::And,
                right: Box::new(right),
            })
            .expect("a row has items")
    }

    /// `[NOT] EXISTS (SELECT 1 FROM (query) AS row (columns) WHERE condition)`
    fn exists(&self, condition: Expr, negated: bool) -> Expr {
        let dialect = RowmillDialect::new(false, 0);
        let parsed =
            Parser::new(&dialect).try_with_sql("SELECT 1 FROM (SELECT 1) AS t").and_then(|mut p| p.parse_query());
        let mut found = parsed.expect("a constant query parses");
        let SetExpr::Select(select) = &mut *found.body else { unreachable!("it is a SELECT") };
        if let Some(TableFactor::Derived { subquery, alias, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            *subquery = self.query.clone();
            let columns = (0..self.items.len())
                .map(|place| TableAliasColumnDef { name: Self::column(place), data_type: None })
                .collect();
            *alias = Some(TableAlias { explicit: true, name: Self::table(), columns, at: None });
        }
        select.selection = Some(condition);
        Expr::Exists { subquery: found, negated }
    }
}

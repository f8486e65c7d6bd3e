//! Names of the select list in WHERE, as in DuckDB: `SELECT a * 2 AS b FROM t WHERE b > 1`.
//!
//! WHERE is bound before the select list. So we replace the names by their expressions in the syntax tree. A column of
//! FROM or of an enclosing query comes before a name of the select list, and names in subqueries and functions of items
//! stay.

use std::borrow::Cow;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, SelectItem, Visitor, VisitorMut};

use super::Binder;
use crate::syntax_walk::SyntaxTree as _;

/// The most rounds, as the expression of a name may have other names of the list.
const ROUNDS_MAX: usize = 16;

/// The most parts that a condition may grow to.
const PARTS_MAX: usize = 10_000;

impl Binder<'_> {
    /// The condition with the names of the select list replaced.
    pub(super) fn with_names_of_list<'e>(&self, condition: &'e Expr, list: &[SelectItem]) -> Cow<'e, Expr> {
        let names = list.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => Some((alias, expr)),
            _ => None,
        });
        let names: Vec<(&Ident, &Expr)> = names.filter(|(alias, _)| !self.is_column(alias)).collect();
        let mut condition = Cow::Borrowed(condition);
        for _ in 0..ROUNDS_MAX {
            let mut counter = NameCounter { names: &names, depth: 0, named: false, parts: 0 };
            let _ = condition.walk(&mut counter);
            if !counter.named || counter.parts > PARTS_MAX {
                break;
            }
            let _ = condition.to_mut().walk_mut(&mut NameReplacer { names: &names, depth: 0 });
        }
        condition
    }

    /// Whether FROM or an enclosing query has a column of this name.
    fn is_column(&self, ident: &Ident) -> bool {
        let visible = self.levels.iter().filter(|level| !level.is_hidden);
        visible.into_iter().any(|level| !matches!(level.column(ident), Ok(None)))
    }
}

fn replaced<'n>(names: &[(&'n Ident, &'n Expr)], expr: &Expr) -> Option<&'n Expr> {
    let Expr::Identifier(ident) = expr else { return None };
    names.iter().find(|(alias, _)| alias.value == ident.value).map(|(_, expr)| *expr)
}

/// Finds out whether a name of the list occurs outside of subqueries and functions of items.
struct NameCounter<'n> {
    names: &'n [(&'n Ident, &'n Expr)],
    /// How many of these are around the current place.
    depth: usize,
    named: bool,
    parts: usize,
}

impl Visitor for NameCounter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.parts += 1;
        self.depth += usize::from(matches!(expr, Expr::Lambda(_)));
        self.named |= self.depth == 0 && replaced(self.names, expr).is_some();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.depth -= usize::from(matches!(expr, Expr::Lambda(_)));
        ControlFlow::Continue(())
    }
}

struct NameReplacer<'n> {
    names: &'n [(&'n Ident, &'n Expr)],
    depth: usize,
}

impl VisitorMut for NameReplacer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(matches!(expr, Expr::Lambda(_)));
        ControlFlow::Continue(())
    }

    // Operands are visited before their operator, so that a replacement is not searched again in this round.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(matches!(expr, Expr::Lambda(_)));
        if self.depth == 0
            && let Some(by) = replaced(self.names, expr)
        {
            *expr = Expr::Nested(Box::new(by.clone()));
        }
        ControlFlow::Continue(())
    }
}

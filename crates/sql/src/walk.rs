//! Walks over the parser's syntax trees.
//!
//! The compiler generates the parser's walk for every visitor type, each time for all node types. With our visitors
//! that was more than half of this crate's machine code. So all of them must go through [`SyntaxWalk`], which is
//! generated once per type of result.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// Passes every node of `tree` to `visitor`.
pub(crate) fn walk<B>(tree: &impl Visit, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    tree.visit(&mut SyntaxWalk(visitor))
}

/// Passes every node of `tree` to `visitor`, which may change it.
pub(crate) fn walk_mut<B>(tree: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    tree.visit(&mut WalkMut(visitor))
}

/// Whether `is_meant` holds for an expression in `tree`.
pub(crate) fn any_expr(tree: &impl Visit, is_meant: impl Fn(&Expr) -> bool) -> bool {
    walk(tree, &mut AnyExpr(is_meant)).is_break()
}

/// Whether `tree` contains a query.
pub(crate) fn has_query(tree: &impl Visit) -> bool {
    any_query(tree, |_| true)
}

/// Whether `is_meant` holds for a query in `tree`.
pub(crate) fn any_query(tree: &impl Visit, is_meant: impl Fn(&Query) -> bool) -> bool {
    walk(tree, &mut AnyQuery(is_meant)).is_break()
}

/// Changes every expression in `tree`, operands before their operator.
#[cfg(test)]
pub(crate) fn each_expr_mut(tree: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = walk_mut(tree, &mut EachExpr(change));
}

struct AnyExpr<F>(F);

impl<F: Fn(&Expr) -> bool> Visitor for AnyExpr<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct AnyQuery<F>(F);

impl<F: Fn(&Query) -> bool> Visitor for AnyQuery<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if (self.0)(query) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
struct EachExpr<F>(F);

#[cfg(test)]
impl<F: FnMut(&mut Expr)> VisitorMut for EachExpr<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

struct SyntaxWalk<'a, B>(&'a mut dyn Visitor<Break = B>);

struct WalkMut<'a, B>(&'a mut dyn VisitorMut<Break = B>);

macro_rules! hand_on {
    ($($method:ident($node:ty)),+ $(,)?) => {
        impl<B> Visitor for SyntaxWalk<'_, B> {
            type Break = B;
            $(fn $method(&mut self, node: &$node) -> ControlFlow<B> {
                self.0.$method(node)
            })+
        }

        impl<B> VisitorMut for WalkMut<'_, B> {
            type Break = B;
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<B> {
                self.0.$method(node)
            })+
        }
    };
}

hand_on! {
    pre_visit_query(Query),
    post_visit_query(Query),
    pre_visit_select(Select),
    post_visit_select(Select),
    pre_visit_relation(ObjectName),
    post_visit_relation(ObjectName),
    pre_visit_table_factor(TableFactor),
    post_visit_table_factor(TableFactor),
    pre_visit_expr(Expr),
    post_visit_expr(Expr),
    pre_visit_statement(Statement),
    post_visit_statement(Statement),
    pre_visit_value(ValueWithSpan),
    post_visit_value(ValueWithSpan),
}

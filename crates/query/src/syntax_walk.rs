//! Walks over the parser's syntax trees.
//!
//! The compiler generates the parser's walk for every type of visitor, each time for all types of nodes: 230,000 lines
//! of its intermediate code. With our visitors that was more than half of the code of two crates. So all of them must
//! go through [`SyntaxTree`], whose walks are generated once, in this crate.

use std::ops::ControlFlow;

use rowmill_base::{Error, Result};
use sqlparser::ast::{
    AlterTable, CreateTable, Expr, ObjectName, Query, Select, SetExpr, Statement, TableFactor, ValueWithSpan, Visit,
    VisitMut, Visitor, VisitorMut, With,
};

/// A syntax tree whose nodes visitors can read and change.
pub trait SyntaxTree {
    /// Passes every node to `visitor`, until it breaks.
    fn walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// Passes every node to `visitor`, which may change it, until it breaks.
    fn walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;
}

macro_rules! syntax_trees {
    ($($tree:ty),+ $(,)?) => {
        $(impl SyntaxTree for $tree {
            fn walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                self.visit(&mut SyntaxWalk(visitor))
            }

            fn walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                VisitMut::visit(self, &mut WalkMut(visitor))
            }
        })+
    };
}

syntax_trees!(AlterTable, CreateTable, Expr, Query, SetExpr, Statement, With);

/// Passes every node of `tree` to `visitor`, which may change it, until it returns an error.
///
/// # Errors
///
/// Returns the error of the visitor.
pub fn try_walk_mut(tree: &mut impl SyntaxTree, visitor: &mut dyn VisitorMut<Break = Error>) -> Result<()> {
    let mut walk = TryWalkMut { visitor, error: None };
    let _ = tree.walk_mut(&mut walk);
    walk.error.map_or(Ok(()), Err)
}

/// Whether `is_meant` holds for an expression in `tree`.
pub fn any_expr(tree: &impl SyntaxTree, is_meant: impl FnMut(&Expr) -> bool) -> bool {
    tree.walk(&mut AnyExpr(is_meant)).is_break()
}

/// Passes every expression in `tree` to `read`, operators before their operands.
pub fn each_expr(tree: &impl SyntaxTree, mut read: impl FnMut(&Expr)) {
    any_expr(tree, |expr| {
        read(expr);
        false
    });
}

/// Passes every expression in `tree` to `change`, operands before their operator, so that a replacement is not walked.
pub fn each_expr_mut(tree: &mut impl SyntaxTree, change: impl FnMut(&mut Expr)) {
    let _ = tree.walk_mut(&mut EachExpr(change));
}

/// Whether `tree` contains a query.
pub fn has_query(tree: &impl SyntaxTree) -> bool {
    any_query(tree, |_| true)
}

/// Whether `is_meant` holds for a query in `tree`.
pub fn any_query(tree: &impl SyntaxTree, is_meant: impl Fn(&Query) -> bool) -> bool {
    tree.walk(&mut AnyQuery(is_meant)).is_break()
}

struct AnyExpr<F>(F);

impl<F: FnMut(&Expr) -> bool> Visitor for AnyExpr<F> {
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

struct EachExpr<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for EachExpr<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

struct SyntaxWalk<'a>(&'a mut dyn Visitor<Break = ()>);

struct WalkMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Keeps the error of a visitor, because a walk breaks without a value.
struct TryWalkMut<'a> {
    visitor: &'a mut dyn VisitorMut<Break = Error>,
    error: Option<Error>,
}

macro_rules! hand_on {
    ($($method:ident($node:ty)),+ $(,)?) => {
        impl Visitor for SyntaxWalk<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })+
        }

        impl VisitorMut for WalkMut<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })+
        }

        impl VisitorMut for TryWalkMut<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                match self.visitor.$method(node) {
                    ControlFlow::Continue(()) => ControlFlow::Continue(()),
                    ControlFlow::Break(error) => {
                        self.error = Some(error);
                        ControlFlow::Break(())
                    }
                }
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

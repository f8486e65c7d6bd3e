//! `IS DISTINCT FROM` binds like a comparison.
//!
//! The parser reads everything behind it as its right side: `a IS DISTINCT FROM b AND c` as `a IS DISTINCT FROM (b AND c)`.
//! What is written in parentheses is a node of its own in a tree, so a tree in which a looser operator stands to the right
//! of a tighter one without them is turned round.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// How tightly an operator binds, of those that can be out of place.
fn tightness(expr: &Expr) -> Option<u8> {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => Some(1),
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Some(2),
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => Some(3),
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => Some(4),
        _ => None,
    }
}

/// The operand that is written last.
fn last_operand(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { right, .. } => Some(right),
        Expr::UnaryOp { expr, .. } => Some(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some(right),
        _ => None,
    }
}

/// Turns `expr` round if its last operand begins with what belongs to it alone. Its operands are in order.
pub(super) fn repair(expr: &mut Expr) {
    let Some(own) = tightness(expr) else { return };
    let Some(last) = last_operand(expr).filter(|last| is_looser(last, own)) else { return };
    let mut top = std::mem::replace(last, placeholder());
    let mut first = &mut top;
    while is_looser(first, own) {
        let Expr::BinaryOp { left, .. } = first else { break };
        first = left;
    }
    // `first` takes the place of the last operand, and the operator the place of `first`.
    let operand = std::mem::replace(first, placeholder());
    *last_operand(expr).expect("it had one") = operand;
    *first = std::mem::replace(expr, placeholder());
    *expr = top;
}

fn is_looser(expr: &Expr, than: u8) -> bool {
    matches!(expr, Expr::BinaryOp { .. }) && tightness(expr).is_some_and(|tightness| tightness < than)
}

fn placeholder() -> Expr {
    Expr::value(Value::Null)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::ast::Statement;
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::super::prepare::prepare;
    use super::*;
    use crate::walk::each_expr_mut;

    /// The tree that is read, without what stands for parentheses.
    fn tree(text: &str) -> Statement {
        let mut statement = Parser::parse_sql(&GenericDialect {}, &format!("SELECT {text}")).unwrap().remove(0);
        prepare(&mut statement).unwrap();
        each_expr_mut(&mut statement, |expr| {
            while let Expr::Nested(inner) = expr {
                *expr = std::mem::replace(inner, placeholder());
            }
        });
        statement
    }

    #[test]
    fn it_binds_tighter_than_not_and_or() {
        for (text, read) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("p AND a IS NOT DISTINCT FROM b OR c", "(p AND (a IS NOT DISTINCT FROM b)) OR c"),
            ("NOT a IS DISTINCT FROM b AND c OR d", "((NOT (a IS DISTINCT FROM b)) AND c) OR d"),
            ("a IS DISTINCT FROM (b AND c)", "a IS DISTINCT FROM (b AND c)"),
            ("p AND (q OR r) AND NOT (s OR t)", "(p AND (q OR r)) AND (NOT (s OR t))"),
        ] {
            assert_eq!(tree(text), tree(read), "{text}");
        }
    }
}

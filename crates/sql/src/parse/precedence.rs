//! Repairs the precedence of `IS DISTINCT FROM`, which must bind like a comparison.
//!
//! The parser reads everything after it as its right side: `a IS DISTINCT FROM b AND c` becomes `a IS DISTINCT FROM (b
//! AND c)`. Parentheses in the text are nodes of their own in the tree. So if a looser operator is the right operand of
//! a tighter one without such a node, the parser has misread it, and we rotate the tree.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// Returns how tightly an operator binds, for the operators that can be misplaced.
fn tightness(expr: &Expr) -> Option<u8> {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => Some(1),
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Some(2),
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => Some(3),
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => Some(4),
        _ => None,
    }
}

/// Returns the last operand of an operator, in the order of the text.
fn last_operand(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { right, .. } => Some(right),
        Expr::UnaryOp { expr, .. } => Some(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some(right),
        _ => None,
    }
}

/// Rotates `expr` if its last operand has swallowed operators that bind looser. The operands of `expr` must already be
/// repaired.
pub(super) fn repair(expr: &mut Expr) {
    let Some(own) = tightness(expr) else { return };
    let Some(last) = last_operand(expr).filter(|last| is_looser(last, own)) else { return };
    // Take the misplaced operand out of `expr`.
    let mut top = std::mem::replace(last, placeholder());
    let mut first = &mut top;
    // We walk down the left side to the leftmost operand that the looser operators share: it alone belongs to `expr`.
    while is_looser(first, own) {
        let Expr::BinaryOp { left, .. } = first else { break };
        first = left;
    }
    // `first` becomes the last operand of `expr`, and `expr` takes the place of `first`.
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
    use rowmill_query::syntax_walk::each_expr_mut;

    /// Returns the tree that the parser reads, without the nodes of parentheses.
    fn tree(text: &str) -> Statement {
        let mut statement = Parser::parse_sql(&GenericDialect {}, &format!("SELECT {text}")).unwrap().remove(0);
        prepare(&mut statement, false).unwrap();
        each_expr_mut(&mut statement, |expr| {
            while let Expr::Nested(inner) = expr {
                *expr = std::mem::replace(inner, placeholder());
            }
        });
        statement
    }

    #[test]
    fn is_distinct_from_binds_tighter_than_not_and_or() {
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

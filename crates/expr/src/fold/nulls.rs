//! Whether the value of an expression can be NULL.

use arrow::datatypes::DataType;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

/// Whether the value can be NULL. `column` answers this for a column.
pub fn is_nullable(expr: &ScalarExpr, column: &dyn Fn(usize) -> bool) -> bool {
    let nullable = |expr: &ScalarExpr| is_nullable(expr, column);
    match &expr.op {
        ExprOp::Column(position) => column(*position),
        ExprOp::Literal(value) => value.is_null(),
        ExprOp::IsDistinct { .. } | ExprOp::IsNull { .. } => false,
        ExprOp::Cast { or_null: true, .. } => true,
        ExprOp::Case { whens, otherwise } => {
            otherwise.as_deref().is_none_or(nullable) || whens.iter().any(|(_, value)| nullable(value))
        }
        ExprOp::Coalesce(values) => values.iter().all(nullable),
        // A function may return NULL for any arguments.
        ExprOp::EachItem { .. } | ExprOp::ItemParameter(_) => true,
        ExprOp::Parameter(_) | ExprOp::Call(..) | ExprOp::Dynamic(..) | ExprOp::Subquery(_) => true,
        _ => expr.operands().into_iter().any(nullable),
    }
}

/// Whether the expression cannot be true if all columns for which `column` holds are NULL. A filter with such a
/// condition turns an outer join into an inner one.
pub fn rejects_nulls(expr: &ScalarExpr, column: &dyn Fn(usize) -> bool) -> bool {
    !TruthValues::of(expr, column).can_be_true
}

/// The truth values that a condition can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TruthValues {
    can_be_true: bool,
    can_be_false: bool,
    can_be_null: bool,
}

impl TruthValues {
    const NONE: TruthValues = TruthValues { can_be_true: false, can_be_false: false, can_be_null: false };
    const ANY: TruthValues = TruthValues { can_be_true: true, can_be_false: true, can_be_null: true };
    const NULL: TruthValues = TruthValues { can_be_null: true, ..TruthValues::NONE };

    fn certain(value: bool) -> TruthValues {
        TruthValues { can_be_true: value, can_be_false: !value, can_be_null: false }
    }

    fn or_else(self, other: TruthValues) -> TruthValues {
        TruthValues {
            can_be_true: self.can_be_true || other.can_be_true,
            can_be_false: self.can_be_false || other.can_be_false,
            can_be_null: self.can_be_null || other.can_be_null,
        }
    }

    fn negated(self) -> TruthValues {
        TruthValues { can_be_true: self.can_be_false, can_be_false: self.can_be_true, ..self }
    }

    /// Returns the values that `expr` can have if all columns for which `is_null_column` holds are NULL.
    fn of(expr: &ScalarExpr, is_null_column: &dyn Fn(usize) -> bool) -> TruthValues {
        let of = |expr: &ScalarExpr| TruthValues::of(expr, is_null_column);
        if is_always_null(expr, is_null_column) {
            return TruthValues::NULL;
        }
        match &expr.op {
            ExprOp::Literal(value) => value.as_bool().map_or(TruthValues::ANY, TruthValues::certain),
            ExprOp::IsNull { value, negated } if is_always_null(value, is_null_column) => {
                TruthValues::certain(!negated)
            }
            ExprOp::IsDistinct { operands, negated } => {
                let is_null = |expr: &ScalarExpr| is_always_null(expr, is_null_column);
                let is_some = |expr: &ScalarExpr| expr.as_constant().is_some_and(|value| !value.is_null());
                match &**operands {
                    [left, right] if is_null(left) && is_null(right) => TruthValues::certain(*negated),
                    [left, right] if is_null(left) && is_some(right) || is_some(left) && is_null(right) => {
                        TruthValues::certain(!negated)
                    }
                    _ => TruthValues::ANY,
                }
            }
            ExprOp::Not(value) => of(value).negated(),
            ExprOp::And(parts) => junction(parts.iter().map(of)),
            // By De Morgan's law, `a OR b` is `NOT (NOT a AND NOT b)`.
            ExprOp::Or(parts) => junction(parts.iter().map(|part| of(part).negated())).negated(),
            ExprOp::Case { whens, otherwise } => {
                let mut all = TruthValues::NONE;
                for (condition, value) in whens {
                    let condition = of(condition);
                    if condition.can_be_true {
                        all = all.or_else(of(value));
                    }
                    // Later branches are never reached.
                    if condition == TruthValues::certain(true) {
                        return all;
                    }
                }
                all.or_else(otherwise.as_deref().map_or(TruthValues::NULL, of))
            }
            ExprOp::Coalesce(values) => {
                let mut all = TruthValues::NONE;
                for value in values {
                    let value = of(value);
                    all = all.or_else(TruthValues { can_be_null: false, ..value });
                    // Later values are never reached.
                    if !value.can_be_null {
                        return all;
                    }
                }
                TruthValues { can_be_null: true, ..all }
            }
            _ => TruthValues::ANY,
        }
    }
}

/// Returns the values that an AND of conditions can have.
fn junction(parts: impl Iterator<Item = TruthValues>) -> TruthValues {
    parts.fold(TruthValues::certain(true), |left, right| TruthValues {
        can_be_true: left.can_be_true && right.can_be_true,
        can_be_false: left.can_be_false || right.can_be_false,
        can_be_null: left.can_be_null && (right.can_be_true || right.can_be_null)
            || right.can_be_null && left.can_be_true,
    })
}

/// Whether `expr` must be NULL if all columns for which `is_null_column` holds are NULL.
fn is_always_null(expr: &ScalarExpr, is_null_column: &dyn Fn(usize) -> bool) -> bool {
    let is_null = |expr: &ScalarExpr| is_always_null(expr, is_null_column);
    match &expr.op {
        _ if expr.kind == DataType::Null => true,
        ExprOp::Column(position) => is_null_column(*position),
        ExprOp::Literal(value) => value.is_null(),
        ExprOp::Arithmetic(_, pair) | ExprOp::Compare(_, pair) => pair.iter().any(is_null),
        ExprOp::Negate(value) | ExprOp::Not(value) | ExprOp::Cast { value, .. } => is_null(value),
        ExprOp::InList { value, .. } => is_null(value),
        ExprOp::Like { value, pattern, .. } => is_null(value) || is_null(pattern),
        ExprOp::Call(function, arguments) => function.strict && arguments.iter().any(is_null),
        ExprOp::Coalesce(values) => values.iter().all(is_null),
        ExprOp::And(parts) | ExprOp::Or(parts) => parts.iter().all(is_null),
        ExprOp::Case { whens, otherwise } => {
            whens.iter().all(|(_, value)| is_null(value)) && otherwise.as_deref().is_none_or(is_null)
        }
        // In an order comparison, a NULL in the first pair decides. In an equality, a later pair may still decide.
        ExprOp::CompareRows(op, left, right) if !matches!(op, CompareOp::Equal | CompareOp::NotEqual) => {
            left.first().is_some_and(is_null) || right.first().is_some_and(is_null)
        }
        _ => false,
    }
}

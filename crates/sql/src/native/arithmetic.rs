//! Expressions of integers and decimals as arithmetic of the engine.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use rowmill_exec::arithmetic::{Arithmetic, Operator as Step, Span, Step as Operation};

use crate::semantics::arithmetic_operator;

/// `expr` over the columns of `schema`, if nothing but sums, differences and products of integers is in it.
pub(super) fn arithmetic(expr: &Expr, schema: &DFSchema) -> Option<Arithmetic> {
    Some(lowered(expr, schema)?.0).filter(|arithmetic| matches!(arithmetic, Arithmetic::Step(_)))
}

/// The arithmetic and the type of its results.
fn lowered(expr: &Expr, schema: &DFSchema) -> Option<(Arithmetic, DataType)> {
    let kind = expr.get_type(schema).ok()?;
    let arithmetic = match expr {
        Expr::Alias(alias) => return lowered(&alias.expr, schema),
        Expr::Column(column) if is_exact(&kind) => Arithmetic::Column(schema.index_of_column(column).ok()?),
        Expr::Literal(value, _) => Arithmetic::Number(number(value)?),
        Expr::Cast(cast) => {
            let (of, from) = lowered(&cast.expr, schema)?;
            scaled(of, &from, &kind)?
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => of_operator(*op, left, right, &kind, schema)?,
        Expr::ScalarFunction(call) => {
            let [left, right] = &*call.args else { return None };
            of_operator(arithmetic_operator(&call.func)?, left, right, &kind, schema)?
        }
        _ => return None,
    };
    Some((arithmetic, kind))
}

fn of_operator(op: Operator, left: &Expr, right: &Expr, kind: &DataType, schema: &DFSchema) -> Option<Arithmetic> {
    let (left, left_kind) = lowered(left, schema)?;
    let (right, right_kind) = lowered(right, schema)?;
    let operator = match op {
        Operator::Plus => Step::Plus,
        Operator::Minus => Step::Minus,
        Operator::Multiply => Step::Times,
        _ => return None,
    };
    let (left, right) = match operator {
        // The digits behind the point add up.
        Step::Times if point(&left_kind) + point(&right_kind) == point(kind) => (left, right),
        Step::Times => return None,
        Step::Plus | Step::Minus => (scaled(left, &left_kind, kind)?, scaled(right, &right_kind, kind)?),
    };
    Some(Arithmetic::Step(Box::new(Operation { operator, left, right, range: Span::of_type(kind)? })))
}

/// Values of one type as those of another one that has as many digits behind the point, or more.
fn scaled(of: Arithmetic, from: &DataType, to: &DataType) -> Option<Arithmetic> {
    let more = u32::try_from(point(to) - point(from)).ok()?;
    let range = Span::of_type(to)?;
    if more == 0 && Span::of_type(from).is_some_and(|from| range.holds(from)) {
        return Some(of);
    }
    let right = Arithmetic::Number(10_i128.checked_pow(more)?);
    Some(match of {
        Arithmetic::Number(number) => {
            let number = number.checked_mul(10_i128.checked_pow(more)?)?;
            let is_in = range.holds(Span { least: number, greatest: number });
            is_in.then_some(Arithmetic::Number(number))?
        }
        left => Arithmetic::Step(Box::new(Operation { operator: Step::Times, left, right, range })),
    })
}

/// Digits behind the point.
fn point(kind: &DataType) -> i32 {
    if let DataType::Decimal128(_, scale) = kind { i32::from(*scale) } else { 0 }
}

fn is_exact(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Decimal128(..))
}

fn number(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Decimal128(number, ..) => *number,
        value if value.data_type().is_integer() => match value.cast_to(&DataType::Decimal128(38, 0)).ok()? {
            ScalarValue::Decimal128(number, ..) => number,
            _ => None,
        },
        _ => None,
    }
}
